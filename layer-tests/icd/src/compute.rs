//! vkCreateComputePipelines.

use ash::vk::{self, Handle as _};

use crate::content::slice;
use crate::element::{self, Element};
use crate::record::Call;
use crate::{binary_info, config, content, flags, handles, heaps, objects, pipelines, stage};

/// vkCreateComputePipelines.
pub unsafe extern "system" fn create(
    device: vk::Device,
    cache: vk::PipelineCache,
    count: u32,
    infos: *const vk::ComputePipelineCreateInfo<'_>,
    callbacks: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::Pipeline,
) -> vk::Result {
    // SAFETY: pCreateInfos has `count` valid create infos and pPipelines `count` places until the command returns.
    unsafe {
        let infos = slice(infos, count);
        pipelines::create(
            "vkCreateComputePipelines",
            device,
            cache,
            infos,
            out,
            element,
            |call, device, elements| {
                pipelines::make(call, device, cache, elements, objects::allocator(callbacks), out)
            },
        )
    }
}

/// Reads a create info.
///
/// # Safety
/// `info` is a valid create info of a vkCreateComputePipelines call that has not returned.
pub unsafe fn element<'a>(
    call: &mut Call,
    device: &handles::Device,
    info: &vk::ComputePipelineCreateInfo<'a>,
) -> Element<'a> {
    let config = config::current();
    // SAFETY: the program passes a valid create info, so its chain and stage are valid.
    unsafe {
        let flags = flags::effective(call, device, info.flags.as_raw(), info.p_next);
        let binaries = binary_info::passed(call, device, info.p_next);
        let mut key = element::key("compute", &config, device, flags);
        let (shader, by_identifier) =
            stage::add(&mut key, call, &config, device, &info.stage, binaries.is_some());
        if !heaps::has_no_layout(call, device, flags, !info.layout.is_null()) {
            let layout = info.layout.as_raw();
            key.bytes(&objects::contents(call.command, device.handle, "VkPipelineLayout", layout));
        }
        content::plain_chain(&mut key, info.p_next);
        Element {
            shaders: vec![shader],
            by_identifier,
            base: (info.base_pipeline_handle, info.base_pipeline_index),
            stages: 1,
            binaries,
            ..Element::new("compute", key, flags, info.p_next)
        }
    }
}
