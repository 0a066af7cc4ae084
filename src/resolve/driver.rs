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
use super::request::Request;
use super::{binary, companion, compile, late, recent};
use crate::recipe::capture::flags;
use crate::recipe::chain::{self, Arena};
use crate::recipe::newer::PIPELINE_BINARY_INFO;
use crate::recipe::shader_set::ShaderSet;
use crate::recipe::structures::{self, Handling};
use crate::state::app_cache::AppCache;
use crate::state::asked_first::Holder;
use crate::state::beside::Beside;
use crate::stats::Count;
use vkstash_store::format::record::Key;

/// Why the driver is asked before anything is described.
enum Early {
    /// It has that turn for this cache habit.
    Policy,
    /// The run began with an empty stash. What the driver has on its slow disk background work records later.
    FirstRun,
    /// It has lately had a pipeline of the same stages in memory.
    RecentHit(Holder),
    /// The program has loaded the cache, or the stash has nothing to serve.
    MayHaveAnything,
}

/// Rung 4 before any other, where the driver's turn comes before the stash's. `needs_key`: who is asked depends on the
/// key, which is not known yet.
///
/// # Safety
/// The call's create info is valid.
pub unsafe fn ask_before_stash<I: CreateInfo>(call: &Call<'_, I>, needs_key: bool) -> Rung<Question> {
    // SAFETY: the caller's contract.
    unsafe {
        match comes_first(call, needs_key) {
            Ok(why) => ask_first(call, why),
            Err(question) => Rung::Missed(question),
        }
    }
}

/// Why the driver's turn comes before the stash's, or what is known of the question if its turn comes later.
///
/// # Safety
/// The call's create info is valid.
unsafe fn comes_first<I: CreateInfo>(call: &Call<'_, I>, needs_key: bool) -> Result<Early, Question> {
    let (device, passed) = (call.device, call.passed);
    // A pipeline that has failed is known by its key: it goes down once, as the program made it.
    if !device.may_ask_driver_first() || device.knows_failures() {
        return Err(Question::NotAsked);
    }
    if needs_key {
        return Err(Question::NotAsked);
    }
    let is_first = passed.habit().is_some_and(|habit| device.asks_driver_first(habit));
    if is_first && device.asked_before_stash.is_worth_asking() {
        return Ok(Early::Policy);
    }
    // A loaded cache has a judgement of its own.
    if is_first && passed.known().is_none_or(|cache| !cache.holds_earlier_runs()) {
        // SAFETY: the caller's contract.
        let is_left_to_ladder = unsafe { !may_forbid_compiling(call) };
        return Err(if is_left_to_ladder { Question::NotAsked } else { Question::InVain });
    }
    if passed.loaded().is_some() {
        return Ok(Early::MayHaveAnything);
    }
    // Before the first pipeline is recorded.
    if device.leaves_first_run_to_workers() && call.parsed().stages.len() > 1 {
        let is_shared = matches!(passed, Passed::Known { contents: Contents::Anything, .. });
        if is_shared && late::may_be_left_to_workers(call) && device.only_on_disk.is_worth_asking() {
            return Ok(Early::FirstRun);
        }
    }
    if let Some(hits) = passed.recent_hits(device).filter(|hits| !hits.is_empty()) {
        // SAFETY: the caller's contract.
        let stages = unsafe { call.number_of_stages() };
        if let Some(holder) = stages.and_then(|stages| hits.holder(stages)) {
            return Ok(Early::RecentHit(holder));
        }
    }
    if device.has_no_artifacts() { Ok(Early::MayHaveAnything) } else { Err(Question::NotAsked) }
}

/// The program's own call, asked of the driver before anything is hashed.
///
/// # Safety
/// The call's create info is valid.
unsafe fn ask_first<I: CreateInfo>(call: &Call<'_, I>, why: Early) -> Rung<Question> {
    // SAFETY: the caller's contract.
    if !unsafe { may_forbid_compiling(call) } {
        return Rung::Missed(Question::NotAsked);
    }
    // Its shaders are not known, so only a cache that may hold anything is asked where asking another is dear.
    let shaders = ShaderSet::default();
    // SAFETY: the call's create info is valid (the caller's contract).
    unsafe {
        match why {
            Early::Policy if call.device.caches_hold(call.class()) => {
                put_question(call, &shaders, Knowledge::Nothing)
            }
            Early::FirstRun => put_question(call, &shaders, Knowledge::FirstRun),
            Early::RecentHit(Holder::ProgramsCache) => put_question(call, &shaders, Knowledge::Stages),
            Early::RecentHit(Holder::Companion) => match companion::ask_again(call) {
                Some(served) => Rung::Served(served),
                None => Rung::Missed(Question::NotAsked),
            },
            Early::MayHaveAnything
                if call.device.caches_hold(call.class()) && may_have(call, &shaders, None) =>
            {
                put_question(call, &shaders, Knowledge::Shaders)
            }
            Early::Policy | Early::MayHaveAnything => Rung::Missed(Question::NotAsked),
        }
    }
}

