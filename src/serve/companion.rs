//! The companion of a cache: a cache of the layer's that holds what the program's cache, or the driver's
//! behind VK_NULL_HANDLE, would hold by now if the stash had not served or compiled beside it.
//!
//! Drivers leave state out of their own keys. A program that makes two hundred pipelines of the same shaders compiles
//! once and hits its cache 199 times; if the first one was served, the other 199 would be compiled, each for itself.
//! So before a compile the artifacts of the same shaders are put into the companion, and it is asked too. A run in
//! which every pipeline is served never makes one.
use std::time::{Duration, Instant};

use ash::vk;

use super::call::Call;
use super::complete_data;
use super::create_info::CreateInfo;
use super::offer::Offer;
use super::request::Request;
use super::verdict::{Found, Origin, Place, Record, Verdict};
use crate::faults;
use crate::state::caches::pending::{CompanionGap, PendingKeys};
use crate::state::caches::program_cache::ProgramCache;
use crate::state::devices::device::Device;
use vkstash_model::shader_set::ShaderSet;

/// Filling the companion must cost less than the compile that it may spare; what is left over is put in by the next
/// calls for the same shaders.
const LONGEST: Duration = Duration::from_millis(1);

/// Asks the companion of the cache that the program passed. None: it has nothing that fits, or there is no way to ask.
///
/// # Safety
/// The request's create info is valid.
pub(super) unsafe fn ask<'a, I: CreateInfo>(request: &Request<'a, I>) -> Option<Verdict<'a>> {
    let (call, shaders) = (&request.call, &request.pipeline.shaders);
    let device = call.device;
    let pending = pending_keys(call)?;
    let CompanionGap(lacking) = pending.of(shaders)?;
    if call.keeps_whole() && !pending.met_together(shaders) {
        return None;
    }
    let estimate = &device.estimates().companion;
    // A program that forbids compiling goes by the answer.
    if !call.parsed().fails_on_compile_required() && !estimate.is_worth_asking() {
        return None;
    }
    if lacking || pending.companion.is_in_use() {
        fill(device, pending, shaders);
    }
    let mut offered = Offer::new(device);
    // SAFETY: the request's create info is valid; `offered`, in which its copy lives, stays on this stack frame.
    unsafe {
        let info = offered.prepare(request)?;
        let started = Instant::now();
        let found = put_question(call, &info, pending);
        let has_changed = match found {
            Some(_) => estimate.note_hit(true),
            None => !call.parsed().fails_on_compile_required() && estimate.note_in_vain(started.elapsed()),
        };
        if has_changed {
            device.keep_estimates();
        }
        found
    }
}

/// What was made beside the cache that the program passed.
fn pending_keys<'a, I>(call: &Call<'a, I>) -> Option<&'a PendingKeys> {
    match call.program_cache {
        ProgramCache::Null => Some(&call.device.caches.null.pending),
        ProgramCache::Known { cache, .. } => Some(&cache.pending),
        ProgramCache::Unknown(_) => None,
    }
}

/// Asks with this copy of the create info, which may not compile.
///
/// # Safety
/// The copy and the call's own create info are valid.
unsafe fn put_question<'a, I: CreateInfo>(
    call: &Call<'_, I>,
    info: &I,
    pending: &PendingKeys,
) -> Option<Verdict<'a>> {
    let started = Instant::now();
    let companion = pending.companion.current()?;
    // SAFETY: `info` is a valid copy; the generation lives as long as this thread has it, nobody merges into it, and
    // calls may share it, because it was made without EXTERNALLY_SYNCHRONIZED (contract 4.4).
    let answer = unsafe { call.create_with(companion.handle(), info) };
    let took = started.elapsed();
    if answer.result != vk::Result::SUCCESS {
        return None;
    }
    companion.note_answer();
    let origin = Origin::Driver { took, from: Found::InCompanion };
    let record = Record::Found { may_be_left: call.may_be_left_to_workers() };
    Some(Verdict { answer, origin, place: Place::Companion, record })
}

/// Puts the artifacts that may fit pipelines of these shaders into the companion, or has another thread do that.
fn fill(device: &Device, pending: &PendingKeys, shaders: &ShaderSet) {
    let Some(mut filling) = pending.companion.fill(&device.caches.commands) else { return };
    let started = Instant::now();
    let limit = faults::time_limit(LONGEST);
    while started.elapsed() < limit {
        let Some((key, place)) = pending.next_lacking(shaders) else { break };
        let wanted = !filling.has(&key);
        let blob = wanted.then(|| complete_data::blob_of(device, &key)).flatten();
        let Some(blob) = blob else {
            pending.pass_by(place);
            continue;
        };
        // What there is no room for now is put in when there is.
        let Some(room) = filling.room_for(blob.len()) else { break };
        pending.pass_by(place);
        if let Some(part) = device.caches.commands.private(&blob) {
            filling.add(&key, part, room);
        }
    }
    filling.publish();
}
