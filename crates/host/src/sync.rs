//! The only locks of the library; `once` has what is made once. Builds with debug assertions know what each thread has
//! locked (`held`), and end a forked child that waits for a lock which its parent's threads have used.
//!
//! A lock is called by what it protects, the type. Poison is ignored: what these locks protect is consistent at any
//! time.
#![allow(clippy::disallowed_types, reason = "the wrappers of these types")]

use std::ops::{Deref, DerefMut};
use std::sync::{PoisonError, TryLockError};
use std::time::Duration;

use crate::held::{Note, Process};

/// A mutex whose holder may not be in a driver.
#[derive(Debug, Default)]
pub struct Mutex<T> {
    mutex: std::sync::Mutex<T>,
    users: Process,
}

/// Held while the thread has what the mutex protects.
#[must_use]
pub struct MutexGuard<'a, T> {
    guard: std::sync::MutexGuard<'a, T>,
    held: Note,
}

impl<T> Mutex<T> {
    /// Nobody has it.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex { mutex: std::sync::Mutex::new(value), users: Process::unknown() }
    }

    /// Waits until nobody has it.
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.users.check::<T>();
        let guard = self.mutex.lock().unwrap_or_else(PoisonError::into_inner);
        MutexGuard { guard, held: Note::of::<T>() }
    }

    /// None: another thread has it.
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let guard = match self.mutex.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(MutexGuard { guard, held: Note::of::<T>() })
    }

    /// What it protects.
    pub fn into_inner(self) -> T {
        self.mutex.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

/// Where threads wait for a change of what a mutex protects.
#[derive(Debug, Default)]
pub struct Condvar(std::sync::Condvar);

impl Condvar {
    /// Nobody waits.
    pub const fn new() -> Condvar {
        Condvar(std::sync::Condvar::new())
    }

    /// Gives the mutex up until it is told of a change.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        let MutexGuard { guard, held } = guard;
        let guard = self.0.wait(guard).unwrap_or_else(PoisonError::into_inner);
        MutexGuard { guard, held }
    }

    /// [`wait`](Condvar::wait), for so long at most.
    pub fn wait_timeout<'a, T>(&self, guard: MutexGuard<'a, T>, limit: Duration) -> MutexGuard<'a, T> {
        let MutexGuard { guard, held } = guard;
        let (guard, _) = self.0.wait_timeout(guard, limit).unwrap_or_else(PoisonError::into_inner);
        MutexGuard { guard, held }
    }

    /// [`wait`](Condvar::wait) while the condition holds, for so long at most.
    pub fn wait_timeout_while<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        limit: Duration,
        condition: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        let MutexGuard { guard, held } = guard;
        let waited = self.0.wait_timeout_while(guard, limit, condition);
        let (guard, _) = waited.unwrap_or_else(PoisonError::into_inner);
        MutexGuard { guard, held }
    }

    /// Tells one waiting thread of a change.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Tells all waiting threads of a change.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::held::{Listed, assert_free, held};
    use crate::once::OnceLock;

    struct First;
    struct Second;

    #[test]
    fn a_thread_knows_what_it_has() {
        let (first, second) = (Mutex::new(First), Mutex::new(Second));
        assert_eq!(held(false), None);
        let has_first = first.lock();
        let has_second = second.try_lock().unwrap();
        assert!(second.try_lock().is_none());
        assert!(held(true).is_some_and(|name| name.ends_with("First")));
        drop(has_first);
        assert!(held(true).is_some_and(|name| name.ends_with("Second")));
        assert_eq!(std::thread::spawn(|| held(false)).join().unwrap(), None);
        let has_second = Condvar::new().wait_timeout(has_second, Duration::ZERO);
        drop(has_second);
        assert_eq!(held(false), None);
        let listed = Listed { name: "Width", in_callbacks: false }.hold();
        assert_eq!((held(false), held(true)), (None, Some("Width")));
        drop(listed);
        let listed = Listed { name: "Worker", in_callbacks: true }.hold();
        assert_eq!((held(false), held(true)), (None, None));
        drop(listed);
        let made = OnceLock::new();
        assert!(made.get_or_init(|| held(true)).is_some());
        assert_eq!(held(false), None);
    }

    #[test]
    #[should_panic(expected = "allocator while Some")]
    fn a_callback_with_a_lock_is_a_fault() {
        let first = Mutex::new(First);
        let _held = first.lock();
        assert_free("allocator");
    }
}
