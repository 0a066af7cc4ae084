//! Processes that were killed on purpose: their end is no crash of a driver's.

use std::path::Path;
use std::sync::Arc;

use crate::part::crash_guard;
use vkstash_host::disk::folder::Folder;

/// Removes the guard files that this process has left in the application's parts, so that no death is counted for the
/// artifacts and compiles that were in flight. The caller has killed the process, and has waited for its end.
pub fn forgive(root: &Path, application: &str, process: u32) {
    let parts = || -> Option<Vec<Folder>> {
        let root = Arc::new(Folder::root(root, false).ok()?);
        let application = root.sub(application, false).ok()?;
        let names = application.names("").ok()?;
        Some(names.iter().filter_map(|name| application.sub(name, false).ok()).collect())
    };
    for part in parts().unwrap_or_default() {
        crash_guard::forgive(&part, process);
    }
}
