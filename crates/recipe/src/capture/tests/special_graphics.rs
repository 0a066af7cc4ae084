//! Structures with pointers in the chains of graphics pipelines: cases for [`special`](super::special), and what of
//! them stays unread.

use ash::vk::{self, DynamicState as D};

use super::full::Full;
use super::guard_page::{forbidden, place, place_one};
use super::special::{Case, case};
use vkstash_model::newer;

fn rectangle(x: i32) -> vk::Rect2D {
    vk::Rect2D { offset: vk::Offset2D { x, y: 0 }, ..Default::default() }
}

fn clamp(range: *const [f32; 2]) -> newer::PipelineViewportDepthClampControlCreateInfoEXT {
    newer::PipelineViewportDepthClampControlCreateInfoEXT {
        s_type: newer::DEPTH_CLAMP_CONTROL,
        p_next: std::ptr::null(),
        depth_clamp_mode: newer::USER_DEFINED_RANGE,
        p_depth_clamp_range: range,
    }
}

fn scaling() -> vk::PipelineViewportWScalingStateCreateInfoNV<'static> {
    vk::PipelineViewportWScalingStateCreateInfoNV {
        viewport_w_scaling_enable: vk::TRUE,
        viewport_count: 1,
        p_viewport_w_scalings: place_one(vk::ViewportWScalingNV::default()),
        ..Default::default()
    }
}

fn palettes(entries: &[i32]) -> *const vk::ShadingRatePaletteNV<'static> {
    let entries: Vec<_> = entries.iter().map(|&e| vk::ShadingRatePaletteEntryNV::from_raw(e)).collect();
    place_one(vk::ShadingRatePaletteNV {
        shading_rate_palette_entry_count: entries.len() as u32,
        p_shading_rate_palette_entries: place(&entries),
        ..Default::default()
    })
}

fn order(
    change: impl FnOnce(&mut vk::CoarseSampleOrderCustomNV<'static>, &mut vk::CoarseSampleLocationNV),
) -> *const vk::CoarseSampleOrderCustomNV<'static> {
    let mut custom = vk::CoarseSampleOrderCustomNV { sample_location_count: 1, ..Default::default() };
    let mut location = vk::CoarseSampleLocationNV::default();
    change(&mut custom, &mut location);
    custom.p_sample_locations = place_one(location);
    place_one(custom)
}

fn locations() -> vk::PipelineSampleLocationsStateCreateInfoEXT<'static> {
    let mut state = vk::PipelineSampleLocationsStateCreateInfoEXT::default().sample_locations_enable(true);
    state.sample_locations_info.sample_locations_count = 1;
    state.sample_locations_info.p_sample_locations = place_one(vk::SampleLocationEXT::default());
    state
}

fn modulation() -> vk::PipelineCoverageModulationStateCreateInfoNV<'static> {
    vk::PipelineCoverageModulationStateCreateInfoNV {
        coverage_modulation_table_enable: vk::TRUE,
        coverage_modulation_table_count: 1,
        p_coverage_modulation_table: place_one(1.0),
        ..Default::default()
    }
}

fn resolve() -> newer::CustomResolveCreateInfoEXT {
    newer::CustomResolveCreateInfoEXT {
        s_type: newer::CUSTOM_RESOLVE,
        p_next: std::ptr::null(),
        custom_resolve: 0,
        color_attachment_count: 1,
        p_color_attachment_formats: place_one(vk::Format::R8_UNORM),
        depth_attachment_format: vk::Format::UNDEFINED,
        stencil_attachment_format: vk::Format::UNDEFINED,
    }
}

