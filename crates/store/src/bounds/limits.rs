//! Limits of a stash: its size, the free space that it leaves, the age of device parts, and the modules that are kept.

/// Which modules are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ModulePolicy {
    /// All of them, if they fit. The default, because without modules nothing can be rebuilt after a driver update.
    #[default]
    All,
    /// Modules that one of the last runs of their application used, this many.
    UsedInLast(u32),
    /// Only modules of running processes.
    None,
}

/// The limits of a stash. Sizes are bytes, times milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// For all applications together.
    pub total_bytes: u64,
    /// For one application without a limit of its own. None: the total alone.
    pub per_app: Option<u64>,
    /// Nothing is written that would leave less free on the file system.
    pub free_space_floor: u64,
    /// Device parts with another header, and applications, rank below everything else after this time without use.
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
    /// The largest default of the free-space floor.
    pub const LARGEST_FLOOR: u64 = 1 << 30;

    /// The default free-space floor of a file system of that size: 3 %, at most 1 GiB.
    pub fn floor_for(filesystem_bytes: u64) -> u64 {
        let percent = filesystem_bytes / 100 + u64::from(filesystem_bytes % 100 != 0);
        percent.saturating_mul(3).min(Limits::LARGEST_FLOOR)
    }
}

/// The size to which eviction reduces after a limit is exceeded: 90 %, so that it does not happen in every run. Rises
/// with the limit, at most by the same amount.
pub(crate) fn low_water(limit: u64) -> u64 {
    limit - limit / 10
}
