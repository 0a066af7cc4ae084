//! Render passes. The recipe does not say which of the two commands made one: the first form is used wherever it can
//! say everything, and the second one otherwise.

use std::ptr;

use ash::vk::{self, AccessFlags, AttachmentLoadOp, AttachmentStoreOp, ImageLayout, PipelineStageFlags};

use super::arena::{Arena, Chain, List};
use super::extensions::chain_owned;
use super::{Limits, RebuildError, Rebuilt, ensure, same_schema, within};
use vkstash_model::recipe::{Attachment, Dependency, Reference, RenderPass, Subpass};

/// The create info of a render pass, for one of the two commands.
pub enum Form {
    /// vkCreateRenderPass.
    First(Rebuilt<'static, vk::RenderPassCreateInfo<'static>>),
    /// vkCreateRenderPass2.
    Second(Rebuilt<'static, vk::RenderPassCreateInfo2<'static>>),
}

/// The create info of a render pass.
pub fn render_pass(pass: &RenderPass, limits: Limits) -> Result<Form, RebuildError> {
    same_schema(pass.schema)?;
    check(pass, limits)?;
    match fits_first(pass) {
        true => first(pass).map(Form::First),
        false => second(pass).map(Form::Second),
    }
}

/// Refuses indices of attachments and subpasses that do not exist, and arrays of different lengths for which Vulkan has
/// one count.
fn check(pass: &RenderPass, limits: Limits) -> Result<(), RebuildError> {
    let count = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
    let (attachments, subpasses) = (count(pass.attachments.len()), count(pass.subpasses.len()));
    let there = |index: u32| index == vk::ATTACHMENT_UNUSED || index < attachments;
    for subpass in &pass.subpasses {
        within(subpass.colors.len(), limits.color_attachments, "colour attachments")?;
        let resolves = subpass.resolves.len();
        ensure(resolves == 0 || resolves == subpass.colors.len(), "another number of resolve attachments")?;
        let lists = [&subpass.inputs, &subpass.colors, &subpass.resolves];
        let resolved = subpass.depth_stencil_resolve.as_ref().and_then(|resolve| resolve.2.as_ref());
        let rate = subpass.shading_rate.as_ref().and_then(|rate| rate.0.as_ref());
        let single = [subpass.depth_stencil.as_ref(), resolved, rate].into_iter().flatten();
        let mut all = lists.into_iter().flatten().chain(single);
        ensure(all.all(|reference| there(reference.attachment)), "an attachment that is not there")?;
        let mut preserved = subpass.preserve.iter();
        ensure(preserved.all(|&index| index < attachments), "an attachment that is not there")?;
    }
    for &Dependency { members: [source, destination, ..], .. } in &pass.dependencies {
        let there = |index: u32| index == vk::SUBPASS_EXTERNAL || index < subpasses;
        ensure(there(source) && there(destination), "a subpass that is not there")?;
    }
    Ok(())
}

/// Whether the first form can say everything: it has no chains inside.
fn fits_first(pass: &RenderPass) -> bool {
    let plain = |reference: &Reference| reference.extensions.is_empty();
    pass.attachments.iter().all(|attachment| attachment.extensions.is_empty())
        && pass.dependencies.iter().all(|dependency| dependency.extensions.is_empty())
        && pass.subpasses.iter().all(|subpass| {
            let lists = [&subpass.inputs, &subpass.colors, &subpass.resolves];
            subpass.extensions.is_empty()
                && subpass.depth_stencil_resolve.is_none()
                && subpass.shading_rate.is_none()
                && lists.into_iter().flatten().chain(&subpass.depth_stencil).all(plain)
        })
}

