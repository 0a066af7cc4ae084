//! Signals that would end this process are held back while something must be put in order first.

use std::mem::MaybeUninit;
use std::ptr::null_mut;

use libc::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, c_int, sigset_t};

/// The signals by which a person or the system ends a program, and which can be blocked.
const ENDING: [c_int; 4] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];

/// Blocks those signals until this is dropped: then those that have come end the process.
pub(crate) struct PendingSignals {
    before: sigset_t,
}

impl PendingSignals {
    pub(crate) fn block() -> PendingSignals {
        let (mut blocked, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        // SAFETY: sigemptyset initialises the first set, and pthread_sigmask, which cannot fail with these arguments,
        // the second; both are on this stack.
        unsafe {
            libc::sigemptyset(blocked.as_mut_ptr());
            for signal in ENDING {
                libc::sigaddset(blocked.as_mut_ptr(), signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, blocked.as_ptr(), before.as_mut_ptr());
            PendingSignals { before: before.assume_init() }
        }
    }

    /// Whether one of them has come.
    pub(crate) fn have_come(&self) -> bool {
        let mut pending = MaybeUninit::uninit();
        // SAFETY: sigpending initialises the set where it succeeds, and only then it is read; the numbers are valid.
        unsafe {
            libc::sigpending(pending.as_mut_ptr()) == 0
                && ENDING.iter().any(|&signal| libc::sigismember(pending.as_ptr(), signal) == 1)
        }
    }
}

impl Drop for PendingSignals {
    fn drop(&mut self) {
        // SAFETY: `before` is the mask that this thread had.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, null_mut()) };
    }
}
