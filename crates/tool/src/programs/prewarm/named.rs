//! Workers that have the name of the program that they work for.
//!
//! NVIDIA's driver has files of its disk cache for each name of an executable (driver 580: that of the file itself;
//! neither links nor the process's name count). Workers of another name would compile what the program has there.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// Copies a worker's executable under this name into a new folder. None: it cannot be executed there, or this is no
/// name of a file.
pub(crate) fn copy(worker: &Path, folder: &Path, name: &OsStr) -> Option<PathBuf> {
    let is_name = Path::new(name).file_name() == Some(name);
    let copy = folder.join(name);
    let is_made = is_name
        && DirBuilder::new().mode(0o700).create(folder).is_ok()
        && fs::copy(worker, &copy).is_ok()
        && access(&copy, Access::EXEC_OK).is_ok();
    is_made.then_some(copy)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_copy_is_executable_and_below_the_private_folder() {
        let private = tempfile::tempdir().unwrap();
        let tool = private.path().join("tool");
        fs::write(&tool, "x").unwrap();
        fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
        let folder = private.path().join("as");
        for name in ["", ".", "..", "/bin/game", "../game", "a/b"] {
            assert_eq!(copy(&tool, &folder, OsStr::new(name)), None, "{name:?}");
        }
        let made = copy(&tool, &folder, OsStr::new("Game of the year.exe")).unwrap();
        assert_eq!(made, private.path().join("as/Game of the year.exe"));
        assert_eq!(fs::read(made).unwrap(), b"x");
    }
}
