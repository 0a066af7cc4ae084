//! The fixed state of graphics pipelines in the driver's key. A member whose state is dynamic is not part of the key
//! and is not read (contract 6).

use ash::vk::{self, DynamicState as D};

use crate::chain;
use crate::content::{plain_chain, slice};
use crate::hash::Hasher;
use crate::shape::{FRAGMENT, OUTPUT, PRE_RASTER, Shape, VERTEX_INPUT};

/// Adds all state that matters.
///
/// # Safety
/// `info` is the create info of a vkCreateGraphicsPipelines call that has not returned; each of its pointers is valid
/// where contract 6 lets a driver read it.
pub unsafe fn add(key: &mut Hasher, info: &vk::GraphicsPipelineCreateInfo<'_>, shape: &Shape) {
    let drawn = !shape.discard;
    // SAFETY: each pointer is read under the condition that contract 6 gives for it.
    unsafe {
        if shape.any(VERTEX_INPUT) && !shape.mesh {
            if !shape.dynamic(D::VERTEX_INPUT_EXT) {
                info.p_vertex_input_state.as_ref().inspect(|state| vertex_input(key, state, shape));
            }
            info.p_input_assembly_state.as_ref().inspect(|state| assembly(key, state, shape));
        }
        if shape.any(PRE_RASTER) {
            if shape.tessellation && !shape.dynamic(D::PATCH_CONTROL_POINTS_EXT) {
                info.p_tessellation_state.as_ref().inspect(|state| tessellation(key, state));
            }
            info.p_rasterization_state.as_ref().inspect(|state| rasterization(key, state, shape));
            let counted = shape.dynamic(D::VIEWPORT_WITH_COUNT) && shape.dynamic(D::SCISSOR_WITH_COUNT);
            if drawn && !counted {
                info.p_viewport_state.as_ref().inspect(|state| viewport(key, state, shape));
            }
            discard_rectangles(key, info, shape);
        }
        let sampled = shape.any(OUTPUT) || shape.any(FRAGMENT) && info.render_pass != vk::RenderPass::null();
        if drawn && sampled {
            info.p_multisample_state.as_ref().inspect(|state| multisample(key, state, shape));
        }
        if drawn && shape.any(FRAGMENT) && shape.subpass.depth {
            info.p_depth_stencil_state.as_ref().inspect(|state| depth_stencil(key, state, shape));
        }
        if drawn && shape.any(OUTPUT) && shape.subpass.colour {
            info.p_color_blend_state.as_ref().inspect(|state| blend(key, state, shape));
        }
    }
}

/// # Safety
/// `state` is valid with its arrays and chain until the program's call returns.
unsafe fn vertex_input(key: &mut Hasher, state: &vk::PipelineVertexInputStateCreateInfo<'_>, shape: &Shape) {
    key.bytes(b"vertex input");
    // SAFETY: the caller passes a valid state, so each array has the number of elements that its count says.
    unsafe {
        key.word(state.vertex_binding_description_count);
        for binding in slice(state.p_vertex_binding_descriptions, state.vertex_binding_description_count) {
            key.word(binding.binding);
            key.signed(binding.input_rate.as_raw());
            if !shape.dynamic(D::VERTEX_INPUT_BINDING_STRIDE) {
                key.word(binding.stride);
            }
        }
        for attribute in
            slice(state.p_vertex_attribute_descriptions, state.vertex_attribute_description_count)
        {
            key.word(attribute.location);
            key.word(attribute.binding);
            key.signed(attribute.format.as_raw());
            key.word(attribute.offset);
        }
        if let Some(divisors) =
            chain::find::<vk::PipelineVertexInputDivisorStateCreateInfoKHR<'_>>(state.p_next)
        {
            for divisor in slice(divisors.p_vertex_binding_divisors, divisors.vertex_binding_divisor_count) {
                key.word(divisor.binding);
                key.word(divisor.divisor);
            }
        }
    }
}

fn assembly(key: &mut Hasher, state: &vk::PipelineInputAssemblyStateCreateInfo<'_>, shape: &Shape) {
    key.bytes(b"assembly");
    let topology = state.topology.as_raw();
    if shape.dynamic(D::PRIMITIVE_TOPOLOGY) {
        // Its class is static: points, lines, triangles, patches.
        key.word(match topology {
            0 => 0,
            1 | 2 | 6 | 7 => 1,
            10 => 3,
            _ => 2,
        });
    } else {
        key.signed(topology);
    }
    if !shape.dynamic(D::PRIMITIVE_RESTART_ENABLE) {
        key.word(state.primitive_restart_enable);
    }
}

