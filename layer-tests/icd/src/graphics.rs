//! vkCreateGraphicsPipelines: which parts of a create info count, by the subsets, the dynamic states and the
//! rules of when a pointer may be read.

use std::collections::BTreeSet;

use ash::vk::{self, Handle as _};

use crate::content::{plain_chain, slice};
use crate::handles::Device;
use crate::hash::Hasher;
use crate::objects::{self, Body, Pipeline, Subpass};
use crate::pipelines::{self, Element};
use crate::record::{Call, command};
use crate::{binaries, chain, compute, config, graphics_state, handles, libraries, stage};

/// VERTEX_INPUT_INTERFACE.
pub const VERTEX_INPUT: u32 = 1;
/// PRE_RASTERIZATION_SHADERS.
pub const PRE_RASTER: u32 = 2;
/// FRAGMENT_SHADER.
pub const FRAGMENT: u32 = 4;
/// FRAGMENT_OUTPUT_INTERFACE.
pub const OUTPUT: u32 = 8;
/// VK_PIPELINE_CREATE_LIBRARY_BIT_KHR.
pub const LIBRARY: u64 = 0x800;

/// What decides which state a create info must have.
pub struct Shape {
    /// The subsets that stand in this create info.
    pub subsets: u32,
    /// Dynamic states.
    pub dynamic: BTreeSet<i32>,
    /// A mesh or task stage stands in it.
    pub mesh: bool,
    /// Tessellation stages stand in it.
    pub tessellation: bool,
    /// Rasterizer discard is on and static, here or in a linked library.
    pub discard: bool,
    /// What the subpass or the formats use.
    pub subpass: Subpass,
    /// Advanced blending may be in use.
    pub advanced_blend: bool,
}

impl Shape {
    /// Whether one of the subsets is there.
    pub fn any(&self, subsets: u32) -> bool {
        self.subsets & subsets != 0
    }

    /// Whether a state is dynamic.
    pub fn dynamic(&self, state: vk::DynamicState) -> bool {
        self.dynamic.contains(&state.as_raw())
    }
}

/// vkCreateGraphicsPipelines.
pub unsafe extern "system" fn create(
    device: vk::Device,
    cache: vk::PipelineCache,
    count: u32,
    infos: *const vk::GraphicsPipelineCreateInfo<'_>,
    callbacks: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::Pipeline,
) -> vk::Result {
    // SAFETY: the command's own arrays; create infos are valid as far as contract 6 says.
    unsafe {
        let infos = slice(infos, count);
        out.write_bytes(0, count as usize);
        let mut call = compute::begin("vkCreateGraphicsPipelines", cache, count);
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

/// Understands a create info.
///
/// # Safety
/// A create info that is valid as far as contract 6 says.
pub unsafe fn element<'a>(
    call: &mut Call,
    device: &Device,
    info: &vk::GraphicsPipelineCreateInfo<'a>,
) -> Element<'a> {
    let config = config::current();
    // SAFETY: a pointer is followed only where contract 6 lets a driver do so.
    unsafe {
        let flags = pipelines::flags(call, device, info.flags.as_raw(), info.p_next);
        let linked = chain::find(info.p_next)
            .map_or_else(Vec::new, |linked| libraries::linked(call, device, "graphics", linked));
        let shape = shape(call, device, info, flags, &linked);
        let mut key = pipelines::key("graphics", &config, device, flags);
        key.word(shape.subsets);
        for library in &linked {
            key.code(&library.key, &library.shape);
        }
        let binaries = binaries::passed(call, device, info.p_next);
        let mut by_identifier = linked.iter().any(|library| library.by_identifier);
        let mut count = linked.iter().map(|library| library.stages).sum();
        for stage in stages(info, shape.subsets) {
            by_identifier |= stage::add(&mut key, call, &config, device, stage, binaries.is_some());
            count += 1;
        }
        key.number(shape.dynamic.len() as u64);
        shape.dynamic.iter().for_each(|&state| key.signed(state));
        let mut layout = None;
        if shape.any(PRE_RASTER | FRAGMENT) && !info.layout.is_null() {
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
            kind: "graphics",
            shape: key.shape(),
            key: key.finish(),
            flags,
            by_identifier,
            feedback: chain::find(info.p_next),
            base: (info.base_pipeline_handle, info.base_pipeline_index),
            subsets: shape.subsets | linked.iter().fold(0, |all, library| all | library.subsets),
            discard: shape.discard,
            stages: count,
            binaries,
            layout,
            mesh: shape.mesh || linked.iter().any(|library| library.mesh),
            fast_link: !linked.is_empty()
                && !shape.any(PRE_RASTER | FRAGMENT)
                && flags & libraries::LINK_TIME_OPTIMIZATION == 0,
        }
    }
}

