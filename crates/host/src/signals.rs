//! Writes that raise no signal in the program. Every write of the layer uses this module; a test searches the sources
//! for others.
//!
//! A write can raise SIGPIPE (no reader of the pipe or socket), SIGXFSZ (RLIMIT_FSIZE) and SIGTTOU (background process
//! of a terminal). docs/process.md says why they are blocked and taken back, and not ignored or avoided in another
//! way.
#![allow(unsafe_code, reason = "calls of the C library that its crates do not wrap")]

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd as _};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::SendFlags;

/// The signals that a write can raise.
const RAISED: [libc::c_int; 3] = [libc::SIGPIPE, libc::SIGXFSZ, libc::SIGTTOU];
/// The size of the kernel's signal set, in bytes.
const KERNEL_SET_BYTES: usize = 8;

/// Writes at most `bytes.len()` bytes. Says how many.
pub fn write(fd: impl AsFd, bytes: &[u8]) -> Result<usize, Errno> {
    quietly(|| rustix::io::write(fd, bytes))
}

/// [`write()`] into a stream that somebody may not read, such as the program's standard error: [`Errno::AGAIN`] if
/// there is no room now. The stream itself, which others share, is not changed.
pub fn write_if_ready(fd: impl AsFd, bytes: &[u8]) -> Result<usize, Errno> {
    match FileType::from_raw_mode(rustix::fs::fstat(&fd)?.st_mode) {
        FileType::Socket => {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            quietly(|| rustix::net::send(&fd, bytes, flags))
        }
        // A terminal that has room for a few bytes counts as ready, and waits for room for the rest.
        FileType::Fifo | FileType::CharacterDevice => {
            let path = format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd());
            let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
            match rustix::fs::open(path, flags, Mode::empty()) {
                Ok(own) => write(own, bytes),
                Err(busy @ (Errno::AGAIN | Errno::NXIO)) => Err(busy),
                // Of another user (su, sudo), or there is no /proc.
                Err(_) => write_if_room(&fd, bytes),
            }
        }
        _ => write(&fd, bytes),
    }
}

/// What a pipe takes at once if it takes anything (PIPE_BUF).
const ALWAYS_FITS: usize = 4096;

/// [`write()`] of as much as surely fits, if the stream takes something now. Others that write to it may be faster.
fn write_if_room(fd: impl AsFd, bytes: &[u8]) -> Result<usize, Errno> {
    let mut asked = libc::pollfd { fd: fd.as_fd().as_raw_fd(), events: libc::POLLOUT, revents: 0 };
    // SAFETY: `asked` is one pollfd on this stack, which poll reads and writes during the call.
    let count = unsafe { libc::poll(&mut asked, 1, 0) };
    if count != 1 || asked.revents & libc::POLLOUT == 0 {
        return Err(Errno::AGAIN);
    }
    write(fd, &bytes[..bytes.len().min(ALWAYS_FITS)])
}

/// [`write()`] at an offset.
pub fn pwrite(fd: impl AsFd, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
    quietly(|| rustix::io::pwrite(fd, bytes, offset))
}

/// Sets a file's length.
pub fn ftruncate(fd: impl AsFd, length: u64) -> Result<(), Errno> {
    quietly(|| rustix::fs::ftruncate(fd, length))
}

/// Runs code that may write, whose outcome is unknown here.
pub fn silenced(body: impl FnOnce()) {
    let Ok(held) = SignalBlock::hold() else { return };
    body();
    for signal in [libc::SIGPIPE, libc::SIGXFSZ] {
        // A signal that was pending before belongs to the program. Taken from the process, it would be put back to this
        // thread only.
        if !has(&held.pending, signal) {
            held.take_back(signal);
        }
    }
}

fn quietly<T>(write: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
    Quiet::begin()?.run(write)
}

/// Several writes of one thread, for which the signals are blocked once, until this is dropped.
pub struct Quiet {
    held: SignalBlock,
    /// The signals are those of the thread.
    _thread: PhantomData<*const ()>,
}

impl Quiet {
    /// Blocks the signals on this thread.
    pub fn begin() -> Result<Quiet, Errno> {
        Ok(Quiet { held: SignalBlock::hold()?, _thread: PhantomData })
    }

    /// [`pwrite()`].
    pub fn pwrite(&self, fd: impl AsFd, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
        self.run(|| rustix::io::pwrite(fd, bytes, offset))
    }