fn viewport_cases() -> Vec<Case> {
    let swizzle = vk::ViewportSwizzleNV::default();
    let swizzles = vk::PipelineViewportSwizzleStateCreateInfoNV {
        viewport_count: 1,
        p_viewport_swizzles: place_one(swizzle),
        ..Default::default()
    };
    let scissors = vk::PipelineViewportExclusiveScissorStateCreateInfoNV {
        exclusive_scissor_count: 1,
        p_exclusive_scissors: place_one(rectangle(0)),
        ..Default::default()
    };
    vec![
        case(
            "viewport",
            scaling(),
            &[
                |s| s.viewport_w_scaling_enable = 0,
                |s| s.viewport_count = 0,
                |s| s.p_viewport_w_scalings = place_one(vk::ViewportWScalingNV { xcoeff: 1.0, ycoeff: 0.0 }),
                |s| s.p_viewport_w_scalings = place_one(vk::ViewportWScalingNV { xcoeff: 0.0, ycoeff: 1.0 }),
            ],
        ),
        case(
            "viewport",
            swizzles,
            &[
                |s| s.flags = vk::PipelineViewportSwizzleStateCreateFlagsNV::from_raw(1),
                |s| s.viewport_count = 0,
                |s| s.p_viewport_swizzles = place(&[swizzled(0)]),
                |s| s.p_viewport_swizzles = place(&[swizzled(1)]),
                |s| s.p_viewport_swizzles = place(&[swizzled(2)]),
                |s| s.p_viewport_swizzles = place(&[swizzled(3)]),
            ],
        ),
        case(
            "viewport",
            scissors,
            &[|s| s.exclusive_scissor_count = 0, |s| s.p_exclusive_scissors = place_one(rectangle(1))],
        ),
        case(
            "viewport",
            clamp(place_one([0.0, 1.0])),
            &[
                |s| s.depth_clamp_mode = 0,
                |s| s.p_depth_clamp_range = place_one([0.5, 1.0]),
                |s| s.p_depth_clamp_range = place_one([0.0, 0.5]),
            ],
        ),
    ]
}

/// What is chained to viewport state for shading rates.
fn shading_rate_cases() -> [Case; 2] {
    let image = vk::PipelineViewportShadingRateImageStateCreateInfoNV {
        viewport_count: 1,
        p_shading_rate_palettes: palettes(&[1]),
        ..Default::default()
    };
    let orders = vk::PipelineViewportCoarseSampleOrderStateCreateInfoNV {
        custom_sample_order_count: 1,
        p_custom_sample_orders: order(|_, _| {}),
        ..Default::default()
    };
    [
        case(
            "viewport",
            image,
            &[
                |s| s.shading_rate_image_enable = vk::TRUE,
                |s| s.viewport_count = 0,
                |s| s.p_shading_rate_palettes = palettes(&[2]),
                |s| s.p_shading_rate_palettes = palettes(&[1, 1]),
                |s| s.p_shading_rate_palettes = palettes(&[]),
            ],
        ),
        case(
            "viewport",
            orders,
            &[
                |s| s.sample_order_type = vk::CoarseSampleOrderTypeNV::SAMPLE_MAJOR,
                |s| s.custom_sample_order_count = 0,
                |s| {
                    s.p_custom_sample_orders =
                        order(|o, _| o.shading_rate = vk::ShadingRatePaletteEntryNV::from_raw(5))
                },
                |s| s.p_custom_sample_orders = order(|o, _| o.sample_count = 2),
                |s| s.p_custom_sample_orders = order(|o, _| o.sample_location_count = 0),
                |s| s.p_custom_sample_orders = order(|_, l| l.pixel_x = 1),
                |s| s.p_custom_sample_orders = order(|_, l| l.pixel_y = 1),
                |s| s.p_custom_sample_orders = order(|_, l| l.sample = 1),
            ],
        ),
    ]
}

fn swizzled(component: usize) -> vk::ViewportSwizzleNV {
    let mut parts = [vk::ViewportCoordinateSwizzleNV::default(); 4];
    parts[component] = vk::ViewportCoordinateSwizzleNV::NEGATIVE_W;
    vk::ViewportSwizzleNV { x: parts[0], y: parts[1], z: parts[2], w: parts[3] }
}

