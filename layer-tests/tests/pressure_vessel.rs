//! A root like that of Steam's container, made by bubblewrap as pressure-vessel does it: the host's /usr is at
//! /run/host/usr, the driver and the layer are links to there, and their manifests stand in a folder of overrides.
//!
//! What is not Steam's here: the runtime's /usr has this machine's libraries.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use vkstash_layer_tests::child::{self, Scenario};
use vkstash_layer_tests::env::{Driver, Env, Layer, installed_manifest};
use vkstash_layer_tests::paths::{layer_library, profile_folder};
use vkstash_layer_tests::report::Reports;
use vkstash_layer_tests::suite::{on, run};
use vkstash_layer_tests::work::{Done, Shader, Work};

const OVERRIDES: &str = "/usr/lib/pressure-vessel/overrides";
const LIBRARIES: &str = "lib/x86_64-linux-gnu";
const COUNT: u32 = 4;

/// Mounts of bubblewrap: the folders of a /usr, in which new ones can be made.
fn usr(at: &str) -> Vec<String> {
    let mut arguments = vec!["--tmpfs".to_owned(), at.to_owned()];
    for folder in ["bin", "lib64", "share", LIBRARIES] {
        arguments.extend(["--ro-bind-try".to_owned(), format!("/usr/{folder}"), format!("{at}/{folder}")]);
    }
    arguments
}

/// Writes the overrides: links to what the host has, and manifests that name these links.
fn write_overrides(folder: &Path, env: &Env) {
    let link = |manifest: &Path, key: &str, below: &str, to: &str| {
        let mut text: Value = serde_json::from_slice(&fs::read(manifest).unwrap()).unwrap();
        let library = PathBuf::from(text[key]["library_path"].as_str().unwrap());
        let name = library.file_name().unwrap();
        let inside = Path::new(LIBRARIES).join(below);
        fs::create_dir_all(folder.join(&inside)).unwrap();
        symlink(Path::new("/run/host/usr").join(to).join(name), folder.join(&inside).join(name)).unwrap();
        text[key]["library_path"] = json!(Path::new(OVERRIDES).join(inside).join(name));
        text
    };
    let write = |kind: &str, text: Value| {
        let folder = folder.join("share/vulkan").join(kind);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("0-x86_64-linux-gnu.json"), text.to_string()).unwrap();
    };
    write("icd.d", link(&installed_manifest(env.driver()).unwrap(), "ICD", "", LIBRARIES));
    let layer = folder.with_file_name("host.json");
    let text = include_str!("../../manifest/VkLayer_vkstash.implicit.json.in");
    let text = text.replace("@LIBRARY_PATH@", "/usr/local/lib/libVkLayer_vkstash.so");
    fs::write(&layer, text.replace("@LIBRARY_ARCH@", "64")).unwrap();
    write("implicit_layer.d", link(&layer, "layer", "vulkan_imp_layer/0", "local/lib"));
}

/// A command in the container, whose arguments follow. `imported`: the container has taken over the host's layer.
fn container(scenario: &Scenario, imported: bool) -> Vec<String> {
    let folder = scenario.folder().to_str().unwrap();
    let (host, overrides) = (format!("{folder}/host"), format!("{folder}/overrides"));
    let binary = profile_folder();
    let mut arguments = [usr("/usr"), usr("/run/host/usr")].concat();
    for (link, to) in [("/bin", "usr/bin"), ("/lib", "usr/lib"), ("/lib64", "usr/lib64")] {
        arguments.extend(["--symlink", to, link].map(str::to_owned));
    }
    let binary = binary.to_str().unwrap();
    let mounts = [
        ["--ro-bind", &host, "/run/host/usr/local"],
        ["--ro-bind", &format!("{overrides}/lib"), &format!("{OVERRIDES}/lib")],
        ["--ro-bind", &format!("{overrides}/share/vulkan/icd.d"), &format!("{OVERRIDES}/share/vulkan/icd.d")],
        ["--ro-bind", "/etc", "/etc"],
        ["--dev-bind", "/dev", "/dev"],
        ["--ro-bind", "/sys", "/sys"],
        // What a user has in the home and in /tmp is at its place there, too.
        ["--bind", "/tmp", "/tmp"],
        ["--bind", folder, folder],
        ["--ro-bind", binary, binary],
    ];
    arguments.extend(mounts.into_iter().flatten().map(str::to_owned));
    if imported {
        let layers = "share/vulkan/implicit_layer.d";
        arguments.extend([
            "--ro-bind".into(),
            format!("{overrides}/{layers}"),
            format!("{OVERRIDES}/{layers}"),
        ]);
    }
    let driver = format!("{OVERRIDES}/share/vulkan/icd.d/0-x86_64-linux-gnu.json");
    for name in ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"] {
        arguments.extend(["--setenv".to_owned(), name.to_owned(), driver.clone()]);
    }
    arguments.extend(["--proc", "/proc", "--"].map(str::to_owned));
    // The container keeps the folders that the variable named outside.
    let data = format!("{OVERRIDES}/share:${{XDG_DATA_DIRS:-/usr/local/share:/usr/share}}");
    let script = format!("exec bwrap --setenv XDG_DATA_DIRS \"{data}\" \"$@\"");
    [vec!["sh".to_owned(), "-c".to_owned(), script, "sh".to_owned()], arguments].concat()
}

