//! What the driver made, on its way into the store.

use std::time::Duration;

use ash::vk;

use super::create_info::CreateInfo;
use super::program_cache::ProgramCache;
use super::request::Request;
use crate::state::described::EncodedObject;
use crate::state::device::Device;
use crate::state::objects::Objects;
use crate::state::pipeline_class::PipelineClass;
use crate::state::policy::CacheHabit;
use crate::state::private_cache::PrivateCache;
use crate::state::stored::Stored;
use vkstash_model::counters::Count;
use vkstash_model::payload::{self, Failure, FoundWith, PREFIX, module_record};
use vkstash_model::recipe::Parts;
use vkstash_recipe::capture::stage::{self, Named};
use vkstash_store::format::record::{Key, Kind};

/// Whether artifacts of this class can be recorded: the driver's caches hold them, and there is a stash.
pub fn may_record_artifact(device: &Device, class: PipelineClass) -> bool {
    device.keeps_artifacts() && device.caches_hold(class) && device.stored().is_some()
}

/// Whether the driver has answered this call with an error before, and not made it since.
pub fn has_failed<I>(request: &Request<'_, I>) -> bool {
    let mut payload = Vec::new();
    let device = request.call.device;
    device.stored().is_some_and(|stored| {
        device.knows_failures()
            && stored.device.read(Kind::Failed, &request.pipeline.key, &mut payload)
            && Failure::of(&payload) == Failure::Error
    })
}

/// Whether an error is none of what the driver was asked for: a lack of memory, and a lost device.
pub fn passes(result: vk::Result) -> bool {
    let passing = [
        vk::Result::ERROR_OUT_OF_HOST_MEMORY,
        vk::Result::ERROR_OUT_OF_DEVICE_MEMORY,
        vk::Result::ERROR_DEVICE_LOST,
    ];
    passing.contains(&result)
}

/// Records that the driver refuses this key with an error, or that it creates the pipeline again. `before`: the stash
/// already had the key as failed. A lack of memory and a lost device are not recorded, because they pass.
pub fn note_failure(device: &Device, key: &Key, before: bool, result: vk::Result) {
    let now = result.as_raw() < 0;
    if before == now || passes(result) {
        return;
    }
    let Some(stored) = device.stored() else { return };
    if now && stored.device.contains(Kind::Artifact, key) {
        return;
    }
    if stored.device.put(Kind::Failed, key, Box::new([u8::from(now)])) {
        device.count_failure(now);
    } else {
        device.count(Count::Dropped);
    }
}

/// Whether the driver has once taken an artifact under this name that is no longer there. Call it after a miss and
/// before the new artifact is queued; it costs one look-up. While parts of the stash or bases are unread the answer is
/// no.
pub fn is_lost(stored: &Stored, name: &Key) -> bool {
    let is_there = |kind| stored.device.contains(kind, name);
    is_there(Kind::Verified) && !is_there(Kind::Artifact) && !stored.device.may_have_more()
}

/// Counts a compile that an artifact would have spared the program if it had been kept.
pub fn count_lost(device: &Device, cost: Duration) {
    device.count(Count::ServedBefore);
    device.counters().add(Count::ServedBeforeNanos, cost.as_nanos() as u64);
}

/// Queues an artifact, and whatever of its recipe is missing. False: the store did not take it.
///
/// # Safety
/// The request's create info is valid.
unsafe fn queue<I: CreateInfo>(request: &Request<'_, I>, payload: Vec<u8>) -> bool {
    let (device, key) = (request.call.device, &request.pipeline.key);
    let Some(stored) = device.stored() else { return false };
    if !stored.device.put(Kind::Artifact, key, payload.into_boxed_slice()) {
        device.count(Count::Dropped);
        return false;
    }
    // SAFETY: the request's create info is valid: `record_recipe` reads its stages for inline modules.
    unsafe { record_recipe(request, stored) };
    // What a run compiles it uses: the next one wants it in the same order.
    stored.stash.note_use(Kind::Artifact, key);
    true
}

