//! The pieces of fixed-function state.

use ash::vk::{self, DynamicState as D};

use super::structures::StructureBuilder;
use crate::capture::graphics::Dynamic;
use crate::rebuild::arena::{Arena, Chain};
use crate::rebuild::extensions::{self, chain_plain};
use crate::rebuild::{Limits, RebuildError, ensure, within};
use vkstash_model::recipe::{
    ColorBlend, DepthStencil, Extensions, InputAssembly, Multisample, Rasterization, Tessellation,
    VertexInput, Viewport,
};

type Chained = *const std::ffi::c_void;

fn plain(arena: &mut Arena, extensions: &Extensions<'_>) -> Result<Chained, RebuildError> {
    let mut chain = Chain::default();
    chain_plain(arena, &mut chain, extensions)?;
    Ok(chain.head())
}

/// Vertex input.
pub fn vertex_input(
    arena: &mut Arena,
    state: &VertexInput<'_>,
    limits: Limits,
) -> Result<vk::PipelineVertexInputStateCreateInfo<'static>, RebuildError> {
    let most = limits.vertex_bindings;
    within(state.bindings.len(), most, "vertex bindings")?;
    within(state.divisors.len(), most, "vertex bindings")?;
    within(state.attributes.len(), limits.vertex_attributes, "vertex attributes")?;
    let known =
        |binding: u32| if binding < most { Ok(()) } else { Err(RebuildError::Limit("vertex bindings")) };
    let mut chain = Chain::default();
    chain_plain(arena, &mut chain, &state.extensions)?;
    if !state.divisors.is_empty() {
        let divisors = arena.list(state.divisors.iter(), |_, &(binding, divisor)| {
            known(binding)?;
            Ok(vk::VertexInputBindingDivisorDescriptionKHR { binding, divisor })
        })?;
        let info = vk::PipelineVertexInputDivisorStateCreateInfoKHR {
            vertex_binding_divisor_count: divisors.count,
            p_vertex_binding_divisors: divisors.pointer,
            ..Default::default()
        };
        chain.push(arena, info)?;
    }
    let bindings = arena.list(state.bindings.iter(), |_, &(binding, stride, input_rate)| {
        known(binding)?;
        let input_rate = vk::VertexInputRate::from_raw(input_rate);
        Ok(vk::VertexInputBindingDescription { binding, stride, input_rate })
    })?;
    let attributes = arena.list(state.attributes.iter(), |_, &(location, binding, format, offset)| {
        known(binding)?;
        let there = location < limits.vertex_attributes;
        if !there {
            return Err(RebuildError::Limit("vertex attributes"));
        }
        let format = vk::Format::from_raw(format);
        Ok(vk::VertexInputAttributeDescription { location, binding, format, offset })
    })?;
    Ok(vk::PipelineVertexInputStateCreateInfo {
        p_next: chain.head(),
        flags: vk::PipelineVertexInputStateCreateFlags::from_raw(state.flags),
        vertex_binding_description_count: bindings.count,
        p_vertex_binding_descriptions: bindings.pointer,
        vertex_attribute_description_count: attributes.count,
        p_vertex_attribute_descriptions: attributes.pointer,
        ..Default::default()
    })
}

/// Input assembly.
pub fn input_assembly(
    arena: &mut Arena,
    state: &InputAssembly<'_>,
) -> Result<vk::PipelineInputAssemblyStateCreateInfo<'static>, RebuildError> {
    Ok(vk::PipelineInputAssemblyStateCreateInfo {
        p_next: plain(arena, &state.extensions)?,
        flags: vk::PipelineInputAssemblyStateCreateFlags::from_raw(state.flags),
        topology: vk::PrimitiveTopology::from_raw(state.topology),
        primitive_restart_enable: state.restart,
        ..Default::default()
    })
}

/// Tessellation.
pub fn tessellation(
    arena: &mut Arena,
    state: &Tessellation<'_>,
    dynamic: &Dynamic,
) -> Result<vk::PipelineTessellationStateCreateInfo<'static>, RebuildError> {
    // 01214 wants at least one control point even where the state is dynamic.
    let ignored = dynamic.has(D::PATCH_CONTROL_POINTS_EXT);
    Ok(vk::PipelineTessellationStateCreateInfo {
        p_next: plain(arena, &state.extensions)?,
        flags: vk::PipelineTessellationStateCreateFlags::from_raw(state.flags),
        patch_control_points: if ignored { 1 } else { state.patch_control_points },
        ..Default::default()
    })
}

