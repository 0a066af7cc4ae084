//! Checkpoints of a segment that is still written, and where the newest one stands.

use crate::format::bytes::Reader;
use crate::format::bytes::close_block;
use crate::format::bytes::is_closed;
use crate::format::bytes::put_u32;
use crate::format::bytes::put_u64;
use crate::format::table::Packed;
use crate::format::table::ROW_BYTES;
use crate::format::table::Row;

/// Points at the newest checkpoint of a file that is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark {
    /// Where the checkpoint's head starts.
    pub(crate) offset: u64,
    /// How many records stand before it.
    pub(crate) count: u32,
}

/// One mark, in bytes.
pub(crate) const MARK_BYTES: usize = 16;

impl Mark {
    /// As it stands in the file.
    pub(crate) fn encode(&self) -> [u8; MARK_BYTES] {
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
    pub(crate) fn newest(bytes: &[u8]) -> Option<Mark> {
        bytes.chunks(MARK_BYTES).take(2).filter_map(Mark::decode).max()
    }
}

/// The payload of a checkpoint: where the one before it stands (0: there is none), and the records since then.
pub(crate) fn encode_checkpoint(before: u64, rows: &[Row]) -> Vec<u8> {
    let mut out = Vec::with_capacity(8 + rows.len() * ROW_BYTES);
    out.extend_from_slice(&before.to_le_bytes());
    rows.iter().for_each(|row| out.extend_from_slice(&row.pack()));
    out
}

/// The reverse.
pub(crate) fn decode_checkpoint(payload: &[u8]) -> Option<(u64, impl Iterator<Item = Packed> + '_)> {
    let (before, rows) = payload.split_first_chunk()?;
    // All of them have that length.
    let rows = rows.chunks_exact(ROW_BYTES).map(|row| row.try_into().unwrap_or([0; ROW_BYTES]));
    Some((u64::from_le_bytes(*before), rows))
}
