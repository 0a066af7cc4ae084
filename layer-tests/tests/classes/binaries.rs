//! Artifacts made of pipeline binaries, with VKSTASH_BINARIES: whether the layer or the program enabled the extension.

use std::fs;

use ash::vk;
use serde_json::{Value, json};
use vkstash_layer_tests::child::scenario;
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::suite::device_segments;
use vkstash_layer_tests::test_driver::TestDriver;
use vkstash_layer_tests::vulkan::{allocator, binaries, spirv};

use super::draft::Draft;
use super::rays::Rays;
use super::rig::{Options, Rig, Unhashed};

/// The step: compute, graphics, a library and ray tracing, without a cache.
fn make(input: &Value) -> Value {
    let without = (input["fewer"] == true).then_some(ash::ext::robustness2::NAME);
    let unhashed = match input["unhashed"].as_str() {
        Some("unknown") => Unhashed::Unknown,
        Some("number") => Unhashed::Number,
        _ => Unhashed::Nothing,
    };
    let options = Options { binaries: input["own"] == true, without, unhashed, ..Options::default() };
    let rig = Rig::with(options);
    if !rig.device.instance.has(rig.device.physical, binaries::NAME) {
        return Value::Null;
    }
    let none = vk::PipelineCache::null();
    let stage = rig.stage(vk::ShaderStageFlags::COMPUTE, &spirv::compute(1));
    let compute = vk::ComputePipelineCreateInfo::default().stage(stage).layout(rig.device.compute_layout());
    // SAFETY: a valid create info.
    let mut results = vec![unsafe { rig.device.create_compute(none, &[compute]) }.0];
    let draft = Draft::new(&rig);
    results.push(rig.graphics(none, draft.complete()).0);
    let subset = vk::GraphicsPipelineLibraryFlagsEXT::FRAGMENT_SHADER;
    results.push(rig.graphics(none, draft.library(subset, vk::PipelineCreateFlags::empty())).0);
    if let Some(rays) = Rays::new(rig) {
        let (result, pipeline) = rays.make(none, rays.groups(1));
        results.push(result);
        rays.destroy(&[pipeline]);
    }
    json!(results.iter().map(|result| result.as_raw()).collect::<Vec<_>>())
}

#[test]
fn binaries_serve_every_class_and_damaged_ones_reach_no_driver() {
    scenario(&[("make", make)], |scenario| {
        let test = Driver::Test(json!({ "pipeline_binary": true, "api_version": "1.4" }));
        for driver in [Driver::Radv, test, Driver::Machine] {
            let Some(env) = scenario.on(driver.clone()) else { continue };
            let stash = scenario.folder().join(format!("stash {}", driver.name()));
            let env = env.stash(&stash).var("VKSTASH_BINARIES", "1");
            let input = json!({});
            let without = scenario.run_ok::<Value>("make", &env.clone().without_layer(), &input).value;
            let Some(results) = without.as_array() else {
                assert_eq!(driver, Driver::Machine, "the others have binaries");
                continue;
            };
            let made = results.len() as u64;
            let cold = scenario.run_ok::<Value>("make", &env, &input);
            assert_eq!(cold.value, without);
            assert_eq!(cold.reports.sum("compiled"), made, "{driver:?} {:?}", cold.reports.counters());
            let warm = scenario.run_ok::<Value>("make", &env, &input);
            assert_eq!(warm.value, without);
            let counters = warm.reports.counters();
            assert_eq!(warm.reports.sum("served_by_binary"), made, "{driver:?} {counters:?}");
            assert_eq!(warm.reports.sum("compiled") + warm.reports.sum("not_taken"), 0, "{counters:?}");

            // A device with other extensions and features.
            let fewer = scenario.run_ok::<Value>("make", &env, &json!({ "fewer": true }));
            assert_eq!(fewer.reports.sum("served_by_binary"), 0, "{:?}", fewer.reports.counters());

            for segment in device_segments(&stash) {
                let mut bytes = fs::read(&segment).unwrap();
                // One byte in every 64 after the header, so that every payload is damaged.
                bytes.iter_mut().skip(256).step_by(64).for_each(|byte| *byte ^= 0x5a);
                fs::write(&segment, bytes).unwrap();
            }
            let damaged = scenario.run_ok::<Value>("make", &env, &input);
            assert_eq!(damaged.value, without);
            let counters = damaged.reports.counters();
            assert_eq!(damaged.reports.sum("served") + damaged.reports.sum("not_taken"), 0, "{counters:?}");
        }
    });
}

/// The driver uses a binary without checking it, so binaries are used only on devices that are fully described.
#[test]
fn a_device_with_a_structure_that_no_digest_covers_is_served_by_blobs() {
    scenario(&[("make", make)], |scenario| {
        let test = Driver::Test(json!({
            "pipeline_binary": true, "api_version": "1.4", "driver_id": 3, "identifiers": true,
        }));
        for driver in [Driver::Radv, test] {
            for unhashed in ["none", "unknown", "number"] {
                for own in [false, true] {
                    let Some(env) = scenario.on(driver.clone()) else { continue };
                    let what = format!("{} {unhashed} {own}", driver.name());
                    let env = env.stash(scenario.folder().join(format!("stash {what}")));
                    let env = env.var("VKSTASH_BINARIES", "1").var("VKSTASH_LOG", "info");
                    let input = json!({ "own": own, "unhashed": unhashed });
                    let without =
                        scenario.run_ok::<Value>("make", &env.clone().without_layer(), &input).value;
                    let made = without.as_array().unwrap().len() as u64;
                    let cold = scenario.run_ok::<Value>("make", &env, &input);
                    let warm = scenario.run_ok::<Value>("make", &env, &input);
                    assert_eq!((&cold.value, &warm.value), (&without, &without), "{what}");
                    let counters = warm.reports.counters();
                    let by_binary = if unhashed == "none" { made } else { 0 };
                    assert_eq!(warm.reports.sum("served"), made, "{what}: {counters:?}");
                    assert_eq!(warm.reports.sum("served_by_binary"), by_binary, "{what}: {counters:?}");
                    let name = match unhashed {
                        "unknown" => Some("1000998000"),
                        "number" => Some("VkDevicePrivateDataCreateInfo"),
                        _ => None,
                    };
                    assert_eq!(warm.stderr.contains("not hashed"), name.is_some(), "{what}: {}", warm.stderr);
                    assert!(name.is_none_or(|name| warm.stderr.contains(name)), "{what}: {}", warm.stderr);
                }
            }
        }
    });
}

