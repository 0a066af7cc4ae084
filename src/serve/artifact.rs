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
use super::request::Request;
use super::verdict::{Miss, Origin, PendingEntry, Record, Refused, Verdict};
use crate::state::caches::private_cache::PrivateCache;
use crate::state::devices::width::Width;
use crate::state::process::stored::{KeptIn, Stored};
use vkstash_model::failed::Refusals;
use vkstash_model::payload;
use vkstash_model::record::{Key, Kind};
use vkstash_store::part::admission::Admission;
use vkstash_store::part::records::FoundIn;

/// Serves the request from the stash.
///
/// # Safety
/// The request's create info is valid.
pub unsafe fn serve<'a, I: CreateInfo>(
    request: &Request<'a, I>,
    buffer: &mut Vec<u8>,
) -> Result<Verdict<'a>, Miss<'a>> {
    let Request { call, pipeline } = request;
    let device = call.device;
    let wanted = device.caches_hold(call.class()) || call.parsed().naming.lacks_code;
    let Some(stored) = device.stored().filter(|_| device.keeps_artifacts() && wanted) else {
        return Err(Miss::NotOffered);
    };
    // SAFETY: the request's create info is valid (the caller's contract).
    let (made, record) = unsafe {
        match read_own(stored, &pipeline.key, buffer) {
            Some(source) => (make_of(request, source, buffer, Some(&device.width))?, Record::Use),
            None => make_of_sibling(request, buffer)?,
        }
    };
    let ArtifactAnswer { answer, cost, source, cache, started, refused } = made;
    // An error with the layer's cache is no error of the program's call: the sources that are left are asked without
    // it.
    if answer.result != vk::Result::SUCCESS {
        return Err(Miss::NotOffered);
    }
    let feedback = call.parsed().feedback;
    let spent = started.elapsed();
    if let Some(refusals) = refused {
        // The driver could not be kept from compiling.
        let data = cache.data_behind(&payload::prefix(spent, refusals));
        let place = PendingEntry::of_data(&data, cache, feedback.is_some());
        let origin = Origin::Compile { wall: spent, cost: spent };
        return Ok(Verdict { answer, origin, place, record: Record::Artifact(data) });
    }
    // SAFETY: the driver has filled the program's structure.
    let confirmed = device.decided.cache_control || unsafe { feedback::cache_hit(feedback) } == Some(true);
    let blob = buffer.get(payload::PREFIX..).unwrap_or_default();
    let place = PendingEntry::in_cache(cache, blob.len(), Some(blob).filter(|_| feedback.is_some()));
    let origin = Origin::Stash { source, confirmed, cost, spent };
    Ok(Verdict { answer, origin, place, record })
}

/// What the driver made with an artifact.
pub struct ArtifactAnswer<'a> {
    /// What the driver answered: a pipeline, or an error.
    pub answer: Answer,
    /// Time that the driver needed to compile the artifact.
    pub cost: Duration,
    /// Where the artifact was.
    pub source: KeptIn,
    /// The cache with the artifact.
    pub cache: PrivateCache<'a>,
    /// When the artifact was at hand.
    started: Instant,
    /// The driver, which cannot be kept from compiling, did so: how often in a row it has refused artifacts now.
    refused: Option<Refusals>,
}

/// Reads the artifact of a key in the device's own part.
pub fn read_own(stored: &Stored, key: &Key, buffer: &mut Vec<u8>) -> Option<KeptIn> {
    stored.device.read_from(Kind::Artifact, key, buffer).map(|found| match found {
        FoundIn::Own => KeptIn::Own,
        FoundIn::Base => KeptIn::Base,
    })
}

