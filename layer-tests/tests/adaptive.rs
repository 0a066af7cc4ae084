//! A program whose driver answers sooner than the stash: the driver is asked first, until its next update.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use vkstash_layer_tests::child::{Scenario, Step, scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::test_driver::TestDriver;
use vkstash_layer_tests::vulkan::{Device, Instance, InstanceOptions};
use vkstash_layer_tests::work::{self, Caches, Code, Done, Shader, Work};
use vkstash_store::stash::inspect::{ComparisonInfo, PartInfo, list_applications};

const STEPS: &[(&str, Step)] = &[("work", work::step), ("phases", phases), ("long_end", long_end)];

/// As many pipelines as a comparison needs.
const COUNT: u32 = 20;

/// A driver with a disk cache that answers at once, where each cache of the layer's takes ten milliseconds: so much longer
/// that a busy machine does not hide it.
fn slow_beside_the_disk(scenario: &Scenario, version: u32) -> Env {
    let faults = json!([{ "command": "vkCreatePipelineCache", "hang_ms": 10 }]);
    on(scenario, json!({ "driver_version": version, "compile_us": 20, "faults": faults }))
}

fn on(scenario: &Scenario, mut script: Value) -> Env {
    let disk = scenario.folder().join(format!("disk {}", script["driver_version"]));
    let script_object = script.as_object_mut().unwrap();
    script_object.insert("disk_cache".to_owned(), json!(true));
    script_object.insert("disk_cache_dir".to_owned(), json!(disk));
    let env = scenario.on(Driver::Test(script)).unwrap();
    // Slow looks into the disk cache count as slow.
    let env = env.without_var("VKSTASH_TEST_UNHURRIED").var("VKSTASH_TEST_BUSY", "0");
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

/// Does one piece of work after the other on one device, with one cache for all if the first has a shared one.
fn phases(input: &Value) -> Value {
    let phases: Vec<Work> = serde_json::from_value(input.clone()).unwrap();
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let device = Arc::new(Device::new(&instance, &phases[0].device_options()).unwrap());
    let is_shared = phases[0].caches == Caches::Shared;
    let cache = if is_shared { device.cache(&[]) } else { Default::default() };
    let done: Vec<Done> = phases.iter().map(|work| work.run_through(&device, cache)).collect();
    if is_shared {
        device.destroy_cache(cache);
    }
    serde_json::to_value(done).unwrap()
}

/// As long as a program waits for the stash at its end, in milliseconds.
const LONG: u64 = 400;

/// A program that makes two new pipelines, `new`, beside those of earlier runs. They have the same shaders, so the layer
/// has a companion cache to destroy with the device. If `is_long`, that takes the driver long.
fn long_end(input: &Value) -> Value {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let work = Work { shader: Shader::DynamicRendering, ..program(Caches::None) };
    let device = Device::new(&instance, &work.device_options()).unwrap();
    let new = Work { first: input["new"].as_u64().unwrap() as u32, count: 1, ..work.clone() };
    for work in [&work, &new, &Work { shader: Shader::RenderPass, ..new.clone() }] {
        assert!(work.run(&device).all_made());
    }
    let is_long = input["is_long"] == true;
    let ms = if is_long { LONG } else { 0 };
    let fault = json!({ "command": "vkDestroyPipelineCache", "hang_ms": ms });
    TestDriver::open().control(&json!({ "faults": [fault] }));
    let began = Instant::now();
    drop(device);
    assert!(!is_long || began.elapsed() >= Duration::from_millis(LONG), "there was a companion");
    Value::Null
}

/// How often the driver has said COMPILE_REQUIRED.
fn refusals(record: &Path) -> usize {
    let record: Value = serde_json::from_slice(&std::fs::read(record).unwrap()).unwrap();
    let calls = record["calls"].as_array().unwrap().iter();
    calls.filter(|call| call["result"] == 1000297000).count()
}

/// What is known of this version of the driver.
fn comparison(env: &Env, version: u32, habit: &str) -> Option<ComparisonInfo> {
    let [application] = list_applications(&env.stash_folder()).unwrap().try_into().unwrap();
    let is_of =
        |part: &&PartInfo| part.device.as_ref().is_some_and(|device| device.driver_version == version);
    application.parts.iter().find(is_of)?.comparisons.get(habit).cloned()
}

fn verdict(env: &Env, version: u32, habit: &str) -> Option<String> {
    comparison(env, version, habit)?.asked_first
}

/// Runs the program until it is known who answers sooner. On a busy machine that takes more than one trial.
fn until_a_verdict(scenario: &Scenario, env: &Env, work: &Work, (version, habit): (u32, &str)) {
    for _ in 0..4 {
        if verdict(env, version, habit).is_none() {
            run(scenario, env, work);
        }
    }
}

const ALL: u64 = COUNT as u64;

#[test]
fn a_driver_that_answers_sooner_is_asked_first_until_its_next_update() {
    scenario(STEPS, |scenario| {
        let (old, new) = (slow_beside_the_disk(scenario, 1), slow_beside_the_disk(scenario, 2));
        let work = program(Caches::None);
        for (version, env) in [(1, &old), (2, &new)] {
            assert_eq!(run(scenario, env, &work), (0, 0), "the first run records");
            assert_eq!(run(scenario, env, &work), (ALL, 0));
            assert_eq!(run(scenario, env, &work), (ALL, 0));
            assert_eq!(verdict(env, version, "no_cache"), None);
            assert_eq!(run(scenario, env, &work), (0, ALL), "the trial");
            until_a_verdict(scenario, env, &work, (version, "no_cache"));
            assert_eq!(verdict(env, version, "no_cache").as_deref(), Some("driver"));
            for _ in 0..3 {
                assert_eq!(run(scenario, env, &work), (0, ALL));
            }
        }
        assert_eq!(verdict(&new, 1, "no_cache").as_deref(), Some("driver"));
    });
}

/// Mesa writes what is loaded into a cache to its disk cache by threads of low priority, and waits for them.
#[test]
fn a_driver_that_makes_programs_wait_for_its_writes_is_asked_first_while_the_machine_is_busy() {
    scenario(STEPS, |scenario| {
        for (id, while_busy) in [(3, (0, ALL)), (5, (ALL, 0))] {
            let script = json!({ "driver_id": id, "driver_version": id, "disk_cache_us": 5000 });
            let env = on(scenario, script);
            let env = env.stash(scenario.folder().join(format!("stash {id}")));
            let busy = env.clone().var("VKSTASH_TEST_BUSY", "1");
            let work = program(Caches::None);
            assert_eq!(run(scenario, &busy, &work), (0, 0), "the first run records");
            assert_eq!(run(scenario, &busy, &work), while_busy);
            let few = Work { count: 3, ..work.clone() };
            assert_eq!(run(scenario, &busy, &few), (while_busy.0.min(3), while_busy.1.min(3)));
            for _ in 0..3 {
                run(scenario, &env, &work);
            }
            until_a_verdict(scenario, &env, &work, (id, "no_cache"));
            assert_eq!(verdict(&env, id, "no_cache").as_deref(), Some("stash"));
            let known = format!("{:?}", comparison(&env, id, "no_cache"));
            assert_eq!(run(scenario, &busy, &work), while_busy);
            if id == 3 {
                let now = format!("{:?}", comparison(&env, id, "no_cache"));
                assert_eq!(now, known, "it tells nothing of other runs");
            }
            assert_eq!(run(scenario, &env, &work), (ALL, 0));
        }
    });
}

/// Its first pipeline goes into an empty cache, as those of the other habit do.
#[test]
fn a_shared_cache_has_one_way_from_its_first_pipeline_on() {
    scenario(STEPS, |scenario| {
        let env = slow_beside_the_disk(scenario, 1);
        let work = program(Caches::Shared);
        let seen: Vec<_> = (0..4).map(|_| run(scenario, &env, &work)).collect();
        until_a_verdict(scenario, &env, &work, (1, "shared_cache"));
        assert_eq!(verdict(&env, 1, "shared_cache").as_deref(), Some("driver"), "{seen:?}");
        assert_eq!(run(scenario, &env, &work), (0, ALL), "{seen:?}");
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
        assert_eq!(verdict(&env, 1, "no_cache").as_deref(), Some("driver"));
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

/// A new level, or a game after its update.
#[test]
fn a_driver_that_is_asked_first_is_hardly_asked_for_what_it_never_has() {
    scenario(STEPS, |scenario| {
        // RADV is asked no other question. What that costs others nobody has measured: before each compile they are.
        for (id, questions) in [(3, 1..=20), (5, 100..=100)] {
            let env = on(scenario, json!({ "driver_id": id, "driver_version": id }));
            let env = env.stash(scenario.folder().join(format!("stash {id}")));
            let env = env.var("VKSTASH_ASK_FIRST", "driver");
            let work = program(Caches::None);
            run(scenario, &env, &work);
            let record = scenario.folder().join("record");
            // The first twenty are known to the driver.
            let new = Work { first: 1, count: 120, ..work };
            let (_, had) = run(scenario, &env.var("VKSTASH_TEST_ICD_RECORD", &record), &new);
            assert_eq!(had, ALL, "driver {id}");
            let refused = refusals(&record);
            assert!(questions.contains(&refused), "driver {id}: {refused} questions in vain");
        }
    });
}

/// The driver's disk cache has them since the user played without the layer.
#[test]
fn what_only_the_driver_has_is_not_compiled_after_questions_in_vain() {
    scenario(STEPS, |scenario| {
        for (version, who) in [(1, "stash"), (2, "driver")] {
            // Neither driver is recorded for nothing.
            for id in [4, 5] {
                let version = 10 * id + version;
                let env = on(scenario, json!({ "driver_id": id, "driver_version": version }));
                let known = Work { first: 1020, count: 80, ..program(Caches::None) };
                scenario.run_ok::<Done>("work", &env.clone().var("VKSTASH_DISABLE", "1"), &known);
                let env = env.stash(scenario.folder().join(format!("stash {version}")));
                let env = env.var("VKSTASH_ASK_FIRST", who);
                run(scenario, &env, &program(Caches::None));
                let all = Work { first: 1000, count: 100, ..program(Caches::None) };
                let run = scenario.run_ok::<Done>("work", &env, &all);
                let seen = (run.reports.sum("driver_had"), run.reports.sum("compiled"));
                assert_eq!(seen, (80, 20), "driver {id}, {who} first");
            }
        }
    });
}

#[test]
fn a_program_that_asks_its_cache_gets_its_answer_after_questions_in_vain() {
    scenario(STEPS, |scenario| {
        for id in [3, 5] {
            let env = on(scenario, json!({ "driver_id": id, "driver_version": id }));
            let env = env.stash(scenario.folder().join(format!("stash {id}")));
            let env = env.var("VKSTASH_ASK_FIRST", "driver");
            run(scenario, &env, &program(Caches::None));
            let few = Work { count: 2, ..program(Caches::Shared) };
            let new = Work { first: 8000, ..program(Caches::Shared) };
            let phases = [few.clone(), new, Work { feedback: true, ..few }];
            let done = scenario.run_ok::<Vec<Done>>("phases", &env, &phases).value;
            let hits: Vec<bool> = done[2].feedback.iter().map(|feedback| feedback.says_hit()).collect();
            assert_eq!(hits, [true; 2], "driver {id}");
        }
    });
}

#[test]
fn a_call_that_forbids_compiling_gets_what_its_cache_has_after_questions_in_vain() {
    scenario(STEPS, |scenario| {
        let script = json!({ "driver_id": 3, "ignore_blobs": true });
        let env = scenario.on(Driver::Test(script)).unwrap().stash(scenario.folder().join("stash"));
        for who in ["stash", "driver"] {
            // The first one goes through the program's cache, which is empty, and its artifact is useless.
            let one = Work { count: 1, ..program(Caches::Shared) };
            let new = Work { first: 8000, ..program(Caches::Shared) };
            let phases = [one.clone(), new, Work { fail_on: true, ..one }];
            let env = env.clone().stash(scenario.folder().join(who)).var("VKSTASH_ASK_FIRST", who);
            let done = scenario.run_ok::<Vec<Done>>("phases", &env, &phases);
            assert!(done.value[2].all_made(), "{who} first: {:?}", done.reports);
            assert_eq!(done.reports.sum("not_taken"), 1, "{who} first");
        }
    });
}

/// Pipelines of the same shaders and another state are no hits of this driver's.
#[test]
fn a_companion_that_finds_nothing_is_not_asked_for_ever() {
    scenario(STEPS, |scenario| {
        let env = on(scenario, json!({ "driver_id": 3, "driver_version": 1, "compile_us": 300 }));
        let record = scenario.folder().join("record");
        let env = env.var("VKSTASH_TEST_ICD_RECORD", &record).var("VKSTASH_TEST_UNHURRIED", "1");
        let some = Work { shader: Shader::DynamicRendering, count: 300, ..program(Caches::None) };
        let others = Work { shader: Shader::RenderPass, ..some.clone() };
        scenario.run_ok::<Vec<Done>>("phases", &env.var("VKSTASH_ASK_FIRST", "stash"), &[some, others]);
        let refused = refusals(&record);
        assert!((128..=256).contains(&refused), "{refused} questions to companions");
    });
}

/// What a call found that may not compile took no time to compile.
#[test]
fn what_the_driver_has_counts_as_no_time_to_compile() {
    scenario(STEPS, |scenario| {
        let env = on(scenario, json!({ "driver_id": 3, "driver_version": 1 }));
        let work = program(Caches::None);
        scenario.run_ok::<Done>("work", &env.clone().var("VKSTASH_DISABLE", "1"), &work);
        let env = env.var("VKSTASH_ASK_FIRST", "stash");
        let run = scenario.run_ok::<Done>("work", &env, &Work { fail_on: true, ..work });
        assert_eq!((run.reports.sum("driver_had"), run.reports.sum("compile_ns")), (ALL, 0));
    });
}

/// Where the driver is asked first, an error says nothing of what it has.
#[test]
fn errors_are_no_questions_in_vain() {
    scenario(STEPS, |scenario| {
        let env = on(scenario, json!({ "driver_id": 3, "driver_version": 1 }));
        let known = Work { first: 1000, ..program(Caches::None) };
        scenario.run_ok::<Done>("work", &env.clone().var("VKSTASH_DISABLE", "1"), &known);
        // Each of these calls goes down twice: as the question, and as the program made it.
        let fault = |call: u32| json!({ "command": "vkCreateComputePipelines", "call": call, "result": -1 });
        let faults: Value = (1..=20).map(fault).collect();
        let env = on(scenario, json!({ "driver_id": 3, "driver_version": 1, "faults": faults }));
        let env = env.var("VKSTASH_ASK_FIRST", "driver");
        let failing = Work { first: 1, count: 10, ..program(Caches::None) };
        let run = scenario.run_ok::<Vec<Done>>("phases", &env, &[failing, known]);
        assert_eq!((run.reports.sum("failed"), run.reports.sum("driver_had")), (10, ALL));
    });
}

/// A pipeline that bypasses the stash may leave anything in the driver's caches.
#[test]
fn one_bypassed_pipeline_does_not_make_every_later_compile_a_question() {
    scenario(STEPS, |scenario| {
        for (version, caches) in [(1, Caches::None), (2, Caches::Shared)] {
            let env = on(scenario, json!({ "driver_id": 3, "driver_version": version }));
            let record = scenario.folder().join("record");
            let env = env.var("VKSTASH_TEST_ICD_RECORD", &record).var("VKSTASH_ASK_FIRST", "stash");
            let one = Work { first: 7000, count: 1, ..program(caches) };
            let bypassed = Work { first: 5000, unknown_structure: true, ..one.clone() };
            let new = Work { first: 1000, count: 100, ..program(caches) };
            let done = scenario.run_ok::<Vec<Done>>("phases", &env, &[one, bypassed, new]);
            assert_eq!(done.reports.sum("bypassed"), 1);
            let refused = refusals(&record);
            assert!((1..=10).contains(&refused), "{caches:?}: {refused} questions in vain");
        }
    });
}

#[test]
fn a_stash_that_answers_sooner_stays_first_after_a_trial() {
    scenario(STEPS, |scenario| {
        // Each look into the driver's disk cache takes ten milliseconds, and nothing else does.
        for (version, caches) in [(1, Caches::None), (2, Caches::Fresh), (3, Caches::Shared)] {
            let env = on(scenario, json!({ "driver_version": version, "disk_cache_us": 10_000 }));
            let work = program(caches);
            let served: Vec<u64> = (0..4).map(|_| run(scenario, &env, &work).0).collect();
            assert_eq!(served, [0, ALL, ALL, 0], "{caches:?}: one run that records, two, and the trial");
            let habit = ["no_cache", "fresh_cache", "shared_cache"][version as usize - 1];
            until_a_verdict(scenario, &env, &work, (version, habit));
            assert_eq!(verdict(&env, version, habit).as_deref(), Some("stash"));
            assert_eq!(run(scenario, &env, &work).0, ALL);
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
        assert_eq!(comparison(&stash, 1, "no_cache"), None, "nothing was compared");
    });
}

#[test]
fn a_program_with_few_pipelines_is_not_compared() {
    scenario(STEPS, |scenario| {
        let env = slow_beside_the_disk(scenario, 1);
        let few = Work { count: 15, ..program(Caches::None) };
        run(scenario, &env, &few);
        for _ in 0..6 {
            assert_eq!(run(scenario, &env, &few), (15, 0));
        }
        assert_eq!(comparison(&env, 1, "no_cache"), None);
    });
}

/// What cannot be read now is not replaced.
#[test]
fn a_slow_disk_costs_no_verdict() {
    scenario(STEPS, |scenario| {
        let env = slow_beside_the_disk(scenario, 1);
        let work = program(Caches::None);
        for _ in 0..5 {
            run(scenario, &env, &work);
        }
        let known = comparison(&env, 1, "no_cache");
        assert_eq!(known.as_ref().and_then(|known| known.asked_first.as_deref()), Some("driver"));
        let hurried = env.clone().var("VKSTASH_OPEN_MS", "0");
        for _ in 0..3 {
            run(scenario, &hurried, &work);
            assert_eq!(comparison(&env, 1, "no_cache"), known);
        }
    });
}

/// A failing call is known by its key, so the driver is not asked before the key is known.
#[test]
fn a_call_that_fails_keeps_its_single_driver_call_and_the_others_are_served() {
    scenario(STEPS, |scenario| {
        let env = slow_beside_the_disk(scenario, 1);
        let work = program(Caches::None);
        for _ in 0..5 {
            run(scenario, &env, &work);
        }
        assert_eq!(run(scenario, &env, &work), (0, ALL));
        let fault = json!([{ "command": "vkCreateComputePipelines", "result": -8 }]);
        let script = json!({ "driver_version": 1, "compile_us": 20, "faults": fault });
        let one = Work { first: 1000, count: 1, ..program(Caches::None) };
        let failing = on(scenario, script);
        let seen = scenario.run_ok::<Done>("work", &failing, &one);
        assert_eq!(seen.reports.sum("failed"), 1);
        assert_eq!(run(scenario, &env, &work), (ALL, 0));
    });
}

#[test]
fn a_program_that_forbids_compiling_is_compared_too() {
    scenario(STEPS, |scenario| {
        let env = slow_beside_the_disk(scenario, 1);
        run(scenario, &env, &program(Caches::None));
        let work = Work { fail_on: true, ..program(Caches::None) };
        assert_eq!(run(scenario, &env, &work), (ALL, 0));
        let seen: Vec<_> = (0..3).map(|_| run(scenario, &env, &work)).collect();
        until_a_verdict(scenario, &env, &work, (1, "no_cache"));
        assert_eq!(verdict(&env, 1, "no_cache").as_deref(), Some("driver"), "{seen:?}");
        assert_eq!(run(scenario, &env, &work), (0, ALL), "{seen:?}");
        // What the driver does not have is served.
        std::fs::remove_dir_all(scenario.folder().join("disk 1")).unwrap();
        assert_eq!(run(scenario, &env, &work), (ALL, 0));
    });
}

/// The calls are answered sooner, and the end of the process takes longer.
#[test]
fn what_the_driver_does_later_with_served_pipelines_is_part_of_what_they_cost() {
    scenario(STEPS, |scenario| {
        let script = json!({ "driver_version": 1, "disk_cache_us": 5_000, "disk_cache_write_us": 25_000 });
        let env = on(scenario, script);
        let work = program(Caches::None);
        let seen: Vec<_> = (0..9).map(|_| run(scenario, &env, &work)).collect();
        assert_eq!(seen[1..3], [(ALL, 0); 2], "{seen:?}");
        assert_eq!(seen[8], (0, ALL), "{seen:?}");
        let known = comparison(&env, 1, "no_cache").unwrap();
        assert_eq!(known.asked_first.as_deref(), Some("driver"), "{known:?}");
        assert!(known.stash_ns > known.driver_ns, "{known:?}");
        // The driver writes for five milliseconds for each of the twenty pipelines.
        assert!(known.stash_ns.unwrap() < 50_000_000, "each has its share: {known:?}");
    });
}

/// The program waits at its end only once as long as it may.
#[test]
fn a_program_that_has_waited_in_vk_destroy_device_does_not_wait_for_the_stash_again() {
    scenario(STEPS, |scenario| {
        for (version, is_long) in [(1, false), (2, true)] {
            let script = json!({
                "driver_id": 5, "driver_version": version, "disk_cache_us": 5_000, "disk_cache_write_us": 25_000
            });
            let env = on(scenario, script).var("VKSTASH_END_MS", LONG.to_string());
            let share = || {
                let known = comparison(&env, version, "no_cache")?;
                Some(known.stash_ns? > known.driver_ns?)
            };
            // On a busy machine the costs of some runs are not known.
            for run in 0..30 {
                if run >= 9 && share() == Some(!is_long) {
                    break;
                }
                let input = json!({ "new": 1000 + run, "is_long": is_long });
                scenario.run_ok::<Value>("long_end", &env, &input);
            }
            let known = comparison(&env, version, "no_cache");
            assert_eq!(share(), Some(!is_long), "the driver's writing is part of the costs: {known:?}");
        }
    });
}
