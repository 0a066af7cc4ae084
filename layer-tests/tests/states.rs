//! Pipelines that differ in state that the driver leaves out of its own key: without the layer they need one compile
//! and then hit, and with it no more may be compiled, whatever was served and whichever cache the program passes.

use std::process::Command;

use serde_json::{Value, json};

use vkstash_layer_tests::child::{Scenario, scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::report::Reports;
use vkstash_store::stash::inspect::list_applications;

/// Runs the client three times; gives the number of compiled pipelines of each run.
fn compiled(scenario: &Scenario, env: &Env, arguments: &[&str]) -> [u64; 3] {
    let name = arguments.join(" ");
    let place = scenario.folder().join(name.replace(' ', "_"));
    let file = place.join("cache-file");
    std::fs::create_dir_all(&place).unwrap();
    [1, 2, 3].map(|run| {
        let report = place.join(format!("report-{run}"));
        let env = env.clone().stash(place.join("stash")).report(&report);
        let mut command = Command::new(env!("CARGO_BIN_EXE_vkstash-states"));
        env.apply(&mut command);
        command.args(arguments).args(["--count", "60"]).arg("--cache-file").arg(&file);
        let output = command.output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}, run {run}: {stderr}");
        let reports = Reports::read(&report);
        let counters = reports.counters();
        for wrong in ["internal_failures", "failed", "compile_required", "not_taken", "bypassed"] {
            assert_eq!(reports.sum(wrong), 0, "{name}, run {run}, {wrong}: {counters:?}");
        }
        let all = ["served", "driver_had", "compiled", "compiled_unrecorded"];
        let made: u64 = all.iter().map(|counter| reports.sum(counter)).sum();
        assert_eq!(made, 60, "{name}, run {run}: {counters:?}");
        reports.sum("compiled") + reports.sum("compiled_unrecorded")
    })
}

fn on_radv(test: impl FnOnce(&Scenario, &Env)) {
    scenario(&[], |scenario| {
        if let Some(env) = scenario.on(Driver::Radv) {
            test(scenario, &env);
        }
    });
}

const STATES: [&str; 6] = ["viewport", "scissor", "depth-bias", "blend-constants", "stencil", "mixed"];

#[test]
fn one_compile_serves_every_state_that_the_driver_leaves_out_of_its_key() {
    on_radv(|scenario, env| {
        for cache in ["none", "shared", "file"] {
            for state in STATES {
                let compiled = compiled(scenario, env, &["--cache", cache, "--state", state]);
                assert_eq!(compiled, [1, 0, 0], "{cache}, {state}");
            }
        }
    });
}

#[test]
fn the_first_pipeline_of_a_batch_serves_the_others() {
    on_radv(|scenario, env| {
        for cache in ["none", "shared", "file", "fresh"] {
            let compiled = compiled(scenario, env, &["--cache", cache, "--batch", "60"]);
            assert_eq!(compiled, [1, 0, 0], "{cache}");
        }
    });
}

#[test]
fn several_driver_keys_of_one_set_of_shaders_are_compiled_once_each() {
    on_radv(|scenario, env| {
        for cache in ["none", "shared", "file"] {
            let [first, second, third] = compiled(scenario, env, &["--cache", cache, "--state", "formats"]);
            assert!((1..=10).contains(&first), "{cache}: {first}");
            assert_eq!([second, third], [0, 0], "{cache}");
        }
    });
}

#[test]
fn a_different_order_compiles_no_more_than_without_the_layer() {
    on_radv(|scenario, env| {
        for cache in ["none", "shared"] {
            let first = compiled(scenario, env, &["--cache", cache, "--state", "formats"])[0];
            for seed in ["1", "2"] {
                let shuffled = ["--cache", cache, "--state", "shuffled", "--seed", seed];
                for again in compiled(scenario, env, &shuffled) {
                    assert!(again <= first, "{cache}, {seed}: {again} of {first}");
                }
            }
        }
    });
}

#[test]
fn pipelines_that_the_cache_would_contain_are_created_although_compiling_is_forbidden() {
    on_radv(|scenario, env| {
        for cache in ["none", "shared", "file"] {
            // The client fails if a call is answered COMPILE_REQUIRED.
            let compiled = compiled(scenario, env, &["--cache", cache, "--fail-on"]);
            assert_eq!(compiled, [1, 0, 0], "{cache}");
        }
    });
}

#[test]
fn threads_that_share_a_cache_hit_the_pipelines_of_each_other() {
    on_radv(|scenario, env| {
        for cache in ["none", "shared"] {
            let compiled = compiled(scenario, env, &["--cache", cache, "--threads", "4"]);
            // Each thread may have begun before the first compile was done, as without the layer; what it compiled is
            // served later.
            assert!(compiled.iter().sum::<u64>() <= 4, "{cache}: {compiled:?}");
        }
    });
}

