//! The commands of VK_KHR_pipeline_binary, whose structures ash 0.38 lacks. A pipeline has one binary for each stage.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ash::vk::{self, Handle as _};

use crate::binary::Binary;
use crate::binary_info::{allowed, find};
use crate::command::command;
use crate::config::{self, Config};
use crate::content::slice;
use crate::element::Element;
use crate::handles::{self, Device};
use crate::hash::{Digest, Hasher};
use crate::objects::{self, Body, Pipeline};
use crate::record::{Call, plain, violation};
use crate::{compute, disk, graphics, lifecycle, ray_tracing};

const MISSING: vk::Result = vk::Result::from_raw(1_000_483_000);
const NOT_ENOUGH_SPACE: vk::Result = vk::Result::from_raw(-1_000_483_000);
/// VkPipelineBinaryKeyKHR.
#[repr(C)]
pub struct Key {
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

/// VkPipelineCreateInfoKHR: its chain holds a create info.
#[repr(C)]
pub struct AnyInfo {
    s_type: vk::StructureType,
    p_next: *const c_void,
}

/// VkPipelineBinaryCreateInfoKHR.
#[repr(C)]
pub struct CreateInfo {
    s_type: vk::StructureType,
    p_next: *const c_void,
    data: *const KeysAndData,
    pipeline: vk::Pipeline,
    info: *const AnyInfo,
}

/// VkPipelineBinaryHandlesInfoKHR.
#[repr(C)]
pub struct Handles {
    s_type: vk::StructureType,
    p_next: *const c_void,
    count: u32,
    binaries: *mut u64,
}

/// VkPipelineBinaryDataInfoKHR and VkReleaseCapturedPipelineDataInfoKHR: each names one object.
#[repr(C)]
pub struct Named {
    s_type: vk::StructureType,
    p_next: *const c_void,
    handle: u64,
}

/// Data of another global key is stale (contract 5.1).
fn global_key(config: &Config, device: &Device) -> Digest {
    let mut hasher = Hasher::new("global");
    hasher.bytes(&config.uuid());
    hasher.word(config.device_id.wrapping_add(device.index));
    hasher.word(config.driver_version);
    hasher.bytes(&device.robustness.map(u8::from));
    hasher.finish()
}

fn pipeline(command: &str, device: &Device, handle: vk::Pipeline) -> Option<Pipeline> {
    match objects::get(command, device.handle, "VkPipeline", handle.as_raw())? {
        Body::Pipeline(pipeline) => Some(pipeline),
        _ => None,
    }
}

/// # Safety
/// `info` is valid during this call, and its chain begins with the valid create info of a pipeline.
unsafe fn understand<'a>(call: &mut Call, device: &Device, info: &AnyInfo) -> Option<Element<'a>> {
    use vk::StructureType as S;
    // SAFETY: the caller passes a structure whose chain begins with a create info; each cast follows the sType of that
    // create info.
    unsafe {
        let first = info.p_next.cast::<vk::BaseInStructure<'_>>().as_ref()?;
        match first.s_type {
            S::COMPUTE_PIPELINE_CREATE_INFO => Some(compute::element(call, device, &*info.p_next.cast())),
            S::GRAPHICS_PIPELINE_CREATE_INFO => Some(graphics::element(call, device, &*info.p_next.cast())),
            S::RAY_TRACING_PIPELINE_CREATE_INFO_KHR => {
                Some(ray_tracing::element(call, device, &*info.p_next.cast()))
            }
            other => {
                violation(format!("{}: structure {} is no create info", call.command, other.as_raw()));
                None
            }
        }
    }
}

/// vkCreatePipelineBinariesKHR.
pub unsafe extern "system" fn create(
    device: vk::Device,
    info: *const CreateInfo,
    callbacks: *const vk::AllocationCallbacks<'_>,
    out: *mut Handles,
) -> vk::Result {
    command(plain("vkCreatePipelineBinariesKHR"), |call| {
        let Some(device) = handles::device(call.command, device) else {
            return vk::Result::ERROR_DEVICE_LOST;
        };
        allowed(call.command, &device);
        // SAFETY: the program passes a valid create info and a valid place for the handles; the array in it has as many
        // elements as its count says.
        unsafe {
            let (info, out) = (&*info, &mut *out);
            let binaries = match source(call, &device, info) {
                Ok(binaries) => binaries,
                Err(result) => return result,
            };
            let total = binaries.len() as u32;
            if out.binaries.is_null() {
                out.count = total;
                return vk::Result::SUCCESS;
            }
            out.count = total.min(out.count);
            for (at, binary) in binaries.into_iter().take(out.count as usize).enumerate() {
                let body = Body::Binary(Arc::new(binary));
                let handle = objects::insert(device.handle, objects::allocator(callbacks), body);
                out.binaries.add(at).write(handle);
            }
            if out.count < total { vk::Result::INCOMPLETE } else { vk::Result::SUCCESS }
        }
    })
}

/// # Safety
/// `info` is valid during this call: each of its pointers is NULL or points to a valid structure.
unsafe fn source(call: &mut Call, device: &Device, info: &CreateInfo) -> Result<Vec<Binary>, vk::Result> {
    let config = config::current();
    let name = call.command;
    let given = [!info.data.is_null(), !info.pipeline.is_null(), !info.info.is_null()];
    if given.iter().filter(|given| **given).count() != 1 {
        violation(format!("{name}: not exactly one source (09619)"));
        return Err(vk::Result::ERROR_UNKNOWN);
    }
    // SAFETY: the program passes a valid create info; each pointer is read as its sType says.
    unsafe {
        if let Some(data) = info.data.as_ref() {
            return from_data(&config, device, data);
        }
        if let Some(info) = info.info.as_ref() {
            if !config.disk_cache || device.internal_cache_off {
                violation(format!("{name}: there is no internal cache (09609, 09610)"));
                return Err(MISSING);
            }
            let element = understand(call, device, info).ok_or(vk::Result::ERROR_UNKNOWN)?;
            if !element.entries(&config).iter().all(|entry| disk::has(&config, entry)) {
                return Err(MISSING);
            }
            return Ok(Binary::all(&element.key, &element.shape, element.stages));
        }
    }
    let pipeline = pipeline(name, device, info.pipeline).ok_or(vk::Result::ERROR_UNKNOWN)?;
    if !pipeline.captured.load(Ordering::SeqCst) {
        violation(format!("{name}: the pipeline has no captured data (09604)"));
        return Err(vk::Result::ERROR_UNKNOWN);
    }
    Ok(Binary::all(&pipeline.key, &pipeline.shape, pipeline.stages))
}

/// # Safety
/// `source` is valid during this call: its arrays have `count` elements, and each element as many bytes as its size
/// says.
unsafe fn from_data(
    config: &Config,
    device: &Device,
    source: &KeysAndData,
) -> Result<Vec<Binary>, vk::Result> {
    let global = global_key(config, device);
    // SAFETY: the caller passes a valid structure: its arrays have `count` elements, and the data of each element has
    // its size.
    unsafe {
        let keys = slice(source.keys, source.count);
        let read = |(key, data): (&Key, &Data)| {
            let bytes = slice(data.data, data.size as u32);
            let binary =
                Binary::parse(bytes, &global).filter(|binary| key.size == 32 && key.key == binary.key);
            binary.ok_or_else(|| {
                violation("vkCreatePipelineBinariesKHR: damaged, stale or foreign data");
                vk::Result::ERROR_UNKNOWN
            })
        };
        keys.iter().zip(slice(source.data, source.count)).map(read).collect()
    }
}

/// vkDestroyPipelineBinaryKHR.
pub unsafe extern "system" fn destroy(
    device: vk::Device,
    handle: u64,
    callbacks: *const vk::AllocationCallbacks<'_>,
) {
    let name = "vkDestroyPipelineBinaryKHR";
    // SAFETY: `callbacks` is the pAllocator that the program passes to vkDestroyPipelineBinaryKHR: NULL or valid.
    unsafe { lifecycle::destroy(name, "VkPipelineBinaryKHR", device, handle, callbacks, |_| {}) };
}

/// vkGetPipelineKeyKHR.
pub unsafe extern "system" fn get_key(device: vk::Device, info: *const AnyInfo, out: *mut Key) -> vk::Result {
    command(plain("vkGetPipelineKeyKHR"), |call| {
        let Some(device) = handles::device(call.command, device) else {
            return vk::Result::ERROR_DEVICE_LOST;
        };
        allowed(call.command, &device);
        // SAFETY: the program passes NULL or a valid pPipelineCreateInfo, and a pPipelineKey that can be written.
        unsafe {
            let key = match info.as_ref() {
                None => global_key(&config::current(), &device),
                Some(info) => match understand(call, &device, info) {
                    Some(element) => element.key,
                    None => return vk::Result::ERROR_UNKNOWN,
                },
            };
            ((*out).size, (*out).key) = (32, key);
        }
        vk::Result::SUCCESS
    })
}

/// vkGetPipelineBinaryDataKHR.
pub unsafe extern "system" fn get_data(
    device: vk::Device,
    info: *const Named,
    key: *mut Key,
    size: *mut usize,
    out: *mut u8,
) -> vk::Result {
    command(plain("vkGetPipelineBinaryDataKHR"), |call| {
        let Some(device) = handles::device(call.command, device) else {
            return vk::Result::ERROR_DEVICE_LOST;
        };
        allowed(call.command, &device);
        // SAFETY: the program passes a valid pInfo, places for the key and the size, and a pPipelineBinaryData that is
        // NULL or has as many bytes as the size says.
        unsafe {
            let Some(binary) = find(call.command, &device, (*info).handle) else {
                return vk::Result::ERROR_UNKNOWN;
            };
            ((*key).size, (*key).key) = (32, binary.key);
            let data = binary.data(&global_key(&config::current(), &device));
            let room = std::mem::replace(&mut *size, data.len());
            if out.is_null() {
                return vk::Result::SUCCESS;
            }
            if room < data.len() {
                return NOT_ENOUGH_SPACE;
            }
            std::ptr::copy_nonoverlapping(data.as_ptr(), out, data.len());
        }
        vk::Result::SUCCESS
    })
}

/// vkReleaseCapturedPipelineDataKHR.
pub unsafe extern "system" fn release(
    device: vk::Device,
    info: *const Named,
    callbacks: *const vk::AllocationCallbacks<'_>,
) -> vk::Result {
    command(plain("vkReleaseCapturedPipelineDataKHR"), |call| {
        let Some(device) = handles::device(call.command, device) else {
            return vk::Result::ERROR_DEVICE_LOST;
        };
        allowed(call.command, &device);
        // SAFETY: the program passes a pInfo that points to a valid structure.
        let handle = vk::Pipeline::from_raw(unsafe { (*info).handle });
        let Some(pipeline) = pipeline(call.command, &device, handle) else {
            return vk::Result::ERROR_UNKNOWN;
        };
        // SAFETY: pAllocator is NULL or valid callbacks (09611).
        let allocator = unsafe { objects::allocator(callbacks) };
        objects::check_allocator(call.command, handle.as_raw(), allocator);
        if !pipeline.captured.swap(false, Ordering::SeqCst) {
            violation(
                "vkReleaseCapturedPipelineDataKHR: nothing is captured, or not any more (09613, 09618)",
            );
        }
        vk::Result::SUCCESS
    })
}
