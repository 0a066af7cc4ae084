//! Small pipelines of each class.

use std::ptr;

use ash::{khr, vk};
use vkstash_layer_tests::vulkan::{Device, graphics, rays, shaders, spirv};

use super::model::Class;

const FORMAT: vk::Format = vk::Format::R8G8B8A8_UNORM;

/// Creates pipelines of one class.
pub(crate) struct Pipelines<'a> {
    device: &'a Device,
    class: Class,
    layout: vk::PipelineLayout,
    pass: vk::RenderPass,
    rays: Option<khr::ray_tracing_pipeline::Device>,
}

impl<'a> Pipelines<'a> {
    pub(crate) fn new(device: &'a Device, class: Class) -> Pipelines<'a> {
        let rays = || khr::ray_tracing_pipeline::Device::new(&device.instance.raw, &device.raw);
        Pipelines {
            device,
            class,
            layout: match class {
                Class::Compute => device.compute_layout(),
                _ => device.empty_layout(),
            },
            pass: match class {
                Class::RenderPass => device.render_pass(FORMAT),
                _ => vk::RenderPass::null(),
            },
            rays: (class == Class::RayTracing).then(rays),
        }
    }

    /// The pipeline of that number, made with the cache.
    pub(crate) fn make(
        &self,
        number: u32,
        cache: vk::PipelineCache,
        flags: vk::PipelineCreateFlags,
    ) -> vk::Result {
        match self.class {
            Class::Compute => {
                let code = spirv::compute(number);
                let info = vk::ComputePipelineCreateInfo::default()
                    .flags(flags)
                    .stage(self.stage(vk::ShaderStageFlags::COMPUTE, &code))
                    .layout(self.layout);
                // SAFETY: a valid create info, and a cache of this device.
                unsafe { self.device.create_compute(cache, &[info]) }.0
            }
            Class::RenderPass | Class::DynamicRendering => self.graphics(number, cache, flags),
            Class::RayTracing => self.rays(number, cache, flags),
        }
    }

    fn stage(&self, stage: vk::ShaderStageFlags, code: &[u32]) -> vk::PipelineShaderStageCreateInfo<'static> {
        let module = self.device.module(code);
        vk::PipelineShaderStageCreateInfo::default().stage(stage).module(module).name(c"main")
    }

    fn graphics(&self, number: u32, cache: vk::PipelineCache, flags: vk::PipelineCreateFlags) -> vk::Result {
        let value = number as f32;
        let stages = [
            self.stage(vk::ShaderStageFlags::VERTEX, &spirv::vertex(value)),
            self.stage(vk::ShaderStageFlags::FRAGMENT, &spirv::fragment(value)),
        ];
        let mut rendering = vk::PipelineRenderingCreateInfo::default().color_attachment_formats(&[FORMAT]);
        graphics::plain(&stages, |info| {
            let mut info = info.flags(flags).layout(self.layout).render_pass(self.pass);
            if self.class == Class::DynamicRendering {
                info = info.push_next(&mut rendering);
            }
            // SAFETY: a valid create info, and a cache of this device.
            unsafe { self.device.create_graphics(cache, &[info]) }.0
        })
    }

    fn rays(&self, number: u32, cache: vk::PipelineCache, flags: vk::PipelineCreateFlags) -> vk::Result {
        let stages = rays::STAGES.map(|stage| self.stage(stage, &shaders::empty(stage, number)));
        let groups = rays::groups();
        let info = vk::RayTracingPipelineCreateInfoKHR::default()
            .flags(flags)
            .stages(&stages)
            .groups(&groups)
            .max_pipeline_ray_recursion_depth(1)
            .layout(self.layout);
        let Some(commands) = &self.rays else { return vk::Result::ERROR_FEATURE_NOT_PRESENT };
        let create = commands.fp().create_ray_tracing_pipelines_khr;
        let (device, mut made) = (self.device.raw.handle(), vk::Pipeline::null());
        let no_operation = vk::DeferredOperationKHR::null();
        // SAFETY: a valid create info, a cache of this device, a slot for the pipeline; what was made is destroyed
        // once.
        unsafe {
            let result = create(device, no_operation, cache, 1, &info, ptr::null(), &mut made);
            self.device.raw.destroy_pipeline(made, None);
            result
        }
    }
}
