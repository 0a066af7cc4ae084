//! Structures with pointers in the chains of graphics pipelines, made of the words that capture wrote. Every
//! array is as long as its count.

use ash::vk::{self, DynamicState as D, StructureType as S};

use crate::capture::graphics::Dynamic;
use crate::rebuild::arena::{Arena, Chain, List};
use crate::rebuild::words::Words;
use crate::rebuild::{Limits, RebuildError, within};
use vkstash_model::newer;
use vkstash_model::recipe::Flattened;

type Built = Result<(), RebuildError>;

fn rectangle([x, y, width, height]: [u32; 4]) -> vk::Rect2D {
    vk::Rect2D { offset: vk::Offset2D { x: x as i32, y: y as i32 }, extent: vk::Extent2D { width, height } }
}

/// An array that is as long as its count. Where the state is dynamic, or switched off, capture has not read it: then
/// its elements are placeholders, for the specification wants a valid pointer even to some arrays that nobody reads.
fn whole<T: Copy>(
    arena: &mut Arena,
    words: &Words<'_>,
    list: List<T>,
    is_read: bool,
    count: u32,
    placeholder: T,
) -> Result<List<T>, RebuildError> {
    words.ensure(list.count == if is_read { count } else { 0 })?;
    if is_read { Ok(list) } else { arena.repeat(placeholder, count) }
}

/// Chained to VkPipelineViewportStateCreateInfo.
pub fn viewport(
    arena: &mut Arena,
    chain: &mut Chain,
    flattened: &Flattened,
    dynamic: &Dynamic,
    limits: Limits,
) -> Built {
    let words = &mut Words::of(flattened);
    match S::from_raw(flattened.s_type) {
        S::PIPELINE_VIEWPORT_W_SCALING_STATE_CREATE_INFO_NV => {
            let info = w_scaling(arena, words, dynamic, limits)?;
            chain.push(arena, info)?;
        }
        S::PIPELINE_VIEWPORT_SWIZZLE_STATE_CREATE_INFO_NV => {
            let info = swizzles(arena, words, dynamic, limits)?;
            chain.push(arena, info)?;
        }
        S::PIPELINE_VIEWPORT_EXCLUSIVE_SCISSOR_STATE_CREATE_INFO_NV => {
            let info = exclusive_scissors(arena, words, dynamic, limits)?;
            chain.push(arena, info)?;
        }
        S::PIPELINE_VIEWPORT_SHADING_RATE_IMAGE_STATE_CREATE_INFO_NV => {
            let info = shading_rate_palettes(arena, words, dynamic, limits)?;
            chain.push(arena, info)?;
        }
        S::PIPELINE_VIEWPORT_COARSE_SAMPLE_ORDER_STATE_CREATE_INFO_NV => {
            let info = coarse_sample_orders(arena, words)?;
            chain.push(arena, info)?;
        }
        newer::DEPTH_CLAMP_CONTROL => {
            let info = depth_clamp_control(arena, words, dynamic)?;
            chain.push(arena, info)?;
        }
        _ => return Err(words.damaged()),
    }
    words.end()
}

fn w_scaling(
    arena: &mut Arena,
    words: &mut Words<'_>,
    dynamic: &Dynamic,
    limits: Limits,
) -> Result<vk::PipelineViewportWScalingStateCreateInfoNV<'static>, RebuildError> {
    let [enable, count] = words.words()?;
    within(count, limits.viewports, "viewports")?;
    let scalings = words.list(arena, |[x, y]| vk::ViewportWScalingNV {
        xcoeff: f32::from_bits(x),
        ycoeff: f32::from_bits(y),
    })?;
    let counts = enable != 0 || dynamic.has(D::VIEWPORT_W_SCALING_ENABLE_NV);
    let is_read = counts && !dynamic.has(D::VIEWPORT_W_SCALING_NV);
    let scalings = whole(arena, words, scalings, is_read, count, Default::default())?;
    Ok(vk::PipelineViewportWScalingStateCreateInfoNV {
        viewport_w_scaling_enable: enable,
        viewport_count: count,
        p_viewport_w_scalings: scalings.pointer,
        ..Default::default()
    })
}

