//! A file that is there when it is whole, and not before: whatever ends the process, no half of it is left.
//!
//! The crate tempfile gives a file its name from the start or never, so a killed process would leave it behind.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

/// How the names start that files have while they are written, where they need one; process and time follow.
const ASIDE: &str = ".vkstash-export-";

/// It is given its name by [`NewFile::finish`], and is gone when dropped before.
pub(crate) struct NewFile {
    file: File,
    path: PathBuf,
    /// On a file system that knows no files without names.
    aside: Option<Aside>,
}

/// A file under another name, and the signals that would leave it there.
struct Aside {
    path: PathBuf,
    held: libc::sigset_t,
    mask_before: libc::sigset_t,
}

impl NewFile {
    /// For `path`, where nothing may be. Nobody but the user may read it.
    pub(crate) fn create(path: &Path) -> io::Result<NewFile> {
        if path.symlink_metadata().is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        // It gets its name by way of this.
        if !Path::new("/proc/self/fd").is_dir() {
            return NewFile::create_aside(path);
        }
        let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
        match rustix::fs::open(folder(path), flags, Mode::RUSR | Mode::WUSR) {
            Ok(fd) => Ok(NewFile { file: fd.into(), path: path.to_owned(), aside: None }),
            // What NFS, FAT and old kernels say; a missing folder will be noticed again.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOSYS | Errno::NOENT) => {
                NewFile::create_aside(path)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn create_aside(path: &Path) -> io::Result<NewFile> {
        sweep(folder(path));
        let (held, mask_before) = hold_signals()?;
        let nanos = std::time::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos());
        let name = format!("{ASIDE}{}-{nanos}", std::process::id());
        let aside = Aside { path: folder(path).join(name), held, mask_before };
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside.path)?;
        // Says that it is not left behind. Where there are no locks nobody takes it away either.
        let _ = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
        Ok(NewFile { file, path: path.to_owned(), aside: Some(aside) })
    }

    /// Gives it its name, unless something else has it by now.
    pub(crate) fn finish(self) -> io::Result<()> {
        let path = &self.path;
        match &self.aside {
            None => {
                let own = format!("/proc/self/fd/{}", self.file.as_raw_fd());
                rustix::fs::linkat(CWD, own, CWD, path, AtFlags::SYMLINK_FOLLOW)?;
            }
            Some(aside) => {
                match rustix::fs::renameat_with(CWD, &aside.path, CWD, path, RenameFlags::NOREPLACE) {
                    // Not known to this file system.
                    Err(Errno::INVAL | Errno::NOSYS) if path.symlink_metadata().is_err() => {
                        rustix::fs::rename(&aside.path, path)?;
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
        if self.aside.as_ref().is_some_and(Aside::is_interrupted) {
            return Err(io::Error::other("interrupted"));
        }
        (&self.file).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Aside {
    fn is_interrupted(&self) -> bool {
        let mut pending = MaybeUninit::uninit();
        // SAFETY: sigpending fills the set in where it succeeds, and only then is it read; the numbers are valid.
        unsafe {
            libc::sigpending(pending.as_mut_ptr()) == 0
                && ENDING.iter().any(|&signal| {
                    libc::sigismember(pending.as_ptr(), signal) == 1
                        && libc::sigismember(&self.held, signal) == 1
                })
        }
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        // Not there any more if it has its name.
        let _ = std::fs::remove_file(&self.path);
        // SAFETY: the mask is one that the kernel handed out. What was sent meanwhile arrives now.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &self.mask_before, std::ptr::null_mut()) };
    }
}

/// What a person or a system ends a program with, and what can be put off.
const ENDING: [libc::c_int; 4] = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM];

/// The signals that are blocked from now on, and the mask before.
fn hold_signals() -> io::Result<(libc::sigset_t, libc::sigset_t)> {
    let (mut held, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: both sets are initialised by the calls before they are read; the numbers are valid, so that only
    // sigprocmask can fail, which is checked.
    unsafe {
        libc::sigemptyset(held.as_mut_ptr());
        for signal in ENDING {
            libc::sigaddset(held.as_mut_ptr(), signal);
        }
        if libc::sigprocmask(libc::SIG_BLOCK, held.as_ptr(), before.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((held.assume_init(), before.assume_init()))
    }
}

/// Takes away what killed processes have left in a folder.
fn sweep(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with(ASIDE) {
            continue;
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let Ok(file) = rustix::fs::open(entry.path(), flags, Mode::empty()) else { continue };
        if is_left_behind(&file) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

fn is_left_behind(file: &OwnedFd) -> bool {
    let own = rustix::process::geteuid().as_raw();
    rustix::fs::fstat(file).is_ok_and(|stat| stat.st_uid == own)
        && rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive).is_ok()
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With a name while it is written, and without.
    const WAYS: [fn(&Path) -> io::Result<NewFile>; 2] = [NewFile::create, NewFile::create_aside];

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn it_is_there_when_it_is_whole() {
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
    fn it_takes_nothing_elses_place() {
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
    fn what_a_killed_process_left_goes_with_the_next_one() {
        let folder = tempfile::tempdir().unwrap();
        let left = folder.path().join(format!("{ASIDE}1-1"));
        std::fs::write(&left, "half").unwrap();
        let other = NewFile::create_aside(&folder.path().join("other")).unwrap();
        assert!(!left.exists());
        drop(NewFile::create_aside(&folder.path().join("file")).unwrap());
        assert_eq!(names(folder.path()).len(), 1, "one that is being written is left alone");
        drop(other);
        assert!(names(folder.path()).is_empty());
    }
}
