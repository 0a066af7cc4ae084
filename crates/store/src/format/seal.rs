//! Seal of a file: the length and the number of records at its start. Without the seal, a file that was cut looks like
//! one whose writer died before it wrote the index.

use crate::format::bytes::{PAIR_BYTES, decode_pair, encode_pair};
use crate::format::checkpoint::POINTER_BYTES;
use crate::format::sizes::HEADER_BYTES;

/// Behind the two checkpoint pointers.
const AT: usize = HEADER_BYTES + 2 * POINTER_BYTES;

/// A file's seal, written when everything else is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seal {
    /// The length of the sealed file.
    pub(crate) bytes: u64,
    /// The number of its records.
    pub(crate) records: u32,
}

impl Seal {
    /// Where in the file it is.
    pub(crate) const OFFSET: u64 = AT as u64;

    pub(crate) fn encode(&self) -> [u8; PAIR_BYTES] {
        encode_pair(self.bytes, self.records)
    }

    /// The seal in the first bytes of a file. None: it has none.
    pub(crate) fn of(head: &[u8]) -> Option<Seal> {
        decode_pair(head.get(AT..)?).map(|(bytes, records)| Seal { bytes, records })
    }
}
