//! One pipeline, made before the program asks for it.

use std::time::{Duration, Instant};

use ash::vk;

use super::again::{self, Again, NotMade, StoredCall};
use super::objects::OwnObjects;
use super::questions::{Questions, Watch};
use crate::faults;
use crate::recipe::chain::Arena;
use crate::recipe::payload;
use crate::resolve::call::Answer;
use crate::resolve::create_info::CreateInfo;
use crate::resolve::outcome::ArtifactOutcome;
use crate::resolve::request::Request;
use crate::resolve::{artifact, late};
use crate::state::device::Device;
use crate::state::parked::{Finished, For, MadeOf};
use crate::state::stored::{Source, Stored};
use crate::stats::Count;
use vkstash_store::base::memory;
use vkstash_store::format::record::{Key, Kind};

/// How a pipeline is made in the program's process: only in ways that cannot keep a worker for long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From an artifact that the driver has taken before, with FAIL_ON_COMPILE_REQUIRED.
    Artifact,
    /// From the driver's own caches, which had it in an earlier run, with FAIL_ON_COMPILE_REQUIRED and without a cache:
    /// it took so long the last time.
    Found(Duration),
    /// Compiled, on a driver that keeps no artifacts: it took so long the last time.
    Compile(Duration),
}

impl Way {
    /// Which calls may get what is made so. What the driver had is in no cache, and the driver may lose it.
    pub fn for_whom(self) -> For {
        match self {
            Way::Artifact | Way::Compile(_) => For::AnyCall,
            Way::Found(_) => For::CallsWithoutCache,
        }
    }
}

/// The longest compile that is repeated on a worker: vkDestroyDevice waits for it, because no call can be cancelled.
const LONGEST_COMPILE: Duration = Duration::from_millis(25);

/// Costs that differ by less are not worth a new record.
const LEAST_NEWS: Duration = Duration::from_micros(100);

/// How this pipeline may be made. None: not in this process.
pub fn way(device: &Device, stored: &Stored, key: &Key) -> Option<Way> {
    let mut record = Vec::new();
    if device.keeps_artifacts() {
        // One that no driver has taken yet may be what ends the process (docs/format.md, guard files). Of the device's
        // own part alone: what a device with other features has made may need these.
        let has = |kind| stored.device.contains(kind, key);
        let taken = device.cache_control && has(Kind::Verified) && has(Kind::Artifact);
        if taken && !is_refused(stored, key) {
            return Some(Way::Artifact);
        }
        let was_found = device.cache_control && stored.device.read(Kind::Found, key, &mut record);
        let took = payload::cost(&record).filter(|_| was_found);
        return took.filter(|_| !is_doubted(stored, key)).map(Way::Found);
    }
    if !device.records_recipes_alone() || !stored.device.read(Kind::Cost, key, &mut record) {
        return None;
    }
    let cost = payload::cost(&record)?;
    (cost <= faults::time_limit(LONGEST_COMPILE)).then_some(Way::Compile(cost))
}

/// Whether the driver has failed with this key since it had it, or a process has died of it.
fn is_doubted(stored: &Stored, key: &Key) -> bool {
    let mut record = Vec::new();
    let has_failed = stored.device.has_any(Kind::Failed)
        && stored.device.read(Kind::Failed, key, &mut record)
        && !matches!(record.as_slice(), [0] | [late::FAILED | late::REFUSED, ..]);
    has_failed || stored.device.crash_count(key) > 0
}

/// An artifact that was refused so often is not offered by workers any more. Once may be chance.
const REFUSALS: u8 = 2;

/// How often the driver has refused this artifact to workers. None: something else is known of the key.
fn refusals(stored: &Stored, key: &Key, artifact: &[u8]) -> Option<u8> {
    let mut record = Vec::new();
    if !stored.device.has_any(Kind::Failed) || !stored.device.read(Kind::Failed, key, &mut record) {
        return Some(0);
    }
    match record.as_slice() {
        [late::REFUSED, count, of @ ..] => Some(if artifact.starts_with(of) { *count } else { 0 }),
        // What background work could not record has an artifact by now.
        [0] | [late::FAILED, _] => Some(0),
        _ => None,
    }
}

/// Whether the artifact of this key is the one that the driver has refused to workers.
fn is_refused(stored: &Stored, key: &Key) -> bool {
    if !stored.device.has_any(Kind::Failed) || !stored.device.contains(Kind::Failed, key) {
        return false;
    }
    let mut artifact = Vec::new();
    stored.device.read(Kind::Artifact, key, &mut artifact)
        && refusals(stored, key, &artifact).is_some_and(|count| count >= REFUSALS)
}

/// What a pipeline is made of: everything that is read for it.
pub struct Inputs {
    way: Way,
    stored_call: StoredCall,
    /// The payload, and where it was. None: it is gone.
    artifact: Vec<u8>,
    source: Option<Source>,
}

