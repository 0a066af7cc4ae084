//! Output of lists.

use std::ffi::CStr;

use ash::vk;

/// Writes a list by the two-call rule.
///
/// # Safety
/// `count` is valid; `out` is NULL or has room for `*count` elements.
pub unsafe fn list<T: Copy>(items: &[T], count: *mut u32, out: *mut T) -> vk::Result {
    // SAFETY: the caller passes a valid count, and NULL or room for that many elements.
    unsafe {
        if out.is_null() {
            *count = items.len() as u32;
            return vk::Result::SUCCESS;
        }
        let given = items.len().min(*count as usize);
        std::ptr::copy_nonoverlapping(items.as_ptr(), out, given);
        *count = given as u32;
        if given < items.len() { vk::Result::INCOMPLETE } else { vk::Result::SUCCESS }
    }
}

/// An entry of an extension list.
pub fn extension(name: &CStr) -> vk::ExtensionProperties {
    vk::ExtensionProperties::default().spec_version(1).extension_name(name).unwrap_or_default()
}
