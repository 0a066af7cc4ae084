//! Digests of simple objects: of everything in the create info that distinguishes objects.

use std::ffi::c_void;

use ash::vk::{self, Handle as _, TaggedStructure};

use crate::hash::{Digest, Hasher};
use crate::{chain, marked, objects};

/// A C array. The pointer of an empty one may be invalid (contract 6).
///
/// # Safety
/// `pointer` is valid for `count` elements unless that is 0; NULL counts as none.
pub unsafe fn slice<'a, T>(pointer: *const T, count: u32) -> &'a [T] {
    if count == 0 || pointer.is_null() {
        return &[];
    }
    // SAFETY: the caller guarantees `count` elements.
    unsafe { std::slice::from_raw_parts(pointer, count as usize) }
}

/// Structures that matter in every chain and hold only numbers: sType, and bytes after pNext.
const PLAIN: &[(vk::StructureType, usize)] = &[
    (vk::PipelineRobustnessCreateInfoEXT::STRUCTURE_TYPE, 16),
    // VkRayTracingPipelineClusterAccelerationStructureCreateInfoNV.
    (vk::StructureType::from_raw(1_000_569_007), 4),
    (vk::PipelineFragmentShadingRateStateCreateInfoKHR::STRUCTURE_TYPE, 16),
    (vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo::STRUCTURE_TYPE, 4),
    (vk::PipelineTessellationDomainOriginStateCreateInfo::STRUCTURE_TYPE, 4),
    (vk::PipelineViewportDepthClipControlCreateInfoEXT::STRUCTURE_TYPE, 4),
    (vk::PipelineRasterizationStateRasterizationOrderAMD::STRUCTURE_TYPE, 4),
    (vk::PipelineRasterizationConservativeStateCreateInfoEXT::STRUCTURE_TYPE, 12),
    (vk::PipelineRasterizationStateStreamCreateInfoEXT::STRUCTURE_TYPE, 8),
    (vk::PipelineRasterizationDepthClipStateCreateInfoEXT::STRUCTURE_TYPE, 8),
    (vk::PipelineRasterizationLineStateCreateInfoKHR::STRUCTURE_TYPE, 14),
    (vk::PipelineRasterizationProvokingVertexStateCreateInfoEXT::STRUCTURE_TYPE, 4),
    (vk::PipelineColorBlendAdvancedStateCreateInfoEXT::STRUCTURE_TYPE, 12),
    (vk::SamplerReductionModeCreateInfo::STRUCTURE_TYPE, 4),
    (vk::SamplerCustomBorderColorCreateInfoEXT::STRUCTURE_TYPE, 20),
    (vk::SamplerBorderColorComponentMappingCreateInfoEXT::STRUCTURE_TYPE, 20),
    (vk::AttachmentDescriptionStencilLayout::STRUCTURE_TYPE, 8),
    (vk::AttachmentReferenceStencilLayout::STRUCTURE_TYPE, 4),
];

/// Adds a chain's plain structures, in the order of the table. Structures that the driver does not know are ignored,
/// as drivers do.
///
/// # Safety
/// `p_next` is NULL or a chain that is valid during this call.
pub unsafe fn plain_chain(hasher: &mut Hasher, p_next: *const c_void) {
    for (s_type, length) in PLAIN {
        // SAFETY: the caller passes NULL or a valid chain; a structure of this sType has that many bytes after its
        // header.
        unsafe {
            if let Some(node) = chain::walk(p_next).find(|&node| (*node).s_type == *s_type) {
                hasher.signed(s_type.as_raw());
                hasher.bytes(std::slice::from_raw_parts(node.add(1).cast(), *length));
            }
        }
    }
}

/// The digest of shader code and the module's flags, from which identifiers are computed (contract 2.2).
///
/// # Safety
/// `info` is valid: pCode has codeSize bytes during this call.
pub unsafe fn module(info: &vk::ShaderModuleCreateInfo<'_>) -> Digest {
    let mut hasher = Hasher::new("module");
    hasher.word(info.flags.as_raw());
    // SAFETY: the caller passes a valid create info, so pCode points to codeSize bytes.
    let code = unsafe { slice(info.p_code.cast::<u8>(), info.code_size as u32) };
    hasher.bytes(code);
    let digest = hasher.finish();
    marked::note(&digest, code);
    digest
}

