//! Little-endian integers, and blocks that end with their checksum.
//!
//! These are not from crates: the readers of byteorder panic at the end of a slice, and the rest is smaller than a
//! dependency in every host process.

use crate::format::sizes::ALIGN;

/// Writes `value` at `at`.
pub(crate) fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

/// Writes `value` at `at`.
pub(crate) fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// Sets the last 4 bytes of a block to the checksum of the others.
pub(crate) fn close_block(bytes: &mut [u8]) {
    let body = bytes.len() - 4;
    let crc = crc32c::crc32c(&bytes[..body]);
    put_u32(bytes, body, crc);
}

/// Whether the last 4 bytes of a block are the checksum of the others.
pub(crate) fn is_closed(bytes: &[u8]) -> bool {
    let Some((body, crc)) = bytes.split_last_chunk::<4>() else { return false };
    crc32c::crc32c(body) == u32::from_le_bytes(*crc)
}

/// Length of an encoded pair, in bytes.
pub(crate) const PAIR_BYTES: usize = 16;

/// A block of two numbers and their checksum, which a writer overwrites in place.
pub(crate) fn encode_pair(number: u64, count: u32) -> [u8; PAIR_BYTES] {
    let mut bytes = [0; PAIR_BYTES];
    put_u64(&mut bytes, 0, number);
    put_u32(&mut bytes, 8, count);
    close_block(&mut bytes);
    bytes
}

/// Decodes [`encode_pair`]. `None`: it was never written, or is torn.
pub(crate) fn decode_pair(bytes: &[u8]) -> Option<(u64, u32)> {
    let mut reader = Reader::new(bytes.get(..PAIR_BYTES).filter(|bytes| is_closed(bytes))?);
    Some((reader.u64()?, reader.u32()?))
}

/// Decodes fields one after the other. `None` at the end of the bytes.
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Starts at the first byte.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Reader(bytes)
    }

    /// The next `N` bytes.
    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    /// The next byte.
    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// The next number.
    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// The next number.
    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
}

/// A length rounded up to a multiple of [`ALIGN`], where the next block starts.
pub(crate) fn padded(length: u64) -> u64 {
    length.next_multiple_of(ALIGN)
}
