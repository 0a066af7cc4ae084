//! The statistics as they are printed. The field names are those of the JSON and do not change; docs/stats.md
//! describes them.

use std::collections::BTreeMap;

use serde::Serialize;

use vkstash_model::counters::Count;

use crate::drivers::caches::limits::DriverLimit;
use crate::drivers::{Lack, NotReady, Prepared};
use crate::reports::played::{History, Session};

/// Version of the JSON's structure. A new field keeps it; a removed or changed field increments it.
pub(crate) const SCHEMA: u32 = 3;

/// The whole stash below one root.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Stash {
    pub(crate) schema: u32,
    pub(crate) root: String,
    /// Sum of the applications' sizes.
    pub(crate) bytes: u64,
    /// What `vkstash-remote` has fetched for the user of this stash; not part of `bytes`, but of the limit.
    pub(crate) pulled_bases_bytes: u64,
    pub(crate) keep: KeepAll,
    /// What the drivers that are here have yet to compile; null where nothing, or where they do not answer.
    pub(crate) not_ready: Option<NotReady>,
    /// What `vkstash prewarm` has compiled for them after their last update; null where nothing.
    pub(crate) prepared: Option<Prepared>,
    /// The same for people, where it is to be told.
    #[serde(skip)]
    pub(crate) told_of_updates: Option<String>,
    pub(crate) selection: Selection,
    /// Sorted by last use, the latest first.
    pub(crate) applications: Vec<Application>,
    /// Folders that cannot be used, with the reason.
    pub(crate) unreadable: Vec<Unreadable>,
}

/// The runs that are added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "runs", rename_all = "snake_case")]
pub(crate) enum Selection {
    /// All of them.
    #[default]
    All,
    /// The last run of each application.
    Last,
    /// Runs that ended then or later, where their reports are kept.
    Since { since_unix_ms: u64 },
}

/// Limits for all applications together.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct KeepAll {
    /// Null: no limit.
    pub(crate) limit_bytes: Option<u64>,
    /// Use of the limit in percent, by pulled bases too; null without one.
    pub(crate) limit_used_percent: Option<f64>,
    pub(crate) free_space_bytes: u64,
    /// How much less than `free_space_bytes` is free now.
    #[serde(skip)]
    pub(crate) missing_space_bytes: u64,
    /// Null: no age limit.
    pub(crate) device_age_ms: Option<u64>,
    /// Lines of settings that are ignored, in words.
    pub(crate) ignored_settings: Vec<String>,
    /// What `vkstash run` does with the limits of the drivers' own caches.
    pub(crate) driver_limits: Vec<DriverLimit>,
}

/// Limits of one application.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Keep {
    /// Null: only the limit for all applications counts.
    pub(crate) limit_bytes: Option<u64>,
    /// Use of the limit in percent; null without one.
    pub(crate) limit_used_percent: Option<f64>,
    /// `all`, `none`, or a number of runs.
    pub(crate) modules: String,
    /// Size of the modules.
    pub(crate) module_bytes: u64,
    /// Share of the modules in the application's stash; null where that is empty.
    pub(crate) module_percent: Option<f64>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Unreadable {
    pub(crate) path: String,
    pub(crate) reason: String,
}

/// One application's stash.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Application {
    pub(crate) name: String,
    pub(crate) folder: String,
    /// The path of its file in its last run. Empty: not known.
    pub(crate) program: String,
    pub(crate) bytes: u64,
    /// Caches of sessions.
    pub(crate) sessions: Sessions,
    pub(crate) keep: Keep,
    pub(crate) runs: u64,
    /// Earlier runs of which only the sums are kept, so that it is not known which of them were since then. They are
    /// not added up.
    pub(crate) runs_not_told_apart: u64,
    /// Reports that are damaged, or of another version of this program.
    pub(crate) unreadable_reports: u64,
    pub(crate) since_unix_ms: Option<u64>,
    pub(crate) last_use_unix_ms: Option<u64>,
    #[serde(flatten)]
    pub(crate) work: Work,
    /// The run whose report changed last; null where only totals are left.
    pub(crate) last_run: Option<LastRun>,
    /// The sessions that are known, the latest first.
    pub(crate) history: History,
    /// Pipelines at which processes ended and that were not compiled since then, the latest first.
    pub(crate) deaths: Vec<Died>,
    pub(crate) devices: Vec<Device>,
    /// The portable part first.
    pub(crate) parts: Vec<Part>,
    pub(crate) store: Store,
    pub(crate) benefit: Benefit,
    /// What drivers have yet to compile of it that other versions of them have compiled.
    #[serde(skip)]
    pub(crate) lacks: Vec<Lack>,
    /// The last session, or where its report is gone the sum of all runs.
    #[serde(skip)]
    pub(crate) session: Session,
    /// Why there is no benefit, in words; null otherwise.
    pub(crate) remark: Option<String>,
    /// What wants attention, in words, the most important first.
    pub(crate) attention: Vec<String>,
}

