//! The create infos that are captured. Their parts are leaked, so they are valid for the whole process.

use std::ptr;

use ash::vk::{self, DynamicState as D, GraphicsPipelineLibraryFlagsEXT as Subset, Handle};
use vkstash_model::recipe::Recipe;
use vkstash_recipe::capture::parsed::Parsed;
use vkstash_recipe::capture::{Objects, Scratch, compute, graphics, ray_tracing};

/// A create info of any kind.
pub(crate) enum Info {
    Compute(vk::ComputePipelineCreateInfo<'static>),
    Graphics(vk::GraphicsPipelineCreateInfo<'static>),
    RayTracing(vk::RayTracingPipelineCreateInfoKHR<'static>),
}

impl Info {
    /// Reads the create options and captures the recipe, with the layer's own functions.
    pub(crate) fn capture<'a>(&'a self, objects: &impl Objects, scratch: &'a mut Scratch) -> Recipe<'a> {
        // SAFETY: every case below is a valid create info, and its parts are never freed.
        let captured = unsafe {
            match self {
                Info::Compute(info) => compute::compute(info, &Parsed::compute(info), objects, scratch),
                Info::Graphics(info) => graphics::graphics(info, &Parsed::graphics(info), objects, scratch),
                Info::RayTracing(info) => {
                    ray_tracing::ray_tracing(info, &Parsed::ray_tracing(info), objects, scratch)
                }
            }
        };
        captured.expect("a case that can be described").recipe
    }
}

/// One pipeline whose capture is measured.
pub(crate) struct Case {
    /// For the ids of figures.
    pub(crate) id: &'static str,
    /// The pipeline in words.
    pub(crate) what: &'static str,
    pub(crate) info: Info,
}

/// The subsets of the libraries that the first pipeline handles stand for.
pub(crate) const LIBRARIES: [Subset; 4] = [
    Subset::VERTEX_INPUT_INTERFACE,
    Subset::PRE_RASTERIZATION_SHADERS,
    Subset::FRAGMENT_SHADER,
    Subset::FRAGMENT_OUTPUT_INTERFACE,
];

/// All cases.
pub(crate) fn all() -> Vec<Case> {
    let case = |id, what, info| Case { id, what, info };
    vec![
        case("compute", "compute, 1 constant", Info::Compute(compute(1))),
        case("compute8", "compute, 8 constants", Info::Compute(compute(8))),
        case("graphics", "graphics, render pass", Info::Graphics(with_render_pass())),
        case("dynamic", "graphics, dynamic rendering, 29 dynamic states", Info::Graphics(dynamic())),
        case("library", "fragment shader library", Info::Graphics(library())),
        case("link", "link of four libraries", Info::Graphics(link())),
        case("ray", "ray tracing, 8 stages, 6 groups", Info::RayTracing(ray_tracing_pipeline())),
    ]
}

fn keep<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

fn keep_all<T>(values: Vec<T>) -> &'static [T] {
    Vec::leak(values)
}

/// 32-bit constants.
fn constants(count: u32) -> &'static vk::SpecializationInfo<'static> {
    let entry = |id| vk::SpecializationMapEntry { constant_id: id, offset: id * 4, size: 4 };
    let data = keep_all((0..count).flat_map(u32::to_le_bytes).collect());
    let entries = keep_all((0..count).map(entry).collect());
    keep(vk::SpecializationInfo::default().map_entries(entries).data(data))
}

fn stage(kind: vk::ShaderStageFlags, module: u64) -> vk::PipelineShaderStageCreateInfo<'static> {
    let module = vk::ShaderModule::from_raw(module);
    vk::PipelineShaderStageCreateInfo::default().stage(kind).module(module).name(c"main")
}

fn compute(constant_count: u32) -> vk::ComputePipelineCreateInfo<'static> {
    let stage = stage(vk::ShaderStageFlags::COMPUTE, 1).specialization_info(constants(constant_count));
    vk::ComputePipelineCreateInfo::default().stage(stage).layout(vk::PipelineLayout::from_raw(1))
}

fn vertex_and_fragment() -> &'static [vk::PipelineShaderStageCreateInfo<'static>] {
    keep_all(vec![stage(vk::ShaderStageFlags::VERTEX, 2), stage(vk::ShaderStageFlags::FRAGMENT, 3)])
}

fn vertex_input() -> &'static vk::PipelineVertexInputStateCreateInfo<'static> {
    let attribute = |location, format, offset| vk::VertexInputAttributeDescription {
        location,
        binding: 0,
        format,
        offset,
    };
    let bindings = keep_all(vec![vk::VertexInputBindingDescription::default().stride(32)]);
    let attributes = keep_all(vec![
        attribute(0, vk::Format::R32G32B32_SFLOAT, 0),
        attribute(1, vk::Format::R32G32B32_SFLOAT, 12),
        attribute(2, vk::Format::R32G32_SFLOAT, 24),
    ]);
    let state = vk::PipelineVertexInputStateCreateInfo::default();
    keep(state.vertex_binding_descriptions(bindings).vertex_attribute_descriptions(attributes))
}

