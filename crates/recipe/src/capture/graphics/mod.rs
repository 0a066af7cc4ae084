//! Graphics pipelines: complete ones, libraries and links. Which state is read follows contract 6 row by row.
//!
//! - `subsets` which parts of a pipeline a create info provides
//! - `dynamic` dynamic states
//! - `state` the pieces of fixed-function state
//! - `structures` the structures with pointers in their chains

mod dynamic;
mod state;
mod structures;
pub mod subsets;

use std::ffi::c_void;

use ash::vk::{self, DynamicState as D};
use smallvec::SmallVec;

pub use dynamic::Dynamic;
use structures::Reads;
pub use structures::own_binaries;
use subsets::Subsets;

use super::flags::{self, DESCRIPTOR_HEAP};
use super::parsed::Parsed;
use super::stage;
use super::{Captured, LibraryTraits, Objects, Scratch, SubpassUse, array};
use crate::chain::{self, Refusal, Special};
use vkstash_host::sort;
use vkstash_model::counters::BypassReason;
use vkstash_model::recipe::{
    Extensions, Graphics, InputAssembly, Pipeline, Recipe, SCHEMA, Stage, Target, VertexInput,
};
use vkstash_model::record::Key;

const WRONG: Refusal = Refusal::plain(BypassReason::WrongStructure);

/// More stages than any graphics pipeline can have.
const MAX_STAGES: usize = 8;

const MESH: vk::ShaderStageFlags = vk::ShaderStageFlags::from_raw(
    vk::ShaderStageFlags::TASK_EXT.as_raw() | vk::ShaderStageFlags::MESH_EXT.as_raw(),
);
const TESSELLATION: vk::ShaderStageFlags = vk::ShaderStageFlags::from_raw(
    vk::ShaderStageFlags::TESSELLATION_CONTROL.as_raw()
        | vk::ShaderStageFlags::TESSELLATION_EVALUATION.as_raw(),
);

/// Captures a graphics pipeline.
///
/// # Safety
/// `info` is a valid create info for `'a`, and `parsed` was read of it.
pub unsafe fn graphics<'a>(
    info: &vk::GraphicsPipelineCreateInfo<'a>,
    parsed: &Parsed<'a>,
    objects: &impl Objects,
    scratch: &'a mut Scratch,
) -> Result<Captured<'a>, Refusal> {
    if info.s_type != vk::StructureType::GRAPHICS_PIPELINE_CREATE_INFO {
        return Err(Refusal { reason: BypassReason::WrongStructure, s_type: info.s_type.as_raw() });
    }
    let flags = flags::hashed(parsed.flags, objects.looked_into())?;
    let subsets = parsed.subsets;
    // SAFETY: pDynamicState is NULL or valid.
    let dynamic = unsafe { Dynamic::read(info.p_dynamic_state) }?;
    let mut traits =
        LibraryTraits { subsets: subsets.0.as_raw(), discards: false, ..LibraryTraits::default() };
    let libraries = libraries(parsed.libraries, objects, &mut traits)?;
    // SAFETY: pRasterizationState is NULL or valid with the subset that it belongs to (06601).
    let read = || unsafe { state::rasterization(info.p_rasterization_state, &dynamic) };
    let rasterization = read_if(subsets.pre_rasterization(), read)?;
    // Discard counts only where it is static (contract 6), and may come from a library.
    traits.discards |= rasterization.as_ref().is_some_and(|state| state.switches[1] != 0);
    let shown = !traits.discards;
    let reads = Reads { subsets, shown, render_pass: info.render_pass != vk::RenderPass::null() };

    // SAFETY: pNext is the chain of the valid `info`.
    let (extensions, rendering) = unsafe { chained(info.p_next, reads, &dynamic) }?;
    // SAFETY: `parsed` was read of the valid `info`, so its stages are valid for `'a`.
    let stages = unsafe { stages(parsed, objects, scratch) }?;
    let present = parsed.stages.iter().fold(vk::ShaderStageFlags::empty(), |all, info| all | info.stage);

    // SAFETY: each pointer is handed on only in the cases in which contract 6 lets it be read.
    unsafe {
        let (vertex_input, input_assembly) = vertex_state(info, subsets, present, &dynamic)?;
        let tessellated = present.intersects(TESSELLATION);
        let tessellation = read_if(tessellated, || state::tessellation(info.p_tessellation_state, &dynamic))?;
        let (target, uses) = target(info, rendering, subsets, objects, traits.discards)?;
        let has_viewport = subsets.pre_rasterization() && shown;
        let viewport = read_if(has_viewport, || state::viewport(info.p_viewport_state, &dynamic))?;
        // A fragment shader by itself looks at it for sample shading, wherever it is given.
        let multisample =
            read_if(subsets.fragment() && shown, || state::multisample(info.p_multisample_state, &dynamic))?;
        let depth_stencil = read_if(subsets.fragment_shader() && shown && uses.depth_stencil, || {
            state::depth_stencil(info.p_depth_stencil_state, &dynamic)
        })?;
        let color_blend = read_if(subsets.fragment_output() && shown && uses.color, || {
            state::color_blend(info.p_color_blend_state, &dynamic, objects.advanced_blend())
        })?;
        let has_layout = layout_is_read(flags, subsets, &libraries, info.layout);
        let layout = read_if(has_layout, || objects.layout(info.layout).map(Some))?;
        let pipeline = Pipeline::Graphics(Graphics {
            flags,
            subsets: subsets.0.as_raw(),
            libraries,
            stages,
            vertex_input,
            input_assembly,
            tessellation,
            viewport,
            rasterization,
            multisample,
            depth_stencil,
            color_blend,
            dynamic: dynamic.0,
            layout,
            target,
            extensions,
        });
        Ok(Captured { recipe: Recipe { schema: SCHEMA, pipeline }, traits })
    }
}

