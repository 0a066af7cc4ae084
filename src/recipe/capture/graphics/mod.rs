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
use crate::recipe::chain::{self, Refusal, Special};
use vkstash_model::counters::BypassReason;
use vkstash_model::recipe::{Graphics, Pipeline, Recipe, SCHEMA, Target};
use vkstash_store::base::sort;
use vkstash_store::format::record::Key;

const WRONG: Refusal = Refusal::plain(BypassReason::WrongStructure);

/// More stages than any graphics pipeline can have.
const MAX_STAGES: usize = 8;

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
    let mut keys: SmallVec<[_; 4]> = SmallVec::with_capacity(parsed.libraries.len());
    for &library in parsed.libraries {
        let library = objects.library(library)?;
        traits.subsets |= library.traits.subsets;
        traits.discards |= library.traits.discards;
        keys.push(library.key);
    }
    // Each provides another subset, so their order means nothing.
    sort::sort(&mut keys);
    let rasterization = match subsets.pre_rasterization() {
        // SAFETY: NULL or valid with the subset that it belongs to (06601).
        true => unsafe { state::rasterization(info.p_rasterization_state, &dynamic) }?,
        false => None,
    };
    // Discard counts only where it is static (contract 6), and may come from a library.
    traits.discards |= rasterization.as_ref().is_some_and(|state| state.switches[1] != 0);
    let shown = !traits.discards;
    let reads = Reads { subsets, shown, render_pass: info.render_pass != vk::RenderPass::null() };

    let mut rendering: Option<&vk::PipelineRenderingCreateInfo<'_>> = None;
    // SAFETY: the chain of a valid create info; the cast follows the sType.
    let extensions = unsafe {
        chain::scan(info.p_next, |node| match node.s_type {
            vk::StructureType::PIPELINE_CREATE_FLAGS_2_CREATE_INFO_KHR
            | vk::StructureType::GRAPHICS_PIPELINE_LIBRARY_CREATE_INFO_EXT
            | vk::StructureType::PIPELINE_LIBRARY_CREATE_INFO_KHR => Ok(Special::Read),
            vk::StructureType::PIPELINE_RENDERING_CREATE_INFO => {
                rendering = Some(&*(&raw const *node).cast());
                Ok(Special::Read)
            }
            _ => structures::pipeline(node, reads, &dynamic),
        })
    }?;

    scratch.algorithm = objects.algorithm();
    let given = parsed.stages;
    // A fragment shader may be left out.
    if given.len() > MAX_STAGES || (subsets.pre_rasterization() && given.is_empty()) {
        return Err(WRONG);
    }
    scratch.identifiers.resize(given.len(), None);
    let mut stages = SmallVec::with_capacity(given.len());
    for (info, kept) in given.iter().zip(&mut scratch.identifiers) {
        // SAFETY: each is a valid stage.
        stages.push(unsafe { stage::stage(info, objects, &scratch.algorithm, kept, &mut scratch.inline) }?);
    }
    let present = given.iter().fold(vk::ShaderStageFlags::empty(), |all, info| all | info.stage);
    let mesh = present.intersects(vk::ShaderStageFlags::TASK_EXT | vk::ShaderStageFlags::MESH_EXT);
    let tessellated = present.intersects(
        vk::ShaderStageFlags::TESSELLATION_CONTROL | vk::ShaderStageFlags::TESSELLATION_EVALUATION,
    );

    // SAFETY: each pointer is handed on only in the cases in which contract 6 lets it be read.
    unsafe {
        let vertex_input = match subsets.vertex_input() && !mesh && !dynamic.has(D::VERTEX_INPUT_EXT) {
            true => Some(state::vertex_input(info.p_vertex_input_state.as_ref().ok_or(WRONG)?, &dynamic)?),
            false => None,
        };
        let input_assembly = match subsets.vertex_input() && !mesh {
            true => state::input_assembly(info.p_input_assembly_state, &dynamic)?,
            false => None,
        };
        let tessellation = match tessellated {
            true => state::tessellation(info.p_tessellation_state, &dynamic)?,
            false => None,
        };
        let (target, uses) = target(info, rendering, subsets, objects, traits.discards)?;
        let viewport = match subsets.pre_rasterization() && shown {
            true => state::viewport(info.p_viewport_state, &dynamic)?,
            false => None,
        };
        // A fragment shader by itself looks at it for sample shading, wherever it is given.
        let multisample = match subsets.fragment() && shown {
            true => state::multisample(info.p_multisample_state, &dynamic)?,
            false => None,
        };
        let depth_stencil = match subsets.fragment_shader() && shown && uses.depth_stencil {
            true => state::depth_stencil(info.p_depth_stencil_state, &dynamic)?,
            false => None,
        };
        let color_blend = match subsets.fragment_output() && shown && uses.color {
            true => state::color_blend(info.p_color_blend_state, &dynamic, objects.advanced_blend())?,
            false => None,
        };
        let layout = match layout_is_read(flags, subsets, &keys, info.layout) {
            true => Some(objects.layout(info.layout)?),
            false => None,
        };
        let pipeline = Pipeline::Graphics(Graphics {
            flags,
            subsets: subsets.0.as_raw(),
            libraries: keys,
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
