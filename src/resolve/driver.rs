//! Rungs 4 and 5: what the driver has already, and compile required.
//!
//! What the program's warm cache and the driver's disk cache have must not be compiled again: before anything is
//! compiled through a cache of the layer's, the driver is asked with the program's call and cache. It answers from what
//! it has or says COMPILE_REQUIRED within microseconds. A call that forbids compiling itself is asked in the same way.

use std::time::Instant;

use ash::vk;

use super::call::{Answer, Call};
use super::create_info::CreateInfo;
use super::outcome::{ArtifactOutcome, Origin, Question, Rung, Served};
use super::passed::{Contents, Met, Passed};
use super::refuse::refuse;
use super::request::{DescribedPipeline, Request};
use super::{binary, compile, late, record};
use crate::recipe::chain::Arena;
use crate::recipe::shader_set::ShaderSet;
use crate::state::app_cache::AppCache;
use crate::state::beside::Beside;
use crate::state::finds::Finds;
use crate::stats::Count;

/// When the driver is asked for what its caches have.
enum Turn<'a> {
    /// Before the stash. What such questions bring is noted here.
    First(Option<&'a Finds>),
    /// After the stash.
    Later,
    /// It would be first, and has had next to nothing lately.
    InVain,
}

/// Rung 4 before any other, where the driver's turn comes before the stash's.
///
/// # Safety
/// The request's create info is valid.
pub unsafe fn ask_before_stash<I: CreateInfo>(request: &Request<'_, I>) -> Rung<Question> {
    match turn(request) {
        // SAFETY: the caller's contract.
        Turn::First(finds) => unsafe { put_question(request, finds) },
        Turn::Later => Rung::Missed(Question::NotAsked),
        Turn::InVain => Rung::Missed(Question::InVain),
    }
}

fn turn<'a, I: CreateInfo>(request: &Request<'a, I>) -> Turn<'a> {
    let Request { call, pipeline } = request;
    let (device, passed) = (call.device, call.passed);
    let may_be_asked = device.cache_control
        && device.keeps_artifacts()
        && device.caches_hold(call.class())
        && !call.names_code_of_the_layers();
    // A pipeline that has failed goes down once, as the program made it.
    if !may_be_asked || record::has_failed(request) {
        return Turn::Later;
    }
    let is_first = passed.habit().is_some_and(|habit| device.asks_driver_first(habit));
    if is_first && device.asked_before_stash.is_worth_asking() {
        return Turn::First(Some(&device.asked_before_stash));
    }
    // A loaded cache has a judgement of its own.
    if is_first && passed.known().is_none_or(|cache| !cache.holds_earlier_runs()) {
        return Turn::InVain;
    }
    if passed.loaded().is_some() && may_have(request) {
        return Turn::First(call.finds_of(call.met(&pipeline.shaders)));
    }
    Turn::Later
}

/// The program's own call and cache, with FAIL_ON_COMPILE_REQUIRED, where they may have the pipeline and have not been
/// asked.
///
/// # Safety
/// The request's create info is valid.
pub unsafe fn ask_programs_cache<I: CreateInfo>(
    request: &Request<'_, I>,
    question: Question,
) -> Rung<Question> {
    let Request { call, pipeline } = request;
    let device = call.device;
    let recorded = device.keeps_artifacts() && device.caches_hold(call.class());
    let is_open = match question {
        Question::NotAsked => true,
        // The driver may have on its disk what the stash lacks. Where recording is free, the compiling call finds it
        // there; a call that forbids compiling has to be told what the program's cache has.
        Question::InVain => !device.policy.free_recording || call.parsed().fails_on_compile_required(),
        _ => false,
    };
    if !(device.cache_control && recorded && is_open && may_have(request)) {
        return Rung::Missed(question);
    }
    // SAFETY: the caller's contract.
    let answer = unsafe { put_question(request, call.finds_of(call.met(&pipeline.shaders))) };
    if question == Question::InVain && matches!(answer, Rung::Served(_)) {
        device.asked_before_stash.note(true);
    }
    answer
}

/// The question itself. `finds`: where it is noted what such questions bring.
///
/// # Safety
/// The request's create info is valid.
unsafe fn put_question<I: CreateInfo>(request: &Request<'_, I>, finds: Option<&Finds>) -> Rung<Question> {
    let Request { call, pipeline } = request;
    let (device, passed) = (call.device, call.passed);
    let mut arena = Arena::default();
    let mut creation = *call.creation;
    // SAFETY: the caller's contract; the arena stays on this stack frame.
    if !unsafe { creation.forbid_compiling(&mut arena) } {
        return Rung::Missed(Question::NotAsked);
    }
    let started = Instant::now();
    // SAFETY: the caller's contract, and the copy differs in its flags alone; the arena lives until the call is over.
    let answer = unsafe { call.create_with(passed.handle(), &creation.info) };
    let took = (answer.result == vk::Result::SUCCESS).then(|| started.elapsed());
    // A program may forbid compiling to find out whether the driver has a pipeline. A miss is expected then, and is not
    // counted. An error says nothing of what the driver has.
    let is_miss = answer.result.as_raw() >= 0 && !call.parsed().fails_on_compile_required();
    if took.is_some() || is_miss {
        if let Some(finds) = finds {
            finds.note(took.is_some());
        }
        // A loaded cache has a judgement of its own, of all that it is asked for.
        if let Some(cache) = passed.known().filter(|cache| cache.holds_earlier_runs()) {
            cache.loaded_has.note(took.is_some());
        }
        if let Some(loaded) = passed.loaded() {
            loaded.loaded_cache_first.note(took);
        }
    }
    match answer.result {
        vk::Result::SUCCESS => {}
        // The call itself will fail as well: another try with a cache of the layer's would only make it fail twice.
        result if result.as_raw() < 0 => return Rung::Missed(Question::Fails),
        _ => return Rung::Missed(Question::NothingThere),
    }
    passed.mark_filled_with(device, &pipeline.shaders);
    Rung::Served(Served { answer, origin: Origin::Driver { took: took.unwrap_or_default() } })
}

