//! What the layer links fast of libraries of its own (VKSTASH_FAST_LINK), in every state, and beside a program's own
//! libraries.

use ash::vk;
use serde_json::{Value, json};
use vkstash_layer_tests::child::scenario;
use vkstash_layer_tests::env::{self, Driver};

use super::draft::{BEFORE, Draft, FRAGMENT, INPUT, OUTPUT};
use super::parked_validation::judged;
use super::rig::Rig;
use super::{Results, state};

/// Linked fast, compiled.
const NAMES: [&str; 2] = ["fast_linked", "compiled"];

#[test]
fn pipelines_in_every_state_are_linked_fast_or_compiled_and_valid() {
    scenario(&[("make", state::make)], |scenario| {
        for driver in [Driver::Test(json!({})), Driver::Radv, Driver::Lavapipe] {
            let Some(env) = scenario.on(driver.clone()) else { continue };
            let without = scenario.run_ok::<Results>("make", &env.clone().without_layer(), &()).value;
            let env = env.stash(scenario.folder().join(driver.name())).var("VKSTASH_FAST_LINK", "1");
            let with = scenario.run_ok::<Results>("make", &env, &());
            assert_eq!(with.value, without, "{}", driver.name());
            let [linked, _] = NAMES.map(|name| with.reports.sum(name));
            assert!(linked > 10, "{}: {:?}", driver.name(), with.reports.counters());
            if env::validation_manifest().is_none() || matches!(driver, Driver::Test(_)) {
                continue;
            }
            let step = ("make", &Value::Null);
            let (_, of_program) = judged(scenario, &env.clone().without_layer(), step, "");
            let env = env.stash(scenario.folder().join("judged"));
            let (linked, of_both) = judged(scenario, &env, step, "fast_linked");
            assert!(linked > 10, "{linked}");
            let new: Vec<_> = of_both.difference(&of_program).collect();
            assert!(new.is_empty(), "{}: {new:?}", driver.name());
        }
    });
}

/// Creates two pipelines as a whole, one before the program makes libraries of a third, and both after that.
fn beside_libraries(_: &Value) -> Value {
    let rig = Rig::open();
    let make = |info| {
        let (result, pipeline) = rig.graphics(vk::PipelineCache::null(), info);
        assert_eq!(result, vk::Result::SUCCESS);
        pipeline
    };
    let [before, after, own] = [1.0, 2.0, 3.0].map(|value| Draft::of_values(&rig, value, value));
    make(before.complete());
    let none = vk::PipelineCreateFlags::empty();
    let libraries = [INPUT, BEFORE, FRAGMENT, OUTPUT].map(|subset| make(own.library(subset, none)));
    make(own.link(&libraries, vk::GraphicsPipelineLibraryFlagsEXT::empty(), none));
    make(after.complete());
    make(before.complete());
    Value::Null
}

/// Such a program links fast where it wants to, and asks for a whole pipeline because it wants that optimized.
#[test]
fn the_pipelines_of_a_program_with_libraries_are_compiled() {
    scenario(&[("beside", beside_libraries)], |scenario| {
        for driver in [Driver::Test(json!({})), Driver::Radv] {
            let Some(env) = scenario.on(driver.clone()) else { continue };
            let env = env.stash(scenario.folder().join(driver.name())).var("VKSTASH_FAST_LINK", "1");
            let reports = scenario.run_ok::<Value>("beside", &env, &()).reports;
            // The one that was linked before, twice; the whole one, and libraries with shaders.
            assert_eq!(NAMES.map(|name| reports.sum(name)), [2, 3], "{:?}", reports.counters());
        }
    });
}
