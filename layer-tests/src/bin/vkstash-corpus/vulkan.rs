//! One instance, one device, one pipeline layout. Creation calls use function pointers: ash's wrappers turn
//! VK_PIPELINE_COMPILE_REQUIRED, a success code, into an error (contract 3.1).

use std::ffi::{CStr, CString};
use std::ptr;
use std::time::Instant;

use ash::vk;
use vkstash_layer_tests::bench::report;
use vkstash_layer_tests::corpus::Module;
use vkstash_layer_tests::vulkan::features;

use crate::failure::Failure;
use crate::options::Run;

/// Storage buffers in the one descriptor set that every pipeline has.
const BUFFERS: u32 = 16;
/// Bytes of push constants that every pipeline has.
const PUSH_CONSTANTS: u32 = 256;

/// The device, and the objects that all pipelines need.
pub(crate) struct Gpu {
    _entry: ash::Entry,
    instance: ash::Instance,
    push_constants: u32,
    pub(crate) device: ash::Device,
    set_layout: vk::DescriptorSetLayout,
    layout: vk::PipelineLayout,
    pub(crate) shader_objects: Option<ash::ext::shader_object::Device>,
    pub(crate) describes: report::Device,
}

/// The result of one vkCreateComputePipelines.
pub(crate) struct Created {
    pub(crate) pipeline: vk::Pipeline,
    pub(crate) result: vk::Result,
    pub(crate) nanos: u64,
}

impl Gpu {
    /// Opens the loader; creates instance, device and pipeline layout.
    pub(crate) fn new(options: &Run) -> Result<Self, Failure> {
        // SAFETY: this is the system's Vulkan loader, whose initialisers every program trusts.
        let entry = unsafe { ash::Entry::load()? };
        let name = CString::new(options.application.as_str())?;
        let application = vk::ApplicationInfo::default()
            .application_name(&name)
            .engine_name(c"vkstash-corpus")
            .api_version(vk::API_VERSION_1_3);
        let info = vk::InstanceCreateInfo::default().application_info(&application);
        // SAFETY: the create info and what it points to live until the call returns.
        let instance = unsafe { entry.create_instance(&info, None)? };
        let physical = choose(&instance)?;
        // SAFETY: `physical` comes from this instance.
        let properties = unsafe { instance.get_physical_device_properties(physical) };
        let version = vk::API_VERSION_1_3.min(properties.api_version);
        let describes = describe(&instance, physical, &properties, version);
        let device = create_device(&instance, physical, version, options)?;
        let shader_objects = options
            .shader_objects
            .is_some()
            .then(|| ash::ext::shader_object::Device::new(&instance, &device));
        let push_constants = PUSH_CONSTANTS.min(properties.limits.max_push_constants_size);
        let (set_layout, layout) = create_layouts(&device, push_constants)?;
        Ok(Self {
            _entry: entry,
            instance,
            push_constants,
            device,
            set_layout,
            layout,
            shader_objects,
            describes,
        })
    }

    /// The set layout and the push constants that every shader has.
    pub(crate) fn layouts(&self) -> ([vk::DescriptorSetLayout; 1], [vk::PushConstantRange; 1]) {
        ([self.set_layout], [push_constants(self.push_constants)])
    }

    /// vkCreateShaderModule, and its nanoseconds.
    pub(crate) fn module(&self, module: &Module) -> Result<(vk::ShaderModule, u64), Failure> {
        let info = vk::ShaderModuleCreateInfo::default().code(&module.words);
        let mut handle = vk::ShaderModule::null();
        let create = self.device.fp_v1_0().create_shader_module;
        let started = Instant::now();
        // SAFETY: a live device; the words outlive the call; the output is one handle.
        let result = unsafe { create(self.device.handle(), &info, std::ptr::null(), &mut handle) };
        let nanos = nanos(started);
        if result != vk::Result::SUCCESS {
            return Err(format!("{}: vkCreateShaderModule: {result:?}", module.name).into());
        }
        Ok((handle, nanos))
    }

    /// vkCreateComputePipelines for one pipeline. Gives every result: the caller knows which ones it expects.
    pub(crate) fn pipeline(
        &self,
        module: &Module,
        handle: vk::ShaderModule,
        cache: vk::PipelineCache,
    ) -> Created {
        let stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(handle)
            .name(&module.entry);
        let info = vk::ComputePipelineCreateInfo::default().stage(stage).layout(self.layout);
        let create = self.device.fp_v1_0().create_compute_pipelines;
        let mut pipeline = vk::Pipeline::null();
        let started = Instant::now();
        // SAFETY: a live device, module, layout and cache; the create info's name outlives the call; the output has
        // room for one pipeline.
        let result =
            unsafe { create(self.device.handle(), cache, 1, &info, std::ptr::null(), &mut pipeline) };
        Created { pipeline, result, nanos: nanos(started) }
    }

