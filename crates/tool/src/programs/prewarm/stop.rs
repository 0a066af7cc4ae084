//! Work that ends before it is done: a signal, the end of the program that it is done for, the start of one that needs
//! the processors.

use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use libc::{SIGHUP, SIGINT, SIGTERM, c_int};

/// Signals that ask a program to end.
pub(crate) const ENDING: [c_int; 3] = [SIGHUP, SIGINT, SIGTERM];

/// What a process needs to end its workers and to note what they have done.
const A_MOMENT: Duration = Duration::from_secs(1);

/// The first of them that came.
static SIGNAL: AtomicI32 = AtomicI32::new(0);

/// Why work ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Reason {
    #[error("it was asked to end")]
    Signal,
    #[error("the program has ended")]
    ProgramEnded,
    #[error("a program with the layer runs")]
    ProgramRuns,
    #[error("the machine runs on battery")]
    OnBattery,
    #[error("the time is over")]
    TimeOver,
    #[error("the disk is nearly full")]
    DiskFull,
    #[error("the settings switch it off")]
    SwitchedOff,
}

/// Told by one thread, asked by others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop(Arc<Mutex<Option<Reason>>>);

impl Stop {
    /// The first reason counts.
    pub(crate) fn ask(&self, reason: Reason) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(reason);
    }

    /// [`Stop::ask`], and the end of this process if it has not ended by itself a moment later.
    pub(crate) fn end_soon(&self, reason: Reason) -> ! {
        self.ask(reason);
        std::thread::sleep(A_MOMENT);
        std::process::exit(0)
    }

    /// None: work goes on.
    pub(crate) fn reason(&self) -> Option<Reason> {
        let told = || *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        signal().map(|_| Reason::Signal).or_else(told)
    }
}

/// The signal that has asked this process to end.
pub(crate) fn signal() -> Option<c_int> {
    Some(SIGNAL.load(Ordering::Relaxed)).filter(|&signal| signal != 0)
}

/// From now on these signals are noted instead of ending this process, unless whoever started it ignores them. Workers
/// get the default again when they are executed.
pub(crate) fn note_signals() {
    extern "C" fn note(signal: c_int) {
        let _ = SIGNAL.compare_exchange(0, signal, Ordering::Relaxed, Ordering::Relaxed);
    }
    for signal in ENDING {
        // SAFETY: the handler makes one atomic operation. All zeros is a valid sigaction, and the numbers are those of
        // signals that may be handled.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(signal, std::ptr::null(), &mut action) == 0
                && action.sa_sigaction != libc::SIG_IGN
            {
                action.sa_sigaction = note as extern "C" fn(c_int) as libc::sighandler_t;
                action.sa_flags = libc::SA_RESTART;
                libc::sigaction(signal, &action, std::ptr::null_mut());
            }
        }
    }
}

/// From now on the end of standard input is as good as a signal.
pub(crate) fn end_with_input() {
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        let _ = SIGNAL.compare_exchange(0, SIGTERM, Ordering::Relaxed, Ordering::Relaxed);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_counts() {
        let stop = Stop::default();
        assert_eq!(stop.reason(), None);
        let other = stop.clone();
        other.ask(Reason::ProgramRuns);
        other.ask(Reason::OnBattery);
        assert_eq!(stop.reason(), Some(Reason::ProgramRuns));
    }
}
