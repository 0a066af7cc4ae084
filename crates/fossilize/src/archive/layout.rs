//! The bytes of the container.
//!
//! A file is [`MAGIC`] and [`VERSION`] (16 bytes together), then any number of entries. Numbers are little-endian.
//!
//! | bytes of an entry | content |
//! |---|---|
//! | 24 | the tag in hexadecimal digits |
//! | 16 | the hash in hexadecimal digits |
//! | 4 | the stored size, in bytes |
//! | 4 | the compression: 1 none, 2 zlib |
//! | 4 | the CRC-32 of the stored bytes; 0 where the writer computed none |
//! | 4 | the size when inflated, in bytes |
//! | stored size | the payload |
//!
//! Tag and hash are not covered by the CRC.

use super::tag::Tag;

/// The first bytes of an archive: the name, and three bytes that must be zero.
pub const MAGIC: [u8; 15] = *b"\x81FOSSILIZEDB\0\0\0";
/// The version that is written; it follows [`MAGIC`].
pub const VERSION: u8 = 6;
/// The oldest version that Fossilize reads. The container is the same; the JSON differs.
pub const OLDEST_VERSION: u8 = 5;
/// The size of an entry's name in bytes.
pub const NAME: usize = TAG_DIGITS + HASH_DIGITS;
/// The size of the header between an entry's name and its payload.
pub const HEADER: usize = 16;
/// The size of an archive without entries.
pub const EMPTY: u64 = MAGIC.len() as u64 + 1;
/// The largest payload that is read or written, in bytes. Pipelines have some KiB, and the largest modules of games
/// some MiB; a header may claim 4 GiB. Reading takes twice this much memory: the stored bytes, and the inflated ones.
pub const MAX_PAYLOAD: u32 = 64 << 20;

const TAG_DIGITS: usize = 24;
const HASH_DIGITS: usize = 16;

/// How a payload is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// As it is.
    None,
    /// As a zlib stream (RFC 1950).
    Zlib,
}

/// The header in front of a payload, as the file has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PayloadHeader {
    /// The size in the file, in bytes.
    pub stored: u32,
    /// The compression's number; others than 1 and 2 are not defined.
    pub flags: u32,
    /// CRC-32 of the stored bytes; 0 where the writer computed none.
    pub crc: u32,
    /// The size when inflated, in bytes.
    pub size: u32,
}

impl Compression {
    pub(super) fn from_flags(flags: u32) -> Option<Self> {
        match flags {
            1 => Some(Self::None),
            2 => Some(Self::Zlib),
            _ => None,
        }
    }

    pub(super) fn flags(self) -> u32 {
        match self {
            Self::None => 1,
            Self::Zlib => 2,
        }
    }
}

impl PayloadHeader {
    pub(super) fn from_fields(fields: [[u8; 4]; 4]) -> Self {
        let [stored, flags, crc, size] = fields.map(u32::from_le_bytes);
        Self { stored, flags, crc, size }
    }

    pub(super) fn to_bytes(self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        let fields = [self.stored, self.flags, self.crc, self.size];
        for (to, field) in bytes.chunks_exact_mut(4).zip(fields) {
            to.copy_from_slice(&field.to_le_bytes());
        }
        bytes
    }
}

/// The name of an entry, as Fossilize writes it.
pub(super) fn name(tag: Tag, hash: u64) -> String {
    format!("{:024x}{hash:016x}", tag.number())
}

/// The tag's number and the hash; none if a byte is no hexadecimal digit. Fossilize reads the last sixteen digits of
/// the tag only, and takes what is no digit for zero: a damaged name would become the name of another entry.
pub(super) fn parse_name(name: [u8; NAME]) -> Option<(u128, u64)> {
    let (tag, hash) = name.split_at(TAG_DIGITS);
    Some((hexadecimal(tag)?, u64::try_from(hexadecimal(hash)?).ok()?))
}

fn hexadecimal(digits: &[u8]) -> Option<u128> {
    digits
        .iter()
        .try_fold(0, |number, &digit| Some(number << 4 | u128::from(char::from(digit).to_digit(16)?)))
}
