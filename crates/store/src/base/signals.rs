//! Writes that raise no signal in the program. Every write of the layer goes through here; a test sees to it.
//!
//! A write can raise SIGPIPE (nobody reads the pipe or the socket), SIGXFSZ (RLIMIT_FSIZE) and SIGTTOU (a terminal's
//! background). docs/architecture.md says why they are blocked and taken back, and not ignored or avoided otherwise.
#![allow(unsafe_code, reason = "calls of the C library that its crates do not wrap")]

use std::mem::MaybeUninit;
use std::os::fd::AsFd;

use rustix::io::Errno;

/// What a write can raise.
const RAISED: [libc::c_int; 3] = [libc::SIGPIPE, libc::SIGXFSZ, libc::SIGTTOU];
/// The size of the kernel's signal set, in bytes.
const KERNEL_SET_BYTES: usize = 8;

/// Writes at most `bytes.len()` bytes. Says how many.
pub fn write(fd: impl AsFd, bytes: &[u8]) -> Result<usize, Errno> {
    quietly(|| rustix::io::write(fd, bytes))
}

/// The same at an offset.
pub fn pwrite(fd: impl AsFd, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
    quietly(|| rustix::io::pwrite(fd, bytes, offset))
}

/// Sets a file's length.
pub fn ftruncate(fd: impl AsFd, length: u64) -> Result<(), Errno> {
    quietly(|| rustix::fs::ftruncate(fd, length))
}

/// Runs code of others that may write, and tells nobody how it went.
pub fn silenced(body: impl FnOnce()) {
    let Ok(held) = Held::hold() else { return };
    body();
    for signal in [libc::SIGPIPE, libc::SIGXFSZ] {
        // One that was pending before is the program's: taken from the process it would go back to this thread alone.
        if !has(&held.pending, signal) {
            held.take_back(signal);
        }
    }
}

fn quietly<T>(write: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
    let held = Held::hold()?;
    let done = write();
    match done {
        Err(Errno::PIPE) => held.take_back(libc::SIGPIPE),
        Err(Errno::FBIG) => held.take_back(libc::SIGXFSZ),
        // While SIGTTOU is blocked the write goes through and none is raised.
        _ => {}
    }
    done
}

/// The signals of a write, blocked on this thread until this is dropped.
struct Held {
    /// The thread's mask before.
    mask: libc::sigset_t,
    /// What the program had pending and blocked.
    pending: libc::sigset_t,
}

impl Held {
    fn hold() -> Result<Held, Errno> {
        let raised = set(&RAISED);
        let mut mask = set(&[]);
        // SAFETY: both sets live on this stack and are initialised.
        let error = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raised, &mut mask) };
        if error != 0 {
            return Err(Errno::from_raw_os_error(error));
        }
        let mut held = Held { mask, pending: set(&[]) };
        // What was not blocked cannot have been pending.
        if RAISED.iter().any(|&signal| has(&held.mask, signal)) {
            held.pending = pending();
        }
        Ok(held)
    }

    /// Takes back what a write has raised on this thread. The kernel raises it on the thread that writes, and hands out
    /// what is pending on the thread before what is pending on the process.
    fn take_back(&self, signal: libc::c_int) {
        let only = set(&[signal]);
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        // Zero in any layout of a timespec.
        let at_once = [0u64; 2];
        // SAFETY: the kernel reads a set of that size and a timespec and fills the siginfo, all on this stack. It is the
        // bare system call because sigtimedwait is a cancellation point, and a cancelled thread would unwind from here.
        let taken = unsafe {
            libc::syscall(
                libc::SYS_rt_sigtimedwait,
                &raw const only,
                info.as_mut_ptr(),
                at_once.as_ptr(),
                KERNEL_SET_BYTES,
            )
        };
        if taken != libc::c_long::from(signal) || !has(&self.pending, signal) || has(&pending(), signal) {
            return;
        }
        // A second one that comes to the same thread is dropped by the kernel, so this is the program's own.
        // SAFETY: the siginfo is the one that the kernel has just written; a process may queue any to itself.
        unsafe {
            let thread = libc::syscall(libc::SYS_gettid);
            libc::syscall(libc::SYS_rt_tgsigqueueinfo, libc::getpid(), thread, signal, info.as_ptr());
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: the mask is one that pthread_sigmask has written.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.mask, std::ptr::null_mut()) };
    }
}