/// Without a common cache the driver compiles each of them, with the same result.
#[test]
fn equal_artifacts_are_stored_once_and_every_pipeline_is_served() {
    on_radv(|scenario, env| {
        assert_eq!(compiled(scenario, env, &["--cache", "fresh"]), [60, 0, 0]);
        let root = scenario.folder().join("--cache_fresh/stash");
        let [application] = list_applications(&root).unwrap().try_into().unwrap();
        let parts: Vec<_> = application.parts.iter().filter(|part| part.device.is_some()).collect();
        let sum = |kind: &str| parts.iter().filter_map(|part| part.records.get(kind)).sum::<u64>();
        assert_eq!((sum("artifact"), sum("same")), (1, 59), "{parts:?}");
        let payload: u64 = parts.iter().filter_map(|part| part.payload_bytes.get("artifact")).sum();
        let bytes: u64 = parts.iter().map(|part| part.bytes).sum();
        // For each pipeline a reference and a verified mark: headers, payloads and rows of the index.
        let least_index = parts.iter().map(|part| part.segments * 8192).sum::<u64>();
        assert!(
            bytes <= payload + 60 * (64 + 72 + 64 + 2 * 24) + least_index,
            "{bytes} bytes, {payload} of data"
        );
    });
}

/// Runs the client on the programmable driver with RADV's identity, whose policy is known, and nothing on its disk.
/// Says how many calls made a pipeline, and how many found nothing.
fn made_and_refused(scenario: &Scenario, stash: &str, arguments: &[&str]) -> [usize; 2] {
    let env = scenario.on(Driver::Test(json!({ "driver_id": 3, "compile_us": 500 }))).unwrap();
    let record = scenario.folder().join("record");
    let env = env.stash(scenario.folder().join(stash)).var("VKSTASH_TEST_ICD_RECORD", &record);
    let mut command = Command::new(env!("CARGO_BIN_EXE_vkstash-states"));
    env.apply(&mut command);
    let output = command.args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let record: Value = serde_json::from_slice(&std::fs::read(&record).unwrap()).unwrap();
    let calls = record["calls"].as_array().unwrap().iter();
    let is_create = |call: &&Value| call["command"] == "vkCreateGraphicsPipelines";
    let (made, refused): (Vec<_>, Vec<_>) = calls.filter(is_create).partition(|call| call["result"] == 0);
    [made.len(), refused.len()]
}

/// A question that finds nothing makes RADV look into its disk cache once more.
#[test]
fn a_driver_of_whole_pipelines_is_not_asked_for_shaders_that_it_has_met_apart() {
    scenario(&[], |scenario| {
        for cache in ["none", "shared"] {
            let arguments = ["--cache", cache, "--state", "shaders", "--count", "196"];
            let [made, refused] = made_and_refused(scenario, cache, &arguments);
            assert_eq!([made, refused], [196, 0], "{cache}");
        }
    });
}

/// With a cache of the layer's the driver reads all shaders of each pipeline from its disk.
#[test]
fn combinations_of_shaders_that_the_disk_has_are_left_to_the_driver_from_the_first_run_on() {
    scenario(&[], |scenario| {
        let disk = scenario.folder().join("disk");
        std::fs::create_dir(&disk).unwrap();
        let settings =
            json!({ "driver_id": 3, "compile_us": 500, "disk_cache": true, "disk_cache_dir": &disk });
        for cache in ["none", "shared"] {
            let run = |name: &str| {
                let env = scenario.on(Driver::Test(settings.clone())).unwrap();
                let report = scenario.folder().join(format!("report-{cache}-{name}"));
                let env = env.stash(scenario.folder().join(format!("{cache}-{name}"))).report(&report);
                let env = env.var("VKSTASH_ASK_FIRST", "auto");
                let mut command = Command::new(env!("CARGO_BIN_EXE_vkstash-states"));
                env.apply(&mut command);
                command.args(["--cache", cache, "--state", "shaders", "--count", "196"]);
                let output = command.output().unwrap();
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
                let reports = Reports::read(&report);
                ["compiled", "driver_had"].map(|counter| reports.sum(counter))
            };
            run("cold");
            assert_eq!(run("warm"), [0, 196], "{cache}: compiled, and the driver had");
        }
    });
}

/// Translators ask first, and then have it compiled.
#[test]
fn what_the_program_was_just_refused_is_not_asked_for_again() {
    scenario(&[], |scenario| {
        for cache in ["none", "shared", "fresh"] {
            let arguments = ["--cache", cache, "--state", "shaders", "--count", "60", "--retry"];
            let [made, refused] = made_and_refused(scenario, cache, &arguments);
            assert_eq!([made, refused], [60, 60], "{cache}");
        }
    });
}
