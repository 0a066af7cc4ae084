//! The stash as a source: from an artifact.
//!
//! The driver checks a blob against the driver's key, so a wrong one is a miss and never a wrong pipeline. With
//! FAIL_ON_COMPILE_REQUIRED a blob that the driver does not take is noticed before anything is compiled.

use std::time::{Duration, Instant};

use ash::vk;

use super::call::Answer;
use super::create_info::CreateInfo;
use super::feedback;
use super::offer::Offer;
use super::outcome::{ArtifactOutcome, Origin, Refused, Served};
use super::request::Request;
use crate::state::private_cache::PrivateCache;
use crate::state::stored::{OfSiblings, Source, Stored};
use crate::state::width::Width;
use vkstash_model::counters::Count;
use vkstash_model::payload;
use vkstash_store::format::record::{Key, Kind};
use vkstash_store::part::admission::Admission;
use vkstash_store::part::records::FoundIn;

/// Serves the request from the stash.
///
/// # Safety
/// The request's create info is valid.
pub unsafe fn serve<'a, I: CreateInfo>(
    request: &Request<'a, I>,
    buffer: &mut Vec<u8>,
) -> Result<Served, ArtifactOutcome<'a>> {
    let call = &request.call;
    let device = call.device;
    let wanted = device.caches_hold(call.class()) || call.parsed().naming.lacks_code;
    if !device.keeps_artifacts() || !wanted {
        return Err(ArtifactOutcome::NotOffered);
    }
    // SAFETY: the request's create info is valid (the caller's contract).
    unsafe { offer(request, buffer) }.unwrap_or(Err(ArtifactOutcome::NotOffered))
}

/// What the driver made with an artifact.
pub struct ArtifactAnswer<'a> {
    /// What the driver answered: a pipeline, or an error.
    pub answer: Answer,
    /// Time that the driver needed to compile the artifact.
    pub cost: Duration,
    /// Where the artifact was.
    pub source: Source,
    /// The cache with the artifact.
    pub cache: PrivateCache<'a>,
    /// When the artifact was at hand.
    started: Instant,
}

/// Offers the artifact to the driver, and does what a request of the program needs besides. None: there is none, or it
/// cannot be offered.
///
/// # Safety
/// As [`serve`].
unsafe fn offer<'a, I: CreateInfo>(
    request: &Request<'a, I>,
    buffer: &mut Vec<u8>,
) -> Option<Result<Served, ArtifactOutcome<'a>>> {
    let Request { call, pipeline } = request;
    let device = call.device;
    // SAFETY: the request's create info is valid until `serve` returns (its # Safety section).
    let ArtifactAnswer { answer, cost, started, source, cache } =
        match unsafe { make(request, buffer, Some(&device.width)) }? {
            Ok(made) => made,
            Err(outcome) => {
                match &outcome {
                    ArtifactOutcome::Refused(_) => device.count(Count::NotTaken),
                    ArtifactOutcome::ModuleMissing => device.count(Count::ModuleMissing),
                    ArtifactOutcome::NotOffered | ArtifactOutcome::LeftAlone => {}
                }
                return Some(Err(outcome));
            }
        };
    // An error with the layer's cache is no error of the program's call: the sources that are left are asked without
    // it.
    if answer.result != vk::Result::SUCCESS {
        return None;
    }
    let feedback = call.parsed().feedback;
    // SAFETY: the driver has filled the program's structure.
    let confirmed = device.cache_control() || unsafe { feedback::cache_hit(feedback) } == Some(true);
    let first = device.stored().is_some_and(|stored| match source {
        Source::Own | Source::Base => stored.stash.note_taken(&stored.device, &pipeline.key),
        // What is recorded under this key later was taken by no driver yet.
        Source::Sibling => stored.stash.note_first_use(&pipeline.key),
    });
    let (cost, spent) = (first.then_some(cost), started.elapsed());
    // SAFETY: the driver has filled the program's structure.
    unsafe { note_beside(request, cache, buffer.get(payload::PREFIX..).unwrap_or_default()) };
    Some(Ok(Served { answer, origin: Origin::Stash { confirmed, cost, spent, source } }))
}

/// Has the driver make the pipeline with the artifact, whose payload is in `buffer` afterwards: that of the device's
/// own part, or else those of its siblings. None: there is none, or it cannot be offered. `width`: the way into the
/// driver for threads of the program; workers must not take their places.
///
/// # Safety
/// As [`serve`].
unsafe fn make<'a, I: CreateInfo>(
    request: &Request<'a, I>,
    buffer: &mut Vec<u8>,
    width: Option<&Width>,
) -> Option<Result<ArtifactAnswer<'a>, ArtifactOutcome<'a>>> {
    let Request { call, pipeline } = request;
    let stored = call.device.stored()?;
    // SAFETY: both ways to make the pipeline only read the request's create info, which is valid (# Safety of `serve`).
    unsafe {
        match read_own(stored, &pipeline.key, buffer) {
            Some(source) => make_of(request, source, buffer, width),
            None => make_of_sibling(request, buffer, width),
        }
    }
}

/// Reads the artifact of a key in the device's own part.
pub fn read_own(stored: &Stored, key: &Key, buffer: &mut Vec<u8>) -> Option<Source> {
    stored.device.read_from(Kind::Artifact, key, buffer).map(|found| match found {
        FoundIn::Own => Source::Own,
        FoundIn::Base => Source::Base,
    })
}

