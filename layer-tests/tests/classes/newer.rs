//! Pipelines of extensions that no driver here has: recorded, or passed by and counted by name.

use std::ffi::c_void;
use std::ptr;

use ash::vk;
use serde_json::{Value, json};
use vkstash_layer_tests::child::scenario;
use vkstash_layer_tests::env::Driver;
use vkstash_layer_tests::vulkan::spirv;
use vkstash_model::newer::CustomResolveCreateInfoEXT;

use super::draft::{Draft, FORMAT};
use super::rays::Rays;
use super::rig::{Options, Rig, keep, keep_all};

type Make = fn(&Rays, vk::PipelineCache) -> (vk::Result, vk::Pipeline);

const INDIRECT_BINDABLE: u64 = 1 << 38;
const EXECUTION_GRAPH: u64 = 1 << 32;

/// Pipelines of which each is another one for the driver.
const RECORDED: &[Make] = &[
    |rays, cache| rays.make(cache, rays.plain(1)),
    |rays, cache| {
        let flags = vk::PipelineCreateFlags::RAY_TRACING_OPACITY_MICROMAP_EXT;
        rays.make(cache, rays.plain(1).flags(flags))
    },
    |rays, cache| clusters(rays, cache, vk::FALSE),
    |rays, cache| clusters(rays, cache, vk::TRUE),
    |rays, cache| compute(rays, cache, flags(0)),
    |rays, cache| compute(rays, cache, flags(INDIRECT_BINDABLE)),
    |rays, cache| compute(rays, cache, flags(vk::PipelineCreateFlags::INDIRECT_BINDABLE_NV.as_raw().into())),
    |rays, cache| graphics(rays, cache, flags(0)),
    |rays, cache| graphics(rays, cache, flags(INDIRECT_BINDABLE)),
    |rays, cache| graphics(rays, cache, resolve(vk::FALSE, vk::Format::UNDEFINED)),
    |rays, cache| graphics(rays, cache, resolve(vk::TRUE, vk::Format::UNDEFINED)),
    |rays, cache| graphics(rays, cache, resolve(vk::TRUE, vk::Format::D32_SFLOAT)),
];

/// Pipelines that are passed by, with the structure that they are counted by.
const PASSED_BY: &[(vk::StructureType, Make)] = &[
    (vk::StructureType::GRAPHICS_PIPELINE_SHADER_GROUPS_CREATE_INFO_NV, |rays, cache| {
        let groups = vk::GraphicsPipelineShaderGroupsCreateInfoNV::default();
        graphics(rays, cache, ptr::from_ref(keep(groups)).cast())
    }),
    (vk::StructureType::COMPUTE_PIPELINE_INDIRECT_BUFFER_INFO_NV, |rays, cache| {
        let buffer = vk::ComputePipelineIndirectBufferInfoNV::default();
        compute(rays, cache, ptr::from_ref(keep(buffer)).cast())
    }),
    (vk::StructureType::PIPELINE_SHADER_STAGE_NODE_CREATE_INFO_AMDX, |rays, cache| {
        compute(rays, cache, flags(EXECUTION_GRAPH))
    }),
];

fn flags(flags: u64) -> *const c_void {
    let flags = vk::PipelineCreateFlags2KHR::from_raw(flags);
    ptr::from_ref(keep(vk::PipelineCreateFlags2CreateInfoKHR::default().flags(flags))).cast()
}

fn resolve(custom_resolve: vk::Bool32, depth_attachment_format: vk::Format) -> *const c_void {
    let info = CustomResolveCreateInfoEXT {
        s_type: vk::StructureType::from_raw(1_000_628_002),
        p_next: ptr::null(),
        custom_resolve,
        color_attachment_count: 1,
        p_color_attachment_formats: keep_all([FORMAT]).as_ptr(),
        depth_attachment_format,
        stencil_attachment_format: vk::Format::UNDEFINED,
    };
    ptr::from_ref(keep(info)).cast()
}

/// With VkRayTracingPipelineClusterAccelerationStructureCreateInfoNV, which is newer than the bindings.
fn clusters(rays: &Rays, cache: vk::PipelineCache, allowed: vk::Bool32) -> (vk::Result, vk::Pipeline) {
    #[repr(C)]
    struct Clusters {
        s_type: i32,
        p_next: *const c_void,
        allowed: vk::Bool32,
    }
    let mut info = rays.plain(1);
    info.p_next =
        ptr::from_ref(keep(Clusters { s_type: 1_000_569_007, p_next: ptr::null(), allowed })).cast();
    rays.make(cache, info)
}

