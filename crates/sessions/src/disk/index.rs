//! The index file: a table of slots, part of which is remembered. A slot in use stays as it is, except that the slot of
//! a damaged record may be given to another; so what is remembered can be used without reading it again.
use std::sync::atomic::{AtomicU32, Ordering};

use vkstash_host::descriptor::Descriptor;
use vkstash_host::disk::folder::read_at;
use vkstash_host::disk::ops;
use vkstash_host::memory;
use vkstash_host::once::OnceLock;
use vkstash_host::signals::Quiet;

use crate::disk::names;
use crate::disk::write::write_all;
use crate::error::{Error, Reason};
use crate::format::{ALIGN, BLOCK, PROBES, Place, SLOT, SLOTS, Slot, Words, block_at, home, index_length};
use crate::scratch;

/// 32-bit words of a block.
const WORDS: usize = BLOCK / 4;
/// How often a block with a damaged slot is read: another process may be writing the slot.
const READS: usize = 3;

/// Blocks that are read at once where all are read.
const CHUNK: u32 = 256;
/// The file is shorter than its header says.
const SHORT: Error = Error::Damaged("the index is too short");

/// A block as it was read last. Threads may update it at the same time: a slot that is half updated has a wrong
/// checksum, and counts as none.
struct Remembered([AtomicU32; WORDS]);

/// What a slot has.
enum Content {
    Empty,
    Damaged,
    Used(Slot),
}

impl Remembered {
    /// The words of a block that begins at byte `start`. Missing bytes count as zeros.
    fn of(bytes: &[u8], start: usize) -> Remembered {
        let mut words = bytes.get(start..).unwrap_or_default().chunks_exact(4);
        Remembered(std::array::from_fn(|_| {
            let bytes = words.next().and_then(|bytes| bytes.first_chunk());
            AtomicU32::new(bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes)))
        }))
    }

    fn update(&self, bytes: &[u8]) {
        for (word, bytes) in self.0.iter().zip(bytes.chunks_exact(4)) {
            let new = bytes.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
            // Usually they are equal: no other processor's cache is disturbed then.
            if word.load(Ordering::Relaxed) != new {
                word.store(new, Ordering::Relaxed);
            }
        }
    }

    fn update_slot(&self, slot: usize, bytes: &[u8; SLOT]) {
        let words = self.0.iter().skip(slot * (SLOT / 4));
        for (word, bytes) in words.zip(bytes.chunks_exact(4)) {
            word.store(bytes.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes)), Ordering::Relaxed);
        }
    }

    /// The numbers of the slots that begin with the low half of the hash.
    fn candidates(&self, hash: u64) -> impl Iterator<Item = usize> {
        let firsts = self.0.iter().step_by(SLOT / 4).take(SLOTS).enumerate();
        firsts.filter(move |(_, first)| first.load(Ordering::Relaxed) == hash as u32).map(|(slot, _)| slot)
    }

    /// Where the hash is, if a slot has it.
    fn position(&self, hash: u64) -> Option<(usize, Slot)> {
        self.candidates(hash).find_map(|slot| match self.content(slot) {
            Content::Used(found) if found.hash == hash => Some((slot, found)),
            _ => None,
        })
    }

    /// [`Remembered::position`] without the slot's checksum: the record itself says whether it is the right one.
    fn likely_place(&self, hash: u64) -> Option<Place> {
        self.candidates(hash).find_map(|slot| {
            let word =
                |at: usize| self.0.get(slot * (SLOT / 4) + at).map(|word| word.load(Ordering::Relaxed));
            let (high, offset, length) = (word(1)?, word(2)?, word(3)?);
            // Half a slot, if another thread is updating it.
            let is_whole = high == (hash >> 32) as u32 && offset != 0 && length != 0;
            is_whole.then_some(Place { offset: u64::from(offset) * ALIGN, length })
        })
    }

    fn content(&self, slot: usize) -> Content {
        let mut words = Words::default();
        for (to, word) in words.iter_mut().zip(self.0.iter().skip(slot * (SLOT / 4))) {
            *to = word.load(Ordering::Relaxed);
        }
        match Slot::decode(&words) {
            Some(slot) => Content::Used(slot),
            None if words == Words::default() => Content::Empty,
            None => Content::Damaged,
        }
    }
}

