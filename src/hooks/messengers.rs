//! Debug messengers. The driver, and the layers below, call them on whatever thread has something to say, so while an
//! instance has one, no worker calls a driver of that instance: the program may hold a lock that its callback needs in
//! vkDestroyDevice, which waits for the worker. And the specification forbids their end in parallel with any command on
//! the instance or its devices, while the program does not know of the commands of workers.

use ash::vk;

use crate::background::gate;
use crate::guard::guard;
use crate::state::instance;

/// Has the command below create a messenger, which is counted first.
///
/// # Safety
/// A live instance.
unsafe fn create<P>(
    command: &'static str,
    handle: vk::Instance,
    next: impl FnOnce(&instance::Instance) -> Option<P>,
    below: impl FnOnce(P) -> vk::Result,
) -> vk::Result {
    // SAFETY: the caller's contract.
    let found = guard(command, || unsafe { instance::find(handle) }, || None);
    let Some((found, next)) = found.and_then(|found| next(&found).map(|next| (found, next))) else {
        return vk::Result::ERROR_OUT_OF_HOST_MEMORY;
    };
    found.messengers.add();
    // Whoever enters after this sees the messenger.
    guard(command, || gate::without_workers(|| ()), || ());
    let result = below(next);
    if result != vk::Result::SUCCESS {
        found.messengers.remove();
    }
    result
}

/// Has the command below destroy a messenger.
///
/// # Safety
/// A live instance.
unsafe fn destroy<P>(
    command: &'static str,
    handle: vk::Instance,
    is_null: bool,
    next: impl FnOnce(&instance::Instance) -> Option<P>,
    below: impl FnOnce(P),
) {
    // SAFETY: the caller's contract.
    let found = guard(command, || unsafe { instance::find(handle) }, || None);
    let Some((found, next)) = found.and_then(|found| next(&found).map(|next| (found, next))) else { return };
    guard(command, || gate::without_workers(|| below(next)), || ());
    if !is_null {
        found.messengers.remove();
    }
}

/// vkCreateDebugUtilsMessengerEXT.
pub unsafe extern "system" fn create_utils(
    handle: vk::Instance,
    info: *const vk::DebugUtilsMessengerCreateInfoEXT<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    messenger: *mut vk::DebugUtilsMessengerEXT,
) -> vk::Result {
    let next = |found: &instance::Instance| found.table.create_debug_utils_messenger;
    // SAFETY: a live instance, and the program's valid arguments.
    unsafe {
        create("vkCreateDebugUtilsMessengerEXT", handle, next, |next| {
            next(handle, info, allocator, messenger)
        })
    }
}

/// vkDestroyDebugUtilsMessengerEXT.
pub unsafe extern "system" fn destroy_utils(
    handle: vk::Instance,
    messenger: vk::DebugUtilsMessengerEXT,
    allocator: *const vk::AllocationCallbacks<'_>,
) {
    let next = |found: &instance::Instance| found.table.destroy_debug_utils_messenger;
    let is_null = messenger == vk::DebugUtilsMessengerEXT::null();
    // SAFETY: a live instance, and the program's valid arguments.
    unsafe {
        destroy("vkDestroyDebugUtilsMessengerEXT", handle, is_null, next, |next| {
            next(handle, messenger, allocator);
        });
    }
}

/// vkCreateDebugReportCallbackEXT.
pub unsafe extern "system" fn create_report(
    handle: vk::Instance,
    info: *const vk::DebugReportCallbackCreateInfoEXT<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    callback: *mut vk::DebugReportCallbackEXT,
) -> vk::Result {
    let next = |found: &instance::Instance| found.table.create_debug_report_callback;
    // SAFETY: a live instance, and the program's valid arguments.
    unsafe {
        create("vkCreateDebugReportCallbackEXT", handle, next, |next| next(handle, info, allocator, callback))
    }
}

/// vkDestroyDebugReportCallbackEXT.
pub unsafe extern "system" fn destroy_report(
    handle: vk::Instance,
    callback: vk::DebugReportCallbackEXT,
    allocator: *const vk::AllocationCallbacks<'_>,
) {
    let next = |found: &instance::Instance| found.table.destroy_debug_report_callback;
    let is_null = callback == vk::DebugReportCallbackEXT::null();
    // SAFETY: a live instance, and the program's valid arguments.
    unsafe {
        destroy("vkDestroyDebugReportCallbackEXT", handle, is_null, next, |next| {
            next(handle, callback, allocator);
        });
    }
}
