//! `vkstash prewarm --driver`: artifacts of a driver that is on the disk, before it is the active one.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use vkstash_layer_tests::child::Scenario;
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::paths;
use vkstash_layer_tests::suite::{assert_all_served, on, run};
use vkstash_layer_tests::work::{Shader, Work};

const SHADERS: [Shader; 4] =
    [Shader::Compute, Shader::Specialized, Shader::RenderPass, Shader::DynamicRendering];
/// Relative to the manifest's folder.
const LIBRARY: &str = "./libstaged.so";

/// `vkstash prewarm --all` in this environment, and in this working folder.
fn prewarm(env: &Env, folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(paths::profile_folder().join("vkstash"));
    env.apply(&mut command);
    command.env("VKSTASH_LIBRARY", paths::layer_library()).current_dir(folder).stdin(Stdio::null());
    command.args(["prewarm", "--all", "--json"]).args(arguments).output().unwrap()
}

fn report(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn counts<const N: usize>(report: &Value, names: [&str; N]) -> [u64; N] {
    names.map(|name| report[name].as_u64().unwrap())
}

/// The devices that something is planned for.
fn devices(report: &Value) -> BTreeSet<&str> {
    report["applications"].as_array().unwrap().iter().filter_map(|line| line["device"].as_str()).collect()
}

/// A test driver in a folder of its own, with a script that no variable changes. Its manifest.
fn staged(scenario: &Scenario, name: &str, script: &Value) -> PathBuf {
    let folder = scenario.folder().join(name);
    fs::create_dir(&folder).unwrap();
    // A copy: the loader would get one library for two links to a file.
    fs::copy(paths::test_driver_library().unwrap(), folder.join(LIBRARY)).unwrap();
    fs::write(folder.join(LIBRARY).with_extension("json"), script.to_string()).unwrap();
    manifest(&folder, LIBRARY)
}

fn manifest(folder: &Path, library: &str) -> PathBuf {
    let path = folder.join("driver.json");
    let icd = json!({ "library_path": library, "api_version": "1.4.305" });
    fs::write(&path, json!({ "file_format_version": "1.0.0", "ICD": icd }).to_string()).unwrap();
    path
}

/// `env` with these manifests as the active ones.
fn with_active(env: &Env, manifests: &[&PathBuf]) -> Env {
    let list = std::env::join_paths(manifests).unwrap();
    env.clone().var("VK_DRIVER_FILES", &list).var("VK_ICD_FILENAMES", &list)
}

#[test]
fn after_a_switch_of_the_driver_everything_is_served_that_was_made_before_it() {
    on(Driver::Test(json!({})), |scenario, env| {
        for shader in SHADERS {
            run(scenario, env, &Work { shader, ..Work::default() });
        }
        let update =
            json!({ "driver_version": 2, "pipeline_cache_uuid": "00000000000000000000000000000002" });
        let manifest = staged(scenario, "staged", &update);
        // What is set for the active driver would leave the other one out.
        let set = env.clone().var("VK_LOADER_DRIVERS_SELECT", "test_icd*");
        let set = set.var("VK_LOADER_DRIVERS_DISABLE", "driver.json");
        // The path is relative to the tool's working folder.
        let prewarm = |arguments: &[&str]| {
            report(&prewarm(
                &set,
                scenario.folder(),
                &[&["--driver", "staged/driver.json"], arguments].concat(),
            ))
        };
        let names = ["planned", "made", "checked", "there"];
        assert_eq!(counts(&prewarm(&["--dry-run", "--if-driver-changed"]), names), [12, 0, 0, 0]);
        let made = prewarm(&[]);
        assert_eq!((counts(&made, names), &made["well"]), ([12, 12, 12, 0], &json!(true)), "{made:#}");
        assert_eq!(counts(&prewarm(&["--dry-run"]), names), [0, 0, 0, 12]);
        // Neither driver is given what the other one has made.
        for env in [env, &with_active(env, &[&manifest])] {
            for shader in SHADERS {
                let work = Work { shader, ..Work::default() };
                assert_all_served(&run(scenario, env, &work), work.count);
            }
        }
    });
}

#[test]
fn workers_load_the_driver_of_the_manifest_and_no_other() {
    on(Driver::Test(json!({})), |scenario, env| {
        run(scenario, env, &Work::default());
        let [one, other] = [("one", 77), ("other", 78)].map(|(name, device)| {
            staged(scenario, name, &json!({ "device_name": name, "device_id": device }))
        });
        let env = with_active(env, &[&one, &other]);
        let named = |arguments: &[&str]| {
            report(&prewarm(&env, scenario.folder(), &[&["--every-device", "--dry-run"], arguments].concat()))
        };
        assert_eq!(devices(&named(&[])), BTreeSet::from(["one", "other"]));
        for (manifest, device) in [(&one, "one"), (&other, "other")] {
            let report = named(&["--driver", manifest.to_str().unwrap()]);
            assert_eq!(devices(&report), BTreeSet::from([device]), "{report:#}");
        }
    });
}

#[test]
fn a_driver_without_the_device_is_named_by_its_manifest() {
    on(Driver::Test(json!({})), |scenario, env| {
        run(scenario, env, &Work::default());
        let missing = scenario.folder().join("missing");
        fs::create_dir(&missing).unwrap();
        let other = json!({ "device_id": 77, "physical_devices": 2 });
        for (manifest, why) in [
            (manifest(&missing, LIBRARY), "ERROR_INCOMPATIBLE_DRIVER"),
            (staged(scenario, "other", &other), "--every-device"),
        ] {
            let manifest = manifest.to_str().unwrap();
            let output = prewarm(env, scenario.folder(), &["--driver", manifest]);
            let report = report(&output);
            let problems = report["applications"][0]["problems"].to_string();
            assert!(!output.status.success() && report["made"] == 0, "{report:#}");
            assert!(problems.contains(why) && problems.contains(manifest), "{report:#}");
        }
    });
}
