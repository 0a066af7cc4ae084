//! Which process this is. A forked child has its parent's memory and none of its threads: what they held stays
//! locked, and what they were about to write is the parent's to write.
#![allow(
    unsafe_code,
    reason = "a page that the kernel wipes in a forked child, and pointers to what belongs to one process"
)]

use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

/// The largest number that this process, or one before it, has taken.
static NUMBERS: AtomicU32 = AtomicU32::new(1);
/// A word with the number of this process. The kernel sets it to 0 in every forked child, also in those of `clone`
/// and `_Fork`, which run no handlers. Null where the kernel cannot do that.
static WIPED: AtomicPtr<AtomicU32> = AtomicPtr::new(null_mut());

extern "C" fn after_fork_in_child() {
    // SAFETY: never unmapped once it is set.
    match unsafe { WIPED.load(Ordering::Acquire).as_ref() } {
        // An earlier handler may have asked for the number: then it is the number.
        Some(word) => number_in(word),
        None => NUMBERS.fetch_add(1, Ordering::AcqRel),
    };
}

/// Sees to it that forks are noticed from now on, without a system call in [`now`]. Waits for no other thread, which a
/// forked child might not have: two may do it at once, and a second handler does no harm.
fn watch() {
    static WATCHED: AtomicBool = AtomicBool::new(false);
    if WATCHED.load(Ordering::Acquire) {
        return;
    }
    if let Some(word) = wiped_word() {
        // SAFETY: mapped, zeroed, and aligned to a page.
        unsafe { word.as_ref() }.store(NUMBERS.load(Ordering::Acquire), Ordering::Release);
        let set = WIPED.compare_exchange(null_mut(), word.as_ptr(), Ordering::AcqRel, Ordering::Acquire);
        if set.is_err() {
            // SAFETY: mapped above, and nobody else has seen it.
            unsafe { libc::munmap(word.as_ptr().cast(), size_of::<AtomicU32>()) };
        }
    }
    // SAFETY: the handler only changes atomics, which is safe in the child of a threaded process, and it lives
    // as long as the library, which is never unloaded (linked `-z nodelete`).
    unsafe { libc::pthread_atfork(None, None, Some(after_fork_in_child)) };
    WATCHED.store(true, Ordering::Release);
}

/// The number in the word. Where the kernel has wiped it, all threads agree on a new one: larger than every one before
/// it, because it is in [`NUMBERS`] before it can be in the word.
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

/// A page of its own, because the kernel wipes whole pages.
fn wiped_word() -> Option<NonNull<AtomicU32>> {
    let (size, access) = (size_of::<AtomicU32>(), libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: a new anonymous mapping, which is taken away again where the advice is refused.
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

/// The number of this process: another one in a forked child.
pub fn now() -> u32 {
    // SAFETY: never unmapped once it is set.
    match unsafe { WIPED.load(Ordering::Acquire).as_ref() } {
        Some(word) => number_in(word),
        None => NUMBERS.load(Ordering::Acquire),
    }
}

/// The number of this process, for what belongs to it and must know its children: forks are noticed from now on.
pub fn here() -> u32 {
    watch();
    now()
}

/// A static of which every process has its own. A forked child starts with a new one, whatever threads of its
/// parent were doing with theirs; the parent's is left as it is.
pub struct PerProcess<T>(AtomicPtr<Owned<T>>);

struct Owned<T> {
    process: u32,
    value: T,
}

impl<T: Send + Sync> PerProcess<T> {
    /// Not made yet.
    pub const fn empty() -> PerProcess<T> {
        PerProcess(AtomicPtr::new(null_mut()))
    }

    /// This process's, if it has one.
    pub fn known(&self) -> Option<&T> {
        // SAFETY: null, or what `get` leaked.
        let owned = unsafe { self.0.load(Ordering::Acquire).as_ref() };
        owned.filter(|owned| owned.process == now()).map(|owned| &owned.value)
    }

    /// This process's, made now if it has none.
    pub fn get(&self) -> &T
    where
        T: Default,
    {
        self.get_or_make(|_| T::default())
    }

    /// This process's, made now if it has none, of that of a process before it if there is one.
    pub fn get_or_make(&self, make: impl Fn(Option<&T>) -> T) -> &T {
        watch();
        loop {
            // Every time: a signal handler may fork here, and its child goes on in this loop.
            let process = now();
            let before = self.0.load(Ordering::Acquire);
            // SAFETY: null, or what was leaked below.
            let owned = unsafe { before.as_ref() };
            if let Some(owned) = owned.filter(|owned| owned.process == process) {
                return &owned.value;
            }
            let value = make(owned.map(|owned| &owned.value));
            let new = Box::into_raw(Box::new(Owned { process, value }));
            if self.0.compare_exchange(before, new, Ordering::AcqRel, Ordering::Acquire).is_err() {
                // SAFETY: made above, and nobody else has seen it.
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
        // SAFETY: a child of this process and a place for its status.
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
        // SAFETY: the child allocates, which the C library allows it, and leaves at once.
        let forked = unsafe {
            match libc::fork() {
                0 => libc::_exit(judge(parent)),
                child => child,
            }
        };
        assert_eq!(exit_status(forked), 0);
        // SAFETY: as above; without a stack of its own the child goes on with a copy of this one.
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
        // SAFETY: never unmapped once it is set.
        let Some(word) = (unsafe { WIPED.load(Ordering::Acquire).as_ref() }) else { return };
        // SAFETY: the child reads an atomic and leaves at once.
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
        // SAFETY: the child allocates, which the C library allows it, and leaves at once.
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
