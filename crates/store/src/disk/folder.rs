//! Folders of the stash: made private, opened without following links, refused where others may write.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::base::descriptor::Descriptor;
use crate::base::owner;
use crate::disk::ops as disk;
use crate::format::refusal::{OpenError, Refusal, is_lack};

/// Mode of every file that the store makes.
pub(crate) const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);

/// How the name of a file starts that is being made.
pub(crate) const ASIDE: &str = ".tmp-";

/// An open folder of the stash.
#[derive(Debug)]
pub(crate) struct Folder {
    fd: Descriptor,
    path: PathBuf,
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

/// Refuses a folder into which somebody else could put what we would hand to a driver.
fn check_owner(stat: &Stat, path: &Path) -> Result<(), OpenError> {
    let user = rustix::process::geteuid().as_raw();
    if stat.st_uid != user {
        return Err(OpenError::NotOwned { path: path.to_owned(), owner: stat.st_uid, user });
    }
    let mode = stat.st_mode & 0o777;
    if mode & 0o022 != 0 {
        return Err(OpenError::OthersMayWrite { path: path.to_owned(), mode });
    }
    Ok(())
}

impl Folder {
    /// The root that the caller chose; made with its parents where missing. Links on the way to it are the
    /// user's own business.
    pub(crate) fn root(path: &Path, create: bool) -> Result<Folder, OpenError> {
        let folder = Self::shared(path, create)?;
        folder.checked()
    }

    /// The same for a folder into which others may write: what is read from it never reaches a driver.
    pub(crate) fn shared(path: &Path, create: bool) -> Result<Folder, OpenError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut opened = disk::open(path, flags);
        if create && matches!(opened, Err(Errno::NOENT)) {
            if let Some(owner) = owner::whose(path) {
                return Err(OpenError::OfAnother { path: path.to_owned(), owner });
            }
            disk::make_folders(path, 0o700)
                .map_err(|source| OpenError::NotCreated { path: path.to_owned(), source })?;
            opened = disk::open(path, flags);
        }
        Self::opened(opened, path.to_owned())
    }

