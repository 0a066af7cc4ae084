//! Records that a request leaves in the stash.

use std::sync::Arc;
use std::time::Duration;

use ash::vk;

use super::create_info::CreateInfo;
use super::request::Request;
use super::verdict::{Origin, Place, Record, Subject};
use crate::state::ahead::parked::MadeOf;
use crate::state::devices::device::Device;
use crate::state::objects::described::EncodedObject;
use crate::state::process::policy::CacheHabit;
use crate::state::process::stored::{KeptIn, Stored};
use vkstash_model::failed::{Event, Failed};
use vkstash_model::payload::{self, FoundWith, module_record};
use vkstash_model::record::{Key, Kind};
use vkstash_model::steps::StepAnswer;
use vkstash_recipe::capture::stage::{self, Named};

/// What has become of what a verdict wants recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Learned {
    /// The artifact is queued.
    pub is_kept: bool,
    /// The driver has once taken an artifact of this key that was no longer there.
    pub was_lost: bool,
    /// This run asks for it for the first time: from then on the driver would have had it in memory.
    pub is_first: bool,
    /// Background work records what the driver had.
    pub is_left: bool,
    /// The driver has refused the artifacts of so many siblings before it took one.
    pub others_refused: u8,
    /// Whether the recipe goes with it.
    pub recipe: RecipeWanted,
}

/// Whether a recipe is to be recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecipeWanted {
    /// No.
    #[default]
    No,
    /// Where the stash has none.
    IfMissing,
    /// With whatever of what it names is missing.
    Yes,
}

