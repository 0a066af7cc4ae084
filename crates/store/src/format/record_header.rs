//! The header of a record: kind, key, codec, lengths and checksums.

use crate::format::bytes::Reader;
use crate::format::bytes::close_block;
use crate::format::bytes::is_closed;
use crate::format::bytes::padded;
use crate::format::bytes::put_u32;
use crate::format::sizes::ALIGN;
use crate::format::sizes::CODEC_PLAIN;
use crate::format::sizes::MAX_PAYLOAD;
use crate::format::sizes::RECORD_HEADER_BYTES;
use crate::format::sizes::RECORD_MAGIC;
use vkstash_model::record::Key;

/// A record without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexEntry {
    /// The record's key.
    pub(crate) key: Key,
    /// The offset of the record header.
    pub(crate) offset: u64,
    /// Length of the stored payload, in bytes.
    pub(crate) stored: u32,
    /// Length of the payload itself, in bytes.
    pub(crate) length: u32,
    /// The checksum of the stored payload, [`payload_crc`].
    pub(crate) crc: u32,
    /// The number of a [`vkstash_model::record::Kind`], or of a kind of a newer program.
    pub(crate) kind: u8,
    /// How the payload is stored.
    pub(crate) codec: u8,
}

impl IndexEntry {
    /// The offset of the next record.
    pub(crate) fn end(&self) -> u64 {
        self.offset + RECORD_HEADER_BYTES as u64 + padded(u64::from(self.stored))
    }

    fn is_sane(&self) -> bool {
        self.stored <= MAX_PAYLOAD
            && self.length <= MAX_PAYLOAD
            && (self.codec != CODEC_PLAIN || self.stored == self.length)
    }

    /// The encoded header of this record.
    pub(crate) fn encode_header(&self, tag: [u8; 8]) -> [u8; RECORD_HEADER_BYTES] {
        let mut bytes = [0; RECORD_HEADER_BYTES];
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

    /// The record whose header is at `offset`, and its tag. `None`: there is no valid header.
    pub(crate) fn decode_header(
        bytes: &[u8; RECORD_HEADER_BYTES],
        offset: u64,
    ) -> Option<(IndexEntry, [u8; 8])> {
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
}

/// The checksum of a stored payload. It covers the key, so that a payload cannot pass for that of another key.
pub(crate) fn payload_crc(key: &Key, stored: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(key), stored)
}

/// A payload as it is stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored<'a> {
    /// The bytes.
    pub(crate) bytes: &'a [u8],
    /// The number of its [`crate::format::codec::Codec`].
    pub(crate) codec: u8,
    /// Length of the payload itself.
    pub(crate) length: u32,
}

impl<'a> Stored<'a> {
    /// An uncompressed payload.
    pub(crate) fn plain(payload: &'a [u8]) -> Stored<'a> {
        Stored { bytes: payload, codec: CODEC_PLAIN, length: payload.len() as u32 }
    }
}

/// Appends a record to `out`, which is written to the file at offset `base`.
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
    out.extend_from_slice(&entry.encode_header(tag));
    out.extend_from_slice(payload.bytes);
    out.resize(out.len().next_multiple_of(ALIGN as usize), 0);
    entry
}
