//! Updates of the test driver, and the tool after them.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::child::Scenario;
use crate::env::{Driver, Env};
use crate::paths;

/// `vkstash` with these arguments in this environment.
pub fn tool(env: &Env, arguments: &[&str]) -> Command {
    let mut command = Command::new(paths::profile_folder().join("vkstash"));
    env.apply(&mut command);
    command.env("VKSTASH_LIBRARY", paths::layer_library()).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The same stash on another version of the test driver, with more in its script.
pub fn updated(scenario: &Scenario, env: &Env, more: &Value) -> Env {
    let mut script =
        json!({ "driver_version": 2, "pipeline_cache_uuid": "00000000000000000000000000000002" });
    for (name, value) in more.as_object().into_iter().flatten() {
        script[name] = value.clone();
    }
    scenario.on(Driver::Test(script)).expect("the test driver is there").stash(env.stash_folder())
}
