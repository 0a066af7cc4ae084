//! Forked children. A child has its parent's memory, but none of its threads: locks that they held stay locked, and
//! what they were about to write belongs to the parent.
#![allow(
    unsafe_code,
    reason = "a page that the kernel wipes in a forked child, and pointers to what belongs to one process"
)]

use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

/// The largest number that this process or an ancestor has taken.
static NUMBERS: AtomicU32 = AtomicU32::new(1);
/// A word with the number of this process. The kernel sets it to 0 in every forked child, also in children of `clone`
/// and `_Fork`, which run no handlers. Null if the kernel cannot do that.
static WIPED: AtomicPtr<AtomicU32> = AtomicPtr::new(null_mut());

extern "C" fn after_fork_in_child() {
    // SAFETY: `WIPED` is NULL or points into a page that is never unmapped once it is set.
    match unsafe { WIPED.load(Ordering::Acquire).as_ref() } {
        // An earlier handler may have called `now`, which took a number.
        Some(word) => number_in(word),
        None => NUMBERS.fetch_add(1, Ordering::AcqRel),
    };
}

/// Installs what `now` needs to notice forks without a system call. Waits for no other thread, which a forked child
/// might lack: if two threads do it at once, the second handler is harmless.
fn watch() {
    static WATCHED: AtomicBool = AtomicBool::new(false);
    if WATCHED.load(Ordering::Acquire) {
        return;
    }
    if let Some(word) = wiped_word() {
        // SAFETY: `word` is the start of the page that was just mapped: zeroed, aligned, and unmapped below only.
        unsafe { word.as_ref() }.store(NUMBERS.load(Ordering::Acquire), Ordering::Release);
        let set = WIPED.compare_exchange(null_mut(), word.as_ptr(), Ordering::AcqRel, Ordering::Acquire);
        if set.is_err() {
            // SAFETY: `word` is the page that was mapped above; it was not stored in `WIPED`, so no other thread knows
            // it.
            unsafe { libc::munmap(word.as_ptr().cast(), size_of::<AtomicU32>()) };
        }
    }
    // SAFETY: the handler only changes atomics, which is allowed in the child of a threaded process. The library with
    // its code is never unloaded (linked with `-z nodelete`).
    unsafe { libc::pthread_atfork(None, None, Some(after_fork_in_child)) };
    WATCHED.store(true, Ordering::Release);
}

/// The number in the word. If the kernel has cleared it, all threads agree on a new number, which is larger than all
/// earlier ones because it is in [`NUMBERS`] before it is in the word.
#[inline]
fn number_in(word: &AtomicU32) -> u32 {
    let known = word.load(Ordering::Acquire);
    if known != 0 {
        return known;
    }
    let new = NUMBERS.fetch_add(1, Ordering::AcqRel) + 1;
    match word.compare_exchange(0, new, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => new,
        Err(others) => others,
    }
}

