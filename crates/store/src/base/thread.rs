//! Starting threads, on which no signal handler of the program ever runs.
#![allow(unsafe_code, reason = "calls of the C library that its crates do not wrap")]

use std::thread::JoinHandle;
use std::time::Duration;

use crate::base::descriptor::read_system_file;

/// Stack for the thread, and for the static thread-local storage of all libraries in the process.
const STACK_BYTES: usize = 1 << 20;
/// Nice value of a thread for which nobody waits.
const NICE: i32 = 10;
/// Nice value of a thread that must not be felt, where the system refuses the policy SCHED_IDLE.
const LOWEST: i32 = 19;

/// Starts a thread with all signals blocked. `None`: the system refuses it.
pub fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Option<JoinHandle<()>> {
    let builder = std::thread::Builder::new().name(name.to_owned()).stack_size(STACK_BYTES);
    // SAFETY: the calls get valid pointers to signal sets on this stack. They change only the calling thread's mask,
    // which is restored before this function returns.
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

/// The lowest class of I/O priorities, shifted as the kernel wants it: served when nobody else uses the disk.
const IDLE_IO: libc::c_int = 3 << 13;
/// Priorities of one thread.
const WHO_THREAD: libc::c_int = 1;

/// Whether the main thread has ended (pthread_exit), so that the process lasts as long as its other threads.
pub fn main_has_ended() -> bool {
    let stat = read_system_file(c"/proc/self/stat").unwrap_or_default();
    // The state follows the name, which may hold anything.
    stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('Z'))
}

/// How long the calling thread has waited for a processor so far. None: the system does not say.
pub fn waited_for_processor() -> Option<Duration> {
    let times = read_system_file(c"/proc/thread-self/schedstat").ok()?;
    times.split_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}

/// Lowers the calling thread's priority and its I/O priority to the lowest.
///
/// The policy matters more than the nice value: a thread that wakes up takes the processor from one with SCHED_IDLE at
/// once, and a processor that runs only such threads counts as idle when others are placed or moved. One with the nice
/// value 19 may keep a waking thread waiting for a time slice, and keeps others from being moved to its processor.
pub fn be_in_background() {
    // SAFETY: the structure is on this stack, and SCHED_IDLE needs zeros in it; 0 is the calling thread. Every thread
    // may give up its priority, also a real-time one; a failure does not matter.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &std::mem::zeroed()) };
    lower_to(LOWEST);
    // SAFETY: the system call takes three numbers; 0 is the calling thread. A failure does not matter.
    unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_THREAD, 0, IDLE_IO) };
}

/// Lowers the priority of the calling thread.
pub(crate) fn be_nice() {
    lower_to(NICE);
}

fn lower_to(value: i32) {
    // On Linux, process 0 is the calling thread here.
    let nice = rustix::process::getpriority_process(None).unwrap_or(0);
    if nice < value {
        // A failure does not matter.
        let _ = rustix::process::setpriority_process(None, value);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Instant;

    use super::*;

    /// The policy of a new thread that goes to the background, after what it does before.
    fn policy_after(before: impl FnOnce() + Send + 'static) -> libc::c_int {
        let thread = std::thread::spawn(|| {
            before();
            be_in_background();
            // SAFETY: 0 is the calling thread.
            unsafe { libc::sched_getscheduler(0) }
        });
        thread.join().unwrap()
    }

    #[test]
    fn a_thread_in_the_background_waits_for_a_processor_that_computes() {
        let is_over = AtomicBool::new(false);
        let on_one_processor = || {
            // SAFETY: zeros are an empty set, on this stack; 0 is the calling thread.
            unsafe {
                let mut set: libc::cpu_set_t = std::mem::zeroed();
                libc::CPU_SET(0, &mut set);
                libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) == 0
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let is_on_one = on_one_processor();
                while is_on_one && !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            let waits = scope.spawn(|| {
                be_in_background();
                if !on_one_processor() || waited_for_processor().is_none() {
                    eprintln!("SKIPPED: processor 0 is not allowed, or the system has no statistics");
                    return true;
                }
                let began = Instant::now();
                while waited_for_processor().is_some_and(|waited| waited < Duration::from_millis(5)) {
                    if began.elapsed() > Duration::from_secs(100) {
                        return false;
                    }
                }
                true
            });
            let has_waited = waits.join().unwrap();
            is_over.store(true, Ordering::Relaxed);
            assert!(has_waited);
        });
    }

    #[test]
    fn a_thread_in_the_background_runs_where_nobody_else_wants_to() {
        assert_eq!(policy_after(|| {}), libc::SCHED_IDLE);
    }

    #[test]
    fn a_thread_of_a_real_time_program_goes_to_the_background() {
        let real_time = || {
            // SAFETY: a structure of numbers on this stack; 0 is the calling thread.
            unsafe {
                let mut first: libc::sched_param = std::mem::zeroed();
                first.sched_priority = 1;
                if libc::sched_setscheduler(0, libc::SCHED_FIFO, &first) != 0 {
                    eprintln!("SKIPPED: this user may not have real-time threads");
                }
            }
        };
        assert_eq!(policy_after(real_time), libc::SCHED_IDLE);
    }
}
