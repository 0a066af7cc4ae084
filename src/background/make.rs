//! One pipeline, made before the program asks for it.

use std::time::{Duration, Instant};

use ash::vk;

use super::objects::{ObjectError, OwnObjects, RecipeObjects};
use crate::faults;
use crate::recipe::capture::{Library, Objects, SubpassUse};
use crate::recipe::chain::Refusal;
use crate::recipe::identifier::{NativeIdentifier, module_identity};
use crate::recipe::model::Recipe;
use crate::recipe::rebuild::RebuildError;
use crate::recipe::rebuild::pipeline::{Info, pipeline};
use crate::recipe::{check, key, payload};
use crate::resolve::artifact;
use crate::resolve::call::Call;
use crate::resolve::create_info::{CreateInfo, Creation};
use crate::resolve::outcome::ArtifactOutcome;
use crate::resolve::passed::Passed;
use crate::resolve::request::{DescribedPipeline, Request};
use crate::state::device::Device;
use crate::state::parked::{Finished, MadeOf};
use crate::state::stored::Stored;
use crate::stats::{BypassReason, Count};
use vkstash_store::base::memory;
use vkstash_store::format::record::{Key, Kind};

/// How a pipeline is made in the program's process: only in ways that cannot keep a worker for long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From an artifact that the driver has taken before, with FAIL_ON_COMPILE_REQUIRED.
    Artifact,
    /// Compiled, on a driver that keeps no artifacts: it took so long the last time.
    Compile(Duration),
}

/// The longest compile that is repeated on a worker: vkDestroyDevice waits for it, because no call can be cancelled.
const LONGEST_COMPILE: Duration = Duration::from_millis(25);

/// Costs that differ by less are not worth a new record.
const LEAST_NEWS: Duration = Duration::from_micros(100);