/// [`make`] where the device's own part has no artifact.
///
/// # Safety
/// As [`serve`].
unsafe fn make_of_sibling<'a, I: CreateInfo>(
    request: &Request<'a, I>,
    buffer: &mut Vec<u8>,
    width: Option<&Width>,
) -> Option<Result<ArtifactAnswer<'a>, ArtifactOutcome<'a>>> {
    let Request { call, pipeline } = request;
    let (stored, key) = (call.device.stored()?, &pipeline.key);
    if !call.device.policy.siblings.contains(&call.parsed().bind_point) {
        return None;
    }
    let known = stored.known_of_siblings(key, buffer);
    let mut before = match known {
        OfSiblings::Refused => return None,
        OfSiblings::Taken(number) => Some(number),
        OfSiblings::Nothing | OfSiblings::SomethingElse => None,
    };
    let (mut next, mut offered, mut is_refused) = (0, None, false);
    while next < MOST_SIBLINGS {
        let first = before.take();
        let Some(number) = stored.read_sibling(key, first.unwrap_or(next), buffer) else {
            if first.is_some() { continue } else { break }
        };
        if first.is_some() {
            offered = Some(number);
        } else {
            next = number + 1;
            if offered == Some(number) {
                continue;
            }
        }
        if payload::refusals(buffer) >= payload::REFUSALS_LIMIT || payload::parse(buffer).is_none() {
            continue;
        }
        // SAFETY: the request's create info stays valid for every sibling's artifact that is tried.
        match unsafe { make_of(request, Source::Sibling, buffer, width) } {
            // The next sibling's may fit better. Quarantine is by key: none of them is offered.
            Some(Err(ArtifactOutcome::Refused(_))) => is_refused = true,
            outcome => {
                if matches!(&outcome, Some(Ok(made)) if made.answer.result == vk::Result::SUCCESS) {
                    stored.note_taken_sibling(key, number, is_refused && known != OfSiblings::SomethingElse);
                }
                return outcome;
            }
        }
    }
    if next > 0 {
        // Whatever else is known of the key is worth more.
        stored.note_refused_sibling(key, known != OfSiblings::SomethingElse);
    }
    None
}

/// How many siblings are looked at for one pipeline, beside the one that was taken before; the driver may refuse each.
const MOST_SIBLINGS: usize = 4;

/// Has the driver make the pipeline with the artifact whose payload is in `buffer`.
///
/// # Safety
/// As [`serve`].
pub unsafe fn make_of<'a, I: CreateInfo>(
    request: &Request<'a, I>,
    source: Source,
    buffer: &[u8],
    width: Option<&Width>,
) -> Option<Result<ArtifactAnswer<'a>, ArtifactOutcome<'a>>> {
    let Request { call, pipeline } = request;
    let device = call.device;
    let stored = device.stored()?;
    let refusals = payload::refusals(buffer);
    if refusals >= payload::REFUSALS_LIMIT {
        return Some(Err(ArtifactOutcome::LeftAlone));
    }
    let (cost, blob) = payload::parse(buffer)?;
    let started = Instant::now();
    let mut offered = Offer::new(device);
    // SAFETY: the request's create info is valid; `offered`, in which its copy lives, stays on this stack frame.
    let prepared = unsafe { offered.prepare(request) };
    let Some(info) = prepared else {
        if !offered.lacks_module() {
            return None;
        }
        // An artifact is only ever made with its modules at hand.
        return Some(Err(ArtifactOutcome::ModuleMissing));
    };
    // First: an artifact that waits for a place is not suspected if the process dies. Nobody waits where the driver may
    // call the program back: it may wait for a lock there that the thread holds which waits for a place.
    let calls_back = device.calls_back() || !call.allocator.is_null();
    let inside = width.filter(|_| !calls_back).map(Width::enter);
    let admission = stored.device.admit(&pipeline.key);
    if matches!(admission, Admission::NotYet) {
        device.count(Count::NotReady);
        return None;
    }
    if matches!(admission, Admission::Quarantined) {
        device.count(Count::Quarantined);
        return Some(Err(ArtifactOutcome::LeftAlone));
    }
    let cache = device.caches.commands.private(blob)?;
    // SAFETY: what the copy points to, and the cache, live until the call is over.
    let answer = unsafe { call.create_with(cache.handle(), &info) };
    drop(inside);
    drop(admission);

    match answer.result {
        vk::Result::PIPELINE_COMPILE_REQUIRED if device.cache_control() => {
            if source == Source::Sibling {
                device.count(Count::SiblingNotTaken);
            }
            let refused = Refused { cache, cost, refusals: refusals + 1 };
            Some(Err(ArtifactOutcome::Refused(refused)))
        }
        _ => Some(Ok(ArtifactAnswer { answer, cost, source, cache, started })),
    }
}

/// The cache with the artifact stays beside the program's. The driver reports a hit in it. The bit stays set only if
/// the program's cache would hold this pipeline: if it was pending there before, or a pipeline whose artifact has the
/// same bytes, which is one entry of the driver's cache. A driver that never writes the same bytes twice gives no such
/// sign, and the bit is cleared.
///
/// # Safety
/// The driver has filled the program's structures.
unsafe fn note_beside<I: CreateInfo>(request: &Request<'_, I>, cache: PrivateCache<'_>, blob: &[u8]) {
    let Request { call, pipeline } = request;
    let feedback = call.parsed().feedback;
    let has_bytes = || {
        feedback.is_some() && call.program_cache.known().is_some_and(|cache| cache.pending_blobs.note(blob))
    };
    let (key, shaders) = (&pipeline.key, &pipeline.shaders);
    let is_held = call.program_cache.note_beside(call.device, key, shaders, Some(cache), blob.len());
    if !is_held && !has_bytes() {
        // SAFETY: `feedback` is the program's valid structure, whose outputs the driver has filled by its call.
        unsafe { feedback::clear_hit(feedback) };
    }
}
