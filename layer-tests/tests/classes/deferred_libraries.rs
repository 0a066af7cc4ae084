//! Ray tracing libraries in deferred operations, with a cache that the program loaded.

use ash::vk;
use serde_json::{Value, json};
use vkstash_layer_tests::child::scenario;
use vkstash_layer_tests::env::Driver;

use super::rays::Rays;
use super::rig::Rig;

/// The step: creates a library in a deferred operation. Null if the device lacks ray tracing.
fn defer_library(input: &Value) -> Value {
    let Some(rays) = Rays::new(Rig::open()) else { return Value::Null };
    let loaded: Vec<u8> = serde_json::from_value(input.clone()).unwrap_or_default();
    let cache = rays.rig.device.cache(&loaded);
    let device = rays.rig.device.raw.handle();
    let infos = [rays.library(rays.groups(3))];
    let mut made = [vk::Pipeline::null()];
    // SAFETY: the create info and the slot are valid until the operation is complete; both objects are destroyed once.
    let outcome = unsafe {
        let operation = rays.deferring.create_deferred_operation(None).unwrap();
        let mut outcome = rays.create(operation, cache, &infos, &mut made);
        if outcome == vk::Result::OPERATION_DEFERRED_KHR {
            let join = rays.deferring.fp().deferred_operation_join_khr;
            while join(device, operation) == vk::Result::THREAD_IDLE_KHR {
                std::thread::yield_now();
            }
            outcome = (rays.deferring.fp().get_deferred_operation_result_khr)(device, operation);
        }
        rays.deferring.destroy_deferred_operation(operation, None);
        outcome
    };
    rays.destroy(&made);
    let data = rays.rig.device.cache_data(cache);
    rays.rig.device.destroy_cache(cache);
    json!({ "outcome": outcome.as_raw(), "made": made[0] != vk::Pipeline::null(), "data": data })
}

/// RADV answers COMPILE_REQUIRED for libraries that its cache has: the data of an earlier run stays in use.
#[test]
fn a_library_in_the_programs_own_cache_is_not_compiled_again_in_an_operation() {
    scenario(&[("defer", defer_library)], |scenario| {
        for driver in [Driver::Radv, Driver::Test(json!({ "deferral": "always" }))] {
            let Some(env) = scenario.on(driver.clone()) else { continue };
            let env = env.stash(scenario.folder().join(driver.name()));
            let plain = scenario.run_ok::<Value>("defer", &env.clone().without_layer(), &Value::Null).value;
            if plain.is_null() {
                continue;
            }
            let run = scenario.run_ok::<Value>("defer", &env, &plain["data"]);
            let counters = run.reports.counters();
            assert_eq!(run.value["made"], json!(true), "{}", driver.name());
            assert_eq!(run.reports.sum("compiled"), 0, "{}: {counters:?}", driver.name());
        }
        // What the cache cannot have is recorded.
        let Some(env) = scenario.on(Driver::Radv) else { return };
        let run =
            scenario.run_ok::<Value>("defer", &env.stash(scenario.folder().join("empty")), &Value::Null);
        if !run.value.is_null() {
            assert_eq!(run.reports.sum("compiled"), 1, "{:?}", run.reports.counters());
        }
    });
}
