//! `vkstash prewarm`: what programs will ask for is compiled before they do, and no driver brings it down.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use vkstash_layer_tests::child::{Scenario, scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::suite::{assert_all_served, on, rewrite_artifacts, run};
use vkstash_layer_tests::vulkan::{Device, Instance, InstanceOptions};
use vkstash_layer_tests::waiting::PATIENCE;
use vkstash_layer_tests::work::{self, Shader, Work};
use vkstash_layer_tests::{folder, paths};
use vkstash_model::app_name::AppName;
use vkstash_model::record::Kind;
use vkstash_store::stash::inspect::list_applications;
use vkstash_store::stash::open::Stash;

/// `vkstash prewarm` in this environment.
fn tool(env: &Env, arguments: &[&str]) -> Command {
    let mut command = Command::new(paths::profile_folder().join("vkstash"));
    env.apply(&mut command);
    command.env("VKSTASH_LIBRARY", paths::layer_library()).arg("prewarm").args(arguments);
    command.stdin(Stdio::null());
    command
}

/// What it printed as JSON, and whether it says that all was well.
fn prewarm(env: &Env, arguments: &[&str]) -> (Value, bool) {
    let output = tool(env, arguments).arg("--json").output().unwrap();
    let said = text(&output);
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    (report, output.status.success())
}

fn text(output: &Output) -> String {
    let [out, err] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    format!("{out}{err} ({})", output.status)
}

/// `env` with its stash, on a test driver with another script.
fn under(scenario: &Scenario, env: &Env, script: Value) -> Env {
    scenario.on(Driver::Test(script)).unwrap().stash(env.stash_folder())
}

/// An update of the test driver.
fn update() -> Value {
    json!({ "driver_version": 2, "pipeline_cache_uuid": "00000000000000000000000000000002" })
}

fn with(mut script: Value, name: &str, value: Value) -> Value {
    script[name] = value;
    script
}

/// Words that nothing but these modules has.
const FIRST: u32 = 0x5eed_0001;

fn marked(count: u32) -> Work {
    Work { first: FIRST, count, ..Work::default() }
}

const SHADERS: [Shader; 4] =
    [Shader::Compute, Shader::Specialized, Shader::RenderPass, Shader::DynamicRendering];

#[test]
fn after_an_update_of_the_driver_everything_is_served_that_was_prewarmed() {
    on(Driver::Test(json!({})), |scenario, env| {
        for shader in SHADERS {
            run(scenario, env, &Work { shader, ..Work::default() });
        }
        let updated = under(scenario, env, update());
        let (report, well) = prewarm(&updated, &["--all", "--dry-run"]);
        assert_eq!((&report["planned"], well), (&json!(12), true), "{report:#}");
        let (report, well) = prewarm(&updated, &["--all"]);
        let counts = ["made", "checked", "there"].map(|name| report[name].as_u64().unwrap());
        assert_eq!((counts, well), ([12, 12, 0], true), "{report:#}");
        for shader in SHADERS {
            let work = Work { shader, ..Work::default() };
            assert_all_served(&run(scenario, &updated, &work), work.count);
        }
        let (report, _) = prewarm(&updated, &["--all"]);
        let counts = ["planned", "made", "there"].map(|name| report[name].as_u64().unwrap());
        assert_eq!(counts, [0, 0, 12], "{report:#}");
    });
}

/// A 32-bit program, the tool for 64 bits, and the worker beside the 32-bit library (scripts/i686.sh builds them).
#[test]
#[cfg(target_pointer_width = "32")]
fn the_64_bit_tool_makes_with_a_32_bit_worker_what_a_32_bit_program_used() {
    on(Driver::Test(json!({})), |scenario, env| {
        let work = Work::default();
        run(scenario, env, &work);
        let updated = under(scenario, env, update());
        let narrow = paths::profile_folder();
        let (target, profile) = (narrow.ancestors().nth(2).unwrap(), narrow.file_name().unwrap());
        let mut command = Command::new(target.join(profile).join("vkstash"));
        updated.apply(&mut command);
        command.env("VKSTASH_LIBRARY", narrow.join("libVkLayer_vkstash.so")).stdin(Stdio::null());
        let output = command.args(["prewarm", "--all", "--json"]).output().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", text(&output)));
        assert_eq!((&report["made"], &report["checked"]), (&json!(3), &json!(3)), "{report:#}");
        assert_eq!(report["applications"][0]["pointer_width"], 4, "{report:#}");
        assert_all_served(&run(scenario, &updated, &work), work.count);
    });
}