/// The stages that belong to the subsets.
///
/// # Safety
/// pStages is valid if a subset with shaders is there.
unsafe fn stages<'a>(
    info: &vk::GraphicsPipelineCreateInfo<'a>,
    subsets: u32,
) -> impl Iterator<Item = &'a vk::PipelineShaderStageCreateInfo<'a>> {
    let all = if subsets & (PRE_RASTER | FRAGMENT) != 0 {
        // SAFETY: the caller's promise (06600).
        unsafe { slice(info.p_stages, info.stage_count) }
    } else {
        &[]
    };
    all.iter().filter(move |stage| {
        let wanted = if stage.stage == vk::ShaderStageFlags::FRAGMENT { FRAGMENT } else { PRE_RASTER };
        subsets & wanted != 0
    })
}

/// # Safety
/// As [`element`].
unsafe fn shape(
    call: &Call,
    device: &Device,
    info: &vk::GraphicsPipelineCreateInfo<'_>,
    flags: u64,
    linked: &[Pipeline],
) -> Shape {
    // SAFETY: the chain and pDynamicState are valid or NULL; pRasterizationState is with its subset.
    unsafe {
        let subsets = match chain::find::<vk::GraphicsPipelineLibraryCreateInfoEXT<'_>>(info.p_next) {
            Some(library) => library.flags.as_raw(),
            None if flags & LIBRARY != 0 || !linked.is_empty() => 0,
            None => VERTEX_INPUT | PRE_RASTER | FRAGMENT | OUTPUT,
        };
        let dynamic: BTreeSet<i32> = info
            .p_dynamic_state
            .as_ref()
            .map_or(&[][..], |state| slice(state.p_dynamic_states, state.dynamic_state_count))
            .iter()
            .map(|state| state.as_raw())
            .collect();
        let present = stages(info, subsets).fold(0, |all, stage| all | stage.stage.as_raw());
        let mut discard = linked.iter().any(|library| library.discard);
        if subsets & PRE_RASTER != 0
            && !dynamic.contains(&vk::DynamicState::RASTERIZER_DISCARD_ENABLE.as_raw())
        {
            discard |=
                info.p_rasterization_state.as_ref().is_some_and(|state| state.rasterizer_discard_enable != 0);
        }
        Shape {
            subsets,
            dynamic,
            mesh: present & 0xC0 != 0,
            tessellation: present & 0x6 != 0,
            discard,
            subpass: subpass(call, device, info, subsets),
            advanced_blend: device.extensions.contains("VK_EXT_blend_operation_advanced"),
        }
    }
}

/// What the subpass, or the formats of dynamic rendering, use.
///
/// # Safety
/// As [`element`].
unsafe fn subpass(
    call: &Call,
    device: &Device,
    info: &vk::GraphicsPipelineCreateInfo<'_>,
    subsets: u32,
) -> Subpass {
    if subsets & !VERTEX_INPUT == 0 {
        return Subpass::default();
    }
    if !info.render_pass.is_null() {
        let handle = info.render_pass.as_raw();
        return match objects::get(call.command, device.handle, "VkRenderPass", handle) {
            Some(Body::RenderPass(_, subpasses)) => {
                subpasses.get(info.subpass as usize).copied().unwrap_or_default()
            }
            _ => Subpass::default(),
        };
    }
    if subsets & OUTPUT == 0 {
        // A fragment shader library for dynamic rendering always has its depth state (09035).
        return Subpass { depth: true, colour: false };
    }
    // SAFETY: a valid chain.
    match unsafe { chain::find::<vk::PipelineRenderingCreateInfo<'_>>(info.p_next) } {
        Some(rendering) => Subpass {
            depth: rendering.depth_attachment_format != vk::Format::UNDEFINED
                || rendering.stencil_attachment_format != vk::Format::UNDEFINED,
            colour: rendering.color_attachment_count > 0,
        },
        None => Subpass::default(),
    }
}

/// Adds the render pass or the formats.
///
/// # Safety
/// As [`element`].
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
    // SAFETY: a valid chain; formats are read with the output subset only (06579).
    unsafe {
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
