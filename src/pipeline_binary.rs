//! VK_KHR_pipeline_binary, which is newer than the bindings: declared by hand from the registry.

use std::ffi::{CStr, c_void};

use ash::vk;

/// The extension.
pub const NAME: &CStr = c"VK_KHR_pipeline_binary";

/// VkPipelineBinaryKHR.
pub type PipelineBinary = u64;

const fn s_type(offset: i32) -> vk::StructureType {
    vk::StructureType::from_raw(1_000_483_000 + offset)
}

/// sType of VkPhysicalDevicePipelineBinaryFeaturesKHR.
pub const FEATURES: vk::StructureType = s_type(0);
/// sType of VkPhysicalDevicePipelineBinaryPropertiesKHR.
pub const PROPERTIES: vk::StructureType = s_type(4);
/// sType of VkDevicePipelineBinaryInternalCacheControlKHR.
pub const INTERNAL_CACHE_CONTROL: vk::StructureType = s_type(8);
/// sType of VkPipelineCreateInfoKHR.
pub const PIPELINE_CREATE_INFO: vk::StructureType = vk::StructureType::from_raw(1_000_483_007);

/// VkPhysicalDevicePipelineBinaryPropertiesKHR.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Properties {
    s_type: vk::StructureType,
    /// The chain.
    pub p_next: *mut c_void,
    /// pipelineBinaryInternalCache.
    pub internal_cache: vk::Bool32,
    /// pipelineBinaryInternalCacheControl.
    pub internal_cache_control: vk::Bool32,
    /// pipelineBinaryPrefersInternalCache, pipelineBinaryPrecompiledInternalCache, pipelineBinaryCompressedData.
    rest: [vk::Bool32; 3],
}

impl Default for Properties {
    fn default() -> Self {
        let p_next = std::ptr::null_mut();
        Properties {
            s_type: PROPERTIES,
            p_next,
            internal_cache: vk::FALSE,
            internal_cache_control: vk::FALSE,
            rest: [vk::FALSE; 3],
        }
    }
}

/// VkDevicePipelineBinaryInternalCacheControlKHR.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct InternalCacheControl {
    s_type: vk::StructureType,
    /// The chain.
    pub p_next: *const c_void,
    /// disableInternalCache.
    pub disable_internal_cache: vk::Bool32,
}

impl InternalCacheControl {
    /// The driver does without its own cache.
    pub fn disabled(p_next: *const c_void) -> InternalCacheControl {
        InternalCacheControl { s_type: INTERNAL_CACHE_CONTROL, p_next, disable_internal_cache: vk::TRUE }
    }
}

/// VkPipelineBinaryKeyKHR.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Key {
    s_type: vk::StructureType,
    p_next: *mut c_void,
    size: u32,
    bytes: [u8; 32],
}

/// VkPipelineCreateInfoKHR: its chain starts with the create info of some kind of pipeline.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PipelineCreateInfo {
    /// [`PIPELINE_CREATE_INFO`].
    pub s_type: vk::StructureType,
    /// The pipeline's create info.
    pub p_next: *mut c_void,
}

/// VkPipelineBinaryCreateInfoKHR: exactly one of its members is set (09619).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CreateInfo {
    /// VK_STRUCTURE_TYPE_PIPELINE_BINARY_CREATE_INFO_KHR.
    pub s_type: vk::StructureType,
    /// The chain.
    pub p_next: *const c_void,
    /// pKeysAndDataInfo: the binaries are made of this data.
    pub keys_and_data: *const c_void,
    /// From a pipeline that was created with VK_PIPELINE_CREATE_2_CAPTURE_DATA_BIT_KHR.
    pub pipeline: vk::Pipeline,
    /// From the driver's internal cache.
    pub pipeline_create_info: *const PipelineCreateInfo,
}

/// VkPipelineBinaryHandlesInfoKHR.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Handles {
    s_type: vk::StructureType,
    p_next: *const c_void,
    /// Room, and how many there are.
    pub count: u32,
    /// NULL asks for the count.
    pub binaries: *mut PipelineBinary,
}

/// VK_PIPELINE_BINARY_MISSING_KHR.
pub const MISSING: vk::Result = vk::Result::from_raw(1_000_483_000);

/// vkCreatePipelineBinariesKHR.
pub type PfnCreate = unsafe extern "system" fn(
    vk::Device,
    *const CreateInfo,
    *const vk::AllocationCallbacks<'_>,
    *mut Handles,
) -> vk::Result;
/// vkGetPipelineKeyKHR.
pub type PfnGetKey = unsafe extern "system" fn(vk::Device, *const PipelineCreateInfo, *mut Key) -> vk::Result;
