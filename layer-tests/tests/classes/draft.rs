//! A graphics pipeline that suites change before it is created: complete, as a library, or as part of a link.

use std::ptr;

use ash::vk;
use vkstash_layer_tests::vulkan::spirv;

use super::rig::{Rig, keep, keep_all};

/// The colour format.
pub const FORMAT: vk::Format = vk::Format::R8G8B8A8_UNORM;

use vk::GraphicsPipelineLibraryFlagsEXT as Subset;
use vk::PipelineCreateFlags as Flags;

pub const INPUT: Subset = Subset::VERTEX_INPUT_INTERFACE;
pub const BEFORE: Subset = Subset::PRE_RASTERIZATION_SHADERS;
pub const FRAGMENT: Subset = Subset::FRAGMENT_SHADER;
pub const OUTPUT: Subset = Subset::FRAGMENT_OUTPUT_INTERFACE;
pub const RETAIN: Flags = Flags::RETAIN_LINK_TIME_OPTIMIZATION_INFO_EXT;
pub const OPTIMIZED: Flags = Flags::LINK_TIME_OPTIMIZATION_EXT;

/// A create info and the structures that it points to.
pub struct Draft {
    pub stages: Vec<vk::PipelineShaderStageCreateInfo<'static>>,
    pub vertex_input: vk::PipelineVertexInputStateCreateInfo<'static>,
    pub assembly: vk::PipelineInputAssemblyStateCreateInfo<'static>,
    pub tessellation: Option<vk::PipelineTessellationStateCreateInfo<'static>>,
    pub viewport: vk::PipelineViewportStateCreateInfo<'static>,
    pub raster: vk::PipelineRasterizationStateCreateInfo<'static>,
    pub multisample: vk::PipelineMultisampleStateCreateInfo<'static>,
    pub depth: vk::PipelineDepthStencilStateCreateInfo<'static>,
    pub attachment: vk::PipelineColorBlendAttachmentState,
    pub blend: vk::PipelineColorBlendStateCreateInfo<'static>,
    pub dynamic: Vec<vk::DynamicState>,
    pub rendering: vk::PipelineRenderingCreateInfo<'static>,
    pub layout: vk::PipelineLayout,
    pub info: vk::GraphicsPipelineCreateInfo<'static>,
    /// The address in ignored pointers to state.
    ignored: usize,
}

impl Draft {
    /// A vertex and a fragment shader with one colour attachment.
    pub fn new(rig: &Rig) -> Draft {
        Draft::of_values(rig, 0.5, 0.25)
    }

    /// A vertex and a fragment shader with these constants, and one colour attachment.
    pub fn of_values(rig: &Rig, vertex: f32, fragment: f32) -> Draft {
        let stages = vec![
            rig.stage(vk::ShaderStageFlags::VERTEX, &spirv::vertex(vertex)),
            rig.stage(vk::ShaderStageFlags::FRAGMENT, &spirv::fragment(fragment)),
        ];
        Draft {
            stages,
            vertex_input: Default::default(),
            assembly: vk::PipelineInputAssemblyStateCreateInfo::default()
                .topology(vk::PrimitiveTopology::TRIANGLE_LIST),
            tessellation: None,
            viewport: vk::PipelineViewportStateCreateInfo::default().viewport_count(1).scissor_count(1),
            raster: vk::PipelineRasterizationStateCreateInfo::default().line_width(1.0),
            multisample: vk::PipelineMultisampleStateCreateInfo::default()
                .rasterization_samples(vk::SampleCountFlags::TYPE_1),
            depth: Default::default(),
            attachment: vk::PipelineColorBlendAttachmentState::default()
                .color_write_mask(vk::ColorComponentFlags::RGBA),
            blend: Default::default(),
            dynamic: vec![vk::DynamicState::VIEWPORT, vk::DynamicState::SCISSOR],
            rendering: vk::PipelineRenderingCreateInfo::default()
                .color_attachment_formats(keep_all([FORMAT])),
            layout: rig.device.empty_layout(),
            info: Default::default(),
            ignored: if rig.reads_ignored_state() { 0 } else { usize::MAX },
        }
    }

