//! The driver's caches as a source, and the driver's answer where the program forbids compiling.
//!
//! What the program's warm cache and the driver's disk cache have must not be compiled again: before anything is
//! compiled through a cache of the layer's, the driver is asked with the program's call and cache. It answers from what
//! it has or says COMPILE_REQUIRED, in microseconds or in a millisecond (RADV, which looks at its disk). A call that
//! forbids compiling itself is asked in the same way.

use std::time::Instant;

use ash::vk;

use super::call::Answer;
use super::compile;
use super::create_info::CreateInfo;
use super::facts::driver_object_may_have;
use super::outcome::{ArtifactOutcome, Found, Origin, Served};
use super::program_cache::ProgramCache;
use super::refuse::refuse;
use super::request::Request;
use vkstash_model::counters::Count;
use vkstash_model::steps::StepAnswer;
use vkstash_recipe::chain::Arena;

/// What the driver has answered in place of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverMiss {
    /// The driver's caches do not have the pipeline.
    NotThere,
    /// The driver answers the call with an error, and would answer the program's own call so.
    Error,
    /// The call that forbids compiling cannot be made.
    NotAsked,
}

impl DriverMiss {
    /// What the driver has said.
    pub fn step_answer(self) -> StepAnswer {
        match self {
            DriverMiss::NotThere => StepAnswer::Nothing,
            DriverMiss::Error => StepAnswer::Error,
            DriverMiss::NotAsked => StepAnswer::NotAsked,
        }
    }
}

/// Asks with the program's own call and cache, and FAIL_ON_COMPILE_REQUIRED.
///
/// # Safety
/// The request's create info is valid.
pub unsafe fn ask<I: CreateInfo>(request: &Request<'_, I>) -> Result<Served, DriverMiss> {
    let Request { call, pipeline } = request;
    let (device, program_cache) = (call.device, call.program_cache);
    let mut arena = Arena::default();
    let mut creation = *call.creation;
    // SAFETY: the request's create info is valid; the arena, in which the copy's chain lives, stays on this
    // stack frame.
    if !unsafe { creation.forbid_compiling(&mut arena) } {
        return Err(DriverMiss::NotAsked);
    }
    let started = Instant::now();
    // SAFETY: the copy differs from the valid create info in its flags alone, its arena lives until the call
    // is over, and the cache is the program's.
    let answer = unsafe { call.create_with(program_cache.handle(), &creation.info) };
    let took = started.elapsed();
    // The call itself will fail as well: another try with a cache of the layer's would only make it fail twice. An
    // error says nothing of what the driver has.
    if answer.result.as_raw() < 0 {
        return Err(DriverMiss::Error);
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
        return Err(DriverMiss::NotThere);
    }
    let in_memory = matches!(program_cache, ProgramCache::Unknown(_)) || driver_object_may_have(request);
    program_cache.mark_filled_with(device, &pipeline.key, &pipeline.shaders);
    let from = if in_memory { Found::InMemory } else { Found::OnDisk };
    Ok(Served { answer, origin: Origin::Driver { took, from } })
}

/// The program itself forbids compiling: whatever the driver says is the answer. If it has said so already, it is not
/// asked again.
///
/// # Safety
/// The request's create info is valid.
pub unsafe fn ask_for_the_program<I: CreateInfo>(
    request: &Request<'_, I>,
    artifact: ArtifactOutcome<'_>,
    has_nothing: bool,
) -> Answer {
    if has_nothing {
        // SAFETY: the options of a valid create info (the caller's contract).
        return unsafe { refuse(request.call.parsed()) };
    }
    // SAFETY: the request's create info is valid until the program's command returns.
    let answer = unsafe { compile::record_without_compiling(request, artifact) };
    if answer.result == vk::Result::SUCCESS {
        request.call.device.count(Count::DriverHad);
    }
    answer
}
