//! One machine publishes what a program compiled, and another one serves it in its first run (docs/remote.md).
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends at the first surprise")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use vkstash_layer_tests::child::{Scenario, Step, scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::work::{self, Shader, Work};
use vkstash_layer_tests::{paths, skip};

const STEPS: &[(&str, Step)] = &[("work", work::step)];

/// The tool of this build, with `vkstash-remote` beside it. None, and a line that says why: that was not built.
fn tools() -> Option<[std::path::PathBuf; 2]> {
    let tools = ["vkstash", "vkstash-remote"].map(|name| paths::profile_folder().join(name));
    if tools.iter().all(|tool| tool.is_file()) {
        return Some(tools);
    }
    skip::not_here(&skip::this_test(), "no vkstash-remote: cargo build --workspace");
    None
}

/// The environment of a machine of its own.
fn machine(scenario: &Scenario, env: &Env, name: &str) -> Env {
    let folder = scenario.folder().join(name);
    fs::create_dir_all(folder.join("config/vkstash")).unwrap();
    let env = env.clone().without_layer().stash(folder.join("stash"));
    env.var("HOME", &folder)
        .var("XDG_DATA_HOME", folder.join("data"))
        .var("XDG_CONFIG_HOME", folder.join("config"))
}

/// `vkstash run` with these options, of a program that makes pipelines.
fn run(scenario: &Scenario, env: &Env, tool: &Path, options: &[&str]) -> String {
    let mut command = Command::new(tool);
    env.apply(&mut command);
    command.env("VKSTASH_LIBRARY", paths::layer_library()).arg("run").args(options).arg("--");
    command.arg(std::env::current_exe().unwrap());
    let work = Work { shader: Shader::Compute, count: 20, ..Work::default() };
    said(&scenario.as_step(&mut command, "work", &work).output().unwrap())
}

fn said(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}");
    text
}

#[test]
fn what_one_machine_published_another_one_serves_in_its_first_run() {
    scenario(STEPS, |scenario| {
        let (Some(env), Some([tool, remote])) = (scenario.on(Driver::Radv), tools()) else { return };
        let (one, two) = (machine(scenario, &env, "one"), machine(scenario, &env, "two"));
        let store = scenario.folder().join("store");
        fs::create_dir(&store).unwrap();
        let url = format!("file://{}", store.display());
        let key = scenario.folder().join("one/key");
        let made = Command::new(&remote).arg("key").arg(&key).arg("--no-password").output().unwrap();
        said(&made);
        fs::write(scenario.folder().join("two/config/vkstash/signers.toml"), &made.stdout).unwrap();
        fs::write(scenario.folder().join("one/config/vkstash/signers.toml"), &made.stdout).unwrap();

        // The first machine compiles, and publishes.
        let first =
            run(scenario, &one, &tool, &["--remote", &url, "--push", "--remote-key", key.to_str().unwrap()]);
        assert!(first.contains("0 served (0.0 %), 20 compiled"), "{first}");
        // The second one has nothing of its own, and compiles nothing.
        let second = run(scenario, &two, &tool, &["--remote", &url]);
        assert!(second.contains("20 served (100.0 %), 0 compiled"), "{second}");
        // Nor without the store, which is one line.
        let gone = format!("file://{}", scenario.folder().join("gone").display());
        fs::rename(&store, scenario.folder().join("moved")).unwrap();
        let third = run(scenario, &two, &tool, &["--remote", &url]);
        assert!(third.contains("20 served (100.0 %), 0 compiled"), "{third}");
        assert_eq!(third.lines().filter(|line| line.starts_with("vkstash-remote: ")).count(), 1, "{third}");
        // A store that was never reached.
        let fourth = run(scenario, &machine(scenario, &two, "three"), &tool, &["--remote", &gone]);
        assert!(fourth.contains("20 compiled"), "{fourth}");
    });
}
