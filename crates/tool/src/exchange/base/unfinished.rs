//! The folder of a base that is being made. A killed process leaves it behind, and the next one removes it.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::system::new_file::{folder, is_free};

/// Prefix of the names; process id and time follow.
const PREFIX: &str = ".vkstash-base-";

/// A base that is being made; dropped before it has its name, it is gone.
pub(super) struct Unfinished {
    path: PathBuf,
    /// The folder, with a shared lock: one without a lock has no live process. The process id in the name would not
    /// tell that, because another PID namespace has others.
    _held: OwnedFd,
}

impl Unfinished {
    pub(super) fn next_to(base: &Path) -> io::Result<Unfinished> {
        remove_left(folder(base));
        loop {
            let nanos = std::time::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos());
            let path = base.with_file_name(format!("{PREFIX}{}-{nanos}", std::process::id()));
            DirBuilder::new().mode(0o700).create(&path)?;
            if let Some(held) = hold(&path)? {
                return Ok(Unfinished { path, _held: held });
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn finish(self, base: &Path) -> io::Result<()> {
        match rustix::fs::renameat_with(CWD, &self.path, CWD, base, RenameFlags::NOREPLACE) {
            // A file system or kernel without that flag.
            Err(Errno::INVAL | Errno::NOSYS) => fs::rename(&self.path, base),
            other => Ok(other?),
        }
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // After `finish` the folder has another name, and nothing is there.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Locks a new folder. None: another process has taken it for one that was left, before it had its lock.
fn hold(path: &Path) -> io::Result<Option<OwnedFd>> {
    let held = match open(path) {
        Err(Errno::NOENT) => return Ok(None),
        opened => opened?,
    };
    // On file systems without locks no folder is ever removed.
    if rustix::fs::flock(&held, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK) {
        return Ok(None);
    }
    let own = rustix::fs::fstat(&held)?;
    let is_own = |found: fs::Metadata| (found.dev(), found.ino()) == (own.st_dev, own.st_ino);
    Ok(path.symlink_metadata().is_ok_and(is_own).then_some(held))
}

fn open(path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty())
}

/// Removes the folders of bases that killed processes of the user have left in `folder`. Returns their number.
pub(crate) fn remove_left(folder: &Path) -> u64 {
    let is_removed = |path: &PathBuf| {
        open(path).is_ok_and(|opened| {
            is_free(&opened, FlockOperation::NonBlockingLockExclusive) && fs::remove_dir_all(path).is_ok()
        })
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_name));
    named.map(|entry| entry.path()).filter(is_removed).count() as u64
}

/// Whether [`Unfinished::next_to`] gives such names.
fn is_name(name: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let numbers = name.strip_prefix(PREFIX).and_then(|numbers| numbers.split_once('-'));
    numbers.is_some_and(|(process, time)| is_number(process) && is_number(time))
}
