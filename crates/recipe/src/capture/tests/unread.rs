//! Garbage where contract 6 lets it be: one test for each row of its table, with pointers that kill
//! whoever reads them. What is read ends at the fence everywhere in these tests.

use std::ffi::c_void;
use std::ptr;

use ash::vk::{self, DynamicState as D, GraphicsPipelineLibraryFlagsEXT as Subset};

use super::full::{Full, full_with};
use super::graphics::{STATES, rich};
use super::guard_page::{forbidden, place, place_one};
use super::helpers::{Known, compute_info, handle, of_compute, shader};
use super::libraries::combinations;
use crate::capture::{LibraryTraits, SubpassUse};
use vkstash_model::newer;

type Info = vk::GraphicsPipelineCreateInfo<'static>;

/// The program's own garbage in the conformance tests: a pointer of all ones.
fn ones<T>() -> *const T {
    usize::MAX as *const T
}

/// Both kinds of garbage give the recipe that the pipeline has without any.
fn assert_unread(full: &Full, garbage: impl Fn(&mut Info, *const u64)) {
    let clean = full.bytes();
    for pointer in [forbidden(), ones()] {
        assert_eq!(clean, full.bytes_after(|info| garbage(info, pointer)).unwrap());
    }
}

fn discarding(mut full: Full) -> Full {
    full.rasterization.rasterizer_discard_enable = vk::TRUE;
    full
}

fn all_but(subset: Subset) -> impl Iterator<Item = Full> {
    combinations().filter(move |subsets| !subsets.intersects(subset)).map(Full::library)
}

#[test]
fn stages_without_a_subset_with_shaders() {
    for full in all_but(Subset::PRE_RASTERIZATION_SHADERS | Subset::FRAGMENT_SHADER) {
        assert_unread(&full, |info, p| {
            info.stage_count = 3;
            info.p_stages = p.cast();
        });
    }
}

#[test]
fn vertex_input() {
    for full in all_but(Subset::VERTEX_INPUT_INTERFACE) {
        assert_unread(&full, |info, p| {
            info.p_vertex_input_state = p.cast();
            info.p_input_assembly_state = p.cast();
        });
    }
    let mut mesh = Full::default();
    mesh.stages[0].stage = vk::ShaderStageFlags::MESH_EXT;
    assert_unread(&mesh, |info, p| {
        info.p_vertex_input_state = p.cast();
        info.p_input_assembly_state = p.cast();
    });
    let set = Full { dynamic: vec![D::VERTEX_INPUT_EXT], ..Full::default() };
    assert_unread(&set, |info, p| info.p_vertex_input_state = p.cast());
}

#[test]
fn tessellation() {
    for full in
        [Full::default(), Full::library(Subset::FRAGMENT_SHADER), Full::linking(&[LibraryTraits::default()])]
    {
        assert_unread(&full, |info, p| info.p_tessellation_state = p.cast());
    }
    // Where the state is dynamic, programs pass a structure of another type, and smaller.
    let mut full = Full { dynamic: vec![D::PATCH_CONTROL_POINTS_EXT], ..Full::default() };
    full.tessellate();
    let without = full.bytes_after(|info| info.p_tessellation_state = ptr::null());
    let head = vk::BaseInStructure { s_type: vk::StructureType::APPLICATION_INFO, ..Default::default() };
    assert_eq!(without, full.bytes_after(|info| info.p_tessellation_state = place_one(head).cast()));
    full.dynamic.clear();
    assert!(full.bytes_after(|info| info.p_tessellation_state = place_one(head).cast()).is_err());
}

