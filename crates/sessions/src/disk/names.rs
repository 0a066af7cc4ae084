//! The names of a cache's files, and which files are trusted.

use rustix::fs::{FileType, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, futimens};
use rustix::io::Errno;
use vkstash_host::descriptor::Descriptor;
use vkstash_host::disk::errors::FileError;
use vkstash_host::disk::folder::{FILE_MODE, Folder, TEMPORARY, read_at};
use vkstash_host::disk::ops;

use crate::error::{Error, Reason};
use crate::format;

/// The end of the index file's name.
pub(crate) const INDEX: &str = ".idx";

/// The names of one cache's files.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    pub(crate) index: String,
    pub(crate) values: String,
    pub(crate) lock: String,
    pub(crate) new_index: String,
    pub(crate) new_values: String,
}

impl Names {
    /// The names that begin with `base`.
    pub(crate) fn of(base: &str) -> Names {
        Names {
            index: format!("{base}{INDEX}"),
            values: format!("{base}.val"),
            lock: format!("{base}.lock"),
            new_index: format!("{TEMPORARY}{base}{INDEX}"),
            new_values: format!("{TEMPORARY}{base}.val"),
        }
    }
}

fn refused(name: &str, reason: Reason) -> Error {
    Error::Refused { name: name.to_owned(), reason }
}

/// Refuses an open file that others may write to, or that is also another file.
fn checked(name: &str, file: &Descriptor) -> Result<u64, Error> {
    let stat = ops::fstat(file)?;
    let mode = stat.st_mode & 0o777;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(refused(name, Reason::File(FileError::NotAFile)));
    }
    // A file that has lost its name is that of a session which goes on.
    if stat.st_nlink > 1 {
        return Err(refused(name, Reason::HardLink));
    }
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(refused(name, Reason::File(FileError::NotOwned(stat.st_uid))));
    }
    if mode & 0o022 != 0 {
        return Err(refused(name, Reason::OthersMayWrite(mode)));
    }
    Ok(u64::try_from(stat.st_size).unwrap_or(0))
}

/// What opening a file without following links and without waiting says.
fn opened(name: &str, opened: Result<Descriptor, Errno>) -> Result<Option<Descriptor>, Error> {
    match opened {
        Ok(file) => Ok(Some(file)),
        Err(Errno::NOENT) => Ok(None),
        Err(Errno::LOOP) => Err(refused(name, Reason::File(FileError::SymbolicLink))),
        Err(Errno::ISDIR | Errno::NXIO) => Err(refused(name, Reason::File(FileError::NotAFile))),
        Err(error) => Err(error.into()),
    }
}

/// With NONBLOCK opening a pipe does not wait.
const SAFE: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);

/// Opens a file of the cache. Returns its length too. None: there is no such file.
pub(crate) fn open(folder: &Folder, name: &str, writable: bool) -> Result<Option<(Descriptor, u64)>, Error> {
    let access = if writable { OFlags::RDWR } else { OFlags::RDONLY };
    let Some(file) = opened(name, ops::openat(folder, name, access | SAFE, Mode::empty()))? else {
        return Ok(None);
    };
    let length = checked(name, &file)?;
    Ok(Some((file, length)))
}

/// Opens or creates the lock file. Says whether it is new. None: others create and delete it at this moment.
pub(crate) fn open_lock(folder: &Folder, name: &str) -> Result<Option<(Descriptor, bool)>, Error> {
    if let Some((file, _)) = open(folder, name, true)? {
        return Ok(Some((file, false)));
    }
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | SAFE;
    let file = match ops::openat(folder, name, flags, FILE_MODE) {
        Err(Errno::EXIST) => return Ok(None),
        file => opened(name, file)?.ok_or(Error::NotCurrentlyAvailable("the folder was removed"))?,
    };
    checked(name, &file)?;
    Ok(Some((file, true)))
}

/// Whether the file has no other name. Asked before it is cut off.
pub(crate) fn is_alone(file: &Descriptor) -> Result<bool, Error> {
    Ok(ops::fstat(file)?.st_nlink <= 1)
}

/// Gives the lock file the present time, by which a clean-up sees when the cache was used. If that fails, the cache
/// looks older.
pub(crate) fn note_use(lock: &Descriptor) {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW as _ };
    let stamps = Timestamps { last_access: now, last_modification: now };
    let _ = lock.still().and_then(|lock| futimens(lock, &stamps));
}

/// Whether the name still belongs to this file.
pub(crate) fn is_named(folder: &Folder, name: &str, file: &Descriptor) -> bool {
    let (Ok(here), Ok(there)) = (ops::fstat(file), ops::statat(folder, name)) else { return false };
    (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)
}

/// Whether what has the name of a temporary file may be removed: a file of the cache that is not complete, or nothing.
pub(crate) fn is_begun(folder: &Folder, name: &str) -> Result<bool, Error> {
    let Ok(stat) = ops::statat(folder, name) else { return Ok(true) };
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        // A link or a pipe, which has no content of its own.
        return Ok(FileType::from_raw_mode(stat.st_mode) != FileType::Directory);
    }
    let Some((file, _)) = open(folder, name, false)? else { return Ok(true) };
    let mut first = Vec::new();
    read_at(&file, &mut first, 8, 0)?;
    Ok(format::may_be_begun(&first))
}