/// Viewports and scissors.
pub fn viewport(
    arena: &mut Arena,
    state: &Viewport<'_>,
    dynamic: &Dynamic,
    limits: Limits,
) -> Result<vk::PipelineViewportStateCreateInfo<'static>, RebuildError> {
    let static_count = |state, list, count| match dynamic.has(state) || dynamic.has(list) {
        true => 0,
        false => count,
    };
    let viewports = static_count(D::VIEWPORT_WITH_COUNT, D::VIEWPORT, state.viewport_count);
    let scissors = static_count(D::SCISSOR_WITH_COUNT, D::SCISSOR, state.scissor_count);
    within(state.viewport_count, limits.viewports, "viewports")?;
    within(state.scissor_count, limits.viewports, "scissors")?;
    ensure(
        state.viewports.len() == viewports as usize && state.scissors.len() == scissors as usize,
        "another number of viewports or scissors",
    )?;
    let viewports = arena.list(state.viewports.iter(), |_, viewport| {
        let [x, y, width, height, min_depth, max_depth] = viewport.map(f32::from_bits);
        Ok(vk::Viewport { x, y, width, height, min_depth, max_depth })
    })?;
    let scissors = arena.list(state.scissors.iter(), |_, &(x, y, width, height)| {
        Ok(vk::Rect2D { offset: vk::Offset2D { x, y }, extent: vk::Extent2D { width, height } })
    })?;
    let mut chain = Chain::default();
    extensions::chain(arena, &mut chain, &state.extensions, |arena, chain, flattened| {
        StructureBuilder::of(arena, chain, flattened, dynamic, limits).viewport()
    })?;
    Ok(vk::PipelineViewportStateCreateInfo {
        p_next: chain.head(),
        flags: vk::PipelineViewportStateCreateFlags::from_raw(state.flags),
        viewport_count: state.viewport_count,
        p_viewports: viewports.pointer,
        scissor_count: state.scissor_count,
        p_scissors: scissors.pointer,
        ..Default::default()
    })
}

/// Rasterization.
pub fn rasterization(
    arena: &mut Arena,
    state: &Rasterization<'_>,
) -> Result<vk::PipelineRasterizationStateCreateInfo<'static>, RebuildError> {
    let [clamp, discard, bias] = state.switches;
    let [polygon, cull, front] = state.modes;
    let [constant, bias_clamp, slope, line_width] = state.factors.map(f32::from_bits);
    Ok(vk::PipelineRasterizationStateCreateInfo {
        p_next: plain(arena, &state.extensions)?,
        flags: vk::PipelineRasterizationStateCreateFlags::from_raw(state.flags),
        depth_clamp_enable: clamp,
        rasterizer_discard_enable: discard,
        polygon_mode: vk::PolygonMode::from_raw(polygon as i32),
        cull_mode: vk::CullModeFlags::from_raw(cull),
        front_face: vk::FrontFace::from_raw(front as i32),
        depth_bias_enable: bias,
        depth_bias_constant_factor: constant,
        depth_bias_clamp: bias_clamp,
        depth_bias_slope_factor: slope,
        line_width,
        ..Default::default()
    })
}

/// Multisampling.
pub fn multisample(
    arena: &mut Arena,
    state: &Multisample<'_>,
    dynamic: &Dynamic,
    limits: Limits,
) -> Result<vk::PipelineMultisampleStateCreateInfo<'static>, RebuildError> {
    let words = state.sample_mask.len();
    // A static mask is as long as rasterizationSamples says, even where that is dynamic and not in the recipe.
    let samples = match dynamic.has(D::RASTERIZATION_SAMPLES_EXT) {
        true if words == 2 => vk::SampleCountFlags::TYPE_64.as_raw(),
        true => vk::SampleCountFlags::TYPE_1.as_raw(),
        false => state.samples,
    };
    let expected = samples.div_ceil(32) as usize;
    ensure(words == 0 || words == expected, "a sample mask of another length")?;
    let mask = arena.copy(&state.sample_mask)?;
    let mut chain = Chain::default();
    extensions::chain(arena, &mut chain, &state.extensions, |arena, chain, flattened| {
        StructureBuilder::of(arena, chain, flattened, dynamic, limits).multisample()
    })?;
    Ok(vk::PipelineMultisampleStateCreateInfo {
        p_next: chain.head(),
        flags: vk::PipelineMultisampleStateCreateFlags::from_raw(state.flags),
        rasterization_samples: vk::SampleCountFlags::from_raw(samples),
        sample_shading_enable: state.sample_shading[0],
        min_sample_shading: f32::from_bits(state.sample_shading[1]),
        p_sample_mask: mask.pointer,
        alpha_to_coverage_enable: state.alpha[0],
        alpha_to_one_enable: state.alpha[1],
        ..Default::default()
    })
}

