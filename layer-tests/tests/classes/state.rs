//! State of graphics pipelines, member by member: a pipeline is compiled in the first run and served in the second,
//! and a pipeline that differs in one member is never served.

use ash::vk::{self, DynamicState as D, ShaderStageFlags as S, StructureType as T};
use ash::{ext, khr};
use serde_json::{Value, json};
use vkstash_layer_tests::child::scenario;
use vkstash_layer_tests::env::Driver;
use vkstash_layer_tests::vulkan::{shaders, spirv};

use super::draft::{Draft, FORMAT};
use super::rig::{Rig, keep, keep_all};
use super::{Results, covered};

/// A change to the plain pipeline; false if the device lacks a feature for it.
type Change = fn(&Rig, &mut Draft) -> bool;

const MESH: T = T::PHYSICAL_DEVICE_MESH_SHADER_FEATURES_EXT;
const RATE: T = T::PHYSICAL_DEVICE_FRAGMENT_SHADING_RATE_FEATURES_KHR;
const LINE: T = T::PHYSICAL_DEVICE_LINE_RASTERIZATION_FEATURES_EXT;
const MULTIVIEW: T = T::PHYSICAL_DEVICE_VULKAN_1_1_FEATURES;

const CHANGES: &[(&str, Change)] = &[
    ("nothing", |_, _| true),
    ("mesh", |rig, draft| mesh(rig, draft, false)),
    ("task and mesh", |rig, draft| mesh(rig, draft, true)),
    ("another mesh", |rig, draft| {
        let all = mesh(rig, draft, false);
        draft.stages[0] = rig.stage(S::MESH_EXT, &shaders::empty(S::MESH_EXT, 2));
        all
    }),
    ("tessellation", |rig, draft| tessellated(rig, draft, 3)),
    ("patches of four", |rig, draft| tessellated(rig, draft, 4)),
    ("domain origin", |rig, draft| {
        tessellated(rig, draft, 3);
        let origin = vk::PipelineTessellationDomainOriginStateCreateInfo::default()
            .domain_origin(vk::TessellationDomainOrigin::LOWER_LEFT);
        draft.tessellation = draft.tessellation.map(|state| state.push_next(keep(origin)));
        true
    }),
    ("geometry", |rig, draft| {
        draft.stages.insert(1, rig.stage(S::GEOMETRY, &shaders::empty(S::GEOMETRY, 1)));
        true
    }),
    ("two views", |rig, draft| {
        draft.rendering.view_mask = 0b11;
        rig.feature(MULTIVIEW, 4)
    }),
    ("three views", |rig, draft| {
        draft.rendering.view_mask = 0b111;
        rig.feature(MULTIVIEW, 4)
    }),
    ("shading rate", |rig, draft| rate(rig, draft, 2)),
    ("another combiner", |rig, draft| {
        let state = vk::PipelineFragmentShadingRateStateCreateInfoKHR::default()
            .fragment_size(vk::Extent2D { width: 2, height: 2 })
            .combiner_ops([
                vk::FragmentShadingRateCombinerOpKHR::KEEP,
                vk::FragmentShadingRateCombinerOpKHR::REPLACE,
            ]);
        draft.info = draft.info.push_next(keep(state));
        rig.feature(RATE, 0) && rig.feature(RATE, 2)
    }),
    ("robust buffers", |rig, draft| {
        draft.info =
            draft.info.push_next(keep(robust(vk::PipelineRobustnessBufferBehaviorEXT::ROBUST_BUFFER_ACCESS)));
        rig.has(ext::pipeline_robustness::NAME)
    }),
    ("no robust buffers", |rig, draft| {
        draft.info = draft.info.push_next(keep(robust(vk::PipelineRobustnessBufferBehaviorEXT::DISABLED)));
        rig.has(ext::pipeline_robustness::NAME)
    }),
    ("a robust stage", |rig, draft| {
        let state = robust(vk::PipelineRobustnessBufferBehaviorEXT::ROBUST_BUFFER_ACCESS);
        draft.stages[1] = draft.stages[1].push_next(keep(state));
        rig.has(ext::pipeline_robustness::NAME)
    }),
    ("another robust stage", |rig, draft| {
        let state = robust(vk::PipelineRobustnessBufferBehaviorEXT::ROBUST_BUFFER_ACCESS);
        draft.stages[0] = draft.stages[0].push_next(keep(state));
        rig.has(ext::pipeline_robustness::NAME)
    }),
    ("sample locations", |rig, draft| locations(rig, draft, 0.25)),
    ("other sample locations", |rig, draft| locations(rig, draft, 0.75)),
    ("dynamic sample locations", |rig, draft| {
        draft.dynamic.push(D::SAMPLE_LOCATIONS_EXT);
        locations(rig, draft, 0.25)
    }),
    ("discard rectangle", |rig, draft| discard(rig, draft, vk::DiscardRectangleModeEXT::INCLUSIVE)),
    ("exclusive rectangle", |rig, draft| discard(rig, draft, vk::DiscardRectangleModeEXT::EXCLUSIVE)),
    ("dynamic rectangle", |rig, draft| {
        draft.dynamic.push(D::DISCARD_RECTANGLE_EXT);
        discard(rig, draft, vk::DiscardRectangleModeEXT::INCLUSIVE)
    }),
    ("conservative", |rig, draft| {
        let state = vk::PipelineRasterizationConservativeStateCreateInfoEXT::default()
            .conservative_rasterization_mode(vk::ConservativeRasterizationModeEXT::OVERESTIMATE);
        draft.raster = draft.raster.push_next(keep(state));
        rig.has(ext::conservative_rasterization::NAME)
    }),
    ("bresenham lines", |rig, draft| {
        lines(draft, vk::LineRasterizationModeEXT::BRESENHAM);
        rig.feature(LINE, 1)
    }),
    ("rectangular lines", |rig, draft| {
        lines(draft, vk::LineRasterizationModeEXT::RECTANGULAR);
        rig.feature(LINE, 0)
    }),
    ("provoking vertex", |rig, draft| {
        let state = vk::PipelineRasterizationProvokingVertexStateCreateInfoEXT::default()
            .provoking_vertex_mode(vk::ProvokingVertexModeEXT::LAST_VERTEX);
        draft.raster = draft.raster.push_next(keep(state));
        rig.has(ext::provoking_vertex::NAME)
    }),
    ("no depth clipping", |rig, draft| {
        let state = vk::PipelineRasterizationDepthClipStateCreateInfoEXT::default().depth_clip_enable(false);
        draft.raster = draft.raster.push_next(keep(state));
        rig.has(ext::depth_clip_enable::NAME)
    }),
    ("clip from minus one", |rig, draft| {
        let state = vk::PipelineViewportDepthClipControlCreateInfoEXT::default().negative_one_to_one(true);
        draft.viewport = draft.viewport.push_next(keep(state));
        rig.has(ext::depth_clip_control::NAME)
    }),
    ("colour writes", |rig, draft| colour_writes(rig, draft, 1)),
    ("no colour writes", |rig, draft| colour_writes(rig, draft, 0)),
    ("dynamic colour writes", |rig, draft| {
        draft.dynamic.push(D::COLOR_WRITE_ENABLE_EXT);
        colour_writes(rig, draft, 0)
    }),
    ("vertex bindings", |_, draft| {
        bindings(draft, vk::VertexInputRate::VERTEX);
        true
    }),
    ("instances", |_, draft| {
        bindings(draft, vk::VertexInputRate::INSTANCE);
        true
    }),
    ("a divisor", |rig, draft| {
        bindings(draft, vk::VertexInputRate::INSTANCE);
        let divisors = keep_all([vk::VertexInputBindingDivisorDescriptionEXT { binding: 0, divisor: 3 }]);
        let state =
            vk::PipelineVertexInputDivisorStateCreateInfoEXT::default().vertex_binding_divisors(divisors);
        draft.vertex_input = draft.vertex_input.push_next(keep(state));
        rig.feature(T::PHYSICAL_DEVICE_VERTEX_ATTRIBUTE_DIVISOR_FEATURES_EXT, 0)
    }),
    ("lines", |_, draft| {
        draft.assembly.topology = vk::PrimitiveTopology::LINE_LIST;
        true
    }),
    ("cull", |_, draft| {
        draft.raster.cull_mode = vk::CullModeFlags::BACK;
        true
    }),
    ("depth bias", |_, draft| {
        draft.raster = draft.raster.depth_bias_enable(true).depth_bias_slope_factor(2.0);
        true
    }),
    ("four samples", |_, draft| {
        draft.multisample.rasterization_samples = vk::SampleCountFlags::TYPE_4;
        true
    }),
    ("a sample mask", |_, draft| {
        draft.multisample.rasterization_samples = vk::SampleCountFlags::TYPE_4;
        draft.multisample.p_sample_mask = keep(0b0101u32);
        true
    }),
    ("another sample mask", |_, draft| {
        draft.multisample.rasterization_samples = vk::SampleCountFlags::TYPE_4;
        draft.multisample.p_sample_mask = keep(0b1010u32);
        true
    }),
    ("alpha to coverage", |_, draft| {
        draft.multisample.alpha_to_coverage_enable = vk::TRUE;
        true
    }),
    ("blending", |_, draft| {
        draft.attachment = draft
            .attachment
            .blend_enable(true)
            .src_color_blend_factor(vk::BlendFactor::SRC_ALPHA)
            .dst_color_blend_factor(vk::BlendFactor::ONE_MINUS_SRC_ALPHA);
        true
    }),
    ("a write mask", |_, draft| {
        draft.attachment.color_write_mask = vk::ColorComponentFlags::R;
        true
    }),
    ("another format", |_, draft| {
        draft.rendering =
            draft.rendering.color_attachment_formats(keep_all([vk::Format::R16G16B16A16_SFLOAT]));
        true
    }),
    ("a depth test", |_, draft| depth(draft, vk::CompareOp::LESS)),
    ("another depth test", |_, draft| depth(draft, vk::CompareOp::GREATER)),
    ("dynamic states of 1.3", |_, draft| {
        draft.viewport.viewport_count = 0;
        draft.viewport.scissor_count = 0;
        draft.dynamic = vec![D::VIEWPORT_WITH_COUNT, D::SCISSOR_WITH_COUNT];
        draft.dynamic.extend([D::LINE_WIDTH, D::DEPTH_BIAS, D::BLEND_CONSTANTS, D::DEPTH_BOUNDS]);
        draft.dynamic.extend([D::STENCIL_COMPARE_MASK, D::STENCIL_WRITE_MASK, D::STENCIL_REFERENCE]);
        draft.dynamic.extend([D::CULL_MODE, D::FRONT_FACE, D::PRIMITIVE_TOPOLOGY, D::DEPTH_TEST_ENABLE]);
        draft.dynamic.extend([D::DEPTH_WRITE_ENABLE, D::DEPTH_COMPARE_OP, D::DEPTH_BOUNDS_TEST_ENABLE]);
        draft.dynamic.extend([D::STENCIL_TEST_ENABLE, D::STENCIL_OP, D::RASTERIZER_DISCARD_ENABLE]);
        draft.dynamic.extend([D::DEPTH_BIAS_ENABLE, D::PRIMITIVE_RESTART_ENABLE]);
        true
    }),
    ("dynamic state three", |rig, draft| {
        let three = T::PHYSICAL_DEVICE_EXTENDED_DYNAMIC_STATE_3_FEATURES_EXT;
        let states = [
            D::TESSELLATION_DOMAIN_ORIGIN_EXT,
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
        ];
        let on = states.iter().enumerate().filter(|(member, _)| rig.feature(three, *member));
        draft.dynamic.extend(on.map(|(_, state)| *state));
        // If the device lacks the feature, the static value stays.
        rig.feature(three, 8)
    }),
    ("dynamic vertex input", |rig, draft| {
        draft.dynamic.push(D::VERTEX_INPUT_EXT);
        rig.feature(T::PHYSICAL_DEVICE_VERTEX_INPUT_DYNAMIC_STATE_FEATURES_EXT, 0)
    }),
    ("discarded", |_, draft| {
        draft.raster.rasterizer_discard_enable = vk::TRUE;
        true
    }),
    ("discarded in a render pass", |rig, draft| {
        draft.raster.rasterizer_discard_enable = vk::TRUE;
        draft.info.render_pass = rig.device.render_pass(FORMAT);
        true
    }),
    ("another fragment shader", |rig, draft| {
        draft.stages[1] = rig.stage(S::FRAGMENT, &spirv::fragment(0.75));
        true
    }),
];

