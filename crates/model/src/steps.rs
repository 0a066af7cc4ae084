//! Steps of a request for a pipeline, as the timeline of a run has them: numbers in its files, and words for people.

use std::time::Duration;

/// One thing that was tried for a pipeline. The numbers are those of a timeline's file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// The number of the source, from 0 to 15.
    pub source: u8,
    /// The number of its answer, from 0 to 15.
    pub answer: u8,
    /// The time that the step took, in tenths of a microsecond; the largest number stands for more.
    pub tenths: u32,
}

/// Names with numbers that files have, and words for people.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident {
        $($(#[$variant_doc:meta])* $variant:ident => $number:literal, $word:literal;)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum $name { $($(#[$variant_doc])* $variant = $number,)* }

        impl $name {
            /// What it is called, from its number in a file. A number of a newer program has no word.
            pub fn word(number: u8) -> &'static str {
                match number { $($number => $word,)* _ => "unknown" }
            }
        }
    };
}

words! {
    /// Where a pipeline may be, or come from.
    StepSource {
        /// The pipelines that background work has made.
        Parked => 0, "parked";
        /// The driver's caches.
        Driver => 1, "driver";
        /// The stash.
        Stash => 2, "stash";
        /// A cache of the layer's, with the pipelines that the program's cache would hold without the stash.
        Companion => 3, "companion";
        /// A compile.
        Compile => 4, "compile";
        /// The program's own call, as it is.
        Own => 5, "own call";
    }
}

words! {
    /// The answer of a source.
    StepAnswer {
        /// The pipeline.
        Had => 0, "had it";
        /// The pipeline, which the driver's objects in memory cannot have had.
        HadOnDisk => 1, "had it on disk";
        /// The source does not have the pipeline.
        Nothing => 2, "had nothing";
        /// The source could not be asked.
        NotAsked => 3, "not asked";
        /// The driver did not take what the stash had.
        Refused => 4, "refused";
        /// The driver answered with an error.
        Error => 5, "error";
        /// The driver has refused the artifact too often.
        LeftAlone => 6, "left alone";
        /// The code that the pipeline needs is no longer kept.
        NoModule => 7, "module missing";
        /// The pipeline would have to be compiled, which the program forbids.
        Forbidden => 8, "forbidden";
        /// A deferred operation of the program goes on with the creation.
        Deferred => 9, "deferred";
        /// Processes died of the artifact.
        Quarantined => 10, "quarantined";
        /// The disk was too slow.
        NotReady => 11, "not read in time";
        /// The driver did not take what was recorded with other features enabled.
        SiblingRefused => 12, "of other features refused";
    }
}

words! {
    /// Why these sources were asked, in this order.
    OrderReason {
        /// The driver is asked before the stash.
        DriverFirst => 0, "driver first";
        /// The stash is asked before the driver: the driver's disk is slow beside a cache, or the user has it so.
        StashFirst => 1, "stash first";
        /// The driver would be asked first, and has had next to nothing lately.
        NothingLately => 2, "driver had nothing lately";
        /// The program asks whether its own cache has the pipeline.
        Feedback => 3, "creation feedback";
        /// The driver cannot be asked for such a pipeline, or has no caches worth asking.
        NoQuestion => 4, "driver cannot be asked";
        /// The driver cannot be kept from compiling.
        NoCacheControl => 5, "no cache control";
        /// The driver is known to answer with an error.
        Failed => 6, "failed before";
        /// The program has just been refused the same pipeline, and makes it now.
        JustRefused => 7, "just refused";
        /// The base pipeline of a deferred call is missing.
        BaseMissing => 8, "base missing";
        /// There is nothing to compile, or nothing of a cache may stand in.
        PassedOn => 9, "passed on";
        /// Pipelines that background work has made come before everything else.
        ParkedFirst => 10, "parked first";
    }
}

/// The result of a creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CreationResult {
    /// The pipeline.
    Pipeline = 0,
    /// VK_PIPELINE_COMPILE_REQUIRED.
    CompileRequired = 1,
    /// An error.
    Error = 2,
}

/// Tenths of a microsecond.
pub fn tenths(duration: Duration) -> u32 {
    u32::try_from(duration.as_nanos() / 100).unwrap_or(u32::MAX)
}

/// A duration that is so many tenths of a microsecond.
pub fn duration(tenths: u32) -> Duration {
    Duration::from_nanos(100 * u64::from(tenths))
}

/// One step in words: `driver had it on disk`.
pub fn words(step: &Step) -> String {
    let (source, answer) = (StepSource::word(step.source), StepAnswer::word(step.answer));
    if step.source == StepSource::Compile as u8 && step.answer == StepAnswer::Had as u8 {
        return "compiled".to_owned();
    }
    format!("{source} {answer}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_newer_program_has_written_is_unknown() {
        assert_eq!(
            (StepSource::word(15), StepAnswer::word(1), OrderReason::word(200)),
            ("unknown", "had it on disk", "unknown")
        );
        assert_eq!(words(&Step { source: 4, answer: 0, tenths: 0 }), "compiled");
        assert_eq!((tenths(Duration::MAX), duration(15)), (u32::MAX, Duration::from_nanos(1500)));
    }
}
