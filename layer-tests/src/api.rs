//! The C API, found in the layer that this process has loaded.

use std::ffi::{CString, c_char, c_void};
use std::mem::transmute;
use std::os::unix::ffi::OsStrExt as _;

use serde::{Deserialize, Serialize};

use crate::paths;

/// VKSTASH_CACHE_KIND_IMPLICIT_FOR_DRIVER.
pub const COMPILATIONS: u32 = 0x1;
/// VKSTASH_CACHE_KIND_IMPLICIT_CONVERSIONS.
pub const CONVERSIONS: u32 = 0x2;
/// VKSTASH_CACHE_KIND_IMPLICIT_DRIVER_MANAGED.
pub const DRIVER_MANAGED: u32 = 0x4;
/// VKSTASH_CACHE_CONTROL_DISABLE.
pub const DISABLE: u32 = 0x1;
/// VKSTASH_CACHE_CONTROL_ENABLE.
pub const ENABLE: u32 = 0x2;
/// VKSTASH_CACHE_CONTROL_CLEAR.
pub const CLEAR: u32 = 0x4;

/// VkstashCacheStatistics.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statistics {
    /// Objects created, from a cache or not.
    pub created: u64,
    /// Objects created without the stash.
    pub missed_in_stash: u64,
    /// Objects that no cache had: the driver compiled them.
    pub missed_anywhere: u64,
}

/// The library's functions, looked up by name.
pub struct Api(*mut c_void);

impl Api {
    /// The library that the Vulkan loader loads: the same file, and so the same library.
    ///
    /// # Panics
    /// If it cannot be loaded.
    pub fn load() -> Api {
        let path = CString::new(paths::layer_library().as_os_str().as_bytes()).expect("a path without zeros");
        // SAFETY: a C string; the library's initialisers are those of Rust's standard library.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        assert!(!library.is_null(), "{path:?}");
        Api(library)
    }

    /// A function of the header.
    fn function(&self, name: &str) -> *mut c_void {
        let name = CString::new(name).expect("a name without zeros");
        // SAFETY: an open library and a C string.
        let found = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        assert!(!found.is_null(), "{name:?}");
        found
    }

    /// In a build with debug assertions: has each lock told that a thread takes in the library, from now on.
    pub fn observe(&self, observer: extern "C" fn(*const u8, usize)) {
        type Observe = unsafe extern "C" fn(extern "C" fn(*const u8, usize));
        // SAFETY: src/faults.rs declares the function so.
        unsafe {
            let function: Observe = transmute(self.function("vkstash_test_observe"));
            function(observer);
        }
    }

    /// vkstash_cache_control, with the name that [`crate::vulkan::InstanceOptions`] has.
    pub fn control(&self, kinds: u32, control: u32) -> i32 {
        type Control = unsafe extern "C" fn(u32, u32, *const c_char) -> i32;
        // SAFETY: the header declares the function so; the name is a C string or NULL.
        unsafe {
            let function: Control = transmute(self.function("vkstash_cache_control"));
            function(kinds, control, c"vkstash-tests".as_ptr())
        }
    }

    /// vkstash_set_background_mode: the result, and whether further measurements are desired.
    pub fn set_background_mode(&self, mode: u32, action: u32, event: i32) -> (i32, u32) {
        type SetMode = unsafe extern "C" fn(u32, u32, i32, *mut u32) -> i32;
        let mut further = 0;
        // SAFETY: the header declares the function so; the number is on this stack.
        let result = unsafe {
            let function: SetMode = transmute(self.function("vkstash_set_background_mode"));
            function(mode, action, event, &mut further)
        };
        (result, further)
    }

