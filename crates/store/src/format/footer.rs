//! The footer of a sealed segment, and what it counts.

use crate::format::bytes::Reader;
use crate::format::bytes::close_block;
use crate::format::bytes::is_closed;
use crate::format::bytes::put_u32;
use crate::format::bytes::put_u64;
use crate::format::file::FileHeader;
use crate::format::record_header::Stored;
use crate::format::record_header::encode_record;
use crate::format::sizes::FOOT_BYTES;
use crate::format::sizes::FOOT_BYTES_1;
use crate::format::sizes::FOOT_MAGIC;
use crate::format::sizes::HEAD_BYTES;
use crate::format::sizes::HEADER_BYTES;
use crate::format::sizes::INDEX_KIND;
use crate::format::table;
use crate::format::table::BLOCK_BYTES;
use crate::format::table::Row;

/// Kinds that a foot tells apart: the known ones by their place, and the others.
pub(crate) const CODES: usize = 16;

/// How many records of each kind there are, and the bytes that their payloads take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// By [`crate::format::table::code_of`].
    pub(crate) counts: [u32; CODES],
    /// The same.
    pub(crate) bytes: [u64; CODES],
}

impl Tally {
    /// Of these records.
    pub(crate) fn of(rows: impl Iterator<Item = Row>) -> Tally {
        let mut tally = Tally::default();
        // Most files are of one kind, or nearly so: what is alike in a row is added up first.
        let (mut code, mut count, mut bytes) = (0, 0, 0);
        for row in rows {
            if row.code != code {
                tally.add(code, count, bytes);
                (code, count, bytes) = (row.code, 0, 0);
            }
            (count, bytes) = (count + 1, bytes + u64::from(row.stored));
        }
        tally.add(code, count, bytes);
        tally
    }

    fn add(&mut self, code: u8, count: u32, bytes: u64) {
        let code = usize::from(code) % CODES;
        self.counts[code] += count;
        self.bytes[code] += bytes;
    }
}

/// The foot of a sealed file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Foot {
    /// Where the index record's head starts.
    pub(crate) index_offset: u64,
    /// How many entries it has.
    pub(crate) count: u32,
    /// How many blocks those take.
    pub(crate) blocks: u32,
    /// The part's tag.
    pub(crate) tag: [u8; 8],
    /// What the file holds.
    pub(crate) tally: Tally,
}

impl Foot {
    /// As it stands in the file.
    pub(crate) fn encode(&self) -> [u8; FOOT_BYTES] {
        let mut bytes = [0; FOOT_BYTES];
        bytes[..8].copy_from_slice(&FOOT_MAGIC);
        put_u64(&mut bytes, 8, self.index_offset);
        put_u32(&mut bytes, 16, self.count);
        put_u32(&mut bytes, 20, self.blocks);
        bytes[24..32].copy_from_slice(&self.tag);
        for code in 0..CODES {
            put_u32(&mut bytes, 32 + code * 4, self.tally.counts[code]);
            put_u64(&mut bytes, 96 + code * 8, self.tally.bytes[code]);
        }
        close_block(&mut bytes);
        bytes
    }

    /// `None`: damaged, or no foot.
    pub(crate) fn decode(bytes: &[u8; FOOT_BYTES]) -> Option<Foot> {
        let mut reader = Reader::new(bytes);
        if reader.array::<8>()? != FOOT_MAGIC || !is_closed(bytes) {
            return None;
        }
        let (index_offset, count, blocks) = (reader.u64()?, reader.u32()?, reader.u32()?);
        let tag = reader.array()?;
        let mut tally = Tally::default();
        for count in &mut tally.counts {
            *count = reader.u32()?;
        }
        for bytes in &mut tally.bytes {
            *bytes = reader.u64()?;
        }
        Some(Foot { index_offset, count, blocks, tag, tally })
    }
}

/// The foot of a sealed file of version 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Foot1 {
    /// Where the index record's head starts.
    pub(crate) index_offset: u64,
    /// How many entries it has.
    pub(crate) count: u32,
    /// Its payload's checksum.
    pub(crate) index_crc: u32,
    /// The part's tag.
    pub(crate) tag: [u8; 8],
}

impl Foot1 {
    /// `None`: damaged, or no foot.
    pub(crate) fn decode(bytes: &[u8; FOOT_BYTES_1]) -> Option<Foot1> {
        let mut reader = Reader::new(bytes);
        if reader.array::<8>()? != FOOT_MAGIC || !is_closed(bytes) {
            return None;
        }
        let (index_offset, count, index_crc) = (reader.u64()?, reader.u32()?, reader.u32()?);
        Some(Foot1 { index_offset, count, index_crc, tag: reader.array()? })
    }
}

/// The sealed end of a file whose records end at `base`.
pub(crate) fn encode_end(header: &FileHeader, base: u64, rows: &[Row]) -> Vec<u8> {
    let tag = header.identity.tag();
    let index = table::build(rows);
    let mut out = Vec::with_capacity(index.len() + HEAD_BYTES + HEADER_BYTES + FOOT_BYTES);
    encode_record(&mut out, base, tag, INDEX_KIND, &[0; 32], Stored::plain(&index));
    out.extend_from_slice(&header.encode());
    let (count, blocks) = (rows.len() as u32, (index.len() / BLOCK_BYTES) as u32);
    let foot = Foot { index_offset: base, count, blocks, tag, tally: Tally::of(rows.iter().copied()) };
    out.extend_from_slice(&foot.encode());
    out
}
