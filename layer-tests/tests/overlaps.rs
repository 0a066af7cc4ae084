//! Workers beside the program's calls that must be alone: those that create or destroy an instance or a device, of any
//! in the process. The programmable driver ends the process where a worker's call overlaps one of them
//! (layer-tests/icd/src/overlap.rs), in every suite; here they meet as often as can be had.

use std::sync::Arc;
use std::time::Instant;

use ash::ext::{debug_marker, debug_utils};
use ash::vk;
use ash::vk::Handle;
use serde_json::{Value, json};

use vkstash_layer_tests::child::{Scenario, scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::test_driver::TestDriver;
use vkstash_layer_tests::vulkan::{Device, DeviceOptions, Instance, InstanceOptions};
use vkstash_layer_tests::waiting::until;
use vkstash_layer_tests::work::{self, Done, Work};

const COUNT: u32 = 100;

fn work() -> Work {
    Work { count: COUNT, ..Work::default() }
}

/// An environment whose stash has artifacts that were taken, with background work.
fn filled(scenario: &Scenario) -> Env {
    let script = json!({ "extensions": ["VK_EXT_debug_marker"] });
    let env = scenario.on(Driver::Test(script)).expect("the programmable driver is always there");
    for count in ["compiled", "served"] {
        let run = scenario.run_ok::<Done>("work", &env, &work());
        assert_eq!(run.reports.sum(count), u64::from(COUNT), "{:?}", run.reports.counters());
    }
    env.var("VKSTASH_BACKGROUND_WORKERS", "2")
}

/// How many pipelines the driver was asked for since the last look.
fn made(driver: &TestDriver) -> usize {
    let record = driver.take_record();
    assert_eq!(record["violations"], json!([]), "{record}");
    let calls = record["calls"].as_array().unwrap().iter();
    calls.filter(|call| call["command"] == "vkCreateComputePipelines").count()
}

/// Names or tags a device, with one of the commands that can.
fn name_or_tag(instance: &Instance, device: &Device, command: u32) {
    let raw = device.raw.handle();
    let names = debug_utils::Device::new(&instance.raw, &device.raw);
    let markers = debug_marker::Device::new(&instance.raw, &device.raw);
    let kind = vk::DebugReportObjectTypeEXT::DEVICE;
    let name = vk::DebugUtilsObjectNameInfoEXT::default().object_handle(raw).object_name(c"the device");
    let tag = vk::DebugUtilsObjectTagInfoEXT::default().object_handle(raw).tag(b"a tag");
    let marker = vk::DebugMarkerObjectNameInfoEXT::default().object_type(kind).object(raw.as_raw());
    let marker_name = marker.object_name(c"the device");
    let marker_tag = vk::DebugMarkerObjectTagInfoEXT::default().object_type(kind).object(raw.as_raw());
    let marker_tag = marker_tag.tag(b"a tag");
    // SAFETY: a live device, which no other thread of the program uses, and valid structures.
    let result = unsafe {
        match command {
            0 => names.set_debug_utils_object_name(&name),
            1 => names.set_debug_utils_object_tag(&tag),
            2 => (markers.fp().debug_marker_set_object_name_ext)(raw, &marker_name).result(),
            _ => (markers.fp().debug_marker_set_object_tag_ext)(raw, &marker_tag).result(),
        }
    };
    result.unwrap();
}

/// Names and tags a device, and creates and destroys instances and other devices, while workers are in the driver
/// nearly always; they begin for the new devices, too.
fn in_turn(_: &Value) -> Value {
    let options = InstanceOptions { extensions: vec![debug_utils::NAME], ..InstanceOptions::default() };
    let instance = Instance::new(&options).unwrap();
    let driver = TestDriver::open();
    driver.control(&json!({ "compile_us": 0, "faults": [
        { "command": "vkCreateComputePipelines", "hang_ms": 5 },
        { "command": "vkCreateDevice", "hang_ms": 5 },
        { "command": "vkDestroyDevice", "hang_ms": 5 },
        { "command": "vkCreateInstance", "hang_ms": 5 },
        { "command": "vkDestroyInstance", "hang_ms": 5 },
    ] }));
    let mut options = work().device_options();
    options.extensions.push(debug_marker::NAME);
    let device = Device::new(&instance, &options).unwrap();
    let make_device = |of: &Arc<Instance>| drop(Device::new(of, &DeviceOptions::default()).unwrap());
    let mut all = 0;
    for round in 0.. {
        let before = all;
        until("workers make pipelines", || {
            all += made(&driver);
            all > before || all >= COUNT as usize
        });
        if all >= COUNT as usize {
            break;
        }
        match round % 6 {
            4 => make_device(&Instance::new(&InstanceOptions::default()).unwrap()),
            5 => make_device(&instance),
            command => name_or_tag(&instance, &device, command),
        }
    }
    assert!(work().run(&device).all_made());
    json!(null)
}

#[test]
fn no_worker_is_in_a_driver_while_an_instance_or_a_device_is_made_destroyed_or_named() {
    scenario(&[("work", work::step), ("in turn", in_turn)], |scenario| {
        let run = scenario.run_ok::<Value>("in turn", &filled(scenario), &());
        let [parked, served] = ["parked", "served"].map(|count| run.reports.sum(count));
        let counters = run.reports.counters();
        assert!(parked > 0 && parked + served == u64::from(COUNT), "{counters:?}");
    });
}

/// A worker's call does not end. Two more devices are created, and everything is destroyed. How long the first and the
/// second vkCreateDevice take, in units of the time that a call of the program's waits, and whether the pipelines are
/// made.
fn beside_one_that_hangs(_: &Value) -> Value {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let driver = TestDriver::open();
    let hangs = json!({ "command": "vkCreateComputePipelines", "call": 3, "hang_ms": 3_600_000 });
    driver.control(&json!({ "faults": [hangs] }));
    let device = Device::new(&instance, &work().device_options()).unwrap();
    let mut all = 0;
    until("a worker comes to the call", || {
        all += made(&driver);
        all >= 3
    });
    let began = Instant::now();
    let first = Device::new(&instance, &DeviceOptions::default()).unwrap();
    let waited = began.elapsed();
    drop(Device::new(&instance, &DeviceOptions::default()).unwrap());
    drop(first);
    let other = Instance::new(&InstanceOptions::default()).unwrap();
    drop(other);
    let again = began.elapsed() - waited;
    let done = work().run(&device);
    drop(device);
    // The driver's thread is in the instance, so it stays.
    drop(instance);
    json!([waited.as_millis() as u64, again.as_millis() as u64, done.all_made()])
}

/// The program ends: neither its devices nor its instances wait for ever.
#[test]
fn a_worker_that_hangs_is_waited_for_once_and_its_device_and_instance_stay() {
    scenario(&[("work", work::step), ("hangs", beside_one_that_hangs)], |scenario| {
        let env = filled(scenario).without_var("VKSTASH_TEST_UNHURRIED").var("VKSTASH_TEST_BUSY", "0");
        let record = scenario.folder().join("record");
        let env = env.var("VKSTASH_TEST_ICD_RECORD", &record);
        let run = scenario.run_ok::<(u64, u64, bool)>("hangs", &env, &());
        let (waited, _, all_made) = run.value;
        assert!(waited >= 1000 && all_made, "{:?}", run.value);
        let record: Value = serde_json::from_str(&std::fs::read_to_string(record).unwrap()).unwrap();
        let calls = record["calls"].as_array().unwrap();
        let count = |command: &str| calls.iter().filter(|call| call["command"] == command).count();
        // Two devices are destroyed before the record is taken by vkDestroyInstance of the other instance; the third
        // one and the first instance are never.
        assert_eq!(count("vkDestroyDevice"), 2, "{calls:?}");
        assert_eq!(count("vkDestroyInstance"), 1, "{calls:?}");
    });
}
