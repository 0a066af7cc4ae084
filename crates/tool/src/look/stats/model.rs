//! The statistics as they are printed. The field names are those of the JSON and do not change. Their documentation
//! is that of docs/schema/stats.json.

use std::collections::BTreeMap;

use serde::Serialize;

use vkstash_model::counters::Count;

use crate::drivers::caches::limits::DriverLimit;
use crate::drivers::{Lack, NotReady, Prepared};
use crate::reports::played::{History, Session};

/// Version of the JSON's structure. A new field keeps it; a removed or changed field increments it.
pub(crate) const SCHEMA: u32 = 3;

/// The whole stash below one root. A missing root counts as empty.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Stash {
    /// Version of this structure, 3. It rises when a name is removed or changes its meaning.
    pub(crate) schema: u32,
    /// The folder of all stashes.
    pub(crate) root: String,
    /// Size of all stashes: the sum of the applications' sizes.
    pub(crate) bytes: u64,
    /// Size of the bases that `vkstash-remote` has fetched for the user of this stash; 0 for another stash. Not part
    /// of `bytes`, but of what the limit allows.
    pub(crate) pulled_bases_bytes: u64,
    /// Limits for all applications together.
    pub(crate) keep: KeepAll,
    /// What the drivers that are here have yet to compile, and other versions of them have compiled. Null where there
    /// is nothing, or the drivers do not answer.
    pub(crate) not_ready: Option<NotReady>,
    /// What `vkstash prewarm` has compiled for these drivers after their last update. Null where nothing.
    pub(crate) prepared: Option<Prepared>,
    /// The same for people, where it is to be told.
    #[serde(skip)]
    pub(crate) told_of_updates: Option<String>,
    /// The runs that are added up.
    pub(crate) selection: Selection,
    /// One object for each application, the one that was used last first.
    pub(crate) applications: Vec<Application>,
    /// Folders that were left out: of another user, writable by others, or a symbolic link.
    pub(crate) unreadable: Vec<Unreadable>,
}

/// The runs that are added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "runs", rename_all = "snake_case")]
pub(crate) enum Selection {
    /// All runs.
    #[default]
    All,
    /// The last run of each application.
    Last,
    /// Runs that ended then or later, where their reports are kept.
    Since {
        /// That moment, in Unix milliseconds.
        since_unix_ms: u64,
    },
}

/// Limits for all applications together.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct KeepAll {
    /// The limit of the whole stash. Null: no limit.
    pub(crate) limit_bytes: Option<u64>,
    /// Use of the limit in percent, by pulled bases too. Null without a limit.
    pub(crate) limit_used_percent: Option<f64>,
    /// Space that stays free on the file system.
    pub(crate) free_space_bytes: u64,
    /// How much less than `free_space_bytes` is free now.
    #[serde(skip)]
    pub(crate) missing_space_bytes: u64,
    /// Time without use after which something is removed before everything else. Null: never.
    pub(crate) device_age_ms: Option<u64>,
    /// Lines of the settings files that are not understood, in words.
    pub(crate) ignored_settings: Vec<String>,
    /// What `vkstash run` does with the size limits of the drivers' own disk caches when it is started in the
    /// environment of this command.
    pub(crate) driver_limits: Vec<DriverLimit>,
}

/// Limits of one application.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Keep {
    /// The limit of this application. Null: only the limit for all applications counts.
    pub(crate) limit_bytes: Option<u64>,
    /// Use of the application's limit in percent. Null without one.
    pub(crate) limit_used_percent: Option<f64>,
    /// Which shader modules are kept: `all`, `none`, or those of so many runs.
    pub(crate) modules: String,
    /// Size of the modules, superseded ones included.
    pub(crate) module_bytes: u64,
    /// Share of the modules in the application's `bytes`, in percent. Null where the stash is empty.
    pub(crate) module_percent: Option<f64>,
}

