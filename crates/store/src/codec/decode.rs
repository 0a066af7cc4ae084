//! Decoding stored payloads.

use crate::codec::dictionary;
use crate::codec::spirv;
use crate::codec::zstd;
use crate::format::codec::Codec;
use crate::format::codec::CodecError;

/// Fills `out` with the `raw_length` bytes of the payload that was stored as `stored`. Takes memory for half of
/// `raw_length` and a constant beside `out`. Hostile bytes give an error or other bytes, never a panic.
pub fn decode_into(
    codec: Codec,
    stored: &[u8],
    raw_length: usize,
    out: &mut Vec<u8>,
) -> Result<(), CodecError> {
    out.clear();
    if codec == Codec::Dictionary && !dictionary::may_hold(raw_length, stored) {
        return Err(CodecError::Length);
    }
    out.try_reserve_exact(raw_length).map_err(|_| CodecError::Memory)?;
    if codec == Codec::Plain {
        if stored.len() != raw_length {
            return Err(CodecError::Length);
        }
        out.extend_from_slice(stored);
        return Ok(());
    }
    out.resize(raw_length, 0);
    let done = zstd::with_decoder(|decoder| match codec {
        Codec::Spirv => {
            let filtered = decoder.decompress_filtered(stored, spirv::most(raw_length))?;
            spirv::decode(filtered, out).ok_or(CodecError::Filter)
        }
        Codec::Dictionary => of_length(raw_length, decoder.decompress_block(stored, out)?),
        _ => of_length(raw_length, decoder.decompress(stored, out)?),
    });
    if done.is_err() {
        out.clear();
    }
    done
}

fn of_length(promised: usize, length: usize) -> Result<(), CodecError> {
    if length == promised { Ok(()) } else { Err(CodecError::Length) }
}
