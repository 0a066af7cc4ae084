//! Control of the programmable test driver, from inside a step that runs on it.

use std::ffi::{CStr, CString, c_char, c_int, c_void};

use serde_json::Value;

use crate::paths;
use crate::waiting::until;

type Control = unsafe extern "C" fn(*const c_char) -> c_int;
type TakeRecord = unsafe extern "C" fn() -> *mut c_char;
type Free = unsafe extern "C" fn(*mut c_char);

/// The driver's library, which the loader has opened too: a process has one copy.
pub struct TestDriver(*mut c_void);

impl TestDriver {
    /// Opens the library. Call it while an instance is alive, so that the copy is the loader's.
    pub fn open() -> TestDriver {
        let path = paths::test_driver_library().expect("the test driver is built");
        let path = CString::new(path.to_str().expect("a readable path")).expect("no NUL in a path");
        // SAFETY: a NUL-terminated path; the library's initialisation has no preconditions.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!handle.is_null(), "{} cannot be loaded", path.to_string_lossy());
        TestDriver(handle)
    }

    /// # Safety
    /// `F` is the type of the function that the driver exports under this name.
    unsafe fn function<F: Copy>(&self, name: &CStr) -> F {
        // SAFETY: the library is open, and the name NUL-terminated.
        let symbol = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        assert!(!symbol.is_null(), "the test driver does not export {}", name.to_string_lossy());
        assert_eq!(size_of::<F>(), size_of::<*mut c_void>());
        // SAFETY: function pointers of all types have one representation; the caller guarantees the type.
        unsafe { std::mem::transmute_copy(&symbol) }
    }

    /// Changes how the driver behaves from now on.
    pub fn control(&self, change: &Value) {
        let text = CString::new(change.to_string()).expect("JSON holds no NUL");
        // SAFETY: the exported function takes a NUL-terminated string.
        let result = unsafe { self.function::<Control>(c"vkstash_test_icd_control")(text.as_ptr()) };
        assert_eq!(result, 0, "the test driver refused {change}");
    }

    /// What the driver recorded since the last call: calls, violations, compiles, hits, and live pipelines.
    pub fn take_record(&self) -> Value {
        // SAFETY: the exported functions give a NUL-terminated string and free it.
        unsafe {
            let text = self.function::<TakeRecord>(c"vkstash_test_icd_take_record")();
            assert!(!text.is_null(), "the test driver has no record");
            let record = serde_json::from_slice(CStr::from_ptr(text).to_bytes()).expect("a record in JSON");
            self.function::<Free>(c"vkstash_test_icd_free")(text);
            record
        }
    }
}

impl TestDriver {
    /// Waits until workers have created so many compute pipelines since the last [`TestDriver::take_record`].
    pub fn wait_for_workers(&self, pipelines: u64) {
        let mut made = 0;
        until("workers make so many pipelines", || {
            let record = self.take_record();
            let calls = record["calls"].as_array().expect("calls").iter();
            // The first thread that calls the driver is the program's.
            let by_workers = calls.filter(|call| call["thread"] != 1 && call["result"] == 0);
            made += by_workers.filter(|call| call["command"] == "vkCreateComputePipelines").count() as u64;
            made >= pipelines
        });
    }
}

impl Drop for TestDriver {
    fn drop(&mut self) {
        // SAFETY: opened by us, closed once; the loader holds its own reference.
        unsafe { libc::dlclose(self.0) };
    }
}