/// A folder that was left out.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Unreadable {
    /// The folder.
    pub(crate) path: String,
    /// Why it is left out, in words.
    pub(crate) reason: String,
}

/// One application's stash. Everything but `parts`, `bytes`, `sessions` and sizes in `keep` comes from reports of runs.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Application {
    /// The program's file without its extension, or the name that the program tells.
    pub(crate) name: String,
    /// Its folder below `root`.
    pub(crate) folder: String,
    /// The path of its file in its last run. Empty: not known.
    pub(crate) program: String,
    /// Size of its stash: the sum of its parts.
    pub(crate) bytes: u64,
    /// The caches of its sessions in the stash.
    pub(crate) sessions: Sessions,
    /// Its limits.
    pub(crate) keep: Keep,
    /// Number of processes that left a report. A process that creates several devices is one run.
    pub(crate) runs: u64,
    /// With `--since`: number of runs of which only the sums are kept and that may have ended since then. They are not
    /// counted.
    pub(crate) runs_not_told_apart: u64,
    /// Number of reports that are damaged, or of another version of this program.
    pub(crate) unreadable_reports: u64,
    /// Start of the first report, in Unix milliseconds. Null without a report.
    pub(crate) since_unix_ms: Option<u64>,
    /// The last change of a report, in Unix milliseconds. Null without a report.
    pub(crate) last_use_unix_ms: Option<u64>,
    #[serde(flatten)]
    pub(crate) work: Work,
    /// The run whose report changed last. Null without a report, or where only sums are left.
    pub(crate) last_run: Option<LastRun>,
    /// The sessions that are known, the latest first. Those in which nothing was created or presented are left out.
    pub(crate) history: History,
    /// Pipelines that a driver was compiling when processes died, and that were not compiled since then, the latest
    /// first.
    pub(crate) deaths: Vec<Died>,
    /// One object for each device and driver version, the newest first.
    pub(crate) devices: Vec<Device>,
    /// One object for each part of the stash, the portable one first.
    pub(crate) parts: Vec<Part>,
    /// What happened to the store in these runs.
    pub(crate) store: Store,
    /// Whether the application benefits.
    pub(crate) benefit: Benefit,
    /// What drivers have yet to compile of it that other versions of them have compiled.
    #[serde(skip)]
    pub(crate) lacks: Vec<Lack>,
    /// The last session, or where its report is gone the sum of all runs.
    #[serde(skip)]
    pub(crate) session: Session,
    /// With the benefit `none` the reason in words; else null.
    pub(crate) remark: Option<String>,
    /// What wants attention, in words, the most important first.
    pub(crate) attention: Vec<String>,
}

/// A pipeline that a driver was compiling when processes died.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Died {
    /// The pipeline's key, 64 hexadecimal digits.
    pub(crate) key: String,
    /// Its stages: VkShaderStageFlags.
    pub(crate) stages: u32,
    /// Number of processes.
    pub(crate) deaths: u8,
    /// When the last one died, in Unix milliseconds.
    pub(crate) unix_ms: u64,
    /// The name of the device part.
    pub(crate) part: String,
    /// For people.
    #[serde(skip)]
    pub(crate) line: String,
}

/// The caches of an application's sessions in the stash. Those in working directories are not counted.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Sessions {
    /// Number of the caches.
    pub(crate) caches: u64,
    /// What their files take on the disk. Not part of the application's `bytes`.
    pub(crate) bytes: u64,
}

/// What one run did on all its devices.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct LastRun {
    /// When it began, in Unix milliseconds.
    pub(crate) started_unix_ms: u64,
    /// The last change of its report, in Unix milliseconds.
    pub(crate) last_use_unix_ms: u64,
    #[serde(flatten)]
    pub(crate) work: Work,
    /// One object for each device and driver version.
    pub(crate) devices: Vec<Device>,
    /// What happened to the store in this run.
    pub(crate) store: Store,
}

