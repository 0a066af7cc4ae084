//! Tests of the sources of the mode of background work, and of the tasks in a trace.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use vkstash_layer_tests::child::{Run, Scenario, scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::folder::configure;
use vkstash_layer_tests::suite::run;
use vkstash_layer_tests::vulkan::{Device, Instance, InstanceOptions};
use vkstash_layer_tests::work::{self, Done, Work};
use vkstash_store::stash::inspect::list_applications;

const COUNT: u64 = 4;

fn work() -> Work {
    Work { count: COUNT as u32, ..Work::default() }
}

/// The lines of the trace with this name.
fn traced(path: &Path, name: &str) -> usize {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().filter(|line| line.contains(&format!("\"name\":\"{name}\""))).count()
}

/// Creates a device, gives workers some time, and then does the work. Where tasks are expected, the time is what they
/// need: one that makes each pipeline, and one that finds nothing more to make.
fn late(input: &Value) -> Value {
    let (trace, expects): (PathBuf, bool) = serde_json::from_value(input.clone()).unwrap();
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let device = Arc::new(Device::new(&instance, &work().device_options()).unwrap());
    let began = Instant::now();
    let is_done = || expects && traced(&trace, "park") > COUNT as usize;
    let limit = Duration::from_millis(if expects { 500_000 } else { 500 });
    while !is_done() && began.elapsed() < limit {
        std::thread::sleep(Duration::from_millis(5));
    }
    serde_json::to_value(work().run(&device)).unwrap()
}

/// Runs the program with two workers, and answers with the trace.
fn watched(scenario: &Scenario, env: &Env, name: &str, expects: bool) -> (Run<Done>, PathBuf) {
    let trace = scenario.folder().join(format!("{name}.json"));
    let env = env.clone().var("VKSTASH_BACKGROUND_WORKERS", "2").var("VKSTASH_TRACE", &trace);
    (scenario.run_ok("late", &env, &(&trace, expects)), trace)
}

/// A program whose pipelines were recorded, and then taken by the driver.
fn used_before(test: impl FnOnce(&Scenario, &Env)) {
    scenario(&[("work", work::step), ("late", late)], |scenario| {
        let env = scenario.on(Driver::Test(json!({}))).unwrap();
        (0..2).for_each(|_| drop(run(scenario, &env, &work())));
        test(scenario, &env);
    });
}

#[test]
fn tasks_are_events_of_threads_with_a_name() {
    used_before(|scenario, env| {
        let (ended, trace) = watched(scenario, env, "trace", true);
        assert_eq!(ended.reports.sum("parked"), COUNT, "{:?}", ended.reports.counters());
        let text = std::fs::read_to_string(&trace).unwrap();
        let complete = format!("{}]", text.strip_suffix(",\n").unwrap());
        let events: Vec<Value> =
            serde_json::from_str(&complete).unwrap_or_else(|error| panic!("{error}: {text}"));
        let tasks: Vec<_> = events.iter().filter(|event| event["cat"] == "task").collect();
        assert_eq!(tasks.iter().filter(|task| task["name"] == "plan").count(), 1, "{text}");
        for task in tasks {
            assert!(task["ph"] == "X" && task["dur"].is_f64() && task["ts"].is_f64(), "{task}");
            let is_name = |event: &&Value| event["ph"] == "M" && event["tid"] == task["tid"];
            let names: Vec<_> = events.iter().filter(is_name).map(|event| &event["args"]["name"]).collect();
            assert_eq!(names, ["vkstash-worker"], "{text}");
        }
    });
}

#[test]
fn the_stored_mode_counts_the_applications_before_that_of_all_and_the_environment_before_both() {
    used_before(|scenario, env| {
        let root = env.stash_folder();
        let application = list_applications(&root).unwrap().remove(0).folder;
        let own = |mode: &str| format!("[application.{application}]\nbackground = '{mode}'\n");
        let parks = |name: &str, env: &Env, expected: bool| {
            let (ended, trace) = watched(scenario, env, name, expected);
            let counts = ["parked", "served"].map(|name| ended.reports.sum(name));
            let expected_counts = if expected { [COUNT, 0] } else { [0, COUNT] };
            assert_eq!(counts, expected_counts, "{name}: {:?}", ended.reports.counters());
            assert_eq!(traced(&trace, "plan"), usize::from(expected), "{name}");
        };
        configure(&root, "background = 'disabled'\n");
        parks("root", env, false);
        configure(&root, &format!("background = 'disabled'\n{}", own("allowed")));
        parks("application", env, true);
        configure(&root, &format!("background = 'allowed'\n{}", own("profiling")));
        parks("profiling", env, false);
        parks("environment", &env.clone().var("VKSTASH_BACKGROUND", "intrusive"), true);
        configure(&root, &format!("background = 'allowed'\n{}", own("intrusive")));
        parks("disabled", &env.clone().var("VKSTASH_BACKGROUND", "disabled"), false);
    });
}
