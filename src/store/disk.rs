//! Every file operation of the store, one function each. In tests any of them can be made to fail: [`faults`].
//! What changes a file's length or content raises no signal ([`crate::signals`]).

use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use rustix::fs::{self, AtFlags, FlockOperation, Mode, OFlags, Stat, StatVfs, Timestamps};
use rustix::io::Errno;
use rustix::path::Arg;

use crate::{owner, signals};

#[cfg(test)]
pub(super) mod faults;

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Open,
    MakeFolder,
    List,
    Stat,
    Space,
    #[cfg(test)]
    Read,
    #[cfg(test)]
    Write,
    Truncate,
    Sync,
    Stamp,
    Lock,
    Rename,
    Remove,
}

/// The fault that a test wants here.
#[cfg(test)]
fn ask(op: Op) -> Result<(), Errno> {
    faults::next(op).map_or(Ok(()), |fault| Err(fault.error()))
}

#[cfg(not(test))]
#[inline(always)]
fn ask(_: Op) -> Result<(), Errno> {
    Ok(())
}

pub(super) fn open(path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    ask(Op::Open)?;
    fs::open(path, flags, Mode::empty())
}

pub(super) fn openat(folder: impl AsFd, name: impl Arg, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    ask(Op::Open)?;
    fs::openat(folder, name, flags, mode)
}

pub(super) fn mkdirat(folder: impl AsFd, name: &str, mode: Mode) -> Result<(), Errno> {
    ask(Op::MakeFolder)?;
    fs::mkdirat(folder, name, mode)
}

/// Makes a folder with its parents.
pub(super) fn make_folders(path: &Path, mode: u32) -> io::Result<()> {
    ask(Op::MakeFolder)?;
    std::fs::DirBuilder::new().recursive(true).mode(mode).create(path)
}

/// The names in a folder, in no order.
pub(super) fn list(folder: impl AsFd) -> Result<Vec<CString>, Errno> {
    list_until(folder, &|| false).map(|(names, _)| names)
}

/// The same, of a folder of any size: until `interrupted` says true. Whether these are all of them.
pub(super) fn list_until(
    folder: impl AsFd,
    interrupted: &dyn Fn() -> bool,
) -> Result<(Vec<CString>, bool), Errno> {
    ask(Op::List)?;
    let mut names = Vec::new();
    for entry in fs::Dir::read_from(folder)? {
        names.push(entry?.file_name().to_owned());
        if names.len() % 256 == 0 && interrupted() {
            return Ok((names, false));
        }
    }
    Ok((names, true))
}

/// Where the next byte stands that is not in a hole, at `offset` or behind it; `None` where the rest of the file is one.
/// A file system that keeps no account of holes has none.
pub(super) fn next_data(fd: impl AsFd, offset: u64) -> Option<u64> {
    match fs::seek(fd, fs::SeekFrom::Data(offset)) {
        Ok(data) => Some(data.max(offset)),
        Err(Errno::NXIO) => None,
        Err(_) => Some(offset),
    }
}

pub(super) fn fstat(fd: impl AsFd) -> Result<Stat, Errno> {
    ask(Op::Stat)?;
    fs::fstat(fd)
}

/// Of a link itself.
pub(super) fn statat(folder: impl AsFd, name: &str) -> Result<Stat, Errno> {
    ask(Op::Stat)?;
    fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
}

/// For a file that was just made in `folder`.
pub(super) fn hand_over(file: impl AsFd, folder: impl AsFd) -> io::Result<()> {
    ask(Op::Stat)?;
    owner::hand_over(file, folder)
}

pub(super) fn fstatvfs(fd: impl AsFd) -> Result<StatVfs, Errno> {
    ask(Op::Space)?;
    fs::fstatvfs(fd)
}

/// Reads at most `spare.len()` bytes into the start of `spare`. Says how many of them are initialised by it.
pub(super) fn pread(fd: impl AsFd, spare: &mut [MaybeUninit<u8>], offset: u64) -> Result<usize, Errno> {
    #[cfg(test)]
    let spare = match faults::next(Op::Read) {
        Some(faults::Fault::Short) => {
            let some = spare.len().div_ceil(2);
            &mut spare[..some]
        }
        Some(fault) => return Err(fault.error()),
        None => spare,
    };
    rustix::io::pread(fd, spare, offset).map(|(read, _)| read.len())
}

/// Writes at most `bytes.len()` bytes. Says how many.
pub(super) fn pwrite(fd: impl AsFd, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
    #[cfg(test)]
    match faults::next(Op::Write) {
        Some(faults::Fault::Short) => {
            return signals::pwrite(fd, &bytes[..bytes.len().div_ceil(2)], offset);
        }
        Some(fault @ faults::Fault::Torn(part, _)) => {
            signals::pwrite(fd, &bytes[..bytes.len() * usize::from(part) / 256], offset)?;
            return Err(fault.error());
        }
        Some(fault) => return Err(fault.error()),
        None => {}
    }
    signals::pwrite(fd, bytes, offset)
}

pub(super) fn ftruncate(fd: impl AsFd, length: u64) -> Result<(), Errno> {
    ask(Op::Truncate)?;
    signals::ftruncate(fd, length)
}

pub(super) fn fdatasync(fd: impl AsFd) -> Result<(), Errno> {
    ask(Op::Sync)?;
    fs::fdatasync(fd)
}

pub(super) fn futimens(fd: impl AsFd, stamps: &Timestamps) -> Result<(), Errno> {
    ask(Op::Stamp)?;
    fs::futimens(fd, stamps)
}

/// Takes the lock of a file for this descriptor alone, or says at once that another has it (`WOULDBLOCK`).
pub(super) fn try_lock(fd: impl AsFd) -> Result<(), Errno> {
    ask(Op::Lock)?;
    fs::flock(fd, FlockOperation::NonBlockingLockExclusive)
}

/// Takes a lock that others may have too, but nobody for himself alone; or says at once that somebody has.
pub(super) fn try_lock_shared(fd: impl AsFd) -> Result<(), Errno> {
    ask(Op::Lock)?;
    fs::flock(fd, FlockOperation::NonBlockingLockShared)
}

pub(super) fn unlock(fd: impl AsFd) -> Result<(), Errno> {
    ask(Op::Lock)?;
    fs::flock(fd, FlockOperation::Unlock)
}

/// Within one folder; in place of a file of the new name.
pub(super) fn renameat(folder: impl AsFd, from: &str, to: &str) -> Result<(), Errno> {
    ask(Op::Rename)?;
    let folder = folder.as_fd();
    fs::renameat(folder, from, folder, to)
}

pub(super) fn unlinkat(folder: impl AsFd, name: &str, flags: AtFlags) -> Result<(), Errno> {
    ask(Op::Remove)?;
    fs::unlinkat(folder, name, flags)
}
