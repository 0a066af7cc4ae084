//! The device of a translator, its layouts, and the identifier queries.

mod enable;

use std::sync::Arc;

use ash::{ext, vk};

use crate::corpus::Failure;
use crate::vulkan::Instance;

/// Storage buffers in the set of compute pipelines.
const BUFFERS: u32 = 16;
/// Bytes of push constants of compute pipelines.
const PUSH_CONSTANTS: u32 = 256;

/// Layouts of graphics pipelines: set 0 is the vertex shader's, set 1 the fragment shader's.
#[derive(Clone, Copy, Debug)]
pub struct GraphicsLayouts {
    /// For pipelines created in one piece.
    pub merged: vk::PipelineLayout,
    /// For links; INDEPENDENT_SETS.
    pub linked: vk::PipelineLayout,
    /// For vertex shader libraries; INDEPENDENT_SETS, with NULL in place of the fragment shader's set.
    pub vertex: vk::PipelineLayout,
    /// For fragment shader libraries, with NULL in place of the vertex shader's set.
    pub fragment: vk::PipelineLayout,
}

/// A device of Vulkan 1.3 with graphics pipeline libraries, and with identifiers if it has them. Callers destroy the
/// pipelines and caches that they create.
pub struct Gpu {
    /// deviceName.
    pub name: String,
    /// The device.
    pub device: ash::Device,
    /// The extension's commands, if it is enabled.
    pub identifiers: Option<ext::shader_module_identifier::Device>,
    /// shaderModuleIdentifierAlgorithmUUID, zero without the extension.
    pub algorithm: [u8; 16],
    /// The device has maintenance5: creation flags are in a structure of their own.
    pub flags2: bool,
    /// Layout of compute pipelines.
    pub compute: vk::PipelineLayout,
    /// Layouts of graphics pipelines.
    pub graphics: GraphicsLayouts,
    sets: Vec<vk::DescriptorSetLayout>,
    // Destroyed after the device.
    _instance: Arc<Instance>,
}

impl Gpu {
    /// Creates the device on the instance's first physical device.
    ///
    /// # Errors
    /// Missing features, or the driver's error.
    pub fn new(instance: &Arc<Instance>, flags2: bool) -> Result<Gpu, Failure> {
        let physical = instance.physical_device();
        let (device, identifiers) = enable::device(instance, physical, flags2)?;
        let algorithm = match &identifiers {
            Some(_) => instance.identifier_support(physical).1,
            None => [0; 16],
        };
        let properties = instance.properties(physical);
        let name = properties.device_name_as_c_str().unwrap_or_default().to_string_lossy().into_owned();
        let mut gpu = Gpu {
            name,
            device,
            identifiers,
            algorithm,
            flags2,
            compute: vk::PipelineLayout::null(),
            graphics: GraphicsLayouts {
                merged: vk::PipelineLayout::null(),
                linked: vk::PipelineLayout::null(),
                vertex: vk::PipelineLayout::null(),
                fragment: vk::PipelineLayout::null(),
            },
            sets: Vec::new(),
            _instance: instance.clone(),
        };
        gpu.layouts(PUSH_CONSTANTS.min(properties.limits.max_push_constants_size))?;
        Ok(gpu)
    }

    fn layouts(&mut self, push_constants: u32) -> Result<(), vk::Result> {
        let buffers = self.set(vk::ShaderStageFlags::COMPUTE, vk::DescriptorType::STORAGE_BUFFER, BUFFERS)?;
        let vertex = self.set(vk::ShaderStageFlags::VERTEX, vk::DescriptorType::UNIFORM_BUFFER, 1)?;
        let fragment = self.set(vk::ShaderStageFlags::FRAGMENT, vk::DescriptorType::SAMPLED_IMAGE, 2)?;
        let push =
            vk::PushConstantRange::default().stage_flags(vk::ShaderStageFlags::COMPUTE).size(push_constants);
        let independent = vk::PipelineLayoutCreateFlags::INDEPENDENT_SETS_EXT;
        let merged = vk::PipelineLayoutCreateFlags::empty();
        let none = vk::DescriptorSetLayout::null();
        self.compute = self.layout(merged, &[buffers], &[push])?;
        self.graphics.merged = self.layout(merged, &[vertex, fragment], &[])?;
        self.graphics.linked = self.layout(independent, &[vertex, fragment], &[])?;
        self.graphics.vertex = self.layout(independent, &[vertex, none], &[])?;
        self.graphics.fragment = self.layout(independent, &[none, fragment], &[])?;
        Ok(())
    }