/// A user who installs the layer has a warm driver cache: nothing is compiled before the update that empties it.
#[test]
fn after_an_update_of_the_driver_it_is_served_what_only_the_driver_had() {
    on(Driver::Test(json!({})), |scenario, env| {
        let disk = scenario.folder().join("disk");
        let old = json!({ "disk_cache": true, "disk_cache_dir": disk });
        let had = under(scenario, env, old).var("VKSTASH_BACKGROUND_WORKERS", "0");
        run(scenario, &had.clone().without_layer(), &Work::default());
        let met = run(scenario, &had, &Work::default());
        assert_eq!(met.reports.sum("driver_had"), 3, "{:?}", met.reports.counters());
        let updated = under(scenario, env, update());
        let (report, well) = prewarm(&updated, &["--all"]);
        assert_eq!((&report["made"], well), (&json!(3), true), "{report:#}");
        assert_all_served(&run(scenario, &updated, &Work::default()), 3);
    });
}

/// Workers run when nobody else wants to: what they waited for is no time that a program saves. The driver's compile
/// sleeps.
#[test]
fn what_a_worker_has_waited_for_is_not_called_saved() {
    on(Driver::Test(json!({ "compile_us": 300_000 })), |scenario, env| {
        let work = Work::default();
        let cold = run(scenario, env, &work);
        let updated = under(scenario, env, with(update(), "compile_us", json!(300_000)));
        let (report, well) = prewarm(&updated, &["--all"]);
        assert!(well, "{report:#}");
        let warm = run(scenario, &updated, &work);
        assert_all_served(&warm, work.count);
        let (saved, compiled) = (warm.reports.sum("saved_ns"), cold.reports.sum("compile_ns"));
        assert!(2 * saved < compiled, "{saved} of {compiled}");
    });
}

#[test]
fn nothing_is_made_for_the_driver_that_has_everything_nor_for_one_of_several_devices_that_were_not_used() {
    on(Driver::Test(json!({})), |scenario, env| {
        run(scenario, env, &Work::default());
        let (report, well) = prewarm(env, &["--all", "--if-driver-changed"]);
        assert_eq!((&report["planned"], well), (&json!(0), true), "{report:#}");
        let other = under(scenario, env, json!({ "device_id": 77, "physical_devices": 2 }));
        let (report, well) = prewarm(&other, &["--all"]);
        assert_eq!((&report["made"], well), (&json!(0), false), "{report:#}");
        let problem = report["applications"][0]["problems"][0].as_str().unwrap();
        assert!(problem.contains("--every-device"), "{problem}");
        let (report, well) = prewarm(&other, &["--all", "--if-driver-changed"]);
        assert_eq!((&report["made"], well), (&json!(0), true), "{report:#}");
        let (report, well) = prewarm(&other, &["--all", "--every-device", "--dry-run"]);
        assert_eq!((&report["planned"], well), (&json!(6), true), "{report:#}");
        // The only device of a new machine needs no name.
        let only = under(scenario, env, json!({ "device_id": 77 }));
        let (report, well) = prewarm(&only, &["--all", "--dry-run"]);
        assert_eq!((&report["planned"], well), (&json!(3), true), "{report:#}");
        let (report, _) = prewarm(&only, &["--all", "--if-driver-changed"]);
        assert_eq!(report["made"], 0, "{report:#}");
        let (report, _) = prewarm(&under(scenario, env, update()), &["--all", "--if-driver-changed"]);
        assert_eq!(report["made"], 3, "{report:#}");
    });
}

#[test]
fn a_module_that_hangs_and_one_that_crashes_are_named_and_quarantined_and_the_rest_is_served() {
    on(Driver::Test(json!({})), |scenario, env| {
        let work = marked(8);
        run(scenario, env, &work);
        let command = "vkCreateComputePipelines";
        let faults = json!([
            { "command": command, "word": FIRST + 2, "die": "segv" },
            { "command": command, "word": FIRST + 5, "hang_ms": 100_000 },
        ]);
        let faulty = under(scenario, env, with(update(), "faults", faults));
        let (report, well) = prewarm(&faulty, &["--all", "--timeout", "10"]);
        let counts = ["made", "checked"].map(|name| report[name].as_u64().unwrap());
        assert_eq!((counts, well), ([6, 6], false), "{report:#}");
        let culprits = report["quarantined"].as_array().unwrap();
        let mut reasons: Vec<&str> =
            culprits.iter().map(|culprit| culprit["reason"].as_str().unwrap()).collect();
        reasons.sort_unstable();
        assert_eq!(reasons, ["did not answer within 10 s", "died of signal 11"]);
        for culprit in culprits {
            assert_eq!(culprit["modules"].as_array().unwrap().len(), 1, "{culprit}");
            assert_eq!(culprit["recorded"], true, "{culprit}");
        }

        // Neither pipeline is tried again.
        let (report, well) = prewarm(&faulty, &["--all"]);
        assert_eq!((&report["planned"], well), (&json!(0), true), "{report:#}");
        assert_eq!(report["applications"][0]["quarantined_before"], 2, "{report:#}");

        // A program that asks for them is no worse off than without the stash, and is served the rest.
        let updated = under(scenario, env, update());
        let asked = run(scenario, &updated, &work);
        assert!(asked.value.all_made());
        let counts = ["served", "compiled"].map(|name| asked.reports.sum(name));
        assert_eq!(counts, [6, 2], "{:?}", asked.reports.counters());
        assert_all_served(&run(scenario, &updated, &work), work.count);
    });
}

