//! Artifacts that make a driver crash.

use serde_json::{Value, json};
use vkstash_layer_tests::child::Scenario;
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::suite::{files, on, run, run_to_any_end};
use vkstash_layer_tests::work::{End, Work};

fn driver(scenario: &Scenario, env: &Env, script: Value) -> Env {
    scenario.on(Driver::Test(script)).unwrap().stash(env.stash_folder())
}

/// A driver that crashes in the first creation of a cache from data, which without the layer never happens.
fn crashing() -> Value {
    json!({ "faults": [{ "command": "vkCreatePipelineCache", "call": 1, "die": "segv" }] })
}

#[test]
fn an_artifact_that_crashes_the_driver_repeatedly_is_quarantined() {
    on(Driver::Test(json!({})), |scenario, env| {
        let work = Work { count: 1, ..Work::default() };
        run(scenario, env, &work);
        let crashing = driver(scenario, env, crashing());
        // No marks are made before the first death.
        for death in 0..3 {
            let dead = run_to_any_end(scenario, &crashing, &work);
            assert_eq!(dead.signal(), Some(libc::SIGSEGV), "{death}: {}", dead.ending());
        }
        for _ in 0..2 {
            let third = run(scenario, &crashing, &work);
            let counts = ["quarantined", "compiled_unrecorded"].map(|name| third.reports.sum(name));
            assert_eq!(counts, [1, 1], "{:?}", third.reports);
        }
        // Other artifacts are still served.
        let other = Work { count: 3, ..Work::default() };
        run(scenario, env, &other);
        let warm = run(scenario, env, &other);
        assert_eq!(["quarantined", "served"].map(|name| warm.reports.sum(name)), [1, 2]);
    });
}

#[test]
fn a_death_within_a_call_quarantines_no_valid_artifact() {
    on(Driver::Test(json!({})), |scenario, env| {
        let work = Work { count: 2, ..Work::default() };
        run(scenario, env, &work);
        let dead = run_to_any_end(scenario, &driver(scenario, env, crashing()), &work);
        assert_eq!(dead.signal(), Some(libc::SIGSEGV), "{}", dead.ending());
        // The driver survives the artifact: it is verified, and no longer marked.
        let warm = run(scenario, env, &work);
        assert_eq!(warm.reports.sum("served"), 2, "{:?}", warm.reports);
        for _ in 0..3 {
            let dead = run_to_any_end(scenario, &driver(scenario, env, crashing()), &work);
            assert_eq!(dead.signal(), Some(libc::SIGSEGV), "{}", dead.ending());
        }
        let warm = run(scenario, env, &work);
        assert_eq!(["quarantined", "served"].map(|name| warm.reports.sum(name)), [0, 2]);
    });
}

/// What the program waits for at its end is on the disk before the driver destroys the device: drivers crash there.
#[test]
fn a_driver_that_crashes_in_vk_destroy_device_loses_nothing_and_blames_no_artifact() {
    on(Driver::Test(json!({})), |scenario, env| {
        let work = Work { count: 3, ..Work::default() };
        let script = json!({ "faults": [{ "command": "vkDestroyDevice", "die": "segv" }] });
        let dying = driver(scenario, env, script);
        for served in [0, 3] {
            let dead = run_to_any_end(scenario, &dying, &work);
            assert_eq!(dead.signal(), Some(libc::SIGSEGV), "{}", dead.ending());
            // Those of the runs before count, too.
            let counts = ["compiled", "served"].map(|name| dead.reports.sum(name));
            assert_eq!(counts, [3, served], "{:?}", dead.reports);
            // A stash that waits for the next device keeps the file, in which nothing is marked.
            for guard in files(&env.stash_folder(), ".vkg") {
                assert!(std::fs::read(guard).unwrap()[64..].iter().all(|byte| *byte == 0));
            }
        }
        let warm = run(scenario, env, &work);
        assert_eq!(["quarantined", "served"].map(|name| warm.reports.sum(name)), [0, 3]);
    });
}

#[test]
fn an_exit_during_a_call_does_not_count_as_a_death() {
    on(Driver::Test(json!({})), |scenario, env| {
        let work = Work { count: 2, ..Work::default() };
        run(scenario, env, &work);
        let leaving = json!({ "faults": [{ "command": "vkCreatePipelineCache", "call": 1, "die": "exit" }] });
        for _ in 0..3 {
            let gone = run_to_any_end(scenario, &driver(scenario, env, leaving.clone()), &work);
            assert_eq!(gone.status.code(), Some(3), "{}", gone.ending());
        }
        let warm = run(scenario, env, &work);
        assert_eq!(["quarantined", "served"].map(|name| warm.reports.sum(name)), [0, 2]);
    });
}

#[test]
fn programs_that_are_killed_repeatedly_at_their_start_are_still_served() {
    on(Driver::Test(json!({})), |scenario, env| {
        let work = Work { count: 10, ..Work::default() };
        run(scenario, env, &work);
        for _ in 0..4 {
            let killed =
                run_to_any_end(scenario, env, &Work { end: End::Kill(0), count: 10, ..Work::default() });
            assert_eq!(killed.signal(), Some(libc::SIGKILL), "{}", killed.ending());
        }
        let warm = run(scenario, env, &work);
        assert_eq!(["quarantined", "served"].map(|name| warm.reports.sum(name)), [0, 10]);
    });
}

/// One of many processes that start after a death counts it, and none of them waits for the disk.
#[test]
fn a_death_counts_once_however_many_processes_start_after_it() {
    on(Driver::Test(json!({})), |scenario, env| {
        let work = Work { count: 1, ..Work::default() };
        for round in 0..3 {
            let env = env.clone().stash(scenario.folder().join(format!("stash-{round}")));
            run(scenario, &env, &work);
            // The first one makes no marks.
            for _ in 0..2 {
                let dead = run_to_any_end(scenario, &driver(scenario, &env, crashing()), &work);
                assert_eq!(dead.signal(), Some(libc::SIGSEGV), "{}", dead.ending());
            }
            let beside: Vec<_> = (0..8).map(|_| scenario.start("work", &env, &work)).collect();
            let said: String = beside.into_iter().map(|running| running.wait().stderr).collect();
            let counted = said.matches("a process died while").count();
            assert_eq!(counted, 1, "{said}");
            let last = run(scenario, &env, &work);
            assert_eq!(["quarantined", "served"].map(|name| last.reports.sum(name)), [0, 1]);
            assert!(files(&env.stash_folder(), ".vkg").is_empty());
        }
    });
}
