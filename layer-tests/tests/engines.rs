//! What is served of six engines' habits of caching pipelines (`src/engines/`): cold and warm, on RADV's real compiler.
//! `vkstash-bench engines` measures them, with and without the layer.

use std::path::PathBuf;

use serde_json::{Value, json};

use vkstash_layer_tests::child::{Scenario, scenario};
use vkstash_layer_tests::engines;
use vkstash_layer_tests::env::{Driver, Env};

/// How many pipelines each program asks for.
const COUNT: u64 = 6;

/// The program. Answers with the time in creation calls, in microseconds.
fn engine(input: &Value) -> Value {
    let (name, folder): (String, PathBuf) = serde_json::from_value(input.clone()).unwrap();
    json!(engines::run(&name, &folder, COUNT as u32).calls.as_micros() as u64)
}

/// A run with the engine's own files in this folder.
fn run(scenario: &Scenario, env: &Env, name: &str, own: &str) -> vkstash_layer_tests::child::Run<u64> {
    let folder = scenario.folder().join(own);
    std::fs::create_dir_all(&folder).unwrap();
    scenario.run_ok("engine", env, &(name, folder))
}

fn habit(name: &str) {
    scenario(&[("engine", engine)], |scenario| {
        let Some(env) = scenario.on(Driver::Radv) else { return };
        let env = env.var("VKSTASH_BACKGROUND", "disabled");
        let bare = env.clone().without_layer();
        let without = [0, 1].map(|_| run(scenario, &bare, name, "without").value);
        let cold = run(scenario, &env, name, "with");
        assert_eq!(cold.reports.sum("compiled"), COUNT, "{name}, cold: {:?}", cold.reports.counters());
        // Its own files have all; the stash has the rest where the engine has measured them and switched them off.
        let warm = run(scenario, &env, name, "with");
        let counted = |what: &[&str]| what.iter().map(|what| warm.reports.sum(what)).sum::<u64>();
        assert_eq!(
            counted(&["compiled", "compiled_unrecorded"]),
            0,
            "{name}, warm: {:?}",
            warm.reports.counters()
        );
        assert!(counted(&["served", "driver_had"]) >= COUNT, "{name}, warm: {:?}", warm.reports.counters());
        // The user has deleted its files, or an update has made them useless: the stash serves everything.
        let lost = run(scenario, &env, name, "lost");
        assert_eq!(lost.reports.sum("compiled"), 0, "{name}, its files lost: {:?}", lost.reports.counters());
        assert_eq!(
            lost.reports.sum("served"),
            COUNT,
            "{name}, its files lost: {:?}",
            lost.reports.counters()
        );
        println!(
            "{name:<18} us in creation calls: without the layer {} cold, {} warm; with it {} cold, {} warm, {} from the stash \
             alone ({:.3} of cold)",
            without[0],
            without[1],
            cold.value,
            warm.value,
            lost.value,
            lost.value as f64 / without[0].max(1) as f64
        );
    });
}

#[test]
fn microsofts_sample_with_one_library_is_served() {
    habit("microsoft-library");
}

#[test]
fn microsofts_sample_with_a_blob_for_each_pipeline_is_served() {
    habit("microsoft-blobs");
}

#[test]
fn bgfx_is_served_after_its_memory_and_its_disk() {
    habit("bgfx");
}

#[test]
fn llgl_is_served_with_the_blob_of_its_user() {
    habit("llgl");
}

#[test]
fn o3de_is_served_with_a_library_for_each_shader_and_sets_for_each_thread() {
    habit("o3de");
}

#[test]
fn the_forge_is_served_with_caches_by_file_name() {
    habit("the-forge");
}

#[test]
fn wicked_engine_is_served_with_whichever_cache_it_has_measured_to_be_faster() {
    habit("wicked");
}
