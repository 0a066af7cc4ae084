//! The pieces of fixed-function state. The caller says which of them may be read; what is dynamic is left out.

use ash::vk;
use smallvec::SmallVec;

use super::dynamic::Dynamic;
use super::structures;
use crate::capture::array;
use crate::chain::{self, Refusal, Special};
use vkstash_host::sort;
use vkstash_model::counters::BypassReason;
use vkstash_model::recipe::{
    ColorBlend, DepthStencil, InputAssembly, Multisample, Rasterization, Tessellation, VertexInput, Viewport,
};

const WRONG: Refusal = Refusal::plain(BypassReason::WrongStructure);

/// Vertex input.
///
/// # Safety
/// `info` is valid.
pub unsafe fn vertex_input<'a>(
    info: &vk::PipelineVertexInputStateCreateInfo<'a>,
    dynamic: &Dynamic,
) -> Result<VertexInput<'a>, Refusal> {
    let mut divisors: SmallVec<[(u32, u32); 2]> = SmallVec::new();
    // SAFETY: the chain and both arrays of a valid structure; the cast follows the sType, and the divisors
    // are valid for their count.
    unsafe {
        let extensions = chain::scan(info.p_next, |node| {
            if node.s_type != vk::StructureType::PIPELINE_VERTEX_INPUT_DIVISOR_STATE_CREATE_INFO_KHR {
                return Ok(Special::Foreign);
            }
            let state = &*(&raw const *node).cast::<vk::PipelineVertexInputDivisorStateCreateInfoKHR<'_>>();
            let listed = array(state.p_vertex_binding_divisors, state.vertex_binding_divisor_count);
            divisors.extend(listed.iter().map(|divisor| (divisor.binding, divisor.divisor)));
            Ok(Special::Read)
        })?;
        let stride = |stride| dynamic.unless(vk::DynamicState::VERTEX_INPUT_BINDING_STRIDE, stride);
        let bindings = array(info.p_vertex_binding_descriptions, info.vertex_binding_description_count);
        let mut bindings: SmallVec<[_; 4]> =
            bindings.iter().map(|b| (b.binding, stride(b.stride), b.input_rate.as_raw())).collect();
        let attributes = array(info.p_vertex_attribute_descriptions, info.vertex_attribute_description_count);
        let mut attributes: SmallVec<[_; 8]> =
            attributes.iter().map(|a| (a.location, a.binding, a.format.as_raw(), a.offset)).collect();
        sort::sort(&mut bindings);
        sort::sort(&mut attributes);
        sort::sort(&mut divisors);
        Ok(VertexInput { flags: info.flags.as_raw(), bindings, attributes, divisors, extensions })
    }
}

/// Input assembly.
///
/// # Safety
/// `info` is NULL or valid (09031: NULL only where topology and restart are dynamic).
pub unsafe fn input_assembly<'a>(
    info: *const vk::PipelineInputAssemblyStateCreateInfo<'a>,
    dynamic: &Dynamic,
) -> Result<Option<InputAssembly<'a>>, Refusal> {
    // SAFETY: pInputAssemblyState is NULL, which is only allowed where its state is dynamic (09031), or valid.
    let Some(info) = (unsafe { info.as_ref() }) else { return Ok(None) };
    Ok(Some(InputAssembly {
        flags: info.flags.as_raw(),
        topology: info.topology.as_raw(),
        restart: dynamic.unless(vk::DynamicState::PRIMITIVE_RESTART_ENABLE, info.primitive_restart_enable),
        // SAFETY: `info` is a valid VkPipelineInputAssemblyStateCreateInfo, so its chain is valid.
        extensions: unsafe { chain::scan_plain(info.p_next) }?,
    }))
}

