//! The flags of pipelines.

use std::ffi::c_void;

use ash::vk;

use crate::chain;
use crate::handles::Device;
use crate::record::{Call, violation};

/// FAIL_ON_PIPELINE_COMPILE_REQUIRED.
pub const FAIL_ON: u64 = 0x100;
/// EARLY_RETURN_ON_FAILURE.
pub const EARLY_RETURN: u64 = 0x200;
/// CAPTURE_DATA.
pub const CAPTURE_DATA: u64 = 1 << 31;
/// ALLOW_DERIVATIVES.
pub const ALLOW_DERIVATIVES: u64 = 2;
/// DERIVATIVE.
pub const DERIVATIVE: u64 = 4;
/// VK_PIPELINE_CREATE_LIBRARY_BIT_KHR.
pub const LIBRARY: u64 = 0x800;
/// VK_PIPELINE_CREATE_2_DESCRIPTOR_HEAP_BIT_EXT.
pub const DESCRIPTOR_HEAP: u64 = 1 << 36;
/// LINK_TIME_OPTIMIZATION.
pub const LINK_TIME_OPTIMIZATION: u64 = 0x400;
/// RETAIN_LINK_TIME_OPTIMIZATION_INFO.
pub const RETAIN: u64 = 0x80_0000;

/// Effective flags: the 64-bit ones replace the others (contract 3.4).
///
/// # Safety
/// `p_next` is NULL or the valid chain of a create info.
pub unsafe fn effective(call: &Call, device: &Device, plain: u32, p_next: *const c_void) -> u64 {
    // SAFETY: the caller passes NULL or the valid chain of a create info.
    match unsafe { chain::find::<vk::PipelineCreateFlags2CreateInfoKHR<'_>>(p_next) } {
        Some(flags) if device.maintenance5 => flags.flags.as_raw(),
        Some(_) => {
            violation(format!("{}: 64-bit flags reached a device without maintenance5", call.command));
            plain.into()
        }
        None => plain.into(),
    }
}

/// The flags of a create info as the program wrote them, also for calls that a fault ends.
///
/// # Safety
/// `p_next` is NULL or the valid chain of a create info.
pub unsafe fn written(plain: u32, p_next: *const c_void) -> u64 {
    // SAFETY: the caller passes NULL or the valid chain of a create info.
    unsafe { chain::find::<vk::PipelineCreateFlags2CreateInfoKHR<'_>>(p_next) }
        .map_or(plain.into(), |flags| flags.flags.as_raw())
}
