//! The programmable driver itself, through the loader and without the layer: its behaviour, and the violations that
//! it detects.

use std::ptr;
use std::sync::Arc;

use ash::{ext, khr, vk};
use serde_json::{Value, json};

use vkstash_layer_tests::child::{Step, scenario};
use vkstash_layer_tests::env::{Driver, Layer};
use vkstash_layer_tests::test_driver::TestDriver;
use vkstash_layer_tests::vulkan::{Device, DeviceOptions, Instance, InstanceOptions, binaries, spirv};

fn on(driver: Value, step: Step) -> Value {
    let mut value = Value::Null;
    scenario(&[("step", step)], |scenario| {
        let Some(env) = scenario.on(Driver::Test(driver)) else { return };
        value = scenario.run_ok::<Value>("step", &env.layer(Layer::Off), &Value::Null).value;
        assert_eq!(value["violations"], value["expected"], "{value}");
    });
    value
}

/// The driver's violations, and the expected ones.
fn seen(device: Device, instance: Arc<Instance>, expected: &[&str]) -> Value {
    drop(device);
    let record = TestDriver::open().take_record();
    drop(instance);
    json!({ "violations": record["violations"], "expected": expected, "compiles": record["compiles"] })
}

fn with_binaries(instance: &Arc<Instance>) -> Device {
    let physical = instance.physical_device();
    let mut five = vk::PhysicalDeviceMaintenance5FeaturesKHR::default().maintenance5(true);
    let features = binaries::Features::on(ptr::from_mut(&mut five).cast());
    let queue = [vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0])];
    let names = [khr::maintenance5::NAME.as_ptr(), binaries::NAME.as_ptr()];
    let mut info = vk::DeviceCreateInfo::default().queue_create_infos(&queue).enabled_extension_names(&names);
    info.p_next = ptr::from_ref(&features).cast();
    // SAFETY: a live physical device and a valid create info.
    let raw = unsafe { instance.raw.create_device(physical, &info, None) }.unwrap();
    Device::adopt(instance, physical, raw)
}

fn binaries_step(_: &Value) -> Value {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let device = with_binaries(&instance);
    let stage = vk::PipelineShaderStageCreateInfo::default()
        .stage(vk::ShaderStageFlags::COMPUTE)
        .module(device.module(&spirv::compute(1)))
        .name(c"main");
    let mut flags = vk::PipelineCreateFlags2CreateInfoKHR::default()
        .flags(vk::PipelineCreateFlags2KHR::from_raw(binaries::CAPTURE_DATA));
    let plain = vk::ComputePipelineCreateInfo::default().stage(stage).layout(device.compute_layout());
    let create = |info, cache| {
        // SAFETY: a valid create info.
        let (result, made) = unsafe { device.create_compute(cache, &[info]) };
        assert_eq!(result, vk::Result::SUCCESS);
        made[0]
    };
    let pipeline = create(plain.push_next(&mut flags), vk::PipelineCache::null());
    let made = binaries::captured(&device, pipeline).unwrap();
    assert_eq!(made.len(), 1);
    let (_, _, _, size) = binaries::data(&device, made[0], None);
    assert!(size > 0);
    let (short, _, untouched, told) = binaries::data(&device, made[0], Some(size - 1));
    assert_eq!((short, told), (binaries::NOT_ENOUGH_SPACE, size));
    assert!(untouched.iter().all(|&byte| byte == 0));
    let (result, key, mut data, _) = binaries::data(&device, made[0], Some(size));
    assert_eq!(result, vk::Result::SUCCESS);
    let again = binaries::stored(&device, &key, &data).unwrap();
    // Without any code: the binaries are the pipeline.
    let binary_info = binaries::Info::new(&again);
    let mut bare = plain;
    bare.stage.module = vk::ShaderModule::null();
    bare.p_next = ptr::from_ref(&binary_info).cast();
    create(bare, vk::PipelineCache::null());
    let cache = device.cache(&[]);
    create(bare, cache);
    device.destroy_cache(cache);
    data[50] ^= 1;
    assert!(binaries::stored(&device, &key, &data).is_err());
    assert_eq!(binaries::release(&device, pipeline), vk::Result::SUCCESS);
    assert_eq!(binaries::release(&device, pipeline), vk::Result::SUCCESS);
    made.iter().chain(&again).for_each(|&binary| binaries::destroy(&device, binary));
    seen(
        device,
        instance,
        &[
            "vkCreateComputePipelines: binaries with a pipeline cache (09616)",
            "vkCreatePipelineBinariesKHR: damaged, stale or foreign data",
            "vkReleaseCapturedPipelineDataKHR: nothing is captured, or not any more (09613, 09618)",
        ],
    )
}

