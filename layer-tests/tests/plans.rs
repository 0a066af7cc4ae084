//! What background work makes ahead: the plan, where the stash is read later than the device is created, and how far
//! workers go through it.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use vkstash_layer_tests::child::scenario;
use vkstash_layer_tests::env::Driver;
use vkstash_layer_tests::suite::run;
use vkstash_layer_tests::test_driver::TestDriver;
use vkstash_layer_tests::vulkan::{Device, Instance, InstanceOptions};
use vkstash_layer_tests::waiting::until;
use vkstash_layer_tests::work::{self, Done, Work};

const COUNT: u64 = 8;

fn work() -> Work {
    Work { count: COUNT as u32, ..Work::default() }
}

/// Creates a device, and destroys it once workers have called the driver for everything.
fn waits(_: &Value) -> Value {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let driver = TestDriver::open();
    let _device = Device::new(&instance, &work().device_options()).unwrap();
    let mut made = 0;
    until("workers make everything", || {
        let record = driver.take_record();
        let calls = record["calls"].as_array().unwrap().iter();
        made += calls.filter(|call| call["command"] == "vkCreateComputePipelines").count() as u64;
        made >= COUNT
    });
    json!(null)
}

#[test]
fn what_is_read_after_the_time_for_opening_is_parked_as_well() {
    scenario(&[("work", work::step), ("waits", waits)], |scenario| {
        let env = scenario.on(Driver::Test(json!({}))).unwrap();
        (0..2).for_each(|_| drop(run(scenario, &env, &work())));
        for round in 0..5 {
            let env = env.clone().var("VKSTASH_BACKGROUND_WORKERS", "2").var("VKSTASH_OPEN_MS", "0");
            let ended = scenario.run_ok::<Value>("waits", &env, &());
            let counters = ended.reports.counters();
            assert!(ended.reports.refused().contains_key("put_off"), "{:?}", ended.reports.refused());
            assert_eq!(ended.reports.sum("parked_unasked"), COUNT, "{round}: {counters:?}");
        }
    });
}

/// The pipelines of all jobs together.
const ALL: u32 = 60;
/// Those of the small job.
const FEW: u32 = 3;

/// Asks for one pipeline after the other, each when workers have made it: those of the small job from the start on, and
/// the others once the program goes beyond it.
fn patient(input: &Value) -> Value {
    let work: Work = serde_json::from_value(input.clone()).unwrap();
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let driver = TestDriver::open();
    let device = Device::new(&instance, &work.device_options()).unwrap();
    let mut made = 0;
    let mut wait = |until: u32| {
        let began = Instant::now();
        while made < until.into() {
            if began.elapsed() > Duration::from_secs(1) {
                // The system has interrupted a worker, and the program has made the pipeline itself.
                made += 1;
            }
            std::thread::sleep(Duration::from_millis(1));
            let record = driver.take_record();
            let calls = record["calls"].as_array().unwrap().iter();
            let by_workers = calls.filter(|call| call["thread"] != 1);
            made += by_workers.filter(|call| call["command"] == "vkCreateComputePipelines").count() as u64;
        }
        // From the driver's answer to the end of the task.
        std::thread::sleep(Duration::from_millis(5));
    };
    wait(FEW.min(work.count));
    for number in 0..work.count {
        // The first one that the last run did not ask for is made by the program's own call.
        if number > FEW {
            wait(number);
        }
        assert!(Work { first: work.first + number, count: 1, ..work.clone() }.run(&device).all_made());
    }
    // What else they make now is made in vain.
    std::thread::sleep(Duration::from_millis(200));
    drop(device);
    json!(null)
}

#[test]
fn a_small_job_of_a_large_stash_has_made_what_it_asks_for_and_a_large_one_everything() {
    scenario(&[("work", work::step), ("patient", patient)], |scenario| {
        let env = scenario.on(Driver::Test(json!({}))).unwrap();
        let [few, all] = [FEW, ALL].map(|count| Work { count, ..Work::default() });
        for count in ["compiled", "served"] {
            assert_eq!(scenario.run_ok::<Done>("work", &env, &all).reports.sum(count), u64::from(ALL));
        }
        scenario.run_ok::<Done>("work", &env, &few);
        let env = env.var("VKSTASH_BACKGROUND_WORKERS", "2");
        // Handed over, and made in vain: the system may interrupt a worker before its task ends, so that the program
        // does not wait for it.
        let run = |work: &Work| {
            let ended = scenario.run_ok::<Value>("patient", &env, work);
            let made = ["parked", "parked_unasked"].map(|name| ended.reports.sum(name));
            assert_eq!(made[0] + ended.reports.sum("served"), u64::from(work.count));
            made
        };
        for _ in 0..3 {
            let [parked, unasked] = run(&few);
            assert_eq!(parked + unasked, u64::from(FEW), "and nothing else");
        }
        let [parked, unasked] = run(&all);
        assert!(parked > u64::from(ALL) * 3 / 4 && parked + unasked < u64::from(ALL), "{parked}, {unasked}");
    });
}
