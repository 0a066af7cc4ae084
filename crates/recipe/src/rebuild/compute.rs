//! Compute pipelines.

use ash::vk;

use super::arena::{Arena, Chain};
use super::extensions::chain_plain;
use super::stage::{layout, put_flags, stage};
use super::{Device, RebuildError, Rebuilt};
use vkstash_model::recipe::Compute;

/// The create info of a compute pipeline.
pub fn compute<'a>(
    compute: &Compute<'_>,
    device: &'a impl Device,
) -> Result<Rebuilt<'a, vk::ComputePipelineCreateInfo<'a>>, RebuildError> {
    let mut arena = Arena::default();
    let mut chain = Chain::default();
    let flags = put_flags(&mut arena, &mut chain, compute.flags, std::slice::from_ref(&compute.stage))?;
    chain_plain(&mut arena, &mut chain, &compute.extensions)?;
    let info = vk::ComputePipelineCreateInfo {
        p_next: chain.head(),
        flags,
        stage: stage(&mut arena, &compute.stage, device)?,
        layout: layout(compute.flags, compute.layout.as_ref(), true, device)?,
        ..Default::default()
    };
    Ok(Rebuilt::new(info, arena))
}
