//! Drivers that answer workers otherwise than they should, and programs that do what workers do not expect.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use vkstash_layer_tests::child::{Step, scenario};
use vkstash_layer_tests::env::Driver;
use vkstash_layer_tests::test_driver::TestDriver;
use vkstash_layer_tests::vulkan::{Device, Instance, InstanceOptions};
use vkstash_layer_tests::waiting::{self, until};
use vkstash_layer_tests::work::{self, Shader, Work};

use super::parked_found::{COUNT, met, work};

const STEPS: &[(&str, Step)] = &[("work", work::step), ("asks", asks), ("loses", loses), ("two", two)];

fn creations(driver: &TestDriver) -> u64 {
    let record = driver.take_record();
    assert_eq!(record["violations"], json!([]), "{record}");
    let calls = record["calls"].as_array().unwrap().iter();
    calls.filter(|call| call["command"] == "vkCreateComputePipelines").count() as u64
}

/// The step: the driver answers workers with the input's fault until they have given up, after so many questions or
/// because they have ended, and the program as usual where the fault is an answer. One that takes long stays: a quick
/// answer would have workers ask for more.
/// Answers with what the driver was asked by workers.
fn asks(input: &Value) -> Value {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let driver = TestDriver::open();
    let mut fault = json!({ "command": "vkCreateComputePipelines" });
    fault.as_object_mut().unwrap().extend(input["fault"].as_object().unwrap().clone());
    let wanted = input["asked"].as_u64().unwrap();
    let is_slow = fault["result"].is_null();
    driver.control(&json!({ "faults": [fault] }));
    let device = Device::new(&instance, &work(Shader::Compute).device_options()).unwrap();
    let mut asked = 0;
    until("workers give up", || {
        asked += creations(&driver);
        // What was made, though slowly, keeps a worker that may have to release it.
        let has_made = is_slow && asked >= wanted;
        asked > 0 && (has_made || waiting::own_workers() == 0)
    });
    if !is_slow {
        driver.control(&json!({ "faults": null }));
    }
    assert!(work(Shader::Compute).run(&device).all_made());
    json!(asked)
}

/// What computes for long is asked for once, what waits for long a few times; what fails or is not there costs nobody a
/// compile.
#[test]
fn a_driver_that_answers_workers_badly_is_left_to_the_program() {
    scenario(STEPS, |scenario| {
        let error = -3; // VK_ERROR_INITIALIZATION_FAILED
        let required = 1_000_297_000; // VK_PIPELINE_COMPILE_REQUIRED
        let made = ["parked", "parked_unasked"];
        for (fault, asked, names) in [
            (json!({ "burn_ms": 50 }), 1, &made[..]),
            // The driver may have waited for the program: as often as for what is not there.
            (json!({ "hang_ms": 50 }), 8, &made),
            (json!({ "result": error }), COUNT, &["parking_failed"]),
            // Eight in vain, and then one in 64.
            (json!({ "result": required }), 8, &["found_no_more"]),
        ] {
            let env = met(scenario, &format!("{fault}"), Shader::Compute);
            // How long an answer takes is the point here.
            let env = env.without_var("VKSTASH_TEST_UNHURRIED").var("VKSTASH_TEST_BUSY", "0");
            // Two would have one question more under way when the last one is answered.
            let env = env.var("VKSTASH_BACKGROUND_WORKERS", "1");
            let run = scenario.run_ok::<u64>("asks", &env, &json!({ "fault": fault, "asked": asked }));
            let counters = run.reports.counters();
            let answered: u64 = names.iter().map(|name| run.reports.sum(name)).sum();
            assert_eq!(answered, asked, "{fault}: {counters:?}");
            // What was made is recorded, too.
            assert!(run.value == asked || names == made, "{fault}: {counters:?}");
            let [parked, had, compiled] =
                ["parked", "driver_had", "compiled"].map(|name| run.reports.sum(name));
            assert_eq!((parked + had, compiled), (COUNT, 0), "{fault}: {counters:?}");
        }
    });
}

/// The step: the driver's cache is deleted once a worker has had something of it, and the program goes on at once.
fn loses(input: &Value) -> Value {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let driver = TestDriver::open();
    let device = Device::new(&instance, &work(Shader::Compute).device_options()).unwrap();
    let after = input["after"].as_u64().unwrap();
    let mut asked = 0;
    until("workers ask", || {
        asked += creations(&driver);
        asked >= after
    });
    driver.control(&json!({ "disk_cache": false }));
    let done = work(Shader::Compute).run(&device);
    assert!(done.all_made());
    json!(null)
}

#[test]
fn the_drivers_cache_may_be_deleted_while_workers_ask_for_it() {
    scenario(STEPS, |scenario| {
        for after in [1, 3, COUNT] {
            let env = met(scenario, &format!("after {after}"), Shader::Compute);
            let run = scenario.run_ok::<Value>("loses", &env, &json!({ "after": after }));
            let counters = run.reports.counters();
            let names = ["parked", "driver_had", "compiled"].map(|name| run.reports.sum(name));
            assert_eq!(names.iter().sum::<u64>(), COUNT, "{counters:?}");
            assert_eq!(run.reports.sum("failed"), 0, "{counters:?}");
        }
    });
}

/// What each of the two devices makes.
fn of_two() -> [Work; 2] {
    [
        Work { count: 8, ..Work::default() },
        Work { count: 8, first: 500, features: vec![0], ..Work::default() },
    ]
}

/// The step: two devices with other features, alive at a time, each with its own pipelines. If the input says so, after
/// workers have made them.
fn two(input: &Value) -> Value {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let (mut devices, mut tasks) = (Vec::new(), 0);
    for work in of_two() {
        devices.push((Arc::new(Device::new(&instance, &work.device_options()).unwrap()), work));
        if input["waits"] == true {
            let trace = std::env::var_os("VKSTASH_TRACE").expect("a traced run");
            // One task for each pipeline, and one task that finds nothing more.
            tasks += 9;
            until("workers make everything", || waiting::tasks(Path::new(&trace), "park") >= tasks);
        }
    }
    json!(devices.iter().all(|(device, work)| work.run(device).all_made()))
}

#[test]
fn two_devices_have_plans_of_their_own() {
    scenario(STEPS, |scenario| {
        let disk = scenario.folder().join("disk");
        let driver = json!({ "driver_id": 99, "disk_cache": true, "disk_cache_dir": disk });
        let env = scenario.on(Driver::Test(driver)).unwrap();
        assert!(scenario.run_ok::<bool>("two", &env, &json!({})).value);
        let env = env.var("VKSTASH_BACKGROUND_WORKERS", "2");
        let env = env.var("VKSTASH_TRACE", scenario.folder().join("trace"));
        let run = scenario.run_ok::<bool>("two", &env, &json!({ "waits": true }));
        let counters = run.reports.counters();
        let [parked, late, unplanned, unkept] =
            ["parked", "asked_first", "not_planned", "not_kept"].map(|name| run.reports.sum(name));
        // A task may look for what is not read yet, so that the last pipeline is in the making.
        assert_eq!((parked + late, unplanned, unkept), (16, 0, 0), "{counters:?}");
        assert!(run.value && parked > 8, "{counters:?}");
    });
}