    fn set(
        &mut self,
        stage: vk::ShaderStageFlags,
        kind: vk::DescriptorType,
        count: u32,
    ) -> Result<vk::DescriptorSetLayout, vk::Result> {
        let binding = |binding| {
            vk::DescriptorSetLayoutBinding::default()
                .binding(binding)
                .descriptor_type(kind)
                .descriptor_count(1)
                .stage_flags(stage)
        };
        let bindings: Vec<_> = (0..count).map(binding).collect();
        let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
        // SAFETY: a live device, a valid create info.
        let set = unsafe { self.device.create_descriptor_set_layout(&info, None) }?;
        self.sets.push(set);
        Ok(set)
    }

    fn layout(
        &self,
        flags: vk::PipelineLayoutCreateFlags,
        sets: &[vk::DescriptorSetLayout],
        push: &[vk::PushConstantRange],
    ) -> Result<vk::PipelineLayout, vk::Result> {
        let info =
            vk::PipelineLayoutCreateInfo::default().flags(flags).set_layouts(sets).push_constant_ranges(push);
        // SAFETY: a live device and set layouts; NULL sets are only in independent layouts, on a device with pipeline
        // libraries (06753).
        unsafe { self.device.create_pipeline_layout(&info, None) }
    }

    /// Creates a shader module, which the caller destroys.
    ///
    /// # Errors
    /// Those of the driver.
    pub fn module(&self, code: &[u32]) -> Result<vk::ShaderModule, vk::Result> {
        // SAFETY: a live device, valid SPIR-V.
        unsafe { self.device.create_shader_module(&vk::ShaderModuleCreateInfo::default().code(code), None) }
    }

    /// vkGetShaderModuleIdentifierEXT; None without the extension.
    pub fn identifier_of_module(&self, module: vk::ShaderModule) -> Option<Vec<u8>> {
        let commands = self.identifiers.as_ref()?;
        let mut identifier = vk::ShaderModuleIdentifierEXT::default();
        let query = commands.fp().get_shader_module_identifier_ext;
        // SAFETY: a live module of this device, on which the feature is enabled.
        unsafe { query(self.device.handle(), module, &mut identifier) };
        Some(bytes(&identifier))
    }

    /// vkGetShaderModuleCreateInfoIdentifierEXT; None without the extension.
    pub fn identifier_of_code(&self, code: &[u32]) -> Option<Vec<u8>> {
        let commands = self.identifiers.as_ref()?;
        let info = vk::ShaderModuleCreateInfo::default().code(code);
        let mut identifier = vk::ShaderModuleIdentifierEXT::default();
        let query = commands.fp().get_shader_module_create_info_identifier_ext;
        // SAFETY: a valid create info, on a device with the feature enabled.
        unsafe { query(self.device.handle(), &info, &mut identifier) };
        Some(bytes(&identifier))
    }

    /// Destroys modules that no call uses any more.
    pub fn destroy_modules(&self, modules: impl IntoIterator<Item = vk::ShaderModule>) {
        for module in modules {
            // SAFETY: created by this device, passed here once, used by no call in flight.
            unsafe { self.device.destroy_shader_module(module, None) };
        }
    }

    /// Destroys pipelines and libraries; NULL is nothing.
    pub fn destroy_pipelines(&self, pipelines: impl IntoIterator<Item = vk::Pipeline>) {
        for pipeline in pipelines {
            // SAFETY: created by this device, passed here once, never bound, used by no call in flight.
            unsafe { self.device.destroy_pipeline(pipeline, None) };
        }
    }
}

/// The bytes of an identifier, by the size that the driver wrote.
fn bytes(identifier: &vk::ShaderModuleIdentifierEXT<'_>) -> Vec<u8> {
    let size = (identifier.identifier_size as usize).min(identifier.identifier.len());
    identifier.identifier[..size].to_vec()
}

impl Drop for Gpu {
    fn drop(&mut self) {
        let layouts = self.graphics;
        // SAFETY: objects of this device, each destroyed once (destroying NULL does nothing); nothing was submitted.
        unsafe {
            for layout in [self.compute, layouts.merged, layouts.linked, layouts.vertex, layouts.fragment] {
                self.device.destroy_pipeline_layout(layout, None);
            }
            for &set in &self.sets {
                self.device.destroy_descriptor_set_layout(set, None);
            }
            self.device.destroy_device(None);
        }
    }
}
