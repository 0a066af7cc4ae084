//! Ray tracing pipelines that suites describe and create.

use std::ptr;

use ash::{khr, vk};
use vkstash_layer_tests::vulkan::{rays, shaders};

use super::rig::{Rig, keep, keep_all};

type Info = vk::RayTracingPipelineCreateInfoKHR<'static>;

/// The commands.
pub struct Rays {
    pub rig: Rig,
    pub commands: khr::ray_tracing_pipeline::Device,
    pub deferring: khr::deferred_host_operations::Device,
    pub layout: vk::PipelineLayout,
}

impl Rays {
    /// None if the device lacks ray tracing.
    pub fn new(rig: Rig) -> Option<Rays> {
        let names = [khr::ray_tracing_pipeline::NAME, khr::deferred_host_operations::NAME];
        if !names.iter().all(|name| rig.has(name)) {
            return None;
        }
        let (instance, device) = (&rig.device.instance.raw, &rig.device.raw);
        Some(Rays {
            commands: khr::ray_tracing_pipeline::Device::new(instance, device),
            deferring: khr::deferred_host_operations::Device::new(instance, device),
            layout: rig.device.empty_layout(),
            rig,
        })
    }

    /// A ray generation shader alone.
    pub fn plain(&self, value: u32) -> Info {
        self.describe(value, vec![rays::general(0)], 1)
    }

    /// Groups of every kind.
    pub fn groups(&self, value: u32) -> Info {
        self.describe(value, rays::groups().to_vec(), rays::STAGES.len())
    }

    fn describe(
        &self,
        value: u32,
        groups: Vec<vk::RayTracingShaderGroupCreateInfoKHR<'static>>,
        stages: usize,
    ) -> Info {
        let stages = rays::STAGES[..stages].iter();
        let stages = stages.map(|&stage| self.rig.stage(stage, &shaders::empty(stage, value)));
        Info::default()
            .stages(keep_all(stages))
            .groups(keep_all(groups))
            .max_pipeline_ray_recursion_depth(1)
            .layout(self.layout)
    }

    /// `info` as a pipeline library.
    pub fn library(&self, info: Info) -> Info {
        self.with_interface(info).flags(vk::PipelineCreateFlags::LIBRARY_KHR)
    }

    /// A pipeline of its own stages and these libraries.
    pub fn linked(&self, info: Info, libraries: &[vk::Pipeline]) -> Info {
        let list = vk::PipelineLibraryCreateInfoKHR::default().libraries(keep_all(libraries.iter().copied()));
        self.with_interface(info).library_info(keep(list))
    }

    fn with_interface(&self, info: Info) -> Info {
        let interface = vk::RayTracingPipelineInterfaceCreateInfoKHR::default()
            .max_pipeline_ray_payload_size(16)
            .max_pipeline_ray_hit_attribute_size(8);
        info.library_interface(keep(interface))
    }

    /// vkCreateRayTracingPipelinesKHR, with the result as the driver gave it.
    pub fn create(
        &self,
        operation: vk::DeferredOperationKHR,
        cache: vk::PipelineCache,
        infos: &[Info],
        out: &mut [vk::Pipeline],
    ) -> vk::Result {
        let create = self.commands.fp().create_ray_tracing_pipelines_khr;
        let (device, count) = (self.rig.device.raw.handle(), infos.len() as u32);
        // SAFETY: valid create infos, and a slot for each; the suites keep both as long as an operation needs them.
        unsafe { create(device, operation, cache, count, infos.as_ptr(), ptr::null(), out.as_mut_ptr()) }
    }

    /// Creates one pipeline, without an operation.
    pub fn make(&self, cache: vk::PipelineCache, info: Info) -> (vk::Result, vk::Pipeline) {
        let mut made = [vk::Pipeline::null()];
        let result = self.create(vk::DeferredOperationKHR::null(), cache, &[info], &mut made);
        (result, made[0])
    }

    /// The handles of a pipeline's groups; empty if the driver lacks the command.
    pub fn group_handles(&self, pipeline: vk::Pipeline, groups: u32) -> Vec<u8> {
        let mut properties = vk::PhysicalDeviceRayTracingPipelinePropertiesKHR::default();
        let mut all = vk::PhysicalDeviceProperties2::default().push_next(&mut properties);
        let device = &self.rig.device;
        if !device.has_command(c"vkGetRayTracingShaderGroupHandlesKHR") {
            return Vec::new();
        }
        // SAFETY: a live device and a live pipeline with that many groups.
        unsafe {
            device.instance.raw.get_physical_device_properties2(device.physical, &mut all);
            let size = (properties.shader_group_handle_size * groups) as usize;
            self.commands.get_ray_tracing_shader_group_handles(pipeline, 0, groups, size).unwrap_or_default()
        }
    }

    /// Destroys pipelines.
    pub fn destroy(&self, pipelines: &[vk::Pipeline]) {
        // SAFETY: the suites' own pipelines, each destroyed once; nothing was submitted.
        pipelines
            .iter()
            .for_each(|&pipeline| unsafe { self.rig.device.raw.destroy_pipeline(pipeline, None) });
    }
}