/// Queues an artifact and whatever of its recipe the stash does not have yet. `made_with`: the cache of the layer's
/// that the driver has put the pipeline into. None: it was the program's, which was empty.
///
/// # Safety
/// The request's create info is valid.
pub unsafe fn record<I: CreateInfo>(
    request: &Request<'_, I>,
    payload: Vec<u8>,
    made_with: Option<PrivateCache<'_>>,
) {
    let Request { call, pipeline } = request;
    let (key, shaders) = (&pipeline.key, &pipeline.shaders);
    match (call.program_cache, made_with) {
        (ProgramCache::Known { cache, .. }, None) => cache.note_fresh(key, shaders),
        (ProgramCache::Known { cache, .. }, Some(made_with)) => {
            let blob = payload.get(PREFIX..).unwrap_or_default();
            call.program_cache.note_beside(call.device, key, shaders, Some(made_with), blob.len());
            if call.parsed().feedback.is_some() {
                cache.pending_blobs.note(blob);
            }
        }
        (ProgramCache::Null | ProgramCache::Unknown(_), _) => {}
    }
    // SAFETY: the request's create info is valid.
    let queued = unsafe { queue(request, payload) };
    // Afterwards: another thread may look for the artifact as soon as the key is known.
    if queued && matches!(call.program_cache, ProgramCache::Null) {
        call.device.caches.null.pending.note(&pipeline.key, &pipeline.shaders);
    }
}

/// Queues the recipe of a pipeline that leaves no artifact, and notes its use: before the next run asks for it, it can
/// be made in the background. `compile`: what the driver's compile took, if it was one.
///
/// # Safety
/// The request's create info is valid.
pub unsafe fn record_alone<I: CreateInfo>(request: &Request<'_, I>, compile: Option<Duration>) {
    let Request { call, pipeline } = request;
    let device = call.device;
    let Some(stored) = device.stored().filter(|_| device.wants_recipes()) else { return };
    let lacks_recipe = || !stored.portable.contains(Kind::Recipe, &pipeline.key);
    // A call that compiled nothing is short, so it looks for the recipe once in a run.
    if compile.is_some() || stored.stash.note_first_use(&pipeline.key) && lacks_recipe() {
        // SAFETY: the request's create info is valid (# Safety of `record_alone`); the stash is open.
        unsafe { record_recipe(request, stored) };
    }
    if let Some(cost) = compile {
        note_cost(device, stored, &pipeline.key, cost);
    }
}

/// Notes a use, and what a compile took of which there is no artifact.
pub fn note_cost(device: &Device, stored: &Stored, key: &Key, cost: Duration) {
    let mut known = Vec::new();
    let wanted = if stored.stash.note_first_use(key) {
        let known = stored.device.read(Kind::Cost, key, &mut known).then(|| payload::cost(&known)).flatten();
        known.is_none_or(|known| is_another_cost(known, cost))
    } else {
        // Another device of this process may have noted the use.
        !stored.device.contains(Kind::Cost, key)
    };
    if wanted && !stored.device.put(Kind::Cost, key, Box::new(payload::cost_record(cost))) {
        device.count(Count::Dropped);
    }
}

/// The driver had this pipeline: workers may ask it for that, too.
pub fn note_found(device: &Device, key: &Key, took: Duration, habit: Option<CacheHabit>) {
    let Some(with) = found_with(device, habit) else { return };
    let Some(stored) = device.stored().filter(|_| device.wants_recipes() && device.cache_control()) else {
        return;
    };
    if found_before(stored, key) != Some(with) {
        put_found(device, stored, key, took, with);
    }
}

/// The stash had this pipeline. What an earlier run has left to the cache that it had loaded is no longer left to it if
/// the program has none.
pub fn note_served(device: &Device, key: &Key, habit: Option<CacheHabit>) {
    let Some(with) = found_with(device, habit) else { return };
    let Some(stored) = device.stored().filter(|stored| stored.device.has_any(Kind::Found)) else { return };
    if with == FoundWith::LoadedCache || found_before(stored, key) != Some(FoundWith::LoadedCache) {
        return;
    }
    let mut record = Vec::new();
    if let Some((took, _)) =
        stored.device.read(Kind::Found, key, &mut record).then(|| payload::found(&record)).flatten()
    {
        put_found(device, stored, key, took, with);
    }
}

/// None: the habit is not known, or is that of a worker of the tool, which has no cache of the program's.
fn found_with(device: &Device, habit: Option<CacheHabit>) -> Option<FoundWith> {
    if device.instance().config.application.is_some() {
        return None;
    }
    Some(match habit? {
        CacheHabit::None => FoundWith::NoCache,
        CacheHabit::Fresh | CacheHabit::Shared => FoundWith::Cache,
        CacheHabit::Loaded => FoundWith::LoadedCache,
    })
}

