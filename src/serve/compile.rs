//! Where no source has the pipeline: the real driver compiles, and what it made is recorded on the way back.

use std::time::{Duration, Instant};

use ash::vk;

use super::call::Answer;
use super::counts::count_unrecorded;
use super::create_info::CreateInfo;
use super::outcome::{ArtifactOutcome, Refused};
use super::program_cache::{Contents, ProgramCache};
use super::request::Request;
use super::stopwatch::{Stopwatch, Took};
use super::{complete_data, feedback, record};
use crate::state::pipeline_class::PipelineClass;
use crate::state::private_cache::PrivateCache;
use crate::state::sized_data::NoData;
use vkstash_model::counters::Count;
use vkstash_model::payload;

/// Where a call's artifact can be taken from.
enum Source<'a> {
    /// A private cache: it holds just this pipeline afterwards.
    Private(PrivateCache<'a>),
    /// The cache with the artifact for which the driver has said COMPILE_REQUIRED. RADV (Mesa 25.0.7) says so of
    /// ray tracing libraries with any-hit shaders, and then makes them of it forty times faster than without.
    Refused(Refused<'a>),
    /// The program's cache, empty until now: the same, for nothing.
    Fresh,
    /// Nowhere: the call goes down as the program made it.
    Nowhere,
}

/// What came of the driver's turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// The artifact is queued.
    Recorded,
    /// The pipeline leaves no artifact.
    Unrecorded,
    /// The artifact that the driver has refused was of use after all. It has been counted.
    MadeOfRefused,
}

/// Lets the driver compile.
///
/// # Safety
/// The request's create info is valid.
pub unsafe fn compile<I: CreateInfo>(request: &Request<'_, I>, artifact: ArtifactOutcome<'_>) -> Answer {
    let device = request.call.device;
    // SAFETY: the request's create info is valid until the program's command returns.
    let (answer, outcome) = unsafe { call_and_record(request, artifact, device.cache_control()) };
    if answer.result == vk::Result::SUCCESS {
        match outcome {
            Outcome::Recorded => device.count(Count::Compiled),
            Outcome::Unrecorded => count_unrecorded(device, 1),
            Outcome::MadeOfRefused => {}
        }
    }
    answer
}

/// [`compile`] for a call that may not compile: what the driver has is recorded where that is free.
///
/// # Safety
/// As [`compile`].
pub unsafe fn record_without_compiling<I: CreateInfo>(
    request: &Request<'_, I>,
    artifact: ArtifactOutcome<'_>,
) -> Answer {
    // SAFETY: the request's create info is valid, with the program's flag that forbids compiling in it.
    unsafe { call_and_record(request, artifact, false) }.0
}

/// The call goes down as the program made it: the driver has answered it with an error before, or nothing of a cache
/// may stand in. `recorded`: the stash knows of the error.
///
/// # Safety
/// As [`compile`].
pub unsafe fn untouched<I: CreateInfo>(request: &Request<'_, I>, recorded: bool) -> Answer {
    let device = request.call.device;
    let started = Instant::now();
    // SAFETY: the request's create info is valid, and is the one that the driver gets here.
    let answer = unsafe { own_call(request, recorded) };
    if answer.result == vk::Result::SUCCESS {
        device.counters().add(Count::CompileNanos, started.elapsed().as_nanos() as u64);
        count_unrecorded(device, 1);
    }
    answer
}

/// The program's own call, of which it is noted whether the driver answers it with an error.
///
/// # Safety
/// As [`compile`].
unsafe fn own_call<I: CreateInfo>(request: &Request<'_, I>, recorded: bool) -> Answer {
    let Request { call, pipeline } = request;
    call.program_cache.mark_filled_with(call.device, &pipeline.key, &pipeline.shaders);
    // SAFETY: `call` has a valid create info, and the program's own cache and allocator.
    let answer = unsafe { call.create() };
    if answer.result != vk::Result::PIPELINE_COMPILE_REQUIRED {
        record::note_failure(call.device, &pipeline.key, recorded, answer.result);
    }
    answer
}

