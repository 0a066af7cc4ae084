//! Counters of the statistics, by name, and the reasons for which a pipeline goes to the driver unchanged.

/// What a counter tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Where pipelines came from.
    Source,
    /// Why a pipeline was not ready before the program asked, where background work makes some ahead.
    Miss,
    /// What went wrong, or was lost.
    Trouble,
    /// Requests by identifier.
    Identifier,
    /// What workers did beside the program's requests.
    Background,
    /// Shader modules.
    Module,
    /// Shader objects.
    Shader,
    /// Times.
    Time,
}

/// What a counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Pipelines, or other things.
    Count,
    /// Time.
    Nanoseconds,
}

// Label and text are functions of their own: a library that calls none of them does not have the texts.
macro_rules! counters {
    ($(
        $(#[$doc:meta])*
        $variant:ident => $name:literal, $class:ident, $unit:ident, $label:literal, $text:literal;
    )*) => {
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

            /// What it tells of.
            pub const fn class(self) -> Class {
                match self { $(Count::$variant => Class::$class,)* }
            }

            /// What it counts.
            pub const fn unit(self) -> Unit {
                match self { $(Count::$variant => Unit::$unit,)* }
            }

            /// What people call it, in a word or two.
            pub const fn label(self) -> &'static str {
                match self { $(Count::$variant => $label,)* }
            }

            /// What it counts, in words that may follow the number.
            pub const fn text(self) -> &'static str {
                match self { $(Count::$variant => $text,)* }
            }
        }
    };
}

