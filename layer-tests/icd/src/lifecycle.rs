//! Creating and destroying one object.

use ash::vk::{self, Handle};

use crate::command::{command, void};
use crate::objects::{self, Body};
use crate::record::{Call, plain};
use crate::{chain, handles};

/// Creates one object; the output is NULL if that fails.
///
/// # Safety
/// The pointers are a creation command's own; `p_next` is the create info's chain.
pub unsafe fn create<H: Handle>(
    mut call: Call,
    device: vk::Device,
    p_next: *const std::ffi::c_void,
    callbacks: *const vk::AllocationCallbacks<'_>,
    out: *mut H,
    body: impl FnOnce(&mut Call, &handles::Device) -> Result<Body, vk::Result>,
) -> vk::Result {
    // SAFETY: a required output pointer and a valid chain.
    unsafe {
        out.write(H::from_raw(0));
        call.p_next = chain::types(call.command, p_next);
    }
    command(call, |call| {
        let Some(device) = handles::device(call.command, device) else {
            return vk::Result::ERROR_DEVICE_LOST;
        };
        match body(call, &device) {
            Ok(body) => {
                // SAFETY: NULL or valid callbacks; a required output pointer.
                unsafe {
                    let allocator = objects::allocator(callbacks);
                    out.write(H::from_raw(objects::insert(device.handle, allocator, body)));
                }
                vk::Result::SUCCESS
            }
            Err(result) => result,
        }
    })
}

/// Destroys one object.
///
/// # Safety
/// The pointers are a destruction command's own.
pub unsafe fn destroy(
    name: &'static str,
    kind: &str,
    device: vk::Device,
    handle: u64,
    callbacks: *const vk::AllocationCallbacks<'_>,
    before: impl FnOnce(&Body),
) {
    void(plain(name), |call| {
        let Some(device) = handles::device(call.command, device) else { return };
        // SAFETY: NULL or valid callbacks.
        let allocator = unsafe { objects::allocator(callbacks) };
        if let Some(body) = objects::remove(call.command, device.handle, kind, handle, allocator) {
            before(&body);
        }
    });
}
