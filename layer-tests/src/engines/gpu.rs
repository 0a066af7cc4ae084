//! Device, objects and calls of Vulkan for all engines.

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ash::vk;

use super::{Call, Kind, Program};
use crate::bench::report;
use crate::vulkan::executables::{self, Statistic};
use crate::vulkan::{Device, DeviceOptions, Instance, InstanceOptions, graphics, spirv};

/// A device, and the calls that created pipelines on it.
pub struct Gpu {
    /// The device.
    pub device: Arc<Device>,
    program: Program,
    layout: vk::PipelineLayout,
    pass: vk::RenderPass,
    calls: Mutex<Vec<(Call, vk::Pipeline)>>,
}

impl Gpu {
    /// A device for a program.
    pub fn new(program: Program) -> Gpu {
        let instance = Instance::new(&InstanceOptions::default()).unwrap();
        let options =
            DeviceOptions { cache_control: true, executables: program.described, ..DeviceOptions::default() };
        let device = Arc::new(Device::new(&instance, &options).unwrap());
        let (layout, pass) = match program.kind {
            Kind::Compute => (device.compute_layout(), vk::RenderPass::null()),
            Kind::Graphics => (device.empty_layout(), device.render_pass(vk::Format::R8G8B8A8_UNORM)),
        };
        Gpu { device, program, layout, pass, calls: Mutex::default() }
    }

    /// The engine's names of its pipelines.
    pub fn names(&self) -> impl DoubleEndedIterator<Item = u32> + use<> {
        0..self.program.count
    }

    /// D3D12's LoadComputePipeline and LoadGraphicsPipeline: None if the library does not have the pipeline.
    pub fn load(&self, name: u32, library: vk::PipelineCache) -> Option<vk::Pipeline> {
        self.call(name, library, vk::PipelineCreateFlags::FAIL_ON_PIPELINE_COMPILE_REQUIRED)
    }

    /// Creates a pipeline; a cache has it afterwards, as a library after D3D12's StorePipeline.
    pub fn create(&self, name: u32, cache: vk::PipelineCache) -> vk::Pipeline {
        self.call(name, cache, vk::PipelineCreateFlags::empty()).expect("a pipeline")
    }

    /// Loads a pipeline from a library; if it is not there, creates and stores it.
    pub fn load_or_store(&self, name: u32, library: vk::PipelineCache) -> vk::Pipeline {
        self.load(name, library).unwrap_or_else(|| self.create(name, library))
    }

    /// Creates a pipeline with its cached blob, or without one. Also returns the new pipeline's blob, as D3D12's
    /// GetCachedBlob.
    pub fn create_with_blob(&self, name: u32, blob: Option<&[u8]>) -> (vk::Pipeline, Vec<u8>) {
        let cache = self.device.cache(blob.unwrap_or_default());
        let pipeline = self.create(name, cache);
        let blob = self.device.cache_data(cache);
        self.device.destroy_cache(cache);
        (pipeline, blob)
    }

    /// One creation call with its modules. None: the driver would have to compile, and must not.
    fn call(
        &self,
        name: u32,
        cache: vk::PipelineCache,
        flags: vk::PipelineCreateFlags,
    ) -> Option<vk::Pipeline> {
        let stages: Vec<_> = self
            .codes(name)
            .iter()
            .map(|(stage, code)| {
                let module = self.device.module(code);
                vk::PipelineShaderStageCreateInfo::default().stage(*stage).module(module).name(c"main")
            })
            .collect();
        let mut feedback = vk::PipelineCreationFeedback::default();
        let mut asked =
            vk::PipelineCreationFeedbackCreateInfo::default().pipeline_creation_feedback(&mut feedback);
        let next = if self.program.feedback { (&raw mut asked).cast_const().cast() } else { ptr::null() };
        let (result, pipeline, took) = match self.program.kind {
            Kind::Compute => self.compute(cache, flags, &stages, next),
            Kind::Graphics => self.graphics(cache, flags, &stages, next),
        };
        for stage in &stages {
            // SAFETY: created above, and no call needs it any more.
            unsafe { self.device.destroy_module(stage.module) };
        }
        let is_made = match result {
            vk::Result::SUCCESS => true,
            vk::Result::PIPELINE_COMPILE_REQUIRED if !flags.is_empty() => false,
            other => panic!("{other:?}"),
        };
        let hit = feedback.flags.contains(vk::PipelineCreationFeedbackFlags::APPLICATION_PIPELINE_CACHE_HIT);
        self.calls.lock().unwrap().push((Call { name, took, is_made, hit }, pipeline));
        is_made.then_some(pipeline)
    }

