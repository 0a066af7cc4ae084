//! Verdict on a request. A source gives it, and `settle.rs` alone acts on it: it counts, records and notes, and adds to
//! the program's cache what it would have had without the layer.

use std::time::Duration;

use ash::vk;

use super::call::Answer;
use super::create_info::CreateInfo;
use super::request::Request;
use crate::state::ahead::parked::MadeOf;
use crate::state::caches::blob_digests::BlobDigest;
use crate::state::caches::pipeline_class::PipelineClass;
use crate::state::caches::private_cache::PrivateCache;
use crate::state::caches::program_cache::ProgramCache;
use crate::state::caches::sized_data::NoData;
use crate::state::devices::device::Device;
use crate::state::process::stored::KeptIn;
use crate::steps::Steps;
use vkstash_model::counters::Count;
use vkstash_model::failed::Refusals;
use vkstash_model::payload;
use vkstash_model::record::Key;
use vkstash_model::shader_set::ShaderSet;
use vkstash_model::steps::StepAnswer;
use vkstash_recipe::chain::Refusal;

/// What has become of a request.
pub struct Verdict<'a> {
    /// What the program gets.
    pub answer: Answer,
    /// Where the answer comes from.
    pub origin: Origin,
    /// Where the driver has put the pipeline, or had it.
    pub place: Place<'a>,
    /// What the stash is to learn of it.
    pub record: Record,
}

/// What a verdict is about, as far as it outlives the program's structures: those of a deferred call are gone when the
/// verdict is known.
pub struct Subject<'a> {
    /// The device.
    pub device: &'a Device,
    /// The cache that the program passed.
    pub program_cache: &'a ProgramCache,
    /// The key of the recipe.
    pub key: &'a Key,
    /// The shaders of the pipeline.
    pub shaders: &'a ShaderSet,
    /// The class of pipelines that it is of.
    pub class: PipelineClass,
}

impl<'a> Subject<'a> {
    /// Of a request.
    pub fn of<I: CreateInfo>(request: &Request<'a, I>) -> Subject<'a> {
        let Request { call, pipeline } = request;
        Subject {
            device: call.device,
            program_cache: call.program_cache,
            key: &pipeline.key,
            shaders: &pipeline.shaders,
            class: call.class(),
        }
    }
}

/// Where an answer comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The driver had it: in its own caches, in the program's, or in the companion of one of them.
    Driver {
        /// Time that the driver's call took.
        took: Duration,
        /// Where the driver had the pipeline.
        from: Found,
    },
    /// Background work, which had made it before the program asked.
    Parked {
        /// Time that the driver needed to compile the pipeline.
        cost: Duration,
        /// Time that handing the pipeline over took.
        spent: Duration,
        /// What the parked pipeline was made of.
        of: MadeOf,
    },
    /// The stash: the pipeline was made with its artifact.
    Stash {
        /// The part of the stash that had the artifact.
        source: KeptIn,
        /// Whether it is certain that the driver has used the artifact.
        confirmed: bool,
        /// Time that the driver needed to compile the artifact.
        cost: Duration,
        /// Time that the call took.
        spent: Duration,
    },
    /// The artifact that the driver had refused: the compile that was given it added nothing to it.
    RefusedArtifact,
    /// A compile.
    Compile {
        /// Time that it took.
        wall: Duration,
        /// Time that it would take undisturbed.
        cost: Duration,
    },
    /// The driver got the program's own call as it is.
    AsItIs(AsItIs),
    /// The layer, in the driver's place: VK_PIPELINE_COMPILE_REQUIRED.
    Layer,
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

/// Why the driver got a call as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsItIs {
    /// There is nothing to compile.
    NothingToCompile,
    /// It cannot be described.
    Undescribed(Refusal),
    /// Nothing of a cache may stand in, or the driver answers with an error. The call took so long.
    Untouched(Duration),
}

/// Where the driver has put a pipeline, or had it.
pub enum Place<'a> {
    /// In no cache that the layer knows of.
    Nowhere,
    /// In none: it was made with a cache of the layer's, whose data does not have it.
    NotInData,
    /// In the driver's object behind the cache that the program passed, or behind VK_NULL_HANDLE.
    Own,
    /// The same, which was empty: now it holds this pipeline alone.
    OwnAlone,
    /// Beside the cache that the program passed.
    Pending(PendingEntry<'a>),
    /// In the companion of that cache.
    Companion,
}

/// What a cache of the program's is owed, for a pipeline that was made beside it.
pub struct PendingEntry<'a> {
    /// What has it.
    pub made_with: MadeWith<'a>,
    /// Bytes of its data.
    pub bytes: usize,
    /// The digest of its data, where the program asks where its pipelines come from.
    pub digest: Option<BlobDigest>,
}

/// What has a pipeline that was made beside a cache of the program's.
pub enum MadeWith<'a> {
    /// A cache of the layer's.
    Cache(PrivateCache<'a>),
    /// Its artifact in the stash.
    Artifact,
    /// The cache that another pipeline of the same call is owed with.
    Another,
}

