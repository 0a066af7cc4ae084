//! Complete graphics pipelines: which state is read follows contract 6 row by row.

use ash::vk;
use smallvec::SmallVec;

use super::compute::{MAX_STAGES, Scratch};
use super::stage::{self, Steering};
use super::{Objects, SubpassUse, array};
use crate::recipe::chain::{self, Refusal};
use crate::recipe::model::{
    ColorBlend, DepthStencil, Graphics, InputAssembly, Multisample, Pipeline, Rasterization, Recipe, SCHEMA,
    Target, Tessellation, VertexInput, Viewport,
};
use crate::stats::BypassReason;

const WRONG: Refusal = Refusal::plain(BypassReason::WrongStructure);

/// Dynamic states of the bindings. Another one may declare state ignored that we would read, so it refuses.
fn known_dynamic_state(state: i32) -> bool {
    matches!(state,
        0..=8
        | 1_000_087_000
        | 1_000_099_000..=1_000_099_002
        | 1_000_143_000
        | 1_000_164_004
        | 1_000_164_006
        | 1_000_205_000..=1_000_205_001
        | 1_000_226_000
        | 1_000_259_000
        | 1_000_267_000..=1_000_267_011
        | 1_000_352_000
        | 1_000_377_000..=1_000_377_004
        | 1_000_381_000
        | 1_000_455_002..=1_000_455_032
        | 1_000_524_000)
}

/// The dynamic states of one pipeline, sorted.
struct Dynamic(SmallVec<[i32; 24]>);

impl Dynamic {
    /// # Safety
    /// `info` is NULL or valid.
    unsafe fn read(info: *const vk::PipelineDynamicStateCreateInfo<'_>) -> Result<Dynamic, Refusal> {
        let mut states = SmallVec::new();
        // SAFETY: the caller's contract; the array is valid for its count; chains are scanned as such.
        unsafe {
            if let Some(info) = info.as_ref() {
                no_special(info.p_next)?;
                let listed = array(info.p_dynamic_states, info.dynamic_state_count);
                states.extend(listed.iter().map(|state| state.as_raw()));
            }
        }
        states.sort_unstable();
        states.dedup();
        match states.iter().find(|&&state| !known_dynamic_state(state)) {
            Some(_) => Err(Refusal {
                reason: BypassReason::UnknownStructure,
                s_type: vk::StructureType::PIPELINE_DYNAMIC_STATE_CREATE_INFO.as_raw(),
            }),
            None => Ok(Dynamic(states)),
        }
    }

    fn has(&self, state: vk::DynamicState) -> bool {
        self.0.binary_search(&state.as_raw()).is_ok()
    }

    /// The value where the state is static, 0 where the driver ignores it.
    fn unless(&self, state: vk::DynamicState, value: u32) -> u32 {
        if self.has(state) { 0 } else { value }
    }
}

/// # Safety
/// As [`chain::scan`].
unsafe fn no_special<'a>(
    p_next: *const std::ffi::c_void,
) -> Result<crate::recipe::model::Extensions<'a>, Refusal> {
    // SAFETY: the caller's contract.
    unsafe { chain::scan(p_next, |_| Ok(false)) }
}