fn set(signals: &[libc::c_int]) -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the set before anything else reads it; the numbers are valid signals.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for &signal in signals {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        set.assume_init()
    }
}

fn has(set: &libc::sigset_t, signal: libc::c_int) -> bool {
    // SAFETY: an initialised set and a valid signal.
    unsafe { libc::sigismember(set, signal) == 1 }
}

/// What is pending and blocked, on this thread and on the process.
fn pending() -> libc::sigset_t {
    let mut found = set(&[]);
    // SAFETY: an initialised set on this stack; where the call fails it stays empty.
    unsafe { libc::sigpending(&mut found) };
    found
}

unsafe extern "C" {
    fn pthread_setcancelstate(state: libc::c_int, before: *mut libc::c_int) -> libc::c_int;
}

/// PTHREAD_CANCEL_DISABLE of glibc and musl.
const CANCEL_DISABLE: libc::c_int = 1;

/// Until it is dropped, this thread is not cancelled (pthread_cancel): a request waits for the program's next
/// cancellation point.
pub struct Uncancelled(libc::c_int);

impl Uncancelled {
    /// From now on.
    pub fn begin() -> Uncancelled {
        let mut before = 0;
        // SAFETY: a valid state and a place for the one before; there is nothing else that it could fail for.
        unsafe { pthread_setcancelstate(CANCEL_DISABLE, &mut before) };
        Uncancelled(before)
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        let mut before = 0;
        // SAFETY: as above. Cancellation that is deferred, as by default, does not act here.
        unsafe { pthread_setcancelstate(self.0, &mut before) };
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    use std::fs;
    use std::os::fd::{FromRawFd as _, OwnedFd};
    use std::os::unix::net::UnixStream;
    use std::path::Path;

    /// A pipe and a socket that nobody reads.
    fn unread() -> [OwnedFd; 2] {
        [pipe()[1].try_clone().unwrap(), UnixStream::pair().unwrap().1.into()]
    }

    /// The end to read from, and the one to write to.
    pub(crate) fn pipe() -> [OwnedFd; 2] {
        let mut ends = [0; 2];
        // SAFETY: room for two descriptors, which nobody else has.
        unsafe {
            assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0);
            ends.map(|fd| OwnedFd::from_raw_fd(fd))
        }
    }

    fn mask() -> libc::sigset_t {
        let mut mask = set(&[]);
        // SAFETY: asks for the mask, into an initialised set.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &mut mask) };
        mask
    }

    fn change(how: libc::c_int, signals: &[libc::c_int]) {
        // SAFETY: changes the mask of this test's thread.
        unsafe { libc::pthread_sigmask(how, &set(signals), std::ptr::null_mut()) };
    }

    /// Takes the signal that is pending. Says who sent it: a value, or None where it has none.
    fn take(signal: libc::c_int) -> Option<(i32, usize)> {
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: all three live here; the kernel has filled the siginfo of a signal that was taken.
        unsafe {
            let taken = libc::sigtimedwait(&set(&[signal]), info.as_mut_ptr(), &at_once);
            let info = info.assume_init();
            (taken == signal).then(|| (info.si_code, info.si_value().sival_ptr.addr()))
        }
    }

    #[test]
    fn a_write_that_nobody_reads_is_an_error_and_leaves_nothing_behind() {
        // SAFETY: as a C program has it; a signal would end this test program.
        let before = unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
        for blocked in [false, true] {
            change(if blocked { libc::SIG_BLOCK } else { libc::SIG_UNBLOCK }, &RAISED);
            for fd in unread() {
                assert_eq!(write(&fd, b"text"), Err(Errno::PIPE));
                silenced(|| assert_eq!(rustix::io::write(&fd, b"text"), Err(Errno::PIPE)));
                assert!(RAISED.iter().all(|&signal| !has(&pending(), signal)));
                assert!(RAISED.iter().all(|&signal| has(&mask(), signal) == blocked));
            }
        }
        // SAFETY: as it was.
        unsafe { libc::signal(libc::SIGPIPE, before) };
    }

