//! Makes this process transparent for signals: they go on to the child, and the child's death becomes its own.
//!
//! Signals are blocked and fetched one at a time, so that nothing runs in a signal handler, and their dispositions,
//! which the child inherits, do not change. The crate signal-hook installs handlers: a signal that the caller
//! ignores, as nohup does, would reach the child with its default action.

use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus};

use libc::{SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, c_int, sigset_t};

const FORWARDED: [c_int; 6] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];
/// Those of them that ask a program to end.
const ENDING: [c_int; 4] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];

/// How a child has ended.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    /// The first signal of [`ENDING`] that came before. The child may have heard it and ended in order.
    pub(crate) asked_by: Option<c_int>,
}

/// The signals that are blocked in this process, and what the child gets instead.
pub(crate) struct BlockedSignals {
    blocked: sigset_t,
    mask_before: sigset_t,
    /// Whether the caller ignores SIGCHLD. The child inherits that; this process cannot wait with it.
    child_ignored_before: bool,
}

impl BlockedSignals {
    /// Blocks the signals. Call it while the process has one thread.
    pub(crate) fn block() -> io::Result<BlockedSignals> {
        let mut blocked = MaybeUninit::uninit();
        let mut mask_before = MaybeUninit::uninit();
        // SAFETY: both sets are initialised by the calls (sigemptyset, sigprocmask) before they are read;
        // every signal number is valid, so only sigprocmask can fail, and that is checked.
        unsafe {
            libc::sigemptyset(blocked.as_mut_ptr());
            for signal in FORWARDED.into_iter().chain([SIGCHLD]) {
                libc::sigaddset(blocked.as_mut_ptr(), signal);
            }
            if libc::sigprocmask(libc::SIG_BLOCK, blocked.as_ptr(), mask_before.as_mut_ptr()) != 0 {
                return Err(io::Error::last_os_error());
            }
            let child_ignored_before = libc::signal(SIGCHLD, libc::SIG_DFL) == libc::SIG_IGN;
            Ok(BlockedSignals {
                blocked: blocked.assume_init(),
                mask_before: mask_before.assume_init(),
                child_ignored_before,
            })
        }
    }

    /// Lets `command` start with the signals as they were before `block`.
    pub(crate) fn restore_in(&self, command: &mut Command) {
        let (mask, child_ignored) = (self.mask_before, self.child_ignored_before);
        let restore = move || {
            // SAFETY: `mask` is a set that the kernel handed out, and both numbers are constants.
            let failed = unsafe {
                if child_ignored {
                    libc::signal(SIGCHLD, libc::SIG_IGN);
                }
                libc::sigprocmask(libc::SIG_SETMASK, &mask, std::ptr::null_mut()) != 0
            };
            if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
        };
        // SAFETY: the closure runs between fork and exec: signal and sigprocmask are async-signal-safe, and
        // nothing in it allocates.
        unsafe { command.pre_exec(restore) };
    }

    /// Waits for the child's end, and passes on the signals that arrive until then.
    pub(crate) fn wait(&self, child: &mut Child) -> io::Result<Ended> {
        let mut asked_by = None;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(Ended { status, asked_by });
            }
            let mut info = MaybeUninit::<libc::siginfo_t>::uninit();
            // SAFETY: the set is initialised and blocked; `info` is written where the call succeeds.
            let signal = unsafe { libc::sigwaitinfo(&self.blocked, info.as_mut_ptr()) };
            if signal < 0 || signal == SIGCHLD {
                // Interrupted by stop and continue, or the state of a child changed: try again.
                continue;
            }
            // SAFETY: the call succeeded, so it filled `info` in.
            let from_kernel = unsafe { info.assume_init() }.si_code == libc::SI_KERNEL;
            asked_by = asked_by.or(Some(signal).filter(|signal| ENDING.contains(signal)));
            // The terminal signals the whole foreground process group, so the child has this signal already; a second
            // one makes many programs give up at once. Of its own end the terminal tells the leader of the session
            // alone, by two signals of which the second one wakes who was stopped.
            let is_told_alone = signal == SIGHUP && leads_session();
            if !from_kernel || is_told_alone {
                forward(child, signal);
            }
            if from_kernel && is_told_alone {
                forward(child, SIGCONT);
            }
        }
    }
}

/// Whether this process leads its session.
pub(crate) fn leads_session() -> bool {
    // rustix takes 0 for impossible; it is the number of a leader outside this process's PID namespace.
    // SAFETY: both calls take and return plain numbers.
    unsafe { libc::getsid(0) == libc::getpid() }
}

fn forward(child: &Child, signal: c_int) {
    let Ok(pid) = libc::pid_t::try_from(child.id()) else { return };
    // SAFETY: kill takes plain numbers. The child has not been waited for, so its number is still its own.
    unsafe { libc::kill(pid, signal) };
}

/// Ends this process by `signal`, as the child ended. Returns only where the signal does not end a process.
pub(crate) fn end_by(signal: c_int) {
    // The child has written a core file; one of this process would only mislead.
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    let mut only = MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the set before it is used, and `signal` is a number that the kernel reported.
    // The default action calls no code of this process.
    unsafe {
        libc::sigemptyset(only.as_mut_ptr());
        libc::sigaddset(only.as_mut_ptr(), signal);
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
        libc::sigprocmask(libc::SIG_UNBLOCK, only.as_ptr(), std::ptr::null_mut());
    }
}