fn first(pass: &RenderPass) -> Result<Rebuilt<'static, vk::RenderPassCreateInfo<'static>>, RebuildError> {
    let mut arena = Arena::default();
    let mut chain = Chain::default();
    chain_owned(&mut arena, &mut chain, &pass.extensions)?;
    multiview(&mut arena, &mut chain, pass)?;
    aspects(&mut arena, &mut chain, pass)?;
    let attachments = arena.list(pass.attachments.iter(), |_, attachment| {
        let a = members(attachment);
        Ok(vk::AttachmentDescription {
            flags: a.flags,
            format: a.format,
            samples: a.samples,
            load_op: a.load_op,
            store_op: a.store_op,
            stencil_load_op: a.stencil_load_op,
            stencil_store_op: a.stencil_store_op,
            initial_layout: a.initial_layout,
            final_layout: a.final_layout,
        })
    })?;
    let subpasses = arena.list(pass.subpasses.iter(), subpass1)?;
    let dependencies = arena.list(pass.dependencies.iter(), |_, dependency| {
        let [src_subpass, dst_subpass, src_stages, dst_stages, src_access, dst_access, flags] =
            dependency.members;
        Ok(vk::SubpassDependency {
            src_subpass,
            dst_subpass,
            src_stage_mask: PipelineStageFlags::from_raw(src_stages),
            dst_stage_mask: PipelineStageFlags::from_raw(dst_stages),
            src_access_mask: AccessFlags::from_raw(src_access),
            dst_access_mask: AccessFlags::from_raw(dst_access),
            dependency_flags: vk::DependencyFlags::from_raw(flags),
        })
    })?;
    let info = vk::RenderPassCreateInfo {
        p_next: chain.head(),
        flags: vk::RenderPassCreateFlags::from_raw(pass.flags),
        attachment_count: attachments.count,
        p_attachments: attachments.pointer,
        subpass_count: subpasses.count,
        p_subpasses: subpasses.pointer,
        dependency_count: dependencies.count,
        p_dependencies: dependencies.pointer,
        ..Default::default()
    };
    Ok(Rebuilt::new(info, arena))
}

fn subpass1(arena: &mut Arena, subpass: &Subpass) -> Result<vk::SubpassDescription<'static>, RebuildError> {
    let [flags, bind_point, _] = subpass.members;
    let mut list =
        |references: &[Reference]| arena.list(references.iter(), |_, reference| Ok(reference1(reference)));
    let (inputs, colors, resolves) =
        (list(&subpass.inputs)?, list(&subpass.colors)?, list(&subpass.resolves)?);
    let preserve = arena.copy(&subpass.preserve)?;
    let depth_stencil = match &subpass.depth_stencil {
        Some(reference) => arena.place(reference1(reference))?.cast_const(),
        None => ptr::null(),
    };
    Ok(vk::SubpassDescription {
        flags: vk::SubpassDescriptionFlags::from_raw(flags),
        pipeline_bind_point: vk::PipelineBindPoint::from_raw(bind_point as i32),
        input_attachment_count: inputs.count,
        p_input_attachments: inputs.pointer,
        color_attachment_count: colors.count,
        p_color_attachments: colors.pointer,
        p_resolve_attachments: resolves.pointer,
        p_depth_stencil_attachment: depth_stencil,
        preserve_attachment_count: preserve.count,
        p_preserve_attachments: preserve.pointer,
        ..Default::default()
    })
}

/// What the second form has in its subpasses and dependencies.
fn multiview(arena: &mut Arena, chain: &mut Chain, pass: &RenderPass) -> Result<(), RebuildError> {
    let views = pass.subpasses.iter().any(|subpass| subpass.members[2] != 0);
    let offsets = pass.dependencies.iter().any(|dependency| dependency.view_offset != 0);
    if !views && !offsets && pass.correlated_views.is_empty() {
        return Ok(());
    }
    let masks = match views {
        true => arena.list(pass.subpasses.iter(), |_, subpass| Ok(subpass.members[2]))?,
        false => List { count: 0, pointer: ptr::null() },
    };
    let offsets = match offsets {
        true => arena.list(pass.dependencies.iter(), |_, dependency| Ok(dependency.view_offset))?,
        false => List { count: 0, pointer: ptr::null() },
    };
    let correlated = arena.copy(&pass.correlated_views)?;
    let info = vk::RenderPassMultiviewCreateInfo {
        subpass_count: masks.count,
        p_view_masks: masks.pointer,
        dependency_count: offsets.count,
        p_view_offsets: offsets.pointer,
        correlation_mask_count: correlated.count,
        p_correlation_masks: correlated.pointer,
        ..Default::default()
    };
    chain.push(arena, info)
}

