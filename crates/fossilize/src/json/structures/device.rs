//! The application, and those features of its device that Fossilize keeps because they decide what is compiled.

use ash::vk;

use crate::json::structure::structure;

structure! { lone vk::ApplicationInfo<'static> {
    "applicationName": name p_application_name,
    "engineName": name p_engine_name,
    "applicationVersion": value application_version,
    "engineVersion": value engine_version,
    "apiVersion": value api_version,
} }

structure! { link vk::PhysicalDeviceRobustness2FeaturesEXT<'static> {
    "robustBufferAccess2": value robust_buffer_access2,
    "robustImageAccess2": value robust_image_access2,
    "nullDescriptor": value null_descriptor,
} }

structure! { link vk::PhysicalDeviceImageRobustnessFeatures<'static> {
    "robustImageAccess": value robust_image_access,
} }

structure! { link vk::PhysicalDeviceFragmentShadingRateEnumsFeaturesNV<'static> {
    "fragmentShadingRateEnums": value fragment_shading_rate_enums,
    "supersampleFragmentShadingRates": value supersample_fragment_shading_rates,
    "noInvocationFragmentShadingRates": value no_invocation_fragment_shading_rates,
} }

structure! { link vk::PhysicalDeviceFragmentShadingRateFeaturesKHR<'static> {
    "pipelineFragmentShadingRate": value pipeline_fragment_shading_rate,
    "primitiveFragmentShadingRate": value primitive_fragment_shading_rate,
    "attachmentFragmentShadingRate": value attachment_fragment_shading_rate,
} }

structure! { link vk::PhysicalDeviceMeshShaderFeaturesEXT<'static> {
    "taskShader": value task_shader,
    "meshShader": value mesh_shader,
    "multiviewMeshShader": value multiview_mesh_shader,
    "primitiveFragmentShadingRateMeshShader": value primitive_fragment_shading_rate_mesh_shader,
    "meshShaderQueries": value mesh_shader_queries,
} }

structure! { link vk::PhysicalDeviceMeshShaderFeaturesNV<'static> {
    "taskShader": value task_shader,
    "meshShader": value mesh_shader,
} }

structure! { link vk::PhysicalDeviceDescriptorBufferFeaturesEXT<'static> {
    "descriptorBuffer": value descriptor_buffer,
    "descriptorBufferCaptureReplay": value descriptor_buffer_capture_replay,
    "descriptorBufferImageLayoutIgnored": value descriptor_buffer_image_layout_ignored,
    "descriptorBufferPushDescriptors": value descriptor_buffer_push_descriptors,
} }

structure! { link vk::PhysicalDeviceShaderObjectFeaturesEXT<'static> {
    "shaderObject": value shader_object,
} }

structure! { link vk::PhysicalDevicePrimitivesGeneratedQueryFeaturesEXT<'static> {
    "primitivesGeneratedQuery": value primitives_generated_query,
    "primitivesGeneratedQueryWithRasterizerDiscard": value primitives_generated_query_with_rasterizer_discard,
    "primitivesGeneratedQueryWithNonZeroStreams": value primitives_generated_query_with_non_zero_streams,
} }

structure! { link vk::PhysicalDeviceImage2DViewOf3DFeaturesEXT<'static> {
    "image2DViewOf3D": value image2_d_view_of3_d,
    "sampler2DViewOf3D": value sampler2_d_view_of3_d,
} }

structure! { link vk::PhysicalDevicePipelineRobustnessFeaturesEXT<'static> {
    "pipelineRobustness": value pipeline_robustness,
} }
