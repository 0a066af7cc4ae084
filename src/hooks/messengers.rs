//! The end of debug messengers: the specification forbids it in parallel with any command on the instance or its devices,
//! and the program does not know of the commands of workers.

use ash::vk;

use crate::background::gate;
use crate::guard::guard;
use crate::state::instance;

/// vkDestroyDebugUtilsMessengerEXT.
pub unsafe extern "system" fn destroy_utils(
    handle: vk::Instance,
    messenger: vk::DebugUtilsMessengerEXT,
    allocator: *const vk::AllocationCallbacks<'_>,
) {
    // SAFETY: a live instance.
    let next = unsafe { instance::find(handle) }.and_then(|found| found.table.destroy_debug_utils_messenger);
    let Some(next) = next else { return };
    // SAFETY: the program's valid arguments.
    let below = || unsafe { next(handle, messenger, allocator) };
    guard("vkDestroyDebugUtilsMessengerEXT", || gate::without_workers(below), || ());
}

/// vkDestroyDebugReportCallbackEXT.
pub unsafe extern "system" fn destroy_report(
    handle: vk::Instance,
    callback: vk::DebugReportCallbackEXT,
    allocator: *const vk::AllocationCallbacks<'_>,
) {
    // SAFETY: a live instance.
    let next = unsafe { instance::find(handle) }.and_then(|found| found.table.destroy_debug_report_callback);
    let Some(next) = next else { return };
    // SAFETY: the program's valid arguments.
    let below = || unsafe { next(handle, callback, allocator) };
    guard("vkDestroyDebugReportCallbackEXT", || gate::without_workers(below), || ());
}
