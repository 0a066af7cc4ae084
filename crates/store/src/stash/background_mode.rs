//! The mode of background work in the settings: those of the application come before those of the root.

use crate::disk::folder::Folder;
use crate::disk::home::{Home, Opened};
use crate::part::open::Shared;
use crate::settings::{BackgroundMode, Settings};

/// Notes the mode of background work in the settings, where nobody has. Of two threads that read them at once one has
/// noted it.
pub(crate) fn read(shared: &Shared, home: &Home, interrupted: &dyn Fn() -> bool) {
    if shared.background_mode.get().is_some() || !home.is_open() {
        return;
    }
    let mode = home.open().ok().and_then(|opened| of(opened, interrupted));
    if let Some(mode) = mode {
        let _ = shared.background_mode.set(mode);
    }
}

/// Reads from the disk. None: interrupted.
pub(crate) fn of(opened: &Opened, interrupted: &dyn Fn() -> bool) -> Option<Option<BackgroundMode>> {
    let in_folder = |folder: &Folder| (!interrupted()).then(|| Settings::read_in(folder).background);
    match in_folder(&opened.folder)? {
        Some(mode) => Some(Some(mode)),
        None => in_folder(&opened.root),
    }
}