/// A sampler.
///
/// # Safety
/// `info` is valid with its chain during this call.
pub unsafe fn sampler(info: &vk::SamplerCreateInfo<'_>) -> Digest {
    let mut hasher = Hasher::new("sampler");
    hasher.word(info.flags.as_raw());
    hasher.signed(info.mag_filter.as_raw());
    hasher.signed(info.min_filter.as_raw());
    hasher.signed(info.mipmap_mode.as_raw());
    hasher.signed(info.address_mode_u.as_raw());
    hasher.signed(info.address_mode_v.as_raw());
    hasher.signed(info.address_mode_w.as_raw());
    hasher.float(info.mip_lod_bias);
    hasher.word(info.anisotropy_enable);
    hasher.float(info.max_anisotropy);
    hasher.word(info.compare_enable);
    hasher.signed(info.compare_op.as_raw());
    hasher.float(info.min_lod);
    hasher.float(info.max_lod);
    hasher.signed(info.border_color.as_raw());
    hasher.word(info.unnormalized_coordinates);
    // SAFETY: the caller passes a valid create info, so its chain is valid during this call.
    unsafe { plain_chain(&mut hasher, info.p_next) };
    hasher.finish()
}

/// A set layout, with the contents of its immutable samplers.
///
/// # Safety
/// `info` is valid with its arrays and chain during this call.
pub unsafe fn set_layout(command: &str, device: u64, info: &vk::DescriptorSetLayoutCreateInfo<'_>) -> Digest {
    let mut hasher = Hasher::new("set layout");
    hasher.word(info.flags.as_raw());
    hasher.word(info.binding_count);
    // SAFETY: the program passes a valid create info, so its arrays have their counts. Immutable samplers are read
    // only for the types that have them.
    unsafe {
        let flags: Option<&vk::DescriptorSetLayoutBindingFlagsCreateInfo<'_>> = chain::find(info.p_next);
        let flags = flags.map_or(&[][..], |flags| slice(flags.p_binding_flags, flags.binding_count));
        let mutable: Option<&vk::MutableDescriptorTypeCreateInfoEXT<'_>> = chain::find(info.p_next);
        let mutable = mutable.map_or(&[][..], |lists| {
            slice(lists.p_mutable_descriptor_type_lists, lists.mutable_descriptor_type_list_count)
        });
        for (at, binding) in slice(info.p_bindings, info.binding_count).iter().enumerate() {
            hasher.word(binding.binding);
            hasher.signed(binding.descriptor_type.as_raw());
            hasher.word(binding.descriptor_count);
            hasher.word(binding.stage_flags.as_raw());
            hasher.word(flags.get(at).map_or(0, |flags| flags.as_raw()));
            let samples = [vk::DescriptorType::SAMPLER, vk::DescriptorType::COMBINED_IMAGE_SAMPLER];
            if samples.contains(&binding.descriptor_type) {
                for sampler in slice(binding.p_immutable_samplers, binding.descriptor_count) {
                    hasher.bytes(&objects::contents(command, device, "VkSampler", sampler.as_raw()));
                }
            }
            if binding.descriptor_type == vk::DescriptorType::MUTABLE_EXT {
                let types = mutable
                    .get(at)
                    .map_or(&[][..], |list| slice(list.p_descriptor_types, list.descriptor_type_count));
                types.iter().for_each(|kind| hasher.signed(kind.as_raw()));
            }
        }
    }
    hasher.finish()
}

/// A pipeline layout, with the contents of its set layouts.
///
/// # Safety
/// `info` is valid with its arrays during this call.
pub unsafe fn pipeline_layout(command: &str, device: u64, info: &vk::PipelineLayoutCreateInfo<'_>) -> Digest {
    let mut hasher = Hasher::new("pipeline layout");
    hasher.word(info.flags.as_raw());
    hasher.word(info.set_layout_count);
    // SAFETY: the program passes a valid create info, so its arrays have their counts.
    unsafe {
        for set in slice(info.p_set_layouts, info.set_layout_count) {
            let digest = if set.is_null() {
                [0; 32]
            } else {
                objects::contents(command, device, "VkDescriptorSetLayout", set.as_raw())
            };
            hasher.bytes(&digest);
        }
        for range in slice(info.p_push_constant_ranges, info.push_constant_range_count) {
            hasher.word(range.stage_flags.as_raw());
            hasher.word(range.offset);
            hasher.word(range.size);
        }
    }
    hasher.finish()
}