/// A piece of state or the layout, in the cases in which contract 6 lets it be read.
#[inline]
fn read_if<T>(
    is_read: bool,
    read: impl FnOnce() -> Result<Option<T>, Refusal>,
) -> Result<Option<T>, Refusal> {
    if is_read { read() } else { Ok(None) }
}

/// The keys of the libraries that are linked; adds what each contributes to the traits.
#[inline]
fn libraries(
    given: &[vk::Pipeline],
    objects: &impl Objects,
    traits: &mut LibraryTraits,
) -> Result<SmallVec<[Key; 4]>, Refusal> {
    let mut keys = SmallVec::with_capacity(given.len());
    for &library in given {
        let library = objects.library(library)?;
        traits.subsets |= library.traits.subsets;
        traits.discards |= library.traits.discards;
        keys.push(library.key);
    }
    // Each provides another subset, so their order means nothing.
    sort::sort(&mut keys);
    Ok(keys)
}

/// The create info's own chain: the structures that are hashed, and the one with the formats.
///
/// # Safety
/// `p_next` is the chain of a valid create info that lives for `'a`.
#[inline]
unsafe fn chained<'a>(
    p_next: *const c_void,
    reads: Reads,
    dynamic: &Dynamic,
) -> Result<(Extensions<'a>, Option<&'a vk::PipelineRenderingCreateInfo<'a>>), Refusal> {
    let mut rendering: Option<&vk::PipelineRenderingCreateInfo<'_>> = None;
    // SAFETY: `p_next` is the chain of a valid create info, which lives for `'a`; the cast follows the sType.
    let extensions = unsafe {
        chain::scan(p_next, |node| match node.s_type {
            vk::StructureType::PIPELINE_CREATE_FLAGS_2_CREATE_INFO_KHR
            | vk::StructureType::GRAPHICS_PIPELINE_LIBRARY_CREATE_INFO_EXT
            | vk::StructureType::PIPELINE_LIBRARY_CREATE_INFO_KHR => Ok(Special::Read),
            vk::StructureType::PIPELINE_RENDERING_CREATE_INFO => {
                rendering = Some(&*(&raw const *node).cast());
                Ok(Special::Read)
            }
            _ => structures::pipeline(node, reads, dynamic),
        })
    }?;
    Ok((extensions, rendering))
}

