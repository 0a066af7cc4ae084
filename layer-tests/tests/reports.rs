//! Reports of runs: what was counted reaches them, whatever it was and however the program ends.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends at the first surprise")]

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use VkLayer_vkstash::config;
use VkLayer_vkstash::store::inspect::list_applications;
use VkLayer_vkstash::store::totals::Totals;
use vkstash_layer_tests::child::{self, Scenario, scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::report::Reports;
use vkstash_layer_tests::vulkan::{Device, DeviceOptions, Instance, InstanceOptions};
use vkstash_layer_tests::work::Work;

/// No test measures with it.
const PATIENCE: Duration = Duration::from_secs(60);

fn device() -> Device {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    Device::new(&instance, &DeviceOptions::default()).unwrap()
}

/// The threads of the layer's in this process.
fn own_threads() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    names.map(|name| name.trim().to_owned()).filter(|name| name.starts_with("vkstash")).collect()
}

/// What a program does before it ends without a word.
#[derive(Clone, Serialize, Deserialize)]
struct Killed {
    work: Work,
    /// How many pipelines the report must have by then, whatever came of them.
    count: u64,
    /// SIGKILL, or else `_exit`.
    kill: bool,
}

fn asked(reports: &Reports) -> u64 {
    let all = ["served", "driver_had", "compiled", "compiled_unrecorded", "compile_required", "bypassed"];
    all.iter().map(|counter| reports.sum(counter)).sum()
}

/// Works twice, with a pause, waits for the report, and is killed.
fn killed(input: &Value) -> Value {
    let Killed { work, count, kill } = serde_json::from_value(input.clone()).unwrap();
    let device = device();
    let before = own_threads();
    work.run(&device);
    // Nothing of this is recorded on these drivers; the report has to come by itself.
    std::thread::sleep(Duration::from_millis(300));
    work.run(&device);
    let folder = PathBuf::from(std::env::var_os(config::REPORT).unwrap());
    let started = Instant::now();
    while asked(&Reports::read(&folder)) < count && started.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(10));
    }
    child::answer(&json!(before));
    // SAFETY: ends the process; nothing of it is needed any more.
    unsafe {
        if kill {
            libc::kill(libc::getpid(), libc::SIGKILL);
        }
        libc::_exit(0)
    }
}

/// All runs in the stash.
fn totals(env: &Env) -> Totals {
    let [application] = list_applications(&env.stash_folder()).unwrap().try_into().unwrap();
    application.runs
}

fn total(totals: &Totals, counter: &str) -> u64 {
    totals.devices.iter().filter_map(|device| device.counters.get(counter)).sum()
}

/// The report of a program that ends without a word has what it counted, in both places.
fn assert_reported(scenario: &Scenario, env: &Env, work: &Work, counter: &str) {
    for (number, kill) in [true, false].into_iter().enumerate() {
        let env = env.clone().report(scenario.folder().join(format!("{counter}-{number}")));
        let count = 2 * u64::from(work.count);
        let outcome = scenario.run("killed", &env, &Killed { work: work.clone(), count, kill });
        assert_eq!(outcome.signal(), kill.then_some(libc::SIGKILL), "{}", outcome.ending());
        assert_eq!(outcome.value, json!([]), "a thread before the first pipeline");
        assert_eq!(outcome.reports.0.len(), 1, "{}", outcome.ending());
        assert_eq!(outcome.reports.sum(counter), count, "{:?}", outcome.reports);
        let runs = totals(&env);
        assert_eq!(runs.runs, number as u64 + 1);
        // The two files are written one after the other.
        assert!(total(&runs, counter) >= count * runs.runs - u64::from(work.count), "{runs:?}");
    }
}

#[test]
fn a_killed_program_on_a_driver_that_keeps_nothing_is_reported() {
    for driver in [Driver::Lavapipe, Driver::Test(json!({ "cache_data": "header_only" }))] {
        scenario(&[("killed", killed)], |scenario| {
            let Some(env) = scenario.on(driver) else { return };
            let work = Work { count: 12, ..Work::default() };
            assert_reported(scenario, &env, &work, "compiled_unrecorded");
        });
    }
}

#[test]
fn a_killed_program_whose_pipelines_are_all_bypassed_is_reported() {
    for driver in [Driver::Radv, Driver::Test(json!({}))] {
        scenario(&[("killed", killed)], |scenario| {
            let Some(env) = scenario.on(driver) else { return };
            let work = Work { unknown_structure: true, ..Work::default() };
            assert_reported(scenario, &env, &work, "bypassed");
        });
    }
}

/// Several devices, one after the other, of one program.
fn devices_in_turn(input: &Value) -> Value {
    let count = input.as_u64().unwrap();
    let made = |_| Work::default().run(&device()).all_made();
    json!((0..count).map(made).collect::<Vec<_>>())
}

#[test]
fn a_process_with_several_devices_is_one_run() {
    for driver in [Driver::Radv, Driver::Lavapipe] {
        scenario(&[("devices", devices_in_turn)], |scenario| {
            let Some(env) = scenario.on(driver.clone()) else { return };
            for run in 1..=2 {
                let outcome = scenario.run_ok::<Vec<bool>>("devices", &env, &4);
                assert_eq!(outcome.value, [true; 4]);
                let [report] = outcome.reports.0.as_slice() else { panic!("{:?}", outcome.reports) };
                assert_eq!(report.devices.len(), 1, "{report:?}");
                assert_eq!(asked(&outcome.reports), 12, "{report:?}");
                let runs = totals(&env);
                assert_eq!(runs.runs, run, "{runs:?}");
                let counted =
                    total(&runs, "served") + total(&runs, "compiled") + total(&runs, "compiled_unrecorded");
                assert_eq!(counted, 12 * run, "{runs:?}");
                if driver == Driver::Radv && run == 1 {
                    // Each device's store wrote something, and the report has all of it.
                    let (all, last) = (&report.store, outcome.reports.store());
                    assert_eq!(all, &last);
                    assert_eq!(total(&runs, "compiled"), 3, "{runs:?}");
                    assert!(all.written_records >= 10, "{all:?}");
                }
            }
        });
    }
}
