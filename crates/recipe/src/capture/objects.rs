//! Samplers, descriptor set layouts and pipeline layouts. They are described when they are created: handles
//! are destroyed and reused long before the pipelines that were made with them (contract 7.2).

use ash::vk;

use super::{array, owned_extensions, owned_plain};
use crate::chain::{self, Refusal, Special};
use vkstash_host::sort;
use vkstash_model::recipe::{Binding, PipelineLayout, SCHEMA, Sampler, SetLayout, YcbcrConversion};

/// Describes a colour conversion.
///
/// # Safety
/// `info` is a valid create info.
pub unsafe fn conversion(
    info: &vk::SamplerYcbcrConversionCreateInfo<'_>,
) -> Result<YcbcrConversion, Refusal> {
    let components = &info.components;
    Ok(YcbcrConversion {
        members: [
            info.format.as_raw() as u32,
            info.ycbcr_model.as_raw() as u32,
            info.ycbcr_range.as_raw() as u32,
            components.r.as_raw() as u32,
            components.g.as_raw() as u32,
            components.b.as_raw() as u32,
            components.a.as_raw() as u32,
            info.x_chroma_offset.as_raw() as u32,
            info.y_chroma_offset.as_raw() as u32,
            info.chroma_filter.as_raw() as u32,
            info.force_explicit_reconstruction,
        ],
        // SAFETY: the chain of a valid create info.
        extensions: unsafe { owned_plain(info.p_next) }?,
    })
}

/// Describes a sampler; `conversion` knows the live colour conversions.
///
/// # Safety
/// `info` is a valid create info.
pub unsafe fn sampler(
    info: &vk::SamplerCreateInfo<'_>,
    conversion: impl Fn(vk::SamplerYcbcrConversion) -> Result<YcbcrConversion, Refusal>,
) -> Result<Sampler, Refusal> {
    let mut converted = None;
    // SAFETY: the chain of a valid create info; the cast follows the sType.
    let extensions = unsafe {
        owned_extensions(info.p_next, |node| {
            if node.s_type != vk::StructureType::SAMPLER_YCBCR_CONVERSION_INFO {
                return Ok(Special::Foreign);
            }
            let info = &*(&raw const *node).cast::<vk::SamplerYcbcrConversionInfo<'_>>();
            converted = Some(conversion(info.conversion)?);
            Ok(Special::Read)
        })
    }?;
    Ok(Sampler {
        flags: info.flags.as_raw(),
        members: [
            info.mag_filter.as_raw() as u32,
            info.min_filter.as_raw() as u32,
            info.mipmap_mode.as_raw() as u32,
            info.address_mode_u.as_raw() as u32,
            info.address_mode_v.as_raw() as u32,
            info.address_mode_w.as_raw() as u32,
            info.mip_lod_bias.to_bits(),
            info.anisotropy_enable,
            info.max_anisotropy.to_bits(),
            info.compare_enable,
            info.compare_op.as_raw() as u32,
            info.min_lod.to_bits(),
            info.max_lod.to_bits(),
            info.border_color.as_raw() as u32,
            info.unnormalized_coordinates,
        ],
        conversion: converted,
        extensions,
    })
}

