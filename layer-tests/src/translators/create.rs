//! The creation calls of both translators: one create info, no allocator.

use std::ptr;
use std::time::{Duration, Instant};

use ash::vk::{self, Handle};

use super::gpu::Gpu;
use super::stages::Stages;

/// LIBRARY.
pub const LIBRARY: u64 = vk::PipelineCreateFlags::LIBRARY_KHR.as_raw() as u64;
/// FAIL_ON_PIPELINE_COMPILE_REQUIRED.
pub const FAIL_ON: u64 = vk::PipelineCreateFlags::FAIL_ON_PIPELINE_COMPILE_REQUIRED.as_raw() as u64;
/// LINK_TIME_OPTIMIZATION.
pub const OPTIMISE: u64 = vk::PipelineCreateFlags::LINK_TIME_OPTIMIZATION_EXT.as_raw() as u64;
/// RETAIN_LINK_TIME_OPTIMIZATION_INFO.
pub const RETAIN: u64 = vk::PipelineCreateFlags::RETAIN_LINK_TIME_OPTIMIZATION_INFO_EXT.as_raw() as u64;

/// The output's content before the call: translators pass uninitialised storage.
const UNWRITTEN: u64 = 0xdead_beef_dead_beef;

/// One call that creates a pipeline.
#[derive(Clone, Copy, Debug)]
pub struct Created {
    /// Its result.
    pub result: vk::Result,
    /// The output after the call.
    pub pipeline: vk::Pipeline,
    /// Time of the call.
    pub took: Duration,
}

/// The flags for the create info itself: the translators use none that fit only into flags2.
fn plain(flags: u64) -> vk::PipelineCreateFlags {
    vk::PipelineCreateFlags::from_raw(u32::try_from(flags).expect("flags of 32 bits"))
}

/// A compute pipeline.
pub fn compute(gpu: &Gpu, cache: vk::PipelineCache, flags: u64, stages: &Stages<'_>) -> Created {
    let mut chain =
        vk::PipelineCreateFlags2CreateInfoKHR::default().flags(vk::PipelineCreateFlags2KHR::from_raw(flags));
    let mut info = vk::ComputePipelineCreateInfo::default()
        .stage(stages.infos()[0])
        .layout(gpu.compute)
        .base_pipeline_index(-1);
    if !gpu.flags2 {
        info.flags = plain(flags);
    } else if flags != 0 {
        info = info.push_next(&mut chain);
    }
    call(|out| {
        let create = gpu.device.fp_v1_0().create_compute_pipelines;
        // SAFETY: a live device, layout and cache or none; everything the create info points to outlives the
        // call; room for one pipeline.
        unsafe { create(gpu.device.handle(), cache, 1, &info, ptr::null(), out) }
    })
}

/// A graphics pipeline, a library of one, or a link.
pub struct Graphics<'a> {
    /// The parts of the pipeline that stand in this create info.
    pub subsets: vk::GraphicsPipelineLibraryFlagsEXT,
    /// Creation flags.
    pub flags: u64,
    /// Stages of the subsets.
    pub stages: &'a Stages<'a>,
    /// What is linked.
    pub libraries: &'a [vk::Pipeline],
    /// The layout.
    pub layout: vk::PipelineLayout,
    /// Format of the colour attachment.
    pub format: vk::Format,
}

/// Every part of a graphics pipeline.
pub fn whole() -> vk::GraphicsPipelineLibraryFlagsEXT {
    vk::GraphicsPipelineLibraryFlagsEXT::VERTEX_INPUT_INTERFACE
        | vk::GraphicsPipelineLibraryFlagsEXT::PRE_RASTERIZATION_SHADERS
        | vk::GraphicsPipelineLibraryFlagsEXT::FRAGMENT_SHADER
        | vk::GraphicsPipelineLibraryFlagsEXT::FRAGMENT_OUTPUT_INTERFACE
}

