//! One segment file, wherever it is: its header, and its records in the order of the file. Reads only.

use std::io;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;

use crate::format::codec::Codec;
use crate::format::device::DeviceHeader;
use crate::format::file::PartIdentity;
use crate::format::refusal::Refusal;
use crate::format::sizes::{FIRST_RECORD, VERSION};
use crate::segment::file::{Location, Read};
use crate::segment::load::State;
use crate::segment::{load, scan};
use vkstash_host::disk::errors::{FileError, OpenError};
use vkstash_host::disk::folder::Folder;
use vkstash_host::disk::ops as disk;
use vkstash_host::text::hex;
use vkstash_host::timer::never;
use vkstash_model::record::Kind;

/// Why a file cannot be inspected.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    /// The folder that it is in.
    #[error(transparent)]
    Folder(#[from] OpenError),
    /// The file itself.
    #[error("{0}")]
    File(#[from] Refusal),
    /// The path does not end in a name.
    #[error("that names no file")]
    NoName,
}

/// A segment file.
#[derive(Clone, Debug, Serialize)]
pub struct SegmentInfo {
    /// The file's length.
    pub bytes: u64,
    /// The version of the format.
    pub version: u32,
    /// Creation time, in Unix milliseconds.
    pub created_unix_ms: u64,
    /// The random number of the file, in hexadecimal digits.
    pub serial: String,
    /// The device that the segment is bound to. None: it belongs to a portable part.
    pub device: Option<DeviceHeader>,
    /// Which process may still write to the segment.
    pub state: SegmentState,
    /// The number of places that are no record.
    pub damaged_places: u64,
    /// The number of records that the segment had when it was complete, if it is cut.
    pub complete_records: Option<u32>,
    /// The segment's records, superseded ones included, in the order of the file.
    pub records: Vec<RecordInfo>,
}

/// Which process may still write to a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SegmentState {
    /// Nobody: it is complete, with an index.
    Sealed,
    /// Nobody, but its writer has died before it was complete.
    Orphaned,
    /// Nobody: it was complete, and its end is missing now or damaged.
    Cut,
    /// A running program.
    Written,
    /// Nobody, and some of it cannot be read now.
    Unreadable,
}

/// One record.
#[derive(Clone, Debug, Serialize)]
pub struct RecordInfo {
    /// The offset of the record's header from the start of the file.
    pub offset: u64,
    /// [`Kind::name`], or the number of a newer program's kind.
    pub kind: String,
    /// The record's key in hexadecimal digits.
    pub key: String,
    /// The length of what is stored.
    pub stored_bytes: u64,
    /// The length of the payload.
    pub payload_bytes: u64,
    /// plain, zstd, spirv or dictionary (docs/format.md), or the number of a newer program's codec.
    pub codec: String,
    /// The payload's checksum fits, and it can be decompressed. None: it cannot be read now, or its kind or codec is
    /// unknown.
    pub is_whole: Option<bool>,
}

/// Reads a segment file. Its folder may be anybody's, the file is the user's or root's.
pub fn segment(path: &Path) -> Result<SegmentInfo, InspectError> {
    let name = path.file_name().and_then(|name| name.to_str()).ok_or(InspectError::NoName)?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Only in a folder that nobody else writes to may a file be root's.
    let folder = match Folder::base_until(parent, &never) {
        Err(OpenError::NotOwned { .. } | OpenError::OthersMayWrite { .. }) => Folder::shared(parent, false)?,
        opened => opened?,
    };
    let folder = Arc::new(folder);
    // In a stash a file that is gone was merged; here it is an error.
    disk::statat(&*folder, name)
        .map_err(|error| Refusal::File(FileError::Unreadable(io::Error::from(error).to_string())))?;
    let loaded = load::load(&folder, name, None)?;
    // Without a header that says whose it is, it is not loaded.
    let header = loaded.header.ok_or(Refusal::NotASegment)?;
    let (descriptor, _) = folder.open_file(name).map_err(Refusal::from)?;
    let (end, alive) = (loaded.segment.end(), loaded.state == State::Written);
    let found = scan::scan(&descriptor, FIRST_RECORD as u64, end, header.identity.tag(), alive, &never);
    if found.failed {
        return Err(Refusal::File(FileError::PutOff).into());
    }
    let mut buffer = Vec::new();
    let records = found.entries.iter().map(|entry| {
        let (kind, codec) = (Kind::from_number(entry.kind), Codec::from_number(entry.codec));
        let read = Location::new(&loaded.segment, entry).read(&entry.key, &mut buffer);
        RecordInfo {
            offset: entry.offset,
            kind: kind.map_or_else(|| entry.kind.to_string(), |kind| kind.name().to_owned()),
            key: hex(&entry.key),
            stored_bytes: u64::from(entry.stored),
            payload_bytes: u64::from(entry.length),
            codec: codec.map_or_else(|| entry.codec.to_string(), |codec| codec_name(codec).to_owned()),
            is_whole: match read {
                _ if kind.is_none() || codec.is_none() => None,
                Read::Good => Some(true),
                Read::Damaged | Read::Other => Some(false),
                Read::Gone | Read::Failed => None,
            },
        }
    });
    Ok(SegmentInfo {
        bytes: loaded.bytes,
        version: VERSION,
        created_unix_ms: header.created_unix_ms,
        serial: format!("{:016x}", header.serial),
        device: match header.identity {
            PartIdentity::Device(device) => Some(device),
            PartIdentity::Portable => None,
        },
        state: match loaded.state {
            State::Sealed => SegmentState::Sealed,
            State::Orphaned if loaded.cut.is_some() => SegmentState::Cut,
            State::Orphaned => SegmentState::Orphaned,
            State::Written => SegmentState::Written,
            State::Unreadable => SegmentState::Unreadable,
        },
        damaged_places: found.damaged,
        complete_records: loaded.cut.map(|seal| seal.records),
        records: records.collect(),
    })
}

fn codec_name(codec: Codec) -> &'static str {
    match codec {
        Codec::Plain => "plain",
        Codec::Zstd => "zstd",
        Codec::Spirv => "spirv",
        Codec::Dictionary => "dictionary",
    }
}