/// Captures a complete graphics pipeline. Libraries and links are refused.
///
/// # Safety
/// `info` is a valid create info for `'a`.
pub unsafe fn graphics<'a>(
    info: &vk::GraphicsPipelineCreateInfo<'a>,
    objects: &impl Objects,
    scratch: &'a mut Scratch,
) -> Result<(Recipe<'a>, Steering), Refusal> {
    if info.s_type != vk::StructureType::GRAPHICS_PIPELINE_CREATE_INFO {
        return Err(Refusal { reason: BypassReason::WrongStructure, s_type: info.s_type.as_raw() });
    }
    // SAFETY: the chain of a valid create info.
    let (flags, mut steering) = unsafe { stage::flags(info.flags, info.p_next) }?;
    let mut rendering: Option<&vk::PipelineRenderingCreateInfo<'_>> = None;
    // SAFETY: as above; the cast follows the sType.
    let extensions = unsafe {
        chain::scan(info.p_next, |node| match node.s_type {
            vk::StructureType::PIPELINE_CREATE_FLAGS_2_CREATE_INFO_KHR => Ok(true),
            vk::StructureType::PIPELINE_RENDERING_CREATE_INFO => {
                rendering = Some(&*(&raw const *node).cast());
                Ok(true)
            }
            _ => Ok(false),
        })
    }?;
    // SAFETY: pDynamicState is NULL or valid.
    let dynamic = unsafe { Dynamic::read(info.p_dynamic_state) }?;

    // The shader stages: a complete pipeline always has both subsets that read them (06600).
    scratch.algorithm = objects.algorithm();
    // SAFETY: pStages is valid for stageCount stages.
    let given = unsafe { array(info.p_stages, info.stage_count) };
    if given.is_empty() || given.len() > MAX_STAGES {
        return Err(WRONG);
    }
    let mut stages = SmallVec::new();
    for (info, kept) in given.iter().zip(&mut scratch.identifiers) {
        // SAFETY: each is a valid stage.
        stages.push(unsafe { stage::stage(info, objects, &scratch.algorithm, kept, &mut steering) }?);
    }
    let present = given.iter().fold(vk::ShaderStageFlags::empty(), |all, info| all | info.stage);
    let mesh = present.intersects(vk::ShaderStageFlags::TASK_EXT | vk::ShaderStageFlags::MESH_EXT);
    let tessellated = present.intersects(
        vk::ShaderStageFlags::TESSELLATION_CONTROL | vk::ShaderStageFlags::TESSELLATION_EVALUATION,
    );

    // SAFETY: NULL or valid in a complete pipeline (NULL where eight states are dynamic, 06601).
    let rasterization = unsafe { rasterization(info.p_rasterization_state, &dynamic) }?;
    // Discard counts only where it is static (contract 6).
    let discard = rasterization.as_ref().is_some_and(|state| state.switches[1] != 0);

    // SAFETY: each pointer is handed on only in the cases in which contract 6 lets it be read.
    unsafe {
        let vertex_input = if mesh || dynamic.has(vk::DynamicState::VERTEX_INPUT_EXT) {
            None
        } else {
            Some(vertex_input(info.p_vertex_input_state.as_ref().ok_or(WRONG)?)?)
        };
        let input_assembly = if mesh { None } else { input_assembly(info.p_input_assembly_state)? };
        let tessellation =
            if tessellated { tessellation(info.p_tessellation_state, &dynamic)? } else { None };
        let (target, uses) = target(info, rendering, objects, discard)?;
        let viewport = if discard { None } else { viewport(info.p_viewport_state, &dynamic)? };
        let multisample = if discard { None } else { multisample(info.p_multisample_state, &dynamic)? };
        let depth_stencil = if !discard && uses.depth_stencil {
            depth_stencil(info.p_depth_stencil_state, &dynamic)?
        } else {
            None
        };
        let color_blend = if !discard && uses.color {
            color_blend(info.p_color_blend_state, &dynamic, objects.advanced_blend())?
        } else {
            None
        };
        let layout = objects.layout(info.layout)?;
        let pipeline = Pipeline::Graphics(Graphics {
            flags,
            stages,
            vertex_input,
            input_assembly,
            tessellation,
            viewport,
            rasterization,
            multisample,
            depth_stencil,
            color_blend,
            dynamic: dynamic.0,
            layout,
            target,
            extensions,
        });
        Ok((Recipe { schema: SCHEMA, pipeline }, steering))
    }
}

/// What the pipeline renders to. Formats are read only with fragment output state and no render pass (06579).
fn target(
    info: &vk::GraphicsPipelineCreateInfo<'_>,
    rendering: Option<&vk::PipelineRenderingCreateInfo<'_>>,
    objects: &impl Objects,
    discard: bool,
) -> Result<(Target, SubpassUse), Refusal> {
    if info.render_pass != vk::RenderPass::null() {
        let (render_pass, uses) = objects.render_pass(info.render_pass, info.subpass)?;
        return Ok((Target::RenderPass { render_pass, subpass: info.subpass }, uses));
    }
    let Some(rendering) = rendering else {
        let none = Target::Dynamic { view_mask: 0, color: SmallVec::new(), depth: 0, stencil: 0 };
        return Ok((none, SubpassUse::default()));
    };
    let view_mask = rendering.view_mask;
    if discard {
        let target = Target::Dynamic { view_mask, color: SmallVec::new(), depth: 0, stencil: 0 };
        return Ok((target, SubpassUse::default()));
    }
    // SAFETY: valid for its count where the pipeline has fragment output state and no render pass (06579).
    let formats = unsafe { array(rendering.p_color_attachment_formats, rendering.color_attachment_count) };
    let color: SmallVec<[i32; 8]> = formats.iter().map(|format| format.as_raw()).collect();
    let depth = rendering.depth_attachment_format.as_raw();
    let stencil = rendering.stencil_attachment_format.as_raw();
    let uses = SubpassUse {
        color: color.iter().any(|&format| format != vk::Format::UNDEFINED.as_raw()),
        depth_stencil: depth != 0 || stencil != 0,
    };
    Ok((Target::Dynamic { view_mask, color, depth, stencil }, uses))
}

