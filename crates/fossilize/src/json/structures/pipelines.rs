//! Stages and pipelines, and what stands in their chains.

use ash::vk;

use crate::json::structure::structure;
use vkstash_model::newer::CustomResolveCreateInfoEXT;

structure! { plain vk::SpecializationMapEntry {
    "offset": value offset,
    "size": value size,
    "constantID": value constant_id,
} }

structure! { marked vk::SpecializationInfo<'static> {
    "dataSize": value data_size,
    "data": bytes p_data [data_size],
    "mapEntries": entries p_map_entries => map_entry_count [data_size],
} }

structure! { chained vk::PipelineShaderStageCreateInfo<'static> {
    "flags": value flags,
    "name": string p_name,
    "module": module module,
    "stage": value stage,
    "specializationInfo": pointer p_specialization_info,
} }

structure! { chained vk::ComputePipelineCreateInfo<'static> {
    "flags": value flags,
    "layout": value layout,
    "basePipelineHandle": value base_pipeline_handle,
    "basePipelineIndex": value base_pipeline_index,
    "stage": value stage,
} }

structure! { chained vk::GraphicsPipelineCreateInfo<'static> {
    "flags": value flags,
    "basePipelineHandle": value base_pipeline_handle,
    "basePipelineIndex": value base_pipeline_index,
    "layout": value layout,
    "renderPass": value render_pass,
    "subpass": value subpass,
    "tessellationState": pointer p_tessellation_state,
    "dynamicState": pointer p_dynamic_state,
    "multisampleState": pointer p_multisample_state,
    "vertexInputState": pointer p_vertex_input_state,
    "rasterizationState": pointer p_rasterization_state,
    "inputAssemblyState": pointer p_input_assembly_state,
    "colorBlendState": pointer p_color_blend_state,
    "viewportState": pointer p_viewport_state,
    "depthStencilState": pointer p_depth_stencil_state,
    "stages": list p_stages => stage_count,
} }

structure! { chained vk::RayTracingShaderGroupCreateInfoKHR<'static> {
    "anyHitShader": value any_hit_shader,
    "intersectionShader": value intersection_shader,
    "generalShader": value general_shader,
    "closestHitShader": value closest_hit_shader,
    "type": value ty,
    "shaderGroupCaptureReplayHandle": absent p_shader_group_capture_replay_handle,
} }

structure! { chained vk::RayTracingPipelineInterfaceCreateInfoKHR<'static> {
    "maxPipelineRayPayloadSize": value max_pipeline_ray_payload_size,
    "maxPipelineRayHitAttributeSize": value max_pipeline_ray_hit_attribute_size,
} }

// A value in ray tracing pipelines, where it has a chain, and a link without one in graphics pipelines.
structure! { chained vk::PipelineLibraryCreateInfoKHR<'static> {
    "libraries": list p_libraries => library_count,
} }

structure! { chained vk::RayTracingPipelineCreateInfoKHR<'static> {
    "flags": value flags,
    "layout": value layout,
    "basePipelineHandle": value base_pipeline_handle,
    "basePipelineIndex": value base_pipeline_index,
    "maxPipelineRayRecursionDepth": value max_pipeline_ray_recursion_depth,
    "dynamicState": pointer p_dynamic_state,
    "stages": list p_stages => stage_count,
    "libraryInterface": pointer p_library_interface,
    "libraryInfo": pointer p_library_info,
    "groups": list p_groups => group_count,
} }

structure! { link vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo<'static> {
    "requiredSubgroupSize": value required_subgroup_size,
} }

structure! { link vk::PipelineRenderingCreateInfo<'static> {
    "depthAttachmentFormat": value depth_attachment_format,
    "stencilAttachmentFormat": value stencil_attachment_format,
    "viewMask": value view_mask,
    "colorAttachmentFormats": list p_color_attachment_formats => color_attachment_count,
} }

structure! { link vk::GraphicsPipelineLibraryCreateInfoEXT<'static> {
    "flags": value flags,
} }

structure! { link vk::PipelineCreateFlags2CreateInfoKHR<'static> {
    "flags": value flags,
} }

structure! { link vk::PipelineRobustnessCreateInfoEXT<'static> {
    "storageBuffers": value storage_buffers,
    "vertexInputs": value vertex_inputs,
    "uniformBuffers": value uniform_buffers,
    "images": value images,
} }

structure! { link vk::RenderingAttachmentLocationInfoKHR<'static> {
    "colorAttachmentCount": value color_attachment_count,
    "colorAttachmentLocations": counted p_color_attachment_locations [color_attachment_count],
} }

structure! { link vk::RenderingInputAttachmentIndexInfoKHR<'static> {
    "colorAttachmentCount": value color_attachment_count,
    "colorAttachmentInputIndices": counted p_color_attachment_input_indices [color_attachment_count],
    "depthInputAttachmentIndex": pointer p_depth_input_attachment_index,
    "stencilInputAttachmentIndex": pointer p_stencil_input_attachment_index,
} }

structure! { newer CustomResolveCreateInfoEXT {
    "customResolve": value custom_resolve,
    "depthAttachmentFormat": value depth_attachment_format,
    "stencilAttachmentFormat": value stencil_attachment_format,
    "colorAttachmentFormats": list p_color_attachment_formats => color_attachment_count,
} }
