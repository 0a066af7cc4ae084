//! The parts of a graphics create info that matter, by its subsets and dynamic states.

use std::collections::BTreeSet;

use ash::vk::{self, Handle as _};

use crate::chain;
use crate::content::slice;
use crate::flags::LIBRARY;
use crate::handles::Device;
use crate::objects::{self, Body, Pipeline, Subpass};
use crate::record::Call;

/// VERTEX_INPUT_INTERFACE.
pub const VERTEX_INPUT: u32 = 1;
/// PRE_RASTERIZATION_SHADERS.
pub const PRE_RASTER: u32 = 2;
/// FRAGMENT_SHADER.
pub const FRAGMENT: u32 = 4;
/// FRAGMENT_OUTPUT_INTERFACE.
pub const OUTPUT: u32 = 8;

/// Decides which state a create info must have.
pub struct Shape {
    /// The subsets of this create info.
    pub subsets: u32,
    /// Dynamic states.
    pub dynamic: BTreeSet<i32>,
    /// Whether the pipeline has a mesh or task stage.
    pub mesh: bool,
    /// Whether the pipeline has tessellation stages.
    pub tessellation: bool,
    /// Rasterizer discard is on and static, here or in a linked library.
    pub discard: bool,
    /// The attachments that the subpass or the formats use.
    pub subpass: Subpass,
    /// Advanced blending may be in use.
    pub advanced_blend: bool,
}

impl Shape {
    /// Whether the create info has one of the subsets.
    pub fn any(&self, subsets: u32) -> bool {
        self.subsets & subsets != 0
    }

    /// Whether a state is dynamic.
    pub fn dynamic(&self, state: vk::DynamicState) -> bool {
        self.dynamic.contains(&state.as_raw())
    }
}

/// The stages of the subsets.
///
/// # Safety
/// pStages of `info` is valid until the program's call returns, if `subsets` has one with shaders.
pub unsafe fn stages<'a>(
    info: &vk::GraphicsPipelineCreateInfo<'a>,
    subsets: u32,
) -> impl Iterator<Item = &'a vk::PipelineShaderStageCreateInfo<'a>> {
    let all = if subsets & (PRE_RASTER | FRAGMENT) != 0 {
        // SAFETY: a subset with shaders is present, so pStages is valid (06600).
        unsafe { slice(info.p_stages, info.stage_count) }
    } else {
        &[]
    };
    all.iter().filter(move |stage| {
        let wanted = if stage.stage == vk::ShaderStageFlags::FRAGMENT { FRAGMENT } else { PRE_RASTER };
        subsets & wanted != 0
    })
}

/// The shape of a create info that links these libraries.
///
/// # Safety
/// `info` is the create info of a vkCreateGraphicsPipelines call that has not returned; each of its pointers is valid
/// where contract 6 lets a driver read it.
pub unsafe fn shape(
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

/// The attachments that the subpass, or the formats of dynamic rendering, use.
///
/// # Safety
/// `info` is the create info of a vkCreateGraphicsPipelines call that has not returned; each of its pointers is valid
/// where contract 6 lets a driver read it.
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
    // SAFETY: the caller passes a create info whose chain is valid until the program's call returns.
    match unsafe { chain::find::<vk::PipelineRenderingCreateInfo<'_>>(info.p_next) } {
        Some(rendering) => Subpass {
            depth: rendering.depth_attachment_format != vk::Format::UNDEFINED
                || rendering.stencil_attachment_format != vk::Format::UNDEFINED,
            colour: rendering.color_attachment_count > 0,
        },
        None => Subpass::default(),
    }
}
