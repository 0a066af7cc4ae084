//! Debug messengers and report callbacks.

use ash::vk::{self, Handle as _};

use crate::callbacks::{Callback, add, remove};
use crate::command::{command, void};
use crate::record::plain;

/// vkCreateDebugUtilsMessengerEXT.
pub unsafe extern "system" fn create_utils(
    _: vk::Instance,
    info: *const vk::DebugUtilsMessengerCreateInfoEXT<'_>,
    _: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::DebugUtilsMessengerEXT,
) -> vk::Result {
    command(plain("vkCreateDebugUtilsMessengerEXT"), |_| {
        // SAFETY: the program passes a valid pCreateInfo, and a pMessenger that can be written.
        unsafe {
            let callback =
                Callback::Utils((*info).pfn_user_callback, (*info).p_user_data.expose_provenance());
            out.write(vk::DebugUtilsMessengerEXT::from_raw(add(callback)));
        }
        vk::Result::SUCCESS
    })
}

/// vkDestroyDebugUtilsMessengerEXT.
pub unsafe extern "system" fn destroy_utils(
    _: vk::Instance,
    messenger: vk::DebugUtilsMessengerEXT,
    _: *const vk::AllocationCallbacks<'_>,
) {
    void(plain("vkDestroyDebugUtilsMessengerEXT"), |_| remove(messenger.as_raw()));
}

/// vkCreateDebugReportCallbackEXT.
pub unsafe extern "system" fn create_report(
    _: vk::Instance,
    info: *const vk::DebugReportCallbackCreateInfoEXT<'_>,
    _: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::DebugReportCallbackEXT,
) -> vk::Result {
    command(plain("vkCreateDebugReportCallbackEXT"), |_| {
        // SAFETY: the program passes a valid pCreateInfo, and a pCallback that can be written.
        unsafe {
            let callback = Callback::Report((*info).pfn_callback, (*info).p_user_data.expose_provenance());
            out.write(vk::DebugReportCallbackEXT::from_raw(add(callback)));
        }
        vk::Result::SUCCESS
    })
}

/// vkDestroyDebugReportCallbackEXT.
pub unsafe extern "system" fn destroy_report(
    _: vk::Instance,
    callback: vk::DebugReportCallbackEXT,
    _: *const vk::AllocationCallbacks<'_>,
) {
    void(plain("vkDestroyDebugReportCallbackEXT"), |_| remove(callback.as_raw()));
}
