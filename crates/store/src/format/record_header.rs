//! What stands before a payload: kind, key, codec, lengths and checksums.

use crate::format::bytes::Reader;
use crate::format::bytes::close_block;
use crate::format::bytes::is_closed;
use crate::format::bytes::padded;
use crate::format::bytes::put_u32;
use crate::format::record::Key;
use crate::format::sizes::ALIGN;
use crate::format::sizes::CODEC_PLAIN;
use crate::format::sizes::ENTRY_BYTES;
use crate::format::sizes::HEAD_BYTES;
use crate::format::sizes::MAX_PAYLOAD;
use crate::format::sizes::RECORD_MAGIC;

/// Where a record stands and what it is; an entry of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexEntry {
    /// The record's key.
    pub(crate) key: Key,
    /// Where the record's head starts.
    pub(crate) offset: u64,
    /// Bytes that the payload takes in the file.
    pub(crate) stored: u32,
    /// Bytes of the payload itself.
    pub(crate) length: u32,
    /// [`payload_crc`].
    pub(crate) crc: u32,
    /// A [`crate::format::record::Kind`], or one of a newer program.
    pub(crate) kind: u8,
    /// How the payload is stored.
    pub(crate) codec: u8,
}

impl IndexEntry {
    /// Where the next record starts.
    pub(crate) fn end(&self) -> u64 {
        self.offset + HEAD_BYTES as u64 + padded(u64::from(self.stored))
    }

    fn is_sane(&self) -> bool {
        self.stored <= MAX_PAYLOAD
            && self.length <= MAX_PAYLOAD
            && (self.codec != CODEC_PLAIN || self.stored == self.length)
    }

    /// The head of this entry's record.
    pub(crate) fn encode_head(&self, tag: [u8; 8]) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..4].copy_from_slice(&RECORD_MAGIC);
        bytes[4] = self.kind;
        bytes[5] = self.codec;
        put_u32(&mut bytes, 8, self.stored);
        put_u32(&mut bytes, 12, self.length);
        bytes[16..24].copy_from_slice(&tag);
        bytes[24..56].copy_from_slice(&self.key);
        put_u32(&mut bytes, 56, self.crc);
        close_block(&mut bytes);
        bytes
    }

    /// The record whose head stands at `offset`, and its tag. `None`: damaged, or no head.
    pub(crate) fn decode_head(bytes: &[u8; HEAD_BYTES], offset: u64) -> Option<(IndexEntry, [u8; 8])> {
        if bytes[..4] != RECORD_MAGIC || !is_closed(bytes) {
            return None;
        }
        let mut reader = Reader::new(&bytes[4..]);
        let (kind, codec, _) = (reader.u8()?, reader.u8()?, reader.array::<2>()?);
        let (stored, length, tag) = (reader.u32()?, reader.u32()?, reader.array()?);
        let entry =
            IndexEntry { key: reader.array()?, offset, stored, length, crc: reader.u32()?, kind, codec };
        entry.is_sane().then_some((entry, tag))
    }

    /// `None`: an entry that no writer makes.
    pub(crate) fn decode(bytes: &[u8; ENTRY_BYTES]) -> Option<IndexEntry> {
        let mut reader = Reader::new(bytes);
        let (key, offset) = (reader.array()?, reader.u64()?);
        let (stored, length, crc) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let entry = IndexEntry { key, offset, stored, length, crc, kind: reader.u8()?, codec: reader.u8()? };
        entry.is_sane().then_some(entry)
    }
}

/// The checksum of a stored payload. The key is part of it, so that a payload can't pass for another's.
pub(crate) fn payload_crc(key: &Key, stored: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(key), stored)
}

/// A payload as it stands in a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored<'a> {
    /// The bytes.
    pub(crate) bytes: &'a [u8],
    /// What they are, in the numbers of [`crate::format::codec::Codec`].
    pub(crate) codec: u8,
    /// Length of the payload itself.
    pub(crate) length: u32,
}

impl<'a> Stored<'a> {
    /// As it is.
    pub(crate) fn plain(payload: &'a [u8]) -> Stored<'a> {
        Stored { bytes: payload, codec: CODEC_PLAIN, length: payload.len() as u32 }
    }
}

/// Appends a whole record to `out`, which the caller will write at the file's offset `base`.
pub(crate) fn encode_record(
    out: &mut Vec<u8>,
    base: u64,
    tag: [u8; 8],
    kind: u8,
    key: &Key,
    payload: Stored<'_>,
) -> IndexEntry {
    let entry = IndexEntry {
        key: *key,
        offset: base + out.len() as u64,
        stored: payload.bytes.len() as u32,
        length: payload.length,
        crc: payload_crc(key, payload.bytes),
        kind,
        codec: payload.codec,
    };
    out.extend_from_slice(&entry.encode_head(tag));
    out.extend_from_slice(payload.bytes);
    out.resize(out.len().next_multiple_of(ALIGN as usize), 0);
    entry
}
