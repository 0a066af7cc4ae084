//! The features and extensions of the driver.

use ash::vk::{self, TaggedStructure};

use crate::config::Config;

/// Extensions that the driver has with every script.
const ALWAYS: &[&str] = &[
    "VK_KHR_maintenance4",
    "VK_KHR_create_renderpass2",
    "VK_KHR_dynamic_rendering",
    "VK_KHR_depth_stencil_resolve",
    "VK_KHR_multiview",
    "VK_KHR_maintenance1",
    "VK_KHR_maintenance2",
    "VK_KHR_maintenance3",
    "VK_KHR_spirv_1_4",
    "VK_KHR_shader_float_controls",
    "VK_KHR_buffer_device_address",
    "VK_KHR_synchronization2",
    "VK_KHR_pipeline_library",
    "VK_KHR_pipeline_executable_properties",
    "VK_KHR_deferred_host_operations",
    "VK_KHR_acceleration_structure",
    "VK_KHR_ray_tracing_pipeline",
    "VK_KHR_fragment_shading_rate",
    "VK_EXT_graphics_pipeline_library",
    "VK_EXT_extended_dynamic_state",
    "VK_EXT_extended_dynamic_state2",
    "VK_EXT_extended_dynamic_state3",
    "VK_EXT_descriptor_indexing",
    "VK_EXT_subgroup_size_control",
    "VK_EXT_pipeline_robustness",
    "VK_EXT_robustness2",
    "VK_EXT_private_data",
    "VK_EXT_mesh_shader",
    "VK_EXT_vertex_input_dynamic_state",
    "VK_EXT_vertex_attribute_divisor",
    "VK_EXT_custom_border_color",
    "VK_EXT_mutable_descriptor_type",
    "VK_EXT_depth_clip_enable",
    "VK_EXT_conservative_rasterization",
    "VK_EXT_line_rasterization",
    "VK_EXT_provoking_vertex",
    "VK_EXT_transform_feedback",
    "VK_EXT_inline_uniform_block",
    "VK_EXT_memory_budget",
    "VK_EXT_tooling_info",
    "VK_EXT_scalar_block_layout",
    "VK_EXT_host_query_reset",
    "VK_EXT_shader_demote_to_helper_invocation",
];

/// The device extensions of a script, sorted.
pub fn extensions(config: &Config) -> Vec<String> {
    let mut names: Vec<String> = ALWAYS.iter().map(|name| (*name).into()).collect();
    let by_field = [
        (config.identifiers, "VK_EXT_shader_module_identifier"),
        (config.cache_control, "VK_EXT_pipeline_creation_cache_control"),
        (config.creation_feedback, "VK_EXT_pipeline_creation_feedback"),
        (config.maintenance5, "VK_KHR_maintenance5"),
        (config.pipeline_binary, "VK_KHR_pipeline_binary"),
        (config.shader_object, "VK_EXT_shader_object"),
    ];
    names.extend(by_field.iter().filter(|(has, _)| *has).map(|(_, name)| (*name).into()));
    names.extend(config.extensions.iter().cloned());
    names.retain(|name| !config.without.contains(name));
    names.sort();
    names.dedup();
    names
}

