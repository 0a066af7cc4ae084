//! The program's own pipeline caches: what it is told about them must be true whether or not the stash served.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends at the first surprise")]

use std::ptr;

use ash::vk;
use serde_json::{Value, json};

use vkstash_layer_tests::child::{Scenario, scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::suite::{assert_all_served, on, run};
use vkstash_layer_tests::vulkan::{Device, DeviceOptions, Instance, InstanceOptions};
use vkstash_layer_tests::work::{Caches, Feedback, Shader, Work};

fn on_radv(step: fn(&Value) -> Value, test: impl FnOnce(&Scenario, &Env)) {
    scenario(&[("step", step)], |scenario| {
        if let Some(env) = scenario.on(Driver::Radv) {
            test(scenario, &env);
        }
    });
}

fn device(cache_control: bool) -> Device {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    Device::new(&instance, &DeviceOptions { cache_control, ..DeviceOptions::default() }).unwrap()
}

/// Makes so many pipelines through a cache and reads it in every way that the specification allows.
fn reading(input: &Value) -> Value {
    let count = input.as_u64().unwrap() as u32;
    let device = device(false);
    let cache = device.cache(&[]);
    Work { count, ..Work::default() }.run_through(&device, cache);
    let get = |size: &mut usize, data: *mut u8| {
        // SAFETY: a live cache, NULL or a buffer of that size.
        unsafe {
            let get = device.raw.fp_v1_0().get_pipeline_cache_data;
            get(device.raw.handle(), cache, size, data.cast())
        }
    };
    let mut full = 0;
    assert_eq!(get(&mut full, ptr::null_mut()), vk::Result::SUCCESS);
    let mut again = 0;
    assert_eq!(get(&mut again, ptr::null_mut()), vk::Result::SUCCESS);
    assert_eq!(full, again, "nothing was made between the two");

    let mut exact = vec![0xaa; full + 16];
    let mut size = full;
    assert_eq!(get(&mut size, exact.as_mut_ptr()), vk::Result::SUCCESS);
    assert!(size <= full && exact[full..] == [0xaa; 16], "nothing is written past the end");
    exact.truncate(size);

    let properties = device.instance.properties(device.physical);
    assert_eq!(exact[0..4], 32u32.to_le_bytes());
    assert_eq!(exact[4..8], 1u32.to_le_bytes());
    assert_eq!(exact[8..12], properties.vendor_id.to_le_bytes());
    assert_eq!(exact[12..16], properties.device_id.to_le_bytes());
    assert_eq!(exact[16..32], properties.pipeline_cache_uuid);

    let mut roomy = vec![0xaa; full + 1000];
    let mut size = roomy.len();
    assert_eq!(get(&mut size, roomy.as_mut_ptr()), vk::Result::SUCCESS);
    assert_eq!(size, exact.len(), "a larger buffer gets the same");

    for short in [0, 1, 31, 32, 33, full / 2, full - 1] {
        let mut buffer = vec![0xaa; full + 16];
        let mut size = short;
        assert_eq!(get(&mut size, buffer.as_mut_ptr()), vk::Result::INCOMPLETE, "{short} of {full}");
        assert!(size <= short, "{short} of {full}: {size}");
        assert!(size == 0 || size >= 32, "{short} of {full}: {size}");
        assert!(buffer[short..].iter().all(|&byte| byte == 0xaa), "{short} of {full}: written past the end");
        assert_eq!(buffer[..size.min(32)], exact[..size.min(32)]);
        let prefix = device.cache(&buffer[..size]);
        device.destroy_cache(prefix);
    }
    device.destroy_cache(cache);
    json!(full)
}

#[test]
fn cache_data_keeps_the_rules_of_the_two_calls() {
    for count in [1, 5] {
        on_radv(reading, |scenario, env| {
            let without = scenario.run_ok::<usize>("step", &env.clone().without_layer(), &count).value;
            for _ in 0..2 {
                let with = scenario.run_ok::<usize>("step", env, &count).value;
                assert_eq!(with, without, "as large as without the layer");
            }
        });
    }
}

/// Makes pipelines through three caches, merges two into the third, and hands over what that one says.
fn merging(_: &Value) -> Value {
    let device = device(false);
    let caches = [(); 3].map(|()| device.cache(&[]));
    for (first, cache) in [1, 11, 21].into_iter().zip(caches) {
        Work { first, ..Work::default() }.run_through(&device, cache);
    }
    // SAFETY: live caches, the destination is no source.
    unsafe { device.raw.merge_pipeline_caches(caches[2], &caches[..2]) }.unwrap();
    let data = device.cache_data(caches[2]);
    caches.iter().for_each(|&cache| device.destroy_cache(cache));
    json!(data)
}

/// Which of these pipelines a cache with this data holds, on a device without the layer.
fn held(input: &Value) -> Value {
    let data: Vec<u8> = serde_json::from_value(input.clone()).unwrap();
    let device = device(true);
    let cache = device.cache(&data);
    let work = |first| Work { first, fail_on: true, ..Work::default() };
    let made = [1, 11, 21].map(|first| work(first).run_through(&device, cache).made);
    device.destroy_cache(cache);
    json!(made.concat())
}

#[test]
fn merged_caches_hold_what_each_of_them_held() {
    scenario(&[("merge", merging), ("held", held)], |scenario| {
        let Some(env) = scenario.on(Driver::Radv) else { return };
        for round in ["cold", "warm"] {
            let data = scenario.run_ok::<Vec<u8>>("merge", &env, &()).value;
            let held = scenario.run_ok::<Vec<bool>>("held", &env.clone().without_layer(), &data).value;
            assert_eq!(held, [true; 9], "{round}");
        }
    });
}

/// Takes a cache's data after each pipeline, as engines do that save often.
fn growing(_: &Value) -> Value {
    let device = device(false);
    let cache = device.cache(&[]);
    let mut sizes = Vec::new();
    for first in [1, 11, 21] {
        Work { first, ..Work::default() }.run_through(&device, cache);
        sizes.push(device.cache_data(cache).len());
        assert_eq!(device.cache_data(cache).len(), *sizes.last().unwrap());
    }
    let data = device.cache_data(cache);
    device.destroy_cache(cache);
    assert!(sizes.is_sorted_by(|a, b| a < b), "{sizes:?}");
    json!(data)
}

#[test]
fn a_cache_that_is_read_again_and_again_says_what_is_new() {
    scenario(&[("grow", growing), ("held", held)], |scenario| {
        let Some(env) = scenario.on(Driver::Radv) else { return };
        for round in ["cold", "warm"] {
            let data = scenario.run_ok::<Vec<u8>>("grow", &env, &()).value;
            let held = scenario.run_ok::<Vec<bool>>("held", &env.clone().without_layer(), &data).value;
            assert_eq!(held, [true; 9], "{round}");
        }
    });
}

/// Garbage as initial data is the program's own business, and neither crashes nor poisons the stash.
#[test]
fn a_cache_made_from_garbage_poisons_nothing() {
    on(Driver::Radv, |scenario, env| {
        let work = Work { caches: Caches::Shared, ..Work::default() };
        let sound = run(scenario, &env.clone().without_layer(), &work).value.data.remove(0);
        let mut corrupted = sound.clone();
        corrupted[20] ^= 1;
        for data in [vec![0xff; 4000], vec![0; 1], sound[..sound.len() / 2].to_vec(), corrupted] {
            let outcome = run(scenario, env, &Work { initial_data: data, ..work.clone() });
            assert!(outcome.value.all_made(), "{:?}", outcome.value.results);
        }
        // The caches were not empty, so what they hold is nobody's artifact; with none passed all is served.
        let plain = run(scenario, env, &Work::default());
        assert!(plain.value.all_made());
        assert_all_served(&run(scenario, env, &Work::default()), 3);
    });
}

#[test]
fn a_hit_in_the_programs_own_cache_is_no_miss_for_it() {
    on(Driver::Radv, |scenario, env| {
        let work = Work { caches: Caches::Shared, feedback: true, ..Work::default() };
        let first = run(scenario, &env.clone().without_layer(), &work);
        let initial_data = first.value.data[0].clone();
        let work = Work { initial_data, ..work };
        let without = run(scenario, &env.clone().without_layer(), &work);
        assert!(without.value.feedback.iter().all(Feedback::says_hit));
        // The stash is cold: the driver has it in the program's cache.
        let cold = run(scenario, env, &work);
        assert_eq!(cold.reports.sum("driver_had"), 3, "{:?}", cold.reports.counters());
        assert_eq!(cold.value.feedback, without.value.feedback);
    });
}

#[test]
fn what_the_drivers_own_disk_cache_has_is_recorded_where_that_is_free() {
    for shader in [Shader::Compute, Shader::RenderPass] {
        on(Driver::Radv, |scenario, env| {
            let env = env.clone().driver_cache();
            let work = Work { shader, ..Work::default() };
            run(scenario, &env.clone().without_layer(), &work);
            let first = run(scenario, &env, &work);
            assert!(first.value.all_made());
            assert_all_served(&run(scenario, &env, &work), 3);
        });
    }
}