/// # Safety
/// `info` is valid.
unsafe fn vertex_input<'a>(
    info: &vk::PipelineVertexInputStateCreateInfo<'a>,
) -> Result<VertexInput<'a>, Refusal> {
    let mut divisors: SmallVec<[(u32, u32); 2]> = SmallVec::new();
    // SAFETY: the chain and both arrays of a valid structure; the cast follows the sType, and the divisors
    // are valid for their count.
    unsafe {
        let extensions = chain::scan(info.p_next, |node| {
            if node.s_type != vk::StructureType::PIPELINE_VERTEX_INPUT_DIVISOR_STATE_CREATE_INFO_KHR {
                return Ok(false);
            }
            let state = &*(&raw const *node).cast::<vk::PipelineVertexInputDivisorStateCreateInfoKHR<'_>>();
            let listed = array(state.p_vertex_binding_divisors, state.vertex_binding_divisor_count);
            divisors.extend(listed.iter().map(|divisor| (divisor.binding, divisor.divisor)));
            Ok(true)
        })?;
        let bindings = array(info.p_vertex_binding_descriptions, info.vertex_binding_description_count);
        let mut bindings: SmallVec<[_; 4]> =
            bindings.iter().map(|b| (b.binding, b.stride, b.input_rate.as_raw())).collect();
        let attributes = array(info.p_vertex_attribute_descriptions, info.vertex_attribute_description_count);
        let mut attributes: SmallVec<[_; 8]> =
            attributes.iter().map(|a| (a.location, a.binding, a.format.as_raw(), a.offset)).collect();
        bindings.sort_unstable();
        attributes.sort_unstable();
        divisors.sort_unstable();
        Ok(VertexInput { flags: info.flags.as_raw(), bindings, attributes, divisors, extensions })
    }
}

/// # Safety
/// `info` is NULL or valid (09031: NULL only where topology and restart are dynamic).
unsafe fn input_assembly<'a>(
    info: *const vk::PipelineInputAssemblyStateCreateInfo<'a>,
) -> Result<Option<InputAssembly<'a>>, Refusal> {
    // SAFETY: the caller's contract.
    let Some(info) = (unsafe { info.as_ref() }) else { return Ok(None) };
    Ok(Some(InputAssembly {
        flags: info.flags.as_raw(),
        topology: info.topology.as_raw(),
        restart: info.primitive_restart_enable,
        // SAFETY: the chain of a valid structure.
        extensions: unsafe { no_special(info.p_next) }?,
    }))
}

/// # Safety
/// `info` is NULL or valid: the pipeline has tessellation stages (09022).
unsafe fn tessellation<'a>(
    info: *const vk::PipelineTessellationStateCreateInfo<'a>,
    dynamic: &Dynamic,
) -> Result<Option<Tessellation<'a>>, Refusal> {
    // SAFETY: the caller's contract.
    let Some(info) = (unsafe { info.as_ref() }) else { return Ok(None) };
    if info.s_type != vk::StructureType::PIPELINE_TESSELLATION_STATE_CREATE_INFO {
        // Programs pass something else where the state is dynamic (contract 6).
        return if dynamic.has(vk::DynamicState::PATCH_CONTROL_POINTS_EXT) { Ok(None) } else { Err(WRONG) };
    }
    Ok(Some(Tessellation {
        flags: info.flags.as_raw(),
        patch_control_points: dynamic
            .unless(vk::DynamicState::PATCH_CONTROL_POINTS_EXT, info.patch_control_points),
        // SAFETY: the chain of a valid structure.
        extensions: unsafe { no_special(info.p_next) }?,
    }))
}

/// # Safety
/// `info` is NULL or valid: the pipeline does not discard (09024).
unsafe fn viewport<'a>(
    info: *const vk::PipelineViewportStateCreateInfo<'a>,
    dynamic: &Dynamic,
) -> Result<Option<Viewport<'a>>, Refusal> {
    // SAFETY: the caller's contract.
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
        // SAFETY: the chain of a valid structure.
        extensions: unsafe { no_special(info.p_next) }?,
    }))
}

