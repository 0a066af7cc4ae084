//! Rungs 4 and 5: what the driver has already, and compile required.
//!
//! The program's warm cache and the driver's disk cache are not ours to lose: before anything is compiled
//! through a cache of ours, the driver is asked with the program's own call. It answers from what it has or
//! says COMPILE_REQUIRED within microseconds.

use std::time::Instant;

use ash::vk;

use super::call::{self, Answer, CreateInfo};
use super::past::{Asked, Past};
use super::{Contents, Passed, Request, binary, companion, compile, recent};
use crate::recipe::capture::stage::{self, Steering};
use crate::recipe::chain::{self, Arena};
use crate::recipe::model::Parts;
use crate::recipe::newer::PIPELINE_BINARY_INFO;
use crate::recipe::shader_set::ShaderSet;
use crate::recipe::structures::{self, Handling};
use crate::state::asked_first::Holder;
use crate::state::device::Device;
use crate::state::family::Family;
use crate::stats::Count;
use vkstash_store::format::record::Key;

/// Why the driver is asked before anything is described.
pub enum Early {
    /// It has lately had a pipeline of the same stages in memory.
    RecentHit(Holder),
    /// The program has loaded the cache, or the stash has nothing to serve.
    MayHaveAnything,
}

/// Whether the driver's turn comes before the stash's, and why.
///
/// # Safety
/// `info` is a valid create info of the device.
pub unsafe fn comes_first<I: CreateInfo>(device: &Device, passed: &Passed, info: &I) -> Option<Early> {
    // A pipeline that has failed is known by its key: it goes down once, as the program made it.
    if !device.may_ask_driver_first() || device.knows_failures() {
        return None;
    }
    if passed.loaded().is_some() {
        return Some(Early::MayHaveAnything);
    }
    if let Some(hits) = passed.recent_hits(device).filter(|hits| !hits.is_empty()) {
        // SAFETY: the caller's contract.
        let stages = unsafe { call::number_of_stages(device, info) };
        if let Some(holder) = stages.and_then(|stages| hits.holder(stages)) {
            return Some(Early::RecentHit(holder));
        }
    }
    device.has_no_artifacts().then_some(Early::MayHaveAnything)
}

/// Rung 4 before any other: the program's own call, asked of the driver before anything is hashed. None: the ladder's
/// turn, with what has come of it so far.
///
/// # Safety
/// `info` is a valid create info of the device.
pub unsafe fn ask_first<I: CreateInfo>(
    device: &Device,
    passed: &Passed,
    allocator: *const vk::AllocationCallbacks<'_>,
    info: &I,
    why: Early,
) -> (Option<Answer>, Asked) {
    // SAFETY: the caller's contract.
    let Some(steering) = (unsafe { may_forbid_compiling(device, info) }) else {
        return (None, Asked::default());
    };
    // Neither key nor parts are looked at before something is recorded, which this rung never does. Its shaders are
    // not known either, so only a cache that may hold anything is asked where asking another is dear.
    let (key, parts, shaders) = (Key::default(), Parts::default(), ShaderSet::default());
    let family = Family::Complete;
    let recipe = &[];
    let request = Request {
        device,
        passed,
        allocator,
        info: *info,
        steering,
        family,
        key,
        recipe,
        parts,
        shaders,
        past: Past::default(),
        held: None,
    };
    // SAFETY: as above.
    let answer = unsafe {
        match why {
            Early::RecentHit(Holder::Itself) => put_question(&request, true),
            Early::RecentHit(Holder::Companion) => companion::ask_again(&request),
            Early::MayHaveAnything => ask_itself(&request),
        }
    };
    (answer, request.past.asked())
}

/// What steers a call to which FAIL_ON_COMPILE_REQUIRED may be added although nothing of it was described: its flags and
/// the structures in its chains are known. Libraries need keys, because they may be linked later.
///
/// # Safety
/// A valid create info of the device.
unsafe fn may_forbid_compiling<I: CreateInfo>(device: &Device, info: &I) -> Option<Steering> {
    let mut copy = *info;
    let known = |p_next| {
        // SAFETY: the chains of a valid create info.
        unsafe { chain::walk(p_next) }.all(|node| {
            // SAFETY: `walk` yields valid structures.
            let s_type = unsafe { (*node).s_type };
            let row = structures::find(s_type).filter(|_| s_type != PIPELINE_BINARY_INFO);
            row.is_some_and(|row| !matches!(row.handling, Handling::Bypass(_)))
        })
    };
    // SAFETY: the caller's contract.
    let (steering, stages) = unsafe {
        let (_, steering) = stage::flags(*copy.flags_mut(), *copy.p_next_mut(), device).ok()?;
        (steering, info.stages())
    };
    let may = !steering.fail_on_compile_required
        && !steering.library
        && known(*copy.p_next_mut())
        && stages.iter().all(|stage| known(stage.p_next));
    may.then_some(steering)
}

