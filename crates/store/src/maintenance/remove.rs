//! Removing parts and applications.

use rustix::fs::{AtFlags, FileType};

use crate::maintenance::survey::PartFolder;
use vkstash_host::disk::folder::Folder;
use vkstash_host::disk::ops as disk;
use vkstash_model::app_name::AppName;

/// The ends of the names of our files.
const OURS: [&str; 6] = [".vks", ".vkg", ".vkr", ".vkl", ".vkt", ".lock"];

fn is_ours(name: &str) -> bool {
    OURS.iter().any(|suffix| name.ends_with(suffix)) || name.starts_with(".tmp-")
}

/// Deletes a part that no process uses. False: a process uses it, or it cannot be deleted.
pub(crate) fn part(part: &PartFolder) -> bool {
    !part.is_open() && part.open().is_some_and(|folder| empty(&folder))
}

/// Deletes our files in a folder. False: one of them is left.
fn empty(folder: &Folder) -> bool {
    let Ok(names) = folder.all_names() else { return false };
    // A failure does not keep the others from being deleted.
    names.iter().filter(|name| is_ours(name)).filter(|name| folder.remove_file(name).is_err()).count() == 0
}

/// Deletes the folder of an application that has nothing left. Files of others and settings stay, and so does the
/// folder then. A folder that a program has open stays. False: the folder is still there.
pub(crate) fn application(root: &Folder, folder: &Folder, name: &str) -> bool {
    disk::try_lock(folder).is_ok() && delete(root, folder, name)
}

/// The folder of shader cache sessions, which the store knows nothing else of.
const SESSIONS: &str = "sessions";

fn is_folder_of_ours(name: &str) -> bool {
    name == "portable" || name == "runs" || name.starts_with("device-")
}

/// False: the folder is still there.
fn delete(root: &Folder, folder: &Folder, name: &str) -> bool {
    for name in folder.all_names().unwrap_or_default() {
        let Ok(sub) = folder.sub(&name, false) else { continue };
        if name == SESSIONS || is_folder_of_ours(&name) && empty(&sub) {
            // Fails if there are caches, or a process has just begun to write there.
            let _ = disk::unlinkat(folder, name.as_str(), AtFlags::REMOVEDIR);
        }
    }
    disk::unlinkat(root, name, AtFlags::REMOVEDIR).is_ok()
}

/// Deletes the folders of applications that have no record, no report and no file of the user's, and that no program
/// has open. Returns their number.
pub(crate) fn without_records(root: &Folder) -> u64 {
    let mut names = root.names("").unwrap_or_default();
    names.retain(|name| AppName::is_folder(name));
    let deleted = |name: &&String| {
        let Ok(folder) = root.sub(name, false) else { return false };
        disk::try_lock(&folder).is_ok() && holds_nothing(&folder) && delete(root, &folder, name)
    };
    names.iter().filter(deleted).count() as u64
}

/// Whether the folder has only folders of ours, with empty files at most. What cannot be read counts as something.
pub(crate) fn holds_nothing(folder: &Folder) -> bool {
    let is_empty = |sub: &Folder, name: &String| {
        let is_file = |mode| FileType::from_raw_mode(mode) == FileType::RegularFile;
        is_ours(name) && disk::statat(sub, name).is_ok_and(|stat| is_file(stat.st_mode) && stat.st_size == 0)
    };
    let is_bare = |name: &String| {
        let Ok(sub) = folder.sub(name, false) else { return false };
        (name == SESSIONS || is_folder_of_ours(name))
            && sub.all_names().is_ok_and(|names| names.iter().all(|name| is_empty(&sub, name)))
    };
    folder.all_names().is_ok_and(|names| names.iter().all(is_bare))
}