/// A page of its own, because the kernel clears whole pages.
fn wiped_word() -> Option<NonNull<AtomicU32>> {
    let (size, access) = (size_of::<AtomicU32>(), libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: a new anonymous mapping; it is unmapped again, unused, if the advice is refused.
    unsafe {
        let page = libc::mmap(null_mut(), size, access, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0);
        if page == libc::MAP_FAILED {
            return None;
        }
        if libc::madvise(page, size, libc::MADV_WIPEONFORK) != 0 {
            libc::munmap(page, size);
            return None;
        }
        NonNull::new(page.cast())
    }
}

/// The number of this process, which differs in a forked child.
#[inline]
pub fn now() -> u32 {
    // SAFETY: `WIPED` is NULL or points into a page that is never unmapped once it is set.
    match unsafe { WIPED.load(Ordering::Acquire).as_ref() } {
        Some(word) => number_in(word),
        None => NUMBERS.load(Ordering::Acquire),
    }
}

/// [`now`], and forks are noticed from now on. For what must not be used in a forked child.
pub fn here() -> u32 {
    watch();
    now()
}

/// A static with a value for each process. A forked child starts with a new value, whatever its parent's threads did
/// with theirs; the parent's value is not touched.
pub struct PerProcess<T>(AtomicPtr<Owned<T>>);

struct Owned<T> {
    process: u32,
    value: T,
}

impl<T: Send + Sync> PerProcess<T> {
    /// Without a value.
    pub const fn empty() -> PerProcess<T> {
        PerProcess(AtomicPtr::new(null_mut()))
    }

    /// The value of this process, if it has one.
    pub fn known(&self) -> Option<&T> {
        // SAFETY: the pointer is NULL, or `get_or_make` made it of a box that is never freed.
        let owned = unsafe { self.0.load(Ordering::Acquire).as_ref() };
        owned.filter(|owned| owned.process == now()).map(|owned| &owned.value)
    }

    /// The value of this process, created now if it has none.
    pub fn get(&self) -> &T
    where
        T: Default,
    {
        self.get_or_make(|_| T::default())
    }

    /// The value of this process, created now if it has none, from that of an ancestor if there is one.
    pub fn get_or_make(&self, make: impl Fn(Option<&T>) -> T) -> &T {
        watch();
        loop {
            // Asked again each time: a signal handler may fork here, and its child continues in this loop.
            let process = now();
            let before = self.0.load(Ordering::Acquire);
            // SAFETY: `before` is NULL, or points to a box that was put there below and is never freed.
            let owned = unsafe { before.as_ref() };
            if let Some(owned) = owned.filter(|owned| owned.process == process) {
                return &owned.value;
            }
            let value = make(owned.map(|owned| &owned.value));
            let new = Box::into_raw(Box::new(Owned { process, value }));
            if self.0.compare_exchange(before, new, Ordering::AcqRel, Ordering::Acquire).is_err() {
                // SAFETY: `new` was made of a box above, and was not put in place, so no other thread knows it.
                drop(unsafe { Box::from_raw(new) });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static COUNTED: PerProcess<AtomicU32> = PerProcess::empty();

    fn exit_status(child: libc::pid_t) -> i32 {
        let mut status = 0;
        // SAFETY: the process is a child of this one, and the status is on this stack.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert!(libc::WIFEXITED(status), "{status}");
        libc::WEXITSTATUS(status)
    }

    /// What a child finds: 0 if it knows that it is one.
    fn judge(parent: u32) -> i32 {
        let new = now();
        let fresh = COUNTED.known().is_none() && COUNTED.get().load(Ordering::Relaxed) == 0;
        i32::from(new == parent || now() != new) + 2 * i32::from(!fresh)
    }

    #[test]
    fn a_child_knows_that_it_is_one_however_it_was_made() {
        COUNTED.get().store(7, Ordering::Relaxed);
        let parent = here();
        // SAFETY: the child allocates, which the C library allows, and exits at once.
        let forked = unsafe {
            match libc::fork() {
                0 => libc::_exit(judge(parent)),
                child => child,
            }
        };
        assert_eq!(exit_status(forked), 0);
        // SAFETY: without a stack of its own the child continues on a copy of this one; it exits at once.
        let cloned = unsafe {
            match libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) as libc::pid_t {
                0 => libc::_exit(judge(parent)),
                child => child,
            }
        };
        assert_eq!(exit_status(cloned), 0);
        assert_eq!((now(), COUNTED.get().load(Ordering::Relaxed)), (parent, 7));
    }

    #[test]
    fn a_child_has_its_number_before_its_threads_ask() {
        here();
        // SAFETY: `WIPED` is NULL or points into a page that is never unmapped once it is set.
        let Some(word) = (unsafe { WIPED.load(Ordering::Acquire).as_ref() }) else { return };
        // SAFETY: the child reads an atomic and exits at once.
        let child = unsafe {
            match libc::fork() {
                0 => libc::_exit(i32::from(word.load(Ordering::Acquire) == 0)),
                child => child,
            }
        };
        assert_eq!(exit_status(child), 0);
    }

    #[test]
    fn threads_of_a_child_agree_on_one_number() {
        let threads = 4;
        let barrier = std::sync::Barrier::new(threads);
        let mut last = here();
        for _ in 0..500 {
            let wiped = AtomicU32::new(0);
            let ask = || {
                barrier.wait();
                let first = number_in(&wiped);
                barrier.wait();
                [first, number_in(&wiped)]
            };
            let numbers: Vec<_> = std::thread::scope(|scope| {
                let asking: Vec<_> = (0..threads).map(|_| scope.spawn(ask)).collect();
                asking.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
            });
            assert!(numbers.iter().all(|number| *number == numbers[0] && *number > last), "{numbers:?}");
            last = numbers[0];
        }
    }

    #[test]
    fn what_a_child_has_may_be_made_of_its_parents() {
        static GROWN: PerProcess<u32> = PerProcess::empty();
        let grow = |parents: Option<&u32>| parents.map_or(1, |parents| parents + 1);
        assert_eq!(*GROWN.get_or_make(grow), 1);
        // SAFETY: the child allocates, which the C library allows, and exits at once.
        let child = unsafe {
            match libc::fork() {
                0 => libc::_exit(i32::from(*GROWN.get_or_make(grow) != 2 || *GROWN.get_or_make(grow) != 2)),
                child => child,
            }
        };
        assert_eq!(exit_status(child), 0);
        assert_eq!(*GROWN.get_or_make(grow), 1);
    }
}