#[test]
fn rasterization_and_viewports() {
    for full in all_but(Subset::PRE_RASTERIZATION_SHADERS) {
        assert_unread(&full, |info, p| {
            info.p_rasterization_state = p.cast();
            info.p_viewport_state = p.cast();
        });
    }
    for full in [discarding(rich()), discarding(Full::library(Subset::PRE_RASTERIZATION_SHADERS))] {
        assert_unread(&full, |info, p| info.p_viewport_state = p.cast());
    }
    // The arrays that a state makes unread, and whether their counts count.
    for (state, count_matters) in [(D::VIEWPORT, true), (D::VIEWPORT_WITH_COUNT, false)] {
        let of = |viewport_count| {
            full_with(|f| {
                f.dynamic.push(state);
                f.viewport.viewport_count = viewport_count;
                f.viewport.p_viewports = forbidden();
            })
        };
        assert_eq!(of(1) != of(1000), count_matters);
    }
    for (state, count_matters) in [(D::SCISSOR, true), (D::SCISSOR_WITH_COUNT, false)] {
        let of = |scissor_count| {
            full_with(|f| {
                f.dynamic.push(state);
                f.viewport.scissor_count = scissor_count;
                f.viewport.p_scissors = ones();
            })
        };
        assert_eq!(of(1) != of(1000), count_matters);
    }
}

#[test]
fn multisampling() {
    for full in
        all_but(Subset::FRAGMENT_SHADER | Subset::FRAGMENT_OUTPUT_INTERFACE).chain([discarding(rich())])
    {
        assert_unread(&full, |info, p| info.p_multisample_state = p.cast());
    }
    // The mask: one word for up to 32 samples, read to its last byte and no further; unread where it is set later.
    full_with(|f| f.multisample.p_sample_mask = place(&[1]));
    full_with(|f| {
        f.dynamic.push(D::SAMPLE_MASK_EXT);
        f.multisample.p_sample_mask = forbidden();
    });
    full_with(|f| {
        f.dynamic.push(D::RASTERIZATION_SAMPLES_EXT);
        f.multisample.rasterization_samples = vk::SampleCountFlags::TYPE_64;
        f.multisample.p_sample_mask = place(&[1, 2]);
    });
}

#[test]
fn depth_and_blending() {
    let without = |color, depth_stencil| {
        let subpass = SubpassUse { color, depth_stencil };
        Full { known: Known { subpass, ..Known::default() }, ..Full::default() }
    };
    let mut no_formats = Full::dynamic_rendering();
    no_formats.rendering = None;
    let all =
        [discarding(rich()), without(false, false), no_formats, Full::linking(&[LibraryTraits::default()])];
    for full in &all {
        assert_unread(full, |info, p| {
            info.p_depth_stencil_state = p.cast();
            info.p_color_blend_state = p.cast();
        });
    }
    for full in all_but(Subset::FRAGMENT_SHADER).chain([without(true, false)]) {
        assert_unread(&full, |info, p| info.p_depth_stencil_state = p.cast());
    }
    for full in all_but(Subset::FRAGMENT_OUTPUT_INTERFACE).chain([without(false, true)]) {
        assert_unread(&full, |info, p| info.p_color_blend_state = p.cast());
    }
    // A link whose library discards has no fragment state of its own.
    let mut link =
        Full { subsets: Some(Subset::FRAGMENT_SHADER | Subset::FRAGMENT_OUTPUT_INTERFACE), ..all[3].clone() };
    link.known.libraries[0].1 = LibraryTraits { subsets: 3, discards: true, ..LibraryTraits::default() };
    link.stages = vec![shader(vk::ShaderStageFlags::FRAGMENT, 2)];
    assert_unread(&link, |info, p| {
        info.p_multisample_state = p.cast();
        info.p_depth_stencil_state = p.cast();
        info.p_color_blend_state = p.cast();
    });
}

