//! Render passes of both versions, and what stands in their chains.

use ash::vk;

use crate::json::structure::structure;

structure! { plain vk::AttachmentDescription {
    "flags": value flags,
    "format": value format,
    "finalLayout": value final_layout,
    "initialLayout": value initial_layout,
    "loadOp": value load_op,
    "storeOp": value store_op,
    "samples": value samples,
    "stencilLoadOp": value stencil_load_op,
    "stencilStoreOp": value stencil_store_op,
} }

structure! { plain vk::AttachmentReference {
    "attachment": value attachment,
    "layout": value layout,
} }

structure! { plain vk::SubpassDependency {
    "dependencyFlags": value dependency_flags,
    "dstAccessMask": value dst_access_mask,
    "srcAccessMask": value src_access_mask,
    "dstStageMask": value dst_stage_mask,
    "srcStageMask": value src_stage_mask,
    "dstSubpass": value dst_subpass,
    "srcSubpass": value src_subpass,
} }

structure! { marked vk::SubpassDescription<'static> {
    "flags": value flags,
    "pipelineBindPoint": value pipeline_bind_point,
    "preserveAttachments": list p_preserve_attachments => preserve_attachment_count,
    "inputAttachments": list p_input_attachments => input_attachment_count,
    "colorAttachments": list p_color_attachments => color_attachment_count,
    "resolveAttachments": sized p_resolve_attachments [color_attachment_count],
    "depthStencilAttachment": pointer p_depth_stencil_attachment,
} }

structure! { chained vk::RenderPassCreateInfo<'static> {
    "flags": value flags,
    "dependencies": list p_dependencies => dependency_count,
    "attachments": list p_attachments => attachment_count,
    "subpasses": list p_subpasses => subpass_count,
} }

structure! { chained vk::AttachmentDescription2<'static> {
    "flags": value flags,
    "format": value format,
    "finalLayout": value final_layout,
    "initialLayout": value initial_layout,
    "loadOp": value load_op,
    "storeOp": value store_op,
    "samples": value samples,
    "stencilLoadOp": value stencil_load_op,
    "stencilStoreOp": value stencil_store_op,
} }

structure! { chained vk::AttachmentReference2<'static> {
    "attachment": value attachment,
    "layout": value layout,
    "aspectMask": value aspect_mask,
} }

structure! { chained vk::SubpassDependency2<'static> {
    "dependencyFlags": value dependency_flags,
    "dstAccessMask": value dst_access_mask,
    "srcAccessMask": value src_access_mask,
    "dstStageMask": value dst_stage_mask,
    "srcStageMask": value src_stage_mask,
    "dstSubpass": value dst_subpass,
    "srcSubpass": value src_subpass,
    "viewOffset": value view_offset,
} }

structure! { chained vk::SubpassDescription2<'static> {
    "flags": value flags,
    "pipelineBindPoint": value pipeline_bind_point,
    "viewMask": value view_mask,
    "preserveAttachments": list p_preserve_attachments => preserve_attachment_count,
    "inputAttachments": list p_input_attachments => input_attachment_count,
    "colorAttachments": list p_color_attachments => color_attachment_count,
    "resolveAttachments": sized p_resolve_attachments [color_attachment_count],
    "depthStencilAttachment": pointer p_depth_stencil_attachment,
} }

structure! { chained vk::RenderPassCreateInfo2<'static> {
    "flags": value flags,
    "correlatedViewMasks": list p_correlated_view_masks => correlated_view_mask_count,
    "dependencies": list p_dependencies => dependency_count,
    "attachments": list p_attachments => attachment_count,
    "subpasses": list p_subpasses => subpass_count,
} }

structure! { link vk::RenderPassMultiviewCreateInfo<'static> {
    "viewMasks": list p_view_masks => subpass_count,
    "viewOffsets": list p_view_offsets => dependency_count,
    "correlationMasks": list p_correlation_masks => correlation_mask_count,
} }

structure! { plain vk::InputAttachmentAspectReference {
    "subpass": value subpass,
    "inputAttachmentIndex": value input_attachment_index,
    "aspectMask": value aspect_mask,
} }

structure! { link vk::RenderPassInputAttachmentAspectCreateInfo<'static> {
    "aspectReferences": list p_aspect_references => aspect_reference_count,
} }

structure! { link vk::AttachmentDescriptionStencilLayout<'static> {
    "stencilInitialLayout": value stencil_initial_layout,
    "stencilFinalLayout": value stencil_final_layout,
} }

structure! { link vk::AttachmentReferenceStencilLayout<'static> {
    "stencilLayout": value stencil_layout,
} }

structure! { link vk::SubpassDescriptionDepthStencilResolve<'static> {
    "depthResolveMode": value depth_resolve_mode,
    "stencilResolveMode": value stencil_resolve_mode,
    "depthStencilResolveAttachment": pointer p_depth_stencil_resolve_attachment,
} }

structure! { plain vk::Extent2D {
    "width": value width,
    "height": value height,
} }

structure! { link vk::FragmentShadingRateAttachmentInfoKHR<'static> {
    "shadingRateAttachmentTexelSize": value shading_rate_attachment_texel_size,
    "fragmentShadingRateAttachment": pointer p_fragment_shading_rate_attachment,
} }

structure! { link vk::MemoryBarrier2<'static> {
    "srcStageMask": value src_stage_mask,
    "srcAccessMask": value src_access_mask,
    "dstStageMask": value dst_stage_mask,
    "dstAccessMask": value dst_access_mask,
} }

structure! { link vk::RenderPassCreationControlEXT<'static> {
    "disallowMerging": value disallow_merging,
} }

structure! { link vk::MultisampledRenderToSingleSampledInfoEXT<'static> {
    "rasterizationSamples": value rasterization_samples,
    "multisampledRenderToSingleSampledEnable": value multisampled_render_to_single_sampled_enable,
} }

structure! { link vk::RenderPassFragmentDensityMapCreateInfoEXT<'static> {
    "fragmentDensityMapAttachment": value fragment_density_map_attachment,
} }
