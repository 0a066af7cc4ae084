//! Consequences of a verdict. This is the one place that counts what became of requests, has it recorded and noted, and
//! adds to the program's cache what it would have had without the layer: no source does.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ash::vk;
use smallvec::SmallVec;

use super::call::{Answer, Call};
use super::create_info::CreateInfo;
use super::record::{self, Learned, RecipeWanted};
use super::request::Request;
use super::verdict::{
    AsItIs, Attempts, Found, MadeWith, Miss, Origin, PendingEntry, Place, Record, Subject, Verdict,
};
use super::{facts, feedback};
use crate::state::ahead::parked::MadeOf;
use crate::state::caches::program_cache::ProgramCache;
use crate::state::devices::device::Device;
use crate::state::process::stored::KeptIn;
use crate::state::process::switches::{self, CacheKinds};
use crate::steps::Steps;
use crate::trace::spans;
use vkstash_model::counters::Count;
use vkstash_model::record::Key;
use vkstash_model::steps::{CreationResult, StepAnswer, StepSource};
use vkstash_model::structures;
use vkstash_recipe::chain::Refusal;

/// What is added to the counters.
pub type Counts = SmallVec<[(Count, u64); 8]>;

fn nanos(time: Duration) -> u64 {
    time.as_nanos() as u64
}

/// Settles a request.
///
/// # Safety
/// The request's create info is valid, its feedback structure may be written, and the driver has answered it so.
pub unsafe fn settle<I: CreateInfo>(
    request: &Request<'_, I>,
    verdict: Verdict<'_>,
    attempts: &Attempts<'_>,
) -> Answer {
    let Request { call, pipeline } = request;
    let (device, parsed) = (call.device, call.parsed());
    let Verdict { answer, origin, place, record } = verdict;
    let subject = Subject::of(request);
    // Before the cache is paid: whether the program may have expected it there.
    let is_expected = parsed.feedback.is_some() && holds(&subject);
    let leaves_artifact = matches!(record, Record::Artifact(_));
    // SAFETY: the request's create info is valid, as is its feedback structure, which nobody else writes any more.
    let learned = unsafe {
        // Before the cache is paid: another thread may look for the artifact as soon as the key is known.
        let learned = record::record(request, answer.result, origin, &place, record, attempts.stash);
        let is_elsewhere = pay(&subject, place, learned.is_kept || !leaves_artifact);
        match origin {
            Origin::Layer => feedback::say_none(parsed.feedback),
            Origin::Parked { spent, .. } => feedback::say_made(parsed.feedback, spent),
            _ if is_elsewhere && answer.result == vk::Result::SUCCESS => {
                feedback::clear_hit(parsed.feedback);
            }
            _ => {}
        }
        if is_expected && answer.result == vk::Result::SUCCESS {
            feedback::say_hit(parsed.feedback);
        }
        learned
    };
    let count = &mut |what, amount| add(device, [(what, amount)]);
    counts(answer.result, origin, &learned, || why_unkept(device), count);
    asked(call, attempts, count);
    // A driver that has answered may have had nothing.
    let is_had = answer.result == vk::Result::SUCCESS
        && matches!(origin, Origin::Driver { .. } | Origin::Parked { .. } | Origin::Stash { .. });
    count(Count::IdentifierServed, (parsed.naming.lacks_code && is_had).into());
    if parsed.is_library() && answer.result == vk::Result::SUCCESS {
        device.objects.libraries.insert(answer.pipeline, Ok(pipeline.library()));
    }
    if parsed.fails_on_compile_required() && answer.result == vk::Result::PIPELINE_COMPILE_REQUIRED {
        facts::note_refused(&pipeline.key, call.program_cache);
    }
    note_steps(device, &pipeline.key, &attempts.steps, answer.result);
    answer
}

