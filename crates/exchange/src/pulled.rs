//! Bases that `vkstash-remote` has fetched into the user's data folder. They count towards the limit of the user's
//! stash (docs/process.md); docs/remote.md has what lies in the folder of a store.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use vkstash_model::variables;

/// The folder of what was replaced or withdrawn, in that of a store.
pub const REPLACED: &str = "old";
/// The base that programs look into, in the folder of a store.
pub const BASE: &str = "base";

/// The folder of the stores of the user whose stash has this root. None: these bases do not count there, because it is
/// not the stash that the user's programs have.
pub fn folder(root: &Path) -> Option<PathBuf> {
    variables::pulled().filter(|_| variables::root().as_deref() == Some(root))
}

/// The sizes of all files below these folders. A file with several names counts once: a base and the one that it has
/// replaced share most files.
pub fn usage(folders: impl IntoIterator<Item = PathBuf>) -> u64 {
    let (mut rest, mut seen, mut bytes) = (Vec::from_iter(folders), HashSet::new(), 0_u64);
    while let Some(path) = rest.pop() {
        let Ok(found) = path.symlink_metadata() else { continue };
        if found.is_dir() {
            rest.extend(entries(&path));
        } else if seen.insert((found.dev(), found.ino())) {
            bytes = bytes.saturating_add(found.len());
        }
    }
    bytes
}

/// What is used in the folder of all stores, without what the next pull deletes or replaces.
pub fn usage_without_replaced(folder: &Path) -> u64 {
    let parts = entries(folder).into_iter().flat_map(|store| entries(&store));
    usage(parts.filter(|part| !part.ends_with(REPLACED)))
}

/// The paths in a folder; none if it cannot be read.
pub fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}
