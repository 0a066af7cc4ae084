//! VK_KHR_pipeline_binary for tests, declared here because ash 0.38 lacks it.

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

/// sType of [`Features`].
pub const FEATURES: vk::StructureType = s_type(0);

/// VkDevicePipelineBinaryInternalCacheControlKHR.
#[repr(C)]
pub struct InternalCacheControl {
    s_type: vk::StructureType,
    /// The chain.
    pub p_next: *const c_void,
    disable: vk::Bool32,
}

impl InternalCacheControl {
    /// disableInternalCache.
    pub fn disabled() -> InternalCacheControl {
        InternalCacheControl::new(true)
    }

    /// The structure with this value of disableInternalCache.
    pub fn new(disable: bool) -> InternalCacheControl {
        InternalCacheControl { s_type: s_type(8), p_next: ptr::null(), disable: disable.into() }
    }
}

/// VkPhysicalDevicePipelineBinaryPropertiesKHR.
#[repr(C)]
pub struct Properties {
    s_type: vk::StructureType,
    p_next: *mut c_void,
    /// pipelineBinaryInternalCache.
    pub internal_cache: vk::Bool32,
    /// pipelineBinaryInternalCacheControl.
    pub internal_cache_control: vk::Bool32,
    rest: [vk::Bool32; 3],
}

impl Properties {
    /// The properties of a physical device.
    pub fn of(device: &Device) -> Properties {
        let mut own = Properties {
            s_type: s_type(4),
            p_next: ptr::null_mut(),
            internal_cache: 0,
            internal_cache_control: 0,
            rest: [0; 3],
        };
        let mut all =
            vk::PhysicalDeviceProperties2 { p_next: ptr::from_mut(&mut own).cast(), ..Default::default() };
        // SAFETY: a live physical device and a valid chain.
        unsafe { device.instance.raw.get_physical_device_properties2(device.physical, &mut all) };
        own
    }
}

/// VkPhysicalDevicePipelineBinaryFeaturesKHR.
#[repr(C)]
pub struct Features {
    s_type: vk::StructureType,
    p_next: *const c_void,
    on: vk::Bool32,
}

