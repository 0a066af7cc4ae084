//! How this process was started, as far as Rust's runtime changes it before `main`: it ignores SIGPIPE, and opens
//! /dev/null in the place of standard streams that are closed.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::c_int;

const STREAMS: [c_int; 3] = [0, 1, 2];

static CLOSED: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];
static PIPE_IGNORED: AtomicBool = AtomicBool::new(false);

// SAFETY: .init_array holds pointers to functions that take nothing they need and return (System V ABI, "Initialization
// and Termination Functions"); they run before `main`. `look` uses two system calls and atomics, nothing of the runtime.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    for (stream, closed) in STREAMS.iter().zip(&CLOSED) {
        // SAFETY: F_GETFD takes no argument, and any number may be asked for.
        let is_open = unsafe { libc::fcntl(*stream, libc::F_GETFD) } != -1;
        closed.store(!is_open, Ordering::Relaxed);
    }
    // SAFETY: all zeros is a valid sigaction; with NULL for the new one the call only fills it in, and succeeds for SIGPIPE.
    let ignored = unsafe {
        let mut before: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGPIPE, std::ptr::null(), &mut before) == 0
            && before.sa_sigaction == libc::SIG_IGN
    };
    PIPE_IGNORED.store(ignored, Ordering::Relaxed);
}

/// Whether standard output was closed.
pub(crate) fn output_was_closed() -> bool {
    CLOSED[1].load(Ordering::Relaxed)
}

/// Lets `command` start with SIGPIPE and the standard streams as this process got them.
pub(crate) fn restore_in(command: &mut Command) {
    let ignored = PIPE_IGNORED.load(Ordering::Relaxed);
    let closed = CLOSED.each_ref().map(|closed| closed.load(Ordering::Relaxed));
    let restore = move || {
        // SAFETY: the numbers are constants. Rust's runtime has opened these streams; nothing else uses them here.
        unsafe {
            if ignored {
                libc::signal(libc::SIGPIPE, libc::SIG_IGN);
            }
            for (stream, _) in STREAMS.iter().zip(closed).filter(|(_, closed)| *closed) {
                libc::close(*stream);
            }
        }
        io::Result::Ok(())
    };
    // SAFETY: the closure runs between fork and exec, after the runtime has put SIGPIPE to its default: signal and close are
    // async-signal-safe, and nothing in it allocates.
    unsafe { command.pre_exec(restore) };
}
