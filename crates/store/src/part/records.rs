//! Reading and queueing the records of a part.

use std::cell::OnceCell;
use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use crate::format::sizes::MAX_PAYLOAD;
use crate::format::table;
use crate::format::table::Row;
use crate::part::open::{Part, Pending};
use crate::part::recent_records::Source;
use crate::segment::append::{Payload, RecordId};
use crate::segment::file::{DamagedIndex, Location, Read, Segment};
use vkstash_host::memory;
use vkstash_host::sort;
use vkstash_host::timer::{Timer, never};
use vkstash_model::record::{Key, Kind};
use vkstash_model::same::Same;

/// Where a record was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundIn {
    /// In the part itself.
    Own,
    /// In the same part of a base.
    Base,
}

/// Whether all records of a kind could be read.
#[derive(Clone, Copy)]
enum Pass {
    Whole,
    /// Some cannot be read for now, or were not reached.
    Unread,
    /// A segment is gone.
    Gone,
}

impl Pass {
    /// Something could not be read, for this reason.
    fn note(&mut self, why: Read) {
        match why {
            Read::Gone => *self = Pass::Gone,
            _ if matches!(self, Pass::Whole) => *self = Pass::Unread,
            _ => {}
        }
    }
}

/// Takes key and payload of a record.
pub(crate) type Each<'a> = &'a mut dyn FnMut(&Key, &[u8]);

/// Passes over the records of a kind while other processes merge segments.
const MOST_PASSES: usize = 4;

impl Part {
    /// Whether the part has a record, on disk or queued. Takes no lock.
    pub fn contains(&self, kind: Kind, key: &Key) -> bool {
        self.is_there(kind, key) || self.refresh_after_miss() && self.is_there(kind, key)
    }

    /// Reads the newest record of that kind and key into `buffer`, and verifies its checksum. If the artifact is stored
    /// as a reference, the data of its target is read and its digest verified. False: the record is missing or damaged,
    /// and `buffer` is empty. Damage is counted once.
    pub fn read(&self, kind: Kind, key: &Key, buffer: &mut Vec<u8>) -> bool {
        self.read_known(kind, key, buffer) || self.refresh_after_miss() && self.read_known(kind, key, buffer)
    }

    /// [`Part::read`], and whether it is from a base. None: the record is missing or damaged, and `buffer` is empty.
    pub fn read_from(&self, kind: Kind, key: &Key, buffer: &mut Vec<u8>) -> Option<FoundIn> {
        let mut found = || {
            if self.read_here(kind, key, buffer) {
                Some(FoundIn::Own)
            } else {
                self.read_in_a_base(kind, key, buffer).then_some(FoundIn::Base)
            }
        };
        found().or_else(|| self.refresh_after_miss().then(found).flatten())
    }

    /// Queues a record for the writer, without waiting for the disk. It can be read at once. False: the record is
    /// dropped and counted, because the queue is full, the last write failed, or there is no writer.
    pub fn put(&self, kind: Kind, key: &Key, payload: Box<[u8]>) -> bool {
        if !self.shared.is_open() {
            self.shared.tallies.dropped(1);
            return false;
        }
        let queued = self.enqueue(kind, key, payload);
        if queued {
            self.shared.wake_for_records();
        }
        queued
    }

    /// [`Part::put`] without waking the writer. The writer itself calls it too, also while the stash closes.
    pub(crate) fn enqueue(&self, kind: Kind, key: &Key, payload: Box<[u8]>) -> bool {
        let fits = payload.len() <= MAX_PAYLOAD as usize;
        if !fits || !self.accepts() || !self.shared.reserve(payload.len()) {
            self.shared.tallies.dropped(1);
            return false;
        }
        // The caller holds the part, so this does not fail.
        let Some(part) = self.me.upgrade() else { return false };
        let payload = Arc::new(Payload(payload));
        let id = RecordId { kind, key: *key };
        let unseen = self.view.is_behind() && !self.is_itself_there(kind, key);
        self.recent.insert(id, Source::Queued(payload.clone()));
        self.shared.push(Pending { part, id, payload, since: Some(Instant::now()), unseen });
        true
    }