#[test]
fn what_was_released_from_quarantine_is_tried_again() {
    on(Driver::Test(json!({})), |scenario, env| {
        run(scenario, env, &marked(3));
        let crash = json!([{ "command": "vkCreateComputePipelines", "word": FIRST, "die": "abort" }]);
        let faulty = under(scenario, env, with(update(), "faults", crash));
        let (report, well) = prewarm(&faulty, &["--all"]);
        assert_eq!((&report["made"], well), (&json!(2), false), "{report:#}");
        let quarantine = |arguments: &[&str]| {
            let mut command = Command::new(paths::profile_folder().join("vkstash"));
            env.apply(&mut command);
            text(&command.arg("quarantine").args(arguments).output().unwrap())
        };
        let listed = quarantine(&[]);
        let key = report["quarantined"][0]["key"].as_str().unwrap();
        assert!(listed.contains(key) && listed.contains("a worker of prewarm died"), "{listed}");
        quarantine(&["--release"]);
        assert!(quarantine(&[]).contains("nothing is quarantined"));
        let (report, well) = prewarm(&under(scenario, env, update()), &["--all"]);
        assert_eq!((&report["made"], &report["checked"], well), (&json!(1), &json!(3), true), "{report:#}");
    });
}

#[test]
fn what_is_killed_goes_on_where_it_was() {
    on(Driver::Test(json!({})), |scenario, env| {
        let work = marked(30);
        run(scenario, env, &work);
        let updated = under(scenario, env, with(update(), "compile_us", json!(1_000_000)));
        let mut first = tool(&updated, &["--all", "--jobs", "1"]);
        let mut first = first.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let artifacts = || {
            let [application] = list_applications(&env.stash_folder()).unwrap().try_into().unwrap();
            let counts = application.parts.iter().filter_map(|part| part.records.get("artifact"));
            counts.sum::<u64>()
        };
        let deadline = Instant::now() + PATIENCE;
        while artifacts() <= u64::from(work.count) {
            assert!(Instant::now() < deadline, "nothing is made");
            std::thread::sleep(Duration::from_millis(5));
        }
        first.kill().unwrap();
        first.wait().unwrap();
        let (report, well) = prewarm(&under(scenario, env, update()), &["--all"]);
        let [made, there, checked] = ["made", "there", "checked"].map(|name| report[name].as_u64().unwrap());
        assert!(made > 0 && there > 0 && made + there == 30 && checked == 30 && well, "{report:#}");
        assert_all_served(&run(scenario, &under(scenario, env, update()), &work), work.count);
    });
}

#[test]
fn a_program_that_uses_other_features_later_gets_both_devices_made() {
    on(Driver::Test(json!({})), |scenario, env| {
        let plain = Work::default();
        let other = Work { first: 100, flags2: true, ..Work::default() };
        run(scenario, env, &plain);
        run(scenario, env, &other);
        let updated = under(scenario, env, update());
        let (report, well) = prewarm(&updated, &["--all"]);
        assert_eq!((&report["made"], well), (&json!(6), true), "{report:#}");
        assert_all_served(&run(scenario, &updated, &plain), 3);
        assert_all_served(&run(scenario, &updated, &other), 3);
    });
}

/// Programs enable what a driver offers.
#[test]
fn what_the_driver_does_not_have_any_more_is_left_out_of_the_device() {
    on(Driver::Test(json!({})), |scenario, env| {
        run(scenario, env, &Work { flags2: true, ..Work::default() });
        let updated = under(scenario, env, with(update(), "maintenance5", json!(false)));
        let (report, well) = prewarm(&updated, &["--all"]);
        assert_eq!((&report["made"], well), (&json!(3), true), "{report:#}");
        assert_all_served(&run(scenario, &updated, &Work::default()), 3);
    });
}

#[test]
fn a_driver_that_crashes_before_the_first_pipeline_is_reported() {
    on(Driver::Test(json!({})), |scenario, env| {
        run(scenario, env, &Work::default());
        let crash = |command: &str| json!([{ "command": command, "die": "segv" }]);
        for command in ["vkCreateInstance", "vkCreateDevice"] {
            let faulty = under(scenario, env, with(update(), "faults", crash(command)));
            let (report, well) = prewarm(&faulty, &["--all"]);
            assert_eq!((&report["made"], well), (&json!(0), false), "{report:#}");
            assert!(report.to_string().contains("died of signal 11"), "{report:#}");
        }
    });
}

