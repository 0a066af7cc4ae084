//! Graphics pipelines: complete ones, libraries and links. Each piece of state stands where capture reads it
//! (contract 6), and nowhere else.
//!
//! - `state` the pieces of fixed-function state
//! - `structures` the structures with pointers in their chains

mod state;
mod structures;

use std::ptr;

use ash::vk::{self, DynamicState as D};

use self::structures::StructureBuilder;
use super::arena::{Arena, Chain};
use super::extensions;
use super::stage::{dynamic, layout, put_flags, stage};
use super::{Device, Limits, RebuildError, Rebuilt, ensure, found, within};
use crate::capture::graphics::Dynamic;
use crate::capture::graphics::subsets::Subsets;
use crate::capture::{LibraryTraits, SubpassUse};
use vkstash_model::recipe::{Graphics, Target};

/// More stages than any graphics pipeline can have.
const MAX_STAGES: usize = 8;

/// The create info of a graphics pipeline, and what has to be known of it where it is a library.
#[allow(clippy::type_complexity, reason = "a create info and what a link has to know")]
pub fn graphics<'a>(
    graphics: &Graphics<'_>,
    device: &'a impl Device,
) -> Result<(Rebuilt<'a, vk::GraphicsPipelineCreateInfo<'a>>, LibraryTraits), RebuildError> {
    let mut arena = Arena::default();
    let mut chain = Chain::default();
    let flags = put_flags(&mut arena, &mut chain, graphics.flags, &graphics.stages)?;
    let subsets = Subsets(vk::GraphicsPipelineLibraryFlagsEXT::from_raw(graphics.subsets));
    ensure(Subsets::ALL.0.contains(subsets.0), "a subset that is not one")?;
    let (dynamic, p_dynamic_state) = dynamic(&mut arena, &graphics.dynamic)?;
    let mut traits = LibraryTraits { subsets: graphics.subsets, discards: false, ..LibraryTraits::default() };

    let linked = link(&mut arena, graphics, device, &mut traits)?;
    traits.has_independent_sets |= graphics.layout.is_some_and(|layout| device.has_independent_sets(&layout));
    if Subsets::provided(graphics.flags, None, linked.as_ref()) != subsets {
        let info = vk::GraphicsPipelineLibraryCreateInfoEXT { flags: subsets.0, ..Default::default() };
        chain.push(&mut arena, info)?;
    }
    if let Some(linked) = linked {
        chain.push(&mut arena, linked)?;
    }

    // Discard counts only where it is static (contract 6), and may come from a library.
    let discards = graphics.rasterization.as_ref().is_some_and(|state| state.switches[1] != 0);
    traits.discards |= discards && !dynamic.has(D::RASTERIZER_DISCARD_ENABLE);
    let shown = !traits.discards;
    let (render_pass, subpass, uses) = target(&mut arena, &mut chain, graphics, subsets, shown, device)?;
    extensions::chain(&mut arena, &mut chain, &graphics.extensions, |arena, chain, flattened| {
        StructureBuilder::of(arena, chain, flattened, &dynamic, device.limits()).pipeline()
    })?;

    let present = stages_of(graphics, subsets)?;
    let stages = arena.list(graphics.stages.iter(), |arena, given| stage(arena, given, device))?;
    let needs_layout = subsets.shaders();
    ensure(
        needs_layout || !graphics.libraries.is_empty() || graphics.layout.is_none(),
        "a layout that nothing reads",
    )?;

    let mut put = Pieces {
        arena: &mut arena,
        dynamic: &dynamic,
        limits: device.limits(),
        advanced_blend: device.advanced_blend(),
    };
    let in_render_pass = render_pass != vk::RenderPass::null();
    let reads = Reads { subsets, present, shown, uses, in_render_pass };
    let info = vk::GraphicsPipelineCreateInfo {
        p_next: chain.head(),
        flags,
        stage_count: stages.count,
        p_stages: stages.pointer,
        p_dynamic_state,
        render_pass,
        subpass,
        ..put.pieces(graphics, &reads)?
    };
    let layout = layout(graphics.flags, graphics.layout.as_ref(), needs_layout, device)?;
    Ok((Rebuilt::new(info.layout(layout), arena), traits))
}