#[test]
fn binaries_make_pipelines_without_code_and_wrong_uses_are_noticed() {
    let seen = on(json!({ "pipeline_binary": true }), binaries_step);
    assert!(seen.is_null() || seen["compiles"] == 1, "{seen}");
}

fn shader_objects_step(_: &Value) -> Value {
    use vkstash_layer_tests::vulkan::shader_objects::{Binary, Code, Shader, binary, create, destroy};
    use vkstash_layer_tests::vulkan::shader_objects::{device_options, try_binary};
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let device = Device::new(&instance, &device_options()).unwrap();
    let stages =
        [vk::ShaderStageFlags::VERTEX, vk::ShaderStageFlags::FRAGMENT, vk::ShaderStageFlags::empty()];
    let make = |codes: [Code; 2]| {
        let shader = |(at, code)| Shader {
            stage: stages[at],
            next: stages[at + 1],
            linked: true,
            code,
            constant: None,
        };
        let pair: Vec<_> = codes.into_iter().enumerate().map(shader).collect();
        // SAFETY: a live device with the extension.
        unsafe { create(&device, &[], &pair) }
    };
    let words = |number| [Code::Spirv(spirv::vertex(number)), Code::Spirv(spirv::fragment(number))];
    let (first, second) = (make(words(1.0)), make(words(2.0)));
    assert_eq!([first.0, second.0], [vk::Result::SUCCESS; 2]);
    // SAFETY: live shaders.
    let of = |shaders: &[vk::ShaderEXT]| [0, 1].map(|at| unsafe { binary(&device, shaders[at]) });
    let [vertex, fragment] = of(&first.1);
    let [_, other] = of(&second.1);
    let with = |fragment: &Binary| make([Code::Binary(vertex.clone()), Code::Binary(fragment.clone())]);
    let again = with(&fragment);
    assert_eq!((again.0, of(&again.1)), (vk::Result::SUCCESS, [vertex.clone(), fragment.clone()]));
    let mut damaged = fragment.bytes();
    damaged[60] ^= 1;
    let refused = (vk::Result::INCOMPATIBLE_SHADER_BINARY_EXT, vec![vk::ShaderEXT::null(); 2]);
    for wrong in [&other, &vertex, &Binary::of(&damaged), &Binary::of(&fragment.bytes()[..100])] {
        assert_eq!(with(wrong), refused);
    }
    let mixed = make([Code::Binary(vertex.clone()), Code::Spirv(spirv::fragment(1.0))]);
    // SAFETY: each is destroyed once; the driver notices that a shader is asked for that is not there any more.
    let asked = unsafe {
        [&first, &second, &again, &mixed].iter().for_each(|made| destroy(&device, &made.1));
        try_binary(&device, first.1[0])
    };
    assert_eq!(asked, Err(vk::Result::ERROR_UNKNOWN));
    let gone = vk::Handle::as_raw(first.1[0]);
    let gone = format!("vkGetShaderBinaryDataEXT: VkShaderEXT {gone:#x} is unknown or destroyed");
    seen(device, instance, &["vkCreateShadersEXT: shaders of SPIR-V and of binaries are linked", &gone])
}

#[test]
fn binaries_make_shader_objects_with_those_that_they_were_linked_with() {
    // The step's binaries go before its shaders.
    let seen = on(json!({ "shader_object": true, "keeps_shader_code": false }), shader_objects_step);
    // Two pairs, and one shader of the pair that is mixed.
    assert!(seen.is_null() || seen["compiles"] == 5, "{seen}");
}