/// Makes the call and records what came of it. `asked`: the driver was asked for the program's own call, or asking was
/// not worth it, so it is compiled through a private cache.
unsafe fn call_and_record<I: CreateInfo>(
    request: &Request<'_, I>,
    artifact: ArtifactOutcome<'_>,
    asked: bool,
) -> (Answer, Outcome) {
    let Request { call, pipeline } = request;
    let (device, feedback) = (call.device, call.parsed().feedback);
    let forbids = call.parsed().fails_on_compile_required();
    let source = source(request, artifact, asked);
    let cache = match &source {
        Source::Private(cache) | Source::Refused(Refused { cache, .. }) => cache.handle(),
        Source::Fresh | Source::Nowhere => {
            // A call that may not compile fills it only with what it finds.
            if !forbids {
                call.program_cache.mark_filled_with(device, &pipeline.key, &pipeline.shaders);
            }
            call.program_cache.handle()
        }
    };
    let stopwatch = Stopwatch::begin(device);
    // SAFETY: the create info is the program's, which is valid; `cache` is the program's, or the layer's in `source`,
    // alive until then, or NULL.
    let mut answer = unsafe { call.create_with(cache, &call.creation.info) };
    let is_found = forbids && answer.result == vk::Result::SUCCESS;
    if is_found && matches!(source, Source::Fresh | Source::Nowhere) {
        call.program_cache.mark_filled_with(device, &pipeline.key, &pipeline.shaders);
    }
    if answer.result.as_raw() < 0 && !matches!(source, Source::Fresh | Source::Nowhere) {
        // Whether the layer's cache is to blame cannot be told: the program's own call decides.
        drop(source);
        // SAFETY: the request's create info is valid (the caller's contract).
        answer = unsafe { own_call(request, false) };
        return (answer, Outcome::Unrecorded);
    }
    let Took { wall, cost } = stopwatch.end();
    if answer.result != vk::Result::SUCCESS {
        record::note_failure(device, &pipeline.key, false, answer.result);
        return (answer, Outcome::Unrecorded);
    }
    let source = match source {
        Source::Refused(refused) if is_far_faster(wall, refused.cost) => {
            // SAFETY: the driver has filled the program's structures.
            unsafe { note_made_of_refused(request, refused) };
            return (answer, Outcome::MadeOfRefused);
        }
        source => source,
    };
    // What the program itself forbids to compile came from a cache of the driver's.
    let compiled = !forbids;
    if compiled {
        device.counters().add(Count::CompileNanos, wall.as_nanos() as u64);
    }
    if matches!(source, Source::Private(_) | Source::Refused(_)) {
        // SAFETY: the driver has filled the program's structures.
        unsafe { feedback::clear_hit(feedback) };
    }
    let made = Compilation { cost, compiled };
    // SAFETY: the request's create info is valid, and the driver has just made the pipeline with the cache of `source`.
    (answer, unsafe { record_made(request, source, &made) })
}

/// The artifact that the driver has refused was of use after all.
///
/// # Safety
/// The driver has filled the program's structures.
unsafe fn note_made_of_refused<I: CreateInfo>(request: &Request<'_, I>, refused: Refused<'_>) {
    let Request { call, pipeline } = request;
    // SAFETY: as this function.
    unsafe { feedback::clear_hit(call.parsed().feedback) };
    if call.program_cache.known().is_some() {
        let (key, bytes) = (&pipeline.key, complete_data::artifact_bytes(call.device, &pipeline.key));
        call.program_cache.note_beside(call.device, key, &pipeline.shaders, Some(refused.cache), bytes);
    }
    call.device.count(Count::Offered);
}

/// A pipeline that the driver has made for the program.
struct Compilation {
    /// The time that the compile would take on a machine that nothing else keeps busy.
    cost: Duration,
    /// Whether the driver may have compiled the pipeline: the call did not forbid it.
    compiled: bool,
}

