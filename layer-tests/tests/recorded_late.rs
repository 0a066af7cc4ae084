//! Tests of pipelines that the driver had on a slow disk when the program asked: workers record them later, and later
//! runs are served.

use std::path::Path;
use std::time::{Duration, Instant};

use ash::vk;
use serde_json::{Value, json};

use vkstash_layer_tests::child::{Run, Scenario, Step, scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::folder::configure;
use vkstash_layer_tests::test_driver::TestDriver;
use vkstash_layer_tests::vulkan::{Device, Instance, InstanceOptions};
use vkstash_layer_tests::waiting::{self, until};
use vkstash_layer_tests::work::{self, Caches, Done, Shader, Work};
use vkstash_store::stash::inspect::list_applications;

const STEPS: &[(&str, Step)] =
    &[("work", work::step), ("program", program), ("bursts", bursts), ("forks", forks)];

const COUNT: u32 = 12;
const ALL: u64 = COUNT as u64;
/// The first pipeline goes through the program's cache while that is empty, and is recorded for nothing.
const LATE: u64 = ALL - 1;

/// VK_DRIVER_ID_MESA_RADV, VK_DRIVER_ID_NVIDIA_PROPRIETARY, and a driver that was never measured.
const RADV: u32 = 3;
const NVIDIA: u32 = 4;
const UNKNOWN: u32 = 99;

/// Graphics pipelines with one vertex shader, and a fragment shader each.
fn pipelines(caches: Caches) -> Work {
    Work { shader: Shader::DynamicRendering, count: COUNT, caches, ..Work::default() }
}

/// A driver with an entry for each shader, whose disk is slow beside a cache.
fn driver(scenario: &Scenario, id: u32) -> Value {
    json!({
        "driver_id": id,
        "disk_cache": true,
        "disk_cache_dir": scenario.folder().join("disk"),
        // Slow however fast the machine is: no hit in memory takes as long.
        "disk_entry_beside_us": 4000,
        "shader_entries": true,
    })
}

/// The layer with workers over a driver. What is slow depends on times here.
fn on(scenario: &Scenario, script: Value) -> Env {
    let env = scenario.on(Driver::Test(script)).unwrap();
    env.without_var("VKSTASH_TEST_UNHURRIED")
        .var("VKSTASH_TEST_BUSY", "0")
        .var("VKSTASH_BACKGROUND_WORKERS", "2")
}

/// [`on`] with a driver whose disk cache already has what `work` makes.
fn warm(scenario: &Scenario, script: Value, work: &Work) -> Env {
    let env = on(scenario, script);
    let run = scenario.run_ok::<Done>("work", &env.clone().without_layer(), work);
    assert!(run.value.all_made());
    env
}

/// The calls of a record that create pipelines.
fn creations(record: &Value) -> Vec<Value> {
    assert_eq!(record["violations"], json!([]), "{record}");
    let calls = record["calls"].as_array().unwrap().iter();
    calls.filter(|call| call["command"] == "vkCreateGraphicsPipelines").cloned().collect()
}

/// Waits until there is no task any more: a worker ends a second after its last one. On a busy machine one that was
/// just started may not have begun.
fn until_workers_end() {
    until("workers end", || waiting::unnamed_threads() + waiting::own_workers() == 0);
}

/// Creates the pipelines, and ends as the input says: "quiet" after workers have recorded everything, "device" and
/// "kill" while one is in the driver, and otherwise at once. Answers with what the driver was asked for by the program
/// and by workers.
fn program(input: &Value) -> Value {
    let work: Work = serde_json::from_value(input["work"].clone()).unwrap();
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let device = Device::new(&instance, &work.device_options()).unwrap();
    let driver = TestDriver::open();
    driver.take_record();
    let is_shared = work.caches == Caches::Shared;
    let cache = if is_shared { device.cache(&work.initial_data) } else { vk::PipelineCache::null() };
    let done = work.run_through(&device, cache);
    assert!(done.all_made());
    let mut calls = creations(&driver.take_record());
    let own = calls.first().map(|call| call["thread"].clone());
    let is_own = |call: &&Value| own.as_ref() == Some(&call["thread"]);
    let (mut after_end, mut threads) = (0, 0);
    match input["end"].as_str() {
        Some("quiet") => {
            threads = waiting::own_workers();
            // On a busy machine those that were started may have ended by now.
            assert!(input["threads"] != false || threads == 0, "{threads}");
            // What was parked and not asked for keeps them.
            let stash = std::env::var_os("VKSTASH_DIR").expect("the environment of a scenario names a stash");
            until("everything is recorded, or workers end", || {
                let is_recorded = || records(Path::new(&stash), "artifact") == u64::from(work.count);
                waiting::unnamed_threads() + waiting::own_workers() == 0 || is_recorded()
            });
            calls.extend(creations(&driver.take_record()));
        }
        Some(end @ ("device" | "kill")) => {
            until("a worker calls the driver", || {
                calls.extend(creations(&driver.take_record()));
                !calls.iter().all(|call| is_own(&call))
            });
            if end == "kill" {
                // SAFETY: kill takes plain numbers; it ends this process.
                unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
            }
        }
        _ => {}
    }
    if cache != vk::PipelineCache::null() {
        device.destroy_cache(cache);
    }
    drop(device);
    after_end += creations(&driver.take_record()).len();
    let (own, workers): (Vec<_>, Vec<_>) = calls.iter().partition(is_own);
    json!({
        "own": own,
        "workers": workers,
        "threads": threads,
        "after_end": after_end,
        "feedback": done.feedback,
    })
}

fn run(scenario: &Scenario, env: &Env, work: &Work, end: &str) -> Run<Value> {
    scenario.run_ok("program", env, &json!({ "work": work, "end": end }))
}

/// Records by kind in the device part.
fn records(stash: &Path, kind: &str) -> u64 {
    let applications = list_applications(stash).unwrap();
    let parts = applications.iter().flat_map(|application| &application.parts);
    let of_devices = parts.filter(|part| part.device.is_some());
    of_devices.map(|part| part.records.get(kind).copied().unwrap_or(0)).sum()
}

fn counts<const N: usize>(run: &Run<Value>, names: [&str; N]) -> [u64; N] {
    names.map(|name| run.reports.sum(name))
}

#[test]
fn the_first_run_makes_the_programs_calls_and_the_second_is_served() {
    scenario(STEPS, |scenario| {
        for id in [NVIDIA, UNKNOWN] {
            let work = pipelines(Caches::Shared);
            let env = warm(scenario, driver(scenario, id), &work);
            let env = env.stash(scenario.folder().join(format!("stash {id}")));
            let first = run(scenario, &env, &work, "quiet");
            let own = first.value["own"].as_array().unwrap();
            assert_eq!(own.len() as u64, ALL, "one call for each pipeline: {own:?}");
            for call in own {
                assert_eq!(
                    (&call["cache"], &call["hit"]),
                    (&own[0]["cache"], &json!([true])),
                    "{id}: {call}"
                );
            }
            let workers = first.value["workers"].as_array().unwrap();
            assert_eq!(workers.len() as u64, LATE, "{id}: {workers:?}");
            assert!(workers.iter().all(|call| call["cache"] != own[0]["cache"] && call["result"] == 0));
            let names = ["driver_had", "compiled", "left_to_workers", "recorded_by_workers"];
            assert_eq!(counts(&first, names), [LATE, 1, LATE, LATE], "{:?}", first.reports.counters());
            assert_eq!(
                (records(&env.stash_folder(), "artifact"), records(&env.stash_folder(), "verified")),
                (ALL, 0),
                "{id}"
            );

            let second = run(scenario, &env, &work, "");
            let names = ["driver_had", "compiled", "not_taken", "left_to_workers"];
            assert_eq!(counts(&second, names), [0; 4], "{id}: {:?}", second.reports.counters());
            let [served, parked] = counts(&second, ["served", "parked"]);
            assert_eq!(served + parked, ALL, "{id}: {:?}", second.reports.counters());
            assert_eq!(records(&env.stash_folder(), "verified"), ALL, "{id}: taken now");
            let third = run(scenario, &env, &work, "");
            let [served, parked, late] = counts(&third, ["served", "parked", "recorded_by_workers"]);
            assert_eq!((served + parked, late), (ALL, 0), "{id}: {:?}", third.reports.counters());
            assert_eq!(records(&env.stash_folder(), "artifact"), ALL, "{id}: nothing more is recorded");
        }
    });
}

/// Also what it has in memory, or on a fast disk: the stash is to survive the loss of the driver's caches.
#[test]
fn whatever_the_driver_has_is_recorded_once_and_kept() {
    scenario(STEPS, |scenario| {
        for id in [RADV, NVIDIA, UNKNOWN] {
            for caches in [Caches::None, Caches::Fresh, Caches::Shared] {
                let version = 10 * id + caches as u32;
                let mut script = driver(scenario, id);
                script["driver_version"] = json!(version);
                script["disk_entry_beside_us"] = json!(0);
                script["disk_cache_dir"] = json!(scenario.folder().join(format!("disk {version}")));
                let work = Work { cache_control: true, ..pipelines(caches) };
                let env = warm(scenario, script.clone(), &work).var("VKSTASH_ASK_FIRST", "driver");
                let env = env.stash(scenario.folder().join(format!("stash {version}")));
                let first = run(scenario, &env, &work, "quiet");
                let names = ["driver_had", "recorded_by_workers", "compiled"];
                let seen = format!("{version} {:?}", first.reports.counters());
                assert_eq!(counts(&first, names), [ALL, ALL, 0], "{seen}");
                assert_eq!(records(&env.stash_folder(), "artifact"), ALL, "{seen}");
                // The driver's cache is lost, and what was parked, served or found beside it needs no compile.
                std::fs::remove_dir_all(scenario.folder().join(format!("disk {version}"))).unwrap();
                let second = run(scenario, &env, &work, "");
                let [served, parked, compiled] = counts(&second, ["served", "parked", "compiled"]);
                assert_eq!((served + parked, compiled), (ALL, 0), "{seen} {:?}", second.reports.counters());
            }
        }
    });
}

/// No cache, and nothing in the stash.
#[test]
fn what_is_slow_without_a_cache_is_recorded_too() {
    scenario(STEPS, |scenario| {
        let mut script = driver(scenario, UNKNOWN);
        script["disk_cache_us"] = json!(4000);
        let work = pipelines(Caches::None);
        let env = warm(scenario, script, &work);
        let first = run(scenario, &env, &work, "quiet");
        let names = ["driver_had", "left_to_workers", "recorded_by_workers"];
        assert_eq!(counts(&first, names), [ALL; 3], "{:?}", first.reports.counters());
        let second = run(scenario, &env, &work, "");
        let [served, parked, had] = counts(&second, ["served", "parked", "driver_had"]);
        assert_eq!((served + parked, had), (ALL, 0), "{:?}", second.reports.counters());
    });
}

/// The first one is recorded from the program's cache, which was empty.
#[test]
fn pipelines_of_one_shader_are_left_to_workers_like_others() {
    scenario(STEPS, |scenario| {
        let work = Work { shader: Shader::Compute, ..pipelines(Caches::Shared) };
        let env = warm(scenario, driver(scenario, NVIDIA), &work);
        let first = scenario.run_ok::<Done>("work", &env, &work);
        assert!(first.value.all_made());
        let names = ["compiled", "driver_had", "left_to_workers"].map(|name| first.reports.sum(name));
        assert_eq!(names, [ALL - LATE, LATE, LATE], "{:?}", first.reports.counters());
    });
}

#[test]
fn creation_feedback_of_a_first_run_is_the_drivers_own() {
    scenario(STEPS, |scenario| {
        let work = Work { feedback: true, ..pipelines(Caches::Shared) };
        let env = warm(scenario, driver(scenario, NVIDIA), &work);
        let without = run(scenario, &env.clone().without_layer(), &work, "");
        let with = run(scenario, &env, &work, "");
        assert_eq!(with.value["feedback"].as_array().map(Vec::len), Some(COUNT as usize));
        assert_eq!(with.value["feedback"], without.value["feedback"]);
        assert_eq!(counts(&with, ["driver_had"]), [LATE], "{:?}", with.reports.counters());
    });
}

#[test]
fn what_a_cold_disk_lacks_is_recorded_in_the_programs_call() {
    scenario(STEPS, |scenario| {
        let env = on(scenario, driver(scenario, NVIDIA));
        let work = Work { count: 100, ..pipelines(Caches::Shared) };
        // A cache of another version of the program has nothing of this one.
        let others = Work { first: 5000, count: 2, ..work.clone() };
        let mut old = scenario.run_ok::<Done>("work", &env.clone().without_layer(), &others).value.data;
        for (name, first, initial_data) in [("empty", 1, Vec::new()), ("old", 1001, old.remove(0))] {
            let env = env.clone().stash(scenario.folder().join(name));
            let run = run(scenario, &env, &Work { first, initial_data, ..work.clone() }, "");
            let counters = run.reports.counters();
            assert_eq!(counts(&run, ["compiled", "left_to_workers"]), [100, 0], "{name}: {counters:?}");
        }
    });
}

#[test]
fn a_program_may_end_at_once_or_be_killed_and_the_next_run_records_the_rest() {
    scenario(STEPS, |scenario| {
        let work = pipelines(Caches::Shared);
        let mut slow = driver(scenario, NVIDIA);
        slow["disk_entry_beside_us"] = json!(20_000);
        let env = warm(scenario, slow, &work);
        // The next run starts at once: no worker has recorded anything yet.
        let at_once = run(scenario, &env, &work, "");
        assert_eq!(counts(&at_once, ["left_to_workers"]), [LATE], "{:?}", at_once.reports.counters());
        assert!(at_once.value["after_end"].as_u64().unwrap() <= 1, "{}", at_once.value);

        // While a worker is in the driver: it makes at most one call more.
        let ended = run(scenario, &env, &work, "device");
        assert!(ended.value["after_end"].as_u64().unwrap() <= 1, "{}", ended.value);
        let [recorded] = counts(&ended, ["recorded_by_workers"]);
        assert!(recorded < LATE, "{:?}", ended.reports.counters());

        let killed = scenario.run("program", &env, &json!({ "work": work, "end": "kill" }));
        assert!(!killed.status.success());

        let quiet = run(scenario, &env, &work, "quiet");
        let names = ["served", "parked", "driver_had", "recorded_by_workers"];
        let [served, parked, had, late] = counts(&quiet, names);
        // The key that the killed process was at is asked of the driver, even if its artifact was recorded by then.
        assert_eq!(served + parked + had, ALL, "{:?}", quiet.reports.counters());
        assert!(late > 0 && late <= had, "{:?}", quiet.reports.counters());
        assert_eq!(records(&env.stash_folder(), "artifact"), ALL, "{:?}", quiet.reports.counters());
        let last = run(scenario, &env, &work, "");
        let [served, parked] = counts(&last, ["served", "parked"]);
        assert_eq!(served + parked, ALL, "{:?}", last.reports.counters());
    });
}

/// A child that goes on with its parent's device, while the parent's worker records.
fn forks(input: &Value) -> Value {
    let work: Work = serde_json::from_value(input.clone()).unwrap();
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let device = Device::new(&instance, &work.device_options()).unwrap();
    let driver = TestDriver::open();
    assert!(work.run(&device).all_made());
    driver.take_record();
    let mut late = 0;
    until("a worker records", || {
        late += creations(&driver.take_record()).len();
        late > 0
    });
    // SAFETY: the child makes the calls that children of real programs make, and its parent waits for it.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            let others = Work { first: 1000, count: 3, ..work };
            let made = others.run(&device).all_made();
            libc::_exit(if made && waiting::own_workers() == 0 { 7 } else { 8 });
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7, "{status:#x}");
    }
    until_workers_end();
    late += creations(&driver.take_record()).len();
    json!(late)
}

