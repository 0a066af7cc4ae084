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

// Label, text and meaning are functions of their own: a library that calls none of them does not have the texts.
macro_rules! counters {
    ($(
        $(#[doc = $doc:literal])*
        $variant:ident => $name:literal, $class:ident, $unit:ident, $label:literal, $text:literal;
    )*) => {
        /// What is counted. The names are part of the statistics' stable JSON form.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(usize)]
        pub enum Count { $($(#[doc = $doc])* $variant,)* }

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

            /// What it counts, in sentences: its documentation. Other counters are named as in JSON.
            pub const fn meaning(self) -> &'static str {
                match self { $(Count::$variant => concat!($($doc),*).trim_ascii(),)* }
            }
        }
    };
}

counters! {
    /// Pipelines created from an artifact of the stash that the driver confirmed to have taken.
    Served => "served", Source, Count, "served", "from the stash, without compiling";
    /// Of `served`, `parked` and `offered`: pipelines created from an artifact of a device that enabled other features.
    FromSibling => "from_sibling", Source, Count, "other features",
        "of the served: recorded while the program enabled other features";
    /// Of `served`, `parked` and `offered`: pipelines created from an artifact of a base, a stash that is only read.
    FromBase => "from_base", Source, Count, "from a base", "of the served: from a base, a stash that is only read";
    /// Pipelines that background work had finished before the program asked for them. They do not count as `served`.
    Parked => "parked", Source, Count, "ready before", "finished before the program asked";
    /// Pipelines that background work finished and the program did not ask for. They were destroyed with the device, or
    /// when memory was scarce.
    ParkedUnasked => "parked_unasked", Background, Count, "ready in vain", "finished ahead, and not asked for";
    /// Of `parked`: pipelines that background work got from the driver's own caches, without an artifact.
    ParkedFound => "parked_found", Source, Count, "ready from driver",
        "of those ready before: from the driver's own caches";
    /// Pipelines that background work asked the driver for, and that the driver's own caches no longer had: nothing was
    /// compiled.
    FoundNoMore => "found_no_more", Background, Count, "found no more",
        "wanted ahead, and no longer in the driver's own caches";
    /// Pipelines that background work could not make ahead. Those of a kind that it never makes do not count.
    ParkingFailed => "parking_failed", Background, Count, "not ready: failed", "could not be made ahead";
    /// Requests for which no pipeline was ready, although background work makes some ahead, because the last run did
    /// not ask for it. So all requests of a first run count here. Like the other reasons why nothing was ready, the
    /// request also counts where it ended.
    NotPlanned => "not_planned", Miss, Count, "not expected", "that the last run did not ask for";
    /// Requests as in `not_planned`, but no worker had begun to make the pipeline, or the worker that made it was late.
    AskedFirst => "asked_first", Miss, Count, "asked too early", "asked for before a worker came to them";
    /// Requests as in `asked_first`, while workers left the processors to other threads.
    NoProcessorFree => "no_processor_free", Miss, Count, "no processor free", "asked for while no processor was free";
    /// Requests as in `not_planned`, but neither the stash nor the driver had what a worker could have made the
    /// pipeline from for this call.
    NotKept => "not_kept", Miss, Count, "not kept", "not kept yet";
    /// Requests as in `not_planned`, but pipelines of that kind are never made ahead: derivatives, links, libraries
    /// without shaders, and pipelines whose layouts have immutable samplers that workers cannot use.
    NeverAhead => "never_ahead", Miss, Count, "never ahead", "of a kind that is never made ahead";
    /// Requests as in `not_planned`, but the pipeline was made with a layout that has other sampler objects.
    OtherSamplers => "other_samplers", Miss, Count, "other samplers", "made for other sampler objects";
    /// Requests as in `not_planned`, but memory was scarce: pipelines that were ready were destroyed, and no more were
    /// made.
    ReleasedBefore => "released_before", Miss, Count, "given up", "given up, because memory was scarce";
    /// Requests as in `not_planned`, but the program had asked for the pipeline before.
    AskedAgain => "asked_again", Miss, Count, "asked for twice", "asked for again";
    /// Requests as in `not_planned`, but the program passes an allocator.
    OwnAllocator => "own_allocator", Miss, Count, "own allocator", "with an allocator of the program's";
    /// Pipelines created with an artifact that the driver cannot confirm to have taken, or that it refused when asked,
    /// and that then took at most a quarter of the time of the compile and 200 us less.
    Offered => "offered", Source, Count, "probably served",
        "from the stash, on a device that does not confirm it, and faster than compiling";
    /// Artifacts that the driver did not take. The request also counts where it ended.
    NotTaken => "not_taken", Trouble, Count, "not taken", "recorded, and refused by the driver";
    /// Artifacts of devices with other enabled features that the driver did not take. The request goes on as if there
    /// were none.
    SiblingNotTaken => "sibling_not_taken", Source, Count, "other not taken",
        "recorded with other features enabled, and not taken by the driver: no loss";
    /// Artifacts that were not given to the driver because two processes had died while a driver looked at them. The
    /// request also counts where it ended.
    Quarantined => "quarantined", Trouble, Count, "quarantined",
        "not given to the driver, because programs died of them: `vkstash quarantine`";
    /// Artifacts that were not given to the driver because the disk was slow: the guard file was not there yet, or
    /// crash counts were not read yet. The request also counts where it ended.
    NotReady => "not_ready", Trouble, Count, "disk too slow", "recorded, and not read in time";
    /// Pipelines that the driver had already, in the program's cache or in a cache of its own.
    DriverHad => "driver_had", Source, Count, "driver had", "in the program's or the driver's own caches";
    /// Of `driver_had`: pipelines that no object in the driver's memory can have had, because none of the program's
    /// calls in this process had used their shaders. They came from the driver's disk cache.
    DriverHadOnDisk => "driver_had_on_disk", Source, Count, "driver had on disk",
        "of those the driver had: from its disk cache";
    /// Of `driver_had`: pipelines from a companion, a cache of the layer's with the pipelines that the program's cache
    /// would hold without the stash.
    CompanionHad => "companion_had", Source, Count, "beside the program",
        "of those the driver had: from what was served for the same shaders";
    /// Of `driver_had`: pipelines of which the stash has no artifact, and that background work is to record.
    LeftToWorkers => "left_to_workers", Background, Count, "left for later",
        "of those the driver had: to be recorded by workers";
    /// Of `left_to_workers`: pipelines that workers have recorded. Those that the program had compiled meanwhile count,
    /// too. What is in none of `recorded_by_workers`, `refused_to_workers` and `recording_failed` was not reached
    /// before the program ended, or was dropped.
    RecordedByWorkers => "recorded_by_workers", Background, Count, "recorded later",
        "of those left for later: recorded";
    /// Of `left_to_workers`: pipelines that the driver did not have when it was asked with an empty cache.
    RefusedToWorkers => "refused_to_workers", Background, Count, "not had later",
        "of those left for later: the driver did not have them with an empty cache";
    /// Of `left_to_workers`: pipelines that workers could not make again, or for which the driver gave an error or no
    /// data.
    RecordingFailed => "recording_failed", Background, Count, "recording failed",
        "of those left for later: could not be recorded";
    /// Pipelines that the driver created itself, and whose artifact was queued for the store. No driver says whether it
    /// had them on its own disk. Where the driver is not asked first (NVIDIA, in calls with a cache that the program
    /// has not loaded), pipelines that it had count here, with the little time that they took in `compile_ns`.
    Compiled => "compiled", Source, Count, "compiled", "by the driver, and recorded";
    /// Pipelines that the driver compiled and of which no artifact was recorded.
    CompiledUnrecorded => "compiled_unrecorded", Source, Count, "compiled, not kept",
        "by the driver, and not recorded";
    /// Of `compiled_unrecorded`: pipelines on a driver whose pipeline caches hold nothing that could be kept. Their
    /// recipes are recorded, unless the mode of background work (`VKSTASH_BACKGROUND`, or the setting `background`) is
    /// `disabled` or `profiling`.
    NothingKept => "nothing_kept", Source, Count, "driver keeps none",
        "of those not kept: the driver's caches keep nothing that a later run could use";
    /// Of `compiled_unrecorded`: pipelines created while `compilations` were disabled (`vkstash cache`,
    /// `vkstash_cache_control`).
    SwitchedOff => "switched_off", Source, Count, "switched off",
        "of those not kept: compilations were disabled (`vkstash cache`)";
    /// Graphics pipeline libraries without shaders, and links without link-time optimization. The driver has nothing to
    /// compile and gets the call as it is.
    NothingToCompile => "nothing_to_compile", Source, Count, "nothing to compile",
        "libraries without shaders, and fast links";
    /// Requests that were answered with VK_PIPELINE_COMPILE_REQUIRED.
    CompileRequired => "compile_required", Source, Count, "compile required", "the program asked not to compile";
    /// Requests that the driver answered with an error.
    Failed => "failed", Trouble, Count, "failed", "the driver answered with an error";
    /// Pipelines that were handed to the driver unchanged, because they must not or cannot be cached. `bypassed` beside
    /// the counters says why. They count in no percentage.
    Bypassed => "bypassed", Source, Count, "bypassed", "left to the driver; in no percentage";
    /// Requests that named a stage by its identifier only.
    IdentifierRequests => "identifier_requests", Identifier, Count, "by identifier",
        "asked for without shader code, by identifier";
    /// Of `identifier_requests`: requests that the stash served.
    IdentifierServed => "identifier_served", Identifier, Count, "identifier served", "of those by identifier: served";
    /// Requests by identifier for which the stash has an artifact, but not the code of the modules, which the driver
    /// needs. They were answered with VK_PIPELINE_COMPILE_REQUIRED.
    ModuleMissing => "module_missing", Identifier, Count, "code missing",
        "of those by identifier: the shader code is no longer kept";
    /// Pipelines that were compiled and recorded although the stash had served them before on this device: their
    /// artifacts were evicted or lost. They also count as `compiled`.
    ServedBefore => "served_before", Trouble, Count, "served before",
        "compiled again: what had been recorded was evicted or lost";
    /// Shader modules that the program created.
    Modules => "modules", Module, Count, "shader modules", "created by the program";
    /// Of `modules`: shader modules that the stash did not have.
    ModulesNew => "modules_new", Module, Count, "new modules", "of the shader modules: not seen before";
    /// Of `modules`: shader modules created while `conversions` were disabled. They were neither looked for nor
    /// recorded.
    ModulesSwitchedOff => "modules_switched_off", Module, Count, "modules ignored",
        "of the shader modules: conversions were disabled (`vkstash cache`)";
    /// Shader objects that the driver made from binaries of the stash.
    ShadersServed => "shaders_served", Shader, Count, "shaders served", "shader objects from the stash, without compiling";
    /// Of `shaders_served`: shader objects whose binaries another version of the driver has made.
    ShadersOtherVersion => "shaders_other_version", Shader, Count, "other version",
        "of the shaders served: made by another version of the driver";
    /// Shader objects that the driver made from their code: it compiled them, or had them in its own caches.
    ShadersCompiled => "shaders_compiled", Shader, Count, "shaders compiled",
        "shader objects that the driver made of their code";
    /// Of `shaders_compiled`: shader objects whose binaries were recorded.
    ShadersRecorded => "shaders_recorded", Shader, Count, "shaders recorded",
        "of the shader objects that the driver made of their code: recorded";
    /// Shader objects whose recorded binaries the driver refused, or answered with an error. They also count as
    /// `shaders_compiled`.
    ShadersNotTaken => "shaders_not_taken", Shader, Count, "shaders not taken",
        "shader objects that were recorded, and refused by the driver";
    /// Shader objects that the program made from binaries of its own, or that could not be described.
    ShadersPassedOn => "shaders_passed_on", Shader, Count, "shaders passed on",
        "shader objects that the driver got unchanged";
    /// Records that were not queued because the writer's queue was full.
    Dropped => "dropped", Trouble, Count, "dropped", "not recorded: too much at once";
    /// Creation calls, or create infos in them, in which the layer failed. The driver got them unchanged, unless it had
    /// created the pipeline already.
    InternalFailures => "internal_failures", Trouble, Count, "internal failures",
        "calls in which the layer failed; please report them";
    /// Nanoseconds in the driver's compiles. On drivers whose caches keep nothing, in the modes of background work
    /// `disabled` and `profiling`: nanoseconds in all calls.
    CompileNanos => "compile_ns", Time, Nanoseconds, "time compiling", "in the driver's compiles";
    /// Of `compile_ns`: nanoseconds for the pipelines in `served_before`.
    ServedBeforeNanos => "served_before_ns", Time, Nanoseconds, "time again",
        "of the time compiling: for what was served before";
    /// Nanoseconds in served calls.
    ServedNanos => "served_ns", Time, Nanoseconds, "time serving", "in served calls";
    /// Nanoseconds spent in handing over parked pipelines.
    ParkedNanos => "parked_ns", Time, Nanoseconds, "time handing over", "in calls whose pipeline was ready before";
    /// An upper limit of the time that the program did not wait: nanoseconds that compiling the served and the parked
    /// pipelines had taken, less the time for serving them. A pipeline counts once in a run, because the driver would
    /// have it in memory afterwards. The time of an artifact is that of its only compile, with whatever else the
    /// machine did meanwhile (`vkstash prewarm` takes the processor time of the compile where that is less). Where the
    /// driver keeps nothing, it is the shorter one of the last compile in the program and this run's compile on a
    /// worker. What the driver's own disk cache would have saved is not known.
    SavedNanos => "saved_ns", Time, Nanoseconds, "time saved",
        "at most: what compiling had taken, less what serving took";
    /// Of `saved_ns`: nanoseconds for pipelines that workers compiled in the same run, on a driver whose caches keep
    /// nothing. The program's call did not take that time, but the processors did: where all of them are busy, or the
    /// program waits for something else, the program ends no sooner.
    AheadNanos => "compiled_ahead_ns", Time, Nanoseconds, "compiled ahead",
        "of the time saved: compiled by workers in the same run";
}

macro_rules! bypass_reasons {
    ($($(#[doc = $doc:literal])* $variant:ident => $name:literal;)*) => {
        /// Why a pipeline was handed to the driver unchanged.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum BypassReason { $($(#[doc = $doc])* $variant,)* }

        impl BypassReason {
            /// Every reason.
            pub const ALL: &'static [BypassReason] = &[$(BypassReason::$variant,)*];

            /// The reason's name in reports and in JSON.
            pub const fn name(self) -> &'static str {
                match self { $(BypassReason::$variant => $name,)* }
            }

            /// The reason in sentences: its documentation.
            pub const fn meaning(self) -> &'static str {
                match self { $(BypassReason::$variant => concat!($($doc),*).trim_ascii(),)* }
            }
        }
    };
}

bypass_reasons! {
    /// A structure in a pNext chain that this version does not know.
    UnknownStructure => "unknown_structure";
    /// Something that must not be cached, such as capture and replay handles; or a kind of pipeline of which nothing is
    /// recorded: execution graphs and their nodes (VK_AMDX_shader_enqueue), data graphs (VK_ARM_data_graph), shader
    /// groups and indirect buffers of VK_NV_device_generated_commands.
    NotCacheable => "not_cacheable";
    /// The program asks for the pipeline's statistics or internal representations, and the driver's caches do not
    /// answer for them.
    Statistics => "statistics";
    /// A ray tracing pipeline of VK_NV_ray_tracing.
    RayTracing => "ray_tracing";
    /// A pipeline that the program creates from its own pipeline binaries.
    OwnBinaries => "own_binaries";
    /// A flag that this version does not know.
    UnknownFlag => "unknown_flag";
    /// A shader module, layout, render pass, sampler or library that could not be described. Where that was by design,
    /// the reason of the object counts.
    OpaqueObject => "opaque_object";
    /// An object whose creation the layer did not see.
    UnknownObject => "unknown_object";
    /// A create info that is not what the command expects.
    WrongStructure => "wrong_structure";
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
    fn meanings_are_sentences_that_name_counters_as_json_does() {
        let of_counters = Count::ALL.iter().map(|what| (what.name(), what.meaning()));
        let of_reasons = BypassReason::ALL.iter().map(|reason| (reason.name(), reason.meaning()));
        for (name, meaning) in of_counters.chain(of_reasons) {
            let is_sentence = meaning.starts_with(char::is_uppercase) && meaning.ends_with('.');
            assert!(is_sentence && !meaning.contains("[`") && !meaning.contains("  "), "{name}: {meaning}");
        }
        let named = |meaning: &'static str| meaning.strip_prefix("Of `")?.split('`').next();
        for other in Count::ALL.iter().filter_map(|what| named(what.meaning())) {
            assert!(Count::ALL.iter().any(|what| what.name() == other), "{other}");
        }
        assert_eq!(Count::ServedNanos.meaning(), "Nanoseconds in served calls.");
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
