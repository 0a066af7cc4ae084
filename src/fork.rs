//! Which process this is. A forked child has its parent's memory and none of its threads: what they held stays
//! locked, and what they were about to write is the parent's to write.

use std::ptr::{NonNull, null_mut};
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// How often this process, or one before it, was seen to be forked.
static FORKS: AtomicU32 = AtomicU32::new(0);
/// A word that the kernel sets to 0 in every forked child, also in those of `clone` and `_Fork`, which run no
/// handlers. Null where the kernel cannot do that.
static WIPED: AtomicPtr<AtomicU32> = AtomicPtr::new(null_mut());

extern "C" fn after_fork_in_child() {
    FORKS.fetch_add(1, Ordering::Release);
}

/// Sees to it that forks are noticed from now on, without a system call in [`now`].
fn watch() {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        if let Some(word) = wiped_word() {
            // SAFETY: mapped for good, zeroed, and aligned to a page.
            unsafe { word.as_ref() }.store(1, Ordering::Release);
            WIPED.store(word.as_ptr(), Ordering::Release);
        }
        // SAFETY: the handler only changes an atomic, which is safe in the child of a threaded process, and
        // it lives as long as the library, which is never unloaded (linked `-z nodelete`).
        unsafe { libc::pthread_atfork(None, None, Some(after_fork_in_child)) };
    });
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
    let word = WIPED.load(Ordering::Acquire);
    // SAFETY: never unmapped once it is set.
    if let Some(word) = unsafe { word.as_ref() } {
        // Two threads of a child may both count, before anything was made under either number.
        if word.load(Ordering::Acquire) == 0 {
            FORKS.fetch_add(1, Ordering::Release);
            word.store(1, Ordering::Release);
        }
    }
    FORKS.load(Ordering::Acquire)
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

impl<T: Default + Send + Sync> PerProcess<T> {
    /// Not made yet.
    pub const fn new() -> PerProcess<T> {
        PerProcess(AtomicPtr::new(null_mut()))
    }

    /// This process's, if it has one.
    pub fn known(&self) -> Option<&T> {
        // SAFETY: null, or what `get` leaked.
        let owned = unsafe { self.0.load(Ordering::Acquire).as_ref() };
        owned.filter(|owned| owned.process == now()).map(|owned| &owned.value)
    }

    /// This process's, made now if it has none.
    pub fn get(&self) -> &T {
        let process = here();
        loop {
            if let Some(known) = self.known() {
                return known;
            }
            let before = self.0.load(Ordering::Acquire);
            // SAFETY: null, or what was leaked below.
            if unsafe { before.as_ref() }.is_some_and(|owned| owned.process == process) {
                continue;
            }
            let new = Box::into_raw(Box::new(Owned { process, value: T::default() }));
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

    static COUNTED: PerProcess<AtomicU32> = PerProcess::new();

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
}
