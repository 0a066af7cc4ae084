//! Tests of what is served of seven engines' habits of caching pipelines (`src/engines/`): cold, warm, and after the
//! loss of the engine's own files, on RADV's real compiler, beside the same program without the layer.
//! `vkstash-bench engines` measures both.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::{Value, json};

use vkstash_layer_tests::child::{Run, Scenario, scenario};
use vkstash_layer_tests::engines::{self, Done, Kind, Program};
use vkstash_layer_tests::env::{Driver, Env};

/// How many pipelines each program asks for: more than Microsoft's sample has workers at a time.
const COUNT: u32 = 13;

/// The program.
fn engine(input: &Value) -> Value {
    let (name, folder, program): (String, PathBuf, Program) = serde_json::from_value(input.clone()).unwrap();
    json!(engines::run(&name, &folder, program))
}

/// One engine with pipelines of one kind.
struct Engine<'a> {
    scenario: &'a Scenario,
    name: &'a str,
    kind: Kind,
    env: Env,
}

impl Engine<'_> {
    /// A run with the engine's own files in this folder.
    fn run(&self, env: &Env, own: &str, feedback: bool) -> Run<Done> {
        let folder = self.scenario.folder().join(format!("{own}-{:?}", self.kind));
        std::fs::create_dir_all(&folder).unwrap();
        let program = Program { kind: self.kind, count: COUNT, feedback, described: true, again: 0 };
        self.scenario.run_ok("engine", env, &(self.name, folder, program))
    }

    /// The names of the pipelines that a run without the layer does not find in the engine's own files: these are
    /// compiled, because the driver's disk cache is off.
    fn compiled_without_layer(&self, own: &str) -> BTreeSet<u32> {
        let done = self.run(&self.env.clone().without_layer(), own, true).value;
        missed(&done)
    }
}

/// The names of the pipelines that the engine's own caches did not have, by the driver's feedback.
fn missed(done: &Done) -> BTreeSet<u32> {
    let missed = done.calls.iter().filter(|call| call.is_made && !call.hit);
    missed.map(|call| call.name).collect()
}

/// Asserts that a run compiled so many pipelines, and made the same ones as without the layer.
fn assert_compiled(what: &str, run: &Run<Done>, compiled: usize, without: &Done) {
    let counters = run.reports.counters();
    let sum = |names: [&str; 2]| names.iter().map(|name| run.reports.sum(name)).sum::<u64>();
    assert_eq!(sum(["compiled", "compiled_unrecorded"]), compiled as u64, "{what}: {counters:?}");
    assert_eq!(run.reports.sum("bypassed"), 0, "{what}: {counters:?}");
    assert_eq!(run.value.described, without.described, "{what}");
}

/// Runs an engine whose own files lack so many pipelines.
fn habit(name: &str, lacking: usize) {
    scenario(&[("engine", engine)], |scenario| {
        for kind in [Kind::Compute, Kind::Graphics] {
            let Some(env) = scenario.on(Driver::Radv) else { return };
            let stash = scenario.folder().join(format!("stash-{kind:?}"));
            let env = env.var("VKSTASH_BACKGROUND", "disabled").stash(stash);
            run_with_and_without(&Engine { scenario, name, kind, env }, lacking);
        }
    });
}

fn run_with_and_without(engine: &Engine<'_>, lacking: usize) {
    let count = COUNT as usize;
    let what = |run| format!("{}, {:?}, {run}", engine.name, engine.kind);
    let bare = engine.run(&engine.env.clone().without_layer(), "without", true).value;
    assert_eq!(bare.described.len(), count);
    assert!(bare.described.iter().flatten().flatten().count() > 0, "the driver describes pipelines");
    assert_eq!(missed(&bare).len(), count, "without the layer each pipeline is compiled at first");
    let warm_without = engine.compiled_without_layer("without");
    assert_eq!(warm_without.len(), lacking, "{}", what("warm without the layer"));

    let cold = engine.run(&engine.env, "with", false);
    assert_compiled(&what("cold"), &cold, count, &bare);
    // What the engine's files do not have comes from the stash.
    let warm = engine.run(&engine.env, "with", false);
    assert_compiled(&what("warm"), &warm, 0, &bare);
    assert!(warm.reports.sum("served") + warm.reports.sum("driver_had") >= u64::from(COUNT));
    // The files are as useful as those of a program that ran without the layer, with the layer and without it.
    assert_eq!(missed(&engine.run(&engine.env, "with", true).value), warm_without, "{}", what("feedback"));
    assert_eq!(engine.compiled_without_layer("with"), warm_without, "{}", what("the layer removed"));

    // The user has deleted the engine's files, or an update has made them useless: the stash serves everything.
    let lost = engine.run(&engine.env, "lost", false);
    assert_compiled(&what("its files lost"), &lost, 0, &bare);
    assert_eq!(lost.reports.sum("served"), u64::from(COUNT), "{:?}", lost.reports.counters());
    // The files that it wrote meanwhile are complete, too.
    assert_eq!(engine.compiled_without_layer("lost"), warm_without, "{}", what("files of served pipelines"));
}

#[test]
fn microsofts_sample_with_one_library_is_served() {
    habit("microsoft-library", 0);
}

#[test]
fn microsofts_sample_with_a_blob_for_each_pipeline_is_served() {
    habit("microsoft-blobs", 0);
}

#[test]
fn bgfx_is_served_after_its_memory_and_its_disk() {
    habit("bgfx", 0);
}

#[test]
fn llgl_is_served_with_the_blob_of_its_user() {
    habit("llgl", 1);
}

#[test]
fn o3de_is_served_with_a_library_for_each_shader_and_sets_for_each_thread() {
    habit("o3de", 0);
}

#[test]
fn the_forge_is_served_with_caches_by_file_name() {
    habit("the-forge", 3);
}

#[test]
fn godot_is_served_with_its_file_whose_growth_it_watches() {
    habit("godot", 0);
}

#[test]
fn wicked_engine_is_served_with_its_library() {
    habit("wicked", 0);
}

#[test]
fn wicked_engine_is_served_without_its_library() {
    habit("wicked-without-library", COUNT as usize);
}
