//! A device and its objects, destroyed with it.

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};

use ash::{ext, khr, vk};

use super::features::DescriptorHeapFeatures;
use super::{CoreFeatures, IDENTIFIER_EXTENSION, Instance};

/// Written to every output slot before a creation call; the driver must overwrite it.
const UNWRITTEN: u64 = 0xdead_beef_dead_beef;

/// How a device is created.
#[derive(Clone, Debug, Default)]
pub struct DeviceOptions {
    /// pipelineCreationCacheControl.
    pub cache_control: bool,
    /// VK_EXT_shader_module_identifier and its feature.
    pub identifiers: bool,
    /// dynamicRendering.
    pub dynamic_rendering: bool,
    /// VK_KHR_maintenance5: flags2 and inline modules.
    pub maintenance5: bool,
    /// VK_KHR_pipeline_executable_properties and its feature.
    pub executables: bool,
    /// VK_EXT_descriptor_heap and its feature.
    pub descriptor_heap: bool,
    /// Features of Vulkan 1.0 to 1.3, as their numbers in [`CoreFeatures`].
    pub features: Vec<usize>,
    /// No queue is asked for, which is the first command of most programs on a device.
    pub without_queue: bool,
    /// Further extensions.
    pub extensions: Vec<&'static CStr>,
    /// Feature structures of extensions that nothing above enables, with their members.
    pub switches: Vec<(vk::StructureType, Vec<bool>)>,
}

/// The memory of a structure that consists of its head and VkBool32 members.
fn switches_in_memory(s_type: vk::StructureType, members: &[bool], next: *const c_void) -> Vec<u64> {
    let mut words = vec![0u64; HEAD_WORDS + members.len().div_ceil(2)];
    let start: *mut u64 = words.as_mut_ptr();
    // SAFETY: the words have room for the head and the members, and their alignment.
    unsafe {
        start.cast::<vk::BaseInStructure<'_>>().write(vk::BaseInStructure {
            s_type,
            p_next: next.cast(),
            ..Default::default()
        });
        let values =
            std::slice::from_raw_parts_mut(start.add(HEAD_WORDS).cast::<vk::Bool32>(), members.len());
        for (value, &member) in values.iter_mut().zip(members) {
            *value = member.into();
        }
    }
    words
}

const HEAD_WORDS: usize = size_of::<vk::BaseInStructure<'_>>() / 8;

/// Objects that are destroyed with the device, in the order of creation.
enum Object {
    Module(vk::ShaderModule),
    SetLayout(vk::DescriptorSetLayout),
    Layout(vk::PipelineLayout),
    RenderPass(vk::RenderPass),
    Pipeline(vk::Pipeline),
}

/// A device.
pub struct Device {
    /// The device.
    pub raw: ash::Device,
    /// Its instance.
    pub instance: Arc<Instance>,
    /// Its physical device.
    pub physical: vk::PhysicalDevice,
    objects: Mutex<Vec<Object>>,
}

impl Device {
    /// Creates a device on the instance's first physical device.
    pub fn new(instance: &Arc<Instance>, options: &DeviceOptions) -> Result<Device, vk::Result> {
        Device::on(instance, instance.physical_device(), options)
    }

