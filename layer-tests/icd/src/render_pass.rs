//! The content of render passes. All of it matters, load and store operations too.

use ash::vk;

use crate::chain;
use crate::content::{plain_chain, slice};
use crate::hash::Hasher;
use crate::objects::{Body, Subpass};

/// Adds an attachment of either form, whose members have the same names. Its chain is left to the caller.
macro_rules! attachment {
    ($hasher:ident, $at:ident) => {
        $hasher.word($at.flags.as_raw());
        $hasher.signed($at.format.as_raw());
        $hasher.word($at.samples.as_raw());
        for op in [$at.load_op, $at.stencil_load_op] {
            $hasher.signed(op.as_raw());
        }
        for op in [$at.store_op, $at.stencil_store_op] {
            $hasher.signed(op.as_raw());
        }
        $hasher.signed($at.initial_layout.as_raw());
        $hasher.signed($at.final_layout.as_raw());
    };
}

/// Adds a dependency of either form, as far as both have the same members.
macro_rules! dependency {
    ($hasher:ident, $of:ident) => {
        for subpass in [$of.src_subpass, $of.dst_subpass] {
            $hasher.word(subpass);
        }
        for stages in [$of.src_stage_mask, $of.dst_stage_mask] {
            $hasher.word(stages.as_raw());
        }
        for access in [$of.src_access_mask, $of.dst_access_mask] {
            $hasher.word(access.as_raw());
        }
        $hasher.word($of.dependency_flags.as_raw());
    };
}

/// The attachments that a subpass of either form uses. Its arrays are valid.
macro_rules! uses {
    ($pass:ident) => {
        Subpass {
            depth: slice($pass.p_depth_stencil_attachment, 1)
                .iter()
                .any(|at| at.attachment != vk::ATTACHMENT_UNUSED),
            colour: slice($pass.p_color_attachments, $pass.color_attachment_count)
                .iter()
                .any(|at| at.attachment != vk::ATTACHMENT_UNUSED),
        }
    };
}

/// vkCreateRenderPass.
///
/// # Safety
/// A valid create info.
pub unsafe fn first(info: &vk::RenderPassCreateInfo<'_>) -> Body {
    let mut hasher = Hasher::new("render pass");
    hasher.word(info.flags.as_raw());
    let mut subpasses = Vec::new();
    // SAFETY: the program passes a valid create info: its arrays have their counts, and optional pointers may be
    // NULL.
    unsafe {
        hasher.word(info.attachment_count);
        for at in slice(info.p_attachments, info.attachment_count) {
            attachment!(hasher, at);
        }
        hasher.word(info.subpass_count);
        for pass in slice(info.p_subpasses, info.subpass_count) {
            subpasses.push(subpass(&mut hasher, pass));
        }
        hasher.word(info.dependency_count);
        for dependency in slice(info.p_dependencies, info.dependency_count) {
            dependency!(hasher, dependency);
        }
        if let Some(views) = chain::find::<vk::RenderPassMultiviewCreateInfo<'_>>(info.p_next) {
            words(&mut hasher, slice(views.p_view_masks, views.subpass_count));
            words(&mut hasher, slice(views.p_view_offsets.cast(), views.dependency_count));
            words(&mut hasher, slice(views.p_correlation_masks, views.correlation_mask_count));
        }
        if let Some(list) = chain::find::<vk::RenderPassInputAttachmentAspectCreateInfo<'_>>(info.p_next) {
            for aspect in slice(list.p_aspect_references, list.aspect_reference_count) {
                hasher.word(aspect.subpass);
                hasher.word(aspect.input_attachment_index);
                hasher.word(aspect.aspect_mask.as_raw());
            }
        }
    }
    Body::RenderPass(hasher.finish(), subpasses.into())
}

/// A subpass of the first form.
///
/// # Safety
/// A valid subpass.
unsafe fn subpass(hasher: &mut Hasher, pass: &vk::SubpassDescription<'_>) -> Subpass {
    // SAFETY: `pass` is valid: its arrays have their counts, and optional pointers may be NULL.
    unsafe {
        hasher.word(pass.flags.as_raw());
        hasher.signed(pass.pipeline_bind_point.as_raw());
        let lists = [
            slice(pass.p_input_attachments, pass.input_attachment_count),
            slice(pass.p_color_attachments, pass.color_attachment_count),
            slice(pass.p_resolve_attachments, pass.color_attachment_count),
            slice(pass.p_depth_stencil_attachment, 1),
        ];
        for list in lists {
            hasher.word(list.len() as u32);
            for reference in list {
                hasher.word(reference.attachment);
                hasher.signed(reference.layout.as_raw());
            }
        }
        words(hasher, slice(pass.p_preserve_attachments, pass.preserve_attachment_count));
        uses!(pass)
    }
}

/// vkCreateRenderPass2.
///
/// # Safety
/// A valid create info.
pub unsafe fn second(info: &vk::RenderPassCreateInfo2<'_>) -> Body {
    let mut hasher = Hasher::new("render pass 2");
    hasher.word(info.flags.as_raw());
    let mut subpasses = Vec::new();
    // SAFETY: the program passes a valid create info: its arrays have their counts, and optional pointers may be
    // NULL.
    unsafe {
        hasher.word(info.attachment_count);
        for at in slice(info.p_attachments, info.attachment_count) {
            attachment!(hasher, at);
            plain_chain(&mut hasher, at.p_next);
        }
        hasher.word(info.subpass_count);
        for pass in slice(info.p_subpasses, info.subpass_count) {
            hasher.word(pass.flags.as_raw());
            hasher.signed(pass.pipeline_bind_point.as_raw());
            hasher.word(pass.view_mask);
            references(&mut hasher, slice(pass.p_input_attachments, pass.input_attachment_count));
            references(&mut hasher, slice(pass.p_color_attachments, pass.color_attachment_count));
            references(&mut hasher, slice(pass.p_resolve_attachments, pass.color_attachment_count));
            references(&mut hasher, slice(pass.p_depth_stencil_attachment, 1));
            words(&mut hasher, slice(pass.p_preserve_attachments, pass.preserve_attachment_count));
            subpasses.push(uses!(pass));
            if let Some(resolve) = chain::find::<vk::SubpassDescriptionDepthStencilResolve<'_>>(pass.p_next) {
                hasher.word(resolve.depth_resolve_mode.as_raw());
                hasher.word(resolve.stencil_resolve_mode.as_raw());
                references(&mut hasher, slice(resolve.p_depth_stencil_resolve_attachment, 1));
            }
        }
        hasher.word(info.dependency_count);
        for dependency in slice(info.p_dependencies, info.dependency_count) {
            dependency!(hasher, dependency);
            hasher.signed(dependency.view_offset);
        }
        words(&mut hasher, slice(info.p_correlated_view_masks, info.correlated_view_mask_count));
    }
    Body::RenderPass(hasher.finish(), subpasses.into())
}

fn words(hasher: &mut Hasher, words: &[u32]) {
    hasher.word(words.len() as u32);
    words.iter().for_each(|&word| hasher.word(word));
}

/// # Safety
/// Valid references.
unsafe fn references(hasher: &mut Hasher, list: &[vk::AttachmentReference2<'_>]) {
    hasher.word(list.len() as u32);
    for reference in list {
        hasher.word(reference.attachment);
        hasher.signed(reference.layout.as_raw());
        hasher.word(reference.aspect_mask.as_raw());
        // SAFETY: a valid chain.
        unsafe { plain_chain(hasher, reference.p_next) };
    }
}