/// Depth and stencil.
pub fn depth_stencil(
    arena: &mut Arena,
    state: &DepthStencil<'_>,
) -> Result<vk::PipelineDepthStencilStateCreateInfo<'static>, RebuildError> {
    let face = |[fail, pass, depth_fail, compare, compare_mask, write_mask, reference]: [u32; 7]| {
        let [fail_op, pass_op, depth_fail_op] =
            [fail, pass, depth_fail].map(|operation| vk::StencilOp::from_raw(operation as i32));
        let compare_op = vk::CompareOp::from_raw(compare as i32);
        vk::StencilOpState {
            fail_op,
            pass_op,
            depth_fail_op,
            compare_op,
            compare_mask,
            write_mask,
            reference,
        }
    };
    let [test, write, compare, bounds, stencil] = state.depth;
    let [front, back] = state.stencil.map(face);
    let [min_depth_bounds, max_depth_bounds] = state.bounds.map(f32::from_bits);
    Ok(vk::PipelineDepthStencilStateCreateInfo {
        p_next: plain(arena, &state.extensions)?,
        flags: vk::PipelineDepthStencilStateCreateFlags::from_raw(state.flags),
        depth_test_enable: test,
        depth_write_enable: write,
        depth_compare_op: vk::CompareOp::from_raw(compare as i32),
        depth_bounds_test_enable: bounds,
        stencil_test_enable: stencil,
        front,
        back,
        min_depth_bounds,
        max_depth_bounds,
        ..Default::default()
    })
}

/// Blending.
pub fn color_blend(
    arena: &mut Arena,
    state: &ColorBlend<'_>,
    dynamic: &Dynamic,
    advanced: bool,
    limits: Limits,
) -> Result<vk::PipelineColorBlendStateCreateInfo<'static>, RebuildError> {
    let all_dynamic = dynamic.has(D::COLOR_BLEND_ENABLE_EXT)
        && dynamic.has(D::COLOR_BLEND_EQUATION_EXT)
        && dynamic.has(D::COLOR_WRITE_MASK_EXT)
        && (dynamic.has(D::COLOR_BLEND_ADVANCED_EXT) || !advanced);
    let count = if all_dynamic { 0 } else { state.attachment_count as usize };
    ensure(state.attachments.len() == count, "another number of blended attachments")?;
    within(state.attachment_count, limits.color_attachments, "colour attachments")?;
    let mut attachments = arena.list(state.attachments.iter(), |_, words| {
        let &[enable, src_color, dst_color, color, src_alpha, dst_alpha, alpha, mask] = words;
        let factor = |factor: u32| vk::BlendFactor::from_raw(factor as i32);
        let operation = |operation: u32| vk::BlendOp::from_raw(operation as i32);
        Ok(vk::PipelineColorBlendAttachmentState {
            blend_enable: enable,
            src_color_blend_factor: factor(src_color),
            dst_color_blend_factor: factor(dst_color),
            color_blend_op: operation(color),
            src_alpha_blend_factor: factor(src_alpha),
            dst_alpha_blend_factor: factor(dst_alpha),
            alpha_blend_op: operation(alpha),
            color_write_mask: vk::ColorComponentFlags::from_raw(mask),
        })
    })?;
    if all_dynamic {
        // RADV and validation follow the pointer unless advanced blending is dynamic, too (07353).
        attachments = arena.repeat(Default::default(), state.attachment_count)?;
    }
    let mut chain = Chain::default();
    extensions::chain(arena, &mut chain, &state.extensions, |arena, chain, flattened| {
        StructureBuilder::of(arena, chain, flattened, dynamic, limits).color_blend()
    })?;
    Ok(vk::PipelineColorBlendStateCreateInfo {
        p_next: chain.head(),
        flags: vk::PipelineColorBlendStateCreateFlags::from_raw(state.flags),
        logic_op_enable: state.logic[0],
        logic_op: vk::LogicOp::from_raw(state.logic[1] as i32),
        attachment_count: state.attachment_count,
        p_attachments: attachments.pointer,
        blend_constants: state.constants.map(f32::from_bits),
        ..Default::default()
    })
}
