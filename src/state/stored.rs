//! The parts of the stash that a device works with.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::switches::{self, CacheKinds};
use crate::recipe::check;
use crate::stats::{Count, Counters};
use vkstash_store::base::memory;
use vkstash_store::format::record::{Key, Kind};
use vkstash_store::part::open::Part;
use vkstash_store::stash::open::Stash;

/// The parts of the stash that a device works with.
pub struct Stored {
    /// The stash.
    pub stash: Arc<Stash>,
    /// Modules, recipes and what they name.
    pub portable: Arc<Part>,
    /// Artifacts and identifier pairs of this device header.
    pub device: Arc<Part>,
    checked: Checked,
}

impl Stored {
    /// Nothing of it is read yet.
    pub fn new(stash: Arc<Stash>, device: Arc<Part>) -> Stored {
        let portable = stash.portable().clone();
        Stored { stash, portable, device, checked: Checked::default() }
    }

    /// Queues a portable record, which the caller has found missing.
    pub fn put(&self, counters: &Counters, kind: Kind, key: &Key, bytes: &[u8]) {
        self.put_record(counters, kind, key, memory::copied(bytes).map(Vec::into_boxed_slice));
    }

    /// Queues a portable record that is not there. None: there was no memory for it.
    fn put_record(&self, counters: &Counters, kind: Kind, key: &Key, record: Option<Box<[u8]>>) -> bool {
        let queued = record.is_some_and(|record| self.portable.put(kind, key, record));
        if !queued {
            counters.count(Count::Dropped);
        }
        queued
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
