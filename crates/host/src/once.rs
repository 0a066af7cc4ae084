//! One-time initialization: one thread makes a value or does some work, and threads that need the result wait for it.
//!
//! A process may be forked in between. Its child has no thread that would finish, so it waits for nobody: it makes a
//! value itself ([`OnceLock`]), or does without the work ([`Once`]).
#![allow(unsafe_code, reason = "a value that is written by the thread which the state names")]

use std::cell::UnsafeCell;
use std::fmt;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::futex;

use crate::forks;
use crate::held::Note;

/// Nobody makes it.
const EMPTY: u32 = 0;
/// It is made.
const READY: u32 = !WAITED_FOR;
/// Beside the number of the process that makes it: a thread waits for that.
const WAITED_FOR: u32 = 1 << 31;

/// [`EMPTY`], [`READY`], or the process ([`forks::now`]) that makes it.
#[derive(Debug, Default)]
struct State(AtomicU32);

/// Whoever has this makes it. If it is dropped, the next one may.
struct Making<'a> {
    state: &'a State,
    /// A thread of an ancestor of this process was making it.
    is_taken_over: bool,
}

impl State {
    fn is_ready(&self) -> bool {
        self.0.load(Ordering::Acquire) == READY
    }

    /// None: it is made. Waits for a thread of this process that makes it.
    fn begin(&self) -> Option<Making<'_>> {
        loop {
            // Asked again each time: a signal handler may fork here, and its child continues in this loop.
            let here = forks::here();
            let state = self.0.load(Ordering::Acquire);
            if state == READY {
                return None;
            }
            if state & !WAITED_FOR == here {
                self.wait(here);
                continue;
            }
            let begun = self.0.compare_exchange(state, here, Ordering::Acquire, Ordering::Relaxed);
            if begun.is_ok() {
                return Some(Making { state: self, is_taken_over: state != EMPTY });
            }
        }
    }

    #[cold]
    fn wait(&self, here: u32) {
        let waited_for = here | WAITED_FOR;
        let noted = self.0.compare_exchange(here, waited_for, Ordering::Relaxed, Ordering::Relaxed);
        if noted.is_ok() || noted == Err(waited_for) {
            // A signal, or a change before the system looked: the caller looks again.
            let _ = futex::wait(&self.0, futex::Flags::PRIVATE, waited_for, None);
        }
    }

    fn end(&self, state: u32) {
        if self.0.swap(state, Ordering::Release) & WAITED_FOR != 0 {
            // An error: there is nobody to wake.
            let _ = futex::wake(&self.0, futex::Flags::PRIVATE, i32::MAX as u32);
        }
    }
}

impl Making<'_> {
    fn finish(self) {
        self.state.end(READY);
        std::mem::forget(self);
    }
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        self.state.end(EMPTY);
    }
}

/// Work that is done once in the life of a program.
#[derive(Debug, Default)]
pub struct Once(State);

impl Once {
    /// It was not done.
    pub const fn new() -> Once {
        Once(State(AtomicU32::new(EMPTY)))
    }

    /// Does it, unless it was done. A forked child does not do again what a thread of its parent was about to do: that
    /// thread may hold what the work needs.
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn run(&self, work: impl FnOnce()) {
        if self.0.is_ready() {
            return;
        }
        if let Some(making) = self.0.begin() {
            if !making.is_taken_over {
                let held = Note::of::<Once>();
                work();
                drop(held);
            }
            making.finish();
        }
    }
}

/// A value that is set once. A forked child makes its own, if a thread of its parent was about to.
pub struct OnceLock<T> {
    state: State,
    /// Written by the thread that makes it, and shared once the state is [`READY`].
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: one thread writes the value, the state is released after that, and from then on the value is shared. It may
// be dropped by another thread than the one that made it, so it must be Send.
unsafe impl<T: Send + Sync> Sync for OnceLock<T> {}
// SAFETY: the value moves with its owner.
unsafe impl<T: Send> Send for OnceLock<T> {}

impl<T> OnceLock<T> {
    /// Without a value.
    pub const fn new() -> OnceLock<T> {
        OnceLock { state: State(AtomicU32::new(EMPTY)), value: UnsafeCell::new(MaybeUninit::uninit()) }
    }

    /// The value.
    pub fn get(&self) -> Option<&T> {
        // SAFETY: the state is ready, so the value is written, and nobody writes it again.
        self.state.is_ready().then(|| unsafe { (*self.value.get()).assume_init_ref() })
    }