    /// The folder `name` in this one; made where missing if `create`.
    pub(crate) fn sub(&self, name: &str, create: bool) -> Result<Folder, OpenError> {
        let path = self.path.join(name);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut opened = disk::openat(&self.fd, name, flags, Mode::empty());
        if create && matches!(opened, Err(Errno::NOENT)) {
            match disk::mkdirat(&self.fd, name, Mode::RWXU) {
                // Another process may have been faster.
                Ok(()) | Err(Errno::EXIST) => opened = disk::openat(&self.fd, name, flags, Mode::empty()),
                Err(error) => return Err(OpenError::NotCreated { path, source: error.into() }),
            }
        }
        if matches!(opened, Err(Errno::LOOP | Errno::NOTDIR)) {
            let stat = disk::statat(&self.fd, name);
            if stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink) {
                return Err(OpenError::SymbolicLink { path });
            }
        }
        Self::opened(opened, path)?.checked()
    }

    fn opened(opened: Result<Descriptor, Errno>, path: PathBuf) -> Result<Folder, OpenError> {
        match opened {
            Ok(fd) => Ok(Folder { fd, path }),
            Err(Errno::NOTDIR) => Err(OpenError::NotAFolder { path }),
            Err(error) => Err(OpenError::Unreadable { path, source: error.into() }),
        }
    }

    fn checked(self) -> Result<Folder, OpenError> {
        match disk::fstat(&self.fd) {
            Ok(stat) => check_owner(&stat, &self.path)?,
            Err(error) => return Err(OpenError::Unreadable { path: self.path, source: error.into() }),
        }
        Ok(self)
    }

    /// For messages only; nothing is opened by it.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The names in this folder that end in `suffix`, sorted; none with a leading dot.
    pub(crate) fn names(&self, suffix: &str) -> io::Result<Vec<String>> {
        let mut names = self.all_names()?;
        names.retain(|name| name.ends_with(suffix) && !name.starts_with('.'));
        Ok(names)
    }

    /// The same, as far as it comes before `interrupted` says true. Whether these are all of them.
    pub(crate) fn names_until(
        &self,
        suffix: &str,
        interrupted: &dyn Fn() -> bool,
    ) -> io::Result<(Vec<String>, bool)> {
        let (names, complete) = disk::list_until(&self.fd, interrupted)?;
        let ours = |name: &&str| name.ends_with(suffix) && !name.starts_with('.');
        let names = names.iter().filter_map(|name| name.to_str().ok()).filter(ours);
        let mut names: Vec<String> = names.map(str::to_owned).collect();
        names.sort_unstable();
        Ok((names, complete))
    }

    /// Every name in this folder but `.` and `..`, sorted.
    pub(crate) fn all_names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for name in disk::list(&self.fd)? {
            let Ok(name) = name.to_str() else { continue };
            if !matches!(name, "." | "..") {
                names.push(name.to_owned());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// The names of the files in this folder that are being made, in no order.
    pub(crate) fn names_aside(&self) -> io::Result<Vec<String>> {
        let names = disk::list(&self.fd)?.into_iter().map(|name| name.to_string_lossy().into_owned());
        Ok(names.filter(|name| name.starts_with(ASIDE)).collect())
    }

    /// Opens a file of the user's own for reading. Says how long it is.
    pub(crate) fn open_file(&self, name: &str) -> Result<(Descriptor, u64), Refusal> {
        self.open_own(name, OFlags::RDONLY, unreadable)
    }

    /// The same; what there are no descriptors or no memory for is put off.
    pub(crate) fn open_file_or_put_off(&self, name: &str) -> Result<(Descriptor, u64), Refusal> {
        self.open_own(name, OFlags::RDONLY, |error| match error {
            error if is_lack(error) => Refusal::PutOff,
            error => unreadable(error),
        })
    }

    /// The same for writing its end.
    pub(crate) fn open_to_seal(&self, name: &str) -> Result<Descriptor, Refusal> {
        self.open_own(name, OFlags::RDWR, unreadable).map(|(fd, _)| fd)
    }

    fn open_own(
        &self,
        name: &str,
        access: OFlags,
        other: impl Fn(Errno) -> Refusal,
    ) -> Result<(Descriptor, u64), Refusal> {
        // Not to be held up by a pipe that somebody put here.
        let flags = access | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let fd = match disk::openat(&self.fd, name, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::LOOP) => return Err(Refusal::SymbolicLink),
            Err(Errno::NXIO) => return Err(Refusal::NotAFile),
            // Its name was read, and then somebody has merged it or taken it away.
            Err(Errno::NOENT) => return Err(Refusal::NotYet),
            Err(error) => return Err(other(error)),
        };
        let stat = disk::fstat(&fd).map_err(other)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(Refusal::NotAFile);
        }
        if stat.st_uid != rustix::process::geteuid().as_raw() {
            return Err(Refusal::NotOwned(stat.st_uid));
        }
        Ok((fd, u64::try_from(stat.st_size).unwrap_or(0)))
    }

    /// Makes a file that was not there before, for reading and writing.
    pub(crate) fn create_file(&self, name: &str) -> io::Result<Descriptor> {
        // Never O_TRUNC: closing a file that was truncated at opening makes some file systems flush it.
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(disk::openat(&self.fd, name, flags, FILE_MODE)?)
    }

    /// Makes a file without a name: whatever ends this process takes it away. `spare`: the name that it has for a moment
    /// where the file system knows no such files.
    pub(crate) fn create_unnamed(&self, spare: &str) -> io::Result<Descriptor> {
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::EXCL | OFlags::CLOEXEC;
        match disk::openat(&self.fd, ".", flags, FILE_MODE) {
            Ok(fd) => Ok(fd),
            // What NFS, FAT and old kernels say.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT | Errno::NOSYS) => {
                let (aside, fd) = self.create_aside(spare)?;
                self.remove_file(&aside)?;
                Ok(fd)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Says that this process uses the folder, until this and what was made of it is closed: then nobody takes it away.
    /// False: somebody has, or is about to.
    pub(crate) fn hold(&self, parent: &Folder, name: &str) -> bool {
        if matches!(disk::try_lock_shared(&self.fd), Err(Errno::WOULDBLOCK)) {
            return false;
        }
        // What cannot be told is no reason to go without a stash.
        let (Ok(here), Ok(there)) = (disk::fstat(&self.fd), disk::statat(parent, name)) else { return true };
        (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)
    }

    /// Makes a file that is locked before anybody can see it: who looks at it would take it for one that was left
    /// behind. The lock tells others that it has a process; it is gone when the process is. A file system without
    /// locks leaves them to believe that it always has.
    pub(crate) fn create_locked(&self, name: &str) -> io::Result<Descriptor> {
        let (aside, fd) = self.create_aside(name)?;
        if let Err(error) = disk::renameat(&self.fd, &aside, name) {
            let _ = self.remove_file(&aside);
            // Gone: another file, then.
            return Err(if error == Errno::NOENT { Errno::EXIST } else { error }.into());
        }
        Ok(fd)
    }

    /// The same for a file that is renamed to `name` when it is whole. Says what it is called until then.
    pub(crate) fn create_aside(&self, name: &str) -> io::Result<(String, Descriptor)> {
        let aside = format!("{ASIDE}{name}");
        let fd = self.create_file(&aside)?;
        let error = loop {
            match disk::try_lock(&fd) {
                Err(Errno::INTR) => {}
                // No locks here; others then leave alone whatever they find.
                Ok(()) | Err(Errno::NOSYS | Errno::OPNOTSUPP | Errno::NOLCK | Errno::INVAL) => {
                    return Ok((aside, fd));
                }
                // The crash cleanup holds its lock: the clock made the file look old.
                Err(Errno::WOULDBLOCK) => break Errno::EXIST,
                // Without its lock it would be taken for one that was left behind.
                Err(error) => break error,
            }
        };
        let _ = self.remove_file(&aside);
        Err(error.into())
    }

    /// Removes a file; one that is not there is fine.
    pub(crate) fn remove_file(&self, name: &str) -> io::Result<()> {
        match disk::unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Puts a file in its place at once: written aside under a name made of `unique`, then renamed.
    pub(crate) fn replace_file(&self, name: &str, unique: u64, bytes: &[u8]) -> io::Result<()> {
        let aside = format!("{ASIDE}{:x}-{unique:016x}", std::process::id());
        let fd = match disk::openat(
            &self.fd,
            &aside,
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            FILE_MODE,
        ) {
            Err(Errno::EXIST) => {
                // Left by a process of the same number that died while writing.
                disk::unlinkat(&self.fd, &aside, AtFlags::empty())?;
                self.create_file(&aside)?
            }
            other => other?,
        };
        // Nobody takes it away while this process lives.
        let _ = disk::try_lock(&fd);
        let done = disk::hand_over(&fd, &self.fd)
            .and_then(|()| write_all_at(&fd, bytes, 0).map_err(|(_, error)| error))
            .and_then(|()| Ok(disk::renameat(&self.fd, &aside, name)?));
        if done.is_err() {
            // The error that matters is the first one.
            let _ = disk::unlinkat(&self.fd, &aside, AtFlags::empty());
        }
        done
    }
}

fn unreadable(error: Errno) -> Refusal {
    Refusal::Unreadable(io::Error::from(error).to_string())
}

/// Writes all of `bytes` at `offset`. On failure says how many bytes were written before it.
pub(crate) fn write_all_at(
    fd: impl AsRef<Descriptor>,
    bytes: &[u8],
    offset: u64,
) -> Result<(), (usize, io::Error)> {
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

/// How much room a read makes at first.
const AT_ONCE: usize = 1 << 20;

/// Appends `length` bytes from `offset` on to `buffer`; fewer where the file ends before.
#[allow(unsafe_code, reason = "the bytes that a read has filled belong to the buffer")]
pub(crate) fn read_at(fd: impl AsFd, buffer: &mut Vec<u8>, length: usize, offset: u64) -> io::Result<()> {
    let start = buffer.len();
    while buffer.len() - start < length {
        let done = buffer.len() - start;
        // Lengths come from files: room is made as bytes come, and running out of memory must not end the program.
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
        // SAFETY: pread has initialised the first `count` bytes of the spare capacity, which start at the
        // vector's length, and `count` is at most the length of the slice that it was given.
        unsafe { buffer.set_len(start + done + count) };
    }
    Ok(())
}
