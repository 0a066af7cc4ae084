//! One pipeline, made before the program asks for it.

use std::time::{Duration, Instant};

use ash::vk;

use super::loan::Loan;
use super::objects::{ObjectError, OwnObjects};
use super::questions::{Questions, Watch};
use super::recreate::{self, NotRecorded};
use super::replay::{self, NotMade, Replay, StoredCall};
use crate::faults;
use crate::serve::artifact;
use crate::serve::call::Answer;
use crate::serve::create_info::CreateInfo;
use crate::serve::request::Request;
use crate::serve::verdict::Miss;
use crate::state::ahead::parked::{Finished, For, MadeOf, UNKNOWN_BYTES};
use crate::state::caches::private_cache::PrivateCache;
use crate::state::devices::device::Device;
use crate::state::process::stored::{KeptIn, Stored};
use vkstash_model::counters::Count;
use vkstash_model::failed::{Event, Failed};
use vkstash_model::payload::{self, FoundWith};
use vkstash_model::record::{CRASH_LIMIT, Key, Kind};
use vkstash_recipe::chain::Arena;

/// How a pipeline is made in the program's process: only in ways that cannot keep a worker for long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the driver's own caches, which had it in an earlier run, with FAIL_ON_COMPILE_REQUIRED.
    Found {
        /// How long the driver's call took the last time; zero: not known.
        took: Duration,
        /// Whether the pipeline's cache data is kept.
        bytes: Bytes,
    },
    /// From an artifact, with FAIL_ON_COMPILE_REQUIRED.
    Artifact {
        /// Whether the driver has taken the artifact before. An artifact that it has not taken may be what ends the
        /// process.
        is_taken: bool,
    },
    /// Compiled, on a driver that keeps no artifacts: it took so long the last time.
    Compile(Duration),
}

/// What a call with a cache is owed: the bytes that the driver would have put in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bytes {
    /// The stash has an artifact. The driver is asked without a cache.
    InStash,
    /// The driver is asked with an empty cache, whose data is recorded.
    Recorded,
    /// The bytes are lost. The driver is asked without a cache, and only calls without one get the pipeline.
    Lost,
}

impl Way {
    /// Which calls may get a pipeline made in this way. A pipeline that the driver may lose needs its bytes.
    pub fn for_whom(self) -> For {
        match self {
            Way::Found { bytes: Bytes::Lost, .. } => For::CallsWithoutCache,
            Way::Found { .. } | Way::Artifact { .. } | Way::Compile(_) => For::AnyCall,
        }
    }

    /// Whether the driver is asked for what it had.
    pub fn is_question(self) -> bool {
        matches!(self, Way::Found { .. })
    }
}

/// The longest compile that is repeated on a worker: vkDestroyDevice waits for it, because no call can be cancelled.
const LONGEST_COMPILE: Duration = Duration::from_millis(25);

/// Costs that differ by less are not worth a new record.
const LEAST_NEWS: Duration = Duration::from_micros(100);

/// How this pipeline may be made, the best way first. None: not in this process.
///
/// What a program's loaded cache has it gives in less time than merging takes when the program asks for the cache's
/// data: it is left there. Not on NVIDIA, where a hit in it takes 60 us. The driver's own caches come before an
/// artifact where they cost as little: for calls without a cache, and for any on a driver whose disk is as fast beside
/// one. Such a driver (RADV) writes what it is given to its disk once more.
pub fn ways(device: &Device, stored: &Stored, key: &Key) -> [Option<Way>; 2] {
    let mut record = Vec::new();
    if !device.keeps_artifacts() {
        let compiled = device.records_recipes_alone() && stored.device.read(Kind::Cost, key, &mut record);
        let is_short = |cost: &Duration| *cost <= faults::time_limit(LONGEST_COMPILE);
        // What processes have ended at is left to the program.
        let is_wanted = compiled && stored.device.compile_deaths(key) < CRASH_LIMIT;
        let cost = payload::cost(&record).filter(|cost| is_wanted && is_short(cost));
        return [cost.map(Way::Compile), None];
    }
    if !device.decided.cache_control {
        return [None, None];
    }
    let failed = stored.failed(key);
    let is_own = stored.device.contains(Kind::Artifact, key);
    // Of siblings only an artifact of a device that could create nothing that this one may not.
    let is_kept = is_own || failed != Failed::SiblingsRefused && stored.has_makeable(key);
    let found = stored.device.read(Kind::Found, key, &mut record).then(|| payload::found(&record)).flatten();
    let is_free = device.policy.free_recording;
    let question = match (found, is_kept) {
        (Some((_, FoundWith::LoadedCache)), true) if device.policy.dear_disk_beside_cache => None,
        (Some((_, FoundWith::LoadedCache)), _) => return [None, None],
        (None, true) if is_free => Some((Duration::ZERO, Bytes::InStash)),
        (Some((took, with)), true) => {
            (is_free || with == FoundWith::NoCache).then_some((took, Bytes::InStash))
        }
        (Some((took, FoundWith::NoCache)), false) if !is_free => Some((took, Bytes::Lost)),
        (Some((took, _)), false) => Some((took, Bytes::Recorded)),
        (None, _) => None,
    };
    // The driver has failed with this key since it had it, or a process has died of it.
    let is_doubted = failed.is_grave() || stored.device.crash_count(key) > 0;
    let question = question.filter(|_| !is_doubted).map(|(took, bytes)| Way::Found { took, bytes });
    let is_taken = is_own && stored.device.contains(Kind::Verified, key);
    let is_wanted = is_kept && (is_taken || !is_doubted) && !is_refused(stored, key, failed);
    let artifact = is_wanted.then_some(Way::Artifact { is_taken });
    if question.is_some() { [question, artifact] } else { [artifact, None] }
}

