//! The parts of the stash that a device works with.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::switches::{self, CacheKinds};
use crate::stats::Counters;
use vkstash_host::memory;
use vkstash_host::once::OnceLock;
use vkstash_model::check;
use vkstash_model::counters::Count;
use vkstash_model::failed::{Event, Failed};
use vkstash_model::key;
use vkstash_model::record::{Key, Kind};
use vkstash_recipe::device_configuration::DeviceConfiguration;
use vkstash_store::part::open::Part;
use vkstash_store::stash::open::Stash;
use vkstash_store::stash::siblings::Siblings;
use vkstash_store::stash::uses::DeviceUses;

/// The parts of the stash that a device works with.
pub struct Stored {
    /// The stash.
    pub stash: Arc<Stash>,
    /// Modules, recipes and what they name.
    pub portable: Arc<Part>,
    /// Artifacts and identifier pairs of this device header.
    pub device: Arc<Part>,
    /// What the device has used.
    pub uses: DeviceUses,
    /// Artifacts of devices that enable other features, for what `device` does not have.
    siblings: Option<Siblings>,
    /// Binaries of shader objects of other versions of the driver, too.
    versions: Option<Siblings>,
    /// The digests of features of other devices that enable no more than this one.
    within: OnceLock<Vec<Key>>,
    checked: Checked,
}

/// The part of the stash that an artifact was in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptIn {
    /// In the part of this device.
    Own,
    /// In the part of this device in a base.
    Base,
    /// In the part of a device that enables other features.
    Sibling,
}

/// The driver has refused the artifacts that all siblings have of a key.
pub struct AllRefused;

impl Stored {
    /// Nothing of it is read yet, and nothing used. `siblings` and `versions`: of the device part, where the driver
    /// takes their artifacts and shader objects.
    pub fn new(
        stash: Arc<Stash>,
        device: Arc<Part>,
        uses: DeviceUses,
        siblings: Option<Siblings>,
        versions: Option<Siblings>,
    ) -> Stored {
        let portable = stash.portable().clone();
        let within = OnceLock::new();
        Stored { stash, portable, device, uses, siblings, versions, within, checked: Checked::default() }
    }

    /// Whether there is an artifact of this key.
    pub fn has_artifact(&self, key: &Key) -> bool {
        self.device.contains(Kind::Artifact, key)
            || self.siblings.as_ref().is_some_and(|siblings| siblings.contains(key))
    }

    /// Notes a use by this device. True: it is the first one.
    pub fn note_use(&self, key: &Key) -> bool {
        self.stash.note_use(&self.uses, key)
    }

    /// [`Stored::note_use`] of an artifact of the device's own part or a base that the driver has taken.
    pub fn note_taken(&self, key: &Key) -> bool {
        self.stash.note_taken(&self.uses, &self.device, key)
    }

    /// Reads an artifact that was made on a device that enables other features, from the sibling of this number or a
    /// later one. Returns that sibling's number.
    pub fn read_sibling(&self, key: &Key, from: usize, buffer: &mut Vec<u8>) -> Option<usize> {
        self.siblings.as_ref()?.read(key, from, buffer)
    }

    /// [`Stored::read_sibling`] for shader objects, whose binaries other versions of the driver may have made.
    pub fn read_version(&self, key: &Key, from: usize, buffer: &mut Vec<u8>) -> Option<usize> {
        self.versions.as_ref()?.read(key, from, buffer)
    }

    /// Finds the siblings that workers may make pipelines of, for a device that enables this: what made their artifacts
    /// could create nothing that this device may not create. False: they are not read yet, or the portable part is not.
    pub fn are_siblings_read(&self, own: &DeviceConfiguration) -> bool {
        let Some(siblings) = &self.siblings else { return true };
        if self.portable.is_incomplete() {
            return false;
        }
        self.within.get_or_init(|| self.features_within(own)).is_empty() || siblings.are_open()
    }

    /// The digests of features of the recorded devices that enable no more than this one.
    fn features_within(&self, own: &DeviceConfiguration) -> Vec<Key> {
        let mut within = Vec::new();
        let own_digest = own.features_digest().ok();
        self.portable.for_each(Kind::DeviceConfiguration, &mut |digest, record| {
            let is_true = check::is_true(Kind::DeviceConfiguration, digest, record);
            let recorded = key::decode::<DeviceConfiguration>(record).ok().filter(|_| is_true);
            let features = recorded.filter(|recorded| recorded.is_within(own));
            let features = features.and_then(|recorded| recorded.features_digest().ok());
            let is_new = |digest: &Key| Some(*digest) != own_digest && !within.contains(digest);
            within.extend(features.filter(is_new));
        });
        within
    }

