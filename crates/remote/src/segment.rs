//! Verification of a downloaded segment, record by record.

use std::path::Path;

use vkstash_model::check::{self, Travel};
use vkstash_model::record::Kind;
use vkstash_store::format::device::DeviceHeader;
use vkstash_store::stash::strict::{Strict, StrictError};

/// The most bytes that the records of a segment from an inbox may have when decompressed: no machine offers more at
/// once (`gather.rs`), and what nobody has signed must not cost its reader much more than its sender.
pub const MOST_RAW: u64 = 192 << 20;

/// Why a segment is refused.
#[derive(Debug, thiserror::Error)]
pub enum SegmentError {
    /// The file is not a complete segment of this part.
    #[error(transparent)]
    Strict(#[from] StrictError),
    /// The segment's records are longer than those of any segment that this program makes.
    #[error("its records have {0} bytes when decompressed")]
    Raw(u64),
    /// A record is not what its key says, or may not stand in such a segment.
    #[error("a record is not what its key says, or does not belong there ({0})")]
    Record(&'static str),
}

impl SegmentError {
    /// The error, if the file could not be read: it says nothing about the content.
    pub(crate) fn unread(self) -> Result<std::io::Error, SegmentError> {
        match self {
            SegmentError::Strict(StrictError::Unread(error)) => Ok(error),
            verdict => Err(verdict),
        }
    }
}

/// What was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Records.
    pub records: usize,
    /// The bytes of these records when decompressed.
    pub raw_bytes: u64,
}

/// What becomes of a segment with records of a kind that this version does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// It is taken: a trusted signer answers for it.
    Taken,
    /// It is refused.
    Refused,
}

/// Reads every record of a file, which may have `most` bytes when decompressed.
pub fn verify(
    folder: &Path,
    file: &str,
    device: Option<&DeviceHeader>,
    most: u64,
    unknown: Unknown,
) -> Result<Verified, SegmentError> {
    let segment = Strict::open(folder, file, device)?;
    let verified = Verified { records: segment.records(), raw_bytes: segment.raw_bytes() };
    if verified.raw_bytes > most {
        return Err(SegmentError::Raw(verified.raw_bytes));
    }
    let mut wrong = None;
    segment.for_each(&mut |kind, key, payload| {
        let is_good = match kind {
            // What processes died of stands in a list of revocations.
            Some(kind) if check::travel(kind) == Travel::Quarantine => false,
            Some(kind) => check::is_sound(device.is_some(), kind, key, payload),
            // No program of this version uses it, but one of a later version may.
            None => unknown == Unknown::Taken,
        };
        if !is_good {
            wrong = Some(kind.map_or("unknown", Kind::name));
        }
        is_good
    })?;
    wrong.map_or(Ok(verified), |kind| Err(SegmentError::Record(kind)))
}
