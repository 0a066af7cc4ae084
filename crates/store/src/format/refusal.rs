//! Why a file of a part is not used: values with a reason.

use serde::Serialize;

use crate::format::device::HeaderMismatch;
use vkstash_host::disk::errors::FileError;

/// Why a file of a part is not used. The file is left as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// The file is shorter than a header.
    #[error("too short to be a segment")]
    Truncated,
    /// The file's writer has just created it.
    #[error("nothing is written to it yet")]
    NotYet,
    /// The file has neither a valid header nor a valid record.
    #[error("not a segment")]
    NotASegment,
    /// The file has another version of the format.
    #[error("format version {0} is not known here")]
    Version(u32),
    /// The file has flags of the format that this version does not know.
    #[error("format flags {0:#x} are not known here")]
    Flags(u32),
    /// A segment of another kind of part.
    #[error("belongs to another kind of part")]
    OtherPart,
    /// A segment of another device.
    #[error("{0}")]
    OtherDevice(HeaderMismatch),
    /// The file cannot be opened or read.
    #[error(transparent)]
    #[serde(untagged)]
    File(FileError),
}

impl Refusal {
    /// The reason's name in reports and in JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Refusal::Truncated => "truncated",
            Refusal::NotYet => "not_yet_written",
            Refusal::NotASegment => "not_a_segment",
            Refusal::Version(_) => "unknown_version",
            Refusal::Flags(_) => "unknown_flags",
            Refusal::OtherPart => "other_part",
            Refusal::OtherDevice(mismatch) => mismatch.name(),
            Refusal::File(error) => error.name(),
        }
    }
}

impl From<FileError> for Refusal {
    fn from(error: FileError) -> Refusal {
        match error {
            // It was removed after its name was read.
            FileError::Missing => Refusal::NotYet,
            error => Refusal::File(error),
        }
    }
}