/// What a structure's features depend on.
enum Needs {
    /// A core version.
    Core(u32),
    /// An extension.
    Extension(&'static str),
}

use Needs::{Core, Extension};

/// Structures whose members are all VkBool32: sType, number of members, and what they depend on.
const TABLE: &[(vk::StructureType, usize, Needs)] = &[
    (vk::PhysicalDeviceVulkan11Features::STRUCTURE_TYPE, 12, Core(vk::API_VERSION_1_2)),
    (vk::PhysicalDeviceVulkan12Features::STRUCTURE_TYPE, 47, Core(vk::API_VERSION_1_2)),
    (vk::PhysicalDeviceVulkan13Features::STRUCTURE_TYPE, 15, Core(vk::API_VERSION_1_3)),
    (vk::StructureType::from_raw(55), 21, Core(vk::make_api_version(0, 1, 4, 0))),
    (CACHE_CONTROL, 1, Extension("VK_EXT_pipeline_creation_cache_control")),
    (IDENTIFIERS, 1, Extension("VK_EXT_shader_module_identifier")),
    (MAINTENANCE5, 1, Extension("VK_KHR_maintenance5")),
    (vk::PhysicalDeviceMaintenance4Features::STRUCTURE_TYPE, 1, Extension("VK_KHR_maintenance4")),
    (LIBRARIES, 1, Extension("VK_EXT_graphics_pipeline_library")),
    (
        vk::PhysicalDevicePipelineExecutablePropertiesFeaturesKHR::STRUCTURE_TYPE,
        1,
        Extension("VK_KHR_pipeline_executable_properties"),
    ),
    (
        vk::PhysicalDeviceRayTracingPipelineFeaturesKHR::STRUCTURE_TYPE,
        5,
        Extension("VK_KHR_ray_tracing_pipeline"),
    ),
    (
        vk::PhysicalDeviceAccelerationStructureFeaturesKHR::STRUCTURE_TYPE,
        5,
        Extension("VK_KHR_acceleration_structure"),
    ),
    (
        vk::PhysicalDeviceFragmentShadingRateFeaturesKHR::STRUCTURE_TYPE,
        3,
        Extension("VK_KHR_fragment_shading_rate"),
    ),
    (vk::PhysicalDeviceDynamicRenderingFeatures::STRUCTURE_TYPE, 1, Extension("VK_KHR_dynamic_rendering")),
    (vk::PhysicalDeviceSynchronization2Features::STRUCTURE_TYPE, 1, Extension("VK_KHR_synchronization2")),
    (vk::PhysicalDeviceMultiviewFeatures::STRUCTURE_TYPE, 3, Extension("VK_KHR_multiview")),
    (
        vk::PhysicalDeviceBufferDeviceAddressFeatures::STRUCTURE_TYPE,
        3,
        Extension("VK_KHR_buffer_device_address"),
    ),
    (
        vk::PhysicalDeviceDescriptorIndexingFeatures::STRUCTURE_TYPE,
        20,
        Extension("VK_EXT_descriptor_indexing"),
    ),
    (
        vk::PhysicalDeviceExtendedDynamicStateFeaturesEXT::STRUCTURE_TYPE,
        1,
        Extension("VK_EXT_extended_dynamic_state"),
    ),
    (
        vk::PhysicalDeviceExtendedDynamicState2FeaturesEXT::STRUCTURE_TYPE,
        3,
        Extension("VK_EXT_extended_dynamic_state2"),
    ),
    (
        vk::PhysicalDeviceExtendedDynamicState3FeaturesEXT::STRUCTURE_TYPE,
        31,
        Extension("VK_EXT_extended_dynamic_state3"),
    ),
    (
        vk::PhysicalDeviceVertexInputDynamicStateFeaturesEXT::STRUCTURE_TYPE,
        1,
        Extension("VK_EXT_vertex_input_dynamic_state"),
    ),
    (
        vk::PhysicalDeviceVertexAttributeDivisorFeaturesKHR::STRUCTURE_TYPE,
        2,
        Extension("VK_EXT_vertex_attribute_divisor"),
    ),
    (
        vk::PhysicalDeviceSubgroupSizeControlFeatures::STRUCTURE_TYPE,
        2,
        Extension("VK_EXT_subgroup_size_control"),
    ),
    (
        vk::PhysicalDevicePipelineRobustnessFeaturesEXT::STRUCTURE_TYPE,
        1,
        Extension("VK_EXT_pipeline_robustness"),
    ),
    (vk::PhysicalDeviceRobustness2FeaturesEXT::STRUCTURE_TYPE, 3, Extension("VK_EXT_robustness2")),
    (vk::PhysicalDevicePrivateDataFeatures::STRUCTURE_TYPE, 1, Extension("VK_EXT_private_data")),
    (vk::PhysicalDeviceMeshShaderFeaturesEXT::STRUCTURE_TYPE, 5, Extension("VK_EXT_mesh_shader")),
    (
        vk::PhysicalDeviceCustomBorderColorFeaturesEXT::STRUCTURE_TYPE,
        2,
        Extension("VK_EXT_custom_border_color"),
    ),
    (
        vk::PhysicalDeviceMutableDescriptorTypeFeaturesEXT::STRUCTURE_TYPE,
        1,
        Extension("VK_EXT_mutable_descriptor_type"),
    ),
    (vk::PhysicalDeviceDepthClipEnableFeaturesEXT::STRUCTURE_TYPE, 1, Extension("VK_EXT_depth_clip_enable")),
    (
        vk::PhysicalDeviceLineRasterizationFeaturesKHR::STRUCTURE_TYPE,
        6,
        Extension("VK_EXT_line_rasterization"),
    ),
    (vk::PhysicalDeviceProvokingVertexFeaturesEXT::STRUCTURE_TYPE, 2, Extension("VK_EXT_provoking_vertex")),
    (
        vk::PhysicalDeviceTransformFeedbackFeaturesEXT::STRUCTURE_TYPE,
        2,
        Extension("VK_EXT_transform_feedback"),
    ),
    (
        vk::PhysicalDeviceInlineUniformBlockFeatures::STRUCTURE_TYPE,
        2,
        Extension("VK_EXT_inline_uniform_block"),
    ),
    (vk::PhysicalDeviceScalarBlockLayoutFeatures::STRUCTURE_TYPE, 1, Extension("VK_EXT_scalar_block_layout")),
    (vk::PhysicalDeviceHostQueryResetFeatures::STRUCTURE_TYPE, 1, Extension("VK_EXT_host_query_reset")),
    (PIPELINE_BINARY, 1, Extension("VK_KHR_pipeline_binary")),
    (DESCRIPTOR_HEAP, 2, Extension("VK_EXT_descriptor_heap")),
    (SHADER_OBJECT, 1, Extension("VK_EXT_shader_object")),
];

/// VkPhysicalDevicePipelineCreationCacheControlFeatures.
pub const CACHE_CONTROL: vk::StructureType =
    vk::PhysicalDevicePipelineCreationCacheControlFeatures::STRUCTURE_TYPE;
/// VkPhysicalDeviceShaderModuleIdentifierFeaturesEXT.
pub const IDENTIFIERS: vk::StructureType =
    vk::PhysicalDeviceShaderModuleIdentifierFeaturesEXT::STRUCTURE_TYPE;
/// VkPhysicalDeviceMaintenance5FeaturesKHR.
pub const MAINTENANCE5: vk::StructureType = vk::PhysicalDeviceMaintenance5FeaturesKHR::STRUCTURE_TYPE;
/// VkPhysicalDeviceGraphicsPipelineLibraryFeaturesEXT.
pub const LIBRARIES: vk::StructureType = vk::PhysicalDeviceGraphicsPipelineLibraryFeaturesEXT::STRUCTURE_TYPE;
/// VkPhysicalDevicePipelineBinaryFeaturesKHR, which ash 0.38 lacks.
pub const PIPELINE_BINARY: vk::StructureType = vk::StructureType::from_raw(1_000_483_000);
/// VkPhysicalDeviceDescriptorHeapFeaturesEXT, which ash 0.38 lacks.
pub const DESCRIPTOR_HEAP: vk::StructureType = vk::StructureType::from_raw(1_000_135_009);
/// VkPhysicalDeviceShaderObjectFeaturesEXT.
pub const SHADER_OBJECT: vk::StructureType = vk::PhysicalDeviceShaderObjectFeaturesEXT::STRUCTURE_TYPE;
/// Vulkan13Features.pipelineCreationCacheControl.
pub const CACHE_CONTROL_OF_13: usize = 3;
/// Vulkan14Features.maintenance5.
pub const MAINTENANCE5_OF_14: usize = 15;

/// The driver's support for the members of a feature structure; None for an unknown structure.
pub fn supported(config: &Config, s_type: vk::StructureType) -> Option<Vec<bool>> {
    let (_, count, needs) = TABLE.iter().find(|row| row.0 == s_type)?;
    let has = match needs {
        Core(version) => config.api() >= *version,
        Extension(name) => extensions(config).iter().any(|extension| extension == name),
    };
    let mut members = vec![has; *count];
    if s_type == vk::PhysicalDeviceVulkan13Features::STRUCTURE_TYPE {
        members[CACHE_CONTROL_OF_13] = has && config.cache_control;
    } else if s_type.as_raw() == 55 {
        members[MAINTENANCE5_OF_14] = has && config.maintenance5;
    }
    Some(members)
}

/// Whether the driver is older than a structure: a query then leaves it unchanged, as real drivers do.
pub fn is_unknown_to(config: &Config, s_type: vk::StructureType) -> bool {
    let newer =
        [IDENTIFIERS, MAINTENANCE5, PIPELINE_BINARY, DESCRIPTOR_HEAP, SHADER_OBJECT].contains(&s_type);
    newer && supported(config, s_type).is_none_or(|members| !members[0])
}

/// The members of a feature structure.
///
/// # Safety
/// `node` is a structure whose sType [`supported`] knows to have `count` members.
pub unsafe fn members<'a>(node: *mut vk::BaseOutStructure<'_>, count: usize) -> &'a mut [vk::Bool32] {
    // SAFETY: the booleans follow sType and pNext, and the caller passes their number.
    unsafe { std::slice::from_raw_parts_mut(node.add(1).cast(), count) }
}
