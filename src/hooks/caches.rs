//! The program's pipeline caches: passed through, and their bookkeeping.

use std::ffi::c_void;
use std::slice;

use ash::vk;

use crate::hooks::inert::pass;
use crate::serve::complete_data;
use crate::state::caches::cache_state::CacheState;
use crate::state::caches::private_cache::HEADER_SIZE;
use crate::state::devices::live_devices;
use vkstash_host::guard::guard;

/// vkCreatePipelineCache.
pub unsafe extern "system" fn create(
    handle: vk::Device,
    info: *const vk::PipelineCacheCreateInfo<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    cache: *mut vk::PipelineCache,
) -> vk::Result {
    // SAFETY: the program passes a live device, and destroys it only after this command has returned.
    let Some(device) = (unsafe { live_devices::find(handle) }) else {
        pass!(handle, create_pipeline_cache(info, allocator, cache));
    };
    let Some(next) = device.table.create_pipeline_cache else { return vk::Result::ERROR_UNKNOWN };
    // SAFETY: a valid create info.
    let mut below = unsafe { *info };
    if device.physical.emulates_cache_control {
        // A flag of the feature that the driver lacks (contract 2.7); a cache that locks serves as well.
        below.flags &= !vk::PipelineCacheCreateFlags::EXTERNALLY_SYNCHRONIZED;
    }
    // SAFETY: `allocator` and `cache` are the program's arguments of this command, valid until it returns; `below` is
    // on this stack, and its pointers are those of the program's create info.
    let result = unsafe { next(handle, &below, allocator, cache) };
    if result == vk::Result::SUCCESS {
        // SAFETY: a valid create info, and the driver has written the handle. A chain may change what the data means
        // (contract 4.7): such a cache is not known.
        let note = || unsafe {
            if (*info).p_next.is_null() && device.keeps_artifacts() {
                // The driver passes over data of another device or driver (contract 4.3). Without any the pointer may
                // be garbage (contract 6).
                let size = (*info).initial_data_size;
                let loaded = size > HEADER_SIZE && {
                    let data = slice::from_raw_parts((*info).p_initial_data.cast::<u8>(), size);
                    device.caches.commands.may_load(data)
                };
                device.caches.of_program.insert(*cache, CacheState::new(!loaded));
            }
        };
        guard("vkCreatePipelineCache", note, || ());
    }
    result
}

/// vkDestroyPipelineCache.
pub unsafe extern "system" fn destroy(
    handle: vk::Device,
    cache: vk::PipelineCache,
    allocator: *const vk::AllocationCallbacks<'_>,
) {
    // SAFETY: the program passes a live device, and destroys it only after this command has returned.
    let Some(device) = (unsafe { live_devices::find(handle) }) else {
        pass!(handle, destroy_pipeline_cache(cache, allocator));
    };
    let forget = || {
        if let Some(known) = device.caches.of_program.get(cache) {
            known.pending.companion.close();
            known.answer.close(&device.caches.commands);
        }
        device.caches.of_program.remove(cache);
    };
    guard("vkDestroyPipelineCache", forget, || ());
    if let Some(next) = device.table.destroy_pipeline_cache {
        // SAFETY: `cache` and `allocator` are the program's arguments of this command: the cache is NULL or alive until
        // the call below destroys it, and no other thread uses it.
        unsafe { next(handle, cache, allocator) };
    }
}

/// vkGetPipelineCacheData.
pub unsafe extern "system" fn get_data(
    handle: vk::Device,
    cache: vk::PipelineCache,
    size: *mut usize,
    data: *mut c_void,
) -> vk::Result {
    // SAFETY: the program passes a live device, and destroys it only after this command has returned.
    let Some(device) = (unsafe { live_devices::find(handle) }) else {
        pass!(handle, get_pipeline_cache_data(cache, size, data));
    };
    let Some(next) = device.table.get_pipeline_cache_data else { return vk::Result::ERROR_UNKNOWN };
    // SAFETY: the program passes a pointer to a size, and a `data` that is NULL or has room for so many bytes; both are
    // valid until this command returns. It passes a live `cache`, which this thread may read.
    let answer = || unsafe { complete_data::answer(&device, cache, &mut *size, data.cast()) };
    // SAFETY: `cache`, `size` and `data` are the program's arguments of this command, valid until it returns.
    guard("vkGetPipelineCacheData", answer, || None)
        .unwrap_or_else(|| unsafe { next(handle, cache, size, data) })
}

/// vkMergePipelineCaches.
pub unsafe extern "system" fn merge(
    handle: vk::Device,
    into: vk::PipelineCache,
    count: u32,
    sources: *const vk::PipelineCache,
) -> vk::Result {
    // SAFETY: the program passes a live device, and destroys it only after this command has returned.
    let Some(device) = (unsafe { live_devices::find(handle) }) else {
        pass!(handle, merge_pipeline_caches(into, count, sources));
    };
    let Some(next) = device.table.merge_pipeline_caches else { return vk::Result::ERROR_UNKNOWN };
    // SAFETY: `into` is a live cache that no other thread uses meanwhile, and `sources` has `count` live caches: the
    // program's arguments of this command, valid until it returns.
    let result = unsafe { next(handle, into, count, sources) };
    if result == vk::Result::SUCCESS {
        let note = || {
            let target = device.caches.of_program.get(into);
            for index in 0..count as usize {
                // SAFETY: pSrcCaches is valid for srcCacheCount.
                let source = device.caches.of_program.get(unsafe { *sources.add(index) });
                match (&target, source) {
                    (Some(target), Some(source)) => complete_data::merge(&device, target, &source),
                    (Some(target), None) => target.mark_filled(),
                    // SAFETY: the program synchronises the destination's use in this command (contract 4.4).
                    (None, Some(source)) => unsafe { complete_data::flush(&device, into, &source) },
                    (None, None) => {}
                }
            }
        };
        guard("vkMergePipelineCaches", note, || ());
    }
    result
}
