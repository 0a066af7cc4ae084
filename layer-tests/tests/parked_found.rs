//! Tests of pipelines that only the driver's own caches have: workers ask for them before the program does, without an
//! artifact.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};

use vkstash_layer_tests::child::{Scenario, Step, scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::vulkan::{Device, Instance, InstanceOptions};
use vkstash_layer_tests::waiting;
use vkstash_layer_tests::work::{self, Caches, Done, Shader, Work};
use vkstash_store::stash::inspect::list_applications;

use super::parked::{late, run_parked, traced, until_parked, with_parking};

const STEPS: &[(&str, Step)] = &[("work", work::step), ("late", late)];
pub(super) const COUNT: u64 = 12;

pub(super) fn work(shader: Shader) -> Work {
    Work { shader, count: COUNT as u32, ..Work::default() }
}

/// A driver of which nobody has measured anything, whose disk has what the work makes, and a stash of one run over it.
pub(super) fn met(scenario: &Scenario, name: &str, shader: Shader) -> Env {
    let disk = scenario.folder().join(format!("disk {name}"));
    let driver = json!({ "driver_id": 99, "disk_cache": true, "disk_cache_dir": disk });
    let env = scenario.on(Driver::Test(driver)).unwrap().stash(scenario.folder().join(name));
    // Without workers no artifact is recorded of what the driver had.
    let env = env.var("VKSTASH_BACKGROUND_WORKERS", "0");
    scenario.run_ok::<Done>("work", &env.clone().without_layer(), &work(shader));
    let first = scenario.run_ok::<Done>("work", &env, &work(shader));
    assert_eq!(first.reports.sum("driver_had"), COUNT, "{:?}", first.reports.counters());
    let count = |kind: &str| records(&env.stash_folder(), kind);
    assert_eq!(["recipe", "found", "artifact"].map(count), [COUNT, COUNT, 0]);
    with_parking(&env)
}

/// The records of this kind in a stash.
fn records(folder: &Path, kind: &str) -> u64 {
    let all = list_applications(folder).unwrap();
    let parts = all.iter().flat_map(|application| &application.parts);
    parts.filter_map(|part| part.records.get(kind)).sum()
}

fn lose_disk(scenario: &Scenario, shader: Shader) {
    std::fs::remove_dir_all(scenario.folder().join(format!("disk {shader:?}"))).unwrap();
}

#[test]
fn what_the_driver_had_is_handed_over_in_every_later_run() {
    scenario(STEPS, |scenario| {
        for shader in [Shader::Compute, Shader::DynamicRendering] {
            let env = met(scenario, &format!("{:?}", shader), shader);
            for run in 2..5 {
                let seen = run_parked(scenario, &env, &work(shader), COUNT);
                let counters = seen.reports.counters();
                assert!(seen.value.all_made());
                let [parked, found] = ["parked", "parked_found"].map(|name| seen.reports.sum(name));
                assert_eq!((parked, found), (COUNT, COUNT), "{shader:?}, run {run}: {counters:?}");
                let others = ["driver_had", "compiled", "parking_failed", "parked_unasked", "found_no_more"];
                assert_eq!(others.map(|name| seen.reports.sum(name)), [0; 5], "{counters:?}");
            }
        }
    });
}

/// Where the driver is asked first, nobody ever finds out whether it takes the artifact.
#[test]
fn an_artifact_that_was_never_taken_keeps_nothing_from_being_asked_for() {
    scenario(STEPS, |scenario| {
        let disk = scenario.folder().join("disk");
        let driver = json!({ "driver_id": 99, "disk_cache": true, "disk_cache_dir": disk });
        let env = scenario.on(Driver::Test(driver)).unwrap().var("VKSTASH_ASK_FIRST", "driver");
        for (run, what) in [(1, "compiled"), (2, "driver_had")] {
            let seen = scenario.run_ok::<Done>("work", &env, &work(Shader::Compute));
            assert_eq!(seen.reports.sum(what), COUNT, "run {run}: {:?}", seen.reports.counters());
        }
        let seen = run_parked(scenario, &with_parking(&env), &work(Shader::Compute), COUNT);
        assert_eq!(seen.reports.sum("parked_found"), COUNT, "{:?}", seen.reports.counters());
    });
}

/// What the program's cache is owed is nowhere.
#[test]
fn a_call_with_a_cache_gets_none_of_them() {
    scenario(STEPS, |scenario| {
        for (caches, shader) in [(Caches::Shared, Shader::Compute), (Caches::Fresh, Shader::DynamicRendering)]
        {
            let env = met(scenario, &format!("{:?}", shader), shader);
            let work = Work { caches, ..work(shader) };
            let seen = run_parked(scenario, &env, &work, COUNT);
            let counters = seen.reports.counters();
            assert!(seen.value.all_made());
            assert_eq!(seen.reports.sum("parked"), 0, "{caches:?}: {counters:?}");
            assert_eq!(seen.reports.sum("parked_unasked"), COUNT, "{caches:?}: {counters:?}");
        }
    });
}

/// The stash is to survive the loss of the driver's caches.
#[test]
fn artifacts_of_them_are_recorded_while_the_program_is_quiet() {
    scenario(&[("work", work::step), ("quiet", quiet)], |scenario| {
        let env = met(scenario, &format!("{:?}", Shader::Compute), Shader::Compute);
        let seen = scenario.run_ok::<Done>("quiet", &with_parking(&env), &work(Shader::Compute));
        let counters = seen.reports.counters();
        let names = ["parked_found", "recorded_by_workers"];
        assert_eq!(names.map(|name| seen.reports.sum(name)), [COUNT; 2], "{counters:?}");
        lose_disk(scenario, Shader::Compute);
        let seen = scenario.run_ok::<Done>("work", &env, &work(Shader::Compute));
        let [served, parked] = ["served", "parked"].map(|name| seen.reports.sum(name));
        assert_eq!(served + parked, COUNT, "{:?}", seen.reports.counters());
    });
}

/// Creates a device, waits until the stash has an artifact of each pipeline, and then does the work.
fn quiet(input: &Value) -> Value {
    let work: Work = serde_json::from_value(input.clone()).unwrap();
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let device = Arc::new(Device::new(&instance, &work.device_options()).unwrap());
    let folder = PathBuf::from(std::env::var_os("VKSTASH_DIR").unwrap());
    waiting::until("workers record them", || records(&folder, "artifact") == COUNT);
    let done = work.run(&device);
    drop(device);
    serde_json::to_value(done).unwrap()
}

/// What a cache of the program's is owed is recorded as the pipeline is made, or was before.
#[test]
fn calls_with_caches_get_them_and_their_caches_hold_what_they_would() {
    scenario(STEPS, |scenario| {
        // RADV, and NVIDIA's driver.
        for id in [3, 4] {
            for caches in [Caches::Shared, Caches::Fresh] {
                let name = format!("{id} {caches:?}");
                let disk = scenario.folder().join(format!("disk {name}"));
                let driver = json!({ "driver_id": id, "disk_cache": true, "disk_cache_dir": disk });
                let env = scenario.on(Driver::Test(driver)).unwrap().stash(scenario.folder().join(&name));
                let env = env.var("VKSTASH_ASK_FIRST", "auto");
                let work = Work { caches, ..work(Shader::DynamicRendering) };
                scenario.run_ok::<Done>("work", &env.clone().without_layer(), &work);
                let alone = env.clone().var("VKSTASH_BACKGROUND_WORKERS", "0");
                scenario.run_ok::<Done>("work", &alone, &work);
                for run in 2..4 {
                    let seen = run_parked(scenario, &with_parking(&env), &work, COUNT);
                    let counters = seen.reports.counters();
                    assert_eq!(seen.reports.sum("parked"), COUNT, "{name}, run {run}: {counters:?}");
                    // Without the layer and the driver's disk, the data has as many hits.
                    let bare = scenario.on(Driver::Test(json!({ "driver_id": id }))).unwrap().without_layer();
                    for (number, data) in seen.value.data.iter().enumerate() {
                        let (first, count) = match caches {
                            Caches::Fresh => (work.first + number as u32, 1),
                            _ => (work.first, work.count),
                        };
                        let data = data.clone();
                        let loaded =
                            Work { first, count, caches: Caches::Shared, initial_data: data, ..work.clone() };
                        let done =
                            scenario.run_ok::<Done>("work", &bare, &Work { feedback: true, ..loaded }).value;
                        assert!(done.feedback.iter().all(|f| f.says_hit()), "{name}, run {run}, {number}");
                    }
                }
            }
        }
    });
}

/// Makes the work twice in one cache, once it is parked. How many hits in that cache each has reported.
fn twice(input: &Value) -> Value {
    let work: Work = serde_json::from_value(input["work"].clone()).unwrap();
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let device = Arc::new(Device::new(&instance, &work.device_options()).unwrap());
    until_parked(&input["trace"], input["parked"].as_u64().unwrap());
    let cache = device.cache(&[]);
    let hits = || work.run_through(&device, cache).feedback.iter().filter(|f| f.says_hit()).count();
    json!([hits(), hits()])
}

/// The first one was parked, and the driver, which is asked first, has the second one on its disk.
#[test]
fn the_second_of_two_equal_ones_is_a_hit_in_their_cache() {
    scenario(&[("work", work::step), ("twice", twice)], |scenario| {
        let disk = scenario.folder().join("disk");
        let test = json!({ "driver_id": 3, "disk_cache": true, "disk_cache_dir": disk });
        let work = Work { caches: Caches::Shared, feedback: true, ..work(Shader::DynamicRendering) };
        let nothing = json!({ "work": work, "parked": 0, "trace": "" });
        for driver in [Driver::Test(test), Driver::Radv] {
            let Some(env) = scenario.on(driver.clone()) else { continue };
            let env = env.driver_cache();
            scenario.run_ok::<Done>("work", &env.clone().without_layer(), &work);
            let without = scenario.run_ok::<[u64; 2]>("twice", &env.clone().without_layer(), &nothing).value;
            assert_eq!(without, [0, COUNT], "{}", driver.name());
            for ask_first in ["driver", "stash", "auto"] {
                let what = format!("{} {ask_first}", driver.name());
                let env =
                    env.clone().stash(scenario.folder().join(&what)).var("VKSTASH_ASK_FIRST", ask_first);
                scenario.run_ok::<Done>("work", &env.clone().var("VKSTASH_BACKGROUND_WORKERS", "0"), &work);
                let (env, trace) = traced(scenario, &with_parking(&env));
                let input = json!({ "work": work, "parked": COUNT, "trace": trace });
                let seen = scenario.run_ok::<[u64; 2]>("twice", &env, &input);
                let counters = seen.reports.counters();
                assert_eq!(seen.reports.sum("parked"), COUNT, "{what}: {counters:?}");
                assert_eq!(seen.value, without, "{what}: {counters:?}");
            }
        }
    });
}

/// Its cache gives them in less time than they take to merge when the program saves it; NVIDIA's does once workers have
/// something to make them of.
#[test]
fn what_a_loaded_cache_has_is_left_there_unless_it_gives_it_slowly() {
    scenario(STEPS, |scenario| {
        for id in [3, 4, 99] {
            let disk = scenario.folder().join(format!("disk {id}"));
            let driver = json!({ "driver_id": id, "disk_cache": true, "disk_cache_dir": disk });
            let env = scenario.on(Driver::Test(driver)).unwrap().var("VKSTASH_ASK_FIRST", "auto");
            let env = env.stash(scenario.folder().join(format!("stash {id}")));
            let work = Work { caches: Caches::Shared, ..work(Shader::Compute) };
            let initial_data =
                scenario.run_ok::<Done>("work", &env.clone().without_layer(), &work).value.data.remove(0);
            let loaded = Work { initial_data, ..work.clone() };
            for run in 1..4 {
                let seen = run_parked(scenario, &with_parking(&env), &loaded, 0);
                let counters = seen.reports.counters();
                let names = ["driver_had", "parked", "parked_unasked", "parking_failed"];
                assert_eq!(
                    names.map(|name| seen.reports.sum(name)),
                    [COUNT, 0, 0, 0],
                    "{id}, {run}: {counters:?}"
                );
            }
            if id == 4 {
                // VK_DRIVER_ID_NVIDIA_PROPRIETARY: the stash gets artifacts.
                let fresh = Work { caches: Caches::Fresh, ..work.clone() };
                let seen =
                    scenario.run_ok::<Done>("work", &env.clone().var("VKSTASH_ASK_FIRST", "stash"), &fresh);
                assert_eq!(seen.reports.sum("compiled"), COUNT, "{:?}", seen.reports.counters());
                let seen = run_parked(scenario, &with_parking(&env), &loaded, COUNT);
                assert_eq!(seen.reports.sum("parked"), COUNT, "{:?}", seen.reports.counters());
            }
            // The user deletes the program's file.
            for _ in 0..2 {
                scenario.run_ok::<Done>("work", &env.clone().var("VKSTASH_BACKGROUND_WORKERS", "0"), &work);
            }
            let seen = run_parked(scenario, &with_parking(&env), &work, COUNT);
            assert_eq!(seen.reports.sum("parked"), COUNT, "{id}: {:?}", seen.reports.counters());
        }
    });
}

#[test]
fn a_driver_that_has_lost_its_caches_compiles_nothing_for_a_worker() {
    scenario(STEPS, |scenario| {
        let env = met(scenario, &format!("{:?}", Shader::Compute), Shader::Compute);
        lose_disk(scenario, Shader::Compute);
        // Each question in vain is a task, and one finds nothing more to ask for.
        let seen = run_parked(scenario, &env, &work(Shader::Compute), 8);
        let counters = seen.reports.counters();
        assert!(seen.value.all_made());
        assert_eq!(seen.reports.sum("found_no_more"), 8, "of {COUNT}: {counters:?}");
        assert_eq!(seen.reports.sum("compiled"), COUNT, "{counters:?}");
        let others = ["parked", "parking_failed", "parked_unasked"];
        assert_eq!(others.map(|name| seen.reports.sum(name)), [0; 3], "{counters:?}");
    });
}