#[test]
fn workers_are_no_runs_of_the_program_and_use_nothing() {
    on(Driver::Test(json!({})), |scenario, env| {
        run(scenario, env, &Work::default());
        let looked_at = || {
            let [info] = list_applications(&env.stash_folder()).unwrap().try_into().unwrap();
            let name = AppName { display: info.display, folder: info.folder };
            let stash = Stash::open_patiently(&env.stash_folder(), &name).unwrap();
            let mut uses = Vec::new();
            stash.portable().for_each(Kind::Use, &mut |key, payload| uses.push((*key, payload.to_vec())));
            (info.runs.runs, uses)
        };
        let before = looked_at();
        assert_eq!(before.1.len(), 3);
        let (report, _) = prewarm(&under(scenario, env, update()), &["--all"]);
        assert_eq!(report["made"], 3);
        assert_eq!(looked_at(), before);
        // The check has verified what was made: it may be made ahead in the next run.
        let [info] = list_applications(&env.stash_folder()).unwrap().try_into().unwrap();
        let new = info.parts.iter().find(|part| part.device.as_ref().is_some_and(|d| d.driver_version == 2));
        assert_eq!(new.unwrap().records["verified"], 3);
    });
}

/// One worker more would end at it, and a program that asks for it is told of no failure.
#[test]
fn what_programs_ended_at_while_it_was_compiled_is_left_out_until_it_is_released() {
    on(Driver::Test(json!({})), |scenario, env| {
        let fault = json!({ "command": "vkCreateComputePipelines", "word": FIRST + 1, "die": "kill" });
        let dying = under(scenario, env, json!({ "faults": [fault] }));
        let counts = || {
            let (report, well) = prewarm(env, &["--all", "--dry-run"]);
            assert!(well, "{report:#}");
            ["planned", "died_before"].map(|name| report["applications"][0][name].as_u64().unwrap())
        };
        // The first run does not record what it ends at, and one death may be anybody's.
        for expected in [[0, 0], [0, 1]] {
            let dead = scenario.run("work", &dying, &marked(3));
            assert_eq!(dead.signal(), Some(libc::SIGKILL), "{}", dead.ending());
            assert_eq!(counts(), expected);
        }
        let said = text(&tool(env, &["--all"]).output().unwrap());
        let left_out = ", 1 left out: programs died while compiling them (`vkstash quarantine`)\n";
        assert!(said.contains(left_out) && said.contains("made 0, "), "{said}");
        // An update of the driver may have mended it.
        let (report, well) = prewarm(&under(scenario, env, update()), &["--all"]);
        assert_eq!((&report["applications"][0]["died_before"], well), (&json!(0), true), "{report:#}");
        assert!(report["made"].as_u64().unwrap() >= 1, "{report:#}");

        let mut release = Command::new(paths::profile_folder().join("vkstash"));
        env.apply(&mut release);
        assert!(release.args(["quarantine", "--release"]).output().unwrap().status.success());
        assert_eq!(counts(), [1, 0]);
    });
}

/// Replaces the artifacts of that many keys by something that no driver takes, and names these keys.
fn spoil(env: &Env, count: usize) -> Vec<String> {
    let mut keys = Vec::new();
    rewrite_artifacts(env, |found| {
        for (key, payload) in found.iter_mut().take(count) {
            payload[8..].fill(0);
            keys.push(key.iter().map(|byte| format!("{byte:02x}")).collect());
        }
    });
    keys
}

#[test]
fn an_artifact_that_the_driver_does_not_take_any_more_is_made_again() {
    // A call that takes a quarter of the recorded compile's time is taken to have used the artifact after all: the
    // compile is long, so that an interrupted one does not look like that.
    on(Driver::Test(json!({ "compile_us": 200_000 })), |scenario, env| {
        let work = marked(6);
        run(scenario, env, &work);
        let (report, well) = prewarm(env, &["--all"]);
        let counts = ["made", "there", "checked"].map(|name| report[name].as_u64().unwrap());
        assert_eq!((counts, well), ([0, 6, 6], true), "{report:#}");

        spoil(env, 2);
        let (report, well) = prewarm(env, &["--all"]);
        let counts = ["made", "there", "checked"].map(|name| report[name].as_u64().unwrap());
        assert_eq!((counts, well), ([2, 4, 6], true), "{report:#}");
        assert_eq!(report["applications"][0]["made_again"], 2, "{report:#}");
        assert_all_served(&run(scenario, env, &work), work.count);
    });
}

