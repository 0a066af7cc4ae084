//! The entries of a cache in memory. A find takes no lock; what is inserted is evicted by newer entries.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use papaya::HashMap;
use rustc_hash::FxBuildHasher;
use vkstash_host::memory;
use vkstash_host::sync::Mutex;

use crate::description::Limits;
use crate::error::Error;
use crate::pin;

/// An entry in memory.
struct Entry {
    /// The key, and the value after it.
    bytes: Vec<u8>,
    key: usize,
}

impl Entry {
    /// A copy, for which there may be no memory.
    fn copied(key: &[u8], value: &[u8]) -> Option<Entry> {
        Some(Entry { bytes: memory::joined(&[key, value])?, key: key.len() })
    }

    /// The value, if this is the entry of the key.
    fn value_of(&self, key: &[u8]) -> Option<&[u8]> {
        self.bytes.strip_prefix(key).filter(|_| self.key == key.len())
    }
}

/// What is needed to evict.
#[derive(Default)]
struct Order {
    /// The entries' hashes and sizes, the oldest first.
    queue: VecDeque<(u64, usize)>,
    bytes: usize,
}

/// Entries by the hashes of their keys, one for each hash.
pub(crate) struct Front {
    entries: HashMap<u64, Entry, FxBuildHasher>,
    order: Mutex<Order>,
    /// The limits: they grow, so what was there stays.
    most_bytes: AtomicUsize,
    most_entries: AtomicUsize,
    /// The number of the value file that the entries are in. Changed with `order` locked.
    number: AtomicU64,
    /// Hashes that were found on disk of late.
    found: [AtomicU64; FOUND],
}

/// How many hashes are remembered.
const FOUND: usize = 256;

impl Front {
    pub(crate) fn new(limits: &Limits) -> Front {
        Front {
            entries: HashMap::with_hasher(FxBuildHasher),
            order: Mutex::default(),
            most_bytes: AtomicUsize::new(limits.bytes),
            most_entries: AtomicUsize::new(limits.entries),
            number: AtomicU64::new(0),
            found: [const { AtomicU64::new(0) }; FOUND],
        }
    }

    /// From now on the larger one of each limit counts.
    pub(crate) fn allow(&self, limits: &Limits) {
        self.most_bytes.fetch_max(limits.bytes, Ordering::Relaxed);
        self.most_entries.fetch_max(limits.entries, Ordering::Relaxed);
    }

    /// How many bytes of keys and values it may hold.
    pub(crate) fn most_bytes(&self) -> usize {
        self.most_bytes.load(Ordering::Relaxed)
    }

    fn most_entries(&self) -> usize {
        self.most_entries.load(Ordering::Relaxed)
    }

    /// Whether an entry of that size can be in memory at all.
    pub(crate) fn has_room_for(&self, size: usize) -> bool {
        size <= self.most_bytes() && self.most_entries() > 0
    }

    /// Calls `deliver` with the value of the key. None: no entry in memory has this hash.
    pub(crate) fn find<R>(
        &self,
        hash: u64,
        key: &[u8],
        deliver: impl FnOnce(&[u8]) -> Result<R, Error>,
    ) -> Option<Result<R, Error>> {
        let pin = pin::enter(&self.entries);
        let entry = self.entries.get(&hash, &pin)?;
        Some(entry.value_of(key).ok_or(Error::HashCollision).and_then(deliver))
    }

    /// Whether a value that was found on disk, and handed over, is worth a copy in memory: if it was found before. To
    /// copy each one would cost a program that asks for each value once a sixth of its time.
    pub(crate) fn is_found_again(&self, hash: u64) -> bool {
        let last = self.found.get(hash as usize % FOUND);
        last.is_some_and(|last| {
            let again = last.load(Ordering::Relaxed) == hash;
            if !again {
                last.store(hash, Ordering::Relaxed);
            }
            again
        })
    }

    /// Adds what was stored or found on disk, and evicts older entries. Left out if it is too large, or if another
    /// thread is inserting: the entry is on disk. `number` is that of its value file; an entry of another one is left
    /// out.
    pub(crate) fn insert(&self, number: u64, hash: u64, key: &[u8], value: &[u8]) {
        let size = key.len() + value.len();
        if !self.has_room_for(size) {
            return;
        }
        let Some(mut order) = self.order.try_lock() else { return };
        if self.number.load(Ordering::Relaxed) != number {
            return;
        }
        let Some(entry) = Entry::copied(key, value) else { return };
        let pin = pin::enter(&self.entries);
        if self.entries.try_insert(hash, entry, &pin).is_err() {
            return;
        }
        order.queue.push_back((hash, size));
        order.bytes += size;
        while order.bytes > self.most_bytes() || order.queue.len() > self.most_entries() {
            let Some((oldest, freed)) = order.queue.pop_front() else { break };
            self.entries.remove(&oldest, &pin);
            order.bytes -= freed;
        }
    }

