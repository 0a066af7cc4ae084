//! A recipe in Vulkan's words. What a program cannot have set, because it is dynamic or ignored, is not there.

use std::io;

use ash::vk;
use vkstash_model::recipe::{
    Code, ColorBlend, DepthStencil, Extensions, Graphics, Multisample, Pipeline, Rasterization, RayTracing,
    Recipe, Stage, Target, VertexInput, Viewport,
};
use vkstash_model::record::Key;
use vkstash_model::structures;
use vkstash_store::stash::browse::Browser;

use super::objects;
use super::words::{DIGITS, formats, spoken};
use crate::reports::names::stage_name;

/// Writes the recipe, and the layout and the render pass that it names.
pub(crate) fn describe(portable: &Browser, recipe: &Recipe<'_>, out: &mut impl io::Write) -> io::Result<()> {
    match &recipe.pipeline {
        Pipeline::Compute(compute) => {
            flags(out, compute.flags)?;
            stage(out, &compute.stage)?;
            layout(portable, out, compute.layout.as_ref())?;
            extensions(out, "pipeline", &compute.extensions)
        }
        Pipeline::RayTracing(tracing) => ray_tracing(portable, tracing, out),
        Pipeline::Graphics(graphics) => self::graphics(portable, graphics, out),
        Pipeline::Shaders(shaders) => {
            for (shader, next) in shaders.stages.iter().zip(&shaders.next_stages) {
                let flags = vk::ShaderCreateFlagsEXT::from_raw(shader.flags);
                stage(out, &Stage { flags: 0, ..shader.clone() })?;
                if !flags.is_empty() {
                    writeln!(out, "  flags: {}", spoken(flags))?;
                }
                if *next != 0 {
                    writeln!(out, "  before: {}", spoken(vk::ShaderStageFlags::from_raw(*next)))?;
                }
            }
            objects::layout(portable, &shaders.layout, out)
        }
    }
}

fn flags(out: &mut impl io::Write, flags: u64) -> io::Result<()> {
    if flags == 0 {
        return Ok(());
    }
    writeln!(out, "flags: {}", spoken(vk::PipelineCreateFlags2KHR::from_raw(flags)))
}

fn stage(out: &mut impl io::Write, stage: &Stage<'_>) -> io::Result<()> {
    let code = match &stage.code {
        Code::Module(identity) => format!("module {}", &hex::encode(identity)[..DIGITS]),
        Code::Native { identifier, .. } => {
            format!("the driver's identifier {}, whose code was never seen", hex::encode(identifier.0))
        }
    };
    let entry = String::from_utf8_lossy(stage.entry_point.0);
    writeln!(out, "{}: {code}, entry point {entry:?}", stage_name(stage.stage))?;
    if stage.flags != 0 {
        writeln!(out, "  flags: {}", spoken(vk::PipelineShaderStageCreateFlags::from_raw(stage.flags)))?;
    }
    for (constant, value) in &stage.specialization {
        writeln!(out, "  specialization constant {constant}: {}", constant_value(value.0))?;
    }
    if !stage.mappings.is_empty() {
        writeln!(out, "  {} descriptor mappings", stage.mappings.len())?;
    }
    extensions(out, "  stage", &stage.extensions)
}

/// The bytes of a specialization constant, and the number that they most likely are.
fn constant_value(bytes: &[u8]) -> String {
    match <[u8; 4]>::try_from(bytes).map(u32::from_le_bytes) {
        Ok(number) => format!("{number} ({number:#010x}, {:?} as a float)", f32::from_bits(number)),
        Err(_) => format!("0x{}", hex::encode(bytes)),
    }
}

fn layout(portable: &Browser, out: &mut impl io::Write, layout: Option<&Key>) -> io::Result<()> {
    match layout {
        Some(key) => objects::layout(portable, key, out),
        None => writeln!(out, "layout: none"),
    }
}

fn ray_tracing(portable: &Browser, tracing: &RayTracing<'_>, out: &mut impl io::Write) -> io::Result<()> {
    flags(out, tracing.flags)?;
    for stage in &tracing.stages {
        self::stage(out, stage)?;
    }
    for [kind, shaders @ ..] in &tracing.groups {
        let roles = ["general", "closest hit", "any hit", "intersection"].iter().zip(shaders);
        let used = roles.filter(|(_, stage)| **stage != vk::SHADER_UNUSED_KHR);
        let used = used.map(|(role, stage)| format!("{role}: stage {stage}")).collect::<Vec<_>>().join(", ");
        let kind = spoken(vk::RayTracingShaderGroupTypeKHR::from_raw(*kind as i32));
        writeln!(out, "group, {kind}: {used}")?;
    }
    writeln!(out, "recursion depth: {}", tracing.max_recursion)?;
    if let Some((payload, attributes)) = tracing.interface {
        writeln!(out, "interface: payload of {payload} bytes, hit attributes of {attributes} bytes")?;
    }
    libraries(out, &tracing.libraries)?;
    dynamic(out, &tracing.dynamic)?;
    layout(portable, out, tracing.layout.as_ref())?;
    extensions(out, "pipeline", &tracing.extensions)
}

