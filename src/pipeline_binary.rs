//! VK_KHR_pipeline_binary, which is newer than the bindings: declared by hand from the registry.

use std::ffi::{CStr, c_void};

use ash::vk;

pub use vkstash_model::newer::PipelineBinaryInfoKHR;

/// The extension.
pub const NAME: &CStr = c"VK_KHR_pipeline_binary";

/// VK_PIPELINE_CREATE_2_CAPTURE_DATA_BIT_KHR: only VkPipelineCreateFlags2 has room for it.
pub const CAPTURE_DATA: u64 = 1 << 31;

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

/// VkPhysicalDevicePipelineBinaryFeaturesKHR.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Features {
    /// [`FEATURES`].
    pub s_type: vk::StructureType,
    /// The chain.
    pub p_next: *mut c_void,
    /// pipelineBinaries.
    pub pipeline_binaries: vk::Bool32,
}

impl Default for Features {
    fn default() -> Self {
        Features { s_type: FEATURES, p_next: std::ptr::null_mut(), pipeline_binaries: vk::FALSE }
    }
}

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

impl Default for Key {
    fn default() -> Self {
        Key { s_type: s_type(3), p_next: std::ptr::null_mut(), size: 0, bytes: [0; 32] }
    }
}

impl Key {
    /// A key of 1 to 32 bytes; None for another size.
    pub fn new(bytes: &[u8]) -> Option<Key> {
        let mut key = Key { size: bytes.len() as u32, ..Key::default() };
        key.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        (key.size > 0).then_some(key)
    }

    /// The bytes that count; empty where the driver wrote no valid size.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.size as usize).unwrap_or_default()
    }
}

/// VkPipelineBinaryDataKHR.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Data {
    /// dataSize, in bytes.
    pub size: usize,
    /// The driver only reads it.
    pub data: *mut c_void,
}

/// VkPipelineBinaryKeysAndDataKHR.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KeysAndData {
    /// binaryCount.
    pub count: u32,
    /// The keys.
    pub keys: *const Key,
    /// The data.
    pub data: *const Data,
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
    pub keys_and_data: *const KeysAndData,
    /// From a pipeline that was created with [`CAPTURE_DATA`].
    pub pipeline: vk::Pipeline,
    /// From the driver's internal cache.
    pub pipeline_create_info: *const PipelineCreateInfo,
}

impl Default for CreateInfo {
    fn default() -> Self {
        CreateInfo {
            s_type: s_type(1),
            p_next: std::ptr::null(),
            keys_and_data: std::ptr::null(),
            pipeline: vk::Pipeline::null(),
            pipeline_create_info: std::ptr::null(),
        }
    }
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

impl Default for Handles {
    fn default() -> Self {
        Handles { s_type: s_type(9), p_next: std::ptr::null(), count: 0, binaries: std::ptr::null_mut() }
    }
}

/// VkPipelineBinaryDataInfoKHR.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DataInfo {
    s_type: vk::StructureType,
    p_next: *mut c_void,
    binary: PipelineBinary,
}

impl DataInfo {
    /// Asks for the data of one binary.
    pub fn new(binary: PipelineBinary) -> DataInfo {
        DataInfo { s_type: s_type(6), p_next: std::ptr::null_mut(), binary }
    }
}

/// VkReleaseCapturedPipelineDataInfoKHR.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ReleaseInfo {
    s_type: vk::StructureType,
    p_next: *mut c_void,
    pipeline: vk::Pipeline,
}

impl ReleaseInfo {
    /// Releases the captured data of one pipeline.
    pub fn new(pipeline: vk::Pipeline) -> ReleaseInfo {
        ReleaseInfo { s_type: s_type(5), p_next: std::ptr::null_mut(), pipeline }
    }
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
/// vkDestroyPipelineBinaryKHR.
pub type PfnDestroy =
    unsafe extern "system" fn(vk::Device, PipelineBinary, *const vk::AllocationCallbacks<'_>);
/// vkGetPipelineKeyKHR.
pub type PfnGetKey = unsafe extern "system" fn(vk::Device, *const PipelineCreateInfo, *mut Key) -> vk::Result;
/// vkGetPipelineBinaryDataKHR.
pub type PfnGetData =
    unsafe extern "system" fn(vk::Device, *const DataInfo, *mut Key, *mut usize, *mut c_void) -> vk::Result;
/// vkReleaseCapturedPipelineDataKHR.
pub type PfnRelease = unsafe extern "system" fn(
    vk::Device,
    *const ReleaseInfo,
    *const vk::AllocationCallbacks<'_>,
) -> vk::Result;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_1_to_32_bytes() {
        assert!(Key::new(&[]).is_none() && Key::new(&[0; 33]).is_none());
        assert_eq!(Key::new(&[7; 32]).map(|key| key.as_bytes().len()), Some(32));
        let wrong = Key { size: 33, ..Key::default() };
        assert!(wrong.as_bytes().is_empty());
    }
}
