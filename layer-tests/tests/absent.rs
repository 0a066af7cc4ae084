//! `vkstash prewarm --device`: artifacts for a device that is not here.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use vkstash_layer_tests::child::{Scenario, scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::paths;
use vkstash_layer_tests::suite::{assert_all_served, files, run};
use vkstash_layer_tests::work::{self, Shader, Work};

const SHADERS: [Shader; 4] =
    [Shader::Compute, Shader::Specialized, Shader::RenderPass, Shader::DynamicRendering];

/// The tool in this environment.
fn tool(env: &Env, arguments: &[&str]) -> Output {
    let mut command = Command::new(paths::profile_folder().join("vkstash"));
    env.apply(&mut command);
    command.env("VKSTASH_LIBRARY", paths::layer_library()).stdin(Stdio::null());
    command.args(arguments).output().unwrap()
}

fn prewarm(env: &Env, device: &str, arguments: &[&str]) -> Output {
    tool(env, &[&["prewarm", "--all", "--device", device], arguments].concat())
}

fn text(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    format!("{out}{err} ({})", output.status)
}

fn json_of(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(output)))
}

/// A test with a machine that has a chip, and with a builder that has none; both use the same build of RADV.
fn on_both(test: impl FnOnce(&Scenario, &Env, &Env)) {
    scenario(&[("work", work::step)], |scenario| {
        let (Some(machine), Some(builder)) = (scenario.on(Driver::RadvOnShim), scenario.on(Driver::Radv))
        else {
            return;
        };
        // What the builder's own user has set is of no concern.
        let builder = builder.stash(scenario.folder().join("builder")).var("RADV_FORCE_FAMILY", "navi31");
        test(scenario, &machine, &builder);
    });
}

/// What `from` has without artifacts, for `to`.
fn move_recipes(scenario: &Scenario, from: &Env, to: &Env) {
    let archive = scenario.folder().join("archive.tar");
    let archive = archive.to_str().unwrap();
    let _ = fs::remove_file(archive);
    for output in [tool(from, &["export", "--portable", archive]), tool(to, &["import", archive])] {
        assert!(output.status.success(), "{}", text(&output));
    }
}

/// The device parts of a stash, as `vkstash stats` has them.
fn device_parts(env: &Env) -> Vec<Value> {
    let stats = json_of(&tool(env, &["stats", "--json"]));
    let parts =
        stats["applications"].as_array().unwrap().iter().flat_map(|of| of["parts"].as_array().unwrap());
    parts.filter(|part| !part["bound_to"].is_null()).cloned().collect()
}

