//! Programs that end while the driver compiles: the stash names the pipeline.

use std::process::Command;

use serde_json::{Value, json};
use vkstash_fossilize::archive::{Reader, Tag};
use vkstash_layer_tests::child::Scenario;
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::paths;
use vkstash_layer_tests::suite::{on, run, run_to_any_end};
use vkstash_layer_tests::work::{Caches, Shader, Work};
use vkstash_store::base::text::hex;
use vkstash_store::format::record::Key;
use vkstash_store::stash::deaths::{self, Death};
use vkstash_store::stash::inspect::{list_applications, recorded_uses};

/// The constant of the first pipeline: as a number of 32 bits with a point, too, each has its own bits.
const FIRST: u32 = 0x005E_ED00;
const PIPELINES: u32 = 5;

/// The word of the n-th pipeline's module, from 0.
fn word(shader: Shader, n: u32) -> u32 {
    match shader {
        Shader::RenderPass | Shader::DynamicRendering => ((FIRST + n) as f32).to_bits(),
        _ => FIRST + n,
    }
}

fn command(shader: Shader) -> &'static str {
    match shader {
        Shader::RenderPass | Shader::DynamicRendering => "vkCreateGraphicsPipelines",
        _ => "vkCreateComputePipelines",
    }
}

/// The only application's folder in a stash.
fn folder(env: &Env) -> String {
    let [info] = list_applications(&env.stash_folder()).unwrap().try_into().unwrap();
    info.folder
}

fn deaths_of(env: &Env) -> Vec<Death> {
    deaths::of(&env.stash_folder(), &folder(env))
}

/// The keys of the program's pipelines, in the order of their creation, as a run without a death records them.
fn keys(scenario: &Scenario, env: &Env, work: &Work, name: &str) -> Vec<Key> {
    let env = env.clone().stash(scenario.folder().join(format!("whole-{name}")));
    run(scenario, &env, work);
    let mut uses = recorded_uses(&env.stash_folder(), &folder(&env));
    uses.sort_by_key(|(_, noted)| noted.sequence);
    uses.into_iter().map(|(key, _)| key).collect()
}

fn dying(scenario: &Scenario, env: &Env, shader: Shader, n: u32, end: Value) -> Env {
    let mut fault = json!({ "command": command(shader), "word": word(shader, n) });
    fault.as_object_mut().unwrap().extend(end.as_object().unwrap().clone());
    let script = json!({ "compile_us": 200, "faults": [fault] });
    scenario.on(Driver::Test(script)).unwrap().stash(env.stash_folder())
}

#[test]
fn the_pipeline_at_which_a_program_ends_is_named_and_no_other() {
    on(Driver::Test(json!({})), |scenario, env| {
        let shaders = [(Shader::Compute, 0x20), (Shader::RenderPass, 0x11), (Shader::DynamicRendering, 0x11)];
        for (shader, stages) in shaders {
            // Of a device with cache control the driver is asked first; the program's own cache is passed, or none.
            let calls = [(Caches::None, true), (Caches::Fresh, true), (Caches::Shared, false)];
            for (caches, cache_control) in calls {
                let work =
                    Work { shader, caches, cache_control, count: PIPELINES, first: FIRST, ..Work::default() };
                let case = format!("{shader:?} {caches:?}");
                let keys = keys(scenario, env, &work, &case);
                for n in [0, 1, PIPELINES - 1] {
                    let stash = scenario.folder().join(format!("{case} {n}"));
                    let env = env.clone().stash(stash);
                    let dying = dying(scenario, &env, shader, n, json!({ "die": "segv" }));
                    for times in 1..=2 {
                        let dead = run_to_any_end(scenario, &dying, &work);
                        assert_eq!(dead.signal(), Some(libc::SIGSEGV), "{}", dead.ending());
                        let found = deaths_of(&env);
                        let named: Vec<_> =
                            found.iter().map(|death| (death.key, death.stages, death.deaths)).collect();
                        assert_eq!(named, [(keys[n as usize], stages, times)], "{case} {n}");
                    }
                    // A compile that ends well takes it back, and quarantines nothing.
                    let whole = run(scenario, &env, &work);
                    assert_eq!(whole.reports.sum("quarantined"), 0);
                    assert_eq!(deaths_of(&env), [], "{case} {n}");
                }
            }
        }
    });
}

