//! The data of the program's caches, and merges of them, complete with their pending entries: with what the stash has
//! served, or compiled, beside them.

use std::sync::{Arc, PoisonError};

use ash::vk;
use rustc_hash::FxHashSet;

use super::private_cache::PrivateCache;
use crate::state::budget::BudgetedBytes;
use crate::state::cache_state::{CacheState, Remembered};
use crate::state::device::Device;
use vkstash_model::payload;
use vkstash_store::base::memory;
use vkstash_store::format::record::Key;

/// Complete data of a cache.
pub enum CompleteData {
    /// Data that was put together for this call.
    Fresh(Vec<u8>),
    /// The answer of an earlier call, from which nothing has changed since.
    Remembered(Arc<BudgetedBytes>),
}

impl CompleteData {
    /// The data.
    pub fn as_slice(&self) -> &[u8] {
        match self {
            CompleteData::Fresh(data) => data,
            CompleteData::Remembered(data) => data,
        }
    }
}

/// The complete data of a cache with pending entries. None: the driver's answer is complete, or nothing
/// better can be had.
///
/// # Safety
/// `handle` is a live cache that the program lets this thread read now.
pub unsafe fn complete(
    device: &Device,
    handle: vk::PipelineCache,
    cache: &CacheState,
) -> Option<CompleteData> {
    // Read first: what changes from here on is in the next answer for certain.
    let version = cache.version();
    let pending = cache.pending();
    if pending.is_empty() {
        return None;
    }
    // SAFETY: `handle` is a live cache of the device that the program lets this thread read now.
    let driver_bytes = unsafe { device.caches.data.size(handle) }?;
    let mut answer = cache.answer();
    if let Some(remembered) = answer.as_ref().filter(|remembered| remembered.is_of(version, driver_bytes)) {
        return Some(CompleteData::Remembered(remembered.data.clone()));
    }
    let driver_has_some = driver_bytes > empty_bytes(device)?;
    match pending.as_slice() {
        // An empty cache and one pipeline: the artifact is the answer as it is. Not remembered: translators
        // have a cache for each pipeline, and reading it again is as good.
        [key] if !driver_has_some && !cache.has_companion() => {
            return blob_of(device, Some(cache), key).map(CompleteData::Fresh);
        }
        _ => {}
    }
    let is_in_last = |last: &Remembered| last.is_filled_as(version, driver_bytes);
    let takes = driver_has_some && !answer.as_ref().is_some_and(is_in_last);
    let source = takes.then_some(handle);
    // SAFETY: `source` is `handle` or none: a live cache that the program lets this thread read now.
    let (data, keys) = unsafe { merged(device, source, cache, &pending, answer.as_ref()) }?;
    // The earlier answer's room in the budget is free before the next one takes its own.
    *answer = None;
    match BudgetedBytes::answer(data) {
        Ok(data) => {
            let data = Arc::new(data);
            *answer = Some(Remembered { version, driver_bytes, keys: Arc::new(keys), data: data.clone() });
            Some(CompleteData::Remembered(data))
        }
        // No room: the next question costs as much again.
        Err(data) => Some(CompleteData::Fresh(data)),
    }
}

/// Bytes of the data of an empty cache of this driver.
fn empty_bytes(device: &Device) -> Option<usize> {
    let known = &device.caches.data.empty;
    if known.get().is_none() {
        let empty = PrivateCache::new(device, &[])?;
        // SAFETY: a live cache that only this thread uses.
        let _ = known.set(unsafe { device.caches.data.size(empty.handle()) }?);
    }
    known.get().copied()
}

/// Data that holds what the last answer held, what the program's cache `source` holds, if it has changed since, and the
/// entries that have become pending since, put together in a cache of the layer's; and the pending keys that are in it.
///
/// # Safety
/// As [`complete`], of `source`.
unsafe fn merged(
    device: &Device,
    source: Option<vk::PipelineCache>,
    cache: &CacheState,
    pending: &[Key],
    last: Option<&Remembered>,
) -> Option<(Vec<u8>, FxHashSet<Key>)> {
    let all = PrivateCache::new(device, last.map_or(&[], |last| &last.data))?;
    if let Some(source) = source {
        // SAFETY: both caches are alive; only this thread uses the destination, and may read the source.
        unsafe { all.take_from(source) }?;
    }
    let companion = cache.pending.companion.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(companion) = companion.as_ref() {
        // SAFETY: both caches are the layer's, and the lock keeps the source alive.
        unsafe { all.take_from(companion.handle) }?;
    }
    drop(companion);
    let mut keys = last.map_or_else(FxHashSet::default, |last| FxHashSet::clone(&last.keys));
    for key in pending {
        if keys.contains(key) {
            continue;
        }
        let blob = blob_of(device, Some(cache), key);
        if let Some(part) = blob.and_then(|blob| PrivateCache::new(device, &blob)) {
            // SAFETY: both caches are the layer's, and only this thread uses them.
            unsafe { all.take_from(part.handle()) }?;
            keys.insert(*key);
        }
    }
    Some((all.data_behind(&[]).ok()?, keys))
}

/// The program merges `source` into a cache whose creation the layer did not see. Nothing can be noted as pending for
/// that one, so the pending entries of `source` are merged into the driver's own object at once.
///
/// # Safety
/// `into` is a live cache that the program lets this thread change now.
pub unsafe fn flush(device: &Device, into: vk::PipelineCache, source: &CacheState) {
    let Some(merge) = device.table.merge_pipeline_caches else { return };
    for key in source.pending() {
        let blob = blob_of(device, Some(source), &key);
        let Some(part) = blob.and_then(|blob| PrivateCache::new(device, &blob)) else { continue };
        // SAFETY: `into` is a live cache that the program lets this thread change; only this thread uses the
        // source. A failure costs the program a compile.
        let _ = unsafe { merge(device.handle, into, 1, &part.handle()) };
    }
}

/// Has the driver write as much of `answer` as fits: what it writes cannot be cut anywhere
/// (contract 4.2). None: it cannot.
///
/// # Safety
/// `data` is valid for `size` bytes.
pub unsafe fn write_prefix(
    device: &Device,
    answer: &[u8],
    size: &mut usize,
    data: *mut u8,
) -> Option<vk::Result> {
    let get = device.table.get_pipeline_cache_data?;
    let copy = PrivateCache::new(device, answer)?;
    // SAFETY: a cache that only this thread uses, and the caller's buffer.
    let result = unsafe { get(device.handle, copy.handle(), size, data.cast()) };
    (result == vk::Result::SUCCESS || result == vk::Result::INCOMPLETE).then_some(result)
}

/// The blob of a pending entry: as it was kept when it was compiled, or from the artifact in the stash.
pub fn blob_of(device: &Device, cache: Option<&CacheState>, key: &Key) -> Option<Vec<u8>> {
    if let Some(kept) = cache.and_then(|cache| cache.kept(key)) {
        return memory::copied(&kept);
    }
    let mut payload = Vec::new();
    if !device.stored()?.read_taken(key, &mut payload) {
        return None;
    }
    payload::parse(&payload)?;
    payload.drain(..payload::PREFIX);
    Some(payload)
}
