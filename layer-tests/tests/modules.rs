//! Memory that the creation of a shader module costs the program.
//!
//! A program of its own, because it defines malloc and its kin, so that allocations of the layer's own library are
//! counted too: by thread, because the writer copies on its own thread.
#![cfg(target_env = "gnu")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends at the first surprise")]

use std::cell::Cell;
use std::ffi::c_void;

use ash::vk;
use serde_json::{Value, json};

use vkstash_layer_tests::child::scenario;
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::vulkan::{Device, DeviceOptions, Instance, InstanceOptions};
use vkstash_layer_tests::work::Work;

/// Bytes of code in the modules.
const CODE: usize = 1 << 20;

unsafe extern "C" {
    fn __libc_malloc(size: usize) -> *mut c_void;
    fn __libc_calloc(count: usize, size: usize) -> *mut c_void;
    fn __libc_realloc(old: *mut c_void, size: usize) -> *mut c_void;
}

thread_local! {
    /// Number and bytes of this thread's allocations that are large enough for a module's code.
    static LARGE: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

fn note(size: usize) {
    if size >= CODE {
        // A thread whose local storage is destroyed is not counted.
        let _ = LARGE.try_with(|large| {
            let (count, bytes) = large.get();
            large.set((count + 1, bytes + size));
        });
    }
}

/// Replaces malloc of the C library.
///
/// # Safety
/// The conditions of the C library's malloc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc(size: usize) -> *mut c_void {
    note(size);
    // SAFETY: the caller's arguments are passed on to the C library's function.
    unsafe { __libc_malloc(size) }
}

/// Replaces calloc of the C library.
///
/// # Safety
/// The conditions of the C library's calloc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    note(count.saturating_mul(size));
    // SAFETY: the caller's arguments are passed on to the C library's function.
    unsafe { __libc_calloc(count, size) }
}

/// Replaces realloc of the C library.
///
/// # Safety
/// The conditions of the C library's realloc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(old: *mut c_void, size: usize) -> *mut c_void {
    note(size);
    // SAFETY: the caller's arguments are passed on to the C library's function.
    unsafe { __libc_realloc(old, size) }
}

/// Creates a module of the same code twice; gives the allocations of each.
fn creating(_: &Value) -> Value {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let device = Device::new(&instance, &DeviceOptions::default()).unwrap();
    // Once the stash has an artifact, modules are hashed at once.
    assert!(Work { count: 1, ..Work::default() }.run(&device).all_made());
    // Neither the layer nor this driver parses the code.
    let code: Vec<u32> = (0..CODE as u32 / 4).map(|word| word.wrapping_mul(0x9E37_79B9)).collect();
    let info = vk::ShaderModuleCreateInfo::default().code(&code);
    let costs = [(); 2].map(|()| {
        LARGE.set((0, 0));
        // SAFETY: a live device, and a create info that this driver accepts.
        let module = unsafe { device.raw.create_shader_module(&info, None) }.unwrap();
        let cost = LARGE.get();
        // SAFETY: created above, and not in use.
        unsafe { device.raw.destroy_shader_module(module, None) };
        cost
    });
    LARGE.set((0, 0));
    drop(code.clone());
    json!({ "costs": costs, "control": LARGE.get() })
}

#[test]
fn new_code_is_copied_once_and_known_code_never() {
    scenario(&[("create", creating)], |scenario| {
        let Some(env) = scenario.on(Driver::Test(json!({}))) else { return };
        let run = |env: &Env| scenario.run_ok::<Value>("create", env, &());
        let bare = run(&env.clone().without_layer()).value;
        assert_eq!(bare["costs"], json!([[0, 0], [0, 0]]), "this driver keeps no code");
        assert_eq!(bare["control"], json!([1, CODE]), "a copy is seen");
        let cold = run(&env);
        // The copy is the record, in which the flags precede the code.
        assert_eq!(cold.value["costs"], json!([[1, CODE + 4], [0, 0]]), "{:?}", cold.reports.counters());
        let warm = run(&env);
        assert_eq!(warm.value["costs"], json!([[0, 0], [0, 0]]), "{:?}", warm.reports.counters());
        assert_eq!(warm.reports.sum("modules_new"), 0);
    });
}
