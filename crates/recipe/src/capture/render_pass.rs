//! Render passes of both forms, described alike.
//!
//! Load and store operations and layouts do not decide compatibility, but drivers may look at them when they
//! compile, so everything is hashed (contract 7.4).

use ash::vk;

use super::{SubpassUse, array, owned_extensions, owned_plain};
use crate::chain::{Refusal, Special};
use vkstash_model::counters::BypassReason;
use vkstash_model::recipe::{Attachment, Dependency, Reference, RenderPass, SCHEMA, Subpass};

/// What each subpass uses, for reading graphics pipelines.
pub fn uses(render_pass: &RenderPass) -> Vec<SubpassUse> {
    let used = |reference: &Reference| reference.attachment != vk::ATTACHMENT_UNUSED;
    let uses = render_pass.subpasses.iter().map(|subpass| SubpassUse {
        color: subpass.colors.iter().any(used),
        depth_stencil: subpass.depth_stencil.as_ref().is_some_and(used),
    });
    uses.collect()
}

/// Describes the first form.
///
/// # Safety
/// `info` is a valid create info.
pub unsafe fn render_pass(info: &vk::RenderPassCreateInfo<'_>) -> Result<RenderPass, Refusal> {
    let mut chained = Chained::default();
    // SAFETY: the chain of a valid create info; the casts follow the sType; arrays are valid for their
    // counts.
    let extensions = unsafe {
        owned_extensions(info.p_next, |node| {
            let node = &raw const *node;
            match (*node).s_type {
                vk::StructureType::RENDER_PASS_MULTIVIEW_CREATE_INFO => {
                    let info = &*node.cast::<vk::RenderPassMultiviewCreateInfo<'_>>();
                    chained.view_masks = array(info.p_view_masks, info.subpass_count);
                    chained.view_offsets = array(info.p_view_offsets, info.dependency_count);
                    chained.correlated_views = array(info.p_correlation_masks, info.correlation_mask_count);
                    Ok(Special::Read)
                }
                vk::StructureType::RENDER_PASS_INPUT_ATTACHMENT_ASPECT_CREATE_INFO => {
                    let info = &*node.cast::<vk::RenderPassInputAttachmentAspectCreateInfo<'_>>();
                    chained.aspects = array(info.p_aspect_references, info.aspect_reference_count);
                    Ok(Special::Read)
                }
                _ => Ok(Special::Foreign),
            }
        })
    }?;
    // SAFETY: the arrays of a valid create info.
    let (attachments, subpasses, dependencies) = unsafe {
        (
            array(info.p_attachments, info.attachment_count),
            array(info.p_subpasses, info.subpass_count),
            array(info.p_dependencies, info.dependency_count),
        )
    };
    // SAFETY: `s` is one of the subpasses of a valid create info.
    let subpasses = subpasses.iter().enumerate().map(|(index, s)| unsafe { subpass1(s, index, &chained) });
    let dependencies =
        dependencies.iter().enumerate().map(|(index, d)| dependency1(d, chained.view_offset(index)));
    Ok(RenderPass {
        schema: SCHEMA,
        flags: info.flags.as_raw(),
        attachments: attachments.iter().map(attachment1).collect(),
        subpasses: subpasses.collect(),
        dependencies: dependencies.collect(),
        correlated_views: chained.correlated_views.to_vec(),
        extensions,
    })
}

/// What the chain of the first form says of subpasses and dependencies; nothing where a structure is not there.
#[derive(Default)]
struct Chained<'a> {
    view_masks: &'a [u32],
    view_offsets: &'a [i32],
    correlated_views: &'a [u32],
    aspects: &'a [vk::InputAttachmentAspectReference],
}

impl Chained<'_> {
    fn view_mask(&self, subpass: usize) -> u32 {
        self.view_masks.get(subpass).copied().unwrap_or(0)
    }

    fn view_offset(&self, dependency: usize) -> i32 {
        self.view_offsets.get(dependency).copied().unwrap_or(0)
    }

    fn aspects(&self, subpass: usize, input: usize) -> u32 {
        let given = self
            .aspects
            .iter()
            .find(|a| a.subpass as usize == subpass && a.input_attachment_index as usize == input);
        given.map_or(0, |a| a.aspect_mask.as_raw())
    }
}

