//! The structures that one create info points to, at fixed addresses.

use std::ffi::c_void;
use std::ptr;

use ash::vk::{self, Handle};
use vkstash_model::newer::{DescriptorSetAndBindingMappingEXT, ShaderDescriptorSetAndBindingMappingInfoEXT};

use super::description::{Code, Shader, UNKNOWN_STRUCTURE, Work};
use super::heap;
use super::objects::{FORMAT, Objects};
use crate::vulkan::Device;

/// An invalid pointer.
fn invalid_pointer<T>() -> *const T {
    ptr::without_provenance(usize::MAX)
}

/// A structure of an unknown type.
#[repr(C)]
struct Unknown {
    s_type: vk::StructureType,
    p_next: *const c_void,
    payload: [u64; 2],
}

/// VkPipelineCreateFlags2CreateInfo.
type Flags2 = vk::PipelineCreateFlags2CreateInfoKHR<'static>;

/// The parts of one create info.
pub struct Parts {
    index: usize,
    flags: vk::PipelineCreateFlags,
    codes: Vec<Vec<u32>>,
    identifiers: Vec<Vec<u8>>,
    code_infos: Vec<vk::ShaderModuleCreateInfo<'static>>,
    identifier_infos: Vec<vk::PipelineShaderStageModuleIdentifierCreateInfoEXT<'static>>,
    stages: Vec<vk::PipelineShaderStageCreateInfo<'static>>,
    constant: u32,
    entry: vk::SpecializationMapEntry,
    specialization: vk::SpecializationInfo<'static>,
    flags2: Flags2,
    feedback_info: vk::PipelineCreationFeedbackCreateInfo<'static>,
    unknown: Unknown,
    sampler: vk::SamplerCreateInfo<'static>,
    mapping: DescriptorSetAndBindingMappingEXT,
    mappings: ShaderDescriptorSetAndBindingMappingInfoEXT,
    rendering: vk::PipelineRenderingCreateInfo<'static>,
    formats: [vk::Format; 1],
    vertex_input: vk::PipelineVertexInputStateCreateInfo<'static>,
    input_assembly: vk::PipelineInputAssemblyStateCreateInfo<'static>,
    viewport: vk::PipelineViewportStateCreateInfo<'static>,
    rasterization: vk::PipelineRasterizationStateCreateInfo<'static>,
    multisample: vk::PipelineMultisampleStateCreateInfo<'static>,
    blend: vk::PipelineColorBlendStateCreateInfo<'static>,
    attachments: [vk::PipelineColorBlendAttachmentState; 1],
    dynamic: vk::PipelineDynamicStateCreateInfo<'static>,
    dynamic_states: [vk::DynamicState; 2],
    head: *const c_void,
    /// Feedback of the pipeline.
    pub feedback: vk::PipelineCreationFeedback,
    /// Feedback of its stages.
    pub stage_feedback: Vec<vk::PipelineCreationFeedback>,
}