fn input_assembly() -> &'static vk::PipelineInputAssemblyStateCreateInfo<'static> {
    keep(vk::PipelineInputAssemblyStateCreateInfo::default().topology(vk::PrimitiveTopology::TRIANGLE_LIST))
}

fn rasterization() -> vk::PipelineRasterizationStateCreateInfo<'static> {
    vk::PipelineRasterizationStateCreateInfo::default()
        .cull_mode(vk::CullModeFlags::BACK)
        .front_face(vk::FrontFace::COUNTER_CLOCKWISE)
        .line_width(1.0)
}

fn multisample() -> &'static vk::PipelineMultisampleStateCreateInfo<'static> {
    let state = vk::PipelineMultisampleStateCreateInfo::default();
    keep(state.rasterization_samples(vk::SampleCountFlags::TYPE_1))
}

fn depth_stencil() -> &'static vk::PipelineDepthStencilStateCreateInfo<'static> {
    keep(
        vk::PipelineDepthStencilStateCreateInfo::default()
            .depth_test_enable(true)
            .depth_write_enable(true)
            .depth_compare_op(vk::CompareOp::LESS_OR_EQUAL),
    )
}

/// Blending for this many attachments.
fn blending(attachments: usize) -> &'static vk::PipelineColorBlendStateCreateInfo<'static> {
    let attachment = vk::PipelineColorBlendAttachmentState::default()
        .blend_enable(true)
        .src_color_blend_factor(vk::BlendFactor::SRC_ALPHA)
        .dst_color_blend_factor(vk::BlendFactor::ONE_MINUS_SRC_ALPHA)
        .src_alpha_blend_factor(vk::BlendFactor::ONE)
        .color_write_mask(vk::ColorComponentFlags::RGBA);
    let attachments = keep_all(vec![attachment; attachments]);
    keep(vk::PipelineColorBlendStateCreateInfo::default().attachments(attachments))
}

fn dynamic_states(states: &[D]) -> &'static vk::PipelineDynamicStateCreateInfo<'static> {
    keep(vk::PipelineDynamicStateCreateInfo::default().dynamic_states(keep_all(states.to_vec())))
}

/// A pipeline of an engine with render passes.
fn with_render_pass() -> vk::GraphicsPipelineCreateInfo<'static> {
    let viewport = vk::PipelineViewportStateCreateInfo::default().viewport_count(1).scissor_count(1);
    vk::GraphicsPipelineCreateInfo::default()
        .stages(vertex_and_fragment())
        .vertex_input_state(vertex_input())
        .input_assembly_state(input_assembly())
        .viewport_state(keep(viewport))
        .rasterization_state(keep(rasterization()))
        .multisample_state(multisample())
        .depth_stencil_state(depth_stencil())
        .color_blend_state(blending(1))
        .dynamic_state(dynamic_states(&[D::VIEWPORT, D::SCISSOR]))
        .layout(vk::PipelineLayout::from_raw(1))
        .render_pass(vk::RenderPass::from_raw(1))
}

/// Dynamic states in the order in which translators list them: by extension, not by number.
const TRANSLATORS: [D; 29] = [
    D::VIEWPORT_WITH_COUNT,
    D::SCISSOR_WITH_COUNT,
    D::DEPTH_BIAS,
    D::DEPTH_BIAS_ENABLE,
    D::CULL_MODE,
    D::FRONT_FACE,
    D::PRIMITIVE_TOPOLOGY,
    D::PRIMITIVE_RESTART_ENABLE,
    D::RASTERIZER_DISCARD_ENABLE,
    D::VERTEX_INPUT_EXT,
    D::DEPTH_TEST_ENABLE,
    D::DEPTH_WRITE_ENABLE,
    D::DEPTH_COMPARE_OP,
    D::DEPTH_BOUNDS,
    D::DEPTH_BOUNDS_TEST_ENABLE,
    D::STENCIL_COMPARE_MASK,
    D::STENCIL_WRITE_MASK,
    D::STENCIL_REFERENCE,
    D::STENCIL_TEST_ENABLE,
    D::STENCIL_OP,
    D::BLEND_CONSTANTS,
    D::DEPTH_CLAMP_ENABLE_EXT,
    D::DEPTH_CLIP_ENABLE_EXT,
    D::POLYGON_MODE_EXT,
    D::RASTERIZATION_SAMPLES_EXT,
    D::SAMPLE_MASK_EXT,
    D::ALPHA_TO_COVERAGE_ENABLE_EXT,
    D::COLOR_WRITE_MASK_EXT,
    D::LINE_RASTERIZATION_MODE_EXT,
];

fn flags2(flags: vk::PipelineCreateFlags) -> vk::PipelineCreateFlags2CreateInfoKHR<'static> {
    let flags = vk::PipelineCreateFlags2KHR::from_raw(u64::from(flags.as_raw()));
    vk::PipelineCreateFlags2CreateInfoKHR::default().flags(flags)
}

fn chained<T>(structure: &'static T) -> *const std::ffi::c_void {
    ptr::from_ref(structure).cast()
}

