//! The properties of physical devices.

use std::ffi::{CString, c_char, c_void};

use ash::vk::{self, TaggedStructure};

use crate::command::{command, void};
use crate::config::{self, Config};
use crate::lists::{extension, list};
use crate::record::plain;
use crate::{binary_info, chain, features, handles, hash};

fn properties(config: &Config, index: u32) -> vk::PhysicalDeviceProperties {
    let mut properties = vk::PhysicalDeviceProperties {
        api_version: config.api(),
        driver_version: config.driver_version,
        vendor_id: config.vendor_id,
        device_id: config.device_id.wrapping_add(index),
        device_type: vk::PhysicalDeviceType::VIRTUAL_GPU,
        pipeline_cache_uuid: config.uuid(),
        ..Default::default()
    };
    for (place, byte) in properties.device_name.iter_mut().zip(config.device_name.bytes().take(255)) {
        *place = byte as c_char;
    }
    let limits = &mut properties.limits;
    limits.max_image_dimension2_d = 16384;
    limits.max_bound_descriptor_sets = 32;
    limits.max_push_constants_size = 256;
    limits.max_sampler_allocation_count = 4000;
    limits.max_viewports = 16;
    limits.max_color_attachments = 8;
    limits.max_compute_work_group_size = [1024, 1024, 64];
    limits.max_compute_work_group_invocations = 1024;
    limits.max_vertex_input_attributes = 32;
    limits.max_vertex_input_bindings = 32;
    limits.min_memory_map_alignment = 64;
    limits.non_coherent_atom_size = 64;
    properties
}

/// vkGetPhysicalDeviceProperties.
pub unsafe extern "system" fn get_properties(
    device: vk::PhysicalDevice,
    out: *mut vk::PhysicalDeviceProperties,
) {
    void(plain("vkGetPhysicalDeviceProperties"), |call| {
        let index = handles::physical(call.command, device);
        // SAFETY: the program passes a pProperties that can be written.
        unsafe { out.write(properties(&config::current(), index)) };
    });
}

/// The UUID of the identifier algorithm: never zero (contract 2.3), and different for each size.
fn algorithm(config: &Config) -> [u8; 16] {
    let mut uuid = *b"vkstash-test-id\0";
    uuid[15] = config.identifier_bytes() as u8;
    uuid
}

/// vkGetPhysicalDeviceProperties2.
pub unsafe extern "system" fn get_properties2(
    device: vk::PhysicalDevice,
    out: *mut vk::PhysicalDeviceProperties2<'_>,
) {
    let mut call = plain("vkGetPhysicalDeviceProperties2");
    // SAFETY: the program passes a pProperties with a valid chain that can be written; casts follow sTypes.
    unsafe {
        call.p_next = chain::types(call.command, (*out).p_next);
        void(call, |call| {
            let index = handles::physical(call.command, device);
            let config = config::current();
            (*out).properties = properties(&config, index);
            for node in chain::walk((*out).p_next) {
                chained_properties(&config, node, index);
            }
        });
    }
}

