//! Samplers, descriptor set layouts and pipeline layouts: each is made of the handles of what it holds, which the
//! caller makes first.

use ash::vk;

use super::arena::{Arena, Chain};
use super::extensions::chain_owned;
use super::{Limits, RebuildError, Rebuilt, ensure, same_schema, within};
use vkstash_model::recipe::{Binding, PipelineLayout, Sampler, SetLayout, YcbcrConversion};

/// The create info of a colour conversion.
pub fn conversion(
    conversion: &YcbcrConversion,
) -> Result<Rebuilt<'static, vk::SamplerYcbcrConversionCreateInfo<'static>>, RebuildError> {
    let mut arena = Arena::default();
    let mut chain = Chain::default();
    chain_owned(&mut arena, &mut chain, &conversion.extensions)?;
    let [format, model, range, r, g, b, a, x, y, filter, explicit] = conversion.members;
    let [r, g, b, a] = [r, g, b, a].map(|swizzle| vk::ComponentSwizzle::from_raw(swizzle as i32));
    let info = vk::SamplerYcbcrConversionCreateInfo {
        p_next: chain.head(),
        format: vk::Format::from_raw(format as i32),
        ycbcr_model: vk::SamplerYcbcrModelConversion::from_raw(model as i32),
        ycbcr_range: vk::SamplerYcbcrRange::from_raw(range as i32),
        components: vk::ComponentMapping { r, g, b, a },
        x_chroma_offset: vk::ChromaLocation::from_raw(x as i32),
        y_chroma_offset: vk::ChromaLocation::from_raw(y as i32),
        chroma_filter: vk::Filter::from_raw(filter as i32),
        force_explicit_reconstruction: explicit,
        ..Default::default()
    };
    Ok(Rebuilt::new(info, arena))
}

/// The create info of a sampler, with the conversion that [`Sampler::conversion`] describes.
pub fn sampler(
    sampler: &Sampler,
    conversion: vk::SamplerYcbcrConversion,
) -> Result<Rebuilt<'static, vk::SamplerCreateInfo<'static>>, RebuildError> {
    let mut arena = Arena::default();
    let info = sampler_info(&mut arena, sampler, conversion)?;
    Ok(Rebuilt::new(info, arena))
}

/// [`sampler`] as a bare create info, whose chain is in the caller's arena.
pub(super) fn sampler_info(
    arena: &mut Arena,
    sampler: &Sampler,
    conversion: vk::SamplerYcbcrConversion,
) -> Result<vk::SamplerCreateInfo<'static>, RebuildError> {
    let is_given = conversion != vk::SamplerYcbcrConversion::null();
    ensure(is_given == sampler.conversion.is_some(), "a sampler without the conversion that it describes")?;
    let mut chain = Chain::default();
    chain_owned(arena, &mut chain, &sampler.extensions)?;
    if is_given {
        chain.push(arena, vk::SamplerYcbcrConversionInfo { conversion, ..Default::default() })?;
    }
    let [
        mag,
        min,
        mipmap,
        u,
        v,
        w,
        bias,
        anisotropy,
        most,
        compare,
        op,
        min_lod,
        max_lod,
        border,
        unnormalized,
    ] = sampler.members;
    let address = |mode: u32| vk::SamplerAddressMode::from_raw(mode as i32);
    Ok(vk::SamplerCreateInfo {
        p_next: chain.head(),
        flags: vk::SamplerCreateFlags::from_raw(sampler.flags),
        mag_filter: vk::Filter::from_raw(mag as i32),
        min_filter: vk::Filter::from_raw(min as i32),
        mipmap_mode: vk::SamplerMipmapMode::from_raw(mipmap as i32),
        address_mode_u: address(u),
        address_mode_v: address(v),
        address_mode_w: address(w),
        mip_lod_bias: f32::from_bits(bias),
        anisotropy_enable: anisotropy,
        max_anisotropy: f32::from_bits(most),
        compare_enable: compare,
        compare_op: vk::CompareOp::from_raw(op as i32),
        min_lod: f32::from_bits(min_lod),
        max_lod: f32::from_bits(max_lod),
        border_color: vk::BorderColor::from_raw(border as i32),
        unnormalized_coordinates: unnormalized,
        ..Default::default()
    })
}

