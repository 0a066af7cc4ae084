//! The contents of one part: its segments, and which of their records are live.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::bounds::{Cause, SegmentMeta};
use crate::format::bytes::padded;
use crate::format::file::PartIdentity;
use crate::format::record_header::IndexEntry;
use crate::format::sizes::RECORD_HEADER_BYTES;
use crate::format::table::Row;
use crate::maintenance::survey;
use crate::maintenance::survey::PartFolder;
use crate::segment::file as segment;
use crate::segment::file::Segment;
use crate::segment::load;
use crate::segment::load::State;
use crate::segment::name;
use vkstash_host::disk::folder::Folder;
use vkstash_host::keyed::Keyed;
use vkstash_host::sort;
use vkstash_model::record::{Key, Kind};

/// Bytes that a record's row takes in the index, rounded up.
const ROW: u64 = 24;

/// Bytes that a record takes in a file.
pub(crate) fn footprint(row: &Row) -> u64 {
    RECORD_HEADER_BYTES as u64 + padded(u64::from(row.stored)) + ROW
}

/// Damaged records: the name of the segment and the offset of the record header.
pub(crate) type Lost = HashSet<(String, u64)>;

/// One segment.
pub(crate) struct Member {
    pub(crate) segment: Arc<Segment>,
    pub(crate) bytes: u64,
    /// A process writes to it.
    pub(crate) open: bool,
}

/// The newest record of its kind and key. Records that this program cannot read are all live.
#[derive(Clone, Copy)]
pub(crate) struct Live {
    pub(crate) row: Row,
    /// The place of its segment in [`PartContents::members`].
    pub(crate) member: usize,
}

/// The contents of one part.
pub(crate) struct PartContents {
    pub(crate) identity: PartIdentity,
    /// The segments, oldest first.
    pub(crate) members: Vec<Member>,
    pub(crate) live: Vec<Live>,
    /// All segment files of the part could be read.
    pub(crate) is_complete: bool,
}

impl PartContents {
    /// None: no file says what the part belongs to, or `interrupted` says true.
    pub(crate) fn of(part: &PartFolder, interrupted: &dyn Fn() -> bool) -> Option<PartContents> {
        PartContents::read(&part.open()?, part.identity(interrupted)?, &part.files, &Lost::new(), interrupted)
    }

    /// The contents now, without records that are known to be damaged.
    pub(crate) fn read_again(
        folder: &Arc<Folder>,
        identity: PartIdentity,
        lost: &Lost,
        interrupted: &dyn Fn() -> bool,
    ) -> Option<PartContents> {
        PartContents::read(folder, identity, &survey::files(folder)?, lost, interrupted)
    }

    fn read(
        folder: &Arc<Folder>,
        identity: PartIdentity,
        files: &[(String, u64)],
        lost: &Lost,
        interrupted: &dyn Fn() -> bool,
    ) -> Option<PartContents> {
        let load =
            |(name, _): &(String, u64)| load::load_until(folder, name, Some(&identity), interrupted).ok();
        let member = |loaded: load::Loaded| Member {
            open: loaded.state == State::Written,
            bytes: loaded.bytes,
            segment: loaded.segment,
        };
        let members: Vec<Member> = files.iter().filter_map(load).map(member).collect();
        let mut seen: HashSet<u64, Keyed> = HashSet::default();
        let mut live = Vec::new();
        for (at, member) in members.iter().enumerate().rev() {
            if interrupted() {
                return None;
            }
            let mut rows = member.segment.known_rows();
            if !lost.is_empty() {
                rows.retain(|row| !lost.contains(&(member.segment.name().to_owned(), row.offset)));
            }
            sort::by_key(&mut rows, |row| Reverse(row.offset));
            // This program cannot tell which of the records that it cannot read is superseded.
            rows.retain(|row| !row.is_readable() || seen.insert(row.hash));
            live.extend(rows.into_iter().map(|row| Live { row, member: at }));
        }
        // After an interruption segments may be missing from the members.
        let is_complete = members.len() == files.len();
        (!interrupted()).then_some(PartContents { identity, members, live, is_complete })
    }

    pub(crate) fn is_of_a_device(&self) -> bool {
        matches!(self.identity, PartIdentity::Device(_))
    }

    /// Reads the payload of a record of this key. False: it is damaged.
    pub(crate) fn payload(&self, live: &Live, key: &Key, buffer: &mut Vec<u8>) -> bool {
        self.member(live).segment.read_row(&live.row, key, buffer) == segment::Read::Good
    }

    pub(crate) fn member(&self, live: &Live) -> &Member {
        &self.members[live.member]
    }

    /// The header of a record.
    pub(crate) fn entry(&self, live: &Live) -> Option<IndexEntry> {
        self.member(live).segment.header_at(live.row.offset).ok()
    }

    /// The age of the segment that has the record.
    pub(crate) fn age(&self, live: &Live) -> u64 {
        name::age_of(self.member(live).segment.name())
    }

    /// All live records of a kind.
    pub(crate) fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &Live> {
        self.live.iter().filter(move |live| live.row.code == kind.position() as u8 && live.row.is_readable())
    }

    /// Calls `each` with key and payload of all records of a kind, also of those that are not live.
    pub(crate) fn for_each_recorded(&self, kind: Kind, mut each: impl FnMut(&Key, &[u8])) {
        let mut buffer = Vec::new();
        for Member { segment, .. } in &self.members {
            let rows = segment.known_rows();
            for row in rows.iter().filter(|row| row.is_readable() && row.code == kind.position() as u8) {
                let Ok(IndexEntry { key, .. }) = segment.header_at(row.offset) else { continue };
                if segment.read_row(row, &key, &mut buffer) == segment::Read::Good {
                    each(&key, &buffer);
                }
            }
        }
    }

    /// Calls `each` with key and payload of all live records of a kind.
    pub(crate) fn for_each(&self, kind: Kind, mut each: impl FnMut(&Live, &Key, &[u8])) {
        let mut buffer = Vec::new();
        for live in self.of_kind(kind) {
            let Some(entry) = self.entry(live) else { continue };
            if self.payload(live, &entry.key, &mut buffer) {
                each(live, &entry.key, &buffer);
            }
        }
    }

    /// The segments as compaction sees them after the eviction.
    pub(crate) fn metas(&self, evicted: &HashMap<u64, Cause>) -> Vec<SegmentMeta> {
        let meta = |member: &Member| SegmentMeta {
            bytes: member.bytes,
            open: member.open,
            ..SegmentMeta::default()
        };
        let mut metas: Vec<SegmentMeta> = self.members.iter().map(meta).collect();
        for live in self.live.iter().filter(|live| stays(live, evicted)) {
            let meta = &mut metas[live.member];
            meta.live_bytes += footprint(&live.row);
            meta.live_records += 1;
        }
        metas
    }
}

/// Whether a record is not evicted.
pub(crate) fn stays(live: &Live, evicted: &HashMap<u64, Cause>) -> bool {
    !live.row.is_readable() || !evicted.contains_key(&live.row.hash)
}
