//! What all engines need of Vulkan.

use std::ffi::CStr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ash::vk;

use crate::bench::report;
use crate::vulkan::{Device, DeviceOptions, Instance, InstanceOptions, spirv};

/// A device, and the time that its creation calls took.
pub struct Gpu {
    /// The device.
    pub device: Arc<Device>,
    /// How many pipelines the program asks for.
    count: u32,
    layout: vk::PipelineLayout,
    spent: Mutex<Duration>,
}

impl Gpu {
    /// A device for a program that asks for so many pipelines.
    pub fn new(count: u32) -> Gpu {
        let instance = Instance::new(&InstanceOptions::default()).unwrap();
        let options = DeviceOptions { cache_control: true, ..DeviceOptions::default() };
        let device = Arc::new(Device::new(&instance, &options).unwrap());
        let layout = device.compute_layout();
        Gpu { device, count, layout, spent: Mutex::default() }
    }

    /// The engine's names of its pipelines.
    pub fn names(&self) -> impl Iterator<Item = u32> + use<> {
        0..self.count
    }

    /// Creates a pipeline. None: the driver would have to compile it, and must not.
    pub fn create(&self, name: u32, cache: vk::PipelineCache, may_compile: bool) -> Option<vk::Pipeline> {
        let module = self.device.module(&spirv::compute_storing(400 + name));
        let stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(module)
            .name(c"main");
        let flags = match may_compile {
            true => vk::PipelineCreateFlags::empty(),
            false => vk::PipelineCreateFlags::FAIL_ON_PIPELINE_COMPILE_REQUIRED,
        };
        let info = vk::ComputePipelineCreateInfo::default().flags(flags).stage(stage).layout(self.layout);
        let began = Instant::now();
        // SAFETY: a valid create info, and a cache of this device or none.
        let (result, pipelines) = unsafe { self.device.create_compute(cache, &[info]) };
        *self.spent.lock().unwrap() += began.elapsed();
        // SAFETY: created above, and no call needs it any more.
        unsafe { self.device.destroy_module(module) };
        match result {
            vk::Result::SUCCESS => Some(pipelines[0]),
            vk::Result::PIPELINE_COMPILE_REQUIRED if !may_compile => None,
            other => panic!("{other:?}"),
        }
    }

    /// Creates a pipeline with a blob, or without one. Returns the pipeline's blob, too.
    pub fn create_with_blob(&self, name: u32, blob: Option<&[u8]>) -> (vk::Pipeline, Vec<u8>) {
        let cache = self.device.cache(blob.unwrap_or_default());
        let pipeline = self.create(name, cache, true).unwrap();
        let blob = self.device.cache_data(cache);
        self.device.destroy_cache(cache);
        (pipeline, blob)
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

    /// The time in creation calls so far.
    pub fn spent(&self) -> Duration {
        *self.spent.lock().unwrap()
    }
}