/// Why a pipeline is not made ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotMade {
    /// No artifact of it was ever taken by this driver, and compiling it might take long.
    #[error("there is no artifact of it that was ever taken")]
    NoWay,
    /// The stash has no recipe, or something else under its key.
    #[error("there is no recipe of it")]
    NoRecipe,
    /// What it names cannot be made.
    #[error(transparent)]
    Objects(#[from] ObjectError),
    /// Its create info cannot be made.
    #[error(transparent)]
    Rebuild(#[from] RebuildError),
    /// What was rebuilt is another pipeline.
    #[error("its create info is that of another pipeline")]
    Different,
    /// Its call compiles nothing, so that nothing is gained, or must not be made ahead.
    #[error("its call compiles nothing")]
    NothingToCompile,
    /// The driver does not make it.
    #[error("the driver answers {0:?}")]
    Driver(vk::Result),
}

/// How this pipeline may be made. None: not in this process.
pub fn way(device: &Device, stored: &Stored, key: &Key) -> Option<Way> {
    if device.keeps_artifacts() {
        // One that no driver has taken yet may be what ends the process (docs/format.md, guard files).
        let taken = stored.is_verified(key) && stored.has_artifact(key) && device.cache_control;
        return (taken && !is_refused(stored, key)).then_some(Way::Artifact);
    }
    let mut record = Vec::new();
    if !device.records_recipes_alone() || !stored.device.read(Kind::Cost, key, &mut record) {
        return None;
    }
    let cost = payload::cost(&record)?;
    (cost <= faults::time_limit(LONGEST_COMPILE)).then_some(Way::Compile(cost))
}

/// First byte of a record of the kind failed: the driver has refused this artifact to workers (docs/format.md).
const REFUSED: u8 = 5;
/// An artifact that was refused so often is not offered by workers any more. Once may be chance.
const REFUSALS: u8 = 2;

/// How often the driver has refused this artifact to workers. None: something else is known of the key.
fn refusals(stored: &Stored, key: &Key, artifact: &[u8]) -> Option<u8> {
    let mut record = Vec::new();
    if !stored.device.has_any(Kind::Failed) || !stored.device.read(Kind::Failed, key, &mut record) {
        return Some(0);
    }
    match record.as_slice() {
        [REFUSED, count, of @ ..] => Some(if artifact.starts_with(of) { *count } else { 0 }),
        [0] => Some(0),
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

/// Remembers that the driver has refused an artifact to a worker. Programs may be served it all the same: of a link the
/// recipe does not say everything.
fn note_refusal(stored: &Stored, key: &Key, artifact: &[u8]) {
    let (Some(count), Some(prefix)) = (refusals(stored, key, artifact), artifact.get(..payload::PREFIX))
    else {
        return;
    };
    // What is dropped is noted the next time.
    if let Some(record) = memory::joined(&[&[REFUSED, count.saturating_add(1)], prefix]) {
        stored.device.put(Kind::Failed, key, record.into_boxed_slice());
    }
}

/// Makes a pipeline on the calling thread.
///
/// # Safety
/// The device is alive until the call returns, and its commands may be called from this thread. `own` is of this
/// device.
pub unsafe fn make(
    device: &Device,
    stored: &Stored,
    own: &OwnObjects,
    key: &Key,
    way: Way,
) -> Result<Finished, NotMade> {
    let mut bytes = Vec::new();
    if !stored.portable.read(Kind::Recipe, key, &mut bytes) || !check::is_true(Kind::Recipe, key, &bytes) {
        return Err(NotMade::NoRecipe);
    }
    let recipe: Recipe<'_> = key::decode(&bytes).map_err(|_| NotMade::NoRecipe)?;
    let read = |kind: Kind, key: &Key, buffer: &mut Vec<u8>| stored.portable.read(kind, key, buffer);
    // SAFETY: the caller's contract.
    let objects = unsafe { own.prepare(&recipe, &read, &[]) }?;
    // SAFETY: the caller's contract; the create infos and what they point to live until the call is over.
    unsafe {
        match pipeline(&recipe, &objects)? {
            Info::Compute(rebuilt) => create(device, stored, &objects, rebuilt.info(), key, way),
            Info::Graphics(rebuilt, _) => create(device, stored, &objects, rebuilt.info(), key, way),
            Info::RayTracing(rebuilt) => create(device, stored, &objects, rebuilt.info(), key, way),
        }
    }
}

/// # Safety
/// As [`make`]; a valid create info, made of `objects`.
unsafe fn create<I: CreateInfo>(
    device: &Device,
    stored: &Stored,
    objects: &RecipeObjects<'_>,
    info: &I,
    key: &Key,
    way: Way,
) -> Result<Finished, NotMade> {
    // SAFETY: the caller's contract.
    let creation = unsafe { Creation::of(info) };
    let parsed = &creation.parsed;
    if parsed.is_fast_link() || parsed.has_nothing_to_compile() || parsed.joins_retained() {
        return Err(NotMade::NothingToCompile);
    }
    let (mut recipe, mut buffer) = (Vec::new(), Vec::new());
    let known = Known { device, objects };
    // SAFETY: the caller's contract.
    let described = unsafe { DescribedPipeline::of(&known, &creation, &mut recipe) };
    // What a request of the program would be looked up by. If that is not this key, no request has it: somebody else
    // wrote the recipe, or this version reads it otherwise than the one that wrote it.
    let described = described.map_err(|_| NotMade::Different)?;
    if described.key != *key {
        return Err(NotMade::Different);
    }
    // No cache of the program's is filled.
    let passed = Passed::Unknown(vk::PipelineCache::null());
    let call = Call { device, passed: &passed, allocator: std::ptr::null(), creation: &creation };
    let request = Request { call, pipeline: &described };
    // SAFETY: the caller's contract.
    let (answer, cost, origin) = unsafe {
        match way {
            Way::Artifact => match artifact::make(&request, &mut buffer, None) {
                Some(Ok(made)) => {
                    let bytes = buffer.len().saturating_sub(payload::PREFIX) as u64;
                    (made.answer, made.cost, MadeOf::Artifact { bytes, source: made.source })
                }
                Some(Err(outcome)) => {
                    if matches!(outcome, ArtifactOutcome::Refused(_)) {
                        note_refusal(stored, key, &buffer);
                    }
                    return Err(NotMade::Driver(vk::Result::PIPELINE_COMPILE_REQUIRED));
                }
                None => return Err(NotMade::NoWay),
            },
            Way::Compile(known) => {
                let since = Instant::now();
                let answer = call.create();
                let cost = match answer.result {
                    vk::Result::SUCCESS => lowered(device, stored, key, known, since.elapsed()),
                    _ => known,
                };
                (answer, cost, MadeOf::Compile)
            }
        }
    };
    match answer.result {
        vk::Result::SUCCESS => {
            Ok(Finished { pipeline: answer.pipeline, cost, origin, since: Instant::now() })
        }
        result => Err(NotMade::Driver(result)),
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

/// What capture is told of the layer's own objects.
struct Known<'a> {
    device: &'a Device,
    objects: &'a RecipeObjects<'a>,
}

fn unknown() -> Refusal {
    Refusal::plain(BypassReason::UnknownObject)
}

impl Objects for Known<'_> {
    fn module(&self, module: vk::ShaderModule) -> Result<Key, Refusal> {
        self.objects.identity_of(module).ok_or(unknown())
    }

    fn inline_module(&self, flags: vk::ShaderModuleCreateFlags, code: &[u8]) -> Key {
        module_identity(flags, code)
    }

    fn identified(&self, identifier: &NativeIdentifier) -> Option<Key> {
        self.device.identified(identifier)
    }

    fn algorithm(&self) -> [u8; 16] {
        self.device.algorithm()
    }

    fn layout(&self, layout: vk::PipelineLayout) -> Result<Key, Refusal> {
        self.objects.digest_of_layout(layout).ok_or(unknown())
    }

    fn render_pass(&self, render_pass: vk::RenderPass, subpass: u32) -> Result<(Key, SubpassUse), Refusal> {
        self.objects.digest_of_pass(render_pass, subpass).ok_or(unknown())
    }

    fn library(&self, _: vk::Pipeline) -> Result<Library, Refusal> {
        Err(unknown())
    }

    fn advanced_blend(&self) -> bool {
        Objects::advanced_blend(self.device)
    }

    fn looked_into(&self) -> vk::PipelineCreateFlags {
        self.device.looked_into()
    }
}
