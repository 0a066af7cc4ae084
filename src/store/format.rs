//! The bytes of a segment file: the one place that encodes and decodes them. See docs/format.md.

use sha2::{Digest, Sha256};

use super::header::{DEVICE_HEADER_BYTES, DeviceHeader};
use super::part::Key;
use super::refusal::Refusal;
use super::table::{self, BLOCK_BYTES, Packed, ROW_BYTES, Row};

/// The format version that this program writes. It reads version 1 too.
pub(super) const VERSION: u32 = 2;
/// Blocks start at multiples of this.
pub(super) const ALIGN: u64 = 8;
/// A file's header, in bytes.
pub(super) const HEADER_BYTES: usize = 128;
/// A record's head, in bytes.
pub(super) const HEAD_BYTES: usize = 64;
/// One entry of an index, in bytes.
pub(super) const ENTRY_BYTES: usize = 56;
/// The foot of a sealed file, in bytes.
pub(super) const FOOT_BYTES: usize = 256;
/// The same in version 1.
pub(super) const FOOT_BYTES_1: usize = 64;
/// What follows the header: two [`Mark`]s, which their writer overwrites in turn.
pub(super) const MARKS_BYTES: usize = 64;
/// Where the first record stands.
pub(super) const FIRST_RECORD: usize = HEADER_BYTES + MARKS_BYTES;
/// The largest payload: what fits into the 26 bits of a row.
pub(super) const MAX_PAYLOAD: u32 = (1 << 26) - 1;
/// No writer makes a longer file: it goes on in another one when this one has half of that, and what it writes at once
/// is much less. What stands behind it in a file without an index does not count.
pub(super) const MOST_BYTES: u64 = 2 << 30;
/// No writer puts more records into a file.
pub(super) const MOST_RECORDS: usize = 1 << 21;
/// The kind of an index record; never a [`super::part::Kind`].
pub(super) const INDEX_KIND: u8 = 255;
/// The kind of a checkpoint; never a [`super::part::Kind`].
pub(super) const CHECKPOINT_KIND: u8 = 254;
/// Payload stored as it is.
pub(super) const CODEC_PLAIN: u8 = 0;

/// How a file starts.
pub(super) const FILE_MAGIC: [u8; 8] = *b"\x89VKS\r\n\x1a\n";
/// How a foot starts.
pub(super) const FOOT_MAGIC: [u8; 8] = *b"\x89VKF\r\n\x1a\n";
/// How a record starts.
pub(super) const RECORD_MAGIC: [u8; 4] = *b"\x8bvkr";

/// Writes `value` at `at`.
pub(super) fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

/// Writes `value` at `at`.
pub(super) fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// Closes a block of fixed size: its last 4 bytes are the checksum of the others.
pub(super) fn close_block(bytes: &mut [u8]) {
    let body = bytes.len() - 4;
    let crc = crc32c::crc32c(&bytes[..body]);
    put_u32(bytes, body, crc);
}

/// Whether the last 4 bytes are the checksum of the others.
pub(super) fn is_closed(bytes: &[u8]) -> bool {
    let Some((body, crc)) = bytes.split_last_chunk::<4>() else { return false };
    crc32c::crc32c(body) == u32::from_le_bytes(*crc)
}

/// Lower-case hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Decodes fields one after the other; `None` past the end.
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// From the first byte on.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Reader(bytes)
    }

    /// The next `N` bytes.
    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    /// The next byte.
    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// The next number.
    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// The next number.
    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
}

/// What every file of one part has in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PartIdentity {
    /// Shared by all devices.
    Portable,
    /// Bound to a device.
    Device(DeviceHeader),
}

impl PartIdentity {
    fn kind(&self) -> u32 {
        match self {
            PartIdentity::Portable => 1,
            PartIdentity::Device(_) => 2,
        }
    }

    fn device_bytes(&self) -> [u8; DEVICE_HEADER_BYTES] {
        match self {
            PartIdentity::Portable => [0; DEVICE_HEADER_BYTES],
            PartIdentity::Device(header) => header.encode(),
        }
    }