fn deferral_step(_: &Value) -> Value {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let extensions = vec![khr::deferred_host_operations::NAME, khr::ray_tracing_pipeline::NAME];
    let device = Device::new(&instance, &DeviceOptions { extensions, ..Default::default() }).unwrap();
    let deferred = khr::deferred_host_operations::Device::new(&instance.raw, &device.raw);
    let rays = khr::ray_tracing_pipeline::Device::new(&instance.raw, &device.raw);
    let stage = [vk::PipelineShaderStageCreateInfo::default()
        .stage(vk::ShaderStageFlags::RAYGEN_KHR)
        .module(device.module(&spirv::ray_generation()))
        .name(c"main")];
    let layout = device.empty_layout();
    let make = |depth| {
        vk::RayTracingPipelineCreateInfoKHR::default()
            .stages(&stage)
            .max_pipeline_ray_recursion_depth(depth)
            .layout(layout)
    };
    let mut infos = [make(1), make(2), make(3)];
    let mut out = [vk::Pipeline::null(); 3];
    // SAFETY: valid create infos that outlive the joins; pipelines and operations are destroyed once.
    unsafe {
        let operation = deferred.create_deferred_operation(None).unwrap();
        let start = |infos: &[vk::RayTracingPipelineCreateInfoKHR<'_>], out: *mut vk::Pipeline| {
            let create = rays.fp().create_ray_tracing_pipelines_khr;
            let cache = vk::PipelineCache::null();
            let count = infos.len() as u32;
            create(device.raw.handle(), operation, cache, count, infos.as_ptr(), ptr::null(), out)
        };
        let join = || (deferred.fp().deferred_operation_join_khr)(device.raw.handle(), operation);
        let result = || (deferred.fp().get_deferred_operation_result_khr)(device.raw.handle(), operation);
        assert_eq!(start(&infos, out.as_mut_ptr()), vk::Result::OPERATION_DEFERRED_KHR);
        assert_eq!(deferred.get_deferred_operation_max_concurrency(operation), 3);
        assert_eq!((result(), out), (vk::Result::NOT_READY, [vk::Pipeline::null(); 3]));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let joined = join();
                    assert!([vk::Result::SUCCESS, vk::Result::THREAD_DONE_KHR].contains(&joined));
                });
            }
        });
        assert_eq!(result(), vk::Result::SUCCESS);
        for pipeline in out {
            assert_ne!(pipeline, vk::Pipeline::null());
            device.raw.destroy_pipeline(pipeline, None);
        }
        // A change before the join is a violation, and so is the operation's destruction before the join.
        assert_eq!(start(&infos[..1], out.as_mut_ptr()), vk::Result::OPERATION_DEFERRED_KHR);
        infos[0].max_pipeline_ray_recursion_depth = 9;
        assert_eq!(join(), vk::Result::SUCCESS);
        device.raw.destroy_pipeline(out[0], None);
        assert_eq!(start(&infos[..1], out.as_mut_ptr()), vk::Result::OPERATION_DEFERRED_KHR);
        deferred.destroy_deferred_operation(operation, None);
    }
    seen(
        device,
        instance,
        &[
            "vkDeferredOperationJoinKHR: the create infos changed before the join",
            "vkDestroyDeferredOperationKHR: the operation is not done (03436)",
        ],
    )
}

#[test]
fn deferred_pipelines_are_made_by_the_threads_that_join() {
    on(json!({ "deferral": "always" }), deferral_step);
}

fn handles_step(_: &Value) -> Value {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let device = Device::new(&instance, &DeviceOptions::default()).unwrap();
    let first = device.cache(&[]);
    device.destroy_cache(first);
    let second = device.cache(&[]);
    assert_eq!(first, second);
    device.destroy_cache(second);
    // Each is destroyed with the device, once for each creation.
    let code = spirv::compute(1);
    assert_eq!(device.module(&code), device.module(&code));
    assert_ne!(device.module(&code), device.module(&spirv::compute(2)));
    seen(device, instance, &[])
}

#[test]
fn handles_are_reused_and_shared_if_the_script_says_so() {
    on(json!({ "reuse_handles": true, "equal_handles": true }), handles_step);
}

