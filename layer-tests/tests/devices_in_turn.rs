//! Programs that make and destroy devices in turn: the stash stays open between them, as long as the instance lives.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};

use vkstash_layer_tests::child::{Scenario, Step, scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::suite::{assert_all_served, files, run};
use vkstash_layer_tests::vulkan::{Device, DeviceOptions, Instance, InstanceOptions};
use vkstash_layer_tests::waiting::own_threads;
use vkstash_layer_tests::work::{self, Work};

const DEVICES: u32 = 12;

/// On the programmable driver and on a real one, each with a stash of its own.
fn on_both(step: Step, test: impl Fn(&Scenario, &Env)) {
    for driver in [Driver::Test(json!({})), Driver::Radv] {
        scenario(&[("step", step), ("work", work::step)], |scenario| {
            if let Some(env) = scenario.on(driver.clone()) {
                // However busy the machine is.
                test(scenario, &env.var("VKSTASH_END_MS", "20000"));
            }
        });
    }
}

/// Files of the stash that a process has open, by the numbers of their descriptors.
type Open = BTreeMap<i32, PathBuf>;

fn open_files() -> Open {
    let stash = fs::canonicalize(std::env::var_os("VKSTASH_DIR").unwrap()).unwrap();
    let entries = fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().path());
    let number = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().parse().unwrap();
    let open = entries.filter_map(|path| Some((number(&path), fs::read_link(&path).ok()?)));
    open.filter(|(_, target)| target.starts_with(&stash)).collect()
}

fn one_device(instance: &Arc<Instance>, work: Option<&Work>) {
    let device = Device::new(instance, &DeviceOptions::default()).unwrap();
    assert!(work.is_none_or(|work| work.run(&device).all_made()));
}

/// What is open of the stash after each device with this work, and after the instance.
fn open_after_each(input: &Value) -> Value {
    let work: Work = serde_json::from_value(input.clone()).unwrap();
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let mut open = Vec::new();
    for _ in 0..DEVICES {
        one_device(&instance, Some(&work));
        open.push(open_files());
    }
    drop(Arc::into_inner(instance).expect("the last reference"));
    json!([open, [open_files()], own_threads(), format!("-{:08x}-", std::process::id())])
}

#[test]
fn devices_in_turn_find_the_stash_open() {
    on_both(open_after_each, |scenario, env| {
        let fill = || run(scenario, env, &Work::default());
        fill();
        // Artifacts that no driver has taken would need a guard file, and a stash with one is closed.
        assert_all_served(&fill(), 3);
        let (each, at_end, threads, own): (Vec<Open>, [Open; 1], Vec<String>, String) =
            scenario.run_ok("step", env, &Work::default()).value;
        assert!(!each[1].is_empty(), "nothing is open between two devices");
        // The uses of a run are written to a file of their own in each part, some time later.
        let (second, last) = (&each[1], &each[each.len() - 1]);
        assert!(last.len() <= second.len() + 2, "{second:?}, {last:?}");
        for (number, pair) in each.windows(2).enumerate().skip(1) {
            // What the process writes itself is sealed and replaced whenever its writer sees fit.
            let others = pair[0].iter().filter(|(_, path)| !path.to_string_lossy().contains(&own));
            let stay_open =
                others.clone().count() > 3 && others.clone().all(|(fd, path)| pair[1].get(fd) == Some(path));
            assert!(stay_open, "after device {}: {:?}, {:?}", number + 1, pair[0], pair[1]);
        }
        assert_eq!((&at_end[0], &threads), (&Open::new(), &Vec::new()), "after the instance");
    });
}

/// What the process writes while it makes devices without any pipeline, and the layer's threads after that.
fn written_for_nothing(_: &Value) -> Value {
    let written = || {
        let text = fs::read_to_string("/proc/self/io").ok()?;
        text.lines().find_map(|line| line.strip_prefix("wchar: ")?.parse::<u64>().ok())
    };
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    one_device(&instance, None);
    let before = written();
    (0..DEVICES).for_each(|_| one_device(&instance, None));
    json!([written().zip(before).map(|(after, before)| after - before), own_threads()])
}

#[test]
fn a_device_without_pipelines_writes_nothing_and_starts_no_thread() {
    on_both(written_for_nothing, |scenario, env| {
        run(scenario, env, &Work::default());
        // With background work the first vkCreateDevice opens the stash.
        let env = &env.clone().var("VKSTASH_BACKGROUND_WORKERS", "2");
        let (written, threads): (Option<u64>, Vec<String>) = scenario.run_ok("step", env, &()).value;
        assert_eq!(written.unwrap_or(0), 0);
        // A worker of the first device may need a moment to end.
        assert!(threads.iter().all(|name| name == "vkstash-worker"), "{threads:?}");
    });
}

/// Makes a device for each of these, one after the other, and ends as told.
fn ends(input: &Value) -> Value {
    let (works, end): (Vec<Work>, String) = serde_json::from_value(input.clone()).unwrap();
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    works.iter().for_each(|work| one_device(&instance, Some(work)));
    match end.as_str() {
        "_exit" => {
            vkstash_layer_tests::child::answer(&json!(true));
            // SAFETY: ends the process.
            unsafe { libc::_exit(0) };
        }
        "exit" => std::mem::forget(instance),
        _ => drop(Arc::into_inner(instance).expect("the last reference")),
    }
    json!(true)
}

#[test]
fn what_devices_in_turn_compile_is_there_for_the_next_run() {
    let work = |number: u32| Work { first: 3 * number, ..Work::default() };
    // `_exit` may lose the last moments, but nothing of a device that was destroyed first.
    for (end, devices) in [("instance", 4), ("exit", 4), ("_exit", 1)] {
        on_both(ends, |scenario, env| {
            let works: Vec<Work> = (0..devices).map(work).collect();
            scenario.run_ok::<bool>("step", env, &(&works, end));
            for work in &works {
                assert_all_served(&run(scenario, env, work), 3);
            }
        });
    }
}

#[test]
fn a_program_that_leaves_its_instance_leaves_no_guard_file() {
    on_both(ends, |scenario, env| {
        run(scenario, env, &Work::default());
        // No driver has taken these artifacts yet.
        scenario.run_ok::<bool>("step", env, &([Work::default()], "_exit"));
        assert_eq!(files(&env.stash_folder(), ".vkg"), Vec::<PathBuf>::new());
        assert_all_served(&run(scenario, env, &Work::default()), 3);
    });
}