counters! {
    /// Pipelines made through an artifact of the stash that the driver confirmed to have taken.
    Served => "served", Source, Count, "served", "from the stash, without compiling";
    /// Of [`Count::Served`], the pipelines whose artifact was made on a device that enables other features.
    FromSibling => "from_sibling", Source, Count, "other features",
        "of the served: recorded while the program enabled other features";
    /// Of [`Count::Served`], the pipelines whose artifact is in a base, a stash that is only read.
    FromBase => "from_base", Source, Count, "from a base", "of the served: from a base, a stash that is only read";
    /// Pipelines that background work had finished before the program asked for them.
    Parked => "parked", Source, Count, "ready before", "finished before the program asked";
    /// Pipelines that background work finished and the program did not ask for: they were destroyed.
    ParkedUnasked => "parked_unasked", Background, Count, "ready in vain", "finished ahead, and not asked for";
    /// Of [`Count::Parked`], the pipelines that background work got from the driver's own caches, without an artifact.
    ParkedFound => "parked_found", Source, Count, "ready from driver",
        "of those ready before: from the driver's own caches";
    /// Pipelines that background work asked the driver for, and that the driver's own caches no longer had.
    FoundNoMore => "found_no_more", Background, Count, "found no more",
        "wanted ahead, and no longer in the driver's own caches";
    /// Pipelines that background work could not make ahead.
    ParkingFailed => "parking_failed", Background, Count, "not ready: failed", "could not be made ahead";
    /// Pipelines that were asked for where background work makes some ahead, and of which none was ready, because the
    /// last run did not ask for them.
    NotPlanned => "not_planned", Miss, Count, "not expected", "that the last run did not ask for";
    /// Pipelines as in [`Count::NotPlanned`], but no worker had begun to make them, or a worker was not done with them.
    AskedFirst => "asked_first", Miss, Count, "asked too early", "asked for before a worker came to them";
    /// Pipelines as in [`Count::NotPlanned`], but workers were leaving the processors to other threads.
    NoProcessorFree => "no_processor_free", Miss, Count, "no processor free", "asked for while no processor was free";
    /// Pipelines as in [`Count::NotPlanned`], but neither the stash nor the driver had what a worker makes them from.
    NotKept => "not_kept", Miss, Count, "not kept", "not kept yet";
    /// Pipelines as in [`Count::NotPlanned`], but workers never make pipelines of that kind: they are derivatives, or
    /// their layouts have immutable samplers that workers cannot use.
    NeverAhead => "never_ahead", Miss, Count, "never ahead", "of a kind that is never made ahead";
    /// Pipelines as in [`Count::NotPlanned`], but one was made with a layout that has other sampler objects.
    OtherSamplers => "other_samplers", Miss, Count, "other samplers", "made for other sampler objects";
    /// Pipelines as in [`Count::NotPlanned`], but when memory was scarce the finished pipelines were destroyed, and no
    /// more were made.
    ReleasedBefore => "released_before", Miss, Count, "given up", "given up, because memory was scarce";
    /// Pipelines as in [`Count::NotPlanned`], but the program had asked for them before.
    AskedAgain => "asked_again", Miss, Count, "asked for twice", "asked for again";
    /// Pipelines as in [`Count::NotPlanned`], but the program passes an allocator.
    OwnAllocator => "own_allocator", Miss, Count, "own allocator", "with an allocator of the program's";
    /// Pipelines made with an artifact on a device that cannot confirm that it was taken.
    Offered => "offered", Source, Count, "probably served",
        "from the stash, on a device that does not confirm it, and faster than compiling";
    /// Artifacts that the driver did not take.
    NotTaken => "not_taken", Trouble, Count, "not taken", "recorded, and refused by the driver";
    /// Artifacts of devices that enable other features that the driver did not take.
    SiblingNotTaken => "sibling_not_taken", Source, Count, "other not taken",
        "recorded with other features enabled, and not taken by the driver: no loss";
    /// Artifacts that were not handed out because processes died of them.
    Quarantined => "quarantined", Trouble, Count, "quarantined",
        "not given to the driver, because programs died of them: `vkstash quarantine`";
    /// Artifacts that were not handed out because the disk was slow: the driver got the request without them.
    NotReady => "not_ready", Trouble, Count, "disk too slow", "recorded, and not read in time";
    /// Pipelines that the driver had already: the application's warm cache or a cache of the driver's.
    DriverHad => "driver_had", Source, Count, "driver had", "in the program's or the driver's own caches";
    /// Of [`Count::DriverHad`], the pipelines that came from the driver's cache on disk: no object of the program's can
    /// have had them.
    DriverHadOnDisk => "driver_had_on_disk", Source, Count, "driver had on disk",
        "of those the driver had: from its disk cache";
    /// Of [`Count::DriverHad`], the pipelines in a companion of the program's cache, which the layer keeps beside it.
    CompanionHad => "companion_had", Source, Count, "beside the program",
        "of those the driver had: from what was served for the same shaders";
    /// Of [`Count::DriverHad`], the pipelines that took many times as long as a served call: background work is to
    /// record them.
    LeftToWorkers => "left_to_workers", Background, Count, "left for later",
        "of those the driver had: to be recorded by workers";
    /// Of [`Count::LeftToWorkers`], the pipelines that background work has recorded.
    RecordedByWorkers => "recorded_by_workers", Background, Count, "recorded later",
        "of those left for later: recorded";
    /// Of [`Count::LeftToWorkers`], the pipelines that the driver did not have when the call passed an empty cache.
    RefusedToWorkers => "refused_to_workers", Background, Count, "not had later",
        "of those left for later: the driver did not have them with an empty cache";
    /// Of [`Count::LeftToWorkers`], the pipelines that background work could not make again, and those for which the
    /// driver gave an error or no data.
    RecordingFailed => "recording_failed", Background, Count, "recording failed",
        "of those left for later: could not be recorded";
    /// Pipelines that the driver compiled and whose artifact was queued for the store.
    Compiled => "compiled", Source, Count, "compiled", "by the driver, and recorded";
    /// Pipelines that the driver compiled and of which no artifact could or should be recorded. A recipe may be.
    CompiledUnrecorded => "compiled_unrecorded", Source, Count, "compiled, not kept",
        "by the driver, and not recorded";
    /// Of [`Count::CompiledUnrecorded`], the pipelines on a driver whose pipeline caches hold nothing to keep.
    NothingKept => "nothing_kept", Source, Count, "driver keeps none",
        "of those not kept: the driver's caches keep nothing that a later run could use";
    /// Of [`Count::CompiledUnrecorded`], the pipelines made while compilations were disabled.
    SwitchedOff => "switched_off", Source, Count, "switched off",
        "of those not kept: compilations were disabled (`vkstash cache`)";
    /// Libraries without shaders, and links without link-time optimization: the driver has nothing to compile
    /// and gets the call as it is.
    NothingToCompile => "nothing_to_compile", Source, Count, "nothing to compile",
        "libraries without shaders, and fast links";
    /// Requests answered with VK_PIPELINE_COMPILE_REQUIRED.
    CompileRequired => "compile_required", Source, Count, "compile required", "the program asked not to compile";
    /// Requests that the driver answered with an error.
    Failed => "failed", Trouble, Count, "failed", "the driver answered with an error";
    /// Pipelines handed to the driver unchanged, because they may not or can not be cached.
    Bypassed => "bypassed", Source, Count, "bypassed", "left to the driver; in no percentage";
    /// Requests that named a stage by identifier only.
    IdentifierRequests => "identifier_requests", Identifier, Count, "by identifier",
        "asked for without shader code, by identifier";
    /// Of [`Count::IdentifierRequests`], the requests that the stash served.
    IdentifierServed => "identifier_served", Identifier, Count, "identifier served", "of those by identifier: served";
    /// Requests by identifier that the stash would have answered, had it still the code of their modules.
    ModuleMissing => "module_missing", Identifier, Count, "code missing",
        "of those by identifier: the shader code is no longer kept";
    /// Pipelines that the driver compiled and recorded although the stash had served them before on this
    /// device: their artifacts were evicted or lost.
    ServedBefore => "served_before", Trouble, Count, "served before",
        "compiled again: what had been recorded was evicted or lost";
    /// Shader modules created by the program.
    Modules => "modules", Module, Count, "shader modules", "created by the program";
    /// Shader modules that the stash had not seen before.
    ModulesNew => "modules_new", Module, Count, "new modules", "of the shader modules: not seen before";
    /// Shader modules that were neither looked for nor recorded, because conversions were disabled.
    ModulesSwitchedOff => "modules_switched_off", Module, Count, "modules ignored",
        "of the shader modules: conversions were disabled (`vkstash cache`)";
    /// Shader objects that the driver made of binaries of the stash.
    ShadersServed => "shaders_served", Shader, Count, "shaders served", "shader objects from the stash, without compiling";
    /// Of [`Count::ShadersServed`], those whose binaries another version of the driver has made.
    ShadersOtherVersion => "shaders_other_version", Shader, Count, "other version",
        "of the shaders served: made by another version of the driver";
    /// Shader objects that the driver compiled, or had in its own caches.
    ShadersCompiled => "shaders_compiled", Shader, Count, "shaders compiled",
        "shader objects that the driver made of their code";
    /// Of [`Count::ShadersCompiled`], those whose binaries were recorded.
    ShadersRecorded => "shaders_recorded", Shader, Count, "shaders recorded",
        "of the shader objects that the driver made of their code: recorded";
    /// Shader objects whose recorded binaries the driver did not take.
    ShadersNotTaken => "shaders_not_taken", Shader, Count, "shaders not taken",
        "shader objects that were recorded, and refused by the driver";
    /// Shader objects that the program made of binaries of its own, or that could not be described.
    ShadersPassedOn => "shaders_passed_on", Shader, Count, "shaders passed on",
        "shader objects that the driver got unchanged";
    /// Records that were not queued because the writer's queue was full.
    Dropped => "dropped", Trouble, Count, "dropped", "not recorded: too much at once";
    /// Creation calls, or create infos of one, in which the layer failed: the driver got them untouched, unless it had
    /// made the pipeline by then.
    InternalFailures => "internal_failures", Trouble, Count, "internal failures",
        "calls in which the layer failed; please report them";
    /// Nanoseconds spent in driver compiles that were recorded or could have been.
    CompileNanos => "compile_ns", Time, Nanoseconds, "time compiling", "in the driver's compiles";
    /// Of [`Count::CompileNanos`], nanoseconds for pipelines that the stash had served before.
    ServedBeforeNanos => "served_before_ns", Time, Nanoseconds, "time again",
        "of the time compiling: for what was served before";
    /// Nanoseconds spent in served calls.
    ServedNanos => "served_ns", Time, Nanoseconds, "time serving", "in served calls";
    /// Nanoseconds spent in handing over parked pipelines.
    ParkedNanos => "parked_ns", Time, Nanoseconds, "time handing over", "in calls whose pipeline was ready before";
    /// Nanoseconds that the served and the parked pipelines had cost when they were compiled, less what serving cost.
    /// Each counts once a run: the driver would have had it in memory from then on.
    SavedNanos => "saved_ns", Time, Nanoseconds, "time saved",
        "at most: what compiling had taken, less what serving took";
    /// Of [`Count::SavedNanos`], nanoseconds for pipelines that workers compiled in this run, while the program did
    /// something else.
    AheadNanos => "compiled_ahead_ns", Time, Nanoseconds, "compiled ahead",
        "of the time saved: compiled by workers in the same run";
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
    /// Whether this version leaves such pipelines to the driver by design.
    pub const fn is_by_design(self) -> bool {
        matches!(
            self,
            BypassReason::RayTracing
                | BypassReason::OwnBinaries
                | BypassReason::NotCacheable
                | BypassReason::Statistics
        )
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_counter_has_a_text_and_a_label_of_its_own() {
        for (place, what) in Count::ALL.iter().enumerate() {
            let (label, text) = (what.label(), what.text());
            assert!(!label.is_empty() && !text.is_empty() && !text.ends_with('.'), "{what:?}");
            assert!(label.len() <= 18, "{what:?}: labels are a column");
            let is_other = |other: &&Count| other.label() == label || other.text() == text;
            assert_eq!(Count::ALL[place + 1..].iter().find(is_other), None, "{what:?}");
            let is_time = what.name().ends_with("_ns");
            assert_eq!((what.class() == Class::Time, what.unit() == Unit::Nanoseconds), (is_time, is_time));
        }
    }

    #[test]
    fn texts_use_no_word_of_this_project_alone() {
        for what in Count::ALL {
            let shown = format!("{} {}", what.label(), what.text());
            for word in ["artifact", "recipe", "parked", "sibling", "companion", "device configuration"] {
                assert!(!shown.contains(word), "{shown}");
            }
        }
    }
}
