//! Ray tracing pipelines, and the deferred operations in which a driver may make them (contract 3.6).

use std::time::Instant;

use ash::vk::{self, Handle};

use super::pipelines;
use crate::hooks::inert::pass;
use crate::live::call::Call;
use crate::serve::create_info::Creation;
use crate::serve::{deferred, operation as operations};
use crate::state::caches::program_cache::ProgramCache;
use crate::state::devices::live_devices;
use vkstash_host::guard::{guard, guard_within, tls_destroyed};
use vkstash_host::signals::Uncancelled;
use vkstash_model::counters::Count;
use vkstash_model::live::Activity;

/// vkCreateRayTracingPipelinesKHR.
pub unsafe extern "system" fn create_khr(
    handle: vk::Device,
    operation: vk::DeferredOperationKHR,
    cache: vk::PipelineCache,
    count: u32,
    infos: *const vk::RayTracingPipelineCreateInfoKHR<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    pipelines: *mut vk::Pipeline,
) -> vk::Result {
    let uncancelled = Uncancelled::begin();
    // SAFETY: the program passes a live device, and destroys it only after this command has returned.
    let Some(device) = (unsafe { live_devices::find_within(&uncancelled, handle) }) else {
        pass!(handle, create_ray_tracing_pipelines_khr(operation, cache, count, infos, allocator, pipelines));
    };
    let Some(next) = device.table.create_ray_tracing_pipelines_khr else { return vk::Result::ERROR_UNKNOWN };
    // SAFETY: `infos` and `pipelines` have `count` elements, and they and `allocator` are the program's arguments of
    // this command, valid until it returns, or until a deferred `operation` is complete.
    let untouched = || unsafe {
        let below = || next(handle, operation, cache, count, infos, allocator, pipelines);
        pipelines::untouched(&device, count, infos, pipelines, below)
    };
    let batch = || {
        // SAFETY: the program's valid arguments; pCreateInfos is valid for its count.
        unsafe {
            let _begun = pipelines::begin(&device, "vkCreateRayTracingPipelinesKHR", count);
            let is_at_once = operation.is_null() || operations::is_made_at_once(&device, count, infos);
            if is_at_once {
                let result = pipelines::create(
                    &uncancelled,
                    &device,
                    cache,
                    count,
                    infos,
                    allocator,
                    pipelines,
                    untouched,
                );
                return operations::without_deferring(&device, operation, result);
            }
            if tls_destroyed() {
                return untouched();
            }
            // The session, so that the report knows a device that the layer only watches.
            device.session();
            let program_cache = ProgramCache::of(&device.caches, cache);
            if !device.describes() {
                return operations::watch(&device, operation, &program_cache, count, pipelines, untouched);
            }
            device.work.listeners.note_creation();
            let creations: Vec<_> =
                (0..count as usize).map(|index| Creation::of(&*infos.add(index))).collect();
            deferred::create(&device, operation, &program_cache, &creations, infos, allocator, pipelines)
        }
    };
    guard_within(&uncancelled, "vkCreateRayTracingPipelinesKHR", batch, || {
        device.count(Count::InternalFailures);
        untouched()
    })
}

/// vkDeferredOperationJoinKHR: the thread that is told first that an operation is complete settles it.
pub unsafe extern "system" fn join(handle: vk::Device, operation: vk::DeferredOperationKHR) -> vk::Result {
    // SAFETY: the program passes a live device, and destroys it only after this command has returned.
    let Some(device) = (unsafe { live_devices::find(handle) }) else {
        pass!(handle, deferred_operation_join(operation));
    };
    let Some(next) = device.table.deferred_operation_join else { return vk::Result::ERROR_UNKNOWN };
    let command = "vkDeferredOperationJoinKHR";
    let noted = guard(command, || device.deferred.under_way(operation), || None);
    // SAFETY: the program passes a live device and a live operation of it, and destroys neither before this command has
    // returned.
    let joined = unsafe {
        let _wait = device.waits().begin();
        let _live = Call::begin(Instant::now(), Activity::Own, vk::ShaderStageFlags::empty());
        next(handle, operation)
    };
    if joined == vk::Result::SUCCESS {
        // SAFETY: a live operation that is complete.
        guard(command, || unsafe { operations::complete(&device, operation, noted, None) }, || ());
    }
    joined
}

/// vkGetDeferredOperationResultKHR.
pub unsafe extern "system" fn result(handle: vk::Device, operation: vk::DeferredOperationKHR) -> vk::Result {
    // SAFETY: the program passes a live device, and destroys it only after this command has returned.
    let Some(device) = (unsafe { live_devices::find(handle) }) else {
        pass!(handle, get_deferred_operation_result(operation));
    };
    let Some(next) = device.table.get_deferred_operation_result else { return vk::Result::ERROR_UNKNOWN };
    let command = "vkGetDeferredOperationResultKHR";
    let noted = guard(command, || device.deferred.under_way(operation), || None);
    // SAFETY: the program passes a live device and a live operation of it, and destroys neither before this command has
    // returned.
    let result = unsafe { next(handle, operation) };
    if result != vk::Result::NOT_READY {
        // SAFETY: a live operation that is complete.
        guard(command, || unsafe { operations::complete(&device, operation, noted, Some(result)) }, || ());
    }
    result
}

/// vkDestroyDeferredOperationKHR: complete by now (03436), and perhaps never asked about.
pub unsafe extern "system" fn destroy_operation(
    handle: vk::Device,
    operation: vk::DeferredOperationKHR,
    allocator: *const vk::AllocationCallbacks<'_>,
) {
    // SAFETY: the program passes a live device, and destroys it only after this command has returned.
    let Some(device) = (unsafe { live_devices::find(handle) }) else {
        pass!(handle, destroy_deferred_operation(operation, allocator));
    };
    guard("vkDestroyDeferredOperationKHR", || operations::forget(&device, operation), || ());
    if let Some(next) = device.table.destroy_deferred_operation {
        // SAFETY: `operation` is NULL or an operation that is complete and that no other thread uses, and `allocator`
        // NULL or valid: the program's arguments of this command.
        unsafe { next(handle, operation, allocator) };
    }
}