/// # Safety
/// `state` is valid with its chain until the program's call returns.
unsafe fn tessellation(key: &mut Hasher, state: &vk::PipelineTessellationStateCreateInfo<'_>) {
    key.bytes(b"tessellation");
    key.word(state.patch_control_points);
    // SAFETY: the caller passes a valid state, so its chain is valid until the program's call returns.
    unsafe { plain_chain(key, state.p_next) };
}

/// # Safety
/// `state` is valid with its chain until the program's call returns.
unsafe fn rasterization(
    key: &mut Hasher,
    state: &vk::PipelineRasterizationStateCreateInfo<'_>,
    shape: &Shape,
) {
    key.bytes(b"rasterization");
    let mut word = |dynamic: D, value: u32| {
        if !shape.dynamic(dynamic) {
            key.signed(dynamic.as_raw());
            key.word(value);
        }
    };
    word(D::DEPTH_CLAMP_ENABLE_EXT, state.depth_clamp_enable);
    word(D::RASTERIZER_DISCARD_ENABLE, state.rasterizer_discard_enable);
    word(D::POLYGON_MODE_EXT, state.polygon_mode.as_raw() as u32);
    word(D::CULL_MODE, state.cull_mode.as_raw());
    word(D::FRONT_FACE, state.front_face.as_raw() as u32);
    word(D::DEPTH_BIAS_ENABLE, state.depth_bias_enable);
    word(D::DEPTH_BIAS, state.depth_bias_constant_factor.to_bits());
    word(D::DEPTH_BIAS, state.depth_bias_clamp.to_bits());
    word(D::DEPTH_BIAS, state.depth_bias_slope_factor.to_bits());
    word(D::LINE_WIDTH, state.line_width.to_bits());
    // SAFETY: the caller passes a valid state, so its chain is valid until the program's call returns.
    unsafe { plain_chain(key, state.p_next) };
}

/// # Safety
/// `state` and its chain are valid until the program's call returns, and its arrays too where they are static.
unsafe fn viewport(key: &mut Hasher, state: &vk::PipelineViewportStateCreateInfo<'_>, shape: &Shape) {
    key.bytes(b"viewport");
    // SAFETY: the arrays are read only where their state is static (04130, 04131).
    unsafe {
        if !shape.dynamic(D::VIEWPORT_WITH_COUNT) {
            key.word(state.viewport_count);
            if !shape.dynamic(D::VIEWPORT) {
                for one in slice(state.p_viewports, state.viewport_count) {
                    [one.x, one.y, one.width, one.height, one.min_depth, one.max_depth]
                        .iter()
                        .for_each(|&value| key.float(value));
                }
            }
        }
        if !shape.dynamic(D::SCISSOR_WITH_COUNT) {
            key.word(state.scissor_count);
            if !shape.dynamic(D::SCISSOR) {
                slice(state.p_scissors, state.scissor_count).iter().for_each(|one| rectangle(key, one));
            }
        }
        plain_chain(key, state.p_next);
    }
}

fn rectangle(key: &mut Hasher, one: &vk::Rect2D) {
    key.signed(one.offset.x);
    key.signed(one.offset.y);
    key.word(one.extent.width);
    key.word(one.extent.height);
}

/// # Safety
/// The chain of `info` is valid until the program's call returns.
unsafe fn discard_rectangles(key: &mut Hasher, info: &vk::GraphicsPipelineCreateInfo<'_>, shape: &Shape) {
    // SAFETY: the caller passes a valid chain; rectangles are read only if they are static.
    unsafe {
        if let Some(state) = chain::find::<vk::PipelineDiscardRectangleStateCreateInfoEXT<'_>>(info.p_next) {
            key.signed(state.discard_rectangle_mode.as_raw());
            key.word(state.discard_rectangle_count);
            if !shape.dynamic(D::DISCARD_RECTANGLE_EXT) {
                let rectangles = slice(state.p_discard_rectangles, state.discard_rectangle_count);
                rectangles.iter().for_each(|one| rectangle(key, one));
            }
        }
    }
}

/// # Safety
/// `state` and its chain are valid until the program's call returns, and pSampleMask too where it is static.
unsafe fn multisample(key: &mut Hasher, state: &vk::PipelineMultisampleStateCreateInfo<'_>, shape: &Shape) {
    key.bytes(b"multisample");
    let samples = state.rasterization_samples.as_raw();
    if !shape.dynamic(D::RASTERIZATION_SAMPLES_EXT) {
        key.word(samples);
    }
    key.word(state.sample_shading_enable);
    key.float(state.min_sample_shading);
    if !shape.dynamic(D::SAMPLE_MASK_EXT) && !state.p_sample_mask.is_null() {
        // SAFETY: pSampleMask is NULL or has one word for every 32 samples, even if their number is dynamic.
        unsafe { slice(state.p_sample_mask, samples.div_ceil(32)) }.iter().for_each(|&word| key.word(word));
    }
    if !shape.dynamic(D::ALPHA_TO_COVERAGE_ENABLE_EXT) {
        key.word(state.alpha_to_coverage_enable);
    }
    if !shape.dynamic(D::ALPHA_TO_ONE_ENABLE_EXT) {
        key.word(state.alpha_to_one_enable);
    }
    // SAFETY: the caller passes a valid state, so its chain is valid until the program's call returns.
    unsafe { plain_chain(key, state.p_next) };
}

