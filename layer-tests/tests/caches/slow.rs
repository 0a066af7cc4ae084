//! A cache that the program has loaded, on a driver that takes long to find what it has.

use serde_json::json;

use vkstash_layer_tests::child::scenario;
use vkstash_layer_tests::env::Driver;
use vkstash_layer_tests::work::{self, Caches, Done, Work};

/// NVIDIA takes 0.6 ms once its own disk cache is lost: longer than for what that has, and a twentieth of a compile.
#[test]
fn what_a_loaded_cache_has_is_never_compiled_however_long_the_driver_takes_to_find_it() {
    scenario(&[("work", work::step)], |scenario| {
        for id in [4, 99] {
            let driver = Driver::Test(json!({ "driver_id": id, "cache_hit_us": 1000 }));
            let env = scenario.on(driver).unwrap().stash(scenario.folder().join(id.to_string()));
            // Hits that take long look as if they came from a disk.
            let env = env.without_var("VKSTASH_TEST_UNHURRIED").var("VKSTASH_TEST_BUSY", "0");
            let work = Work { caches: Caches::Shared, count: 24, ..Work::default() };
            let made = scenario.run_ok::<Done>("work", &env.clone().without_layer(), &work);
            let loaded = Work { initial_data: made.value.data[0].clone(), ..work };
            for run in 1..3 {
                let seen = scenario.run_ok::<Done>("work", &env, &loaded);
                let counters = seen.reports.counters();
                assert!(seen.value.all_made());
                assert_eq!(seen.reports.sum("driver_had"), 24, "{id}, run {run}: {counters:?}");
            }
        }
    });
}
