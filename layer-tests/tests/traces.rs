//! The file that VKSTASH_TRACE names.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use vkstash_layer_tests::child::{Scenario, scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::suite::{on, run, run_to_any_end};
use vkstash_layer_tests::vulkan::{Device, DeviceOptions, Instance, InstanceOptions};
use vkstash_layer_tests::work::{self, End, Work};

const COUNT: u32 = 3;
/// Slow enough that each compile is traced.
const COMPILE_US: u64 = 3000;

fn slow() -> Driver {
    Driver::Test(json!({ "compile_us": COMPILE_US }))
}

fn traced(scenario: &Scenario, env: &Env) -> (PathBuf, Env) {
    let path = scenario.folder().join("trace.json");
    (path.clone(), env.clone().var("VKSTASH_TRACE", &path))
}

/// The events of a trace, which lacks nothing but the bracket at its end. Each has the fields that the format demands.
fn events(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    let complete = format!("{}]", text.strip_suffix(",\n").unwrap_or_else(|| panic!("{text}")));
    let events: Vec<Value> =
        serde_json::from_str(&complete).unwrap_or_else(|error| panic!("{error}: {text}"));
    for event in &events {
        assert!(event["ts"].as_f64().is_some_and(|ts| ts >= 0.0), "{event}");
        assert!(event["pid"].is_u64() && event["tid"].is_u64() && event["args"].is_object(), "{event}");
        assert!(event["name"].as_str().is_some_and(|name| !name.is_empty()), "{event}");
        match event["ph"].as_str() {
            Some("X") => {
                assert!(event["dur"].as_f64().is_some_and(|dur| dur >= 0.0), "{event}");
                assert!(matches!(event["cat"].as_str(), Some("task" | "creation" | "pipeline")), "{event}");
                // Shorter calls would be noise.
                assert!(event["cat"] != "creation" || event["dur"].as_f64().unwrap() >= 1000.0, "{event}");
            }
            Some("M") => {
                assert!(event["name"] == "thread_name" && event["args"]["name"].is_string(), "{event}")
            }
            _ => panic!("{event}"),
        }
    }
    events
}

fn calls(events: &[Value]) -> Vec<&Value> {
    events.iter().filter(|event| event["cat"] == "creation").collect()
}

fn numbers(events: &[Value], field: &str) -> BTreeSet<u64> {
    events.iter().map(|event| event[field].as_u64().unwrap()).collect()
}

#[test]
fn slow_creation_calls_are_complete_events_of_their_threads() {
    on(slow(), |scenario, env| {
        let (path, env) = traced(scenario, env);
        run(scenario, &env, &Work { count: COUNT, ..Work::default() });
        let first = events(&path);
        let compiled = calls(&first);
        assert_eq!(compiled.len(), COUNT as usize, "{first:?}");
        for call in &compiled {
            assert_eq!(
                (&call["name"], &call["args"]["count"]),
                (&json!("vkCreateComputePipelines"), &json!(1))
            );
            assert!(call["dur"].as_f64().unwrap() >= COMPILE_US as f64, "{call}");
        }
        let one_after_the_other = compiled.windows(2).all(|pair| {
            pair[0]["ts"].as_f64().unwrap() + pair[0]["dur"].as_f64().unwrap()
                <= pair[1]["ts"].as_f64().unwrap()
        });
        assert!(one_after_the_other, "{first:?}");
        for thread in numbers(&first, "tid") {
            let names = first.iter().filter(|event| event["ph"] == "M" && event["tid"] == thread).count();
            assert_eq!(names, 1, "{first:?}");
        }
        assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o600);

        // Another process goes on in the same file.
        run(scenario, &env, &Work { first: 100, count: COUNT, ..Work::default() });
        let both = events(&path);
        assert_eq!((calls(&both).len(), numbers(&both, "pid").len()), (2 * COUNT as usize, 2), "{both:?}");
    });
}

/// Each pipeline says what was tried for it, and what each took.
#[test]
fn each_pipeline_says_what_was_tried_for_it() {
    on(Driver::Test(json!({})), |scenario, env| {
        let (path, env) = traced(scenario, env);
        for (last, expected) in [("compiled", "compile"), ("stash had it", "stash")] {
            let _ = fs::remove_file(&path);
            run(scenario, &env, &Work { count: COUNT, ..Work::default() });
            let all = events(&path);
            let pipelines: Vec<_> = all.iter().filter(|event| event["cat"] == "pipeline").collect();
            assert_eq!(pipelines.len(), COUNT as usize, "{all:?}");
            for pipeline in pipelines {
                assert_eq!(pipeline["name"], last, "{pipeline}");
                let args = ["tried", "why", "key"].map(|name| pipeline["args"][name].as_str().unwrap());
                assert!(args[0].starts_with("parked had nothing ") && args[0].contains(", "), "{pipeline}");
                assert!(args[1] != "unknown" && args[2].len() == 32, "{expected}: {pipeline}");
            }
        }
    });
}

