//! Check that the layer, while it is in the driver, holds nothing that another thread waits for: a driver may call the
//! program. Builds of the layer with debug assertions know what they hold (crates/store/src/base/held.rs).

use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::record;

type Held = unsafe extern "C" fn(in_callback: bool, to: *mut u8, size: usize) -> usize;

static FUNCTION: AtomicUsize = AtomicUsize::new(0);

/// Looks for the layer's function. In vkCreateInstance: the loader asks for extensions before it has loaded the layers.
pub fn find() {
    // SAFETY: names with a NUL; a library that is loaded already, which is never unloaded.
    unsafe {
        let layer = libc::dlopen(c"libVkLayer_vkstash.so".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if !layer.is_null() {
            let symbol = libc::dlsym(layer, c"vkstash_test_held".as_ptr());
            FUNCTION.store(symbol.expose_provenance(), Ordering::Release);
        }
    }
}

/// If the calling thread holds something of the layer's, the process is aborted, so that no suite misses it.
pub fn check(place: &str, in_callback: bool) {
    let found: *mut c_void = std::ptr::with_exposed_provenance_mut(FUNCTION.load(Ordering::Acquire));
    if found.is_null() {
        return;
    }
    let mut name = [0; 256];
    // SAFETY: the layer exports a function of this type under this name, which is passed memory of that size.
    let length = unsafe {
        let held = std::mem::transmute::<*mut c_void, Held>(found);
        held(in_callback, name.as_mut_ptr(), name.len())
    };
    if length > 0 {
        eprintln!("test driver: {place} while the layer holds {}", String::from_utf8_lossy(&name[..length]));
        record::save();
        std::process::abort();
    }
}
