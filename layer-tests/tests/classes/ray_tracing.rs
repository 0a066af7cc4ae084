//! Ray tracing pipelines without deferred operations: groups of every kind, libraries, stack size, batches.

use std::path::Path;

use ash::{ext, vk};
use serde_json::{Value, json};
use vkstash_layer_tests::child::scenario;
use vkstash_layer_tests::env::Driver;
use vkstash_layer_tests::report::Reports;
use vkstash_layer_tests::test_driver::TestDriver;
use vkstash_layer_tests::waiting::{own_workers, tasks, until};

use super::rays::Rays;
use super::rig::{Options, Rig, keep, keep_all};
use super::{covered, drivers};

/// The step: creates everything, with a cache of its own if the input says so, and with libraries in the order of the
/// input, on a device with one extension fewer if the input says so. Null if the device lacks ray tracing.
pub fn trace(input: &Value) -> Value {
    let without = (input["fewer"] == true).then_some(ext::color_write_enable::NAME);
    let Some(rays) = Rays::new(Rig::with(Options { without, ..Options::default() })) else {
        return Value::Null;
    };
    let own = input["cache"] == true;
    let data: Vec<u8> = serde_json::from_value(input["data"].clone()).unwrap_or_default();
    let cache = if own { rays.rig.device.cache(&data) } else { vk::PipelineCache::null() };
    let (mut results, mut handles, mut all) = (Vec::new(), Vec::new(), Vec::new());
    let mut make = |info, groups| {
        let (result, pipeline) = rays.make(cache, info);
        results.push((result.as_raw(), pipeline != vk::Pipeline::null()));
        if groups > 0 {
            handles.push(rays.group_handles(pipeline, groups));
        }
        all.push(pipeline);
        pipeline
    };
    make(rays.plain(1), 1);
    make(rays.groups(2), 5);
    make(rays.plain(1).max_pipeline_ray_recursion_depth(0), 1);
    let dynamic = vk::PipelineDynamicStateCreateInfo::default()
        .dynamic_states(keep_all([vk::DynamicState::RAY_TRACING_PIPELINE_STACK_SIZE_KHR]));
    make(rays.groups(2).dynamic_state(keep(dynamic)), 5);
    make(rays.groups(2).flags(vk::PipelineCreateFlags::RAY_TRACING_NO_NULL_MISS_SHADERS_KHR), 5);
    let mut libraries = [make(rays.library(rays.groups(3)), 0), make(rays.library(rays.plain(4)), 0)];
    if input["reversed"] == true {
        libraries.reverse();
    }
    make(rays.linked(rays.plain(5), &libraries), 7);
    // Three at once, two of them equal.
    let mut batch = [vk::Pipeline::null(); 3];
    let infos = [rays.plain(6), rays.groups(7), rays.plain(6)];
    let together = rays.create(vk::DeferredOperationKHR::null(), cache, &infos, &mut batch);
    results.extend(batch.map(|pipeline| (together.as_raw(), pipeline != vk::Pipeline::null())));
    rays.destroy(&batch);
    rays.destroy(&all);
    let kept = (input["keep"] == true).then(|| rays.rig.device.cache_data(cache));
    rays.rig.device.destroy_cache(cache);
    json!({ "results": results, "handles": handles, "data": kept })
}

/// RADV answers COMPILE_REQUIRED for libraries that its cache has: the data of an earlier run stays in use.
#[test]
fn pipelines_in_the_programs_own_cache_are_not_compiled_again() {
    scenario(&[("trace", trace)], |scenario| {
        for driver in [Driver::Radv, Driver::Test(json!({}))] {
            let Some(env) = scenario.on(driver.clone()) else { continue };
            let keep = json!({ "cache": true, "keep": true });
            let plain = scenario.run_ok::<Value>("trace", &env.clone().without_layer(), &keep).value;
            let loaded = json!({ "cache": true, "data": plain["data"] });
            let run = scenario.run_ok::<Value>("trace", &env, &loaded);
            let counters = run.reports.counters();
            assert_eq!(run.value["results"], plain["results"]);
            assert_eq!(run.reports.sum("compiled"), 0, "{counters:?}");
            let libraries = u64::from(driver == Driver::Radv);
            assert_eq!(run.reports.sum("compiled_unrecorded"), libraries, "{counters:?}");
        }
    });
}