    /// Sets the value. An error has it back: there is one.
    pub fn set(&self, value: T) -> Result<(), T> {
        let Some(making) = self.state.begin() else { return Err(value) };
        self.write(making, value);
        Ok(())
    }

    /// The value, made now if there is none.
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        if let Some(value) = self.get() {
            return value;
        }
        if let Some(making) = self.state.begin() {
            let held = Note::of::<T>();
            let value = make();
            drop(held);
            self.write(making, value);
        }
        // SAFETY: `begin` found it made, or it was written here.
        unsafe { (*self.value.get()).assume_init_ref() }
    }

    fn write(&self, making: Making<'_>, value: T) {
        // SAFETY: this thread has `making`, so no other one writes, and the state is not ready, so none reads. What a
        // thread of the parent was writing at a fork is overwritten without being dropped.
        unsafe { (*self.value.get()).write(value) };
        making.finish();
    }
}

impl<T> Drop for OnceLock<T> {
    fn drop(&mut self) {
        if self.state.is_ready() {
            // SAFETY: the value is written, and this is the only reference to it.
            unsafe { self.value.get_mut().assume_init_drop() };
        }
    }
}

impl<T> From<T> for OnceLock<T> {
    fn from(value: T) -> OnceLock<T> {
        OnceLock { state: State(AtomicU32::new(READY)), value: UnsafeCell::new(MaybeUninit::new(value)) }
    }
}

impl<T> Default for OnceLock<T> {
    fn default() -> OnceLock<T> {
        OnceLock::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for OnceLock<T> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_tuple("OnceLock").field(&self.get()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::AtomicUsize;
    use std::sync::{Arc, Barrier, mpsc};
    use std::thread;

    use super::*;

    #[test]
    fn threads_that_need_it_at_once_have_the_same() {
        for _ in 0..200 {
            let (once, made, done) = (OnceLock::new(), AtomicUsize::new(0), Once::new());
            let has_started = Barrier::new(4);
            let get = || {
                has_started.wait();
                done.run(|| _ = made.fetch_add(1, Ordering::Relaxed));
                let value = *once.get_or_init(|| {
                    thread::yield_now();
                    made.fetch_add(1, Ordering::Relaxed)
                });
                (value, made.load(Ordering::Relaxed))
            };
            thread::scope(|scope| {
                let threads = [(); 4].map(|()| scope.spawn(get));
                for thread in threads {
                    assert_eq!(thread.join().unwrap(), (1, 2));
                }
            });
        }
    }

    #[test]
    fn a_value_that_could_not_be_made_is_made_by_the_next_one() {
        let once: OnceLock<Arc<u32>> = OnceLock::new();
        let fails = catch_unwind(AssertUnwindSafe(|| once.get_or_init(|| panic!("on purpose")).clone()));
        assert!(fails.is_err() && once.get().is_none());
        let value = Arc::new(7);
        assert_eq!((once.set(value.clone()), once.set(Arc::new(8))), (Ok(()), Err(Arc::new(8))));
        assert_eq!((format!("{once:?}"), Arc::strong_count(&value)), ("OnceLock(Some(7))".to_owned(), 2));
        drop(once);
        assert_eq!(Arc::strong_count(&value), 1);
        assert_eq!(*OnceLock::from(9).get_or_init(|| 10), 9);
    }

    /// Both stop in the middle, on a thread that the child does not have.
    #[test]
    fn a_child_waits_for_no_thread_of_its_parent() {
        let (value, work) = (OnceLock::new(), Once::new());
        let ((begun, begins), (end, ends)) = (mpsc::channel(), mpsc::channel::<()>());
        let status = thread::scope(|scope| {
            let make = move || {
                begun.send(()).unwrap();
                ends.recv().unwrap();
                1
            };
            scope.spawn(|| work.run(|| _ = value.get_or_init(make)));
            begins.recv().unwrap();
            // SAFETY: the child makes a value of its own, and exits at once.
            let child = unsafe {
                match libc::fork() {
                    0 => {
                        libc::alarm(60);
                        let mut has_worked = false;
                        work.run(|| has_worked = true);
                        libc::_exit(i32::from(has_worked || *value.get_or_init(|| 2) != 2))
                    }
                    child => child,
                }
            };
            let mut status = -1;
            // SAFETY: the process is a child of this one, and the status is on this stack.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            end.send(()).unwrap();
            status
        });
        assert_eq!((status, value.get()), (0, Some(&1)));
    }
}
