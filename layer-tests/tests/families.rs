//! The rarer kinds of pipelines: graphics pipeline libraries and their links, ray tracing, and two drivers in
//! one instance.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends at the first surprise")]

use std::ptr;

use ash::{ext, khr, vk};
use serde_json::{Value, json};

use vkstash_layer_tests::child::{Scenario, scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::vulkan::{Device, DeviceOptions, Instance, InstanceOptions, spirv};
use vkstash_layer_tests::work::{self, Code, Shader, Work};

fn on_each(drivers: &[Driver], step: fn(&Value) -> Value, test: impl Fn(&Scenario, &Env)) {
    scenario(&[("step", step), ("work", work::step)], |scenario| {
        for driver in drivers {
            if let Some(env) = scenario.on(driver.clone()) {
                test(scenario, &env);
            }
        }
    });
}

/// Two libraries, vertex input with fragment output and both shaders, and their link. Says what was made, and
/// hands over the cache's data.
fn libraries(_: &Value) -> Value {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let physical = instance.physical_device();
    let mut feature =
        vk::PhysicalDeviceGraphicsPipelineLibraryFeaturesEXT::default().graphics_pipeline_library(true);
    let mut thirteen = vk::PhysicalDeviceVulkan13Features::default().dynamic_rendering(true);
    let queue = [vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0])];
    let names = [khr::pipeline_library::NAME.as_ptr(), ext::graphics_pipeline_library::NAME.as_ptr()];
    let info = vk::DeviceCreateInfo::default()
        .queue_create_infos(&queue)
        .enabled_extension_names(&names)
        .push_next(&mut thirteen)
        .push_next(&mut feature);
    // SAFETY: a live physical device and a valid create info.
    let raw = unsafe { instance.raw.create_device(physical, &info, None) }.unwrap();
    let device = Device::adopt(&instance, physical, raw);
    let layout = device.empty_layout();
    let cache = device.cache(&[]);

    let formats = [vk::Format::R8G8B8A8_UNORM];
    let rendering = || vk::PipelineRenderingCreateInfo::default().color_attachment_formats(&formats);
    let states = [vk::DynamicState::VIEWPORT, vk::DynamicState::SCISSOR];
    let dynamic = vk::PipelineDynamicStateCreateInfo::default().dynamic_states(&states);
    let multisample =
        vk::PipelineMultisampleStateCreateInfo::default().rasterization_samples(vk::SampleCountFlags::TYPE_1);
    let attachments = [vk::PipelineColorBlendAttachmentState::default()];
    let blend = vk::PipelineColorBlendStateCreateInfo::default().attachments(&attachments);
    let vertex_input = vk::PipelineVertexInputStateCreateInfo::default();
    let assembly =
        vk::PipelineInputAssemblyStateCreateInfo::default().topology(vk::PrimitiveTopology::TRIANGLE_LIST);
    let mut edges = vk::GraphicsPipelineLibraryCreateInfoEXT::default().flags(
        vk::GraphicsPipelineLibraryFlagsEXT::VERTEX_INPUT_INTERFACE
            | vk::GraphicsPipelineLibraryFlagsEXT::FRAGMENT_OUTPUT_INTERFACE,
    );
    let mut edge_rendering = rendering();
    let mut edge = vk::GraphicsPipelineCreateInfo::default()
        .flags(vk::PipelineCreateFlags::LIBRARY_KHR)
        .vertex_input_state(&vertex_input)
        .input_assembly_state(&assembly)
        .multisample_state(&multisample)
        .color_blend_state(&blend)
        .push_next(&mut edges)
        .push_next(&mut edge_rendering);
    // Not of this library's subsets: nobody may read them (contract 6). RADV counts stages all the same.
    edge.p_stages = ptr::without_provenance(usize::MAX);
    edge.p_rasterization_state = ptr::without_provenance(usize::MAX);
    edge.p_viewport_state = ptr::without_provenance(usize::MAX);

    let stage = |stage, code: &[u32]| {
        vk::PipelineShaderStageCreateInfo::default().stage(stage).module(device.module(code)).name(c"main")
    };
    let stages = [
        stage(vk::ShaderStageFlags::VERTEX, &spirv::vertex(0.5)),
        stage(vk::ShaderStageFlags::FRAGMENT, &spirv::fragment(0.25)),
    ];
    let mut viewport = vk::PipelineViewportStateCreateInfo::default().viewport_count(1).scissor_count(1);
    viewport.p_viewports = ptr::without_provenance(usize::MAX);
    let raster = vk::PipelineRasterizationStateCreateInfo::default().line_width(1.0);
    let depth = vk::PipelineDepthStencilStateCreateInfo::default();
    let mut shaders = vk::GraphicsPipelineLibraryCreateInfoEXT::default().flags(
        vk::GraphicsPipelineLibraryFlagsEXT::PRE_RASTERIZATION_SHADERS
            | vk::GraphicsPipelineLibraryFlagsEXT::FRAGMENT_SHADER,
    );
    let mut shader_rendering = rendering();
    let shader = vk::GraphicsPipelineCreateInfo::default()
        .flags(vk::PipelineCreateFlags::LIBRARY_KHR)
        .stages(&stages)
        .viewport_state(&viewport)
        .rasterization_state(&raster)
        .multisample_state(&multisample)
        .depth_stencil_state(&depth)
        .dynamic_state(&dynamic)
        .layout(layout)
        .push_next(&mut shaders)
        .push_next(&mut shader_rendering);

    // SAFETY: valid create infos; what is wild may not be read.
    let (result, parts) = unsafe { device.create_graphics(cache, &[edge, shader]) };
    assert_eq!(result, vk::Result::SUCCESS);
    let mut linked = vk::PipelineLibraryCreateInfoKHR::default().libraries(&parts);
    let mut link = vk::GraphicsPipelineCreateInfo::default().layout(layout).push_next(&mut linked);
    link.p_stages = ptr::without_provenance(usize::MAX);
    // SAFETY: as above.
    let (result, whole) = unsafe { device.create_graphics(cache, &[link]) };
    let data = device.cache_data(cache);
    device.destroy_cache(cache);
    json!({ "result": result.as_raw(), "made": whole[0] != vk::Pipeline::null(), "data": data.len() })
}

