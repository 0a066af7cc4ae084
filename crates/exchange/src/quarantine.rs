//! Quarantine travels with what it is about: an artifact that processes died of where the archive was made is not
//! offered to a driver here either. What the stash has already is its own, of which the archive says nothing.

use std::collections::{HashMap, HashSet};

use vkstash_model::record::{CRASH_LIMIT, Key};
use vkstash_store::format::device::DeviceHeader;

/// An artifact, by its device and key.
type Id = (DeviceHeader, Key);

/// What an archive says of the artifacts of an application.
#[derive(Default)]
pub(crate) struct Quarantine {
    /// The newest count of crashes, and the age of its file.
    crashes: HashMap<Id, (u64, u8)>,
    /// Artifacts that were taken before a count that reaches the limit was read.
    taken: HashSet<Id>,
}

impl Quarantine {
    /// Notes a count of crashes. Files come in any order, the records of one in that of their writing.
    pub(crate) fn note(&mut self, of: &DeviceHeader, key: &Key, age: u64, payload: &[u8]) {
        let count = payload.first().copied().unwrap_or(0);
        let newest = self.crashes.entry((of.clone(), *key)).or_default();
        if age >= newest.0 {
            *newest = (age, count);
        }
    }

    /// The artifact has the data of the target.
    pub(crate) fn note_same(&mut self, of: &DeviceHeader, key: &Key, target: &Key) {
        if let Some(&(age, count)) = self.crashes.get(&(of.clone(), *target)) {
            let own = self.crashes.entry((of.clone(), *key)).or_insert((age, count));
            own.1 = own.1.max(count);
        }
    }

    /// Whether the artifact, which is taken now, is known to be quarantined.
    pub(crate) fn takes(&mut self, of: &DeviceHeader, key: &Key) -> bool {
        let id = (of.clone(), *key);
        let is_quarantined = self.crashes.get(&id).is_some_and(|(_, count)| *count >= CRASH_LIMIT);
        if !is_quarantined {
            self.taken.insert(id);
        }
        is_quarantined
    }

    /// The artifacts that were taken before it was known that they are quarantined.
    pub(crate) fn late(&mut self) -> Vec<Id> {
        let taken = std::mem::take(&mut self.taken);
        let is_bad = |id: &Id| self.crashes.get(id).is_some_and(|(_, count)| *count >= CRASH_LIMIT);
        taken.into_iter().filter(is_bad).collect()
    }
}