/// State that a translator leaves dynamic in these parts: as much as possible, because it knows little when it
/// creates them.
fn dynamic_states(subsets: vk::GraphicsPipelineLibraryFlagsEXT) -> Vec<vk::DynamicState> {
    let mut states = Vec::new();
    if subsets.contains(vk::GraphicsPipelineLibraryFlagsEXT::PRE_RASTERIZATION_SHADERS) {
        states.extend([
            vk::DynamicState::VIEWPORT_WITH_COUNT,
            vk::DynamicState::SCISSOR_WITH_COUNT,
            vk::DynamicState::DEPTH_BIAS,
            vk::DynamicState::DEPTH_BIAS_ENABLE,
            vk::DynamicState::CULL_MODE,
            vk::DynamicState::FRONT_FACE,
        ]);
    }
    if subsets.contains(vk::GraphicsPipelineLibraryFlagsEXT::FRAGMENT_SHADER) {
        states.extend([
            vk::DynamicState::DEPTH_TEST_ENABLE,
            vk::DynamicState::DEPTH_WRITE_ENABLE,
            vk::DynamicState::DEPTH_COMPARE_OP,
            vk::DynamicState::STENCIL_COMPARE_MASK,
            vk::DynamicState::STENCIL_WRITE_MASK,
            vk::DynamicState::STENCIL_REFERENCE,
            vk::DynamicState::STENCIL_TEST_ENABLE,
            vk::DynamicState::STENCIL_OP,
        ]);
    }
    if subsets.contains(vk::GraphicsPipelineLibraryFlagsEXT::FRAGMENT_OUTPUT_INTERFACE) {
        states.push(vk::DynamicState::BLEND_CONSTANTS);
    }
    states
}

/// The state of all subsets.
struct State {
    vertex_input: vk::PipelineVertexInputStateCreateInfo<'static>,
    input_assembly: vk::PipelineInputAssemblyStateCreateInfo<'static>,
    viewport: vk::PipelineViewportStateCreateInfo<'static>,
    rasterization: vk::PipelineRasterizationStateCreateInfo<'static>,
    depth_stencil: vk::PipelineDepthStencilStateCreateInfo<'static>,
    multisample: vk::PipelineMultisampleStateCreateInfo<'static>,
    blend: vk::PipelineColorBlendStateCreateInfo<'static>,
}

impl State {
    fn new() -> State {
        const BINDINGS: [vk::VertexInputBindingDescription; 1] = [vk::VertexInputBindingDescription {
            binding: 0,
            stride: 16,
            input_rate: vk::VertexInputRate::VERTEX,
        }];
        const ATTRIBUTES: [vk::VertexInputAttributeDescription; 1] = [vk::VertexInputAttributeDescription {
            location: 0,
            binding: 0,
            format: vk::Format::R32G32B32A32_SFLOAT,
            offset: 0,
        }];
        const BLENDS: [vk::PipelineColorBlendAttachmentState; 1] = [vk::PipelineColorBlendAttachmentState {
            blend_enable: vk::FALSE,
            src_color_blend_factor: vk::BlendFactor::ZERO,
            dst_color_blend_factor: vk::BlendFactor::ZERO,
            color_blend_op: vk::BlendOp::ADD,
            src_alpha_blend_factor: vk::BlendFactor::ZERO,
            dst_alpha_blend_factor: vk::BlendFactor::ZERO,
            alpha_blend_op: vk::BlendOp::ADD,
            color_write_mask: vk::ColorComponentFlags::RGBA,
        }];
        State {
            vertex_input: vk::PipelineVertexInputStateCreateInfo::default()
                .vertex_binding_descriptions(&BINDINGS)
                .vertex_attribute_descriptions(&ATTRIBUTES),
            input_assembly: vk::PipelineInputAssemblyStateCreateInfo::default()
                .topology(vk::PrimitiveTopology::TRIANGLE_LIST),
            viewport: vk::PipelineViewportStateCreateInfo::default(),
            rasterization: vk::PipelineRasterizationStateCreateInfo::default().line_width(1.0),
            depth_stencil: vk::PipelineDepthStencilStateCreateInfo::default(),
            multisample: vk::PipelineMultisampleStateCreateInfo::default()
                .rasterization_samples(vk::SampleCountFlags::TYPE_1),
            blend: vk::PipelineColorBlendStateCreateInfo::default().attachments(&BLENDS),
        }
    }