#[test]
fn blend_attachments_where_all_of_them_is_dynamic() {
    let three = [D::COLOR_BLEND_ENABLE_EXT, D::COLOR_BLEND_EQUATION_EXT, D::COLOR_WRITE_MASK_EXT];
    let of = |dynamic: &[D], advanced_blend, attachments| {
        let mut full = Full { dynamic: dynamic.to_vec(), ..Full::default() };
        full.known.advanced_blend = advanced_blend;
        full.blend.attachment_count = 1;
        full.blend.p_attachments = attachments;
        full.bytes()
    };
    let four = [three[0], three[1], three[2], D::COLOR_BLEND_ADVANCED_EXT];
    assert_eq!(of(&three, false, forbidden()), of(&three, false, ones()));
    assert_eq!(of(&four, true, forbidden()), of(&four, true, ones()));
    // With advanced blending three dynamic states do not cover the attachments: the array is read.
    let attachment =
        vk::PipelineColorBlendAttachmentState { color_blend_op: vk::BlendOp::MAX, ..Default::default() };
    assert_ne!(of(&three, true, place_one(attachment)), of(&three, true, place(&[Default::default()])));
}

#[test]
fn formats() {
    let rendering = vk::PipelineRenderingCreateInfo {
        color_attachment_count: 2,
        p_color_attachment_formats: forbidden(),
        ..Default::default()
    };
    let silent = |mut full: Full| {
        full.rendering = None;
        full
    };
    // A render pass, static discard, or no fragment output state.
    let with_pass = Full::default();
    let discard = discarding(silent(Full::dynamic_rendering()));
    for full in all_but(Subset::FRAGMENT_OUTPUT_INTERFACE).map(silent).chain([with_pass, discard]) {
        assert_unread(&full, |info, _| info.p_next = before(info.p_next, place_one(rendering).cast()));
    }
    // Other structures with formats and counts that belong to fragment output state without a render pass.
    let resolve = newer::CustomResolveCreateInfoEXT {
        s_type: newer::CUSTOM_RESOLVE,
        p_next: ptr::null(),
        custom_resolve: 0,
        color_attachment_count: 2,
        p_color_attachment_formats: forbidden(),
        depth_attachment_format: vk::Format::UNDEFINED,
        stencil_attachment_format: vk::Format::UNDEFINED,
    };
    let samples = vk::AttachmentSampleCountInfoAMD {
        color_attachment_count: 2,
        p_color_attachment_samples: forbidden(),
        ..Default::default()
    };
    let locations = vk::RenderingAttachmentLocationInfoKHR {
        color_attachment_count: 2,
        p_color_attachment_locations: forbidden(),
        ..Default::default()
    };
    let indices = vk::RenderingInputAttachmentIndexInfoKHR {
        color_attachment_count: 2,
        p_color_attachment_input_indices: forbidden(),
        p_depth_input_attachment_index: forbidden(),
        p_stencil_input_attachment_index: forbidden(),
        ..Default::default()
    };
    let rectangles = vk::PipelineDiscardRectangleStateCreateInfoEXT {
        discard_rectangle_count: 2,
        p_discard_rectangles: forbidden(),
        ..Default::default()
    };
    let with = |mut full: Full, nodes: &[*const c_void]| {
        full.extra = nodes.to_vec();
        full.bytes();
    };
    with(Full::default(), &[place_one(resolve).cast(), place_one(samples).cast()]);
    for full in all_but(Subset::FRAGMENT_OUTPUT_INTERFACE).chain([discarding(Full::dynamic_rendering())]) {
        with(full, &[place_one(resolve).cast(), place_one(samples).cast(), place_one(locations).cast()]);
    }
    for full in all_but(Subset::FRAGMENT_SHADER).chain([discarding(Full::dynamic_rendering())]) {
        with(full, &[place_one(indices).cast()]);
    }
    for full in all_but(Subset::PRE_RASTERIZATION_SHADERS) {
        with(full, &[place_one(rectangles).cast()]);
    }
    with(
        Full { dynamic: vec![D::DISCARD_RECTANGLE_EXT], ..Full::default() },
        &[place_one(rectangles).cast()],
    );
}

