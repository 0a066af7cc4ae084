//! Parked pipelines, the serving: a source that hands over what background work (background/park.rs) has finished
//! before the program asks for it, and which waits in state/parked.rs.
//!
//! The key covers everything that decides the pipeline, its flags included, so the handle is what the program's own
//! call would have returned (contract 3.8).

use std::time::Instant;

use ash::vk;

use super::call::Answer;
use super::create_info::CreateInfo;
use super::feedback;
use super::outcome::{Origin, Served};
use super::program_cache::ProgramCache;
use super::request::Request;
use crate::state::parked::{Finished, MadeOf};
use crate::state::stored::Source;

/// Notes a request for which nothing that waits is looked up: if the last run did not make it, more is made ahead.
fn note<I: CreateInfo>(request: &Request<'_, I>) {
    let Request { call, pipeline } = request;
    let device = call.device;
    if call.allocator.is_null() {
        device.parked.note_request(&pipeline.key, device.counters());
    } else {
        device.parked.note_request_with_allocator(device.counters());
    }
}

/// Hands the pipeline over, if it is there. The program destroys it with the allocator that it has passed here, so only
/// a call without one may have a pipeline that was made without one (contract 3.8).
///
/// # Safety
/// The request's create info is valid.
pub unsafe fn take<I: CreateInfo>(request: &Request<'_, I>) -> Option<Served> {
    let Request { call, pipeline } = request;
    let device = call.device;
    if !device.parked.is_in_use() || !call.allocator.is_null() {
        note(request);
        return None;
    }
    let started = Instant::now();
    let Finished { pipeline: handle, cost, origin, made_with } = device.parked.take(
        &pipeline.key,
        !matches!(call.program_cache, ProgramCache::Null),
        device.counters(),
    )?;
    // SAFETY: the program is in a call for the device; the cache was the worker's, which is done with it.
    let made_with = unsafe { device.caches.commands.taken_back(made_with) };
    let mut first = false;
    if let Some(stored) = device.stored() {
        first = match origin {
            MadeOf::Compile | MadeOf::Found { .. } | MadeOf::Artifact { source: Source::Sibling, .. } => {
                stored.stash.note_first_use(&pipeline.key)
            }
            MadeOf::Artifact { source: Source::Own | Source::Base, .. } => {
                stored.stash.note_taken(&stored.device, &pipeline.key)
            }
        };
    }
    let held = match origin {
        MadeOf::Artifact { bytes, .. } | MadeOf::Found { kept: Some(bytes) } => {
            let (key, shaders) = (&pipeline.key, &pipeline.shaders);
            call.program_cache.note_beside(device, key, shaders, made_with, bytes as usize)
        }
        MadeOf::Found { kept: None } => {
            call.program_cache.mark_filled_with(device, &pipeline.key, &pipeline.shaders);
            false
        }
        MadeOf::Compile => call.program_cache.known().is_some_and(|cache| cache.holds(&pipeline.key)),
    };
    let spent = started.elapsed();
    // SAFETY: the structure belongs to the program's valid create info, and no driver writes to it in this call.
    unsafe { feedback::say_made(call.parsed().feedback, spent, held) };
    let answer = Answer { result: vk::Result::SUCCESS, pipeline: handle };
    Some(Served { answer, origin: Origin::Parked { cost: first.then_some(cost), spent, of: origin } })
}