#[test]
fn an_artifact_that_the_driver_never_takes_is_reported_and_given_up() {
    // A compile that takes long, as in the test before.
    let compile_us = 100_000;
    on(Driver::Test(json!({ "compile_us": compile_us })), |scenario, env| {
        run(scenario, env, &marked(2));
        let spoiled = spoil(env, 2);
        // What is made again is not taken either.
        let taking_nothing = under(scenario, env, json!({ "ignore_blobs": true, "compile_us": compile_us }));
        for _ in 0..4 {
            let (report, well) = prewarm(&taking_nothing, &["--all"]);
            if report["applications"][0]["refused_before"] == 2 {
                assert_eq!((&report["made"], well), (&json!(0), true), "{report:#}");
                return;
            }
            // One of them may have been refused often enough a round before the other.
            let before = report["applications"][0]["refused_before"].as_u64().unwrap();
            let missed: Vec<&str> = report["applications"][0]["missed"]
                .as_array()
                .unwrap()
                .iter()
                .map(|key| key.as_str().unwrap())
                .collect();
            assert!(missed.iter().all(|key| spoiled.iter().any(|spoiled| spoiled == key)), "{report:#}");
            assert_eq!((missed.len() as u64 + before, well), (2, false), "{report:#}");
        }
        panic!("the driver has refused each of them often enough");
    });
}

/// Each worker writes files of its own, and the last ones to end seal and merge them while others open the folder.
#[test]
fn many_workers_at_a_time_find_what_the_others_have_made() {
    on(Driver::Test(json!({})), |scenario, env| {
        run(scenario, env, &marked(200));
        for version in 2..6 {
            let uuid = format!("{version:032}");
            let script =
                json!({ "driver_version": version, "pipeline_cache_uuid": uuid, "compile_us": 1_000 });
            let (report, well) = prewarm(&under(scenario, env, script), &["--all", "--jobs", "16"]);
            let counts = ["made", "checked"].map(|name| report[name].as_u64().unwrap());
            assert_eq!((counts, well), ([200, 200], true), "{report:#}");
        }
    });
}

/// The limit is below what any process has.
#[test]
fn workers_that_grow_too_large_are_given_up() {
    on(Driver::Test(json!({})), |scenario, env| {
        run(scenario, env, &Work::default());
        let (report, well) = prewarm(&under(scenario, env, update()), &["--all", "--memory", "1MiB"]);
        assert_eq!((&report["made"], well), (&json!(0), false), "{report:#}");
        assert!(report.to_string().contains("memory"), "{report:#}");
    });
}

#[test]
fn a_driver_that_keeps_nothing_is_given_up_after_a_few_pipelines() {
    on(Driver::Test(json!({})), |scenario, env| {
        run(scenario, env, &marked(40));
        let keeping_nothing = under(scenario, env, with(update(), "cache_data", json!("header_only")));
        let (report, well) = prewarm(&keeping_nothing, &["--all", "--jobs", "1"]);
        assert_eq!((&report["made"], well), (&json!(0), true), "{report:#}");
        assert!(report["applications"][0]["not_kept"].as_u64().unwrap() < 20, "{report:#}");
    });
}

#[test]
fn two_at_a_time_do_not_do_the_same() {
    on(Driver::Test(json!({})), |scenario, env| {
        run(scenario, env, &marked(12));
        let slow = under(scenario, env, with(update(), "compile_us", json!(50_000)));
        let start = || tool(&slow, &["--all", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
        let both = [start(), start()].map(|child| child.wait_with_output().unwrap());
        let made = both.iter().map(|output| {
            let report: Value = serde_json::from_slice(&output.stdout).unwrap();
            report["made"].as_u64().unwrap()
        });
        assert_eq!(made.sum::<u64>(), 12);
    });
}

/// The step: a program that asks, without compiling, until it gets everything.
fn ask_until_made(input: &Value) -> Value {
    let work: Work = serde_json::from_value(input.clone()).unwrap();
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let device = Device::new(&instance, &work.device_options()).unwrap();
    let mut tries = 0;
    while !work.run(&device).all_made() && tries < 10_000 {
        tries += 1;
        std::thread::sleep(Duration::from_millis(50));
    }
    let made = work.run(&device).all_made();
    // SAFETY: waitpid with NULL for the status; __WALL sees children without a termination signal, too.
    let child = unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG | libc::__WALL) };
    json!({ "made": made, "child": child })
}

