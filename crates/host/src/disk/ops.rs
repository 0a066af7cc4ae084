//! File operations, one function each. Tests can make each of them fail ([`faults`]). Operations that change a file's
//! length or content raise no signal ([`crate::signals`]). Operations that change anything check first that the
//! descriptor is still the file that was opened ([`crate::descriptor`]).

use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use rustix::fs::{self, AtFlags, FlockOperation, Mode, OFlags, Stat, StatVfs, Timestamps};
use rustix::io::Errno;
use rustix::path::Arg;

use crate::descriptor::Descriptor;
use crate::disk::faults::{self, Fault, Op, ask};
use crate::{owner, signals};

/// Opens a file to change it, or a folder to create something in it.
const CHANGING: OFlags = OFlags::WRONLY.union(OFlags::RDWR).union(OFlags::CREATE).union(OFlags::DIRECTORY);

/// Opens a file or a folder.
pub fn open(path: &Path, flags: OFlags) -> Result<Descriptor, Errno> {
    ask(Op::Open)?;
    Descriptor::new(fs::open(path, flags, Mode::empty())?)
}

/// Opens a file in a folder.
pub fn openat(
    folder: impl AsRef<Descriptor>,
    name: impl Arg,
    flags: OFlags,
    mode: Mode,
) -> Result<Descriptor, Errno> {
    ask(Op::Open)?;
    let folder = folder.as_ref();
    let folder = if flags.intersects(CHANGING) { folder.still()? } else { folder.as_fd() };
    Descriptor::new(fs::openat(folder, name, flags, mode)?)
}

/// Creates a folder in a folder.
pub fn mkdirat(folder: impl AsRef<Descriptor>, name: &str, mode: Mode) -> Result<(), Errno> {
    ask(Op::MakeFolder)?;
    fs::mkdirat(folder.as_ref().still()?, name, mode)
}

/// Creates a folder with its parents.
pub fn make_folders(path: &Path, mode: u32) -> io::Result<()> {
    ask(Op::MakeFolder)?;
    std::fs::DirBuilder::new().recursive(true).mode(mode).create(path)
}

/// Opens a folder to list it.
const LISTED: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// The names in a folder, in no order.
pub fn list(folder: impl AsFd) -> Result<Vec<CString>, Errno> {
    list_until(folder, &|| false).map(|(names, _)| names)
}

/// [`list`] until `interrupted` says true. The second value tells whether all names were read.
pub fn list_until(folder: impl AsFd, interrupted: &dyn Fn() -> bool) -> Result<(Vec<CString>, bool), Errno> {
    if interrupted() {
        return Ok((Vec::new(), false));
    }
    ask(Op::List)?;
    // Opened again, because the position belongs to the open file.
    let listed = Descriptor::new(fs::openat(folder, c".", LISTED, Mode::empty())?)?;
    let mut buffer = [MaybeUninit::uninit(); 8192];
    let mut entries = fs::RawDir::new(listed, &mut buffer);
    let mut names = Vec::new();
    while let Some(entry) = entries.next() {
        names.push(entry?.file_name().to_owned());
        if names.len() % 256 == 0 && interrupted() {
            return Ok((names, false));
        }
    }
    Ok((names, true))
}

/// The offset of the next byte that is not in a hole, from `offset` on. `None`: the rest of the file is a hole. Some
/// file systems report no holes.
pub fn next_data(fd: impl AsRef<Descriptor>, offset: u64) -> Option<u64> {
    // SEEK_DATA moves the file position, which may belong to a file of the program's by now.
    let Ok(fd) = fd.as_ref().still() else { return Some(offset) };
    match fs::seek(fd, fs::SeekFrom::Data(offset)) {
        Ok(data) => Some(data.max(offset)),
        Err(Errno::NXIO) => None,
        Err(_) => Some(offset),
    }
}

/// What the system knows of an open file.
pub fn fstat(fd: impl AsFd) -> Result<Stat, Errno> {
    ask(Op::Stat)?;
    fs::fstat(fd)
}

/// Does not follow a link.
pub fn statat(folder: impl AsFd, name: &str) -> Result<Stat, Errno> {
    ask(Op::Stat)?;
    fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
}

