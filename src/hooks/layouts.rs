//! Hooks of colour conversions, samplers, descriptor set layouts and pipeline layouts.

use std::sync::Arc;

use ash::vk;

use super::object_hooks::{create_hook, destroy_hook};
use crate::state::devices::device::Device;
use crate::state::objects::described::{Encoded, SamplerObject, SetLayoutObject};
use crate::state::objects::of_device::ObjectsOfDevice;
use vkstash_recipe::capture::objects;

create_hook!(
    create_sampler_ycbcr_conversion,
    keep_conversion,
    vk::SamplerYcbcrConversionCreateInfo<'_>,
    vk::SamplerYcbcrConversion,
    "SamplerYcbcrConversion"
);
destroy_hook!(
    destroy_sampler_ycbcr_conversion,
    forget_conversion,
    vk::SamplerYcbcrConversion,
    "SamplerYcbcrConversion"
);
create_hook!(create_sampler, keep_sampler, vk::SamplerCreateInfo<'_>, vk::Sampler, "Sampler");
destroy_hook!(destroy_sampler, forget_sampler, vk::Sampler, "Sampler");
create_hook!(
    create_descriptor_set_layout,
    keep_set_layout,
    vk::DescriptorSetLayoutCreateInfo<'_>,
    vk::DescriptorSetLayout,
    "DescriptorSetLayout"
);
destroy_hook!(
    destroy_descriptor_set_layout,
    forget_set_layout,
    vk::DescriptorSetLayout,
    "DescriptorSetLayout"
);
create_hook!(
    create_pipeline_layout,
    keep_layout,
    vk::PipelineLayoutCreateInfo<'_>,
    vk::PipelineLayout,
    "PipelineLayout"
);
destroy_hook!(destroy_pipeline_layout, forget_layout, vk::PipelineLayout, "PipelineLayout");

/// # Safety
/// `info` is a valid VkSamplerYcbcrConversionCreateInfo.
unsafe fn keep_conversion(
    device: &Device,
    handle: vk::SamplerYcbcrConversion,
    info: &vk::SamplerYcbcrConversionCreateInfo<'_>,
    _has_allocator: bool,
) {
    // SAFETY: `info` is a valid VkSamplerYcbcrConversionCreateInfo; its pNext chain is valid for this call.
    device.objects.conversions.insert(handle, unsafe { objects::conversion(info) });
}

fn forget_conversion(device: &Device, handle: vk::SamplerYcbcrConversion) -> bool {
    device.objects.conversions.remove(handle);
    true
}

/// # Safety
/// `info` is a valid VkSamplerCreateInfo.
unsafe fn keep_sampler(
    device: &Device,
    handle: vk::Sampler,
    info: &vk::SamplerCreateInfo<'_>,
    has_allocator: bool,
) {
    let ObjectsOfDevice { samplers, conversions, .. } = &device.objects;
    // SAFETY: `info` is a valid VkSamplerCreateInfo (# Safety of this function).
    samplers.insert(handle, unsafe { SamplerObject::of(info, handle, samplers, conversions, has_allocator) });
}

fn forget_sampler(device: &Device, handle: vk::Sampler) -> bool {
    device.objects.samplers.remove(handle);
    !device.work.lending.withdraw_sampler(handle)
}

/// # Safety
/// `info` is a valid VkDescriptorSetLayoutCreateInfo.
unsafe fn keep_set_layout(
    device: &Device,
    handle: vk::DescriptorSetLayout,
    info: &vk::DescriptorSetLayoutCreateInfo<'_>,
    has_allocator: bool,
) {
    let ObjectsOfDevice { samplers, set_layouts, .. } = &device.objects;
    // SAFETY: `info` is a valid VkDescriptorSetLayoutCreateInfo (# Safety of this function).
    set_layouts.insert(handle, unsafe { SetLayoutObject::of(info, samplers, has_allocator) });
}

fn forget_set_layout(device: &Device, handle: vk::DescriptorSetLayout) -> bool {
    device.objects.set_layouts.remove(handle);
    true
}

/// # Safety
/// `info` is a valid VkPipelineLayoutCreateInfo.
unsafe fn keep_layout(
    device: &Device,
    handle: vk::PipelineLayout,
    info: &vk::PipelineLayoutCreateInfo<'_>,
    has_allocator: bool,
) {
    let ObjectsOfDevice { layouts, set_layouts, .. } = &device.objects;
    // SAFETY: `info` is a valid VkPipelineLayoutCreateInfo (# Safety of this function).
    let layout = unsafe { Encoded::of_layout(set_layouts, info, has_allocator) };
    let offered = layout.as_ref().ok().map(|layout| (layout.digest, layout.samplers.clone()));
    layouts.insert(handle, layout);
    // Offered once it is known: a worker makes pipelines with it at once.
    let awaited =
        offered.and_then(|(digest, samplers)| device.work.lending.offer(&digest, handle, &samplers));
    if let Some(keys) = awaited.map(Arc::new) {
        device.work.listeners.tell(|work| work.layout_came(&keys));
    }
}

fn forget_layout(device: &Device, handle: vk::PipelineLayout) -> bool {
    device.objects.layouts.remove(handle);
    !device.work.lending.withdraw(handle)
}