/// A chain with one more structure before it.
fn before(chain: *const c_void, node: *const c_void) -> *const c_void {
    // SAFETY: `node` is a writable copy of a structure.
    unsafe { (*node.cast_mut().cast::<vk::BaseOutStructure<'_>>()).p_next = chain.cast_mut().cast() };
    node
}

#[test]
fn everything_at_once_where_nothing_is_there() {
    for full in [Full::library(Subset::empty()), Full::linking(&[LibraryTraits::default()])] {
        assert_unread(&full, |info, p| {
            info.stage_count = 9;
            info.p_stages = p.cast();
            info.p_vertex_input_state = p.cast();
            info.p_input_assembly_state = p.cast();
            info.p_tessellation_state = p.cast();
            info.p_viewport_state = p.cast();
            info.p_rasterization_state = p.cast();
            info.p_multisample_state = p.cast();
            info.p_depth_stencil_state = p.cast();
            info.p_color_blend_state = p.cast();
            info.render_pass = vk::RenderPass::null();
            info.subpass = !0;
            info.base_pipeline_handle = handle(!0);
            info.base_pipeline_index = 12;
        });
    }
    // A library without shaders has no layout, and one with vertex input alone no render pass.
    let library = Full::library(Subset::VERTEX_INPUT_INTERFACE);
    assert_unread(&library, |info, _| {
        info.layout = handle(!0);
        info.render_pass = handle(!0);
    });
}

#[test]
fn arrays_of_no_elements() {
    let mut full = Full { dynamic: STATES.to_vec(), ..rich() };
    full.bytes();
    full.dynamic.clear();
    for list in 0..6 {
        let mut full = full.clone();
        match list {
            0 => full.bindings.clear(),
            1 => full.attributes.clear(),
            2 => full.viewports.clear(),
            3 => full.scissors.clear(),
            4 => full.blends.clear(),
            _ => full.rendering = Some(super::full::Rendering { colors: Vec::new(), ..Default::default() }),
        }
        full.info.render_pass = vk::RenderPass::null();
        assert!(full.bytes_after(|_| {}).is_ok(), "{list}");
    }
    let libraries = vk::PipelineLibraryCreateInfoKHR { p_libraries: ones(), ..Default::default() };
    let divisors = vk::PipelineVertexInputDivisorStateCreateInfoKHR {
        p_vertex_binding_divisors: ones(),
        ..Default::default()
    };
    let mut vertex_input = vk::PipelineVertexInputStateCreateInfo {
        p_vertex_attribute_descriptions: ones(),
        p_vertex_binding_descriptions: ones(),
        ..Default::default()
    };
    vertex_input.p_next = place_one(divisors).cast();
    let state = vk::PipelineDynamicStateCreateInfo { p_dynamic_states: ones(), ..Default::default() };
    let captured = Full::default().bytes_after(|info| {
        info.p_next = place_one(libraries).cast();
        info.p_vertex_input_state = place_one(vertex_input);
        info.p_dynamic_state = place_one(state);
    });
    assert!(captured.is_ok());
}

#[test]
fn stages_and_their_constants() {
    // Identifiers of size 0 beside a module, and of a size that none can have.
    let clean = of_compute(&compute_info()).unwrap().0;
    for (size, pointer) in [(0, forbidden()), (0, ones()), (33, forbidden())] {
        let mut identifier = vk::PipelineShaderStageModuleIdentifierCreateInfoEXT::default();
        identifier.identifier_size = size;
        identifier.p_identifier = pointer;
        let mut info = compute_info();
        info.stage.p_next = place_one(identifier).cast();
        assert_eq!(clean, of_compute(&info).unwrap().0);
    }
    // No entries and no data.
    let constants = vk::SpecializationInfo { p_map_entries: ones(), p_data: ones(), ..Default::default() };
    let mut info = compute_info();
    info.stage.p_specialization_info = place_one(constants);
    assert_eq!(clean, of_compute(&info).unwrap().0);
    // Inline code beside a module is not looked at.
    let code = vk::ShaderModuleCreateInfo { code_size: 64, p_code: forbidden(), ..Default::default() };
    let mut info = compute_info();
    info.stage.p_next = place_one(code).cast();
    assert_eq!(clean, of_compute(&info).unwrap().0);
}