/// Whether what was refused to workers is the artifact that the stash has now.
fn is_refused(stored: &Stored, key: &Key, failed: Failed) -> bool {
    let mut artifact = Vec::new();
    failed
        .not_offered_by_workers()
        .is_some_and(|name| read(stored, key, &mut artifact).is_some() && artifact.starts_with(name))
}

/// Reads the artifact that a worker may make the pipeline of.
fn read(stored: &Stored, key: &Key, buffer: &mut Vec<u8>) -> Option<KeptIn> {
    let of_sibling = |buffer: &mut Vec<u8>| stored.read_within(key, buffer).then_some(KeptIn::Sibling);
    artifact::read_own(stored, key, buffer).or_else(|| of_sibling(buffer))
}

/// What a pipeline is made of: everything that is read for it.
pub struct Inputs {
    way: Way,
    stored_call: StoredCall,
    /// The payload, and where it was. None: it is gone.
    artifact: Vec<u8>,
    source: Option<KeptIn>,
}

impl Inputs {
    /// Reads what the pipeline is made of from the stash.
    pub fn read(
        device: &Device,
        stored: &Stored,
        own: &OwnObjects,
        key: &Key,
        way: Way,
    ) -> Result<Inputs, NotMade> {
        let lends = |digest: &Key| match device.work.lending.is_possible() {
            false => Err(ObjectError::ImmutableSamplers),
            true if device.work.lending.awaits(digest, key) => Err(ObjectError::LayoutAwaited),
            true => Ok(()),
        };
        let (stored_call, mut artifact) = (StoredCall::read(stored, own, key, lends)?, Vec::new());
        let source = match way {
            Way::Artifact { .. } => read(stored, key, &mut artifact),
            Way::Found { .. } | Way::Compile(_) => None,
        };
        Ok(Inputs { way, stored_call, artifact, source })
    }

    /// [`StoredCall::borrow`].
    pub fn borrow<'a>(&self, device: &'a Device, key: &Key) -> Result<Option<Loan<'a>>, NotMade> {
        self.stored_call.borrow(device, key)
    }

    /// What the call is taken to cost, if it is a compile.
    pub fn compiles_for(&self) -> Option<Duration> {
        if let Way::Compile(cost) = self.way { Some(cost) } else { None }
    }

    /// The driver has refused the artifact.
    pub fn note_refusal(&self, stored: &Stored, key: &Key) {
        if let Some(name) = self.artifact.first_chunk() {
            stored.note_failed(key, Event::RefusedToWorker(*name));
        }
    }
}

/// Makes a pipeline on the calling thread.
///
/// # Safety
/// The device is alive until the call returns, its commands may be called from this thread, and `own` is of this
/// device.
pub unsafe fn make(
    device: &Device,
    stored: &Stored,
    own: &OwnObjects,
    key: &Key,
    inputs: &mut Inputs,
    loan: Option<&Loan<'_>>,
    questions: &Questions,
) -> Result<Finished, NotMade> {
    let Inputs { way, stored_call, artifact, source } = inputs;
    let making = Making { stored, way: *way, artifact, source: *source, questions };
    // SAFETY: the device is alive and this thread may call its commands; `own` is of this device (# Safety of `make`).
    unsafe { replay::with_request(device, own, key, stored_call, loan, making) }
}

/// A pipeline that is to wait for the program.
struct Making<'a> {
    stored: &'a Stored,
    way: Way,
    artifact: &'a mut Vec<u8>,
    source: Option<KeptIn>,
    questions: &'a Questions,
}

