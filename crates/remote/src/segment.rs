//! Whether a segment is what a manifest says, record by record.

use std::path::Path;

use VkLayer_vkstash::recipe::check;
use vkstash_store::format::device::DeviceHeader;
use vkstash_store::format::record::{Kind, UseRecord};
use vkstash_store::format::same::Same;
use vkstash_store::stash::strict::{Strict, StrictError};

/// Bytes of an artifact's payload before the driver's data.
const ARTIFACT_PREFIX: usize = 8;
/// The forms of a driver's data.
const FORMS: [u8; 2] = [1, 2];

/// Why a segment is refused.
#[derive(Debug, thiserror::Error)]
pub enum SegmentError {
    /// It is not a complete segment of this part.
    #[error(transparent)]
    Strict(#[from] StrictError),
    /// A record is not what its key says, or may not stand in such a segment.
    #[error("a record is not what its key says, or does not belong there ({0})")]
    Record(&'static str),
}

/// Reads every record of a file. Returns their number.
pub fn verify(folder: &Path, file: &str, device: Option<&DeviceHeader>) -> Result<usize, SegmentError> {
    let segment = Strict::open(folder, file, device)?;
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
    wrong.map_or(Ok(segment.records()), |kind| Err(SegmentError::Record(kind)))
}
