//! Debug messengers and report callbacks: what the script has the driver say.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use ash::vk::{self, Handle as _};

use crate::command::{command, void};
use crate::record::plain;
use crate::{config, handles};

/// A callback, and what it is called with.
#[derive(Clone, Copy)]
enum Callback {
    Utils(vk::PFN_vkDebugUtilsMessengerCallbackEXT, usize),
    Report(vk::PFN_vkDebugReportCallbackEXT, usize),
}

static CALLBACKS: Mutex<BTreeMap<u64, Callback>> = Mutex::new(BTreeMap::new());

fn add(callback: Callback) -> u64 {
    let handle = handles::allocate();
    CALLBACKS.lock().unwrap_or_else(PoisonError::into_inner).insert(handle, callback);
    handle
}

fn remove(handle: u64) {
    CALLBACKS.lock().unwrap_or_else(PoisonError::into_inner).remove(&handle);
}

/// Tells every callback that pipelines are made, where the script says so.
pub fn say_making() {
    if !config::current().messages {
        return;
    }
    let all: Vec<Callback> =
        CALLBACKS.lock().unwrap_or_else(PoisonError::into_inner).values().copied().collect();
    for callback in all {
        match callback {
            Callback::Utils(Some(function), data) => {
                let severity = vk::DebugUtilsMessageSeverityFlagsEXT::WARNING;
                let kind = vk::DebugUtilsMessageTypeFlagsEXT::VALIDATION;
                let message = vk::DebugUtilsMessengerCallbackDataEXT::default()
                    .message_id_name(c"making")
                    .message(c"pipelines are made");
                // SAFETY: `function` and `data` are those with which the program created the messenger, which it has
                // not destroyed; `message` is on this stack.
                unsafe { function(severity, kind, &message, std::ptr::with_exposed_provenance_mut(data)) };
            }
            Callback::Report(Some(function), data) => {
                let (flags, kind) =
                    (vk::DebugReportFlagsEXT::WARNING, vk::DebugReportObjectTypeEXT::PIPELINE);
                let (layer, message) = (c"driver".as_ptr(), c"pipelines are made".as_ptr());
                let data = std::ptr::with_exposed_provenance_mut(data);
                // SAFETY: `function` and `data` are those with which the program created the callback, which it has not
                // destroyed; the texts are constants.
                unsafe { function(flags, kind, 0, 0, 7, layer, message, data) };
            }
            Callback::Utils(None, _) | Callback::Report(None, _) => {}
        }
    }
}

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
