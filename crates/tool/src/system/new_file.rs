//! A file that appears when it is complete. However the process ends, no part of the file is left.
//!
//! The crate tempfile gives a file its name from the start or never, so a killed process would leave the file behind.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::system::pending_signals::PendingSignals;

/// Prefix of temporary names, where a file needs one while it is written; process id and time follow.
const PREFIX: &str = ".vkstash-export-";

/// The file gets its name in [`NewFile::finish`]; dropped before that, it is gone.
pub(crate) struct NewFile {
    file: File,
    path: PathBuf,
    /// Set on file systems that have no files without names.
    temporary: Option<TemporaryName>,
}

/// The temporary name, and the blocked signals, which would otherwise leave the file there.
struct TemporaryName {
    path: PathBuf,
    signals: PendingSignals,
}

impl NewFile {
    /// For `path`, which must not exist. Only the user can read the file.
    pub(crate) fn create(path: &Path) -> io::Result<NewFile> {
        if path.symlink_metadata().is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        // `finish` links the file through this folder.
        if !Path::new("/proc/self/fd").is_dir() {
            return NewFile::create_with_name(path);
        }
        let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
        match rustix::fs::open(folder(path), flags, Mode::RUSR | Mode::WUSR) {
            Ok(fd) => Ok(NewFile { file: fd.into(), path: path.to_owned(), temporary: None }),
            // The errors of NFS, FAT and old kernels; a missing folder fails again below.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOSYS | Errno::NOENT) => {
                NewFile::create_with_name(path)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn create_with_name(path: &Path) -> io::Result<NewFile> {
        remove_stale(folder(path));
        let signals = PendingSignals::block();
        let nanos = std::time::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos());
        let name = format!("{PREFIX}{}-{nanos}", std::process::id());
        let temporary = TemporaryName { path: folder(path).join(name), signals };
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary.path)?;
        // A locked file is not stale. On file systems without locks no file is ever removed as stale.
        let _ = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
        Ok(NewFile { file, path: path.to_owned(), temporary: Some(temporary) })
    }

    /// Gives the file its name, unless that exists by now.
    pub(crate) fn finish(self) -> io::Result<()> {
        let path = &self.path;
        match &self.temporary {
            None => {
                let own = format!("/proc/self/fd/{}", self.file.as_raw_fd());
                rustix::fs::linkat(CWD, own, CWD, path, AtFlags::SYMLINK_FOLLOW)?;
            }
            Some(temporary) => {
                match rustix::fs::renameat_with(CWD, &temporary.path, CWD, path, RenameFlags::NOREPLACE) {
                    // This file system does not know the flag.
                    Err(Errno::INVAL | Errno::NOSYS) if path.symlink_metadata().is_err() => {
                        rustix::fs::rename(&temporary.path, path)?;
                    }
                    Err(Errno::INVAL | Errno::NOSYS) => return Err(io::ErrorKind::AlreadyExists.into()),
                    other => other?,
                }
            }
        }
        Ok(())
    }
}

impl Write for &NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.temporary.as_ref().is_some_and(|name| name.signals.have_come()) {
            return Err(io::Error::other("interrupted"));
        }
        (&self.file).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for TemporaryName {
    fn drop(&mut self) {
        // Fails if the file has its name by now. Signals that were sent meanwhile are delivered after this.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Removes the temporary files that killed processes left in a folder.
fn remove_stale(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let Ok(file) = rustix::fs::open(entry.path(), flags, Mode::empty()) else { continue };
        // Shared, because NFS gives exclusive locks only to descriptors that can write.
        if is_free(&file, FlockOperation::NonBlockingLockShared) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Whether a file or folder is the user's, and no live process has a lock of it that this lock would wait for.
pub(crate) fn is_free(file: &OwnedFd, lock: FlockOperation) -> bool {
    let own = rustix::process::geteuid().as_raw();
    rustix::fs::fstat(file).is_ok_and(|stat| stat.st_uid == own) && rustix::fs::flock(file, lock).is_ok()
}

/// The folder in which a path is.
pub(crate) fn folder(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With a temporary name, and without.
    const WAYS: [fn(&Path) -> io::Result<NewFile>; 2] = [NewFile::create, NewFile::create_with_name];

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_new_file_appears_when_it_is_complete() {
        for create in WAYS {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("file");
            let file = create(&path).unwrap();
            (&file).write_all(b"half").unwrap();
            assert!(!path.exists());
            drop(file);
            assert!(names(folder.path()).is_empty());
            let file = create(&path).unwrap();
            (&file).write_all(b"whole").unwrap();
            file.finish().unwrap();
            assert_eq!(names(folder.path()), ["file"]);
            assert_eq!(std::fs::read(&path).unwrap(), b"whole");
        }
    }

    #[test]
    fn a_new_file_overwrites_nothing() {
        for create in WAYS {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("file");
            let file = create(&path).unwrap();
            std::fs::write(&path, "precious").unwrap();
            assert_eq!(file.finish().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(names(folder.path()), ["file"]);
            assert_eq!(NewFile::create(&path).err().unwrap().kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(std::fs::read(&path).unwrap(), b"precious");
        }
    }

    #[test]
    fn stale_temporary_files_are_removed_by_the_next_export() {
        let folder = tempfile::tempdir().unwrap();
        let left = folder.path().join(format!("{PREFIX}1-1"));
        std::fs::write(&left, "half").unwrap();
        let other = NewFile::create_with_name(&folder.path().join("other")).unwrap();
        assert!(!left.exists());
        drop(NewFile::create_with_name(&folder.path().join("file")).unwrap());
        assert_eq!(names(folder.path()).len(), 1, "one that is being written is left alone");
        drop(other);
        assert!(names(folder.path()).is_empty());
    }
}
