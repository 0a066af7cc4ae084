//! The commands of pipeline caches.

use std::ffi::c_void;
use std::sync::Arc;

use ash::vk::{self, Handle as _};

use crate::cache::Cache;
use crate::command::command;
use crate::config::{self, CacheData};
use crate::content::slice;
use crate::handles::{self, Device};
use crate::objects::{self, Body};
use crate::record::{Call, plain, violation};
use crate::{disk, lifecycle};

/// The smallest buffer that `overruns` writes to, and the size that it then tells: what NVIDIA 580.159 does.
const OVERRUNS_FROM: usize = 36;

/// The cache of a handle; a violation if there is none.
pub fn find(command: &str, device: &Device, handle: vk::PipelineCache) -> Option<Arc<Cache>> {
    match objects::get(command, device.handle, "VkPipelineCache", handle.as_raw())? {
        Body::Cache(cache) => Some(cache),
        _ => None,
    }
}

/// The name of a cache in the record.
pub fn name(handle: vk::PipelineCache) -> Option<String> {
    Some(if handle.is_null() { "null".into() } else { handle.as_raw().to_string() })
}

/// vkCreatePipelineCache.
pub unsafe extern "system" fn create(
    device: vk::Device,
    info: *const vk::PipelineCacheCreateInfo<'_>,
    callbacks: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::PipelineCache,
) -> vk::Result {
    // SAFETY: the program passes a valid create info with initialDataSize bytes of data, a pAllocator that is NULL or
    // valid, and an output pointer; all are valid until the command returns.
    unsafe {
        let info = &*info;
        let call = Call {
            flags: vec![info.flags.as_raw().into()],
            initial_size: Some(info.initial_data_size),
            ..plain("vkCreatePipelineCache")
        };
        lifecycle::create(call, device, info.p_next, callbacks, out, |call, device| {
            let cache = Cache::new(info.flags.as_raw());
            if info.flags.as_raw() & 1 != 0 && !device.cache_control {
                violation("vkCreatePipelineCache: EXTERNALLY_SYNCHRONIZED without the feature");
            }
            let data = slice(info.p_initial_data.cast::<u8>(), info.initial_data_size as u32);
            let config = config::current();
            let loaded = cache.load(&config, device.index, data);
            disk::note_loaded(&config, loaded);
            call.initial_entries = Some(loaded);
            Ok(Body::Cache(Arc::new(cache)))
        })
    }
}

/// vkDestroyPipelineCache.
pub unsafe extern "system" fn destroy(
    device: vk::Device,
    handle: vk::PipelineCache,
    callbacks: *const vk::AllocationCallbacks<'_>,
) {
    // SAFETY: `callbacks` is the pAllocator that the program passes to vkDestroyPipelineCache: NULL or valid.
    unsafe {
        let name = "vkDestroyPipelineCache";
        lifecycle::destroy(name, "VkPipelineCache", device, handle.as_raw(), callbacks, |body| {
            if matches!(body, Body::Cache(cache) if cache.in_use()) {
                violation("vkDestroyPipelineCache: the cache is in use");
            }
        });
    }
}

/// vkGetPipelineCacheData.
pub unsafe extern "system" fn get_data(
    device: vk::Device,
    handle: vk::PipelineCache,
    size: *mut usize,
    data: *mut c_void,
) -> vk::Result {
    let call = Call { cache: name(handle), ..plain("vkGetPipelineCacheData") };
    command(call, |call| {
        let Some(device) = handles::device(call.command, device) else {
            return vk::Result::ERROR_DEVICE_LOST;
        };
        let Some(cache) = find(call.command, &device, handle) else {
            return vk::Result::ERROR_OUT_OF_HOST_MEMORY;
        };
        let _use = cache.enter(call.command, cache.flags & 1 != 0);
        call.entries = Some(cache.entries());
        let config = config::current();
        // SAFETY: the program passes a valid pDataSize, and a pData that is NULL or has as many bytes.
        unsafe {
            let room = if data.is_null() { usize::MAX } else { *size };
            let (whole, fitting) = match config.cache_data {
                CacheData::Error => return vk::Result::ERROR_OUT_OF_HOST_MEMORY,
                CacheData::SizeUntouched => return vk::Result::SUCCESS,
                CacheData::Empty => (0, Vec::new()),
                CacheData::HeaderOnly => {
                    let empty = |room| Cache::new(0).blob(&config, device.index, room);
                    (empty(usize::MAX).len(), empty(room))
                }
                CacheData::Full => {
                    let blob = cache.blob(&config, device.index, room);
                    let whole = match data.is_null() {
                        true => blob.len(),
                        false => cache.blob(&config, device.index, usize::MAX).len(),
                    };
                    (whole, blob)
                }
            };
            let claimed = config.claimed(whole);
            if data.is_null() {
                *size = claimed;
                if config.grows_in_use && cache.is_shared() {
                    cache.grow();
                }
                return vk::Result::SUCCESS;
            }
            if config.claims_bytes.is_some() && *size < claimed {
                *size = 0;
                return vk::Result::INCOMPLETE;
            }
            let fits_none = fitting.len() <= Cache::new(0).blob(&config, device.index, room).len();
            if config.overruns && fits_none && (OVERRUNS_FROM..whole).contains(&room) {
                let all = cache.blob(&config, device.index, usize::MAX);
                std::ptr::copy_nonoverlapping(all.as_ptr(), data.cast::<u8>(), all.len());
                *size = OVERRUNS_FROM;
                return vk::Result::INCOMPLETE;
            }
            std::ptr::copy_nonoverlapping(fitting.as_ptr(), data.cast::<u8>(), fitting.len());
            *size = fitting.len();
            if fitting.len() < whole { vk::Result::INCOMPLETE } else { vk::Result::SUCCESS }
        }
    })
}

