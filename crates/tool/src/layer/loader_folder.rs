//! The folder in which the loader finds the layer's manifests. It stays when a run ends.
//!
//! A launcher may end before its game, and `vkstash run` with it. Each program that the launcher's processes start
//! later asks the loader, which reads the manifests at that moment: the layer is in it as long as they are there.

use std::fs::DirBuilder;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, Stat, Timespec, Timestamps, UTIME_NOW};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};
use vkstash_host::util::unix_ms;

use crate::layer::folder::{is_at, opened, parent, remove_unlocked};
use crate::layer::manifest::{self, Kind, ManifestError};

/// Prefix of the names of such folders.
const PREFIX: &str = "vkstash-loader-";
/// Attempts to lock a folder that another run may be removing.
const ATTEMPTS: u32 = 64;
/// What a removal takes at most, nearly always.
const PAUSE: Duration = Duration::from_millis(1);
/// A folder that no run has used for so long is removed by the next run that makes one: else each version of the
/// layer and each library of a developer would leave one for good. A process that still names it has no layer any more
/// in the programs that it starts, until a run makes the folder again; nobody but this user can make it.
const UNUSED: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Why there is no folder with manifests.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FolderError {
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error("cannot make a folder for this run: {0}")]
    Folder(#[from] io::Error),
}

/// A folder with these manifests, whoever has made it. Its name is a digest of them, so that runs with other libraries,
/// or of another version, have another one, and those with the same share it.
pub(crate) struct LoaderFolder {
    path: PathBuf,
    /// The lock says that a run uses the folder, however long ago it has begun.
    _locked: OwnedFd,
}

impl LoaderFolder {
    /// The folder with these manifests, given by name and text.
    pub(crate) fn with(manifests: &[(String, String)]) -> Result<LoaderFolder, FolderError> {
        let parent = parent()?;
        let path = parent.join(name(manifests));
        let folder = LoaderFolder { _locked: locked(&path)?, path };
        let mut is_new = false;
        for (name, text) in manifests {
            is_new |= manifest::ensure(&folder.manifest_folder(), name, text)?;
        }
        if is_new {
            remove_unlocked(&parent, PREFIX, |stat| is_unused(stat, unix_ms()));
        }
        Ok(folder)
    }

    /// The folder for XDG_DATA_DIRS.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The folder below it that the loader searches.
    pub(crate) fn manifest_folder(&self) -> PathBuf {
        manifest_folder(&self.path)
    }
}

/// Removes all such folders that no run uses.
pub(crate) fn remove_all(parent: &Path) {
    remove_unlocked(parent, PREFIX, |_| true);
}

fn manifest_folder(path: &Path) -> PathBuf {
    path.join("vulkan").join(Kind::Implicit.folder())
}

fn name(manifests: &[(String, String)]) -> String {
    let mut hash = Sha256::new();
    for part in manifests.iter().flat_map(|(name, text)| [name, text]) {
        hash.update(part.len().to_le_bytes());
        hash.update(part);
    }
    format!("{PREFIX}{}", &hex::encode(hash.finalize())[..16])
}

/// Makes the folder if it is missing, says that it is used now, and takes its lock, beside other runs.
fn locked(path: &Path) -> io::Result<OwnedFd> {
    for _ in 0..ATTEMPTS {
        DirBuilder::new().recursive(true).mode(0o700).create(manifest_folder(path))?;
        let fd = match opened(path) {
            Err(Errno::NOENT) => continue,
            other => other?,
        };
        match rustix::fs::flock(&fd, FlockOperation::NonBlockingLockShared) {
            Err(Errno::WOULDBLOCK) => std::thread::sleep(PAUSE),
            // On a file system without locks no folder is ever removed, so this one is safe too.
            _ if is_at(&fd, path) => {
                let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
                let _ = rustix::fs::futimens(&fd, &Timestamps { last_access: now, last_modification: now });
                return Ok(fd);
            }
            _ => {}
        }
    }
    Err(io::ErrorKind::ResourceBusy.into())
}

fn is_unused(stat: &Stat, now_unix_ms: u64) -> bool {
    let used = u64::try_from(stat.st_mtime).unwrap_or(0);
    now_unix_ms / 1000 > used.saturating_add(UNUSED.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_manifests_are_in_another_folder() {
        let of = |manifests: &[(&str, &str)]| {
            let owned = |(name, text): &(&str, &str)| ((*name).to_owned(), (*text).to_owned());
            name(&manifests.iter().map(owned).collect::<Vec<_>>())
        };
        let one = of(&[("a.json", "{}")]);
        assert_eq!(one, of(&[("a.json", "{}")]));
        for other in [&[("a.json", "{ }")] as &[_], &[("b.json", "{}")], &[("a.jso", "n{}")], &[]] {
            assert_ne!(one, of(other));
        }
        assert_ne!(of(&[("a", "b"), ("c", "d")]), of(&[("a", "bc"), ("", "d")]));
    }
}
