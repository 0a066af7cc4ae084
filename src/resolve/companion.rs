//! The companion of a cache: a cache of the layer's own that holds what the program's cache, or the driver's own
//! behind VK_NULL_HANDLE, would hold by now if the stash had not served or compiled beside it.
//!
//! Drivers leave state out of their own keys. A program that makes two hundred pipelines of the same shaders compiles
//! once and hits its cache 199 times; if the first one was served, the other 199 would be compiled, each for itself.
//! So before a compile the artifacts of the same shaders are put into the companion, and it is asked too. A run in
//! which every pipeline is served never makes one.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use ash::vk;
use rustc_hash::FxHashSet;

use super::call::{self, Answer, CreateInfo};
use super::offered::Offered;
use super::private_cache::PrivateCache;
use super::{Passed, Request, app_data, feedback, recent};
use crate::recipe::shader_set::ShaderSet;
use crate::state::app_cache::AppCache;
use crate::state::asked_first::Holder;
use crate::state::beside::{Beside, Companion, Lacking};
use crate::state::budget::Room;
use crate::state::device::Device;
use crate::stats::Count;

/// Filling the companion must cost less than the compile that it may spare; what is left over is put in by the next
/// calls for the same shaders.
const LONGEST: Duration = Duration::from_millis(1);

/// Asks the companion of the cache that the program passed. None: it has nothing that fits, or there is no way to ask.
///
/// # Safety
/// The request's create info is valid.
pub(super) unsafe fn ask<I: CreateInfo>(request: &Request<'_, I>) -> Option<Answer> {
    let device = request.device;
    if !device.cache_control {
        return None;
    }
    let beside = beside(request)?;
    let Lacking(lacking) = beside.of(&request.shaders)?;
    if lacking && !beside.is_fruitless() {
        fill(device, request.passed.known(), beside, &request.shaders);
    }
    // SAFETY: the caller's contract.
    unsafe { put_question(request, beside) }
}

/// The same where it has just had a pipeline of the same stages: nothing is put into it.
///
/// # Safety
/// As [`ask`].
pub(super) unsafe fn ask_again<I: CreateInfo>(request: &Request<'_, I>) -> Option<Answer> {
    // SAFETY: the caller's contract.
    unsafe { put_question(request, beside(request)?) }
}

/// What was made beside the cache that the program passed.
fn beside<'a, I>(request: &Request<'a, I>) -> Option<&'a Beside> {
    match request.passed {
        Passed::Null => Some(&request.device.null.beside),
        Passed::Known { cache, .. } => Some(&cache.beside),
        Passed::Unknown(_) => None,
    }
}

/// # Safety
/// As [`ask`].
unsafe fn put_question<I: CreateInfo>(request: &Request<'_, I>, beside: &Beside) -> Option<Answer> {
    let device = request.device;
    let mut offered = Offered::new(device);
    // SAFETY: the caller's contract; what the copy needs stays on this stack frame.
    let info = unsafe { offered.prepare(request) }?;
    let started = Instant::now();
    let answer = {
        let companion = beside.companion.read().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: as above; the lock keeps the companion alive and unchanged, and the driver synchronises calls that
        // share it.
        unsafe { call::create(device, companion.as_ref()?.handle, &info, request.allocator) }
    };
    let took = (answer.result == vk::Result::SUCCESS).then(|| started.elapsed());
    // SAFETY: as above.
    unsafe { recent::note(request, Holder::Companion, took) };
    took?;
    beside.note_find();
    match request.passed {
        // The driver may have found it on disk, and put it into the companion.
        Passed::Known { cache, .. } => cache.owe_more(),
        Passed::Null | Passed::Unknown(_) => {
            let mut info = request.info;
            // SAFETY: the driver has filled the program's structures.
            unsafe { feedback::clear_hit(*info.p_next_mut()) };
        }
    }
    request.count_had(Count::DriverHad, 1);
    Some(answer)
}

/// Puts the artifacts that may fit pipelines of these shaders into the companion.
fn fill(device: &Device, cache: Option<&AppCache>, beside: &Beside, shaders: &ShaderSet) {
    let mut companion = beside.companion.write().unwrap_or_else(PoisonError::into_inner);
    if companion.is_none() {
        let Some(made) = PrivateCache::for_threads(device) else { return };
        let handle = made.into_handle();
        device.keep_companion(handle);
        *companion = Some(Companion { handle, keys: FxHashSet::default(), room: Vec::new() });
    }
    let Some(Companion { handle, keys, room }) = companion.as_mut() else { return };
    let Some(merge) = device.table.merge_pipeline_caches else { return };
    let started = Instant::now();
    while started.elapsed() < LONGEST {
        let Some((key, place)) = beside.next_lacking(shaders) else { return };
        let wanted = !keys.contains(&key);
        let blob = wanted.then(|| app_data::artifact(device, cache, &key)).flatten();
        let Some(blob) = blob else {
            beside.pass_by(place);
            continue;
        };
        // What there is no room for now is put in when there is.
        let Some(taken) = Room::in_companions(blob.len()) else { return };
        beside.pass_by(place);
        let Some(part) = PrivateCache::new(device, &blob) else { continue };
        // SAFETY: both caches are the layer's own; the lock synchronises the destination (contract 4.4).
        if unsafe { merge(device.handle, *handle, 1, &part.handle()) } == vk::Result::SUCCESS {
            keys.insert(key);
            room.push(taken);
            beside.note_fill(1);
        }
    }
}

/// The program destroys the cache, so its companion goes.
pub fn close(device: &Device, beside: &Beside) {
    let companion = beside.companion.write().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(Companion { handle, .. }) = companion {
        device.drop_companion(handle);
    }
}
