//! A program whose driver answers sooner than the stash: the driver is asked first, until its next update.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends at the first surprise")]

use serde_json::{Value, json};

use vkstash_layer_tests::child::{Scenario, Step, scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::work::{self, Caches, Code, Done, Work};
use vkstash_store::stash::inspect::{ComparisonInfo, list_applications};

const STEPS: &[(&str, Step)] = &[("work", work::step)];

/// As many pipelines as a comparison needs.
const COUNT: u32 = 20;

/// A driver with a disk cache that answers at once, where each cache of the layer's takes a millisecond.
fn slow_beside_the_disk(scenario: &Scenario, version: u32) -> Env {
    let faults = json!([{ "command": "vkCreatePipelineCache", "hang_ms": 1 }]);
    on(scenario, json!({ "driver_version": version, "compile_us": 20, "faults": faults }))
}

fn on(scenario: &Scenario, mut script: Value) -> Env {
    let disk = scenario.folder().join(format!("disk {}", script["driver_version"]));
    let script_object = script.as_object_mut().unwrap();
    script_object.insert("disk_cache".to_owned(), json!(true));
    script_object.insert("disk_cache_dir".to_owned(), json!(disk));
    let env = scenario.on(Driver::Test(script)).unwrap();
    env.stash(scenario.folder().join("stash")).var("VKSTASH_ASK_FIRST", "auto")
}

fn program(caches: Caches) -> Work {
    Work { count: COUNT, caches, code: Code::Module, cache_control: true, ..Work::default() }
}

/// Runs the program; says how many pipelines the stash has served and the driver had.
fn run(scenario: &Scenario, env: &Env, work: &Work) -> (u64, u64) {
    let run = scenario.run_ok::<Done>("work", env, work);
    assert!(run.value.all_made());
    (run.reports.sum("served"), run.reports.sum("driver_had"))
}

fn comparison(env: &Env, habit: &str) -> Option<ComparisonInfo> {
    let [application] = list_applications(&env.stash_folder()).unwrap().try_into().unwrap();
    application.parts.iter().find_map(|part| part.comparisons.get(habit).cloned())
}

fn verdict(env: &Env, habit: &str) -> Option<String> {
    comparison(env, habit)?.asked_first
}

const ALL: u64 = COUNT as u64;

#[test]
fn a_driver_that_answers_sooner_is_asked_first_until_its_next_update() {
    scenario(STEPS, |scenario| {
        let (old, new) = (slow_beside_the_disk(scenario, 1), slow_beside_the_disk(scenario, 2));
        let work = program(Caches::None);
        for env in [&old, &new] {
            assert_eq!(run(scenario, env, &work), (0, 0), "the first run records");
            assert_eq!(run(scenario, env, &work), (ALL, 0));
            assert_eq!(run(scenario, env, &work), (ALL, 0));
            assert_eq!(verdict(env, "no_cache"), None);
            assert_eq!(run(scenario, env, &work), (0, ALL), "the trial");
            for _ in 0..3 {
                assert_eq!(run(scenario, env, &work), (0, ALL));
            }
        }
        assert_eq!(verdict(&old, "no_cache").as_deref(), Some("driver"));
    });
}

/// Its first pipeline goes into an empty cache, as those of the other habit do.
#[test]
fn a_shared_cache_has_one_way_from_its_first_pipeline_on() {
    scenario(STEPS, |scenario| {
        let env = slow_beside_the_disk(scenario, 1);
        let work = program(Caches::Shared);
        let seen: Vec<_> = (0..6).map(|_| run(scenario, &env, &work)).collect();
        assert_eq!(verdict(&env, "shared_cache").as_deref(), Some("driver"), "{seen:?}");
        assert_eq!(seen.last(), Some(&(0, ALL)), "{seen:?}");
    });
}

#[test]
fn what_the_driver_lacks_is_still_served() {
    scenario(STEPS, |scenario| {
        let env = slow_beside_the_disk(scenario, 1);
        let work = program(Caches::None);
        for _ in 0..5 {
            run(scenario, &env, &work);
        }
        assert_eq!(verdict(&env, "no_cache").as_deref(), Some("driver"));
        // The user clears the driver's cache.
        std::fs::remove_dir_all(scenario.folder().join("disk 1")).unwrap();
        assert_eq!(run(scenario, &env, &work), (ALL, 0));
        // New pipelines are recorded as ever, and then both have them.
        let more = Work { count: COUNT + 5, ..work };
        assert_eq!(run(scenario, &env, &more).0, ALL);
        let (served, had) = run(scenario, &env, &more);
        assert_eq!(served + had, ALL + 5);
    });
}

#[test]
fn a_stash_that_answers_sooner_stays_first_after_one_trial() {
    scenario(STEPS, |scenario| {
        // Each look into the driver's disk cache takes a millisecond, and nothing else does.
        for (version, caches) in [(1, Caches::None), (2, Caches::Fresh), (3, Caches::Shared)] {
            let env = on(scenario, json!({ "driver_version": version, "disk_cache_us": 1000 }));
            let work = program(caches);
            let served: Vec<u64> = (0..7).map(|_| run(scenario, &env, &work).0).collect();
            let trials = served.iter().skip(1).filter(|served| **served == 0).count();
            assert!(trials <= 1 && served[4..] == [ALL; 3], "{caches:?}: {served:?}");
        }
    });
}

#[test]
fn the_user_may_choose() {
    scenario(STEPS, |scenario| {
        let env = slow_beside_the_disk(scenario, 1);
        let work = program(Caches::None);
        let [stash, driver] = ["stash", "driver"].map(|who| env.clone().var("VKSTASH_ASK_FIRST", who));
        assert_eq!(run(scenario, &stash, &work), (0, 0));
        for _ in 0..5 {
            assert_eq!(run(scenario, &stash, &work), (ALL, 0));
            assert_eq!(run(scenario, &driver, &work), (0, ALL));
        }
        let profiled = env.var("VKSTASH_BACKGROUND", "profiling");
        for _ in 0..5 {
            assert_eq!(run(scenario, &profiled, &work), (ALL, 0));
        }
        assert_eq!(comparison(&stash, "no_cache"), None, "nothing was compared");
    });
}

#[test]
fn a_program_with_few_pipelines_or_without_cache_control_is_not_compared() {
    scenario(STEPS, |scenario| {
        let env = slow_beside_the_disk(scenario, 1);
        let few = Work { count: 15, ..program(Caches::None) };
        run(scenario, &env, &few);
        for _ in 0..6 {
            assert_eq!(run(scenario, &env, &few), (15, 0));
        }
        assert_eq!(comparison(&env, "no_cache"), None);
    });
}