/// What one device did for one application, over all runs with the same driver version.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Device {
    /// VkPhysicalDeviceProperties::deviceName.
    pub(crate) name: String,
    /// VkPhysicalDeviceProperties::vendorID.
    pub(crate) vendor_id: u32,
    /// VkPhysicalDeviceProperties::deviceID.
    pub(crate) device_id: u32,
    /// VkDriverId; 0 if the driver does not tell it.
    pub(crate) driver_id: u32,
    /// `VK_DRIVER_ID_...`; null if the name is not known.
    pub(crate) driver: Option<String>,
    /// VkPhysicalDeviceProperties::driverVersion.
    pub(crate) driver_version: u32,
    /// The version as the driver's vendor writes it.
    pub(crate) driver_version_text: String,
    /// Names of the device parts that were used, one for each set of enabled features.
    pub(crate) parts: Vec<String>,
    #[serde(flatten)]
    pub(crate) work: Work,
}

/// Requests, and their outcomes.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Work {
    /// `served` and `parked` in percent of all requests that the stash could have served: `served`, `parked`,
    /// `offered`, `driver_had`, `compiled`, `compiled_unrecorded` and `compile_required`. Rounded down to one decimal,
    /// so that 100 means all of them; null if there were none. Bypassed and failed requests do not count.
    pub(crate) hit_percent: Option<f64>,
    /// `driver_had` in percent of the same requests. The driver is asked first for what is not parked, so `hit_percent`
    /// may be near 0 although nothing is wrong.
    pub(crate) driver_percent: Option<f64>,
    /// Pipelines that were not compiled when the program asked for them: the sum of `served`, `parked`, `offered` and
    /// `driver_had`.
    pub(crate) ready: u64,
    /// `ready`, and what was not ready: `compiled` and `compiled_unrecorded`, or `compile_required` if that is more,
    /// because a program that forbids compiling asks for the same pipeline once more, or never.
    pub(crate) pipelines: u64,
    /// Values by the names of counters. A newer version of this program may have added others.
    #[cfg_attr(test, schemars(with = "crate::reports::schema::Counters"))]
    pub(crate) counters: BTreeMap<String, u64>,
    /// Pipelines that the driver got unchanged, by reason and structure, the most frequent first.
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

/// Pipelines that the driver got unchanged for one reason.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Bypass {
    /// Why the driver got them unchanged.
    #[cfg_attr(test, schemars(schema_with = "crate::reports::schema::bypass_reason"))]
    pub(crate) reason: String,
    /// VkStructureType of the structure that is the reason; 0: none is.
    pub(crate) s_type: i32,
    /// `VK_STRUCTURE_TYPE_...`; null where no structure is the reason, or its name is not known.
    pub(crate) structure: Option<String>,
    /// Number of pipelines.
    pub(crate) count: u64,
}

/// One part of an application's stash, as it is on the disk now.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Part {
    /// `portable` (recipes, modules and other records for all devices), or 16 hexadecimal digits for a device part: a
    /// name in a device's `parts`.
    pub(crate) name: String,
    /// The device and driver that its artifacts belong to. Null for the portable part, and where no readable file names
    /// them.
    pub(crate) bound_to: Option<BoundTo>,
    /// Size of the readable files.
    pub(crate) bytes: u64,
    /// Number of readable files.
    pub(crate) segments: u64,
    /// Number of readable files that are sealed: nobody writes to them any more.
    pub(crate) sealed_segments: u64,
    /// Number of records by kind, superseded ones included: `module`, `layout`, `render_pass`, `recipe`,
    /// `device_configuration` (what is needed to create an equal device), `use`, `artifact`, `same` (references to
    /// artifacts with equal data), `identifier_pair`, `verified`, `crash_count`, `failed`, `cost` (times of compiles of
    /// which a driver gives no artifact; of one pipeline there may be several), `found` (times of calls whose pipeline
    /// the driver had), `estimates` (what asking the sources has brought), `unknown`.
    pub(crate) records: BTreeMap<String, u64>,
    /// Bytes of payloads by the same kinds, superseded records included.
    pub(crate) payload_bytes: BTreeMap<String, u64>,
    /// Number of damaged places in these files.
    pub(crate) damaged_places: u64,
    /// Files that are not used.
    pub(crate) refused_files: Vec<RefusedFile>,
}

