//! The commands of VK_KHR_deferred_host_operations.

use std::sync::Arc;
use std::time::Duration;

use ash::vk::{self, Handle as _};

use crate::command::command;
use crate::handles::{self, Device};
use crate::objects::{self, Body};
use crate::operation::{Operation, Work};
use crate::record::{Call, plain, violation};
use crate::{config, lifecycle};

/// Gives an operation its work.
pub fn defer(
    call: &Call,
    device: &Device,
    handle: vk::DeferredOperationKHR,
    work: Arc<dyn Work>,
) -> vk::Result {
    let Some(operation) = find(call.command, device, handle) else { return vk::Result::ERROR_UNKNOWN };
    if !operation.begin(work) {
        violation(format!("{}: the deferred operation has work already", call.command));
    }
    // Other threads can do the work before this call returns.
    std::thread::sleep(Duration::from_millis(config::current().defer_lingers_ms));
    vk::Result::OPERATION_DEFERRED_KHR
}

fn find(command: &str, device: &Device, handle: vk::DeferredOperationKHR) -> Option<Arc<Operation>> {
    match objects::get(command, device.handle, "VkDeferredOperationKHR", handle.as_raw())? {
        Body::Operation(operation) => Some(operation),
        _ => None,
    }
}

/// vkCreateDeferredOperationKHR.
pub unsafe extern "system" fn create(
    device: vk::Device,
    callbacks: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::DeferredOperationKHR,
) -> vk::Result {
    let call = plain("vkCreateDeferredOperationKHR");
    let operation = Body::Operation(Arc::new(Operation::empty()));
    // SAFETY: the program passes a pAllocator that is NULL or valid, and a pDeferredOperation that can be written;
    // there is no chain.
    unsafe { lifecycle::create(call, device, std::ptr::null(), callbacks, out, |_, _| Ok(operation)) }
}

/// vkDestroyDeferredOperationKHR.
pub unsafe extern "system" fn destroy(
    device: vk::Device,
    handle: vk::DeferredOperationKHR,
    callbacks: *const vk::AllocationCallbacks<'_>,
) {
    let name = "vkDestroyDeferredOperationKHR";
    // SAFETY: `callbacks` is the pAllocator that the program passes to vkDestroyDeferredOperationKHR: NULL or valid.
    unsafe {
        lifecycle::destroy(name, "VkDeferredOperationKHR", device, handle.as_raw(), callbacks, |body| {
            if matches!(body, Body::Operation(operation) if operation.result() == vk::Result::NOT_READY) {
                violation(format!("{name}: the operation is not done (03436)"));
            }
        });
    }
}

fn ask(
    name: &'static str,
    device: vk::Device,
    handle: vk::DeferredOperationKHR,
    question: impl FnOnce(&mut Call, &Operation) -> vk::Result,
) -> vk::Result {
    command(plain(name), |call| {
        let Some(device) = handles::device(name, device) else { return vk::Result::ERROR_DEVICE_LOST };
        let Some(operation) = find(name, &device, handle) else { return vk::Result::ERROR_UNKNOWN };
        question(call, &operation)
    })
}

/// vkDeferredOperationJoinKHR.
pub unsafe extern "system" fn join(device: vk::Device, handle: vk::DeferredOperationKHR) -> vk::Result {
    ask("vkDeferredOperationJoinKHR", device, handle, |call, operation| operation.join(call))
}

/// vkGetDeferredOperationResultKHR.
pub unsafe extern "system" fn get_result(device: vk::Device, handle: vk::DeferredOperationKHR) -> vk::Result {
    ask("vkGetDeferredOperationResultKHR", device, handle, |_, operation| operation.result())
}

/// vkGetDeferredOperationMaxConcurrencyKHR.
pub unsafe extern "system" fn max_concurrency(device: vk::Device, handle: vk::DeferredOperationKHR) -> u32 {
    let mut concurrency = 0;
    let _ = ask("vkGetDeferredOperationMaxConcurrencyKHR", device, handle, |_, operation| {
        concurrency = operation.concurrency();
        vk::Result::SUCCESS
    });
    concurrency
}
