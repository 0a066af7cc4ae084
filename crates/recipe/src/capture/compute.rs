//! Compute pipelines.

use ash::vk;

use super::flags::{self, DESCRIPTOR_HEAP};
use super::graphics::own_binaries;
use super::parsed::Parsed;
use super::stage;
use super::{Captured, LibraryTraits, Objects, Scratch};
use crate::chain::{self, Refusal, Special};
use vkstash_model::counters::BypassReason;
use vkstash_model::recipe::{Compute, Pipeline, Recipe, SCHEMA};

/// Captures a compute pipeline. `scratch` holds what the recipe borrows beside the create info.
///
/// # Safety
/// `info` is a valid create info for `'a`, and `parsed` was read of it.
pub unsafe fn compute<'a>(
    info: &vk::ComputePipelineCreateInfo<'a>,
    parsed: &Parsed<'a>,
    objects: &impl Objects,
    scratch: &'a mut Scratch,
) -> Result<Captured<'a>, Refusal> {
    if info.s_type != vk::StructureType::COMPUTE_PIPELINE_CREATE_INFO {
        return Err(Refusal { reason: BypassReason::WrongStructure, s_type: info.s_type.as_raw() });
    }
    let flags = flags::hashed(parsed.flags, objects.looked_into())?;
    // SAFETY: the chain of a valid create info.
    let extensions = unsafe {
        chain::scan(info.p_next, |node| match node.s_type {
            vk::StructureType::PIPELINE_CREATE_FLAGS_2_CREATE_INFO_KHR => Ok(Special::Read),
            _ => own_binaries(node),
        })
    }?;
    scratch.algorithm = objects.algorithm();
    scratch.identifiers.resize(1, None);
    // SAFETY: a compute pipeline's stage may always be read.
    let stage = unsafe {
        stage::stage(
            &info.stage,
            objects,
            &scratch.algorithm,
            &mut scratch.identifiers[0],
            &mut scratch.inline,
        )
    }?;
    let layout = match flags & DESCRIPTOR_HEAP {
        0 => Some(objects.layout(info.layout)?),
        _ => None,
    };
    let pipeline = Pipeline::Compute(Compute { flags, stage, layout, extensions });
    Ok(Captured { recipe: Recipe { schema: SCHEMA, pipeline }, traits: LibraryTraits::default() })
}