#[test]
fn a_forked_child_records_nothing_late_and_its_parent_goes_on() {
    scenario(STEPS, |scenario| {
        let work = pipelines(Caches::Shared);
        let mut slow = driver(scenario, NVIDIA);
        slow["disk_entry_beside_us"] = json!(20_000);
        let env = warm(scenario, slow, &work);
        let run = scenario.run_ok::<Value>("forks", &env, &work);
        assert_eq!(run.value, json!(LATE));
        assert_eq!(counts(&run, ["recorded_by_workers"]), [LATE], "{:?}", run.reports.counters());
    });
}

#[test]
fn without_background_work_the_programs_calls_record() {
    scenario(STEPS, |scenario| {
        let work = pipelines(Caches::Shared);
        let env = warm(scenario, driver(scenario, NVIDIA), &work);
        let forbidden = |name: &str, env: Env| {
            let env = env.stash(scenario.folder().join(name));
            if name == "settings" {
                configure(&env.stash_folder(), "background = 'disabled'\n");
            }
            let input = json!({ "work": work, "end": "quiet", "threads": false });
            let run = scenario.run_ok::<Value>("program", &env, &input);
            let names = ["compiled", "left_to_workers", "recorded_by_workers"];
            assert_eq!(counts(&run, names), [ALL, 0, 0], "{name}: {:?}", run.reports.counters());
            assert_eq!(run.value["workers"], json!([]), "{name}");
        };
        forbidden("mode", env.clone().var("VKSTASH_BACKGROUND", "disabled"));
        forbidden("profiling", env.clone().var("VKSTASH_BACKGROUND", "profiling"));
        forbidden("no workers", env.clone().var("VKSTASH_BACKGROUND_WORKERS", "0"));
        forbidden("settings", env);
    });
}

