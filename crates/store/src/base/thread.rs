//! Threads of our own: none of the program's signal handlers ever runs on them.
#![allow(unsafe_code, reason = "calls of the C library that its crates do not wrap")]

use std::thread::JoinHandle;

/// Room for us, and for the static thread-local storage of whatever the host has loaded.
const STACK_BYTES: usize = 1 << 20;
/// Nice value of what nobody waits for, where the host is not nicer already.
const NICE: i32 = 10;

/// Starts a thread with all signals blocked. `None`: the system refuses it.
pub fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Option<JoinHandle<()>> {
    let builder = std::thread::Builder::new().name(name.to_owned()).stack_size(STACK_BYTES);
    // SAFETY: the three calls get valid pointers to signal sets that live on this stack, and only change the
    // calling thread's mask, which is put back before this function returns.
    unsafe {
        let mut all = std::mem::zeroed();
        let mut before = std::mem::zeroed();
        libc::sigfillset(&mut all);
        let blocked = libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before) == 0;
        let handle = builder.spawn(body).ok();
        if blocked {
            libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        }
        handle
    }
}

/// The system's number of the calling thread.
pub(crate) fn number() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// Whether that thread of this process waits for something: a disk, a lock, or the like. True where that cannot be told.
pub(crate) fn is_waiting(number: i32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/self/task/{number}/stat")) else { return true };
    // The state follows the name, which may hold anything.
    !stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('R'))
}

/// Gets out of the way of the program's threads.
pub(crate) fn be_nice() {
    // On Linux "process" 0 is the calling thread.
    let nice = rustix::process::getpriority_process(None).unwrap_or(0);
    if nice < NICE {
        // Nothing depends on it.
        let _ = rustix::process::setpriority_process(None, NICE);
    }
}
