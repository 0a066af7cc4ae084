//! The index of a sealed segment: a hash table of blocks, each with its checksum. Opening a segment reads no block, and
//! a look-up reads at most one that is not in memory, or more if blocks overflow. docs/format.md describes the bytes.

use crate::format::bytes::{put_u32, put_u64};
use crate::format::codec::Codec;
use crate::format::record_header::IndexEntry;
use vkstash_host::sort;
use vkstash_model::record::{Key, Kind};

/// Length of a block, in bytes.
pub(crate) const BLOCK_BYTES: usize = 4096;
const BLOCK_HEADER: usize = 16;
/// Length of a row, in bytes.
pub(crate) const ROW_BYTES: usize = 20;
/// Rows that fit into a block.
const ROOM: usize = (BLOCK_BYTES - BLOCK_HEADER) / ROW_BYTES;
/// The average number of rows in a block: few blocks overflow, and the table takes less than 24 bytes a row.
const TARGET: usize = 175;
/// The most blocks that a look-up reads. With evenly spread hashes hardly ever two blocks in a row are full; keys
/// that were chosen for it, or a table written by hand, can fill all of them.
pub(crate) const MOST_WALKED: usize = 8;
/// The code of kinds that this program does not know.
pub(crate) const UNKNOWN_KIND: u8 = 15;

/// What the index has of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Row {
    /// The [`hash`] of its key.
    pub(crate) hash: u64,
    /// The offset of the record header.
    pub(crate) offset: u64,
    /// Length of the stored payload, in bytes.
    pub(crate) stored: u32,
    /// The checksum of the stored payload.
    pub(crate) crc: u32,
    /// The code of its kind, [`code_of`].
    pub(crate) code: u8,
    /// How the payload is stored.
    pub(crate) codec: u8,
}

/// An encoded row.
pub(crate) type Packed = [u8; ROW_BYTES];

/// The hash in an encoded row.
pub(crate) fn hash_of(row: &Packed) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = *row;
    u64::from_le_bytes([a, b, c, d, e, f, g, h])
}

/// The code of a kind in an index: its place in [`Kind::ALL`], or [`UNKNOWN_KIND`].
pub(crate) fn code_of(kind: u8) -> u8 {
    Kind::from_number(kind).map_or(UNKNOWN_KIND, |kind| kind.position() as u8)
}