/// A pipeline of a translator: four attachments, flags and clipping in chains, and all dynamic state.
fn dynamic() -> vk::GraphicsPipelineCreateInfo<'static> {
    let formats = keep_all(vec![vk::Format::R8G8B8A8_UNORM; 4]);
    let mut rendering = vk::PipelineRenderingCreateInfo::default()
        .color_attachment_formats(formats)
        .depth_attachment_format(vk::Format::D32_SFLOAT);
    rendering.p_next = chained(keep(flags2(vk::PipelineCreateFlags::empty())));
    let mut rasterization = rasterization();
    let clip = vk::PipelineRasterizationDepthClipStateCreateInfoEXT::default().depth_clip_enable(true);
    rasterization.p_next = chained(keep(clip));
    let mut info = vk::GraphicsPipelineCreateInfo::default()
        .stages(vertex_and_fragment())
        .vertex_input_state(vertex_input())
        .input_assembly_state(input_assembly())
        .viewport_state(keep(Default::default()))
        .rasterization_state(keep(rasterization))
        .multisample_state(multisample())
        .depth_stencil_state(depth_stencil())
        .color_blend_state(blending(4))
        .dynamic_state(dynamic_states(&TRANSLATORS))
        .layout(vk::PipelineLayout::from_raw(1));
    info.p_next = chained(keep(rendering));
    info
}

/// A fragment shader library, as DXVK creates it ahead of time.
fn library() -> vk::GraphicsPipelineCreateInfo<'static> {
    let rendering = vk::PipelineRenderingCreateInfo::default();
    let mut subset = vk::GraphicsPipelineLibraryCreateInfoEXT::default().flags(Subset::FRAGMENT_SHADER);
    subset.p_next = chained(keep(rendering));
    let mut flags = flags2(vk::PipelineCreateFlags::LIBRARY_KHR);
    flags.p_next = chained(keep(subset));
    let states = [
        D::DEPTH_TEST_ENABLE,
        D::DEPTH_WRITE_ENABLE,
        D::DEPTH_COMPARE_OP,
        D::DEPTH_BOUNDS,
        D::DEPTH_BOUNDS_TEST_ENABLE,
        D::STENCIL_COMPARE_MASK,
        D::STENCIL_WRITE_MASK,
        D::STENCIL_REFERENCE,
        D::STENCIL_TEST_ENABLE,
        D::STENCIL_OP,
    ];
    let mut info = vk::GraphicsPipelineCreateInfo::default()
        .stages(keep_all(vec![stage(vk::ShaderStageFlags::FRAGMENT, 3)]))
        .depth_stencil_state(depth_stencil())
        .dynamic_state(dynamic_states(&states))
        .layout(vk::PipelineLayout::from_raw(1));
    info.p_next = chained(keep(flags));
    info
}

/// A pipeline that is linked of libraries alone, from which all its state comes.
fn link() -> vk::GraphicsPipelineCreateInfo<'static> {
    let libraries = keep_all((1..=LIBRARIES.len() as u64).map(vk::Pipeline::from_raw).collect());
    let mut flags = flags2(vk::PipelineCreateFlags::LINK_TIME_OPTIMIZATION_EXT);
    flags.p_next = chained(keep(vk::PipelineLibraryCreateInfoKHR::default().libraries(libraries)));
    let layout = vk::PipelineLayout::from_raw(1);
    let mut info = vk::GraphicsPipelineCreateInfo::default().layout(layout);
    info.p_next = chained(keep(flags));
    info
}

/// A ray generation shader, two miss shaders, and three materials, two of which test for transparency.
fn ray_tracing_pipeline() -> vk::RayTracingPipelineCreateInfoKHR<'static> {
    use vk::ShaderStageFlags as S;
    let kinds = [
        S::RAYGEN_KHR,
        S::MISS_KHR,
        S::MISS_KHR,
        S::CLOSEST_HIT_KHR,
        S::CLOSEST_HIT_KHR,
        S::CLOSEST_HIT_KHR,
        S::ANY_HIT_KHR,
        S::ANY_HIT_KHR,
    ];
    let stages = keep_all((10..).zip(kinds).map(|(module, kind)| stage(kind, module)).collect());
    let unused = vk::SHADER_UNUSED_KHR;
    let group = |general, closest_hit, any_hit| {
        let ty = match general == unused {
            true => vk::RayTracingShaderGroupTypeKHR::TRIANGLES_HIT_GROUP,
            false => vk::RayTracingShaderGroupTypeKHR::GENERAL,
        };
        vk::RayTracingShaderGroupCreateInfoKHR::default()
            .ty(ty)
            .general_shader(general)
            .closest_hit_shader(closest_hit)
            .any_hit_shader(any_hit)
            .intersection_shader(unused)
    };
    let groups = keep_all(vec![
        group(0, unused, unused),
        group(1, unused, unused),
        group(2, unused, unused),
        group(unused, 3, unused),
        group(unused, 4, 6),
        group(unused, 5, 7),
    ]);
    vk::RayTracingPipelineCreateInfoKHR::default()
        .stages(stages)
        .groups(groups)
        .max_pipeline_ray_recursion_depth(2)
        .layout(vk::PipelineLayout::from_raw(1))
}