/// # Safety
/// `info` is NULL or valid (06601).
unsafe fn rasterization<'a>(
    info: *const vk::PipelineRasterizationStateCreateInfo<'a>,
    dynamic: &Dynamic,
) -> Result<Option<Rasterization<'a>>, Refusal> {
    use vk::DynamicState as D;
    // SAFETY: the caller's contract.
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
        // SAFETY: the chain of a valid structure.
        extensions: unsafe { no_special(info.p_next) }?,
    }))
}

/// # Safety
/// `info` is NULL or valid: the pipeline does not discard (09026).
unsafe fn multisample<'a>(
    info: *const vk::PipelineMultisampleStateCreateInfo<'a>,
    dynamic: &Dynamic,
) -> Result<Option<Multisample<'a>>, Refusal> {
    use vk::DynamicState as D;
    // SAFETY: the caller's contract.
    let Some(info) = (unsafe { info.as_ref() }) else { return Ok(None) };
    // The mask's length follows rasterizationSamples even where that is dynamic.
    let words = info.rasterization_samples.as_raw().div_ceil(32);
    // SAFETY: NULL, or valid for that many words where the mask is static.
    let mask = unsafe { array(info.p_sample_mask, dynamic.unless(D::SAMPLE_MASK_EXT, words)) };
    Ok(Some(Multisample {
        flags: info.flags.as_raw(),
        samples: info.rasterization_samples.as_raw(),
        sample_shading: [info.sample_shading_enable, info.min_sample_shading.to_bits()],
        sample_mask: SmallVec::from_slice(mask),
        alpha: [
            dynamic.unless(D::ALPHA_TO_COVERAGE_ENABLE_EXT, info.alpha_to_coverage_enable),
            dynamic.unless(D::ALPHA_TO_ONE_ENABLE_EXT, info.alpha_to_one_enable),
        ],
        // SAFETY: the chain of a valid structure.
        extensions: unsafe { no_special(info.p_next) }?,
    }))
}

/// # Safety
/// `info` is NULL or valid: no discard, and a depth or stencil attachment is used (09028, 09033).
unsafe fn depth_stencil<'a>(
    info: *const vk::PipelineDepthStencilStateCreateInfo<'a>,
    dynamic: &Dynamic,
) -> Result<Option<DepthStencil<'a>>, Refusal> {
    use vk::DynamicState as D;
    // SAFETY: the caller's contract.
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
        // SAFETY: the chain of a valid structure.
        extensions: unsafe { no_special(info.p_next) }?,
    }))
}

/// # Safety
/// `info` is NULL or valid: no discard, and a colour attachment is used (09030, 09037).
unsafe fn color_blend<'a>(
    info: *const vk::PipelineColorBlendStateCreateInfo<'a>,
    dynamic: &Dynamic,
    advanced_blend: bool,
) -> Result<Option<ColorBlend<'a>>, Refusal> {
    use vk::DynamicState as D;
    // SAFETY: the caller's contract.
    let Some(info) = (unsafe { info.as_ref() }) else { return Ok(None) };
    let all_dynamic = dynamic.has(D::COLOR_BLEND_ENABLE_EXT)
        && dynamic.has(D::COLOR_BLEND_EQUATION_EXT)
        && dynamic.has(D::COLOR_WRITE_MASK_EXT)
        && (dynamic.has(D::COLOR_BLEND_ADVANCED_EXT) || !advanced_blend);
    let count = if all_dynamic { 0 } else { info.attachment_count };
    // SAFETY: valid for its count unless everything in it is dynamic (contract 6).
    let attachments = unsafe { array(info.p_attachments, count) };
    let words = |a: &vk::PipelineColorBlendAttachmentState| {
        [
            a.blend_enable,
            a.src_color_blend_factor.as_raw() as u32,
            a.dst_color_blend_factor.as_raw() as u32,
            a.color_blend_op.as_raw() as u32,
            a.src_alpha_blend_factor.as_raw() as u32,
            a.dst_alpha_blend_factor.as_raw() as u32,
            a.alpha_blend_op.as_raw() as u32,
            a.color_write_mask.as_raw(),
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
        // SAFETY: the chain of a valid structure.
        extensions: unsafe { no_special(info.p_next) }?,
    }))
}
