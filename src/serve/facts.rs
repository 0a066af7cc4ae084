//! Facts about one request that decide about the order of the sources: every rule that takes a source out
//! (docs/architecture.md) is here.

use std::cell::Cell;

use ash::vk;

use super::create_info::CreateInfo;
use super::order::{Facts, FirstFacts};
use super::record;
use super::request::Request;
use crate::state::caches::program_cache::{Contents, ProgramCache};
use vkstash_model::record::Key;

/// What a call with a deferred operation may hand out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deferral {
    /// The call has no operation.
    None,
    /// Everything that need not be compiled.
    Whole,
    /// What is parked alone.
    ParkedAlone,
}

/// What decides before anything costly.
pub fn first<I: CreateInfo>(request: &Request<'_, I>, deferral: Deferral) -> FirstFacts {
    let Request { call, pipeline } = request;
    let parsed = call.parsed();
    if deferral == Deferral::None && (parsed.has_nothing_to_compile() || parsed.joins_retained()) {
        return FirstFacts { passes_on: true, ..FirstFacts::default() };
    }
    let asks_for_hits = parsed.feedback.is_some() && call.program_cache.known().is_some();
    FirstFacts {
        passes_on: false,
        parked_alone: deferral == Deferral::ParkedAlone,
        has_failed: record::has_failed(call.device, &pipeline.key),
        // Looked at in any case: what is parked ends the pair of calls, too.
        was_just_refused: !parsed.fails_on_compile_required() && was_just_refused(request),
        lacks_cache_control: !call.device.decided.cache_control,
        answer_is_the_drivers: asks_for_hits
            && may_ask_driver(request)
            && driver_object_may_have(request)
            && is_stashed_elsewhere(request),
    }
}

/// What decides where nothing is parked.
pub fn of<I: CreateInfo>(request: &Request<'_, I>) -> Facts {
    let Request { call, .. } = request;
    let device = call.device;
    let Some(habit) = call.program_cache.habit().filter(|_| may_ask_driver(request)) else {
        return Facts::default();
    };
    let driver_is_first = device.asks_driver_first(habit);
    let estimate = device.estimates().driver(habit);
    let driver_is_worth_asking = estimate.is_worth_asking();
    // The other facts are only looked up where they decide the order.
    let decides = !(driver_is_first && driver_is_worth_asking);
    Facts {
        may_ask_driver: true,
        driver_is_first,
        driver_is_worth_asking,
        forbids_compiling: call.parsed().fails_on_compile_required(),
        driver_object_may_have: decides && driver_object_may_have(request),
        recording_finds_disk: decides && recording_finds_disk(request),
        questions_are_dear: estimate.is_dear(),
    }
}

/// Whether the driver can answer the program's call from what its caches have.
fn may_ask_driver<I: CreateInfo>(request: &Request<'_, I>) -> bool {
    let (call, device) = (&request.call, request.call.device);
    device.decided.cache_control
        && device.keeps_artifacts()
        && device.caches_hold(call.class())
        && !call.names_code_of_the_layers()
        && !matches!(call.program_cache, ProgramCache::Unknown(_))
}

/// Whether the driver may have put a pipeline of these shaders into the driver's object of the cache that the program
/// passed.
pub fn driver_object_may_have<I: CreateInfo>(request: &Request<'_, I>) -> bool {
    let Request { call, pipeline } = request;
    let filled = match call.program_cache {
        ProgramCache::Null => &call.device.caches.null.driver_contents,
        ProgramCache::Known { contents: Contents::Nothing, .. } | ProgramCache::Unknown(_) => return false,
        ProgramCache::Known { cache, .. } => &cache.driver_contents,
    };
    filled.may_have(&pipeline.shaders, call.keeps_whole())
}

/// Whether the stash would serve a pipeline that is no pending entry of the program's cache: the layer cannot tell
/// whether that cache would have it.
fn is_stashed_elsewhere<I: CreateInfo>(request: &Request<'_, I>) -> bool {
    let Request { call, pipeline: described } = request;
    let is_pending = call.program_cache.known().is_none_or(|cache| cache.holds(&described.key));
    !is_pending && call.device.stored().is_some_and(|stored| stored.has_artifact(&described.key))
}

/// Whether a call that compiles through a cache of the layer's, or through the program's empty one, finds what the
/// driver's disk has, and takes no longer than the program's own would.
fn recording_finds_disk<I: CreateInfo>(request: &Request<'_, I>) -> bool {
    let call = &request.call;
    let policy = &call.device.policy;
    match call.program_cache {
        ProgramCache::Null => policy.free_recording,
        ProgramCache::Known { contents: Contents::Nothing | Contents::SameBatch, .. } => true,
        // Where the driver's disk is dear beside a cache, the call that records reads all shaders there, and the
        // program's own only those that its cache has not met; then workers record it later.
        ProgramCache::Known { .. } => {
            policy.free_recording || policy.dear_disk_beside_cache && !request.is_recorded_by_workers()
        }
        ProgramCache::Unknown(_) => true,
    }
}

thread_local! {
    /// The key and the cache of the latest refused call that forbade compiling, until a call that may compile looks at
    /// it.
    static JUST_REFUSED: Cell<Option<(Key, vk::PipelineCache)>> = const { Cell::new(None) };
}

/// A call that forbids compiling is refused. Translators then make the same call without that flag.
pub fn note_refused(key: &Key, program_cache: &ProgramCache) {
    // Without thread-local storage the driver is asked once more.
    let _ = JUST_REFUSED.try_with(|refused| refused.set(Some((*key, program_cache.handle()))));
}

/// Whether this call repeats the call that was just refused, without FAIL_ON, which is no part of the key.
fn was_just_refused<I: CreateInfo>(request: &Request<'_, I>) -> bool {
    let Request { call, pipeline } = request;
    let refused = JUST_REFUSED.try_with(Cell::take).ok().flatten();
    refused.is_some_and(|(key, cache)| key == pipeline.key && cache == call.program_cache.handle())
}