    /// Whether there is an artifact of which a worker may make the pipeline.
    pub fn has_makeable(&self, key: &Key) -> bool {
        self.device.contains(Kind::Artifact, key)
            || self.of_those_within().is_some_and(|(siblings, which)| siblings.has_of(&which, key))
    }

    /// Reads an artifact of which a worker may make the pipeline, if the own part has none.
    pub fn read_within(&self, key: &Key, buffer: &mut Vec<u8>) -> bool {
        self.of_those_within().is_some_and(|(siblings, which)| siblings.read_of(&which, key, buffer))
    }

    fn of_those_within(&self) -> Option<(&Siblings, impl Fn(&Key) -> bool)> {
        let within = self.within.get().filter(|within| !within.is_empty())?;
        Some((self.siblings.as_ref()?, |digest: &Key| within.contains(digest)))
    }

    /// Reads the artifact of this key that the driver has taken, or would be offered first.
    pub fn read_taken(&self, key: &Key, buffer: &mut Vec<u8>) -> bool {
        self.device.read(Kind::Artifact, key, buffer)
            || self.siblings.as_ref().is_some_and(|siblings| siblings.read_taken(key, buffer))
    }

    /// What is known to have failed with a key, in this run or an earlier one.
    pub fn failed(&self, key: &Key) -> Failed {
        let mut record = Vec::new();
        if !self.device.has_any(Kind::Failed) || !self.device.read(Kind::Failed, key, &mut record) {
            return Failed::Nothing;
        }
        Failed::of(&record)
    }

    /// Notes what has happened to a key. False: nothing new is known, or the store does not take it, which is found out
    /// again.
    pub fn note_failed(&self, key: &Key, event: Event) -> bool {
        let before = self.failed(key);
        let after = before.after(event);
        after != before && after.record().is_some_and(|record| self.device.put(Kind::Failed, key, record))
    }

    /// The number of the sibling whose artifact of this key is offered first. Err: none is offered.
    pub fn first_sibling(&self, key: &Key) -> Result<Option<usize>, AllRefused> {
        match self.failed(key) {
            Failed::SiblingsRefused => Err(AllRefused),
            // One that is not there any more says nothing.
            Failed::SiblingTaken(name) => Ok(self.siblings.as_ref().and_then(|all| all.number(&name))),
            _ => Ok(None),
        }
    }

    /// The driver has taken the artifact of the sibling of this number. `is_kept`: later runs offer it first.
    pub fn note_taken_sibling(&self, key: &Key, number: usize, is_kept: bool) {
        let Some(siblings) = &self.siblings else { return };
        siblings.note_taken(key, number);
        if let Some(name) = siblings.name(number).filter(|_| is_kept) {
            self.note_failed(key, Event::SiblingTaken(name));
        }
    }

    /// Reads the identity of the module that a driver's identifier stands for. Identifiers are the driver's, whatever a
    /// device enables.
    pub fn read_pair(&self, digest: &Key, buffer: &mut Vec<u8>) -> bool {
        self.device.read(Kind::IdentifierPair, digest, buffer)
            || self.siblings.as_ref().is_some_and(|siblings| siblings.read_pair(digest, buffer))
    }

    /// The driver has refused all siblings' artifacts of this key: none is offered any more.
    pub fn note_refused_siblings(&self, key: &Key) {
        if let Some(siblings) = &self.siblings {
            siblings.note_refused(key);
        }
        self.note_failed(key, Event::SiblingsRefused);
    }

    /// Queues a record of the device's own part. False: the store does not take it, which is counted.
    pub fn put_own(&self, counters: &Counters, kind: Kind, key: &Key, record: Box<[u8]>) -> bool {
        counted(counters, self.device.put(kind, key, record))
    }

    /// Queues a portable record, which the caller has found missing.
    pub fn put(&self, counters: &Counters, kind: Kind, key: &Key, bytes: &[u8]) {
        self.put_record(counters, kind, key, memory::copied(bytes).map(Vec::into_boxed_slice));
    }

    /// Queues a portable record that is not there. None: there was no memory for it.
    fn put_record(&self, counters: &Counters, kind: Kind, key: &Key, record: Option<Box<[u8]>>) -> bool {
        counted(counters, record.is_some_and(|record| self.portable.put(kind, key, record)))
    }