/// Has the driver make the pipeline with the artifact of a sibling, whose payload is in `buffer` afterwards: the
/// device's own part has none.
///
/// # Safety
/// As [`serve`].
unsafe fn make_of_sibling<'a, I: CreateInfo>(
    request: &Request<'a, I>,
    buffer: &mut Vec<u8>,
) -> Result<(ArtifactAnswer<'a>, Record), Miss<'a>> {
    let Request { call, pipeline } = request;
    let (device, key) = (call.device, &pipeline.key);
    let takes_siblings = device.policy.siblings.contains(&call.parsed().bind_point);
    let stored = device.stored().filter(|_| takes_siblings).ok_or(Miss::NotOffered)?;
    let Ok(mut before) = stored.first_sibling(key) else { return Err(Miss::NotOffered) };
    let (mut next, mut offered, mut refused) = (0, None, 0);
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
        if Refusals::of(buffer).are_too_many() || payload::parse(buffer).is_none() {
            continue;
        }
        // SAFETY: the request's create info stays valid for every sibling's artifact that is tried.
        match unsafe { make_of(request, KeptIn::Sibling, buffer, Some(&device.width)) } {
            // The next sibling's may fit better. Quarantine is by key: none of them is offered.
            Err(Miss::Refused(_)) => refused += 1,
            outcome => {
                return outcome.map(|made| (made, Record::UseOfSibling { number, others_refused: refused }));
            }
        }
    }
    Err(if next > 0 { Miss::SiblingsRefused(refused) } else { Miss::NotOffered })
}

/// How many siblings are looked at for one pipeline, beside the one that was taken before; the driver may refuse each.
const MOST_SIBLINGS: usize = 4;

/// Has the driver make the pipeline with the artifact whose payload is in `buffer`. `width`: the way into the driver
/// for threads of the program; workers must not take their places.
///
/// # Safety
/// As [`serve`].
pub unsafe fn make_of<'a, I: CreateInfo>(
    request: &Request<'a, I>,
    source: KeptIn,
    buffer: &[u8],
    width: Option<&Width>,
) -> Result<ArtifactAnswer<'a>, Miss<'a>> {
    let Request { call, pipeline } = request;
    let device = call.device;
    let stored = device.stored().ok_or(Miss::NotOffered)?;
    let refusals = Refusals::of(buffer);
    if refusals.are_too_many() {
        return Err(Miss::LeftAlone);
    }
    let (cost, blob) = payload::parse(buffer).ok_or(Miss::NotOffered)?;
    let started = Instant::now();
    let mut offered = Offer::new(device);
    // SAFETY: the request's create info is valid; `offered`, in which its copy lives, stays on this stack frame.
    let prepared = unsafe { offered.prepare(request) };
    let Some(info) = prepared else {
        // An artifact is only ever made with its modules at hand.
        return Err(if offered.lacks_module() { Miss::ModuleMissing } else { Miss::NotOffered });
    };
    // First: an artifact that waits for a place is not suspected if the process dies. Nobody waits where the driver may
    // call the program back: it may wait for a lock there that the thread holds which waits for a place.
    let calls_back = device.calls_back() || !call.allocator.is_null();
    let inside = width.filter(|_| !calls_back).map(Width::enter);
    let admission = match stored.device.admit(&pipeline.key) {
        Admission::Granted(mark) => mark,
        Admission::NotYet => return Err(Miss::NotReady),
        Admission::Quarantined => return Err(Miss::Quarantined),
    };
    let cache = device.caches.commands.private(blob).ok_or(Miss::NotOffered)?;
    let before = if device.decided.cache_control { None } else { cache.size() };
    // SAFETY: what the copy points to, and the cache, live until the call is over.
    let answer = unsafe { call.create_with(cache.handle(), &info) };
    drop(inside);
    drop(admission);
    let refused = before.is_some_and(|before| cache.has_grown(before)).then_some(refusals.and_one());
    match answer.result {
        vk::Result::PIPELINE_COMPILE_REQUIRED if device.decided.cache_control => {
            Err(Miss::Refused(Refused { cache, refusals: refusals.and_one() }))
        }
        _ => Ok(ArtifactAnswer { answer, cost, source, cache, started, refused }),
    }
}