fn mesh(rig: &Rig, draft: &mut Draft, task: bool) -> bool {
    if !rig.has(ext::mesh_shader::NAME) {
        return false;
    }
    draft.stages[0] = rig.stage(S::MESH_EXT, &shaders::empty(S::MESH_EXT, 1));
    if task {
        draft.stages.insert(0, rig.stage(S::TASK_EXT, &shaders::empty(S::TASK_EXT, 1)));
    }
    // Members: task, mesh.
    rig.feature(MESH, 1) && (!task || rig.feature(MESH, 0))
}

fn tessellated(rig: &Rig, draft: &mut Draft, points: u32) -> bool {
    let evaluation = rig.stage(S::TESSELLATION_EVALUATION, &shaders::empty(S::TESSELLATION_EVALUATION, 1));
    let control = rig.stage(S::TESSELLATION_CONTROL, &shaders::empty(S::TESSELLATION_CONTROL, 1));
    draft.stages.splice(1..1, [control, evaluation]);
    draft.assembly.topology = vk::PrimitiveTopology::PATCH_LIST;
    draft.tessellation =
        Some(vk::PipelineTessellationStateCreateInfo::default().patch_control_points(points));
    true
}

fn rate(rig: &Rig, draft: &mut Draft, width: u32) -> bool {
    let state = vk::PipelineFragmentShadingRateStateCreateInfoKHR::default()
        .fragment_size(vk::Extent2D { width, height: 2 });
    draft.info = draft.info.push_next(keep(state));
    rig.has(khr::fragment_shading_rate::NAME) && rig.feature(RATE, 0)
}

