//! What is reported of a device.

use crate::stats::Counters;
use vkstash_store::base::once::OnceLock;
use vkstash_store::reports::model::DeviceReport;

/// One device of this process, as reports show it. It outlives the device.
pub struct DeviceStats {
    /// Name and numbers of the device; counters are filled in when a report is made.
    pub identity: DeviceReport,
    /// Name of its device part, once opened.
    pub part: OnceLock<String>,
    /// Its number in this run, once it has come to the stash: from 0.
    pub number: OnceLock<u32>,
    /// Its counters.
    pub counters: Counters,
}

impl DeviceStats {
    /// As of now.
    pub fn report(&self) -> DeviceReport {
        // First: what is counted from here on makes another report due.
        self.counters.take_changed();
        DeviceReport {
            part: self.part.get().cloned().unwrap_or_default(),
            counters: self.counters.values(),
            bypassed: self.counters.bypasses(),
            ..self.identity.clone()
        }
    }
}
