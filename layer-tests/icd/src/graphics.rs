//! vkCreateGraphicsPipelines. A pointer is followed only if contract 6 lets a driver follow it.

use ash::vk::{self, Handle as _};

use crate::content::{plain_chain, slice};
use crate::element::{self, Element};
use crate::flags::LINK_TIME_OPTIMIZATION;
use crate::handles::Device;
use crate::hash::Hasher;
use crate::objects::{self, Body};
use crate::record::Call;
use crate::shape::{FRAGMENT, OUTPUT, PRE_RASTER, Shape, shape, stages};
use crate::{binary_info, chain, config, flags, graphics_state, heaps, libraries, pipelines, stage};

/// vkCreateGraphicsPipelines.
pub unsafe extern "system" fn create(
    device: vk::Device,
    cache: vk::PipelineCache,
    count: u32,
    infos: *const vk::GraphicsPipelineCreateInfo<'_>,
    callbacks: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::Pipeline,
) -> vk::Result {
    // SAFETY: pCreateInfos and pPipelines have `count` elements until the command returns; each pointer of a create
    // info is valid where contract 6 lets a driver read it.
    unsafe {
        let infos = slice(infos, count);
        pipelines::create(
            "vkCreateGraphicsPipelines",
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
/// `info` is the create info of a vkCreateGraphicsPipelines call that has not returned; each of its pointers is valid
/// where contract 6 lets a driver read it.
pub unsafe fn element<'a>(
    call: &mut Call,
    device: &Device,
    info: &vk::GraphicsPipelineCreateInfo<'a>,
) -> Element<'a> {
    let config = config::current();
    // SAFETY: a pointer is followed only if contract 6 lets a driver follow it.
    unsafe {
        let flags = flags::effective(call, device, info.flags.as_raw(), info.p_next);
        let linked = chain::find(info.p_next)
            .map_or_else(Vec::new, |linked| libraries::linked(call, device, "graphics", linked));
        let shape = shape(call, device, info, flags, &linked);
        let mut key = element::key("graphics", &config, device, flags);
        key.word(shape.subsets);
        let mut shaders = Vec::new();
        for library in &linked {
            key.code(&library.key, &library.shape);
            shaders.push(library.key);
        }
        let binaries = binary_info::passed(call, device, info.p_next);
        let mut by_identifier = linked.iter().any(|library| library.by_identifier);
        let mut count = linked.iter().map(|library| library.stages).sum();
        for stage in stages(info, shape.subsets) {
            let (shader, lacks_code) = stage::add(&mut key, call, &config, device, stage, binaries.is_some());
            shaders.push(shader);
            by_identifier |= lacks_code;
            count += 1;
        }
        key.number(shape.dynamic.len() as u64);
        shape.dynamic.iter().for_each(|&state| key.signed(state));
        let mut layout = None;
        let no_layout = heaps::has_no_layout(call, device, flags, !info.layout.is_null());
        if shape.any(PRE_RASTER | FRAGMENT) && !no_layout && !info.layout.is_null() {
            let handle = info.layout.as_raw();
            let found = objects::get(call.command, device.handle, "VkPipelineLayout", handle);
            if let Some(Body::PipelineLayout(found)) = found {
                key.bytes(&found.digest);
                layout = Some(found);
            }
        }
        libraries::check_link(call, flags, &shape, layout, &linked);
        target(&mut key, call, device, info, &shape);
        graphics_state::add(&mut key, info, &shape);
        plain_chain(&mut key, info.p_next);
        Element {
            shaders,
            by_identifier,
            base: (info.base_pipeline_handle, info.base_pipeline_index),
            subsets: shape.subsets | linked.iter().fold(0, |all, library| all | library.subsets),
            discard: shape.discard,
            stages: count,
            binaries,
            layout,
            mesh: shape.mesh || linked.iter().any(|library| library.mesh),
            fast_link: !linked.is_empty()
                && !shape.any(PRE_RASTER | FRAGMENT)
                && flags & LINK_TIME_OPTIMIZATION == 0,
            ..Element::new("graphics", key, flags, info.p_next)
        }
    }
}

/// VkCustomResolveCreateInfoEXT, which is newer than the bindings.
#[repr(C)]
struct CustomResolve {
    s_type: vk::StructureType,
    p_next: *const std::ffi::c_void,
    custom_resolve: vk::Bool32,
    count: u32,
    formats: *const vk::Format,
    depth: vk::Format,
    stencil: vk::Format,
}

// SAFETY: the structure starts with sType and pNext, and the registry gives it this value.
unsafe impl vk::TaggedStructure for CustomResolve {
    const STRUCTURE_TYPE: vk::StructureType = vk::StructureType::from_raw(1_000_628_002);
}

/// Adds the render pass or the formats.
///
/// # Safety
/// `info` is the create info of a vkCreateGraphicsPipelines call that has not returned; each of its pointers is valid
/// where contract 6 lets a driver read it.
unsafe fn target(
    key: &mut Hasher,
    call: &Call,
    device: &Device,
    info: &vk::GraphicsPipelineCreateInfo<'_>,
    shape: &Shape,
) {
    if !shape.any(PRE_RASTER | FRAGMENT | OUTPUT) {
        return;
    }
    if !info.render_pass.is_null() {
        let handle = info.render_pass.as_raw();
        key.bytes(&objects::contents(call.command, device.handle, "VkRenderPass", handle));
        key.word(info.subpass);
        return;
    }
    // SAFETY: the caller passes a create info with a valid chain; formats are read with the output subset only (06579).
    unsafe {
        if let Some(resolve) =
            chain::find::<CustomResolve>(info.p_next).filter(|_| shape.any(FRAGMENT | OUTPUT))
        {
            key.word(resolve.custom_resolve);
            if shape.any(OUTPUT) {
                let formats = slice(resolve.formats, resolve.count);
                formats
                    .iter()
                    .chain([&resolve.depth, &resolve.stencil])
                    .for_each(|format| key.signed(format.as_raw()));
            }
        }
        if let Some(rendering) = chain::find::<vk::PipelineRenderingCreateInfo<'_>>(info.p_next) {
            key.word(rendering.view_mask);
            if shape.any(OUTPUT) {
                key.word(rendering.color_attachment_count);
                for format in slice(rendering.p_color_attachment_formats, rendering.color_attachment_count) {
                    key.signed(format.as_raw());
                }
                key.signed(rendering.depth_attachment_format.as_raw());
                key.signed(rendering.stencil_attachment_format.as_raw());
            }
        }
    }
}
