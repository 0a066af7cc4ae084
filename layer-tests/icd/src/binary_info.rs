//! VK_KHR_pipeline_binary for the other commands: its structures in their chains, and binaries by handle. ash 0.38
//! lacks the extension, so its structures are declared here.

use std::ffi::c_void;
use std::sync::Arc;

use ash::vk;

use crate::binary::Binary;
use crate::chain;
use crate::config::Config;
use crate::content::slice;
use crate::handles::Device;
use crate::objects::{self, Body};
use crate::record::{Call, violation};

/// sType of VkPhysicalDevicePipelineBinaryPropertiesKHR.
pub const PROPERTIES: vk::StructureType = vk::StructureType::from_raw(1_000_483_004);
const INFO: vk::StructureType = vk::StructureType::from_raw(1_000_483_002);
const INTERNAL_CACHE_CONTROL: vk::StructureType = vk::StructureType::from_raw(1_000_483_008);

#[repr(C)]
struct BoolsOf<const N: usize> {
    s_type: vk::StructureType,
    p_next: *mut c_void,
    bools: [vk::Bool32; N],
}

#[repr(C)]
struct Info {
    s_type: vk::StructureType,
    p_next: *const c_void,
    count: u32,
    binaries: *const u64,
}

/// Writes VkPhysicalDevicePipelineBinaryPropertiesKHR.
///
/// # Safety
/// `node` points to a VkPhysicalDevicePipelineBinaryPropertiesKHR that can be written.
pub unsafe fn properties(config: &Config, node: *mut vk::BaseOutStructure<'_>) {
    let internal = config.disk_cache;
    let truths = [internal, internal, false, false, false];
    // SAFETY: `node` is VkPhysicalDevicePipelineBinaryPropertiesKHR, which the caller found by its sType.
    unsafe { (*node.cast::<BoolsOf<5>>()).bools = truths.map(u32::from) };
}

/// Whether a device's chain disables the internal cache.
///
/// # Safety
/// `p_next` is NULL or a chain that is valid during this call.
pub unsafe fn internal_cache_off(p_next: *const c_void) -> bool {
    // SAFETY: the caller passes NULL or a valid chain, and each cast follows the sType.
    unsafe {
        chain::walk(p_next)
            .find(|&node| (*node).s_type == INTERNAL_CACHE_CONTROL)
            .is_some_and(|node| (*node.cast::<BoolsOf<1>>()).bools != [vk::FALSE])
    }
}

/// A violation where the device was created without the feature.
pub fn allowed(command: &str, device: &Device) {
    if !device.binaries {
        violation(format!("{command}: pipelineBinaries is not enabled"));
    }
}

/// The binary behind a handle, a violation if there is none.
pub fn find(command: &str, device: &Device, handle: u64) -> Option<Arc<Binary>> {
    match objects::get(command, device.handle, "VkPipelineBinaryKHR", handle)? {
        Body::Binary(binary) => Some(binary),
        _ => None,
    }
}

/// The binaries that a create info passes; a count of 0 means none (contract 5.4).
///
/// # Safety
/// `p_next` is NULL or a chain that is valid during this call.
pub unsafe fn passed(call: &Call, device: &Device, p_next: *const c_void) -> Option<Vec<Arc<Binary>>> {
    // SAFETY: the caller passes NULL or a valid chain; the cast follows the sType, and the array has as many elements
    // as its count says.
    let handles = unsafe {
        let info = &*chain::walk(p_next).find(|&node| (*node).s_type == INFO)?.cast::<Info>();
        slice(info.binaries, info.count)
    };
    if handles.is_empty() {
        return None;
    }
    allowed(call.command, device);
    Some(handles.iter().filter_map(|&handle| find(call.command, device, handle)).collect())
}
