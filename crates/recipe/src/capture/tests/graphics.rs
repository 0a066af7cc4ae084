//! Complete graphics pipelines.

use ash::vk::{self, DynamicState as D};

use super::changes::{CHANGES, assert_changes};
use super::full::{Full, Rendering, full_with};
use super::helpers::{BOTH, Known, handle, reason, shader};
use crate::capture::SubpassUse;
use vkstash_model::counters::BypassReason;

/// Dynamic states that leave a member of the core structures out.
pub const STATES: &[D] = &[
    D::VIEWPORT,
    D::SCISSOR,
    D::LINE_WIDTH,
    D::DEPTH_BIAS,
    D::BLEND_CONSTANTS,
    D::DEPTH_BOUNDS,
    D::STENCIL_COMPARE_MASK,
    D::STENCIL_WRITE_MASK,
    D::STENCIL_REFERENCE,
    D::CULL_MODE,
    D::FRONT_FACE,
    D::PRIMITIVE_TOPOLOGY,
    D::VIEWPORT_WITH_COUNT,
    D::SCISSOR_WITH_COUNT,
    D::VERTEX_INPUT_BINDING_STRIDE,
    D::DEPTH_TEST_ENABLE,
    D::DEPTH_WRITE_ENABLE,
    D::DEPTH_COMPARE_OP,
    D::DEPTH_BOUNDS_TEST_ENABLE,
    D::STENCIL_TEST_ENABLE,
    D::STENCIL_OP,
    D::RASTERIZER_DISCARD_ENABLE,
    D::DEPTH_BIAS_ENABLE,
    D::PRIMITIVE_RESTART_ENABLE,
    D::VERTEX_INPUT_EXT,
    D::PATCH_CONTROL_POINTS_EXT,
    D::LOGIC_OP_EXT,
    D::COLOR_WRITE_ENABLE_EXT,
    D::DEPTH_CLAMP_ENABLE_EXT,
    D::POLYGON_MODE_EXT,
    D::RASTERIZATION_SAMPLES_EXT,
    D::SAMPLE_MASK_EXT,
    D::ALPHA_TO_COVERAGE_ENABLE_EXT,
    D::ALPHA_TO_ONE_ENABLE_EXT,
    D::LOGIC_OP_ENABLE_EXT,
    D::COLOR_BLEND_ENABLE_EXT,
    D::COLOR_BLEND_EQUATION_EXT,
    D::COLOR_WRITE_MASK_EXT,
    D::COLOR_BLEND_ADVANCED_EXT,
];

/// A pipeline with something in every list.
pub fn rich() -> Full {
    let mut full = Full::default();
    full.tessellate();
    full.divisors = vec![vk::VertexInputBindingDivisorDescriptionKHR { binding: 0, divisor: 2 }];
    full
}

#[test]
fn every_part_separates_and_no_two_changes_are_alike() {
    let full = rich();
    assert!(assert_changes(&full) > 85);
    let mut seen = vec![("nothing", full.bytes())];
    for change in CHANGES.iter().filter(|change| (change.matters)(&full)) {
        let mut changed = full.clone();
        (change.make)(&mut changed);
        let bytes = changed.bytes();
        let same = seen.iter().find(|(_, other)| *other == bytes).map(|(name, _)| name);
        // Without flags2, two names stand for one change.
        let twin = change.name == "flags that flags2 replaces";
        assert_eq!(same, if twin { Some(&"flags") } else { None }, "{}", change.name);
        seen.push((change.name, bytes));
    }
}

#[test]
fn state_that_is_dynamic_does_not_separate() {
    for &state in STATES {
        let mut full = rich();
        assert_ne!(full.bytes(), full_with(|f| f.dynamic.push(state)), "that it is dynamic does");
        full.dynamic.push(state);
        assert_changes(&full);
    }
    let mut full = rich();
    full.dynamic = STATES.to_vec();
    for advanced_blend in [false, true] {
        full.known.advanced_blend = advanced_blend;
        assert!(assert_changes(&full) < 45);
    }
}