/// The aspects of input attachments, where they were given.
fn aspects(arena: &mut Arena, chain: &mut Chain, pass: &RenderPass) -> Result<(), RebuildError> {
    let given = || {
        let inputs = pass.subpasses.iter().enumerate().flat_map(|(subpass, description)| {
            description
                .inputs
                .iter()
                .enumerate()
                .map(move |(input, reference)| (subpass as u32, input as u32, reference.aspects))
        });
        inputs.filter(|&(_, _, aspects)| aspects != 0)
    };
    let count = given().count();
    if count == 0 {
        return Ok(());
    }
    let mut each = given();
    let references = arena.list(0..count, |_, _| {
        let (subpass, input_attachment_index, aspects) = each.next().unwrap_or_default();
        let aspect_mask = vk::ImageAspectFlags::from_raw(aspects);
        Ok(vk::InputAttachmentAspectReference { subpass, input_attachment_index, aspect_mask })
    })?;
    let info = vk::RenderPassInputAttachmentAspectCreateInfo {
        aspect_reference_count: references.count,
        p_aspect_references: references.pointer,
        ..Default::default()
    };
    chain.push(arena, info)
}

fn reference1(reference: &Reference) -> vk::AttachmentReference {
    vk::AttachmentReference {
        attachment: reference.attachment,
        layout: ImageLayout::from_raw(reference.layout),
    }
}

fn members(attachment: &Attachment) -> vk::AttachmentDescription2<'static> {
    let [flags, format, samples, load, store, stencil_load, stencil_store, initial, last] =
        attachment.members;
    let [load_op, stencil_load_op] =
        [load, stencil_load].map(|operation| AttachmentLoadOp::from_raw(operation as i32));
    let [store_op, stencil_store_op] =
        [store, stencil_store].map(|operation| AttachmentStoreOp::from_raw(operation as i32));
    let [initial_layout, final_layout] = [initial, last].map(|layout| ImageLayout::from_raw(layout as i32));
    vk::AttachmentDescription2 {
        flags: vk::AttachmentDescriptionFlags::from_raw(flags),
        format: vk::Format::from_raw(format as i32),
        samples: vk::SampleCountFlags::from_raw(samples),
        load_op,
        store_op,
        stencil_load_op,
        stencil_store_op,
        initial_layout,
        final_layout,
        ..Default::default()
    }
}

fn second(pass: &RenderPass) -> Result<Rebuilt<'static, vk::RenderPassCreateInfo2<'static>>, RebuildError> {
    let mut arena = Arena::default();
    let mut chain = Chain::default();
    chain_owned(&mut arena, &mut chain, &pass.extensions)?;
    let attachments = arena.list(pass.attachments.iter(), |arena, attachment| {
        let mut chain = Chain::default();
        chain_owned(arena, &mut chain, &attachment.extensions)?;
        Ok(vk::AttachmentDescription2 { p_next: chain.head(), ..members(attachment) })
    })?;
    let subpasses = arena.list(pass.subpasses.iter(), subpass2)?;
    let dependencies = arena.list(pass.dependencies.iter(), |arena, dependency| {
        let mut chain = Chain::default();
        chain_owned(arena, &mut chain, &dependency.extensions)?;
        let [src_subpass, dst_subpass, src_stages, dst_stages, src_access, dst_access, flags] =
            dependency.members;
        Ok(vk::SubpassDependency2 {
            p_next: chain.head(),
            src_subpass,
            dst_subpass,
            src_stage_mask: PipelineStageFlags::from_raw(src_stages),
            dst_stage_mask: PipelineStageFlags::from_raw(dst_stages),
            src_access_mask: AccessFlags::from_raw(src_access),
            dst_access_mask: AccessFlags::from_raw(dst_access),
            dependency_flags: vk::DependencyFlags::from_raw(flags),
            view_offset: dependency.view_offset,
            ..Default::default()
        })
    })?;
    let correlated = arena.copy(&pass.correlated_views)?;
    let info = vk::RenderPassCreateInfo2 {
        p_next: chain.head(),
        flags: vk::RenderPassCreateFlags::from_raw(pass.flags),
        attachment_count: attachments.count,
        p_attachments: attachments.pointer,
        subpass_count: subpasses.count,
        p_subpasses: subpasses.pointer,
        dependency_count: dependencies.count,
        p_dependencies: dependencies.pointer,
        correlated_view_mask_count: correlated.count,
        p_correlated_view_masks: correlated.pointer,
        ..Default::default()
    };
    Ok(Rebuilt::new(info, arena))
}

