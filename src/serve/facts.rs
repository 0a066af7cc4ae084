//! What decides about the order of the sources, found out for one request: where a rule takes a source out
//! (docs/filters.md), it is here.

use super::create_info::CreateInfo;
use super::order::Facts;
use super::program_cache::{Contents, ProgramCache};
use super::refuse::was_just_refused;
use super::request::Request;
use super::{driver_hits, record};
use crate::state::policy::CacheHabit;

/// Finds out the facts. `parked_alone`: nothing but what is parked may be handed out.
pub fn of<I: CreateInfo>(request: &Request<'_, I>, parked_alone: bool) -> Facts {
    let Request { call, pipeline } = request;
    let (device, program_cache) = (call.device, call.program_cache);
    let forbids_compiling = call.parsed().fails_on_compile_required();
    let facts = Facts {
        parked_alone,
        has_failed: record::has_failed(request),
        // Looked at in any case: what is parked ends the pair of calls, too.
        was_just_refused: !forbids_compiling && was_just_refused(&pipeline.key, program_cache),
        may_ask_companion: device.cache_control(),
        forbids_compiling,
        ..Facts::default()
    };
    let can_answer = device.cache_control()
        && device.keeps_artifacts()
        && device.caches_hold(call.class())
        && !call.names_code_of_the_layers();
    let is_open = can_answer && !parked_alone && !facts.has_failed && !facts.was_just_refused;
    let Some(habit) = program_cache.habit().filter(|_| is_open) else { return facts };
    let driver_is_first = device.asks_driver_first(habit);
    let estimate = device.estimates().driver(habit);
    let driver_is_worth_asking = estimate.is_worth_asking();
    let asks_for_hits = call.parsed().feedback.is_some() && habit != CacheHabit::None;
    // The other facts are only looked up where they decide the order.
    let decides = asks_for_hits || !(driver_is_first && driver_is_worth_asking);
    let driver_object_may_have = decides && driver_object_may_have(request);
    Facts {
        may_ask_driver: true,
        driver_is_first,
        driver_is_worth_asking,
        driver_object_may_have,
        answer_is_the_drivers: asks_for_hits && driver_object_may_have && is_stashed_elsewhere(request),
        recording_finds_disk: decides && recording_finds_disk(request),
        questions_are_dear: estimate.is_dear(),
        ..facts
    }
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
            policy.free_recording
                || policy.dear_disk_beside_cache && !driver_hits::is_recorded_by_workers(request)
        }
        ProgramCache::Unknown(_) => true,
    }
}
