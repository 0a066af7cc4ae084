//! Compute pipelines.

use ash::vk;

use super::graphics::own_binaries;
use super::stage::{self, DESCRIPTOR_HEAP, Steering};
use super::{Objects, Scratch};
use crate::recipe::chain::{self, Refusal, Special};
use crate::recipe::model::{Compute, Pipeline, Recipe, SCHEMA};
use crate::stats::BypassReason;

/// Captures a compute pipeline. `scratch` holds what the recipe borrows beside the create info.
///
/// # Safety
/// `info` is a valid create info for `'a`.
pub unsafe fn compute<'a>(
    info: &vk::ComputePipelineCreateInfo<'a>,
    objects: &impl Objects,
    scratch: &'a mut Scratch,
) -> Result<(Recipe<'a>, Steering), Refusal> {
    if info.s_type != vk::StructureType::COMPUTE_PIPELINE_CREATE_INFO {
        return Err(Refusal { reason: BypassReason::WrongStructure, s_type: info.s_type.as_raw() });
    }
    // SAFETY: the chain of a valid create info.
    let (flags, mut steering) = unsafe { stage::flags(info.flags, info.p_next, objects) }?;
    // SAFETY: as above.
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
        stage::stage(&info.stage, objects, &scratch.algorithm, &mut scratch.identifiers[0], &mut steering)
    }?;
    let layout = match flags & DESCRIPTOR_HEAP {
        0 => Some(objects.layout(info.layout)?),
        _ => None,
    };
    let pipeline = Pipeline::Compute(Compute { flags, stage, layout, extensions });
    Ok((Recipe { schema: SCHEMA, pipeline }, steering))
}