/// A layer below that wraps handles and does not know the extension would give the driver its own handles.
#[test]
fn a_program_that_enables_the_extension_and_uses_no_command_of_it_has_none_used() {
    scenario(&[("make", make), ("calls", calls)], |scenario| {
        let test = Driver::Test(json!({ "pipeline_binary": true, "api_version": "1.4" }));
        for driver in [Driver::Radv, test] {
            let Some(env) = scenario.on(driver.clone()) else { continue };
            let env = env.stash(scenario.folder().join(format!("stash {}", driver.name())));
            let input = json!({ "own": true });
            let cold = scenario.run_ok::<Value>("make", &env, &input);
            let warm = scenario.run_ok::<Value>("make", &env, &input);
            assert_eq!(warm.value, cold.value);
            let (made, counters) = (cold.value.as_array().unwrap().len() as u64, warm.reports.counters());
            assert_eq!(warm.reports.sum("served"), made, "{counters:?}");
            assert_eq!(warm.reports.sum("served_by_binary"), 0, "{counters:?}");
            if matches!(driver, Driver::Test(_)) {
                let called = |env: &Env| scenario.run_ok::<Vec<String>>("calls", env, &input).value;
                assert_eq!(called(&env), Vec::<String>::new());
                let env = env.stash(scenario.folder().join("asked for")).var("VKSTASH_BINARIES", "1");
                assert!(!called(&env).is_empty(), "the same program, where the user asks for binaries");
            }
        }
    });
}

/// [`make`], and the commands of the extension that reached the driver.
fn calls(input: &Value) -> Value {
    let driver = TestDriver::open();
    make(input);
    let record = driver.take_record();
    let names = record["calls"].as_array().unwrap().iter().map(|call| call["command"].as_str().unwrap());
    let of_extension = ["PipelineBinar", "PipelineKey", "CapturedPipeline"];
    json!(names.filter(|name| of_extension.iter().any(|part| name.contains(part))).collect::<Vec<_>>())
}

#[test]
fn binaries_that_are_evicted_after_they_were_served_count_as_a_loss() {
    scenario(&[("make", make)], |scenario| {
        let Some(env) = scenario.on(Driver::Radv) else { return };
        let env = env.var("VKSTASH_BINARIES", "1");
        let input = json!({});
        let cold = scenario.run_ok::<Value>("make", &env, &input);
        assert_eq!(cold.reports.sum("served_before"), 0);
        let artifacts = device_segments(&env.stash_folder());
        let warm = scenario.run_ok::<Value>("make", &env, &input);
        let served = warm.reports.sum("served_by_binary");
        assert!(served > 0, "{:?}", warm.reports.counters());
        artifacts.iter().for_each(|segment| fs::remove_file(segment).unwrap());
        let lost = scenario.run_ok::<Value>("make", &env, &input);
        let counters = lost.reports.counters();
        assert_eq!((lost.value, lost.reports.sum("served_before")), (cold.value, served), "{counters:?}");
    });
}

/// Makes a pipeline with an allocator of the program's. The driver's record.
fn make_with_allocator(_: &Value) -> Value {
    let rig = Rig::with(Options::default());
    let driver = TestDriver::open();
    let callbacks = allocator::of_malloc();
    let stage = rig.stage(vk::ShaderStageFlags::COMPUTE, &spirv::compute(1));
    let info = vk::ComputePipelineCreateInfo::default().stage(stage).layout(rig.device.compute_layout());
    // SAFETY: a valid create info, and a pipeline that is destroyed with the allocator of its creation.
    unsafe {
        let none = vk::PipelineCache::null();
        let made = rig.device.raw.create_compute_pipelines(none, &[info], Some(&callbacks)).unwrap();
        rig.device.raw.destroy_pipeline(made[0], Some(&callbacks));
    }
    driver.take_record()
}

/// VUID-vkReleaseCapturedPipelineDataKHR-pipeline-09611.
#[test]
fn captured_data_is_released_with_the_allocator_of_the_pipeline() {
    scenario(&[("make", make_with_allocator)], |scenario| {
        let driver = Driver::Test(json!({ "pipeline_binary": true, "api_version": "1.4" }));
        let env = scenario.on(driver).unwrap().var("VKSTASH_BINARIES", "1");
        let record = scenario.run_ok::<Value>("make", &env, &()).value;
        assert_eq!(record["violations"], json!([]));
        let calls = record["calls"].as_array().unwrap();
        assert!(calls.iter().any(|call| call["command"] == "vkReleaseCapturedPipelineDataKHR"));
    });
}
