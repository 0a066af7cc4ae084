//! Folders and their files: created private, opened without following links, and refused if other users may write to
//! them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::descriptor::Descriptor;
use crate::disk::errors::{FileError, OpenError, is_lack};
use crate::disk::{locks, ops as disk};
use crate::owner;
use crate::sort;
use crate::timer::never;

/// The mode of all files that are created.
pub const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);

/// How often a folder is made for one that is opened.
const MAKES: u32 = 4;

/// The start of the name of a temporary file.
pub const TEMPORARY: &str = ".tmp-";

/// The users that may own a folder, the folders in it, and their files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owners {
    /// The effective user.
    User,
    /// That user or root: nothing is written there.
    UserOrRoot,
}

impl Owners {
    fn have(self, owner: u32) -> bool {
        owner == rustix::process::geteuid().as_raw() || self == Owners::UserOrRoot && owner == 0
    }
}

/// An open folder.
#[derive(Debug)]
pub struct Folder {
    fd: Descriptor,
    path: PathBuf,
    owners: Owners,
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRef<Descriptor> for Folder {
    fn as_ref(&self) -> &Descriptor {
        &self.fd
    }
}

/// Refuses a folder if another user could put files into it that a driver would get.
fn check_owner(stat: &Stat, path: &Path, owners: Owners) -> Result<(), OpenError> {
    let user = rustix::process::geteuid().as_raw();
    if !owners.have(stat.st_uid) {
        return Err(OpenError::NotOwned { path: path.to_owned(), owner: stat.st_uid, user });
    }
    let mode = stat.st_mode & 0o777;
    if mode & 0o022 != 0 {
        return Err(OpenError::OthersMayWrite { path: path.to_owned(), mode });
    }
    Ok(())
}

/// An error if the time for opening `path` is over.
fn in_time(path: &Path, interrupted: &dyn Fn() -> bool) -> Result<(), OpenError> {
    if interrupted() { Err(OpenError::PutOff { path: path.to_owned() }) } else { Ok(()) }
}

impl Folder {
    /// The root, created with its parents if it is missing and `create`. Symbolic links on the way to it are followed.
    pub fn root(path: &Path, create: bool) -> Result<Folder, OpenError> {
        Self::root_until(path, create, &never)
    }

