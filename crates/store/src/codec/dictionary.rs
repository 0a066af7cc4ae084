//! The dictionary of recipes, and the frame header of a block that needs it.

/// Bytes that many recipes have in common, and zstd's statistics. Files can be read with these bytes only: a change
/// needs a new codec.
pub(crate) const DICTIONARY: &[u8] = include_bytes!("recipes.dict");

/// The longest payload that fits into one block, in bytes.
pub(crate) const LONGEST: usize = 128 << 10;

/// The block header: bit 0 marks the last block, bits 1 and 2 are its type, the others its length.
pub(crate) const BLOCK: usize = 3;

/// Bits 0 to 2 of the last block, which is compressed.
pub(crate) const LAST_COMPRESSED: u32 = 1 | 2 << 1;

/// Length of the bytes that the decoder puts before a block.
pub(crate) const HEAD: usize = 9 + BLOCK;

/// Whether these bytes can be a payload of that length. A payload that does not get shorter is never stored this way.
pub(crate) fn may_hold(raw_length: usize, stored: &[u8]) -> bool {
    raw_length <= LONGEST && stored.len() < raw_length
}

/// The bytes that make a frame of a block with this much content: magic number, a descriptor that says that the length
/// has four bytes and is the window size too, the length, and the block header. `may_hold` limits both lengths.
pub(crate) fn head(raw_length: usize, stored: usize) -> [u8; HEAD] {
    let mut head = [0x28, 0xB5, 0x2F, 0xFD, 0xA0, 0, 0, 0, 0, 0, 0, 0];
    head[5..9].copy_from_slice(&(raw_length as u32).to_le_bytes());
    let block = (stored as u32) << 3 | LAST_COMPRESSED;
    head[9..].copy_from_slice(&block.to_le_bytes()[..BLOCK]);
    head
}