#[test]
fn processes_that_start_together_share_one_array() {
    on(slow(), |scenario, env| {
        let (path, env) = traced(scenario, env);
        let start = |number: u32| {
            let work = Work { first: number * 100, count: COUNT, ..Work::default() };
            scenario.start("work", &env.clone().report(scenario.folder().join(number.to_string())), &work)
        };
        let running: Vec<_> = (0..4).map(start).collect();
        running.into_iter().for_each(|running| _ = running.wait().ok());
        let all = events(&path);
        assert_eq!((calls(&all).len(), numbers(&all, "pid").len()), (4 * COUNT as usize, 4), "{all:?}");
    });
}

#[test]
fn a_killed_process_leaves_a_trace() {
    on(slow(), |scenario, env| {
        let (path, env) = traced(scenario, env);
        let work = Work { count: COUNT, end: End::Kill(0), ..Work::default() };
        assert_eq!(run_to_any_end(scenario, &env, &work).signal(), Some(libc::SIGKILL));
        assert_eq!(calls(&events(&path)).len(), COUNT as usize);
    });
}

/// A child that goes on with its parent's device, and one that only exits.
fn forks(_: &Value) -> Value {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let device = Device::new(&instance, &DeviceOptions::default()).unwrap();
    assert!(Work::default().run(&device).all_made());
    for goes_on in [true, false] {
        // SAFETY: the child makes the calls that children of real programs make, and its parent waits for it.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                let work = Work { first: 900, ..Work::default() };
                let is_well = !goes_on || work.run(&device).all_made();
                libc::exit(if is_well { 0 } else { 1 });
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(child, &mut status, 0), child);
            assert_eq!(status, 0);
        }
    }
    assert!(Work { first: 200, ..Work::default() }.run(&device).all_made());
    json!(std::process::id())
}

#[test]
fn a_forked_child_writes_nothing_to_its_parents_trace() {
    scenario(&[("forks", forks), ("work", work::step)], |scenario| {
        let Some(env) = scenario.on(slow()) else { return };
        let (path, env) = traced(scenario, &env);
        let parent: u64 = scenario.run_ok("forks", &env, &()).value;
        let all = events(&path);
        assert_eq!(numbers(&all, "pid"), BTreeSet::from([parent]), "{all:?}");
        assert_eq!(calls(&all).len(), 2 * COUNT as usize, "{all:?}");
    });
}

#[test]
fn what_is_no_trace_of_the_users_is_left_alone() {
    on(slow(), |scenario, env| {
        let at = |name: &str| scenario.folder().join(name);
        let (target, link, dangling, pipe, other) =
            (at("target"), at("link"), at("dangling"), at("pipe"), at("other"));
        fs::write(&target, "[\n").unwrap();
        fs::write(&other, "theirs").unwrap();
        symlink(&target, &link).unwrap();
        symlink(at("not-there"), &dangling).unwrap();
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for (number, path) in [&link, &dangling, &pipe, &other, &at("no/folder")].into_iter().enumerate() {
            let env = env.clone().var("VKSTASH_TRACE", path);
            let work = Work { first: 100 * number as u32, ..Work::default() };
            let said = run(scenario, &env, &work).stderr;
            let refusal = format!("vkstash: warn: {}: ", path.display());
            let line =
                said.lines().find(|line| line.starts_with(&refusal)).unwrap_or_else(|| panic!("{said}"));
            assert!(line.ends_with("; no trace is written"), "{line}");
        }
        let untouched = [(&target, "[\n"), (&other, "theirs")];
        assert!(untouched.iter().all(|(path, text)| fs::read_to_string(path).unwrap() == *text));
        assert!(!at("not-there").exists());
    });
}

/// A trace file that grows beyond RLIMIT_FSIZE, with the signals' default actions, as most programs have them.
fn limited(_: &Value) -> Value {
    // SAFETY: valid arguments.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_DFL);
        let limit = libc::rlimit { rlim_cur: 300, rlim_max: libc::RLIM_INFINITY };
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &limit), 0);
    }
    work::step(&json!(Work { count: 10, ..Work::default() }))
}

#[test]
fn a_trace_that_cannot_grow_ends_and_raises_no_signal() {
    scenario(&[("limited", limited), ("work", work::step)], |scenario| {
        let Some(env) = scenario.on(slow()) else { return };
        let (path, env) = traced(scenario, &env);
        scenario.run("limited", &env, &()).ok();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("[\n{") && text.len() == 300, "{text}");
    });
}

#[test]
fn without_a_name_there_is_no_file() {
    on(slow(), |scenario, env| {
        run(scenario, &env.clone().var("VKSTASH_TRACE", ""), &Work::default());
        let mut names: Vec<_> =
            fs::read_dir(scenario.folder()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.retain(|name| name.to_string_lossy().contains("trace"));
        assert!(names.is_empty(), "{names:?}");
    });
}
