//! Modules, samplers, layouts, and what stands in their chains.

use ash::vk;

use crate::json::structure::structure;

structure! { chained vk::SamplerCreateInfo<'static> {
    "flags": value flags,
    "minFilter": value min_filter,
    "magFilter": value mag_filter,
    "maxAnisotropy": value max_anisotropy,
    "compareOp": value compare_op,
    "anisotropyEnable": value anisotropy_enable,
    "mipmapMode": value mipmap_mode,
    "addressModeU": value address_mode_u,
    "addressModeV": value address_mode_v,
    "addressModeW": value address_mode_w,
    "borderColor": value border_color,
    "unnormalizedCoordinates": value unnormalized_coordinates,
    "compareEnable": value compare_enable,
    "mipLodBias": value mip_lod_bias,
    "minLod": value min_lod,
    "maxLod": value max_lod,
} }

structure! { link vk::SamplerCustomBorderColorCreateInfoEXT<'static> {
    "customBorderColor": words custom_border_color,
    "format": value format,
} }

structure! { link vk::SamplerReductionModeCreateInfo<'static> {
    "reductionMode": value reduction_mode,
} }

// In a sampler's chain, where Vulkan has VkSamplerYcbcrConversionInfo: the conversion has no document of its own.
structure! { link vk::SamplerYcbcrConversionCreateInfo<'static> {
    "format": value format,
    "ycbcrModel": value ycbcr_model,
    "ycbcrRange": value ycbcr_range,
    "components": swizzles components,
    "xChromaOffset": value x_chroma_offset,
    "yChromaOffset": value y_chroma_offset,
    "chromaFilter": value chroma_filter,
    "forceExplicitReconstruction": value force_explicit_reconstruction,
} }

structure! { plain vk::ComponentMapping {
    "r": value r,
    "g": value g,
    "b": value b,
    "a": value a,
} }

structure! { link vk::SamplerBorderColorComponentMappingCreateInfoEXT<'static> {
    "srgb": value srgb,
    "components": value components,
} }

structure! { marked vk::DescriptorSetLayoutBinding<'static> {
    "descriptorType": value descriptor_type,
    "descriptorCount": value descriptor_count,
    "stageFlags": value stage_flags,
    "binding": value binding,
    "immutableSamplers": sized p_immutable_samplers [descriptor_count],
} }

structure! { chained vk::DescriptorSetLayoutCreateInfo<'static> {
    "flags": value flags,
    "bindings": list p_bindings => binding_count,
} }

structure! { link vk::DescriptorSetLayoutBindingFlagsCreateInfo<'static> {
    "bindingFlags": list p_binding_flags => binding_count,
} }

structure! { link vk::MutableDescriptorTypeCreateInfoEXT<'static> {
    "mutableDescriptorTypeLists": list p_mutable_descriptor_type_lists => mutable_descriptor_type_list_count,
} }

structure! { plain vk::PushConstantRange {
    "stageFlags": value stage_flags,
    "size": value size,
    "offset": value offset,
} }

structure! { lone vk::PipelineLayoutCreateInfo<'static> {
    "flags": value flags,
    "pushConstantRanges": list p_push_constant_ranges => push_constant_range_count,
    "setLayouts": list p_set_layouts => set_layout_count,
} }
