//! The layer's writer reads and writes files and calls no driver. Workers do (parked.rs), and begin nothing in this
//! suite.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use vkstash_layer_tests::child::scenario;
use vkstash_layer_tests::env::Driver;
use vkstash_layer_tests::test_driver::TestDriver;
use vkstash_layer_tests::vulkan::{Device, Instance, InstanceOptions};
use vkstash_layer_tests::work::Work;

const COUNT: u32 = 12;
const READ: &str = "vkGetPipelineCacheData";

/// The threads that called commands whose name contains this, in order.
fn threads(record: &Value, name: &str) -> Vec<u64> {
    let calls = record["calls"].as_array().unwrap().iter();
    let those = calls.filter(|call| call["command"].as_str().unwrap().contains(name));
    those.map(|call| call["thread"].as_u64().unwrap()).collect()
}

fn append(all: &mut Value, record: &Value) {
    assert_eq!(record["violations"], json!([]), "{record}");
    let calls = record["calls"].as_array().unwrap().clone();
    all["calls"].as_array_mut().unwrap().extend(calls);
}

/// Creates pipelines without a cache, `times` times, and ends as `end` says. Answers with the driver's compiles, and
/// with the threads that created pipelines, and those that did anything with caches.
fn make(input: &Value) -> Value {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let driver = TestDriver::open();
    let work = Work { count: COUNT, ..Work::default() };
    let device = Arc::new(Device::new(&instance, &work.device_options()).unwrap());
    driver.control(&json!({ "faults": input["faults"] }));
    let mut all = json!({ "calls": [] });
    let mut compiles = 0;
    for _ in 0..input["times"].as_u64().unwrap_or(1) {
        std::thread::scope(|scope| {
            for _ in 0..input["threads"].as_u64().unwrap_or(1) {
                scope.spawn(|| assert!(work.run(&device).all_made()));
            }
        });
        let record = driver.take_record();
        compiles += record["compiles"].as_u64().unwrap();
        append(&mut all, &record);
    }
    if input["lingers"] == true {
        // The writer looks every 50 ms.
        std::thread::sleep(Duration::from_millis(300));
        append(&mut all, &driver.take_record());
    }
    match input["end"].as_str() {
        Some("instance") => {
            // SAFETY: the specification requires the device to be destroyed first. Programs that do not are common,
            // and loaders tolerate it.
            unsafe { instance.raw.destroy_instance(None) };
            std::mem::forget((device, instance));
            append(&mut all, &driver.take_record());
            std::thread::sleep(Duration::from_millis(400));
            let later = driver.take_record();
            assert_eq!(later["calls"], json!([]), "the driver may be gone");
        }
        Some("exit") => {
            std::mem::forget((device, instance));
        }
        _ => {
            drop((device, instance));
            append(&mut all, &driver.take_record());
        }
    }
    let creating = threads(&all, "vkCreateComputePipelines");
    json!({ "compiles": compiles, "creating": creating, "caches": threads(&all, "PipelineCache") })
}

fn numbers(value: &Value) -> Vec<u64> {
    value.as_array().unwrap().iter().map(|number| number.as_u64().unwrap()).collect()
}

fn late(ms: u64) -> Value {
    json!([{ "command": READ, "hang_ms": ms }])
}

/// Drivers call the program's allocation callbacks for the layer's caches too, hold locks that a forked child inherits,
/// and are unloaded when an instance or the process ends. So no thread of the layer's may be inside one.
#[test]
fn the_writer_calls_no_driver() {
    scenario(&[("make", make)], |scenario| {
        let env = scenario.on(Driver::Test(json!({}))).unwrap();
        for (run, count) in [("cold", "compiled"), ("warm", "served")] {
            let outcome = scenario.run_ok::<Value>("make", &env, &json!({ "faults": [], "lingers": true }));
            let (caches, creating) = (numbers(&outcome.value["caches"]), numbers(&outcome.value["creating"]));
            assert!(caches.len() >= COUNT as usize, "{run}: {}", outcome.value);
            assert!(caches.iter().all(|thread| creating.contains(thread)), "{run}: {}", outcome.value);
            assert_eq!(outcome.reports.sum(count), u64::from(COUNT), "{:?}", outcome.reports.counters());
        }
    });
}

#[test]
fn a_pipeline_that_is_requested_again_at_once_is_compiled_once() {
    scenario(&[("make", make)], |scenario| {
        for (number, ms) in [0, 3].into_iter().enumerate() {
            let env = scenario.on(Driver::Test(json!({}))).unwrap();
            let env = env.stash(scenario.folder().join(format!("stash {number}")));
            let again = json!({ "faults": late(ms), "times": 3 });
            let first = scenario.run_ok::<Value>("make", &env, &again);
            assert_eq!(first.value["compiles"], COUNT, "{}", first.value);
            let counts = ["compiled", "served", "dropped"].map(|name| first.reports.sum(name));
            assert_eq!(counts, [COUNT.into(), 2 * u64::from(COUNT), 0], "{:?}", first.reports.counters());
        }
    });
}

#[test]
fn several_threads_that_compile_the_same_pipelines_leave_one_artifact_of_each() {
    scenario(&[("make", make)], |scenario| {
        let env = scenario.on(Driver::Test(json!({}))).unwrap();
        let threads = json!({ "faults": late(1), "times": 2, "threads": 4 });
        let first = scenario.run_ok::<Value>("make", &env, &threads);
        assert_eq!(first.reports.sum("dropped"), 0, "{:?}", first.reports.counters());
        let warm = scenario.run_ok::<Value>("make", &env, &json!({ "faults": [] }));
        assert_eq!(warm.reports.sum("served"), u64::from(COUNT), "{:?}", warm.reports.counters());
    });
}

/// However the program ends, and however long the driver takes to read.
#[test]
fn the_last_compiles_are_recorded_and_no_unloaded_driver_is_called() {
    scenario(&[("make", make)], |scenario| {
        for (number, (end, ms)) in
            [("device", 0), ("device", 20), ("exit", 0), ("exit", 1), ("instance", 0), ("instance", 30)]
                .into_iter()
                .enumerate()
        {
            let env = scenario.on(Driver::Test(json!({}))).unwrap();
            let env = env.stash(scenario.folder().join(format!("stash {number}")));
            let first = scenario.run_ok::<Value>("make", &env, &json!({ "faults": late(ms), "end": end }));
            assert_eq!(first.value["compiles"], COUNT, "{}", first.value);
            let warm = scenario.run_ok::<Value>("make", &env, &json!({ "faults": [] }));
            let served = warm.reports.sum("served");
            assert_eq!(served, u64::from(COUNT), "{end}, {ms} ms: {:?}", warm.reports.counters());
        }
    });
}