    fn run<T>(&self, write: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
        let done = write();
        match done {
            Err(Errno::PIPE) => self.held.take_back(libc::SIGPIPE),
            Err(Errno::FBIG) => self.held.take_back(libc::SIGXFSZ),
            // While SIGTTOU is blocked, the kernel lets the write through and raises nothing.
            _ => {}
        }
        done
    }
}

/// Blocks the signals of a write on this thread until it is dropped.
struct SignalBlock {
    /// The thread's mask before.
    mask: libc::sigset_t,
    /// Signals that the program had blocked and pending.
    pending: libc::sigset_t,
}

impl SignalBlock {
    fn hold() -> Result<SignalBlock, Errno> {
        let raised = set(&RAISED);
        let mut mask = set(&[]);
        // SAFETY: both sets are on this stack and initialised.
        let error = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raised, &mut mask) };
        if error != 0 {
            return Err(Errno::from_raw_os_error(error));
        }
        let mut held = SignalBlock { mask, pending: set(&[]) };
        // A signal that was not blocked cannot have been pending.
        if RAISED.iter().any(|&signal| has(&held.mask, signal)) {
            held.pending = pending();
        }
        Ok(held)
    }

    /// Takes back a signal that a write has raised. The kernel raises it on the writing thread, and returns what is
    /// pending on the thread before what is pending on the process.
    fn take_back(&self, signal: libc::c_int) {
        let only = set(&[signal]);
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        // Zeros are a valid timespec in every layout.
        let at_once = [0u64; 2];
        // SAFETY: the kernel reads a set of that size and a timespec, and fills the siginfo; all are on this stack. The
        // system call is made directly because sigtimedwait is a cancellation point, and a cancelled thread would
        // unwind from here.
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
        // The kernel drops a second signal that is pending on the same thread, so this one is the program's.
        // SAFETY: the kernel has just written the siginfo, and a process may queue any siginfo to itself.
        unsafe {
            let thread = libc::syscall(libc::SYS_gettid);
            libc::syscall(libc::SYS_rt_tgsigqueueinfo, libc::getpid(), thread, signal, info.as_ptr());
        }
    }
}

impl Drop for SignalBlock {
    fn drop(&mut self) {
        // SAFETY: `self.mask` is the mask that pthread_sigmask wrote when this value was made.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.mask, std::ptr::null_mut()) };
    }
}

fn set(signals: &[libc::c_int]) -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the set before it is read; the numbers are valid signals.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for &signal in signals {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        set.assume_init()
    }
}

fn has(set: &libc::sigset_t, signal: libc::c_int) -> bool {
    // SAFETY: `set` is a reference, so it points to an initialised set; sigismember only reads it.
    unsafe { libc::sigismember(set, signal) == 1 }
}

/// The blocked and pending signals of this thread and of the process.
fn pending() -> libc::sigset_t {
    let mut found = set(&[]);
    // SAFETY: the set is initialised and on this stack; if the call fails it stays empty.
    unsafe { libc::sigpending(&mut found) };
    found
}

unsafe extern "C" {
    fn pthread_setcancelstate(state: libc::c_int, before: *mut libc::c_int) -> libc::c_int;
}

/// PTHREAD_CANCEL_DISABLE of glibc and musl.
const CANCEL_DISABLE: libc::c_int = 1;

/// Keeps this thread from being cancelled (pthread_cancel) until it is dropped. A request then takes effect at the
/// program's next cancellation point.
pub struct Uncancelled {
    before: libc::c_int,
    /// The state is that of the thread.
    _thread: PhantomData<*const ()>,
}