/// Gives a new file in `folder` to the folder's owner.
pub fn hand_over(file: impl AsRef<Descriptor>, folder: impl AsRef<Descriptor>) -> io::Result<()> {
    ask(Op::Stat)?;
    owner::hand_over(file.as_ref().still()?, folder.as_ref().still()?)
}

/// The space of a file system.
pub fn fstatvfs(fd: impl AsFd) -> Result<StatVfs, Errno> {
    ask(Op::Space)?;
    fs::fstatvfs(fd)
}

/// Reads at most `spare.len()` bytes to the start of `spare`. Returns the number of bytes, which are initialised then.
pub fn pread(fd: impl AsFd, spare: &mut [MaybeUninit<u8>], offset: u64) -> Result<usize, Errno> {
    let spare = match faults::next(Op::Read) {
        Some(Fault::Short) => {
            let some = spare.len().div_ceil(2);
            &mut spare[..some]
        }
        Some(fault) => return Err(fault.error()),
        None => spare,
    };
    rustix::io::pread(fd, spare, offset).map(|(read, _)| read.len())
}

/// Writes at most `bytes.len()` bytes. Returns their number.
pub fn pwrite(fd: impl AsRef<Descriptor>, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
    let fd = fd.as_ref().still()?;
    match faults::next(Op::Write) {
        Some(Fault::Short) => {
            return signals::pwrite(fd, &bytes[..bytes.len().div_ceil(2)], offset);
        }
        Some(fault @ Fault::Torn(part, _)) => {
            signals::pwrite(fd, &bytes[..bytes.len() * usize::from(part) / 256], offset)?;
            return Err(fault.error());
        }
        Some(fault) => return Err(fault.error()),
        None => {}
    }
    signals::pwrite(fd, bytes, offset)
}

/// Sets a file's length.
pub fn ftruncate(fd: impl AsRef<Descriptor>, length: u64) -> Result<(), Errno> {
    ask(Op::Truncate)?;
    signals::ftruncate(fd.as_ref().still()?, length)
}

/// Writes a file, or the names in a folder, to the disk.
pub fn fdatasync(fd: impl AsRef<Descriptor>) -> Result<(), Errno> {
    ask(Op::Sync)?;
    let fd = fd.as_ref().still()?;
    fs::fdatasync(fd)?;
    faults::synced(fd);
    Ok(())
}

/// Sets a file's times.
pub fn futimens(fd: impl AsRef<Descriptor>, stamps: &Timestamps) -> Result<(), Errno> {
    ask(Op::Stamp)?;
    fs::futimens(fd.as_ref().still()?, stamps)
}

/// Locks a file exclusively. `WOULDBLOCK`: another descriptor has a lock.
pub fn try_lock(fd: impl AsRef<Descriptor>) -> Result<(), Errno> {
    ask(Op::Lock)?;
    let fd = fd.as_ref().still()?;
    faults::of_lock(fd, true)?;
    fs::flock(fd, FlockOperation::NonBlockingLockExclusive)
}

/// Takes a shared lock. `WOULDBLOCK`: another descriptor has an exclusive lock.
pub fn try_lock_shared(fd: impl AsRef<Descriptor>) -> Result<(), Errno> {
    ask(Op::Lock)?;
    let fd = fd.as_ref().still()?;
    faults::of_lock(fd, false)?;
    fs::flock(fd, FlockOperation::NonBlockingLockShared)
}

/// Gives up a lock.
pub fn unlock(fd: impl AsRef<Descriptor>) -> Result<(), Errno> {
    ask(Op::Lock)?;
    fs::flock(fd.as_ref().still()?, FlockOperation::Unlock)
}

/// Renames within one folder, and replaces a file of the new name.
pub fn renameat(folder: impl AsRef<Descriptor>, from: &str, to: &str) -> Result<(), Errno> {
    ask(Op::Rename)?;
    let folder = folder.as_ref().still()?;
    fs::renameat(folder, from, folder, to)
}

/// Removes a file or an empty folder.
pub fn unlinkat(folder: impl AsRef<Descriptor>, name: &str, flags: AtFlags) -> Result<(), Errno> {
    ask(Op::Remove)?;
    fs::unlinkat(folder.as_ref().still()?, name, flags)
}