    /// [`Folder::root`] that gives [`OpenError::PutOff`] when `interrupted` says true. It is asked between two calls.
    pub fn root_until(
        path: &Path,
        create: bool,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Folder, OpenError> {
        let folder = Self::shared_until(path, create, interrupted)?;
        in_time(path, interrupted)?;
        folder.checked()
    }

    /// The root of a stash that is only read: root may own it, too. It is not created.
    pub fn base_until(path: &Path, interrupted: &dyn Fn() -> bool) -> Result<Folder, OpenError> {
        let folder = Self::shared_until(path, false, interrupted)?;
        in_time(path, interrupted)?;
        Folder { owners: Owners::UserOrRoot, ..folder }.checked()
    }

    /// [`Folder::root`] for a folder that other users may write to. Nothing that is read from it reaches a driver.
    pub fn shared(path: &Path, create: bool) -> Result<Folder, OpenError> {
        Self::shared_until(path, create, &never)
    }

    fn shared_until(path: &Path, create: bool, interrupted: &dyn Fn() -> bool) -> Result<Folder, OpenError> {
        in_time(path, interrupted)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut opened = disk::open(path, flags);
        if create && matches!(opened, Err(Errno::NOENT)) {
            if let Some(owner) = owner::whose(path) {
                return Err(OpenError::OfAnother { path: path.to_owned(), owner });
            }
            in_time(path, interrupted)?;
            disk::make_folders(path, 0o700)
                .map_err(|source| OpenError::NotCreated { path: path.to_owned(), source })?;
            in_time(path, interrupted)?;
            opened = disk::open(path, flags);
        }
        Self::opened(opened, path.to_owned())
    }

    /// The folder `name` in this one, created if it is missing and `create`.
    pub fn sub(&self, name: &str, create: bool) -> Result<Folder, OpenError> {
        self.sub_until(name, create, &never)
    }

    /// [`Folder::sub`] that gives [`OpenError::PutOff`] when `interrupted` says true. It is asked between two calls.
    pub fn sub_until(
        &self,
        name: &str,
        create: bool,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Folder, OpenError> {
        let path = self.path.join(name);
        in_time(&path, interrupted)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut opened = disk::openat(&self.fd, name, flags, Mode::empty());
        // Another process may remove what this one has just created.
        for _ in 0..MAKES {
            if !create || !matches!(opened, Err(Errno::NOENT)) {
                break;
            }
            in_time(&path, interrupted)?;
            match disk::mkdirat(&self.fd, name, Mode::RWXU) {
                // Another process may have created it.
                Ok(()) | Err(Errno::EXIST) => in_time(&path, interrupted)?,
                Err(error) => return Err(OpenError::NotCreated { path, source: error.into() }),
            }
            opened = disk::openat(&self.fd, name, flags, Mode::empty());
        }
        if matches!(opened, Err(Errno::LOOP | Errno::NOTDIR)) {
            let stat = disk::statat(&self.fd, name);
            if stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink) {
                return Err(OpenError::SymbolicLink { path });
            }
        }
        let folder = Folder { owners: self.owners, ..Self::opened(opened, path)? };
        in_time(&folder.path, interrupted)?;
        folder.checked()
    }

    fn opened(opened: Result<Descriptor, Errno>, path: PathBuf) -> Result<Folder, OpenError> {
        match opened {
            Ok(fd) => Ok(Folder { fd, path, owners: Owners::User }),
            Err(Errno::NOTDIR) => Err(OpenError::NotAFolder { path }),
            Err(error) => Err(OpenError::Unreadable { path, source: error.into() }),
        }
    }

    fn checked(self) -> Result<Folder, OpenError> {
        match disk::fstat(&self.fd) {
            Ok(stat) => check_owner(&stat, &self.path, self.owners)?,
            Err(error) => return Err(OpenError::Unreadable { path: self.path, source: error.into() }),
        }
        Ok(self)
    }

    /// The path, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The names that end in `suffix`, sorted, without those with a leading dot.
    pub fn names(&self, suffix: &str) -> io::Result<Vec<String>> {
        let mut names = self.all_names()?;
        names.retain(|name| name.ends_with(suffix) && !name.starts_with('.'));
        Ok(names)
    }

    /// [`Folder::names`] until `interrupted` says true. The second value tells whether all names were read.
    pub fn names_until(
        &self,
        suffix: &str,
        interrupted: &dyn Fn() -> bool,
    ) -> io::Result<(Vec<String>, bool)> {
        let (names, complete) = disk::list_until(&self.fd, interrupted)?;
        let ours = |name: &&str| name.ends_with(suffix) && !name.starts_with('.');
        let names = names.iter().filter_map(|name| name.to_str().ok()).filter(ours);
        let mut names: Vec<String> = names.map(str::to_owned).collect();
        sort::sort(&mut names);
        Ok((names, complete))
    }

    /// All names but `.` and `..`, sorted.
    pub fn all_names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for name in disk::list(&self.fd)? {
            let Ok(name) = name.to_str() else { continue };
            if !matches!(name, "." | "..") {
                names.push(name.to_owned());
            }
        }
        sort::sort(&mut names);
        Ok(names)
    }

    /// The names of temporary files, in no order.
    pub fn temporary_names(&self) -> io::Result<Vec<String>> {
        let names = disk::list(&self.fd)?.into_iter().map(|name| name.to_string_lossy().into_owned());
        Ok(names.filter(|name| name.starts_with(TEMPORARY)).collect())
    }

    /// Opens a file of the user's for reading. Returns its length too.
    pub fn open_file(&self, name: &str) -> Result<(Descriptor, u64), FileError> {
        self.open_own(name, OFlags::RDONLY, unreadable)
    }

    /// [`Folder::open_file`] that gives [`FileError::PutOff`] if there is no descriptor or no memory.
    pub fn open_file_or_put_off(&self, name: &str) -> Result<(Descriptor, u64), FileError> {
        self.open_own(name, OFlags::RDONLY, put_off_or_unreadable)
    }

    /// Opens a file of the user's to read it as the only process that does, for which NFS wants a descriptor that can
    /// write. [`FileError::PutOff`] as above.
    pub fn open_to_take(&self, name: &str) -> Result<Descriptor, FileError> {
        self.open_own(name, OFlags::RDWR, put_off_or_unreadable).map(|(fd, _)| fd)
    }

    /// Opens a file of the user's for reading and writing.
    pub fn open_to_seal(&self, name: &str) -> Result<Descriptor, FileError> {
        self.open_own(name, OFlags::RDWR, unreadable).map(|(fd, _)| fd)
    }

