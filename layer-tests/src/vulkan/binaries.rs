//! VK_KHR_pipeline_binary for tests. ash 0.38 does not know it: structures and numbers are declared here.

use std::ffi::{CStr, c_void};
use std::ptr;

use ash::vk::{self, Handle as _};

use super::Device;

/// The extension.
pub const NAME: &CStr = c"VK_KHR_pipeline_binary";
/// VK_PIPELINE_CREATE_2_CAPTURE_DATA_BIT_KHR.
pub const CAPTURE_DATA: u64 = 1 << 31;
/// VK_ERROR_NOT_ENOUGH_SPACE_KHR.
pub const NOT_ENOUGH_SPACE: vk::Result = vk::Result::from_raw(-1_000_483_000);

const fn s_type(number: i32) -> vk::StructureType {
    vk::StructureType::from_raw(1_000_483_000 + number)
}

/// VkPhysicalDevicePipelineBinaryFeaturesKHR.
#[repr(C)]
pub struct Features {
    s_type: vk::StructureType,
    p_next: *const c_void,
    on: vk::Bool32,
}

impl Features {
    /// The feature switched on, in front of another chain.
    pub fn on(p_next: *const c_void) -> Features {
        Features { s_type: s_type(0), p_next, on: vk::TRUE }
    }
}

/// VkPipelineBinaryInfoKHR.
#[repr(C)]
pub struct Info {
    s_type: vk::StructureType,
    p_next: *const c_void,
    count: u32,
    binaries: *const u64,
}

impl Info {
    /// `binaries` must outlive it.
    pub fn new(binaries: &[u64]) -> Info {
        Info {
            s_type: s_type(2),
            p_next: ptr::null(),
            count: binaries.len() as u32,
            binaries: binaries.as_ptr(),
        }
    }
}

#[repr(C)]
struct Key {
    s_type: vk::StructureType,
    p_next: *mut c_void,
    size: u32,
    key: [u8; 32],
}

#[repr(C)]
struct Data {
    size: usize,
    data: *const u8,
}

#[repr(C)]
struct KeysAndData {
    count: u32,
    keys: *const Key,
    data: *const Data,
}

#[repr(C)]
struct CreateInfo {
    s_type: vk::StructureType,
    p_next: *const c_void,
    data: *const KeysAndData,
    pipeline: u64,
    info: *const c_void,
}

#[repr(C)]
struct Handles {
    s_type: vk::StructureType,
    p_next: *const c_void,
    count: u32,
    binaries: *mut u64,
}

#[repr(C)]
struct Named {
    s_type: vk::StructureType,
    p_next: *const c_void,
    handle: u64,
}

type Create =
    unsafe extern "system" fn(vk::Device, *const CreateInfo, *const c_void, *mut Handles) -> vk::Result;
type GetData =
    unsafe extern "system" fn(vk::Device, *const Named, *mut Key, *mut usize, *mut u8) -> vk::Result;
type Release = unsafe extern "system" fn(vk::Device, *const Named, *const c_void) -> vk::Result;
type Destroy = unsafe extern "system" fn(vk::Device, u64, *const c_void);

/// # Safety
/// `F` is the type of the command of this name.
unsafe fn command<F: Copy>(device: &Device, name: &CStr) -> F {
    // SAFETY: a live device; function pointers have one representation, the caller vouches for the type.
    unsafe {
        let get = device.instance.raw.fp_v1_0().get_device_proc_addr;
        let found = get(device.raw.handle(), name.as_ptr()).expect("the command");
        std::mem::transmute_copy(&found)
    }
}

/// Binaries of a pipeline that was made with [`CAPTURE_DATA`].
pub fn captured(device: &Device, pipeline: vk::Pipeline) -> Result<Vec<u64>, vk::Result> {
    create(device, ptr::null(), pipeline.as_raw())
}

/// Binaries from a key and data.
pub fn stored(device: &Device, key: &[u8], data: &[u8]) -> Result<Vec<u64>, vk::Result> {
    let mut own = Key { s_type: s_type(3), p_next: ptr::null_mut(), size: key.len() as u32, key: [0; 32] };
    own.key[..key.len()].copy_from_slice(key);
    let data = Data { size: data.len(), data: data.as_ptr() };
    create(device, &KeysAndData { count: 1, keys: &own, data: &data }, 0)
}

fn create(device: &Device, data: *const KeysAndData, pipeline: u64) -> Result<Vec<u64>, vk::Result> {
    let info = CreateInfo { s_type: s_type(1), p_next: ptr::null(), data, pipeline, info: ptr::null() };
    let mut list = Handles { s_type: s_type(9), p_next: ptr::null(), count: 0, binaries: ptr::null_mut() };
    // SAFETY: the command's own type and valid structures; first the number, then the handles.
    unsafe {
        let create: Create = command(device, c"vkCreatePipelineBinariesKHR");
        create(device.raw.handle(), &info, ptr::null(), &mut list).result()?;
        let mut handles = vec![0; list.count as usize];
        list.binaries = handles.as_mut_ptr();
        create(device.raw.handle(), &info, ptr::null(), &mut list).result()?;
        Ok(handles)
    }
}

/// vkGetPipelineBinaryDataKHR with this much room: the result, key, data, and the size it tells.
pub fn data(device: &Device, binary: u64, room: Option<usize>) -> (vk::Result, Vec<u8>, Vec<u8>, usize) {
    let info = Named { s_type: s_type(6), p_next: ptr::null(), handle: binary };
    let mut key = Key { s_type: s_type(3), p_next: ptr::null_mut(), size: 0, key: [0; 32] };
    let mut data = vec![0; room.unwrap_or(0)];
    let mut size = data.len();
    let out = if room.is_some() { data.as_mut_ptr() } else { ptr::null_mut() };
    // SAFETY: the command's own type, valid structures, and as much room as the size says.
    let result = unsafe {
        let get: GetData = command(device, c"vkGetPipelineBinaryDataKHR");
        get(device.raw.handle(), &info, &mut key, &mut size, out)
    };
    (result, key.key[..key.size as usize].to_vec(), data, size)
}

/// vkReleaseCapturedPipelineDataKHR.
pub fn release(device: &Device, pipeline: vk::Pipeline) -> vk::Result {
    let info = Named { s_type: s_type(5), p_next: ptr::null(), handle: pipeline.as_raw() };
    // SAFETY: the command's own type and a valid structure.
    unsafe {
        let release: Release = command(device, c"vkReleaseCapturedPipelineDataKHR");
        release(device.raw.handle(), &info, ptr::null())
    }
}

/// vkDestroyPipelineBinaryKHR.
pub fn destroy(device: &Device, binary: u64) {
    // SAFETY: the command's own type; the caller's binary, destroyed once.
    unsafe {
        let destroy: Destroy = command(device, c"vkDestroyPipelineBinaryKHR");
        destroy(device.raw.handle(), binary, ptr::null());
    }
}
