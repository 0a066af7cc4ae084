//! What one thread waits for while another one has it: the only locks of the library.
//!
//! A driver may call the program (allocators, debug messengers, device memory reports), which may hold a lock of its
//! own there, and wait for a thread that is in a call of the layer's. So nobody may be in a driver while another thread
//! can wait for it. Builds with debug assertions know what each thread has, and the test driver asks for it ([`held`])
//! in every command. What may be held there all the same is [`Listed`], with the reason in docs/process.md.
//!
//! A lock is called by what it protects, the type. Poison is ignored: what these locks protect is consistent at any
//! time.
#![allow(clippy::disallowed_types, reason = "the wrappers of these types")]

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::{PoisonError, TryLockError};
use std::time::Duration;

use self::names::Note;

/// A mutex whose holder may not be in a driver.
#[derive(Debug, Default)]
pub struct Mutex<T>(std::sync::Mutex<T>);

/// Held while the thread has what the mutex protects.
#[must_use]
pub struct MutexGuard<'a, T> {
    guard: std::sync::MutexGuard<'a, T>,
    held: Note,
}

impl<T> Mutex<T> {
    /// Nobody has it.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(std::sync::Mutex::new(value))
    }

    /// Waits until nobody has it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        MutexGuard { guard, held: Note::of::<T>() }
    }

    /// None: another thread has it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let guard = match self.0.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(MutexGuard { guard, held: Note::of::<T>() })
    }

    /// What it protects.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
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

/// A value that is set once. Threads wait for the one that makes it.
pub struct OnceLock<T>(std::sync::OnceLock<T>);

impl<T> OnceLock<T> {
    /// Without a value.
    pub const fn new() -> OnceLock<T> {
        OnceLock(std::sync::OnceLock::new())
    }

    /// The value.
    pub fn get(&self) -> Option<&T> {
        self.0.get()
    }

    /// Sets the value. An error has it back: there is one.
    pub fn set(&self, value: T) -> Result<(), T> {
        self.0.set(value)
    }

    /// The value, made now if there is none.
    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        self.0.get_or_init(|| {
            let _held = Note::of::<T>();
            make()
        })
    }
}

impl<T> From<T> for OnceLock<T> {
    fn from(value: T) -> OnceLock<T> {
        OnceLock(value.into())
    }
}

impl<T> Default for OnceLock<T> {
    fn default() -> OnceLock<T> {
        OnceLock::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for OnceLock<T> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(to)
    }
}

/// What other threads wait for although its holder is in a driver. docs/process.md says of each why that cannot meet
/// the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed {
    /// A place among the threads that a driver of one lock is entered by.
    Width,
    /// A worker behind the gate.
    Worker,
    /// The gate, closed for a call of the program's.
    ClosedGate,
    /// The whole of a cache's answer.
    WholeAnswer,
    /// A parked pipeline that a worker makes.
    ParkedPipeline,
    /// The companion of a cache, to which a thread adds.
    Companion,
}

impl Listed {
    /// All of them.
    pub const ALL: [Listed; 6] = [
        Listed::Width,
        Listed::Worker,
        Listed::ClosedGate,
        Listed::WholeAnswer,
        Listed::ParkedPipeline,
        Listed::Companion,
    ];
}

/// Held while other threads may wait for this one, which is in a driver.
#[must_use]
#[derive(Debug)]
pub struct HeldInDriver {
    _held: Note,
    /// It belongs to one thread, so it is not Send.
    _thread: PhantomData<*const ()>,
}

impl Listed {
    /// Its name in docs/process.md.
    pub fn name(self) -> &'static str {
        match self {
            Listed::Width => "Width",
            Listed::Worker => "Worker",
            Listed::ClosedGate => "ClosedGate",
            Listed::WholeAnswer => "WholeAnswer",
            Listed::ParkedPipeline => "ParkedPipeline",
            Listed::Companion => "Companion",
        }
    }

    /// Notes that this thread has it.
    pub fn hold(self) -> HeldInDriver {
        HeldInDriver { _held: Note::listed(self), _thread: PhantomData }
    }
}

/// What this thread has that another one can wait for, and that it may not have in a driver, or in a callback of the
/// program's. None in a build without debug assertions.
pub fn held(in_callback: bool) -> Option<&'static str> {
    names::held(in_callback)
}

/// A callback of the program's comes next.
///
/// # Panics
/// In a build with debug assertions, if another thread can wait for this one.
pub fn assert_free(callback: &str) {
    let held = held(true);
    debug_assert!(held.is_none(), "{callback} while {held:?} is held");
}

#[cfg(debug_assertions)]
mod names {
    use std::any::type_name;
    use std::cell::Cell;

    use super::Listed;

    /// More are not noted.
    const MOST: usize = 16;

    /// What a thread has; where it is listed, as what.
    type Place = Cell<Option<(&'static str, Option<Listed>)>>;

    thread_local! {
        // It needs no destructor: exit handlers take locks, too.
        static HELD: [Place; MOST] = const { [const { Cell::new(None) }; MOST] };
    }

    /// The place of a name on the thread that has it.
    #[derive(Debug)]
    pub struct Note(usize);

    impl Note {
        pub fn of<T>() -> Note {
            Note::noted(type_name::<T>(), None)
        }

        pub fn listed(what: Listed) -> Note {
            Note::noted(what.name(), Some(what))
        }

        fn noted(name: &'static str, listed: Option<Listed>) -> Note {
            HELD.with(|held| {
                let free = held.iter().position(|place| place.get().is_none());
                free.into_iter().for_each(|at| held[at].set(Some((name, listed))));
                Note(free.unwrap_or(MOST))
            })
        }
    }

    impl Drop for Note {
        fn drop(&mut self) {
            HELD.with(|held| held.get(self.0).into_iter().for_each(|place| place.set(None)));
        }
    }

    pub fn held(in_callback: bool) -> Option<&'static str> {
        let is_harmless = |listed| match listed {
            None => false,
            // Only where the driver does not call back.
            Some(Listed::Width) => !in_callback,
            Some(_) => true,
        };
        HELD.with(|held| {
            let mut all = held.iter().filter_map(Place::get);
            all.find(|&(_, listed)| !is_harmless(listed)).map(|(name, _)| name)
        })
    }
}

#[cfg(not(debug_assertions))]
mod names {
    use super::Listed;

    #[derive(Debug)]
    pub struct Note;

    impl Note {
        #[inline(always)]
        pub fn of<T>() -> Note {
            Note
        }

        #[inline(always)]
        pub fn listed(_: Listed) -> Note {
            Note
        }
    }

    #[inline(always)]
    pub fn held(_: bool) -> Option<&'static str> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let listed = Listed::Width.hold();
        assert_eq!((held(false), held(true)), (None, Some("Width")));
        drop(listed);
        let listed = Listed::Worker.hold();
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
