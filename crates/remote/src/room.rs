//! Room for bases: the bytes that the limit of the user's stash leaves for them (docs/process.md).

use std::path::{Path, PathBuf};

use vkstash_exchange::pulled;
use vkstash_store::settings;
use vkstash_store::stash::inspect::ApplicationInfo;

/// The room for the bases of all stores.
pub struct Room {
    folder: PathBuf,
    most: u64,
}

impl Room {
    /// What the applications of a stash leave. None: the bases do not count there, or a limit may be lifted in a file
    /// that cannot be read.
    pub fn left_by(root: &Path, applications: &[ApplicationInfo]) -> Option<Room> {
        let folder = pulled::folder(root)?;
        let limits = settings::read(root).limits_to_enforce(u64::MAX)?;
        let records = applications.iter().flat_map(|info| &info.parts).map(|part| part.bytes);
        let sessions =
            pulled::usage(applications.iter().map(|info| root.join(&info.folder).join("sessions")));
        let own = records.fold(sessions, u64::saturating_add);
        Some(Room { folder, most: limits.total_bytes.saturating_sub(own) })
    }

    /// How many bytes more there is room for.
    pub(crate) fn left(&self) -> u64 {
        self.most.saturating_sub(pulled::usage_without_replaced(&self.folder))
    }
}