/// If all of these states are dynamic there may be no rasterization state (06601).
pub(super) const WITHOUT_RASTERIZATION: [D; 8] = [
    D::DEPTH_CLAMP_ENABLE_EXT,
    D::RASTERIZER_DISCARD_ENABLE,
    D::POLYGON_MODE_EXT,
    D::CULL_MODE,
    D::FRONT_FACE,
    D::DEPTH_BIAS_ENABLE,
    D::DEPTH_BIAS,
    D::LINE_WIDTH,
];

/// If all of these states are dynamic there may be no multisample state (09026). Alpha to one may be static where its
/// feature is off.
pub(super) const WITHOUT_MULTISAMPLE: [D; 3] =
    [D::RASTERIZATION_SAMPLES_EXT, D::SAMPLE_MASK_EXT, D::ALPHA_TO_COVERAGE_ENABLE_EXT];

/// If all of these states are dynamic there may be no depth and stencil state (09028). Depth bounds may be static
/// where their feature is off.
pub(super) const WITHOUT_DEPTH_STENCIL: [D; 6] = [
    D::DEPTH_TEST_ENABLE,
    D::DEPTH_WRITE_ENABLE,
    D::DEPTH_COMPARE_OP,
    D::DEPTH_BOUNDS_TEST_ENABLE,
    D::STENCIL_TEST_ENABLE,
    D::STENCIL_OP,
];

/// If all of these states are dynamic there may be no blend state (09030). The logical operation may be static where
/// its feature is off.
pub(super) const WITHOUT_COLOR_BLEND: [D; 5] = [
    D::LOGIC_OP_ENABLE_EXT,
    D::COLOR_BLEND_ENABLE_EXT,
    D::COLOR_BLEND_EQUATION_EXT,
    D::COLOR_WRITE_MASK_EXT,
    D::BLEND_CONSTANTS,
];

/// What decides which pieces of state are read (contract 6).
struct Reads {
    subsets: Subsets,
    /// The stages that are there.
    present: vk::ShaderStageFlags,
    /// The pipeline does not discard: otherwise it has no fragment state.
    shown: bool,
    uses: SubpassUse,
    in_render_pass: bool,
}

impl Reads {
    /// Vertices come from vertex input, not from mesh shaders.
    fn vertex_stages(&self) -> bool {
        let mesh = vk::ShaderStageFlags::TASK_EXT | vk::ShaderStageFlags::MESH_EXT;
        self.subsets.vertex_input() && !self.present.intersects(mesh)
    }

    fn tessellation(&self) -> bool {
        self.present.intersects(
            vk::ShaderStageFlags::TESSELLATION_CONTROL | vk::ShaderStageFlags::TESSELLATION_EVALUATION,
        )
    }
}

/// Puts pieces of state where they are read.
struct Pieces<'a> {
    arena: &'a mut Arena,
    dynamic: &'a Dynamic,
    limits: Limits,
    advanced_blend: bool,
}