    /// Calls `each` with key and verified payload of every record of that kind, in the order of the disk. False: some
    /// could not be read for now.
    pub fn for_each(&self, kind: Kind, each: &mut dyn FnMut(&Key, &[u8])) -> bool {
        self.for_each_in_segments(kind, &never, each)
    }

    /// [`Part::for_each`] with the ages of segments. It reads no further record once `interrupted` says true, and then
    /// says false.
    pub(crate) fn for_each_in_segments(
        &self,
        kind: Kind,
        interrupted: &dyn Fn() -> bool,
        each: Each<'_>,
    ) -> bool {
        let mut told = HashSet::new();
        // What another process has merged away meanwhile stands in a file that a refresh finds.
        for _ in 0..MOST_PASSES {
            match self.for_each_untold(kind, interrupted, &mut told, each) {
                Pass::Whole => return true,
                Pass::Unread => return false,
                Pass::Gone if !self.refresh_now() => return false,
                Pass::Gone => {}
            }
        }
        false
    }

    /// [`Part::for_each_in_segments`] for those whose hash is not among the `told`, where it is put.
    fn for_each_untold(
        &self,
        kind: Kind,
        interrupted: &dyn Fn() -> bool,
        told: &mut HashSet<u64>,
        each: Each<'_>,
    ) -> Pass {
        let code = kind.position() as u8;
        let mut pass = Pass::Whole;
        let mut own = self.recent.all(kind);
        own.retain(|(key, _)| !told.contains(&table::hash(code, key)));
        let mut seen: HashSet<u64> = own.iter().map(|(key, _)| table::hash(code, key)).collect();
        seen.extend(&*told);
        let mut buffer = Vec::new();
        for (segment, row) in self.rows(kind, &mut seen, &mut pass) {
            if interrupted() {
                return Pass::Unread;
            }
            match segment.header_at(row.offset) {
                Ok(header) if self.read_known(kind, &header.key, &mut buffer) => {
                    told.insert(row.hash);
                    each(&header.key, &buffer);
                }
                // Damaged, which the next pass passes over, or gone since.
                Ok(_) => pass.note(Read::Gone),
                Err(Read::Damaged) => self.lose(&segment, &row),
                Err(why) => pass.note(why),
            }
        }
        sort::by(&mut own, |(_, one), (_, other)| place(one).cmp(&place(other)));
        for (key, _) in own {
            if interrupted() {
                return Pass::Unread;
            }
            if self.read_known(kind, &key, &mut buffer) {
                told.insert(table::hash(code, &key));
                each(&key, &buffer);
            }
        }
        pass
    }

    /// The newest row of each record of that kind in the segments, in the order of the disk, but for hashes that are
    /// `seen`, where theirs are put.
    fn rows(&self, kind: Kind, seen: &mut HashSet<u64>, pass: &mut Pass) -> Vec<(Arc<Segment>, Row)> {
        let code = kind.position() as u8;
        let damaged = || self.shared.tallies.damaged(1);
        let mut found = Vec::new();
        for segment in self.view.segments().iter() {
            let mut rows = match segment.rows(&DamagedIndex { damaged: &damaged, interrupted: &never }) {
                Ok(rows) => rows,
                Err(why) => {
                    pass.note(why);
                    continue;
                }
            };
            rows.retain(|row| {
                row.code == code && row.is_readable() && !self.view.is_lost(segment, row.offset)
            });
            sort::by_key(&mut rows, |row| Reverse(row.offset));
            rows.retain(|row| seen.insert(row.hash));
            found.extend(rows.into_iter().map(|row| (segment.clone(), row)));
        }
        sort::by(&mut found, |(one, row), (other, other_row)| {
            (one.name(), row.offset).cmp(&(other.name(), other_row.offset))
        });
        found
    }