#[test]
fn a_library_with_shaders_is_served_and_the_rest_costs_nothing() {
    on_each(&[Driver::Radv, Driver::Lavapipe], libraries, |scenario, env| {
        let without = scenario.run_ok::<Value>("step", &env.clone().without_layer(), &()).value;
        assert_eq!(without["result"], 0);
        for (run, what) in ["compiled", "served"].into_iter().enumerate() {
            let with = scenario.run_ok::<Value>("step", env, &());
            assert_eq!((&with.value["result"], &with.value["made"]), (&json!(0), &json!(true)));
            assert!(with.reports.bypassed().is_empty(), "{:?}", with.reports.bypassed());
            // On a driver whose cache data is empty nothing is described at all.
            if *env.driver() == Driver::Radv {
                assert_eq!(with.reports.sum(what), 1, "run {run}");
                assert_eq!(with.reports.sum("nothing_to_compile"), 2, "run {run}");
            } else {
                assert_eq!(with.value, without);
            }
        }
    });
}

/// Both drivers in one instance: one lacks identifiers, the other has its own.
fn two_drivers(_: &Value) -> Value {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let devices = instance.physical_devices();
    let options = DeviceOptions { identifiers: true, cache_control: true, ..Default::default() };
    let open = devices.iter().map(|&physical| Device::on(&instance, physical, &options).unwrap());
    let open: Vec<_> = open.collect();
    let about = |device: &Device| {
        let made = Work::default().run(device).all_made();
        let work = Work { code: Code::Identifier, shader: Shader::Compute, ..Work::default() };
        let by_identifier = work.run(device).made;
        let (feature, uuid) = instance.identifier_support(device.physical);
        json!({
            "name": instance.properties(device.physical).device_name_as_c_str().unwrap().to_str().unwrap(),
            "made": made,
            "by_identifier": by_identifier,
            "feature": feature,
            "uuid": uuid,
            "size": device.identifier_of_code(&spirv::compute(1)).len(),
        })
    };
    json!(open.iter().map(about).collect::<Vec<_>>())
}

#[test]
fn two_drivers_in_one_instance_keep_to_themselves() {
    on_each(&[Driver::Lavapipe], two_drivers, |scenario, env| {
        if scenario.on(Driver::Radv).is_none() {
            return;
        }
        let folder = "/usr/share/vulkan/icd.d";
        let find = |prefix: &str| {
            let names = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
            let fits = |path: &std::path::PathBuf| path.to_string_lossy().contains(prefix);
            names.filter(fits).min().unwrap().to_string_lossy().into_owned()
        };
        let both = format!("{}:{}", find("/lvp_icd"), find("/radeon_icd"));
        let env = env.clone().var("VK_ICD_FILENAMES", &both).var("VK_DRIVER_FILES", &both);
        let env = env.var("RADV_FORCE_FAMILY", "navi21");
        for _ in 0..2 {
            let devices = scenario.run_ok::<Vec<Value>>("step", &env, &()).value;
            assert_eq!(devices.len(), 2, "{devices:?}");
            let (radv, lavapipe): (Vec<_>, Vec<_>) =
                devices.iter().partition(|device| device["name"].as_str().unwrap().contains("RADV"));
            assert_eq!(radv[0]["by_identifier"], json!([true, true, true]), "{radv:?}");
            assert_eq!(lavapipe[0]["by_identifier"], json!([false, false, false]), "{lavapipe:?}");
            assert_eq!((&lavapipe[0]["size"], &lavapipe[0]["feature"]), (&json!(32), &json!(true)));
            assert_ne!(radv[0]["uuid"], lavapipe[0]["uuid"]);
            assert!(devices.iter().all(|device| device["made"] == true), "{devices:?}");
        }
    });
}

