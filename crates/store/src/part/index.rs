//! Which records a part has, and where: a map that every thread reads without a lock.

use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use papaya::{Compute, HashMap, Operation, ResizeMode};

use crate::format::record::{Key, Kind};
use crate::segment::append::{Payload, Slot};
use crate::segment::file::{Location, Segment};

/// Takes the number that [`Slot`] made of itself.
#[derive(Default)]
pub(crate) struct Ready(u64);

impl Hasher for Ready {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.0 = self.0.rotate_left(8) ^ u64::from(byte));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

/// Where a record's payload is.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// Still in memory.
    Queued(Arc<Payload>),
    /// In a segment.
    Disk(Location),
}

/// A record of the part.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) place: Place,
    /// The record that this one superseded, should it turn out to be damaged.
    pub(crate) older: Option<Location>,
}

/// The map from slots to entries.
#[derive(Debug)]
pub(crate) struct Index {
    map: HashMap<Slot, Entry, BuildHasherDefault<Ready>>,
    counts: [AtomicUsize; Kind::ALL.len()],
}

impl Default for Index {
    fn default() -> Self {
        // `compute`, by which everything comes in, takes no part in the map's incremental resizing: every look-up
        // would go through all the tables that the map has outgrown.
        let map = HashMap::builder().hasher(BuildHasherDefault::default()).resize_mode(ResizeMode::Blocking);
        Index { map: map.build(), counts: Default::default() }
    }
}

impl Index {
    /// Calls `with` on the entry, if there is one.
    pub(crate) fn with<T>(&self, slot: &Slot, with: impl FnOnce(&Entry) -> T) -> Option<T> {
        self.map.pin().get(slot).map(with)
    }

    /// How many records of a kind there are.
    pub(crate) fn len(&self, kind: Kind) -> usize {
        self.counts[kind.position()].load(Ordering::Relaxed)
    }

    /// Every record of a kind, in no order.
    pub(crate) fn all(&self, kind: Kind) -> Vec<(Key, Place)> {
        let pinned = self.map.pin();
        let of_kind = pinned.iter().filter(|(slot, _)| slot.kind == kind);
        of_kind.map(|(slot, entry)| (slot.key, entry.place.clone())).collect()
    }

    /// Puts a record in, over an older one of the same slot.
    pub(crate) fn insert(&self, slot: Slot, place: Place) {
        let pinned = self.map.pin();
        let keeps_older = slot.kind != Kind::Use;
        let outcome = pinned.compute(slot, |old| {
            let older = old.filter(|_| keeps_older).and_then(|(_, entry)| match &entry.place {
                Place::Disk(location) => Some(location.clone()),
                Place::Queued(_) => entry.older.clone(),
            });
            let entry = Entry { place: place.clone(), older };
            Operation::Insert::<Entry, ()>(entry)
        });
        if matches!(outcome, Compute::Inserted(..)) {
            self.counts[slot.kind.position()].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The writer has written `payload` to `location`: from now on it is read from there, unless a newer
    /// record has taken the slot meanwhile: that one supersedes it.
    pub(crate) fn written(&self, slot: Slot, payload: &Arc<Payload>, location: &Location) {
        self.map.pin().compute(slot, |old| match old {
            Some((_, entry)) if is(&entry.place, payload) => Operation::Insert::<Entry, ()>(Entry {
                place: Place::Disk(location.clone()),
                older: entry.older.clone(),
            }),
            Some((_, entry)) if slot.kind != Kind::Use && matches!(entry.place, Place::Queued(_)) => {
                Operation::Insert(Entry { place: entry.place.clone(), older: Some(location.clone()) })
            }
            _ => Operation::Abort(()),
        });
    }

    /// The same where `other` was written in place of the record of `slot`. Readers look for that one first, so there is no
    /// moment at which they find neither.
    pub(crate) fn written_as(&self, slot: Slot, payload: &Arc<Payload>, other: Slot, location: &Location) {
        self.insert(other, Place::Disk(location.clone()));
        self.unwritten(slot, payload);
    }

    /// The records of these segments are found by their own tables from now on, or are gone.
    pub(crate) fn forget_segments(&self, segments: &[Arc<Segment>]) {
        if segments.is_empty() {
            return;
        }
        let is_in =
            |location: &Location| segments.iter().any(|segment| Arc::ptr_eq(&location.segment, segment));
        let place_is_in = |place: &Place| matches!(place, Place::Disk(location) if is_in(location));
        let older_is_in = |entry: &Entry| entry.older.as_ref().is_some_and(is_in);
        let pinned = self.map.pin();
        let concerned = pinned.iter().filter(|(_, entry)| place_is_in(&entry.place) || older_is_in(entry));
        let concerned: Vec<Slot> = concerned.map(|(slot, _)| *slot).collect();
        for slot in concerned {
            let outcome = pinned.compute(slot, |old| match old {
                Some((_, entry)) if place_is_in(&entry.place) => Operation::<Entry, ()>::Remove,
                Some((_, entry)) if older_is_in(entry) => {
                    Operation::Insert(Entry { place: entry.place.clone(), older: None })
                }
                _ => Operation::Abort(()),
            });
            if matches!(outcome, Compute::Removed(..)) {
                self.counts[slot.kind.position()].fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// `payload` could not be written: what it superseded counts again.
    pub(crate) fn unwritten(&self, slot: Slot, payload: &Arc<Payload>) {
        self.fall_back(slot, |place| is(place, payload));
    }

    /// The record at `location` is damaged: what it superseded counts again. False where somebody else
    /// noticed before.
    pub(crate) fn damaged(&self, slot: Slot, location: &Location) -> bool {
        self.fall_back(slot, |place| match place {
            Place::Disk(current) => {
                Arc::ptr_eq(&current.segment, &location.segment) && current.offset == location.offset
            }
            Place::Queued(_) => false,
        })
    }

    fn fall_back(&self, slot: Slot, applies: impl Fn(&Place) -> bool) -> bool {
        let pinned = self.map.pin();
        let outcome = pinned.compute(slot, |old| match old {
            Some((_, entry)) if applies(&entry.place) => match &entry.older {
                Some(older) => Operation::Insert(Entry { place: Place::Disk(older.clone()), older: None }),
                None => Operation::Remove,
            },
            _ => Operation::Abort(()),
        });
        match outcome {
            Compute::Removed(..) => {
                self.counts[slot.kind.position()].fetch_sub(1, Ordering::Relaxed);
                true
            }
            Compute::Aborted(()) => false,
            Compute::Inserted(..) | Compute::Updated { .. } => true,
        }
    }
}

fn is(place: &Place, payload: &Arc<Payload>) -> bool {
    matches!(place, Place::Queued(queued) if Arc::ptr_eq(queued, payload))
}
