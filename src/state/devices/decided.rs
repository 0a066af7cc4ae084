//! Decisions about a device that vkCreateDevice makes.

use ash::vk;

use vkstash_model::payload::ShaderBinaries;
use vkstash_recipe::device_configuration::DeviceConfiguration;

/// The component that answers for shader module identifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdentifierMode {
    /// The program did not enable VK_EXT_shader_module_identifier.
    Off,
    /// The driver answers.
    Native,
    /// This layer answers: identifiers are module identities of the stash.
    Emulated,
}

/// What vkCreateDevice decided about a new device.
#[derive(Clone)]
pub struct Decided {
    /// FAIL_ON_COMPILE_REQUIRED may be used.
    pub cache_control: bool,
    /// Whether the driver or the layer answers for shader module identifiers.
    pub identifiers: IdentifierMode,
    /// The program may create shader objects, and everything that it has enabled is part of the device header: the
    /// binaries that the driver takes.
    pub shader_binaries: Option<ShaderBinaries>,
    /// The device as the program asked for it.
    pub configuration: DeviceConfiguration,
    /// A driver that is called from a thread of the layer's might call the program: the instance or the device was
    /// created with an allocator, or with a callback that reports allocations.
    pub calls_back: bool,
}

impl Decided {
    /// VkPhysicalDeviceBlendOperationAdvancedFeaturesEXT is on.
    pub fn advanced_blend(&self) -> bool {
        let blend = vk::StructureType::PHYSICAL_DEVICE_BLEND_OPERATION_ADVANCED_FEATURES_EXT;
        self.configuration.switches_on(blend.as_raw())
    }
}
