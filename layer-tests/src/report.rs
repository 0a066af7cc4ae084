//! The layer's run reports.

use std::collections::BTreeMap;
use std::path::Path;

use vkstash_store::reports::model::{BypassReport, RunReport, StoreReport};
use vkstash_store::reports::runs;

/// Counters of the reasons why a pipeline was not ready before the program asked for it (docs/schema/stats.json).
pub const UNREADY: [&str; 9] = [
    "not_planned",
    "asked_first",
    "no_processor_free",
    "not_kept",
    "never_ahead",
    "other_samplers",
    "released_before",
    "asked_again",
    "own_allocator",
];

/// The reports of one or more processes.
#[derive(Clone, Debug, Default)]
pub struct Reports(pub Vec<RunReport>);

impl Reports {
    /// Every readable report in `folder`, oldest first; none if there is no such folder.
    pub fn read(folder: &Path) -> Reports {
        Reports(runs::read_all(folder))
    }

    /// The sum of a counter over all devices and processes, by its stable name.
    pub fn sum(&self, counter: &str) -> u64 {
        let devices = self.0.iter().flat_map(|run| &run.devices);
        devices.filter_map(|device| device.counters.get(counter)).sum()
    }

    /// The sums of all counters except those that measure time.
    pub fn counters(&self) -> BTreeMap<String, u64> {
        let mut sums = BTreeMap::new();
        for (name, value) in self.0.iter().flat_map(|run| &run.devices).flat_map(|device| &device.counters) {
            if !name.ends_with("_ns") {
                *sums.entry(name.clone()).or_default() += value;
            }
        }
        sums
    }

    /// The bypassed pipelines of all devices.
    pub fn bypassed(&self) -> Vec<BypassReport> {
        self.0.iter().flat_map(|run| &run.devices).flat_map(|device| device.bypassed.clone()).collect()
    }

    /// The store's report of the last process.
    pub fn store(&self) -> StoreReport {
        self.0.last().map(|run| run.store.clone()).unwrap_or_default()
    }

    /// Numbers of refused files by reason, over all processes.
    pub fn refused(&self) -> BTreeMap<String, u64> {
        let mut sums = BTreeMap::new();
        for (reason, count) in self.0.iter().flat_map(|run| &run.store.refused) {
            *sums.entry(reason.clone()).or_default() += count;
        }
        sums
    }

    /// Names of the device parts that were used.
    pub fn parts(&self) -> Vec<String> {
        self.0.iter().flat_map(|run| &run.devices).map(|device| device.part.clone()).collect()
    }
}
