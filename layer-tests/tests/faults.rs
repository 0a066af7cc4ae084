//! The layer panics in the middle of a call: the program goes on as without the layer, no object of the driver is
//! leaked, and a log line says what happened.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use vkstash_layer_tests::child::{Outcome, Run, Scenario, scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::test_driver::TestDriver;
use vkstash_layer_tests::vulkan::{Device, Instance, InstanceOptions};
use vkstash_layer_tests::work::{Caches, Done, Shader, Work};

/// The results of a program, and the driver's record.
#[derive(Debug, Deserialize)]
struct Seen {
    done: Done,
    violations: Vec<String>,
    /// Numbers of instances and devices that were created and destroyed.
    made: Value,
}

/// Runs the program, and takes the driver's record when everything is destroyed.
fn step(input: &Value) -> Value {
    let work: Work = serde_json::from_value(input.clone()).unwrap();
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let driver = TestDriver::open();
    let device = Device::new(&instance, &work.device_options()).unwrap();
    let done = work.run(&device);
    drop(device);
    drop(Arc::into_inner(instance));
    let record = driver.take_record();
    let calls = record["calls"].as_array().unwrap();
    let count = |name| calls.iter().filter(|call| call["command"] == name && call["result"] == 0).count();
    let made = ["vkCreateInstance", "vkDestroyInstance", "vkCreateDevice", "vkDestroyDevice"].map(count);
    json!({ "done": done, "violations": record["violations"], "made": made })
}

fn run(scenario: &Scenario, env: &Env, work: &Work) -> Run<Seen> {
    scenario.run_ok::<Seen>("step", env, work)
}

/// Runs the program with a panic at this place; its results are those without the layer.
fn assert_untouched(scenario: &Scenario, env: &Env, work: &Work, place: &str, name: &str) -> Outcome {
    let env = env.clone().stash(scenario.folder().join(name));
    let alone = run(scenario, &env.clone().without_layer(), work);
    let report = scenario.folder().join(format!("report of {name}"));
    let env = env.report(report).var("VKSTASH_TEST_PANIC", place).var("RUST_BACKTRACE", "0");
    let outcome = scenario.run("step", &env, work);
    let with: Seen = serde_json::from_value(outcome.ok()).unwrap();
    let without = &alone.value;
    assert_eq!(with.violations, Vec::<String>::new(), "{place}: {}", outcome.stderr);
    assert_eq!(with.made, without.made, "{place}: made and destroyed");
    assert_eq!(with.made[0], with.made[1], "{place}: instances");
    assert_eq!(with.made[2], with.made[3], "{place}: devices");
    assert_eq!((&with.done.results, &with.done.made), (&without.done.results, &without.done.made), "{place}");
    let line = "internal failure in ";
    assert!(outcome.stderr.contains("panicked at"), "{place} was not reached: {}", outcome.stderr);
    assert!(outcome.stderr.contains(line), "{place}: {}", outcome.stderr);
    outcome
}

fn on_the_test_driver(test: impl FnOnce(&Scenario, &Env)) {
    scenario(&[("step", step)], |scenario| {
        if !cfg!(debug_assertions) {
            return scenario.not_here("a release build cannot inject failures");
        }
        if let Some(env) = scenario.on(Driver::Test(json!({}))) {
            test(scenario, &env);
        }
    });
}

#[test]
fn a_panic_while_an_instance_or_a_device_is_created_does_not_fail_the_program() {
    on_the_test_driver(|scenario, env| {
        for (number, place) in ["instance made", "device wanted", "device made"].into_iter().enumerate() {
            let name = format!("stash-{number}");
            let outcome = assert_untouched(scenario, env, &Work::default(), place, &name);
            assert!(
                outcome.reports.0.is_empty(),
                "{place}: the layer must be inactive: {:?}",
                outcome.reports
            );
        }
    });
}

#[test]
fn a_panic_at_one_pipeline_does_not_fail_the_batch() {
    on_the_test_driver(|scenario, env| {
        for shader in [Shader::Compute, Shader::RenderPass] {
            for caches in [Caches::None, Caches::Shared] {
                for place in ["pipeline asked for", "pipeline made"] {
                    for number in [1, 2, 3] {
                        for (batch, warm) in [(1, false), (3, false), (3, true)] {
                            let work = Work { shader, caches, batch, count: 3, ..Work::default() };
                            let name = format!("{shader:?}-{caches:?}-{place}-{number}-{batch}-{warm}");
                            if warm {
                                let env = env.clone().stash(scenario.folder().join(&name));
                                run(scenario, &env, &work);
                            }
                            let place = format!("{place}:{number}");
                            let outcome = assert_untouched(scenario, env, &work, &place, &name);
                            let counters = outcome.reports.counters();
                            assert_eq!(outcome.reports.sum("internal_failures"), 1, "{name}: {counters:?}");
                        }
                    }
                }
            }
        }
    });
}

#[test]
fn a_panic_while_a_device_is_looked_up_does_not_fail_the_program() {
    on_the_test_driver(|scenario, env| {
        for number in 1..=8 {
            let place = format!("device looked up:{number}");
            assert_untouched(scenario, env, &Work::default(), &place, &format!("stash-{number}"));
        }
    });
}