/// Tessellation.
///
/// # Safety
/// `info` is NULL or valid: the pipeline has tessellation stages (09022).
pub unsafe fn tessellation<'a>(
    info: *const vk::PipelineTessellationStateCreateInfo<'a>,
    dynamic: &Dynamic,
) -> Result<Option<Tessellation<'a>>, Refusal> {
    // SAFETY: pTessellationState is NULL, or valid because the pipeline has tessellation stages (09022); its
    // sType is read first, because it may be another, smaller structure (contract 6).
    let Some(head) = (unsafe { info.cast::<vk::BaseInStructure<'_>>().as_ref() }) else { return Ok(None) };
    if head.s_type != vk::StructureType::PIPELINE_TESSELLATION_STATE_CREATE_INFO {
        // Programs pass something else, and smaller, where the state is dynamic (contract 6).
        return if dynamic.has(vk::DynamicState::PATCH_CONTROL_POINTS_EXT) { Ok(None) } else { Err(WRONG) };
    }
    // SAFETY: a valid structure of this type, by its sType.
    let info = unsafe { &*info };
    Ok(Some(Tessellation {
        flags: info.flags.as_raw(),
        patch_control_points: dynamic
            .unless(vk::DynamicState::PATCH_CONTROL_POINTS_EXT, info.patch_control_points),
        // SAFETY: `info` is a valid VkPipelineTessellationStateCreateInfo, so its chain is valid.
        extensions: unsafe { chain::scan_plain(info.p_next) }?,
    }))
}

/// Viewports and scissors.
///
/// # Safety
/// `info` is NULL or valid: the pipeline does not discard (09024).
pub unsafe fn viewport<'a>(
    info: *const vk::PipelineViewportStateCreateInfo<'a>,
    dynamic: &Dynamic,
) -> Result<Option<Viewport<'a>>, Refusal> {
    // SAFETY: pViewportState is NULL, or valid because the pipeline does not discard (09024).
    let Some(info) = (unsafe { info.as_ref() }) else { return Ok(None) };
    let viewport_count = dynamic.unless(vk::DynamicState::VIEWPORT_WITH_COUNT, info.viewport_count);
    let scissor_count = dynamic.unless(vk::DynamicState::SCISSOR_WITH_COUNT, info.scissor_count);
    // SAFETY: each array is valid for its count where its state is static (04130, 04131).
    let (viewports, scissors) = unsafe {
        (
            array(info.p_viewports, dynamic.unless(vk::DynamicState::VIEWPORT, viewport_count)),
            array(info.p_scissors, dynamic.unless(vk::DynamicState::SCISSOR, scissor_count)),
        )
    };
    Ok(Some(Viewport {
        flags: info.flags.as_raw(),
        viewport_count,
        viewports: viewports
            .iter()
            .map(|v| [v.x, v.y, v.width, v.height, v.min_depth, v.max_depth].map(f32::to_bits))
            .collect(),
        scissor_count,
        scissors: scissors
            .iter()
            .map(|s| (s.offset.x, s.offset.y, s.extent.width, s.extent.height))
            .collect(),
        // SAFETY: `info` is a valid VkPipelineViewportStateCreateInfo, so its chain is valid.
        extensions: unsafe { chain::scan(info.p_next, |node| structures::viewport(node, dynamic)) }?,
    }))
}

/// Rasterization.
///
/// # Safety
/// `info` is NULL or valid (06601).
pub unsafe fn rasterization<'a>(
    info: *const vk::PipelineRasterizationStateCreateInfo<'a>,
    dynamic: &Dynamic,
) -> Result<Option<Rasterization<'a>>, Refusal> {
    use vk::DynamicState as D;
    // SAFETY: pRasterizationState is NULL or a valid structure (06601).
    let Some(info) = (unsafe { info.as_ref() }) else { return Ok(None) };
    let bias = [info.depth_bias_constant_factor, info.depth_bias_clamp, info.depth_bias_slope_factor]
        .map(|factor| dynamic.unless(D::DEPTH_BIAS, factor.to_bits()));
    Ok(Some(Rasterization {
        flags: info.flags.as_raw(),
        switches: [
            dynamic.unless(D::DEPTH_CLAMP_ENABLE_EXT, info.depth_clamp_enable),
            dynamic.unless(D::RASTERIZER_DISCARD_ENABLE, info.rasterizer_discard_enable),
            dynamic.unless(D::DEPTH_BIAS_ENABLE, info.depth_bias_enable),
        ],
        modes: [
            dynamic.unless(D::POLYGON_MODE_EXT, info.polygon_mode.as_raw() as u32),
            dynamic.unless(D::CULL_MODE, info.cull_mode.as_raw()),
            dynamic.unless(D::FRONT_FACE, info.front_face.as_raw() as u32),
        ],
        factors: [bias[0], bias[1], bias[2], dynamic.unless(D::LINE_WIDTH, info.line_width.to_bits())],
        // SAFETY: `info` is a valid VkPipelineRasterizationStateCreateInfo, so its chain is valid.
        extensions: unsafe { chain::scan_plain(info.p_next) }?,
    }))
}

