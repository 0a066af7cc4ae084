//! Creation feedback says "from the program's cache" if the driver says so without the layer.

use std::path::Path;
use std::process::Command;

use std::time::{Duration, Instant};

use ash::vk::{self, PipelineCreationFeedbackFlags as Flags};
use serde_json::{Value, json};
use vkstash_layer_tests::bench::report::Report;
use vkstash_layer_tests::child::{Scenario, scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::report::Reports;
use vkstash_layer_tests::test_driver::TestDriver;
use vkstash_layer_tests::vulkan::{Device, DeviceOptions, Instance, InstanceOptions, spirv};

/// Two programs with their folders, one of them with the layer.
struct Pair<'a> {
    scenario: &'a Scenario,
    env: Env,
}

impl Pair<'_> {
    /// Runs both programs, and says for each pipeline whether it came from the program's cache: without the layer and
    /// with it. `stash` and `file` name the stash and the program's file, which one run leaves for the next.
    fn hits(&self, stash: &str, file: &str, arguments: &[&str]) -> [Vec<bool>; 2] {
        let folder = self.scenario.folder();
        [false, true].map(|layer| {
            let report = folder.join("report");
            let _ = std::fs::remove_dir_all(&report);
            let env = self.env.clone().stash(folder.join(stash)).report(&report);
            let env = if layer { env } else { env.without_layer() };
            let file = folder.join(format!("{file}-{layer}"));
            let hits = hits(&env, &file, arguments);
            let reports = Reports::read(&report);
            assert_eq!(reports.0.len(), usize::from(layer));
            assert_eq!(reports.sum("internal_failures") + reports.sum("bypassed"), 0, "{reports:?}");
            hits
        })
    }

    /// Runs both programs, and asserts that the hits are equal; gives the hits.
    fn same(&self, stash: &str, file: &str, arguments: &[&str]) -> Vec<bool> {
        let [without, with] = self.hits(stash, file, arguments);
        assert_eq!(bits(&with), bits(&without), "{stash}, {file}, {arguments:?}");
        without
    }
}

/// The hits as text for messages.
fn bits(hits: &[bool]) -> String {
    hits.iter().map(|hit| if *hit { '1' } else { '0' }).collect()
}

fn hits(env: &Env, file: &Path, arguments: &[&str]) -> Vec<bool> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vkstash-states"));
    env.apply(&mut command);
    command.args(arguments).args(["--feedback", "--json"]);
    if arguments.contains(&"file") {
        command.arg("--cache-file").arg(file);
    }
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {stderr}");
    let report: Report = serde_json::from_slice(&output.stdout).unwrap();
    let hit = |feedback| {
        let flags = Flags::from_raw(feedback);
        assert!(flags.contains(Flags::VALID), "{flags:?}");
        flags.contains(Flags::APPLICATION_PIPELINE_CACHE_HIT)
    };
    report.rounds[0].calls.iter().map(|call| hit(call.feedback.unwrap())).collect()
}