    /// Adds an entry to a cache that has no other place for it.
    pub(crate) fn store(&self, hash: u64, key: &[u8], value: &[u8]) -> Result<(), Error> {
        let size = key.len() + value.len();
        let mut order = self.order.lock();
        let pin = pin::enter(&self.entries);
        if let Some(entry) = self.entries.get(&hash, &pin) {
            let is_same = entry.value_of(key).is_some();
            return Err(if is_same { Error::AlreadyExists } else { Error::HashCollision });
        }
        if order.bytes.saturating_add(size) > self.most_bytes() || order.queue.len() >= self.most_entries() {
            return Err(Error::CacheFull);
        }
        let entry = Entry::copied(key, value).ok_or(Error::NoMemory)?;
        order.queue.push_back((hash, size));
        order.bytes += size;
        self.entries.insert(hash, entry, &pin);
        Ok(())
    }

    /// Removes everything. From now on entries of the value file with that number are accepted.
    pub(crate) fn clear(&self, number: u64) {
        let mut order = self.order.lock();
        *order = Order::default();
        self.number.store(number, Ordering::Relaxed);
        self.entries.clear(&pin::enter(&self.entries));
    }

    /// Removes everything if it is not of the value file with that number.
    pub(crate) fn follow(&self, number: u64) {
        if self.number.load(Ordering::Relaxed) != number {
            self.clear(number);
        }
    }

    /// Removes one entry, because the one on disk was replaced.
    pub(crate) fn forget(&self, hash: u64) {
        let mut order = self.order.lock();
        if let Some(at) = order.queue.iter().position(|&(other, _)| other == hash) {
            if let Some((_, size)) = order.queue.remove(at) {
                order.bytes -= size;
            }
        }
        self.entries.remove(&hash, &pin::enter(&self.entries));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn front(bytes: usize, entries: usize) -> Front {
        Front::new(&Limits { bytes, entries, file: 0 })
    }

    fn has(front: &Front, key: u8) -> bool {
        front.find(u64::from(key), &[key], |value| Ok(value.to_vec())).is_some()
    }

    #[test]
    fn newer_entries_evict_the_oldest_ones() {
        let front = front(100, 3);
        for key in 0..5 {
            front.insert(0, u64::from(key), &[key], &[key; 9]);
        }
        assert_eq!((0..5).map(|key| has(&front, key)).collect::<Vec<_>>(), [false, false, true, true, true]);
        front.insert(0, 9, &[9], &[9; 80]);
        assert_eq!([2, 3, 4, 9].map(|key| has(&front, key)), [false, false, true, true], "by bytes");
        front.insert(0, 10, &[10], &[0; 100]);
        assert!(!has(&front, 10) && has(&front, 9), "what is too large evicts nothing");
        front.forget(9);
        assert!(!has(&front, 9));
        front.clear(7);
        assert!(!has(&front, 4));
        front.insert(0, 11, &[11], &[0; 99]);
        assert!(!has(&front, 11), "an entry of the cleared file");
        front.insert(7, 11, &[11], &[0; 99]);
        assert!(has(&front, 11), "all bytes are free again");
    }

    #[test]
    fn a_cache_in_memory_is_full_and_evicts_nothing() {
        let front = front(20, 2);
        front.store(1, b"a", &[0; 9]).unwrap();
        assert!(matches!(front.store(1, b"a", b"x"), Err(Error::AlreadyExists)));
        assert!(matches!(front.store(1, b"b", b"x"), Err(Error::HashCollision)));
        assert!(matches!(front.store(2, b"b", &[0; 10]), Err(Error::CacheFull)));
        front.store(2, b"b", &[0; 9]).unwrap();
        assert!(matches!(front.store(3, b"c", &[]), Err(Error::CacheFull)), "two entries");
        assert!(front.find(1, b"a", |value| Ok(value.len())).unwrap().unwrap() == 9);
    }
}
