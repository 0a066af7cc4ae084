//! A served pipeline is the requested one, by the driver's own description, with and without the stash.

use std::collections::BTreeSet;

use ash::{khr, vk};
use serde_json::{Value, json};

use vkstash_layer_tests::child::scenario;
use vkstash_layer_tests::env::Driver;
use vkstash_layer_tests::vulkan::{Device, DeviceOptions, Instance, InstanceOptions, executables, spirv};
use vkstash_layer_tests::work::{Caches, Shader, Work};

/// Creates compute pipelines of different constants and layouts, with these flags, and queries the driver's
/// description of each.
fn described(input: &Value) -> Value {
    let flags = vk::PipelineCreateFlags::from_raw(input.as_u64().unwrap() as u32);
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let physical = instance.physical_device();
    if !instance.has(physical, khr::pipeline_executable_properties::NAME) {
        return json!(null);
    }
    let mut feature =
        vk::PhysicalDevicePipelineExecutablePropertiesFeaturesKHR::default().pipeline_executable_info(true);
    let queue = [vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0])];
    let names = [khr::pipeline_executable_properties::NAME.as_ptr()];
    let info = vk::DeviceCreateInfo::default()
        .queue_create_infos(&queue)
        .enabled_extension_names(&names)
        .push_next(&mut feature);
    // SAFETY: a live physical device and a valid create info.
    let raw = unsafe { instance.raw.create_device(physical, &info, None) }.unwrap();
    let device = Device::adopt(&instance, physical, raw);
    let layout = device.compute_layout();
    let describe = |value: u32| {
        let module = device.module(&spirv::compute(value));
        let stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(module)
            .name(c"main");
        let info = vk::ComputePipelineCreateInfo::default().flags(flags).stage(stage).layout(layout);
        // SAFETY: a valid create info.
        let (result, made) = unsafe { device.create_compute(vk::PipelineCache::null(), &[info]) };
        assert_eq!(result, vk::Result::SUCCESS);
        executables::of_executable(&device, made[0], 0)
    };
    json!((1..=6).map(|n| describe(n * 77)).collect::<Vec<_>>())
}

/// Tools see the same of a served pipeline as of a compiled one (classes/later_calls.rs compares everything).
#[test]
fn a_captured_pipeline_has_the_same_statistics_as_without_the_layer() {
    scenario(&[("step", described)], |scenario| {
        let Some(env) = scenario.on(Driver::Radv) else { return };
        let flags = vk::PipelineCreateFlags::CAPTURE_STATISTICS_KHR.as_raw();
        let without = scenario.run_ok::<Value>("step", &env.clone().without_layer(), &flags).value;
        if without.is_null() {
            return scenario.skip("RADV: no pipeline statistics");
        }
        assert!(without[0].as_array().is_some_and(|list| !list.is_empty()), "{without}");
        // Pipelines in the stash without the flags must not be served for pipelines with them.
        scenario.run_ok::<Value>("step", &env, &0);
        for _ in 0..2 {
            assert_eq!(scenario.run_ok::<Value>("step", &env, &flags).value, without);
        }
    });
}

/// Runs the program, and queries the driver's description of each pipeline.
fn looked_into(input: &Value) -> Value {
    let work: Work = serde_json::from_value(input.clone()).unwrap();
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    if !instance.has(instance.physical_device(), khr::pipeline_executable_properties::NAME) {
        return json!(null);
    }
    let options = DeviceOptions { executables: true, ..work.device_options() };
    let device = Device::new(&instance, &options).unwrap();
    let done = work.run(&device);
    assert!(done.all_made(), "{:?}", done.results);
    let all: Vec<_> =
        done.pipelines.iter().map(|&pipeline| executables::statistics(&device, pipeline)).collect();
    json!(all)
}

/// The driver, which does not know the stash, describes a served pipeline: its hash, the length of its code, its
/// resources and instructions.
#[test]
fn each_served_pipeline_equals_the_compiled_pipeline_of_its_create_info() {
    scenario(&[("step", looked_into)], |scenario| {
        let Some(env) = scenario.on(Driver::Radv) else { return };
        let shaders = [Shader::Lengthy, Shader::Specialized, Shader::RenderPass, Shader::DynamicRendering];
        for shader in shaders {
            for caches in [Caches::Fresh, Caches::Shared, Caches::None] {
                let env = env.clone().stash(scenario.folder().join(format!("stash {shader:?} {caches:?}")));
                let work = Work { shader, count: 12, caches, ..Work::default() };
                let without = scenario.run_ok::<Value>("step", &env.clone().without_layer(), &work).value;
                if without.is_null() {
                    return scenario.skip("RADV: no pipeline statistics");
                }
                let distinct: BTreeSet<_> =
                    without.as_array().unwrap().iter().map(|one| without_hash(one).to_string()).collect();
                let expected = if shader == Shader::Lengthy { 12 } else { 1 };
                assert!(distinct.len() >= expected, "{shader:?}: what differs is told apart: {distinct:?}");
                for round in ["cold", "warm", "warm again"] {
                    let with = scenario.run_ok::<Value>("step", &env, &work);
                    assert_eq!(with.value, without, "{shader:?} {caches:?} {round}");
                    if round != "cold" {
                        assert_eq!(with.reports.sum("served"), 12, "{:?}", with.reports.counters());
                    }
                }
            }
        }
    });
}

/// The statistics without those that the driver computes from the create info alone.
fn without_hash(described: &Value) -> Value {
    let executables = described.as_array().unwrap().iter().map(|statistics| {
        let list = statistics.as_array().unwrap().iter();
        list.filter(|statistic| !statistic[0].as_str().unwrap().contains("hash")).cloned().collect()
    });
    Value::Array(executables.collect())
}