#[test]
fn no_thread_is_started_for_what_took_less_than_a_thread_takes() {
    scenario(STEPS, |scenario| {
        let mut script = driver(scenario, NVIDIA);
        script["disk_entry_beside_us"] = json!(100);
        let work = Work { count: 3, ..pipelines(Caches::Shared) };
        let env = warm(scenario, script, &work).without_var("VKSTASH_BACKGROUND_WORKERS");
        let input = json!({ "work": work, "end": "quiet" });
        // On a busy machine the two calls may take longer than a thread does; with this variable a thread takes more.
        let env = env.var("VKSTASH_TEST_UNHURRIED", "1");
        let few = scenario.run_ok::<Value>("program", &env, &input);
        assert_eq!(few.value["threads"], 0);
        assert_eq!(counts(&few, ["left_to_workers", "recorded_by_workers"]), [2, 0]);
    });
}

/// What only the program's own cache has.
#[test]
fn what_a_driver_refuses_to_workers_twice_is_not_tried_again() {
    scenario(STEPS, |scenario| {
        for id in [RADV, NVIDIA, UNKNOWN] {
            let env = on(scenario, json!({ "driver_id": id }));
            let env = env.stash(scenario.folder().join(format!("stash {id}")));
            let work = Work { count: 6, cache_control: true, ..pipelines(Caches::Shared) };
            let initial_data =
                scenario.run_ok::<Done>("work", &env.clone().without_layer(), &work).value.data.remove(0);
            let work = Work { initial_data, ..work };
            let seen = || {
                let run = run(scenario, &env, &work, "quiet");
                let names = ["driver_had", "left_to_workers", "refused_to_workers", "recorded_by_workers"];
                counts(&run, names)
            };
            assert_eq!([(); 3].map(|()| seen()), [[6, 6, 6, 0], [6, 6, 6, 0], [6, 0, 0, 0]], "{id}");
            assert_eq!(records(&env.stash_folder(), "artifact"), 0, "{id}");
        }
    });
}