    /// The create info of a complete pipeline.
    pub fn complete(&self) -> vk::GraphicsPipelineCreateInfo<'static> {
        let dynamic = vk::PipelineDynamicStateCreateInfo::default()
            .dynamic_states(keep_all(self.dynamic.iter().copied()));
        let blend = self.blend.attachments(keep_all([self.attachment]));
        let info = self.info.push_next(keep(self.rendering));
        let info = match self.tessellation {
            Some(state) => info.tessellation_state(keep(state)),
            None => info,
        };
        info.stages(keep_all(self.stages.iter().copied()))
            .vertex_input_state(keep(self.vertex_input))
            .input_assembly_state(keep(self.assembly))
            .viewport_state(keep(self.viewport))
            .rasterization_state(keep(self.raster))
            .multisample_state(keep(self.multisample))
            .depth_stencil_state(keep(self.depth))
            .color_blend_state(keep(blend))
            .dynamic_state(keep(dynamic))
            .layout(self.layout)
    }

    /// The create info of a library of these subsets. Pointers to other state are invalid, if the driver tolerates
    /// that: it must not follow them (contract 6).
    pub fn library(
        &self,
        subsets: Subset,
        flags: vk::PipelineCreateFlags,
    ) -> vk::GraphicsPipelineCreateInfo<'static> {
        let mut info = self.limited(subsets);
        info.flags |= vk::PipelineCreateFlags::LIBRARY_KHR | flags;
        info
    }

    /// The create info of a link of these libraries, with these subsets of its own.
    pub fn link(
        &self,
        libraries: &[vk::Pipeline],
        own: Subset,
        flags: vk::PipelineCreateFlags,
    ) -> vk::GraphicsPipelineCreateInfo<'static> {
        let list = vk::PipelineLibraryCreateInfoKHR::default().libraries(keep_all(libraries.iter().copied()));
        let mut info = self.limited(own);
        info.layout = self.layout;
        info.flags |= flags;
        info.push_next(keep(list))
    }

    fn limited(&self, subsets: Subset) -> vk::GraphicsPipelineCreateInfo<'static> {
        let mut info = self.complete();
        let has = |subset| subsets.contains(subset);
        let [input, output] = [Subset::VERTEX_INPUT_INTERFACE, Subset::FRAGMENT_OUTPUT_INTERFACE].map(has);
        let [before, fragment] = [Subset::PRE_RASTERIZATION_SHADERS, Subset::FRAGMENT_SHADER].map(has);
        let kept = |stage: &&vk::PipelineShaderStageCreateInfo<'static>| match stage.stage {
            vk::ShaderStageFlags::FRAGMENT => fragment,
            _ => before,
        };
        let stages = keep_all(self.stages.iter().filter(kept).copied());
        info = info.stages(stages);
        // RADV counts stages nevertheless.
        if !before && !fragment {
            info.p_stages = self.ignored();
            info.layout = vk::PipelineLayout::null();
        }
        if !input {
            info.p_vertex_input_state = self.ignored();
            info.p_input_assembly_state = self.ignored();
        }
        if !before {
            info.p_rasterization_state = self.ignored();
            info.p_viewport_state = self.ignored();
            info.p_tessellation_state = self.ignored();
        }
        if !fragment {
            info.p_depth_stencil_state = self.ignored();
        }
        if !output {
            info.p_color_blend_state = self.ignored();
        }
        if !fragment && !output {
            info.p_multisample_state = self.ignored();
        }
        if subsets.is_empty() {
            info.p_dynamic_state = ptr::null();
            return info;
        }
        info.push_next(keep(vk::GraphicsPipelineLibraryCreateInfoEXT::default().flags(subsets)))
    }

    fn ignored<T>(&self) -> *const T {
        ptr::without_provenance(self.ignored)
    }
}