fn compute(rays: &Rays, cache: vk::PipelineCache, p_next: *const c_void) -> (vk::Result, vk::Pipeline) {
    let stage = rays.rig.stage(vk::ShaderStageFlags::COMPUTE, &spirv::compute(1));
    let layout = rays.rig.device.compute_layout();
    let info = vk::ComputePipelineCreateInfo { stage, layout, p_next, ..Default::default() };
    // SAFETY: a valid create info.
    let (result, made) = unsafe { rays.rig.device.create_compute(cache, &[info]) };
    (result, made[0])
}

/// A plain pipeline whose chain begins with `structure`.
fn graphics(rays: &Rays, cache: vk::PipelineCache, structure: *const c_void) -> (vk::Result, vk::Pipeline) {
    let mut info = Draft::new(&rays.rig).complete();
    let first: *mut vk::BaseOutStructure<'static> = structure.cast_mut().cast();
    // SAFETY: the structures of `keep` are this process's own, stay, and have no successor yet.
    unsafe { (*first).p_next = info.p_next.cast_mut().cast() };
    info.p_next = structure;
    rays.rig.graphics(cache, info)
}

/// The step: makes all pipelines of a list with one cache. The length of its data.
fn make(input: &Value) -> Value {
    let rays = Rays::new(Rig::with(Options::default())).expect("the programmable driver has ray tracing");
    let cache = rays.rig.device.cache(&[]);
    let passed_by = PASSED_BY.iter().map(|(_, make)| make);
    let list: Vec<&Make> = if input == "recorded" { RECORDED.iter().collect() } else { passed_by.collect() };
    let mut of_rays = Vec::new();
    for make in list {
        let (result, pipeline) = make(&rays, cache);
        assert_eq!((result, pipeline == vk::Pipeline::null()), (vk::Result::SUCCESS, false));
        of_rays.push(pipeline);
    }
    // Those of the first four are ray tracing pipelines, which nobody else destroys.
    rays.destroy(&of_rays[..if input == "recorded" { 4 } else { 0 }]);
    let length = rays.rig.device.cache_data(cache).len();
    rays.rig.device.destroy_cache(cache);
    json!(length)
}

#[test]
fn flags_and_structures_of_newer_extensions_are_part_of_the_key_and_served() {
    scenario(&[("make", make)], |scenario| {
        let Some(env) = scenario.on(Driver::Test(json!({}))) else { return };
        let without = scenario.run_ok::<usize>("make", &env.clone().without_layer(), &"recorded").value;
        let count = RECORDED.len() as u64;
        for (round, served) in [("cold", 0), ("warm", count)] {
            let run = scenario.run_ok::<usize>("make", &env, &"recorded");
            assert_eq!(run.value, without, "{round}: the cache holds the same pipelines");
            assert!(run.reports.bypassed().is_empty(), "{round}: {:?}", run.reports.bypassed());
            let counts = ["served", "compiled"].map(|name| run.reports.sum(name));
            assert_eq!(counts, [served, count - served], "{round}: {:?}", run.reports.counters());
        }
    });
}

#[test]
fn pipelines_for_generated_commands_of_nvidia_and_nodes_are_passed_by_with_the_programs_cache() {
    scenario(&[("make", make)], |scenario| {
        let Some(env) = scenario.on(Driver::Test(json!({}))) else { return };
        let without = scenario.run_ok::<usize>("make", &env.clone().without_layer(), &"passed by").value;
        for _ in 0..2 {
            let run = scenario.run_ok::<usize>("make", &env, &"passed by");
            assert_eq!(run.value, without, "the driver's own data");
            let mut bypassed: Vec<_> =
                run.reports.bypassed().into_iter().map(|b| (b.s_type, b.reason, b.count)).collect();
            bypassed.sort();
            let mut expected: Vec<_> = PASSED_BY
                .iter()
                .map(|(s_type, _)| (s_type.as_raw(), "not_cacheable".to_owned(), 1))
                .collect();
            expected.sort();
            assert_eq!(bypassed, expected);
            assert_eq!(run.reports.sum("served") + run.reports.sum("compiled"), 0);
        }
    });
}
