//! Lengths, limits and magic numbers of segment files.

/// The format version that this program writes. It reads version 1 too.
pub(crate) const VERSION: u32 = 2;

/// Blocks start at multiples of this.
pub(crate) const ALIGN: u64 = 8;

/// A file's header, in bytes.
pub(crate) const HEADER_BYTES: usize = 128;

/// A record's head, in bytes.
pub(crate) const HEAD_BYTES: usize = 64;

/// One entry of an index, in bytes.
pub(crate) const ENTRY_BYTES: usize = 56;

/// The foot of a sealed file, in bytes.
pub(crate) const FOOT_BYTES: usize = 256;

/// The same in version 1.
pub(crate) const FOOT_BYTES_1: usize = 64;

/// What follows the header: two [`Mark`]s, which their writer overwrites in turn.
pub(crate) const MARKS_BYTES: usize = 64;

/// Where the first record stands.
pub(crate) const FIRST_RECORD: usize = HEADER_BYTES + MARKS_BYTES;

/// The largest payload: what fits into the 26 bits of a row.
pub(crate) const MAX_PAYLOAD: u32 = (1 << 26) - 1;

/// No writer makes a longer file: it goes on in another one when this one has half of that, and what it writes at once
/// is much less. What stands behind it in a file without an index does not count.
pub(crate) const MOST_BYTES: u64 = 2 << 30;

/// No writer puts more records into a file.
pub(crate) const MOST_RECORDS: usize = 1 << 21;

/// The kind of an index record; never a [`crate::format::record::Kind`].
pub(crate) const INDEX_KIND: u8 = 255;

/// The kind of a checkpoint; never a [`crate::format::record::Kind`].
pub(crate) const CHECKPOINT_KIND: u8 = 254;

/// Payload stored as it is.
pub(crate) const CODEC_PLAIN: u8 = 0;

/// How a file starts.
pub(crate) const FILE_MAGIC: [u8; 8] = *b"\x89VKS\r\n\x1a\n";

/// How a foot starts.
pub(crate) const FOOT_MAGIC: [u8; 8] = *b"\x89VKF\r\n\x1a\n";

/// How a record starts.
pub(crate) const RECORD_MAGIC: [u8; 4] = *b"\x8bvkr";
