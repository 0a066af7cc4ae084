//! Colour conversions, samplers, descriptor set layouts and pipeline layouts: described when they are created.

use std::sync::Arc;

use ash::vk;

use crate::hooks::inert::pass;
use crate::state::devices::device::Device;
use crate::state::devices::live_devices;
use crate::state::objects::described::{Encoded, SamplerObject, SetLayoutObject};
use crate::state::objects::of_device::ObjectsOfDevice;
use vkstash_host::guard::guard;
use vkstash_recipe::capture::objects;

/// Defines the create and destroy hooks of one type of object.
macro_rules! object_hooks {
    ($create:ident, $destroy:ident, $keep:path, $forget:path, $info:ty, $handle:ty, $name:literal) => {
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
                        $keep(&device, *object, &*info, !allocator.is_null());
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
            let goes_down = guard(concat!("vkDestroy", $name), || $forget(&device, object), || true);
            if let Some(next) = device.table.$destroy.filter(|_| goes_down) {
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
    keep_conversion,
    forget_conversion,
    vk::SamplerYcbcrConversionCreateInfo<'_>,
    vk::SamplerYcbcrConversion,
    "SamplerYcbcrConversion"
);
object_hooks!(
    create_sampler,
    destroy_sampler,
    keep_sampler,
    forget_sampler,
    vk::SamplerCreateInfo<'_>,
    vk::Sampler,
    "Sampler"
);
object_hooks!(
    create_descriptor_set_layout,
    destroy_descriptor_set_layout,
    keep_set_layout,
    forget_set_layout,
    vk::DescriptorSetLayoutCreateInfo<'_>,
    vk::DescriptorSetLayout,
    "DescriptorSetLayout"
);
object_hooks!(
    create_pipeline_layout,
    destroy_pipeline_layout,
    keep_layout,
    forget_layout,
    vk::PipelineLayoutCreateInfo<'_>,
    vk::PipelineLayout,
    "PipelineLayout"
);

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