/// # Safety
/// `node` is a valid structure of its sType.
unsafe fn chained_properties(config: &Config, node: *mut vk::BaseOutStructure<'_>, index: u32) {
    let identity = hash::digest("device", &[config.uuid(), algorithm(config)].concat());
    let device_uuid: [u8; 16] = std::array::from_fn(|i| identity[i] ^ index as u8);
    // SAFETY: the caller passes a structure that is valid as its sType says, and each cast follows the sType.
    unsafe {
        match (*node).s_type {
            vk::PhysicalDeviceDriverProperties::STRUCTURE_TYPE => {
                let driver = &mut *node.cast::<vk::PhysicalDeviceDriverProperties<'_>>();
                driver.driver_id = vk::DriverId::from_raw(config.driver_id as i32);
                driver.driver_name[..2].copy_from_slice(&[b't' as c_char, 0]);
                driver.driver_info[..2].copy_from_slice(&[b't' as c_char, 0]);
                driver.conformance_version =
                    vk::ConformanceVersion { major: 1, minor: 3, ..Default::default() };
            }
            vk::PhysicalDeviceVulkan11Properties::STRUCTURE_TYPE => {
                let properties = &mut *node.cast::<vk::PhysicalDeviceVulkan11Properties<'_>>();
                properties.device_uuid = device_uuid;
                properties.driver_uuid = config.uuid();
                properties.subgroup_size = 32;
            }
            vk::PhysicalDeviceVulkan12Properties::STRUCTURE_TYPE => {
                let properties = &mut *node.cast::<vk::PhysicalDeviceVulkan12Properties<'_>>();
                properties.driver_id = vk::DriverId::from_raw(config.driver_id as i32);
                properties.driver_name[..2].copy_from_slice(&[b't' as c_char, 0]);
                properties.driver_info[..2].copy_from_slice(&[b't' as c_char, 0]);
            }
            vk::PhysicalDeviceIDProperties::STRUCTURE_TYPE => {
                let properties = &mut *node.cast::<vk::PhysicalDeviceIDProperties<'_>>();
                properties.device_uuid = device_uuid;
                properties.driver_uuid = config.uuid();
                properties.device_luid_valid = vk::FALSE;
            }
            vk::PhysicalDeviceShaderModuleIdentifierPropertiesEXT::STRUCTURE_TYPE if config.identifiers => {
                let properties =
                    &mut *node.cast::<vk::PhysicalDeviceShaderModuleIdentifierPropertiesEXT<'_>>();
                properties.shader_module_identifier_algorithm_uuid = algorithm(config);
            }
            vk::PhysicalDeviceShaderObjectPropertiesEXT::STRUCTURE_TYPE if config.shader_object => {
                let properties = &mut *node.cast::<vk::PhysicalDeviceShaderObjectPropertiesEXT<'_>>();
                properties.shader_binary_uuid = config.shader_uuid();
                properties.shader_binary_version = config.shader_binary_version;
            }
            other if other == binary_info::PROPERTIES && config.pipeline_binary => {
                binary_info::properties(config, node);
            }
            _ => {}
        }
    }
}

/// vkGetPhysicalDeviceFeatures.
pub unsafe extern "system" fn get_features(device: vk::PhysicalDevice, out: *mut vk::PhysicalDeviceFeatures) {
    void(plain("vkGetPhysicalDeviceFeatures"), |call| {
        handles::physical(call.command, device);
        // SAFETY: the program passes a pFeatures that can be written.
        unsafe { all_features(out) };
    });
}

/// # Safety
/// `out` points to a structure that can be written.
unsafe fn all_features(out: *mut vk::PhysicalDeviceFeatures) {
    let count = size_of::<vk::PhysicalDeviceFeatures>() / size_of::<vk::Bool32>();
    // SAFETY: the structure is made of VkBool32 alone.
    unsafe { std::slice::from_raw_parts_mut(out.cast::<vk::Bool32>(), count).fill(vk::TRUE) };
}

/// vkGetPhysicalDeviceFeatures2.
pub unsafe extern "system" fn get_features2(
    device: vk::PhysicalDevice,
    out: *mut vk::PhysicalDeviceFeatures2<'_>,
) {
    let mut call = plain("vkGetPhysicalDeviceFeatures2");
    // SAFETY: the program passes a pFeatures with a valid chain that can be written; the table knows how many members
    // follow.
    unsafe {
        call.p_next = chain::types(call.command, (*out).p_next);
        void(call, |call| {
            handles::physical(call.command, device);
            let config = config::current();
            all_features(&raw mut (*out).features);
            for node in chain::walk((*out).p_next) {
                if features::is_unknown_to(&config, (*node).s_type) {
                    continue;
                }
                let Some(truths) = features::supported(&config, (*node).s_type) else { continue };
                for (member, truth) in features::members(node, truths.len()).iter_mut().zip(truths) {
                    *member = truth.into();
                }
            }
        });
    }
}

/// vkEnumerateDeviceExtensionProperties.
pub unsafe extern "system" fn enumerate_extensions(
    device: vk::PhysicalDevice,
    layer: *const c_char,
    count: *mut u32,
    out: *mut vk::ExtensionProperties,
) -> vk::Result {
    command(plain("vkEnumerateDeviceExtensionProperties"), |call| {
        handles::physical(call.command, device);
        if !layer.is_null() {
            return vk::Result::ERROR_LAYER_NOT_PRESENT;
        }
        let items: Vec<_> = features::extensions(&config::current())
            .into_iter()
            .filter_map(|name| CString::new(name).ok())
            .map(|name| extension(&name))
            .collect();
        // SAFETY: the program passes a valid pPropertyCount, and a pProperties that is NULL or has as many elements.
        unsafe { list(&items, count, out) }
    })
}

