//! Settings of background work, disabled caches and bases: those of the application come before those of all.

use std::path::PathBuf;

use crate::home::{Home, Opened};
use crate::part::open::Shared;
use crate::settings::ForProgram;
use crate::settings::places::read_unless;

/// Reads the settings and notes them, unless they are noted. Of two threads that read them at once, one notes them.
pub(crate) fn read(shared: &Shared, home: &Home, interrupted: &dyn Fn() -> bool) {
    if shared.said.get().is_some() || !home.is_open() {
        return;
    }
    let said = home.open().ok().and_then(|opened| of(home, opened, interrupted));
    if let Some((said, bases)) = said {
        home.add_bases(&bases);
        let _ = shared.said.set(said);
    }
}

/// Reads from the disk: the settings for the program, and the bases. None: interrupted.
pub(crate) fn of(
    home: &Home,
    opened: &Opened,
    interrupted: &dyn Fn() -> bool,
) -> Option<(ForProgram, Vec<PathBuf>)> {
    let read = read_unless(&opened.root, interrupted)?;
    let settings = read.of(home.application()).or(&read.all());
    let disabled_caches = settings.disabled_caches.unwrap_or_default();
    Some((ForProgram { background: settings.background, disabled_caches }, settings.bases))
}
