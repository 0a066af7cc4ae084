//! What the settings say of background work, of disabled caches and of bases: those of the application come before
//! those of the root.

use std::path::PathBuf;

use crate::disk::folder::Folder;
use crate::disk::home::{Home, Opened};
use crate::part::open::Shared;
use crate::settings::{ForProgram, Settings};

/// Notes what the settings say, where nobody has. Of two threads that read them at once one has noted it.
pub(crate) fn read(shared: &Shared, home: &Home, interrupted: &dyn Fn() -> bool) {
    if shared.said.get().is_some() || !home.is_open() {
        return;
    }
    let said = home.open().ok().and_then(|opened| of(opened, interrupted));
    if let Some((said, bases)) = said {
        home.add_bases(&bases);
        let _ = shared.said.set(said);
    }
}

/// Reads from the disk: what is said, and the bases. None: interrupted.
pub(crate) fn of(opened: &Opened, interrupted: &dyn Fn() -> bool) -> Option<(ForProgram, Vec<PathBuf>)> {
    let in_folder = |folder: &Folder| (!interrupted()).then(|| Settings::read_in(folder));
    let (own, root) = (in_folder(&opened.folder)?, in_folder(&opened.root)?);
    let said = ForProgram {
        background: own.background.or(root.background),
        disabled_caches: own.disabled_caches.or(root.disabled_caches).unwrap_or_default(),
    };
    Some((said, root.bases))
}