impl Pieces<'_> {
    /// A create info that has all pieces of state, and nothing else.
    fn pieces(
        &mut self,
        graphics: &Graphics<'_>,
        reads: &Reads,
    ) -> Result<vk::GraphicsPipelineCreateInfo<'static>, RebuildError> {
        let &Reads { subsets, shown, uses, .. } = reads;
        let (dynamic, limits, advanced) = (self.dynamic, self.limits, self.advanced_blend);
        let all = |states: &[D]| states.iter().all(|&state| dynamic.has(state));
        Ok(vk::GraphicsPipelineCreateInfo {
            p_multisample_state: self.multisample(graphics, reads)?,
            p_vertex_input_state: self.piece(
                reads.vertex_stages() && !dynamic.has(D::VERTEX_INPUT_EXT),
                false,
                &graphics.vertex_input,
                |arena, state, _| state::vertex_input(arena, state, limits),
            )?,
            p_input_assembly_state: self.piece(
                reads.vertex_stages(),
                all(&[D::PRIMITIVE_TOPOLOGY, D::PRIMITIVE_RESTART_ENABLE]),
                &graphics.input_assembly,
                |arena, state, _| state::input_assembly(arena, state),
            )?,
            p_tessellation_state: self.piece(
                reads.tessellation(),
                dynamic.has(D::PATCH_CONTROL_POINTS_EXT),
                &graphics.tessellation,
                state::tessellation,
            )?,
            p_viewport_state: self.piece(
                subsets.pre_rasterization() && shown,
                all(&[D::VIEWPORT_WITH_COUNT, D::SCISSOR_WITH_COUNT]),
                &graphics.viewport,
                |arena, state, dynamic| state::viewport(arena, state, dynamic, limits),
            )?,
            p_rasterization_state: self.piece(
                subsets.pre_rasterization(),
                all(&WITHOUT_RASTERIZATION),
                &graphics.rasterization,
                |arena, state, _| state::rasterization(arena, state),
            )?,
            p_depth_stencil_state: self.piece(
                subsets.fragment_shader() && shown && uses.depth_stencil,
                all(&WITHOUT_DEPTH_STENCIL),
                &graphics.depth_stencil,
                |arena, state, _| state::depth_stencil(arena, state),
            )?,
            p_color_blend_state: self.piece(
                subsets.fragment_output() && shown && uses.color,
                all(&WITHOUT_COLOR_BLEND) && (!advanced || dynamic.has(D::COLOR_BLEND_ADVANCED_EXT)),
                &graphics.color_blend,
                |arena, state, dynamic| state::color_blend(arena, state, dynamic, advanced, limits),
            )?,
            ..Default::default()
        })
    }

    fn multisample(
        &mut self,
        graphics: &Graphics<'_>,
        reads: &Reads,
    ) -> Result<*const vk::PipelineMultisampleStateCreateInfo<'static>, RebuildError> {
        let &Reads { subsets, shown, in_render_pass, .. } = reads;
        let (dynamic, limits) = (self.dynamic, self.limits);
        let all_dynamic = WITHOUT_MULTISAMPLE.iter().all(|&state| dynamic.has(state));
        let given = self.piece(
            subsets.fragment() && shown,
            // A fragment shader by itself has it for sample shading alone.
            all_dynamic || !subsets.fragment_output(),
            &graphics.multisample,
            |arena, state, dynamic| state::multisample(arena, state, dynamic, limits),
        )?;
        if !subsets.fragment_shader() || shown || !in_render_pass {
            return Ok(given);
        }
        // The driver does not read multisample state where rasterization is discarded, but with a render pass it must
        // be there (06631).
        let one = vk::PipelineMultisampleStateCreateInfo::default()
            .rasterization_samples(vk::SampleCountFlags::TYPE_1);
        Ok(self.arena.place(one)?.cast_const())
    }

    /// A piece of state that the driver reads, or may find to be NULL.
    fn piece<S, T: Copy>(
        &mut self,
        is_read: bool,
        may_be_null: bool,
        state: &Option<S>,
        make: impl FnOnce(&mut Arena, &S, &Dynamic) -> Result<T, RebuildError>,
    ) -> Result<*const T, RebuildError> {
        match state {
            Some(state) if is_read => {
                let info = make(self.arena, state, self.dynamic)?;
                Ok(self.arena.place(info)?.cast_const())
            }
            None if may_be_null || !is_read => Ok(ptr::null()),
            Some(_) => Err(RebuildError::Contradiction("state that nothing reads")),
            None => Err(RebuildError::Contradiction("state that is missing")),
        }
    }
}