/// Records what came of the call.
///
/// # Safety
/// The request's create info is valid, and the driver has just made the pipeline of it and of this source.
unsafe fn record_made<I: CreateInfo>(
    request: &Request<'_, I>,
    source: Source<'_>,
    made: &Compilation,
) -> Outcome {
    let Request { call, pipeline } = request;
    let &Compilation { cost, compiled } = made;
    let device = call.device;
    let refusals = if let Source::Refused(refused) = &source { refused.refusals } else { 0 };
    let prefix = payload::prefix(cost, refusals);
    let mut made_with = None;
    let payload = match source {
        Source::Private(cache) | Source::Refused(Refused { cache, .. }) => {
            made_with.insert(cache).data_behind(&prefix)
        }
        Source::Fresh => {
            // Not the program's cache itself, which other threads may fill meanwhile. It may hold a few pipelines of
            // theirs by now, which makes the artifact larger and no less right.
            // SAFETY: the program's cache is alive, and this call may use it (contract 4.4).
            let copy = unsafe { device.caches.commands.snapshot(call.program_cache.handle()) };
            copy.map_or(Err(NoData::Unreadable), |copy| copy.data_behind(&prefix))
        }
        Source::Nowhere => {
            // Elsewhere the driver may have had it.
            let compiled = compiled && device.records_recipes_alone();
            // SAFETY: the request's create info is valid, as the recipe to be recorded requires.
            unsafe { record::record_alone(request, compiled.then_some(cost)) };
            return Outcome::Unrecorded;
        }
    };
    let beside_its_cache = made_with.is_some() && call.program_cache.known().is_some();
    device.caches.probe.note(call.class(), payload.as_ref().err().copied(), beside_its_cache);
    let Ok(payload) = payload else {
        // SAFETY: the request's create info is still valid: the program's command has not returned.
        unsafe { record::record_alone(request, compiled.then_some(cost)) };
        return Outcome::Unrecorded;
    };
    if compiled && device.stored().is_some_and(|stored| record::is_lost(stored, &pipeline.key)) {
        record::count_lost(device, cost);
    }
    // SAFETY: the request's create info is valid, and `payload` is the data of the cache that the pipeline was put in.
    unsafe { record::record(request, payload, made_with) };
    Outcome::Recorded
}

/// Whether a call was so much faster than the compile that noise does not explain it. RADV's are forty times as fast,
/// and save most of a millisecond.
fn is_far_faster(call: Duration, compile: Duration) -> bool {
    compile >= 4 * call && compile - call >= Duration::from_micros(200)
}

/// Where an artifact can be taken from: [`Source`] before anything is made for it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Private,
    Fresh,
    /// The call goes down as it is, unless there is a refused artifact.
    Own,
    Nowhere,
}

fn place<I: CreateInfo>(request: &Request<'_, I>, asked: bool) -> Place {
    let Request { call, pipeline } = request;
    let device = call.device;
    if !record::may_record_artifact(device, call.class()) {
        return Place::Nowhere;
    }
    // What the program forbids to compile may be in the driver's object.
    let driver_may_have = match call.program_cache {
        ProgramCache::Null => device.caches.null.driver_contents.may_have(&pipeline.shaders, false),
        ProgramCache::Known { contents: Contents::SameBatch, cache, .. } => {
            cache.driver_contents.may_have(&pipeline.shaders, false)
        }
        ProgramCache::Known { contents: Contents::Anything, .. } => true,
        ProgramCache::Known { contents: Contents::Nothing, .. } | ProgramCache::Unknown(_) => false,
    };
    if driver_may_have && call.parsed().fails_on_compile_required() {
        return Place::Nowhere;
    }
    let private = match call.program_cache {
        ProgramCache::Known { contents: Contents::Nothing, .. } => return Place::Fresh,
        ProgramCache::Known { contents: Contents::SameBatch, .. } => true,
        ProgramCache::Null => asked || device.policy.free_recording,
        // RADV says that it has nothing of ray tracing libraries where it has: what the program kept of an earlier
        // run is not to be lost.
        ProgramCache::Known { contents: Contents::Anything, cache, .. } => {
            let unsure = call.class() == PipelineClass::RayTracing && call.parsed().is_library();
            asked && !(unsure && cache.holds_earlier_runs())
        }
        ProgramCache::Unknown(_) => false,
    };
    if private { Place::Private } else { Place::Own }
}

/// Decides where the artifact is taken from. What the call costs the program is never more than without the layer.
///
/// A deferred call decides for itself (`deferred.rs`, `compile`), because a private cache is its only choice. It
/// decides once for all pipelines of the call, so the cache of one refused artifact will not do; and the program's own
/// cache is in use until the operation is complete.
fn source<'a, I: CreateInfo>(
    request: &Request<'a, I>,
    artifact: ArtifactOutcome<'a>,
    asked: bool,
) -> Source<'a> {
    let call = &request.call;
    let place = match artifact {
        ArtifactOutcome::LeftAlone => Place::Nowhere,
        _ => place(request, asked),
    };
    // A driver that may not compile would refuse it once more.
    let forbids = call.parsed().fails_on_compile_required();
    match (place, artifact) {
        (Place::Nowhere, _) => Source::Nowhere,
        (_, ArtifactOutcome::Refused(refused)) if !forbids => Source::Refused(refused),
        (Place::Fresh, _) => Source::Fresh,
        (Place::Private, _) => {
            call.device.caches.commands.private(&[]).map_or(Source::Nowhere, Source::Private)
        }
        (Place::Own, _) => Source::Nowhere,
    }
}
