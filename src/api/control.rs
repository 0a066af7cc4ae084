//! The exported functions for control over caches. `include/vkstash.h` is made of this file: the comments of functions
//! are written for C.

use std::ffi::c_char;

use vkstash_sessions::control;
use vkstash_store::settings;

use super::sessions::{call, place};
use super::types::{
    VKSTASH_CACHE_CONTROL_CLEAR, VKSTASH_CACHE_CONTROL_DISABLE, VKSTASH_CACHE_CONTROL_ENABLE,
    VKSTASH_CACHE_KIND_APPLICATION_MANAGED, VKSTASH_CACHE_KIND_IMPLICIT_CONVERSIONS,
    VKSTASH_CACHE_KIND_IMPLICIT_DRIVER_MANAGED, VKSTASH_CACHE_KIND_IMPLICIT_FOR_DRIVER, VkstashResult,
};
use crate::config::{self, Background, Config};

const KINDS: u32 = VKSTASH_CACHE_KIND_IMPLICIT_FOR_DRIVER
    | VKSTASH_CACHE_KIND_IMPLICIT_CONVERSIONS
    | VKSTASH_CACHE_KIND_IMPLICIT_DRIVER_MANAGED
    | VKSTASH_CACHE_KIND_APPLICATION_MANAGED;
const CONTROLS: u32 =
    VKSTASH_CACHE_CONTROL_DISABLE | VKSTASH_CACHE_CONTROL_ENABLE | VKSTASH_CACHE_CONTROL_CLEAR;

/// What the environment or the settings of the stash say.
fn is_developer_mode() -> bool {
    let stored = |root: std::path::PathBuf| settings::read(&root, None).ok()?.0.developer_mode;
    Background::from_environment().developer_mode
        || Config::from_environment().root.and_then(stored).unwrap_or(false)
}

/// Changes what caches do: control is a combination of VKSTASH_CACHE_CONTROL_..., for each of kinds, a combination of
/// VKSTASH_CACHE_KIND_...
///
/// VKSTASH_CACHE_KIND_APPLICATION_MANAGED means all sessions of this process, and for VKSTASH_CACHE_CONTROL_CLEAR also
/// the caches in the stash of the program that application_name names as in vkstash_create_session. With any other kind
/// the answer is VKSTASH_ERROR_NOT_SUPPORTED, and nothing is done. DISABLE and ENABLE exclude each other, and at least
/// one control is needed. Only in developer mode (VKSTASH_DEVELOPER_MODE=1, or the setting); otherwise the answer is
/// VKSTASH_ERROR_NOT_CURRENTLY_AVAILABLE.
///
/// # Safety
/// NULL, or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vkstash_cache_control(
    kinds: u32,
    control: u32,
    application_name: *const c_char,
) -> VkstashResult {
    call("vkstash_cache_control", || {
        let both = VKSTASH_CACHE_CONTROL_DISABLE | VKSTASH_CACHE_CONTROL_ENABLE;
        let is_odd = control & !CONTROLS != 0 || control == 0 || control & both == both;
        if is_odd || kinds & !KINDS != 0 || kinds == 0 {
            return VkstashResult::VKSTASH_ERROR_INVALID_ARGUMENT;
        }
        if kinds != VKSTASH_CACHE_KIND_APPLICATION_MANAGED {
            return VkstashResult::VKSTASH_ERROR_NOT_SUPPORTED;
        }
        if config::inert() || !is_developer_mode() {
            return VkstashResult::VKSTASH_ERROR_NOT_CURRENTLY_AVAILABLE;
        }
        if control & both != 0 {
            control::disable(control & VKSTASH_CACHE_CONTROL_DISABLE != 0);
        }
        if control & VKSTASH_CACHE_CONTROL_CLEAR == 0 {
            return VkstashResult::VKSTASH_SUCCESS;
        }
        // SAFETY: the caller's promise.
        let place = unsafe { place(application_name) };
        VkstashResult::from(control::clear(place.as_ref()))
    })
}