/// Whether the driver may have a pipeline of these shaders: in the program's cache, in the driver's behind NULL, or on
/// disk. Where recording is free, the disk is asked by the call that records; so it is where a driver's disk is dear
/// beside a cache and that call costs the program no more.
fn may_have<I: CreateInfo>(request: &Request<'_, I>) -> bool {
    let Request { call, pipeline } = request;
    let (policy, shaders) = (&call.device.policy, &pipeline.shaders);
    let is_worth_asking = || call.may_be_found(call.passed.met(call.device, shaders));
    match call.passed {
        // A pipeline of which binaries are captured does not come from the driver's cache (contract 5.5).
        Passed::Null if !policy.free_recording || binary::applies(call) => true,
        Passed::Null => {
            let null = &call.device.null;
            null.filled.may_have(shaders) && is_worth_asking() || is_on_warm_disk(call, &null.beside, shaders)
        }
        Passed::Known { contents: Contents::Nothing, .. } => false,
        Passed::Known { contents: Contents::SameBatch, cache, .. } => {
            cache.filled.may_have(shaders) || is_left_to_workers(request, cache)
        }
        Passed::Known { contents: Contents::Anything, cache, .. } => {
            let is_loaded = cache.holds_earlier_runs();
            let disk_comes_later = policy.dear_disk_beside_cache || policy.free_recording && !is_loaded;
            // A loaded cache whose hits have come from the disk is no better than an empty one.
            let is_empty = is_loaded && !cache.loaded_cache_first.is_worth_it();
            // NVIDIA takes 0.6 ms for what a loaded cache has and its disk has not, and 12 ms for the compile.
            !disk_comes_later
                || is_loaded && cache.loaded_has.is_worth_asking()
                || !is_empty && cache.filled.may_have(shaders) && is_worth_asking()
                || is_left_to_workers(request, cache)
                || is_on_warm_disk(call, &cache.beside, shaders)
        }
        Passed::Unknown(_) => false,
    }
}

/// Whether the disk is asked for a pipeline of shaders that were all served or compiled beside this cache before, on a
/// driver where the call that records finds it there as well.
///
/// That call reads all of the shaders, each time anew: RADV takes 94 us for a vertex and a fragment shader. With the
/// program's own cache it reads those that the cache has not met, and then takes 27 us (`vkstash-bench states --state
/// shaders --warm`). Such pipelines are not recorded: a served call takes 20 us and more.
fn is_on_warm_disk<I: CreateInfo>(call: &Call<'_, I>, beside: &Beside, shaders: &ShaderSet) -> bool {
    let device = call.device;
    device.policy.free_recording
        && device.warm_disk.is_likely()
        && shaders.numbers().len() > 1
        && !call.parsed().fails_on_compile_required()
        && beside.of(shaders).is_some()
        && call.may_be_found(Met::Never)
}

/// Whether the program's cache is asked for what only a dear disk can complete, and background work records it later.
///
/// A cache that has met some of the shaders reads the others alone. The call that records would read them all: with a
/// cache of the layer's it took up to twice as long (docs/measurements.md). A single shader that was never met is read
/// as a whole either way. If the pipelines beside the cache have all of the shaders, the companion is asked. What
/// background work has failed to record is recorded by the call.
fn is_left_to_workers<I: CreateInfo>(request: &Request<'_, I>, cache: &AppCache) -> bool {
    let Request { call, pipeline: DescribedPipeline { key, shaders, .. } } = request;
    let device = call.device;
    let has_failed = || device.stored().is_none_or(|stored| late::has_failed(stored, key));
    device.policy.dear_disk_beside_cache
        && shaders.numbers().len() > 1
        && late::may_be_left_to_workers(call)
        && !has_failed()
        && cache.beside.of(shaders).is_none()
        && call.may_be_found(Met::Never)
}

/// The program itself forbids compiling: whatever the driver says is the answer. If it has said so already, it is not
/// asked again.
///
/// # Safety
/// The request's create info is valid.
pub unsafe fn ask_for_the_program<I: CreateInfo>(
    request: &Request<'_, I>,
    artifact: ArtifactOutcome<'_>,
    question: Question,
) -> Answer {
    if question == Question::NothingThere {
        // SAFETY: the options of a valid create info (the caller's contract).
        return unsafe { refuse(request.call.parsed()) };
    }
    // SAFETY: the caller's contract.
    let answer = unsafe { compile::record_without_compiling(request, artifact) };
    if answer.result == vk::Result::SUCCESS {
        request.call.device.count(Count::DriverHad);
    }
    answer
}
