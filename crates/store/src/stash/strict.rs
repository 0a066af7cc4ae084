//! Segment files that somebody else has made, and that are used as they are.
//!
//! A segment of this machine may be damaged, and what is left of it is used. One that comes from elsewhere is taken
//! whole or not at all: it is sealed, its index lists every record of the file and nothing else, and every record is
//! whole. So a process that looks at all records has seen everything that a reader will ever find, whether or not the
//! file is damaged later.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::format::device::DeviceHeader;
use crate::format::file::PartIdentity;
use crate::format::record_header::IndexEntry;
use crate::format::refusal::Refusal;
use crate::format::sizes::FIRST_RECORD;
use crate::format::table::{Packed, Row};
use crate::segment::file::{DamagedIndex, Location, Read, Segment};
use crate::segment::load::{self, State};
use crate::segment::scan;
use vkstash_host::disk::errors::{FileError, OpenError};
use vkstash_host::disk::folder::Folder;
use vkstash_host::sort;
use vkstash_host::timer::never;
use vkstash_model::record::{Key, Kind};

/// Why a segment is not taken.
#[derive(Debug, thiserror::Error)]
pub enum StrictError {
    /// This machine cannot read the file: nothing is known of its content.
    #[error("it cannot be read: {0}")]
    Unread(#[source] io::Error),
    /// The file is no segment, or a segment of another part.
    #[error(transparent)]
    Refused(Refusal),
    /// The segment is not complete.
    #[error("it is not sealed")]
    NotSealed,
    /// The index and the records disagree, or there is something between the records.
    #[error("it holds more or less than its index says")]
    Hidden,
    /// A payload is not what its checksum says, or cannot be decompressed.
    #[error("a record is damaged")]
    Damaged,
}

impl From<Refusal> for StrictError {
    fn from(refusal: Refusal) -> StrictError {
        match refusal {
            // These say nothing about what a file holds.
            Refusal::NotYet
            | Refusal::File(FileError::SymbolicLink)
            | Refusal::File(FileError::NotAFile)
            | Refusal::File(FileError::NotOwned(_))
            | Refusal::File(FileError::OthersMayWrite(_))
            | Refusal::File(FileError::Unreadable(_))
            | Refusal::File(FileError::PutOff) => StrictError::Unread(io::Error::other(refusal)),
            refusal => StrictError::Refused(refusal),
        }
    }
}

impl From<OpenError> for StrictError {
    fn from(error: OpenError) -> StrictError {
        StrictError::Unread(io::Error::other(error))
    }
}

/// Takes kind, key and payload of a record; false: no further one is wanted.
pub type EachRecord<'a> = &'a mut dyn FnMut(Option<Kind>, &Key, &[u8]) -> bool;

/// A segment that is complete.
pub struct Strict {
    segment: Arc<Segment>,
    /// In the order of the file.
    entries: Vec<IndexEntry>,
}

impl Strict {
    /// Opens the file `name` in `folder`, which must belong to the part of `device`, or to the portable part. Its
    /// payloads are not read yet.
    pub fn open(folder: &Path, name: &str, device: Option<&DeviceHeader>) -> Result<Strict, StrictError> {
        let folder = Arc::new(Folder::root(folder, false)?);
        let expected = device.map_or(PartIdentity::Portable, |header| PartIdentity::Device(header.clone()));
        let loaded = load::load(&folder, name, Some(&expected))?;
        if loaded.state == State::Unreadable {
            return Err(Refusal::File(FileError::PutOff).into());
        }
        // A header that is lost counts as damage.
        if loaded.state != State::Sealed || loaded.damaged > 0 {
            return Err(StrictError::NotSealed);
        }
        let segment = loaded.segment;
        // Without one there are too many open files.
        let descriptor = segment.descriptor().ok_or(Refusal::File(FileError::PutOff))?;
        let end = segment.end();
        let found = scan::scan(descriptor, FIRST_RECORD as u64, end, expected.tag(), false, &never);
        if found.failed {
            return Err(Refusal::File(FileError::PutOff).into());
        }
        if found.damaged > 0 || found.end != end {
            return Err(StrictError::Hidden);
        }
        let damaged = std::cell::Cell::new(false);
        let index = DamagedIndex { damaged: &|| damaged.set(true), interrupted: &|| true };
        let rows = segment.rows(&index).unwrap_or_default();
        let mut listed: Vec<Packed> = rows.iter().map(Row::pack).collect();
        let mut there: Vec<Packed> = found.entries.iter().map(|entry| Row::of(entry).pack()).collect();
        sort::sort(&mut listed);
        sort::sort(&mut there);
        if segment.has_failed() {
            return Err(Refusal::File(FileError::PutOff).into());
        }
        if damaged.get() || listed != there {
            return Err(StrictError::Hidden);
        }
        Ok(Strict { segment, entries: found.entries })
    }

    /// Bytes of all payloads after decompression, as the records say.
    pub fn raw_bytes(&self) -> u64 {
        self.entries.iter().map(|entry| u64::from(entry.length)).sum()
    }

    /// The number of records.
    pub fn records(&self) -> usize {
        self.entries.len()
    }

    /// Calls `each` with every record, in the order of the file, until it says false. No kind: it is one that this
    /// program does not know.
    pub fn for_each(&self, each: EachRecord<'_>) -> Result<(), StrictError> {
        let mut buffer = Vec::new();
        for entry in &self.entries {
            let kind = Kind::from_number(entry.kind);
            match Location::new(&self.segment, entry).read(&entry.key, &mut buffer) {
                Read::Good => {}
                // A disk that cannot read counts as damage elsewhere.
                Read::Damaged | Read::Other if !self.segment.has_failed() => {
                    return Err(StrictError::Damaged);
                }
                _ => return Err(Refusal::File(FileError::PutOff).into()),
            }
            if !each(kind, &entry.key, &buffer) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Whether this program knows the kinds of all records.
    pub fn is_known(&self) -> bool {
        self.entries.iter().all(|entry| Kind::from_number(entry.kind).is_some())
    }

    /// Calls `each` with kind and key of every record of a known kind, without reading payloads.
    pub fn for_each_key(&self, each: &mut dyn FnMut(Kind, &Key)) {
        for entry in &self.entries {
            if let Some(kind) = Kind::from_number(entry.kind) {
                each(kind, &entry.key);
            }
        }
    }
}