    /// vkstash_get_cache_statistics of what is compiled.
    pub fn statistics(&self) -> Statistics {
        type Statistic = unsafe extern "C" fn(u32, *mut Statistics) -> i32;
        let mut statistics = Statistics::default();
        // SAFETY: the header declares the function so; the statistics are on this stack.
        let result = unsafe {
            let function: Statistic = transmute(self.function("vkstash_get_cache_statistics"));
            function(COMPILATIONS, &mut statistics)
        };
        assert_eq!(result, 0);
        statistics
    }

    /// vkstash_get_module_identifier: the identifier, and the UUID of the algorithm.
    pub fn identifier(&self, code: &[u32]) -> ([u8; 32], [u8; 16]) {
        #[repr(C)]
        struct Identifier([u8; 32], [u8; 16]);
        type Query = unsafe extern "C" fn(u32, *const u32, usize, *mut Identifier) -> i32;
        let mut identifier = Identifier([0; 32], [0; 16]);
        // SAFETY: the header declares the function so; the code is a slice, and the identifier is on this stack.
        let result = unsafe {
            let function: Query = transmute(self.function("vkstash_get_module_identifier"));
            function(0, code.as_ptr(), size_of_val(code), &mut identifier)
        };
        assert_eq!(result, 0);
        (identifier.0, identifier.1)
    }

    /// A session on disk with this version, and defaults otherwise.
    pub fn session(&self, version: u64) -> Session<'_> {
        #[repr(C)]
        struct Desc {
            identifier: [u8; 16],
            mode: u32,
            flags: u32,
            sizes: [u32; 4],
            version: u64,
        }
        type Create = unsafe extern "C" fn(*const Desc, *const c_void, *const c_char, *mut u64) -> i32;
        let desc = Desc { identifier: *b"translator tests", mode: 1, flags: 0, sizes: [0; 4], version };
        let mut handle = 0;
        // SAFETY: the header declares the function so; description and handle are on this stack.
        let result = unsafe {
            let function: Create = transmute(self.function("vkstash_create_session"));
            function(&desc, std::ptr::null(), c"vkstash-tests".as_ptr(), &mut handle)
        };
        assert_eq!(result, 0);
        Session { api: self, handle }
    }
}

/// A session, destroyed when it is dropped.
pub struct Session<'a> {
    api: &'a Api,
    handle: u64,
}

impl Session<'_> {
    /// vkstash_find_value, called twice: for the size and for the value.
    pub fn find(&self, key: &[u8]) -> Option<Vec<u8>> {
        type Find = unsafe extern "C" fn(u64, *const u8, usize, *mut u8, *mut usize) -> i32;
        let mut size = 0;
        // SAFETY: the header declares the function so; key, value and size are live, with the lengths that are passed.
        unsafe {
            let function: Find = transmute(self.api.function("vkstash_find_value"));
            let found = function(self.handle, key.as_ptr(), key.len(), std::ptr::null_mut(), &mut size);
            if found == NOT_FOUND {
                return None;
            }
            assert_eq!(found, 0);
            let mut value = vec![0; size];
            assert_eq!(function(self.handle, key.as_ptr(), key.len(), value.as_mut_ptr(), &mut size), 0);
            Some(value)
        }
    }

    /// vkstash_store_value.
    pub fn store(&self, key: &[u8], value: &[u8]) {
        type Store = unsafe extern "C" fn(u64, *const u8, usize, *const u8, usize) -> i32;
        // SAFETY: the header declares the function so; key and value are live, with the lengths that are passed.
        let result = unsafe {
            let function: Store = transmute(self.api.function("vkstash_store_value"));
            function(self.handle, key.as_ptr(), key.len(), value.as_ptr(), value.len())
        };
        assert_eq!(result, 0);
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        type Destroy = unsafe extern "C" fn(u64) -> i32;
        // SAFETY: the header declares the function so.
        unsafe {
            let function: Destroy = transmute(self.api.function("vkstash_destroy_session"));
            function(self.handle);
        }
    }
}

/// VKSTASH_ERROR_NOT_FOUND.
const NOT_FOUND: i32 = -3;
