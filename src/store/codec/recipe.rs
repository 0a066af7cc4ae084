//! The codec of recipes, layouts, render passes and setups: bytes by the hundred, too few for zstd to learn
//! anything from. So it starts with a dictionary of what many programs' recipes have in common, and a payload is
//! the content of one block alone; the decoder puts the head of its frame in front again.

use super::module::{Codec, plain};
use super::zstd;

/// What many recipes have in common, and zstd's statistics of them. Files can only be read with the same bytes: an
/// intended change needs a new codec.
pub(super) const DICTIONARY: &[u8] = include_bytes!("recipes.dict");

/// The longest payload that goes into one block, in bytes.
const LONGEST: usize = 128 << 10;

/// What zstd's encoder puts in front of the block: magic number, descriptor and window size, none of the options.
const FRAME: usize = 6;

/// The block's head: bit 0 says that it is the last one, bits 1 and 2 have its type, the others its length.
const BLOCK: usize = 3;

/// In the place of bits 0 to 2: the last block, a compressed one.
const LAST_COMPRESSED: u32 = 1 | 2 << 1;

/// Of what the decoder puts in front.
pub(super) const HEAD: usize = 9 + BLOCK;

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

/// Whether these bytes can be a payload of that length: what takes as many bytes is never stored this way.
pub(super) fn may_hold(raw_length: usize, stored: &[u8]) -> bool {
    raw_length <= LONGEST && stored.len() < raw_length
}

/// What makes a frame of a block with so much content: magic number; a descriptor that says that the length follows
/// in four bytes and is the window as well; the length; the block's head. `may_hold` bounds both lengths.
pub(super) fn head(raw_length: usize, stored: usize) -> [u8; HEAD] {
    let mut head = [0x28, 0xB5, 0x2F, 0xFD, 0xA0, 0, 0, 0, 0, 0, 0, 0];
    head[5..9].copy_from_slice(&(raw_length as u32).to_le_bytes());
    let block = (stored as u32) << 3 | LAST_COMPRESSED;
    head[9..].copy_from_slice(&block.to_le_bytes()[..BLOCK]);
    head
}