/// A device header: what must be equal before a driver gets an artifact.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct BoundTo {
    /// VkPhysicalDeviceProperties::vendorID.
    pub(crate) vendor_id: u32,
    /// VkPhysicalDeviceProperties::deviceID.
    pub(crate) device_id: u32,
    /// VkDriverId; 0 if the driver does not tell it.
    pub(crate) driver_id: u32,
    /// `VK_DRIVER_ID_...`; null if the name is not known.
    pub(crate) driver: Option<String>,
    /// VkPhysicalDeviceProperties::driverVersion.
    pub(crate) driver_version: u32,
    /// The version as the driver's vendor writes it.
    pub(crate) driver_version_text: String,
    /// VkPhysicalDeviceProperties::pipelineCacheUUID, in hexadecimal digits.
    pub(crate) pipeline_cache_uuid: String,
    /// Length of a pointer in the program, in bytes.
    pub(crate) pointer_width: u8,
    /// Version of the way in which keys are computed.
    pub(crate) key_schema: u32,
    /// SHA-256 over the enabled features and extensions that can change generated code, in hexadecimal digits.
    pub(crate) features_digest: String,
}

/// A file that is not used.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct RefusedFile {
    /// The file's name.
    pub(crate) file: String,
    /// `truncated`, `not_yet_written`, `not_a_segment`, `unknown_version`, `unknown_flags`, `other_part`, `missing`,
    /// `symbolic_link`, `not_a_file`, `not_owned`, `others_may_write`, `unreadable`, or `put_off` (it cannot be read
    /// for now). Or the file has another device header than its folder: `other_vendor`, `other_device`, `other_driver`,
    /// `other_driver_version`, `other_pipeline_cache_uuid`, `other_pointer_width`, `other_schema`, `other_features`.
    pub(crate) reason: String,
    /// The reason in words.
    pub(crate) detail: String,
}

/// What happened to the store in these runs.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Store {
    /// Number of runs that could not use the store, by reason.
    pub(crate) unusable: BTreeMap<String, u64>,
    /// Number of refused files by reason (as in `refused_files`), once for each run and file. `put_off` counts files
    /// that a program could not wait for, or had no descriptor for, and parts that were not open in time; another
    /// thread of the program reads them. A reason that begins with `base: ` says why a base, or some of its files, were
    /// not used, and the number is that of the runs.
    pub(crate) refused: BTreeMap<String, u64>,
    /// Number of failed writes, by reason.
    pub(crate) write_errors: BTreeMap<String, u64>,
    /// Records with a wrong checksum, which were skipped.
    pub(crate) damaged_records: u64,
    /// Records that were written.
    pub(crate) written_records: u64,
    /// Bytes that were written.
    pub(crate) written_bytes: u64,
    /// Records that were not written.
    pub(crate) dropped: u64,
    /// Bytes that these runs have evicted, by cause: `expired` (another device or driver, unused for too long),
    /// `module_policy`, `application_limit`, `total_limit`.
    pub(crate) evicted_bytes: BTreeMap<String, u64>,
    /// Records that were evicted. Of a part that was evicted as a whole only the bytes count.
    pub(crate) evicted_records: u64,
    /// Bytes that compaction has written.
    pub(crate) compacted_bytes: u64,
    /// Bytes of files that compaction and eviction have freed.
    pub(crate) reclaimed_bytes: u64,
}

/// Whether the application benefits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum Benefit {
    /// Something was served.
    Some,
    /// Nothing was served, although there were runs to record and to serve.
    None,
    /// Too early to tell, as in the first run with a device, or after a driver update.
    Unknown,
}