/// Describes a descriptor set layout; `sampler` knows the live samplers, and is asked for each immutable one with the
/// number of its binding.
///
/// # Safety
/// `info` is a valid create info.
pub unsafe fn set_layout(
    info: &vk::DescriptorSetLayoutCreateInfo<'_>,
    mut sampler: impl FnMut(u32, vk::Sampler) -> Result<Sampler, Refusal>,
) -> Result<SetLayout, Refusal> {
    let mut flags: &[vk::DescriptorBindingFlags] = &[];
    let mut mutable: &[vk::MutableDescriptorTypeListEXT<'_>] = &[];
    // SAFETY: the chain of a valid create info; the casts follow the sType; arrays are valid for their
    // counts.
    let extensions = unsafe {
        chain::scan(info.p_next, |node| {
            let node = &raw const *node;
            match (*node).s_type {
                vk::StructureType::DESCRIPTOR_SET_LAYOUT_BINDING_FLAGS_CREATE_INFO => {
                    let info = &*node.cast::<vk::DescriptorSetLayoutBindingFlagsCreateInfo<'_>>();
                    flags = array(info.p_binding_flags, info.binding_count);
                    Ok(Special::Read)
                }
                vk::StructureType::MUTABLE_DESCRIPTOR_TYPE_CREATE_INFO_EXT => {
                    let info = &*node.cast::<vk::MutableDescriptorTypeCreateInfoEXT<'_>>();
                    mutable =
                        array(info.p_mutable_descriptor_type_lists, info.mutable_descriptor_type_list_count);
                    Ok(Special::Read)
                }
                _ => Ok(Special::Foreign),
            }
        })
    }?;
    chain::refuse_plain(&extensions)?;
    // SAFETY: valid for its count.
    let given = unsafe { array(info.p_bindings, info.binding_count) };
    let mut bindings = Vec::with_capacity(given.len());
    for (index, binding) in given.iter().enumerate() {
        let samples = matches!(
            binding.descriptor_type,
            vk::DescriptorType::SAMPLER | vk::DescriptorType::COMBINED_IMAGE_SAMPLER
        );
        let count = if samples { binding.descriptor_count } else { 0 };
        // SAFETY: read only for types that have samplers and a count above 0 (contract 6).
        let immutable = unsafe { array(binding.p_immutable_samplers, count) };
        let types = match mutable.get(index) {
            // SAFETY: valid for its count.
            Some(list) if binding.descriptor_type == vk::DescriptorType::MUTABLE_EXT => unsafe {
                array(list.p_descriptor_types, list.descriptor_type_count)
            },
            _ => &[],
        };
        let mut mutable_types: Vec<i32> = types.iter().map(|kind| kind.as_raw()).collect();
        sort::sort(&mut mutable_types);
        bindings.push(Binding {
            binding: binding.binding,
            descriptor_type: binding.descriptor_type.as_raw(),
            count: binding.descriptor_count,
            stages: binding.stage_flags.as_raw(),
            flags: flags.get(index).map_or(0, |flags| flags.as_raw()),
            immutable_samplers: immutable
                .iter()
                .map(|&s| sampler(binding.binding, s))
                .collect::<Result<_, _>>()?,
            mutable_types,
        });
    }
    sort::by_key(&mut bindings, |binding| binding.binding);
    Ok(SetLayout { flags: info.flags.as_raw(), bindings })
}

/// Describes a pipeline layout; `set_layout` knows the live set layouts.
///
/// # Safety
/// `info` is a valid create info.
pub unsafe fn pipeline_layout(
    info: &vk::PipelineLayoutCreateInfo<'_>,
    mut set_layout: impl FnMut(vk::DescriptorSetLayout) -> Result<SetLayout, Refusal>,
) -> Result<PipelineLayout, Refusal> {
    // SAFETY: the chain and both arrays of a valid create info.
    let (sets, ranges) = unsafe {
        chain::scan_empty(info.p_next)?;
        (
            array(info.p_set_layouts, info.set_layout_count),
            array(info.p_push_constant_ranges, info.push_constant_range_count),
        )
    };
    let described = |&set: &vk::DescriptorSetLayout| {
        if set == vk::DescriptorSetLayout::null() { Ok(None) } else { set_layout(set).map(Some) }
    };
    let mut push_constants: Vec<_> =
        ranges.iter().map(|range| (range.stage_flags.as_raw(), range.offset, range.size)).collect();
    sort::sort(&mut push_constants);
    let sets = sets.iter().map(described).collect::<Result<_, _>>()?;
    Ok(PipelineLayout { schema: SCHEMA, flags: info.flags.as_raw(), sets, push_constants })
}