    /// What each record of this part carries.
    pub(super) fn tag(&self) -> [u8; 8] {
        let mut hash = Sha256::new();
        hash.update(b"vkstash part 1");
        hash.update(self.kind().to_le_bytes());
        hash.update(self.device_bytes());
        let digest: [u8; 32] = hash.finalize().into();
        let mut tag = [0; 8];
        tag.copy_from_slice(&digest[..8]);
        tag
    }

    /// What keeps a file of this identity from being part of `expected`.
    pub(super) fn refused_by(&self, expected: &PartIdentity) -> Option<Refusal> {
        match (self, expected) {
            (PartIdentity::Portable, PartIdentity::Portable) => None,
            (PartIdentity::Device(found), PartIdentity::Device(expected)) => {
                found.mismatch(expected).map(Refusal::OtherDevice)
            }
            _ => Some(Refusal::OtherPart),
        }
    }
}

/// The head of a segment file, repeated before its foot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileHeader {
    /// [`VERSION`], or an older one.
    pub(super) version: u32,
    /// Whose records the file holds.
    pub(super) identity: PartIdentity,
    /// Unix time in milliseconds.
    pub(super) created_unix_ms: u64,
    /// Random number of this file.
    pub(super) serial: u64,
}

impl FileHeader {
    /// As it stands in the file.
    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&FILE_MAGIC);
        put_u32(&mut bytes, 8, self.version);
        put_u32(&mut bytes, 12, HEADER_BYTES as u32);
        put_u32(&mut bytes, 16, self.identity.kind());
        bytes[20..92].copy_from_slice(&self.identity.device_bytes());
        put_u64(&mut bytes, 96, self.created_unix_ms);
        put_u64(&mut bytes, 104, self.serial);
        close_block(&mut bytes);
        bytes
    }

    /// `Ok(None)`: damaged, or no header at all. `Err`: valid, and not for this program.
    pub(super) fn decode(bytes: &[u8]) -> Result<Option<FileHeader>, Refusal> {
        let mut reader = Reader::new(bytes);
        if reader.array::<8>() != Some(FILE_MAGIC) {
            return Ok(None);
        }
        let (Some(version), Some(length)) = (reader.u32(), reader.u32()) else { return Ok(None) };
        if !(1..=VERSION).contains(&version) {
            // Its header may be longer than what was read; only a sound one speaks for the file.
            let whole = bytes.get(..length as usize).filter(|_| length > 16);
            return if whole.is_some_and(is_closed) { Err(Refusal::Version(version)) } else { Ok(None) };
        }
        let Some(bytes) = bytes.get(..HEADER_BYTES).filter(|bytes| is_closed(bytes)) else { return Ok(None) };
        let mut reader = Reader::new(&bytes[16..]);
        let mut decode = || {
            let (kind, device, flags) = (reader.u32()?, reader.array()?, reader.u32()?);
            Some((kind, device, flags, reader.u64()?, reader.u64()?))
        };
        let Some((kind, device, flags, created_unix_ms, serial)) = decode() else { return Ok(None) };
        if flags != 0 {
            return Err(Refusal::Flags(flags));
        }
        let identity = match kind {
            1 => PartIdentity::Portable,
            2 => PartIdentity::Device(DeviceHeader::decode(&device).ok_or(Refusal::OtherPart)?),
            _ => return Err(Refusal::OtherPart),
        };
        Ok(Some(FileHeader { version, identity, created_unix_ms, serial }))
    }

    /// Where its file's first record stands.
    pub(super) fn first_record(&self) -> u64 {
        if self.version == 1 { HEADER_BYTES as u64 } else { FIRST_RECORD as u64 }
    }

    /// How many bytes [`FileHeader::decode`] wants to see, so that it also recognises newer versions.
    pub(super) const LOOK_AT: usize = 4096;
}

