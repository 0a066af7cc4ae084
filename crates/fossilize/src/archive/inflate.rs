//! Compressed payloads.

use std::io::{self, Write as _};

use flate2::write::ZlibEncoder;
use flate2::{Compression as Level, Decompress, FlushDecompress, Status};

use super::error::Damage;
use super::layout::{Compression, PayloadHeader};

/// A byte of a deflate stream stands for at most this many bytes: two bits can stand for 258.
const MOST_BYTES_PER_BYTE: u64 = 4 * 258;

/// Whether these sizes can be true.
pub(super) fn sizes_are_possible(compression: Compression, header: &PayloadHeader) -> bool {
    match compression {
        Compression::None => header.stored == header.size,
        Compression::Zlib => u64::from(header.size) <= u64::from(header.stored) * MOST_BYTES_PER_BYTE,
    }
}

/// The bytes of a zlib stream that has exactly `size` of them.
pub(super) fn inflate(stored: &[u8], size: u32) -> Result<Vec<u8>, Damage> {
    let wrong = Damage::Inflate { stated: size };
    let wanted = usize::try_from(size).map_err(|_| Damage::Memory(size))?;
    let mut payload = empty(size, 1)?;
    let mut stream = Decompress::new(true);
    // One byte more than wanted: a stream that is too long fills it, and one of the right length reaches its end.
    match stream.decompress_vec(stored, &mut payload, FlushDecompress::Finish) {
        Ok(Status::StreamEnd) if payload.len() == wanted => Ok(payload),
        _ => Err(wrong),
    }
}

/// A vector with room for `size` bytes and `more`.
pub(super) fn empty(size: u32, more: usize) -> Result<Vec<u8>, Damage> {
    let mut bytes = Vec::new();
    let room = usize::try_from(size).ok().and_then(|size| size.checked_add(more));
    match room.map(|room| bytes.try_reserve_exact(room)) {
        Some(Ok(())) => Ok(bytes),
        _ => Err(Damage::Memory(size)),
    }
}

/// The zlib stream of a payload, at the level of `fossilize-convert-db`: an archive is written once.
pub(super) fn deflate(payload: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = ZlibEncoder::new(Vec::new(), Level::best());
    stream.write_all(payload)?;
    stream.finish()
}