/// The libraries that are linked.
fn link(
    arena: &mut Arena,
    graphics: &Graphics<'_>,
    device: &impl Device,
    traits: &mut LibraryTraits,
) -> Result<Option<vk::PipelineLibraryCreateInfoKHR<'static>>, RebuildError> {
    if graphics.libraries.is_empty() {
        return Ok(None);
    }
    let libraries = arena.list(graphics.libraries.iter(), |_, key| {
        let (library, its) = found(device.library(key), "library", key)?;
        traits.subsets |= its.subsets;
        traits.discards |= its.discards;
        traits.has_independent_sets |= its.has_independent_sets;
        Ok(library)
    })?;
    if traits.has_independent_sets && graphics.layout.is_none() {
        return Err(RebuildError::LinkWithoutLayout);
    }
    Ok(Some(vk::PipelineLibraryCreateInfoKHR {
        library_count: libraries.count,
        p_libraries: libraries.pointer,
        ..Default::default()
    }))
}

/// The stages that are there: each once, for drivers have one place for each.
fn stages_of(graphics: &Graphics<'_>, subsets: Subsets) -> Result<vk::ShaderStageFlags, RebuildError> {
    let count = graphics.stages.len();
    ensure(count <= MAX_STAGES, "too many stages")?;
    ensure(count > 0 || !subsets.pre_rasterization(), "no stages")?;
    ensure(count == 0 || subsets.shaders(), "stages that nothing reads")?;
    let mut present = 0;
    for stage in &graphics.stages {
        ensure(present & stage.stage == 0, "two stages of a kind")?;
        present |= stage.stage;
    }
    Ok(vk::ShaderStageFlags::from_raw(present))
}

/// What the pipeline renders to: a render pass and the subpass, or formats in the chain.
fn target(
    arena: &mut Arena,
    chain: &mut Chain,
    graphics: &Graphics<'_>,
    subsets: Subsets,
    shown: bool,
    device: &impl Device,
) -> Result<(vk::RenderPass, u32, SubpassUse), RebuildError> {
    let alone = SubpassUse { color: false, depth_stencil: !subsets.fragment_output() };
    ensure(
        subsets.render_target() == !matches!(graphics.target, Target::None),
        "nothing to render to, or nothing that renders",
    )?;
    match &graphics.target {
        Target::None => Ok((vk::RenderPass::null(), 0, alone)),
        Target::RenderPass { render_pass, subpass } => {
            let found = found(device.render_pass(render_pass, *subpass), "render pass", render_pass)?;
            Ok((found.0, *subpass, found.1))
        }
        Target::Dynamic { view_mask, color, depth, stencil } => {
            within(color.len(), device.limits().color_attachments, "colour attachments")?;
            let nothing = color.is_empty() && *depth == 0 && *stencil == 0;
            let reads = subsets.fragment_output() && shown;
            ensure(reads || nothing, "formats that nothing reads")?;
            if !nothing || *view_mask != 0 {
                let formats = arena.copy(color)?;
                let info = vk::PipelineRenderingCreateInfo {
                    view_mask: *view_mask,
                    color_attachment_count: formats.count,
                    p_color_attachment_formats: formats.pointer.cast(),
                    depth_attachment_format: vk::Format::from_raw(*depth),
                    stencil_attachment_format: vk::Format::from_raw(*stencil),
                    ..Default::default()
                };
                chain.push(arena, info)?;
            }
            let drawn = SubpassUse {
                color: color.iter().any(|&format| format != 0),
                depth_stencil: *depth != 0 || *stencil != 0,
            };
            // Without formats that are read no attachment is known. A fragment shader without fragment output state
            // then counts as one that uses depth (09035).
            Ok((vk::RenderPass::null(), 0, if reads { drawn } else { alone }))
        }
    }
}
