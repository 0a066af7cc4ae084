//! The end of the program that prewarm was started by.

use std::time::{Duration, Instant};

/// Waits until the process has ended. False: it goes on after this time.
pub(crate) fn wait(pid: u32, limit: Option<Duration>) -> bool {
    // SAFETY: the system call takes two numbers, and gives a descriptor that nothing else uses.
    let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) } as libc::c_int;
    if descriptor < 0 {
        // The process has ended, or the kernel cannot tell.
        return true;
    }
    let began = Instant::now();
    loop {
        let left = limit.map(|limit| limit.saturating_sub(began.elapsed()));
        let left_ms = left.map_or(-1, |left| i32::try_from(left.as_millis()).unwrap_or(i32::MAX));
        let mut poll = libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
        // SAFETY: `poll` is one pollfd on this stack, which the call reads and writes.
        match unsafe { libc::poll(&mut poll, 1, left_ms) } {
            0 if left_ms >= 0 => return false,
            1.. => return true,
            _ => {}
        }
    }
}
