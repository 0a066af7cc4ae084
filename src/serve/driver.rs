//! The driver's caches as a source.
//!
//! What the program's warm cache and the driver's disk cache have must not be compiled again: before anything is
//! compiled through a cache of the layer's, the driver is asked with the program's call and cache. It answers from what
//! it has or says COMPILE_REQUIRED, in microseconds or in a millisecond (RADV, which looks at its disk). A call that
//! forbids compiling itself is asked in the same way.

use std::time::Instant;

use ash::vk;

use super::create_info::CreateInfo;
use super::facts::driver_object_may_have;
use super::request::Request;
use super::verdict::{Found, Origin, Place, Record, Verdict};
use crate::state::caches::program_cache::ProgramCache;
use vkstash_model::steps::StepAnswer;
use vkstash_recipe::chain::Arena;

/// Asks with the program's own call and cache, and FAIL_ON_COMPILE_REQUIRED. Otherwise the answer is what the driver
/// has said: that it has nothing, or an error, which it would answer the program's own call with.
///
/// # Safety
/// The request's create info is valid.
pub unsafe fn ask<'a, I: CreateInfo>(request: &Request<'a, I>) -> Result<Verdict<'a>, StepAnswer> {
    let Request { call, .. } = request;
    let (device, program_cache) = (call.device, call.program_cache);
    let mut arena = Arena::default();
    let mut creation = *call.creation;
    // SAFETY: the request's create info is valid; the arena, in which the copy's chain lives, stays on this
    // stack frame.
    if !unsafe { creation.forbid_compiling(&mut arena) } {
        return Err(StepAnswer::NotAsked);
    }
    let started = Instant::now();
    // SAFETY: the copy differs from the valid create info in its flags alone, its arena lives until the call
    // is over, and the cache is the program's.
    let answer = unsafe { call.create_with(program_cache.handle(), &creation.info) };
    let took = started.elapsed();
    // The call itself will fail as well: another try with a cache of the layer's would only make it fail twice. An
    // error says nothing of what the driver has.
    if answer.result.as_raw() < 0 {
        return Err(StepAnswer::Error);
    }
    let has_it = answer.result == vk::Result::SUCCESS;
    // A program may forbid compiling to find out whether the driver has a pipeline. A miss is expected then.
    if has_it || !call.parsed().fails_on_compile_required() {
        if let Some(habit) = program_cache.habit() {
            let estimate = device.estimates().driver(habit);
            let has_changed = match has_it {
                true => estimate.note_hit(device.policy.is_quick(took, habit)),
                false => estimate.note_in_vain(took),
            };
            if has_changed {
                device.keep_estimates();
            }
        }
    }
    if !has_it {
        return Err(StepAnswer::Nothing);
    }
    let record = Record::Found { may_be_left: call.may_be_left_to_workers() };
    let in_memory = matches!(program_cache, ProgramCache::Unknown(_)) || driver_object_may_have(request);
    let origin = Origin::Driver { took, from: if in_memory { Found::InMemory } else { Found::OnDisk } };
    Ok(Verdict { answer, origin, place: Place::Own, record })
}