/// Whether FAIL_ON_COMPILE_REQUIRED may be added to a call although nothing of it was described: its flags and the
/// structures in its chains are known. Libraries need keys, because they may be linked later.
///
/// # Safety
/// The call's create info is valid.
unsafe fn may_forbid_compiling<I: CreateInfo>(call: &Call<'_, I>) -> bool {
    let parsed = call.parsed();
    let known = |p_next| {
        // SAFETY: the chains of a valid create info.
        unsafe { chain::walk(p_next) }.all(|node| {
            // SAFETY: `walk` yields valid structures.
            let s_type = unsafe { (*node).s_type };
            let row = structures::find(s_type).filter(|_| s_type != PIPELINE_BINARY_INFO);
            row.is_some_and(|row| !matches!(row.handling, Handling::Bypass(_)))
        })
    };
    flags::hashed(parsed.flags, call.device.policy.looked_into).is_ok()
        && !parsed.is_library()
        && known(call.creation.info.p_next())
        && parsed.stages.iter().all(|stage| known(stage.p_next))
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
    let (call, shaders) = (&request.call, &request.pipeline.shaders);
    let device = call.device;
    let recorded = device.keeps_artifacts() && device.caches_hold(call.class());
    let is_open = match question {
        Question::NotAsked => true,
        // The driver may have on its disk what the stash lacks. Where recording is free, the compiling call finds it
        // there; a call that forbids compiling has to be told what the program's cache has.
        Question::InVain => !device.policy.free_recording || call.parsed().fails_on_compile_required(),
        _ => false,
    };
    if !(device.cache_control && recorded && is_open && may_have(call, shaders, Some(&request.pipeline.key)))
    {
        return Rung::Missed(question);
    }
    // SAFETY: the caller's contract.
    let answer = unsafe { put_question(call, shaders, Knowledge::Shaders) };
    if question == Question::InVain && matches!(answer, Rung::Served(_)) {
        device.asked_before_stash.note(true);
    }
    answer
}

/// What is known of the pipeline that the driver is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Knowledge {
    /// Its shaders are unknown, and are not looked up: the driver is asked before everything.
    Nothing,
    /// The same in a run that began with an empty stash.
    FirstRun,
    /// The driver has had a pipeline of most likely the same stages, so its shader set need not be noted again.
    Stages,
    /// Its shaders; the empty set if they are unknown.
    Shaders,
}

/// The question itself.
///
/// # Safety
/// The call's create info is valid.
unsafe fn put_question<I: CreateInfo>(
    call: &Call<'_, I>,
    shaders: &ShaderSet,
    knowledge: Knowledge,
) -> Rung<Question> {
    let (device, passed) = (call.device, call.passed);
    let mut arena = Arena::default();
    let mut creation = *call.creation;
    // SAFETY: the caller's contract; the arena stays on this stack frame.
    if !unsafe { creation.forbid_compiling(&mut arena) } {
        return Rung::Missed(Question::NotAsked);
    }
    let finds = match knowledge {
        Knowledge::Nothing => Some(&device.asked_before_stash),
        Knowledge::FirstRun => Some(&device.only_on_disk),
        Knowledge::Stages => None,
        Knowledge::Shaders => call.finds_of(call.met(shaders)),
    };
    let started = Instant::now();
    // SAFETY: the caller's contract, and the copy differs in its flags alone; the arena lives until the call is over.
    let answer = unsafe { call.create_with(passed.handle(), &creation.info) };
    let took = (answer.result == vk::Result::SUCCESS).then(|| started.elapsed());
    // A program may forbid compiling to find out whether the driver has a pipeline. A miss is expected then, and is not
    // counted. An error says nothing of what the driver has.
    let is_miss = answer.result.as_raw() >= 0 && !call.parsed().fails_on_compile_required();
    let is_judged = took.is_some() || is_miss;
    if let Some(finds) = finds.filter(|_| is_judged) {
        finds.note(took.is_some());
    }
    if let Some(cache) = passed.known().filter(|cache| is_judged && cache.holds_earlier_runs()) {
        cache.loaded_has.note(took.is_some());
    }
    // A loaded cache has a judgement of its own, of all that it is asked for.
    if let Some(loaded) = passed.loaded() {
        if is_judged {
            loaded.loaded_cache_first.note(took);
        }
    } else if matches!(knowledge, Knowledge::Stages | Knowledge::Shaders) {
        // SAFETY: the call's create info is valid (the caller's contract).
        unsafe { recent::note(call, Holder::ProgramsCache, took) };
    }
    match answer.result {
        vk::Result::SUCCESS => {}
        // The call itself will fail as well: another try with a cache of the layer's would only make it fail twice.
        result if result.as_raw() < 0 => return Rung::Missed(Question::Fails),
        _ => return Rung::Missed(Question::NothingThere),
    }
    if knowledge == Knowledge::Stages {
        passed.mark_filled_again();
    } else {
        // Without capture the shaders are unknown (the empty set), so the cache may now hold any pipeline.
        passed.mark_filled_with(device, shaders);
    }
    Rung::Served(Served { answer, origin: Origin::Driver { took: took.unwrap_or_default() } })
}

/// Whether the driver may have a pipeline of these shaders: in the program's cache, in the driver's behind NULL, or on
/// disk. Where recording is free, the disk is asked by the call that records; so it is where a driver's disk is dear
/// beside a cache and that call costs the program no more.
fn may_have<I: CreateInfo>(call: &Call<'_, I>, shaders: &ShaderSet, key: Option<&Key>) -> bool {
    let policy = &call.device.policy;
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
            cache.filled.may_have(shaders) || is_left_to_workers(call, cache, shaders, key)
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
                || is_left_to_workers(call, cache, shaders, key)
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
fn is_left_to_workers<I: CreateInfo>(
    call: &Call<'_, I>,
    cache: &AppCache,
    shaders: &ShaderSet,
    key: Option<&Key>,
) -> bool {
    let device = call.device;
    let has_failed = |key| device.stored().is_none_or(|stored| late::has_failed(stored, key));
    device.policy.dear_disk_beside_cache
        && shaders.numbers().len() > 1
        && late::may_be_left_to_workers(call)
        && !key.is_some_and(has_failed)
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
