//! Parked pipelines as a source: what background work (background/park.rs) has finished before the program asks for it,
//! and which waits in state/ahead/parked.rs, is handed over.
//!
//! The key covers everything that decides the pipeline, its flags included, so the handle is what the program's own
//! call would have returned (contract 3.8).

use std::time::Instant;

use ash::vk;

use super::call::Answer;
use super::create_info::CreateInfo;
use super::request::Request;
use super::verdict::{MadeWith, Origin, PendingEntry, Place, Record, Verdict};
use crate::state::ahead::parked::{Finished, MadeOf, Wanted};
use crate::state::caches::program_cache::ProgramCache;
use crate::state::objects::described::{EncodedObject, ImmutableSamplers};
use vkstash_model::counters::Count;

/// Hands the pipeline over, if it is there. The program destroys it with the allocator that it has passed here, so only
/// a call without one may have a pipeline that was made without one (contract 3.8). Otherwise the answer is why none is
/// ready, where some are made ahead.
pub fn take<'a, I: CreateInfo>(request: &Request<'a, I>) -> Result<Verdict<'a>, Option<Count>> {
    let Request { call, pipeline } = request;
    let device = call.device;
    if !call.allocator.is_null() {
        return Err(device.work.parked.note_request_with_allocator());
    }
    let samplers = immutable_samplers(request);
    let is_never_lent = samplers.as_ref().is_some_and(|it| it.objects.is_some() && !it.may_be_lent);
    let why = |unready: Option<Count>| unready.map(|why| if is_never_lent { Count::NeverAhead } else { why });
    if !device.work.parked.is_in_use() {
        return Err(why(device.work.parked.note_request(&pipeline.key)));
    }
    let started = Instant::now();
    let wanted = Wanted { has_cache: !matches!(call.program_cache, ProgramCache::Null), samplers };
    let Finished { pipeline: handle, cost, origin, made_with } =
        device.work.parked.take(&pipeline.key, &wanted).map_err(why)?;
    // SAFETY: the program is in a call for the device; the cache was the worker's, which is done with it.
    let made_with = unsafe { device.caches.commands.taken_back(made_with) };
    let place = match origin {
        MadeOf::Artifact { bytes, .. } | MadeOf::Found { kept: Some(bytes) } => {
            Place::Pending(PendingEntry {
                made_with: made_with.map_or(MadeWith::Artifact, MadeWith::Cache),
                bytes: bytes as usize,
                digest: None,
            })
        }
        // Only a call without a cache gets one of these.
        MadeOf::Found { kept: None } => Place::Own,
        MadeOf::Compile => Place::Nowhere,
    };
    let answer = Answer { result: vk::Result::SUCCESS, pipeline: handle };
    let origin = Origin::Parked { cost, spent: started.elapsed(), of: origin };
    Ok(Verdict { answer, origin, place, record: Record::Use })
}

/// The immutable samplers of the request's layout. None: the program has created no layout with any.
fn immutable_samplers<I: CreateInfo>(request: &Request<'_, I>) -> Option<ImmutableSamplers> {
    let Request { call, pipeline } = request;
    let is_used = call.device.work.lending.is_in_use() && pipeline.parts.layout.is_some();
    let (layout, _) = call.creation.info.layout_and_render_pass();
    let samplers = is_used.then(|| {
        let read = |layout: &EncodedObject| layout.as_ref().ok().map(|layout| layout.samplers.clone());
        call.device.objects.layouts.read(layout, read).flatten()
    });
    samplers.flatten()
}
