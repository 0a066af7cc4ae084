//! What the sources of a pipeline answer with.

use std::time::Duration;

use super::call::Answer;
use crate::state::device::Device;
use crate::state::parked::MadeOf;
use crate::state::private_cache::PrivateCache;
use crate::state::stored::Source;
use vkstash_model::counters::Count;
use vkstash_model::steps::StepAnswer;

/// A pipeline that was obtained without compiling.
#[derive(Clone, Copy)]
pub struct Served {
    /// What the program gets.
    pub answer: Answer,
    /// The source that the pipeline came from.
    pub origin: Origin,
}

/// Where a pipeline came from; counted once the program gets it.
#[derive(Clone, Copy)]
pub enum Origin {
    /// The driver: the driver's caches, the program's, or the companion of one of them.
    Driver {
        /// Time that the driver's call took.
        took: Duration,
        /// Where the driver had the pipeline.
        from: Found,
    },
    /// Background work, which had made it before the program asked.
    Parked {
        /// The time that the driver needed to compile the pipeline, as in [`Origin::Stash`].
        cost: Option<Duration>,
        /// The time that handing the pipeline over took.
        spent: Duration,
        /// What the parked pipeline was made of.
        of: MadeOf,
    },
    /// The stash: the pipeline was made with its artifact.
    Stash {
        /// Whether it is certain that the driver has used the artifact.
        confirmed: bool,
        /// Time that the driver needed to compile the artifact, where this run asks for it for the first time; from
        /// then on the driver would have had it in memory.
        cost: Option<Duration>,
        /// Time that the call took.
        spent: Duration,
        /// Where the artifact was.
        source: Source,
    },
}

/// Where a driver had a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// In the driver's memory, or in a place that is not known.
    InMemory,
    /// In the driver's disk cache: nothing in memory can have had the pipeline.
    OnDisk,
    /// In the companion of the program's or the driver's cache.
    InCompanion,
}

impl Served {
    /// Counts it: the program gets it. `by_identifier`: it had named a stage by identifier only.
    pub fn count(&self, device: &Device, by_identifier: bool) {
        let counters = device.counters();
        let saved = |cost: Option<Duration>, spent: Duration| {
            let nanos = cost.unwrap_or_default().saturating_sub(spent).as_nanos() as u64;
            counters.add(Count::SavedNanos, nanos);
            nanos
        };
        match self.origin {
            Origin::Driver { from, .. } => {
                counters.count(Count::DriverHad);
                return match from {
                    Found::InMemory => {}
                    Found::OnDisk => counters.count(Count::DriverHadOnDisk),
                    Found::InCompanion => counters.count(Count::CompanionHad),
                };
            }
            Origin::Parked { cost, spent, of } => {
                counters.count(Count::Parked);
                counters.add(Count::ParkedNanos, spent.as_nanos() as u64);
                let saved = saved(cost, spent);
                match of {
                    MadeOf::Compile => counters.add(Count::AheadNanos, saved),
                    MadeOf::Found { .. } => counters.count(Count::ParkedFound),
                    MadeOf::Artifact { .. } => {}
                }
            }
            Origin::Stash { confirmed: true, cost, spent, .. } => {
                counters.count(Count::Served);
                counters.add(Count::ServedNanos, spent.as_nanos() as u64);
                saved(cost, spent);
            }
            Origin::Stash { confirmed: false, .. } => counters.count(Count::Offered),
        }
        match self.origin {
            Origin::Stash { source: Source::Sibling, .. }
            | Origin::Parked { of: MadeOf::Artifact { source: Source::Sibling, .. }, .. } => {
                counters.count(Count::FromSibling)
            }
            Origin::Stash { source: Source::Base, .. }
            | Origin::Parked { of: MadeOf::Artifact { source: Source::Base, .. }, .. } => {
                counters.count(Count::FromBase)
            }
            Origin::Stash { source: Source::Own, .. } | Origin::Driver { .. } | Origin::Parked { .. } => {}
        }
        if by_identifier {
            counters.count(Count::IdentifierServed);
        }
    }
}

/// What came of offering the driver the stash's artifact for a pipeline.
pub enum ArtifactOutcome<'a> {
    /// The stash has no artifact, or it could not be offered to the driver.
    NotOffered,
    /// The stash has the artifact, but no longer the code that must be offered with it: the driver was not asked.
    ModuleMissing,
    /// The driver has refused artifacts of this recipe too often, or it is in quarantine: nothing is offered, and
    /// nothing recorded.
    LeftAlone,
    /// The driver has said COMPILE_REQUIRED.
    Refused(Refused<'a>),
}

impl ArtifactOutcome<'_> {
    /// What the stash has said.
    pub fn step_answer(&self) -> StepAnswer {
        match self {
            ArtifactOutcome::NotOffered => StepAnswer::Nothing,
            ArtifactOutcome::ModuleMissing => StepAnswer::NoModule,
            ArtifactOutcome::LeftAlone => StepAnswer::LeftAlone,
            ArtifactOutcome::Refused(_) => StepAnswer::Refused,
        }
    }
}

/// A cache with an artifact for which the driver has said COMPILE_REQUIRED.
pub struct Refused<'a> {
    /// The cache.
    pub cache: PrivateCache<'a>,
    /// Time that the driver needed to compile this artifact.
    pub cost: Duration,
    /// How often in a row the driver has refused this recipe's artifacts, this time included.
    pub refusals: u8,
}

/// What has come of asking the sources that need not compile.
pub enum Outcome<'a> {
    /// A source had the pipeline.
    Served(Served),
    /// The driver answers this call with an error: it goes down as the program made it.
    GoUntouched {
        /// The driver has answered so in an earlier call, and the stash has the key recorded as failed.
        recorded: bool,
    },
    /// No source has the pipeline.
    Missed {
        /// What has become of the artifact.
        artifact: ArtifactOutcome<'a>,
        /// The driver has said that it has nothing for the program's own call.
        driver_has_nothing: bool,
    },
}
