//! Structures that are newer than the bindings, declared from the registry (contract 7.1): only as much of them
//! as capture has to read, or to step over.

use std::ffi::c_void;

use ash::vk::{self, TaggedStructure};

/// Declares structures that start with sType and pNext.
macro_rules! structures {
    ($($(#[$doc:meta])* $name:ident = $s_type:literal { $($field:ident: $type:ty,)* })*) => {
        $(
            $(#[$doc])*
            #[repr(C)]
            #[derive(Clone, Copy, Debug)]
            #[allow(missing_docs, reason = "the members are those of the registry")]
            pub struct $name {
                pub s_type: vk::StructureType,
                pub p_next: *const c_void,
                $(pub $field: $type,)*
            }

            // SAFETY: the structure starts with sType and pNext, and the registry gives it this value.
            unsafe impl TaggedStructure for $name {
                const STRUCTURE_TYPE: vk::StructureType = vk::StructureType::from_raw($s_type);
            }
        )*
    };
}

structures! {
    /// VkPipelineBinaryInfoKHR.
    PipelineBinaryInfoKHR = 1_000_483_002 {
        binary_count: u32,
        p_pipeline_binaries: *const u64,
    }
    /// VkCustomResolveCreateInfoEXT.
    CustomResolveCreateInfoEXT = 1_000_628_002 {
        custom_resolve: vk::Bool32,
        color_attachment_count: u32,
        p_color_attachment_formats: *const vk::Format,
        depth_attachment_format: vk::Format,
        stencil_attachment_format: vk::Format,
    }
    /// VkPipelineViewportDepthClampControlCreateInfoEXT.
    PipelineViewportDepthClampControlCreateInfoEXT = 1_000_582_001 {
        depth_clamp_mode: i32,
        p_depth_clamp_range: *const [f32; 2],
    }
    /// VkShaderDescriptorSetAndBindingMappingInfoEXT.
    ShaderDescriptorSetAndBindingMappingInfoEXT = 1_000_135_006 {
        mapping_count: u32,
        p_mappings: *const DescriptorSetAndBindingMappingEXT,
    }
    /// VkDescriptorSetAndBindingMappingEXT.
    DescriptorSetAndBindingMappingEXT = 1_000_135_005 {
        descriptor_set: u32,
        first_binding: u32,
        binding_count: u32,
        resource_mask: u32,
        source: i32,
        source_data: MappingSourceData,
    }
}

/// VkDescriptorMappingSourceDataEXT: which member counts follows from the source.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "the members are those of the registry")]
pub union MappingSourceData {
    pub constant_offset: MappingConstantOffset,
    pub push_index: MappingPushIndex,
    pub indirect_index: MappingIndirectIndex,
    pub two_offsets: [u32; 2],
    pub offset: u32,
}

impl std::fmt::Debug for MappingSourceData {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("MappingSourceData")
    }
}

/// A sampler that is part of the pipeline, or NULL.
pub type EmbeddedSampler = *const vk::SamplerCreateInfo<'static>;

/// VkDescriptorMappingSourceConstantOffsetEXT: numbers, the sampler, numbers.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "as the registry has them")]
pub struct MappingConstantOffset {
    pub before: [u32; 2],
    pub sampler: EmbeddedSampler,
    pub behind: [u32; 2],
}

/// VkDescriptorMappingSourcePushIndexEXT, VkDescriptorMappingSourceIndirectIndexArrayEXT and
/// VkDescriptorMappingSourceShaderRecordIndexEXT: they have one shape.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "as the registry has them")]
pub struct MappingPushIndex {
    pub before: [u32; 4],
    pub sampler: EmbeddedSampler,
    pub behind: [u32; 5],
}

/// VkDescriptorMappingSourceIndirectIndexEXT.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "as the registry has them")]
pub struct MappingIndirectIndex {
    pub before: [u32; 5],
    pub sampler: EmbeddedSampler,
    pub behind: [u32; 6],
}

/// sType of [`PipelineBinaryInfoKHR`].
pub const PIPELINE_BINARY_INFO: vk::StructureType = PipelineBinaryInfoKHR::STRUCTURE_TYPE;
/// sType of [`CustomResolveCreateInfoEXT`].
pub const CUSTOM_RESOLVE: vk::StructureType = CustomResolveCreateInfoEXT::STRUCTURE_TYPE;
/// sType of [`PipelineViewportDepthClampControlCreateInfoEXT`].
pub const DEPTH_CLAMP_CONTROL: vk::StructureType =
    PipelineViewportDepthClampControlCreateInfoEXT::STRUCTURE_TYPE;
/// sType of [`ShaderDescriptorSetAndBindingMappingInfoEXT`].
pub const BINDING_MAPPINGS: vk::StructureType = ShaderDescriptorSetAndBindingMappingInfoEXT::STRUCTURE_TYPE;
/// VK_DYNAMIC_STATE_DEPTH_CLAMP_RANGE_EXT.
pub const DEPTH_CLAMP_RANGE: vk::DynamicState = vk::DynamicState::from_raw(1_000_582_000);
/// VK_DEPTH_CLAMP_MODE_USER_DEFINED_RANGE_EXT.
pub const USER_DEFINED_RANGE: i32 = 1;