fn content(stash: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    files(stash, ".vks").into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// One line says why, and the stash stays as it is.
fn assert_refused(env: &Env, device: &str, arguments: &[&str], why: &str) {
    let before = content(&env.stash_folder());
    let output = prewarm(env, device, arguments);
    let said = text(&output);
    assert!(!output.status.success() && said.contains(why) && output.stdout.is_empty(), "{said}");
    assert_eq!(said.lines().count(), 1 + 1, "{said}");
    assert_eq!(content(&env.stash_folder()), before, "{said}");
}

#[test]
fn a_program_on_a_chip_is_served_what_a_builder_without_it_made() {
    on_both(|scenario, machine, builder| {
        let machine = machine.clone().var("AMDGPU_GPU_ID", "vangogh");
        let recorded = machine.clone().stash(scenario.folder().join("recorded"));
        for shader in SHADERS {
            run(scenario, &recorded, &Work { shader, ..Work::default() });
        }
        move_recipes(scenario, &recorded, builder);
        let output = prewarm(builder, "radv:vangogh", &["--json", "--jobs", "2"]);
        let report = json_of(&output);
        let counts = ["made", "checked"].map(|name| report[name].as_u64().unwrap());
        assert!(counts[0] >= 12 && counts[0] == counts[1] && output.status.success(), "{report:#}");
        assert_eq!(report["chip"], "vangogh");
        // The same device headers as on the machine itself.
        let headers = |env: &Env| -> Vec<String> {
            let mut names: Vec<_> =
                device_parts(env).iter().map(|part| part["name"].as_str().unwrap().to_owned()).collect();
            names.sort();
            names
        };
        assert_eq!(headers(builder), headers(&recorded));
        let served = machine.stash(builder.stash_folder());
        for shader in SHADERS {
            let work = Work { shader, ..Work::default() };
            assert_all_served(&run(scenario, &served, &work), work.count);
        }
        let said = text(&prewarm(builder, "radv:vangogh", &[]));
        assert!(said.contains("no real vangogh has"), "{said}");
    });
}

#[test]
fn what_a_device_part_lacks_is_made_for_its_very_header() {
    on_both(|scenario, machine, builder| {
        let machine = machine.clone().stash(builder.stash_folder());
        // raven2 has the number of raven, which another pipelineCacheUUID tells apart.
        for chip in ["navi21", "raven2"] {
            let machine = machine.clone().var("AMDGPU_GPU_ID", chip);
            run(scenario, &machine, &Work::default());
        }
        let other = builder.clone().stash(scenario.folder().join("other"));
        run(scenario, &other, &Work { first: 100, ..Work::default() });
        move_recipes(scenario, &other, builder);
        for (chip, device) in [("navi21", 0x73bf), ("raven2", 0x15d8)] {
            let parts = device_parts(builder);
            let part = parts.iter().find(|part| part["bound_to"]["device_id"] == device).unwrap();
            let part = part["name"].as_str().unwrap();
            let report = json_of(&prewarm(builder, &format!("device-{}", &part[..12]), &["--json"]));
            let told = ["chip", "planned", "made", "checked"].map(|name| &report[name]);
            assert_eq!(told, [&json!(chip), &json!(3), &json!(3), &json!(6)], "{report:#}");
            assert_eq!(report["applications"][0]["part"], part, "{report:#}");
            let work = Work { first: 100, ..Work::default() };
            let machine = machine.clone().var("AMDGPU_GPU_ID", chip);
            assert_all_served(&run(scenario, &machine, &work), work.count);
        }
        assert_eq!(device_parts(builder).len(), 2);
        assert_refused(builder, "0123456789abcdef", &[], "no device part of the stash is called");
        assert_refused(builder, "", &[], "no device part of the stash is called");
        assert_refused(builder, "device-", &[], "no device part of the stash is called");
    });
}

#[test]
fn every_chip_of_the_list_has_the_number_that_the_list_says() {
    on_both(|scenario, _, builder| {
        // On a chip that is not in the list.
        run(scenario, &builder.clone().var("RADV_FORCE_FAMILY", "navi23"), &Work::default());
        let said = text(&prewarm(builder, "radv:navi99", &[]));
        let names = said.split_once("there are ").and_then(|(_, rest)| rest.lines().next()).expect(&said);
        let names: Vec<&str> = names.split(", ").collect();
        assert!(names.len() >= 15, "{said}");
        for name in names {
            let output = prewarm(builder, &format!("radv:{name}"), &["--dry-run"]);
            let said = text(&output);
            assert!(output.status.success() && said.contains("3 to make, 0 there"), "{name}: {said}");
        }
    });
}

/// A part as another machine's driver would have it, made by the test driver.
fn part_of(scenario: &Scenario, script: Value, work: &Work) -> (Env, String) {
    let folder = tempfile::Builder::new().tempdir_in(scenario.folder()).unwrap().keep();
    let env = scenario.on(Driver::Test(script)).unwrap().stash(folder.join("stash"));
    run(scenario, &env, work);
    let [part] = &device_parts(&env)[..] else { panic!("one device part") };
    (env, part["name"].as_str().unwrap().to_owned())
}

#[test]
fn a_header_that_the_driver_here_does_not_have_is_refused_by_the_field_that_differs() {
    on_both(|scenario, machine, builder| {
        run(scenario, machine, &Work::default());
        let bound = device_parts(machine)[0]["bound_to"].clone();
        let radv = |device: u32, version: &Value, uuid: &Value| {
            json!({ "vendor_id": 0x1002, "device_id": device, "driver_id": 3, "driver_version": version,
                    "pipeline_cache_uuid": uuid })
        };
        let (version, uuid) = (&bound["driver_version"], &bound["pipeline_cache_uuid"]);
        let other = json!("00000000000000000000000000000001");
        let v24 = json!((24 << 22) | (1 << 12));
        for (script, why) in [
            (json!({}), "cannot be made to run without its device"),
            (json!({ "driver_id": 1, "vendor_id": 0x1002, "device_id": 0x73bf }), "AMD_PROPRIETARY of part"),
            (radv(0x1234, version, uuid), "has the number 0x1234"),
            (radv(0x73bf, &v24, uuid), "is of driver 24.1.0, and RADV here is"),
            (radv(0x73bf, version, &other), "(pipelineCacheUUID 00000000000000000000000000000001, here"),
        ] {
            let (env, part) = part_of(scenario, script, &Work::default());
            let builder = builder.clone().stash(env.stash_folder());
            assert_refused(&builder, &part, &[], why);
        }
        // A real chip may have what the one here lacks (here: textureCompressionASTC_LDR).
        let work = Work { features: vec![21], ..Work::default() };
        let (env, part) = part_of(scenario, radv(0x73bf, version, uuid), &work);
        let builder = builder.clone().stash(env.stash_folder());
        let before = content(&builder.stash_folder());
        let output = prewarm(&builder, &part, &[]);
        let said = text(&output);
        assert!(!output.status.success() && said.contains("navi21 here lacks a feature"), "{said}");
        assert_eq!(content(&builder.stash_folder()), before, "{said}");
    });
}

#[test]
fn a_library_that_is_no_shim_makes_no_chip() {
    on_both(|scenario, _, builder| {
        run(scenario, builder, &Work::default());
        let shim = scenario.folder().join("none.so");
        let shim = shim.to_str().unwrap();
        assert_refused(builder, "radv:navi21", &["--drm-shim", shim], "RADV does not run as navi21 with");
    });
}
