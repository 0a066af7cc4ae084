//! The modules that the module policy keeps.

use crate::bounds::inventory::{ApplicationInventory, LastUse};
use crate::bounds::limits::ModulePolicy;
use vkstash_host::sort;

/// The policy, applied to the runs of one application.
pub(crate) enum KeptModules {
    All,
    None,
    /// Modules used in this run or a later one.
    Since(u64),
}

impl KeptModules {
    pub(crate) fn of(policy: ModulePolicy, app: &ApplicationInventory) -> KeptModules {
        let count = match policy {
            ModulePolicy::All => return KeptModules::All,
            ModulePolicy::None | ModulePolicy::UsedInLast(0) => return KeptModules::None,
            ModulePolicy::UsedInLast(count) => count as usize,
        };
        let mut runs: Vec<u64> = app.runs.iter().copied().filter(|&run| run != 0).collect();
        sort::by(&mut runs, |one, other| other.cmp(one));
        runs.dedup();
        // With fewer runs no module counts as unused.
        runs.get(count - 1).map_or(KeptModules::All, |&run| KeptModules::Since(run))
    }

    /// A use in an unknown run is a use. A module without a noted use is unused.
    pub(crate) fn keeps(&self, used: LastUse) -> bool {
        match *self {
            KeptModules::All => true,
            KeptModules::None => false,
            KeptModules::Since(_) if used.run == 0 => used.unix_ms != 0,
            KeptModules::Since(run) => used.run >= run,
        }
    }
}