impl Uncancelled {
    /// Disables cancellation.
    pub fn begin() -> Uncancelled {
        let mut before = 0;
        // SAFETY: PTHREAD_CANCEL_DISABLE is a state, and `before`, on this stack, has room for the previous one.
        unsafe { pthread_setcancelstate(CANCEL_DISABLE, &mut before) };
        Uncancelled { before, _thread: PhantomData }
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        let mut before = 0;
        // SAFETY: the state is the one that the call in `begin` returned. Deferred cancellation, the default, does not
        // act here.
        unsafe { pthread_setcancelstate(self.before, &mut before) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::fs;
    use std::os::fd::{FromRawFd as _, OwnedFd};
    use std::os::unix::net::UnixStream;
    use std::path::Path;

    /// A pipe or a socket without a reader.
    fn unread() -> [OwnedFd; 2] {
        [pipe()[1].try_clone().unwrap(), UnixStream::pair().unwrap().1.into()]
    }

    /// The end to read from and the end to write to.
    pub fn pipe() -> [OwnedFd; 2] {
        let mut ends = [0; 2];
        // SAFETY: the array has room for two descriptors, which this test owns.
        unsafe {
            assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0);
            ends.map(|fd| OwnedFd::from_raw_fd(fd))
        }
    }

    #[test]
    fn where_the_stream_cannot_be_opened_again_what_fits_is_written() {
        let [reader, writer] = pipe();
        let line = [b'x'; 2 * ALWAYS_FITS];
        assert_eq!(write_if_room(&writer, &line), Ok(ALWAYS_FITS));
        while write_if_room(&writer, &line).is_ok() {}
        assert_eq!(write_if_room(&writer, b"y").unwrap_err(), Errno::AGAIN, "it does not wait");
        let mut room = vec![0; 2 * ALWAYS_FITS];
        rustix::io::read(&reader, &mut room).unwrap();
        assert_eq!(write_if_room(&writer, b"y"), Ok(1));
        drop(reader);
        assert_eq!(write_if_room(&writer, b"y").unwrap_err(), Errno::PIPE);
        let [unwritable, _writer] = pipe();
        assert_eq!(write_if_room(&unwritable, b"y").unwrap_err(), Errno::AGAIN);
    }

    fn mask() -> libc::sigset_t {
        let mut mask = set(&[]);
        // SAFETY: `mask` is an initialised set on this stack, and with NULL for the new mask it is only filled in.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &mut mask) };
        mask
    }

    fn change(how: libc::c_int, signals: &[libc::c_int]) {
        // SAFETY: the set lives during the call, NULL asks for no previous mask, and only this test's thread is
        // changed.
        unsafe { libc::pthread_sigmask(how, &set(signals), std::ptr::null_mut()) };
    }

    /// Takes the pending signal. Returns its value, or None if it has none.
    fn take(signal: libc::c_int) -> Option<(i32, usize)> {
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: set, siginfo and timeout are on this stack; the kernel has filled the siginfo of a signal that was
        // taken.
        unsafe {
            let taken = libc::sigtimedwait(&set(&[signal]), info.as_mut_ptr(), &at_once);
            let info = info.assume_init();
            (taken == signal).then(|| (info.si_code, info.si_value().sival_ptr.addr()))
        }
    }

    #[test]
    fn a_write_that_nobody_reads_is_an_error_and_leaves_nothing_behind() {
        // SAFETY: both arguments are constants, and SIG_DFL calls no code of this process. Under it, the default of C
        // programs, the signal ends this test program.
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
        // SAFETY: `before` is the action that signal returned above, so it is valid for this process.
        unsafe { libc::signal(libc::SIGPIPE, before) };
    }

    #[test]
    fn what_the_program_has_pending_stays_pending_as_it_was() {
        change(libc::SIG_BLOCK, &RAISED);
        for fd in unread() {
            let value = libc::sigval { sival_ptr: std::ptr::without_provenance_mut(77) };
            // SAFETY: the calls take this thread's own handle and numbers; the thread blocks the signal.
            assert_eq!(unsafe { libc::pthread_sigqueue(libc::pthread_self(), libc::SIGPIPE, value) }, 0);
            assert_eq!(write(&fd, b"text"), Err(Errno::PIPE));
            assert_eq!(take(libc::SIGPIPE), Some((libc::SI_QUEUE, 77)));
            assert_eq!(take(libc::SIGPIPE), None);
        }
    }

    #[test]
    fn what_the_process_has_pending_stays_the_processs_through_code_of_others() {
        // A child with one thread: of several, one that does not block the signal would get it.
        let judge = || {
            change(libc::SIG_BLOCK, &RAISED);
            // SAFETY: the calls take numbers alone, and SIG_DFL calls no code of this process.
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
        // SAFETY: the child allocates, which the C library allows, and exits at once.
        unsafe {
            match libc::fork() {
                0 => libc::_exit(judge()),
                child => assert_eq!(libc::waitpid(child, &mut status, 0), child),
            }
        }
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{status}");
    }

    /// Names of functions of the standard library and of crates that write elsewhere.
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
        // A descriptor that is kept may become the program's: `descriptor`.
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
        for folder in ["src", "crates/sessions/src", "crates/store/src"] {
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
                let line = ["disk::ftruncate(", "ops::ftruncate(", "fn ftruncate("]
                    .iter()
                    .fold(line, |line, ours| line.replace(ours, ""));
                for way in OTHER_WAYS {
                    assert!(!line.contains(way), "{}: {line}", path.display());
                }
            }
        }
    }
}
