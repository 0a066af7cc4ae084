//! Counters of one device in this process, and the report that is made of them.
//!
//! Counting must cost a served call nothing that threads could queue for, so the counters are spread over
//! a few cache lines and added up only when somebody asks. Whoever makes reports is told of the first change
//! since the last one, whatever was counted.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Mutex, OnceLock};

use vkstash_store::base::util::lock;
use vkstash_store::reports::model::BypassReport;

macro_rules! counters {
    ($($(#[$doc:meta])* $variant:ident => $name:literal,)*) => {
        /// What is counted. The names are part of the statistics' stable JSON form.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(usize)]
        pub enum Count { $($(#[$doc])* $variant,)* }

        impl Count {
            /// Every counter, in the order in which reports list them.
            pub const ALL: &'static [Count] = &[$(Count::$variant,)*];

            /// The counter's name in reports and in JSON.
            pub const fn name(self) -> &'static str {
                match self { $(Count::$variant => $name,)* }
            }
        }
    };
}

counters! {
    /// Pipelines made through an artifact of the stash that the driver confirmed to have taken.
    Served => "served",
    /// Of those, the ones that were made of pipeline binaries.
    ServedByBinary => "served_by_binary",
    /// Of those, the ones whose artifact was made on a device that enables other features.
    FromSibling => "from_sibling",
    /// Of those, the ones whose artifact is in a base.
    FromBase => "from_base",
    /// Pipelines that background work had finished before the program asked for them.
    Parked => "parked",
    /// Pipelines that background work finished and the program did not ask for: they were destroyed.
    ParkedUnasked => "parked_unasked",
    /// Of [`Count::Parked`], the ones that background work had of the driver's own caches, without an artifact.
    ParkedFound => "parked_found",
    /// Pipelines that background work asked the driver for, and that its own caches had no longer.
    FoundNoMore => "found_no_more",
    /// Pipelines that background work could not make ahead.
    ParkingFailed => "parking_failed",
    /// Pipelines that were asked for where background work makes some ahead, and of which none was ready, because the
    /// last run did not ask for them.
    NotPlanned => "not_planned",
    /// The same, because no worker had come to them, or the one that made it was late.
    AskedFirst => "asked_first",
    /// The same, while workers left the processors to others.
    NoProcessorFree => "no_processor_free",
    /// The same, because neither the stash nor the driver had what a worker could have made it of for this call.
    NotKept => "not_kept",
    /// The same, because what was ready was destroyed, and nothing more was made, when memory was scarce.
    ReleasedBefore => "released_before",
    /// The same, because the program had asked for them before.
    AskedAgain => "asked_again",
    /// The same, because the program passes an allocator.
    OwnAllocator => "own_allocator",
    /// Pipelines made with an artifact on a device that cannot confirm that it was taken.
    Offered => "offered",
    /// Artifacts that the driver did not take.
    NotTaken => "not_taken",
    /// Artifacts of devices that enable other features that the driver did not take.
    SiblingNotTaken => "sibling_not_taken",
    /// Artifacts that were not handed out because processes died of them.
    Quarantined => "quarantined",
    /// Artifacts that were not handed out because the disk was slow: the driver got the request without them.
    NotReady => "not_ready",
    /// Pipelines that the driver had already: the application's warm cache or a cache of the driver's.
    DriverHad => "driver_had",
    /// Of those, the ones that the driver had on its disk: no object of the program's can have had them.
    DriverHadOnDisk => "driver_had_on_disk",
    /// Of those, the ones in a companion of the program's cache.
    CompanionHad => "companion_had",
    /// Of [`Count::DriverHad`], the ones that took many times as long as a served call: background work is to record them.
    LeftToWorkers => "left_to_workers",
    /// Of those, the ones that background work has recorded.
    RecordedByWorkers => "recorded_by_workers",
    /// Those that the driver did not have beside an empty cache.
    RefusedToWorkers => "refused_to_workers",
    /// Those that background work could not make again, or the driver answered with an error or gave no data of.
    RecordingFailed => "recording_failed",
    /// Pipelines that the driver compiled and whose artifact was queued for the store.
    Compiled => "compiled",
    /// Pipelines that the driver compiled and of which no artifact could or should be recorded. A recipe may be.
    CompiledUnrecorded => "compiled_unrecorded",
    /// Of those, the ones on a driver whose pipeline caches hold nothing that could be kept.
    NothingKept => "nothing_kept",
    /// Of those, the ones while compilations were disabled.
    SwitchedOff => "switched_off",
    /// Libraries without shaders, and links without link-time optimization: the driver has nothing to compile
    /// and gets the call as it is.
    NothingToCompile => "nothing_to_compile",
    /// Requests answered with VK_PIPELINE_COMPILE_REQUIRED.
    CompileRequired => "compile_required",
    /// Requests that the driver answered with an error.
    Failed => "failed",
    /// Pipelines handed to the driver unchanged, because they may not or can not be cached.
    Bypassed => "bypassed",
    /// Requests that named a stage by identifier only.
    IdentifierRequests => "identifier_requests",
    /// Of those, the ones that the stash served.
    IdentifierServed => "identifier_served",
    /// Of those, the ones that were compiled from the stash's SPIR-V, because VKSTASH_COMPILE_STORED says so.
    CompiledFromStored => "rehydrated",
    /// Requests by identifier that the stash would have answered, had it still the code of their modules.
    ModuleMissing => "module_missing",
    /// Pipelines that the driver compiled and recorded although the stash had served them before on this
    /// device: their artifacts were evicted or lost.
    ServedBefore => "served_before",
    /// Shader modules created by the program.
    Modules => "modules",
    /// Shader modules that the stash had not seen before.
    ModulesNew => "modules_new",
    /// Shader modules that were neither looked for nor recorded, because conversions were disabled.
    ModulesSwitchedOff => "modules_switched_off",
    /// Records that were not queued because the writer's queue was full.
    Dropped => "dropped",
    /// Creation calls, or create infos of one, in which the layer failed: the driver got them untouched, unless it had
    /// made the pipeline by then.
    InternalFailures => "internal_failures",
    /// Nanoseconds spent in driver compiles that were recorded or could have been.
    CompileNanos => "compile_ns",
    /// Of those, nanoseconds for pipelines that the stash had served before.
    ServedBeforeNanos => "served_before_ns",
    /// Nanoseconds spent in served calls.
    ServedNanos => "served_ns",
    /// Nanoseconds spent in handing over parked pipelines.
    ParkedNanos => "parked_ns",
    /// Nanoseconds that the served and the parked pipelines had cost when they were compiled, less what serving cost.
    /// Each counts once a run: the driver would have had it in memory from then on.
    SavedNanos => "saved_ns",
    /// Of those, nanoseconds for pipelines that workers compiled in this run, while the program did something else.
    AheadNanos => "compiled_ahead_ns",
}

const SHARDS: usize = 16;
const WIDTH: usize = Count::ALL.len();

// As CachePadded of crossbeam-utils, which would be a dependency for this one attribute.
#[repr(align(128))]
struct Shard([AtomicU64; WIDTH]);

// Arrays of more than 32 elements have no Default of their own.
impl Default for Shard {
    fn default() -> Shard {
        Shard(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

/// Why a pipeline was handed to the driver unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BypassReason {
    /// A structure in a pNext chain that has no row in the table of known structures.
    UnknownStructure,
    /// A known structure or flag whose content must not be cached (capture/replay handles, addresses).
    NotCacheable,
    /// The program asks for the pipeline's statistics or internal representations.
    Statistics,
    /// Ray tracing pipelines of VK_NV_ray_tracing.
    RayTracing,
    /// The program makes the pipeline from pipeline binaries of its own.
    OwnBinaries,
    /// A flag bit that this version does not know.
    UnknownFlag,
    /// A shader module, layout, render pass or sampler that could not be described.
    OpaqueObject,
    /// An object that the layer has not seen being created.
    UnknownObject,
    /// The create info's own sType is not what the command expects.
    WrongStructure,
}

impl BypassReason {
    /// The reason's name in reports and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            BypassReason::UnknownStructure => "unknown_structure",
            BypassReason::NotCacheable => "not_cacheable",
            BypassReason::Statistics => "statistics",
            BypassReason::RayTracing => "ray_tracing",
            BypassReason::OwnBinaries => "own_binaries",
            BypassReason::UnknownFlag => "unknown_flag",
            BypassReason::OpaqueObject => "opaque_object",
            BypassReason::UnknownObject => "unknown_object",
            BypassReason::WrongStructure => "wrong_structure",
        }
    }
}

/// The counters of one device.
#[derive(Default)]
pub struct Counters {
    shards: [Shard; SHARDS],
    bypassed: Mutex<BTreeMap<(BypassReason, i32), u64>>,
    /// Something was counted that no report has.
    changed: AtomicBool,
    listener: OnceLock<Listener>,
}

/// Told that a report is due.
type Listener = Box<dyn Fn() + Send + Sync>;

fn shard() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static MINE: usize = NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS);
    // A thread that is leaving may count without it.
    MINE.try_with(|mine| *mine).unwrap_or(0)
}

impl Counters {
    /// Adds one.
    pub fn count(&self, what: Count) {
        self.add(what, 1);
    }

    /// Adds `amount`, in the counter's unit.
    pub fn add(&self, what: Count, amount: u64) {
        // In one order with `take_changed`: either the report has this amount, or another one is due.
        self.shards[shard()].0[what as usize].fetch_add(amount, Ordering::SeqCst);
        if !self.changed.load(Ordering::SeqCst) {
            self.tell();
        }
    }

    #[cold]
    fn tell(&self) {
        if self.changed.swap(true, Ordering::SeqCst) {
            return;
        }
        // With the fence in `listen`: either this thread sees the listener or that one sees the change.
        fence(Ordering::SeqCst);
        if let Some(listener) = self.listener.get() {
            listener();
        }
    }

    /// Who is told of the first change since [`Counters::take_changed`], on the thread that counts: it must
    /// neither wait nor write. The first listener stays; it is told of what was counted before.
    pub fn listen(&self, listener: impl Fn() + Send + Sync + 'static) {
        if self.listener.set(Box::new(listener)).is_err() {
            return;
        }
        fence(Ordering::SeqCst);
        if self.changed.load(Ordering::SeqCst) {
            if let Some(listener) = self.listener.get() {
                listener();
            }
        }
    }

    /// Whether somebody listens.
    pub fn has_listener(&self) -> bool {
        self.listener.get().is_some()
    }

    /// To be called before the counters are read for a report: what is counted from here on is told anew.
    pub fn take_changed(&self) -> bool {
        self.changed.load(Ordering::Relaxed) && self.changed.swap(false, Ordering::SeqCst)
    }

    /// Counts one pipeline that went to the driver unchanged, because of the structure `s_type` (0 where no
    /// structure is to blame). Says whether this is the first of its kind in this process.
    pub fn bypass(&self, reason: BypassReason, s_type: i32) -> bool {
        let first = {
            let mut map = lock(&self.bypassed);
            let seen = map.entry((reason, s_type)).or_default();
            *seen += 1;
            *seen == 1
        };
        // Last, because it tells that a report is due.
        self.count(Count::Bypassed);
        first
    }

    /// The counter's value, added up over all threads.
    pub fn get(&self, what: Count) -> u64 {
        self.shards.iter().map(|shard| shard.0[what as usize].load(Ordering::SeqCst)).sum()
    }

    /// Every counter that is not zero, by name.
    pub fn values(&self) -> BTreeMap<String, u64> {
        let nonzero = Count::ALL.iter().map(|&what| (what.name().to_owned(), self.get(what)));
        nonzero.filter(|(_, value)| *value != 0).collect()
    }

    /// The bypassed pipelines by reason and structure.
    pub fn bypasses(&self) -> Vec<BypassReport> {
        let map = lock(&self.bypassed);
        map.iter()
            .map(|(&(reason, s_type), &count)| BypassReport {
                reason: reason.name().to_owned(),
                s_type,
                count,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_add_up_over_threads() {
        let counters = Counters::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| counters.count(Count::Served)));
            }
        });
        assert_eq!(counters.get(Count::Served), 4000);
        assert_eq!(counters.values(), BTreeMap::from([("served".to_owned(), 4000)]));
    }

    #[test]
    fn the_first_change_is_told_and_after_a_report_the_next() {
        let (counters, told) = (Counters::default(), std::sync::Arc::new(AtomicU64::new(0)));
        let heard = || told.load(Ordering::Relaxed);
        counters.count(Count::Modules);
        let listener = told.clone();
        counters.listen(move || _ = listener.fetch_add(1, Ordering::Relaxed));
        assert_eq!(heard(), 1, "of what was counted before");
        Count::ALL.iter().for_each(|&what| counters.count(what));
        assert_eq!(heard(), 1, "no report has been made since");
        for (number, &what) in Count::ALL.iter().enumerate() {
            assert!(counters.take_changed() && !counters.take_changed());
            counters.count(what);
            assert_eq!(heard(), number as u64 + 2, "{what:?}");
        }
        assert!(counters.take_changed());
        counters.bypass(BypassReason::UnknownFlag, 0);
        assert_eq!(heard(), Count::ALL.len() as u64 + 2);
    }

    #[test]
    fn a_bypass_is_counted_by_reason_and_structure_and_reported_as_new_once() {
        let counters = Counters::default();
        assert!(counters.bypass(BypassReason::UnknownStructure, 7));
        assert!(!counters.bypass(BypassReason::UnknownStructure, 7));
        assert!(counters.bypass(BypassReason::UnknownStructure, 8));
        assert_eq!(counters.get(Count::Bypassed), 3);
        let counts: Vec<_> = counters.bypasses().iter().map(|b| (b.s_type, b.count)).collect();
        assert_eq!(counts, [(7, 2), (8, 1)]);
    }
}