/// What the stash is to learn of a request.
#[derive(Debug)]
pub enum Record {
    /// Nothing.
    Nothing,
    /// That it was of use.
    Use,
    /// The same of an artifact that is in the part of the sibling of this number.
    UseOfSibling {
        /// The sibling.
        number: usize,
        /// The driver has refused those of so many others before. If it has, later runs offer this one first.
        others_refused: u8,
    },
    /// The recipe, and that it was asked for.
    Recipe,
    /// The same, and that the driver had the pipeline.
    Found {
        /// Whether background work may make the call again, to record what the driver gives it.
        may_be_left: bool,
    },
    /// What the driver made: the payload of an artifact, or why there is none.
    Artifact(Result<Vec<u8>, NoData>),
    /// The same, where no artifact can be had, or is wanted.
    NoArtifact,
    /// Whether the driver answers this key with an error. `known`: the stash has it as one that fails.
    Outcome {
        /// The stash has the key as one that the driver answers with an error.
        known: bool,
    },
}

impl<'a> Verdict<'a> {
    /// The layer answers VK_PIPELINE_COMPILE_REQUIRED.
    pub fn refusal() -> Verdict<'a> {
        Verdict {
            answer: Answer::compile_required(),
            origin: Origin::Layer,
            place: Place::Nowhere,
            record: Record::Nothing,
        }
    }

    /// What the step that led to it has come to.
    pub fn step_answer(&self) -> StepAnswer {
        match (self.answer.result, self.origin) {
            (vk::Result::SUCCESS, Origin::Driver { from: Found::OnDisk, .. }) => StepAnswer::HadOnDisk,
            (vk::Result::SUCCESS, _) => StepAnswer::Had,
            (vk::Result::PIPELINE_COMPILE_REQUIRED, _) => StepAnswer::Forbidden,
            _ => StepAnswer::Error,
        }
    }
}

/// Why the stash does not serve a request.
pub enum Miss<'a> {
    /// The stash has no artifact, or it could not be offered to the driver.
    NotOffered,
    /// The disk is too slow to tell whether the driver may have it.
    NotReady,
    /// The stash has the artifact, but no longer the code that must be offered with it: the driver was not asked.
    ModuleMissing,
    /// Processes died of it: nothing is offered, and nothing recorded.
    Quarantined,
    /// The driver has refused artifacts of this recipe too often: the same.
    LeftAlone,
    /// The driver has said COMPILE_REQUIRED.
    Refused(Refused<'a>),
    /// The driver has said so of the artifacts of so many siblings, which are all.
    SiblingsRefused(u8),
}

/// A cache with an artifact for which the driver has said COMPILE_REQUIRED.
pub struct Refused<'a> {
    /// The cache.
    pub cache: PrivateCache<'a>,
    /// How often in a row the driver has refused this recipe's artifacts, this time included.
    pub refusals: Refusals,
}

impl Miss<'_> {
    /// What the stash has said.
    pub fn step_answer(&self) -> StepAnswer {
        match self {
            Miss::NotOffered => StepAnswer::Nothing,
            Miss::NotReady => StepAnswer::NotReady,
            Miss::ModuleMissing => StepAnswer::NoModule,
            Miss::Quarantined => StepAnswer::Quarantined,
            Miss::LeftAlone => StepAnswer::LeftAlone,
            Miss::Refused(_) => StepAnswer::Refused,
            Miss::SiblingsRefused(_) => StepAnswer::SiblingRefused,
        }
    }

    /// Whether nothing of the key is to be recorded.
    pub fn is_left_alone(&self) -> bool {
        matches!(self, Miss::LeftAlone | Miss::Quarantined)
    }
}

/// What was tried for a request, and what came of it.
pub struct Attempts<'a> {
    /// Each step, with its time.
    pub steps: Steps,
    /// Why nothing was ready before the program asked, where some are made ahead.
    pub unready: Option<Count>,
    /// What has become of the artifact.
    pub artifact: Miss<'a>,
    /// What the stash has answered. None: it was not asked.
    pub stash: Option<StepAnswer>,
    /// What the driver has answered. None: it was not asked.
    pub driver: Option<StepAnswer>,
    /// The driver gets the program's own call as it is.
    pub as_it_is: bool,
    /// The stash knows that the driver answers it with an error.
    pub has_failed: bool,
}

impl<'a> Attempts<'a> {
    /// Nothing yet.
    pub fn new(steps: Steps) -> Attempts<'a> {
        Attempts {
            steps,
            unready: None,
            artifact: Miss::NotOffered,
            stash: None,
            driver: None,
            as_it_is: false,
            has_failed: false,
        }
    }
}

impl<'a> PendingEntry<'a> {
    /// In this cache of the layer's, whose data has so many bytes, and is `blob` where the program asks where its
    /// pipelines come from.
    pub fn in_cache(cache: PrivateCache<'a>, bytes: usize, blob: Option<&[u8]>) -> Place<'a> {
        let digest = blob.map(BlobDigest::of);
        Place::Pending(PendingEntry { made_with: MadeWith::Cache(cache), bytes, digest })
    }

    /// The same of a payload that was just read from the cache. `asks`: the program asks where its pipelines come from.
    pub fn of_data(data: &Result<Vec<u8>, NoData>, cache: PrivateCache<'a>, asks: bool) -> Place<'a> {
        match data.as_ref().map(|data| data.get(payload::PREFIX..).unwrap_or_default()) {
            Ok(blob) => PendingEntry::in_cache(cache, blob.len(), Some(blob).filter(|_| asks)),
            Err(_) => Place::NotInData,
        }
    }
}
