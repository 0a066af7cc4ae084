//! Pipelines that the driver answers with an error: from the second time on the driver gets only the program's own
//! call.

use serde_json::{Value, json};

use vkstash_layer_tests::child::scenario;
use vkstash_layer_tests::env::Driver;
use vkstash_layer_tests::test_driver::TestDriver;
use vkstash_layer_tests::vulkan::{Device, Instance, InstanceOptions};
use vkstash_layer_tests::work::{Code, Work};

/// VK_ERROR_FEATURE_NOT_PRESENT.
const LASTING: i32 = -8;
/// VK_ERROR_OUT_OF_HOST_MEMORY, VK_ERROR_OUT_OF_DEVICE_MEMORY and VK_ERROR_DEVICE_LOST.
const PASSING: [i32; 3] = [-1, -2, -4];

fn fault(result: i32) -> Value {
    json!([{ "command": "vkCreateComputePipelines", "result": result }])
}

/// Creates the same pipelines twice; gives the answers, and the number of driver calls each time.
fn make(input: &Value) -> Value {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let by_identifier = input["identifier"] == true;
    let code = if by_identifier { Code::Identifier } else { Code::Module };
    let work = Work { code, ..Work::default() };
    let device = Device::new(&instance, &work.device_options()).unwrap();
    let driver = TestDriver::open();
    let cached = input["cache"] != false;
    let mut cache = if cached { device.cache(&[]) } else { Default::default() };
    driver.control(&json!({ "faults": [] }));
    if input["stash_stays_empty"] != true {
        // Other pipelines come first, so that the cache is not new, and the stash not empty.
        Work { first: 100, count: 1, ..Work::default() }.run_through(&device, cache);
    }
    if input["cache"] == "loaded" {
        let data = device.cache_data(cache);
        device.destroy_cache(cache);
        cache = device.cache(&data);
    }
    driver.control(&json!({ "faults": input["faults"] }));
    let mut rounds = Vec::new();
    for _ in 0..2 {
        driver.take_record();
        let done = work.run_through(&device, cache);
        let record = driver.take_record();
        assert_eq!(record["violations"], json!([]), "{record}");
        let calls = record["calls"].as_array().unwrap();
        let creations = calls.iter().filter(|call| call["command"] == "vkCreateComputePipelines");
        rounds.push(json!({ "results": done.results, "calls": creations.count() }));
    }
    if cached {
        device.destroy_cache(cache);
    }
    json!(rounds)
}

/// In both rounds of a run, these were the answers and these the numbers of calls.
#[track_caller]
fn expect(value: &Value, result: i32, calls: [Option<u64>; 2]) {
    for (round, calls) in value.as_array().unwrap().iter().zip(calls) {
        assert_eq!(round["results"], json!(vec![result; 3]), "{value}");
        if let Some(calls) = calls {
            assert_eq!(round["calls"], calls, "{value}");
        }
    }
}

#[test]
fn a_key_that_failed_goes_to_the_driver_unchanged_until_it_succeeds() {
    scenario(&[("make", make)], |scenario| {
        for cache in [false, true] {
            let driver = |version: u32| Driver::Test(json!({ "driver_version": version }));
            let stash = scenario.folder().join(format!("stash {cache}"));
            let on = |version| scenario.on(driver(version)).unwrap().stash(&stash);
            let failing = json!({ "cache": cache, "faults": fault(LASTING) });
            let run = |version, input: &Value| scenario.run_ok::<Value>("make", &on(version), input);

            let first = run(1, &failing);
            expect(&first.value, LASTING, [None, Some(3)]);
            assert_eq!(first.reports.sum("failed"), 6, "{:?}", first.reports.counters());
            expect(&run(1, &failing).value, LASTING, [Some(3), Some(3)]);

            // The driver now succeeds: the call goes to it unchanged once more, and then is treated as any other.
            let working = json!({ "cache": cache, "faults": [] });
            expect(&run(1, &working).value, 0, [Some(3), None]);
            let served = run(1, &working);
            assert!(served.reports.sum("served") >= 3, "{:?}", served.reports.counters());

            // Another driver version is asked as if there had been no failure.
            let updated = run(2, &working);
            expect(&updated.value, 0, [None, None]);
            assert_eq!(updated.reports.sum("failed"), 0);
        }
    });
}

