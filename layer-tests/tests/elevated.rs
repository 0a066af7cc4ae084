//! A program with more rights than the user who starts it: the loader takes the layer from the system's folder and
//! the variable that enables it from the user, so the layer must do nothing by itself.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

use vkstash_layer_tests::child::{self, Scenario, scenario};
use vkstash_layer_tests::env::{Driver, Env, Layer, installed_manifest, write_implicit_manifest};
use vkstash_layer_tests::suite::files;
use vkstash_layer_tests::vulkan::{Device, DeviceOptions, Instance, InstanceOptions};
use vkstash_layer_tests::work::Work;

/// The folder in which the loader searches layers for all users, also in an elevated process.
const LAYERS: &str = "/etc/vulkan/implicit_layer.d";
const DRIVERS: &str = "/usr/share/vulkan/icd.d";
/// A group to which the tester does not belong.
const GROUP: u32 = 65534;

/// The number of mappings of the layer, and whether every pipeline was created.
fn step(_: &Value) -> Value {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let device = Device::new(&instance, &DeviceOptions::default()).unwrap();
    let made = Work::default().run(&device).all_made();
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let mapped = maps.lines().filter(|line| line.contains("libVkLayer_vkstash") && line.contains(" r-xp "));
    // SAFETY: getauxval has no preconditions.
    let elevated = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    json!({ "mapped": mapped.count(), "made": made, "elevated": elevated })
}

/// Starts a program with these folders in place of the system's folders for layers and drivers.
fn start(scenario: &Scenario, env: &Env, system: &Path, program: &Path) -> Output {
    let mut command = Command::new("unshare");
    env.apply(&mut command);
    let script = format!(
        "mount --bind \"$0/layers\" {LAYERS} && mount --bind \"$0/drivers\" {DRIVERS} && exec \"$@\""
    );
    command.args(["-m", "sh", "-c", &script]).arg(system).arg(program);
    scenario.as_step(&mut command, "step", &()).env("VKSTASH", "1").output().unwrap()
}

fn test(scenario: &Scenario, env: &Env) {
    let mut probe = Command::new("unshare");
    probe.args([
        "-m",
        "sh",
        "-c",
        &format!("mount --bind {LAYERS} {LAYERS} && mount --bind {DRIVERS} {DRIVERS}"),
    ]);
    // SAFETY: geteuid has no preconditions.
    let is_root = unsafe { libc::geteuid() } == 0;
    if !is_root || !probe.status().is_ok_and(|status| status.success()) {
        scenario.not_here("only root can make such a program, and stand in for the system's folders");
        return;
    }
    let system = scenario.folder().join("system");
    write_implicit_manifest(&system.join("layers"));
    fs::create_dir(system.join("drivers")).unwrap();
    let driver = installed_manifest(env.driver()).unwrap();
    fs::copy(&driver, system.join("drivers").join(driver.file_name().unwrap())).unwrap();
    // The user who starts the program must be able to read this folder.
    fs::set_permissions(scenario.folder(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = scenario.folder().join("program");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    chown(&program, Some(0), Some(GROUP)).unwrap();
    for (mode, elevated) in [(0o755, false), (0o2755, true)] {
        fs::set_permissions(&program, fs::Permissions::from_mode(mode)).unwrap();
        let folder = scenario.folder().join(format!("{mode:o}"));
        let env = env.clone().stash(folder.join("stash")).report(folder.join("report"));
        let output = start(scenario, &env, &system, &program);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{mode:o}: {stderr}");
        let answer = child::answer_in(&String::from_utf8_lossy(&output.stdout));
        assert_eq!(answer, json!({ "mapped": 1, "made": true, "elevated": elevated }), "{mode:o}: {stderr}");
        let written = [files(&env.stash_folder(), ".vks").len(), files(&env.report_folder(), ".vkr").len()];
        if elevated {
            assert!(!folder.exists(), "{written:?} files");
        } else {
            assert!(written.iter().all(|&count| count > 0), "{written:?} files: {stderr}");
        }
    }
}

#[test]
fn the_layer_is_loaded_into_an_elevated_program_and_does_nothing() {
    scenario(&[("step", step)], |scenario| {
        if let Some(env) = scenario.on(Driver::Radv) {
            // Installed as by a package, not by a user.
            test(scenario, &env.layer(Layer::Off));
        }
    });
}
