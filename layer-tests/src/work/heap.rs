//! VK_EXT_descriptor_heap: how a stage finds its descriptors without a layout.

use std::ptr;

use ash::vk::TaggedStructure;
use vkstash_model::newer::{
    DescriptorSetAndBindingMappingEXT, MappingConstantOffset, MappingSourceData,
    ShaderDescriptorSetAndBindingMappingInfoEXT,
};

/// VK_PIPELINE_CREATE_2_DESCRIPTOR_HEAP_BIT_EXT.
pub(super) const FLAG: u64 = 1 << 36;

/// Set 0, binding 0 at a constant offset. The embedded sampler is added later.
pub(super) fn mapping() -> DescriptorSetAndBindingMappingEXT {
    let offset = MappingConstantOffset { before: [64, 0], sampler: ptr::null(), behind: [0, 0] };
    DescriptorSetAndBindingMappingEXT {
        s_type: DescriptorSetAndBindingMappingEXT::STRUCTURE_TYPE,
        p_next: ptr::null(),
        descriptor_set: 0,
        first_binding: 0,
        binding_count: 1,
        resource_mask: u32::MAX >> 1,
        source: 0,
        source_data: MappingSourceData { constant_offset: offset },
    }
}

/// One mapping, whose address is added later.
pub(super) fn mappings() -> ShaderDescriptorSetAndBindingMappingInfoEXT {
    ShaderDescriptorSetAndBindingMappingInfoEXT {
        s_type: ShaderDescriptorSetAndBindingMappingInfoEXT::STRUCTURE_TYPE,
        p_next: ptr::null(),
        mapping_count: 1,
        p_mappings: ptr::null(),
    }
}