/// Runs the work there, started by this command.
fn run_inside(scenario: &Scenario, env: &Env, before: &[&str], imported: bool, work: &Work) -> Reports {
    let line: Vec<_> =
        before.iter().map(|word| (*word).to_owned()).chain(container(scenario, imported)).collect();
    let (program, arguments) = line.split_first().unwrap();
    let mut command = Command::new(program);
    env.apply(&mut command);
    command.args(arguments).arg(std::env::current_exe().unwrap());
    let output = scenario.as_step(&mut command, "work", work).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{stderr}");
    let done = child::answer_in(&String::from_utf8_lossy(&output.stdout));
    assert!(serde_json::from_value::<Done>(done).unwrap().all_made(), "{stderr}");
    Reports::read(&env.report_folder())
}

fn counted(reports: &Reports) -> [u64; 3] {
    ["served", "compiled", "bypassed"].map(|name| reports.sum(name))
}

#[test]
fn the_layer_serves_in_steams_container_what_was_recorded_outside_and_the_other_way_round() {
    on(Driver::Radv, |scenario, env| {
        let probe = ["--ro-bind", "/", "/", "--tmpfs", "/run", "--proc", "/proc", "true"];
        if !Command::new("bwrap").args(probe).status().is_ok_and(|status| status.success()) {
            return scenario.not_here("bubblewrap is missing, or may not mount anything here");
        }
        let host = scenario.folder().join("host");
        fs::create_dir_all(host.join("lib")).unwrap();
        fs::copy(layer_library(), host.join("lib/libVkLayer_vkstash.so")).unwrap();
        write_overrides(&scenario.folder().join("overrides"), env);
        let work = Work { shader: Shader::Compute, count: COUNT, ..Work::default() };
        let count = u64::from(COUNT);
        let tool = profile_folder().join("vkstash");
        let library = layer_library();
        let words = ["run", "--quiet", "--library", library.to_str().unwrap(), "--"];
        let by_run: Vec<_> = [tool.to_str().unwrap()].into_iter().chain(words).collect();
        // VKSTASH=1 with the layer that the container has imported, and `vkstash run` with one that it has not.
        for (name, before, imported) in [("variable", vec!["env", "VKSTASH=1"], true), ("run", by_run, false)]
        {
            let at = |stash: &str, report: &str| {
                let folder = scenario.folder().join(name);
                env.clone().stash(folder.join(stash)).report(folder.join(report)).layer(Layer::Off)
            };
            let inside =
                |stash, report| counted(&run_inside(scenario, &at(stash, report), &before, imported, &work));
            let outside =
                |stash| counted(&run(scenario, &at(stash, "outside").layer(Layer::Implicit), &work).reports);
            assert_eq!(inside("inside first", "cold"), [0, count, 0], "{name}");
            assert_eq!(inside("inside first", "warm"), [count, 0, 0], "{name}");
            assert_eq!(outside("inside first"), [count, 0, 0], "{name}");
            assert_eq!(outside("outside first"), [0, count, 0], "{name}");
            assert_eq!(inside("outside first", "after"), [count, 0, 0], "{name}");
            // The container without the host's layer and without `vkstash run` has none: the above is no accident.
            let off = at("off", "off");
            assert!(run_inside(scenario, &off, &["env", "VKSTASH=1"], false, &work).0.is_empty());
        }
    });
}
