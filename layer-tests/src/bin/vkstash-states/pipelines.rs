//! Creates the pipelines.

use std::time::Instant;

use ash::vk;
use vkstash_layer_tests::vulkan::{Device, spirv};

use crate::state::State;

/// Shaders of each stage for [`State::Shaders`].
const SHADERS: u32 = 14;

/// Colour formats of [`State::Formats`].
const FORMATS: [vk::Format; 10] = [
    vk::Format::R8G8B8A8_UNORM,
    vk::Format::R16G16B16A16_SFLOAT,
    vk::Format::R32G32B32A32_SFLOAT,
    vk::Format::R8_UNORM,
    vk::Format::R16_SFLOAT,
    vk::Format::R32_SFLOAT,
    vk::Format::R8G8_UNORM,
    vk::Format::R16G16_SFLOAT,
    vk::Format::R32G32_SFLOAT,
    vk::Format::R16G16B16A16_UNORM,
];

/// The objects that all pipelines share.
pub(crate) struct Objects {
    layout: vk::PipelineLayout,
    vertex: Vec<vk::ShaderModule>,
    fragment: Vec<vk::ShaderModule>,
}

/// The structures that one create info points to, at fixed addresses.
struct Parts {
    stages: [vk::PipelineShaderStageCreateInfo<'static>; 2],
    vertex_input: vk::PipelineVertexInputStateCreateInfo<'static>,
    input_assembly: vk::PipelineInputAssemblyStateCreateInfo<'static>,
    viewports: [vk::Viewport; 1],
    scissors: [vk::Rect2D; 1],
    viewport: vk::PipelineViewportStateCreateInfo<'static>,
    rasterization: vk::PipelineRasterizationStateCreateInfo<'static>,
    multisample: vk::PipelineMultisampleStateCreateInfo<'static>,
    depth_stencil: vk::PipelineDepthStencilStateCreateInfo<'static>,
    attachments: [vk::PipelineColorBlendAttachmentState; 1],
    blend: vk::PipelineColorBlendStateCreateInfo<'static>,
    formats: [vk::Format; 1],
    rendering: vk::PipelineRenderingCreateInfo<'static>,
    feedback: vk::PipelineCreationFeedbackCreateInfo<'static>,
}

impl Objects {
    pub(crate) fn new(device: &Device, state: State) -> Objects {
        let shaders = if state == State::Shaders { SHADERS } else { 1 };
        let value = |index: u32| 0.5 + index as f32;
        Objects {
            layout: device.empty_layout(),
            vertex: (0..shaders).map(|index| device.module(&spirv::vertex(value(index)))).collect(),
            fragment: (0..shaders).map(|index| device.module(&spirv::fragment(value(index)))).collect(),
        }
    }

    /// Creates these pipelines in one call; gives the result and the nanoseconds. Feedback is that of the first one.
    pub(crate) fn create(
        &self,
        device: &Device,
        cache: vk::PipelineCache,
        state: State,
        indices: &[u32],
        flags: vk::PipelineCreateFlags,
        feedback: Option<&mut vk::PipelineCreationFeedback>,
    ) -> (i32, u64) {
        let mut parts: Vec<Box<Parts>> = indices.iter().map(|&index| self.parts(state, index)).collect();
        if let (Some(feedback), Some(first)) = (feedback, parts.first_mut()) {
            first.feedback.p_pipeline_creation_feedback = feedback;
            first.rendering.p_next = (&raw const first.feedback).cast();
        }
        let infos: Vec<_> = parts.iter().map(|parts| parts.info(self.layout, flags)).collect();
        let started = Instant::now();
        // SAFETY: valid create infos of this device; what they point to outlives the call.
        let (result, _) = unsafe { device.create_graphics(cache, &infos) };
        (result.as_raw(), started.elapsed().as_nanos() as u64)
    }

    fn stages(&self, state: State, index: u32) -> [vk::PipelineShaderStageCreateInfo<'static>; 2] {
        let (vertex, fragment) = match state {
            State::Shaders => (index / SHADERS % SHADERS, index % SHADERS),
            _ => (0, 0),
        };
        let stage = |stage, module| {
            vk::PipelineShaderStageCreateInfo::default().stage(stage).module(module).name(c"main")
        };
        [
            stage(vk::ShaderStageFlags::VERTEX, self.vertex[vertex as usize]),
            stage(vk::ShaderStageFlags::FRAGMENT, self.fragment[fragment as usize]),
        ]
    }