fn swizzles(
    arena: &mut Arena,
    words: &mut Words<'_>,
    dynamic: &Dynamic,
    limits: Limits,
) -> Result<vk::PipelineViewportSwizzleStateCreateInfoNV<'static>, RebuildError> {
    let flags = words.word()?;
    let swizzles = words.list(arena, |swizzle: [u32; 4]| {
        let [x, y, z, w] = swizzle.map(|s| vk::ViewportCoordinateSwizzleNV::from_raw(s as i32));
        vk::ViewportSwizzleNV { x, y, z, w }
    })?;
    within(swizzles.count, limits.viewports, "viewports")?;
    // The count of dynamic ones is not in the recipe.
    let is_read = !dynamic.has(D::VIEWPORT_SWIZZLE_NV);
    let count = if is_read { swizzles.count } else { 1 };
    let swizzles = whole(arena, words, swizzles, is_read, count, Default::default())?;
    Ok(vk::PipelineViewportSwizzleStateCreateInfoNV {
        flags: vk::PipelineViewportSwizzleStateCreateFlagsNV::from_raw(flags),
        viewport_count: swizzles.count,
        p_viewport_swizzles: swizzles.pointer,
        ..Default::default()
    })
}

fn exclusive_scissors(
    arena: &mut Arena,
    words: &mut Words<'_>,
    dynamic: &Dynamic,
    limits: Limits,
) -> Result<vk::PipelineViewportExclusiveScissorStateCreateInfoNV<'static>, RebuildError> {
    let count = words.word()?;
    within(count, limits.viewports, "viewports")?;
    let scissors = words.list(arena, rectangle)?;
    let is_read = !dynamic.has(D::EXCLUSIVE_SCISSOR_NV);
    let scissors = whole(arena, words, scissors, is_read, count, Default::default())?;
    Ok(vk::PipelineViewportExclusiveScissorStateCreateInfoNV {
        exclusive_scissor_count: count,
        p_exclusive_scissors: scissors.pointer,
        ..Default::default()
    })
}

fn shading_rate_palettes(
    arena: &mut Arena,
    words: &mut Words<'_>,
    dynamic: &Dynamic,
    limits: Limits,
) -> Result<vk::PipelineViewportShadingRateImageStateCreateInfoNV<'static>, RebuildError> {
    let [enable, count] = words.words()?;
    within(count, limits.viewports, "viewports")?;
    let palettes = words.nested(arena, |words, arena| {
        let entries = words.list(arena, |[entry]| vk::ShadingRatePaletteEntryNV::from_raw(entry as i32))?;
        Ok(vk::ShadingRatePaletteNV {
            shading_rate_palette_entry_count: entries.count,
            p_shading_rate_palette_entries: entries.pointer,
            ..Default::default()
        })
    })?;
    let is_read = !dynamic.has(D::VIEWPORT_SHADING_RATE_PALETTE_NV);
    let one = arena.repeat(vk::ShadingRatePaletteEntryNV::default(), 1)?;
    let palette = vk::ShadingRatePaletteNV {
        shading_rate_palette_entry_count: one.count,
        p_shading_rate_palette_entries: one.pointer,
        ..Default::default()
    };
    let palettes = whole(arena, words, palettes, is_read, count, palette)?;
    Ok(vk::PipelineViewportShadingRateImageStateCreateInfoNV {
        shading_rate_image_enable: enable,
        viewport_count: count,
        p_shading_rate_palettes: palettes.pointer,
        ..Default::default()
    })
}

