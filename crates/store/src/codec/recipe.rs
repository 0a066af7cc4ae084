//! The codec of recipes, layouts, render passes and setups: bytes by the hundred, too few for zstd to learn
//! anything from. So it starts with a dictionary of what many programs' recipes have in common, and a payload is
//! the content of one block alone; the decoder puts the head of its frame in front again.

use crate::codec::dictionary::{BLOCK, LAST_COMPRESSED, LONGEST};
use crate::codec::plain::plain;
use crate::codec::zstd;
use crate::format::codec::Codec;

/// What zstd's encoder puts in front of the block: magic number, descriptor and window size, none of the options.
const FRAME: usize = 6;

/// Fills `out` with a recipe's payload as it is to be stored, or that of a layout, a render pass or a setup. Any
/// bytes are welcome; the same bytes are always stored the same way.
pub fn encode_recipe(payload: &[u8], out: &mut Vec<u8>) -> Codec {
    let compressed = payload.len() <= LONGEST
        && zstd::with_recipe_encoder(|encoder| {
            encoder.as_mut().is_some_and(|encoder| zstd::frame(encoder, payload, out))
        });
    if compressed && unwrap(out) && out.len() < payload.len() {
        return Codec::Dictionary;
    }
    plain(payload, out)
}

/// Takes the heads off a frame of one compressed block. False for any other.
fn unwrap(frame: &mut Vec<u8>) -> bool {
    let content = frame.len().checked_sub(FRAME + BLOCK);
    let head = frame.get(FRAME..).and_then(|rest| rest.first_chunk());
    let (Some(content), Some(&[low, middle, high])) = (content, head) else { return false };
    let wanted = (content as u32) << 3 | LAST_COMPRESSED;
    // A descriptor of 0: a window size follows, no length, no checksum, no dictionary's number.
    if frame.get(4) != Some(&0) || u32::from_le_bytes([low, middle, high, 0]) != wanted {
        return false;
    }
    frame.drain(..FRAME + BLOCK);
    true
}
