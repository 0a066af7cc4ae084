//! The codec of recipes, layouts, render passes and device configurations. These have a few hundred bytes, too few for
//! zstd to learn from, so it starts with a dictionary of what the recipes of many programs have in common. Only the
//! content of one block is stored; the decoder restores the headers before it.

use crate::codec::dictionary::{BLOCK, LAST_COMPRESSED, LONGEST};
use crate::codec::plain::plain;
use crate::codec::zstd;
use crate::format::codec::Codec;

/// The bytes that zstd's encoder puts before the block: magic number, descriptor and window size, without options.
const FRAME: usize = 6;

/// Fills `out` with a payload as it is to be stored. Takes any bytes, and stores the same bytes always in the same way.
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

/// Removes the headers of a frame with one compressed block. False: it is another frame.
fn unwrap(frame: &mut Vec<u8>) -> bool {
    let content = frame.len().checked_sub(FRAME + BLOCK);
    let head = frame.get(FRAME..).and_then(|rest| rest.first_chunk());
    let (Some(content), Some(&[low, middle, high])) = (content, head) else { return false };
    let wanted = (content as u32) << 3 | LAST_COMPRESSED;
    // Descriptor 0: a window size follows; no length, no checksum, no number of a dictionary.
    if frame.get(4) != Some(&0) || u32::from_le_bytes([low, middle, high, 0]) != wanted {
        return false;
    }
    frame.drain(..FRAME + BLOCK);
    true
}
