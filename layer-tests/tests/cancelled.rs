//! Threads of the program that end inside the layer or the driver. One that is cancelled (pthread_cancel) ends at the
//! program's own cancellation point; one that a signal handler ends, as Wine does with the threads of a Windows program
//! whose process ends, ends at once, and alone.

use std::ffi::c_void;
use std::path::PathBuf;
use std::ptr;

use serde_json::{Value, json};

use vkstash_host::unwinding;
use vkstash_layer_tests::child::scenario;
use vkstash_layer_tests::env::Driver;
use vkstash_layer_tests::test_driver::TestDriver;
use vkstash_layer_tests::vulkan::{Device, Instance, InstanceOptions};
use vkstash_layer_tests::waiting::until;
use vkstash_layer_tests::work::{Done, Shader, Work};

unsafe extern "C" {
    fn pthread_setcancelstate(state: libc::c_int, before: *mut libc::c_int) -> libc::c_int;
}

/// Creates pipelines on a thread that was cancelled, and reaches no cancellation point of its own meanwhile.
fn make(_: &Value) -> Value {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let work = Work { count: 20, ..Work::default() };
    let device = Device::new(&instance, &work.device_options()).unwrap();
    let done = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: pthread_self names the calling thread, which is alive.
            assert_eq!(unsafe { libc::pthread_cancel(libc::pthread_self()) }, 0);
            let done = work.run(&device);
            let mut before = 0;
            // SAFETY: PTHREAD_CANCEL_DISABLE, and a valid pointer for the previous state.
            unsafe { pthread_setcancelstate(1, &mut before) };
            assert_eq!(before, 0, "the program's own state is as it was");
            done
        });
        thread.join().unwrap()
    });
    json!(done)
}

#[test]
fn a_cancelled_thread_finishes_its_pipelines_first() {
    scenario(&[("make", make)], |scenario| {
        for driver in [Driver::Test(json!({})), Driver::Radv] {
            let Some(env) = scenario.on(driver.clone()) else { continue };
            let env = env.stash(scenario.folder().join(driver.name()));
            for _ in 0..3 {
                let done = scenario.run_ok::<Done>("make", &env, &()).value;
                assert!(done.all_made(), "{done:?}");
            }
        }
    });
}

/// What a thread needs that ends in the driver.
struct Ending {
    device: Device,
    work: Work,
}

extern "C" fn compile(ending: *mut c_void) -> *mut c_void {
    // SAFETY: the caller waits for this thread before it drops these.
    let Ending { device, work } = unsafe { &*ending.cast::<Ending>() };
    work.run(device);
    ptr::null_mut()
}

/// The signal's handler.
extern "C" fn end_this_thread(_: libc::c_int) {
    // SAFETY: what this thread still owns stays as it is, as in Wine.
    unsafe { libc::pthread_exit(5 as *mut c_void) }
}

/// Ends a thread while the driver compiles for it, and goes on.
fn end_in_the_driver(input: &Value) -> Value {
    let (shader, in_driver): (Shader, PathBuf) = serde_json::from_value(input.clone()).unwrap();
    // This program's own frames, which its threads have as well.
    unwinding::let_forced_unwinds_pass();
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let driver = TestDriver::open();
    let work = Work { shader, ..Work::default() };
    let device = Device::new(&instance, &work.device_options()).unwrap();
    let ending = Ending { device, work };
    let faults = ["vkCreateComputePipelines", "vkCreateGraphicsPipelines"]
        .map(|command| json!({ "command": command, "touch": in_driver, "hang_ms": 600_000 }));
    driver.control(&json!({ "faults": faults }));
    let mut result = ptr::null_mut();
    // SAFETY: the handler ends the thread that it interrupts, which is joined before `ending` is dropped.
    unsafe {
        libc::signal(libc::SIGUSR1, end_this_thread as extern "C" fn(libc::c_int) as libc::sighandler_t);
        let mut thread = std::mem::zeroed();
        let argument = ptr::from_ref(&ending).cast_mut().cast();
        assert_eq!(libc::pthread_create(&mut thread, ptr::null(), compile, argument), 0);
        until("the driver has the call", || in_driver.exists());
        assert_eq!(libc::pthread_kill(thread, libc::SIGUSR1), 0);
        assert_eq!(libc::pthread_join(thread, &mut result), 0);
    }
    assert_eq!(result as usize, 5);
    driver.control(&json!({ "faults": [] }));
    json!(ending.work.run(&ending.device))
}

#[test]
fn a_thread_that_a_signal_handler_ends_in_the_driver_ends_alone() {
    scenario(&[("end", end_in_the_driver)], |scenario| {
        let env = scenario.on(Driver::Test(json!({}))).unwrap();
        for shader in [Shader::Compute, Shader::RenderPass] {
            let in_driver = scenario.folder().join(format!("{shader:?} in driver"));
            let done = scenario.run_ok::<Done>("end", &env, &(shader, in_driver)).value;
            assert!(done.all_made(), "{done:?}");
        }
    });
}
