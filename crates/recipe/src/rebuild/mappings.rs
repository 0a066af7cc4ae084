//! Mappings of a stage's descriptors into a descriptor heap, rebuilt from a recipe.

use std::ptr;

use ash::vk::{self, TaggedStructure};

use super::arena::Arena;
use super::objects::sampler_info;
use super::{RebuildError, ensure};
use vkstash_model::newer::{
    self, DescriptorSetAndBindingMappingEXT, EmbeddedSampler, MappingConstantOffset, MappingIndirectIndex,
    MappingPushIndex, MappingSourceData, ShaderDescriptorSetAndBindingMappingInfoEXT,
};
use vkstash_model::recipe::{Mapping, Sampler};

/// A stage's mappings.
pub fn mappings(
    arena: &mut Arena,
    mappings: &[Mapping],
) -> Result<ShaderDescriptorSetAndBindingMappingInfoEXT, RebuildError> {
    let list = arena.list(mappings.iter(), mapping)?;
    Ok(ShaderDescriptorSetAndBindingMappingInfoEXT {
        s_type: newer::BINDING_MAPPINGS,
        p_next: ptr::null(),
        mapping_count: list.count,
        p_mappings: list.pointer,
    })
}

fn mapping(arena: &mut Arena, mapping: &Mapping) -> Result<DescriptorSetAndBindingMappingEXT, RebuildError> {
    let [descriptor_set, first_binding, binding_count, resource_mask, source] = mapping.members;
    let sampler = embedded(arena, mapping.sampler.as_deref())?;
    // SAFETY: numbers and pointers, which may all be zero.
    let mut source_data: MappingSourceData = unsafe { std::mem::zeroed() };
    match (source, mapping.source.as_slice()) {
        (0, &[a, b, c, d]) => {
            source_data.constant_offset = MappingConstantOffset { before: [a, b], sampler, behind: [c, d] };
        }
        (1 | 3 | 8, &[a, b, c, d, e, f, g, h, i]) => {
            let (before, behind) = ([a, b, c, d], [e, f, g, h, i]);
            source_data.push_index = MappingPushIndex { before, sampler, behind };
        }
        (2, &[a, b, c, d, e, f, g, h, i, j, k]) => {
            let (before, behind) = ([a, b, c, d, e], [f, g, h, i, j, k]);
            source_data.indirect_index = MappingIndirectIndex { before, sampler, behind };
        }
        (4 | 7, &[a, b]) if sampler.is_null() => source_data.two_offsets = [a, b],
        (5 | 6 | 9 | 10, &[a]) if sampler.is_null() => source_data.offset = a,
        _ => return Err(RebuildError::Structure(DescriptorSetAndBindingMappingEXT::STRUCTURE_TYPE.as_raw())),
    }
    Ok(DescriptorSetAndBindingMappingEXT {
        s_type: DescriptorSetAndBindingMappingEXT::STRUCTURE_TYPE,
        p_next: ptr::null(),
        descriptor_set,
        first_binding,
        binding_count,
        resource_mask,
        source: source as i32,
        source_data,
    })
}

fn embedded(arena: &mut Arena, sampler: Option<&Sampler>) -> Result<EmbeddedSampler, RebuildError> {
    let Some(sampler) = sampler else { return Ok(ptr::null()) };
    // Capture describes none with a conversion, whose handle would have to outlive the call.
    ensure(sampler.conversion.is_none(), "an embedded sampler with a colour conversion")?;
    let info = sampler_info(arena, sampler, vk::SamplerYcbcrConversion::null())?;
    Ok(arena.place(info)?.cast_const())
}