/// Points 6: the running program is served what another process compiles for it.
#[test]
fn a_program_that_runs_after_an_update_is_served_what_the_tool_makes_beside_it() {
    scenario(&[("work", work::step), ("ask", ask_until_made), ("told", told)], |scenario| {
        let env = scenario.on(Driver::Test(json!({}))).unwrap();
        // Forbidding to compile needs the feature, which is part of the recorded device.
        let first = Work { cache_control: true, ..marked(10) };
        scenario.run_ok::<Value>("work", &env, &first);
        let updated = under(scenario, &env, update());
        let updated = updated.var("VKSTASH_UPDATE", "1").var("VKSTASH_LOG", "info");
        let updated = updated.var("VKSTASH_BACKGROUND_WORKERS", "2");
        let updated = updated.var("VKSTASH_TOOL", paths::profile_folder().join("vkstash"));
        let ask = Work { fail_on: true, ..marked(10) };
        let asked = scenario.run_ok::<Value>("ask", &updated, &ask);
        assert_eq!(asked.value, json!({ "made": true, "child": -1 }), "{}", asked.stderr);
        assert_eq!(asked.reports.sum("compiled"), 0, "{:?}", asked.reports.counters());
        assert!(asked.stderr.contains("compiled again in the background"), "{}", asked.stderr);

        // The stash has every pipeline now: the tool is not started.
        let log = scenario.folder().join("log");
        let updated = updated.var("VKSTASH_LOG", "debug").var("VKSTASH_LOG_FILE", &log);
        let input = json!({ "work": ask, "until": "no other version of the driver", "log": log });
        let again = scenario.run_ok::<Value>("told", &updated, &input);
        assert_eq!(again.value["child"], -1);
        let said = std::fs::read_to_string(&log).unwrap();
        assert!(!said.contains("in the background"), "{said}");
    });
}

/// The step: a program that asks for one of its pipelines, has the tool work beside it until another one is served, and
/// then says which of them are.
fn ask_in_the_middle(input: &Value) -> Value {
    let [asked, wanted, count] =
        ["asked", "wanted", "count"].map(|name| input[name].as_u64().unwrap() as u32);
    let one = |at: u32| Work { first: FIRST + at, fail_on: true, cache_control: true, ..marked(1) };
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let device = Device::new(&instance, &one(0).device_options()).unwrap();
    assert!(Work { fail_on: false, ..one(asked) }.run(&device).all_made());
    let pid = std::process::id().to_string();
    let mut tool = Command::new(paths::profile_folder().join("vkstash"));
    tool.env("VKSTASH_LIBRARY", paths::layer_library()).stdin(Stdio::null()).stdout(Stdio::null());
    let mut tool = tool.args(["prewarm", "--all", "--jobs", "1", "--while", &pid]).spawn().unwrap();
    let deadline = Instant::now() + PATIENCE;
    while !one(wanted).run(&device).all_made() {
        assert!(Instant::now() < deadline, "the tool does not make it");
        std::thread::sleep(Duration::from_millis(5));
    }
    tool.kill().unwrap();
    tool.wait().unwrap();
    json!((0..count).map(|at| one(at).run(&device).all_made()).collect::<Vec<_>>())
}

/// What the program will ask for next is made before what it has left behind.
#[test]
fn beside_a_program_the_tool_makes_first_what_comes_after_the_programs_latest_request() {
    scenario(&[("work", work::step), ("ask", ask_in_the_middle)], |scenario| {
        let env = scenario.on(Driver::Test(json!({}))).unwrap();
        scenario.run_ok::<Value>("work", &env, &Work { cache_control: true, ..marked(20) });
        let slow = under(scenario, &env, with(update(), "compile_us", json!(50_000)));
        let input = json!({ "asked": 9, "wanted": 11, "count": 20 });
        let made = scenario.run_ok::<Vec<bool>>("ask", &slow, &input).value;
        assert!(made[9] && made[11], "{made:?}");
        assert!(made[14..].iter().all(|&made| made) || !made[..9].contains(&true), "{made:?}");
    });
}

/// The step: becomes what the input says, creates a device twice, and waits until the layer's log has that text.
fn told(input: &Value) -> Value {
    let work: Work = serde_json::from_value(input["work"].clone()).unwrap();
    // SAFETY: system calls with numbers and structures on this stack; the filter allows everything.
    unsafe {
        match input["as"].as_str() {
            Some("subreaper") => assert_eq!(libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0),
            Some("filtered") => {
                let mut allow = [libc::sock_filter { code: 6, jt: 0, jf: 0, k: 0x7fff_0000 }];
                let program = libc::sock_fprog { len: 1, filter: allow.as_mut_ptr() };
                assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
                assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, 2, &program), 0);
            }
            Some("first of its namespace") => {
                if libc::unshare(libc::CLONE_NEWPID) != 0 {
                    return json!("not allowed");
                }
                let child = libc::fork();
                if child == 0 {
                    assert_eq!(libc::getpid(), 1);
                    let clean = told_within(input, &work)["child"] == -1;
                    libc::_exit(if clean { 0 } else { 9 });
                }
                let mut status = 0;
                assert_eq!(libc::waitpid(child, &mut status, 0), child);
                return json!({ "child": if status == 0 { -1 } else { status } });
            }
            _ => {}
        }
    }
    told_within(input, &work)
}