/// The members of an attachment, whose names and types are the same in both forms.
macro_rules! attachment_members {
    ($a:expr) => {
        [
            $a.flags.as_raw(),
            $a.format.as_raw() as u32,
            $a.samples.as_raw(),
            $a.load_op.as_raw() as u32,
            $a.store_op.as_raw() as u32,
            $a.stencil_load_op.as_raw() as u32,
            $a.stencil_store_op.as_raw() as u32,
            $a.initial_layout.as_raw() as u32,
            $a.final_layout.as_raw() as u32,
        ]
    };
}

fn attachment1(a: &vk::AttachmentDescription) -> Attachment {
    Attachment { members: attachment_members!(a), extensions: Vec::new() }
}

fn dependency1(d: &vk::SubpassDependency, view_offset: i32) -> Dependency {
    Dependency {
        members: [
            d.src_subpass,
            d.dst_subpass,
            d.src_stage_mask.as_raw(),
            d.dst_stage_mask.as_raw(),
            d.src_access_mask.as_raw(),
            d.dst_access_mask.as_raw(),
            d.dependency_flags.as_raw(),
        ],
        view_offset,
        extensions: Vec::new(),
    }
}

/// # Safety
/// `s` is valid.
unsafe fn subpass1(s: &vk::SubpassDescription<'_>, index: usize, chained: &Chained<'_>) -> Subpass {
    // SAFETY: the arrays of a valid subpass; pResolveAttachments is NULL or as long as the colours.
    let (inputs, colors, resolves, depth_stencil, preserve) = unsafe {
        (
            array(s.p_input_attachments, s.input_attachment_count),
            array(s.p_color_attachments, s.color_attachment_count),
            array(s.p_resolve_attachments, s.color_attachment_count),
            s.p_depth_stencil_attachment.as_ref(),
            array(s.p_preserve_attachments, s.preserve_attachment_count),
        )
    };
    let inputs = inputs
        .iter()
        .enumerate()
        .map(|(input, r)| Reference { aspects: chained.aspects(index, input), ..reference1(r) });
    Subpass {
        members: [s.flags.as_raw(), s.pipeline_bind_point.as_raw() as u32, chained.view_mask(index)],
        inputs: inputs.collect(),
        colors: colors.iter().map(reference1).collect(),
        resolves: resolves.iter().map(reference1).collect(),
        depth_stencil: depth_stencil.map(reference1),
        depth_stencil_resolve: None,
        shading_rate: None,
        preserve: preserve.to_vec(),
        extensions: Vec::new(),
    }
}

/// A reference without its aspects, which only the chain gives in this form.
fn reference1(r: &vk::AttachmentReference) -> Reference {
    Reference { attachment: r.attachment, layout: r.layout.as_raw(), aspects: 0, extensions: Vec::new() }
}

/// Describes the second form.
///
/// # Safety
/// `info` is a valid create info.
pub unsafe fn render_pass2(info: &vk::RenderPassCreateInfo2<'_>) -> Result<RenderPass, Refusal> {
    // SAFETY: the chain and the arrays of a valid create info.
    let (extensions, attachments, subpasses, dependencies, correlated_views) = unsafe {
        (
            owned_plain(info.p_next)?,
            array(info.p_attachments, info.attachment_count),
            array(info.p_subpasses, info.subpass_count),
            array(info.p_dependencies, info.dependency_count),
            array(info.p_correlated_view_masks, info.correlated_view_mask_count),
        )
    };
    let attachments = attachments.iter().map(|a| {
        Ok(Attachment {
            members: attachment_members!(a),
            // SAFETY: the attachment is an element of a valid create info, so its chain is valid.
            extensions: unsafe { owned_plain(a.p_next) }?,
        })
    });
    let dependencies = dependencies.iter().map(|d| {
        // SAFETY: the dependency is an element of a valid create info, so its chain is valid.
        let extensions = unsafe { owned_plain(d.p_next) }?;
        let barrier = vk::StructureType::MEMORY_BARRIER_2.as_raw();
        // A VkMemoryBarrier2 takes the place of the four masks.
        let unless_barrier = |mask| if extensions.iter().any(|e| e.s_type == barrier) { 0 } else { mask };
        Ok(Dependency {
            members: [
                d.src_subpass,
                d.dst_subpass,
                unless_barrier(d.src_stage_mask.as_raw()),
                unless_barrier(d.dst_stage_mask.as_raw()),
                unless_barrier(d.src_access_mask.as_raw()),
                unless_barrier(d.dst_access_mask.as_raw()),
                d.dependency_flags.as_raw(),
            ],
            view_offset: d.view_offset,
            extensions,
        })
    });
    Ok(RenderPass {
        schema: SCHEMA,
        flags: info.flags.as_raw(),
        attachments: attachments.collect::<Result<_, Refusal>>()?,
        // SAFETY: each is a valid subpass.
        subpasses: subpasses.iter().map(|s| unsafe { subpass2(s) }).collect::<Result<_, _>>()?,
        dependencies: dependencies.collect::<Result<_, Refusal>>()?,
        correlated_views: correlated_views.to_vec(),
        extensions,
    })
}