fn graphics(portable: &Browser, graphics: &Graphics<'_>, out: &mut impl io::Write) -> io::Result<()> {
    flags(out, graphics.flags)?;
    let subsets = vk::GraphicsPipelineLibraryFlagsEXT::from_raw(graphics.subsets);
    writeln!(out, "state of: {}", spoken(subsets))?;
    libraries(out, &graphics.libraries)?;
    for stage in &graphics.stages {
        self::stage(out, stage)?;
    }
    if let Some(input) = &graphics.vertex_input {
        vertex_input(out, input)?;
    }
    if let Some(assembly) = &graphics.input_assembly {
        let restart = if assembly.restart != 0 { ", primitive restart" } else { "" };
        let topology = spoken(vk::PrimitiveTopology::from_raw(assembly.topology));
        writeln!(out, "input assembly: {topology}{restart}")?;
        extensions(out, "input assembly", &assembly.extensions)?;
    }
    if let Some(tessellation) = &graphics.tessellation {
        writeln!(out, "tessellation: patches of {} control points", tessellation.patch_control_points)?;
        extensions(out, "tessellation", &tessellation.extensions)?;
    }
    if let Some(state) = &graphics.viewport {
        viewport(out, state)?;
    }
    if let Some(state) = &graphics.rasterization {
        rasterization(out, state)?;
    }
    if let Some(state) = &graphics.multisample {
        multisample(out, state)?;
    }
    if let Some(state) = &graphics.depth_stencil {
        depth_stencil(out, state)?;
    }
    if let Some(state) = &graphics.color_blend {
        color_blend(out, state)?;
    }
    dynamic(out, &graphics.dynamic)?;
    target(portable, out, &graphics.target)?;
    layout(portable, out, graphics.layout.as_ref())?;
    extensions(out, "pipeline", &graphics.extensions)
}

fn vertex_input(out: &mut impl io::Write, input: &VertexInput<'_>) -> io::Result<()> {
    let is_empty = input.bindings.is_empty() && input.attributes.is_empty();
    writeln!(out, "vertex input:{}", if is_empty { " none" } else { "" })?;
    for (binding, stride, rate) in &input.bindings {
        let rate = spoken(vk::VertexInputRate::from_raw(*rate));
        writeln!(out, "  binding {binding}: stride {stride}, for each {rate}")?;
    }
    for (location, binding, format, offset) in &input.attributes {
        let format = vk::Format::from_raw(*format);
        writeln!(out, "  location {location}: {format:?}, binding {binding}, offset {offset}")?;
    }
    for (binding, divisor) in &input.divisors {
        writeln!(out, "  binding {binding}: divisor {divisor}")?;
    }
    extensions(out, "vertex input", &input.extensions)
}

fn viewport(out: &mut impl io::Write, viewport: &Viewport<'_>) -> io::Result<()> {
    writeln!(
        out,
        "viewports: {} of {}, scissors: {} of {} are static",
        viewport.viewports.len(),
        viewport.viewport_count,
        viewport.scissors.len(),
        viewport.scissor_count
    )?;
    for [x, y, width, height, near, far] in &viewport.viewports {
        let [x, y, width, height, near, far] =
            [x, y, width, height, near, far].map(|bits| f32::from_bits(*bits));
        writeln!(out, "  viewport: {width} x {height} at {x}, {y}; depth {near} to {far}")?;
    }
    for (x, y, width, height) in &viewport.scissors {
        writeln!(out, "  scissor: {width} x {height} at {x}, {y}")?;
    }
    extensions(out, "viewport", &viewport.extensions)
}

fn rasterization(out: &mut impl io::Write, rasterization: &Rasterization<'_>) -> io::Result<()> {
    let [polygon, cull, front] = rasterization.modes;
    let switches = ["depth clamp", "rasterizer discard", "depth bias"];
    let [constant, clamp, slope, line] = rasterization.factors.map(f32::from_bits);
    writeln!(
        out,
        "rasterization: polygons {}, cull {}, front {}{}, line width {line}",
        spoken(vk::PolygonMode::from_raw(polygon as i32)),
        spoken(vk::CullModeFlags::from_raw(cull)),
        spoken(vk::FrontFace::from_raw(front as i32)),
        enabled(&switches, &rasterization.switches)
    )?;
    if rasterization.switches[2] != 0 {
        writeln!(out, "  depth bias: {constant} constant, {clamp} clamp, {slope} slope")?;
    }
    extensions(out, "rasterization", &rasterization.extensions)
}

