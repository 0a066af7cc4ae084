//! The callbacks of the program's, and what the script has the driver say.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use ash::vk;

use crate::config::{self, Messages};
use crate::{handles, held};

/// A callback, and what it is called with.
#[derive(Clone, Copy)]
pub enum Callback {
    /// VK_EXT_debug_utils.
    Utils(vk::PFN_vkDebugUtilsMessengerCallbackEXT, usize),
    /// VK_EXT_debug_report.
    Report(vk::PFN_vkDebugReportCallbackEXT, usize),
}

static CALLBACKS: Mutex<BTreeMap<u64, Callback>> = Mutex::new(BTreeMap::new());

/// Adds a callback; returns the handle of its object.
pub fn add(callback: Callback) -> u64 {
    let handle = handles::allocate();
    CALLBACKS.lock().unwrap_or_else(PoisonError::into_inner).insert(handle, callback);
    handle
}

/// The object of this handle is destroyed.
pub fn remove(handle: u64) {
    CALLBACKS.lock().unwrap_or_else(PoisonError::into_inner).remove(&handle);
}

/// Tells every callback that pipelines are made, where the script says so.
pub fn say_making() {
    if config::current().messages == Messages::Making {
        say("the callback of vkCreate*Pipelines");
    }
}

/// Tells every callback that a command has begun, where the script says so.
pub fn say_begun(command: &str) {
    if config::current().messages == Messages::All {
        say(command);
    }
}

fn say(place: &str) {
    let all: Vec<Callback> =
        CALLBACKS.lock().unwrap_or_else(PoisonError::into_inner).values().copied().collect();
    if !all.is_empty() {
        held::check(place, true);
    }
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