    fn parts(&self, state: State, index: u32) -> Box<Parts> {
        let differs = match state {
            State::Mixed => {
                let states = [State::Viewport, State::Scissor, State::DepthBias, State::BlendConstants];
                states.get(index as usize % 5).copied().unwrap_or(State::Stencil)
            }
            State::Formats | State::Shuffled => State::Viewport,
            other => other,
        };
        let of = |wanted: State| if differs == wanted { index } else { 0 };
        let format = match state {
            State::Formats | State::Shuffled => FORMATS[index as usize % FORMATS.len()],
            _ => FORMATS[0],
        };
        let stencil = vk::StencilOpState {
            compare_op: vk::CompareOp::EQUAL,
            compare_mask: 0xff,
            write_mask: 0xff,
            reference: of(State::Stencil),
            ..vk::StencilOpState::default()
        };
        let mut parts = Box::new(Parts {
            stages: self.stages(state, index),
            vertex_input: vk::PipelineVertexInputStateCreateInfo::default(),
            input_assembly: vk::PipelineInputAssemblyStateCreateInfo::default()
                .topology(vk::PrimitiveTopology::TRIANGLE_LIST),
            viewports: [vk::Viewport {
                x: 0.0,
                y: 0.0,
                width: 64.0 + of(State::Viewport) as f32,
                height: 64.0,
                min_depth: 0.0,
                max_depth: 1.0,
            }],
            scissors: [vk::Rect2D {
                offset: vk::Offset2D::default(),
                extent: vk::Extent2D { width: 64 + of(State::Scissor), height: 64 },
            }],
            viewport: vk::PipelineViewportStateCreateInfo::default(),
            rasterization: vk::PipelineRasterizationStateCreateInfo::default()
                .line_width(1.0)
                .depth_bias_enable(true)
                .depth_bias_constant_factor(1.0 + of(State::DepthBias) as f32),
            multisample: vk::PipelineMultisampleStateCreateInfo::default()
                .rasterization_samples(vk::SampleCountFlags::TYPE_1),
            depth_stencil: vk::PipelineDepthStencilStateCreateInfo::default()
                .depth_test_enable(true)
                .depth_compare_op(vk::CompareOp::LESS)
                .stencil_test_enable(true)
                .front(stencil)
                .back(stencil),
            attachments: [vk::PipelineColorBlendAttachmentState::default()
                .color_write_mask(vk::ColorComponentFlags::RGBA)
                .blend_enable(true)
                .src_color_blend_factor(vk::BlendFactor::CONSTANT_COLOR)
                .dst_color_blend_factor(vk::BlendFactor::ONE)],
            blend: vk::PipelineColorBlendStateCreateInfo::default()
                .blend_constants([of(State::BlendConstants) as f32 / 256.0; 4]),
            formats: [format],
            rendering: vk::PipelineRenderingCreateInfo::default()
                .depth_attachment_format(vk::Format::D32_SFLOAT_S8_UINT)
                .stencil_attachment_format(vk::Format::D32_SFLOAT_S8_UINT),
            feedback: vk::PipelineCreationFeedbackCreateInfo::default(),
        });
        parts.link();
        parts
    }
}

impl Parts {
    /// Connects the parts by pointers. They must not move any more.
    fn link(&mut self) {
        self.viewport.viewport_count = 1;
        self.viewport.p_viewports = self.viewports.as_ptr();
        self.viewport.scissor_count = 1;
        self.viewport.p_scissors = self.scissors.as_ptr();
        self.blend.attachment_count = 1;
        self.blend.p_attachments = self.attachments.as_ptr();
        self.rendering.color_attachment_count = 1;
        self.rendering.p_color_attachment_formats = self.formats.as_ptr();
    }

    fn info(
        &self,
        layout: vk::PipelineLayout,
        flags: vk::PipelineCreateFlags,
    ) -> vk::GraphicsPipelineCreateInfo<'static> {
        vk::GraphicsPipelineCreateInfo {
            p_next: (&raw const self.rendering).cast(),
            flags,
            stage_count: 2,
            p_stages: self.stages.as_ptr(),
            p_vertex_input_state: &self.vertex_input,
            p_input_assembly_state: &self.input_assembly,
            p_viewport_state: &self.viewport,
            p_rasterization_state: &self.rasterization,
            p_multisample_state: &self.multisample,
            p_depth_stencil_state: &self.depth_stencil,
            p_color_blend_state: &self.blend,
            layout,
            ..vk::GraphicsPipelineCreateInfo::default()
        }
    }
}
