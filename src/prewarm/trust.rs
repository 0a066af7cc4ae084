//! Check of a file that is executed on behalf of the user: nobody else but root can have written it, or can put another
//! one in its place.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Write permissions of others than the owner. Where there is an access control list, the group's bits are its mask.
const OTHERS_WRITE: u32 = 0o022;
/// In a folder with this bit only the owner of an entry can replace it.
const STICKY: u32 = 0o1000;

/// Why a file is not executed.
#[derive(Debug, thiserror::Error)]
pub enum Untrusted {
    /// The file's owner and mode cannot be read.
    #[error("{0}")]
    Unreadable(#[from] io::Error),
    /// The path names a folder, a device or the like.
    #[error("it is no file")]
    NoFile,
    /// Another user than this one and root owns it.
    #[error("{} belongs to another user", .0.display())]
    Foreign(PathBuf),
    /// Other users can write to the file or to a folder above it.
    #[error("others can write to {}", .0.display())]
    Writable(PathBuf),
}

/// The path of the file without links.
pub fn checked(file: &Path) -> Result<PathBuf, Untrusted> {
    let path = file.canonicalize()?;
    let found = path.metadata()?;
    if !found.is_file() {
        return Err(Untrusted::NoFile);
    }
    let others_write = found.mode() & OTHERS_WRITE != 0;
    check(&path, &found, others_write)?;
    for folder in path.ancestors().skip(1) {
        let found = folder.metadata()?;
        let others_write = found.mode() & OTHERS_WRITE != 0 && found.mode() & STICKY == 0;
        check(folder, &found, others_write)?;
    }
    Ok(path)
}

fn check(path: &Path, found: &Metadata, others_write: bool) -> Result<(), Untrusted> {
    // SAFETY: geteuid has no preconditions.
    let own = unsafe { libc::geteuid() };
    if found.uid() != 0 && found.uid() != own {
        return Err(Untrusted::Foreign(path.to_owned()));
    }
    if others_write { Err(Untrusted::Writable(path.to_owned())) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, create_dir, set_permissions, write};
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    use super::*;

    fn allow(path: &Path, mode: u32) {
        set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn what_others_can_write_or_replace_is_not_trusted() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path().canonicalize().unwrap();
        let (folder, file) = (base.join("bin"), base.join("bin/tool"));
        create_dir(&folder).unwrap();
        write(&file, "").unwrap();
        allow(&folder, 0o755);
        allow(&file, 0o755);
        assert_eq!(checked(&file).unwrap(), file);
        // Through a link in a folder that others can write to, it is still that file.
        let link = base.join("link");
        symlink(&file, &link).unwrap();
        assert_eq!(checked(&link).unwrap(), file);

        for mode in [0o775, 0o757] {
            allow(&file, mode);
            assert!(matches!(checked(&file), Err(Untrusted::Writable(path)) if path == file), "{mode:o}");
        }
        allow(&file, 0o755);
        for mode in [0o775, 0o757] {
            allow(&folder, mode);
            assert!(matches!(checked(&file), Err(Untrusted::Writable(path)) if path == folder), "{mode:o}");
        }
        allow(&folder, 0o1777);
        assert_eq!(checked(&file).unwrap(), file);
        assert!(matches!(checked(&folder), Err(Untrusted::NoFile)));
        assert!(matches!(checked(&base.join("none")), Err(Untrusted::Unreadable(_))));

        // Only root can give files away.
        if chown(&file, Some(12345), None).is_ok() {
            assert!(matches!(checked(&file), Err(Untrusted::Foreign(path)) if path == file));
        }
    }
}