fn robust(buffers: vk::PipelineRobustnessBufferBehaviorEXT) -> vk::PipelineRobustnessCreateInfoEXT<'static> {
    vk::PipelineRobustnessCreateInfoEXT::default().storage_buffers(buffers).uniform_buffers(buffers)
}

fn locations(rig: &Rig, draft: &mut Draft, x: f32) -> bool {
    let locations = keep_all([vk::SampleLocationEXT { x, y: 0.5 }; 4]);
    let info = vk::SampleLocationsInfoEXT::default()
        .sample_locations_per_pixel(vk::SampleCountFlags::TYPE_4)
        .sample_location_grid_size(vk::Extent2D { width: 1, height: 1 })
        .sample_locations(locations);
    let state = vk::PipelineSampleLocationsStateCreateInfoEXT::default()
        .sample_locations_enable(true)
        .sample_locations_info(info);
    draft.multisample =
        draft.multisample.rasterization_samples(vk::SampleCountFlags::TYPE_4).push_next(keep(state));
    rig.has(ext::sample_locations::NAME)
}

fn discard(rig: &Rig, draft: &mut Draft, mode: vk::DiscardRectangleModeEXT) -> bool {
    let extent = vk::Extent2D { width: 8, height: 8 };
    let rectangles = keep_all([vk::Rect2D { offset: vk::Offset2D::default(), extent }]);
    let state = vk::PipelineDiscardRectangleStateCreateInfoEXT::default()
        .discard_rectangle_mode(mode)
        .discard_rectangles(rectangles);
    draft.info = draft.info.push_next(keep(state));
    rig.has(ext::discard_rectangles::NAME)
}