/// # Safety
/// `state` is valid with its chain until the program's call returns.
unsafe fn depth_stencil(
    key: &mut Hasher,
    state: &vk::PipelineDepthStencilStateCreateInfo<'_>,
    shape: &Shape,
) {
    key.bytes(b"depth stencil");
    key.word(state.flags.as_raw());
    let mut word = |dynamic: D, value: u32| {
        if !shape.dynamic(dynamic) {
            key.signed(dynamic.as_raw());
            key.word(value);
        }
    };
    word(D::DEPTH_TEST_ENABLE, state.depth_test_enable);
    word(D::DEPTH_WRITE_ENABLE, state.depth_write_enable);
    word(D::DEPTH_COMPARE_OP, state.depth_compare_op.as_raw() as u32);
    word(D::DEPTH_BOUNDS_TEST_ENABLE, state.depth_bounds_test_enable);
    word(D::DEPTH_BOUNDS, state.min_depth_bounds.to_bits());
    word(D::DEPTH_BOUNDS, state.max_depth_bounds.to_bits());
    word(D::STENCIL_TEST_ENABLE, state.stencil_test_enable);
    for face in [&state.front, &state.back] {
        word(D::STENCIL_OP, face.fail_op.as_raw() as u32);
        word(D::STENCIL_OP, face.pass_op.as_raw() as u32);
        word(D::STENCIL_OP, face.depth_fail_op.as_raw() as u32);
        word(D::STENCIL_OP, face.compare_op.as_raw() as u32);
        word(D::STENCIL_COMPARE_MASK, face.compare_mask);
        word(D::STENCIL_WRITE_MASK, face.write_mask);
        word(D::STENCIL_REFERENCE, face.reference);
    }
    // SAFETY: the caller passes a valid state, so its chain is valid until the program's call returns.
    unsafe { plain_chain(key, state.p_next) };
}

/// # Safety
/// `state` and its chain are valid until the program's call returns, and its attachments too unless everything in them
/// is dynamic.
unsafe fn blend(key: &mut Hasher, state: &vk::PipelineColorBlendStateCreateInfo<'_>, shape: &Shape) {
    key.bytes(b"blend");
    key.word(state.flags.as_raw());
    if !shape.dynamic(D::LOGIC_OP_ENABLE_EXT) {
        key.word(state.logic_op_enable);
    }
    if !shape.dynamic(D::LOGIC_OP_EXT) {
        key.signed(state.logic_op.as_raw());
    }
    if !shape.dynamic(D::BLEND_CONSTANTS) {
        state.blend_constants.iter().for_each(|&value| key.float(value));
    }
    let moving = [D::COLOR_BLEND_ENABLE_EXT, D::COLOR_BLEND_EQUATION_EXT, D::COLOR_WRITE_MASK_EXT]
        .map(|dynamic| shape.dynamic(dynamic));
    let advanced = shape.advanced_blend && !shape.dynamic(D::COLOR_BLEND_ADVANCED_EXT);
    // SAFETY: the attachments are valid unless all of their state is dynamic; the chain is valid.
    unsafe {
        if moving != [true; 3] || advanced {
            key.word(state.attachment_count);
            for at in slice(state.p_attachments, state.attachment_count) {
                if !moving[0] {
                    key.word(at.blend_enable);
                }
                if !moving[1] {
                    for factor in [
                        at.src_color_blend_factor,
                        at.dst_color_blend_factor,
                        at.src_alpha_blend_factor,
                        at.dst_alpha_blend_factor,
                    ] {
                        key.signed(factor.as_raw());
                    }
                    key.signed(at.color_blend_op.as_raw());
                    key.signed(at.alpha_blend_op.as_raw());
                }
                if !moving[2] {
                    key.word(at.color_write_mask.as_raw());
                }
            }
        }
        let writes = chain::find::<vk::PipelineColorWriteCreateInfoEXT<'_>>(state.p_next)
            .filter(|_| !shape.dynamic(D::COLOR_WRITE_ENABLE_EXT));
        if let Some(writes) = writes {
            slice(writes.p_color_write_enables, writes.attachment_count).iter().for_each(|&on| key.word(on));
        }
        plain_chain(key, state.p_next);
    }
}
