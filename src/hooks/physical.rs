//! Additions to a physical device's lists, features and properties where the layer emulates
//! VK_EXT_shader_module_identifier, and VK_EXT_pipeline_creation_cache_control, which that one needs.
//!
//! The manifest does not list the extension: the loader would then append it to every device and hide which
//! drivers have it (contract 1.5).

use std::ffi::{CStr, c_char};

use ash::vk;
use smallvec::SmallVec;

use crate::loader::LAYER_NAME;
use crate::state::process::instance::{self, Instance, PhysicalDevice};
use vkstash_host::guard::guard;
use vkstash_model::identifier::ALGORITHM_UUID;
use vkstash_recipe::chain;

/// vkEnumerateDeviceExtensionProperties.
pub unsafe extern "system" fn enumerate_extensions(
    device: vk::PhysicalDevice,
    layer: *const c_char,
    count: *mut u32,
    properties: *mut vk::ExtensionProperties,
) -> vk::Result {
    // SAFETY: `device` is a live physical device, `layer` NULL or a NUL-terminated string, `count` a valid pointer,
    // and `properties` NULL or an array of that many elements: the program's arguments of this command, valid until it
    // returns.
    let below = || unsafe {
        match instance::find(device).and_then(|i| i.table.enumerate_device_extension_properties) {
            Some(next) => next(device, layer, count, properties),
            None => vk::Result::ERROR_INITIALIZATION_FAILED,
        }
    };
    let enumerate = || {
        // SAFETY: the program's valid arguments; pLayerName is NULL or NULL-terminated.
        unsafe {
            let Some(instance) = instance::find(device).filter(|i| !i.inert) else { return below() };
            let of_this_layer = !layer.is_null() && CStr::from_ptr(layer).to_bytes() == LAYER_NAME.as_bytes();
            if !of_this_layer && !layer.is_null() {
                return below();
            }
            let known = instance.physical_device(device);
            if of_this_layer {
                return write_list(&offered(&known), &mut *count, properties);
            }
            let mut lacking = offered(&known);
            lacking.retain(|extension| !(known.native_identifiers && is_identifier(extension)));
            match &known.listed {
                // The loader reads the manifests of all implicit layers again for each call that reaches it.
                Some(listed) => write_lists(listed, &lacking, &mut *count, properties),
                None if lacking.is_empty() => below(),
                None => append(below, &lacking, count, properties),
            }
        }
    };
    guard("vkEnumerateDeviceExtensionProperties", enumerate, below)
}

/// What the layer offers on this device in its own right.
fn offered(known: &PhysicalDevice) -> SmallVec<[vk::ExtensionProperties; 2]> {
    use ash::ext::{pipeline_creation_cache_control as control, shader_module_identifier as identifier};
    let mut list = SmallVec::new();
    if known.emulates_cache_control {
        list.push(extension(control::NAME, control::SPEC_VERSION));
    }
    if known.emulates {
        list.push(extension(identifier::NAME, identifier::SPEC_VERSION));
    }
    list
}

fn is_identifier(extension: &vk::ExtensionProperties) -> bool {
    extension.extension_name_as_c_str() == Ok(ash::ext::shader_module_identifier::NAME)
}

fn extension(name: &CStr, spec_version: u32) -> vk::ExtensionProperties {
    let mut extension = vk::ExtensionProperties { spec_version, ..Default::default() };
    for (to, &from) in extension.extension_name.iter_mut().zip(name.to_bytes()) {
        *to = from as c_char;
    }
    extension
}

/// Two lists as one.
///
/// # Safety
/// As [`write_list`].
unsafe fn write_lists<T: Copy>(first: &[T], second: &[T], count: &mut u32, target: *mut T) -> vk::Result {
    if target.is_null() {
        *count = (first.len() + second.len()) as u32;
        return vk::Result::SUCCESS;
    }
    let room = *count;
    // SAFETY: `target` is valid for `room` elements (the caller's # Safety section); the second list is
    // written behind the first one, for the `room - *count` elements that are left.
    unsafe {
        let result = write_list(first, count, target);
        if result != vk::Result::SUCCESS {
            return result;
        }
        let mut behind = room - *count;
        let result = write_list(second, &mut behind, target.add(*count as usize));
        *count += behind;
        result
    }
}

/// The next layer's list and `more`: with as many calls down as without the layer. `count` stays a raw pointer,
/// because `below` writes through the same one.
///
/// # Safety
/// `count` is valid, `target` is NULL or valid for that many elements, and `below` fills both.
unsafe fn append(
    below: impl FnOnce() -> vk::Result,
    more: &[vk::ExtensionProperties],
    count: *mut u32,
    target: *mut vk::ExtensionProperties,
) -> vk::Result {
    // SAFETY: `count` is valid, and `target` is NULL or has room for `*count` elements (the caller's # Safety
    // section), so what is written behind the elements of `below` is within that room.
    unsafe {
        let room = *count;
        let result = below();
        if result != vk::Result::SUCCESS {
            return result;
        }
        let held = *count;
        if target.is_null() {
            *count = held + more.len() as u32;
            return result;
        }
        let mut written = room.saturating_sub(held);
        let result = write_list(more, &mut written, target.add(held as usize));
        *count = held + written;
        result
    }
}

