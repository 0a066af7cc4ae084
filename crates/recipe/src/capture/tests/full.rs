//! A graphics pipeline with every piece of state, of which a test may change each part. Everything that it points
//! to ends at the fence, and arrays without elements may not be read at all.

use std::ffi::c_void;
use std::ptr;

use ash::vk::{self, DynamicState as D, GraphicsPipelineLibraryFlagsEXT as Subset};

use super::guard_page::{place, place_one};
use super::helpers::{Known, Options, handle, link, of_graphics, shader};
use crate::capture::LibraryTraits;
use crate::chain::Refusal;

/// VkPipelineRenderingCreateInfo.
#[derive(Clone, Debug)]
pub struct Rendering {
    pub view_mask: u32,
    pub colors: Vec<vk::Format>,
    pub depth: vk::Format,
    pub stencil: vk::Format,
}

impl Default for Rendering {
    fn default() -> Self {
        let (depth, stencil) = (vk::Format::D16_UNORM, vk::Format::UNDEFINED);
        Rendering { view_mask: 0, colors: vec![vk::Format::R8_UNORM], depth, stencil }
    }
}

/// The parts. Counts and pointers of the structures are set when it is captured, where they are NULL.
#[derive(Clone, Debug)]
pub struct Full {
    pub stages: Vec<vk::PipelineShaderStageCreateInfo<'static>>,
    pub bindings: Vec<vk::VertexInputBindingDescription>,
    pub attributes: Vec<vk::VertexInputAttributeDescription>,
    /// Without any, the structure is left out.
    pub divisors: Vec<vk::VertexInputBindingDivisorDescriptionKHR>,
    pub vertex_input: vk::PipelineVertexInputStateCreateInfo<'static>,
    pub input_assembly: vk::PipelineInputAssemblyStateCreateInfo<'static>,
    pub tessellation: vk::PipelineTessellationStateCreateInfo<'static>,
    pub viewports: Vec<vk::Viewport>,
    pub scissors: Vec<vk::Rect2D>,
    pub viewport: vk::PipelineViewportStateCreateInfo<'static>,
    pub rasterization: vk::PipelineRasterizationStateCreateInfo<'static>,
    /// As many words as the sample count asks for.
    pub mask: Vec<u32>,
    pub multisample: vk::PipelineMultisampleStateCreateInfo<'static>,
    pub depth_stencil: vk::PipelineDepthStencilStateCreateInfo<'static>,
    pub blends: Vec<vk::PipelineColorBlendAttachmentState>,
    pub blend: vk::PipelineColorBlendStateCreateInfo<'static>,
    pub dynamic: Vec<D>,
    /// VkGraphicsPipelineLibraryCreateInfoEXT.
    pub subsets: Option<Subset>,
    pub libraries: Vec<vk::Pipeline>,
    pub rendering: Option<Rendering>,
    /// VkPipelineCreateFlags2CreateInfoKHR.
    pub flags2: Option<u64>,
    /// More structures of the pipeline's chain.
    pub extra: Vec<*const c_void>,
    /// The chain is linked from behind.
    pub backwards: bool,
    pub info: vk::GraphicsPipelineCreateInfo<'static>,
    pub known: Known,
}

impl Default for Full {
    fn default() -> Self {
        let attribute =
            |location, offset| vk::VertexInputAttributeDescription { location, offset, ..Default::default() };
        Full {
            stages: vec![shader(vk::ShaderStageFlags::VERTEX, 1), shader(vk::ShaderStageFlags::FRAGMENT, 2)],
            bindings: vec![vk::VertexInputBindingDescription { stride: 16, ..Default::default() }],
            attributes: vec![attribute(0, 0), attribute(1, 8)],
            divisors: Vec::new(),
            vertex_input: Default::default(),
            input_assembly: Default::default(),
            tessellation: vk::PipelineTessellationStateCreateInfo::default().patch_control_points(3),
            viewports: vec![vk::Viewport { width: 1.0, ..Default::default() }],
            scissors: vec![vk::Rect2D::default()],
            viewport: Default::default(),
            rasterization: vk::PipelineRasterizationStateCreateInfo::default().line_width(1.0),
            mask: vec![!0],
            multisample: vk::PipelineMultisampleStateCreateInfo::default()
                .rasterization_samples(vk::SampleCountFlags::TYPE_4),
            depth_stencil: Default::default(),
            blends: vec![Default::default()],
            blend: Default::default(),
            dynamic: Vec::new(),
            subsets: None,
            libraries: Vec::new(),
            rendering: None,
            flags2: None,
            extra: Vec::new(),
            backwards: false,
            info: vk::GraphicsPipelineCreateInfo::default().layout(handle(5)).render_pass(handle(6)),
            known: Known::default(),
        }
    }
}

impl Full {
    /// A pipeline for dynamic rendering.
    pub fn dynamic_rendering() -> Full {
        let mut full = Full { rendering: Some(Rendering::default()), ..Full::default() };
        full.info.render_pass = vk::RenderPass::null();
        full
    }

    /// A library of some subsets, for dynamic rendering, with the stages that belong to it.
    pub fn library(subsets: Subset) -> Full {
        let mut full = Full { subsets: Some(subsets), ..Full::dynamic_rendering() };
        full.info.flags = vk::PipelineCreateFlags::LIBRARY_KHR;
        full.keep_own_stages();
        full
    }

    /// A link of libraries 11, 12, ... and nothing else.
    pub fn linking(libraries: &[LibraryTraits]) -> Full {
        let mut full = Full { stages: Vec::new(), ..Full::default() };
        for (number, &traits) in (11..).zip(libraries) {
            full.libraries.push(handle(number));
            full.known.libraries.push((handle(number), traits));
        }
        full.info.render_pass = vk::RenderPass::null();
        full
    }

