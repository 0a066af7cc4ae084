//! The private folder of one run: the layer's reports. And the folder of this user's that such folders are in.

use std::env;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;
use tempfile::TempDir;

use vkstash_store::reports::model::RunReport;
use vkstash_store::reports::runs;

/// Prefix of the names of such folders.
const PREFIX: &str = "vkstash-run-";
/// Attempts to lock a new folder before another run removes it.
const ATTEMPTS: u32 = 64;

/// Removed with its content when dropped; after a kill, by the next run.
pub(crate) struct Folder {
    folder: TempDir,
    /// The lock says that the folder is in use. The command does not inherit it, because it may outlive this process.
    _locked: OwnedFd,
}

impl Folder {
    /// Makes a new folder, for this user only, and removes the folders of killed runs.
    pub(crate) fn create() -> io::Result<Folder> {
        let parent = parent()?;
        remove_ended(&parent);
        for _ in 0..ATTEMPTS {
            let private = fs::Permissions::from_mode(0o700);
            let folder = tempfile::Builder::new().prefix(PREFIX).permissions(private).tempdir_in(&parent)?;
            if let Some(locked) = locked(folder.path())? {
                let folder = Folder { folder, _locked: locked };
                DirBuilder::new().mode(0o700).create(folder.report_folder())?;
                return Ok(folder);
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// The folder, for what else is this run's alone.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The folder for VKSTASH_REPORT. A process that outlives this run makes it again, and the next run removes it.
    pub(crate) fn report_folder(&self) -> PathBuf {
        self.path().join("reports")
    }

    /// The reports of the command's processes.
    pub(crate) fn reports(&self) -> Vec<RunReport> {
        runs::read_all(&self.report_folder())
    }

    /// One of the command's processes had an instance with the layer.
    pub(crate) fn had_instance(&self) -> bool {
        runs::has_instance(&self.report_folder())
    }

    /// Copies the reports to `target`. A failure loses reports; the run goes on.
    pub(crate) fn copy_reports(&self, target: &Path) {
        let _ = fs::create_dir_all(target);
        if self.had_instance() {
            runs::note_instance(target);
        }
        let Ok(entries) = fs::read_dir(self.report_folder()) else { return };
        for entry in entries.flatten() {
            let _ = fs::copy(entry.path(), target.join(entry.file_name()));
        }
    }
}

/// Takes the lock of a folder that was just made. None: before it was locked, another run has taken it for a stale one.
fn locked(path: &Path) -> io::Result<Option<OwnedFd>> {
    match opened(path) {
        Ok(fd) if is_locked_by_us(&fd) && is_at(&fd, path) => Ok(Some(fd)),
        Ok(_) | Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Opens a folder, and no link to one.
pub(crate) fn opened(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty())
}

/// On a file system without locks no folder is ever removed as stale, so this one is safe too.
fn is_locked_by_us(fd: &OwnedFd) -> bool {
    !matches!(rustix::fs::flock(fd, FlockOperation::NonBlockingLockExclusive), Err(Errno::WOULDBLOCK))
}

/// Whether this folder is still the one at its path.
pub(crate) fn is_at(fd: &OwnedFd, path: &Path) -> bool {
    let (Ok(here), Ok(there)) = (rustix::fs::fstat(fd), rustix::fs::lstat(path)) else { return false };
    (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)
}

/// Removes the folders that killed runs have left, and those that processes have made again which outlived their run:
/// no process holds their locks.
pub(crate) fn remove_ended(parent: &Path) {
    remove_unlocked(parent, PREFIX, |_| true);
}

/// Removes the folders of this user below `parent` that have a name with this prefix, and whose locks no process holds,
/// as far as `is_over` says so of them.
pub(crate) fn remove_unlocked(parent: &Path, prefix: &str, is_over: impl Fn(&Stat) -> bool) {
    let own = rustix::process::geteuid().as_raw();
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if !entry.file_name().as_bytes().starts_with(prefix.as_bytes()) {
            continue;
        }
        let Ok(fd) = opened(&entry.path()) else { continue };
        if rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive).is_err() {
            continue;
        }
        // Looked at with the lock: until then another process may have begun to use it.
        if rustix::fs::fstat(&fd).is_ok_and(|stat| stat.st_uid == own && is_over(&stat)) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// A folder that is this user's alone and stays, until `vkstash uninstall --purge` removes it. A process that outlives
/// its run goes on naming a folder in it as one where the loader looks for layers: nobody else must be able to make
/// that again.
///
/// It is in the temporary folder, which Steam's containers share with the host; they do not share XDG_RUNTIME_DIR.
/// That is taken where somebody else has made a folder of this name.
pub(crate) fn parent() -> io::Result<PathBuf> {
    let runtime = in_runtime();
    let of_runtime = |error| runtime.map_or(Err(error), private);
    private(temporary()?.join(name())).or_else(of_runtime)
}

/// Where that folder may be.
pub(crate) fn parents() -> Vec<PathBuf> {
    temporary().ok().map(|temporary| temporary.join(name())).into_iter().chain(in_runtime()).collect()
}

fn name() -> String {
    format!("vkstash-{}", rustix::process::geteuid().as_raw())
}

fn in_runtime() -> Option<PathBuf> {
    let runtime = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    runtime.filter(|path| path.is_absolute() && is_for_search_paths(path)).map(|path| path.join(name()))
}

/// Makes it, if it is missing.
fn private(path: PathBuf) -> io::Result<PathBuf> {
    match DirBuilder::new().mode(0o700).create(&path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let stat = rustix::fs::fstat(opened(&path)?)?;
    let is_ours = stat.st_uid == rustix::process::geteuid().as_raw() && stat.st_mode & 0o077 == 0;
    if is_ours {
        Ok(path)
    } else {
        Err(io::Error::other(format!("{} is not this user's alone", path.display())))
    }
}

/// The temporary folder, or /tmp where a search path cannot name that folder or TMPDIR is empty.
fn temporary() -> io::Result<PathBuf> {
    let temporary = env::temp_dir();
    if is_for_search_paths(&temporary) { std::path::absolute(temporary) } else { Ok("/tmp".into()) }
}

fn is_for_search_paths(path: &Path) -> bool {
    !path.as_os_str().is_empty() && !path.as_os_str().as_bytes().contains(&b':')
}
