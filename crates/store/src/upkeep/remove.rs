//! How whole parts and applications go.

use rustix::fs::{AtFlags, FileType};

use crate::disk::folder::Folder;
use crate::disk::ops as disk;
use crate::format::app_name::AppName;
use crate::settings;
use crate::upkeep::survey::{Application, Part};

/// Files of ours, by how their names end.
const OURS: [&str; 5] = [".vks", ".vkg", ".vkr", ".vkt", ".lock"];

fn is_ours(name: &str) -> bool {
    OURS.iter().any(|suffix| name.ends_with(suffix)) || name.starts_with(".tmp-")
}

/// Deletes a part that nobody uses. False: somebody does, or it cannot be deleted.
pub(crate) fn part(part: &Part) -> bool {
    if part.is_open() {
        return false;
    }
    empty(&part.folder)
}

/// Deletes what lies in a folder and is ours. False: not all of it.
fn empty(folder: &Folder) -> bool {
    let names = folder.all_names().unwrap_or_default();
    // All of them are tried.
    names.iter().filter(|name| is_ours(name)).filter(|name| folder.remove_file(name).is_err()).count() == 0
}

/// Deletes the folder of an application of which nothing is left. What is not ours, and what the user has set, stays
/// with its folder; all of it stays where a program has it open.
pub(crate) fn application(root: &Folder, application: &Application) {
    if disk::try_lock(&application.folder).is_ok() {
        delete(root, &application.folder, &application.name);
    }
}

fn is_folder_of_ours(name: &str) -> bool {
    name == "portable" || name == "runs" || name.starts_with("device-")
}

/// False: it is still there.
fn delete(root: &Folder, folder: &Folder, name: &str) -> bool {
    for name in folder.all_names().unwrap_or_default() {
        if name == settings::FILE {
            continue;
        }
        let Ok(sub) = folder.sub(&name, false) else { continue };
        if is_folder_of_ours(&name) && empty(&sub) {
            // Somebody may just have begun to write there.
            let _ = disk::unlinkat(folder, name.as_str(), AtFlags::REMOVEDIR);
        }
    }
    disk::unlinkat(root, name, AtFlags::REMOVEDIR).is_ok()
}

/// Deletes the folders of applications in which there is no record, no report and nothing of the user's, and which no
/// program has open. Says how many.
pub(crate) fn without_records(root: &Folder) -> u64 {
    let mut names = root.names("").unwrap_or_default();
    names.retain(|name| AppName::of_folder(name).is_some());
    let deleted = |name: &&String| {
        let Ok(folder) = root.sub(name, false) else { return false };
        disk::try_lock(&folder).is_ok() && holds_nothing(&folder) && delete(root, &folder, name)
    };
    names.iter().filter(deleted).count() as u64
}

/// Whether there are only folders of ours in it, and in those nothing with a content. What cannot be read counts.
fn holds_nothing(folder: &Folder) -> bool {
    let is_empty = |sub: &Folder, name: &String| {
        let is_file = |mode| FileType::from_raw_mode(mode) == FileType::RegularFile;
        is_ours(name) && disk::statat(sub, name).is_ok_and(|stat| is_file(stat.st_mode) && stat.st_size == 0)
    };
    let is_bare = |name: &String| {
        let Ok(sub) = folder.sub(name, false) else { return false };
        is_folder_of_ours(name)
            && sub.all_names().is_ok_and(|names| names.iter().all(|name| is_empty(&sub, name)))
    };
    folder.all_names().is_ok_and(|names| names.iter().all(is_bare))
}
