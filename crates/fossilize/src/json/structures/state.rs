//! The state of graphics pipelines.

use ash::vk;

use crate::json::structure::structure;

structure! { chained vk::PipelineTessellationStateCreateInfo<'static> {
    "flags": value flags,
    "patchControlPoints": value patch_control_points,
} }

structure! { lone vk::PipelineDynamicStateCreateInfo<'static> {
    "flags": value flags,
    "dynamicState": list p_dynamic_states => dynamic_state_count,
} }

structure! { chained vk::PipelineMultisampleStateCreateInfo<'static> {
    "flags": value flags,
    "rasterizationSamples": value rasterization_samples,
    "sampleShadingEnable": value sample_shading_enable,
    "minSampleShading": value min_sample_shading,
    "alphaToOneEnable": value alpha_to_one_enable,
    "alphaToCoverageEnable": value alpha_to_coverage_enable,
    "sampleMask": mask p_sample_mask [rasterization_samples],
} }

structure! { plain vk::VertexInputAttributeDescription {
    "location": value location,
    "binding": value binding,
    "offset": value offset,
    "format": value format,
} }

structure! { plain vk::VertexInputBindingDescription {
    "binding": value binding,
    "stride": value stride,
    "inputRate": value input_rate,
} }

structure! { chained vk::PipelineVertexInputStateCreateInfo<'static> {
    "flags": value flags,
    "attributes": list p_vertex_attribute_descriptions => vertex_attribute_description_count,
    "bindings": list p_vertex_binding_descriptions => vertex_binding_description_count,
} }

structure! { chained vk::PipelineRasterizationStateCreateInfo<'static> {
    "flags": value flags,
    "depthBiasConstantFactor": value depth_bias_constant_factor,
    "depthBiasSlopeFactor": value depth_bias_slope_factor,
    "depthBiasClamp": value depth_bias_clamp,
    "depthBiasEnable": value depth_bias_enable,
    "depthClampEnable": value depth_clamp_enable,
    "polygonMode": value polygon_mode,
    "rasterizerDiscardEnable": value rasterizer_discard_enable,
    "frontFace": value front_face,
    "lineWidth": value line_width,
    "cullMode": value cull_mode,
} }

structure! { chained vk::PipelineInputAssemblyStateCreateInfo<'static> {
    "flags": value flags,
    "topology": value topology,
    "primitiveRestartEnable": value primitive_restart_enable,
} }

structure! { plain vk::PipelineColorBlendAttachmentState {
    "dstAlphaBlendFactor": value dst_alpha_blend_factor,
    "srcAlphaBlendFactor": value src_alpha_blend_factor,
    "dstColorBlendFactor": value dst_color_blend_factor,
    "srcColorBlendFactor": value src_color_blend_factor,
    "colorWriteMask": value color_write_mask,
    "alphaBlendOp": value alpha_blend_op,
    "colorBlendOp": value color_blend_op,
    "blendEnable": value blend_enable,
} }

structure! { chained vk::PipelineColorBlendStateCreateInfo<'static> {
    "flags": value flags,
    "logicOp": value logic_op,
    "logicOpEnable": value logic_op_enable,
    "blendConstants": value blend_constants,
    "attachments": blank p_attachments => attachment_count,
} }

structure! { plain vk::Viewport {
    "x": value x,
    "y": value y,
    "width": value width,
    "height": value height,
    "minDepth": value min_depth,
    "maxDepth": value max_depth,
} }

structure! { chained vk::PipelineViewportStateCreateInfo<'static> {
    "flags": value flags,
    "viewportCount": value viewport_count,
    "scissorCount": value scissor_count,
    "viewports": counted p_viewports [viewport_count],
    "scissors": counted p_scissors [scissor_count],
} }

structure! { plain vk::StencilOpState {
    "compareOp": value compare_op,
    "writeMask": value write_mask,
    "reference": value reference,
    "compareMask": value compare_mask,
    "passOp": value pass_op,
    "failOp": value fail_op,
    "depthFailOp": value depth_fail_op,
} }

structure! { chained vk::PipelineDepthStencilStateCreateInfo<'static> {
    "flags": value flags,
    "stencilTestEnable": value stencil_test_enable,
    "maxDepthBounds": value max_depth_bounds,
    "minDepthBounds": value min_depth_bounds,
    "depthBoundsTestEnable": value depth_bounds_test_enable,
    "depthWriteEnable": value depth_write_enable,
    "depthTestEnable": value depth_test_enable,
    "depthCompareOp": value depth_compare_op,
    "front": value front,
    "back": value back,
} }
