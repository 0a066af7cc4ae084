//! Ray tracing pipelines in deferred operations (contract 3.6).

use ash::vk;
use serde_json::{Value, json};
use vkstash_layer_tests::child::scenario;
use vkstash_layer_tests::env::Driver;
use vkstash_layer_tests::suite::device_segments;
use vkstash_layer_tests::test_driver::TestDriver;

use crate::rays::Rays;
use crate::rig::Rig;

const WORD: i32 = vk::Result::OPERATION_DEFERRED_KHR.as_raw();

/// What the program does with its operations.
fn defer(input: &Value) -> Value {
    let Some(rays) = Rays::new(Rig::open()) else { return Value::Null };
    let fail_on = input["fail_on"] == true;
    let own = input["cache"] == true;
    let cache = if own { rays.rig.device.cache(&[]) } else { vk::PipelineCache::null() };
    let deferring = &rays.deferring;
    let device = rays.rig.device.raw.handle();
    let mut told = Vec::new();
    // SAFETY: create infos and slots live until their operation is complete, and are overwritten then; operations
    // and pipelines are destroyed once.
    unsafe {
        let operation = deferring.create_deferred_operation(None).unwrap();
        // One after the other in one operation: a pipeline alone, two, and three with a library.
        for count in 1..=3_u32 {
            let mut infos: Vec<_> = (0..count).map(|index| rays.groups(10 * count + index)).collect();
            if count == 3 {
                infos[2] = rays.library(rays.plain(40));
            }
            if fail_on {
                infos.iter_mut().for_each(|info| {
                    info.flags |= vk::PipelineCreateFlags::FAIL_ON_PIPELINE_COMPILE_REQUIRED;
                });
            }
            let mut made = vec![vk::Pipeline::null(); count as usize];
            let started = rays.create(operation, cache, &infos, &mut made);
            let mut outcome = match started {
                vk::Result::OPERATION_NOT_DEFERRED_KHR => vk::Result::SUCCESS,
                other => other,
            };
            if started == vk::Result::OPERATION_DEFERRED_KHR {
                std::thread::scope(|scope| {
                    for _ in 0..4 {
                        scope.spawn(|| {
                            let join = deferring.fp().deferred_operation_join_khr;
                            while join(device, operation) == vk::Result::THREAD_IDLE_KHR {
                                std::thread::yield_now();
                            }
                        });
                    }
                });
                // The last operation is destroyed without that anybody has asked.
                if count < 3 || input["ask"] == true {
                    outcome = (deferring.fp().get_deferred_operation_result_khr)(device, operation);
                } else {
                    outcome = vk::Result::SUCCESS;
                }
            }
            infos.fill(vk::RayTracingPipelineCreateInfoKHR::default());
            drop(infos);
            let there: Vec<bool> = made.iter().map(|&made| made != vk::Pipeline::null()).collect();
            if count == 3 && there[2] {
                let linked = rays.linked(rays.plain(99), &made[2..]);
                let (result, pipeline) = rays.make(cache, linked);
                told.push(json!(["link", result.as_raw(), pipeline != vk::Pipeline::null()]));
                rays.destroy(&[pipeline]);
            }
            rays.destroy(&made);
            told.push(json!([started.as_raw(), outcome.as_raw(), there]));
        }
        deferring.destroy_deferred_operation(operation, None);
    }
    rays.rig.device.destroy_cache(cache);
    let script = std::env::var_os("VKSTASH_TEST_ICD").is_some();
    drop(rays);
    let violations = if script { TestDriver::open().take_record()["violations"].clone() } else { json!([]) };
    json!({ "told": told, "violations": violations })
}

/// How each call was answered.
fn answers(value: &Value) -> Vec<i64> {
    let told = value["told"].as_array().unwrap();
    told.iter().filter(|one| one[0] != "link").map(|one| one[0].as_i64().unwrap()).collect()
}

/// Not on NVIDIA's driver (580.159): an operation that is used a second time is never complete there, and
/// COMPILE_REQUIRED crashes it, both without the layer too.
fn on_drivers() -> Vec<Driver> {
    vec![
        Driver::Radv,
        Driver::Test(json!({})),
        Driver::Test(json!({ "deferral": "always" })),
        Driver::Test(json!({ "deferral": "always", "reuse_handles": true })),
    ]
}