fn on_radv(test: impl FnOnce(Pair<'_>)) {
    scenario(&[], |scenario| {
        if let Some(env) = scenario.on(Driver::Radv) {
            test(Pair { scenario, env });
        }
    });
}

fn count(hits: &[bool]) -> usize {
    hits.iter().filter(|hit| **hit).count()
}

#[test]
fn the_second_pipeline_hits_the_cache_that_both_calls_name() {
    on_radv(|pair| {
        for run in 0..3 {
            let shared = ["--cache", "shared", "--state", "shaders", "--count", "20", "--times", "2"];
            assert_eq!(count(&pair.same("stash", "", &shared)), 20, "run {run}");
        }
    });
}

#[test]
fn without_a_shared_cache_no_pipeline_is_a_hit() {
    on_radv(|pair| {
        for cache in ["none", "fresh"] {
            for _ in 0..3 {
                let all = ["--cache", cache, "--state", "formats", "--count", "20", "--times", "2"];
                assert_eq!(count(&pair.same(cache, "", &all)), 0, "{cache}");
            }
        }
    });
}

#[test]
fn pipelines_that_differ_only_in_state_outside_the_drivers_key_are_hits() {
    on_radv(|pair| {
        for state in ["viewport", "mixed", "formats"] {
            for _ in 0..2 {
                let arguments = ["--cache", "shared", "--state", state, "--count", "20"];
                assert!(count(&pair.same(state, "", &arguments)) >= 10, "{state}");
            }
            // Each pipeline then has an artifact, and none was created beside another.
            let apart = ["--cache", "fresh", "--state", state, "--count", "20"];
            assert_eq!(count(&pair.same("apart", "", &apart)), 0);
            let together = ["--cache", "shared", "--state", state, "--count", "20"];
            assert!(count(&pair.same("apart", "", &together)) >= 10, "{state}");
        }
    });
}

#[test]
fn the_pipelines_of_a_loaded_cache_are_hits() {
    on_radv(|pair| {
        for more in [&[][..], &["--fail-on"]] {
            let file =
                |state, count| [&["--cache", "file", "--state", state, "--count", count], more].concat();
            let name = format!("file{}", more.len());
            assert!(count(&pair.same("stash", &name, &file("viewport", "20"))) >= 19);
            assert_eq!(count(&pair.same("stash", &name, &file("viewport", "20"))), 20);
        }
        // Each has an artifact, and the program forbids compiling.
        let shaders = ["--cache", "file", "--state", "shaders", "--count", "20"];
        assert_eq!(count(&pair.same("stash", "shaders", &shaders)), 0);
        let forbidden = [&shaders[..], &["--fail-on"]].concat();
        assert_eq!(count(&pair.same("stash", "shaders", &forbidden)), 20);
    });
}

/// Some of the pipelines are in the program's file, the others in the stash, so that the loaded cache is soon no
/// longer asked before the stash.
#[test]
fn a_loaded_cache_with_few_pipelines_still_gives_its_hits() {
    on_radv(|pair| {
        let all = ["--cache", "none", "--state", "shaders", "--count", "60"];
        pair.same("stash", "", &all);
        let little = ["--cache", "file", "--state", "shaders", "--count", "20"];
        pair.same("stash", "file", &little);
        let twice = ["--cache", "file", "--state", "shaders", "--count", "60", "--times", "2"];
        assert_eq!(count(&pair.same("stash", "file", &twice)), 80);
    });
}

/// The step: the microseconds of a creation call, the feedback's duration, and the number of the driver's calls.
fn timed(_: &Value) -> Value {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let options = DeviceOptions { cache_control: true, ..DeviceOptions::default() };
    let device = Device::new(&instance, &options).unwrap();
    let stage = vk::PipelineShaderStageCreateInfo::default()
        .stage(vk::ShaderStageFlags::COMPUTE)
        .module(device.module(&spirv::compute(1)))
        .name(c"main");
    let mut feedback = vk::PipelineCreationFeedback::default();
    let mut asked =
        vk::PipelineCreationFeedbackCreateInfo::default().pipeline_creation_feedback(&mut feedback);
    let layout = device.compute_layout();
    let info = vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout).push_next(&mut asked);
    let driver = TestDriver::open();
    driver.take_record();
    let began = Instant::now();
    // SAFETY: a valid create info.
    let (result, _) = unsafe { device.create_compute(vk::PipelineCache::null(), &[info]) };
    let took = began.elapsed();
    assert_eq!(result, vk::Result::SUCCESS);
    let record = driver.take_record();
    let calls = record["calls"].as_array().unwrap();
    let calls = calls.iter().filter(|call| call["command"] == "vkCreateComputePipelines").count();
    json!([took.as_micros() as u64, feedback.duration / 1000, calls])
}

/// The driver is asked whether it has the pipeline, and then told to compile it; it looks for it both times.
#[test]
fn the_duration_is_that_of_the_drivers_last_call() {
    const LOOK: Duration = Duration::from_millis(500);
    scenario(&[("timed", timed)], |scenario| {
        let look = LOOK.as_micros() as u64;
        let script = json!({ "driver_id": 3, "disk_cache": true, "disk_cache_us": look });
        let env = scenario.on(Driver::Test(script)).unwrap().var("VKSTASH_ASK_FIRST", "auto");
        let [took, duration, calls]: [u64; 3] =
            scenario.run_ok("timed", &env.clone().without_layer(), &()).value;
        assert!(took >= duration && duration >= look && calls == 1, "{took} {duration} {calls}");
        let [took, duration, calls]: [u64; 3] = scenario.run_ok("timed", &env, &()).value;
        assert_eq!(calls, 2, "it is asked first");
        assert!(duration >= look, "{duration}");
        assert!(took - duration >= look, "the first call is not part of it: {took} {duration}");
    });
}