fn told_within(input: &Value, work: &Work) -> Value {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let devices = [0; 2].map(|_| Device::new(&instance, &work.device_options()).unwrap());
    let (log, text) = (input["log"].as_str().unwrap(), input["until"].as_str().unwrap());
    let deadline = Instant::now() + PATIENCE;
    while !std::fs::read_to_string(log).is_ok_and(|said| said.contains(text)) {
        assert!(Instant::now() < deadline, "the log lacks {text:?}: {:?}", std::fs::read_to_string(log));
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(devices);
    // SAFETY: waitpid with NULL for the status; __WALL sees children without a termination signal, too.
    let child = unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG | libc::__WALL) };
    json!({ "child": child })
}

/// Such a process would have a child that it does not know of, or might be ended.
#[test]
fn nothing_is_started_beside_a_process_that_would_notice_it() {
    scenario(&[("work", work::step), ("told", told)], |scenario| {
        let env = scenario.on(Driver::Test(json!({}))).unwrap();
        scenario.run_ok::<Value>("work", &env, &Work::default());
        let slow = with(update(), "compile_us", json!(200_000));
        let updated = under(scenario, &env, slow).var("VKSTASH_UPDATE", "1").var("VKSTASH_LOG", "info");
        let updated = updated.var("VKSTASH_BACKGROUND_WORKERS", "2");
        let updated = updated.var("VKSTASH_TOOL", paths::profile_folder().join("vkstash"));
        let kinds = [
            ("subreaper", "adopts orphans"),
            ("first of its namespace", "adopts orphans"),
            ("filtered", "filtered"),
            ("a usual process", "in the background"),
        ];
        for (number, (kind, until)) in kinds.into_iter().enumerate() {
            let log = scenario.folder().join(format!("log {number}"));
            let input = json!({ "work": Work::default(), "as": kind, "until": until, "log": log });
            let updated = updated.clone().var("VKSTASH_LOG_FILE", &log);
            let told = scenario.run_ok::<Value>("told", &updated, &input).value;
            if told == "not allowed" {
                continue;
            }
            assert_eq!(told["child"], -1, "{kind}");
            let said = std::fs::read_to_string(&log).unwrap();
            let started = u32::from(until == "in the background");
            assert_eq!(said.matches("in the background").count() as u32, started, "{kind}: {said}");
        }
    });
}

/// Neither a file that other users can write is executed, nor one in a folder that they can write.
#[test]
fn a_tool_that_others_can_replace_is_not_started() {
    scenario(&[("work", work::step), ("told", told)], |scenario| {
        let env = scenario.on(Driver::Test(json!({}))).unwrap();
        scenario.run_ok::<Value>("work", &env, &Work::default());
        let (folder, ran) = (scenario.folder().join("bin"), scenario.folder().join("ran"));
        std::fs::create_dir(&folder).unwrap();
        let tool = folder.join("vkstash");
        std::fs::write(&tool, format!("#!/bin/sh\necho ran > '{}'\n", ran.display())).unwrap();
        let allow = |path, mode| std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        let updated = under(scenario, &env, update()).var("VKSTASH_UPDATE", "1").var("VKSTASH_LOG", "info");
        let updated = updated.var("VKSTASH_BACKGROUND_WORKERS", "2").var("VKSTASH_TOOL", &tool);
        let modes = [(0o777, 0o755), (0o755, 0o777), (0o755, 0o755)];
        for (number, (of_folder, of_tool)) in modes.into_iter().enumerate() {
            allow(&tool, of_tool);
            allow(&folder, of_folder);
            let log = scenario.folder().join(format!("log {number}"));
            let is_safe = of_folder == of_tool;
            let until = if is_safe { "in the background" } else { "others can write" };
            let input = json!({ "work": Work::default(), "until": until, "log": log });
            scenario.run_ok::<Value>("told", &updated.clone().var("VKSTASH_LOG_FILE", &log), &input);
            let deadline = Instant::now() + PATIENCE;
            while is_safe && !ran.exists() {
                assert!(Instant::now() < deadline, "it is started");
                std::thread::sleep(Duration::from_millis(5));
            }
            assert_eq!(ran.exists(), is_safe);
        }
    });
}