#[test]
fn a_device_with_one_extension_more_is_served_what_was_made_without() {
    scenario(&[("trace", trace)], |scenario| {
        let Some(env) = scenario.on(Driver::Radv) else { return };
        let more = scenario.run_ok::<Value>("trace", &env.clone().without_layer(), &json!({})).value;
        let fewer = scenario.run_ok::<Value>("trace", &env, &json!({ "fewer": true }));
        assert_eq!(fewer.reports.sum("from_sibling"), 0);
        let run = scenario.run_ok::<Value>("trace", &env, &json!({}));
        assert_eq!(run.value["results"], more["results"]);
        assert_eq!(contents(&Driver::Radv, &run.value), contents(&Driver::Radv, &more));
        let counters = run.reports.counters();
        let [served, from_sibling, compiled] =
            ["served", "from_sibling", "compiled"].map(|name| run.reports.sum(name));
        // RADV says of a library with any-hit shaders that it is not in a cache which has it.
        assert!(served > 5 && from_sibling == served && compiled <= 1, "{counters:?}");
    });
}

/// Whether workers create ray tracing pipelines, before they come to their end.
fn made_by_workers(_: &Value) -> Value {
    let rays = Rays::new(Rig::open()).expect("the programmable driver has ray tracing");
    let trace = std::env::var_os("VKSTASH_TRACE").expect("a traced run");
    let (driver, mut makes) = (TestDriver::open(), false);
    // Where they make some, one stays to destroy what nobody asks for.
    until("workers make some, or end", || {
        let record = driver.take_record();
        assert_eq!(record["violations"], json!([]), "{record}");
        let calls = record["calls"].as_array().unwrap();
        makes |= calls.iter().any(|call| call["command"] == "vkCreateRayTracingPipelinesKHR");
        makes || tasks(Path::new(&trace), "park") > 0 && own_workers() == 0
    });
    drop(rays);
    json!(makes)
}

#[test]
fn workers_make_ray_tracing_pipelines_only_where_the_drivers_row_says_so() {
    use vk::DriverId as Id;
    scenario(&[("trace", trace), ("workers", made_by_workers)], |scenario| {
        for (id, makes) in [(Id::MESA_RADV, true), (Id::NVIDIA_PROPRIETARY, false), (Id::from_raw(0), false)]
        {
            let Some(env) = scenario.on(Driver::Test(json!({ "driver_id": id.as_raw() }))) else { return };
            let env = env.stash(scenario.folder().join(format!("stash of {}", id.as_raw())));
            (0..2).for_each(|_| _ = scenario.run_ok::<Value>("trace", &env, &json!({})));
            let trace = scenario.folder().join(format!("trace of {}", id.as_raw()));
            let env = env.var("VKSTASH_BACKGROUND_WORKERS", "2").var("VKSTASH_TRACE", trace);
            let run = scenario.run_ok::<bool>("workers", &env, &json!({}));
            let counters = run.reports.counters();
            assert_eq!((run.value, run.reports.sum("parking_failed")), (makes, 0), "{id:?}: {counters:?}");
        }
    });
}

/// The parts of the pipelines' group handles that must be equal. RADV's begin with an address.
fn contents(driver: &Driver, value: &Value) -> Vec<Vec<u8>> {
    let all: Vec<Vec<u8>> = serde_json::from_value(value["handles"].clone()).unwrap();
    let kept = |(index, byte): (usize, u8)| if *driver == Driver::Radv && index % 32 < 8 { 0 } else { byte };
    all.into_iter().map(|one| one.into_iter().enumerate().map(kept).collect()).collect()
}

/// The driver had all of these pipelines already. RADV answers that a library with any-hit shaders is not in its
/// caches, but creates it from them: the layer counts it as offered if the call was fast enough.
fn all_had(driver: &Driver, reports: &Reports, made: usize) {
    match reports.sum("not_taken") {
        1 if *driver == Driver::Radv => {
            let counters = reports.counters();
            // Some differ only in state that RADV ignores.
            let had = reports.sum("served") + reports.sum("driver_had");
            assert_eq!(had, made as u64 - 1, "{counters:?}");
            assert_eq!(reports.sum("offered") + reports.sum("compiled"), 1, "{counters:?}");
            assert_eq!(reports.sum("compiled_unrecorded"), 0, "{counters:?}");
        }
        _ => covered(driver, reports, made),
    }
}

