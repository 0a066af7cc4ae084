//! vkCreateComputePipelines, and the ends of all pipelines.

use ash::vk::{self, Handle as _};

use crate::content::slice;
use crate::pipelines::{self, Element};
use crate::record::{Call, command, plain};
use crate::{binaries, caches, chain, config, content, handles, objects, simple, stage};

/// vkCreateComputePipelines.
pub unsafe extern "system" fn create(
    device: vk::Device,
    cache: vk::PipelineCache,
    count: u32,
    infos: *const vk::ComputePipelineCreateInfo<'_>,
    callbacks: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::Pipeline,
) -> vk::Result {
    // SAFETY: the command's own arrays; create infos are valid.
    unsafe {
        let infos = slice(infos, count);
        out.write_bytes(0, count as usize);
        let mut call = begin("vkCreateComputePipelines", cache, count);
        for info in infos {
            call.p_next.extend(chain::types(call.command, info.p_next));
            call.flags.push(pipelines::written_flags(info.flags.as_raw(), info.p_next));
        }
        command(call, |call| {
            let Some(device) = handles::device(call.command, device) else {
                return vk::Result::ERROR_DEVICE_LOST;
            };
            let elements: Vec<_> = infos.iter().map(|info| element(call, &device, info)).collect();
            pipelines::make(call, &device, cache, &elements, objects::allocator(callbacks), out)
        })
    }
}

/// How a pipeline creation call enters the record.
pub fn begin(name: &'static str, cache: vk::PipelineCache, count: u32) -> Call {
    Call { cache: caches::name(cache), create_infos: Some(count), ..plain(name) }
}

/// Understands a create info.
///
/// # Safety
/// A valid create info.
pub unsafe fn element<'a>(
    call: &mut Call,
    device: &handles::Device,
    info: &vk::ComputePipelineCreateInfo<'a>,
) -> Element<'a> {
    let config = config::current();
    // SAFETY: a valid create info.
    unsafe {
        let flags = pipelines::flags(call, device, info.flags.as_raw(), info.p_next);
        let binaries = binaries::passed(call, device, info.p_next);
        let mut key = pipelines::key("compute", &config, device, flags);
        let by_identifier = stage::add(&mut key, call, &config, device, &info.stage, binaries.is_some());
        let layout = info.layout.as_raw();
        key.bytes(&objects::contents(call.command, device.handle, "VkPipelineLayout", layout));
        content::plain_chain(&mut key, info.p_next);
        Element {
            kind: "compute",
            shape: key.shape(),
            key: key.finish(),
            flags,
            by_identifier,
            fast_link: false,
            feedback: chain::find(info.p_next),
            base: (info.base_pipeline_handle, info.base_pipeline_index),
            subsets: 0,
            discard: false,
            stages: 1,
            binaries,
            layout: None,
            mesh: false,
        }
    }
}

/// vkDestroyPipeline.
pub unsafe extern "system" fn destroy(
    device: vk::Device,
    handle: vk::Pipeline,
    callbacks: *const vk::AllocationCallbacks<'_>,
) {
    // SAFETY: the command's own pointers.
    unsafe { simple::destroy("vkDestroyPipeline", "VkPipeline", device, handle.as_raw(), callbacks, |_| {}) };
}
