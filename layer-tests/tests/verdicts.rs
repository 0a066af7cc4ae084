//! One odd answer decides nothing for a whole run, and background control does what it says.

use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};
use vkstash_layer_tests::api::Api;
use vkstash_layer_tests::child::scenario;
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::suite::{on, run};
use vkstash_layer_tests::vulkan::{Device, Instance, InstanceOptions};
use vkstash_layer_tests::waiting::PATIENCE;
use vkstash_layer_tests::work::{self, Caches, Done, Work};

use crate::classes::rig::{Options, Rig};

const COUNT: u64 = 20;

fn work() -> Work {
    Work { count: COUNT as u32, ..Work::default() }
}

#[test]
fn one_compile_without_cache_data_does_not_end_recording() {
    on(Driver::Test(json!({})), |scenario, env| {
        for call in 1..=20 {
            let faults = json!([{ "command": "vkGetPipelineCacheData", "call": call, "result": -1 }]);
            let failing = scenario.on(Driver::Test(json!({ "faults": faults }))).unwrap();
            let failing = failing.stash(env.stash_folder().join(call.to_string()));
            let first = run(scenario, &failing, &Work { caches: Caches::Shared, ..work() });
            assert!(first.reports.sum("compiled") >= COUNT - 1, "{call}: {:?}", first.reports.counters());
        }
    });
}

/// The modes and actions of include/vkstash.h.
const ALLOWED: u32 = 0;
const INTRUSIVE: u32 = 1;
const KEEP_ALL: u32 = 0;
const COMMIT: u32 = 1;

/// The step: has everything made ahead, and does the work then.
fn commit(input: &Value) -> Value {
    let mode: u32 = serde_json::from_value(input.clone()).unwrap();
    let api = Api::load();
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let device = Arc::new(Device::new(&instance, &work().device_options()).unwrap());
    // SAFETY: eventfd takes numbers and gives a descriptor that nothing else owns.
    let event = unsafe { OwnedFd::from_raw_fd(libc::eventfd(0, 0)) };
    assert_eq!(api.set_background_mode(mode, COMMIT, event.as_raw_fd()).0, 0);
    let mut poll = libc::pollfd { fd: event.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one structure on this stack.
    assert_eq!(unsafe { libc::poll(&mut poll, 1, PATIENCE.as_millis() as i32) }, 1, "the commit has an end");
    serde_json::to_value(work().run(&device)).unwrap()
}

/// The step: a program that trains until nothing more is to be learnt, as the specification of D3D12 shows it. Returns
/// how often it had to.
fn train(_: &Value) -> Value {
    let api = Api::load();
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let device = Arc::new(Device::new(&instance, &work().device_options()).unwrap());
    let began = Instant::now();
    for round in 1.. {
        assert!(work().run(&device).all_made());
        let (result, further) = api.set_background_mode(INTRUSIVE, KEEP_ALL, -1);
        assert_eq!(result, 0);
        if further == 0 || began.elapsed() > PATIENCE / 8 {
            return json!({ "rounds": round, "further": further });
        }
    }
    unreachable!("rounds have no end")
}

/// A stash that earlier runs have filled, on a machine that is busy.
fn busy(env: &Env) -> Env {
    env.clone()
        .without_var("VKSTASH_TEST_UNHURRIED")
        .without_var("VKSTASH_BACKGROUND_WORKERS")
        .var("VKSTASH_TEST_BUSY", "1")
}

#[test]
fn a_commit_is_complete_when_everything_that_can_be_is_made() {
    scenario(&[("work", work::step), ("commit", commit)], |scenario| {
        let env = scenario.on(Driver::Test(json!({}))).unwrap();
        (0..2).for_each(|_| drop(run(scenario, &env, &work())));
        for mode in [ALLOWED, INTRUSIVE] {
            let ended = scenario.run_ok::<Done>("commit", &busy(&env), &json!(mode));
            assert_eq!(ended.reports.sum("parked"), COUNT, "{mode}: {:?}", ended.reports.counters());
        }
    });
}

#[test]
fn training_shows_something_new_at_first_and_comes_to_an_end() {
    scenario(&[("work", work::step), ("train", train)], |scenario| {
        let env = scenario.on(Driver::Test(json!({}))).unwrap().without_var("VKSTASH_BACKGROUND_WORKERS");
        // The second run shows which artifacts the driver takes.
        for is_first in [true, false] {
            let trained = scenario.run_ok::<Value>("train", &env, &()).value;
            assert_eq!(trained["further"], 0, "{trained}");
            assert_eq!(trained["rounds"].as_u64().unwrap() > 1, is_first, "{trained}");
        }
    });
}

/// The step: asks for the work on a device with all features, where nothing may be compiled.
fn ask(_: &Value) -> Value {
    let rig = Rig::with(Options::default());
    serde_json::to_value(Work { fail_on: true, ..work() }.run(&rig.device)).unwrap()
}

#[test]
fn what_the_driver_has_refused_of_a_sibling_is_not_offered_in_the_next_run() {
    scenario(&[("work", work::step), ("ask", ask)], |scenario| {
        let Some(env) = scenario.on(Driver::Radv) else { return };
        run(scenario, &env, &work());
        let refused = |times: &str| {
            let ended = scenario.run_ok::<Done>("ask", &env, &());
            assert!(ended.value.all_refused(), "{times}: {:?}", ended.reports.counters());
            ended.reports.sum("sibling_not_taken")
        };
        assert_eq!(refused("the first time"), COUNT);
        assert_eq!(refused("the second time"), 0);
    });
}