    /// Destroys a module.
    pub(crate) fn destroy_module(&self, module: vk::ShaderModule) {
        // SAFETY: created by this device, used by no call in flight.
        unsafe { self.device.destroy_shader_module(module, None) };
    }

    /// Destroys pipelines.
    pub(crate) fn destroy_pipelines(&self, pipelines: impl IntoIterator<Item = vk::Pipeline>) {
        for pipeline in pipelines {
            // SAFETY: created by this device, never bound.
            unsafe { self.device.destroy_pipeline(pipeline, None) };
        }
    }

    /// Destroys device and instance; gives the nanoseconds of both.
    pub(crate) fn destroy(self) -> u64 {
        let started = Instant::now();
        // SAFETY: the creators of all modules, caches and pipelines have destroyed them; no call is in flight.
        unsafe {
            self.device.destroy_pipeline_layout(self.layout, None);
            self.device.destroy_descriptor_set_layout(self.set_layout, None);
            self.device.destroy_device(None);
            self.instance.destroy_instance(None);
        }
        nanos(started)
    }
}

/// The layouts of every pipeline.
fn create_layouts(
    device: &ash::Device,
    push_constants: u32,
) -> Result<(vk::DescriptorSetLayout, vk::PipelineLayout), Failure> {
    let bindings: Vec<_> = (0..BUFFERS)
        .map(|binding| {
            vk::DescriptorSetLayoutBinding::default()
                .binding(binding)
                .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                .descriptor_count(1)
                .stage_flags(vk::ShaderStageFlags::COMPUTE)
        })
        .collect();
    let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
    // SAFETY: a live device; the bindings outlive the call.
    let set_layout = unsafe { device.create_descriptor_set_layout(&info, None)? };
    let ranges = [self::push_constants(push_constants)];
    let sets = [set_layout];
    let info = vk::PipelineLayoutCreateInfo::default().set_layouts(&sets).push_constant_ranges(&ranges);
    // SAFETY: a live device; layouts and ranges outlive the call.
    let layout = unsafe { device.create_pipeline_layout(&info, None)? };
    Ok((set_layout, layout))
}

fn push_constants(size: u32) -> vk::PushConstantRange {
    vk::PushConstantRange::default().stage_flags(vk::ShaderStageFlags::COMPUTE).size(size)
}

/// Nanoseconds since `started`.
pub(crate) fn nanos(started: Instant) -> u64 {
    started.elapsed().as_nanos() as u64
}

/// The first real GPU, else the first device.
fn choose(instance: &ash::Instance) -> Result<vk::PhysicalDevice, Failure> {
    // SAFETY: a live instance.
    let devices = unsafe { instance.enumerate_physical_devices()? };
    let real = |device: &vk::PhysicalDevice| {
        // SAFETY: the device comes from this instance.
        is_gpu(&unsafe { instance.get_physical_device_properties(*device) })
    };
    let chosen = devices.iter().copied().find(real).or(devices.first().copied());
    chosen.ok_or_else(|| "no Vulkan device".into())
}

/// The limits of a null device are real, but its type is arbitrary (RADV's says discrete GPU), so the name decides.
fn is_gpu(properties: &vk::PhysicalDeviceProperties) -> bool {
    let kinds = [
        vk::PhysicalDeviceType::DISCRETE_GPU,
        vk::PhysicalDeviceType::INTEGRATED_GPU,
        vk::PhysicalDeviceType::VIRTUAL_GPU,
    ];
    kinds.contains(&properties.device_type) && std::env::var_os("RADV_FORCE_FAMILY").is_none()
}

fn describe(
    instance: &ash::Instance,
    physical: vk::PhysicalDevice,
    properties: &vk::PhysicalDeviceProperties,
    version: u32,
) -> report::Device {
    let mut driver = vk::PhysicalDeviceDriverProperties::default();
    if version >= vk::API_VERSION_1_2 {
        let mut all = vk::PhysicalDeviceProperties2::default().push_next(&mut driver);
        // SAFETY: Vulkan 1.2 has both the command and the structure.
        unsafe { instance.get_physical_device_properties2(physical, &mut all) };
    }
    let text = |result: Result<&CStr, _>| result.unwrap_or_default().to_string_lossy().into_owned();
    report::Device {
        name: text(properties.device_name_as_c_str()),
        driver: text(driver.driver_name_as_c_str()),
        driver_info: text(driver.driver_info_as_c_str()),
        driver_version: properties.driver_version,
        api_version: format!(
            "{}.{}.{}",
            vk::api_version_major(properties.api_version),
            vk::api_version_minor(properties.api_version),
            vk::api_version_patch(properties.api_version)
        ),
        vendor_id: properties.vendor_id,
        device_id: properties.device_id,
        gpu: is_gpu(properties),
    }
}