    /// The number of records of that kind. Reads all indexes.
    pub fn len(&self, kind: Kind) -> usize {
        let code = kind.position() as u8;
        let mut seen: HashSet<u64> =
            self.recent.all(kind).iter().map(|(key, _)| table::hash(code, key)).collect();
        self.rows(kind, &mut seen, &mut Pass::Whole);
        seen.len()
    }

    /// Whether there may be a record of that kind, in a base too. False is certain.
    pub fn has_any(&self, kind: Kind) -> bool {
        let in_segments = || self.view.segments().iter().any(|segment| segment.has_any(kind));
        let in_bases = || {
            let (bases, place) = self.bases();
            bases.have_any(&self.shared, &place, kind)
        };
        self.recent.len(kind) > 0 || !self.view.never_had_any() && in_segments() || in_bases()
    }

    /// Whether there are certainly fewer than so many records of that kind. Reads no index, so what is in several
    /// segments, or in one without an index, counts several times. Of a part that is not read as a whole, and of bases
    /// that have some, it is not known.
    pub fn has_fewer_than(&self, limit: usize, kind: Kind) -> bool {
        let in_bases = || {
            let (bases, place) = self.bases();
            bases.have_any(&self.shared, &place, kind)
        };
        let in_segments =
            || self.view.segments().iter().map(|segment| segment.count(kind) as usize).sum::<usize>();
        !self.may_have_more() && self.recent.len(kind) + in_segments() < limit && !in_bases()
    }

    /// Whether the part itself has the record, or a base has it with these bytes. A base is not corrected: what a
    /// program cannot use of it is recorded in its own stash.
    pub fn has(&self, kind: Kind, key: &Key, bytes: &[u8]) -> bool {
        if self.is_here(kind, key) {
            return true;
        }
        let mut buffer = Vec::new();
        self.is_in_a_base(kind, key) && self.read_in_a_base(kind, key, &mut buffer) && buffer == bytes
            || self.refresh_after_miss() && self.is_here(kind, key)
    }

    /// Whether there is no record of any kind.
    pub fn is_empty(&self) -> bool {
        !Kind::ALL.iter().any(|&kind| self.has_any(kind))
    }

    /// [`Part::contains`] as far as this process knows.
    pub(super) fn is_there(&self, kind: Kind, key: &Key) -> bool {
        self.is_here(kind, key) || self.is_in_a_base(kind, key)
    }

    /// [`Part::is_there`] without the bases.
    fn is_here(&self, kind: Kind, key: &Key) -> bool {
        self.is_itself_there(kind, key) || kind == Kind::Artifact && self.is_reference_there(key)
    }

    fn is_in_a_base(&self, kind: Kind, key: &Key) -> bool {
        let (bases, place) = self.bases();
        bases.contain(&self.shared, &place, kind, key)
    }

    /// [`Part::is_there`] without following references.
    pub(super) fn is_itself_there(&self, kind: Kind, key: &Key) -> bool {
        self.recent.with(&RecordId { kind, key: *key }, |_| ()).is_some() || self.find(kind, key, |_, _| true)
    }

    /// How many bytes the payload of an artifact takes as it is stored. Nothing is read but the reference that may
    /// stand for it. None: this part has none of its own.
    pub fn artifact_length(&self, key: &Key) -> Option<u64> {
        self.length(Kind::Artifact, key).or_else(|| {
            let same = self.same_of(key, &mut Vec::new())?;
            self.length(Kind::Artifact, &same.target)
        })
    }