/// What the process ended at is on the disk before the driver gets it again, with all that it names: it can be given to
/// the driver's developers, although no driver ever compiled it.
#[test]
fn the_next_run_records_what_the_last_one_ended_at_and_the_tool_exports_it() {
    on(Driver::Test(json!({})), |scenario, env| {
        use Tag::{ComputePipeline, GraphicsPipeline};
        // Modules and render passes of the archive.
        let classes = [
            (Shader::Compute, ComputePipeline, [1, 0]),
            (Shader::RenderPass, GraphicsPipeline, [2, 1]),
            (Shader::DynamicRendering, GraphicsPipeline, [2, 0]),
        ];
        for (shader, tag, needs) in classes {
            let work = Work { shader, count: PIPELINES, first: FIRST, ..Work::default() };
            let case = format!("{shader:?}");
            let key = keys(scenario, env, &work, &case)[0];
            let env = env.clone().stash(scenario.folder().join(&case));
            let dying = dying(scenario, &env, shader, 0, json!({ "die": "segv" }));
            let archive = scenario.folder().join(format!("{case}.foz"));
            for is_recorded in [false, true] {
                run_to_any_end(scenario, &dying, &work);
                let mut export = Command::new(paths::profile_folder().join("vkstash"));
                env.apply(&mut export);
                export.args(["export", archive.to_str().unwrap(), &folder(&env), &hex(&key)]);
                assert_eq!(export.output().unwrap().status.success(), is_recorded, "{case}");
            }
            let archive = Reader::open(&archive).unwrap();
            let count = |tag| archive.entries_of(tag).len();
            assert_eq!([Tag::ShaderModule, Tag::RenderPass].map(count), needs, "{case}");
            assert_eq!(count(ComputePipeline) + count(GraphicsPipeline), 1, "{case}");
            assert_eq!(archive.entries_of(tag)[0].hash().to_le_bytes(), key[..8], "{case}");
            assert!(count(Tag::PipelineLayout) == 1 && count(Tag::DescriptorSetLayout) <= 1, "{case}");
        }
    });
}

/// A program that the user ends in order while it compiles nothing, and one that is served, leave no death.
#[test]
fn what_is_served_is_not_compiled_and_leaves_no_death() {
    on(Driver::Test(json!({})), |scenario, env| {
        let work = Work { count: PIPELINES, first: FIRST, ..Work::default() };
        run(scenario, env, &work);
        let script = json!({ "faults": [{ "command": "vkDestroyDevice", "die": "segv" }] });
        let dying = scenario.on(Driver::Test(script)).unwrap().stash(env.stash_folder());
        assert_eq!(run_to_any_end(scenario, &dying, &work).signal(), Some(libc::SIGSEGV));
        assert_eq!(deaths_of(env), []);
    });
}

#[test]
#[ignore = "a figure: 50 kills at random moments of a compile"]
fn fifty_kills() {
    on(Driver::Test(json!({})), |scenario, env| {
        let work = Work { count: PIPELINES, first: FIRST, ..Work::default() };
        let keys = keys(scenario, env, &work, "kills");
        let named = (0..50_u32).filter(|kill| {
            let n = kill % PIPELINES;
            let env = env.clone().stash(scenario.folder().join(format!("kill-{kill}")));
            // Spread over 20 ms, in no order.
            let end = json!({ "hang_ms": kill * 7919 % 20, "die": "kill" });
            let dead = run_to_any_end(scenario, &dying(scenario, &env, Shader::Compute, n, end), &work);
            assert_eq!(dead.signal(), Some(libc::SIGKILL), "{}", dead.ending());
            matches!(&deaths_of(&env)[..], [death] if death.key == keys[n as usize])
        });
        println!("the culprit is named in {} of 50", named.count());
    });
}