const QUEUES: vk::QueueFamilyProperties = vk::QueueFamilyProperties {
    queue_flags: vk::QueueFlags::from_raw(7),
    queue_count: 4,
    timestamp_valid_bits: 64,
    min_image_transfer_granularity: vk::Extent3D { width: 1, height: 1, depth: 1 },
};

/// vkGetPhysicalDeviceQueueFamilyProperties.
pub unsafe extern "system" fn get_queue_families(
    _: vk::PhysicalDevice,
    count: *mut u32,
    out: *mut vk::QueueFamilyProperties,
) {
    // SAFETY: the program passes a valid count, and an output that is NULL or has as many elements.
    let _ = unsafe { list(&[QUEUES], count, out) };
}

/// vkGetPhysicalDeviceQueueFamilyProperties2.
pub unsafe extern "system" fn get_queue_families2(
    _: vk::PhysicalDevice,
    count: *mut u32,
    out: *mut vk::QueueFamilyProperties2<'_>,
) {
    // SAFETY: the program passes a valid count, and an output that is NULL or has as many elements, whose sType and
    // pNext stay.
    unsafe {
        if out.is_null() {
            *count = 1;
        } else if *count > 0 {
            (*out).queue_family_properties = QUEUES;
            *count = 1;
        }
    }
}

fn memory() -> vk::PhysicalDeviceMemoryProperties {
    let mut memory = vk::PhysicalDeviceMemoryProperties {
        memory_type_count: 1,
        memory_heap_count: 1,
        ..Default::default()
    };
    memory.memory_types[0].property_flags = vk::MemoryPropertyFlags::DEVICE_LOCAL
        | vk::MemoryPropertyFlags::HOST_VISIBLE
        | vk::MemoryPropertyFlags::HOST_COHERENT;
    memory.memory_heaps[0] = vk::MemoryHeap { size: 1 << 32, flags: vk::MemoryHeapFlags::DEVICE_LOCAL };
    memory
}

/// vkGetPhysicalDeviceMemoryProperties.
pub unsafe extern "system" fn get_memory(
    _: vk::PhysicalDevice,
    out: *mut vk::PhysicalDeviceMemoryProperties,
) {
    // SAFETY: the program passes a pMemoryProperties that can be written.
    unsafe { out.write(memory()) };
}

/// vkGetPhysicalDeviceMemoryProperties2.
pub unsafe extern "system" fn get_memory2(
    _: vk::PhysicalDevice,
    out: *mut vk::PhysicalDeviceMemoryProperties2<'_>,
) {
    // SAFETY: the program passes a pMemoryProperties that can be written.
    unsafe { (*out).memory_properties = memory() };
}

/// vkGetPhysicalDeviceFormatProperties: no format has any feature.
pub unsafe extern "system" fn get_format(
    _: vk::PhysicalDevice,
    _: vk::Format,
    out: *mut vk::FormatProperties,
) {
    // SAFETY: the program passes a pFormatProperties that can be written.
    unsafe { out.write(vk::FormatProperties::default()) };
}

/// vkGetPhysicalDeviceFormatProperties2: no format has any feature.
pub unsafe extern "system" fn get_format2(
    _: vk::PhysicalDevice,
    _: vk::Format,
    out: *mut vk::FormatProperties2<'_>,
) {
    // SAFETY: the program passes a pFormatProperties that can be written.
    unsafe { (*out).format_properties = vk::FormatProperties::default() };
}

/// vkGetPhysicalDeviceImageFormatProperties and its second version: no image is supported, and the outputs stay
/// unchanged.
pub unsafe extern "system" fn get_image_format() -> vk::Result {
    vk::Result::ERROR_FORMAT_NOT_SUPPORTED
}

/// vkGetPhysicalDeviceSparseImageFormatProperties and its second version.
pub unsafe extern "system" fn get_sparse_format(
    _: vk::PhysicalDevice,
    _: vk::Format,
    _: vk::ImageType,
    _: vk::SampleCountFlags,
    _: vk::ImageUsageFlags,
    _: vk::ImageTiling,
    count: *mut u32,
    _: *mut c_void,
) {
    // SAFETY: the program passes a pPropertyCount that can be written.
    unsafe { count.write(0) };
}

/// vkGetPhysicalDeviceSparseImageFormatProperties2.
pub unsafe extern "system" fn get_sparse_format2(
    _: vk::PhysicalDevice,
    _: *const c_void,
    count: *mut u32,
    _: *mut c_void,
) {
    // SAFETY: the program passes a pPropertyCount that can be written.
    unsafe { count.write(0) };
}
