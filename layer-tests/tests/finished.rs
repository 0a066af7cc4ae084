//! Tests of the recording of what a program has left at its end, after it and by a process that it does not see.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use ash::vk;
use serde_json::{Value, json};

use vkstash_layer_tests::child::{Scenario, Step, scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::folder::configure;
use vkstash_layer_tests::paths;
use vkstash_layer_tests::vulkan::{Device, Instance, InstanceOptions};
use vkstash_layer_tests::waiting::until;
use vkstash_layer_tests::work::{self, Caches, Done, End, Shader, Work};
use vkstash_store::stash::inspect::{PartInfo, list_applications};

const STEPS: &[(&str, Step)] = &[("work", work::step), ("leave", leave)];

/// VK_DRIVER_ID_MESA_RADV and VK_DRIVER_ID_NVIDIA_PROPRIETARY.
const RADV: i32 = 3;
const NVIDIA: i32 = 4;

const COUNT: u32 = 12;
const ALL: u64 = COUNT as u64;

/// Graphics pipelines without a cache.
fn pipelines(end: End) -> Work {
    Work { shader: Shader::DynamicRendering, count: COUNT, end, ..Work::default() }
}

/// After the loss of the driver's cache everything comes from this stash.
fn assert_survives(scenario: &Scenario, env: &Env, work: &Work) {
    fs::remove_dir_all(disk(scenario)).unwrap();
    let run = scenario.run_ok::<Done>("work", env, work);
    let counters = run.reports.counters();
    assert!(run.value.all_made());
    let names = ["compiled", "driver_had"].map(|name| run.reports.sum(name));
    assert_eq!(names, [0, 0], "{:?}: {counters:?}", work.caches);
}

fn disk(scenario: &Scenario) -> std::path::PathBuf {
    scenario.folder().join("disk")
}

/// A driver whose disk has the pipelines, and the layer with everything that users have. No worker comes to record
/// anything before the program ends: it takes long.
fn warm(scenario: &Scenario, id: i32) -> Env {
    let script = json!({
        "driver_id": id,
        "disk_cache": true,
        "disk_cache_dir": disk(scenario),
        "shader_entries": true,
    });
    let env = scenario.on(Driver::Test(script)).unwrap();
    let run = scenario.run_ok::<Done>("work", &env.clone().without_layer(), &pipelines(End::Orderly));
    assert!(run.value.all_made());
    env.var("VKSTASH_ASK_FIRST", "auto")
        .var("VKSTASH_BACKGROUND_WORKERS", "2")
        .var("VKSTASH_LOG", "info")
        .var("VKSTASH_LOG_FILE", scenario.folder().join("log"))
        .var("VKSTASH_TOOL", paths::profile_folder().join("vkstash"))
        .without_var("VKSTASH_FINISH")
}

/// What the layer has logged since the last look.
fn said(scenario: &Scenario) -> String {
    let log = scenario.folder().join("log");
    let said = fs::read_to_string(&log).unwrap_or_default();
    let _ = fs::remove_file(log);
    said
}

/// The device part of the stash.
fn part(env: &Env) -> Option<PartInfo> {
    let applications = list_applications(&env.stash_folder()).unwrap();
    let mut parts = applications.into_iter().flat_map(|application| application.parts);
    parts.find(|part| part.device.is_some())
}

fn records(env: &Env, kind: &str) -> u64 {
    part(env).and_then(|part| part.records.get(kind).copied()).unwrap_or(0)
}

/// Creates pipelines, destroys everything, and answers with the children of this process: -1 if it has none.
fn leave(input: &Value) -> Value {
    let work: Work = serde_json::from_value(input["work"].clone()).unwrap();
    if input["as"] == "subreaper" {
        // SAFETY: a system call with numbers.
        assert_eq!(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }, 0);
    }
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let device = Device::new(&instance, &work.device_options()).unwrap();
    assert!(work.run_through(&device, vk::PipelineCache::null()).all_made());
    drop(device);
    // SAFETY: no status is wanted.
    json!({ "child": unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) } })
}

