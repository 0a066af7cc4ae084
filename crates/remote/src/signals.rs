//! SIGINT and SIGTERM. A signal that this process inherited as ignored, from `nohup` for instance, stays ignored. Of
//! the others each one ends the process with a line and a status, at any time: at once where nothing has to be tidied
//! up, and otherwise through [`interrupted`], which lets the work stop at an await.

use std::future;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What is printed, also from a signal handler.
pub(crate) const INTERRUPTED: &str = "interrupted; what was there stays";
const LINE: &[u8] = b"vkstash-remote: interrupted; what was there stays\n";

/// The signals that [`Signals`] hear of now, a bit for each number.
static HEARD: AtomicU64 = AtomicU64::new(0);

const fn bit(number: libc::c_int) -> u64 {
    1 << number
}

/// From here on a signal ends the process as said above. For the beginning of `main`.
pub(crate) fn install() {
    for number in [libc::SIGINT, libc::SIGTERM] {
        if is_ignored(number) {
            continue;
        }
        let handler: extern "C" fn(libc::c_int) = end;
        // SAFETY: the handler has the type that the call expects, and makes only calls that handlers may make.
        unsafe { libc::signal(number, handler as libc::sighandler_t) };
    }
}

extern "C" fn end(number: libc::c_int) {
    if HEARD.load(Ordering::SeqCst) & bit(number) == 0 {
        // SAFETY: the buffer is a constant with that length; both calls may be made in a signal handler.
        unsafe {
            libc::write(libc::STDERR_FILENO, LINE.as_ptr().cast(), LINE.len());
            libc::_exit(128 + number);
        }
    }
}

fn is_ignored(number: libc::c_int) -> bool {
    // SAFETY: zeros are a valid sigaction: numbers, and pointers that may be NULL.
    let mut now: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: with NULL for the new action the call only fills in `now`, which is on this stack.
    let asked = unsafe { libc::sigaction(number, std::ptr::null(), &mut now) };
    asked == 0 && now.sa_sigaction == libc::SIG_IGN
}

/// Signals that are heard of until this is dropped.
pub(crate) struct Signals([(Option<Signal>, u8); 2]);

impl Signals {
    /// Within a runtime.
    pub(crate) fn heard() -> Signals {
        // Without a descriptor a signal ends the process at once.
        let heard =
            |kind: SignalKind| (!is_ignored(kind.as_raw_value())).then(|| signal(kind).ok()).flatten();
        let kinds = [(SignalKind::interrupt(), 130), (SignalKind::terminate(), 143)];
        let signals = Signals(kinds.map(|(kind, status)| (heard(kind), status)));
        let are_heard = signals.0.iter().zip(kinds).filter(|((signal, _), _)| signal.is_some());
        let mask = are_heard.fold(0, |mask, (_, (kind, _))| mask | bit(kind.as_raw_value()));
        HEARD.store(mask, Ordering::SeqCst);
        signals
    }

    /// The exit status after a signal: as shells tell that of a process that it has ended.
    pub(crate) async fn interrupted(&mut self) -> u8 {
        let [(interrupt, of_interrupt), (terminate, of_terminate)] = &mut self.0;
        tokio::select! {
            () = one(interrupt) => *of_interrupt,
            () = one(terminate) => *of_terminate,
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        HEARD.store(0, Ordering::SeqCst);
    }
}

async fn one(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => future::pending().await,
    }
}