fn subpass2(arena: &mut Arena, subpass: &Subpass) -> Result<vk::SubpassDescription2<'static>, RebuildError> {
    let mut chain = Chain::default();
    chain_owned(arena, &mut chain, &subpass.extensions)?;
    if let Some((depth, stencil, attachment)) = &subpass.depth_stencil_resolve {
        let info = vk::SubpassDescriptionDepthStencilResolve {
            depth_resolve_mode: vk::ResolveModeFlags::from_raw(*depth),
            stencil_resolve_mode: vk::ResolveModeFlags::from_raw(*stencil),
            p_depth_stencil_resolve_attachment: placed(arena, attachment.as_ref())?,
            ..Default::default()
        };
        chain.push(arena, info)?;
    }
    if let Some((attachment, width, height)) = &subpass.shading_rate {
        let info = vk::FragmentShadingRateAttachmentInfoKHR {
            p_fragment_shading_rate_attachment: placed(arena, attachment.as_ref())?,
            shading_rate_attachment_texel_size: vk::Extent2D { width: *width, height: *height },
            ..Default::default()
        };
        chain.push(arena, info)?;
    }
    let [flags, bind_point, view_mask] = subpass.members;
    let inputs = arena.list(subpass.inputs.iter(), reference2)?;
    let colors = arena.list(subpass.colors.iter(), reference2)?;
    let resolves = arena.list(subpass.resolves.iter(), reference2)?;
    let preserve = arena.copy(&subpass.preserve)?;
    Ok(vk::SubpassDescription2 {
        p_next: chain.head(),
        flags: vk::SubpassDescriptionFlags::from_raw(flags),
        pipeline_bind_point: vk::PipelineBindPoint::from_raw(bind_point as i32),
        view_mask,
        input_attachment_count: inputs.count,
        p_input_attachments: inputs.pointer,
        color_attachment_count: colors.count,
        p_color_attachments: colors.pointer,
        p_resolve_attachments: resolves.pointer,
        p_depth_stencil_attachment: placed(arena, subpass.depth_stencil.as_ref())?,
        preserve_attachment_count: preserve.count,
        p_preserve_attachments: preserve.pointer,
        ..Default::default()
    })
}

fn reference2(
    arena: &mut Arena,
    reference: &Reference,
) -> Result<vk::AttachmentReference2<'static>, RebuildError> {
    let mut chain = Chain::default();
    chain_owned(arena, &mut chain, &reference.extensions)?;
    Ok(vk::AttachmentReference2 {
        p_next: chain.head(),
        attachment: reference.attachment,
        layout: ImageLayout::from_raw(reference.layout),
        aspect_mask: vk::ImageAspectFlags::from_raw(reference.aspects),
        ..Default::default()
    })
}

fn placed(
    arena: &mut Arena,
    reference: Option<&Reference>,
) -> Result<*const vk::AttachmentReference2<'static>, RebuildError> {
    match reference {
        Some(reference) => {
            let reference = reference2(arena, reference)?;
            Ok(arena.place(reference)?.cast_const())
        }
        None => Ok(ptr::null()),
    }
}
