//! Devices and queues.

use std::collections::HashSet;
use std::ffi::CStr;
use std::sync::{Arc, Mutex};

use ash::vk::{self, Handle as _, TaggedStructure};

use crate::command::{command, void};
use crate::config::Config;
use crate::handles::{self, Device, Dispatchable};
use crate::record::{plain, violation};
use crate::{binary_info, chain, config, features, objects};

/// vkCreateDevice.
pub unsafe extern "system" fn create_device(
    physical: vk::PhysicalDevice,
    info: *const vk::DeviceCreateInfo<'_>,
    callbacks: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::Device,
) -> vk::Result {
    let mut call = plain("vkCreateDevice");
    // SAFETY: a required pointer to a valid create info.
    let info = unsafe { &*info };
    // SAFETY: its valid chain.
    call.p_next = unsafe { chain::types(call.command, info.p_next) };
    command(call, |call| {
        let index = handles::physical(call.command, physical);
        // SAFETY: the program passes a valid create info, and NULL or valid callbacks.
        let made = unsafe { examine(info, index, objects::allocator(callbacks)) };
        match made {
            Ok(device) => {
                let handle = device.handle;
                handles::insert(handle, Dispatchable::Device(Arc::new(device)));
                // SAFETY: a required output pointer.
                unsafe { out.write(vk::Device::from_raw(handle)) };
                vk::Result::SUCCESS
            }
            Err(result) => result,
        }
    })
}

/// Checks a create info against what the driver has.
///
/// # Safety
/// `info` is valid.
unsafe fn examine(
    info: &vk::DeviceCreateInfo<'_>,
    index: u32,
    allocator: objects::Allocator,
) -> Result<Device, vk::Result> {
    let config = config::current();
    // SAFETY: `info` is valid (the # Safety section).
    let (extensions, mut fault) = unsafe { requested(info, &config) };
    let mut device = Device {
        handle: handles::allocate(),
        index,
        allocator,
        extensions,
        cache_control: false,
        identifiers: false,
        maintenance5: false,
        libraries: false,
        binaries: false,
        shader_object: false,
        descriptor_heap: false,
        internal_cache_off: false,
        robustness: [false; 5],
        queues: Mutex::default(),
    };
    // SAFETY: NULL or valid features; structures of these sTypes in a valid chain.
    unsafe {
        let all: Option<&vk::PhysicalDeviceFeatures2<'_>> = chain::find(info.p_next);
        let base = info.p_enabled_features.as_ref().or(all.map(|all| &all.features));
        device.robustness[0] = base.is_some_and(|base| base.robust_buffer_access != 0);
        if let Some(more) = chain::find::<vk::PhysicalDeviceRobustness2FeaturesEXT<'_>>(info.p_next) {
            let members = [more.robust_buffer_access2, more.robust_image_access2, more.null_descriptor];
            device.robustness[2..].copy_from_slice(&members.map(|member| member != 0));
        }
    }
    // SAFETY: the chain is valid; the table has the number of members of each structure.
    unsafe {
        device.internal_cache_off = binary_info::internal_cache_off(info.p_next);
        for node in chain::walk(info.p_next) {
            let s_type = (*node).s_type;
            let Some(truths) = features::supported(&config, s_type) else { continue };
            let asked = features::members(node, truths.len());
            if s_type == features::IDENTIFIERS && !config.identifiers {
                violation("vkCreateDevice: the identifier feature structure reached a driver without it");
            }
            for (at, (&asked, has)) in asked.iter().zip(truths).enumerate() {
                if asked != vk::FALSE && !has {
                    violation(format!(
                        "vkCreateDevice: member {at} of structure {} is not supported",
                        s_type.as_raw()
                    ));
                    fault = fault.or(Some(vk::Result::ERROR_FEATURE_NOT_PRESENT));
                }
            }
            enable(&mut device, s_type, asked);
        }
    }
    match fault {
        Some(result) => Err(result),
        None => Ok(device),
    }
}

/// The extensions that are asked for, and the error where the driver lacks one.
///
/// # Safety
/// `info` is valid.
unsafe fn requested(
    info: &vk::DeviceCreateInfo<'_>,
    config: &Config,
) -> (HashSet<String>, Option<vk::Result>) {
    let known = features::extensions(config);
    let mut extensions = HashSet::new();
    let mut fault = None;
    for at in 0..info.enabled_extension_count as usize {
        // SAFETY: ppEnabledExtensionNames of the valid `info` has enabledExtensionCount names.
        let name = unsafe { CStr::from_ptr(*info.pp_enabled_extension_names.add(at)) }.to_string_lossy();
        if !known.iter().any(|known| *known == name) {
            violation(format!("vkCreateDevice: extension {name} is not supported"));
            fault = Some(vk::Result::ERROR_EXTENSION_NOT_PRESENT);
        }
        extensions.insert(name.into_owned());
    }
    (extensions, fault)
}

