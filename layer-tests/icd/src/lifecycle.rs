//! Creating and destroying one object.

use ash::vk::{self, Handle};

use crate::command::{command, void};
use crate::objects::{self, Body};
use crate::record::{Call, plain};
use crate::{chain, handles};

/// Creates one object; the output is NULL if that fails.
///
/// # Safety
/// `callbacks` and `out` are pAllocator and the output pointer of a creation command that has not returned: NULL or
/// valid, and valid. `p_next` is NULL or the valid chain of its create info.
pub unsafe fn create<H: Handle>(
    mut call: Call,
    device: vk::Device,
    p_next: *const std::ffi::c_void,
    callbacks: *const vk::AllocationCallbacks<'_>,
    out: *mut H,
    body: impl FnOnce(&mut Call, &handles::Device) -> Result<Body, vk::Result>,
) -> vk::Result {
    // SAFETY: the caller passes the output pointer of a creation command, which can be written, and a valid chain.
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
                // SAFETY: the caller passes the command's pAllocator, which is NULL or valid, and its output pointer,
                // which can be written.
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
/// `callbacks` is pAllocator of a destruction command that has not returned: NULL or valid.
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
        // SAFETY: the caller passes the command's pAllocator, which is NULL or valid.
        let allocator = unsafe { objects::allocator(callbacks) };
        if let Some(body) = objects::remove(call.command, device.handle, kind, handle, allocator) {
            before(&body);
        }
    });
}