/// Ray tracing pipelines: one at once, one through a deferred operation.
fn ray_tracing(_: &Value) -> Value {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let physical = instance.physical_device();
    let names = [
        khr::ray_tracing_pipeline::NAME,
        khr::acceleration_structure::NAME,
        khr::deferred_host_operations::NAME,
    ];
    if !names.iter().all(|name| instance.has(physical, name)) {
        return json!(null);
    }
    let mut feature = vk::PhysicalDeviceRayTracingPipelineFeaturesKHR::default().ray_tracing_pipeline(true);
    let mut structures =
        vk::PhysicalDeviceAccelerationStructureFeaturesKHR::default().acceleration_structure(true);
    let mut twelve = vk::PhysicalDeviceVulkan12Features::default().buffer_device_address(true);
    let queue = [vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0])];
    let names = names.map(std::ffi::CStr::as_ptr);
    let info = vk::DeviceCreateInfo::default()
        .queue_create_infos(&queue)
        .enabled_extension_names(&names)
        .push_next(&mut twelve)
        .push_next(&mut structures)
        .push_next(&mut feature);
    // SAFETY: a live physical device and a valid create info.
    let raw = unsafe { instance.raw.create_device(physical, &info, None) }.unwrap();
    let device = Device::adopt(&instance, physical, raw);
    let rays = khr::ray_tracing_pipeline::Device::new(&instance.raw, &device.raw);
    let deferring = khr::deferred_host_operations::Device::new(&instance.raw, &device.raw);
    let module = device.module(&spirv::ray_generation());
    let stages = [vk::PipelineShaderStageCreateInfo::default()
        .stage(vk::ShaderStageFlags::RAYGEN_KHR)
        .module(module)
        .name(c"main")];
    let groups = [vk::RayTracingShaderGroupCreateInfoKHR::default()
        .ty(vk::RayTracingShaderGroupTypeKHR::GENERAL)
        .general_shader(0)
        .closest_hit_shader(vk::SHADER_UNUSED_KHR)
        .any_hit_shader(vk::SHADER_UNUSED_KHR)
        .intersection_shader(vk::SHADER_UNUSED_KHR)];
    let info = [vk::RayTracingPipelineCreateInfoKHR::default()
        .stages(&stages)
        .groups(&groups)
        .max_pipeline_ray_recursion_depth(1)
        .layout(device.empty_layout())];
    let cache = device.cache(&[]);
    let create = |deferred| {
        let mut pipeline = vk::Pipeline::null();
        let create = rays.fp().create_ray_tracing_pipelines_khr;
        let device = device.raw.handle();
        // SAFETY: valid create infos that outlive the deferred operation, which is joined below.
        let result = unsafe { create(device, deferred, cache, 1, info.as_ptr(), ptr::null(), &mut pipeline) };
        (result, pipeline)
    };
    // SAFETY: each operation is joined until it is complete before it and its pipeline are destroyed.
    unsafe {
        let at_once = create(vk::DeferredOperationKHR::null());
        let operation = deferring.create_deferred_operation(None).unwrap();
        let later = create(operation);
        while deferring.deferred_operation_join(operation).is_err() {}
        deferring.destroy_deferred_operation(operation, None);
        let data = device.cache_data(cache).len();
        device.destroy_cache(cache);
        for (_, pipeline) in [at_once, later] {
            device.raw.destroy_pipeline(pipeline, None);
        }
        json!([at_once.0.as_raw(), later.0.as_raw(), data])
    }
}

#[test]
fn ray_tracing_pipelines_are_served_deferred_or_not() {
    on_each(&[Driver::Radv], ray_tracing, |scenario, env| {
        let without = scenario.run_ok::<Value>("step", &env.clone().without_layer(), &()).value;
        if without.is_null() {
            return scenario.skip("RADV: no ray tracing");
        }
        let not_deferred = vk::Result::OPERATION_NOT_DEFERRED_KHR.as_raw();
        for (compiled, served) in [(1, 1), (0, 2)] {
            let with = scenario.run_ok::<Value>("step", env, &());
            assert_eq!(with.value[0], 0);
            assert_eq!(with.value[1], not_deferred, "what is there already is handed out at once");
            assert!(with.reports.bypassed().is_empty(), "{:?}", with.reports.bypassed());
            assert_eq!(with.reports.sum("compiled"), compiled);
            assert_eq!(with.reports.sum("served") + with.reports.sum("driver_had"), served);
        }
    });
}
