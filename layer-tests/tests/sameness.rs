//! What is served is the pipeline that was asked for: the compiler's own words, with and without the stash.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends at the first surprise")]

use std::collections::BTreeSet;
use std::ptr;

use ash::{khr, vk};
use serde_json::{Value, json};

use vkstash_layer_tests::child::scenario;
use vkstash_layer_tests::env::Driver;
use vkstash_layer_tests::suite;
use vkstash_layer_tests::vulkan::{Device, Instance, InstanceOptions, spirv};
use vkstash_layer_tests::work::{Caches, Shader, Work};

/// Makes compute pipelines of different constants and layouts, with these flags, and asks the driver what it
/// made of each.
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
        describe_executable(&device, made[0])
    };
    json!((1..=6).map(|n| describe(n * 77)).collect::<Vec<_>>())
}

/// Names and values of the first executable's statistics.
fn describe_executable(device: &Device, pipeline: vk::Pipeline) -> Vec<(String, u64)> {
    let commands = khr::pipeline_executable_properties::Device::new(&device.instance.raw, &device.raw);
    let info = vk::PipelineExecutableInfoKHR::default().pipeline(pipeline).executable_index(0);
    let query = commands.fp().get_pipeline_executable_statistics_khr;
    let mut count = 0;
    // SAFETY: a live pipeline that was created with CAPTURE_STATISTICS, and the two-call idiom.
    let list = unsafe {
        let _ = query(device.raw.handle(), &info, &mut count, ptr::null_mut());
        let mut list = vec![vk::PipelineExecutableStatisticKHR::default(); count as usize];
        let _ = query(device.raw.handle(), &info, &mut count, list.as_mut_ptr());
        list
    };
    let describe = |statistic: &vk::PipelineExecutableStatisticKHR<'_>| {
        let name = statistic.name_as_c_str().unwrap().to_string_lossy().into_owned();
        // SAFETY: every member of the union is plain data, and all of it was written or zeroed.
        (name, unsafe { statistic.value.u64 })
    };
    list.iter().map(describe).collect()
}

/// What is captured for tools must be captured by the driver itself.
#[test]
fn a_pipeline_that_is_to_be_looked_into_is_described_as_without_the_layer() {
    scenario(&[("step", described)], |scenario| {
        let Some(env) = scenario.on(Driver::Radv) else { return };
        let flags = vk::PipelineCreateFlags::CAPTURE_STATISTICS_KHR.as_raw();
        let without = scenario.run_ok::<Value>("step", &env.clone().without_layer(), &flags).value;
        if without.is_null() {
            return scenario.skip("RADV: no pipeline statistics");
        }
        assert!(without[0].as_array().is_some_and(|list| !list.is_empty()), "{without}");
        // Equal pipelines in the stash must not stand in for those that carry what tools want to see.
        scenario.run_ok::<Value>("step", &env, &0);
        for _ in 0..2 {
            assert_eq!(scenario.run_ok::<Value>("step", &env, &flags).value, without);
        }
    });
}

/// A cache's data without regard to the order of its entries, which is a hash table's (contract 4.2).
fn unordered(data: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let sorted = |bytes: &Vec<u8>| {
        let mut bytes = bytes.clone();
        bytes.sort_unstable();
        bytes
    };
    data.iter().map(sorted).collect()
}

#[test]
fn each_served_pipeline_is_the_one_that_the_driver_makes_of_its_own_create_info() {
    for shader in [Shader::Compute, Shader::Specialized, Shader::RenderPass, Shader::DynamicRendering] {
        suite::on(Driver::Radv, |scenario, env| {
            let work = Work { shader, count: 12, caches: Caches::Fresh, ..Work::default() };
            let without = suite::run(scenario, &env.clone().without_layer(), &work);
            let without = unordered(&without.value.data);
            let distinct: BTreeSet<_> = without.iter().collect();
            assert_eq!(distinct.len(), 12, "each constant makes a cache of its own");
            for _ in 0..2 {
                let with = suite::run(scenario, env, &work);
                assert!(unordered(&with.value.data) == without, "{shader:?}: other code");
            }
            suite::assert_all_served(&suite::run(scenario, env, &work), 12);
        });
    }
}