/// Whether the driver has answered this call with an error before, and not made it since.
pub fn has_failed(device: &Device, key: &Key) -> bool {
    device.stored().is_some_and(|stored| device.failures.exist(stored) && stored.failed(key) == Failed::Error)
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

/// Queues all that a verdict wants recorded, and notes uses. `stash`: what the stash has answered.
///
/// # Safety
/// The request's create info is valid.
pub unsafe fn record<I: CreateInfo>(
    request: &Request<'_, I>,
    result: vk::Result,
    origin: Origin,
    place: &Place<'_>,
    record: Record,
    stash: Option<StepAnswer>,
) -> Learned {
    let learned = learn(&Subject::of(request), result, origin, place, record);
    // SAFETY: as this function.
    unsafe { recipe(request, learned.recipe) };
    note_siblings(request.call.device, &request.pipeline.key, stash);
    learned
}

/// If the driver has refused the artifacts of all siblings, none is offered any more.
pub fn note_siblings(device: &Device, key: &Key, stash: Option<StepAnswer>) {
    if stash == Some(StepAnswer::SiblingRefused) {
        device.stored().into_iter().for_each(|stored| stored.note_refused_siblings(key));
    }
}

/// Queues what a verdict wants recorded but the recipe, and notes uses.
pub fn learn(
    subject: &Subject<'_>,
    result: vk::Result,
    origin: Origin,
    place: &Place<'_>,
    record: Record,
) -> Learned {
    let &Subject { device, key, .. } = subject;
    let compile = if let Origin::Compile { cost, .. } = origin { Some(cost) } else { None };
    let lacks = if let Record::Artifact(Err(lacks)) = &record { Some(*lacks) } else { None };
    if matches!(record, Record::Artifact(_)) {
        // Then the program's own cache goes without the pipeline.
        let beside_its_cache = matches!(place, Place::NotInData) && subject.program_cache.known().is_some();
        device.caches.probe.note(subject.class, lacks, beside_its_cache);
    }
    let Some(stored) = device.stored() else { return Learned::default() };
    match record {
        Record::Nothing => Learned::default(),
        Record::Outcome { known } => {
            note_failure(device, stored, key, known, result);
            Learned::default()
        }
        Record::Use | Record::UseOfSibling { .. } => note_use(subject, stored, origin, &record),
        Record::Artifact(Ok(payload)) => {
            let was_lost = compile.is_some() && is_lost(stored, key);
            let is_kept = put(device, stored, Kind::Artifact, key, payload.into_boxed_slice());
            if is_kept {
                // What a run compiles it uses: the next one wants it in the same order.
                stored.note_use(key);
            }
            let recipe = if is_kept { RecipeWanted::Yes } else { RecipeWanted::No };
            Learned { is_kept, was_lost, recipe, ..Learned::default() }
        }
        Record::Recipe | Record::Found { .. } | Record::Artifact(Err(_)) | Record::NoArtifact
            if !device.wants_recipes() =>
        {
            Learned::default()
        }
        Record::Recipe => alone(stored, key),
        Record::Found { may_be_left } => {
            Learned { is_left: note_found(subject, stored, origin, may_be_left), ..alone(stored, key) }
        }
        Record::Artifact(Err(_)) => without_artifact(subject, stored, compile),
        // Elsewhere the driver may have had it.
        Record::NoArtifact => {
            without_artifact(subject, stored, compile.filter(|_| device.records_recipes_alone()))
        }
    }
}

/// Queues a record. What is not taken is counted.
fn put(device: &Device, stored: &Stored, kind: Kind, key: &Key, record: Box<[u8]>) -> bool {
    stored.put_own(device.counters(), kind, key, record)
}

/// Notes a use. A recipe is looked for once in a run, because a call that compiled nothing is short.
fn alone(stored: &Stored, key: &Key) -> Learned {
    let is_first = stored.note_use(key);
    let recipe = if is_first { RecipeWanted::IfMissing } else { RecipeWanted::No };
    Learned { is_first, recipe, ..Learned::default() }
}

/// A pipeline that leaves no artifact: before the next run asks for it, it can be made in the background. `compile`:
/// what the driver's compile took, if it was one.
fn without_artifact(subject: &Subject<'_>, stored: &Stored, compile: Option<Duration>) -> Learned {
    let &Subject { device, key, .. } = subject;
    let Some(cost) = compile else { return alone(stored, key) };
    let mut known = Vec::new();
    let is_first = stored.note_use(key);
    let wanted = if is_first {
        let known = stored.device.read(Kind::Cost, key, &mut known).then(|| payload::cost(&known)).flatten();
        known.is_none_or(|known| is_another_cost(known, cost))
    } else {
        // The driver may have had it then.
        !stored.device.contains(Kind::Cost, key)
    };
    if wanted {
        put(device, stored, Kind::Cost, key, Box::new(payload::cost_record(cost)));
    }
    Learned { is_first, recipe: RecipeWanted::Yes, ..Learned::default() }
}

/// What was parked or in the stash was of use.
fn note_use(subject: &Subject<'_>, stored: &Stored, origin: Origin, record: &Record) -> Learned {
    let &Subject { device, key, .. } = subject;
    let source = match origin {
        Origin::Stash { source, .. } => {
            note_served(device, stored, key, subject.program_cache.habit());
            Some(source)
        }
        Origin::Parked { of: MadeOf::Artifact { source, .. }, .. } => Some(source),
        _ => None,
    };
    let mut others_refused = 0;
    if let Record::UseOfSibling { number, others_refused: refused } = *record {
        stored.note_taken_sibling(key, number, refused > 0);
        others_refused = refused;
    }
    let is_first = match source {
        Some(KeptIn::Own | KeptIn::Base) => stored.note_taken(key),
        // What is recorded under this key later was taken by no driver yet.
        Some(KeptIn::Sibling) | None => stored.note_use(key),
    };
    Learned { is_first, others_refused, ..Learned::default() }
}

/// Records that the driver refuses this key with an error, or that it creates the pipeline again. `before`: the stash
/// already had the key as failed. A lack of memory and a lost device are not recorded, because they pass.
fn note_failure(device: &Device, stored: &Stored, key: &Key, before: bool, result: vk::Result) {
    let now = result.as_raw() < 0;
    if before == now || passes(result) || result == vk::Result::PIPELINE_COMPILE_REQUIRED {
        return;
    }
    if now && stored.device.contains(Kind::Artifact, key) {
        return;
    }
    if stored.note_failed(key, if now { Event::Error } else { Event::Success }) {
        device.failures.count(now);
    }
}

/// Whether the driver has once taken an artifact under this name that is no longer there. Call it after a miss and
/// before the new artifact is queued; it costs one look-up. While parts of the stash or bases are unread the answer is
/// no.
fn is_lost(stored: &Stored, name: &Key) -> bool {
    let is_there = |kind| stored.device.contains(kind, name);
    is_there(Kind::Verified) && !is_there(Kind::Artifact) && !stored.device.may_have_more()
}

/// The driver had this pipeline: workers may ask it for that, too. Whether they are to record it.
fn note_found(subject: &Subject<'_>, stored: &Stored, origin: Origin, may_be_left: bool) -> bool {
    let &Subject { device, key, program_cache, .. } = subject;
    let Origin::Driver { took, .. } = origin else { return false };
    if let Some(with) = found_with(device, program_cache.habit()).filter(|_| device.decided.cache_control) {
        if found_before(stored, key) != Some(with) {
            put_found(device, stored, key, took, with);
        }
    }
    may_be_left && device.leave_to_workers(key, took)
}

/// The stash had this pipeline. What an earlier run has left to the cache that it had loaded is no longer left to it if
/// the program has none.
fn note_served(device: &Device, stored: &Stored, key: &Key, habit: Option<CacheHabit>) {
    let Some(with) = found_with(device, habit) else { return };
    let is_loaded = |before| before == Some(FoundWith::LoadedCache);
    if with == FoundWith::LoadedCache
        || !stored.device.has_any(Kind::Found)
        || !is_loaded(found_before(stored, key))
    {
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
    if device.instance.config.application.is_some() {
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
    put(device, stored, Kind::Found, key, payload::found_record(took, with));
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
pub unsafe fn recipe<I: CreateInfo>(request: &Request<'_, I>, wanted: RecipeWanted) {
    let Request { call, pipeline } = request;
    let Some(stored) = call.device.stored().filter(|stored| match wanted {
        RecipeWanted::No => false,
        RecipeWanted::IfMissing => !stored.portable.contains(Kind::Recipe, &pipeline.key),
        RecipeWanted::Yes => true,
    }) else {
        return;
    };
    // SAFETY: the stages of the request's valid create info are read for the modules that are inline in them.
    unsafe { record_inline_modules(request, stored) };
    if !stored.portable.has(Kind::Recipe, &pipeline.key, pipeline.recipe) {
        record_named_objects(request, stored);
        stored.put(call.device.counters(), Kind::Recipe, &pipeline.key, pipeline.recipe);
    }
}

/// Layout and render pass, which the recipe names by digest.
fn record_named_objects<I: CreateInfo>(request: &Request<'_, I>, stored: &Stored) {
    let Request { call, pipeline } = request;
    let keep = |kind, object: Option<Arc<EncodedObject>>, digest: Option<Key>| {
        // The handle may be anything where the recipe names none.
        if let (Some(Ok(object)), Some(digest)) = (object.as_deref(), digest) {
            if object.digest == digest && !stored.portable.has(kind, &digest, &object.bytes) {
                stored.put(call.device.counters(), kind, &digest, &object.bytes);
            }
        }
    };
    let (layout, render_pass) = call.creation.info.layout_and_render_pass();
    let objects = &call.device.objects;
    keep(Kind::Layout, objects.layouts.get(layout), pipeline.parts.layout);
    keep(Kind::RenderPass, objects.render_passes.get(render_pass), pipeline.parts.render_pass);
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
