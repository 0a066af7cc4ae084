//! Unusual drivers: every combination of features, hostile answers and scripted faults, on the programmable driver,
//! which checks the layer's calls.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Value, json};

use vkstash_layer_tests::child::{Run, Scenario, scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::work::{Caches, Code, Done, Feedback, Shader, Work};

/// The results of a program, and the driver's record.
#[derive(Debug, Deserialize)]
struct Seen {
    done: Done,
    violations: Vec<String>,
    compiles: u64,
    /// The keys of the driver's pipelines that the program held at the end.
    pipelines: Vec<String>,
}

/// Runs the program, and takes the driver's record when the device is destroyed.
fn step(input: &Value) -> Value {
    let work: Work = serde_json::from_value(input.clone()).unwrap();
    let (done, [mut record, after]) = work.recorded();
    let late = after["violations"].as_array().unwrap().clone();
    record["violations"].as_array_mut().unwrap().extend(late);
    let [violations, compiles, pipelines] =
        ["violations", "compiles", "pipelines"].map(|name| record[name].take());
    json!({ "done": done, "violations": violations, "compiles": compiles, "pipelines": pipelines })
}

fn on_drivers(drivers: &[Value], test: impl Fn(&Scenario, &Env, &Value)) {
    scenario(&[("step", step)], |scenario| {
        for (number, driver) in drivers.iter().enumerate() {
            let Some(env) = scenario.on(Driver::Test(driver.clone())) else { return };
            let env = env.stash(scenario.folder().join(format!("stash-{number}")));
            test(scenario, &env, driver);
        }
    });
}

fn run(scenario: &Scenario, env: &Env, work: &Work) -> Run<Seen> {
    let run = scenario.run_ok::<Seen>("step", env, work);
    assert_eq!(run.value.violations, Vec::<String>::new(), "{:?} {work:?}", env.driver());
    run
}

/// `env` with its stash, on a driver with another script.
fn reprogrammed(scenario: &Scenario, env: &Env, driver: Value) -> Env {
    scenario.on(Driver::Test(driver)).unwrap().stash(env.stash_folder())
}

/// Every combination of the properties on which the answer depends.
fn mixes() -> Vec<Value> {
    let mut all = Vec::new();
    for cache_control in [true, false] {
        for creation_feedback in [true, false] {
            for cache_data in ["full", "header_only", "empty", "error", "size_untouched"] {
                for (driver_id, disk_cache, identifiers) in
                    [(0, false, false), (3, true, true), (4, true, false)]
                {
                    all.push(json!({
                        "cache_control": cache_control,
                        "creation_feedback": creation_feedback,
                        "cache_data": cache_data,
                        "driver_id": driver_id,
                        "disk_cache": disk_cache,
                        "identifiers": identifiers,
                    }));
                }
            }
        }
    }
    all
}

#[test]
fn every_combination_of_features_gives_the_same_pipelines_as_without_the_layer() {
    on_drivers(&mixes(), |scenario, env, driver| {
        for (shader, caches) in [(Shader::Compute, Caches::None), (Shader::RenderPass, Caches::Fresh)] {
            let work =
                Work { shader, caches, feedback: driver["creation_feedback"] == true, ..Work::default() };
            let without = run(scenario, &env.clone().without_layer(), &work).value;
            assert_eq!(without.pipelines.len(), 3, "{driver}");
            assert_eq!(without.pipelines.iter().collect::<BTreeSet<_>>().len(), 3, "each is another one");
            for round in ["cold", "warm"] {
                let seen = run(scenario, env, &work);
                assert_eq!(seen.value.pipelines, without.pipelines, "{round} {driver}");
                assert_eq!(seen.value.done, without.done, "{round} {driver}");
                assert!(seen.value.compiles <= 6, "{round} {driver}: {}", seen.value.compiles);
                let hit = seen.value.done.feedback.iter().any(Feedback::says_hit);
                assert!(!hit, "{round} {driver}: {:?}", seen.value.done.feedback);
            }
        }
    });
}

#[test]
fn a_driver_with_cache_data_compiles_nothing_twice() {
    let drivers = [
        json!({}),
        json!({ "identifiers": true }),
        json!({ "identifiers": true, "identifier_size": 8 }),
        json!({ "driver_id": 3 }),
        json!({ "driver_id": 4 }),
        json!({ "cache_control": false }),
        json!({ "cache_control": false, "driver_id": 3 }),
        json!({ "creation_feedback": false }),
    ];
    on_drivers(&drivers, |scenario, env, driver| {
        for shader in [Shader::Compute, Shader::Specialized, Shader::RenderPass, Shader::DynamicRendering] {
            for caches in [Caches::Fresh, Caches::None] {
                let work = Work { shader, caches, first: 1000 * caches as u32, ..Work::default() };
                run(scenario, env, &work);
                let warm = run(scenario, env, &work);
                assert!(warm.value.done.all_made());
                let counters = warm.reports.counters();
                let kept = counters.get("served").or(counters.get("offered")).copied();
                // If the driver cannot be asked first, a call without a cache may not be recorded where recording
                // costs time.
                let may_not_record = driver["cache_control"] == false && caches == Caches::None;
                if may_not_record && driver["driver_id"] != 3 {
                    continue;
                }
                assert_eq!(kept, Some(3), "{driver} {shader:?} {caches:?}: {counters:?}");
                assert_eq!(warm.value.compiles, 0, "{driver} {shader:?} {caches:?}: {counters:?}");
            }
        }
    });
}

#[test]
fn data_that_the_driver_ignores_is_noticed() {
    on_drivers(&[json!({}), json!({ "driver_id": 3 })], |scenario, env, driver| {
        run(scenario, env, &Work::default());
        let mut changed = driver.clone();
        changed["ignore_blobs"] = json!(true);
        let warm = run(scenario, &reprogrammed(scenario, env, changed), &Work::default());
        assert!(warm.value.done.all_made());
        assert_eq!(warm.reports.sum("not_taken"), 3, "{:?}", warm.reports.counters());
        assert_eq!(warm.reports.sum("served"), 0);
    });
}

#[test]
fn another_driver_version_or_cache_uuid_is_another_device() {
    on_drivers(&[json!({})], |scenario, env, _| {
        run(scenario, env, &Work::default());
        for changed in [
            json!({ "driver_version": 2 }),
            json!({ "pipeline_cache_uuid": "00112233445566778899aabbccddeeff" }),
            json!({ "device_id": 77 }),
            json!({ "driver_id": 3 }),
        ] {
            let other = reprogrammed(scenario, env, changed.clone());
            let outcome = run(scenario, &other, &Work::default());
            assert_eq!(outcome.reports.sum("served"), 0, "{changed}: {:?}", outcome.reports.counters());
            assert!(outcome.value.done.all_made());
        }
    });
}

#[test]
fn an_error_in_a_call_of_the_layers_own_does_not_fail_the_program() {
    let out_of_memory = -1;
    for command in ["vkCreatePipelineCache", "vkGetPipelineCacheData", "vkMergePipelineCaches"] {
        for driver_id in [0, 3] {
            let fault = json!({ "command": command, "result": out_of_memory });
            let driver = json!({ "driver_id": driver_id, "faults": [fault] });
            on_drivers(&[json!({ "driver_id": driver_id })], |scenario, env, _| {
                for shader in [Shader::Compute, Shader::RenderPass] {
                    // Faults in a cold run, then in a warm one: the program itself passes no cache.
                    let work = Work { shader, ..Work::default() };
                    let faulty = reprogrammed(scenario, env, driver.clone());
                    assert!(run(scenario, &faulty, &work).value.done.all_made(), "cold {driver}");
                    assert!(run(scenario, env, &work).value.done.all_made());
                    assert!(run(scenario, &faulty, &work).value.done.all_made(), "warm {driver}");
                }
            });
        }
    }
}

#[test]
fn the_program_sees_the_drivers_errors() {
    let fault = json!({ "command": "vkCreateComputePipelines", "result": -1 });
    let drivers = [json!({ "faults": [fault.clone()] }), json!({ "driver_id": 3, "faults": [fault] })];
    on_drivers(&drivers, |scenario, env, driver| {
        for caches in [Caches::None, Caches::Fresh, Caches::Shared] {
            let seen = run(scenario, env, &Work { caches, batch: 3, ..Work::default() });
            assert_eq!(seen.value.done.results, [-1], "{driver}");
            assert_eq!(seen.value.done.made, [false; 3], "{driver}");
            assert_eq!(seen.reports.sum("failed"), 3, "{driver} {:?}", seen.reports.counters());
        }
    });
}

#[test]
fn identifiers_are_served_whether_the_driver_or_the_layer_made_them() {
    let drivers = [
        json!({}),
        json!({ "identifiers": true }),
        json!({ "identifiers": true, "identifier_size": 8 }),
        json!({ "identifiers": true, "identifier_size": 20, "driver_id": 3, "disk_cache": true }),
        json!({ "driver_id": 4, "disk_cache": true }),
    ];
    on_drivers(&drivers, |scenario, env, driver| {
        for shader in [Shader::Compute, Shader::RenderPass] {
            for caches in [Caches::None, Caches::Fresh] {
                let first = 1000 * caches as u32;
                let by_identifier = Work { shader, caches, first, code: Code::Identifier, ..Work::default() };
                let cold = run(scenario, env, &by_identifier);
                assert!(cold.value.done.all_refused(), "{driver}: {:?}", cold.value.done.results);
                run(scenario, env, &Work { code: Code::Module, identifiers: true, ..by_identifier.clone() });
                let warm = run(scenario, env, &by_identifier);
                let counters = warm.reports.counters();
                assert!(warm.value.done.all_made(), "{driver} {shader:?} {caches:?}: {counters:?}");
                assert_eq!(warm.value.compiles, 0);
            }
        }
    });
}

/// Some drivers never accept their own data again. Offering it in every run would cost the program a look-up, a
/// refusal and a record each time.
#[test]
fn artifacts_that_a_driver_refuses_three_times_are_no_longer_offered() {
    let stubborn = [json!({ "ignore_blobs": true })];
    on_drivers(&stubborn, |scenario, env, _| {
        let work = Work { count: 2, ..Work::default() };
        for expected in [[2, 0, 0], [2, 2, 0], [2, 2, 0], [2, 2, 0], [0, 0, 2], [0, 0, 2]] {
            let run = run(scenario, env, &work);
            let seen = ["compiled", "not_taken", "compiled_unrecorded"].map(|name| run.reports.sum(name));
            assert_eq!(seen, expected, "{}", run.stderr);
            assert_eq!(run.value.compiles, 2);
        }
        // An artifact that the driver accepts later was offered before the layer stopped offering.
        let mild = reprogrammed(scenario, env, json!({}));
        let other = Work { count: 3, ..Work::default() };
        for expected in [[1, 0], [0, 1]] {
            let run = run(scenario, &mild, &other);
            assert_eq!(["compiled", "served"].map(|name| run.reports.sum(name)), expected);
        }
    });
}

/// A driver that cannot be kept from compiling says nothing of what it refuses: what it adds to the data tells.
#[test]
fn a_driver_without_cache_control_is_not_offered_what_it_does_not_take_in_every_run() {
    let stubborn = [json!({ "ignore_blobs": true, "cache_control": false })];
    on_drivers(&stubborn, |scenario, env, _| {
        let work = Work { count: 2, caches: Caches::Fresh, ..Work::default() };
        for expected in [[2, 0, 0, 0], [2, 2, 0, 0], [2, 2, 0, 0], [2, 2, 0, 0], [0, 0, 2, 0], [0, 0, 2, 0]] {
            let run = run(scenario, env, &work);
            let names = ["compiled", "not_taken", "compiled_unrecorded", "offered"];
            assert_eq!(names.map(|name| run.reports.sum(name)), expected, "{}", run.stderr);
            assert_eq!(run.value.compiles, 2);
        }
    });
}

/// A compile may be much faster than the one before, which a busy machine has delayed: whether what was refused was of
/// use all the same is told by what the compile adds to its data.
#[test]
fn an_artifact_that_was_refused_was_of_use_if_the_compile_adds_nothing_to_it() {
    on_drivers(&[json!({ "compile_us": 50_000 })], |scenario, env, _| {
        let work = Work { count: 2, ..Work::default() };
        let counted = |env: &Env| {
            let run = run(scenario, env, &work);
            let counts = ["compiled", "not_taken", "offered", "served"].map(|name| run.reports.sum(name));
            (run.value.compiles, counts)
        };
        assert_eq!(counted(env), (2, [2, 0, 0, 0]));
        // Refused, and used.
        let denying = reprogrammed(scenario, env, json!({ "denies": true, "pads_used": true }));
        for _ in 0..4 {
            assert_eq!(counted(&denying), (0, [0, 2, 2, 0]));
        }
        // Refused, and of no use: in hardly any time.
        let ignoring = reprogrammed(scenario, env, json!({ "ignore_blobs": true }));
        assert_eq!(counted(&ignoring), (2, [2, 2, 0, 0]));
        let usual = reprogrammed(scenario, env, json!({}));
        assert_eq!(counted(&usual), (0, [0, 0, 0, 2]));
    });
}

/// Sizes that a driver reports must not be trusted: an allocation that fails would end the program.
#[test]
fn a_driver_that_reports_wrong_sizes_ends_no_program() {
    let room: u64 = 1 << 30;
    // More than a list may hold, than a machine has, than this process may have; and a size that almost fits.
    for claim in [u64::MAX >> 1, 1 << 44, room, room - (64 << 20)] {
        on_drivers(&[json!({ "claims_bytes": claim })], |scenario, env, driver| {
            let env = env.clone().address_space_limit(room);
            for shader in [Shader::Compute, Shader::RenderPass] {
                let work = Work { shader, flags2: true, ..Work::default() };
                for round in ["cold", "warm"] {
                    let seen = run(scenario, &env, &work);
                    assert!(seen.value.done.all_made(), "{round} {driver}: {:?}", seen.value.done.results);
                    assert_eq!(seen.value.compiles, 3, "{round} {driver}");
                    let counters = seen.reports.counters();
                    assert_eq!(seen.reports.sum("compiled_unrecorded"), 3, "{round} {driver} {counters:?}");
                }
            }
        });
    }
}

/// Requests to a driver that keeps nothing are counted by the driver's answers.
#[test]
fn refused_requests_to_a_driver_without_cache_data_do_not_count_as_compiles() {
    let lavapipe = ash::vk::DriverId::MESA_LLVMPIPE.as_raw();
    on_drivers(&[json!({ "driver_id": lavapipe })], |scenario, env, _| {
        let counted = |work: &Work| {
            let run = run(scenario, env, work);
            ["compiled_unrecorded", "compile_required", "failed"].map(|name| run.reports.sum(name))
        };
        for batch in [1, 3] {
            assert_eq!(counted(&Work { batch, ..Work::default() }), [3, 0, 0]);
            assert_eq!(counted(&Work { batch, fail_on: true, ..Work::default() }), [0, 3, 0]);
        }
    });
}
