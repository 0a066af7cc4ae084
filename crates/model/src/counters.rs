//! What is counted, by name: counters, and the reasons for which a pipeline goes to the driver unchanged.

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
    /// Of [`Count::DriverHad`], the ones that took many times as long as a served call: background work is to record
    /// them.
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