/// A driver that is asked before the stash.
#[test]
fn the_early_attempt_is_skipped_for_keys_that_failed() {
    scenario(&[("make", make)], |scenario| {
        for (number, (cache, empty)) in
            [(json!(false), true), (json!(true), true), (json!("loaded"), false)].into_iter().enumerate()
        {
            let env = scenario.on(Driver::Test(json!({}))).unwrap();
            let env = env.stash(scenario.folder().join(format!("stash {number}")));
            let failing = json!({ "cache": cache, "stash_stays_empty": empty, "faults": fault(LASTING) });
            let run = || scenario.run_ok::<Value>("make", &env, &failing);
            let first = run();
            expect(&first.value, LASTING, [None, Some(3)]);
            expect(&run().value, LASTING, [Some(3), Some(3)]);
        }
    });
}

#[test]
fn an_error_that_passes_does_not_mark_the_key_as_failed() {
    scenario(&[("make", make)], |scenario| {
        for passing in PASSING {
            let env = scenario.on(Driver::Test(json!({}))).unwrap();
            let env = env.stash(scenario.folder().join(format!("stash {passing}")));
            let short = json!({ "cache": false, "faults": fault(passing) });
            expect(&scenario.run_ok::<Value>("make", &env, &short).value, passing, [None, None]);
            let working = json!({ "cache": false, "faults": [] });
            let after = scenario.run_ok::<Value>("make", &env, &working);
            // A key that is known as failed would go down as the program made it, and nothing would be recorded.
            let counts = ["compiled", "compiled_unrecorded"].map(|name| after.reports.sum(name));
            assert_eq!(counts, [3, 0], "{passing}: {:?}", after.reports.counters());
        }
    });
}

/// Whether the question, the layer's cache or the artifact is to blame cannot be told: the program's own call decides.
#[test]
fn an_error_of_a_call_of_the_layers_is_none_of_the_programs() {
    scenario(&[("make", make)], |scenario| {
        let once = |call| json!([{ "command": "vkCreateComputePipelines", "call": call, "result": LASTING }]);
        let env = scenario.on(Driver::Test(json!({}))).unwrap();
        // The call that fails is the first pipeline's question, or its call with a cache of the layer's.
        for (call, calls) in [(1, 2 + 2 + 2), (2, 3 + 2 + 2)] {
            let env = env.clone().stash(scenario.folder().join(format!("cold {call}")));
            let input = json!({ "cache": false, "stash_stays_empty": true, "faults": once(call) });
            let ended = scenario.run_ok::<Value>("make", &env, &input);
            expect(&ended.value, 0, [Some(calls), None]);
            assert_eq!(ended.reports.sum("failed"), 0, "{call}: {:?}", ended.reports.counters());
        }
        // Then the call that offers the artifact.
        let warm = |faults: Value| {
            let input = json!({ "cache": false, "stash_stays_empty": true, "faults": faults });
            scenario.run_ok::<Value>("make", &env.clone().stash(scenario.folder().join("warm")), &input)
        };
        warm(json!([]));
        let ended = warm(once(1));
        expect(&ended.value, 0, [None, None]);
        assert_eq!(ended.reports.sum("failed"), 0, "{:?}", ended.reports.counters());
        let counters = warm(json!([])).reports.counters();
        assert_eq!(counters["served"], 6, "{counters:?}");
    });
}

#[test]
fn an_emulated_identifier_whose_code_the_driver_refuses_never_reaches_the_driver() {
    scenario(&[("make", make)], |scenario| {
        let env = scenario.on(Driver::Test(json!({}))).unwrap().var("VKSTASH_IDENTIFIERS", "emulate");
        let with_code = json!({ "cache": false, "faults": fault(LASTING) });
        expect(&scenario.run_ok::<Value>("make", &env, &with_code).value, LASTING, [None, None]);
        let by_identifier = json!({ "cache": false, "faults": fault(LASTING), "identifier": true });
        let required = 1_000_297_000;
        expect(&scenario.run_ok::<Value>("make", &env, &by_identifier).value, required, [Some(0), Some(0)]);
    });
}

#[test]
fn a_key_that_succeeded_before_is_not_marked_as_failed() {
    scenario(&[("make", make)], |scenario| {
        let env = scenario.on(Driver::Test(json!({}))).unwrap();
        let working = json!({ "cache": false, "faults": [] });
        scenario.run_ok::<Value>("make", &env, &working);
        let failing = json!({ "cache": false, "faults": fault(LASTING) });
        expect(&scenario.run_ok::<Value>("make", &env, &failing).value, LASTING, [None, None]);
        let after = scenario.run_ok::<Value>("make", &env, &working);
        assert_eq!(after.reports.sum("served"), 7, "{:?}", after.reports.counters());
    });
}