    /// Drops the stages of subsets that are not there.
    pub fn keep_own_stages(&mut self) {
        let (pre, fragment) = (self.pre_rasterization(), self.fragment_shader());
        let is_fragment = |stage: vk::ShaderStageFlags| stage == vk::ShaderStageFlags::FRAGMENT;
        self.stages.retain(|stage| if is_fragment(stage.stage) { fragment } else { pre });
    }

    /// Tessellation stages before the fragment shader.
    pub fn tessellate(&mut self) {
        use vk::ShaderStageFlags as S;
        self.stages.insert(1, shader(S::TESSELLATION_CONTROL, 3));
        self.stages.insert(2, shader(S::TESSELLATION_EVALUATION, 4));
    }

    fn chain(&self) -> *const c_void {
        let mut nodes = self.extra.clone();
        if let Some(flags) = self.subsets {
            let info = vk::GraphicsPipelineLibraryCreateInfoEXT::default().flags(flags);
            nodes.push(place_one(info).cast());
        }
        if !self.libraries.is_empty() {
            let mut info = vk::PipelineLibraryCreateInfoKHR::default();
            info.library_count = self.libraries.len() as u32;
            info.p_libraries = place(&self.libraries);
            nodes.push(place_one(info).cast());
        }
        if let Some(rendering) = &self.rendering {
            let mut info = vk::PipelineRenderingCreateInfo::default()
                .view_mask(rendering.view_mask)
                .depth_attachment_format(rendering.depth)
                .stencil_attachment_format(rendering.stencil);
            info.color_attachment_count = rendering.colors.len() as u32;
            info.p_color_attachment_formats = place(&rendering.colors);
            nodes.push(place_one(info).cast());
        }
        if let Some(flags) = self.flags2 {
            let mut info = vk::PipelineCreateFlags2CreateInfoKHR::default();
            info.flags = vk::PipelineCreateFlags2KHR::from_raw(flags);
            nodes.push(place_one(info).cast());
        }
        if self.backwards {
            nodes.reverse();
        }
        link(&nodes)
    }

    fn vertex_input(&self) -> vk::PipelineVertexInputStateCreateInfo<'static> {
        let mut state = self.vertex_input;
        state.vertex_binding_description_count = self.bindings.len() as u32;
        state.p_vertex_binding_descriptions = place(&self.bindings);
        state.vertex_attribute_description_count = self.attributes.len() as u32;
        state.p_vertex_attribute_descriptions = place(&self.attributes);
        if !self.divisors.is_empty() {
            let divisors = vk::PipelineVertexInputDivisorStateCreateInfoKHR {
                vertex_binding_divisor_count: self.divisors.len() as u32,
                p_vertex_binding_divisors: place(&self.divisors),
                ..Default::default()
            };
            state.p_next = place_one(divisors).cast();
        }
        state
    }

    /// Points everything at everything and captures; `change` sees the create info last.
    pub fn capture_after(
        &self,
        change: impl FnOnce(&mut vk::GraphicsPipelineCreateInfo<'static>),
    ) -> Result<(Vec<u8>, Options), Refusal> {
        let mut viewport = self.viewport;
        if viewport.p_viewports.is_null() {
            viewport.viewport_count = self.viewports.len() as u32;
            viewport.p_viewports = place(&self.viewports);
        }
        if viewport.p_scissors.is_null() {
            viewport.scissor_count = self.scissors.len() as u32;
            viewport.p_scissors = place(&self.scissors);
        }
        let mut multisample = self.multisample;
        if multisample.p_sample_mask.is_null() && !self.mask.is_empty() {
            multisample.p_sample_mask = place(&self.mask);
        }
        let mut blend = self.blend;
        if blend.p_attachments.is_null() {
            blend.attachment_count = self.blends.len() as u32;
            blend.p_attachments = place(&self.blends);
        }
        let mut dynamic = vk::PipelineDynamicStateCreateInfo::default();
        dynamic.dynamic_state_count = self.dynamic.len() as u32;
        dynamic.p_dynamic_states = place(&self.dynamic);
        let mut info = self.info;
        info.p_next = self.chain();
        info.stage_count = self.stages.len() as u32;
        info.p_stages = place(&self.stages);
        info.p_vertex_input_state = place_one(self.vertex_input());
        info.p_input_assembly_state = place_one(self.input_assembly);
        info.p_tessellation_state =
            if self.tessellates() { place_one(self.tessellation) } else { ptr::null() };
        info.p_viewport_state = place_one(viewport);
        info.p_rasterization_state = place_one(self.rasterization);
        info.p_multisample_state = place_one(multisample);
        info.p_depth_stencil_state = place_one(self.depth_stencil);
        info.p_color_blend_state = place_one(blend);
        info.p_dynamic_state = place_one(dynamic);
        change(&mut info);
        // SAFETY: the copy was made just now.
        of_graphics(unsafe { &*place_one(info) }, &self.known)
    }

    /// The recipe's bytes, or why there is none.
    pub fn bytes_after(
        &self,
        change: impl FnOnce(&mut vk::GraphicsPipelineCreateInfo<'static>),
    ) -> Result<Vec<u8>, Refusal> {
        self.capture_after(change).map(|(bytes, _)| bytes)
    }

    /// The recipe's bytes.
    pub fn bytes(&self) -> Vec<u8> {
        self.bytes_after(|_| {}).unwrap()
    }
}

pub fn full_with(change: impl FnOnce(&mut Full)) -> Vec<u8> {
    let mut full = Full::default();
    change(&mut full);
    full.bytes()
}
