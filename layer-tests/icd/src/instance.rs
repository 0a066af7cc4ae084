//! Instances, and the commands that need none.

use std::ffi::{CStr, c_char};
use std::sync::Arc;

use ash::vk::{self, Handle as _};

use crate::command::{command, void};
use crate::handles::{self, Dispatchable, Instance};
use crate::lists::{extension, list};
use crate::record::{plain, save, violation};
use crate::{chain, config, disk, held, objects};

/// vkEnumerateInstanceVersion.
pub unsafe extern "system" fn enumerate_instance_version(version: *mut u32) -> vk::Result {
    command(plain("vkEnumerateInstanceVersion"), |_| {
        // SAFETY: the program passes a pApiVersion that can be written.
        unsafe { version.write(config::current().api()) };
        vk::Result::SUCCESS
    })
}

/// Instance extensions that a driver has to know for physical device queries.
const EXTENSIONS: &[&CStr] = &[
    c"VK_KHR_get_physical_device_properties2",
    c"VK_KHR_device_group_creation",
    c"VK_KHR_external_memory_capabilities",
    c"VK_EXT_debug_utils",
    c"VK_EXT_debug_report",
];

/// vkEnumerateInstanceExtensionProperties.
pub unsafe extern "system" fn enumerate_instance_extension_properties(
    layer: *const c_char,
    count: *mut u32,
    out: *mut vk::ExtensionProperties,
) -> vk::Result {
    command(plain("vkEnumerateInstanceExtensionProperties"), |_| {
        if !layer.is_null() {
            return vk::Result::ERROR_LAYER_NOT_PRESENT;
        }
        let items: Vec<_> = EXTENSIONS.iter().map(|name| extension(name)).collect();
        // SAFETY: the program passes a valid pPropertyCount, and a pProperties that is NULL or has as many elements.
        unsafe { list(&items, count, out) }
    })
}

/// vkCreateInstance, after the script was loaded.
pub unsafe extern "system" fn create_instance(
    info: *const vk::InstanceCreateInfo<'_>,
    callbacks: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::Instance,
) -> vk::Result {
    let mut call = plain("vkCreateInstance");
    held::find();
    // SAFETY: the program passes a valid pCreateInfo, so its chain is valid.
    call.p_next = unsafe { chain::types(call.command, (*info).p_next) };
    command(call, |_| {
        let physical: Vec<u64> = (0..config::current().physical_devices)
            .map(|index| {
                let handle = handles::allocate();
                handles::insert(handle, Dispatchable::Physical(index));
                handle
            })
            .collect();
        // SAFETY: the program passes a pAllocator that is NULL or valid.
        let allocator = unsafe { objects::allocator(callbacks) };
        let handle = handles::allocate();
        handles::insert(handle, Dispatchable::Instance(Arc::new(Instance { physical, allocator })));
        // SAFETY: the program passes a pInstance that can be written.
        unsafe { out.write(vk::Instance::from_raw(handle)) };
        vk::Result::SUCCESS
    })
}

/// vkDestroyInstance.
pub unsafe extern "system" fn destroy_instance(
    instance: vk::Instance,
    callbacks: *const vk::AllocationCallbacks<'_>,
) {
    void(plain("vkDestroyInstance"), |call| {
        if instance.is_null() {
            return;
        }
        let Some(found) = handles::instance(call.command, instance) else { return };
        // SAFETY: the program passes a pAllocator that is NULL or valid.
        if found.allocator != unsafe { objects::allocator(callbacks) } {
            violation("vkDestroyInstance: the instance was created with another allocator");
        }
        for &physical in &found.physical {
            handles::remove(physical);
        }
        handles::remove(instance.as_raw());
        disk::finish();
    });
    save();
}

/// vkEnumeratePhysicalDevices.
pub unsafe extern "system" fn enumerate_physical_devices(
    instance: vk::Instance,
    count: *mut u32,
    out: *mut vk::PhysicalDevice,
) -> vk::Result {
    command(plain("vkEnumeratePhysicalDevices"), |call| {
        let Some(found) = handles::instance(call.command, instance) else {
            return vk::Result::ERROR_INITIALIZATION_FAILED;
        };
        let items: Vec<_> = found.physical.iter().map(|&raw| vk::PhysicalDevice::from_raw(raw)).collect();
        // SAFETY: the loader passes a valid count, and an output that is NULL or has as many elements.
        unsafe { list(&items, count, out) }
    })
}
