//! The features that real shaders use, enabled if the device has them.

use std::ffi::c_void;
use std::ptr;

use ash::vk::{self, ExtendsDeviceCreateInfo, TaggedStructure};

/// VkPhysicalDeviceDescriptorHeapFeaturesEXT with descriptorHeap, newer than the bindings.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DescriptorHeapFeatures {
    s_type: vk::StructureType,
    p_next: *mut c_void,
    descriptor_heap: vk::Bool32,
    descriptor_heap_capture_replay: vk::Bool32,
}

impl Default for DescriptorHeapFeatures {
    fn default() -> DescriptorHeapFeatures {
        DescriptorHeapFeatures {
            s_type: Self::STRUCTURE_TYPE,
            p_next: ptr::null_mut(),
            descriptor_heap: vk::TRUE,
            descriptor_heap_capture_replay: vk::FALSE,
        }
    }
}

// SAFETY: the structure starts with sType and pNext, and the registry gives it this value.
unsafe impl TaggedStructure for DescriptorHeapFeatures {
    const STRUCTURE_TYPE: vk::StructureType = vk::StructureType::from_raw(1_000_135_009);
}

// SAFETY: the registry says that it extends VkDeviceCreateInfo.
unsafe impl ExtendsDeviceCreateInfo for DescriptorHeapFeatures {}

/// The features of Vulkan 1.0 that corpus shaders need, as far as the device has them.
pub fn core(have: &vk::PhysicalDeviceFeatures) -> vk::PhysicalDeviceFeatures {
    vk::PhysicalDeviceFeatures::default()
        .shader_int16(have.shader_int16 != 0)
        .shader_int64(have.shader_int64 != 0)
        .shader_float64(have.shader_float64 != 0)
}

/// The features of Vulkan 1.1 that corpus shaders need, as far as the device has them.
pub fn eleven(have: &vk::PhysicalDeviceVulkan11Features<'_>) -> vk::PhysicalDeviceVulkan11Features<'static> {
    vk::PhysicalDeviceVulkan11Features::default()
        .storage_buffer16_bit_access(have.storage_buffer16_bit_access != 0)
        .uniform_and_storage_buffer16_bit_access(have.uniform_and_storage_buffer16_bit_access != 0)
        .variable_pointers_storage_buffer(have.variable_pointers_storage_buffer != 0)
        .variable_pointers(have.variable_pointers != 0)
}

/// The features of Vulkan 1.2 that corpus shaders need, as far as the device has them.
pub fn twelve(have: &vk::PhysicalDeviceVulkan12Features<'_>) -> vk::PhysicalDeviceVulkan12Features<'static> {
    vk::PhysicalDeviceVulkan12Features::default()
        .storage_buffer8_bit_access(have.storage_buffer8_bit_access != 0)
        .uniform_and_storage_buffer8_bit_access(have.uniform_and_storage_buffer8_bit_access != 0)
        .shader_float16(have.shader_float16 != 0)
        .shader_int8(have.shader_int8 != 0)
        .buffer_device_address(have.buffer_device_address != 0)
        .vulkan_memory_model(have.vulkan_memory_model != 0)
        .vulkan_memory_model_device_scope(have.vulkan_memory_model_device_scope != 0)
}

/// The features of Vulkan 1.3 that corpus shaders need, as far as the device has them.
pub fn thirteen(
    have: &vk::PhysicalDeviceVulkan13Features<'_>,
) -> vk::PhysicalDeviceVulkan13Features<'static> {
    vk::PhysicalDeviceVulkan13Features::default()
        .subgroup_size_control(have.subgroup_size_control != 0)
        .compute_full_subgroups(have.compute_full_subgroups != 0)
        .shader_integer_dot_product(have.shader_integer_dot_product != 0)
        .maintenance4(have.maintenance4 != 0)
}
