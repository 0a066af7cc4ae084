//! Pipeline layouts and render passes in Vulkan's words.

use std::io;

use ash::vk;
use vkstash_model::key;
use vkstash_model::recipe::{PipelineLayout, Reference, RenderPass};
use vkstash_model::record::{Key, Kind};
use vkstash_store::stash::browse::Browser;

use super::words::{DIGITS, formats, spoken};

pub(super) fn layout(portable: &Browser, key: &Key, out: &mut impl io::Write) -> io::Result<()> {
    let digits = &hex::encode(key)[..DIGITS];
    let mut record = Vec::new();
    let is_there = portable.read(Kind::Layout, key, &mut record);
    let Some(layout) = is_there.then(|| key::decode::<PipelineLayout>(&record).ok()).flatten() else {
        return writeln!(out, "layout: {digits}, which is not stored");
    };
    writeln!(out, "layout: {digits}")?;
    for (number, set) in layout.sets.iter().enumerate() {
        let Some(set) = set else {
            writeln!(out, "  set {number}: none")?;
            continue;
        };
        let flags = vk::DescriptorSetLayoutCreateFlags::from_raw(set.flags);
        let flags = if set.flags == 0 { String::new() } else { format!(": {}", spoken(flags)) };
        writeln!(out, "  set {number}{flags}")?;
        for binding in &set.bindings {
            let samplers = match binding.immutable_samplers.len() {
                0 => String::new(),
                count => format!(", {count} immutable samplers"),
            };
            let flags = match binding.flags {
                0 => String::new(),
                flags => format!(", {}", spoken(vk::DescriptorBindingFlags::from_raw(flags))),
            };
            writeln!(
                out,
                "    binding {}: {} {} for {}{samplers}{flags}",
                binding.binding,
                binding.count,
                spoken(vk::DescriptorType::from_raw(binding.descriptor_type)),
                spoken(vk::ShaderStageFlags::from_raw(binding.stages))
            )?;
        }
    }
    for (stages, offset, bytes) in &layout.push_constants {
        let stages = spoken(vk::ShaderStageFlags::from_raw(*stages));
        writeln!(out, "  push constants: {bytes} bytes at {offset} for {stages}")?;
    }
    Ok(())
}

pub(super) fn render_pass(
    portable: &Browser,
    key: &Key,
    subpass: u32,
    out: &mut impl io::Write,
) -> io::Result<()> {
    let digits = &hex::encode(key)[..DIGITS];
    let mut record = Vec::new();
    let is_there = portable.read(Kind::RenderPass, key, &mut record);
    let Some(pass) = is_there.then(|| key::decode::<RenderPass>(&record).ok()).flatten() else {
        return writeln!(out, "subpass {subpass} of render pass {digits}, which is not stored");
    };
    writeln!(out, "subpass {subpass} of {} of render pass {digits}", pass.subpasses.len())?;
    let used = usize::try_from(subpass).ok().and_then(|at| pass.subpasses.get(at));
    let format = |reference: &Reference| {
        let attachment = usize::try_from(reference.attachment).ok().and_then(|at| pass.attachments.get(at));
        // Flags, format, samples.
        attachment.map_or(vk::Format::UNDEFINED, |found| vk::Format::from_raw(found.members[1] as i32))
    };
    if let Some(used) = used {
        let colors = formats(used.colors.iter().map(format));
        let depth = used.depth_stencil.as_ref().map(format).unwrap_or_default();
        let colors = if colors.is_empty() { "none" } else { &colors };
        writeln!(out, "  colours {colors}, depth and stencil {depth:?}, {} inputs", used.inputs.len())?;
    }
    Ok(())
}
