//! pNext chains.

use ash::vk;

use super::RebuildError;
use super::arena::{Arena, Chain};
use vkstash_model::recipe::{Extensions, Flattened, OwnedExtension};
use vkstash_model::structures::{self, Handling};

/// Chains the structures of numbers, and gives those with pointers to `special`.
pub fn chain(
    arena: &mut Arena,
    chain: &mut Chain,
    extensions: &Extensions<'_>,
    mut special: impl FnMut(&mut Arena, &mut Chain, &Flattened) -> Result<(), RebuildError>,
) -> Result<(), RebuildError> {
    for extension in &extensions.plain {
        plain(arena, chain, extension.s_type, extension.members.0)?;
    }
    extensions.flattened.iter().try_for_each(|flattened| special(arena, chain, flattened))
}

/// A chain in which no structure with pointers belongs.
pub fn chain_plain(
    arena: &mut Arena,
    into: &mut Chain,
    extensions: &Extensions<'_>,
) -> Result<(), RebuildError> {
    chain(arena, into, extensions, |_, _, flattened| Err(RebuildError::Structure(flattened.s_type)))
}

/// The plain structures of an object's chain; a recipe holds them as owned copies.
pub fn chain_owned(
    arena: &mut Arena,
    chain: &mut Chain,
    extensions: &[OwnedExtension],
) -> Result<(), RebuildError> {
    extensions.iter().try_for_each(|extension| plain(arena, chain, extension.s_type, &extension.members))
}

fn plain(arena: &mut Arena, chain: &mut Chain, s_type: i32, members: &[u8]) -> Result<(), RebuildError> {
    const HEADER: usize = size_of::<vk::BaseInStructure<'_>>();
    let row = structures::find(vk::StructureType::from_raw(s_type));
    let row = row.filter(|row| row.handling == Handling::Plain(members.len()));
    let row = row
        .filter(|row| HEADER + members.len() <= row.structure.size)
        .ok_or(RebuildError::Structure(s_type))?;
    let structure = arena.zeroed(row.structure.size)?;
    let header = vk::BaseOutStructure { s_type: row.structure.s_type, ..Default::default() };
    // SAFETY: header and members fit into the structure's size, which is what `zeroed` gave; the members begin
    // behind the header (contract 7.1); what is linked has a header and is in the arena.
    unsafe {
        structure.cast::<vk::BaseOutStructure<'_>>().write(header);
        std::ptr::copy_nonoverlapping(members.as_ptr(), structure.add(HEADER), members.len());
        chain.link(structure.cast());
    }
    Ok(())
}