/// With which cache the driver is known to have had it. Nothing is read: a read would be a tenth of such a call.
fn found_before(stored: &Stored, key: &Key) -> Option<FoundWith> {
    payload::found_with(stored.device.length(Kind::Found, key)?)
}

fn put_found(device: &Device, stored: &Stored, key: &Key, took: Duration, with: FoundWith) {
    if !stored.device.put(Kind::Found, key, payload::found_record(took, with)) {
        device.count(Count::Dropped);
    }
}

/// Whether a cost is worth a new record: it differs by more than a factor of 2, and by more than short calls differ
/// when nothing has changed.
fn is_another_cost(known: Duration, now: Duration) -> bool {
    let (less, more) = (known.min(now), known.max(now));
    more > 2 * less && more - less >= Duration::from_micros(100)
}

/// Queues what the stash does not have yet of a recipe and of what it names.
///
/// # Safety
/// The request's create info is valid.
pub unsafe fn record_recipe<I: CreateInfo>(request: &Request<'_, I>, stored: &Stored) {
    let Request { call, pipeline } = request;
    // SAFETY: the stages of the request's valid create info are read for the modules that are inline in them.
    unsafe { record_inline_modules(request, stored) };
    if !stored.portable.has(Kind::Recipe, &pipeline.key, pipeline.recipe) {
        record_named_objects(call.device, stored, &pipeline.parts);
        stored.put(call.device.counters(), Kind::Recipe, &pipeline.key, pipeline.recipe);
    }
}

/// Layout and render pass, which the recipe names by digest.
fn record_named_objects(device: &Device, stored: &Stored, parts: &Parts) {
    let keep = |kind, objects: &Objects<EncodedObject>, digest: &Key| {
        let found = objects.find(|object| object.as_ref().is_ok_and(|object| object.digest == *digest));
        if let Some(Ok(object)) = found.as_deref().filter(|object| {
            object.as_ref().is_ok_and(|object| !stored.portable.has(kind, digest, &object.bytes))
        }) {
            stored.put(device.counters(), kind, digest, &object.bytes);
        }
    };
    if let Some(layout) = &parts.layout {
        keep(Kind::Layout, &device.objects.layouts, layout);
    }
    if let Some(render_pass) = &parts.render_pass {
        keep(Kind::RenderPass, &device.objects.render_passes, render_pass);
    }
}

/// Code that was passed inside a stage and never made a module, and what this driver calls it: the recipe may
/// be known from another driver.
///
/// # Safety
/// The request's create info is valid.
unsafe fn record_inline_modules<I: CreateInfo>(request: &Request<'_, I>, stored: &Stored) {
    let Request { call, pipeline } = request;
    let device = call.device;
    let inline = call.parsed().stages.iter().filter_map(|stage| {
        // SAFETY: the stages of a valid create info.
        match unsafe { stage::named(stage) } {
            Some(Named::Inline(inline)) => Some(inline),
            _ => None,
        }
    });
    // Hashed when the pipeline was captured, in the same order.
    for (inline, identity) in inline.zip(&pipeline.inline) {
        // SAFETY: an inline create info is as valid as one of vkCreateShaderModule.
        let code = unsafe { stage::code(inline) };
        if !stored.has_module(identity) {
            stored.put_module(device.counters(), identity, module_record(inline.flags, code));
        }
        // SAFETY: the code is that of a valid create info, as before.
        unsafe { device.keep_inline_identifier(inline.flags, code, identity) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_written_again_if_it_has_more_than_doubled_or_halved_and_noise_does_not_explain_it() {
        let differ = |one: u64, other: u64| {
            let (one, other) = (Duration::from_micros(one), Duration::from_micros(other));
            assert_eq!(is_another_cost(one, other), is_another_cost(other, one));
            is_another_cost(one, other)
        };
        assert!(!differ(1000, 1000) && !differ(1000, 2000) && !differ(1000, 501));
        assert!(differ(1000, 2001) && differ(1000, 499));
        assert!(!differ(1, 100) && differ(1, 101) && !differ(60, 150));
    }
}