/// vkCreateDataGraphPipelinesARM.
pub unsafe extern "system" fn create_data_graphs(
    device: vk::Device,
    _: vk::DeferredOperationKHR,
    handle: vk::PipelineCache,
    count: u32,
    _: *const c_void,
    _: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::Pipeline,
) -> vk::Result {
    // SAFETY: pPipelines has `count` places.
    unsafe { graphs("vkCreateDataGraphPipelinesARM", device, handle, count, out) }
}

/// vkCreateExecutionGraphPipelinesAMDX.
pub unsafe extern "system" fn create_execution_graphs(
    device: vk::Device,
    handle: vk::PipelineCache,
    count: u32,
    _: *const vk::ExecutionGraphPipelineCreateInfoAMDX<'_>,
    _: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::Pipeline,
) -> vk::Result {
    // SAFETY: pPipelines has `count` places.
    unsafe { graphs("vkCreateExecutionGraphPipelinesAMDX", device, handle, count, out) }
}

/// Pipelines of graphs, whose create infos this driver does not read: each is an entry of the cache, and no object.
///
/// # Safety
/// `out` has `count` places.
unsafe fn graphs(
    name_of_command: &'static str,
    device: vk::Device,
    handle: vk::PipelineCache,
    count: u32,
    out: *mut vk::Pipeline,
) -> vk::Result {
    let call = Call { cache: name(handle), create_infos: Some(count), ..plain(name_of_command) };
    command(call, |call| {
        let Some(device) = handles::device(call.command, device) else {
            return vk::Result::ERROR_DEVICE_LOST;
        };
        let Some(cache) = find(call.command, &device, handle) else {
            return vk::Result::ERROR_OUT_OF_HOST_MEMORY;
        };
        let _use = cache.enter(call.command, cache.flags & 1 != 0);
        for number in 0..count {
            cache.add([number as u8; 32]);
            // SAFETY: `out` has `count` places, and `number` is below that.
            unsafe { out.add(number as usize).write(vk::Pipeline::null()) };
        }
        vk::Result::SUCCESS
    })
}

/// vkMergePipelineCaches.
pub unsafe extern "system" fn merge(
    device: vk::Device,
    target: vk::PipelineCache,
    count: u32,
    sources: *const vk::PipelineCache,
) -> vk::Result {
    let call = Call { cache: name(target), create_infos: Some(count), ..plain("vkMergePipelineCaches") };
    command(call, |call| {
        let Some(device) = handles::device(call.command, device) else {
            return vk::Result::ERROR_DEVICE_LOST;
        };
        let Some(into) = find(call.command, &device, target) else {
            return vk::Result::ERROR_OUT_OF_HOST_MEMORY;
        };
        let _use = into.enter(call.command, true);
        // SAFETY: the program passes a pSrcCaches with `count` elements.
        for &source in unsafe { slice(sources, count) } {
            if source == target {
                violation("vkMergePipelineCaches: the destination is among the sources");
                continue;
            }
            if let Some(from) = find(call.command, &device, source) {
                let _use = from.enter(call.command, from.flags & 1 != 0);
                let entries = into.merge(&from);
                call.entries = Some(call.entries.unwrap_or_default() + entries);
            }
        }
        vk::Result::SUCCESS
    })
}
