//! Files that a process of root creates in a user's folder belong to the user: with sudo, HOME may be the user's.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{Gid, Uid, fchown, fstat};
use rustix::process::geteuid;

use crate::descriptor::read_system_file;

/// The user id of files whose owner has no id in this user namespace.
const NOBODY: u32 = 65534;

/// Whether this is the initial user namespace, in which [`NOBODY`] is a user like any other.
fn all_users_have_numbers() -> bool {
    read_system_file(c"/proc/self/uid_map")
        .is_ok_and(|map| map.split_whitespace().eq(["0", "0", "4294967295"]))
}

/// The owner of a user's folder, if this process is root. None: the folder is root's, or everybody may write to it.
fn foreign_owner(owner: u32, mode: u32) -> Option<u32> {
    let is_somebodys = geteuid().is_root() && owner != 0 && mode & 0o002 == 0;
    (is_somebodys && (owner != NOBODY || all_users_have_numbers())).then_some(owner)
}

/// Gives a file that this process has just created in `folder` to the folder's owner.
pub fn hand_over(file: impl AsFd, folder: impl AsFd) -> io::Result<()> {
    if !geteuid().is_root() {
        return Ok(());
    }
    let folder = fstat(folder)?;
    if let Some(owner) = foreign_owner(folder.st_uid, folder.st_mode) {
        fchown(file, Some(Uid::from_raw(owner)), Some(Gid::from_raw(folder.st_gid)))?;
    }
    Ok(())
}

/// Whether a file of that owner in `folder` belongs to this user, or was handed over by root.
pub fn is_ours(owner: u32, folder: impl AsFd) -> bool {
    let handed_over =
        || fstat(folder).is_ok_and(|folder| foreign_owner(folder.st_uid, folder.st_mode) == Some(owner));
    owner == geteuid().as_raw() || handed_over()
}

/// The user in whose folder this process would create `path` as root.
pub fn whose(path: &Path) -> Option<u32> {
    if !geteuid().is_root() {
        return None;
    }
    // The last ancestor of a relative path is "", the current folder.
    let nearest = path.ancestors().find_map(|folder| {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        folder.metadata().ok()
    });
    nearest.and_then(|folder| foreign_owner(folder.uid(), folder.mode()))
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::fs::{File, Permissions, create_dir, set_permissions};
    use std::os::unix::fs::{PermissionsExt as _, chown};

    #[test]
    fn what_root_makes_belongs_to_whoever_has_the_folder() {
        if !geteuid().is_root() {
            return crate::skip::not_here(&crate::skip::this_test(), "only root can give a folder away");
        }
        let root = tempfile::tempdir().unwrap();
        let (theirs, file) = (root.path().join("theirs"), root.path().join("file"));
        create_dir(&theirs).unwrap();
        chown(&theirs, Some(1234), Some(4321)).unwrap();
        assert_eq!(whose(&root.path().join("a/b")), None);
        assert_eq!(whose(&theirs.join("a/b")), Some(1234));

        let made = File::create(&file).unwrap();
        let owner = || (made.metadata().unwrap().uid(), made.metadata().unwrap().gid());
        let (ours, folder) = (File::open(root.path()).unwrap(), File::open(&theirs).unwrap());
        hand_over(&made, &ours).unwrap();
        assert_eq!(owner().0, 0);
        hand_over(&made, &folder).unwrap();
        assert_eq!(owner(), (1234, 4321));
        assert!(is_ours(1234, &folder) && !is_ours(1234, &ours) && is_ours(0, &ours));

        // In a user namespace without all ids it stands for everybody who has none.
        chown(&theirs, Some(NOBODY), Some(NOBODY)).unwrap();
        assert_eq!(whose(&theirs.join("a/b")), all_users_have_numbers().then_some(NOBODY));
        chown(&theirs, Some(1234), Some(4321)).unwrap();

        // A folder like /tmp, with any owner.
        set_permissions(&theirs, Permissions::from_mode(0o1777)).unwrap();
        assert_eq!(whose(&theirs.join("a/b")), None);
        assert!(!is_ours(1234, &folder));
    }
}
