//! What a sealed file says of itself at its start: without that, a file that was cut looks like one whose writer died
//! before it wrote the index.

use crate::format::bytes::{Reader, close_block, is_closed, put_u32, put_u64};
use crate::format::checkpoint::POINTER_BYTES;
use crate::format::sizes::HEADER_BYTES;

/// Behind the two checkpoint pointers.
const AT: usize = HEADER_BYTES + 2 * POINTER_BYTES;
const BYTES: usize = 16;

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

    pub(crate) fn encode(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        put_u64(&mut bytes, 0, self.bytes);
        put_u32(&mut bytes, 8, self.records);
        close_block(&mut bytes);
        bytes
    }

    /// The seal in the first bytes of a file. None: it is not sealed, or was by an earlier version.
    pub(crate) fn of(head: &[u8]) -> Option<Seal> {
        let block = head.get(AT..AT + BYTES).filter(|block| is_closed(block))?;
        let mut reader = Reader::new(block);
        Some(Seal { bytes: reader.u64()?, records: reader.u32()? })
    }
}
