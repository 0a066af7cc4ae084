//! The codecs, and those of a module's payload: VkShaderModuleCreateFlags (u32), then what the program gave as SPIR-V.

use super::{recipe, spirv, zstd};
use crate::memory;

/// How a payload is stored. The numbers stand in files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Codec {
    /// As it is.
    Plain = 0,
    /// One zstd frame.
    Zstd = 1,
    /// The SPIR-V filter, its output in one zstd frame.
    Spirv = 2,
    /// One zstd block that leans on the dictionary of recipes.
    Dictionary = 3,
}

impl Codec {
    /// The codec that a file names by this number.
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Plain),
            1 => Some(Self::Zstd),
            2 => Some(Self::Spirv),
            3 => Some(Self::Dictionary),
            _ => None,
        }
    }

    /// What a file calls it.
    pub const fn number(self) -> u8 {
        self as u8
    }
}

/// Why a stored payload has no meaning. What was to be filled is empty then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// Not of the length that the record promises.
    #[error("the payload is not of the recorded length")]
    Length,
    /// Not a zstd frame, or a damaged one.
    #[error("the payload does not decompress")]
    Zstd,
    /// The filter's streams do not fit together.
    #[error("the filtered payload is damaged")]
    Filter,
    /// No memory for it.
    #[error("not enough memory for the payload")]
    Memory,
}

/// Fills `out` with a module's `payload` as it is to be stored. Any bytes are welcome; the same bytes are always stored
/// the same way.
pub fn encode_module(payload: &[u8], out: &mut Vec<u8>) -> Codec {
    zstd::with_encoder(|encoder| {
        let compressed = encoder.as_mut().and_then(|encoder| {
            encoder.filtered.clear();
            let filtered = spirv::encode(payload, &mut encoder.filtered);
            if filtered && encoder.compress_filtered(out) && out.len() < payload.len() {
                return Some(Codec::Spirv);
            }
            (encoder.compress(payload, out) && out.len() < payload.len()).then_some(Codec::Zstd)
        });
        compressed.unwrap_or_else(|| plain(payload, out))
    })
}

/// Stores `payload` as it is.
pub(super) fn plain(payload: &[u8], out: &mut Vec<u8>) -> Codec {
    out.clear();
    // Who stores it takes the payload itself: without memory there is nothing to see here.
    if memory::reserve(out, payload.len()) {
        out.extend_from_slice(payload);
    }
    Codec::Plain
}

/// Fills `out` with the `raw_length` bytes that were stored as `stored`. Beside `out` it takes memory for half of
/// `raw_length` and a constant. Hostile bytes give an error or other bytes, never a panic.
pub fn decode_into(
    codec: Codec,
    stored: &[u8],
    raw_length: usize,
    out: &mut Vec<u8>,
) -> Result<(), CodecError> {
    out.clear();
    if codec == Codec::Dictionary && !recipe::may_hold(raw_length, stored) {
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