    #[test]
    fn what_the_program_has_pending_stays_pending_as_it_was() {
        change(libc::SIG_BLOCK, &RAISED);
        for fd in unread() {
            let value = libc::sigval { sival_ptr: std::ptr::without_provenance_mut(77) };
            // SAFETY: this thread, which blocks the signal.
            assert_eq!(unsafe { libc::pthread_sigqueue(libc::pthread_self(), libc::SIGPIPE, value) }, 0);
            assert_eq!(write(&fd, b"text"), Err(Errno::PIPE));
            assert_eq!(take(libc::SIGPIPE), Some((libc::SI_QUEUE, 77)));
            assert_eq!(take(libc::SIGPIPE), None);
        }
    }

    #[test]
    fn what_the_process_has_pending_stays_the_processs_through_code_of_others() {
        // The only thread of a child: of several, one that does not block it would get it.
        let judge = || {
            change(libc::SIG_BLOCK, &RAISED);
            // SAFETY: plain calls of a process for itself.
            unsafe {
                libc::signal(libc::SIGPIPE, libc::SIG_DFL);
                libc::kill(libc::getpid(), libc::SIGPIPE);
            }
            silenced(|| ());
            let status = fs::read_to_string("/proc/self/status").unwrap();
            let set = |name: &str| {
                let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
                u64::from_str_radix(line.trim(), 16).unwrap()
            };
            let only = 1 << (libc::SIGPIPE - 1);
            i32::from((set("SigPnd:"), set("ShdPnd:")) != (0, only))
        };
        let mut status = 0;
        // SAFETY: the child allocates, which the C library allows it, and leaves at once.
        unsafe {
            match libc::fork() {
                0 => libc::_exit(judge()),
                child => assert_eq!(libc::waitpid(child, &mut status, 0), child),
            }
        }
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{status}");
    }

    /// Names of what writes elsewhere in the standard library and in the crates that the layer uses.
    const OTHER_WAYS: [&str; 22] = [
        "io::write(",
        "io::pwrite",
        "writev(",
        "libc::write",
        "libc::pwrite",
        "fs::write(",
        "ftruncate(",
        "fallocate",
        "copy_file_range",
        "sendfile",
        "splice(",
        "sendmsg",
        "File::create",
        "File::options",
        "OpenOptions",
        "io::stderr",
        "io::stdout",
        "eprint",
        "println!",
        "print!(",
        "dbg!",
        // Kept, it may become the program's: base::descriptor.
        "OwnedFd",
    ];

    fn sources(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            // The tool is a program of its own.
            if path.is_dir() && !matches!(name.as_str(), "tests" | "bin") {
                sources(&path, found);
            } else if name.ends_with(".rs")
                && !matches!(name.as_str(), "tests.rs" | "signals.rs" | "faults.rs" | "descriptor.rs")
            {
                found.push(path);
            }
        }
    }

    #[test]
    fn nothing_writes_but_through_here() {
        let mut found = Vec::new();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for folder in ["src", "crates/store/src"] {
            sources(&root.join(folder), &mut found);
        }
        assert!(found.len() > 80, "{}", found.len());
        for path in found {
            let text = fs::read_to_string(&path).unwrap();
            let code = text.split("mod tests {").next().unwrap();
            for line in code.lines().map(|line| line.split("//").next().unwrap()) {
                let line = line
                    .replace("stdio::stderr", "")
                    .replace("signals::pwrite", "")
                    .replace("signals::ftruncate(", "");
                let line = line.replace("disk::ftruncate(", "").replace("fn ftruncate(", "");
                for way in OTHER_WAYS {
                    assert!(!line.contains(way), "{}: {line}", path.display());
                }
            }
        }
    }
}