/// Where a slot is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Position {
    block: u32,
    slot: usize,
}

/// What a search in the file has found.
pub(crate) enum Lookup {
    /// The slot of the hash.
    At(Position, Place),
    /// No slot has the hash. The first empty one, unless all blocks are full.
    Nowhere(Option<Position>),
    /// No slot has the hash, but one of them is damaged.
    Damaged,
}

/// Blocks that are read together for the first time: a page of the file, as the header has the length of a block.
const GROUP: usize = 8;

/// A page of the file: [`GROUP`] blocks.
type Page = [Remembered];

/// An open index file.
pub(crate) struct Index {
    file: Descriptor,
    blocks: u32,
    remembered: Vec<OnceLock<Box<Page>>>,
}

impl Index {
    /// The header of the file is valid, and it has that many blocks.
    pub(crate) fn new(file: Descriptor, blocks: u32) -> Result<Index, Error> {
        let pages = (blocks as usize + 1).div_ceil(GROUP);
        let mut remembered = memory::room(pages).ok_or(Error::NoMemory)?;
        remembered.resize_with(pages, OnceLock::new);
        Ok(Index { file, blocks, remembered })
    }

    pub(crate) fn blocks(&self) -> u32 {
        self.blocks
    }

    pub(crate) fn file(&self) -> &Descriptor {
        &self.file
    }

    fn probes(&self, hash: u64) -> impl Iterator<Item = u32> + use<> {
        let (first, blocks) = (home(hash, self.blocks), self.blocks);
        (0..PROBES.min(blocks)).map(move |probe| (first + probe) % blocks)
    }

    /// A block, if it was read before.
    fn known(&self, block: u32) -> Option<&Remembered> {
        // The header is the first block of the first page.
        let number = block as usize + 1;
        self.remembered.get(number / GROUP)?.get()?.get(number % GROUP)
    }

    /// The place of the record with that hash, if it is remembered.
    pub(crate) fn remembered(&self, hash: u64) -> Option<Place> {
        for block in self.probes(hash) {
            let block = self.known(block)?;
            if let Some(place) = block.likely_place(hash) {
                return Some(place);
            }
            if matches!(block.content(SLOTS - 1), Content::Empty) {
                return None;
            }
        }
        None
    }

    /// Searches the hash in the file, and remembers the blocks that were read.
    pub(crate) fn look(&self, hash: u64) -> Result<Lookup, Error> {
        let mut damaged = false;
        let mut free = None;
        for block in self.probes(hash) {
            let remembered = self.read(block, hash)?;
            if let Some((slot, found)) = remembered.position(hash) {
                return Ok(Lookup::At(Position { block, slot }, found.place));
            }
            for slot in 0..SLOTS {
                match remembered.content(slot) {
                    Content::Used(_) => {}
                    Content::Damaged => damaged = true,
                    Content::Empty => {
                        free = Some(Position { block, slot });
                        break;
                    }
                }
            }
            if free.is_some() {
                break;
            }
        }
        Ok(if damaged { Lookup::Damaged } else { Lookup::Nowhere(free) })
    }

    /// Reads a block; several times if a slot is damaged, unless another one has the hash.
    fn read(&self, block: u32, hash: u64) -> Result<&Remembered, Error> {
        for _ in 0..READS {
            let remembered = match self.known(block) {
                Some(remembered) => {
                    self.update(remembered, block)?;
                    remembered
                }
                None => self.read_page(block)?,
            };
            let is_damaged = |slot| matches!(remembered.content(slot), Content::Damaged);
            if remembered.position(hash).is_some() || !(0..SLOTS).any(is_damaged) {
                break;
            }
            std::thread::yield_now();
        }
        self.known(block).ok_or(SHORT)
    }

