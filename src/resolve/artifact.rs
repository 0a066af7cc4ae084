//! Rung 3: from our artifact.
//!
//! The driver checks a blob against its own key, so a wrong one is a miss and never a wrong pipeline. With
//! FAIL_ON_COMPILE_REQUIRED a blob that the driver does not take is noticed before anything is compiled.

use std::time::Instant;

use ash::vk;

use super::call::{self, Answer, CreateInfo};
use super::private_cache::PrivateCache;
use super::{Passed, Request, binary, feedback, modules, record};
use crate::recipe::chain::Arena;
use crate::state::device::IdentifierMode;
use crate::stats::Count;
use crate::store::part::{Handing, Kind};

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
    if !stored.device.read(Kind::Artifact, &request.key, buffer) {
        return None;
    }
    let refusals = record::refusals(buffer);
    if refusals >= record::REFUSALS_LIMIT {
        request.past.leave_alone();
        return None;
    }
    let (cost, blob) = record::parse(buffer)?;
    let started = Instant::now();

    // A driver that does not know identifiers needs the code that ours stands for.
    let mut brought = modules::Brought::new(device);
    let mut arena = Arena::default();
    let mut info = request.info;
    if request.steering.identifier_only && device.identifiers == IdentifierMode::Emulated {
        // SAFETY: the caller's contract.
        let Some(with_code) = (unsafe { brought.bring(&info, request.recipe, stored) }) else {
            if brought.lacks_module() {
                // An artifact is only ever made with its modules at hand.
                device.count(Count::ModuleMissing);
                request.past.lack_module();
            }
            return None;
        };
        info = with_code;
    }
    if device.cache_control {
        let fail_on = vk::PipelineCreateFlags::FAIL_ON_PIPELINE_COMPILE_REQUIRED;
        let none = vk::PipelineCreateFlags::empty();
        // SAFETY: the caller's contract; the arena stays on this stack frame.
        info = unsafe { call::with_flags(&info, request.steering.flags2, fail_on, none, &mut arena) }?;
    }
    let handing = stored.device.hand_out(&request.key);
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
    record::settle(request, confirmed, cost, started.elapsed());
    // SAFETY: as above.
    unsafe { put_feedback_right(request, &mut info) };
    stored.stash.note_taken(&stored.device, &request.key);
    Some(answer)
}

/// The hit was in our cache; the program's own holds the pipeline only if the stash has owed it before.
///
/// # Safety
/// The driver has filled the program's structures.
unsafe fn put_feedback_right<I: CreateInfo>(request: &Request<'_, I>, info: &mut I) {
    let held = match request.passed {
        Passed::Known { cache, .. } => {
            let held = cache.holds(&request.key);
            cache.owe(&request.key);
            held
        }
        _ => false,
    };
    if !held {
        // SAFETY: the caller's contract.
        unsafe { feedback::clear_hit(*info.p_next_mut()) };
    }
}
