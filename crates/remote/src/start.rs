//! State in which this process was started, recorded before `main`: Rust's runtime then opens /dev/null in place of
//! closed standard streams. SIGXFSZ is ignored from here on, so that a size limit makes a write fail and a line says
//! so.

use std::sync::atomic::{AtomicBool, Ordering};

static OUTPUT_WAS_CLOSED: AtomicBool = AtomicBool::new(false);

// Declared as the crate ctor would declare it, with the contract beside it.
// SAFETY: .init_array holds pointers to functions that return and need no argument (System V ABI, "Initialization and
// Termination Functions"); they run before `main`. `record` makes two system calls and stores to an atomic.
#[used]
#[unsafe(link_section = ".init_array")]
static RECORD: extern "C" fn() = record;

extern "C" fn record() {
    // SAFETY: F_GETFD takes no argument, and any number may be asked for.
    let is_open = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) } != -1;
    OUTPUT_WAS_CLOSED.store(!is_open, Ordering::Relaxed);
    // SAFETY: both arguments are constants, and SIG_IGN is no handler.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Whether standard output was closed.
pub(crate) fn output_was_closed() -> bool {
    OUTPUT_WAS_CLOSED.load(Ordering::Relaxed)
}
