//! Compile by the real driver, where no source has the pipeline. Where the program forbids that, the driver says what
//! it has. What is left in the cache of the call is to be recorded.

use std::mem;

use ash::vk;

use super::compiling;
use super::create_info::CreateInfo;
use super::request::Request;
use super::stopwatch::{Stopwatch, Took};
use super::verdict::{Found, Miss, Origin, PendingEntry, Place, Record, Refused, Verdict};
use crate::state::caches::pipeline_class::PipelineClass;
use crate::state::caches::private_cache::PrivateCache;
use crate::state::caches::program_cache::{Contents, ProgramCache};
use crate::state::caches::sized_data::NoData;
use vkstash_model::failed::Refusals;
use vkstash_model::payload;

/// The cache that a call goes through.
enum Through<'a> {
    /// A private cache: it holds just this pipeline afterwards.
    Private(PrivateCache<'a>),
    /// The cache with the artifact for which the driver has said COMPILE_REQUIRED. RADV (Mesa 25.0.7) says so of
    /// ray tracing libraries with any-hit shaders, and then makes them of it forty times faster than without.
    Refused(Refused<'a>),
    /// The program's cache, empty until now: the same, for nothing.
    OwnAlone,
    /// The call goes down as the program made it, and leaves no artifact.
    Own,
}

/// Lets the driver compile, or, where the program forbids that, answer. `asked`: the driver was asked for the program's
/// own call, or asking was not worth it, so it is compiled through a private cache. None: with a cache of the layer's
/// the driver answers with an error. Whether that cache is to blame cannot be told: the program's own call decides.
///
/// # Safety
/// The request's create info is valid.
pub unsafe fn compile<'a, I: CreateInfo>(
    request: &Request<'a, I>,
    miss: &mut Miss<'a>,
    asked: bool,
) -> Option<Verdict<'a>> {
    let Request { call, pipeline } = request;
    let device = call.device;
    let forbids = call.parsed().fails_on_compile_required();
    let through = through(request, miss, asked);
    let is_own = matches!(through, Through::OwnAlone | Through::Own);
    let cache = match &through {
        Through::Private(cache) | Through::Refused(Refused { cache, .. }) => cache.handle(),
        Through::OwnAlone | Through::Own => call.program_cache.handle(),
    };
    // A call that may not compile fills it only with what it finds.
    if is_own && !forbids {
        call.program_cache.mark_filled_with(&device.caches, &pipeline.key, &pipeline.shaders);
    }
    let before = if let Through::Refused(refused) = &through { refused.cache.size() } else { None };
    // SAFETY: the request's create info is valid (the caller's contract).
    let compiling = unsafe { compiling::begin(request) };
    let stopwatch = Stopwatch::begin(device);
    // SAFETY: the create info is the program's, and valid; `cache` is the program's, or the layer's in `through`, alive
    // until then, or NULL.
    let answer = unsafe { call.create_with(cache, &call.creation.info) };
    let Took { wall, cost } = stopwatch.end();
    compiling
        .into_iter()
        .for_each(|compiling| compiling.end(device.stored(), answer.result == vk::Result::SUCCESS));
    if answer.result.as_raw() < 0 && !is_own {
        return None;
    }
    // What the program itself forbids to compile came from a cache of the driver's.
    let origin = match forbids {
        true => Origin::Driver { took: wall, from: Found::InMemory },
        false => Origin::Compile { wall, cost },
    };
    if answer.result != vk::Result::SUCCESS {
        let record = Record::Outcome { known: false };
        return Some(Verdict { answer, origin, place: Place::Nowhere, record });
    }
    let data_of = |cache: &PrivateCache<'_>, refusals| cache.data_behind(&payload::prefix(cost, refusals));
    let asks = call.parsed().feedback.is_some();
    let in_cache = |cache: PrivateCache<'a>, refusals| {
        let data = data_of(&cache, refusals);
        (PendingEntry::of_data(&data, cache, asks), Record::Artifact(data))
    };
    let (place, record) = match through {
        Through::Refused(Refused { cache, .. }) if before.is_some_and(|before| !cache.has_grown(before)) => {
            // Nothing was added: what was refused was all that the driver needed.
            let place = PendingEntry::in_cache(cache, before.unwrap_or_default(), None);
            let origin = Origin::RefusedArtifact;
            return Some(Verdict { answer, origin, place, record: Record::Nothing });
        }
        Through::Refused(Refused { cache, refusals }) => in_cache(cache, refusals),
        Through::Private(cache) => in_cache(cache, Refusals::NONE),
        Through::OwnAlone => {
            // Not the program's cache itself, which other threads may fill meanwhile. It may hold a few pipelines of
            // theirs by now, which makes the artifact larger and no less right.
            // SAFETY: the program's cache is alive, and this call may use it (contract 4.4).
            let copy = unsafe { device.caches.commands.snapshot(call.program_cache.handle()) };
            let data = copy.map_or(Err(NoData::Unreadable), |copy| data_of(&copy, Refusals::NONE));
            (if data.is_ok() { Place::OwnAlone } else { Place::Own }, Record::Artifact(data))
        }
        Through::Own => (Place::Own, Record::NoArtifact),
    };
    Some(Verdict { answer, origin, place, record })
}

/// Decides which cache the call goes through. What that costs the program is never more than without the layer.
///
/// A deferred call decides for itself (`deferred.rs`), because a private cache is its only choice. It decides once for
/// all pipelines of the call, so the cache of one refused artifact will not do; and the program's own cache is in use
/// until the operation is complete.
fn through<'a, I: CreateInfo>(request: &Request<'a, I>, miss: &mut Miss<'a>, asked: bool) -> Through<'a> {
    let Request { call, pipeline } = request;
    let device = call.device;
    let forbids = call.parsed().fails_on_compile_required();
    if miss.is_left_alone() || !device.records_artifacts(call.class()) {
        return Through::Own;
    }
    // What the program forbids to compile may be in the driver's object.
    let driver_may_have = || match call.program_cache {
        ProgramCache::Null => device.caches.null.driver_contents.may_have(&pipeline.shaders, false),
        ProgramCache::Known { contents: Contents::SameBatch, cache, .. } => {
            cache.driver_contents.may_have(&pipeline.shaders, false)
        }
        ProgramCache::Known { contents: Contents::Anything, .. } => true,
        ProgramCache::Known { contents: Contents::Nothing, .. } | ProgramCache::Unknown(_) => false,
    };
    if forbids && driver_may_have() {
        return Through::Own;
    }
    // A driver that may not compile would refuse it once more.
    if !forbids && matches!(miss, Miss::Refused(_)) {
        if let Miss::Refused(refused) = mem::replace(miss, Miss::NotOffered) {
            return Through::Refused(refused);
        }
    }
    let private = match call.program_cache {
        ProgramCache::Known { contents: Contents::Nothing, .. } => return Through::OwnAlone,
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
    let cache = if private { device.caches.commands.private(&[]) } else { None };
    cache.map_or(Through::Own, Through::Private)
}
