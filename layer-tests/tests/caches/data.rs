//! The data that programs read from their caches.

use std::ptr;

use ash::vk;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use vkstash_layer_tests::child::{Scenario, scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::suite::{assert_all_served, on, run};
use vkstash_layer_tests::work::{Caches, Feedback, Shader, Work};

use super::{GROUPS, device};

fn on_radv(step: fn(&Value) -> Value, test: impl FnOnce(&Scenario, &Env)) {
    scenario(&[("step", step)], |scenario| {
        if let Some(env) = scenario.on(Driver::Radv) {
            test(scenario, &env);
        }
    });
}

/// Creates this many pipelines through a cache, and reads it in every way that the specification allows.
fn read_in_every_way(input: &Value) -> Value {
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
fn cache_data_follows_the_two_call_idiom() {
    for count in [1_u32, 5] {
        on_radv(read_in_every_way, |scenario, env| {
            let without = scenario.run_ok::<usize>("step", &env.clone().without_layer(), &count).value;
            for _ in 0..2 {
                let with = scenario.run_ok::<usize>("step", env, &count).value;
                // Mesa aligns each object but not the end, so a few bytes depend on the order.
                assert!(with.abs_diff(without) <= 8 * count as usize, "{with}, without the layer {without}");
            }
        });
    }
}

/// Creates pipelines through three caches, merges two into the third, and gives the third one's data.
fn merge_caches(_: &Value) -> Value {
    let device = device(false);
    let caches = [(); 3].map(|()| device.cache(&[]));
    for (first, cache) in [1, 11, 21].into_iter().zip(caches) {
        Work { first, ..Work::default() }.run_through(&device, cache);
    }
    // SAFETY: live caches; the destination is not a source.
    unsafe { device.raw.merge_pipeline_caches(caches[2], &caches[..2]) }.unwrap();
    let data = device.cache_data(caches[2]);
    caches.iter().for_each(|&cache| device.destroy_cache(cache));
    json!(data)
}

/// Which of these pipelines a cache with this data holds, tried on a device without the layer.
fn held_pipelines(input: &Value) -> Value {
    let data: Vec<u8> = serde_json::from_value(input.clone()).unwrap();
    let device = device(true);
    let cache = device.cache(&data);
    let work = |first| Work { first, fail_on: true, ..Work::default() };
    let made = [1, 11, 21].map(|first| work(first).run_through(&device, cache).made);
    device.destroy_cache(cache);
    json!(made.concat())
}

#[test]
fn a_merged_cache_holds_the_pipelines_of_each_source() {
    scenario(&[("merge", merge_caches), ("held", held_pipelines)], |scenario| {
        let Some(env) = scenario.on(Driver::Radv) else { return };
        for round in ["cold", "warm"] {
            let data = scenario.run_ok::<Vec<u8>>("merge", &env, &()).value;
            let held = scenario.run_ok::<Vec<bool>>("held", &env.clone().without_layer(), &data).value;
            assert_eq!(held, [true; 9], "{round}");
        }
    });
}

/// Reads a cache's data after each pipeline, as engines do that save often.
fn grow(_: &Value) -> Value {
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
fn repeated_reads_of_a_cache_contain_each_new_pipeline() {
    scenario(&[("grow", grow), ("held", held_pipelines)], |scenario| {
        let Some(env) = scenario.on(Driver::Radv) else { return };
        for round in ["cold", "warm"] {
            let data = scenario.run_ok::<Vec<u8>>("grow", &env, &()).value;
            let held = scenario.run_ok::<Vec<bool>>("held", &env.clone().without_layer(), &data).value;
            assert_eq!(held, [true; 9], "{round}");
        }
    });
}

/// Invalid initial data is the program's own: it causes no crash, and no wrong records in the stash.
#[test]
fn a_cache_created_from_invalid_data_causes_no_wrong_records() {
    on(Driver::Radv, |scenario, env| {
        let work = Work { caches: Caches::Shared, ..Work::default() };
        let sound = run(scenario, &env.clone().without_layer(), &work).value.data.remove(0);
        let mut corrupted = sound.clone();
        corrupted[20] ^= 1;
        for data in [vec![0xff; 4000], vec![0; 1], sound[..sound.len() / 2].to_vec(), corrupted] {
            let outcome = run(scenario, env, &Work { initial_data: data, ..work.clone() });
            assert!(outcome.value.all_made(), "{:?}", outcome.value.results);
        }
        // The caches were not empty, so their pipelines were not recorded as artifacts; without a cache everything is
        // served.
        let plain = run(scenario, env, &Work::default());
        assert!(plain.value.all_made());
        assert_all_served(&run(scenario, env, &Work::default()), 3);
    });
}

#[test]
fn a_hit_in_the_programs_own_cache_stays_a_hit() {
    on(Driver::Radv, |scenario, env| {
        let work = Work { caches: Caches::Shared, feedback: true, ..Work::default() };
        let first = run(scenario, &env.clone().without_layer(), &work);
        let initial_data = first.value.data[0].clone();
        let work = Work { initial_data, ..work };
        let without = run(scenario, &env.clone().without_layer(), &work);
        assert!(without.value.feedback.iter().all(Feedback::says_hit));
        // The stash is empty: the driver finds the pipelines in the program's cache.
        let cold = run(scenario, env, &work);
        assert_eq!(cold.reports.sum("driver_had"), 3, "{:?}", cold.reports.counters());
        assert_eq!(cold.value.feedback, without.value.feedback);
    });
}

#[test]
fn artifacts_from_the_drivers_disk_cache_are_recorded_where_that_costs_no_compile() {
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

/// How a program obtains the data that it keeps.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum Habit {
    /// From a cache for each pipeline, merged at the end.
    OneKeyEach,
    /// From one cache for all.
    Shared,
    /// From one cache, with time for the writer after each group of pipelines.
    Unhurried,
    /// From one cache that was loaded with the data of the first three pipelines.
    Preloaded,
    /// From a cache for each thread, merged at the end.
    PerThread,
    /// From one cache, read while other threads fill it; the last answer counts.
    ReadMeanwhile,
}

#[derive(Serialize, Deserialize)]
struct CaseInput {
    habit: Habit,
    shader: Shader,
    initial: Vec<u8>,
}

/// Creates all groups, and answers with the data that the program would write to a file.
fn keep(input: &Value) -> Value {
    let CaseInput { habit, shader, initial } = serde_json::from_value(input.clone()).unwrap();
    let device = device(false);
    let all = device.cache(&initial);
    let group = |first| Work { first, shader, ..Work::default() };
    let through = |cache, work: Work| assert!(work.run_through(&device, cache).all_made());
    let merge = |from: &[vk::PipelineCache]| {
        // SAFETY: live caches that no other thread uses; the destination is not a source.
        unsafe { device.raw.merge_pipeline_caches(all, from) }.unwrap();
        from.iter().for_each(|&cache| device.destroy_cache(cache));
    };
    match habit {
        Habit::OneKeyEach => {
            for value in GROUPS.into_iter().flat_map(|first| first..first + 3) {
                let cache = device.cache(&[]);
                through(cache, Work { count: 1, ..group(value) });
                merge(&[cache]);
            }
        }
        Habit::Shared | Habit::Preloaded => GROUPS.into_iter().for_each(|first| through(all, group(first))),
        Habit::Unhurried => GROUPS.into_iter().for_each(|first| {
            through(all, group(first));
            std::thread::sleep(std::time::Duration::from_millis(150));
        }),
        Habit::PerThread => {
            let caches = GROUPS.map(|_| device.cache(&[]));
            std::thread::scope(|scope| {
                for (first, cache) in GROUPS.into_iter().zip(caches) {
                    scope.spawn(move || through(cache, group(first)));
                }
            });
            merge(&caches);
        }
        Habit::ReadMeanwhile => std::thread::scope(|scope| {
            let busy = GROUPS.map(|first| scope.spawn(move || through(all, group(first))));
            let mut largest = 0;
            while !busy.iter().all(std::thread::ScopedJoinHandle::is_finished) {
                let size = device.cache_data(all).len();
                // Mesa aligns each object but not the end, so a few bytes depend on the order.
                assert!(size + 64 >= largest, "{size} after {largest}: a cache does not shrink");
                largest = size;
                std::thread::yield_now();
            }
        }),
    }
    let data = device.cache_data(all);
    device.destroy_cache(all);
    json!(data)
}

/// How many pipelines of all groups a cache with this data holds, tried on a device without the layer.
fn count_held(input: &Value) -> Value {
    let CaseInput { shader, initial, .. } = serde_json::from_value(input.clone()).unwrap();
    let device = device(true);
    let cache = device.cache(&initial);
    let count = |first| {
        let work = Work { first, shader, fail_on: true, feedback: true, ..Work::default() };
        let done = work.run_through(&device, cache);
        let mut both = done.made.iter().zip(&done.feedback);
        assert!(both.all(|(&made, feedback)| !made || feedback.says_hit()));
        done.made.iter().filter(|&&made| made).count()
    };
    let held: usize = GROUPS.into_iter().map(count).sum();
    device.destroy_cache(cache);
    json!(held)
}

#[test]
fn data_of_a_served_run_warms_a_run_without_the_layer() {
    for shader in [Shader::Compute, Shader::RenderPass] {
        scenario(&[("keep", keep), ("hold", count_held)], |scenario| {
            let Some(radv) = scenario.on(Driver::Radv) else { return };
            let habits =
                [Habit::OneKeyEach, Habit::Shared, Habit::Preloaded, Habit::PerThread, Habit::ReadMeanwhile];
            for (number, habit) in habits.into_iter().enumerate() {
                let env = radv.clone().stash(scenario.folder().join(format!("stash-{number}")));
                let bare = env.clone().without_layer();
                let mut input = CaseInput { habit, shader, initial: Vec::new() };
                if matches!(habit, Habit::Preloaded) {
                    input.initial = scenario.run_ok("keep", &bare, &input).value;
                    let half = input.initial.len() / 2;
                    input.initial.truncate(half);
                }
                for round in ["cold", "warm", "warm again"] {
                    let kept = scenario.run_ok::<Vec<u8>>("keep", &env, &input);
                    let counters = kept.reports.counters();
                    if round != "cold" && !matches!(habit, Habit::Preloaded) {
                        assert_eq!(kept.reports.sum("served"), 12, "{habit:?} {counters:?}");
                    }
                    let kept = CaseInput { initial: kept.value, ..input };
                    let held = scenario.run_ok::<usize>("hold", &bare, &kept).value;
                    assert_eq!(held, 12, "{habit:?} {shader:?} {round}: {counters:?}");
                }
            }
        });
    }
}

/// A setting of the driver's changes its keys, and neither its UUID nor what a device enables: it refuses what was
/// recorded without it. What is compiled then is in the program's caches all the same.
#[test]
fn data_of_a_run_whose_artifacts_were_refused_warms_a_run_without_the_layer() {
    scenario(&[("keep", keep), ("hold", count_held)], |scenario| {
        let Some(radv) = scenario.on(Driver::Radv) else { return };
        for (number, habit) in [Habit::OneKeyEach, Habit::Shared, Habit::PerThread].into_iter().enumerate() {
            let env = radv.clone().stash(scenario.folder().join(format!("stash-{number}")));
            let input = CaseInput { habit, shader: Shader::Compute, initial: Vec::new() };
            scenario.run_ok::<Vec<u8>>("keep", &env, &input);
            let env = env.var("radv_disable_trunc_coord", "true");
            let bare = env.clone().without_layer();
            for (round, counter) in [("refused", "not_taken"), ("served", "served")] {
                let kept = scenario.run_ok::<Vec<u8>>("keep", &env, &input);
                let counters = kept.reports.counters();
                assert_eq!(kept.reports.sum(counter), 12, "{habit:?} {counters:?}");
                assert_eq!(kept.reports.sum("offered"), 0, "{habit:?} {counters:?}");
                let kept = CaseInput { initial: kept.value, ..input };
                let held = scenario.run_ok::<usize>("hold", &bare, &kept).value;
                assert_eq!(held, 12, "{habit:?} {round}: {counters:?}");
            }
        }
    });
}

#[test]
fn on_a_driver_without_cache_data_the_program_gets_the_drivers_data() {
    scenario(&[("keep", keep)], |scenario| {
        let Some(env) = scenario.on(Driver::Lavapipe) else { return };
        for habit in [Habit::OneKeyEach, Habit::Shared, Habit::PerThread, Habit::ReadMeanwhile] {
            let input = CaseInput { habit, shader: Shader::Compute, initial: Vec::new() };
            let without = scenario.run_ok::<Vec<u8>>("keep", &env.clone().without_layer(), &input).value;
            for round in ["cold", "warm"] {
                let with = scenario.run_ok::<Vec<u8>>("keep", &env, &input).value;
                assert_eq!(with, without, "{habit:?} {round}");
            }
        }
    });
}

#[test]
fn an_unwritable_stash_leaves_the_cache_data_complete() {
    scenario(&[("keep", keep), ("hold", count_held)], |scenario| {
        let Some(env) = scenario.on(Driver::Radv) else { return };
        let env = env.file_size_limit(0);
        for habit in [Habit::OneKeyEach, Habit::Shared, Habit::Unhurried, Habit::PerThread] {
            let input = CaseInput { habit, shader: Shader::Compute, initial: Vec::new() };
            let run = scenario.run_ok::<Vec<u8>>("keep", &env, &input);
            assert_eq!(run.reports.sum("served"), 0, "{:?}", run.reports.counters());
            let kept = CaseInput { initial: run.value, ..input };
            let held = scenario.run_ok::<usize>("hold", &env.clone().without_layer(), &kept).value;
            assert_eq!(held, 12, "{habit:?}");
        }
    });
}