impl Features {
    /// The feature, enabled, in front of another chain.
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
    /// `binaries` must outlive the structure.
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

/// VkPipelineCreateInfoKHR.
#[repr(C)]
struct Wrapped {
    s_type: vk::StructureType,
    p_next: *const c_void,
}

type GetKey = unsafe extern "system" fn(vk::Device, *const Wrapped, *mut Key) -> vk::Result;
type Create =
    unsafe extern "system" fn(vk::Device, *const CreateInfo, *const c_void, *mut Handles) -> vk::Result;
type GetData =
    unsafe extern "system" fn(vk::Device, *const Named, *mut Key, *mut usize, *mut u8) -> vk::Result;
type Release = unsafe extern "system" fn(vk::Device, *const Named, *const c_void) -> vk::Result;
type Destroy = unsafe extern "system" fn(vk::Device, u64, *const c_void);

/// # Safety
/// `F` is the type of the command of this name.
unsafe fn command<F: Copy>(device: &Device, name: &CStr) -> F {
    // SAFETY: a live device; function pointers have one representation, and the caller guarantees the type.
    unsafe {
        let get = device.instance.raw.fp_v1_0().get_device_proc_addr;
        let found = get(device.raw.handle(), name.as_ptr()).expect("the command");
        std::mem::transmute_copy(&found)
    }
}

/// The binaries of a pipeline that was created with [`CAPTURE_DATA`].
pub fn captured(device: &Device, pipeline: vk::Pipeline) -> Result<Vec<u64>, vk::Result> {
    create(device, ptr::null(), pipeline.as_raw())
}

/// Binaries created from a key and data.
pub fn stored(device: &Device, key: &[u8], data: &[u8]) -> Result<Vec<u64>, vk::Result> {
    let mut own = Key { s_type: s_type(3), p_next: ptr::null_mut(), size: key.len() as u32, key: [0; 32] };
    own.key[..key.len()].copy_from_slice(key);
    let data = Data { size: data.len(), data: data.as_ptr() };
    create(device, &KeysAndData { count: 1, keys: &own, data: &data }, 0)
}

/// Binaries created from a list of keys and data, in its order.
pub fn all_stored(device: &Device, listed: &[(Vec<u8>, Vec<u8>)]) -> Result<Vec<u64>, vk::Result> {
    let keys: Vec<Key> = listed
        .iter()
        .map(|(key, _)| {
            let mut own =
                Key { s_type: s_type(3), p_next: ptr::null_mut(), size: key.len() as u32, key: [0; 32] };
            own.key[..key.len()].copy_from_slice(key);
            own
        })
        .collect();
    let data: Vec<Data> =
        listed.iter().map(|(_, data)| Data { size: data.len(), data: data.as_ptr() }).collect();
    let count = listed.len() as u32;
    create(device, &KeysAndData { count, keys: keys.as_ptr(), data: data.as_ptr() }, 0)
}

/// The binaries that the driver's internal cache holds for the create info at the start of `chain`.
///
/// # Safety
/// A valid create info of a pipeline.
pub unsafe fn probe(device: &Device, chain: *const c_void) -> Result<Vec<u64>, vk::Result> {
    let wrapped = Wrapped { s_type: s_type(7), p_next: chain };
    create_from(device, ptr::null(), 0, ptr::from_ref(&wrapped).cast())
}

/// vkGetPipelineKeyKHR: of the device if `chain` is NULL, else of the create info at its start.
///
/// # Safety
/// NULL or a valid create info of a pipeline.
pub unsafe fn pipeline_key(device: &Device, chain: *const c_void) -> (vk::Result, Vec<u8>) {
    let wrapped = Wrapped { s_type: s_type(7), p_next: chain };
    let mut key = Key { s_type: s_type(3), p_next: ptr::null_mut(), size: 0, key: [0; 32] };
    let info = if chain.is_null() { ptr::null() } else { &raw const wrapped };
    // SAFETY: the command has this type; the caller guarantees the create info.
    let result = unsafe {
        let get: GetKey = command(device, c"vkGetPipelineKeyKHR");
        get(device.raw.handle(), info, &mut key)
    };
    (result, key.key[..key.size as usize].to_vec())
}

/// The key and data of each binary.
pub fn contents(device: &Device, binaries: &[u64]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let each = binaries.iter().map(|&binary| {
        let (asked, _, _, size) = data(device, binary, None);
        let (got, key, bytes, _) = data(device, binary, Some(size));
        assert_eq!((asked, got), (vk::Result::SUCCESS, vk::Result::SUCCESS));
        (key, bytes)
    });
    each.collect()
}

fn create(device: &Device, data: *const KeysAndData, pipeline: u64) -> Result<Vec<u64>, vk::Result> {
    create_from(device, data, pipeline, ptr::null())
}

fn create_from(
    device: &Device,
    data: *const KeysAndData,
    pipeline: u64,
    info: *const c_void,
) -> Result<Vec<u64>, vk::Result> {
    let info = CreateInfo { s_type: s_type(1), p_next: ptr::null(), data, pipeline, info };
    let mut list = Handles { s_type: s_type(9), p_next: ptr::null(), count: 0, binaries: ptr::null_mut() };
    // SAFETY: the command has this type, and the structures are valid; first the number, then the handles.
    unsafe {
        let create: Create = command(device, c"vkCreatePipelineBinariesKHR");
        create(device.raw.handle(), &info, ptr::null(), &mut list).result()?;
        let mut handles = vec![0; list.count as usize];
        list.binaries = handles.as_mut_ptr();
        create(device.raw.handle(), &info, ptr::null(), &mut list).result()?;
        Ok(handles)
    }
}

/// vkGetPipelineBinaryDataKHR with this much room: result, key, data and reported size.
pub fn data(device: &Device, binary: u64, room: Option<usize>) -> (vk::Result, Vec<u8>, Vec<u8>, usize) {
    let info = Named { s_type: s_type(6), p_next: ptr::null(), handle: binary };
    let mut key = Key { s_type: s_type(3), p_next: ptr::null_mut(), size: 0, key: [0; 32] };
    let mut data = vec![0; room.unwrap_or(0)];
    let mut size = data.len();
    let out = if room.is_some() { data.as_mut_ptr() } else { ptr::null_mut() };
    // SAFETY: the command has this type, the structures are valid, and the buffer is as long as the size says.
    let result = unsafe {
        let get: GetData = command(device, c"vkGetPipelineBinaryDataKHR");
        get(device.raw.handle(), &info, &mut key, &mut size, out)
    };
    (result, key.key[..key.size as usize].to_vec(), data, size)
}

/// vkReleaseCapturedPipelineDataKHR.
pub fn release(device: &Device, pipeline: vk::Pipeline) -> vk::Result {
    let info = Named { s_type: s_type(5), p_next: ptr::null(), handle: pipeline.as_raw() };
    // SAFETY: the command has this type, and the structure is valid.
    unsafe {
        let release: Release = command(device, c"vkReleaseCapturedPipelineDataKHR");
        release(device.raw.handle(), &info, ptr::null())
    }
}

/// vkDestroyPipelineBinaryKHR.
pub fn destroy(device: &Device, binary: u64) {
    // SAFETY: the command has this type; the binary belongs to the caller and is destroyed once.
    unsafe {
        let destroy: Destroy = command(device, c"vkDestroyPipelineBinaryKHR");
        destroy(device.raw.handle(), binary, ptr::null());
    }
}