/// Bursts of calls, each of which begins while a worker is in a driver that creates pipelines on one thread at a time.
/// Answers with how many calls the program and workers have made, how many of the program's waited for a worker, and
/// how many of these did not follow a pause.
fn bursts(input: &Value) -> Value {
    let work = pipelines(Caches::Shared);
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let device = Device::new(&instance, &work.device_options()).unwrap();
    let driver = TestDriver::open();
    let cache = device.cache(&[]);
    driver.take_record();
    let mut after_pause = Vec::new();
    let mut last = Instant::now();
    let mut calls: Vec<Value> = Vec::new();
    for first in (0..input.as_u64().unwrap() as u32).step_by(8) {
        for value in first..first + 8 {
            // As long as the layer takes for quiet, or nearly: the machine may hold this thread up anywhere.
            after_pause.push(last.elapsed() > Duration::from_millis(40));
            let one = Work { first: value, count: 1, ..work.clone() };
            assert!(one.run_through(&device, cache).all_made());
            last = Instant::now();
        }
        let before = calls.len();
        until("a worker records", || {
            calls.extend(creations(&driver.take_record()));
            calls[before..].iter().any(|call| call["thread"] != calls[0]["thread"])
        });
    }
    calls.extend(creations(&driver.take_record()));
    let own = calls[0]["thread"].clone();
    let own: Vec<_> = calls.iter().filter(|call| call["thread"] == own).collect();
    assert_eq!(own.len(), after_pause.len());
    let waited = own.iter().zip(after_pause).filter(|(call, _)| !call["waited_for"].is_null());
    let waited: Vec<bool> = waited.map(|(_, after_pause)| after_pause).collect();
    let in_burst = waited.iter().filter(|after_pause| !**after_pause).count();
    device.destroy_cache(cache);
    json!([own.len(), calls.len() - own.len(), waited.len(), in_burst])
}

#[test]
fn a_call_waits_for_a_worker_at_most_after_a_pause() {
    scenario(STEPS, |scenario| {
        let count: u32 = 96;
        let mut script = driver(scenario, NVIDIA);
        script["serialises"] = json!(true);
        let env = warm(scenario, script, &Work { first: 0, count, ..pipelines(Caches::Shared) });
        let run = scenario.run_ok::<[u32; 4]>("bursts", &env, &count);
        let [own, workers, waited, in_burst] = run.value;
        println!(
            "{own} calls of the program, {workers} of workers; {waited} waited, {in_burst} without a pause"
        );
        assert_eq!(own, count);
        let bursts = count / 8;
        assert!(workers >= bursts, "workers record in each pause");
        // The system may hold a worker up between its look and its call.
        assert!(in_burst <= bursts / 4, "{in_burst} of {waited}");
    });
}
