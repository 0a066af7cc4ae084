//! How whole parts and applications go.

use rustix::fs::AtFlags;

use super::survey::{Application, Part};
use crate::store::disk;
use crate::store::folder::Folder;
use crate::store::settings;

/// Files of ours, by how their names end.
const OURS: [&str; 5] = [".vks", ".vkg", ".vkr", ".vkt", ".lock"];

fn is_ours(name: &str) -> bool {
    OURS.iter().any(|suffix| name.ends_with(suffix)) || name.starts_with(".tmp-")
}

/// Deletes a part that nobody uses. False: somebody does, or it cannot be deleted.
pub(super) fn part(part: &Part) -> bool {
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
/// with its folder.
pub(super) fn application(root: &Folder, application: &Application) {
    for name in application.folder.all_names().unwrap_or_default() {
        if name == settings::FILE {
            continue;
        }
        let Ok(sub) = application.folder.sub(&name, false) else { continue };
        let ours = name == "portable" || name == "runs" || name.starts_with("device-");
        if ours && empty(&sub) {
            // Somebody may just have begun to write there.
            let _ = disk::unlinkat(&application.folder, name.as_str(), AtFlags::REMOVEDIR);
        }
    }
    let _ = disk::unlinkat(root, application.name.as_str(), AtFlags::REMOVEDIR);
}