/// Asks the driver for what it has. None: it has nothing, or there is no way to ask.
///
/// # Safety
/// The request's create info is valid.
pub unsafe fn ask<I: CreateInfo>(request: &Request<'_, I>) -> Option<Answer> {
    // SAFETY: the caller's contract.
    unsafe {
        if request.steering.fail_on_compile_required {
            return Some(ask_for_the_program(request));
        }
        match ask_itself(request) {
            None if !request.past.fails() => companion::ask(request),
            answer => answer,
        }
    }
}

/// The program's own call and cache, with FAIL_ON_COMPILE_REQUIRED. None: the driver has nothing, or the call itself
/// asks as well.
///
/// # Safety
/// As [`ask`].
pub(super) unsafe fn ask_itself<I: CreateInfo>(request: &Request<'_, I>) -> Option<Answer> {
    let device = request.device;
    let recorded = device.keeps_artifacts() && device.gives(request.family);
    if !device.cache_control || !recorded || request.past.asked_itself() || !may_have(request) {
        return None;
    }
    // SAFETY: the caller's contract.
    unsafe { put_question(request, false) }
}

/// The question itself. `recent`: the driver's object has had pipelines of what are most likely the same stages, so there
/// is nothing new to note of it.
unsafe fn put_question<I: CreateInfo>(request: &Request<'_, I>, recent: bool) -> Option<Answer> {
    let (device, passed) = (request.device, request.passed);
    request.past.ask_itself();
    let mut arena = Arena::default();
    let fail_on = vk::PipelineCreateFlags::FAIL_ON_PIPELINE_COMPILE_REQUIRED;
    let none = vk::PipelineCreateFlags::empty();
    // SAFETY: the caller's contract; the arena stays on this stack frame.
    let info =
        unsafe { call::with_flags(&request.info, request.steering.flags2, fail_on, none, &mut arena) }?;
    let started = Instant::now();
    // SAFETY: as above.
    let answer = unsafe { call::create(device, passed.handle(), &info, request.allocator) };
    let took = (answer.result == vk::Result::SUCCESS).then(|| started.elapsed());
    // A loaded cache has a judgement of its own, of all that it is asked for.
    if let Some(loaded) = passed.loaded() {
        if answer.result.as_raw() >= 0 {
            loaded.itself_first.note(took);
        }
    } else {
        // SAFETY: as above.
        unsafe { recent::note(request, Holder::Itself, took) };
    }
    match answer.result {
        vk::Result::SUCCESS => {}
        // The call itself will fail as well: a cache of ours beside it would only make it fail twice.
        result if result.as_raw() < 0 => {
            request.past.fail();
            return None;
        }
        _ => return None,
    }
    if recent {
        passed.mark_filled_again();
    } else {
        // What nobody has described, as where nothing was hashed, may be anything.
        passed.mark_filled_with(device, &request.shaders);
    }
    request.count_had(Count::DriverHad, 1);
    Some(answer)
}

/// Whether the driver may have the pipeline: in the program's cache, in its own behind NULL, or on disk. Where
/// recording is free, or a driver's disk is dear beside a cache, the disk is asked by the call that records.
fn may_have<I>(request: &Request<'_, I>) -> bool {
    let policy = &request.device.policy;
    match request.passed {
        // A pipeline of which binaries are captured does not come from the driver's cache (contract 5.5).
        Passed::Null => {
            let null = &request.device.null;
            !policy.free_recording
                || binary::applies(request)
                || null.filled.may_have(&request.shaders)
                // The companion may have it. Then nothing is recorded, so that recording is not free here, and asking the
                // driver costs less than filling the companion.
                || null.beside.of(&request.shaders).is_some()
        }
        Passed::Known { contents: Contents::Nothing, .. } => false,
        Passed::Known { contents: Contents::SameBatch, cache, .. } => cache.filled.may_have(&request.shaders),
        Passed::Known { contents: Contents::Anything, cache, .. } => {
            // A loaded cache whose hits have come from the disk is no better than an empty one.
            let loaded = cache.holds_earlier_runs() && !cache.itself_first.is_worth_it();
            !policy.dear_disk_beside_cache || !loaded && cache.filled.may_have(&request.shaders)
        }
        Passed::Unknown(_) => false,
    }
}

/// The program itself forbids compiling: whatever the driver says is the answer, unless its cache would have had it
/// without the stash.
///
/// # Safety
/// As [`ask`].
unsafe fn ask_for_the_program<I: CreateInfo>(request: &Request<'_, I>) -> Answer {
    // SAFETY: the caller's contract.
    let answer = unsafe { compile::harvesting(request) };
    match answer.result {
        vk::Result::SUCCESS => request.device.count(Count::DriverHad),
        vk::Result::PIPELINE_COMPILE_REQUIRED => {
            // SAFETY: as above.
            return unsafe { companion::ask(request) }.unwrap_or(answer);
        }
        _ => {}
    }
    answer
}