#[test]
fn what_a_program_has_left_is_recorded_after_its_end() {
    scenario(STEPS, |scenario| {
        for (id, end, caches) in [
            (NVIDIA, End::Orderly, Caches::None),
            (NVIDIA, End::Exit, Caches::None),
            (RADV, End::Orderly, Caches::None),
            (RADV, End::Orderly, Caches::Fresh),
            (RADV, End::Orderly, Caches::Shared),
        ] {
            let case = format!("{id}, {end:?}, {caches:?}");
            let env = warm(scenario, id).stash(scenario.folder().join(format!("stash {case}")));
            let first = scenario.run("work", &env, &Work { caches, ..pipelines(end) });
            assert!(first.status.success(), "{case}");
            assert_eq!(said(scenario).matches("is left to vkstash").count(), 1, "{case}");
            until("everything is recorded and checked", || {
                (records(&env, "artifact"), records(&env, "verified")) == (ALL, ALL)
            });
            assert_survives(scenario, &env, &Work { caches, ..pipelines(End::Orderly) });
            assert!(!said(scenario).contains("is left to"), "{case}: nothing was left");
        }
    });
}

#[test]
fn nothing_is_started_where_it_is_not_wanted_or_would_be_noticed() {
    scenario(STEPS, |scenario| {
        let env = warm(scenario, NVIDIA);
        let left = |name: &str, kind: &str, env: &Env| {
            let env = env.clone().stash(scenario.folder().join(name));
            if name == "settings" {
                configure(&env.stash_folder(), "background = 'disabled'\n");
            }
            let input = json!({ "work": pipelines(End::Orderly), "as": kind });
            let ran = scenario.run_ok::<Value>("leave", &env, &input);
            assert_eq!(ran.value["child"], -1, "{name}");
            said(scenario)
        };
        for (name, kind, variable, value) in [
            ("off", "", "VKSTASH_FINISH", "0"),
            ("disabled", "", "VKSTASH_BACKGROUND", "disabled"),
            ("settings", "", "X", ""),
        ] {
            let said = left(name, kind, &env.clone().var(variable, value));
            assert!(!said.contains("is left to"), "{name}: {said}");
        }
        for (name, kind, variable, value, reason) in [
            ("steam", "", "SteamAppId", "620", "Steam waits"),
            ("subreaper", "subreaper", "X", "", "adopts orphans"),
        ] {
            let said = left(name, kind, &env.clone().var(variable, value));
            assert!(said.contains("left to the next run: ") && said.contains(reason), "{name}: {said}");
        }
        assert!(left("usual", "", &env).contains("is left to vkstash"));
    });
}

/// A tool that always fails, whatever the reason, is not started for ever.
#[test]
fn what_the_tool_cannot_record_is_tried_twice() {
    scenario(STEPS, |scenario| {
        // A script does what the layer would have the tool do: with another driver, which has no such device.
        let (started, script) = (scenario.folder().join("started"), scenario.folder().join("vkstash"));
        fs::write(&script, format!("#!/bin/sh\necho x >> '{}'\n", started.display())).unwrap();
        fs::set_permissions(&script, Permissions::from_mode(0o700)).unwrap();
        fs::set_permissions(scenario.folder(), Permissions::from_mode(0o700)).unwrap();
        let env = warm(scenario, NVIDIA).var("VKSTASH_TOOL", &script);
        let other = scenario.on(Driver::Test(json!({ "device_id": 7777 }))).unwrap();
        for tries in 1..=3u64 {
            scenario.run_ok::<Value>("leave", &env, &json!({ "work": pipelines(End::Orderly) }));
            assert_eq!(said(scenario).contains("is left to vkstash"), tries <= 2, "{tries}");
            if tries <= 2 {
                finish_on(&other, &env.stash_folder(), &env);
                assert_eq!(records(&env, "failed"), tries * ALL, "one for each try");
            }
        }
        assert_eq!(records(&env, "artifact"), 0);
    });
}

/// Runs the tool as the layer does.
fn finish_on(driver: &Env, stash: &Path, env: &Env) {
    let header = part(env).unwrap().device.unwrap().encode();
    let header: String = header.iter().map(|byte| format!("{byte:02x}")).collect();
    let folder = list_applications(stash).unwrap().remove(0).folder;
    let mut tool = Command::new(paths::profile_folder().join("vkstash"));
    driver.apply(&mut tool);
    tool.args(["prewarm", &folder, "--finish", &header, "--library"]).arg(paths::layer_library());
    tool.arg("--dir").arg(stash).stdin(Stdio::null());
    let output = tool.output().unwrap();
    assert!(output.status.code().is_some(), "{}", String::from_utf8_lossy(&output.stderr));
}
