//! vkCreateRayTracingPipelinesKHR: at once, or by the threads that join.

use ash::vk::{self, Handle as _};

use crate::config::Deferral;
use crate::content::{plain_chain, slice};
use crate::deferred::{self, Job};
use crate::objects;
use crate::pipelines::{self, Element};
use crate::record::{Call, command};
use crate::{binaries, chain, compute, config, handles, libraries, stage};

/// vkCreateRayTracingPipelinesKHR.
pub unsafe extern "system" fn create(
    device: vk::Device,
    deferred: vk::DeferredOperationKHR,
    cache: vk::PipelineCache,
    count: u32,
    infos: *const vk::RayTracingPipelineCreateInfoKHR<'_>,
    callbacks: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::Pipeline,
) -> vk::Result {
    // SAFETY: the command's own arrays; create infos are valid.
    unsafe {
        let infos = slice(infos, count);
        out.write_bytes(0, count as usize);
        let mut call = compute::begin("vkCreateRayTracingPipelinesKHR", cache, count);
        for info in infos {
            call.p_next.extend(chain::types(call.command, info.p_next));
            call.flags.push(pipelines::written_flags(info.flags.as_raw(), info.p_next));
        }
        command(call, |call| {
            let Some(device) = handles::device(call.command, device) else {
                return vk::Result::ERROR_DEVICE_LOST;
            };
            let elements: Vec<_> = infos.iter().map(|info| element(call, &device, info)).collect();
            if !deferred.is_null() && config::current().deferral != Deferral::Never {
                let job = Job::new(&device, cache, infos, &elements, objects::allocator(callbacks), out);
                return deferred::defer(call, &device, deferred, job);
            }
            match pipelines::make(call, &device, cache, &elements, objects::allocator(callbacks), out) {
                vk::Result::SUCCESS if !deferred.is_null() => vk::Result::OPERATION_NOT_DEFERRED_KHR,
                result => result,
            }
        })
    }
}

/// Understands a create info.
///
/// # Safety
/// A valid create info.
pub unsafe fn element<'a>(
    call: &mut Call,
    device: &handles::Device,
    info: &vk::RayTracingPipelineCreateInfoKHR<'a>,
) -> Element<'a> {
    let config = config::current();
    // SAFETY: a valid create info: arrays have the counts that stand beside them.
    unsafe {
        let flags = pipelines::flags(call, device, info.flags.as_raw(), info.p_next);
        let binaries = binaries::passed(call, device, info.p_next);
        let mut key = pipelines::key("ray tracing", &config, device, flags);
        let mut by_identifier = false;
        let mut stages = info.stage_count;
        key.word(info.stage_count);
        for stage in slice(info.p_stages, info.stage_count) {
            by_identifier |= stage::add(&mut key, call, &config, device, stage, binaries.is_some());
        }
        key.word(info.group_count);
        for group in slice(info.p_groups, info.group_count) {
            key.signed(group.ty.as_raw());
            key.word(group.general_shader);
            key.word(group.closest_hit_shader);
            key.word(group.any_hit_shader);
            key.word(group.intersection_shader);
        }
        key.word(info.max_pipeline_ray_recursion_depth);
        if let Some(linked) = info.p_library_info.as_ref() {
            for library in libraries::linked(call, device, "ray tracing", linked) {
                key.code(&library.key, &library.shape);
                stages += library.stages;
                by_identifier |= library.by_identifier;
            }
        }
        if let Some(interface) = info.p_library_interface.as_ref() {
            key.word(interface.max_pipeline_ray_payload_size);
            key.word(interface.max_pipeline_ray_hit_attribute_size);
        }
        if let Some(dynamic) = info.p_dynamic_state.as_ref() {
            let states = slice(dynamic.p_dynamic_states, dynamic.dynamic_state_count);
            states.iter().for_each(|state| key.signed(state.as_raw()));
        }
        if !info.layout.is_null() {
            let layout = info.layout.as_raw();
            key.bytes(&objects::contents(call.command, device.handle, "VkPipelineLayout", layout));
        }
        plain_chain(&mut key, info.p_next);
        Element {
            kind: "ray tracing",
            shape: key.shape(),
            key: key.finish(),
            flags,
            by_identifier,
            fast_link: false,
            feedback: chain::find(info.p_next),
            base: (info.base_pipeline_handle, info.base_pipeline_index),
            subsets: 0,
            discard: false,
            stages,
            binaries,
            layout: None,
            mesh: false,
        }
    }
}