fn coarse_sample_orders(
    arena: &mut Arena,
    words: &mut Words<'_>,
) -> Result<vk::PipelineViewportCoarseSampleOrderStateCreateInfoNV<'static>, RebuildError> {
    let order = words.word()?;
    let orders = words.nested(arena, |words, arena| {
        let [rate, samples] = words.words()?;
        let locations = words.list(arena, |[pixel_x, pixel_y, sample]| vk::CoarseSampleLocationNV {
            pixel_x,
            pixel_y,
            sample,
        })?;
        Ok(vk::CoarseSampleOrderCustomNV {
            shading_rate: vk::ShadingRatePaletteEntryNV::from_raw(rate as i32),
            sample_count: samples,
            sample_location_count: locations.count,
            p_sample_locations: locations.pointer,
            ..Default::default()
        })
    })?;
    Ok(vk::PipelineViewportCoarseSampleOrderStateCreateInfoNV {
        sample_order_type: vk::CoarseSampleOrderTypeNV::from_raw(order as i32),
        custom_sample_order_count: orders.count,
        p_custom_sample_orders: orders.pointer,
        ..Default::default()
    })
}

fn depth_clamp_control(
    arena: &mut Arena,
    words: &mut Words<'_>,
    dynamic: &Dynamic,
) -> Result<newer::PipelineViewportDepthClampControlCreateInfoEXT, RebuildError> {
    let mode = words.word()? as i32;
    let range = words.list(arena, |range: [u32; 2]| range.map(f32::from_bits))?;
    let is_read = mode == newer::USER_DEFINED_RANGE && !dynamic.has(newer::DEPTH_CLAMP_RANGE);
    words.ensure(range.count == u32::from(is_read))?;
    Ok(newer::PipelineViewportDepthClampControlCreateInfoEXT {
        s_type: newer::DEPTH_CLAMP_CONTROL,
        p_next: std::ptr::null(),
        depth_clamp_mode: mode,
        p_depth_clamp_range: range.pointer,
    })
}

/// Chained to VkPipelineMultisampleStateCreateInfo.
pub fn multisample(
    arena: &mut Arena,
    chain: &mut Chain,
    flattened: &Flattened,
    dynamic: &Dynamic,
    limits: Limits,
) -> Built {
    let words = &mut Words::of(flattened);
    match S::from_raw(flattened.s_type) {
        S::PIPELINE_SAMPLE_LOCATIONS_STATE_CREATE_INFO_EXT => {
            let info = sample_locations(arena, words, dynamic, limits)?;
            chain.push(arena, info)?;
        }
        S::PIPELINE_COVERAGE_MODULATION_STATE_CREATE_INFO_NV => {
            let info = coverage_modulation(arena, words)?;
            chain.push(arena, info)?;
        }
        _ => return Err(words.damaged()),
    }
    words.end()
}

fn sample_locations(
    arena: &mut Arena,
    words: &mut Words<'_>,
    dynamic: &Dynamic,
    limits: Limits,
) -> Result<vk::PipelineSampleLocationsStateCreateInfoEXT<'static>, RebuildError> {
    let enable = words.word()?;
    let mut info = vk::PipelineSampleLocationsStateCreateInfoEXT {
        sample_locations_enable: enable,
        ..Default::default()
    };
    let counts = enable != 0 || dynamic.has(D::SAMPLE_LOCATIONS_ENABLE_EXT);
    if counts && !dynamic.has(D::SAMPLE_LOCATIONS_EXT) {
        let [samples, width, height] = words.words()?;
        let locations = words.list(arena, |location: [u32; 2]| {
            let [x, y] = location.map(f32::from_bits);
            vk::SampleLocationEXT { x, y }
        })?;
        within(locations.count, limits.sample_locations, "sample locations")?;
        info.sample_locations_info = vk::SampleLocationsInfoEXT {
            sample_locations_per_pixel: vk::SampleCountFlags::from_raw(samples),
            sample_location_grid_size: vk::Extent2D { width, height },
            sample_locations_count: locations.count,
            p_sample_locations: locations.pointer,
            ..Default::default()
        };
    }
    Ok(info)
}