#[test]
fn every_change_matters_exactly_where_the_contract_says() {
    let mut mesh = Full::default();
    mesh.stages[0].stage = vk::ShaderStageFlags::MESH_EXT;
    let mut discarding = rich();
    discarding.rasterization.rasterizer_discard_enable = vk::TRUE;
    let mut rendering = Full::dynamic_rendering();
    assert_changes(&rendering);
    rendering.rasterization.rasterizer_discard_enable = vk::TRUE;
    let without = |color, depth_stencil| {
        let subpass = SubpassUse { color, depth_stencil };
        Full { known: Known { subpass, ..Known::default() }, ..Full::default() }
    };
    let nothing = Rendering { colors: Vec::new(), depth: vk::Format::UNDEFINED, ..Rendering::default() };
    let empty = Full { rendering: Some(nothing), ..Full::dynamic_rendering() };
    let silent = Full { rendering: None, ..Full::dynamic_rendering() };
    let beside = Full { rendering: Some(Rendering::default()), ..Full::default() };
    let flags2 = Full { flags2: Some(0), ..Full::default() };
    for full in [
        mesh,
        discarding,
        rendering,
        without(true, false),
        without(false, true),
        empty,
        silent,
        beside,
        flags2,
    ] {
        assert_changes(&full);
    }
    assert_eq!(BOTH, Full::default().known.subpass);
}

#[test]
fn stages_separate_by_number_kind_and_order() {
    let base = full_with(|_| {});
    let fewer = full_with(|f| f.stages.truncate(1));
    let task = full_with(|f| f.stages[0].stage = vk::ShaderStageFlags::TASK_EXT);
    let geometry = full_with(|f| f.stages.insert(1, shader(vk::ShaderStageFlags::GEOMETRY, 1)));
    let seen = [base, fewer, task, geometry];
    for (index, bytes) in seen.iter().enumerate() {
        assert!(!seen[..index].contains(bytes));
    }
    let none = Full { stages: Vec::new(), ..Full::default() };
    assert_eq!(reason(none.bytes_after(|_| {})), Err(BypassReason::WrongStructure));
    let many = Full { stages: vec![shader(vk::ShaderStageFlags::VERTEX, 1); 9], ..Full::default() };
    assert_eq!(reason(many.bytes_after(|_| {})), Err(BypassReason::WrongStructure));
}

#[test]
fn state_may_be_left_out_where_the_specification_lets_it() {
    let full = rich();
    let base = full.bytes();
    type Piece = fn(&mut vk::GraphicsPipelineCreateInfo<'static>);
    let pieces: &[Piece] = &[
        |i| i.p_input_assembly_state = std::ptr::null(),
        |i| i.p_tessellation_state = std::ptr::null(),
        |i| i.p_viewport_state = std::ptr::null(),
        |i| i.p_rasterization_state = std::ptr::null(),
        |i| i.p_multisample_state = std::ptr::null(),
        |i| i.p_depth_stencil_state = std::ptr::null(),
        |i| i.p_color_blend_state = std::ptr::null(),
    ];
    for piece in pieces {
        assert_ne!(full.bytes_after(piece).unwrap(), base, "left out is not the same as zero");
    }
    let without = full.bytes_after(|i| i.p_vertex_input_state = std::ptr::null());
    assert_eq!(reason(without), Err(BypassReason::WrongStructure));
    assert_eq!(full.bytes_after(|i| i.p_dynamic_state = std::ptr::null()).unwrap(), base);
}

#[test]
fn a_sample_mask_has_a_word_for_each_32_samples() {
    let of = |mask: &[u32]| {
        full_with(|f| {
            f.multisample.rasterization_samples = vk::SampleCountFlags::TYPE_64;
            f.mask = mask.to_vec();
        })
    };
    assert_ne!(of(&[1, 1]), of(&[1, 2]));
    assert_ne!(of(&[!0, !0]), of(&[]), "no mask is another recipe, if the same pipeline");
}

#[test]
fn unknown_dynamic_states_are_refused() {
    let full = Full { dynamic: vec![D::from_raw(1_999_999_999)], ..Full::default() };
    assert_eq!(reason(full.bytes_after(|_| {})), Err(BypassReason::UnknownStructure));
    let mut wrong = Full::default();
    wrong.info.s_type = vk::StructureType::APPLICATION_INFO;
    assert_eq!(reason(wrong.bytes_after(|_| {})), Err(BypassReason::WrongStructure));
    wrong = Full::default();
    wrong.info.layout = handle(0);
    assert_eq!(reason(wrong.bytes_after(|_| {})), Err(BypassReason::UnknownObject));
}