fn multisample(out: &mut impl io::Write, multisample: &Multisample<'_>) -> io::Result<()> {
    // The flag of a count is the count.
    let samples = multisample.samples;
    let [shading, least] = multisample.sample_shading;
    let shading =
        if shading != 0 { format!(", sample shading of {}", f32::from_bits(least)) } else { String::new() };
    let mask = multisample.sample_mask.iter().map(|word| format!(", mask {word:#x}")).collect::<String>();
    let alpha = enabled(&["alpha to coverage", "alpha to one"], &multisample.alpha);
    writeln!(out, "samples: {samples}{shading}{mask}{alpha}")?;
    extensions(out, "multisampling", &multisample.extensions)
}

fn depth_stencil(out: &mut impl io::Write, state: &DepthStencil<'_>) -> io::Result<()> {
    let [test, write, compare, bounds, stencil] = state.depth;
    let compare = spoken(vk::CompareOp::from_raw(compare as i32));
    let switches = ["test", "write", "bounds test", "stencil test"];
    writeln!(out, "depth: {compare}{}", enabled(&switches, &[test, write, bounds, stencil]))?;
    for (side, face) in ["front", "back"].iter().zip(&state.stencil).filter(|_| stencil != 0) {
        let [fail, pass, depth_fail, compare, compare_mask, write_mask, reference] = *face;
        let operation = |raw: u32| spoken(vk::StencilOp::from_raw(raw as i32));
        writeln!(
            out,
            "  stencil {side}: {}, fail {}, pass {}, depth fail {}, masks {compare_mask:#x} and \
             {write_mask:#x}, reference {reference}",
            spoken(vk::CompareOp::from_raw(compare as i32)),
            operation(fail),
            operation(pass),
            operation(depth_fail)
        )?;
    }
    extensions(out, "depth and stencil", &state.extensions)
}

fn color_blend(out: &mut impl io::Write, blend: &ColorBlend<'_>) -> io::Result<()> {
    let [logic, operation] = blend.logic;
    let logic = if logic != 0 {
        format!(", logic {}", spoken(vk::LogicOp::from_raw(operation as i32)))
    } else {
        String::new()
    };
    writeln!(out, "blending: {} attachments{logic}", blend.attachment_count)?;
    for (at, [enable, source, target, operation, source_alpha, target_alpha, alpha, mask]) in
        blend.attachments.iter().enumerate()
    {
        let mask = spoken(vk::ColorComponentFlags::from_raw(*mask));
        if *enable == 0 {
            writeln!(out, "  attachment {at}: written {mask}")?;
            continue;
        }
        let factor = |raw: &u32| spoken(vk::BlendFactor::from_raw(*raw as i32));
        let op = |raw: &u32| spoken(vk::BlendOp::from_raw(*raw as i32));
        writeln!(
            out,
            "  attachment {at}: colour {} {} {}, alpha {} {} {}, written {mask}",
            factor(source),
            op(operation),
            factor(target),
            factor(source_alpha),
            op(alpha),
            factor(target_alpha)
        )?;
    }
    extensions(out, "blending", &blend.extensions)
}

/// `, depth clamp, depth bias`: the switches that are on.
fn enabled(names: &[&str], values: &[u32]) -> String {
    names.iter().zip(values).filter(|(_, value)| **value != 0).map(|(name, _)| format!(", {name}")).collect()
}

fn libraries(out: &mut impl io::Write, libraries: &[Key]) -> io::Result<()> {
    libraries.iter().try_for_each(|key| writeln!(out, "links library {}", &hex::encode(key)[..DIGITS]))
}

fn dynamic(out: &mut impl io::Write, states: &[i32]) -> io::Result<()> {
    if states.is_empty() {
        return Ok(());
    }
    let names = states.iter().map(|&state| spoken(vk::DynamicState::from_raw(state)));
    writeln!(out, "dynamic: {}", names.collect::<Vec<_>>().join(", "))
}

fn target(portable: &Browser, out: &mut impl io::Write, target: &Target) -> io::Result<()> {
    match target {
        Target::None => Ok(()),
        Target::RenderPass { render_pass, subpass } => {
            objects::render_pass(portable, render_pass, *subpass, out)
        }
        Target::Dynamic { view_mask, color, depth, stencil } => {
            let format = |raw: &i32| vk::Format::from_raw(*raw);
            let views = if *view_mask != 0 { format!(", views {view_mask:#b}") } else { String::new() };
            writeln!(
                out,
                "dynamic rendering: colours {}, depth {:?}, stencil {:?}{views}",
                if color.is_empty() { "none".to_owned() } else { formats(color.iter().map(format)) },
                format(depth),
                format(stencil)
            )
        }
    }
}

fn extensions(out: &mut impl io::Write, of: &str, extensions: &Extensions<'_>) -> io::Result<()> {
    let name = |s_type: i32| structures::name(vk::StructureType::from_raw(s_type));
    for extension in &extensions.plain {
        writeln!(out, "{of}: {} {}", name(extension.s_type), hex::encode(extension.members.0))?;
    }
    for extension in &extensions.flattened {
        writeln!(out, "{of}: {} {:x?}", name(extension.s_type), extension.words)?;
    }
    Ok(())
}
