//! The statistics as they are shown. The field names are the JSON's and stay what they are;
//! docs/stats.md describes them.

use std::collections::BTreeMap;

use serde::Serialize;

use VkLayer_vkstash::stats::Count;

/// Version of the JSON's shape. A field that is added does not change it; one that goes or changes does.
pub(crate) const SCHEMA: u32 = 1;

/// Everything below one root.
#[derive(Debug, Serialize)]
pub(crate) struct Stash {
    pub(crate) schema: u32,
    pub(crate) root: String,
    /// Sum of the applications' sizes.
    pub(crate) bytes: u64,
    pub(crate) keep: KeepAll,
    /// The one used last comes first.
    pub(crate) applications: Vec<Application>,
    /// Folders that cannot be used, and why.
    pub(crate) unreadable: Vec<Unreadable>,
}

/// What may be kept of all applications together.
#[derive(Debug, Default, Serialize)]
pub(crate) struct KeepAll {
    /// Null: no limit.
    pub(crate) limit_bytes: Option<u64>,
    /// How much of it is used; null without one.
    pub(crate) limit_used_percent: Option<f64>,
    pub(crate) free_space_bytes: u64,
    /// Null: for ever.
    pub(crate) device_age_ms: Option<u64>,
    /// What of the settings is ignored, in words.
    pub(crate) ignored_settings: Vec<String>,
}

/// What may be kept of one application.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Keep {
    /// Null: only the limit for all.
    pub(crate) limit_bytes: Option<u64>,
    /// How much of it is used; null without one.
    pub(crate) limit_used_percent: Option<f64>,
    /// `all`, `none`, or a number of runs.
    pub(crate) modules: String,
    /// What modules take up now.
    pub(crate) module_bytes: u64,
    /// Their share of the application's stash; null where that is empty.
    pub(crate) module_percent: Option<f64>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Unreadable {
    pub(crate) path: String,
    pub(crate) reason: String,
}

/// One application's stash.
#[derive(Debug, Serialize)]
pub(crate) struct Application {
    pub(crate) name: String,
    pub(crate) folder: String,
    pub(crate) bytes: u64,
    pub(crate) keep: Keep,
    pub(crate) runs: u64,
    pub(crate) since_unix_ms: Option<u64>,
    pub(crate) last_use_unix_ms: Option<u64>,
    #[serde(flatten)]
    pub(crate) work: Work,
    /// The run whose report changed last; null without a report that stands alone.
    pub(crate) last_run: Option<LastRun>,
    pub(crate) devices: Vec<Device>,
    /// The portable part first.
    pub(crate) parts: Vec<Part>,
    pub(crate) store: Store,
    pub(crate) benefit: Benefit,
    /// Why there is no benefit, in words; null otherwise.
    pub(crate) remark: Option<String>,
}

/// What one run did, on all its devices.
#[derive(Debug, Serialize)]
pub(crate) struct LastRun {
    pub(crate) started_unix_ms: u64,
    pub(crate) last_use_unix_ms: u64,
    #[serde(flatten)]
    pub(crate) work: Work,
    /// All pipelines that it asked for.
    #[serde(skip)]
    pub(crate) requests: u64,
}

impl LastRun {
    pub(crate) fn bypasses(&self) -> u64 {
        self.work.counters.get(Count::Bypassed.name()).copied().unwrap_or(0)
    }

    /// Whether every pipeline went to the driver unchanged.
    pub(crate) fn only_bypassed(&self) -> bool {
        self.requests > 0 && self.bypasses() == self.requests
    }
}

/// What one device did for one application, over all runs with the same driver.
#[derive(Debug, Serialize)]
pub(crate) struct Device {
    pub(crate) name: String,
    pub(crate) vendor_id: u32,
    pub(crate) device_id: u32,
    pub(crate) driver_id: u32,
    /// VK_DRIVER_ID_..., null where these headers have no name for it.
    pub(crate) driver: Option<String>,
    pub(crate) driver_version: u32,
    pub(crate) driver_version_text: String,
    /// The device parts that it used; more than one where the application enabled different features.
    pub(crate) parts: Vec<String>,
    #[serde(flatten)]
    pub(crate) work: Work,
}

/// What was asked and how it was answered.
#[derive(Debug, Serialize)]
pub(crate) struct Work {
    /// Served, in percent of the requests that could have been; null where there were none.
    pub(crate) hit_percent: Option<f64>,
    pub(crate) counters: BTreeMap<String, u64>,
    pub(crate) bypassed: Vec<Bypass>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Bypass {
    pub(crate) reason: String,
    pub(crate) s_type: i32,
    /// VK_STRUCTURE_TYPE_..., null where no structure is to blame or these headers have no name for it.
    pub(crate) structure: Option<String>,
    pub(crate) count: u64,
}

/// One part of an application's stash, as it lies on the disk now.
#[derive(Debug, Serialize)]
pub(crate) struct Part {
    /// "portable", or what a device's `parts` name.
    pub(crate) name: String,
    /// What its artifacts are bound to; null for the portable part, and where no file says so any more.
    pub(crate) bound_to: Option<BoundTo>,
    pub(crate) bytes: u64,
    pub(crate) segments: u64,
    pub(crate) sealed_segments: u64,
    /// Records by kind.
    pub(crate) records: BTreeMap<String, u64>,
    /// Their bytes by kind.
    pub(crate) payload_bytes: BTreeMap<String, u64>,
    pub(crate) damaged_places: u64,
    pub(crate) refused_files: Vec<RefusedFile>,
}

#[derive(Debug, Serialize)]
pub(crate) struct BoundTo {
    pub(crate) vendor_id: u32,
    pub(crate) device_id: u32,
    pub(crate) driver_id: u32,
    pub(crate) driver: Option<String>,
    pub(crate) driver_version: u32,
    pub(crate) driver_version_text: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct RefusedFile {
    pub(crate) file: String,
    pub(crate) reason: String,
    /// The reason in words.
    pub(crate) detail: String,
}

/// What the store met, over all runs.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Store {
    /// Reasons for having no store at all, and the number of runs.
    pub(crate) unusable: BTreeMap<String, u64>,
    pub(crate) refused: BTreeMap<String, u64>,
    pub(crate) write_errors: BTreeMap<String, u64>,
    pub(crate) damaged_records: u64,
    pub(crate) written_records: u64,
    pub(crate) written_bytes: u64,
    pub(crate) dropped: u64,
    /// By cause.
    pub(crate) evicted_bytes: BTreeMap<String, u64>,
    pub(crate) evicted_records: u64,
    pub(crate) compacted_bytes: u64,
    pub(crate) reclaimed_bytes: u64,
}

/// Whether the application gains anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Benefit {
    /// Something was served.
    Some,
    /// Nothing was, although there was a run to record and one to serve.
    None,
    /// Too early to tell.
    Unknown,
}