/// A pipeline that a driver compiled when processes ended.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Died {
    pub(crate) key: String,
    /// VkShaderStageFlags.
    pub(crate) stages: u32,
    /// How many processes.
    pub(crate) deaths: u8,
    /// When the last one ended.
    pub(crate) unix_ms: u64,
    /// The device part.
    pub(crate) part: String,
    /// For people.
    #[serde(skip)]
    pub(crate) line: String,
}

/// The caches of an application's sessions, those in working directories excepted.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Sessions {
    pub(crate) caches: u64,
    /// What their files take on the disk; not part of the application's `bytes`.
    pub(crate) bytes: u64,
}

/// What one run did on all its devices.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct LastRun {
    pub(crate) started_unix_ms: u64,
    pub(crate) last_use_unix_ms: u64,
    #[serde(flatten)]
    pub(crate) work: Work,
    pub(crate) devices: Vec<Device>,
    pub(crate) store: Store,
}

/// What one device did for one application, over all runs with the same driver.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Device {
    pub(crate) name: String,
    pub(crate) vendor_id: u32,
    pub(crate) device_id: u32,
    pub(crate) driver_id: u32,
    /// VK_DRIVER_ID_..., null where these headers have no name for it.
    pub(crate) driver: Option<String>,
    pub(crate) driver_version: u32,
    pub(crate) driver_version_text: String,
    /// The device parts that it used; several where the application enabled different features.
    pub(crate) parts: Vec<String>,
    #[serde(flatten)]
    pub(crate) work: Work,
}

/// Requests, and their outcomes.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Work {
    /// Share of served requests among those that could have been served, in percent; null where there were none.
    pub(crate) hit_percent: Option<f64>,
    /// Share of the same requests that the program's or the driver's own caches answered.
    pub(crate) driver_percent: Option<f64>,
    /// Pipelines that were not compiled when the program asked for them.
    pub(crate) ready: u64,
    /// Those, and the pipelines that were not ready.
    pub(crate) pipelines: u64,
    /// Values by the names of counters; a newer version of this program may have added others.
    #[cfg_attr(test, schemars(schema_with = "super::schema::counters"))]
    pub(crate) counters: BTreeMap<String, u64>,
    pub(crate) bypassed: Vec<Bypass>,
    /// All requests, the bypassed ones included.
    #[serde(skip)]
    pub(crate) requests: u64,
}

impl Work {
    pub(crate) fn get(&self, what: Count) -> u64 {
        self.counters.get(what.name()).copied().unwrap_or(0)
    }

    /// Whether every pipeline bypassed the stash.
    pub(crate) fn only_bypassed(&self) -> bool {
        self.requests > 0 && self.get(Count::Bypassed) == self.requests
    }
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Bypass {
    pub(crate) reason: String,
    pub(crate) s_type: i32,
    /// VK_STRUCTURE_TYPE_...; null where no structure caused it, or where these headers have no name for it.
    pub(crate) structure: Option<String>,
    pub(crate) count: u64,
}

/// One part of an application's stash, as it is on the disk now.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Part {
    /// "portable", or a name in a device's `parts`.
    pub(crate) name: String,
    /// The device that its artifacts belong to; null for the portable part, and where no readable file names it.
    pub(crate) bound_to: Option<BoundTo>,
    pub(crate) bytes: u64,
    pub(crate) segments: u64,
    pub(crate) sealed_segments: u64,
    /// Records by kind.
    pub(crate) records: BTreeMap<String, u64>,
    /// Bytes of payloads by kind.
    pub(crate) payload_bytes: BTreeMap<String, u64>,
    pub(crate) damaged_places: u64,
    pub(crate) refused_files: Vec<RefusedFile>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct BoundTo {
    pub(crate) vendor_id: u32,
    pub(crate) device_id: u32,
    pub(crate) driver_id: u32,
    pub(crate) driver: Option<String>,
    pub(crate) driver_version: u32,
    pub(crate) driver_version_text: String,
    /// The other members of the device header, bytes in hexadecimal: see docs/format.md.
    pub(crate) pipeline_cache_uuid: String,
    pub(crate) pointer_width: u8,
    pub(crate) key_schema: u32,
    pub(crate) features_digest: String,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct RefusedFile {
    pub(crate) file: String,
    pub(crate) reason: String,
    /// The reason in words.
    pub(crate) detail: String,
}

/// What happened to the store, over all runs.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Store {
    /// Number of runs without a usable store, by reason.
    pub(crate) unusable: BTreeMap<String, u64>,
    pub(crate) refused: BTreeMap<String, u64>,
    pub(crate) write_errors: BTreeMap<String, u64>,
    pub(crate) damaged_records: u64,
    pub(crate) written_records: u64,
    pub(crate) written_bytes: u64,
    pub(crate) dropped: u64,
    /// Bytes by cause.
    pub(crate) evicted_bytes: BTreeMap<String, u64>,
    pub(crate) evicted_records: u64,
    pub(crate) compacted_bytes: u64,
    pub(crate) reclaimed_bytes: u64,
}

/// Whether the application benefits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum Benefit {
    /// Pipelines were served.
    Some,
    /// Nothing was served, although there were runs to record and to serve.
    None,
    /// Too early to tell.
    Unknown,
}
