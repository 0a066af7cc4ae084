//! Locks of single bytes of a file. They belong to the open file (F_OFD_SETLK, Linux 3.15), so they end with the last
//! process that has it open, and are nothing to locks of the whole file (flock) on file systems of this machine.
#![allow(unsafe_code, reason = "calls of the C library that its crates do not wrap")]

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

use rustix::io::Errno;

/// `struct flock` with 64-bit offsets, as the kernel has it for programs of every width.
#[repr(C)]
struct Region {
    kind: libc::c_short,
    whence: libc::c_short,
    start: i64,
    length: i64,
    process: i32,
}

/// fcntl with 64-bit offsets. Called directly, because what fcntl of a 32-bit C library takes depends on its version.
#[cfg(target_pointer_width = "32")]
const FCNTL: libc::c_long = libc::SYS_fcntl64;
#[cfg(target_pointer_width = "64")]
const FCNTL: libc::c_long = libc::SYS_fcntl;

fn fcntl(fd: BorrowedFd<'_>, command: libc::c_int, kind: libc::c_int, byte: u64) -> Result<Region, Errno> {
    let start = i64::try_from(byte).map_err(|_| Errno::OVERFLOW)?;
    let whence = libc::SEEK_SET as libc::c_short;
    let mut region = Region { kind: kind as libc::c_short, whence, start, length: 1, process: 0 };
    // SAFETY: the descriptor is open, and `region`, on this stack, is what these commands read and write.
    let done = unsafe { libc::syscall(FCNTL, fd.as_raw_fd(), command, &raw mut region) };
    if done == 0 {
        Ok(region)
    } else {
        Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
    }
}

/// Locks a byte, exclusively or shared. `AGAIN` or `ACCESS`: another open file has it.
pub(crate) fn try_lock(fd: BorrowedFd<'_>, byte: u64, exclusive: bool) -> Result<(), Errno> {
    let kind = if exclusive { libc::F_WRLCK } else { libc::F_RDLCK };
    fcntl(fd, libc::F_OFD_SETLK, kind as libc::c_int, byte).map(drop)
}

/// Unlocks a byte.
pub(crate) fn unlock(fd: BorrowedFd<'_>, byte: u64) -> Result<(), Errno> {
    fcntl(fd, libc::F_OFD_SETLK, libc::F_UNLCK as libc::c_int, byte).map(drop)
}

/// Whether another open file has a lock of that byte, of either kind.
pub(crate) fn others_have(fd: BorrowedFd<'_>, byte: u64) -> Result<bool, Errno> {
    let found = fcntl(fd, libc::F_OFD_GETLK, libc::F_WRLCK as libc::c_int, byte)?;
    Ok(found.kind != libc::F_UNLCK as libc::c_short)
}
