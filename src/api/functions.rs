//! The exported function that finds the others by name. `include/vkstash.h` is made of this file: the comments of
//! functions are written for C.

use std::ffi::{CStr, c_char};

use super::{background, control, functions as own, identifiers, sessions};
use vkstash_host::guard::guard;

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

/// The names of the functions, in lines, and the functions in the same order. A `match` is three times as large.
macro_rules! functions {
    ($($module:ident::$name:ident,)*) => {
        const NAMES: &str = concat!($(stringify!($name), "\n"),*);
        static FUNCTIONS: &[VkstashFunction] = &[
            // SAFETY: a function's address, which is never NULL; whoever calls it casts it to the type that the header
            // has.
            $(unsafe { std::mem::transmute::<*const (), VkstashFunction>($module::$name as *const ()) },)*
        ];
    };
}

functions!(
    own::vkstash_get_proc_addr,
    sessions::vkstash_create_session,
    sessions::vkstash_destroy_session,
    sessions::vkstash_find_value,
    sessions::vkstash_store_value,
    sessions::vkstash_set_delete_on_destroy,
    sessions::vkstash_get_session_desc,
    control::vkstash_get_cache_support,
    control::vkstash_cache_control,
    control::vkstash_get_cache_statistics,
    background::vkstash_set_background_mode,
    identifiers::vkstash_get_module_identifier,
);

/// [`vkstash_get_proc_addr`].
pub fn of_name(name: &CStr) -> Option<VkstashFunction> {
    let name = name.to_bytes();
    let at = NAMES.lines().position(|known| known.as_bytes() == name)?;
    FUNCTIONS.get(at).copied()
}