#[test]
fn every_kind_of_group_is_served_with_the_same_handles() {
    scenario(&[("trace", trace)], |scenario| {
        for driver in drivers(json!({})) {
            let Some(env) = scenario.on(driver.clone()) else { continue };
            for cache in [false, true] {
                let env =
                    env.clone().stash(scenario.folder().join(format!("stash {} {cache}", driver.name())));
                let input = json!({ "cache": cache });
                let plain = env.clone().without_layer();
                let without = scenario.run_ok::<Value>("trace", &plain, &input).value;
                if without.is_null() {
                    assert_ne!(driver, Driver::Radv, "it has ray tracing");
                    continue;
                }
                let again = scenario.run_ok::<Value>("trace", &plain, &input).value;
                let cold = scenario.run_ok::<Value>("trace", &env, &input);
                if cache {
                    // If pipelines differ only in state that the driver ignores, the program's cache has the second
                    // one; it gets an artifact in the first run in which that cache does not.
                    scenario.run_ok::<Value>("trace", &env, &input);
                }
                let warm = scenario.run_ok::<Value>("trace", &env, &input);
                let made = without["results"].as_array().unwrap().len();
                assert!(without["results"].as_array().unwrap().iter().all(|one| *one == json!([0, true])));
                for with in [&cold, &warm] {
                    assert_eq!(with.value["results"], without["results"]);
                    assert!(with.reports.bypassed().is_empty(), "{:?}", with.reports.bypassed());
                    let [theirs, again, ours] =
                        [&without, &again, &with.value].map(|value| contents(&driver, value));
                    if theirs == again {
                        assert_eq!(ours, theirs, "{}", driver.name());
                    }
                }
                if driver == Driver::Machine {
                    // The properties that drivers must share are checked above. NVIDIA's caches keep neither
                    // libraries nor links, nor shaders that another live pipeline has.
                    assert!(warm.reports.sum("served") + warm.reports.sum("driver_had") > 0);
                    continue;
                }
                assert_eq!(cold.reports.sum("not_taken"), 0, "{:?}", cold.reports.counters());
                all_had(&driver, &warm.reports, made);
                // The libraries in reverse order: another pipeline, and the only one of this run.
                let reversed = json!({ "cache": cache, "reversed": true });
                let other = scenario.run_ok::<Value>("trace", &env, &reversed);
                let counters = other.reports.counters();
                let never_found = u64::from(driver == Driver::Radv);
                assert!(other.reports.sum("not_taken") <= never_found, "{counters:?}");
                assert_eq!(other.value["results"], without["results"]);
                if driver.name() != "lavapipe" {
                    let made = other.reports.sum("compiled") + other.reports.sum("offered");
                    assert_eq!(made, 1 + other.reports.sum("not_taken"), "{}: {counters:?}", driver.name());
                }
                let other = scenario.run_ok::<Value>("trace", &env, &reversed);
                all_had(&driver, &other.reports, made);
            }
        }
    });
}

/// The step: libraries, and links of them that must not be compiled, in 32 orders on devices of their own. Returns the
/// results; null without ray tracing.
fn link(_: &Value) -> Value {
    let fail_on = vk::PipelineCreateFlags::FAIL_ON_PIPELINE_COMPILE_REQUIRED;
    let mut all = Vec::new();
    for order in 0..32 {
        let Some(rays) = Rays::new(Rig::with(Options::default())) else { return Value::Null };
        let has = |bit: u32| order & 1 << bit != 0;
        let cache = if has(0) { rays.rig.device.cache(&[]) } else { vk::PipelineCache::null() };
        // No order has the shaders of another.
        let of = |value: u32| match has(1) {
            true => rays.groups(100 * order + value),
            false => rays.plain(100 * order + value),
        };
        let none = vk::RayTracingPipelineCreateInfoKHR::default()
            .max_pipeline_ray_recursion_depth(1)
            .layout(rays.layout);
        let own = || if has(2) { of(3) } else { none };
        let (mut results, mut made) = (Vec::new(), Vec::new());
        let mut make = |info| {
            let (result, pipeline) = rays.make(cache, info);
            results.push(result.as_raw());
            made.push(pipeline);
            pipeline
        };
        let (first, second) = (make(rays.library(of(1))), make(rays.library(of(2))));
        if has(3) {
            make(of(3));
        }
        if has(4) {
            make(rays.linked(own(), &[first]));
        }
        make(rays.linked(own(), &[first]).flags(fail_on));
        make(rays.linked(own(), &[first, second]).flags(fail_on));
        make(rays.linked(own(), &[first, second]));
        make(rays.linked(own(), &[first, second]).flags(fail_on));
        make(rays.linked(own(), &[second, first]).flags(fail_on));
        let library = rays.library(of(1));
        make(library.flags(library.flags | fail_on));
        rays.destroy(&made);
        rays.rig.device.destroy_cache(cache);
        all.push(results);
    }
    json!(all)
}

/// A program that must not wait for a compile gets what the driver has, and nothing less because of the layer.
#[test]
fn links_that_may_not_be_compiled_are_answered_as_without_the_layer() {
    scenario(&[("link", link)], |scenario| {
        let Some(env) = scenario.on(Driver::Radv) else { return };
        let alone = scenario.run_ok::<Value>("link", &env.clone().without_layer(), &()).value;
        let with = scenario.run_ok::<Value>("link", &env, &());
        assert_eq!(with.value, alone, "{:?}", with.reports.counters());
        assert!(alone.to_string().contains("[0,0,0,1000297000"), "some are found, others are not: {alone}");
    });
}