fn libraries_step(_: &Value) -> Value {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let extensions = vec![khr::pipeline_library::NAME, ext::graphics_pipeline_library::NAME];
    let device = Device::new(&instance, &DeviceOptions { extensions, ..Default::default() }).unwrap();
    let cache = device.cache(&[]);
    let make = |flags, subsets: vk::GraphicsPipelineLibraryFlagsEXT, libraries: &[vk::Pipeline]| {
        let mut part = vk::GraphicsPipelineLibraryCreateInfoEXT::default().flags(subsets);
        let mut linked = vk::PipelineLibraryCreateInfoKHR::default().libraries(libraries);
        let input = vk::PipelineVertexInputStateCreateInfo::default();
        let assembly = vk::PipelineInputAssemblyStateCreateInfo::default();
        let mut info = vk::GraphicsPipelineCreateInfo::default()
            .flags(flags)
            .vertex_input_state(&input)
            .input_assembly_state(&assembly);
        if !subsets.is_empty() {
            info = info.push_next(&mut part);
        }
        if !libraries.is_empty() {
            info = info.push_next(&mut linked);
        }
        // SAFETY: create infos with valid pointers; the driver reports other mistakes.
        unsafe { device.create_graphics(cache, &[info]) }.1[0]
    };
    let library = vk::PipelineCreateFlags::LIBRARY_KHR;
    let linked_late = vk::PipelineCreateFlags::LINK_TIME_OPTIMIZATION_EXT;
    let input = vk::GraphicsPipelineLibraryFlagsEXT::VERTEX_INPUT_INTERFACE;
    let none = vk::GraphicsPipelineLibraryFlagsEXT::empty();
    let part = make(library, input, &[]);
    let after_library = device.cache_data(cache).len();
    make(library, none, &[part]);
    let after_link = device.cache_data(cache).len();
    make(library, none, &[part, part]);
    make(library | linked_late, none, &[part]);
    let whole = make(vk::PipelineCreateFlags::empty(), none, &[part]);
    make(library, none, &[whole]);
    device.destroy_cache(cache);
    let mut seen = seen(
        device,
        instance,
        &[
            "vkCreateGraphicsPipelines: a subset is there twice",
            "vkCreateGraphicsPipelines: a library did not retain what link time optimization needs",
            "vkCreateGraphicsPipelines: a subset is missing",
            "vkCreateGraphicsPipelines: a linked pipeline is no library",
        ],
    );
    seen["sizes"] = json!([after_library, after_link]);
    seen
}

#[test]
fn libraries_and_links_are_checked_and_cached_as_the_script_says() {
    let header = 36;
    let sizes = |config| on(config, libraries_step)["sizes"].as_array().cloned();
    let all = sizes(json!({ "caches_fast_links": true }));
    let most = sizes(json!({}));
    let none = sizes(json!({ "caches_libraries": false }));
    let (Some(all), Some(most), Some(none)) = (all, most, none) else { return };
    assert!(all[0].as_u64() > Some(header) && all[1].as_u64() > all[0].as_u64(), "{all:?}");
    assert!(most[0].as_u64() > Some(header) && most[1] == most[0], "{most:?}");
    assert_eq!(none, [json!(header), json!(header)]);
}

fn switches_step(_: &Value) -> Value {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let physical = instance.physical_device();
    assert!(!instance.has(physical, ext::graphics_pipeline_library::NAME));
    assert!(instance.has(physical, khr::ray_tracing_pipeline::NAME));
    let mut libraries = vk::PhysicalDeviceGraphicsPipelineLibraryFeaturesEXT::default();
    let mut features = vk::PhysicalDeviceFeatures2::default().push_next(&mut libraries);
    // SAFETY: a live physical device and a valid chain.
    unsafe { instance.raw.get_physical_device_features2(physical, &mut features) };
    assert_eq!(libraries.graphics_pipeline_library, vk::FALSE);
    let device = Device::new(&instance, &DeviceOptions::default()).unwrap();
    seen(device, instance, &[])
}

#[test]
fn a_disabled_extension_is_missing_with_its_feature() {
    on(json!({ "without": ["VK_EXT_graphics_pipeline_library"] }), switches_step);
}
