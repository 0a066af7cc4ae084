//! Mappings of a stage's descriptors into a descriptor heap (VK_EXT_descriptor_heap). The compiled code depends on them
//! (contract 7.1).

use ash::vk;
use smallvec::SmallVec;

use super::{array, objects};
use crate::chain::{self, Refusal};
use vkstash_model::counters::BypassReason;
use vkstash_model::newer::{
    DescriptorSetAndBindingMappingEXT, EmbeddedSampler, ShaderDescriptorSetAndBindingMappingInfoEXT,
};
use vkstash_model::recipe::{Mapping, Sampler};

/// Describes a stage's mappings.
///
/// # Safety
/// `info` is valid.
pub unsafe fn mappings(
    info: &ShaderDescriptorSetAndBindingMappingInfoEXT,
) -> Result<SmallVec<[Mapping; 0]>, Refusal> {
    // SAFETY: valid for its count; each element is a valid structure.
    unsafe { array(info.p_mappings, info.mapping_count) }.iter().map(|m| unsafe { mapping(m) }).collect()
}

/// # Safety
/// `info` is valid.
unsafe fn mapping(info: &DescriptorSetAndBindingMappingEXT) -> Result<Mapping, Refusal> {
    let mut source: SmallVec<[u32; 11]> = SmallVec::new();
    // SAFETY: the chain of a valid structure; which member of the union counts follows from the source.
    let sampler = unsafe {
        chain::scan_empty(info.p_next)?;
        let data = &info.source_data;
        match info.source {
            // HEAP_WITH_CONSTANT_OFFSET
            0 => {
                source.extend(data.constant_offset.before);
                source.extend(data.constant_offset.behind);
                embedded(data.constant_offset.sampler)?
            }
            // HEAP_WITH_PUSH_INDEX, HEAP_WITH_INDIRECT_INDEX_ARRAY, HEAP_WITH_SHADER_RECORD_INDEX
            1 | 3 | 8 => {
                source.extend(data.push_index.before);
                source.extend(data.push_index.behind);
                embedded(data.push_index.sampler)?
            }
            // HEAP_WITH_INDIRECT_INDEX
            2 => {
                source.extend(data.indirect_index.before);
                source.extend(data.indirect_index.behind);
                embedded(data.indirect_index.sampler)?
            }
            // RESOURCE_HEAP_DATA, INDIRECT_ADDRESS
            4 | 7 => {
                source.extend(data.two_offsets);
                None
            }
            // PUSH_DATA, PUSH_ADDRESS, SHADER_RECORD_DATA, SHADER_RECORD_ADDRESS
            5 | 6 | 9 | 10 => {
                source.push(data.offset);
                None
            }
            _ => {
                return Err(Refusal { reason: BypassReason::UnknownStructure, s_type: info.s_type.as_raw() });
            }
        }
    };
    let members =
        [info.descriptor_set, info.first_binding, info.binding_count, info.resource_mask, info.source as u32];
    Ok(Mapping { members, source, sampler })
}

/// # Safety
/// `sampler` is NULL or points to a valid VkSamplerCreateInfo.
unsafe fn embedded(sampler: EmbeddedSampler) -> Result<Option<Box<Sampler>>, Refusal> {
    let opaque = |_: vk::SamplerYcbcrConversion| Err(Refusal::plain(BypassReason::OpaqueObject));
    // SAFETY: `sampler` is NULL or points to a valid VkSamplerCreateInfo.
    match unsafe { sampler.as_ref() } {
        // SAFETY: a valid create info (the caller's contract).
        Some(info) => Ok(Some(Box::new(unsafe { objects::sampler(info, opaque) }?))),
        None => Ok(None),
    }
}