    /// How many bytes the payload of a record takes as it is stored. Nothing is read. None: this part has none of its
    /// own, as far as this process knows.
    pub fn length(&self, kind: Kind, key: &Key) -> Option<u64> {
        let known = self.recent.with(&RecordId { kind, key: *key }, |entry| match &entry.source {
            Source::Queued(payload) => payload.0.len() as u64,
            Source::Disk(location) => location.length.into(),
        });
        known.or_else(|| {
            let mut length = None;
            self.find(kind, key, |_, row| {
                length = Some(row.stored.into());
                true
            });
            length
        })
    }

    #[cold]
    fn is_reference_there(&self, key: &Key) -> bool {
        self.same_of(key, &mut Vec::new())
            .is_some_and(|same| self.is_itself_there(Kind::Artifact, &same.target))
    }

    /// [`Part::read`] as far as this process knows.
    pub(super) fn read_known(&self, kind: Kind, key: &Key, buffer: &mut Vec<u8>) -> bool {
        self.read_here(kind, key, buffer) || self.read_in_a_base(kind, key, buffer)
    }

    /// [`Part::read_known`] without the bases.
    fn read_here(&self, kind: Kind, key: &Key, buffer: &mut Vec<u8>) -> bool {
        self.read_itself(kind, key, buffer) || kind == Kind::Artifact && self.read_reference(key, buffer)
    }

    fn read_in_a_base(&self, kind: Kind, key: &Key, buffer: &mut Vec<u8>) -> bool {
        let (bases, place) = self.bases();
        bases.read(&self.shared, &place, kind, key, buffer)
    }

    #[cold]
    fn read_reference(&self, key: &Key, buffer: &mut Vec<u8>) -> bool {
        let Some(same) = self.same_of(key, buffer) else { return false };
        let complete =
            self.read_itself(Kind::Artifact, &same.target, buffer) && self.digests.complete(&same, buffer);
        if !complete {
            buffer.clear();
        }
        complete
    }

    /// The reference that stands for the artifact of this key. The content of `buffer` afterwards is not specified.
    pub(super) fn same_of(&self, key: &Key, buffer: &mut Vec<u8>) -> Option<Same> {
        if !self.has_any(Kind::Same) {
            return None;
        }
        self.read_itself(Kind::Same, key, buffer).then(|| Same::decode(buffer)).flatten()
    }

    /// [`Part::read_known`] without following references.
    pub(crate) fn read_itself(&self, kind: Kind, key: &Key, buffer: &mut Vec<u8>) -> bool {
        let id = RecordId { kind, key: *key };
        buffer.clear();
        // At most twice: the newest record, and the one that it superseded.
        for _ in 0..2 {
            let outcome = self.recent.with(&id, |entry| match &entry.source {
                Source::Queued(payload) => {
                    if !memory::reserve(buffer, payload.0.len()) {
                        return (Read::Failed, None);
                    }
                    buffer.extend_from_slice(&payload.0);
                    (Read::Good, None)
                }
                Source::Disk(location) => match location.read(key, buffer) {
                    lost @ (Read::Damaged | Read::Gone) => (lost, Some(location.clone())),
                    other => (other, None),
                },
            });
            match outcome {
                Some((Read::Good, _)) => return true,
                Some((Read::Gone, Some(location))) => {
                    self.recent.damaged(id, &location);
                }
                Some((_, Some(location))) => self.forget(id, &location),
                _ => break,
            }
        }
        let may_have_it = |segment: &Segment| kind != Kind::Same || segment.has_any(kind);
        self.find_among(kind, key, may_have_it, |segment, row| match segment.read_row(row, key, buffer) {
            Read::Good => true,
            Read::Damaged => {
                self.lose(segment, row);
                false
            }
            Read::Gone => {
                // The segment was merged into another one, which the next look-up must find.
                self.view.invalidate();
                false
            }
            Read::Other | Read::Failed => false,
        })
    }

    /// Gives the payload of every record of that kind and key in the segments' tables, in no order: those that a newer
    /// one has replaced are there, too, until their segments are merged.
    pub(crate) fn for_each_in_tables(&self, kind: Kind, key: &Key, each: &mut dyn FnMut(&[u8])) {
        let mut payload = Vec::new();
        self.find(kind, key, |segment, row| {
            if matches!(segment.read_row(row, key, &mut payload), Read::Good) {
                each(&payload);
            }
            false
        });
    }