/// Priorities count within a session only where the kernel groups processes by session: without a low priority of the
/// whole session the tool would get half a processor beside a program that uses them all.
#[test]
fn a_tool_of_its_own_session_gives_the_whole_session_its_priority() {
    let grouped = std::fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled");
    if !grouped.is_ok_and(|text| text.trim() == "1") {
        return;
    }
    on(Driver::Test(json!({})), |scenario, env| {
        run(scenario, env, &marked(3));
        let slow = under(scenario, env, with(update(), "compile_us", json!(10_000_000)));
        let program = std::process::id().to_string();
        for (arguments, nice) in [(&[][..], "nice 19"), (&["--while", program.as_str()], "nice 15")] {
            let arguments = [&["--all", "--background", "--timeout", "1000"], arguments].concat();
            let mut beside = tool(&slow, &arguments);
            // SAFETY: one system call without arguments.
            unsafe {
                beside.pre_exec(|| {
                    libc::setsid();
                    Ok(())
                })
            };
            let mut beside = beside.stdout(Stdio::null()).spawn().unwrap();
            let deadline = Instant::now() + PATIENCE;
            let group = format!("/proc/{}/autogroup", beside.id());
            while !std::fs::read_to_string(&group).unwrap().contains(nice) {
                assert!(beside.try_wait().unwrap().is_none() && Instant::now() < deadline);
                std::thread::sleep(Duration::from_millis(5));
            }
            beside.kill().unwrap();
            beside.wait().unwrap();
        }
    });
}

#[test]
fn the_tool_beside_a_program_ends_with_it() {
    on(Driver::Test(json!({})), |scenario, env| {
        run(scenario, env, &marked(30));
        let slow = under(scenario, env, with(update(), "compile_us", json!(10_000_000)));
        let mut program = Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = program.id().to_string();
        let arguments = ["--all", "--timeout", "1000", "--while", pid.as_str()];
        let mut beside = tool(&slow, &arguments).stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(500));
        assert!(beside.try_wait().unwrap().is_none());
        program.kill().unwrap();
        program.wait().unwrap();
        assert!(beside.wait().unwrap().success());
    });
}

/// The step: a program that lives for some milliseconds after it has created a device.
fn linger(input: &Value) -> Value {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let device = Device::new(&instance, &Work::default().device_options()).unwrap();
    std::thread::sleep(Duration::from_millis(input.as_u64().unwrap()));
    drop(device);
    json!(null)
}

#[test]
fn nothing_is_started_where_the_user_forbids_it() {
    scenario(&[("work", work::step), ("linger", linger)], |scenario| {
        let env = scenario.on(Driver::Test(json!({}))).unwrap();
        let (env, lingering) = (&env, "in the background");
        run(scenario, env, &Work::default());
        let updated = under(scenario, env, update()).var("VKSTASH_LOG", "info");
        let updated = updated.var("VKSTASH_BACKGROUND_WORKERS", "2");
        let updated = updated.var("VKSTASH_TOOL", paths::profile_folder().join("vkstash"));
        for (variable, value) in [("VKSTASH_UPDATE", "0"), ("VKSTASH_BACKGROUND", "disabled")] {
            // The time that a program lives in which the tool is started.
            let asking = updated.clone().var("VKSTASH_UPDATE", "1");
            let starts = |ms: &u64| {
                let again = asking.clone().stash(scenario.folder().join(format!("stash {variable} {ms}")));
                folder::copy(&env.stash_folder(), &again.stash_folder()).unwrap();
                scenario.run_ok::<Value>("linger", &again, ms).stderr.contains(lingering)
            };
            let enough = (5..18).map(|power| 1 << power).find(starts).expect("some minutes are enough");
            let ran = scenario.run_ok::<Value>("linger", &asking.var(variable, value), &(4 * enough));
            assert!(!ran.stderr.contains(lingering), "{variable}: {}", ran.stderr);
        }
    });
}

/// Imported recipes, a real compiler, and all kinds of pipelines.
#[test]
fn imported_recipes_are_served_after_prewarming_on_a_real_driver() {
    on(Driver::Radv, |scenario, env| {
        for shader in SHADERS {
            run(scenario, env, &Work { shader, ..Work::default() });
        }
        let archive = scenario.folder().join("archive.tar");
        let imported = env.clone().stash(scenario.folder().join("imported"));
        for (of, arguments) in [(env, ["export", "--portable"].as_slice()), (&imported, &["import"])] {
            let mut command = Command::new(paths::profile_folder().join("vkstash"));
            of.apply(&mut command);
            let output = command.args(arguments).arg(&archive).output().unwrap();
            assert!(output.status.success(), "{}", text(&output));
        }
        let (report, well) = prewarm(&imported, &["--all"]);
        let counts = ["made", "checked"].map(|name| report[name].as_u64().unwrap());
        assert!(counts[0] >= 12 && counts[0] == counts[1] && well, "{report:#}");
        for shader in SHADERS {
            let work = Work { shader, ..Work::default() };
            assert_all_served(&run(scenario, &imported, &work), work.count);
        }
    });
}
