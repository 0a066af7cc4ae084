//! Kinds of pipelines that the layer records nothing of: counted, and passed on unchanged.

use ash::vk;

use crate::hooks::inert::pass;
use crate::serve::settle;
use crate::state::caches::program_cache::ProgramCache;
use crate::state::devices::device::Device;
use crate::state::devices::live_devices;
use crate::state::process::dispatch::PfnCreateDataGraphPipelines;
use vkstash_host::guard::{guard, tls_destroyed};
use vkstash_model::counters::BypassReason;
use vkstash_model::structures::DATA_GRAPH;
use vkstash_recipe::chain::Refusal;

/// Counts the pipelines of a call. The driver may fill the program's cache with them, so the data of a cache that was
/// empty is no artifact of the next pipeline. The cache is in a call until the answer is dropped.
fn note(device: &Device, cache: vk::PipelineCache, count: u32, refusal: Refusal) -> Option<ProgramCache> {
    if tls_destroyed() {
        return None;
    }
    device.session();
    for _ in 0..count {
        settle::bypassed(device, refusal);
    }
    let program_cache = ProgramCache::of(&device.caches, cache);
    program_cache.mark_filled(&device.caches);
    Some(program_cache)
}

/// vkCreateRayTracingPipelinesNV.
pub unsafe extern "system" fn create_ray_tracing(
    handle: vk::Device,
    cache: vk::PipelineCache,
    count: u32,
    infos: *const vk::RayTracingPipelineCreateInfoNV<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    pipelines: *mut vk::Pipeline,
) -> vk::Result {
    // SAFETY: the program passes a live device, and destroys it only after this command has returned.
    let Some(device) = (unsafe { live_devices::find(handle) }) else {
        pass!(handle, create_ray_tracing_pipelines_nv(cache, count, infos, allocator, pipelines));
    };
    let Some(next) = device.table.create_ray_tracing_pipelines_nv else { return vk::Result::ERROR_UNKNOWN };
    let s_type = vk::StructureType::RAY_TRACING_PIPELINE_CREATE_INFO_NV.as_raw();
    let refusal = Refusal { reason: BypassReason::RayTracing, s_type };
    let _in_call = guard("vkCreateRayTracingPipelinesNV", || note(&device, cache, count, refusal), || None);
    // SAFETY: `infos` and `pipelines` have `count` elements, and they and `allocator` are the program's arguments of
    // this command, valid until it returns.
    unsafe { next(handle, cache, count, infos, allocator, pipelines) }
}

/// vkCreateExecutionGraphPipelinesAMDX.
pub unsafe extern "system" fn create_execution_graphs(
    handle: vk::Device,
    cache: vk::PipelineCache,
    count: u32,
    infos: *const vk::ExecutionGraphPipelineCreateInfoAMDX<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    pipelines: *mut vk::Pipeline,
) -> vk::Result {
    // SAFETY: the program passes a live device, and destroys it only after this command has returned.
    let Some(device) = (unsafe { live_devices::find(handle) }) else {
        pass!(handle, create_execution_graph_pipelines(cache, count, infos, allocator, pipelines));
    };
    let Some(next) = device.table.create_execution_graph_pipelines else { return vk::Result::ERROR_UNKNOWN };
    let s_type = vk::StructureType::EXECUTION_GRAPH_PIPELINE_CREATE_INFO_AMDX.as_raw();
    let refusal = Refusal { reason: BypassReason::NotCacheable, s_type };
    let _in_call =
        guard("vkCreateExecutionGraphPipelinesAMDX", || note(&device, cache, count, refusal), || None);
    // SAFETY: `infos` and `pipelines` have `count` elements, and they and `allocator` are the program's arguments of
    // this command, valid until it returns.
    unsafe { next(handle, cache, count, infos, allocator, pipelines) }
}

/// vkCreateDataGraphPipelinesARM. When a deferred operation puts something into the cache is not known.
pub unsafe extern "system" fn create_data_graphs(
    handle: vk::Device,
    operation: vk::DeferredOperationKHR,
    cache: vk::PipelineCache,
    count: u32,
    infos: *const std::ffi::c_void,
    allocator: *const vk::AllocationCallbacks<'_>,
    pipelines: *mut vk::Pipeline,
) -> vk::Result {
    // SAFETY: the program passes a live device, and destroys it only after this command has returned.
    let Some(device) = (unsafe { live_devices::find(handle) }) else {
        pass!(handle, create_data_graph_pipelines(operation, cache, count, infos, allocator, pipelines));
    };
    let next: Option<PfnCreateDataGraphPipelines> = device.table.create_data_graph_pipelines;
    let Some(next) = next else { return vk::Result::ERROR_UNKNOWN };
    let refusal = Refusal { reason: BypassReason::NotCacheable, s_type: DATA_GRAPH.as_raw() };
    let note = || {
        let in_call = note(&device, cache, count, refusal);
        if let Some(cache) = in_call.as_ref().and_then(ProgramCache::known) {
            if operation != vk::DeferredOperationKHR::null() {
                cache.fill_unseen();
            }
        }
        in_call
    };
    let _in_call = guard("vkCreateDataGraphPipelinesARM", note, || None);
    // SAFETY: `infos` and `pipelines` have `count` elements, and they and `allocator` are the program's arguments of
    // this command, valid until it returns, or until a deferred `operation` is complete.
    unsafe { next(handle, operation, cache, count, infos, allocator, pipelines) }
}
