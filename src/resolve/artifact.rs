//! Rung 3: from our artifact.
//!
//! The driver checks a blob against its own key, so a wrong one is a miss and never a wrong pipeline. With
//! FAIL_ON_COMPILE_REQUIRED a blob that the driver does not take is noticed before anything is compiled.

use std::time::Instant;

use ash::vk;

use super::call::{self, Answer, CreateInfo};
use super::offered::Offered;
use super::private_cache::PrivateCache;
use super::{Passed, Request, binary, driver, feedback, record};
use crate::recipe::payload;
use crate::state::device::IdentifierMode;
use crate::stats::Count;
use vkstash_store::format::record::Kind;
use vkstash_store::part::open::Handing;

/// Serves the request from the stash. None: the next rung's turn.
///
/// # Safety
/// The request's create info is valid.
pub unsafe fn serve<I: CreateInfo>(request: &Request<'_, I>, buffer: &mut Vec<u8>) -> Option<Answer> {
    let device = request.device;
    if !device.keeps_artifacts() || !(device.gives(request.family) || request.steering.identifier_only) {
        return None;
    }
    if binary::applies(request) {
        // SAFETY: the caller's contract.
        if let Some(answer) = unsafe { binary::serve(request, buffer) } {
            return Some(answer);
        }
    }
    let stored = device.stored()?;
    device.read_unread(&request.key);
    if !stored.device.read(Kind::Artifact, &request.key, buffer) {
        return None;
    }
    let refusals = payload::refusals(buffer);
    if refusals >= payload::REFUSALS_LIMIT {
        request.past.leave_alone();
        return None;
    }
    let (cost, blob) = payload::parse(buffer)?;
    let started = Instant::now();
    let mut offered = Offered::new(device);
    // SAFETY: the caller's contract; what the copy needs stays on this stack frame.
    let Some(mut info) = (unsafe { offered.prepare(request) }) else {
        if offered.lacks_module() {
            // An artifact is only ever made with its modules at hand.
            device.count(Count::ModuleMissing);
            request.past.lack_module();
        }
        return None;
    };
    let handing = stored.device.hand_out(&request.key);
    if matches!(handing, Handing::NotYet) {
        return None;
    }
    if matches!(handing, Handing::Quarantined) {
        device.count(Count::Quarantined);
        request.past.leave_alone();
        return None;
    }
    let cache = PrivateCache::new(device, blob)?;
    // SAFETY: as above; the cache lives until the call is over.
    let answer = unsafe { call::create(device, cache.handle(), &info, request.allocator) };
    drop(handing);

    match answer.result {
        vk::Result::SUCCESS => {}
        vk::Result::PIPELINE_COMPILE_REQUIRED if device.cache_control => {
            device.count(Count::NotTaken);
            request.past.refused(refusals + 1, cache, cost);
            return None;
        }
        // An error with our cache is no error of the program's call: the next rung asks without it.
        _ => return None,
    }
    // SAFETY: the driver has filled the program's structures.
    let confirmed = device.cache_control || unsafe { feedback::cache_hit(*info.p_next_mut()) } == Some(true);
    let first = stored.stash.note_taken(&stored.device, &request.key);
    record::settle(request, confirmed, first.then_some(cost), started.elapsed());
    // SAFETY: as above.
    unsafe { put_feedback_right(request, &mut info, blob) };
    Some(answer)
}

/// The program's own cache, before the stash: a program that asks whether a pipeline came from its cache is told so by
/// the driver, where something that the layer did not put there may be in it. None: the stash's turn.
///
/// # Safety
/// The request's create info is valid.
pub unsafe fn ask_its_cache<I: CreateInfo>(request: &Request<'_, I>) -> Option<Answer> {
    let Passed::Known { cache, .. } = request.passed else { return None };
    let mut info = request.info;
    // SAFETY: the caller's contract.
    let is_asked = unsafe { feedback::is_asked(*info.p_next_mut()) };
    let ours = request.steering.identifier_only && request.device.identifiers == IdentifierMode::Emulated;
    let is_open = is_asked
        && !ours
        && !cache.holds(&request.key)
        && cache.filled.may_have(&request.shaders)
        && request.device.stored()?.device.contains(Kind::Artifact, &request.key);
    // SAFETY: as above.
    if is_open { unsafe { driver::ask_itself(request) } } else { None }
}

/// The hit was in our cache. The program's own would have it if the stash has owed it this pipeline before, or one whose
/// artifact is the same to the byte: that is one entry of the driver's cache. Where a driver repeats no byte, pipelines
/// that are one to the driver and have an artifact each cannot be told from others, and the bit is left out.
///
/// # Safety
/// The driver has filled the program's structures.
unsafe fn put_feedback_right<I: CreateInfo>(request: &Request<'_, I>, info: &mut I, blob: &[u8]) {
    let held = match request.passed {
        Passed::Known { cache, .. } => {
            let held = cache.holds(&request.key);
            if !held {
                cache.owe(&request.key, &request.shaders);
            }
            // SAFETY: the caller's contract.
            held || unsafe { feedback::is_asked(*info.p_next_mut()) } && cache.blobs.note(blob)
        }
        Passed::Null => {
            request.device.null.beside.note(&request.key, &request.shaders);
            false
        }
        Passed::Unknown(_) => false,
    };
    if !held {
        // SAFETY: the caller's contract.
        unsafe { feedback::clear_hit(*info.p_next_mut()) };
    }
}