/// A hash that is spread evenly even if keys are not, as drivers' identifiers may be.
#[inline]
pub(crate) fn hash(kind_code: u8, key: &Key) -> u64 {
    let word = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&key[at..at + 8]);
        u64::from_le_bytes(bytes)
    };
    let folded = word(0)
        ^ word(8).rotate_left(17)
        ^ word(16).rotate_left(31)
        ^ word(24).rotate_left(47)
        ^ u64::from(kind_code) << 59;
    let stirred = (folded ^ folded >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    let stirred = (stirred ^ stirred >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    stirred ^ stirred >> 32
}

impl Row {
    /// The row of a record.
    pub(crate) fn of(entry: &IndexEntry) -> Row {
        let code = code_of(entry.kind);
        let hash = hash(code, &entry.key);
        Row { hash, offset: entry.offset, stored: entry.stored, crc: entry.crc, code, codec: entry.codec }
    }

    /// The encoded row.
    pub(crate) fn pack(&self) -> Packed {
        let mut bytes = [0; ROW_BYTES];
        put_u64(&mut bytes, 0, self.hash);
        put_u32(&mut bytes, 8, (self.offset / 8) as u32);
        put_u32(&mut bytes, 12, self.stored | u32::from(self.codec & 3) << 26 | u32::from(self.code) << 28);
        put_u32(&mut bytes, 16, self.crc);
        bytes
    }

    /// Decodes [`Row::pack`].
    #[inline]
    pub(crate) fn unpack(bytes: &Packed) -> Row {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let packed = word(12);
        Row {
            hash: u64::from(word(0)) | u64::from(word(4)) << 32,
            offset: u64::from(word(8)) * 8,
            stored: packed & 0x03FF_FFFF,
            crc: word(16),
            code: (packed >> 28) as u8,
            codec: (packed >> 26 & 3) as u8,
        }
    }

    /// Whether this program can read the payload.
    pub(crate) fn is_readable(&self) -> bool {
        Codec::from_number(self.codec).is_some() && self.code != UNKNOWN_KIND
    }
}

/// The number of blocks for so many rows.
pub(crate) fn blocks_for(count: usize) -> usize {
    count.div_ceil(TARGET).max(1)
}

/// The first block that may have a hash.
#[inline]
fn home(hash: u64, blocks: usize) -> usize {
    ((u128::from(hash) * blocks as u128) >> 64) as usize
}

/// The encoded table of these records, which may be in any order.
pub(crate) fn build(rows: &[Row]) -> Vec<u8> {
    let blocks = blocks_for(rows.len());
    let mut filled: Vec<Vec<Row>> = vec![Vec::new(); blocks];
    let mut overflows = vec![false; blocks];
    for row in rows {
        let mut at = home(row.hash, blocks);
        // This ends, because TARGET is less than ROOM.
        while filled[at].len() == ROOM {
            overflows[at] = true;
            at = (at + 1) % blocks;
        }
        filled[at].push(*row);
    }
    let mut out = Vec::with_capacity(blocks * BLOCK_BYTES);
    for (rows, overflows) in filled.iter_mut().zip(overflows) {
        // By hash; rows with equal hashes newest first.
        sort::by(rows, |one, other| {
            (one.hash, std::cmp::Reverse(one.offset)).cmp(&(other.hash, std::cmp::Reverse(other.offset)))
        });
        let start = out.len();
        out.resize(start + BLOCK_HEADER, 0);
        rows.iter().for_each(|row| out.extend_from_slice(&row.pack()));
        out.resize(start + BLOCK_BYTES, 0);
        put_u32(&mut out[start..], 4, rows.len() as u32);
        put_u32(&mut out[start..], 8, u32::from(overflows));
        let crc = crc32c::crc32c(&out[start + 4..]);
        put_u32(&mut out[start..], 0, crc);
    }
    out
}

/// A block with a valid checksum.
#[derive(Debug)]
pub(crate) struct Block(Box<[u8]>);

impl Block {
    /// `None`: the block is damaged.
    pub(crate) fn check(bytes: Vec<u8>) -> Option<Block> {
        let block = Block(bytes.into_boxed_slice());
        let sound = block.0.len() == BLOCK_BYTES
            && crc32c::crc32c(&block.0[4..]) == block.word(0)
            && block.len() <= ROOM;
        sound.then_some(block)
    }

    #[inline]
    fn word(&self, at: usize) -> u32 {
        u32::from_le_bytes([self.0[at], self.0[at + 1], self.0[at + 2], self.0[at + 3]])
    }

    #[inline]
    fn len(&self) -> usize {
        self.word(4) as usize
    }

    #[inline]
    fn overflows(&self) -> bool {
        self.word(8) != 0
    }

    #[inline]
    fn hash_at(&self, index: usize) -> u64 {
        let at = BLOCK_HEADER + index * ROW_BYTES;
        let hash = self.0[at..].first_chunk();
        hash.map_or(0, |hash| u64::from_le_bytes(*hash))
    }

    #[inline]
    fn row(&self, index: usize) -> Option<Row> {
        let at = BLOCK_HEADER + index * ROW_BYTES;
        self.0.get(at..)?.first_chunk().map(Row::unpack)
    }

    /// All rows.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        (0..self.len()).filter_map(|index| self.row(index))
    }

    /// Calls `each` with every hash. Always true.
    pub(crate) fn hashes(&self, each: &mut dyn FnMut(u64)) -> bool {
        (0..self.len()).for_each(|index| each(self.hash_at(index)));
        true
    }

    /// The rows with this hash, the newest first.
    #[inline]
    fn find(&self, hash: u64) -> impl Iterator<Item = Row> + '_ {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = (low + high) / 2;
            if self.hash_at(middle) < hash { low = middle + 1 } else { high = middle }
        }
        (low..self.len())
            .take_while(move |&index| self.hash_at(index) == hash)
            .filter_map(|index| self.row(index))
    }
}

