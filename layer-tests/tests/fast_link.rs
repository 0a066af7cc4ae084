//! VKSTASH_FAST_LINK: a graphics pipeline that would be compiled is linked of libraries of its parts, and the whole one
//! is compiled after the program's end.

use serde_json::{Value, json};

use vkstash_layer_tests::child::{Run, Scenario, Step, scenario};
use vkstash_layer_tests::env::{self, Driver, Env};
use vkstash_layer_tests::paths;
use vkstash_layer_tests::waiting::until;
use vkstash_layer_tests::work::{self, Caches, Done, Shader, Work};
use vkstash_model::steps::{StepAnswer, StepSource};
use vkstash_store::stash::inspect::list_applications;

use super::frames::last_timeline;

const STEPS: &[(&str, Step)] = &[("work", work::step)];
const COUNT: u32 = 6;
const ALL: u64 = COUNT as u64;

fn pipelines(shader: Shader) -> Work {
    Work { shader, count: COUNT, ..Work::default() }
}

fn run(scenario: &Scenario, env: &Env, work: &Work) -> Run<Done> {
    let run = scenario.run_ok::<Done>("work", env, work);
    assert!(run.value.all_made(), "{:?}", run.value);
    run
}

/// Linked fast, compiled, served.
fn numbers(run: &Run<Done>) -> [u64; 3] {
    let [linked, compiled, unrecorded, served] =
        ["fast_linked", "compiled", "compiled_unrecorded", "served"].map(|name| run.reports.sum(name));
    [linked, compiled + unrecorded, served]
}

fn wanted(env: Env) -> Env {
    env.var("VKSTASH_FAST_LINK", "1")
}

fn artifacts(env: &Env) -> u64 {
    let applications = list_applications(&env.stash_folder()).unwrap();
    let parts = applications.into_iter().flat_map(|application| application.parts);
    parts.filter_map(|part| part.records.get("artifact").copied()).sum()
}

/// Pipelines with one vertex shader between them, on two threads, which ask for each of them twice.
#[test]
fn what_is_linked_fast_is_compiled_for_the_next_run() {
    scenario(STEPS, |scenario| {
        let Some(env) = scenario.on(Driver::Radv) else { return };
        for shader in [Shader::DynamicRendering, Shader::RenderPass] {
            for caches in [Caches::None, Caches::Shared] {
                let work = Work { caches, threads: 2, ..pipelines(shader) };
                let env = wanted(env.clone().stash(scenario.folder().join(format!("{shader:?} {caches:?}"))));
                let leaves_work = env
                    .clone()
                    .var("VKSTASH_TOOL", paths::profile_folder().join("vkstash"))
                    .var("VKSTASH_BACKGROUND_WORKERS", "1")
                    .without_var("VKSTASH_FINISH");
                let once = run(scenario, &leaves_work, &work);
                assert_eq!(numbers(&once), [2 * ALL, 0, 0], "{:?}", once.reports);
                until("all are compiled after the program's end", || artifacts(&env) == ALL);
                let later = run(scenario, &env, &Work { threads: 1, ..work });
                assert_eq!(numbers(&later), [0, 0, ALL], "{:?}", later.reports);
            }
        }
    });
}

#[test]
fn nothing_is_linked_fast_unless_it_is_wanted_and_possible() {
    scenario(STEPS, |scenario| {
        let on = |script: Value, stash: &str| {
            scenario.on(Driver::Test(script)).map(|env| env.stash(scenario.folder().join(stash)))
        };
        let graphics = pipelines(Shader::DynamicRendering);
        let Some(env) = on(json!({}), "not wanted") else { return };
        assert_eq!(numbers(&run(scenario, &env, &graphics)), [0, ALL, 0]);
        // VK_DRIVER_ID_NVIDIA_PROPRIETARY: the driver's own caches are faster.
        let nvidia = wanted(on(json!({ "driver_id": 4 }), "NVIDIA").unwrap());
        assert_eq!(numbers(&run(scenario, &nvidia, &graphics)), [0, ALL, 0]);
        let slow = wanted(on(json!({ "fast_linking": false }), "slow").unwrap());
        assert_eq!(numbers(&run(scenario, &slow, &graphics)), [0, ALL, 0]);
        let env = wanted(on(json!({}), "wanted").unwrap());
        assert_eq!(numbers(&run(scenario, &env, &graphics)), [ALL, 0, 0]);
        let timeline = last_timeline(&env);
        assert_eq!(timeline.creations.len() as u64, ALL);
        for creation in &timeline.creations {
            let last = creation.steps().last().unwrap();
            assert_eq!((last.source, last.answer), (StepSource::Link as u8, StepAnswer::Had as u8));
        }
        for (name, work) in [
            ("compute", pipelines(Shader::Compute)),
            ("feedback", Work { feedback: true, cache_control: true, ..graphics.clone() }),
            ("derivatives", Work { derivatives: true, batch: 3, ..graphics.clone() }),
        ] {
            let run = run(scenario, &env.clone().stash(scenario.folder().join(name)), &work);
            assert_eq!(numbers(&run), [0, ALL, 0], "{name}: {:?}", run.reports);
        }
        // A call that may not compile is answered as ever.
        let forbids = Work { fail_on: true, ..graphics };
        let refused =
            scenario.run_ok::<Done>("work", &env.stash(scenario.folder().join("fail on")), &forbids);
        assert!(refused.value.all_refused(), "{:?}", refused.value);
    });
}

/// The driver does not make a library, or the link: the program's own call decides.
#[test]
fn a_driver_that_fails_compiles() {
    scenario(STEPS, |scenario| {
        for call in 1..=6 {
            let fault = json!({ "command": "vkCreateGraphicsPipelines", "call": call, "result": -2 });
            let script = json!({ "faults": [fault] });
            let Some(env) = scenario.on(Driver::Test(script)) else { return };
            let env = wanted(env.stash(scenario.folder().join(call.to_string())));
            let run = run(scenario, &env, &pipelines(Shader::DynamicRendering));
            assert_eq!(numbers(&run), [ALL - 1, 1, 0], "call {call}: {:?}", run.reports);
        }
    });
}

/// What is linked fast is valid.
#[test]
fn libraries_and_links_are_valid() {
    scenario(STEPS, |scenario| {
        for driver in [Driver::Radv, Driver::Lavapipe] {
            let Some(env) = scenario.on(driver.clone()) else { continue };
            if env::validation_manifest().is_none() {
                return scenario.skip("the Khronos validation layer is not installed");
            }
            let env = wanted(env.validation().stash(scenario.folder().join(driver.name())));
            for shader in [Shader::DynamicRendering, Shader::RenderPass] {
                let work = Work { messages: true, ..pipelines(shader) };
                let without = run(scenario, &env.clone().without_layer(), &work).value.messages;
                let with = run(scenario, &env, &work);
                assert_eq!(numbers(&with)[0], ALL, "{:?}", with.reports);
                assert_eq!(with.value.messages, without, "{driver:?} {shader:?}");
            }
        }
    });
}