    /// Whether the stash has the code of a module, as far as anybody has looked.
    pub fn has_module(&self, identity: &Key) -> bool {
        !switches::is_off(CacheKinds::CONVERSIONS)
            && self.checked.verdict(identity) != Some(Verdict::Wrong)
            && self.portable.contains(Kind::Module, identity)
    }

    /// Queues a module's record, also over one that holds something else. None: there was no memory for it.
    pub fn put_module(&self, counters: &Counters, identity: &Key, record: Option<Box<[u8]>>) {
        if switches::is_off(CacheKinds::CONVERSIONS) {
            return;
        }
        let queued = self.put_record(counters, Kind::Module, identity, record);
        if queued && self.checked.verdict(identity) == Some(Verdict::Wrong) {
            // If it cannot be written, the other one counts again.
            self.checked.note(identity, Verdict::Doubtful);
        }
    }

    /// Reads a module's record. What is compiled under an identity must be what it stands for, and a record's checksum
    /// says nothing about that: once a process the record is hashed. False: not there, or something else.
    pub fn read_module(&self, identity: &Key, buffer: &mut Vec<u8>) -> bool {
        // A damaged record is not there from now on.
        if switches::is_off(CacheKinds::CONVERSIONS) || !self.portable.read(Kind::Module, identity, buffer) {
            buffer.clear();
            return false;
        }
        let before = self.checked.verdict(identity);
        if before == Some(Verdict::Right) {
            return true;
        }
        let right = check::is_true(Kind::Module, identity, buffer);
        if !right {
            buffer.clear();
            self.checked.note(identity, Verdict::Wrong);
            if before != Some(Verdict::Wrong) {
                tracing::warn!("the stash holds something else under a module's identity; it is not used");
            }
        } else if before.is_none() {
            self.checked.note(identity, Verdict::Right);
        }
        right
    }
}

fn counted(counters: &Counters, queued: bool) -> bool {
    if !queued {
        counters.count(Count::Dropped);
    }
    queued
}

/// What became of looking at a module's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Right = 1,
    Wrong = 2,
    /// The program's own code was put over a wrong one: looked at each time.
    Doubtful = 3,
}

/// How many modules are remembered, at most.
const SLOTS: usize = 4096;

/// The modules whose records were hashed in this process: without a lock, and bounded. What another one takes the slot
/// of is hashed again.
#[derive(Default)]
struct Checked(OnceLock<Box<[AtomicU64]>>);

impl Checked {
    /// Where a module is remembered, and as what: 62 bits of its identity, and room for the verdict.
    fn place(identity: &Key) -> (usize, u64) {
        let word = |at: usize| identity[at..at + 8].iter().fold(0, |word, &byte| word << 8 | u64::from(byte));
        (word(0) as usize % SLOTS, word(8) & !3)
    }

    fn verdict(&self, identity: &Key) -> Option<Verdict> {
        let (slot, name) = Checked::place(identity);
        let word = self.0.get()?.get(slot)?.load(Ordering::Relaxed);
        let verdict = match word & 3 {
            1 => Verdict::Right,
            2 => Verdict::Wrong,
            3 => Verdict::Doubtful,
            _ => return None,
        };
        (word & !3 == name).then_some(verdict)
    }

    fn note(&self, identity: &Key, verdict: Verdict) {
        let (slot, name) = Checked::place(identity);
        let slots = self.0.get_or_init(|| (0..SLOTS).map(|_| AtomicU64::new(0)).collect());
        if let Some(slot) = slots.get(slot) {
            slot.store(name | verdict as u64, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_of_one_identity_and_the_memory_is_bounded() {
        let checked = Checked::default();
        let identity = |number: u32| {
            let mut key = [0; 32];
            key[4..8].copy_from_slice(&number.to_be_bytes());
            key[12..16].copy_from_slice(&(number << 2).to_be_bytes());
            key
        };
        assert_eq!(checked.verdict(&identity(0)), None);
        for number in 0..3 * SLOTS as u32 {
            let verdict = if number % 2 == 0 { Verdict::Right } else { Verdict::Wrong };
            checked.note(&identity(number), verdict);
            assert_eq!(checked.verdict(&identity(number)), Some(verdict));
        }
        assert_eq!(checked.verdict(&identity(0)), None, "another one has its slot");
        let last = identity(3 * SLOTS as u32 - 1);
        checked.note(&last, Verdict::Doubtful);
        assert_eq!(checked.verdict(&last), Some(Verdict::Doubtful));
        assert_eq!(checked.0.get().map(|slots| slots.len()), Some(SLOTS));
    }
}
