//! Compute pipelines.

use ash::vk;

use super::Objects;
use super::stage::{self, Steering};
use crate::identifier::NativeIdentifier;
use crate::recipe::chain::{self, Refusal};
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
    let (flags, mut steering) = unsafe { stage::flags(info.flags, info.p_next) }?;
    // SAFETY: as above.
    let extensions = unsafe {
        chain::scan(info.p_next, |node| {
            Ok(node.s_type == vk::StructureType::PIPELINE_CREATE_FLAGS_2_CREATE_INFO_KHR)
        })
    }?;
    scratch.algorithm = objects.algorithm();
    // SAFETY: a compute pipeline's stage may always be read.
    let stage = unsafe {
        stage::stage(&info.stage, objects, &scratch.algorithm, &mut scratch.identifiers[0], &mut steering)
    }?;
    let layout = objects.layout(info.layout)?;
    let pipeline = Pipeline::Compute(Compute { flags, stage, layout, extensions });
    Ok((Recipe { schema: SCHEMA, pipeline }, steering))
}

/// What a recipe borrows that does not live in the program's memory.
#[derive(Default)]
pub struct Scratch {
    pub(super) algorithm: [u8; 16],
    pub(super) identifiers: [Option<NativeIdentifier>; MAX_STAGES],
}

/// More stages than any graphics pipeline can have.
pub(super) const MAX_STAGES: usize = 8;