impl Replay for Making<'_> {
    type Output = Finished;

    unsafe fn run<I: CreateInfo>(self, request: &Request<'_, I>) -> Result<Finished, NotMade> {
        let Making { stored, way, artifact: buffer, source, questions } = self;
        let (call, key) = (&request.call, &request.pipeline.key);
        // SAFETY: the request's create info is valid, and this thread may call the driver (# Safety of `Replay::run`).
        let (answer, cost, origin, made_with) = unsafe {
            match way {
                Way::Artifact { .. } => {
                    let made = source.map(|source| artifact::make_of(request, source, buffer, None));
                    let made = made.ok_or(NotMade::NoWay)?.map_err(|miss| match miss {
                        Miss::Refused(_) => NotMade::Refused,
                        Miss::NotOffered => NotMade::NoWay,
                        _ => NotMade::Driver(vk::Result::PIPELINE_COMPILE_REQUIRED),
                    })?;
                    let bytes = buffer.len().saturating_sub(payload::PREFIX) as u64;
                    let origin = MadeOf::Artifact { bytes, source: made.source };
                    (made.answer, made.cost, origin, Some(made.cache))
                }
                Way::Found { took, bytes } => {
                    let (answer, made_with) = match bytes {
                        Bytes::Recorded => ask_and_record(request, questions, took)?,
                        Bytes::InStash | Bytes::Lost => ask(request, questions)?,
                    };
                    // The length of an artifact that a base has is not known.
                    let length = || stored.device.artifact_length(key).unwrap_or(UNKNOWN_BYTES);
                    let origin = MadeOf::Found { kept: (bytes != Bytes::Lost).then(length) };
                    (answer, took, origin, made_with)
                }
                Way::Compile(known) => {
                    let since = Instant::now();
                    let answer = call.create();
                    let cost = match answer.result {
                        vk::Result::SUCCESS => lowered(call.device, stored, key, known, since.elapsed()),
                        _ => known,
                    };
                    (answer, cost, MadeOf::Compile, None)
                }
            }
        };
        match answer.result {
            // A driver that compiles nothing has it no longer.
            vk::Result::PIPELINE_COMPILE_REQUIRED if way.is_question() => Err(NotMade::FoundNoMore),
            vk::Result::SUCCESS => {
                let made_with = made_with.filter(|_| passes_caches(call.device));
                let made_with = made_with.map_or(vk::PipelineCache::null(), PrivateCache::into_handle);
                Ok(Finished { pipeline: answer.pipeline, cost, origin, made_with })
            }
            result => Err(NotMade::Driver(result)),
        }
    }
}

/// Whether the program passes caches of its own: then what their data lacks is kept beside them.
fn passes_caches(device: &Device) -> bool {
    device.caches.of_program.were_created()
}

/// The program's call again, without a cache of the program's: the driver answers from its own caches, or says
/// COMPILE_REQUIRED. Where that costs no more, it does so beside an empty cache, which has what the data of the
/// program's cache lacks: a driver that is given an artifact writes it to its disk once more.
///
/// # Safety
/// As [`Replay::run`].
unsafe fn ask<'a, I: CreateInfo>(
    request: &Request<'a, I>,
    questions: &Questions,
) -> Result<(Answer, Option<PrivateCache<'a>>), NotMade> {
    let device = request.call.device;
    let takes_cache = device.policy.free_recording && passes_caches(device);
    let cache = if takes_cache { device.caches.commands.private(&[]) } else { None };
    let mut arena = Arena::default();
    let mut creation = *request.call.creation;
    // SAFETY: the request's create info is valid, and the arena, in which the copy's chain lives, stays on
    // this stack frame until the call is over.
    unsafe {
        if !creation.forbid_compiling(&mut arena) {
            return Err(NotMade::NothingToCompile);
        }
        let watch = Watch::begin();
        let handle = cache.as_ref().map_or(vk::PipelineCache::null(), PrivateCache::handle);
        let answer = request.call.create_with(handle, &creation.info);
        questions.note(&watch, answer.result);
        Ok((answer, cache))
    }
}

/// [`ask`] beside an empty cache, whose data is recorded before anybody may have the pipeline.
///
/// # Safety
/// As [`Replay::run`].
unsafe fn ask_and_record<'a, I: CreateInfo>(
    request: &Request<'a, I>,
    questions: &Questions,
    took: Duration,
) -> Result<(Answer, Option<PrivateCache<'a>>), NotMade> {
    let watch = Watch::begin();
    // SAFETY: the request's create info is valid, and this thread may call the driver (# Safety of `Replay::run`).
    let (pipeline, result, made_with) = match unsafe { recreate::make_again(request, took) } {
        Ok((pipeline, cache)) => (pipeline, vk::Result::SUCCESS, Some(cache)),
        Err(NotRecorded::Refused) => (vk::Pipeline::null(), vk::Result::PIPELINE_COMPILE_REQUIRED, None),
        Err(reason) => return Err(reason.into()),
    };
    questions.note(&watch, result);
    Ok((Answer { pipeline, result }, made_with))
}

/// The cost of a compile that took `known` the last time and `now` on a worker: the lesser one, because whatever runs
/// beside a compile adds to its time. A cost that was measured on a busy machine is replaced.
fn lowered(device: &Device, stored: &Stored, key: &Key, known: Duration, now: Duration) -> Duration {
    let is_news = 2 * now < known && known - now >= LEAST_NEWS;
    if is_news && !stored.device.put(Kind::Cost, key, Box::new(payload::cost_record(now))) {
        device.count(Count::Dropped);
    }
    known.min(now)
}
