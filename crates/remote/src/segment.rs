//! Whether a segment is what a manifest says, record by record.

use std::path::Path;

use vkstash_model::check;
use vkstash_store::format::device::DeviceHeader;
use vkstash_store::format::record::{Kind, UseRecord};
use vkstash_store::format::same::Same;
use vkstash_store::stash::strict::{Strict, StrictError};

/// Bytes of an artifact's payload before the driver's data.
const ARTIFACT_PREFIX: usize = 8;
/// The forms of a driver's data.
const FORMS: [u8; 2] = [1, 2];

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

/// Reads every record of a file, which may have `most` bytes when decompressed.
pub fn verify(
    folder: &Path,
    file: &str,
    device: Option<&DeviceHeader>,
    most: u64,
) -> Result<Verified, SegmentError> {
    let segment = Strict::open(folder, file, device)?;
    let verified = Verified { records: segment.records(), raw_bytes: segment.raw_bytes() };
    if verified.raw_bytes > most {
        return Err(SegmentError::Raw(verified.raw_bytes));
    }
    let mut wrong = None;
    segment.for_each(&mut |kind, key, payload| {
        let is_good = match (device, kind) {
            (None, Kind::Use) => UseRecord::decode(payload).is_some(),
            (None, kind) => check::is_true(kind, key, payload),
            (Some(_), Kind::Artifact) => payload.len() >= ARTIFACT_PREFIX && FORMS.contains(&payload[4]),
            (Some(_), Kind::IdentifierPair) => payload.len() == 32,
            (Some(_), Kind::Same) => Same::decode(payload).is_some(),
            (Some(_), Kind::Cost) => payload.len() == 4,
            // What this machine finds out by itself, and what a list of revocations says.
            (Some(_), _) => false,
        };
        if !is_good {
            wrong = Some(kind.name());
        }
        is_good
    })?;
    wrong.map_or(Ok(verified), |kind| Err(SegmentError::Record(kind)))
}