/// Where a record stands and what it is; an entry of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IndexEntry {
    /// The record's key.
    pub(super) key: Key,
    /// Where the record's head starts.
    pub(super) offset: u64,
    /// Bytes that the payload takes in the file.
    pub(super) stored: u32,
    /// Bytes of the payload itself.
    pub(super) length: u32,
    /// [`payload_crc`].
    pub(super) crc: u32,
    /// A [`super::part::Kind`], or one of a newer program.
    pub(super) kind: u8,
    /// How the payload is stored.
    pub(super) codec: u8,
}

impl IndexEntry {
    /// Where the next record starts.
    pub(super) fn end(&self) -> u64 {
        self.offset + HEAD_BYTES as u64 + padded(u64::from(self.stored))
    }

    fn is_sane(&self) -> bool {
        self.stored <= MAX_PAYLOAD
            && self.length <= MAX_PAYLOAD
            && (self.codec != CODEC_PLAIN || self.stored == self.length)
    }

    /// The head of this entry's record.
    pub(super) fn encode_head(&self, tag: [u8; 8]) -> [u8; HEAD_BYTES] {
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
    pub(super) fn decode_head(bytes: &[u8; HEAD_BYTES], offset: u64) -> Option<(IndexEntry, [u8; 8])> {
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
    pub(super) fn decode(bytes: &[u8; ENTRY_BYTES]) -> Option<IndexEntry> {
        let mut reader = Reader::new(bytes);
        let (key, offset) = (reader.array()?, reader.u64()?);
        let (stored, length, crc) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let entry = IndexEntry { key, offset, stored, length, crc, kind: reader.u8()?, codec: reader.u8()? };
        entry.is_sane().then_some(entry)
    }
}

/// Points at the newest checkpoint of a file that is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Mark {
    /// Where the checkpoint's head starts.
    pub(super) offset: u64,
    /// How many records stand before it.
    pub(super) count: u32,
}

/// One mark, in bytes.
pub(super) const MARK_BYTES: usize = 16;

impl Mark {
    /// As it stands in the file.
    pub(super) fn encode(&self) -> [u8; MARK_BYTES] {
        let mut bytes = [0; MARK_BYTES];
        put_u64(&mut bytes, 0, self.offset);
        put_u32(&mut bytes, 8, self.count);
        close_block(&mut bytes);
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Mark> {
        let mut reader = Reader::new(bytes.get(..MARK_BYTES).filter(|bytes| is_closed(bytes))?);
        Some(Mark { offset: reader.u64()?, count: reader.u32()? })
    }

    /// The newest of a file's two, from the bytes behind its header.
    pub(super) fn newest(bytes: &[u8]) -> Option<Mark> {
        bytes.chunks(MARK_BYTES).take(2).filter_map(Mark::decode).max()
    }
}

/// Kinds that a foot tells apart: the known ones by their place, and the others.
pub(super) const CODES: usize = 16;

/// How many records of each kind there are, and the bytes that their payloads take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// By [`super::table::code_of`].
    pub(super) counts: [u32; CODES],
    /// The same.
    pub(super) bytes: [u64; CODES],
}

impl Tally {
    /// Of these records.
    pub(super) fn of(rows: impl Iterator<Item = Row>) -> Tally {
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
pub(super) struct Foot {
    /// Where the index record's head starts.
    pub(super) index_offset: u64,
    /// How many entries it has.
    pub(super) count: u32,
    /// How many blocks those take.
    pub(super) blocks: u32,
    /// The part's tag.
    pub(super) tag: [u8; 8],
    /// What the file holds.
    pub(super) tally: Tally,
}

impl Foot {
    /// As it stands in the file.
    pub(super) fn encode(&self) -> [u8; FOOT_BYTES] {
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
    pub(super) fn decode(bytes: &[u8; FOOT_BYTES]) -> Option<Foot> {
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
pub(super) struct Foot1 {
    /// Where the index record's head starts.
    pub(super) index_offset: u64,
    /// How many entries it has.
    pub(super) count: u32,
    /// Its payload's checksum.
    pub(super) index_crc: u32,
    /// The part's tag.
    pub(super) tag: [u8; 8],
}

impl Foot1 {
    /// `None`: damaged, or no foot.
    pub(super) fn decode(bytes: &[u8; FOOT_BYTES_1]) -> Option<Foot1> {
        let mut reader = Reader::new(bytes);
        if reader.array::<8>()? != FOOT_MAGIC || !is_closed(bytes) {
            return None;
        }
        let (index_offset, count, index_crc) = (reader.u64()?, reader.u32()?, reader.u32()?);
        Some(Foot1 { index_offset, count, index_crc, tag: reader.array()? })
    }
}

/// A length rounded up to where the next block may start.
pub(super) fn padded(length: u64) -> u64 {
    length.next_multiple_of(ALIGN)
}

/// The checksum of a stored payload. The key is part of it, so that a payload can't pass for another's.
pub(super) fn payload_crc(key: &Key, stored: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(key), stored)
}

/// A payload as it stands in a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stored<'a> {
    /// The bytes.
    pub(super) bytes: &'a [u8],
    /// What they are, in the numbers of [`super::codec::Codec`].
    pub(super) codec: u8,
    /// Length of the payload itself.
    pub(super) length: u32,
}

impl<'a> Stored<'a> {
    /// As it is.
    pub(super) fn plain(payload: &'a [u8]) -> Stored<'a> {
        Stored { bytes: payload, codec: CODEC_PLAIN, length: payload.len() as u32 }
    }
}

/// Appends a whole record to `out`, which the caller will write at the file's offset `base`.
pub(super) fn encode_record(
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

/// The sealed end of a file whose records end at `base`.
pub(super) fn encode_end(header: &FileHeader, base: u64, rows: &[Row]) -> Vec<u8> {
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

/// The payload of a checkpoint: where the one before it stands (0: there is none), and the records since then.
pub(super) fn encode_checkpoint(before: u64, rows: &[Row]) -> Vec<u8> {
    let mut out = Vec::with_capacity(8 + rows.len() * ROW_BYTES);
    out.extend_from_slice(&before.to_le_bytes());
    rows.iter().for_each(|row| out.extend_from_slice(&row.pack()));
    out
}

/// The reverse.
pub(super) fn decode_checkpoint(payload: &[u8]) -> Option<(u64, impl Iterator<Item = Packed> + '_)> {
    let (before, rows) = payload.split_first_chunk()?;
    // All of them have that length.
    let rows = rows.chunks_exact(ROW_BYTES).map(|row| row.try_into().unwrap_or([0; ROW_BYTES]));
    Some((u64::from_le_bytes(*before), rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_crc32c() {
        assert_eq!(crc32c::crc32c(b"123456789"), 0xE306_9283);
    }

    #[test]
    fn a_header_survives_its_own_encoding_and_no_other_bit() {
        let header =
            FileHeader { version: VERSION, identity: PartIdentity::Portable, created_unix_ms: 1, serial: 2 };
        let bytes = header.encode();
        assert_eq!(FileHeader::decode(&bytes), Ok(Some(header)));
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(FileHeader::decode(&flipped), Ok(None), "bit {bit}");
        }
    }

    #[test]
    fn a_newer_version_is_refused_by_its_number_and_a_damaged_version_is_not() {
        let mut bytes = vec![0; 256];
        bytes[..8].copy_from_slice(&FILE_MAGIC);
        put_u32(&mut bytes, 8, 99);
        put_u32(&mut bytes, 12, 256);
        assert_eq!(FileHeader::decode(&bytes), Ok(None));
        close_block(&mut bytes);
        assert_eq!(FileHeader::decode(&bytes), Err(Refusal::Version(99)));
    }

    #[test]
    fn flags_that_nobody_knows_refuse_the_file() {
        let header =
            FileHeader { version: VERSION, identity: PartIdentity::Portable, created_unix_ms: 1, serial: 2 };
        let mut bytes = header.encode();
        put_u32(&mut bytes, 92, 4);
        close_block(&mut bytes);
        assert_eq!(FileHeader::decode(&bytes), Err(Refusal::Flags(4)));
    }
}