    fn update(&self, remembered: &Remembered, block: u32) -> Result<(), Error> {
        scratch::with(|buffer| {
            read_at(&self.file, buffer, BLOCK, block_at(block))?;
            if buffer.len() < BLOCK {
                return Err(SHORT);
            }
            remembered.update(buffer);
            Ok(())
        })
    }

    /// Reads a block with its neighbours.
    fn read_page(&self, block: u32) -> Result<&Remembered, Error> {
        let number = block as usize + 1;
        let page = scratch::with(|buffer| {
            read_at(&self.file, buffer, GROUP * BLOCK, (number / GROUP * GROUP * BLOCK) as u64)?;
            if buffer.len() < (number % GROUP + 1) * BLOCK {
                return Err(SHORT);
            }
            Ok((0..GROUP).map(|block| Remembered::of(buffer, block * BLOCK)).collect())
        })?;
        let cell = self.remembered.get(number / GROUP).ok_or(SHORT)?;
        // Another thread may have been faster.
        cell.get_or_init(|| page).get(number % GROUP).ok_or(SHORT)
    }

    /// Writes a slot.
    pub(crate) fn put(&self, quiet: &Quiet, at: Position, slot: &Slot) -> Result<(), Error> {
        let bytes = slot.encode();
        let offset = block_at(at.block) + (at.slot * SLOT) as u64;
        write_all(quiet, self.file.still()?, &bytes, offset)?;
        if let Some(remembered) = self.known(at.block) {
            remembered.update_slot(at.slot, &bytes);
        }
        Ok(())
    }

    /// Whether the file is shorter than it was: another one has taken its place.
    pub(crate) fn is_cut_off(&self) -> bool {
        let length = index_length(self.blocks);
        ops::fstat(&self.file).is_ok_and(|stat| u64::try_from(stat.st_size).unwrap_or(0) < length)
    }

    /// Cuts the file off, because another one takes its place.
    pub(crate) fn cut_off(&self) -> Result<(), Error> {
        if !names::is_alone(&self.file)? {
            return Err(Error::Refused { name: "the index".to_owned(), reason: Reason::HardLink });
        }
        Ok(ops::ftruncate(&self.file, 0)?)
    }

    /// All slots. None: one of them is damaged.
    pub(crate) fn slots(&self) -> Result<Option<Vec<Slot>>, Error> {
        Index::slots_of(&self.file, self.blocks)
    }

    /// [`Index::slots`] of a file with that many blocks.
    pub(crate) fn slots_of(file: &Descriptor, blocks: u32) -> Result<Option<Vec<Slot>>, Error> {
        let mut slots = Vec::new();
        let mut block = 0;
        while block < blocks {
            let count = CHUNK.min(blocks - block);
            let whole = scratch::with(|buffer| {
                read_at(file, buffer, count as usize * BLOCK, block_at(block))?;
                if buffer.len() < count as usize * BLOCK {
                    return Err(SHORT);
                }
                for slot in buffer.chunks_exact(BLOCK).flat_map(|block| block.chunks_exact(SLOT)) {
                    let mut words = Words::default();
                    for (word, bytes) in words.iter_mut().zip(slot.chunks_exact(4)) {
                        *word = bytes.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
                    }
                    match Slot::decode(&words) {
                        Some(slot) => {
                            slots.try_reserve(1).map_err(|_| Error::NoMemory)?;
                            slots.push(slot);
                        }
                        None if words == Words::default() => {}
                        None => return Ok(false),
                    }
                }
                Ok(true)
            })?;
            if !whole {
                return Ok(None);
            }
            block += count;
        }
        Ok(Some(slots))
    }
}
