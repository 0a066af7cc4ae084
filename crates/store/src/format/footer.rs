//! The footer of a sealed segment, and the sums in it.

use crate::format::bytes::Reader;
use crate::format::bytes::close_block;
use crate::format::bytes::is_closed;
use crate::format::bytes::put_u32;
use crate::format::bytes::put_u64;
use crate::format::file::FileHeader;
use crate::format::record_header::Stored;
use crate::format::record_header::encode_record;
use crate::format::sizes::FOOTER_BYTES;
use crate::format::sizes::FOOTER_MAGIC;
use crate::format::sizes::HEADER_BYTES;
use crate::format::sizes::INDEX_KIND;
use crate::format::sizes::RECORD_HEADER_BYTES;
use crate::format::table;
use crate::format::table::BLOCK_BYTES;
use crate::format::table::Row;

/// The number of kinds that a footer distinguishes.
pub(crate) const CODES: usize = 16;

/// The number of records of each kind, and the bytes of their stored payloads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// By [`crate::format::table::code_of`].
    pub(crate) counts: [u32; CODES],
    /// By the same codes.
    pub(crate) bytes: [u64; CODES],
}

impl Tally {
    /// The sums of these records.
    pub(crate) fn of(rows: impl Iterator<Item = Row>) -> Tally {
        let mut tally = Tally::default();
        // Most segments have runs of records of one kind, which are added up first.
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

/// The footer of a sealed file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    /// The offset of the index record.
    pub(crate) index_offset: u64,
    /// The number of rows in the index.
    pub(crate) count: u32,
    /// The number of blocks in the index.
    pub(crate) blocks: u32,
    /// The part's tag.
    pub(crate) tag: [u8; 8],
    /// The records by kind.
    pub(crate) tally: Tally,
}

impl Footer {
    /// The encoded footer.
    pub(crate) fn encode(&self) -> [u8; FOOTER_BYTES] {
        let mut bytes = [0; FOOTER_BYTES];
        bytes[..8].copy_from_slice(&FOOTER_MAGIC);
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

    /// `None`: damaged, or no footer.
    pub(crate) fn decode(bytes: &[u8; FOOTER_BYTES]) -> Option<Footer> {
        let mut reader = Reader::new(bytes);
        if reader.array::<8>()? != FOOTER_MAGIC || !is_closed(bytes) {
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
        Some(Footer { index_offset, count, blocks, tag, tally })
    }
}

/// The end of a sealed file whose records end at `base`: index, copy of the header, footer.
pub(crate) fn encode_end(header: &FileHeader, base: u64, rows: &[Row]) -> Vec<u8> {
    let tag = header.identity.tag();
    let index = table::build(rows);
    let mut out = Vec::with_capacity(index.len() + RECORD_HEADER_BYTES + HEADER_BYTES + FOOTER_BYTES);
    encode_record(&mut out, base, tag, INDEX_KIND, &[0; 32], Stored::plain(&index));
    out.extend_from_slice(&header.encode());
    let (count, blocks) = (rows.len() as u32, (index.len() / BLOCK_BYTES) as u32);
    let footer = Footer { index_offset: base, count, blocks, tag, tally: Tally::of(rows.iter().copied()) };
    out.extend_from_slice(&footer.encode());
    out
}