/// Settles a request that has no key: it cannot be described, or need not be.
///
/// # Safety
/// As [`settle`].
pub unsafe fn settle_undescribed<I: CreateInfo>(call: &Call<'_, I>, verdict: Verdict<'_>) -> Answer {
    let (device, parsed) = (call.device, call.parsed());
    let Verdict { answer, origin, .. } = verdict;
    add(device, failure(answer.result).map(|what| (what, 1)));
    match origin {
        // SAFETY: the program's valid structure, or none.
        Origin::Layer => unsafe {
            add(device, [(Count::IdentifierRequests, parsed.naming.lacks_code.into())]);
            feedback::say_none(parsed.feedback);
        },
        Origin::AsItIs(AsItIs::NothingToCompile) if answer.result == vk::Result::SUCCESS => {
            add(device, [(Count::NothingToCompile, 1)]);
        }
        Origin::AsItIs(AsItIs::Undescribed(refusal)) => {
            bypassed(device, refusal);
            if call.names_code_of_the_layers() {
                // SAFETY: the program's valid structure, or none. The driver has not seen the call.
                unsafe { feedback::say_none(parsed.feedback) };
            }
            if answer.result == vk::Result::SUCCESS && parsed.is_library() {
                device.objects.libraries.insert(answer.pipeline, Err(refusal));
            }
        }
        _ => {}
    }
    answer
}

/// A request goes on in a deferred operation: what the program's structures are needed for, which may be gone when it
/// is complete, is recorded now.
///
/// # Safety
/// The request's create info is valid.
pub unsafe fn defer<I: CreateInfo>(request: &Request<'_, I>, attempts: &mut Attempts<'_>) {
    let Request { call, pipeline } = request;
    // SAFETY: as this function.
    unsafe { record::recipe(request, RecipeWanted::Yes) };
    record::note_siblings(call.device, &pipeline.key, attempts.stash);
    asked(call, attempts, &mut |what, amount| add(call.device, [(what, amount)]));
    attempts.steps.add(StepSource::Own, StepAnswer::Deferred);
    note_steps(call.device, &pipeline.key, &attempts.steps, vk::Result::SUCCESS);
}

/// Settles one pipeline of a deferred call that is complete, and that bypasses the stash.
pub fn complete_undescribed(device: &Device, result: vk::Result) {
    add(device, failure(result).map(|what| (what, 1)));
}

/// Settles one pipeline of a deferred call that is complete. What follows at once was settled when the call was made:
/// the recipe, the feedback and the library.
pub fn complete(subject: &Subject<'_>, verdict: Verdict<'_>) {
    let Verdict { answer, origin, place, record } = verdict;
    let leaves_artifact = matches!(record, Record::Artifact(_));
    let learned = record::learn(subject, answer.result, origin, &place, record);
    pay(subject, place, learned.is_kept || !leaves_artifact);
    let device = subject.device;
    let count = &mut |what, amount| add(device, [(what, amount)]);
    counts(answer.result, origin, &learned, || why_unkept(device), count);
}

/// Counts `count` pipelines of a call to a driver that is only watched.
pub fn watched(device: &Device, result: vk::Result, missing: u64, count: u64, spent: Duration) {
    // A driver that says that it has failed has failed, whatever it has written.
    let missing = if result == vk::Result::SUCCESS { 0 } else { missing.clamp(1.min(count), count) };
    add(device, failure(result).map(|what| (what, missing)));
    if count > missing {
        add(device, [(Count::CompileNanos, nanos(spent))]);
        add(device, unrecorded(why_unkept(device)).map(|what| (what, count - missing)));
    }
}

/// Counts pipelines that the layer refuses in the driver's place.
pub fn refused(device: &Device, count: u64) {
    add(device, [(Count::CompileRequired, count)]);
}

/// Counts a pipeline that bypasses the stash, and tells of the first of its kind.
pub fn bypassed(device: &Device, refusal: Refusal) {
    if device.counters().bypass(refusal.reason, refusal.s_type) {
        log_bypass(refusal);
    }
}

/// Counts what is counted of a request, whatever becomes of it.
fn asked<I: CreateInfo>(call: &Call<'_, I>, attempts: &Attempts<'_>, count: &mut impl FnMut(Count, u64)) {
    let by_identifier = call.parsed().naming.lacks_code.then_some(Count::IdentifierRequests);
    let of_stash = match attempts.stash {
        Some(StepAnswer::Refused) => Some(Count::NotTaken),
        Some(StepAnswer::NoModule) => Some(Count::ModuleMissing),
        Some(StepAnswer::Quarantined) => Some(Count::Quarantined),
        Some(StepAnswer::NotReady) => Some(Count::NotReady),
        _ => None,
    };
    [by_identifier, of_stash, attempts.unready].into_iter().flatten().for_each(|what| count(what, 1));
    if let Miss::SiblingsRefused(refused) = attempts.artifact {
        count(Count::SiblingNotTaken, refused.into());
    }
}