fn coverage_modulation(
    arena: &mut Arena,
    words: &mut Words<'_>,
) -> Result<vk::PipelineCoverageModulationStateCreateInfoNV<'static>, RebuildError> {
    let [flags, mode, enable] = words.words()?;
    let table = words.list(arena, |[factor]| f32::from_bits(factor))?;
    Ok(vk::PipelineCoverageModulationStateCreateInfoNV {
        flags: vk::PipelineCoverageModulationStateCreateFlagsNV::from_raw(flags),
        coverage_modulation_mode: vk::CoverageModulationModeNV::from_raw(mode as i32),
        coverage_modulation_table_enable: enable,
        coverage_modulation_table_count: table.count,
        p_coverage_modulation_table: table.pointer,
        ..Default::default()
    })
}

/// Chained to VkPipelineColorBlendStateCreateInfo.
pub fn color_blend(
    arena: &mut Arena,
    chain: &mut Chain,
    flattened: &Flattened,
    dynamic: &Dynamic,
    limits: Limits,
) -> Built {
    let words = &mut Words::of(flattened);
    words.ensure(flattened.s_type == S::PIPELINE_COLOR_WRITE_CREATE_INFO_EXT.as_raw())?;
    let count = words.word()?;
    within(count, limits.color_attachments, "colour attachments")?;
    let enables = words.list(arena, |[enable]| enable)?;
    let is_read = !dynamic.has(D::COLOR_WRITE_ENABLE_EXT);
    let enables = whole(arena, words, enables, is_read, count, vk::TRUE)?;
    let info = vk::PipelineColorWriteCreateInfoEXT {
        attachment_count: count,
        p_color_write_enables: enables.pointer,
        ..Default::default()
    };
    chain.push(arena, info)?;
    words.end()
}

/// Chained to VkGraphicsPipelineCreateInfo itself.
pub fn pipeline(
    arena: &mut Arena,
    chain: &mut Chain,
    flattened: &Flattened,
    dynamic: &Dynamic,
    limits: Limits,
) -> Built {
    let words = &mut Words::of(flattened);
    match S::from_raw(flattened.s_type) {
        S::PIPELINE_DISCARD_RECTANGLE_STATE_CREATE_INFO_EXT => {
            let info = discard_rectangles(arena, words, dynamic, limits)?;
            chain.push(arena, info)?;
        }
        S::RENDERING_ATTACHMENT_LOCATION_INFO_KHR => {
            let info = attachment_locations(arena, words, limits)?;
            chain.push(arena, info)?;
        }
        S::RENDERING_INPUT_ATTACHMENT_INDEX_INFO_KHR => {
            let info = input_attachment_indices(arena, words, limits)?;
            chain.push(arena, info)?;
        }
        S::ATTACHMENT_SAMPLE_COUNT_INFO_AMD => {
            let info = attachment_samples(arena, words, limits)?;
            chain.push(arena, info)?;
        }
        newer::CUSTOM_RESOLVE => {
            let info = custom_resolve(arena, words, limits)?;
            chain.push(arena, info)?;
        }
        _ => return Err(words.damaged()),
    }
    words.end()
}

fn discard_rectangles(
    arena: &mut Arena,
    words: &mut Words<'_>,
    dynamic: &Dynamic,
    limits: Limits,
) -> Result<vk::PipelineDiscardRectangleStateCreateInfoEXT<'static>, RebuildError> {
    let [flags, mode, count] = words.words()?;
    within(count, limits.discard_rectangles, "discard rectangles")?;
    let rectangles = words.list(arena, rectangle)?;
    let is_read = !dynamic.has(D::DISCARD_RECTANGLE_EXT);
    let rectangles = whole(arena, words, rectangles, is_read, count, Default::default())?;
    Ok(vk::PipelineDiscardRectangleStateCreateInfoEXT {
        flags: vk::PipelineDiscardRectangleStateCreateFlagsEXT::from_raw(flags),
        discard_rectangle_mode: vk::DiscardRectangleModeEXT::from_raw(mode as i32),
        discard_rectangle_count: count,
        p_discard_rectangles: rectangles.pointer,
        ..Default::default()
    })
}

