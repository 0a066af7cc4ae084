//! Structures that stand in the pNext chains of graphics state.

use ash::vk;

use super::newer::DepthClampRange;
use crate::json::structure::structure;
use vkstash_model::newer::PipelineViewportDepthClampControlCreateInfoEXT;

structure! { link vk::PipelineTessellationDomainOriginStateCreateInfo<'static> {
    "domainOrigin": value domain_origin,
} }

structure! { plain vk::VertexInputBindingDivisorDescriptionKHR {
    "binding": value binding,
    "divisor": value divisor,
} }

structure! { link vk::PipelineVertexInputDivisorStateCreateInfoKHR<'static> {
    "vertexBindingDivisorCount": value vertex_binding_divisor_count,
    "vertexBindingDivisors": counted p_vertex_binding_divisors [vertex_binding_divisor_count],
} }

structure! { link vk::PipelineRasterizationDepthClipStateCreateInfoEXT<'static> {
    "flags": value flags,
    "depthClipEnable": value depth_clip_enable,
} }

structure! { link vk::PipelineRasterizationStateStreamCreateInfoEXT<'static> {
    "flags": value flags,
    "rasterizationStream": value rasterization_stream,
} }

structure! { link vk::PipelineColorBlendAdvancedStateCreateInfoEXT<'static> {
    "srcPremultiplied": value src_premultiplied,
    "dstPremultiplied": value dst_premultiplied,
    "blendOverlap": value blend_overlap,
} }

structure! { link vk::PipelineRasterizationConservativeStateCreateInfoEXT<'static> {
    "flags": value flags,
    "conservativeRasterizationMode": value conservative_rasterization_mode,
    "extraPrimitiveOverestimationSize": value extra_primitive_overestimation_size,
} }

structure! { link vk::PipelineRasterizationLineStateCreateInfoKHR<'static> {
    "lineRasterizationMode": value line_rasterization_mode,
    "stippledLineEnable": value stippled_line_enable,
    "lineStippleFactor": value line_stipple_factor,
    "lineStipplePattern": value line_stipple_pattern,
} }

structure! { link vk::PipelineColorWriteCreateInfoEXT<'static> {
    "attachmentCount": value attachment_count,
    "colorWriteEnables": counted p_color_write_enables [attachment_count],
} }

structure! { plain vk::SampleLocationEXT {
    "x": value x,
    "y": value y,
} }

structure! { link vk::SampleLocationsInfoEXT<'static> {
    "sampleLocationsPerPixel": value sample_locations_per_pixel,
    "sampleLocationGridSize": value sample_location_grid_size,
    "sampleLocations": list p_sample_locations => sample_locations_count,
} }

structure! { link vk::PipelineSampleLocationsStateCreateInfoEXT<'static> {
    "sampleLocationsEnable": value sample_locations_enable,
    "sampleLocationsInfo": tagged sample_locations_info,
} }

structure! { link vk::PipelineRasterizationProvokingVertexStateCreateInfoEXT<'static> {
    "provokingVertexMode": value provoking_vertex_mode,
} }

structure! { link vk::PipelineDiscardRectangleStateCreateInfoEXT<'static> {
    "flags": value flags,
    "discardRectangleMode": value discard_rectangle_mode,
    "discardRectangleCount": value discard_rectangle_count,
    "discardRectangles": counted p_discard_rectangles [discard_rectangle_count],
} }

structure! { link vk::PipelineFragmentShadingRateStateCreateInfoKHR<'static> {
    "fragmentSize": optional fragment_size,
    "combinerOps": optional combiner_ops,
} }

structure! { link vk::PipelineViewportDepthClipControlCreateInfoEXT<'static> {
    "negativeOneToOne": value negative_one_to_one,
} }

structure! { link vk::DepthBiasRepresentationInfoEXT<'static> {
    "depthBiasRepresentation": value depth_bias_representation,
    "depthBiasExact": value depth_bias_exact,
} }

structure! { newer PipelineViewportDepthClampControlCreateInfoEXT {
    "depthClampMode": mode depth_clamp_mode,
    "depthClampRange": range p_depth_clamp_range,
} }
