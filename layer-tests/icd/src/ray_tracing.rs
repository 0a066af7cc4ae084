//! vkCreateRayTracingPipelinesKHR, in the call or by the threads that join.

use std::sync::Arc;

use ash::vk::{self, Handle as _};

use crate::config::Deferral;
use crate::content::{plain_chain, slice};
use crate::element::{self, Element};
use crate::flags::{self, EARLY_RETURN};
use crate::hash::Digest;
use crate::objects::{self, Allocator};
use crate::operation::Work;
use crate::record::{Call, violation};
use crate::{binary_info, caches, config, deferred, handles, libraries, pipelines, stage};

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
    // SAFETY: pCreateInfos has `count` valid create infos and pPipelines `count` places until the command returns, or
    // until a deferred operation is complete.
    unsafe {
        let infos = slice(infos, count);
        pipelines::create(
            "vkCreateRayTracingPipelinesKHR",
            device,
            cache,
            infos,
            out,
            element,
            |call, device, elements| {
                if !deferred.is_null() && config::current().deferral != Deferral::Never {
                    let job = Job::new(device, cache, infos, elements, objects::allocator(callbacks), out);
                    return deferred::defer(call, device, deferred, Arc::new(job));
                }
                match pipelines::make(call, device, cache, elements, objects::allocator(callbacks), out) {
                    vk::Result::SUCCESS if !deferred.is_null() => vk::Result::OPERATION_NOT_DEFERRED_KHR,
                    result => result,
                }
            },
        )
    }
}

/// A deferred vkCreateRayTracingPipelinesKHR. Pointers are kept as addresses: the threads that join read the create
/// infos again, as drivers do, and these must not have changed.
#[derive(Debug)]
struct Job {
    device: Arc<handles::Device>,
    cache: vk::PipelineCache,
    infos: usize,
    keys: Arc<[Digest]>,
    flags: Vec<u64>,
    allocator: Allocator,
    out: usize,
    /// Number of tasks: one for each pipeline, or one for all.
    tasks: usize,
}

impl Job {
    fn new(
        device: &Arc<handles::Device>,
        cache: vk::PipelineCache,
        infos: &[vk::RayTracingPipelineCreateInfoKHR<'_>],
        elements: &[Element<'_>],
        allocator: Allocator,
        out: *mut vk::Pipeline,
    ) -> Job {
        let exclusive = !cache.is_null()
            && caches::find("vkCreateRayTracingPipelinesKHR", device, cache)
                .is_some_and(|cache| cache.flags & 1 != 0);
        let serial = exclusive || elements.iter().any(|element| element.flags & EARLY_RETURN != 0);
        Job {
            device: device.clone(),
            cache,
            infos: infos.as_ptr().expose_provenance(),
            keys: elements.iter().map(|element| element.key).collect(),
            flags: elements.iter().map(|element| element.flags).collect(),
            allocator,
            out: out.expose_provenance(),
            tasks: if serial { 1 } else { elements.len() },
        }
    }
}

impl Work for Job {
    fn tasks(&self) -> usize {
        self.tasks
    }

    fn run(&self, call: &mut Call, task: usize) -> vk::Result {
        let count = self.keys.len();
        let which = if self.tasks == 1 { 0..count } else { task..task + 1 };
        let infos: *const vk::RayTracingPipelineCreateInfoKHR<'_> =
            std::ptr::with_exposed_provenance(self.infos);
        call.cache = caches::name(self.cache);
        call.flags.clone_from(&self.flags);
        // SAFETY: the specification keeps all parameters of a deferred command valid until the operation is complete.
        unsafe {
            let infos = slice(infos, count as u32);
            let elements: Vec<_> = infos.iter().map(|info| element(call, &self.device, info)).collect();
            if elements.iter().zip(self.keys.iter()).any(|(element, key)| element.key != *key) {
                violation(format!("{}: the create infos changed before the join", call.command));
            }
            let out = std::ptr::with_exposed_provenance_mut(self.out);
            pipelines::make_some(call, &self.device, self.cache, &elements, which, self.allocator, out)
        }
    }
}

/// Reads a create info.
///
/// # Safety
/// `info` is a valid create info of a vkCreateRayTracingPipelinesKHR call that has not returned, or whose deferred
/// operation is not complete.
pub unsafe fn element<'a>(
    call: &mut Call,
    device: &handles::Device,
    info: &vk::RayTracingPipelineCreateInfoKHR<'a>,
) -> Element<'a> {
    let config = config::current();
    // SAFETY: the program passes a valid create info, so its arrays have their counts.
    unsafe {
        let flags = flags::effective(call, device, info.flags.as_raw(), info.p_next);
        let binaries = binary_info::passed(call, device, info.p_next);
        let mut key = element::key("ray tracing", &config, device, flags);
        let mut by_identifier = false;
        let mut shaders = Vec::new();
        let mut stages = info.stage_count;
        key.word(info.stage_count);
        for stage in slice(info.p_stages, info.stage_count) {
            let (shader, lacks_code) = stage::add(&mut key, call, &config, device, stage, binaries.is_some());
            shaders.push(shader);
            by_identifier |= lacks_code;
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
                shaders.push(library.key);
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
            shaders,
            by_identifier,
            base: (info.base_pipeline_handle, info.base_pipeline_index),
            stages,
            binaries,
            ..Element::new("ray tracing", key, flags, info.p_next)
        }
    }
}