/// The stages, in the order in which the program gave them.
///
/// # Safety
/// `parsed` was read of a create info that is valid for `'a`.
#[inline]
unsafe fn stages<'a>(
    parsed: &Parsed<'a>,
    objects: &impl Objects,
    scratch: &'a mut Scratch,
) -> Result<SmallVec<[Stage<'a>; 5]>, Refusal> {
    let given = parsed.stages;
    // A fragment shader may be left out.
    if given.len() > MAX_STAGES || (parsed.subsets.pre_rasterization() && given.is_empty()) {
        return Err(WRONG);
    }
    scratch.algorithm = objects.algorithm();
    scratch.identifiers.resize(given.len(), None);
    let mut stages = SmallVec::with_capacity(given.len());
    for (info, kept) in given.iter().zip(&mut scratch.identifiers) {
        // SAFETY: `info` is one of the stages of a create info that is valid for `'a` (the # Safety section).
        stages.push(unsafe { stage::stage(info, objects, &scratch.algorithm, kept, &mut scratch.inline) }?);
    }
    Ok(stages)
}

/// The state of vertex input and of input assembly, which mesh shaders do without.
///
/// # Safety
/// `info` is a valid create info for `'a`, which provides `subsets` and has the stages that are `present`.
#[inline]
#[allow(clippy::type_complexity, reason = "two pieces of state")]
unsafe fn vertex_state<'a>(
    info: &vk::GraphicsPipelineCreateInfo<'a>,
    subsets: Subsets,
    present: vk::ShaderStageFlags,
    dynamic: &Dynamic,
) -> Result<(Option<VertexInput<'a>>, Option<InputAssembly<'a>>), Refusal> {
    if !subsets.vertex_input() || present.intersects(MESH) {
        return Ok((None, None));
    }
    // SAFETY: without mesh stages, pVertexInputState is valid where its state is not dynamic (02097), and
    // pInputAssemblyState is valid, or NULL where its state is dynamic (09031).
    unsafe {
        let vertex_input = match dynamic.has(D::VERTEX_INPUT_EXT) {
            true => None,
            false => Some(state::vertex_input(info.p_vertex_input_state.as_ref().ok_or(WRONG)?, dynamic)?),
        };
        Ok((vertex_input, state::input_assembly(info.p_input_assembly_state, dynamic)?))
    }
}

/// Whether the layout counts: with shaders (06602), unless descriptors come from a heap; and in a link, which
/// names the layout that its libraries' independent sets make together.
fn layout_is_read(flags: u64, subsets: Subsets, libraries: &[Key], layout: vk::PipelineLayout) -> bool {
    let linked = !libraries.is_empty() && layout != vk::PipelineLayout::null();
    flags & DESCRIPTOR_HEAP == 0 && (subsets.shaders() || linked)
}

/// What the pipeline renders to. Formats are read only with fragment output state and no render pass (06579).
fn target(
    info: &vk::GraphicsPipelineCreateInfo<'_>,
    rendering: Option<&vk::PipelineRenderingCreateInfo<'_>>,
    subsets: Subsets,
    objects: &impl Objects,
    discard: bool,
) -> Result<(Target, SubpassUse), Refusal> {
    // A fragment shader by itself does not know what is rendered to: its depth state counts always (09035).
    let alone = SubpassUse { color: false, depth_stencil: !subsets.fragment_output() };
    if !subsets.render_target() {
        return Ok((Target::None, alone));
    }
    if info.render_pass != vk::RenderPass::null() {
        let (render_pass, uses) = objects.render_pass(info.render_pass, info.subpass)?;
        return Ok((Target::RenderPass { render_pass, subpass: info.subpass }, uses));
    }
    let view_mask = rendering.map_or(0, |rendering| rendering.view_mask);
    let Some(rendering) = rendering.filter(|_| subsets.fragment_output() && !discard) else {
        let target = Target::Dynamic { view_mask, color: SmallVec::new(), depth: 0, stencil: 0 };
        return Ok((target, alone));
    };
    // SAFETY: valid for its count where the pipeline has fragment output state and no render pass (06579).
    let formats = unsafe { array(rendering.p_color_attachment_formats, rendering.color_attachment_count) };
    let color: SmallVec<[i32; 8]> = formats.iter().map(|format| format.as_raw()).collect();
    let depth = rendering.depth_attachment_format.as_raw();
    let stencil = rendering.stencil_attachment_format.as_raw();
    let uses = SubpassUse {
        color: color.iter().any(|&format| format != vk::Format::UNDEFINED.as_raw()),
        depth_stencil: depth != 0 || stencil != 0,
    };
    Ok((Target::Dynamic { view_mask, color, depth, stencil }, uses))
}