fn multisample_cases() -> [Case; 2] {
    [
        case(
            "multisample",
            locations(),
            &[
                |s| s.sample_locations_enable = 0,
                |s| s.sample_locations_info.sample_locations_per_pixel = vk::SampleCountFlags::TYPE_4,
                |s| s.sample_locations_info.sample_location_grid_size.width = 1,
                |s| s.sample_locations_info.sample_location_grid_size.height = 1,
                |s| s.sample_locations_info.sample_locations_count = 0,
                |s| {
                    s.sample_locations_info.p_sample_locations =
                        place_one(vk::SampleLocationEXT { x: 0.5, y: 0.0 })
                },
                |s| {
                    s.sample_locations_info.p_sample_locations =
                        place_one(vk::SampleLocationEXT { x: 0.0, y: 0.5 })
                },
            ],
        ),
        case(
            "multisample",
            modulation(),
            &[
                |s| s.flags = vk::PipelineCoverageModulationStateCreateFlagsNV::from_raw(1),
                |s| s.coverage_modulation_mode = vk::CoverageModulationModeNV::RGBA,
                |s| s.coverage_modulation_table_enable = 0,
                |s| s.coverage_modulation_table_count = 0,
                |s| s.p_coverage_modulation_table = place_one(0.5),
            ],
        ),
    ]
}

/// What is chained to pipelines that are made for dynamic rendering.
fn rendering_cases() -> [Case; 4] {
    let numbers = vk::RenderingAttachmentLocationInfoKHR {
        color_attachment_count: 1,
        p_color_attachment_locations: place_one(0),
        ..Default::default()
    };
    let indices = vk::RenderingInputAttachmentIndexInfoKHR {
        color_attachment_count: 1,
        p_color_attachment_input_indices: place_one(0),
        ..Default::default()
    };
    let samples = vk::AttachmentSampleCountInfoAMD {
        color_attachment_count: 1,
        p_color_attachment_samples: place_one(vk::SampleCountFlags::TYPE_1),
        ..Default::default()
    };
    [
        case(
            "rendering",
            numbers,
            &[
                |s| s.color_attachment_count = 0,
                |s| s.p_color_attachment_locations = place_one(1),
                |s| s.p_color_attachment_locations = std::ptr::null(),
            ],
        ),
        case(
            "rendering",
            indices,
            &[
                |s| s.color_attachment_count = 0,
                |s| s.p_color_attachment_input_indices = place_one(1),
                |s| s.p_color_attachment_input_indices = std::ptr::null(),
                |s| s.p_depth_input_attachment_index = place_one(0),
                |s| s.p_depth_input_attachment_index = place_one(1),
                |s| s.p_stencil_input_attachment_index = place_one(0),
                |s| s.p_stencil_input_attachment_index = place_one(1),
            ],
        ),
        case(
            "rendering",
            samples,
            &[
                |s| s.color_attachment_count = 0,
                |s| s.p_color_attachment_samples = place_one(vk::SampleCountFlags::TYPE_4),
                |s| s.depth_stencil_attachment_samples = vk::SampleCountFlags::TYPE_4,
            ],
        ),
        case(
            "rendering",
            resolve(),
            &[
                |s| s.custom_resolve = 1,
                |s| s.color_attachment_count = 0,
                |s| s.p_color_attachment_formats = place_one(vk::Format::R8_SNORM),
                |s| s.depth_attachment_format = vk::Format::D16_UNORM,
                |s| s.stencil_attachment_format = vk::Format::S8_UINT,
            ],
        ),
    ]
}

pub fn cases() -> Vec<Case> {
    let writes = vk::PipelineColorWriteCreateInfoEXT {
        attachment_count: 1,
        p_color_write_enables: place_one(0),
        ..Default::default()
    };
    let rectangles = vk::PipelineDiscardRectangleStateCreateInfoEXT {
        discard_rectangle_count: 1,
        p_discard_rectangles: place_one(rectangle(0)),
        ..Default::default()
    };
    let mut cases = viewport_cases();
    cases.extend(shading_rate_cases());
    cases.extend(multisample_cases());
    cases.extend(rendering_cases());
    cases.extend([
        case("blend", writes, &[|s| s.attachment_count = 0, |s| s.p_color_write_enables = place_one(1)]),
        case(
            "graphics",
            rectangles,
            &[
                |s| s.flags = vk::PipelineDiscardRectangleStateCreateFlagsEXT::from_raw(1),
                |s| s.discard_rectangle_mode = vk::DiscardRectangleModeEXT::EXCLUSIVE,
                |s| s.discard_rectangle_count = 0,
                |s| s.p_discard_rectangles = place_one(rectangle(1)),
            ],
        ),
    ]);
    cases
}