    /// The create info with the state of these subsets.
    fn put<'a>(
        &'a self,
        mut info: vk::GraphicsPipelineCreateInfo<'a>,
        subsets: vk::GraphicsPipelineLibraryFlagsEXT,
    ) -> vk::GraphicsPipelineCreateInfo<'a> {
        type Subset = vk::GraphicsPipelineLibraryFlagsEXT;
        if subsets.contains(Subset::VERTEX_INPUT_INTERFACE) {
            info = info.vertex_input_state(&self.vertex_input).input_assembly_state(&self.input_assembly);
        }
        if subsets.contains(Subset::PRE_RASTERIZATION_SHADERS) {
            info = info.viewport_state(&self.viewport).rasterization_state(&self.rasterization);
        }
        if subsets.contains(Subset::FRAGMENT_SHADER) {
            info = info.depth_stencil_state(&self.depth_stencil);
        }
        if subsets.contains(Subset::FRAGMENT_OUTPUT_INTERFACE) {
            info = info.multisample_state(&self.multisample).color_blend_state(&self.blend);
        }
        info
    }
}

/// vkCreateGraphicsPipelines with the state of the given subsets, and NULL for all other state.
pub fn graphics(gpu: &Gpu, cache: vk::PipelineCache, wanted: &Graphics<'_>) -> Created {
    let dynamic_states = dynamic_states(wanted.subsets);
    let dynamic = vk::PipelineDynamicStateCreateInfo::default().dynamic_states(&dynamic_states);
    let state = State::new();
    let formats = [wanted.format];

    let mut flags = vk::PipelineCreateFlags2CreateInfoKHR::default()
        .flags(vk::PipelineCreateFlags2KHR::from_raw(wanted.flags));
    let mut subsets = vk::GraphicsPipelineLibraryCreateInfoEXT::default().flags(wanted.subsets);
    let mut linked = vk::PipelineLibraryCreateInfoKHR::default().libraries(wanted.libraries);
    let mut rendering = vk::PipelineRenderingCreateInfo::default();
    // Only the fragment output subset may name the attachments (06579).
    if wanted.subsets.contains(vk::GraphicsPipelineLibraryFlagsEXT::FRAGMENT_OUTPUT_INTERFACE) {
        rendering = rendering.color_attachment_formats(&formats);
    }

    let mut info = vk::GraphicsPipelineCreateInfo::default()
        .stages(wanted.stages.infos())
        .layout(wanted.layout)
        .base_pipeline_index(-1);
    if !wanted.subsets.is_empty() {
        info = info.push_next(&mut rendering);
    }
    if wanted.flags & LIBRARY != 0 || (!wanted.subsets.is_empty() && !wanted.libraries.is_empty()) {
        info = info.push_next(&mut subsets);
    }
    if !wanted.libraries.is_empty() {
        info = info.push_next(&mut linked);
    }
    if !gpu.flags2 {
        info.flags = plain(wanted.flags);
    } else if wanted.flags != 0 {
        info = info.push_next(&mut flags);
    }
    if !dynamic_states.is_empty() {
        info = info.dynamic_state(&dynamic);
    }
    info = state.put(info, wanted.subsets);
    call(|out| {
        let create = gpu.device.fp_v1_0().create_graphics_pipelines;
        // SAFETY: a live device, layout, libraries and cache or none; everything that the create info points to
        // outlives the call; room for one pipeline.
        unsafe { create(gpu.device.handle(), cache, 1, &info, ptr::null(), out) }
    })
}

/// Makes and times a call. An output that was not written is returned as it was, so that the caller can tell.
fn call(create: impl FnOnce(*mut vk::Pipeline) -> vk::Result) -> Created {
    let mut pipeline = vk::Pipeline::from_raw(UNWRITTEN);
    let started = Instant::now();
    let result = create(&mut pipeline);
    Created { result, pipeline, took: started.elapsed() }
}
