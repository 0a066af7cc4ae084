//! Checkpoints of a segment that is being written, and the pointers to the newest one.

use crate::format::bytes::PAIR_BYTES;
use crate::format::bytes::decode_pair;
use crate::format::bytes::encode_pair;
use crate::format::table::Packed;
use crate::format::table::ROW_BYTES;
use crate::format::table::Row;

/// Where the newest checkpoint of a segment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CheckpointPointer {
    /// The offset of the checkpoint's record header.
    pub(crate) offset: u64,
    /// The number of records that the checkpoints list.
    pub(crate) count: u32,
}

/// Length of a pointer, in bytes.
pub(crate) const POINTER_BYTES: usize = PAIR_BYTES;

impl CheckpointPointer {
    /// The encoded pointer.
    pub(crate) fn encode(&self) -> [u8; POINTER_BYTES] {
        encode_pair(self.offset, self.count)
    }

    fn decode(bytes: &[u8]) -> Option<CheckpointPointer> {
        decode_pair(bytes).map(|(offset, count)| CheckpointPointer { offset, count })
    }

    /// The newest valid pointer in the bytes after a file header.
    pub(crate) fn newest(bytes: &[u8]) -> Option<CheckpointPointer> {
        bytes.chunks(POINTER_BYTES).take(2).filter_map(CheckpointPointer::decode).max()
    }
}

/// The payload of a checkpoint: the offset of the one before it (0: none), and rows.
pub(crate) fn encode_checkpoint(before: u64, rows: &[Row]) -> Vec<u8> {
    let mut out = Vec::with_capacity(8 + rows.len() * ROW_BYTES);
    out.extend_from_slice(&before.to_le_bytes());
    rows.iter().for_each(|row| out.extend_from_slice(&row.pack()));
    out
}

/// Decodes [`encode_checkpoint`].
pub(crate) fn decode_checkpoint(payload: &[u8]) -> Option<(u64, impl Iterator<Item = Packed> + '_)> {
    let (before, rows) = payload.split_first_chunk()?;
    // The chunks have the length of a row.
    let rows = rows.chunks_exact(ROW_BYTES).map(|row| row.try_into().unwrap_or([0; ROW_BYTES]));
    Some((u64::from_le_bytes(*before), rows))
}