fn attachment_locations(
    arena: &mut Arena,
    words: &mut Words<'_>,
    limits: Limits,
) -> Result<vk::RenderingAttachmentLocationInfoKHR<'static>, RebuildError> {
    let count = words.word()?;
    within(count, limits.color_attachments, "colour attachments")?;
    let locations = words.list(arena, |[location]| location)?;
    words.ensure(locations.count == 0 || locations.count == count)?;
    Ok(vk::RenderingAttachmentLocationInfoKHR {
        color_attachment_count: count,
        p_color_attachment_locations: locations.pointer,
        ..Default::default()
    })
}

fn input_attachment_indices(
    arena: &mut Arena,
    words: &mut Words<'_>,
    limits: Limits,
) -> Result<vk::RenderingInputAttachmentIndexInfoKHR<'static>, RebuildError> {
    let count = words.word()?;
    within(count, limits.color_attachments, "colour attachments")?;
    let [colors, depth, stencil] = [(); 3].map(|()| words.list(arena, |[index]| index)).map(Result::ok);
    let (Some(colors), Some(depth), Some(stencil)) = (colors, depth, stencil) else {
        return Err(words.damaged());
    };
    words.ensure(colors.count == 0 || colors.count == count)?;
    words.ensure(depth.count <= 1 && stencil.count <= 1)?;
    Ok(vk::RenderingInputAttachmentIndexInfoKHR {
        color_attachment_count: count,
        p_color_attachment_input_indices: colors.pointer,
        p_depth_input_attachment_index: depth.pointer,
        p_stencil_input_attachment_index: stencil.pointer,
        ..Default::default()
    })
}

fn attachment_samples(
    arena: &mut Arena,
    words: &mut Words<'_>,
    limits: Limits,
) -> Result<vk::AttachmentSampleCountInfoAMD<'static>, RebuildError> {
    let samples = words.list(arena, |[samples]| vk::SampleCountFlags::from_raw(samples))?;
    within(samples.count, limits.color_attachments, "colour attachments")?;
    Ok(vk::AttachmentSampleCountInfoAMD {
        color_attachment_count: samples.count,
        p_color_attachment_samples: samples.pointer,
        depth_stencil_attachment_samples: vk::SampleCountFlags::from_raw(words.word()?),
        ..Default::default()
    })
}

fn custom_resolve(
    arena: &mut Arena,
    words: &mut Words<'_>,
    limits: Limits,
) -> Result<newer::CustomResolveCreateInfoEXT, RebuildError> {
    let mut info = newer::CustomResolveCreateInfoEXT {
        s_type: newer::CUSTOM_RESOLVE,
        p_next: std::ptr::null(),
        custom_resolve: words.word()?,
        color_attachment_count: 0,
        p_color_attachment_formats: std::ptr::null(),
        depth_attachment_format: vk::Format::UNDEFINED,
        stencil_attachment_format: vk::Format::UNDEFINED,
    };
    // A fragment shader by itself ignores the formats (contract 6).
    if words.are_left() {
        let formats = words.list(arena, |[format]| vk::Format::from_raw(format as i32))?;
        within(formats.count, limits.color_attachments, "colour attachments")?;
        info.color_attachment_count = formats.count;
        info.p_color_attachment_formats = formats.pointer;
        let [depth, stencil] = words.words::<2>()?.map(|format| vk::Format::from_raw(format as i32));
        (info.depth_attachment_format, info.stencil_attachment_format) = (depth, stencil);
    }
    Ok(info)
}
