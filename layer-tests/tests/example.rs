//! `examples/glsl.c`, a program that translates GLSL with glslang, on RADV's real compiler: cold, warm, after a version
//! bump, and without the layer.

use std::fs;
use std::path::Path;
use std::process::Command;

use vkstash_layer_tests::child::scenario;
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::skip;

/// What a linker needs for glslang's C interface. None, with a line that says so: it is not installed.
fn libraries() -> Option<Vec<String>> {
    let output = Command::new("pkg-config").args(["--libs", "vulkan", "spirv"]).output();
    let Some(output) = output.ok().filter(|output| output.status.success()) else {
        skip::missing(&skip::this_test(), "no pkg-config, glslang-dev, spirv-tools or libvulkan-dev");
        return None;
    };
    let named = String::from_utf8(output.stdout).unwrap();
    let more = ["-lglslang-default-resource-limits", "-lstdc++", "-lm"];
    Some(named.split_whitespace().chain(more).map(str::to_owned).collect())
}

#[test]
fn the_glsl_translator_translates_once_for_each_version() {
    scenario(&[], |scenario| {
        let Some(env) = scenario.on(Driver::Radv) else { return };
        let Some(libraries) = libraries() else { return };
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let program = scenario.folder().join("glsl");
        let mut compiler = Command::new("cc");
        compiler.args(["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"]);
        compiler.arg(repository.join("include")).arg(repository.join("examples/glsl.c"));
        let made = compiler.arg("-o").arg(&program).args(libraries).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let run = |env: &Env, version: &str| {
            let mut command = Command::new(&program);
            env.apply(&mut command);
            let output = command.arg(version).output().unwrap();
            assert!(output.status.success(), "{output:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        let said = |identified, found, translated| {
            format!(
                "{identified} pipelines by identifier, {found} from SPIR-V of the session, {translated} translated\n"
            )
        };
        assert_eq!(run(&env, "1"), said(0, 0, 8), "cold");
        assert_eq!(run(&env, "1"), said(8, 0, 0), "warm");
        assert_eq!(run(&env, "2"), said(0, 0, 8), "a new version of the translator");
        assert_eq!(run(&env, "2"), said(8, 0, 0), "warm again");
        assert_eq!(run(&env.clone().without_layer(), "2"), said(0, 0, 8), "without the layer");
        // The pipelines are lost, and the session is not.
        for application in fs::read_dir(env.stash_folder()).unwrap().map(|entry| entry.unwrap().path()) {
            for folder in fs::read_dir(application).unwrap().map(|entry| entry.unwrap().path()) {
                if !folder.ends_with("sessions") {
                    fs::remove_dir_all(folder).unwrap();
                }
            }
        }
        assert_eq!(run(&env, "2"), said(0, 8, 0), "without the pipelines");
    });
}
