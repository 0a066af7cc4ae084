//! The records of a part that this process finds in no table of a segment: those that wait for the writer, and those
//! that were appended to segments since the segments' tables were read. Threads read this map without a lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use papaya::{Compute, HashMap, Operation, ResizeMode};

use crate::segment::append::{Payload, RecordId};
use crate::segment::file::{Location, Segment};
use vkstash_host::keyed::Keyed;
use vkstash_model::record::{Key, Kind};

/// Where the payload of a record is.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// In memory, until the writer has written it.
    Queued(Arc<Payload>),
    /// In a segment.
    Disk(Location),
}

/// The newest record of an id.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) source: Source,
    /// The superseded record, which is read if the newest one turns out to be damaged.
    pub(crate) older: Option<Location>,
}

/// A map from ids to the newest records.
#[derive(Debug)]
pub(crate) struct RecentRecords {
    map: HashMap<RecordId, Entry, Keyed>,
    counts: [AtomicUsize; Kind::ALL.len()],
}

impl Default for RecentRecords {
    fn default() -> Self {
        // Entries are inserted with `compute`, which does not help with incremental resizing. Look-ups would then go
        // through every table that the map has outgrown.
        let map = HashMap::builder().hasher(Keyed::default()).resize_mode(ResizeMode::Blocking);
        RecentRecords { map: map.build(), counts: Default::default() }
    }
}

impl RecentRecords {
    /// Calls `with` with the entry, if there is one.
    pub(crate) fn with<T>(&self, id: &RecordId, with: impl FnOnce(&Entry) -> T) -> Option<T> {
        // In the first run of a program most look-ups are for kinds of which there is no record.
        if self.len(id.kind) == 0 {
            return None;
        }
        self.map.pin().get(id).map(with)
    }

    /// The number of entries of a kind.
    pub(crate) fn len(&self, kind: Kind) -> usize {
        // A thread that reads 0 must see what the thread that removed the last entry had written before: the look-up
        // goes on to the place where the record is now.
        self.counts[kind.position()].load(Ordering::Acquire)
    }

    /// Every entry of a kind, in no order.
    pub(crate) fn all(&self, kind: Kind) -> Vec<(Key, Source)> {
        let pinned = self.map.pin();
        let of_kind = pinned.iter().filter(|(id, _)| id.kind == kind);
        of_kind.map(|(id, entry)| (id.key, entry.source.clone())).collect()
    }

