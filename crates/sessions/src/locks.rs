//! Locks between processes: open file description locks on single bytes of the lock file. They end with the process.
#![allow(unsafe_code, reason = "a call of the C library that its crates do not wrap")]

use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use vkstash_host::descriptor::Descriptor;

use crate::patience::Patience;

/// What a byte of the lock file protects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Byte {
    /// Locked shared by each process that has the cache open.
    Open = 0,
    /// Locked while a process opens or closes the cache.
    Opening = 1,
    /// Locked while a process changes the files.
    Writing = 2,
}

/// A lock, or its end.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// With others.
    Shared,
    /// Alone.
    Exclusive,
    /// None.
    Free,
}

#[cfg(target_pointer_width = "64")]
const SYS_FCNTL: libc::c_long = libc::SYS_fcntl;
#[cfg(target_pointer_width = "32")]
const SYS_FCNTL: libc::c_long = libc::SYS_fcntl64;

/// Sets the lock of a byte. False: another process has one that excludes it.
pub(crate) fn set(file: &Descriptor, byte: Byte, kind: Kind) -> Result<bool, Errno> {
    apply(file.still()?, byte, kind)
}

fn apply(file: BorrowedFd<'_>, byte: Byte, kind: Kind) -> Result<bool, Errno> {
    // SAFETY: zeros are a valid value of this structure of numbers.
    let mut lock: libc::flock64 = unsafe { std::mem::zeroed() };
    let kind = match kind {
        Kind::Shared => libc::F_RDLCK,
        Kind::Exclusive => libc::F_WRLCK,
        Kind::Free => libc::F_UNLCK,
    };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = byte as i64;
    lock.l_len = 1;
    // The system call is made directly: C libraries of 32 bits differ in the structure that they expect here.
    // SAFETY: the descriptor is open, and the kernel only reads the structure, which has 64-bit offsets for this system
    // call in every architecture.
    let done = unsafe { libc::syscall(SYS_FCNTL, file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) };
    if done == 0 {
        return Ok(true);
    }
    match std::io::Error::last_os_error().raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::AGAIN | Errno::ACCESS) => Ok(false),
        Some(error) => Err(error),
        None => Err(Errno::IO),
    }
}

/// [`set`], again and again until the lock can be had or `patience` is over.
fn wait(file: &Descriptor, byte: Byte, kind: Kind, patience: Duration) -> Result<bool, Errno> {
    let mut began = None;
    let mut pause = Duration::from_micros(5);
    loop {
        if set(file, byte, kind)? {
            return Ok(true);
        }
        // The clock is not asked if the lock is free.
        if began.get_or_insert_with(Instant::now).elapsed() >= patience {
            return Ok(false);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(1));
    }
}

/// A lock that ends when this is dropped.
pub(crate) struct LockGuard<'a>(&'a Descriptor, Byte);

impl<'a> LockGuard<'a> {
    /// Waits for an exclusive lock. None: another process has it for too long.
    pub(crate) fn wait(
        file: &'a Descriptor,
        byte: Byte,
        patience: &Patience,
    ) -> Result<Option<LockGuard<'a>>, Errno> {
        let allowed = patience.now();
        let had = wait(file, byte, Kind::Exclusive, allowed)?;
        patience.note(allowed, had);
        Ok(had.then_some(LockGuard(file, byte)))
    }
}

impl Drop for LockGuard<'_> {
    fn drop(&mut self) {
        // If that fails, the lock ends with the descriptor. The descriptor was compared a few calls ago; if it is
        // another file by now, that has no such lock.
        let _ = apply(self.0.as_fd(), self.1, Kind::Free);
    }
}