#[test]
fn what_is_there_is_not_deferred_and_the_rest_is_the_drivers() {
    scenario(&[("defer", defer)], |scenario| {
        for (number, driver) in on_drivers().into_iter().enumerate() {
            let Some(env) = scenario.on(driver.clone()) else { continue };
            for (cache, ask) in [(false, true), (true, true), (false, false)] {
                let stash = format!("stash {number} {cache} {ask}");
                let env = env.clone().stash(scenario.folder().join(stash));
                let input = json!({ "cache": cache, "ask": ask });
                let without = scenario.run_ok::<Value>("defer", &env.clone().without_layer(), &input).value;
                // COMPILE_REQUIRED, and nothing is remembered of it.
                let forbidden = json!({ "cache": cache, "fail_on": true, "ask": ask });
                let refused = scenario.run_ok::<Value>("defer", &env, &forbidden);
                assert_eq!(refused.value["violations"], json!([]));
                assert_eq!(refused.reports.sum("compiled"), 0, "{:?}", refused.reports.counters());

                let cold = scenario.run_ok::<Value>("defer", &env, &input);
                assert_eq!(cold.value, without, "{driver:?} {input}");
                let counters = cold.reports.counters();
                assert!(cold.reports.bypassed().is_empty(), "{:?}", cold.reports.bypassed());
                assert_eq!(cold.reports.sum("compiled"), 7, "{driver:?} {input} {counters:?}");
                for _ in 0..2 {
                    let warm = scenario.run_ok::<Value>("defer", &env, &input);
                    let counters = warm.reports.counters();
                    let not_deferred = i64::from(vk::Result::OPERATION_NOT_DEFERRED_KHR.as_raw());
                    assert_eq!(answers(&warm.value), [not_deferred; 3], "{driver:?} {input} {counters:?}");
                    assert_eq!(warm.value["violations"], json!([]));
                    crate::covered(&driver, &warm.reports, 7);
                    let made = |value: &Value| -> Vec<Value> {
                        let told = value["told"].as_array().unwrap();
                        told.iter().map(|one| one[2].clone()).collect()
                    };
                    assert_eq!(made(&warm.value), made(&without));
                }
                let served = scenario.run_ok::<Value>("defer", &env, &forbidden);
                assert_eq!(served.reports.sum("compile_required"), 0, "{:?}", served.reports.counters());
                assert_eq!(served.value["violations"], json!([]));
            }
        }
    });
}

#[test]
fn an_operation_that_fails_fails_as_without_the_layer() {
    scenario(&[("defer", defer)], |scenario| {
        let driver = Driver::Test(json!({ "deferral": "fails" }));
        let Some(env) = scenario.on(driver) else { return };
        let input = json!({ "ask": true });
        let without = scenario.run_ok::<Value>("defer", &env.clone().without_layer(), &input).value;
        assert_eq!(answers(&without), [i64::from(WORD); 3]);
        let with = scenario.run_ok::<Value>("defer", &env, &input);
        assert_eq!(with.value, without);
        let failed = with.reports.sum("failed");
        assert!(failed >= 3 && with.reports.sum("compiled") == 0, "{:?}", with.reports.counters());
    });
}

#[test]
fn what_went_after_it_was_served_is_counted_when_it_is_compiled_in_an_operation() {
    scenario(&[("defer", defer)], |scenario| {
        let Some(env) = scenario.on(Driver::Test(json!({ "deferral": "always" }))) else { return };
        let input = json!({ "ask": true });
        let cold = scenario.run_ok::<Value>("defer", &env, &input);
        assert_eq!(cold.reports.sum("served_before"), 0, "{:?}", cold.reports.counters());
        let artifacts = device_segments(&env.stash_folder());
        let warm = scenario.run_ok::<Value>("defer", &env, &input);
        let served = warm.reports.sum("served");
        assert_eq!(served, 7, "{:?}", warm.reports.counters());
        artifacts.iter().for_each(|segment| std::fs::remove_file(segment).unwrap());
        let lost = scenario.run_ok::<Value>("defer", &env, &input);
        assert_eq!(lost.reports.sum("served_before"), served, "{:?}", lost.reports.counters());
        assert!(lost.reports.sum("served_before_ns") <= lost.reports.sum("compile_ns"));
    });
}
