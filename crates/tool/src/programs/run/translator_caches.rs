//! The caches of DXVK and vkd3d-proton, which translate the shaders of Direct3D: `vkstash run` gives them a folder in
//! the stash (docs/translators.md).
//!
//! Both name their files by the executable, and not by its whole path, so each program has a folder of its own. The
//! names of these folders' parent begins with a dot: nothing else that works on the stash looks into it.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf, absolute};
use std::process::Command;
use std::time::{Duration, SystemTime};

use sha2::{Digest as _, Sha256};
use vkstash_host::disk::errors::OpenError;
use vkstash_host::disk::folder::Folder;
use vkstash_model::app_name::AppName;
use vkstash_model::command;

/// The folder of all of them, below the root.
const FOLDER: &str = ".translators";

/// Each names a folder. vkd3d-proton does not create it. The second one is that of DXVK up to 2.6, for its state cache;
/// later versions have none, and do not read it.
const VARIABLES: [&str; 3] = ["DXVK_SHADER_CACHE_PATH", "DXVK_STATE_CACHE_PATH", "VKD3D_SHADER_CACHE_PATH"];

/// What tells programs apart whose paths are equal: a path of Windows means another file in each prefix, and all native
/// games of Steam are started by one program.
const PLACES: [&str; 2] = ["WINEPREFIX", "SteamAppId"];

/// An empty folder that no run was given for so long is removed by a later run. A launcher may end before its game, and
/// `vkstash run` with it: vkd3d-proton, which creates no folder, may write the first file long after that.
const UNUSED: Duration = Duration::from_secs(24 * 60 * 60);

/// The folder that a command's translators got.
pub(crate) struct TranslatorCaches(PathBuf);

impl TranslatorCaches {
    /// Where the files are, if there are any.
    pub(crate) fn filled(&self) -> Option<&Path> {
        fs::read_dir(&self.0).ok()?.next().map(|_| self.0.as_path())
    }
}

/// Sets the variables that the user has not set. None: there is nothing to set.
pub(crate) fn place(
    command: &mut Command,
    root: &Path,
    line: &[impl AsRef<OsStr>],
) -> Result<Option<TranslatorCaches>, OpenError> {
    // A variable without a value is a choice, too.
    let unset: Vec<_> = VARIABLES.into_iter().filter(|name| env::var_os(name).is_none()).collect();
    if unset.is_empty() {
        return Ok(None);
    }
    let root = absolute(root).map_err(|source| OpenError::Unreadable { path: root.to_owned(), source })?;
    let all = Folder::root(&root, true)?.sub(FOLDER, true)?;
    let path = all.sub(&name(line), true)?.path().to_owned();
    // Where that fails, the next run after a day may remove the folder if it is empty.
    let _ = File::open(&path).and_then(|folder| folder.set_modified(SystemTime::now()));
    remove_unused(all.path());
    command.envs(unset.into_iter().map(|name| (name, &path)));
    Ok(Some(TranslatorCaches(path)))
}

/// Removes what runs have left empty and no run was given lately.
fn remove_unused(all: &Path) {
    for entry in fs::read_dir(all).into_iter().flatten().flatten() {
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        // A time that is to come, by a clock that was set back, is not old.
        if modified.is_ok_and(|modified| modified.elapsed().is_ok_and(|age| age > UNUSED)) {
            // Fails where there are files.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// The name of the folder of the program that a command runs in the end: its file name without extension, and a digest
/// of what tells it from others.
fn name(line: &[impl AsRef<OsStr>]) -> String {
    let arguments: Vec<_> = line.iter().map(|argument| argument.as_ref().as_bytes()).collect();
    let program = command::program(&arguments);
    // A name without a folder is looked up in PATH, and a path with backslashes in the prefix.
    let is_relative = (command::is_exe(program) || program.contains(&b'/')) && !program.contains(&b'\\');
    let path = Path::new(OsStr::from_bytes(program));
    let path = is_relative.then(|| absolute(path).ok()).flatten().unwrap_or_else(|| path.to_owned());
    let mut hash = Sha256::new();
    hash.update(path.as_os_str().as_bytes());
    for place in PLACES {
        hash.update(b"\0");
        hash.update(env::var_os(place).unwrap_or_default().as_bytes());
    }
    let file = program.rsplit(|byte| b"/\\".contains(byte)).next().unwrap_or_default();
    format!("{}-{}", AppName::new(None, file).display, &hex::encode(hash.finalize())[..16])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_whose_executables_have_one_name_have_folders_of_their_own() {
        let wine = |path: &str| name(&["wine", path, "--windowed"]);
        assert!(wine("/games/a/bin/Game.exe").starts_with("Game-"), "{}", wine("/games/a/bin/Game.exe"));
        assert_ne!(wine("/games/a/bin/Game.exe"), wine("/games/b/bin/Game.exe"));
        assert_ne!(wine(r"C:\a\bin\Game.exe"), wine(r"C:\b\bin\Game.exe"));
        let here = absolute("Game.EXE").unwrap();
        assert_eq!(wine("Game.EXE"), wine(here.to_str().unwrap()));
        // Whatever starts it, the game is the same.
        let steam =
            ["entry-point", "--verb=waitforexitandrun", "--", "proton", "run", "/games/a/bin/Game.exe"];
        assert_eq!(name(&steam), wine("/games/a/bin/Game.exe"));
        assert_eq!(name(&["vkcube"]), name(&["vkcube", "--c", "2"]));
        assert_eq!(name(&["vkcube"]), name(&["nice", "-n", "5", "sh", "-c", "exec vkcube --c 2"]));
        assert_eq!(name(&["vkcube"]), name(&["/usr/bin/vkstash", "run", "--dir", "/s", "--", "vkcube"]));
        assert_ne!(name(&["/a/vkcube"]), name(&["vkcube"]));
        assert!(name(&["/a/.."]).starts_with("unnamed-"), "{}", name(&["/a/.."]));
    }
}