/// # Safety
/// `s` is valid.
unsafe fn subpass2(s: &vk::SubpassDescription2<'_>) -> Result<Subpass, Refusal> {
    let mut resolve: Option<&vk::SubpassDescriptionDepthStencilResolve<'_>> = None;
    let mut shading_rate: Option<&vk::FragmentShadingRateAttachmentInfoKHR<'_>> = None;
    // SAFETY: the chain and the arrays of a valid subpass; the cast follows the sType;
    // pResolveAttachments is NULL or as long as the colours.
    unsafe {
        let extensions = owned_extensions(s.p_next, |node| {
            match node.s_type {
                vk::StructureType::SUBPASS_DESCRIPTION_DEPTH_STENCIL_RESOLVE => {
                    resolve = Some(&*(&raw const *node).cast());
                }
                vk::StructureType::FRAGMENT_SHADING_RATE_ATTACHMENT_INFO_KHR => {
                    shading_rate = Some(&*(&raw const *node).cast());
                }
                _ => return Ok(Special::Foreign),
            }
            Ok(Special::Read)
        })?;
        let references = |pointer, count| -> Result<Vec<Reference>, Refusal> {
            array(pointer, count).iter().map(|r| reference2(r)).collect()
        };
        let input = |r: &vk::AttachmentReference2<'_>| {
            Ok(Reference { aspects: r.aspect_mask.as_raw(), ..reference2(r)? })
        };
        let inputs = array(s.p_input_attachments, s.input_attachment_count).iter().map(input);
        let depth_stencil_resolve = match resolve {
            Some(r) => Some((
                r.depth_resolve_mode.as_raw(),
                r.stencil_resolve_mode.as_raw(),
                r.p_depth_stencil_resolve_attachment.as_ref().map(|r| reference2(r)).transpose()?,
            )),
            None => None,
        };
        let shading_rate = match shading_rate {
            Some(info) => {
                let attachment = info.p_fragment_shading_rate_attachment.as_ref();
                let texel = info.shading_rate_attachment_texel_size;
                Some((attachment.map(|r| reference2(r)).transpose()?, texel.width, texel.height))
            }
            None => None,
        };
        Ok(Subpass {
            members: [s.flags.as_raw(), s.pipeline_bind_point.as_raw() as u32, s.view_mask],
            inputs: inputs.collect::<Result<_, Refusal>>()?,
            colors: references(s.p_color_attachments, s.color_attachment_count)?,
            resolves: references(s.p_resolve_attachments, s.color_attachment_count)?,
            depth_stencil: s.p_depth_stencil_attachment.as_ref().map(|r| reference2(r)).transpose()?,
            depth_stencil_resolve,
            shading_rate,
            preserve: array(s.p_preserve_attachments, s.preserve_attachment_count).to_vec(),
            extensions,
        })
    }
}

/// A reference without its aspects: they count for input attachments alone, and may be garbage elsewhere.
///
/// # Safety
/// `r` is valid.
unsafe fn reference2(r: &vk::AttachmentReference2<'_>) -> Result<Reference, Refusal> {
    if r.s_type != vk::StructureType::ATTACHMENT_REFERENCE_2 {
        return Err(Refusal { reason: BypassReason::WrongStructure, s_type: r.s_type.as_raw() });
    }
    Ok(Reference {
        attachment: r.attachment,
        layout: r.layout.as_raw(),
        aspects: 0,
        // SAFETY: the reference is a valid VkAttachmentReference2, so its chain is valid.
        extensions: unsafe { owned_plain(r.p_next) }?,
    })
}
