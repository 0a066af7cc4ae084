//! What background work makes ahead: the plan, where the stash is read later than the device is created.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends at the first surprise")]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use vkstash_layer_tests::child::scenario;
use vkstash_layer_tests::env::Driver;
use vkstash_layer_tests::suite::run;
use vkstash_layer_tests::vulkan::{Device, Instance, InstanceOptions};
use vkstash_layer_tests::work::{self, Work};

const COUNT: u64 = 8;
/// A limit for waiting; no test measures with it.
const PATIENCE: Duration = Duration::from_secs(60);

fn work() -> Work {
    Work { count: COUNT as u32, ..Work::default() }
}

/// How many pipelines workers have begun to make.
fn parked(trace: &Path) -> usize {
    let text = std::fs::read_to_string(trace).unwrap_or_default();
    text.lines().filter(|line| line.contains("\"name\":\"park\"")).count()
}

/// Creates a device, and destroys it once workers have made everything.
fn waits(input: &Value) -> Value {
    let trace: PathBuf = serde_json::from_value(input.clone()).unwrap();
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let _device = Device::new(&instance, &work().device_options()).unwrap();
    let began = Instant::now();
    while parked(&trace) <= COUNT as usize && began.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(5));
    }
    json!(null)
}

#[test]
fn what_is_read_after_the_time_for_opening_is_parked_as_well() {
    scenario(&[("work", work::step), ("waits", waits)], |scenario| {
        let env = scenario.on(Driver::Test(json!({}))).unwrap();
        (0..2).for_each(|_| drop(run(scenario, &env, &work())));
        for round in 0..5 {
            let trace = scenario.folder().join(format!("{round}.json"));
            let env = env.clone().var("VKSTASH_BACKGROUND_WORKERS", "2").var("VKSTASH_TRACE", &trace);
            let ended = scenario.run_ok::<Value>("waits", &env.var("VKSTASH_OPEN_MS", "0"), &trace);
            let counters = ended.reports.counters();
            assert!(ended.reports.refused().contains_key("put_off"), "{:?}", ended.reports.refused());
            assert_eq!(ended.reports.sum("parked_unasked"), COUNT, "{round}: {counters:?}");
        }
    });
}
