//! Frames: what a program presents tells in which frame its pipelines were created.

use std::time::Instant;

use ash::vk;
use serde_json::{Value, json};
use vkstash_layer_tests::child::scenario;
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::vulkan::{Device, DeviceOptions, Instance, InstanceOptions};
use vkstash_layer_tests::work::Work;
use vkstash_store::reports::timeline::{self, Timeline};
use vkstash_store::stash::inspect::list_applications;

fn device(extensions: Vec<&'static std::ffi::CStr>) -> Device {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    Device::new(&instance, &DeviceOptions { extensions, ..DeviceOptions::default() }).unwrap()
}

fn present_command(device: &Device) -> Option<vk::PFN_vkQueuePresentKHR> {
    let get = device.instance.raw.fp_v1_0().get_device_proc_addr;
    // SAFETY: a live device; the pointer is cast to the type that belongs to the name.
    unsafe {
        let found = get(device.raw.handle(), c"vkQueuePresentKHR".as_ptr())?;
        Some(std::mem::transmute::<unsafe extern "system" fn(), vk::PFN_vkQueuePresentKHR>(found))
    }
}

/// A pipeline in each of the frames 0 to 2, and none in the next.
fn presents(_: &Value) -> Value {
    let device = device(vec![ash::khr::swapchain::NAME]);
    let present = present_command(&device).unwrap();
    // SAFETY: the device was created with this queue.
    let queue = unsafe { device.raw.get_device_queue(0, 0) };
    for first in 0..4 {
        let work = Work { first, count: u32::from(first < 3), ..Work::default() };
        assert!(work.run(&device).all_made());
        // SAFETY: a live queue; the driver of this test wants no swapchain.
        let result = unsafe { present(queue, &vk::PresentInfoKHR::default()) };
        assert_eq!(result, vk::Result::SUBOPTIMAL_KHR, "the driver's own answer");
    }
    json!(true)
}

fn presents_nothing(_: &Value) -> Value {
    let device = device(Vec::new());
    assert!(present_command(&device).is_none(), "the driver has no such command on this device");
    assert!(Work { count: 1, ..Work::default() }.run(&device).all_made());
    json!(true)
}

pub fn last_timeline(env: &Env) -> Timeline {
    let root = env.stash_folder();
    let [application] = <[_; 1]>::try_from(list_applications(&root).unwrap()).unwrap();
    timeline::all(&root, &application.folder).swap_remove(0)
}

#[test]
fn creations_know_their_frames_and_slow_frames_are_noted() {
    scenario(&[("presents", presents), ("presents nothing", presents_nothing)], |scenario| {
        let script = json!({ "extensions": ["VK_KHR_swapchain"], "compile_us": 2000 });
        let Some(env) = scenario.on(Driver::Test(script)) else { return };
        scenario.run_ok::<Value>("presents", &env, &json!(null));
        let timeline = last_timeline(&env);
        let frames: Vec<_> = timeline.creations.iter().map(|creation| creation.frame).collect();
        assert_eq!(frames, [0, 1, 2], "{timeline:?}");
        // A frame is as long as the compile in it, at least.
        let slow: Vec<_> =
            timeline.frames.iter().map(|frame| (frame.number, frame.tenths >= 20_000)).collect();
        assert_eq!(slow, [(1, true), (2, true)], "{timeline:?}");
        // What is served takes no millisecond of compiling, and a program that presents nothing has no frames.
        scenario.run_ok::<Value>("presents nothing", &env, &json!(null));
        let timeline = last_timeline(&env);
        assert!(timeline.creations.iter().all(|creation| creation.frame == 0), "{timeline:?}");
        assert!(timeline.creations.len() == 1 && timeline.frames.is_empty(), "{timeline:?}");
    });
}

/// Nanoseconds that a presentation takes.
fn presents_often(_: &Value) -> Value {
    const TIMES: u32 = 200_000;
    let device = device(vec![ash::khr::swapchain::NAME]);
    let present = present_command(&device).unwrap();
    // SAFETY: the device was created with this queue.
    let queue = unsafe { device.raw.get_device_queue(0, 0) };
    let began = Instant::now();
    for _ in 0..TIMES {
        // SAFETY: a live queue; the driver of this test wants no swapchain.
        let _ = unsafe { present(queue, &vk::PresentInfoKHR::default()) };
    }
    json!(began.elapsed().as_nanos() as f64 / f64::from(TIMES))
}

/// Prints what a presentation takes with the layer and without, in turns; for an optimised build
/// (`cargo test --release -p vkstash-layer-tests --test layer what_presenting_costs -- --ignored --nocapture`).
#[test]
#[ignore = "prints figures"]
fn what_presenting_costs() {
    scenario(&[("presents often", presents_often)], |scenario| {
        let Some(env) = scenario.on(Driver::Test(json!({ "extensions": ["VK_KHR_swapchain"] }))) else {
            return;
        };
        let nanos = |env: &Env| scenario.run_ok::<f64>("presents often", env, &json!(null)).value;
        for _ in 0..7 {
            let (with, without) = (nanos(&env), nanos(&env.clone().without_layer()));
            println!("{with:.0} ns with the layer, {without:.0} ns without");
        }
    });
}
