//! What is in one part: its segments, and which of their records are live.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use rustc_hash::FxBuildHasher;

use crate::bounds::{Cause, SegmentMeta};
use crate::disk::folder::Folder;
use crate::format::bytes::padded;
use crate::format::file::PartIdentity;
use crate::format::record::{Key, Kind};
use crate::format::record_header::IndexEntry;
use crate::format::sizes::HEAD_BYTES;
use crate::format::table::Row;
use crate::segment::file as segment;
use crate::segment::file::{DamagedIndex, Segment};
use crate::segment::load;
use crate::segment::load::State;
use crate::segment::name;
use crate::upkeep::survey;
use crate::upkeep::survey::Part;

/// What a record's row takes in the index.
const ROW: u64 = 24;

/// What a record takes in a file.
pub(crate) fn footprint(row: &Row) -> u64 {
    HEAD_BYTES as u64 + padded(u64::from(row.stored)) + ROW
}

/// Records that are damaged: the name of their file, and where their heads start.
pub(crate) type Lost = HashSet<(String, u64)>;

/// One segment.
pub(crate) struct Member {
    pub(crate) segment: Arc<Segment>,
    pub(crate) bytes: u64,
    /// Somebody writes to it.
    pub(crate) open: bool,
}

/// A record that is the newest of its kind and key, or of which that cannot be told.
#[derive(Clone, Copy)]
pub(crate) struct Live {
    pub(crate) row: Row,
    /// In which segment.
    pub(crate) member: usize,
}

/// One part.
pub(crate) struct Contents {
    pub(crate) identity: PartIdentity,
    /// Oldest first.
    pub(crate) members: Vec<Member>,
    pub(crate) live: Vec<Live>,
    /// No segment is left out: all of them can be read.
    pub(crate) is_complete: bool,
}

impl Contents {
    /// None: nothing says what the part belongs to, or `interrupted` says true.
    pub(crate) fn of(part: &Part, interrupted: &dyn Fn() -> bool) -> Option<Contents> {
        Contents::read(&part.folder, part.identity(interrupted)?, &part.files, &Lost::new(), interrupted)
    }

    /// As it is now, without what is known to be damaged.
    pub(crate) fn again(
        folder: &Arc<Folder>,
        identity: PartIdentity,
        lost: &Lost,
        interrupted: &dyn Fn() -> bool,
    ) -> Option<Contents> {
        Contents::read(folder, identity, &survey::files(folder), lost, interrupted)
    }

    fn read(
        folder: &Arc<Folder>,
        identity: PartIdentity,
        files: &[(String, u64)],
        lost: &Lost,
        interrupted: &dyn Fn() -> bool,
    ) -> Option<Contents> {
        let load =
            |(name, _): &(String, u64)| load::load_until(folder, name, Some(&identity), interrupted).ok();
        let member = |loaded: load::Loaded| Member {
            open: loaded.state == State::Written,
            bytes: loaded.bytes,
            segment: loaded.segment,
        };
        let members: Vec<Member> = files.iter().filter_map(load).map(member).collect();
        let mut seen: HashSet<u64, FxBuildHasher> = HashSet::default();
        let mut live = Vec::new();
        for (at, member) in members.iter().enumerate().rev() {
            if interrupted() {
                return None;
            }
            let mut rows = member.segment.rows(&DamagedIndex::WHOLLY);
            if !lost.is_empty() {
                rows.retain(|row| !lost.contains(&(member.segment.name().to_owned(), row.offset)));
            }
            rows.sort_unstable_by_key(|row| Reverse(row.offset));
            // What this program cannot read is not its to judge.
            rows.retain(|row| !row.is_readable() || seen.insert(row.hash));
            live.extend(rows.into_iter().map(|row| Live { row, member: at }));
        }
        // What was put off because of it is not among the members.
        let is_complete = members.len() == files.len();
        (!interrupted()).then_some(Contents { identity, members, live, is_complete })
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

    /// A record's head.
    pub(crate) fn entry(&self, live: &Live) -> Option<IndexEntry> {
        self.member(live).segment.head_at(live.row.offset)
    }

    /// The age of the file in which it stands.
    pub(crate) fn age(&self, live: &Live) -> u64 {
        name::age_of(self.member(live).segment.name())
    }

    /// Every live record of a kind.
    pub(crate) fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &Live> {
        self.live.iter().filter(move |live| live.row.code == kind.position() as u8 && live.row.is_readable())
    }

    /// Calls `each` with key and payload of every live record of a kind.
    pub(crate) fn for_each(&self, kind: Kind, mut each: impl FnMut(&Live, &Key, &[u8])) {
        let mut buffer = Vec::new();
        for live in self.of_kind(kind) {
            let Some(entry) = self.entry(live) else { continue };
            if self.payload(live, &entry.key, &mut buffer) {
                each(live, &entry.key, &buffer);
            }
        }
    }

    /// The segments as compaction sees them, once `evicted` is gone.
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

/// Whether a record is not among those that go.
pub(crate) fn stays(live: &Live, evicted: &HashMap<u64, Cause>) -> bool {
    !live.row.is_readable() || !evicted.contains_key(&live.row.hash)
}