/// The features of Vulkan 1.1 to 1.3 that the driver offers, as far as this version has structures for them.
fn offered(
    instance: &ash::Instance,
    physical: vk::PhysicalDevice,
    version: u32,
) -> (
    vk::PhysicalDeviceVulkan11Features<'static>,
    vk::PhysicalDeviceVulkan12Features<'static>,
    vk::PhysicalDeviceVulkan13Features<'static>,
) {
    let mut have11 = vk::PhysicalDeviceVulkan11Features::default();
    let mut have12 = vk::PhysicalDeviceVulkan12Features::default();
    let mut have13 = vk::PhysicalDeviceVulkan13Features::default();
    if version >= vk::API_VERSION_1_2 {
        let mut have = vk::PhysicalDeviceFeatures2::default().push_next(&mut have11).push_next(&mut have12);
        if version >= vk::API_VERSION_1_3 {
            have = have.push_next(&mut have13);
        }
        // SAFETY: the structures belong to the versions that were checked for.
        unsafe { instance.get_physical_device_features2(physical, &mut have) };
    }
    (have11.p_next, have12.p_next, have13.p_next) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
    (have11, have12, have13)
}

/// Enables the features that the corpus uses, if the device has them, and none that changes how shaders are compiled
/// (robust access above all); or all.
fn create_device(
    instance: &ash::Instance,
    physical: vk::PhysicalDevice,
    version: u32,
    options: &Run,
) -> Result<ash::Device, Failure> {
    let extensions = extensions(instance, physical, version, options)?;
    // SAFETY: `physical` comes from this instance.
    let (core, families) = unsafe {
        let core = instance.get_physical_device_features(physical);
        (core, instance.get_physical_device_queue_family_properties(physical))
    };
    let core = if options.all_features { core } else { features::core(&core) };
    let mut enabled = vk::PhysicalDeviceFeatures2::default().features(core);
    let (have11, have12, have13) = offered(instance, physical, version);
    let (mut on11, mut on12) = (features::eleven(&have11), features::twelve(&have12));
    let mut on13 = features::thirteen(&have13);
    if options.all_features {
        (on11, on12, on13) = (have11, have12, have13);
    }
    let mut objects = vk::PhysicalDeviceShaderObjectFeaturesEXT::default().shader_object(true);
    if version >= vk::API_VERSION_1_2 {
        enabled = enabled.push_next(&mut on11).push_next(&mut on12);
    }
    if version >= vk::API_VERSION_1_3 {
        enabled = enabled.push_next(&mut on13);
    }
    if options.shader_objects.is_some() {
        enabled = enabled.push_next(&mut objects);
    }
    let family = families
        .iter()
        .position(|family| family.queue_flags.contains(vk::QueueFlags::COMPUTE))
        .ok_or("no compute queue")?;
    let queues =
        [vk::DeviceQueueCreateInfo::default().queue_family_index(family as u32).queue_priorities(&[1.0])];
    let names: Vec<_> = extensions.iter().map(|name| name.as_ptr()).collect();
    let mut info =
        vk::DeviceCreateInfo::default().queue_create_infos(&queues).enabled_extension_names(&names);
    // Vulkan 1.0 lacks VkPhysicalDeviceFeatures2 without an instance extension.
    if version >= vk::API_VERSION_1_1 {
        info = info.push_next(&mut enabled);
    } else {
        info = info.enabled_features(&enabled.features);
    }
    // SAFETY: `physical` comes from this instance; the create info's chain outlives the call; features and extensions
    // were checked for.
    Ok(unsafe { instance.create_device(physical, &info, None)? })
}

/// The extensions that the options need.
fn extensions(
    instance: &ash::Instance,
    physical: vk::PhysicalDevice,
    version: u32,
    options: &Run,
) -> Result<Vec<&'static CStr>, Failure> {
    if options.shader_objects.is_none() {
        return Ok(Vec::new());
    }
    if version < vk::API_VERSION_1_3 {
        return Err("--shader-objects needs Vulkan 1.3".into());
    }
    // SAFETY: `physical` comes from this instance.
    let have = unsafe { instance.enumerate_device_extension_properties(physical)? };
    let name = vk::EXT_SHADER_OBJECT_NAME;
    if !have.iter().any(|extension| extension.extension_name_as_c_str() == Ok(name)) {
        return Err(format!("the device lacks {}", name.to_string_lossy()).into());
    }
    Ok(vec![name])
}