/// The only addition to the counters of requests.
pub fn add(device: &Device, counts: impl IntoIterator<Item = (Count, u64)>) {
    for (what, amount) in counts {
        if amount > 0 {
            device.counters().add(what, amount);
        }
    }
}

/// Whether the program may expect the pipeline in the cache that it passed.
fn holds(subject: &Subject<'_>) -> bool {
    subject.program_cache.known().is_some_and(|cache| cache.holds(subject.key))
}

/// Pays what the cache that the program passed is owed. `has_artifact`: the stash has one. True: the pipeline is in a
/// cache of the layer's, which has nothing that the program's would have.
fn pay(subject: &Subject<'_>, place: Place<'_>, has_artifact: bool) -> bool {
    let &Subject { device, program_cache, key, shaders, .. } = subject;
    match place {
        Place::Nowhere => false,
        Place::NotInData => true,
        Place::Own => {
            program_cache.mark_filled_with(&device.caches, key, shaders);
            false
        }
        Place::OwnAlone => {
            program_cache.known().into_iter().for_each(|cache| cache.note_fresh(key, shaders));
            false
        }
        // The driver may have found it on disk, and put it into the companion.
        Place::Companion => match program_cache.known() {
            Some(cache) => {
                cache.answer.note_companion_answer();
                false
            }
            None => true,
        },
        Place::Pending(PendingEntry { made_with, bytes, digest }) => match program_cache {
            ProgramCache::Known { cache, .. } => {
                if !cache.holds(key) && cache.pending.note(key, shaders) {
                    match made_with {
                        MadeWith::Cache(made_with) => cache.answer.add(made_with, bytes),
                        MadeWith::Artifact => cache.answer.add_artifact(key, bytes),
                        MadeWith::Another => {}
                    }
                }
                // Two recipes may be one entry of the driver's cache.
                !digest.is_some_and(|digest| cache.pending_blobs.note(digest))
            }
            ProgramCache::Null => {
                if has_artifact {
                    device.caches.null.pending.note(key, shaders);
                }
                true
            }
            ProgramCache::Unknown(_) => true,
        },
    }
}

/// Counts a verdict. `why_unkept`: why no artifact would be kept, where there is a reason.
fn counts(
    result: vk::Result,
    origin: Origin,
    learned: &Learned,
    why_unkept: impl FnOnce() -> Option<Count>,
    count: &mut impl FnMut(Count, u64),
) {
    if result != vk::Result::SUCCESS {
        return failure(result).into_iter().for_each(|what| count(what, 1));
    }
    let saved = |cost: Duration, spent: Duration| {
        nanos(if learned.is_first { cost.saturating_sub(spent) } else { Duration::ZERO })
    };
    match origin {
        Origin::Driver { from, .. } => {
            count(Count::DriverHad, 1);
            count(Count::LeftToWorkers, learned.is_left.into());
            match from {
                Found::InMemory => {}
                Found::OnDisk => count(Count::DriverHadOnDisk, 1),
                Found::InCompanion => count(Count::CompanionHad, 1),
            }
        }
        Origin::Parked { cost, spent, of } => {
            let saved = saved(cost, spent);
            count(Count::Parked, 1);
            count(Count::ParkedNanos, nanos(spent));
            count(Count::SavedNanos, saved);
            match of {
                MadeOf::Compile => count(Count::AheadNanos, saved),
                MadeOf::Found { .. } => count(Count::ParkedFound, 1),
                MadeOf::Artifact { source, .. } => part(source).into_iter().for_each(|what| count(what, 1)),
            }
        }
        Origin::Stash { confirmed, cost, spent, source } => {
            if confirmed {
                count(Count::Served, 1);
                count(Count::ServedNanos, nanos(spent));
                count(Count::SavedNanos, saved(cost, spent));
                count(Count::SiblingNotTaken, learned.others_refused.into());
            } else {
                count(Count::Offered, 1);
            }
            part(source).into_iter().for_each(|what| count(what, 1));
        }
        Origin::RefusedArtifact => count(Count::Offered, 1),
        Origin::Compile { wall, cost } => {
            count(Count::CompileNanos, nanos(wall));
            if learned.is_kept {
                count(Count::Compiled, 1);
            } else {
                unrecorded(why_unkept()).for_each(|what| count(what, 1));
            }
            if learned.is_kept && learned.was_lost {
                count(Count::ServedBefore, 1);
                count(Count::ServedBeforeNanos, nanos(cost));
            }
        }
        Origin::AsItIs(AsItIs::NothingToCompile) => count(Count::NothingToCompile, 1),
        Origin::AsItIs(AsItIs::Untouched(wall)) => {
            unrecorded(why_unkept()).for_each(|what| count(what, 1));
            count(Count::CompileNanos, nanos(wall));
        }
        // The result says it, and what is bypassed is counted by its reason.
        Origin::AsItIs(AsItIs::Undescribed(_)) | Origin::Layer => {}
    }
}

