//! The data of the program's caches, and merges of them, complete with their pending entries: with what the stash has
//! served, or compiled, beside them.

use std::sync::{Arc, PoisonError};

use ash::vk;
use rustc_hash::FxHashSet;

use crate::guard::tls_destroyed;
use crate::state::budget::BudgetedBytes;
use crate::state::cache_state::{CacheState, Remembered};
use crate::state::device::Device;
use vkstash_model::payload;
use vkstash_store::base::memory;
use vkstash_store::format::record::Key;

/// Complete data of a cache.
enum CompleteData {
    /// Data that was put together for this call.
    Fresh(Vec<u8>),
    /// The answer of an earlier call, from which nothing has changed since.
    Remembered(Arc<BudgetedBytes>),
}

impl CompleteData {
    fn as_slice(&self) -> &[u8] {
        match self {
            CompleteData::Fresh(data) => data,
            CompleteData::Remembered(data) => data,
        }
    }
}

/// Answers vkGetPipelineCacheData. None: the driver is to be asked as if there was no layer.
///
/// # Safety
/// `handle` is a live cache that the program lets this thread read now; `data` is NULL, or valid for writes of `size`
/// bytes (VUID-vkGetPipelineCacheData-pData-parameter).
pub unsafe fn answer(
    device: &Device,
    handle: vk::PipelineCache,
    size: &mut usize,
    data: *mut u8,
) -> Option<vk::Result> {
    let (commands, of_program) = (&device.caches.commands, &device.caches.of_program);
    if device.caches.incremental {
        return None;
    }
    let cache = if tls_destroyed() { None } else { of_program.get(handle) };
    // SAFETY: as this function.
    let complete = cache.as_ref().and_then(|cache| unsafe { complete(device, handle, cache) });
    if let Some(answer) = complete {
        // SAFETY: as this function.
        return Some(unsafe { write(device, answer.as_slice(), size, data) });
    }
    // What a call adds meanwhile would be written as well by a driver that writes all that it has.
    let grows = !data.is_null() && cache.is_some_and(|cache| cache.is_in_call());
    // SAFETY: as this function; nobody adds to the cache or to its copy.
    Some(unsafe {
        match if grows { commands.snapshot(handle) } else { None } {
            Some(copy) => copy.copy_out(size, data),
            None => commands.copy_out(handle, size, data),
        }
    })
}

/// NULL asks for the size; a short buffer gets INCOMPLETE and what the driver can put into it (contract 4.2).
///
/// # Safety
/// As [`answer`].
unsafe fn write(device: &Device, answer: &[u8], size: &mut usize, data: *mut u8) -> vk::Result {
    if data.is_null() {
        *size = answer.len();
        return vk::Result::SUCCESS;
    }
    if *size >= answer.len() {
        // SAFETY: `data` has room for `size` bytes, and `size` was just found to be no less than the answer's length.
        unsafe { std::ptr::copy_nonoverlapping(answer.as_ptr(), data, answer.len()) };
        *size = answer.len();
        return vk::Result::SUCCESS;
    }
    let mut written = *size;
    let copy = device.caches.commands.private(answer);
    // SAFETY: `data` has room for as many bytes as `written` says, which is the program's own size here.
    let result = copy.map(|copy| unsafe { copy.copy_out(&mut written, data) });
    // Whatever the driver makes of its own data, this is not all of it.
    *size = if result.is_some_and(|result| result.as_raw() >= 0) { written.min(*size) } else { 0 };
    vk::Result::INCOMPLETE
}

/// The complete data of a cache with pending entries. None: the driver's answer is complete, or nothing
/// better can be had.
///
/// # Safety
/// `handle` is a live cache that the program lets this thread read now.
unsafe fn complete(device: &Device, handle: vk::PipelineCache, cache: &CacheState) -> Option<CompleteData> {
    // Read first: what changes from here on is in the next answer for certain.
    let version = cache.version();
    let pending = cache.pending();
    if pending.is_empty() {
        return None;
    }
    // SAFETY: `handle` is a live cache of the device that the program lets this thread read now.
    let driver_bytes = unsafe { device.caches.commands.size(handle) }?;
    let mut answer = cache.answer();
    if let Some(remembered) = answer.as_ref().filter(|remembered| remembered.is_of(version, driver_bytes)) {
        return Some(CompleteData::Remembered(remembered.data.clone()));
    }
    let driver_has_some = driver_bytes > device.caches.commands.empty_size()?;
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
    let all = device.caches.commands.private(last.map_or(&[], |last| &last.data))?;
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
        if let Some(part) = blob.and_then(|blob| device.caches.commands.private(&blob)) {
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
        let Some(part) = blob.and_then(|blob| device.caches.commands.private(&blob)) else { continue };
        // SAFETY: `into` is a live cache that the program lets this thread change; only this thread uses the
        // source. A failure costs the program a compile.
        let _ = unsafe { merge(device.handle, into, 1, &part.handle()) };
    }
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
