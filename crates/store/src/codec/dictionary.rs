//! What recipes have in common, and the head of a frame that leans on it.

/// What many recipes have in common, and zstd's statistics of them. Files can only be read with the same bytes: an
/// intended change needs a new codec.
pub(crate) const DICTIONARY: &[u8] = include_bytes!("recipes.dict");

/// The longest payload that goes into one block, in bytes.
pub(crate) const LONGEST: usize = 128 << 10;

/// The block's head: bit 0 says that it is the last one, bits 1 and 2 have its type, the others its length.
pub(crate) const BLOCK: usize = 3;

/// In the place of bits 0 to 2: the last block, a compressed one.
pub(crate) const LAST_COMPRESSED: u32 = 1 | 2 << 1;

/// Of what the decoder puts in front.
pub(crate) const HEAD: usize = 9 + BLOCK;

/// Whether these bytes can be a payload of that length: what takes as many bytes is never stored this way.
pub(crate) fn may_hold(raw_length: usize, stored: &[u8]) -> bool {
    raw_length <= LONGEST && stored.len() < raw_length
}

/// What makes a frame of a block with so much content: magic number; a descriptor that says that the length follows
/// in four bytes and is the window as well; the length; the block's head. `may_hold` bounds both lengths.
pub(crate) fn head(raw_length: usize, stored: usize) -> [u8; HEAD] {
    let mut head = [0x28, 0xB5, 0x2F, 0xFD, 0xA0, 0, 0, 0, 0, 0, 0, 0];
    head[5..9].copy_from_slice(&(raw_length as u32).to_le_bytes());
    let block = (stored as u32) << 3 | LAST_COMPRESSED;
    head[9..].copy_from_slice(&block.to_le_bytes()[..BLOCK]);
    head
}