/// Of those that the stash had: the part that had the artifact, if it was another one than the device's own.
fn part(source: KeptIn) -> Option<Count> {
    match source {
        KeptIn::Own => None,
        KeptIn::Base => Some(Count::FromBase),
        KeptIn::Sibling => Some(Count::FromSibling),
    }
}

/// Why the artifacts of this driver are not kept.
fn why_unkept(device: &Device) -> Option<Count> {
    if switches::is_off(CacheKinds::COMPILATIONS) {
        Some(Count::SwitchedOff)
    } else {
        (!device.keeps_artifacts()).then_some(Count::NothingKept)
    }
}

/// A pipeline that the driver compiled and of which no artifact is recorded.
fn unrecorded(why: Option<Count>) -> impl Iterator<Item = Count> {
    std::iter::once(Count::CompiledUnrecorded).chain(why)
}

/// What the program got no pipeline for.
fn failure(result: vk::Result) -> Option<Count> {
    match result {
        vk::Result::SUCCESS => None,
        vk::Result::PIPELINE_COMPILE_REQUIRED => Some(Count::CompileRequired),
        _ => Some(Count::Failed),
    }
}

/// What was tried goes into the timeline of the run and into the trace.
pub fn note_steps(device: &Device, key: &Key, steps: &Steps, result: vk::Result) {
    let result = match result {
        vk::Result::SUCCESS => CreationResult::Pipeline,
        vk::Result::PIPELINE_COMPILE_REQUIRED => CreationResult::CompileRequired,
        _ => CreationResult::Error,
    };
    let creation = steps.creation(key, result);
    spans::pipeline(&creation);
    device.frames().note(&creation);
    if let Some(stored) = device.stored() {
        stored.stash.note_timeline(creation);
    }
}