    /// Creates a device.
    pub fn on(
        instance: &Arc<Instance>,
        physical: vk::PhysicalDevice,
        options: &DeviceOptions,
    ) -> Result<Device, vk::Result> {
        let mut extensions = options.extensions.clone();
        let mut core = CoreFeatures::default();
        core.enable(&options.features);
        if options.cache_control {
            core.thirteen.pipeline_creation_cache_control = vk::TRUE;
        }
        if options.dynamic_rendering {
            core.thirteen.dynamic_rendering = vk::TRUE;
        }
        let CoreFeatures { ten, mut eleven, mut twelve, mut thirteen } = core;
        let mut identifier =
            vk::PhysicalDeviceShaderModuleIdentifierFeaturesEXT::default().shader_module_identifier(true);
        let mut five = vk::PhysicalDeviceMaintenance5FeaturesKHR::default().maintenance5(true);
        let queue = [vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0])];
        let mut info = vk::DeviceCreateInfo::default().queue_create_infos(&queue);
        if options.cache_control || options.dynamic_rendering || !options.features.is_empty() {
            info = info.push_next(&mut thirteen);
        }
        if !options.features.is_empty() {
            info = info.enabled_features(&ten).push_next(&mut eleven).push_next(&mut twelve);
        }
        if options.identifiers {
            extensions.push(IDENTIFIER_EXTENSION);
            info = info.push_next(&mut identifier);
        }
        if options.maintenance5 {
            extensions.push(khr::maintenance5::NAME);
            info = info.push_next(&mut five);
        }
        let mut executables = vk::PhysicalDevicePipelineExecutablePropertiesFeaturesKHR::default()
            .pipeline_executable_info(true);
        if options.executables {
            extensions.push(khr::pipeline_executable_properties::NAME);
            info = info.push_next(&mut executables);
        }
        let mut heap = DescriptorHeapFeatures::default();
        if options.descriptor_heap {
            extensions.push(c"VK_EXT_descriptor_heap");
            info = info.push_next(&mut heap);
        }
        let names: Vec<_> = extensions.iter().map(|name| name.as_ptr()).collect();
        let mut info = info.enabled_extension_names(&names);
        let mut switches = Vec::new();
        for (s_type, members) in &options.switches {
            let words = switches_in_memory(*s_type, members, info.p_next);
            info.p_next = words.as_ptr().cast();
            switches.push(words);
        }
        // SAFETY: a live physical device and a valid create info.
        let raw = unsafe { instance.raw.create_device(physical, &info, None) }?;
        if options.without_queue {
            return Ok(Device::with(instance, physical, raw));
        }
        Ok(Device::adopt(instance, physical, raw))
    }

    /// Takes over a device that a test created itself, with a queue of the first family; it is destroyed with the rest.
    pub fn adopt(instance: &Arc<Instance>, physical: vk::PhysicalDevice, raw: ash::Device) -> Device {
        // SAFETY: the test has created `raw` with one queue of family 0, and the device is alive.
        unsafe { raw.get_device_queue(0, 0) };
        Device::with(instance, physical, raw)
    }

    fn with(instance: &Arc<Instance>, physical: vk::PhysicalDevice, raw: ash::Device) -> Device {
        Device { raw, instance: instance.clone(), physical, objects: Mutex::default() }
    }

    fn keep(&self, object: Object) {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner).push(object);
    }

    /// A shader module.
    pub fn module(&self, code: &[u32]) -> vk::ShaderModule {
        let info = vk::ShaderModuleCreateInfo::default().code(code);
        // SAFETY: a live device, valid SPIR-V.
        let module = unsafe { self.raw.create_shader_module(&info, None) }.expect("a shader module");
        self.keep(Object::Module(module));
        module
    }

    /// A layout with one storage buffer, as [`super::spirv::compute`] needs it.
    pub fn compute_layout(&self) -> vk::PipelineLayout {
        self.compute_layout_with(1)
    }

    /// [`Device::compute_layout`] with so many storage buffers.
    pub fn compute_layout_with(&self, buffers: u32) -> vk::PipelineLayout {
        let binding = [vk::DescriptorSetLayoutBinding::default()
            .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
            .descriptor_count(buffers)
            .stage_flags(vk::ShaderStageFlags::COMPUTE)];
        let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&binding);
        // SAFETY: a live device, valid create infos.
        unsafe {
            let set = self.raw.create_descriptor_set_layout(&info, None).expect("a set layout");
            self.keep(Object::SetLayout(set));
            self.layout(&[set])
        }
    }

    /// A layout without descriptor sets.
    pub fn empty_layout(&self) -> vk::PipelineLayout {
        // SAFETY: no set layouts.
        unsafe { self.layout(&[]) }
    }

    /// # Safety
    /// Live set layouts of this device.
    unsafe fn layout(&self, sets: &[vk::DescriptorSetLayout]) -> vk::PipelineLayout {
        let info = vk::PipelineLayoutCreateInfo::default().set_layouts(sets);
        // SAFETY: the caller passes live set layouts of this device.
        let layout = unsafe { self.raw.create_pipeline_layout(&info, None) }.expect("a pipeline layout");
        self.keep(Object::Layout(layout));
        layout
    }

    /// A render pass with one colour attachment.
    pub fn render_pass(&self, format: vk::Format) -> vk::RenderPass {
        let attachment = [vk::AttachmentDescription::default()
            .format(format)
            .samples(vk::SampleCountFlags::TYPE_1)
            .load_op(vk::AttachmentLoadOp::CLEAR)
            .store_op(vk::AttachmentStoreOp::STORE)
            .final_layout(vk::ImageLayout::COLOR_ATTACHMENT_OPTIMAL)];
        let reference = [vk::AttachmentReference::default()
            .attachment(0)
            .layout(vk::ImageLayout::COLOR_ATTACHMENT_OPTIMAL)];
        let subpass = [vk::SubpassDescription::default().color_attachments(&reference)];
        let info = vk::RenderPassCreateInfo::default().attachments(&attachment).subpasses(&subpass);
        // SAFETY: a live device, a valid create info.
        let pass = unsafe { self.raw.create_render_pass(&info, None) }.expect("a render pass");
        self.keep(Object::RenderPass(pass));
        pass
    }

    /// A pipeline cache, which the caller destroys.
    pub fn cache(&self, data: &[u8]) -> vk::PipelineCache {
        let info = vk::PipelineCacheCreateInfo::default().initial_data(data);
        // SAFETY: a live device; data of this driver, or data that a test wants the driver to refuse.
        unsafe { self.raw.create_pipeline_cache(&info, None) }.expect("a pipeline cache")
    }

    /// A cache's data; empty if the driver does not give it.
    pub fn cache_data(&self, cache: vk::PipelineCache) -> Vec<u8> {
        // SAFETY: a live cache.
        unsafe { self.raw.get_pipeline_cache_data(cache) }.unwrap_or_default()
    }

    /// Bytes of a cache's data, as the driver tells them.
    pub fn cache_size(&self, cache: vk::PipelineCache) -> usize {
        let mut size = 0;
        // SAFETY: a live cache; NULL asks for the size.
        let result = unsafe {
            let get = self.raw.fp_v1_0().get_pipeline_cache_data;
            get(self.raw.handle(), cache, &mut size, std::ptr::null_mut())
        };
        result.result().expect("a size");
        size
    }

    /// Reads a cache's data into this many bytes: the driver's answer, and how many it has written.
    pub fn cache_data_into(&self, cache: vk::PipelineCache, room: usize) -> (vk::Result, usize) {
        let mut buffer = vec![0_u8; room];
        let mut size = room;
        // SAFETY: a live cache, and a buffer of that size.
        let result = unsafe {
            let get = self.raw.fp_v1_0().get_pipeline_cache_data;
            get(self.raw.handle(), cache, &mut size, buffer.as_mut_ptr().cast())
        };
        (result, size)
    }

    /// Destroys a cache.
    pub fn destroy_cache(&self, cache: vk::PipelineCache) {
        // SAFETY: the caller's own cache, which no call uses any more.
        unsafe { self.raw.destroy_pipeline_cache(cache, None) };
    }

    /// vkCreateComputePipelines, with every result as the driver gave it. The driver must write every slot; if not,
    /// the test fails.
    ///
    /// # Safety
    /// Valid create infos, and a cache of this device or none.
    pub unsafe fn create_compute(
        &self,
        cache: vk::PipelineCache,
        infos: &[vk::ComputePipelineCreateInfo<'_>],
    ) -> (vk::Result, Vec<vk::Pipeline>) {
        self.created(infos.len(), |slots| {
            let create = self.raw.fp_v1_0().create_compute_pipelines;
            let count = infos.len() as u32;
            // SAFETY: the caller passes valid create infos and a cache of this device or none.
            unsafe { create(self.raw.handle(), cache, count, infos.as_ptr(), ptr::null(), slots) }
        })
    }

    /// vkCreateGraphicsPipelines; otherwise like [`Device::create_compute`].
    ///
    /// # Safety
    /// Valid create infos, and a cache of this device or none.
    pub unsafe fn create_graphics(
        &self,
        cache: vk::PipelineCache,
        infos: &[vk::GraphicsPipelineCreateInfo<'_>],
    ) -> (vk::Result, Vec<vk::Pipeline>) {
        self.created(infos.len(), |slots| {
            let create = self.raw.fp_v1_0().create_graphics_pipelines;
            let count = infos.len() as u32;
            // SAFETY: the caller passes valid create infos and a cache of this device or none.
            unsafe { create(self.raw.handle(), cache, count, infos.as_ptr(), ptr::null(), slots) }
        })
    }

    fn created(
        &self,
        count: usize,
        create: impl FnOnce(*mut vk::Pipeline) -> vk::Result,
    ) -> (vk::Result, Vec<vk::Pipeline>) {
        use vk::Handle;
        let mut slots = vec![vk::Pipeline::from_raw(UNWRITTEN); count];
        let result = create(slots.as_mut_ptr());
        for (index, slot) in slots.iter().enumerate() {
            assert_ne!(slot.as_raw(), UNWRITTEN, "slot {index} was not written ({result:?})");
            if *slot != vk::Pipeline::null() {
                self.keep(Object::Pipeline(*slot));
            }
        }
        (result, slots)
    }

    /// Destroys a pipeline before the device is destroyed.
    ///
    /// # Safety
    /// Created by this device's creation calls, and no longer in use.
    pub unsafe fn destroy_pipeline(&self, pipeline: vk::Pipeline) {
        let mut objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        objects.retain(|object| !matches!(object, Object::Pipeline(kept) if *kept == pipeline));
        drop(objects);
        // SAFETY: the caller passes a pipeline of this device that is no longer in use.
        unsafe { self.raw.destroy_pipeline(pipeline, None) };
    }

    /// Destroys a module that no creation call needs any more.
    ///
    /// # Safety
    /// Created by [`Device::module`], and destroyed once.
    pub unsafe fn destroy_module(&self, module: vk::ShaderModule) {
        let mut objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        objects.retain(|object| !matches!(object, Object::Module(kept) if *kept == module));
        drop(objects);
        // SAFETY: the caller passes a module of this device, once.
        unsafe { self.raw.destroy_shader_module(module, None) };
    }

    /// What vkGetDeviceProcAddr knows under a name.
    pub fn command(&self, name: &CStr) -> vk::PFN_vkVoidFunction {
        // SAFETY: a live device and a NUL-terminated name.
        unsafe { (self.instance.raw.fp_v1_0().get_device_proc_addr)(self.raw.handle(), name.as_ptr()) }
    }

    /// Whether vkGetDeviceProcAddr knows a command.
    pub fn has_command(&self, name: &CStr) -> bool {
        self.command(name).is_some()
    }

    /// vkGetShaderModuleIdentifierEXT.
    pub fn identifier(&self, module: vk::ShaderModule) -> Vec<u8> {
        let device = ext::shader_module_identifier::Device::new(&self.instance.raw, &self.raw);
        let mut identifier = vk::ShaderModuleIdentifierEXT::default();
        // SAFETY: a live module, on a device with the extension.
        unsafe { (device.fp().get_shader_module_identifier_ext)(self.raw.handle(), module, &mut identifier) };
        bytes(&identifier)
    }

    /// vkGetShaderModuleCreateInfoIdentifierEXT.
    pub fn identifier_of_code(&self, code: &[u32]) -> Vec<u8> {
        let device = ext::shader_module_identifier::Device::new(&self.instance.raw, &self.raw);
        let info = vk::ShaderModuleCreateInfo::default().code(code);
        let mut identifier = vk::ShaderModuleIdentifierEXT::default();
        // SAFETY: a valid create info, on a device with the extension.
        unsafe {
            let query = device.fp().get_shader_module_create_info_identifier_ext;
            query(self.raw.handle(), &info, &mut identifier);
        }
        bytes(&identifier)
    }
}

fn bytes(identifier: &vk::ShaderModuleIdentifierEXT<'_>) -> Vec<u8> {
    identifier.identifier[..identifier.identifier_size as usize].to_vec()
}

impl Device {
    /// Destroys the objects; the caller destroys the device.
    pub fn leave(self) -> ash::Device {
        self.destroy_objects();
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: `this` is never dropped or used again, so each field has one owner.
        unsafe {
            drop(ptr::read(&this.instance));
            drop(ptr::read(&this.objects));
            ptr::read(&this.raw)
        }
    }

    fn destroy_objects(&self) {
        let objects = std::mem::take(&mut *self.objects.lock().unwrap_or_else(PoisonError::into_inner));
        // SAFETY: objects of this device, each destroyed once; nothing was submitted.
        unsafe {
            for object in objects.into_iter().rev() {
                match object {
                    Object::Module(module) => self.raw.destroy_shader_module(module, None),
                    Object::SetLayout(layout) => self.raw.destroy_descriptor_set_layout(layout, None),
                    Object::Layout(layout) => self.raw.destroy_pipeline_layout(layout, None),
                    Object::RenderPass(pass) => self.raw.destroy_render_pass(pass, None),
                    Object::Pipeline(pipeline) => self.raw.destroy_pipeline(pipeline, None),
                }
            }
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.destroy_objects();
        // SAFETY: all objects of the device have been destroyed.
        unsafe { self.raw.destroy_device(None) };
    }
}
