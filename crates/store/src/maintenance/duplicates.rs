//! Artifacts with equal data in the segments that are merged: one of them is written, the others become references.

use std::collections::{HashMap, HashSet};

use crate::bounds::Cause;
use crate::format::fingerprint::Fingerprint;
use crate::format::table;
use crate::maintenance::contents::{Live, PartContents, stays};
use vkstash_host::keyed::Keyed;
use vkstash_model::crash_count::CrashCount;
use vkstash_model::record::{Key, Kind};
use vkstash_model::same::{Same, data_of};

/// What a merge writes in place of an artifact or a reference.
pub(crate) enum Stored {
    /// The record itself.
    Itself,
    /// This reference.
    Reference(Same),
    /// Nothing: no reader finds the record.
    Nothing,
}

/// What a merge of segments of a device part has to know of artifacts.
pub(crate) struct Duplicates<'a> {
    contents: &'a PartContents,
    /// Artifacts with a crash count.
    crashed: HashSet<Key, Keyed>,
    /// Artifacts that references in other segments name.
    named_elsewhere: HashSet<Key, Keyed>,
    /// Hashes of artifact records in other segments. A reader would find them before a reference of the same key.
    elsewhere: HashSet<u64, Keyed>,
    /// Hashes of all artifact records of the part that are not evicted. `None`: not all of its segments can be read.
    all: Option<HashSet<u64, Keyed>>,
    /// Artifacts that are written and may be named, by the fingerprint of their data.
    targets: HashMap<Fingerprint, (Live, Key), Keyed>,
    /// All artifacts that are written as they are.
    written: HashSet<Key, Keyed>,
    /// Artifacts that became references, with the targets of these.
    moved: HashMap<Key, Key, Keyed>,
    buffer: Vec<u8>,
}

fn hash(key: &Key) -> u64 {
    table::hash(Kind::Artifact.position() as u8, key)
}

impl<'a> Duplicates<'a> {
    /// For a merge of these segments. `None` for a portable part, which has no artifacts.
    pub(crate) fn of(
        contents: &'a PartContents,
        inputs: &[usize],
        evicted: &HashMap<u64, Cause>,
    ) -> Option<Duplicates<'a>> {
        if !contents.is_of_a_device() {
            return None;
        }
        let mut crashed = HashSet::default();
        contents.for_each(Kind::CrashCount, |_, key, count| {
            if CrashCount::of(count).of_artifact > 0 {
                crashed.insert(*key);
            }
        });
        let mut named_elsewhere = HashSet::default();
        contents.for_each(Kind::Same, |live, _, payload| {
            if let Some(same) = Same::decode(payload).filter(|_| !inputs.contains(&live.member)) {
                named_elsewhere.insert(same.target);
            }
        });
        let mut elsewhere = HashSet::default();
        for (_, member) in contents.members.iter().enumerate().filter(|(at, _)| !inputs.contains(at)) {
            let rows = member.segment.known_rows();
            let artifacts = rows.iter().filter(|row| row.code == Kind::Artifact.position() as u8);
            elsewhere.extend(artifacts.map(|row| row.hash));
        }
        let artifacts = contents.of_kind(Kind::Artifact).filter(|live| stays(live, evicted));
        let all = contents.is_complete.then(|| artifacts.map(|live| live.row.hash).collect());
        Some(Duplicates {
            contents,
            crashed,
            named_elsewhere,
            elsewhere,
            all,
            targets: HashMap::default(),
            written: HashSet::default(),
            moved: HashMap::default(),
            buffer: Vec::new(),
        })
    }

    /// What is written for a record with this verified payload. The artifacts of a merge come before its references.
    pub(crate) fn stored(&mut self, live: &Live, kind: Kind, key: &Key, payload: &[u8]) -> Stored {
        match kind {
            Kind::Artifact => match self.reference(live, key, payload) {
                Some(same) => {
                    self.moved.insert(*key, same.target);
                    Stored::Reference(same)
                }
                None => {
                    self.written.insert(*key);
                    Stored::Itself
                }
            },
            Kind::Same => self.renewed(key, payload),
            _ => Stored::Itself,
        }
    }

    /// The reference for an artifact, if the same data was written before.
    fn reference(&mut self, live: &Live, key: &Key, payload: &[u8]) -> Option<Same> {
        let print = Fingerprint::of(payload)?;
        if self.crashed.contains(key) {
            return None;
        }
        let Some((other, target)) = self.targets.get(&print) else {
            self.targets.insert(print, (*live, *key));
            return None;
        };
        let has_the_data = self.contents.payload(other, target, &mut self.buffer)
            && data_of(&self.buffer) == data_of(payload);
        if !has_the_data || self.named_elsewhere.contains(key) || self.elsewhere.contains(&live.row.hash) {
            return None;
        }
        Same::of(payload, *target)
    }

    /// What is written for a reference.
    fn renewed(&self, key: &Key, payload: &[u8]) -> Stored {
        let Some(same) = Same::decode(payload) else { return Stored::Itself };
        if self.written.contains(key) || self.moved.contains_key(key) {
            return Stored::Nothing;
        }
        if let Some(target) = self.moved.get(&same.target) {
            return Stored::Reference(same.with_target(*target));
        }
        match &self.all {
            Some(all) if !all.contains(&hash(&same.target)) => Stored::Nothing,
            _ => Stored::Itself,
        }
    }
}