fn lines(draft: &mut Draft, mode: vk::LineRasterizationModeEXT) {
    let state = vk::PipelineRasterizationLineStateCreateInfoEXT::default().line_rasterization_mode(mode);
    draft.raster = draft.raster.push_next(keep(state));
}

fn colour_writes(rig: &Rig, draft: &mut Draft, enabled: vk::Bool32) -> bool {
    let state = vk::PipelineColorWriteCreateInfoEXT::default().color_write_enables(keep_all([enabled]));
    draft.blend = draft.blend.push_next(keep(state));
    rig.has(ext::color_write_enable::NAME)
}

fn bindings(draft: &mut Draft, input_rate: vk::VertexInputRate) {
    let binding = vk::VertexInputBindingDescription { binding: 0, stride: 16, input_rate };
    draft.vertex_input = draft.vertex_input.vertex_binding_descriptions(keep_all([binding]));
}

fn depth(draft: &mut Draft, compare: vk::CompareOp) -> bool {
    draft.rendering.depth_attachment_format = vk::Format::D32_SFLOAT;
    draft.depth = draft.depth.depth_test_enable(true).depth_write_enable(true).depth_compare_op(compare);
    true
}

/// The step: creates a pipeline for each change that the input names, or for all. Null if the device lacks a feature.
pub fn make(input: &Value) -> Value {
    let rig = Rig::open();
    let wanted = |name: &str| input.as_array().is_none_or(|names| names.iter().any(|wanted| wanted == name));
    let made = CHANGES.iter().filter(|(name, _)| wanted(name)).map(|(name, change)| {
        let mut draft = Draft::new(&rig);
        let result =
            change(&rig, &mut draft).then(|| rig.graphics(vk::PipelineCache::null(), draft.complete()));
        json!([name, result.map(|(result, pipeline)| (result.as_raw(), pipeline != vk::Pipeline::null()))])
    });
    json!(made.collect::<Vec<_>>())
}

