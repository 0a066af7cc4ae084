//! The two files that are in use.

use std::sync::Arc;

use vkstash_host::descriptor::Descriptor;
use vkstash_host::disk::folder::{Folder, read_at};

use crate::disk::index::Index;
use crate::disk::names::{self, Names};
use crate::disk::values::Values;
use crate::error::{Error, Reason};
use crate::format::{Bad, INDEX_HEADER, Identity, VALUE_HEADER, read_index_header, read_value_header};

/// The index and the value file of a cache, whose identities are equal.
pub(crate) struct State {
    pub(crate) identity: Identity,
    pub(crate) index: Index,
    pub(crate) values: Arc<Values>,
}

/// A file, as far as its header says what it is. A bad one has its length, too.
pub(crate) enum Found<T> {
    Missing,
    Bad(Bad, Descriptor, u64),
    Good(T),
}

/// A value file with a valid header.
pub(crate) struct ValueFile {
    pub(crate) file: Descriptor,
    pub(crate) identity: Identity,
}

/// An index file with a valid header, as long as it says.
pub(crate) struct IndexFile {
    pub(crate) file: Descriptor,
    pub(crate) identity: Identity,
    pub(crate) blocks: u32,
}

pub(crate) fn first_bytes(file: &Descriptor, count: usize) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    read_at(file, &mut bytes, count, 0)?;
    Ok(bytes)
}

fn newer(name: &str, bad: Bad) -> Result<Bad, Error> {
    match bad {
        Bad::Newer(version) => Err(Error::Refused { name: name.to_owned(), reason: Reason::Newer(version) }),
        bad => Ok(bad),
    }
}

/// Opens the value file.
pub(crate) fn find_values(folder: &Folder, names: &Names, writable: bool) -> Result<Found<ValueFile>, Error> {
    let Some((file, length)) = names::open(folder, &names.values, writable)? else {
        return Ok(Found::Missing);
    };
    match read_value_header(&first_bytes(&file, VALUE_HEADER)?) {
        Ok(identity) => Ok(Found::Good(ValueFile { file, identity })),
        Err(bad) => Ok(Found::Bad(newer(&names.values, bad)?, file, length)),
    }
}

/// Opens the index file.
pub(crate) fn find_index(folder: &Folder, names: &Names, writable: bool) -> Result<Found<IndexFile>, Error> {
    let Some((file, length)) = names::open(folder, &names.index, writable)? else {
        return Ok(Found::Missing);
    };
    match read_index_header(&first_bytes(&file, INDEX_HEADER)?, length) {
        Ok((identity, blocks)) => Ok(Found::Good(IndexFile { file, identity, blocks })),
        Err(bad) => Ok(Found::Bad(newer(&names.index, bad)?, file, length)),
    }
}

/// The index and the value file as they are now. None: they do not belong together, or not to this cache.
pub(crate) fn load(
    folder: &Folder,
    names: &Names,
    of: &Identity,
    writable: bool,
) -> Result<Option<State>, Error> {
    let (Found::Good(values), Found::Good(index)) =
        (find_values(folder, names, writable)?, find_index(folder, names, writable)?)
    else {
        return Ok(None);
    };
    let is_this = values.identity.identifier == of.identifier && values.identity.has_version_of(of);
    if !is_this || values.identity != index.identity {
        return Ok(None);
    }
    let state = State {
        identity: values.identity,
        index: Index::new(index.file, index.blocks)?,
        values: Arc::new(Values::new(values.file, values.identity.tag())),
    };
    Ok(Some(state))
}
