//! `vkstash uninstall --purge`: what was recorded, the user's settings, and what vkstash-remote has fetched.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use vkstash_model::variables;

use super::InstallError;
use crate::layer::folder;
use crate::layer::loader_folder;
use crate::term::confirm::{Confirmed, confirm};
use crate::term::output;
use crate::term::units::plain;

/// The folders that are the user's own: those that vkstash names, and none that a variable names, which may hold other
/// things.
pub(super) fn folders() -> Vec<PathBuf> {
    let config = directories::BaseDirs::new().map(|dirs| dirs.config_dir().join("vkstash"));
    let all = [variables::default_root(), config, variables::pulled()];
    let mut there: Vec<_> =
        all.into_iter().flatten().filter(|path| path.symlink_metadata().is_ok()).collect();
    there.dedup();
    there
}

/// Asks whether these folders are to go.
pub(super) fn ask(folders: &[PathBuf]) -> Result<(), InstallError> {
    let shown: String =
        folders.iter().map(|path| format!("  {}\n", plain(&path.to_string_lossy()))).collect();
    output::print(&format!("What was recorded, settings, and what was fetched:\n{shown}"))?;
    match confirm("Remove all of that, too?")? {
        Confirmed::Yes => Ok(()),
        Confirmed::No => Err(InstallError::Refused),
        Confirmed::NobodyToAsk => Err(InstallError::NobodyToAsk),
    }
}

/// Removes one of them; of a symbolic link the link.
pub(super) fn remove(path: &Path) -> Result<(), InstallError> {
    let is_link = path.symlink_metadata().is_ok_and(|path| path.is_symlink());
    let removed = if is_link { fs::remove_file(path) } else { fs::remove_dir_all(path) };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(InstallError::Purge { path: path.to_owned(), error })
        }
        _ => {
            // Of share/vkstash, which had what was fetched.
            let _ = path.parent().filter(|parent| parent.ends_with("vkstash")).map(fs::remove_dir);
            Ok(())
        }
    }
}

/// Removes the folder for runs, if no run has one there.
pub(super) fn remove_temporary() {
    for parent in folder::parents() {
        loader_folder::remove_all(&parent);
        folder::remove_ended(&parent);
        let _ = fs::remove_dir(parent);
    }
}