    /// A recent record is damaged.
    fn forget(&self, id: RecordId, location: &Location) {
        if self.recent.damaged(id, location) {
            self.shared.tallies.damaged(1);
        }
    }

    /// A record of a segment's table is damaged.
    fn lose(&self, segment: &Segment, row: &Row) {
        if self.view.lose(segment, row.offset) {
            self.shared.tallies.damaged(1);
        }
    }

    /// Calls `each` with the rows of a record in the segments' tables, the newest first, until it says true.
    fn find(&self, kind: Kind, key: &Key, each: impl FnMut(&Arc<Segment>, &Row) -> bool) -> bool {
        self.find_among(kind, key, |_| true, each)
    }

    /// [`Part::find`] in those segments that are `wanted`.
    fn find_among(
        &self,
        kind: Kind,
        key: &Key,
        wanted: impl Fn(&Segment) -> bool,
        mut each: impl FnMut(&Arc<Segment>, &Row) -> bool,
    ) -> bool {
        if self.view.never_had_any() {
            return false;
        }
        let code = kind.position() as u8;
        let hash = table::hash(code, key);
        let damaged = || self.shared.tallies.damaged(1);
        let timer = OnceCell::new();
        self.view.segments().iter().filter(|segment| wanted(segment)).any(|segment| {
            let interrupted = || {
                let start = || Timer::of(self.shared.waits.refresh);
                let over = segment.is_put_off() || timer.get_or_init(start).is_over();
                if over {
                    self.fall_behind();
                }
                over
            };
            let instead = DamagedIndex { damaged: &damaged, interrupted: &interrupted };
            let found = segment.find(hash, &instead, |row| {
                row.code == code
                    && row.is_readable()
                    && !self.view.is_lost(segment, row.offset)
                    && each(segment, &row)
            });
            if found == Err(Read::Gone) {
                // As in `read_itself`.
                self.view.invalidate();
            }
            found == Ok(true)
        })
    }

    /// For the writer, before it writes a record: whether an older one of the same kind and key is in a segment.
    pub(crate) fn supersedes(&self, id: &RecordId) -> bool {
        self.recent.with(id, |entry| entry.older.is_some()) == Some(true)
            || self.find(id.kind, &id.key, |_, _| true)
    }

    /// For the writer: whether the part already has a record that was queued before all of the part was read. The older
    /// record stays where the key determines the payload, and where the same work of a driver was recorded twice: an
    /// artifact that was compiled twice, or a time that was measured twice.
    pub(crate) fn has_already(&self, id: &RecordId, payload: &Payload) -> bool {
        match id.kind {
            Kind::Use => false,
            Kind::Module
            | Kind::Layout
            | Kind::RenderPass
            | Kind::Recipe
            | Kind::DeviceConfiguration
            | Kind::Verified
            | Kind::Same
            | Kind::Cost
            | Kind::Found => self.supersedes(id),
            Kind::Artifact => self.supersedes(id) || self.is_reference_there(&id.key),
            Kind::IdentifierPair | Kind::CrashCount | Kind::Failed | Kind::Estimates => {
                let (mut buffer, mut is_equal) = (Vec::new(), false);
                self.find(id.kind, &id.key, |segment, row| {
                    let good = segment.read_row(row, &id.key, &mut buffer) == Read::Good;
                    is_equal = good && buffer == *payload.0;
                    good
                });
                is_equal
            }
        }
    }
}

/// The order in which a disk reads records soonest, then those that are in memory.
fn place(source: &Source) -> (u8, &str, u64) {
    match source {
        Source::Disk(location) => (0, location.segment.name(), location.offset),
        Source::Queued(_) => (1, "", 0),
    }
}