/// The two-call idiom, answered from a list.
///
/// # Safety
/// `target` is NULL or valid for `count` elements.
unsafe fn write_list<T: Copy>(list: &[T], count: &mut u32, target: *mut T) -> vk::Result {
    let available = list.len() as u32;
    if target.is_null() {
        *count = available;
        return vk::Result::SUCCESS;
    }
    let written = available.min(*count);
    // SAFETY: `target` is valid for `count` elements, of which no more than `count` are written; `list` is the layer's.
    unsafe { std::ptr::copy_nonoverlapping(list.as_ptr(), target, written as usize) };
    *count = written;
    if written < available { vk::Result::INCOMPLETE } else { vk::Result::SUCCESS }
}

/// vkGetPhysicalDeviceFeatures2.
pub unsafe extern "system" fn get_features2(
    device: vk::PhysicalDevice,
    features: *mut vk::PhysicalDeviceFeatures2<'_>,
) {
    // SAFETY: the program passes a live physical device, and `features` points to a structure with a valid chain, which
    // is the program's until this command returns.
    unsafe { features2(device, features, |instance| instance.table.get_physical_device_features2) }
}

/// vkGetPhysicalDeviceFeatures2KHR.
pub unsafe extern "system" fn get_features2_khr(
    device: vk::PhysicalDevice,
    features: *mut vk::PhysicalDeviceFeatures2<'_>,
) {
    // SAFETY: the program passes a live physical device, and `features` points to a structure with a valid chain, which
    // is the program's until this command returns.
    unsafe { features2(device, features, |instance| instance.table.get_physical_device_features2_khr) }
}

/// # Safety
/// `device` is a live physical device, and `features` points to a valid VkPhysicalDeviceFeatures2.
unsafe fn features2(
    device: vk::PhysicalDevice,
    features: *mut vk::PhysicalDeviceFeatures2<'_>,
    command: fn(&Instance) -> Option<vk::PFN_vkGetPhysicalDeviceFeatures2>,
) {
    let get = || {
        // SAFETY: `features` is a valid VkPhysicalDeviceFeatures2 with a valid chain; each cast follows the
        // sType, and outputs are written whatever they held (contract 1.7).
        unsafe {
            let Some(instance) = instance::find(device) else { return };
            let Some(next) = command(&instance) else { return };
            next(device, features);
            if instance.inert {
                return;
            }
            let known = instance.physical_device(device);
            if !known.emulates {
                return;
            }
            for node in chain::walk((*features).p_next) {
                match (*node).s_type {
                    vk::StructureType::PHYSICAL_DEVICE_SHADER_MODULE_IDENTIFIER_FEATURES_EXT => {
                        let own = node.cast::<vk::PhysicalDeviceShaderModuleIdentifierFeaturesEXT<'_>>();
                        (*own.cast_mut()).shader_module_identifier = vk::TRUE;
                    }
                    // VkPhysicalDeviceVulkan13Features is no structure of a device that lacks the feature.
                    vk::StructureType::PHYSICAL_DEVICE_PIPELINE_CREATION_CACHE_CONTROL_FEATURES
                        if known.emulates_cache_control =>
                    {
                        let own = node.cast::<vk::PhysicalDevicePipelineCreationCacheControlFeatures<'_>>();
                        (*own.cast_mut()).pipeline_creation_cache_control = vk::TRUE;
                    }
                    _ => {}
                }
            }
        }
    };
    guard("vkGetPhysicalDeviceFeatures2", get, || ());
}

/// vkGetPhysicalDeviceProperties2.
pub unsafe extern "system" fn get_properties2(
    device: vk::PhysicalDevice,
    properties: *mut vk::PhysicalDeviceProperties2<'_>,
) {
    // SAFETY: the program passes a live physical device, and `properties` points to a structure with a valid chain,
    // which is the program's until this command returns.
    unsafe { properties2(device, properties, |instance| instance.table.get_physical_device_properties2) }
}

/// vkGetPhysicalDeviceProperties2KHR.
pub unsafe extern "system" fn get_properties2_khr(
    device: vk::PhysicalDevice,
    properties: *mut vk::PhysicalDeviceProperties2<'_>,
) {
    // SAFETY: the program passes a live physical device, and `properties` points to a structure with a valid chain,
    // which is the program's until this command returns.
    unsafe { properties2(device, properties, |instance| instance.table.get_physical_device_properties2_khr) }
}

/// # Safety
/// `device` is a live physical device, and `properties` points to a valid VkPhysicalDeviceProperties2.
unsafe fn properties2(
    device: vk::PhysicalDevice,
    properties: *mut vk::PhysicalDeviceProperties2<'_>,
    command: fn(&Instance) -> Option<vk::PFN_vkGetPhysicalDeviceProperties2>,
) {
    let get = || {
        // SAFETY: as in `features2`.
        unsafe {
            let Some(instance) = instance::find(device) else { return };
            let Some(next) = command(&instance) else { return };
            next(device, properties);
            if instance.inert || !instance.physical_device(device).emulates {
                return;
            }
            for node in chain::walk((*properties).p_next) {
                if (*node).s_type
                    == vk::StructureType::PHYSICAL_DEVICE_SHADER_MODULE_IDENTIFIER_PROPERTIES_EXT
                {
                    let own = node.cast::<vk::PhysicalDeviceShaderModuleIdentifierPropertiesEXT<'_>>();
                    (*own.cast_mut()).shader_module_identifier_algorithm_uuid = ALGORITHM_UUID;
                }
            }
        }
    };
    guard("vkGetPhysicalDeviceProperties2", get, || ());
}
