//! Functions that tests call beside Vulkan.

use std::ffi::{CStr, CString, c_char};

use crate::{config, objects, proc_addr, record};

/// Merges the fields of a JSON object into the running script. Returns 0, or -1 with a violation that gives the
/// reason.
///
/// # Safety
/// `json` is NULL or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vkstash_test_icd_control(json: *const c_char) -> i32 {
    std::panic::catch_unwind(|| {
        if json.is_null() {
            return -1;
        }
        // SAFETY: the caller passes NULL, handled above, or a NUL-terminated string.
        let text = unsafe { CStr::from_ptr(json) }.to_string_lossy();
        match config::merge(&text, proc_addr::has) {
            Ok(()) => 0,
            Err(error) => {
                record::violation(format!("vkstash_test_icd_control: {error}"));
                -1
            }
        }
    })
    .unwrap_or(-1)
}

/// The record so far as JSON; a new record begins. Free it with `vkstash_test_icd_free`.
#[unsafe(no_mangle)]
pub extern "C" fn vkstash_test_icd_take_record() -> *mut c_char {
    std::panic::catch_unwind(|| {
        let record = record::take(objects::live_pipelines());
        CString::new(record).map_or(std::ptr::null_mut(), CString::into_raw)
    })
    .unwrap_or(std::ptr::null_mut())
}

/// Frees a record.
///
/// # Safety
/// `record` is NULL, or a result of `vkstash_test_icd_take_record` that was not passed here before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vkstash_test_icd_free(record: *mut c_char) {
    if !record.is_null() {
        // SAFETY: `vkstash_test_icd_take_record` made it with `into_raw`, and the caller passes it once.
        drop(unsafe { CString::from_raw(record) });
    }
}
