//! The report of one process, as it is kept in the stash: counters of its devices and of its store.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::reports::waiting::Waiting;

/// Pipelines that were bypassed for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BypassReport {
    /// The reason's name.
    pub reason: String,
    /// The VkStructureType to blame, or 0.
    pub s_type: i32,
    /// The number of pipelines.
    pub count: u64,
}

/// The counters of one device of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceReport {
    /// VkPhysicalDeviceProperties::deviceName.
    pub name: String,
    /// PCI vendor.
    pub vendor_id: u32,
    /// The vendor's device number.
    pub device_id: u32,
    /// VkDriverId, 0 where unknown.
    pub driver_id: u32,
    /// The driver's own version number.
    pub driver_version: u32,
    /// The name of the device part: the digest of the device header in hexadecimal. Empty without a store.
    pub part: String,
    /// Values of counters by name. Zeros are left out.
    pub counters: BTreeMap<String, u64>,
    /// Bypassed pipelines by reason.
    pub bypassed: Vec<BypassReport>,
    /// What the program has waited for.
    pub waiting: Waiting,
}

impl DeviceReport {
    /// Whether both belong to the same device, driver and set of enabled features.
    pub fn is_of_the_same(&self, other: &DeviceReport) -> bool {
        let id = |report: &DeviceReport| {
            (report.vendor_id, report.device_id, report.driver_id, report.driver_version)
        };
        self.part == other.part && id(self) == id(other)
    }

    /// Adds the counters of another report of the same device.
    pub fn add(&mut self, other: &DeviceReport) {
        add_maps(&mut self.counters, &other.counters);
        self.waiting.add(&other.waiting);
        for bypass in &other.bypassed {
            let same =
                |known: &&mut BypassReport| known.reason == bypass.reason && known.s_type == bypass.s_type;
            match self.bypassed.iter_mut().find(same) {
                Some(known) => known.count = known.count.saturating_add(bypass.count),
                None => self.bypassed.push(bypass.clone()),
            }
        }
    }

    /// Adds this report to that of the same device in the list, or appends it.
    pub fn add_to(self, reports: &mut Vec<DeviceReport>) {
        match reports.iter_mut().find(|known| known.is_of_the_same(&self)) {
            Some(known) => known.add(&self),
            None => reports.push(self),
        }
    }
}

fn add_maps<K: Ord + Clone>(to: &mut BTreeMap<K, u64>, from: &BTreeMap<K, u64>) {
    for (key, value) in from {
        let sum = to.entry(key.clone()).or_default();
        *sum = sum.saturating_add(*value);
    }
}

/// The counters of the store in one process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreReport {
    /// Why there is no store in this run. Empty if there is one.
    pub unusable: String,
    /// Files that were refused, by reason.
    pub refused: BTreeMap<String, u64>,
    /// Records with a wrong checksum.
    pub damaged_records: u64,
    /// Records that were written.
    pub written_records: u64,
    /// Bytes that were written.
    pub written_bytes: u64,
    /// Writes that failed (disk full, folder gone, ...), by reason.
    pub write_errors: BTreeMap<String, u64>,
    /// Records that were dropped because the queue was full, or nothing could be written.
    pub dropped: u64,
    /// Bytes that were evicted, by cause ([`crate::bounds::Cause::name`]).
    pub evicted_bytes: BTreeMap<String, u64>,
    /// Records that were evicted.
    pub evicted_records: u64,
    /// Bytes that compaction has written.
    pub compacted_bytes: u64,
    /// Bytes by which eviction and compaction have reduced the files.
    pub reclaimed_bytes: u64,
}

impl StoreReport {
    /// Adds the counters of another store, but not the reason why there is none. Reports are input that anybody may
    /// have written, so the sums saturate.
    pub fn add(&mut self, other: &StoreReport) {
        add_maps(&mut self.refused, &other.refused);
        add_maps(&mut self.write_errors, &other.write_errors);
        add_maps(&mut self.evicted_bytes, &other.evicted_bytes);
        let add = |sum: &mut u64, value: u64| *sum = sum.saturating_add(value);
        add(&mut self.damaged_records, other.damaged_records);
        add(&mut self.written_records, other.written_records);
        add(&mut self.written_bytes, other.written_bytes);
        add(&mut self.dropped, other.dropped);
        add(&mut self.evicted_records, other.evicted_records);
        add(&mut self.compacted_bytes, other.compacted_bytes);
        add(&mut self.reclaimed_bytes, other.reclaimed_bytes);
    }
}

/// The report of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunReport {
    /// The application's name as the stash knows it.
    pub application: String,
    /// The path of the file that the process runs ([`vkstash_host::program`]). Empty: not known.
    pub program: String,
    /// When the process opened its stash for the first time, in Unix milliseconds.
    pub started_unix_ms: u64,
    /// The last change of this report, in Unix milliseconds.
    pub updated_unix_ms: u64,
    /// The process id.
    pub pid: u32,
    /// The process has destroyed its devices, or is leaving: nothing is missing. False after a death, too.
    pub is_over: bool,
    /// The devices of the run. Reports of the same device, driver and set of features are added up, in the order of the
    /// first ones.
    pub devices: Vec<DeviceReport>,
    /// What the store did in the run.
    pub store: StoreReport,
    /// Its process is alive and has the stash open. Not in the file.
    #[serde(skip)]
    pub goes_on: bool,
}

impl RunReport {
    /// Whether a device has counted anything.
    pub fn has_counted(&self) -> bool {
        self.devices.iter().any(|device| !device.counters.is_empty())
    }
}