impl Work {
    /// The parts of the create info for this constant; creates the objects that it needs.
    pub(super) fn parts(&self, device: &Device, value: u32, index: usize) -> Box<Parts> {
        let codes = self.codes(value);
        let named_by_module = matches!(self.code, Code::Module | Code::ModuleAndEmptyIdentifier);
        let stage = |(stage, code): &(vk::ShaderStageFlags, Vec<u32>)| {
            let module = if named_by_module { device.module(code) } else { vk::ShaderModule::null() };
            vk::PipelineShaderStageCreateInfo::default().stage(*stage).module(module).name(c"main")
        };
        let stages: Vec<_> = codes.iter().map(stage).collect();
        let identifiers = match self.code {
            Code::Identifier => codes.iter().map(|(_, code)| device.identifier_of_code(code)).collect(),
            Code::Bytes => vec![self.bytes.clone(); codes.len()],
            _ => Vec::new(),
        };
        Box::new(Parts {
            index,
            flags: self.flags(index),
            identifiers,
            code_infos: Vec::new(),
            identifier_infos: Vec::new(),
            stage_feedback: vec![invented_feedback(); stages.len()],
            stages,
            codes: codes.into_iter().map(|(_, code)| code).collect(),
            constant: value,
            entry: vk::SpecializationMapEntry { constant_id: 0, offset: 0, size: 4 },
            specialization: vk::SpecializationInfo::default(),
            flags2: Flags2::default(),
            feedback_info: vk::PipelineCreationFeedbackCreateInfo::default(),
            unknown: Unknown {
                s_type: vk::StructureType::from_raw(UNKNOWN_STRUCTURE),
                p_next: ptr::null(),
                payload: [!0; 2],
            },
            sampler: vk::SamplerCreateInfo::default().max_lod(self.heap as f32),
            mapping: heap::mapping(),
            mappings: heap::mappings(),
            rendering: vk::PipelineRenderingCreateInfo::default(),
            formats: [FORMAT],
            vertex_input: vk::PipelineVertexInputStateCreateInfo::default(),
            input_assembly: vk::PipelineInputAssemblyStateCreateInfo::default()
                .topology(vk::PrimitiveTopology::TRIANGLE_LIST),
            viewport: vk::PipelineViewportStateCreateInfo::default(),
            rasterization: vk::PipelineRasterizationStateCreateInfo::default().line_width(1.0),
            multisample: vk::PipelineMultisampleStateCreateInfo::default()
                .rasterization_samples(vk::SampleCountFlags::TYPE_1),
            blend: vk::PipelineColorBlendStateCreateInfo::default(),
            attachments: [vk::PipelineColorBlendAttachmentState::default()
                .color_write_mask(vk::ColorComponentFlags::RGBA)],
            dynamic: vk::PipelineDynamicStateCreateInfo::default(),
            dynamic_states: [vk::DynamicState::VIEWPORT, vk::DynamicState::SCISSOR],
            head: ptr::null(),
            feedback: invented_feedback(),
        })
    }
}

/// Values that the driver must overwrite or clear.
fn invented_feedback() -> vk::PipelineCreationFeedback {
    vk::PipelineCreationFeedback { flags: vk::PipelineCreationFeedbackFlags::from_raw(!0), duration: !0 }
}

impl Parts {
    /// Connects the parts by pointers. They must not move any more.
    pub(super) fn link(&mut self, work: &Work) {
        self.link_stages(work);
        self.link_chain(work);
        if work.shader.is_graphics() {
            self.link_state(work);
        }
    }

    fn link_stages(&mut self, work: &Work) {
        for code in &self.codes {
            self.code_infos.push(vk::ShaderModuleCreateInfo {
                code_size: code.len() * 4,
                p_code: code.as_ptr(),
                ..Default::default()
            });
        }
        for bytes in &self.identifiers {
            self.identifier_infos.push(vk::PipelineShaderStageModuleIdentifierCreateInfoEXT {
                identifier_size: bytes.len() as u32,
                p_identifier: bytes.as_ptr(),
                ..Default::default()
            });
        }
        if work.code == Code::ModuleAndEmptyIdentifier {
            let empty = vk::PipelineShaderStageModuleIdentifierCreateInfoEXT {
                p_identifier: invalid_pointer(),
                ..Default::default()
            };
            self.identifier_infos = vec![empty; self.stages.len()];
        }
        if work.heap != 0 {
            self.mapping.source_data.constant_offset.sampler = &self.sampler;
            self.mappings.p_mappings = &self.mapping;
        }
        for (index, stage) in self.stages.iter_mut().enumerate() {
            if work.code == Code::Inline {
                stage.p_next = ptr::from_ref(&self.code_infos[index]).cast();
            } else if let Some(info) = self.identifier_infos.get(index) {
                stage.p_next = ptr::from_ref(info).cast();
            }
            if work.heap != 0 {
                assert!(stage.p_next.is_null(), "code by module");
                stage.p_next = ptr::from_ref(&self.mappings).cast();
            }
            if work.shader == Shader::Specialized {
                self.specialization.map_entry_count = 1;
                self.specialization.p_map_entries = &self.entry;
                self.specialization.data_size = 4;
                self.specialization.p_data = ptr::from_ref(&self.constant).cast();
                stage.p_specialization_info = &self.specialization;
            } else if work.invalid_pointers {
                self.specialization.p_map_entries = invalid_pointer();
                self.specialization.p_data = invalid_pointer();
                stage.p_specialization_info = &self.specialization;
            }
        }
    }

