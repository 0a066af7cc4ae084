//! Colour conversions, samplers, descriptor set layouts and pipeline layouts: described when they are created.

use ash::vk;

use crate::guard::guard;
use crate::hooks::inert::pass;
use crate::state::described::{Described, Encoded, described};
use crate::state::device::Device;
use crate::state::live_devices;
use vkstash_recipe::capture::objects;

/// Defines the create and destroy hooks of one type of object.
macro_rules! object_hooks {
    ($create:ident, $destroy:ident, $objects:ident, $describe:path, $info:ty, $handle:ty, $name:literal) => {
        #[doc = concat!("vkCreate", $name, ".")]
        pub unsafe extern "system" fn $create(
            handle: vk::Device,
            info: *const $info,
            allocator: *const vk::AllocationCallbacks<'_>,
            object: *mut $handle,
        ) -> vk::Result {
            // SAFETY: the program passes a live device, and destroys it only after this command has returned.
            let Some(device) = (unsafe { live_devices::find(handle) }) else {
                pass!(handle, $create(info, allocator, object));
            };
            let Some(next) = device.table.$create else { return vk::Result::ERROR_UNKNOWN };
            // SAFETY: `info`, `allocator` and `object` are the program's arguments of this command, valid until it
            // returns.
            let result = unsafe { next(handle, info, allocator, object) };
            if result == vk::Result::SUCCESS {
                // SAFETY: a valid create info; the driver has written the handle.
                let describe = || unsafe {
                    if device.describes() {
                        let described = $describe(&device, &*info);
                        device.objects.$objects.insert(*object, described);
                    }
                };
                guard(concat!("vkCreate", $name), describe, || ());
            }
            result
        }

        #[doc = concat!("vkDestroy", $name, ".")]
        pub unsafe extern "system" fn $destroy(
            handle: vk::Device,
            object: $handle,
            allocator: *const vk::AllocationCallbacks<'_>,
        ) {
            // SAFETY: the program passes a live device, and destroys it only after this command has returned.
            let Some(device) = (unsafe { live_devices::find(handle) }) else {
                pass!(handle, $destroy(object, allocator));
            };
            // Forgotten first: the driver may give the handle to another thread at once.
            guard(concat!("vkDestroy", $name), || device.objects.$objects.remove(object), || ());
            if let Some(next) = device.table.$destroy {
                // SAFETY: `object` is NULL or an object that nothing uses any more, and `allocator` NULL or valid: the
                // program's arguments of this command.
                unsafe { next(handle, object, allocator) };
            }
        }
    };
}

pub(super) use object_hooks;

object_hooks!(
    create_sampler_ycbcr_conversion,
    destroy_sampler_ycbcr_conversion,
    conversions,
    conversion,
    vk::SamplerYcbcrConversionCreateInfo<'_>,
    vk::SamplerYcbcrConversion,
    "SamplerYcbcrConversion"
);
object_hooks!(
    create_sampler,
    destroy_sampler,
    samplers,
    sampler,
    vk::SamplerCreateInfo<'_>,
    vk::Sampler,
    "Sampler"
);
object_hooks!(
    create_descriptor_set_layout,
    destroy_descriptor_set_layout,
    set_layouts,
    set_layout,
    vk::DescriptorSetLayoutCreateInfo<'_>,
    vk::DescriptorSetLayout,
    "DescriptorSetLayout"
);
object_hooks!(
    create_pipeline_layout,
    destroy_pipeline_layout,
    layouts,
    layout,
    vk::PipelineLayoutCreateInfo<'_>,
    vk::PipelineLayout,
    "PipelineLayout"
);

/// # Safety
/// `info` is a valid VkSamplerYcbcrConversionCreateInfo.
unsafe fn conversion(
    _device: &Device,
    info: &vk::SamplerYcbcrConversionCreateInfo<'_>,
) -> Described<vkstash_model::recipe::YcbcrConversion> {
    // SAFETY: `info` is a valid VkSamplerYcbcrConversionCreateInfo; its pNext chain is valid for this call.
    unsafe { objects::conversion(info) }
}

/// # Safety
/// `info` is a valid VkSamplerCreateInfo.
unsafe fn sampler(
    device: &Device,
    info: &vk::SamplerCreateInfo<'_>,
) -> Described<vkstash_model::recipe::Sampler> {
    // SAFETY: `info` is a valid VkSamplerCreateInfo; a conversion is looked up by its handle, not dereferenced.
    unsafe { objects::sampler(info, |conversion| described(&device.objects.conversions, conversion)) }
}

/// # Safety
/// `info` is a valid VkDescriptorSetLayoutCreateInfo.
unsafe fn set_layout(
    device: &Device,
    info: &vk::DescriptorSetLayoutCreateInfo<'_>,
) -> Described<vkstash_model::recipe::SetLayout> {
    // SAFETY: `info` is valid: pBindings has bindingCount elements; samplers are looked up by their handles.
    unsafe { objects::set_layout(info, |sampler| described(&device.objects.samplers, sampler)) }
}

/// # Safety
/// `info` is a valid VkPipelineLayoutCreateInfo.
unsafe fn layout(device: &Device, info: &vk::PipelineLayoutCreateInfo<'_>) -> Described<Encoded> {
    // SAFETY: `info` is valid (the caller's contract).
    unsafe { Encoded::of_layout(&device.objects.set_layouts, info) }
}