/// Calls `each` with every row of this hash until it says true. `None`: a block is damaged, or too many are full.
#[inline]
pub(crate) fn find<'a>(
    hash: u64,
    blocks: usize,
    block: impl Fn(usize) -> Option<&'a Block>,
    mut each: impl FnMut(Row) -> bool,
) -> Option<bool> {
    let start = home(hash, blocks);
    for step in 0..blocks {
        if step == MOST_WALKED {
            return None;
        }
        let block = block((start + step) % blocks)?;
        if block.find(hash).any(&mut each) {
            return Some(true);
        }
        if !block.overflows() {
            break;
        }
    }
    Some(false)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
    use super::*;

    fn row(number: u64) -> Row {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&number.to_le_bytes());
        let stored = (number % 1000) as u32;
        Row { hash: hash(3, &key), offset: number * 8, stored, crc: !stored, code: 3, codec: 0 }
    }

    fn blocks_of(bytes: &[u8]) -> Vec<Block> {
        bytes.chunks(BLOCK_BYTES).map(|bytes| Block::check(bytes.to_vec()).unwrap()).collect()
    }

    #[test]
    fn every_row_is_found_and_nothing_else() {
        for count in [0, 1, 174, 175, 176, 5000, 60_000] {
            let rows: Vec<Row> = (0..count).map(row).collect();
            let blocks = blocks_of(&build(&rows));
            assert!(blocks.len() * BLOCK_BYTES <= 24 * count as usize + BLOCK_BYTES, "{count}");
            let found = |wanted: Row| {
                let mut all = Vec::new();
                let ended = find(
                    wanted.hash,
                    blocks.len(),
                    |at| blocks.get(at),
                    |row| {
                        all.push(row);
                        false
                    },
                );
                assert_eq!(ended, Some(false));
                all
            };
            rows.iter().for_each(|row| assert_eq!(found(*row), [*row]));
            (count..count + 500).for_each(|number| assert_eq!(found(row(number)), []));
            assert_eq!(blocks.iter().flat_map(Block::rows).count(), rows.len());
        }
    }

    #[test]
    fn the_newest_of_equal_ones_comes_first() {
        let rows: Vec<Row> = (0..300).map(|offset| Row { offset: offset * 8, ..row(7) }).collect();
        let blocks = blocks_of(&build(&rows));
        let mut first = None;
        let stop = |row: Row| {
            first = Some(row.offset);
            true
        };
        assert_eq!(find(row(7).hash, blocks.len(), |at| blocks.get(at), stop), Some(true));
        assert!(first.unwrap() >= 203 * 8, "the newest of its block");
    }

    /// Keys that were chosen so that all rows belong into one block, and a table that says so of every block.
    #[test]
    fn a_look_up_reads_few_blocks_whatever_is_in_them() {
        let crafted: Vec<Row> = (0..20_000).map(|number| Row { hash: number, ..row(number) }).collect();
        let mut claims = build(&(0..20_000).map(row).collect::<Vec<_>>());
        for block in claims.chunks_exact_mut(BLOCK_BYTES) {
            put_u32(block, 8, 1);
            let crc = crc32c::crc32c(&block[4..]);
            put_u32(block, 0, crc);
        }
        for (bytes, hashes) in [(build(&crafted), 0..30_000_u64), (claims, 30_000..60_000)] {
            let blocks = blocks_of(&bytes);
            assert!(blocks.len() > 100);
            let mut given_up = 0;
            for number in hashes {
                let hash = if number < 30_000 { number } else { row(number).hash };
                let read = std::cell::Cell::new(0);
                let block = |at: usize| {
                    read.set(read.get() + 1);
                    blocks.get(at)
                };
                given_up += u32::from(find(hash, blocks.len(), block, |_| true).is_none());
                assert!(read.get() <= MOST_WALKED, "{}", read.get());
            }
            assert!(given_up > 1000, "{given_up}");
        }
    }

    #[test]
    fn a_damaged_block_is_noticed() {
        let bytes = build(&[row(1), row(2)]);
        for bit in (0..BLOCK_BYTES * 8).step_by(7) {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Block::check(damaged).is_none());
        }
    }
}
