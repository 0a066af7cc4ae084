//! A device with everything that a compute program needs and nothing else, and raw calls: wrappers lose the
//! results that matter here.

use std::ffi::CStr;

use ash::vk;

/// A headless device.
pub struct Device {
    _entry: ash::Entry,
    instance: ash::Instance,
    /// The device.
    pub device: ash::Device,
    /// deviceName.
    pub name: String,
    /// driverName and driverInfo.
    pub driver: String,
    /// shaderModuleIdentifierAlgorithmUUID, where the extension is there.
    pub algorithm: Option<[u8; 16]>,
    /// Its queries.
    pub identifiers: Option<ash::ext::shader_module_identifier::Device>,
    set_layout: vk::DescriptorSetLayout,
    /// 16 storage buffers and 256 bytes of push constants.
    pub layout: vk::PipelineLayout,
}

impl Device {
    /// The first device of the first driver, Vulkan 1.3.
    pub fn new() -> Device {
        // SAFETY: a program that uses Vulkan as it is meant to be used; every handle lives as long as `Device`.
        unsafe {
            let entry = ash::Entry::load().expect("a Vulkan loader");
            let application = vk::ApplicationInfo::default()
                .application_name(c"vkstash-corpus")
                .api_version(vk::API_VERSION_1_3);
            let info = vk::InstanceCreateInfo::default().application_info(&application);
            let instance = entry.create_instance(&info, None).expect("an instance");
            let physical = instance.enumerate_physical_devices().unwrap()[0];

            let extensions = instance.enumerate_device_extension_properties(physical).unwrap();
            let native = ash::ext::shader_module_identifier::NAME;
            let listed = extensions.iter().any(|e| e.extension_name_as_c_str() == Ok(native));
            let mut driver = vk::PhysicalDeviceDriverProperties::default();
            let mut algorithm = vk::PhysicalDeviceShaderModuleIdentifierPropertiesEXT::default();
            let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut driver);
            if listed {
                properties = properties.push_next(&mut algorithm);
            }
            instance.get_physical_device_properties2(physical, &mut properties);
            let name = text(properties.properties.device_name_as_c_str());
            let driver_text =
                format!("{} {}", text(driver.driver_name_as_c_str()), text(driver.driver_info_as_c_str()));

            // What the modules of the corpus use, as far as the device has it.
            let mut vulkan11 = vk::PhysicalDeviceVulkan11Features::default();
            let mut vulkan12 = vk::PhysicalDeviceVulkan12Features::default();
            let mut vulkan13 = vk::PhysicalDeviceVulkan13Features::default();
            let mut features = vk::PhysicalDeviceFeatures2::default()
                .push_next(&mut vulkan11)
                .push_next(&mut vulkan12)
                .push_next(&mut vulkan13);
            instance.get_physical_device_features2(physical, &mut features);
            let core = vk::PhysicalDeviceFeatures { robust_buffer_access: vk::FALSE, ..features.features };
            features.features = core;

            let mut identifier_feature =
                vk::PhysicalDeviceShaderModuleIdentifierFeaturesEXT::default().shader_module_identifier(true);
            let mut names = Vec::new();
            if listed {
                names.push(native.as_ptr());
            }
            let queues = [vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0])];
            let mut info = vk::DeviceCreateInfo::default()
                .queue_create_infos(&queues)
                .enabled_extension_names(&names)
                .push_next(&mut features);
            if listed {
                info = info.push_next(&mut identifier_feature);
            }
            let device = instance.create_device(physical, &info, None).expect("a device");

            let bindings: Vec<_> = (0..16)
                .map(|binding| {
                    vk::DescriptorSetLayoutBinding::default()
                        .binding(binding)
                        .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                        .descriptor_count(1)
                        .stage_flags(vk::ShaderStageFlags::COMPUTE)
                })
                .collect();
            let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
            let set_layout = device.create_descriptor_set_layout(&info, None).unwrap();
            let range =
                [vk::PushConstantRange { stage_flags: vk::ShaderStageFlags::COMPUTE, offset: 0, size: 256 }];
            let sets = [set_layout];
            let info =
                vk::PipelineLayoutCreateInfo::default().set_layouts(&sets).push_constant_ranges(&range);
            let layout = device.create_pipeline_layout(&info, None).unwrap();
            let identifiers =
                listed.then(|| ash::ext::shader_module_identifier::Device::new(&instance, &device));
            let algorithm = listed.then_some(algorithm.shader_module_identifier_algorithm_uuid);
            Device {
                _entry: entry,
                instance,
                device,
                name,
                driver: driver_text,
                algorithm,
                identifiers,
                set_layout,
                layout,
            }
        }
    }

    /// vkCreateComputePipelines with one create info.
    pub fn create(
        &self,
        info: &vk::ComputePipelineCreateInfo<'_>,
        cache: vk::PipelineCache,
    ) -> (vk::Result, vk::Pipeline) {
        let mut pipeline = vk::Pipeline::from_raw_garbage();
        // SAFETY: a valid create info of this device.
        let result = unsafe {
            (self.device.fp_v1_0().create_compute_pipelines)(
                self.device.handle(),
                cache,
                1,
                info,
                std::ptr::null(),
                &mut pipeline,
            )
        };
        (result, pipeline)
    }

    /// A cache with this data.
    pub fn cache(&self, data: &[u8]) -> vk::PipelineCache {
        let info = vk::PipelineCacheCreateInfo::default().initial_data(data);
        // SAFETY: data that this driver wrote, or none.
        unsafe { self.device.create_pipeline_cache(&info, None).unwrap() }
    }
}

/// What a program leaves in its output before the call.
trait Garbage {
    fn from_raw_garbage() -> Self;
}

impl Garbage for vk::Pipeline {
    fn from_raw_garbage() -> Self {
        ash::vk::Handle::from_raw(0xdead_beef)
    }
}

fn text(name: Result<&CStr, std::ffi::FromBytesUntilNulError>) -> String {
    name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: everything that was made of the device has been destroyed by its users.
        unsafe {
            self.device.destroy_pipeline_layout(self.layout, None);
            self.device.destroy_descriptor_set_layout(self.set_layout, None);
            self.device.destroy_device(None);
            self.instance.destroy_instance(None);
        }
    }
}