impl Inputs {
    /// Reads it.
    pub fn read(stored: &Stored, own: &OwnObjects, key: &Key, way: Way) -> Result<Inputs, NotMade> {
        let (stored_call, mut artifact) = (StoredCall::read(stored, own, key)?, Vec::new());
        let source = match way {
            Way::Artifact => artifact::read_own(stored, key, &mut artifact),
            Way::Found(_) | Way::Compile(_) => None,
        };
        Ok(Inputs { way, stored_call, artifact, source })
    }

    /// What the call is taken to cost, if it is a compile.
    pub fn compiles_for(&self) -> Option<Duration> {
        if let Way::Compile(cost) = self.way { Some(cost) } else { None }
    }

    /// Remembers that the driver has refused the artifact.
    pub fn note_refusal(&self, stored: &Stored, key: &Key) {
        note_refusal(stored, key, &self.artifact);
    }
}

/// Remembers that the driver has refused an artifact to a worker. Programs may be served it all the same: of a link the
/// recipe does not say everything.
fn note_refusal(stored: &Stored, key: &Key, artifact: &[u8]) {
    let (Some(count), Some(prefix)) = (refusals(stored, key, artifact), artifact.get(..payload::PREFIX))
    else {
        return;
    };
    // What is dropped is noted the next time.
    if let Some(record) = memory::joined(&[&[late::REFUSED, count.saturating_add(1)], prefix]) {
        stored.device.put(Kind::Failed, key, record.into_boxed_slice());
    }
}

/// Makes a pipeline on the calling thread.
///
/// # Safety
/// As `again::with_request`.
pub unsafe fn make(
    device: &Device,
    stored: &Stored,
    own: &OwnObjects,
    key: &Key,
    inputs: &mut Inputs,
    questions: &Questions,
) -> Result<Finished, NotMade> {
    let Inputs { way, stored_call, artifact, source } = inputs;
    let making = Making { stored, way: *way, artifact, source: *source, questions };
    // SAFETY: the caller's contract.
    unsafe { again::with_request(device, own, key, stored_call, making) }
}

/// A pipeline that is to wait for the program.
struct Making<'a> {
    stored: &'a Stored,
    way: Way,
    artifact: &'a mut Vec<u8>,
    source: Option<Source>,
    questions: &'a Questions,
}

impl Again for Making<'_> {
    type Made = Finished;

    unsafe fn run<I: CreateInfo>(self, request: &Request<'_, I>) -> Result<Finished, NotMade> {
        let Making { stored, way, artifact: buffer, source, questions } = self;
        let (call, key) = (&request.call, &request.pipeline.key);
        // SAFETY: the caller's contract.
        let (answer, cost, origin) = unsafe {
            match way {
                Way::Artifact => {
                    let made = source.and_then(|source| artifact::make_of(request, source, buffer, None));
                    let required = NotMade::Driver(vk::Result::PIPELINE_COMPILE_REQUIRED);
                    let made = made.ok_or(NotMade::NoWay)?.map_err(|outcome| match outcome {
                        ArtifactOutcome::Refused(_) => NotMade::Refused,
                        _ => required,
                    })?;
                    let bytes = buffer.len().saturating_sub(payload::PREFIX) as u64;
                    (made.answer, made.cost, MadeOf::Artifact { bytes, source: made.source })
                }
                Way::Found(known) => {
                    if request.call.parsed().is_looked_at() {
                        return Err(NotMade::NothingToCompile);
                    }
                    (ask(request, questions)?, known, MadeOf::Found)
                }
                Way::Compile(known) => {
                    let since = Instant::now();
                    let answer = call.create();
                    let cost = match answer.result {
                        vk::Result::SUCCESS => lowered(call.device, stored, key, known, since.elapsed()),
                        _ => known,
                    };
                    (answer, cost, MadeOf::Compile)
                }
            }
        };
        match answer.result {
            // A driver that compiles nothing has it no longer.
            vk::Result::PIPELINE_COMPILE_REQUIRED if matches!(way, Way::Found(_)) => {
                Err(NotMade::FoundNoMore)
            }
            vk::Result::SUCCESS => {
                Ok(Finished { pipeline: answer.pipeline, cost, origin, since: Instant::now() })
            }
            result => Err(NotMade::Driver(result)),
        }
    }
}

/// The program's call again, without a cache: the driver answers from its own caches, or says COMPILE_REQUIRED.
///
/// # Safety
/// As [`Again::run`].
unsafe fn ask<I: CreateInfo>(request: &Request<'_, I>, questions: &Questions) -> Result<Answer, NotMade> {
    let mut arena = Arena::default();
    let mut creation = *request.call.creation;
    // SAFETY: the caller's contract; the arena stays on this stack frame until the call is over.
    unsafe {
        if !creation.forbid_compiling(&mut arena) {
            return Err(NotMade::NothingToCompile);
        }
        let watch = Watch::begin();
        let answer = request.call.create_with(vk::PipelineCache::null(), &creation.info);
        questions.note(&watch, answer.result);
        Ok(answer)
    }
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