/// The create info of a descriptor set layout; `sampler` has the immutable samplers.
pub fn set_layout(
    layout: &SetLayout,
    mut sampler: impl FnMut(&Sampler) -> Option<vk::Sampler>,
) -> Result<Rebuilt<'static, vk::DescriptorSetLayoutCreateInfo<'static>>, RebuildError> {
    let mut arena = Arena::default();
    let mut chain = Chain::default();
    let numbers = layout.bindings.windows(2);
    ensure(numbers.into_iter().all(|pair| pair[0].binding < pair[1].binding), "bindings out of order")?;
    let bindings = arena.list(layout.bindings.iter(), |arena, given| binding(arena, given, &mut sampler))?;
    if layout.bindings.iter().any(|binding| binding.flags != 0) {
        let flags = arena.list(layout.bindings.iter(), |_, binding| {
            Ok(vk::DescriptorBindingFlags::from_raw(binding.flags))
        })?;
        let info = vk::DescriptorSetLayoutBindingFlagsCreateInfo {
            binding_count: flags.count,
            p_binding_flags: flags.pointer,
            ..Default::default()
        };
        chain.push(&mut arena, info)?;
    }
    if layout.bindings.iter().any(|binding| !binding.mutable_types.is_empty()) {
        let lists = arena.list(layout.bindings.iter(), |arena, binding| {
            let types = arena.copy(&binding.mutable_types)?;
            Ok(vk::MutableDescriptorTypeListEXT {
                descriptor_type_count: types.count,
                p_descriptor_types: types.pointer.cast(),
                ..Default::default()
            })
        })?;
        let info = vk::MutableDescriptorTypeCreateInfoEXT {
            mutable_descriptor_type_list_count: lists.count,
            p_mutable_descriptor_type_lists: lists.pointer,
            ..Default::default()
        };
        chain.push(&mut arena, info)?;
    }
    let info = vk::DescriptorSetLayoutCreateInfo {
        p_next: chain.head(),
        flags: vk::DescriptorSetLayoutCreateFlags::from_raw(layout.flags),
        binding_count: bindings.count,
        p_bindings: bindings.pointer,
        ..Default::default()
    };
    Ok(Rebuilt::new(info, arena))
}

fn binding(
    arena: &mut Arena,
    binding: &Binding,
    sampler: &mut impl FnMut(&Sampler) -> Option<vk::Sampler>,
) -> Result<vk::DescriptorSetLayoutBinding<'static>, RebuildError> {
    let descriptor_type = vk::DescriptorType::from_raw(binding.descriptor_type);
    let samples =
        matches!(descriptor_type, vk::DescriptorType::SAMPLER | vk::DescriptorType::COMBINED_IMAGE_SAMPLER);
    let given = binding.immutable_samplers.len();
    ensure(given == 0 || samples && given == binding.count as usize, "another number of samplers")?;
    ensure(
        binding.mutable_types.is_empty() || descriptor_type == vk::DescriptorType::MUTABLE_EXT,
        "types of a descriptor that is not mutable",
    )?;
    let samplers = arena.list(binding.immutable_samplers.iter(), |_, described| {
        sampler(described).ok_or(RebuildError::Contradiction("a sampler that was not made"))
    })?;
    Ok(vk::DescriptorSetLayoutBinding {
        binding: binding.binding,
        descriptor_type,
        descriptor_count: binding.count,
        stage_flags: vk::ShaderStageFlags::from_raw(binding.stages),
        p_immutable_samplers: samplers.pointer,
        ..Default::default()
    })
}

/// The create info of a pipeline layout; `set_layout` has the sets, of which it may be asked for one more than once.
pub fn pipeline_layout(
    layout: &PipelineLayout,
    limits: Limits,
    mut set_layout: impl FnMut(&SetLayout) -> Option<vk::DescriptorSetLayout>,
) -> Result<Rebuilt<'static, vk::PipelineLayoutCreateInfo<'static>>, RebuildError> {
    same_schema(layout.schema)?;
    within(layout.sets.len(), limits.sets, "descriptor sets")?;
    let mut arena = Arena::default();
    let sets = arena.list(layout.sets.iter(), |_, set| match set {
        Some(set) => set_layout(set).ok_or(RebuildError::Contradiction("a set layout that was not made")),
        None => Ok(vk::DescriptorSetLayout::null()),
    })?;
    let ranges = arena.list(layout.push_constants.iter(), |_, &(stages, offset, size)| {
        let stage_flags = vk::ShaderStageFlags::from_raw(stages);
        Ok(vk::PushConstantRange { stage_flags, offset, size })
    })?;
    let info = vk::PipelineLayoutCreateInfo {
        flags: vk::PipelineLayoutCreateFlags::from_raw(layout.flags),
        set_layout_count: sets.count,
        p_set_layouts: sets.pointer,
        push_constant_range_count: ranges.count,
        p_push_constant_ranges: ranges.pointer,
        ..Default::default()
    };
    Ok(Rebuilt::new(info, arena))
}
