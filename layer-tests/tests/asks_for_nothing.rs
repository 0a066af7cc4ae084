//! Programs that create a device and no pipelines, on drivers whose caches keep nothing. There workers compile, and
//! vkDestroyDevice waits for the compile under way.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use vkstash_layer_tests::child::{Scenario, scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::report::Reports;
use vkstash_layer_tests::test_driver::TestDriver;
use vkstash_layer_tests::vulkan::{Device, Instance, InstanceOptions, spirv};
use vkstash_layer_tests::waiting::PATIENCE;
use vkstash_layer_tests::work::{self, Code, Done, Work};

const COUNT: u64 = 8;

/// Inline code, so that a program can create a pipeline without a module.
fn work() -> Work {
    Work { count: COUNT as u32, code: Code::Inline, ..Work::default() }
}

/// The test driver, which says that it is lavapipe and gives cache data without pipelines.
fn test_driver() -> Driver {
    Driver::Test(json!({ "cache_data": "header_only", "driver_id": 13 }))
}

/// The tasks in a trace.
fn tasks(trace: &Path) -> usize {
    let text = std::fs::read_to_string(trace).unwrap_or_default();
    text.lines().filter(|line| line.contains("\"cat\":\"task\"")).count()
}

/// Creates a device, and what the input names on it. Then workers get time, as long as they need where tasks are
/// expected.
fn creates(input: &Value) -> Value {
    let (trace, what): (PathBuf, String) = serde_json::from_value(input.clone()).unwrap();
    let work = Work { first: 100, count: 1, ..work() };
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let device = Arc::new(Device::new(&instance, &work.device_options()).unwrap());
    match what.as_str() {
        "nothing" => std::thread::sleep(Duration::from_millis(300)),
        "layouts" => {
            device.compute_layout();
            device.cache(&[]);
            std::thread::sleep(Duration::from_millis(300));
        }
        "module" => _ = device.module(&spirv::compute(1)),
        "pipeline" => assert!(work.run(&device).all_made()),
        other => panic!("{other}"),
    }
    let (began, expects) = (Instant::now(), ["module", "pipeline"].contains(&what.as_str()));
    // The plan, one task that makes each pipeline, and one that finds nothing more to make.
    while expects && tasks(&trace) < COUNT as usize + 2 {
        assert!(began.elapsed() < PATIENCE, "{what}: {} tasks", tasks(&trace));
        std::thread::sleep(Duration::from_millis(5));
    }
    json!(null)
}

/// Runs the program with two workers. Answers with the report and the number of tasks.
fn run(scenario: &Scenario, env: &Env, what: &str) -> (Reports, usize) {
    let trace = scenario.folder().join(format!("{}-{what}.json", env.driver().name()));
    let env = env.clone().var("VKSTASH_BACKGROUND_WORKERS", "2").var("VKSTASH_TRACE", &trace);
    let ended = scenario.run_ok::<Value>("creates", &env, &(&trace, what));
    (ended.reports, tasks(&trace))
}

#[test]
fn workers_begin_once_the_program_has_created_a_module_or_a_pipeline() {
    scenario(&[("work", work::step), ("creates", creates)], |scenario| {
        for driver in [test_driver(), Driver::Lavapipe] {
            let Some(env) = scenario.on(driver.clone()) else { continue };
            let env = env.stash(scenario.folder().join(driver.name()));
            scenario.run_ok::<Done>("work", &env, &work());
            for (what, made) in [("nothing", 0), ("layouts", 0), ("module", COUNT), ("pipeline", COUNT)] {
                let (reports, tasks) = run(scenario, &env, what);
                let counters = reports.counters();
                assert_eq!(reports.sum("parked_unasked"), made, "{}, {what}: {counters:?}", driver.name());
                assert_eq!(tasks == 0, made == 0, "{}, {what}: {tasks} tasks", driver.name());
            }
        }
    });
}

/// Each call of a worker takes long, and the device is destroyed at once.
fn leaves_at_once(_: &Value) -> Value {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let driver = TestDriver::open();
    let slow = json!({ "command": "vkCreateComputePipelines", "hang_ms": 3_000, "result": -13 });
    driver.control(&json!({ "faults": [slow] }));
    let device = Device::new(&instance, &work().device_options()).unwrap();
    device.module(&spirv::compute(1));
    let is_creating = |record: &Value| {
        let calls = record["calls"].as_array().unwrap().iter();
        calls.filter(|call| call["command"] == "vkCreateComputePipelines").count()
    };
    let (began, mut before) = (Instant::now(), 0);
    while before == 0 {
        assert!(began.elapsed() < PATIENCE, "no worker begins");
        std::thread::sleep(Duration::from_millis(1));
        before = is_creating(&driver.take_record());
    }
    drop(device);
    let record = driver.take_record();
    assert_eq!(record["violations"], json!([]), "{record}");
    json!(before + is_creating(&record))
}

#[test]
fn a_device_that_is_destroyed_waits_only_for_the_calls_under_way() {
    scenario(&[("work", work::step), ("leaves", leaves_at_once)], |scenario| {
        let env = scenario.on(test_driver()).unwrap();
        scenario.run_ok::<Done>("work", &env, &work());
        let env = env.var("VKSTASH_BACKGROUND_WORKERS", "2");
        let calls = scenario.run_ok::<u64>("leaves", &env, &()).value;
        assert!(calls <= 2, "{calls} of {COUNT}: two workers have one under way each");
    });
}

/// Creates a device and a module, and waits until a worker has made so many pipelines.
fn looks(input: &Value) -> Value {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let device = Device::new(&instance, &work().device_options()).unwrap();
    let (trace, parked): (PathBuf, usize) = serde_json::from_value(input.clone()).unwrap();
    device.module(&spirv::compute(1));
    let began = Instant::now();
    // The plan, one task that makes each pipeline, and one that finds nothing more to make.
    while tasks(&trace) < parked + 2 {
        assert!(began.elapsed() < PATIENCE, "{} tasks", tasks(&trace));
        std::thread::sleep(Duration::from_millis(5));
    }
    json!(null)
}

/// A worker is started for few pipelines, too.
#[test]
fn few_pipelines_are_made_ahead_as_many_are() {
    scenario(&[("work", work::step), ("looks", looks)], |scenario| {
        let Some(env) = scenario.on(Driver::Radv) else { return };
        for count in [2, 20] {
            let env = env.clone().stash(scenario.folder().join(format!("stash {count}")));
            let work = Work { count, ..work() };
            // Artifacts that no driver has taken yet are not taken by a worker first.
            for _ in 0..2 {
                scenario.run_ok::<Done>("work", &env, &work);
            }
            let trace = scenario.folder().join(format!("{count}.json"));
            let env = env.var("VKSTASH_TRACE", &trace).without_var("VKSTASH_BACKGROUND_WORKERS");
            let ended = scenario.run_ok::<Value>("looks", &env, &(&trace, count));
            let counters = ended.reports.counters();
            assert_eq!(ended.reports.sum("parked_unasked"), u64::from(count), "{counters:?}");
        }
    });
}
