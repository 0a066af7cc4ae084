//! A thread of the program that is cancelled (pthread_cancel) ends at the program's own cancellation point, not
//! inside the layer.

use serde_json::{Value, json};

use vkstash_layer_tests::child::scenario;
use vkstash_layer_tests::env::Driver;
use vkstash_layer_tests::vulkan::{Device, Instance, InstanceOptions};
use vkstash_layer_tests::work::{Done, Work};

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
