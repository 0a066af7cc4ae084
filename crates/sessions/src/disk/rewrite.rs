//! Writing the index again, and new files. The calling process has locked [`crate::locks::Byte::Writing`], or is the
//! only one that has the cache open.

use std::sync::Arc;

use vkstash_host::descriptor::Descriptor;
use vkstash_host::disk::folder::{Folder, write_all_at};
use vkstash_host::disk::ops;
use vkstash_host::sort;
use vkstash_host::{memory, util};

use crate::disk::index::Index;
use crate::disk::names::{self, Names};
use crate::disk::state::State;
use crate::disk::values::Values;
use crate::error::{Error, Reason};
use crate::format::{
    BLOCK, FIRST_BLOCKS, Identity, MOST_BLOCKS, PROBES, SLOT, SLOTS, Slot, block_at, home, index_header,
    index_length, value_header,
};

/// Bytes that are written at once, a multiple of the length of a block.
const CHUNK: usize = 128 * BLOCK;

/// A slot with the place in the file that it gets.
struct Placed {
    block: u32,
    slot: usize,
    content: Slot,
}

/// Gives each slot its place. None: some blocks are full.
fn placed(slots: &[Slot], blocks: u32) -> Result<Option<Vec<Placed>>, Error> {
    let mut counts: Vec<u8> = memory::room(blocks as usize).ok_or(Error::NoMemory)?;
    counts.resize(blocks as usize, 0);
    let mut all = memory::room(slots.len()).ok_or(Error::NoMemory)?;
    for content in slots {
        let first = home(content.hash, blocks);
        let mut probes = (0..PROBES.min(blocks)).map(|probe| (first + probe) % blocks);
        let Some(block) = probes.find(|&block| usize::from(counts[block as usize]) < SLOTS) else {
            return Ok(None);
        };
        let count = &mut counts[block as usize];
        all.push(Placed { block, slot: usize::from(*count), content: *content });
        *count += 1;
    }
    sort::by_key(&mut all, |placed| (placed.block, placed.slot));
    Ok(Some(all))
}

/// Creates a file that is renamed when it is complete.
fn create(folder: &Folder, name: &str) -> Result<Descriptor, Error> {
    // A process may have died while it wrote one.
    if !names::is_begun(folder, name)? {
        return Err(Error::Refused { name: name.to_owned(), reason: Reason::Foreign });
    }
    folder.remove_file(name)?;
    Ok(folder.create_file(name)?)
}

/// Writes a complete index file with `slots`, of at least that many blocks, and gives it the name `new_index`.
pub(crate) fn new_index(
    folder: &Folder,
    names: &Names,
    identity: &Identity,
    mut slots: Vec<Slot>,
    at_least: u32,
) -> Result<Index, Error> {
    // Of two records with one hash the first was damaged when the second was stored.
    sort::by_key(&mut slots, |slot| (slot.hash, std::cmp::Reverse(slot.place.offset)));
    slots.dedup_by_key(|slot| slot.hash);
    let mut blocks = at_least.max(FIRST_BLOCKS);
    let placed = loop {
        if blocks > MOST_BLOCKS {
            return Err(Error::CacheFull);
        }
        match placed(&slots, blocks)? {
            Some(placed) => break placed,
            None => blocks *= 2,
        }
    };
    let file = create(folder, &names.new_index)?;
    let written = fill(&file, identity, blocks, &placed);
    if let Err(error) = written {
        // The first error is returned.
        let _ = folder.remove_file(&names.new_index);
        return Err(error);
    }
    Index::new(file, blocks)
}

fn fill(file: &Descriptor, identity: &Identity, blocks: u32, placed: &[Placed]) -> Result<(), Error> {
    ops::ftruncate(file, index_length(blocks))?;
    let write = |bytes: &[u8], at| write_all_at(file, bytes, at).map_err(|(_, error)| Error::from(error));
    write(&index_header(identity, blocks), 0)?;
    let mut chunk = memory::room(CHUNK).ok_or(Error::NoMemory)?;
    let per_chunk = (CHUNK / BLOCK) as u32;
    for group in placed.chunk_by(|one, other| one.block / per_chunk == other.block / per_chunk) {
        let Some(Placed { block: any, .. }) = group.first() else { continue };
        let first = any / per_chunk * per_chunk;
        let count = per_chunk.min(blocks - first) as usize;
        chunk.clear();
        chunk.resize(count * BLOCK, 0);
        for placed in group {
            let at = (placed.block - first) as usize * BLOCK + placed.slot * SLOT;
            chunk[at..at + SLOT].copy_from_slice(&placed.content.encode());
        }
        write(&chunk, block_at(first))?;
    }
    Ok(())
}

/// Writes the index of `values` again, from `slots` or, without those, from the records. `old` is cut off.
pub(crate) fn index(
    folder: &Folder,
    names: &Names,
    identity: &Identity,
    values: &Arc<Values>,
    slots: Option<Vec<Slot>>,
    old: Option<&Index>,
    at_least: u32,
) -> Result<State, Error> {
    let slots = match slots {
        Some(slots) => slots,
        None => slots_of(values)?,
    };
    let index = new_index(folder, names, identity, slots, at_least)?;
    let installed = old.map_or(Ok(()), Index::cut_off);
    let installed = installed.and_then(|()| Ok(ops::renameat(folder, &names.new_index, &names.index)?));
    if let Err(error) = installed {
        let _ = folder.remove_file(&names.new_index);
        return Err(error);
    }
    Ok(State { identity: *identity, index, values: values.clone() })
}

/// The slots of all whole records.
fn slots_of(values: &Values) -> Result<Vec<Slot>, Error> {
    let mut slots = Vec::new();
    let mut fits = true;
    values.scan(|head, place| {
        fits = fits && slots.try_reserve(1).is_ok();
        if fits {
            slots.push(Slot { hash: head.hash, place });
        }
    })?;
    if fits { Ok(slots) } else { Err(Error::NoMemory) }
}

/// The number of a new value file.
fn number() -> u64 {
    #[cfg(test)]
    if let Some(number) = crate::tests::NUMBER.get() {
        return number;
    }
    util::random()
}

/// Puts new, empty files in the place of those with the names. `old` is cut off.
pub(crate) fn wipe(
    folder: &Folder,
    names: &Names,
    of: &Identity,
    old: Option<&Index>,
) -> Result<State, Error> {
    let identity = Identity { number: number(), ..*of };
    let file = create(folder, &names.new_values)?;
    let made = write_all_at(&file, &value_header(&identity), 0).map_err(|(_, error)| Error::from(error));
    let made = made.and_then(|()| new_index(folder, names, &identity, Vec::new(), FIRST_BLOCKS));
    let index = match made {
        Ok(index) => index,
        Err(error) => {
            let _ = folder.remove_file(&names.new_values);
            return Err(error);
        }
    };
    let install = || -> Result<(), Error> {
        old.map_or(Ok(()), Index::cut_off)?;
        // If the process dies between the two, the next one finds an index of another value file.
        ops::renameat(folder, &names.new_values, &names.values)?;
        Ok(ops::renameat(folder, &names.new_index, &names.index)?)
    };
    match install() {
        Ok(()) => Ok(State { identity, index, values: Arc::new(Values::new(file, identity.tag())) }),
        Err(error) => {
            let _ = folder.remove_file(&names.new_values);
            let _ = folder.remove_file(&names.new_index);
            Err(error)
        }
    }
}