    fn link_chain(&mut self, work: &Work) {
        if work.unknown_structure {
            self.unknown.p_next = self.head;
            self.head = ptr::from_ref(&self.unknown).cast();
        }
        if work.flags2 || work.heap != 0 {
            let heap = if work.heap != 0 { heap::FLAG } else { 0 };
            let flags = u64::from(self.flags.as_raw()) | heap;
            self.flags2.flags = vk::PipelineCreateFlags2KHR::from_raw(flags);
            // The flags of the create info itself are ignored beside the new ones (contract 3.4).
            self.flags = vk::PipelineCreateFlags::empty();
            self.flags2.p_next = self.head;
            self.head = ptr::from_ref(&self.flags2).cast();
        }
        if work.feedback {
            self.feedback_info.p_pipeline_creation_feedback = &mut self.feedback;
            self.feedback_info.pipeline_stage_creation_feedback_count = self.stage_feedback.len() as u32;
            self.feedback_info.p_pipeline_stage_creation_feedbacks = self.stage_feedback.as_mut_ptr();
            self.feedback_info.p_next = self.head;
            self.head = ptr::from_ref(&self.feedback_info).cast();
        }
        if work.shader == Shader::DynamicRendering {
            self.rendering.color_attachment_count = 1;
            self.rendering.p_color_attachment_formats = self.formats.as_ptr();
            self.rendering.p_next = self.head;
            self.head = ptr::from_ref(&self.rendering).cast();
        }
    }

    fn link_state(&mut self, work: &Work) {
        self.viewport.viewport_count = 1;
        self.viewport.scissor_count = 1;
        self.dynamic.dynamic_state_count = 2;
        self.dynamic.p_dynamic_states = self.dynamic_states.as_ptr();
        self.blend.attachment_count = 1;
        self.blend.p_attachments = self.attachments.as_ptr();
        self.rasterization.rasterizer_discard_enable = work.discard.into();
        if work.invalid_pointers {
            self.vertex_input.p_vertex_binding_descriptions = invalid_pointer();
            self.vertex_input.p_vertex_attribute_descriptions = invalid_pointer();
            self.viewport.p_viewports = invalid_pointer();
            self.viewport.p_scissors = invalid_pointer();
        }
    }

    /// The base pipeline's index, or values that the specification says are ignored.
    fn base(&self, work: &Work) -> (vk::Pipeline, i32) {
        if work.derivatives && self.index > 0 {
            (vk::Pipeline::null(), 0)
        } else if work.invalid_pointers {
            (vk::Pipeline::from_raw(!0), 0x7fff_ffff)
        } else {
            (vk::Pipeline::null(), -1)
        }
    }

    /// The create info of a compute pipeline.
    pub(super) fn compute(&self, work: &Work, objects: &Objects) -> vk::ComputePipelineCreateInfo<'static> {
        let (base, base_index) = self.base(work);
        let mut info = vk::ComputePipelineCreateInfo::default()
            .flags(self.flags)
            .stage(self.stages[0])
            .layout(objects.layout)
            .base_pipeline_handle(base)
            .base_pipeline_index(base_index);
        info.p_next = self.head;
        info
    }

    /// The create info of a graphics pipeline.
    pub(super) fn graphics(&self, work: &Work, objects: &Objects) -> vk::GraphicsPipelineCreateInfo<'static> {
        let (base, base_index) = self.base(work);
        let mut info = vk::GraphicsPipelineCreateInfo::default()
            .flags(self.flags)
            .layout(objects.layout)
            .render_pass(objects.pass)
            .base_pipeline_handle(base)
            .base_pipeline_index(base_index);
        info.p_next = self.head;
        info.stage_count = self.stages.len() as u32;
        info.p_stages = self.stages.as_ptr();
        info.p_vertex_input_state = &self.vertex_input;
        info.p_input_assembly_state = &self.input_assembly;
        info.p_viewport_state = &self.viewport;
        info.p_rasterization_state = &self.rasterization;
        info.p_multisample_state = &self.multisample;
        info.p_color_blend_state = &self.blend;
        info.p_dynamic_state = &self.dynamic;
        if work.invalid_pointers {
            // No tessellation stages, no depth or stencil attachment: both pointers are ignored.
            info.p_tessellation_state = invalid_pointer();
            info.p_depth_stencil_state = invalid_pointer();
        }
        if work.invalid_pointers && work.discard {
            info.p_viewport_state = invalid_pointer();
            info.p_multisample_state = invalid_pointer();
            info.p_color_blend_state = invalid_pointer();
        }
        info
    }
}
