//! `vkstash prewarm --mesa-foz`: a database of Mesa's disk cache, by which a program without the layer starts warm.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use vkstash_layer_tests::child::Scenario;
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::paths;
use vkstash_layer_tests::suite::{files, on, run};
use vkstash_layer_tests::work::{Shader, Work};

const SHADERS: [Shader; 4] =
    [Shader::Compute, Shader::Specialized, Shader::RenderPass, Shader::DynamicRendering];
const NAMES: &str = "MESA_DISK_CACHE_READ_ONLY_FOZ_DBS";
const LIST: &str = "MESA_DISK_CACHE_READ_ONLY_FOZ_DBS_DYNAMIC_LIST";

fn prewarm(env: &Env, folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(paths::profile_folder().join("vkstash"));
    env.apply(&mut command);
    command.env("VKSTASH_LIBRARY", paths::layer_library()).stdin(Stdio::null());
    command.arg("prewarm").arg("--all").arg("--mesa-foz").arg(folder).args(arguments).output().unwrap()
}

fn text(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    format!("{out}{err} ({})", output.status)
}

/// The environment of a program without the layer whose driver has an empty cache of its own.
fn without_layer(scenario: &Scenario, env: &Env, name: &str, variables: &[(&str, String)]) -> Env {
    let cache = scenario.folder().join("caches").join(name);
    fs::create_dir_all(&cache).unwrap();
    let env = env.clone().without_layer().driver_cache().var("MESA_SHADER_CACHE_DIR", cache);
    variables.iter().fold(env, |env, (name, value)| env.var(name, value))
}

/// Whether the program's calls, which forbid compiling, are all answered with pipelines; false: with none.
fn is_warm(scenario: &Scenario, env: &Env, shader: Shader) -> bool {
    let done = run(scenario, env, &Work { shader, fail_on: true, ..Work::default() }).value;
    assert!(done.all_made() || done.all_refused(), "{shader:?}: {:?}", done.results);
    done.all_made()
}

/// The files of a stash with their content.
fn content(stash: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    files(stash, ".vks").into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// The variables that the tool names, and the one for the list.
fn variables(made: &Value) -> (Vec<(&str, String)>, String) {
    let named = made["variables"].as_object().unwrap();
    let named = named.iter().map(|(name, value)| (name.as_str(), value.as_str().unwrap().to_owned()));
    (named.collect(), made["list"][LIST].as_str().unwrap().to_owned())
}

#[test]
fn a_program_without_the_layer_is_warm_by_the_database_and_cold_without_it() {
    on(Driver::Radv, |scenario, env| {
        for shader in SHADERS {
            run(scenario, env, &Work { shader, cache_control: true, ..Work::default() });
        }
        let before = content(&env.stash_folder());
        let folder = scenario.folder().join("new").join("database");
        let output = prewarm(env, &folder, &["--json", "--jobs", "3"]);
        let report: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", text(&output)));
        assert!(output.status.success(), "{report:#}");
        // What is in the stash is compiled again, and the stash stays as it is.
        let counts = ["planned", "made", "there", "checked"].map(|name| report[name].as_u64().unwrap());
        assert!(counts[0] >= 12 && counts[1] == counts[0] && counts[2..] == [0, 0], "{report:#}");
        assert_eq!(content(&env.stash_folder()), before);

        let made = &report["mesa_foz"];
        let [database] = made["databases"].as_array().unwrap().as_slice() else { panic!("{report:#}") };
        assert!(database["entries"].as_u64().unwrap() >= 12, "{report:#}");
        let (named, list) = variables(made);
        let combined = ("MESA_DISK_CACHE_COMBINE_RW_WITH_RO_FOZ", "1".to_owned());
        assert!(named.contains(&combined), "{report:#}");
        let by_name = database["name"].as_str().unwrap().to_owned();
        let copied = without_layer(scenario, env, "copied", &[combined.clone(), (NAMES, by_name.clone())]);
        let place = scenario.folder().join("caches/copied/mesa_shader_cache_sf");
        let place = place.join(database["cache"].as_str().unwrap());
        fs::create_dir_all(&place).unwrap();
        for file in [format!("{by_name}.foz"), format!("{by_name}_idx.foz")] {
            fs::copy(folder.join(&file), place.join(&file)).unwrap();
        }
        let single = [("MESA_DISK_CACHE_SINGLE_FILE", "1".to_owned()), named[1].clone()];
        for shader in SHADERS {
            let name = |way: &str| format!("{way} {shader:?}");
            let env = |way: &str, variables: &[_]| without_layer(scenario, env, &name(way), variables);
            assert!(!is_warm(scenario, &env("cold", &named[..1]), shader), "{shader:?}");
            assert!(is_warm(scenario, &env("named", &named), shader), "{shader:?}");
            let listed = [combined.clone(), (LIST, list.clone())];
            assert!(is_warm(scenario, &env("listed", &listed), shader), "{shader:?}");
            assert!(is_warm(scenario, &env("single", &single), shader), "{shader:?}");
            assert!(is_warm(scenario, &copied, shader), "{shader:?}");
        }
    });
}

/// The user's own settings do not keep the workers from filling it.
#[test]
fn a_user_who_has_disabled_the_drivers_cache_gets_a_database_too() {
    on(Driver::Radv, |scenario, env| {
        run(scenario, env, &Work::default());
        let settings = scenario.folder().join("settings.toml");
        fs::write(&settings, "disabled-caches = ['driver-managed']\n").unwrap();
        let env = env.clone().var("VKSTASH_CONFIG", settings).var("MESA_SHADER_CACHE_DISABLE", "1");
        let output = prewarm(&env, &scenario.folder().join("database"), &[]);
        let said = text(&output);
        assert!(output.status.success() && said.contains("MESA_DISK_CACHE_READ_ONLY_FOZ_DBS=../"), "{said}");
    });
}

#[test]
fn a_folder_that_cannot_take_a_database_is_refused_before_the_work() {
    on(Driver::Radv, |scenario, env| {
        let refused = |folder: &Path, why: &str| {
            let output = prewarm(env, folder, &[]);
            let said = text(&output);
            assert!(!output.status.success() && said.contains(why) && output.stdout.is_empty(), "{said}");
            assert_eq!(said.lines().count(), 1 + 1, "{said}");
        };
        let folder = scenario.folder().join("database");
        refused(&folder, "there are no recipes");
        run(scenario, env, &Work::default());
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(0o555)).unwrap();
        refused(&folder, "cannot write to");
        refused(&folder.join("below"), "cannot write to");
        fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
        fs::write(folder.join("precious"), "file").unwrap();
        refused(&folder, "is not empty");
        refused(&folder.join("precious"), "cannot write to");
        refused(&scenario.folder().join("a,b"), "has a comma");
        assert_eq!(fs::read(folder.join("precious")).unwrap(), b"file");
    });
}

#[test]
fn no_database_is_made_for_a_driver_that_is_none_of_mesa() {
    on(Driver::Test(json!({})), |scenario, env| {
        run(scenario, env, &Work::default());
        let folder = scenario.folder().join("database");
        let output = prewarm(env, &folder, &[]);
        let said = text(&output);
        assert!(!output.status.success() && said.contains("has no driver of Mesa"), "{said}");
        assert!(!folder.exists());
    });
}