    /// Adds the newest record of an id.
    pub(crate) fn insert(&self, id: RecordId, source: Source) {
        let pinned = self.map.pin();
        let keeps_older = remembers_superseded(id.kind);
        // Counted before the entry is there: a reader that finds a count of 0 does not look into the map.
        let count = &self.counts[id.kind.position()];
        count.fetch_add(1, Ordering::AcqRel);
        let outcome = pinned.compute(id, |old| {
            let older = old.filter(|_| keeps_older).and_then(|(_, entry)| match &entry.source {
                Source::Disk(location) => Some(location.clone()),
                Source::Queued(_) => entry.older.clone(),
            });
            let entry = Entry { source: source.clone(), older };
            Operation::Insert::<Entry, ()>(entry)
        });
        if !matches!(outcome, Compute::Inserted(..)) {
            count.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// The writer has written `payload` to `location`, from where it is read from now on. If a newer record of the id
    /// was queued meanwhile, that one supersedes it.
    pub(crate) fn written(&self, id: RecordId, payload: &Arc<Payload>, location: &Location) {
        self.map.pin().compute(id, |old| match old {
            Some((_, entry)) if is(&entry.source, payload) => Operation::Insert::<Entry, ()>(Entry {
                source: Source::Disk(location.clone()),
                older: entry.older.clone(),
            }),
            Some((_, entry))
                if remembers_superseded(id.kind) && matches!(entry.source, Source::Queued(_)) =>
            {
                Operation::Insert(Entry { source: entry.source.clone(), older: Some(location.clone()) })
            }
            _ => Operation::Abort(()),
        });
    }

    /// The writer has written a record of `other` in place of `payload`. A reader looks for `id` first, so `other`
    /// must be there before `id` is removed.
    pub(crate) fn written_as(
        &self,
        id: RecordId,
        payload: &Arc<Payload>,
        other: RecordId,
        location: &Location,
    ) {
        self.insert(other, Source::Disk(location.clone()));
        self.unwritten(id, payload);
    }

    /// Removes the records of these segments: their own tables list them now, or the files are gone.
    pub(crate) fn forget_segments(&self, segments: &[Arc<Segment>]) {
        if segments.is_empty() {
            return;
        }
        let is_in =
            |location: &Location| segments.iter().any(|segment| Arc::ptr_eq(&location.segment, segment));
        let source_is_in = |source: &Source| matches!(source, Source::Disk(location) if is_in(location));
        let older_is_in = |entry: &Entry| entry.older.as_ref().is_some_and(is_in);
        let pinned = self.map.pin();
        let concerned = pinned.iter().filter(|(_, entry)| source_is_in(&entry.source) || older_is_in(entry));
        let concerned: Vec<RecordId> = concerned.map(|(id, _)| *id).collect();
        for id in concerned {
            let outcome = pinned.compute(id, |old| match old {
                Some((_, entry)) if source_is_in(&entry.source) => Operation::<Entry, ()>::Remove,
                Some((_, entry)) if older_is_in(entry) => {
                    Operation::Insert(Entry { source: entry.source.clone(), older: None })
                }
                _ => Operation::Abort(()),
            });
            if matches!(outcome, Compute::Removed(..)) {
                self.counts[id.kind.position()].fetch_sub(1, Ordering::AcqRel);
            }
        }
    }

    /// `payload` was not written. The record that it superseded is the newest again.
    pub(crate) fn unwritten(&self, id: RecordId, payload: &Arc<Payload>) {
        self.fall_back(id, |source| is(source, payload));
    }

    /// The record at `location` is damaged. The record that it superseded is the newest again. False: that is known.
    pub(crate) fn damaged(&self, id: RecordId, location: &Location) -> bool {
        self.fall_back(id, |source| match source {
            Source::Disk(current) => {
                Arc::ptr_eq(&current.segment, &location.segment) && current.offset == location.offset
            }
            Source::Queued(_) => false,
        })
    }

    fn fall_back(&self, id: RecordId, applies: impl Fn(&Source) -> bool) -> bool {
        let pinned = self.map.pin();
        let outcome = pinned.compute(id, |old| match old {
            Some((_, entry)) if applies(&entry.source) => match &entry.older {
                Some(older) => Operation::Insert(Entry { source: Source::Disk(older.clone()), older: None }),
                None => Operation::Remove,
            },
            _ => Operation::Abort(()),
        });
        match outcome {
            Compute::Removed(..) => {
                self.counts[id.kind.position()].fetch_sub(1, Ordering::AcqRel);
                true
            }
            Compute::Aborted(()) => false,
            Compute::Inserted(..) | Compute::Updated { .. } => true,
        }
    }
}

/// Whether a damaged record of this kind is replaced by the one that it superseded. Every run writes a new use of the
/// same keys, so most uses supersede one; a use that is lost costs a place in the order of use and no compile, so no
/// segment is kept open for the older one.
fn remembers_superseded(kind: Kind) -> bool {
    kind != Kind::Use
}

fn is(source: &Source, payload: &Arc<Payload>) -> bool {
    matches!(source, Source::Queued(queued) if Arc::ptr_eq(queued, payload))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys of imported records are anybody's. With a hash that leaves bytes out the map grows until memory runs out.
    #[test]
    fn keys_that_differ_in_any_two_bytes_are_spread() {
        let recent = RecentRecords::default();
        let payload = Arc::new(Payload(Box::default()));
        for at in 0..31 {
            for number in 0..=u16::MAX / 16 {
                let mut key = [7; 32];
                key[at..at + 2].copy_from_slice(&number.to_le_bytes());
                recent.insert(RecordId { kind: Kind::Module, key }, Source::Queued(payload.clone()));
            }
        }
        assert!(recent.len(Kind::Module) > 31 * 3_800, "{}", recent.len(Kind::Module));
    }
}