/// Logs an unexpected reason once in a process: two lines for each pipeline would be read as the cause of crashes. A
/// reason that this version leaves to the driver by design is logged at a level that has to be asked for.
fn log_bypass(Refusal { reason, s_type }: Refusal) {
    static TOLD: AtomicBool = AtomicBool::new(false);
    let mut name = reason.name().to_owned();
    // 0 says that no structure is to blame, although Vulkan has given that number to VkApplicationInfo.
    if s_type != 0 {
        name += &format!(" ({})", structures::name(vk::StructureType::from_raw(s_type)));
    }
    if reason.is_by_design() || TOLD.swap(true, Ordering::Relaxed) {
        tracing::info!("a pipeline bypasses the stash: {name}");
    } else {
        tracing::warn!("a pipeline bypasses the stash: {name}; further ones are only counted");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEVER: Duration = Duration::ZERO;
    const LONG: Duration = Duration::from_millis(2);
    const SHORT: Duration = Duration::from_micros(60);

    fn stash(source: KeptIn, confirmed: bool) -> Origin {
        Origin::Stash { source, confirmed, cost: LONG, spent: SHORT }
    }

    fn parked(of: MadeOf) -> Origin {
        Origin::Parked { cost: LONG, spent: SHORT, of }
    }

    fn driver(from: Found) -> Origin {
        Origin::Driver { took: SHORT, from }
    }

    fn counted(
        result: vk::Result,
        origin: Origin,
        learned: Learned,
        why: Option<Count>,
    ) -> Vec<(Count, u64)> {
        let mut counted = Vec::new();
        counts(result, origin, &learned, || why, &mut |what, amount| counted.push((what, amount)));
        counted.retain(|(_, amount)| *amount > 0);
        counted
    }

    type Row<'a> = (Origin, Learned, &'a [(Count, u64)]);

    /// Each verdict is counted once as what it is, and what is said of it besides goes with it.
    #[test]
    fn the_table() {
        use Count::*;
        let (not_kept, kept) = (Learned::default(), Learned { is_kept: true, ..Learned::default() });
        let first = Learned { is_first: true, ..Learned::default() };
        let (spent, saved) = (nanos(SHORT), nanos(LONG - SHORT));
        let compile = Origin::Compile { wall: LONG, cost: SHORT };
        let artifact = |source| MadeOf::Artifact { bytes: 1, source };
        let table: &[Row<'_>] = &[
            (driver(Found::InMemory), not_kept, &[(DriverHad, 1)]),
            (
                driver(Found::OnDisk),
                Learned { is_left: true, ..not_kept },
                &[(DriverHad, 1), (LeftToWorkers, 1), (DriverHadOnDisk, 1)],
            ),
            (driver(Found::InCompanion), not_kept, &[(DriverHad, 1), (CompanionHad, 1)]),
            (parked(artifact(KeptIn::Own)), first, &[(Parked, 1), (ParkedNanos, spent), (SavedNanos, saved)]),
            (parked(artifact(KeptIn::Base)), not_kept, &[(Parked, 1), (ParkedNanos, spent), (FromBase, 1)]),
            (
                parked(MadeOf::Found { kept: None }),
                not_kept,
                &[(Parked, 1), (ParkedNanos, spent), (ParkedFound, 1)],
            ),
            (
                parked(MadeOf::Compile),
                first,
                &[(Parked, 1), (ParkedNanos, spent), (SavedNanos, saved), (AheadNanos, saved)],
            ),
            (stash(KeptIn::Own, true), first, &[(Served, 1), (ServedNanos, spent), (SavedNanos, saved)]),
            (stash(KeptIn::Sibling, true), not_kept, &[(Served, 1), (ServedNanos, spent), (FromSibling, 1)]),
            (stash(KeptIn::Own, false), first, &[(Offered, 1)]),
            (Origin::RefusedArtifact, not_kept, &[(Offered, 1)]),
            (compile, kept, &[(CompileNanos, nanos(LONG)), (Compiled, 1)]),
            (
                compile,
                Learned { was_lost: true, ..kept },
                &[(CompileNanos, nanos(LONG)), (Compiled, 1), (ServedBefore, 1), (ServedBeforeNanos, spent)],
            ),
            (compile, not_kept, &[(CompileNanos, nanos(LONG)), (CompiledUnrecorded, 1), (NothingKept, 1)]),
            (Origin::AsItIs(AsItIs::NothingToCompile), not_kept, &[(NothingToCompile, 1)]),
            (
                Origin::AsItIs(AsItIs::Untouched(NEVER)),
                not_kept,
                &[(CompiledUnrecorded, 1), (NothingKept, 1)],
            ),
        ];
        for (origin, learned, expected) in table {
            let counted = counted(vk::Result::SUCCESS, *origin, *learned, Some(NothingKept));
            assert_eq!(counted, *expected, "{origin:?}");
        }
    }

    #[test]
    fn a_request_without_a_pipeline_is_counted_by_its_result_alone() {
        let origins = [driver(Found::InMemory), Origin::Compile { wall: LONG, cost: LONG }, Origin::Layer];
        for origin in origins {
            let of = |result| counted(result, origin, Learned::default(), None);
            assert_eq!(of(vk::Result::PIPELINE_COMPILE_REQUIRED), [(Count::CompileRequired, 1)]);
            assert_eq!(of(vk::Result::ERROR_DEVICE_LOST), [(Count::Failed, 1)]);
        }
    }
}
