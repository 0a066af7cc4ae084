//! How much may be kept, and for how long.

/// Which modules are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ModulePolicy {
    /// All that fit. The default: without modules nothing can be rebuilt after a driver update.
    #[default]
    All,
    /// Those that one of the last so many runs of their application used.
    UsedInLast(u32),
    /// None but those of runs that are going on.
    None,
}

/// What a stash may take up. Sizes in bytes, times in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// All applications together.
    pub total_bytes: u64,
    /// One application, where it has no limit of its own. None: only the total counts.
    pub per_app: Option<u64>,
    /// What must stay free on the file system.
    pub free_space_floor: u64,
    /// For how long device parts with another header, and whole applications, are worth as much as the rest
    /// although nobody uses them.
    pub device_age: u64,
    /// Which modules are kept.
    pub module_policy: ModulePolicy,
}

const DAY: u64 = 24 * 60 * 60 * 1000;

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            total_bytes: 4 << 30,
            per_app: None,
            free_space_floor: Limits::LARGEST_FLOOR,
            device_age: 180 * DAY,
            module_policy: ModulePolicy::All,
        }
    }
}

impl Limits {
    /// The free-space floor of a file system on which 3 % would be more.
    pub const LARGEST_FLOOR: u64 = 1 << 30;

    /// The free-space floor of a file system of that size: 3 %, at most 1 GiB.
    pub fn floor_for(filesystem_bytes: u64) -> u64 {
        let percent = filesystem_bytes / 100 + u64::from(filesystem_bytes % 100 != 0);
        percent.saturating_mul(3).min(Limits::LARGEST_FLOOR)
    }

    /// Whether anything may be written while so much is free. Asked before a batch, with what stays free after it.
    pub fn may_write(&self, free_bytes: u64) -> bool {
        free_bytes >= self.free_space_floor
    }
}

/// To what eviction goes down once a limit is exceeded: 90 % of it, so that it does not happen in every run.
/// Rises with the limit, by at most as much.
pub(crate) fn low_water(limit: u64) -> u64 {
    limit - limit / 10
}
