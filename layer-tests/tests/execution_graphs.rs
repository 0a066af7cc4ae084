//! Execution graphs (VK_AMDX_shader_enqueue) on a driver that has them: passed by, and counted by name.

use std::ptr;

use ash::{amdx, khr, vk};
use serde_json::{Value, json};

use vkstash_layer_tests::child::scenario;
use vkstash_layer_tests::env::Driver;
use vkstash_layer_tests::vulkan::{Device, DeviceOptions, Instance, InstanceOptions, spirv};

/// VK_PIPELINE_CREATE_2_EXECUTION_GRAPH_BIT_AMDX, of the extension's second revision.
const EXECUTION_GRAPH: u64 = 1 << 32;

/// The step: creates a graph of one node with a cache. Null if the driver lacks the extension; else the result, whether
/// there is a handle, and the length of the cache's data.
fn graph(_: &Value) -> Value {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let has = instance.device_extensions(instance.physical_device());
    let wanted = [amdx::shader_enqueue::NAME, khr::maintenance5::NAME, khr::pipeline_library::NAME];
    if !wanted.iter().all(|name| has.iter().any(|has| has.as_c_str() == *name)) {
        return Value::Null;
    }
    let features = vk::StructureType::PHYSICAL_DEVICE_SHADER_ENQUEUE_FEATURES_AMDX;
    let options = DeviceOptions {
        maintenance5: true,
        extensions: vec![amdx::shader_enqueue::NAME, khr::pipeline_library::NAME],
        switches: vec![(features, vec![true, false])],
        ..DeviceOptions::default()
    };
    let device = Device::new(&instance, &options).unwrap();
    let cache = device.cache(&[]);
    let mut node = vk::PipelineShaderStageNodeCreateInfoAMDX::default().name(c"main");
    let stage = [vk::PipelineShaderStageCreateInfo::default()
        .stage(vk::ShaderStageFlags::COMPUTE)
        .module(device.module(&spirv::compute(1)))
        .name(c"main")
        .push_next(&mut node)];
    let flags = vk::PipelineCreateFlags2CreateInfoKHR::default()
        .flags(vk::PipelineCreateFlags2KHR::from_raw(EXECUTION_GRAPH));
    let mut info = vk::ExecutionGraphPipelineCreateInfoAMDX::default()
        .stages(&stage)
        .layout(device.compute_layout());
    info.p_next = ptr::from_ref(&flags).cast();
    let commands = amdx::shader_enqueue::Device::new(&instance.raw, &device.raw);
    let mut made = [vk::Pipeline::null()];
    // SAFETY: a valid create info, a live cache and room for one handle, which is destroyed once.
    let result = unsafe {
        let create = commands.fp().create_execution_graph_pipelines_amdx;
        let result = create(device.raw.handle(), cache, 1, &info, ptr::null(), made.as_mut_ptr());
        device.raw.destroy_pipeline(made[0], None);
        result
    };
    let length = device.cache_data(cache).len();
    device.destroy_cache(cache);
    json!([result.as_raw(), made[0] != vk::Pipeline::null(), length])
}

#[test]
fn a_graph_of_a_real_driver_is_counted_by_name_and_its_cache_is_as_without_the_layer() {
    scenario(&[("graph", graph)], |scenario| {
        let mut tested = 0;
        for driver in [Driver::Radv, Driver::Lavapipe, Driver::Machine] {
            let Some(env) = scenario.on(driver.clone()) else { continue };
            let without = scenario.run_ok::<Value>("graph", &env.clone().without_layer(), &()).value;
            if without.is_null() {
                eprintln!("{} has no execution graphs", driver.name());
                continue;
            }
            assert_eq!((&without[0], &without[1]), (&json!(0), &json!(true)), "{}", driver.name());
            for _ in 0..2 {
                let run = scenario.run_ok::<Value>("graph", &env, &());
                assert_eq!(run.value, without, "{}", driver.name());
                let bypassed = run.reports.bypassed();
                let bypassed: Vec<_> = bypassed.iter().map(|b| (b.reason.as_str(), b.s_type, b.count)).collect();
                let s_type = vk::StructureType::EXECUTION_GRAPH_PIPELINE_CREATE_INFO_AMDX.as_raw();
                assert_eq!(bypassed, [("not_cacheable", s_type, 1)], "{}", driver.name());
            }
            tested += 1;
        }
        if tested == 0 {
            scenario.skip("no driver has VK_AMDX_shader_enqueue");
        }
    });
}