/// Multisampling.
///
/// # Safety
/// `info` is NULL or valid: the pipeline does not discard (09026).
pub unsafe fn multisample<'a>(
    info: *const vk::PipelineMultisampleStateCreateInfo<'a>,
    dynamic: &Dynamic,
) -> Result<Option<Multisample<'a>>, Refusal> {
    use vk::DynamicState as D;
    // SAFETY: pMultisampleState is NULL, or valid because the pipeline does not discard (09026).
    let Some(info) = (unsafe { info.as_ref() }) else { return Ok(None) };
    // The mask's length follows rasterizationSamples even where that is dynamic.
    let words = info.rasterization_samples.as_raw().div_ceil(32);
    // SAFETY: NULL, or valid for that many words where the mask is static.
    let mask = unsafe { array(info.p_sample_mask, dynamic.unless(D::SAMPLE_MASK_EXT, words)) };
    Ok(Some(Multisample {
        flags: info.flags.as_raw(),
        samples: dynamic.unless(D::RASTERIZATION_SAMPLES_EXT, info.rasterization_samples.as_raw()),
        sample_shading: [info.sample_shading_enable, info.min_sample_shading.to_bits()],
        sample_mask: SmallVec::from_slice(mask),
        alpha: [
            dynamic.unless(D::ALPHA_TO_COVERAGE_ENABLE_EXT, info.alpha_to_coverage_enable),
            dynamic.unless(D::ALPHA_TO_ONE_ENABLE_EXT, info.alpha_to_one_enable),
        ],
        // SAFETY: `info` is a valid VkPipelineMultisampleStateCreateInfo, so its chain is valid.
        extensions: unsafe { chain::scan(info.p_next, |node| structures::multisample(node, dynamic)) }?,
    }))
}

/// Depth and stencil.
///
/// # Safety
/// `info` is NULL or valid: no discard, and a depth or stencil attachment is used (09028, 09033).
pub unsafe fn depth_stencil<'a>(
    info: *const vk::PipelineDepthStencilStateCreateInfo<'a>,
    dynamic: &Dynamic,
) -> Result<Option<DepthStencil<'a>>, Refusal> {
    use vk::DynamicState as D;
    // SAFETY: pDepthStencilState is NULL, or valid: no discard, and a depth or stencil attachment (09028, 09033).
    let Some(info) = (unsafe { info.as_ref() }) else { return Ok(None) };
    let face = |face: &vk::StencilOpState| {
        [
            dynamic.unless(D::STENCIL_OP, face.fail_op.as_raw() as u32),
            dynamic.unless(D::STENCIL_OP, face.pass_op.as_raw() as u32),
            dynamic.unless(D::STENCIL_OP, face.depth_fail_op.as_raw() as u32),
            dynamic.unless(D::STENCIL_OP, face.compare_op.as_raw() as u32),
            dynamic.unless(D::STENCIL_COMPARE_MASK, face.compare_mask),
            dynamic.unless(D::STENCIL_WRITE_MASK, face.write_mask),
            dynamic.unless(D::STENCIL_REFERENCE, face.reference),
        ]
    };
    let bounds = [info.min_depth_bounds, info.max_depth_bounds]
        .map(|bound| dynamic.unless(D::DEPTH_BOUNDS, bound.to_bits()));
    Ok(Some(DepthStencil {
        flags: info.flags.as_raw(),
        depth: [
            dynamic.unless(D::DEPTH_TEST_ENABLE, info.depth_test_enable),
            dynamic.unless(D::DEPTH_WRITE_ENABLE, info.depth_write_enable),
            dynamic.unless(D::DEPTH_COMPARE_OP, info.depth_compare_op.as_raw() as u32),
            dynamic.unless(D::DEPTH_BOUNDS_TEST_ENABLE, info.depth_bounds_test_enable),
            dynamic.unless(D::STENCIL_TEST_ENABLE, info.stencil_test_enable),
        ],
        stencil: [face(&info.front), face(&info.back)],
        bounds,
        // SAFETY: `info` is a valid VkPipelineDepthStencilStateCreateInfo, so its chain is valid.
        extensions: unsafe { chain::scan_plain(info.p_next) }?,
    }))
}