    fn codes(&self, name: u32) -> Vec<(vk::ShaderStageFlags, Vec<u32>)> {
        match self.program.kind {
            Kind::Compute => vec![(vk::ShaderStageFlags::COMPUTE, spirv::compute_storing(400 + name))],
            Kind::Graphics => vec![
                (vk::ShaderStageFlags::VERTEX, spirv::vertex(name as f32)),
                (vk::ShaderStageFlags::FRAGMENT, spirv::fragment(name as f32)),
            ],
        }
    }

    fn compute(
        &self,
        cache: vk::PipelineCache,
        flags: vk::PipelineCreateFlags,
        stages: &[vk::PipelineShaderStageCreateInfo<'_>],
        next: *const c_void,
    ) -> (vk::Result, vk::Pipeline, Duration) {
        let info = vk::ComputePipelineCreateInfo::default();
        let mut info = info.flags(flags).stage(stages[0]).layout(self.layout);
        info.p_next = next;
        // SAFETY: a valid create info, and a cache of this device or none.
        self.timed(|| unsafe { self.device.create_compute(cache, &[info]) })
    }

    fn graphics(
        &self,
        cache: vk::PipelineCache,
        flags: vk::PipelineCreateFlags,
        stages: &[vk::PipelineShaderStageCreateInfo<'_>],
        next: *const c_void,
    ) -> (vk::Result, vk::Pipeline, Duration) {
        graphics::plain(stages, |info| {
            let mut info = info.flags(flags).layout(self.layout).render_pass(self.pass);
            info.p_next = next;
            // SAFETY: a valid create info, and a cache of this device or none.
            self.timed(|| unsafe { self.device.create_graphics(cache, &[info]) })
        })
    }

    /// The answer to a call for one pipeline, and the time in it.
    fn timed(
        &self,
        create: impl Fn() -> (vk::Result, Vec<vk::Pipeline>),
    ) -> (vk::Result, vk::Pipeline, Duration) {
        (0..self.program.again).for_each(|_| drop(create()));
        let began = Instant::now();
        let (result, made) = create();
        (result, made[0], began.elapsed())
    }

    /// The calls so far.
    pub fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().iter().map(|(call, _)| call.clone()).collect()
    }

    /// What the driver says of each pipeline, in the order of their names; nothing if the program does not ask.
    pub fn described(&self) -> Vec<Vec<Vec<Statistic>>> {
        let mut made: Vec<_> = self.calls.lock().unwrap().clone();
        made.retain(|(call, _)| self.program.described && call.is_made);
        made.sort_by_key(|(call, _)| call.name);
        made.iter().map(|(_, pipeline)| executables::statistics(&self.device, *pipeline)).collect()
    }

    /// The device's name and driver.
    pub fn describe(&self) -> report::Device {
        let mut driver = vk::PhysicalDeviceDriverProperties::default();
        let mut all = vk::PhysicalDeviceProperties2::default().push_next(&mut driver);
        let (instance, physical) = (&self.device.instance, self.device.physical);
        // SAFETY: a live physical device of Vulkan 1.3, which has both the command and the structure.
        unsafe { instance.raw.get_physical_device_properties2(physical, &mut all) };
        let text = |result: Result<&CStr, _>| result.unwrap_or_default().to_string_lossy().into_owned();
        let properties = instance.properties(physical);
        report::Device {
            name: text(properties.device_name_as_c_str()),
            driver: text(driver.driver_name_as_c_str()),
            driver_info: text(driver.driver_info_as_c_str()),
            driver_version: properties.driver_version,
            vendor_id: properties.vendor_id,
            device_id: properties.device_id,
            ..report::Device::default()
        }
    }
}
