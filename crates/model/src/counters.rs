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
    /// Of [`Count::Served`], the pipelines that were made of pipeline binaries (VK_KHR_pipeline_binary).
    ServedByBinary => "served_by_binary",
    /// Of [`Count::Served`], the pipelines whose artifact was made on a device that enables other features.
    FromSibling => "from_sibling",
    /// Of [`Count::Served`], the pipelines whose artifact is in a base, a stash that is only read.
    FromBase => "from_base",
    /// Pipelines that background work had finished before the program asked for them.
    Parked => "parked",
    /// Pipelines that background work finished and the program did not ask for: they were destroyed.
    ParkedUnasked => "parked_unasked",
    /// Of [`Count::Parked`], the pipelines that background work got from the driver's own caches, without an artifact.
    ParkedFound => "parked_found",
    /// Pipelines that background work asked the driver for, and that the driver's own caches no longer had.
    FoundNoMore => "found_no_more",
    /// Pipelines that background work could not make ahead.
    ParkingFailed => "parking_failed",
    /// Pipelines that were asked for where background work makes some ahead, and of which none was ready, because the
    /// last run did not ask for them.
    NotPlanned => "not_planned",
    /// Pipelines as in [`Count::NotPlanned`], but no worker had begun to make them, or a worker was not done with them.
    AskedFirst => "asked_first",
    /// Pipelines as in [`Count::NotPlanned`], but workers were leaving the processors to other threads.
    NoProcessorFree => "no_processor_free",
    /// Pipelines as in [`Count::NotPlanned`], but neither the stash nor the driver had what a worker makes them from.
    NotKept => "not_kept",
    /// Pipelines as in [`Count::NotPlanned`], but when memory was scarce the finished pipelines were destroyed, and no
    /// more were made.
    ReleasedBefore => "released_before",
    /// Pipelines as in [`Count::NotPlanned`], but the program had asked for them before.
    AskedAgain => "asked_again",
    /// Pipelines as in [`Count::NotPlanned`], but the program passes an allocator.
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
    /// Of [`Count::DriverHad`], the pipelines that came from the driver's cache on disk: no object of the program's can
    /// have had them.
    DriverHadOnDisk => "driver_had_on_disk",
    /// Of [`Count::DriverHad`], the pipelines in a companion of the program's cache, which the layer keeps beside it.
    CompanionHad => "companion_had",
    /// Of [`Count::DriverHad`], the pipelines that took many times as long as a served call: background work is to
    /// record them.
    LeftToWorkers => "left_to_workers",
    /// Of [`Count::LeftToWorkers`], the pipelines that background work has recorded.
    RecordedByWorkers => "recorded_by_workers",
    /// Of [`Count::LeftToWorkers`], the pipelines that the driver did not have when the call passed an empty cache.
    RefusedToWorkers => "refused_to_workers",
    /// Of [`Count::LeftToWorkers`], the pipelines that background work could not make again, and those for which the
    /// driver gave an error or no data.
    RecordingFailed => "recording_failed",
    /// Pipelines that the driver compiled and whose artifact was queued for the store.
    Compiled => "compiled",
    /// Pipelines that the driver compiled and of which no artifact could or should be recorded. A recipe may be.
    CompiledUnrecorded => "compiled_unrecorded",
    /// Of [`Count::CompiledUnrecorded`], the pipelines on a driver whose pipeline caches hold nothing to keep.
    NothingKept => "nothing_kept",
    /// Of [`Count::CompiledUnrecorded`], the pipelines made while compilations were disabled.
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
    /// Of [`Count::IdentifierRequests`], the requests that the stash served.
    IdentifierServed => "identifier_served",
    /// Of [`Count::IdentifierRequests`], the requests whose pipeline was compiled from the stash's SPIR-V, because
    /// VKSTASH_COMPILE_STORED says so.
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
    /// Of [`Count::CompileNanos`], nanoseconds for pipelines that the stash had served before.
    ServedBeforeNanos => "served_before_ns",
    /// Nanoseconds spent in served calls.
    ServedNanos => "served_ns",
    /// Nanoseconds spent in handing over parked pipelines.
    ParkedNanos => "parked_ns",
    /// Nanoseconds that the served and the parked pipelines had cost when they were compiled, less what serving cost.
    /// Each counts once a run: the driver would have had it in memory from then on.
    SavedNanos => "saved_ns",
    /// Of [`Count::SavedNanos`], nanoseconds for pipelines that workers compiled in this run, while the program did
    /// something else.
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
