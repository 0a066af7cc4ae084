//! The exported function that finds the others by name. `include/vkstash.h` is made of this file: the comments of
//! functions are written for C.

use std::ffi::{CStr, c_char};

use super::{background, control, identifiers, sessions};
use crate::guard::guard;

/// A function of this header, to be cast to its own type.
pub type VkstashFunction = unsafe extern "C" fn();

/// The function of this header with this name; NULL: this version has none. On a device that was created with the
/// layer, vkGetDeviceProcAddr gives the same functions. vkGetInstanceProcAddr does not: the Vulkan loader gives a
/// function of its own for a name that it does not know, which takes a VkDevice first.
///
/// # Safety
/// `name` is NULL or NULL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vkstash_get_proc_addr(name: *const c_char) -> Option<VkstashFunction> {
    // SAFETY: not NULL, so the caller promises text that ends in a NUL, which nobody changes during the call.
    let look_up = || (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }).and_then(of_name);
    guard("vkstash_get_proc_addr", look_up, || None)
}

/// A function's address without its type.
macro_rules! erased {
    ($function:path) => {{
        let address = $function as *const ();
        // SAFETY: a function's address, which is never NULL; whoever calls it casts it to the type that the header has.
        unsafe { std::mem::transmute::<*const (), VkstashFunction>(address) }
    }};
}

/// [`vkstash_get_proc_addr`].
pub fn of_name(name: &CStr) -> Option<VkstashFunction> {
    Some(match name.to_bytes() {
        b"vkstash_get_proc_addr" => erased!(vkstash_get_proc_addr),
        b"vkstash_create_session" => erased!(sessions::vkstash_create_session),
        b"vkstash_destroy_session" => erased!(sessions::vkstash_destroy_session),
        b"vkstash_find_value" => erased!(sessions::vkstash_find_value),
        b"vkstash_store_value" => erased!(sessions::vkstash_store_value),
        b"vkstash_set_delete_on_destroy" => erased!(sessions::vkstash_set_delete_on_destroy),
        b"vkstash_get_session_desc" => erased!(sessions::vkstash_get_session_desc),
        b"vkstash_get_cache_support" => erased!(control::vkstash_get_cache_support),
        b"vkstash_cache_control" => erased!(control::vkstash_cache_control),
        b"vkstash_get_cache_statistics" => erased!(control::vkstash_get_cache_statistics),
        b"vkstash_set_background_mode" => erased!(background::vkstash_set_background_mode),
        b"vkstash_get_module_identifier" => erased!(identifiers::vkstash_get_module_identifier),
        _ => return None,
    })
}
