//! Lengths, limits and magic numbers of segment files.

/// The version of the format.
pub(crate) const VERSION: u32 = 2;

/// All blocks start at multiples of this.
pub(crate) const ALIGN: u64 = 8;

/// Length of a file header, in bytes.
pub(crate) const HEADER_BYTES: usize = 128;

/// Length of a record header, in bytes.
pub(crate) const RECORD_HEADER_BYTES: usize = 64;

/// Length of a footer, in bytes.
pub(crate) const FOOTER_BYTES: usize = 256;

/// Length of the area for two [`CheckpointPointer`]s after the file header, in bytes.
pub(crate) const POINTERS_BYTES: usize = 64;

/// The offset of the first record.
pub(crate) const FIRST_RECORD: usize = HEADER_BYTES + POINTERS_BYTES;

/// The largest payload, in bytes: its length must fit into 26 bits of a row.
pub(crate) const MAX_PAYLOAD: u32 = (1 << 26) - 1;

/// The largest segment: writers seal one at half of this, and write far less at once. In a file without an index, what
/// follows is ignored.
pub(crate) const MOST_BYTES: u64 = 2 << 30;

/// The largest number of records in a segment.
pub(crate) const MOST_RECORDS: usize = 1 << 21;

/// The kind of an index record. Not a [`vkstash_model::record::Kind`].
pub(crate) const INDEX_KIND: u8 = 255;

/// The kind of a checkpoint. Not a [`vkstash_model::record::Kind`].
pub(crate) const CHECKPOINT_KIND: u8 = 254;

/// The codec of an uncompressed payload.
pub(crate) const CODEC_PLAIN: u8 = 0;

/// The first bytes of a segment file.
pub(crate) const FILE_MAGIC: [u8; 8] = *b"\x89VKS\r\n\x1a\n";

/// The first bytes of a footer.
pub(crate) const FOOTER_MAGIC: [u8; 8] = *b"\x89VKF\r\n\x1a\n";

/// The first bytes of a record.
pub(crate) const RECORD_MAGIC: [u8; 4] = *b"\x8bvkr";