/// Switches on the features that are asked for in the members of a structure.
fn enable(device: &mut Device, s_type: vk::StructureType, asked: &[vk::Bool32]) {
    let on = |at: usize| asked[at] != vk::FALSE;
    match s_type {
        features::CACHE_CONTROL => device.cache_control |= on(0),
        features::IDENTIFIERS => device.identifiers |= on(0),
        features::MAINTENANCE5 => device.maintenance5 |= on(0),
        features::LIBRARIES => device.libraries |= on(0),
        features::PIPELINE_BINARY => device.binaries |= on(0),
        features::SHADER_OBJECT => device.shader_object |= on(0),
        features::DESCRIPTOR_HEAP => device.descriptor_heap |= on(0),
        vk::PhysicalDeviceVulkan13Features::STRUCTURE_TYPE => {
            device.cache_control |= on(features::CACHE_CONTROL_OF_13);
            device.robustness[1] = on(0);
        }
        other if other.as_raw() == 55 => device.maintenance5 |= on(features::MAINTENANCE5_OF_14),
        _ => {}
    }
}

/// vkDestroyDevice.
pub unsafe extern "system" fn destroy_device(
    device: vk::Device,
    callbacks: *const vk::AllocationCallbacks<'_>,
) {
    void(plain("vkDestroyDevice"), |call| {
        if device.is_null() {
            return;
        }
        let Some(found) = handles::device(call.command, device) else { return };
        // SAFETY: NULL or valid callbacks.
        if found.allocator != unsafe { objects::allocator(callbacks) } {
            violation("vkDestroyDevice: the device was created with another allocator");
        }
        let left = objects::take_left(found.handle);
        if !left.is_empty() {
            violation(format!("vkDestroyDevice: {} objects still live: {}", left.len(), left.join(", ")));
        }
        for queue in found.queues.lock().unwrap().values() {
            handles::remove(*queue);
        }
        handles::remove(found.handle);
    });
}

fn queue(device: vk::Device, family: u32, index: u32) -> vk::Queue {
    let Some(device) = handles::device("vkGetDeviceQueue", device) else { return vk::Queue::null() };
    let mut queues = device.queues.lock().unwrap();
    let handle = *queues.entry((family, index)).or_insert_with(|| {
        let handle = handles::allocate();
        handles::insert(handle, Dispatchable::Queue);
        handle
    });
    vk::Queue::from_raw(handle)
}

/// vkGetDeviceQueue.
pub unsafe extern "system" fn get_queue(device: vk::Device, family: u32, index: u32, out: *mut vk::Queue) {
    void(plain("vkGetDeviceQueue"), |_| {
        // SAFETY: a required output pointer.
        unsafe { out.write(queue(device, family, index)) };
    });
}

/// vkGetDeviceQueue2.
pub unsafe extern "system" fn get_queue2(
    device: vk::Device,
    info: *const vk::DeviceQueueInfo2<'_>,
    out: *mut vk::Queue,
) {
    void(plain("vkGetDeviceQueue2"), |_| {
        // SAFETY: required pointers.
        unsafe { out.write(queue(device, (*info).queue_family_index, (*info).queue_index)) };
    });
}

/// vkQueuePresentKHR: nothing is shown. Its answer is one that only a driver gives.
pub unsafe extern "system" fn present(_: vk::Queue, info: *const vk::PresentInfoKHR<'_>) -> vk::Result {
    void(plain("vkQueuePresentKHR"), |_| ());
    // SAFETY: a required pointer.
    let is_sound = unsafe { (*info).s_type } == vk::StructureType::PRESENT_INFO_KHR;
    if is_sound { vk::Result::SUBOPTIMAL_KHR } else { vk::Result::ERROR_UNKNOWN }
}

/// A command that names or tags an object: nothing is kept. That it is given the device itself is recorded.
macro_rules! names {
    ($name:ident, $command:literal, $info:ty, $device:expr) => {
        #[doc = concat!($command, ".")]
        pub unsafe extern "system" fn $name(_: vk::Device, info: *const $info) -> vk::Result {
            // SAFETY: a required pointer.
            let of_device = unsafe { (*info).object_type } == $device;
            let command = if of_device { concat!($command, " of a device") } else { $command };
            void(plain(command), |_| ());
            vk::Result::SUCCESS
        }
    };
}

names!(set_name, "vkSetDebugUtilsObjectNameEXT", vk::DebugUtilsObjectNameInfoEXT<'_>, vk::ObjectType::DEVICE);
names!(set_tag, "vkSetDebugUtilsObjectTagEXT", vk::DebugUtilsObjectTagInfoEXT<'_>, vk::ObjectType::DEVICE);
names!(
    set_marker_name,
    "vkDebugMarkerSetObjectNameEXT",
    vk::DebugMarkerObjectNameInfoEXT<'_>,
    vk::DebugReportObjectTypeEXT::DEVICE
);
names!(
    set_marker_tag,
    "vkDebugMarkerSetObjectTagEXT",
    vk::DebugMarkerObjectTagInfoEXT<'_>,
    vk::DebugReportObjectTypeEXT::DEVICE
);

/// vkDeviceWaitIdle: nothing is ever executed.
pub unsafe extern "system" fn wait_idle(_: vk::Device) -> vk::Result {
    vk::Result::SUCCESS
}