#[test]
fn pipelines_that_differ_in_one_member_have_different_keys_and_are_served() {
    scenario(&[("make", make)], |scenario| {
        for driver in [Driver::Radv, Driver::Lavapipe, Driver::Machine] {
            let Some(env) = scenario.on(driver.clone()) else { continue };
            let env = env.stash(scenario.folder().join(format!("stash-{}", driver.name())));
            let without = scenario.run_ok::<Results>("make", &env.clone().without_layer(), &()).value;
            let made: Vec<_> = without.iter().filter(|(_, result)| result.is_some()).collect();
            assert!(made.len() > 30, "{}: {without:?}", driver.name());
            assert!(made.iter().all(|(_, result)| *result == Some((0, true))), "{made:?}");

            let plain = scenario.run_ok::<Results>("make", &env, &["nothing"]);
            assert_eq!(plain.value, without[..1]);
            let changed: Vec<&str> = CHANGES[1..].iter().map(|(name, _)| *name).collect();
            let first = scenario.run_ok::<Results>("make", &env, &changed);
            assert_eq!(first.value, without[1..]);
            assert_eq!(first.reports.sum("served"), 0, "something was served that differs");
            assert_eq!(first.reports.sum("not_taken"), 0, "a key is another pipeline's");
            assert!(first.reports.bypassed().is_empty(), "{:?}", first.reports.bypassed());
            let second = scenario.run_ok::<Results>("make", &env, &());
            assert_eq!(second.value, without);
            covered(&driver, &second.reports, made.len());
            if driver == Driver::Radv {
                let counters = first.reports.counters();
                // RADV leaves some of the members out of its own key, and then has the pipeline already.
                let had = first.reports.sum("compiled") + first.reports.sum("driver_had");
                assert_eq!(had as usize, made.len() - 1, "{counters:?}");
            }
        }
    });
}
