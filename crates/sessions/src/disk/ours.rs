//! Ownership of damaged files: whether one is the cache's. In a working directory a file with the right name may be the
//! user's own.

use vkstash_host::descriptor::Descriptor;

use crate::disk::index::Index;
use crate::disk::state::{IndexFile, first_bytes};
use crate::disk::values::Values;
use crate::error::Error;
use crate::format::{
    Bad, FIRST_BLOCKS, INDEX_HEADER, Identity, VALUE_HEADER, blocks_of, index_header, value_header,
};
use crate::scratch;

/// A header with more different bytes than this is another file's.
const FLIPPED: usize = 8;

/// Whether the first bytes are those of a damaged header.
pub(crate) fn is_like(first: &[u8], header: &[u8]) -> bool {
    first.len() == header.len()
        && first.iter().zip(header).filter(|(one, other)| one != other).count() <= FLIPPED
}

fn is_zeros(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0)
}

/// Whether a damaged index file is one. `known`: the identity that its value file has.
pub(crate) fn is_index(
    bad: Bad,
    file: &Descriptor,
    length: u64,
    known: Option<&Identity>,
) -> Result<bool, Error> {
    let first = first_bytes(file, INDEX_HEADER)?;
    Ok(match (bad, known) {
        (Bad::Damaged | Bad::Newer(_), _) => true,
        (Bad::Zeros, Some(_)) => blocks_of(length).is_some() && is_zeros(&first),
        (Bad::Foreign, Some(identity)) => {
            is_like(&first, &index_header(identity, blocks_of(length).unwrap_or(FIRST_BLOCKS)))
        }
        (Bad::Zeros | Bad::Foreign, None) => false,
    })
}

/// Whether a damaged value file is one. `known`: its index file.
pub(crate) fn is_values(
    bad: Bad,
    file: &Descriptor,
    length: u64,
    known: Option<&IndexFile>,
) -> Result<bool, Error> {
    let Some(known) = known else { return Ok(matches!(bad, Bad::Damaged | Bad::Newer(_))) };
    let first = first_bytes(file, VALUE_HEADER)?;
    match bad {
        Bad::Damaged | Bad::Newer(_) => Ok(true),
        Bad::Foreign => Ok(is_like(&first, &value_header(&known.identity))),
        Bad::Zeros if !is_zeros(&first) => Ok(false),
        Bad::Zeros => Ok(length <= VALUE_HEADER as u64 || has_a_record(file, known)?),
    }
}

/// Whether the file has one of the records that the index names.
fn has_a_record(file: &Descriptor, known: &IndexFile) -> Result<bool, Error> {
    let slots = Index::slots_of(&known.file, known.blocks)?.unwrap_or_default();
    for slot in slots {
        let whole = scratch::with(|buffer| {
            let record = Values::read_from(file, known.identity.tag(), slot.place, buffer)?;
            Ok::<bool, Error>(record.is_some_and(|record| record.hash == slot.hash))
        })?;
        if whole {
            return Ok(true);
        }
    }
    Ok(false)
}
