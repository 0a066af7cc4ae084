//! State in which this process was started, recorded before `main`: Rust's runtime then ignores SIGPIPE and opens
//! /dev/null in place of closed standard streams. SIGXFSZ is ignored from here on: a size limit makes a write fail.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::c_int;

const STREAMS: [c_int; 3] = [0, 1, 2];

static CLOSED: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];
/// Signals that a write can raise.
const RAISED: [c_int; 2] = [libc::SIGPIPE, libc::SIGXFSZ];
static IGNORED: [AtomicBool; 2] = [const { AtomicBool::new(false) }; 2];

// Declared as the crate ctor would declare it, with the contract beside it.
// SAFETY: .init_array holds pointers to functions that return and need no argument (System V ABI, "Initialization and
// Termination Functions"); they run before `main`. `record` makes three system calls and stores to atomics.
#[used]
#[unsafe(link_section = ".init_array")]
static RECORD: extern "C" fn() = record;

extern "C" fn record() {
    for (stream, closed) in STREAMS.iter().zip(&CLOSED) {
        // SAFETY: F_GETFD takes no argument, and any number may be asked for.
        let is_open = unsafe { libc::fcntl(*stream, libc::F_GETFD) } != -1;
        closed.store(!is_open, Ordering::Relaxed);
    }
    for (signal, ignored) in RAISED.iter().zip(&IGNORED) {
        // SAFETY: all zeros is a valid sigaction; with NULL for the new one the call only fills it in, and succeeds for
        // these numbers.
        let before = unsafe {
            let mut before: libc::sigaction = std::mem::zeroed();
            libc::sigaction(*signal, std::ptr::null(), &mut before) == 0
                && before.sa_sigaction == libc::SIG_IGN
        };
        ignored.store(before, Ordering::Relaxed);
    }
    // SAFETY: both arguments are constants, and SIG_IGN is no handler.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// The path of this tool.
pub(crate) fn executable() -> io::Result<PathBuf> {
    // Also after a package manager has replaced the file.
    let link = Path::new("/proc/self/exe");
    if link.exists() { Ok(link.to_owned()) } else { std::env::current_exe() }
}

/// Whether standard output was closed.
pub(crate) fn output_was_closed() -> bool {
    CLOSED[1].load(Ordering::Relaxed)
}

/// Lets `command` start with the SIGPIPE, SIGXFSZ and standard streams that this process was given.
pub(crate) fn restore_in(command: &mut Command) {
    let ignored = IGNORED.each_ref().map(|ignored| ignored.load(Ordering::Relaxed));
    let closed = CLOSED.each_ref().map(|closed| closed.load(Ordering::Relaxed));
    let restore = move || {
        // SAFETY: the numbers are constants. Rust's runtime opened these streams, and nothing else uses them in the
        // child.
        unsafe {
            for (signal, ignored) in RAISED.iter().zip(ignored) {
                libc::signal(*signal, if ignored { libc::SIG_IGN } else { libc::SIG_DFL });
            }
            for (stream, _) in STREAMS.iter().zip(closed).filter(|(_, closed)| *closed) {
                libc::close(*stream);
            }
        }
        io::Result::Ok(())
    };
    // SAFETY: the closure runs between fork and exec, after the runtime has reset SIGPIPE: signal and close are
    // async-signal-safe, and the closure does not allocate.
    unsafe { command.pre_exec(restore) };
}