/// Blending.
///
/// # Safety
/// `info` is NULL or valid: no discard, and a colour attachment is used (09030, 09037).
pub unsafe fn color_blend<'a>(
    info: *const vk::PipelineColorBlendStateCreateInfo<'a>,
    dynamic: &Dynamic,
    advanced_blend: bool,
) -> Result<Option<ColorBlend<'a>>, Refusal> {
    use vk::DynamicState as D;
    // SAFETY: pColorBlendState is NULL, or valid: no discard, and a colour attachment (09030, 09037).
    let Some(info) = (unsafe { info.as_ref() }) else { return Ok(None) };
    let all_dynamic = dynamic.has(D::COLOR_BLEND_ENABLE_EXT)
        && dynamic.has(D::COLOR_BLEND_EQUATION_EXT)
        && dynamic.has(D::COLOR_WRITE_MASK_EXT)
        && (dynamic.has(D::COLOR_BLEND_ADVANCED_EXT) || !advanced_blend);
    let count = if all_dynamic { 0 } else { info.attachment_count };
    // SAFETY: valid for its count unless everything in it is dynamic (contract 6).
    let attachments = unsafe { array(info.p_attachments, count) };
    // Operations of advanced blending are set by another command.
    let equation = |value: i32| match advanced_blend && !dynamic.has(D::COLOR_BLEND_ADVANCED_EXT) {
        true => value as u32,
        false => dynamic.unless(D::COLOR_BLEND_EQUATION_EXT, value as u32),
    };
    let words = |a: &vk::PipelineColorBlendAttachmentState| {
        [
            dynamic.unless(D::COLOR_BLEND_ENABLE_EXT, a.blend_enable),
            equation(a.src_color_blend_factor.as_raw()),
            equation(a.dst_color_blend_factor.as_raw()),
            equation(a.color_blend_op.as_raw()),
            equation(a.src_alpha_blend_factor.as_raw()),
            equation(a.dst_alpha_blend_factor.as_raw()),
            equation(a.alpha_blend_op.as_raw()),
            dynamic.unless(D::COLOR_WRITE_MASK_EXT, a.color_write_mask.as_raw()),
        ]
    };
    Ok(Some(ColorBlend {
        flags: info.flags.as_raw(),
        logic: [
            dynamic.unless(D::LOGIC_OP_ENABLE_EXT, info.logic_op_enable),
            dynamic.unless(D::LOGIC_OP_EXT, info.logic_op.as_raw() as u32),
        ],
        attachment_count: info.attachment_count,
        attachments: attachments.iter().map(words).collect(),
        constants: info.blend_constants.map(|c| dynamic.unless(D::BLEND_CONSTANTS, c.to_bits())),
        // SAFETY: `info` is a valid VkPipelineColorBlendStateCreateInfo, so its chain is valid.
        extensions: unsafe { chain::scan(info.p_next, |node| structures::color_blend(node, dynamic)) }?,
    }))
}