/// Arrays whose state is set later, or which nothing asks for.
#[test]
fn arrays_that_are_dynamic_or_switched_off_stay_unread() {
    let with = |dynamic: &[D], change: &dyn Fn(&mut Full)| {
        let mut full = Full { dynamic: dynamic.to_vec(), ..Full::default() };
        change(&mut full);
        assert!(full.bytes_after(|_| {}).is_ok(), "{dynamic:?}");
    };
    let wild =
        vk::PipelineViewportWScalingStateCreateInfoNV { p_viewport_w_scalings: forbidden(), ..scaling() };
    with(&[D::VIEWPORT_W_SCALING_NV], &|f| f.viewport.p_next = place_one(wild).cast());
    let off = vk::PipelineViewportWScalingStateCreateInfoNV { viewport_w_scaling_enable: 0, ..wild };
    with(&[], &|f| f.viewport.p_next = place_one(off).cast());
    let swizzles = vk::PipelineViewportSwizzleStateCreateInfoNV {
        viewport_count: 4,
        p_viewport_swizzles: forbidden(),
        ..Default::default()
    };
    with(&[D::VIEWPORT_SWIZZLE_NV], &|f| f.viewport.p_next = place_one(swizzles).cast());
    let scissors = vk::PipelineViewportExclusiveScissorStateCreateInfoNV {
        exclusive_scissor_count: 4,
        p_exclusive_scissors: forbidden(),
        ..Default::default()
    };
    with(&[D::EXCLUSIVE_SCISSOR_NV], &|f| f.viewport.p_next = place_one(scissors).cast());
    let image = vk::PipelineViewportShadingRateImageStateCreateInfoNV {
        viewport_count: 4,
        p_shading_rate_palettes: forbidden(),
        ..Default::default()
    };
    with(&[D::VIEWPORT_SHADING_RATE_PALETTE_NV], &|f| f.viewport.p_next = place_one(image).cast());
    let orders = vk::PipelineViewportCoarseSampleOrderStateCreateInfoNV {
        custom_sample_order_count: 4,
        p_custom_sample_orders: forbidden(),
        ..Default::default()
    };
    with(&[D::VIEWPORT_COARSE_SAMPLE_ORDER_NV], &|f| f.viewport.p_next = place_one(orders).cast());
    with(&[newer::DEPTH_CLAMP_RANGE], &|f| f.viewport.p_next = place_one(clamp(forbidden())).cast());
    let full_range =
        newer::PipelineViewportDepthClampControlCreateInfoEXT { depth_clamp_mode: 0, ..clamp(forbidden()) };
    with(&[], &|f| f.viewport.p_next = place_one(full_range).cast());
    let mut state = locations();
    state.sample_locations_info.p_sample_locations = forbidden();
    state.sample_locations_info.p_next = forbidden();
    with(&[D::SAMPLE_LOCATIONS_EXT], &|f| f.multisample.p_next = place_one(state).cast());
    state.sample_locations_enable = 0;
    with(&[], &|f| f.multisample.p_next = place_one(state).cast());
    let mut table = modulation();
    table.p_coverage_modulation_table = forbidden();
    with(&[D::COVERAGE_MODULATION_TABLE_NV], &|f| f.multisample.p_next = place_one(table).cast());
    table.coverage_modulation_table_enable = 0;
    with(&[], &|f| f.multisample.p_next = place_one(table).cast());
    let writes = vk::PipelineColorWriteCreateInfoEXT {
        attachment_count: 4,
        p_color_write_enables: forbidden(),
        ..Default::default()
    };
    with(&[D::COLOR_WRITE_ENABLE_EXT], &|f| f.blend.p_next = place_one(writes).cast());
}