    fn open_own(
        &self,
        name: &str,
        access: OFlags,
        other: impl Fn(Errno) -> FileError,
    ) -> Result<(Descriptor, u64), FileError> {
        // With NONBLOCK opening a pipe does not wait.
        let flags = access | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let fd = match disk::openat(&self.fd, name, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::LOOP) => return Err(FileError::SymbolicLink),
            Err(Errno::NXIO) => return Err(FileError::NotAFile),
            Err(Errno::NOENT) => return Err(FileError::Missing),
            // What another user has left here for itself is no failure of the disk.
            Err(Errno::ACCESS) => match disk::statat(&self.fd, name) {
                Ok(stat) if !self.owners.have(stat.st_uid) => return Err(FileError::NotOwned(stat.st_uid)),
                _ => return Err(other(Errno::ACCESS)),
            },
            Err(error) => return Err(other(error)),
        };
        let stat = disk::fstat(&fd).map_err(other)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(FileError::NotAFile);
        }
        if !self.owners.have(stat.st_uid) {
            return Err(FileError::NotOwned(stat.st_uid));
        }
        // In the user's own stash the folder's mode keeps others away from the file.
        if self.owners == Owners::UserOrRoot && stat.st_mode & 0o022 != 0 {
            return Err(FileError::OthersMayWrite(stat.st_mode & 0o777));
        }
        Ok((fd, u64::try_from(stat.st_size).unwrap_or(0)))
    }

    /// Creates a file, for reading and writing. It must not exist.
    pub fn create_file(&self, name: &str) -> io::Result<Descriptor> {
        // Without O_TRUNC: some file systems flush a file at closing if it was truncated at opening.
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(disk::openat(&self.fd, name, flags, FILE_MODE)?)
    }

    /// Creates a file without a name, which is gone when the process ends. `spare` is the name that it has for a moment
    /// on a file system without such files.
    pub fn create_unnamed(&self, spare: &str) -> io::Result<Descriptor> {
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::EXCL | OFlags::CLOEXEC;
        match disk::openat(&self.fd, ".", flags, FILE_MODE) {
            Ok(fd) => Ok(fd),
            // NFS, FAT and old kernels return these.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT | Errno::NOSYS) => {
                let (temporary, fd) = self.create_temporary(spare)?;
                self.remove_file(&temporary)?;
                Ok(fd)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Takes a shared lock, which lasts until the folder is closed: no process removes the folder while it is empty.
    /// False: a process has removed it, or is about to.
    pub fn hold(&self, parent: &Folder, name: &str) -> bool {
        if matches!(disk::try_lock_shared(&self.fd), Err(Errno::WOULDBLOCK)) {
            return false;
        }
        // If that cannot be told, the folder is used.
        parent.is_named(name, &self.fd).unwrap_or(true)
    }

    /// Whether an open file still has this name here.
    pub fn is_named(&self, name: &str, file: &Descriptor) -> Result<bool, Errno> {
        let (here, there) = (disk::fstat(file)?, disk::statat(self, name)?);
        Ok((here.st_dev, here.st_ino) == (there.st_dev, there.st_ino))
    }

    /// Whether a process may hold the folder ([`Folder::hold`]).
    pub fn is_held(&self) -> bool {
        // As of files: a lock of this process would look like another one's.
        disk::try_lock(&self.fd).and_then(|()| disk::unlock(&self.fd)).is_err()
    }

    /// Creates a file that is locked before other processes see it, because they take an unlocked file for one without
    /// a process. The lock ends with the process. A file system without locks: [`locks`].
    pub fn create_locked(&self, name: &str) -> io::Result<Descriptor> {
        let (temporary, fd) = self.create_temporary(name)?;
        if let Err(error) = disk::renameat(&self.fd, &temporary, name) {
            let _ = self.remove_file(&temporary);
            // The temporary file was removed, so another name is tried.
            return Err(if error == Errno::NOENT { Errno::EXIST } else { error }.into());
        }
        Ok(fd)
    }

    /// Creates a locked temporary file for `name`. Returns its name too.
    pub fn create_temporary(&self, name: &str) -> io::Result<(String, Descriptor)> {
        let temporary = format!("{TEMPORARY}{name}");
        let fd = self.create_file(&temporary)?;
        let error = loop {
            match disk::try_lock(&fd) {
                Err(Errno::INTR) => {}
                Ok(()) => return Ok((temporary, fd)),
                // A file system without locks: other processes do not touch the file while it is young.
                Err(error) if locks::are_missing(error) => return Ok((temporary, fd)),
                // A clean-up holds the lock, because the clock made the file look old.
                Err(Errno::WOULDBLOCK) => break Errno::EXIST,
                // Without a lock the file would count as abandoned.
                Err(error) => break error,
            }
        };
        let _ = self.remove_file(&temporary);
        Err(error.into())
    }

    /// Removes a file. A missing file is no error.
    pub fn remove_file(&self, name: &str) -> io::Result<()> {
        match disk::unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes the names in it to the disk, as far as they are only in the system's memory.
    pub fn sync(&self) -> io::Result<()> {
        match disk::fdatasync(&self.fd) {
            // A file system that keeps names in order by itself, or not at all.
            Ok(()) | Err(Errno::INVAL) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Replaces a file: writes a temporary file with a `unique` name, and renames it. After a power failure either
    /// content may be there, or none. The descriptor has the lock of the new file, where locks exist.
    pub fn replace_file(&self, name: &str, unique: u64, bytes: &[u8]) -> io::Result<Descriptor> {
        self.replace(name, unique, bytes, |_| Ok(()))
    }

    /// [`Folder::replace_file`] that returns when the new content would survive a power failure. Until then the old one
    /// does.
    pub fn replace_durably(&self, name: &str, unique: u64, bytes: &[u8]) -> io::Result<()> {
        drop(self.replace(name, unique, bytes, |fd| Ok(disk::fdatasync(fd)?))?);
        self.sync()
    }

    fn replace(
        &self,
        name: &str,
        unique: u64,
        bytes: &[u8],
        sync: impl FnOnce(&Descriptor) -> io::Result<()>,
    ) -> io::Result<Descriptor> {
        let temporary = format!("{TEMPORARY}{:x}-{unique:016x}", std::process::id());
        let fd = match disk::openat(
            &self.fd,
            &temporary,
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            FILE_MODE,
        ) {
            Err(Errno::EXIST) => {
                // A process with the same number died while it wrote this file.
                disk::unlinkat(&self.fd, &temporary, AtFlags::empty())?;
                self.create_file(&temporary)?
            }
            other => other?,
        };
        // A locked file is not cleaned up.
        let _ = disk::try_lock(&fd);
        let done = disk::hand_over(&fd, &self.fd)
            .and_then(|()| write_all_at(&fd, bytes, 0).map_err(|(_, error)| error))
            .and_then(|()| sync(&fd))
            .and_then(|()| Ok(disk::renameat(&self.fd, &temporary, name)?));
        if done.is_err() {
            // The first error is returned.
            let _ = disk::unlinkat(&self.fd, &temporary, AtFlags::empty());
        }
        done.map(|()| fd)
    }
}

fn put_off_or_unreadable(error: Errno) -> FileError {
    match is_lack(error) {
        true => FileError::PutOff,
        false => unreadable(error),
    }
}

fn unreadable(error: Errno) -> FileError {
    FileError::Unreadable(io::Error::from(error).to_string())
}

/// Writes all of `bytes` at `offset`. A failure has the number of bytes that were written before it.
pub fn write_all_at(fd: impl AsRef<Descriptor>, bytes: &[u8], offset: u64) -> Result<(), (usize, io::Error)> {
    let mut done = 0;
    while done < bytes.len() {
        match disk::pwrite(&fd, &bytes[done..], offset + done as u64) {
            Ok(0) => return Err((done, io::ErrorKind::WriteZero.into())),
            Ok(count) => done += count,
            Err(Errno::INTR) => {}
            Err(error) => return Err((done, error.into())),
        }
    }
    Ok(())
}

/// Memory that a read reserves at first, in bytes.
const AT_ONCE: usize = 1 << 20;

/// Appends `length` bytes from `offset` on to `buffer`, or fewer at the end of the file.
#[allow(unsafe_code, reason = "the bytes that a read has filled belong to the buffer")]
pub fn read_at(fd: impl AsFd, buffer: &mut Vec<u8>, length: usize, offset: u64) -> io::Result<()> {
    let start = buffer.len();
    while buffer.len() - start < length {
        let done = buffer.len() - start;
        // The length may come from a damaged file, so memory is reserved in steps, and may be missing.
        let step = (length - done).min(AT_ONCE.max(done));
        buffer.try_reserve(step).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let spare = &mut buffer.spare_capacity_mut()[..step];
        let count = match disk::pread(&fd, spare, offset + done as u64) {
            Ok(count) => count,
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        };
        if count == 0 {
            break;
        }
        // SAFETY: pread has initialised the first `count` bytes of the spare capacity, which start at the vector's
        // length; `count` is at most the length of that slice.
        unsafe { buffer.set_len(start + done + count) };
    }
    Ok(())
}
