//! Pipeline caches and their blobs.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::config::Config;
use crate::hash::{self, Digest};
use crate::record;

/// The header of a blob (contract 4.1).
pub const HEADER: usize = 32;
/// Bytes of the number of entries.
const COUNT: usize = 4;
const ENTRY_MAGIC: u32 = 0x4D4C_5056;
/// Magic, key and length of the code; the checksum follows the code.
const ENTRY_HEAD: usize = 4 + 32 + 4;
const MOST_CODE: usize = 1 << 24;
/// Bytes that a cache's data has more once one of its entries was used (`pads_used`).
const PADDING: usize = 8;

/// A pipeline cache. An entry's code is computed from its key, so it holds only keys.
#[derive(Debug, Default)]
pub struct Cache {
    /// Creation flags.
    pub flags: u32,
    keys: Mutex<BTreeSet<Digest>>,
    /// Whether a pipeline was found in it.
    was_used: AtomicBool,
    users: AtomicUsize,
    writer: AtomicU64,
}

impl Cache {
    /// An empty cache.
    pub fn new(flags: u32) -> Cache {
        Cache { flags, ..Cache::default() }
    }

    fn keys(&self) -> MutexGuard<'_, BTreeSet<Digest>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the cache holds the pipeline of `key`.
    pub fn has(&self, key: &Digest) -> bool {
        let has = self.keys().contains(key);
        self.was_used.fetch_or(has, Ordering::SeqCst);
        has
    }

    /// Adds a pipeline.
    pub fn add(&self, key: Digest) {
        self.keys().insert(key);
    }

    /// Adds the entries of `other`, and says how many it has.
    pub fn merge(&self, other: &Cache) -> usize {
        let keys = other.keys().clone();
        let count = keys.len();
        self.keys().extend(keys);
        count
    }

    /// The number of entries.
    pub fn entries(&self) -> usize {
        self.keys().len()
    }

    /// Whether a command is using the cache.
    pub fn in_use(&self) -> bool {
        self.users.load(Ordering::SeqCst) != 0
    }

    /// Whether more than one command is using the cache.
    pub fn is_shared(&self) -> bool {
        self.users.load(Ordering::SeqCst) > 1
    }

    /// Adds an entry that no pipeline has.
    pub fn grow(&self) {
        let number = self.keys().len() as u64;
        self.add(hash::digest("grown", &number.to_le_bytes()));
    }

    /// Marks a use until the returned value is dropped. An `exclusive` use (of an externally synchronised cache, or
    /// of a merge's destination) allows no other thread.
    pub fn enter(&self, command: &str, exclusive: bool) -> Use<'_> {
        let others = self.users.fetch_add(1, Ordering::SeqCst);
        let me = record::thread();
        let writer = self.writer.load(Ordering::SeqCst);
        if (exclusive && others != 0) || (writer != 0 && writer != me) {
            record::violation(format!("{command}: the pipeline cache is used by two threads at once"));
        }
        if exclusive {
            self.writer.store(me, Ordering::SeqCst);
        }
        Use { cache: self, exclusive }
    }

    /// Loads the entries of initial data; returns their number. Foreign headers and damaged entries are ignored.
    pub fn load(&self, config: &Config, device_index: u32, data: &[u8]) -> usize {
        if config.ignore_blobs || data.get(..HEADER) != Some(&header(config, device_index)[..]) {
            return 0;
        }
        let mut taken = 0;
        let mut rest = &data[HEADER..];
        if config.counts_entries {
            rest = rest.get(COUNT..).unwrap_or_default();
        }
        while rest.len() >= ENTRY_HEAD {
            let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| rest[at + i]));
            let length = word(36) as usize;
            let end = ENTRY_HEAD + length + 8;
            if word(0) != ENTRY_MAGIC || length > MOST_CODE || rest.len() < end {
                break;
            }
            let key: Digest = std::array::from_fn(|i| rest[4 + i]);
            let body = &rest[..ENTRY_HEAD + length];
            let sound = checksum(body) == rest[ENTRY_HEAD + length..end];
            if sound && rest[ENTRY_HEAD..ENTRY_HEAD + length] == code(config, &key)[..] {
                self.add(key);
                taken += 1;
            }
            rest = &rest[end..];
        }
        taken
    }

    /// The blob; with `limit`, only complete entries that fit.
    pub fn blob(&self, config: &Config, device_index: u32, limit: usize) -> Vec<u8> {
        let mut blob = header(config, device_index).to_vec();
        let counts = if config.counts_entries { COUNT } else { 0 };
        if limit < HEADER + counts {
            return Vec::new();
        }
        blob.resize(HEADER + counts, 0);
        let mut entries = 0_u32;
        for key in self.keys().iter() {
            let entry = entry(config, key);
            if blob.len() + entry.len() > limit {
                break;
            }
            blob.extend(entry);
            entries += 1;
        }
        blob[HEADER..HEADER + counts].copy_from_slice(&entries.to_le_bytes()[..counts]);
        let padded = blob.len() + PADDING;
        if config.pads_used && self.was_used.load(Ordering::SeqCst) && padded <= limit {
            blob.resize(padded, 0);
        }
        blob
    }
}

/// A use of a cache.
pub struct Use<'a> {
    cache: &'a Cache,
    exclusive: bool,
}

impl Drop for Use<'_> {
    fn drop(&mut self) {
        if self.exclusive {
            self.cache.writer.store(0, Ordering::SeqCst);
        }
        self.cache.users.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The header of a physical device's blobs.
pub fn header(config: &Config, device_index: u32) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[0..4].copy_from_slice(&(HEADER as u32).to_le_bytes());
    header[4..8].copy_from_slice(&1u32.to_le_bytes());
    header[8..12].copy_from_slice(&config.vendor_id.to_le_bytes());
    header[12..16].copy_from_slice(&config.device_id.wrapping_add(device_index).to_le_bytes());
    header[16..32].copy_from_slice(&config.uuid());
    header
}

/// The code of a pipeline, computed from its key.
fn code(config: &Config, key: &Digest) -> Vec<u8> {
    let length = config.code_bytes.unwrap_or(256 + usize::from(u16::from_le_bytes([key[0], key[1]]) % 1024));
    let mut code = Vec::with_capacity(length + 32);
    let mut block = *key;
    while code.len() < length {
        block = hash::digest("code", &block);
        code.extend(block);
    }
    code.truncate(length);
    code
}

fn checksum(bytes: &[u8]) -> [u8; 8] {
    let digest = hash::digest("entry", bytes);
    std::array::from_fn(|i| digest[i])
}

fn entry(config: &Config, key: &Digest) -> Vec<u8> {
    let code = code(config, key);
    let mut entry = ENTRY_MAGIC.to_le_bytes().to_vec();
    entry.extend(key);
    entry.extend((code.len() as u32).to_le_bytes());
    entry.extend(code);
    entry.extend(checksum(&entry));
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled() -> Cache {
        let cache = Cache::new(0);
        (1..=3).for_each(|n| cache.add([n; 32]));
        cache
    }

    #[test]
    fn a_blob_comes_back_whole() {
        let config = Config::default();
        let blob = filled().blob(&config, 0, usize::MAX);
        let again = Cache::new(0);
        assert_eq!(again.load(&config, 0, &blob), 3);
        assert!(again.has(&[2; 32]));
        assert_eq!(again.blob(&config, 0, usize::MAX), blob);
    }

    #[test]
    fn a_flipped_bit_costs_one_entry_at_most_and_a_foreign_header_all() {
        let config = Config::default();
        let blob = filled().blob(&config, 0, usize::MAX);
        for at in 0..blob.len() {
            let mut damaged = blob.clone();
            damaged[at] ^= 1;
            let taken = Cache::new(0).load(&config, 0, &damaged);
            let count = HEADER..HEADER + COUNT;
            let expected = if at < HEADER {
                0..1
            } else if count.contains(&at) {
                3..4
            } else {
                0..3
            };
            assert!(expected.contains(&taken), "byte {at}: {taken}");
        }
        assert_eq!(Cache::new(0).load(&config, 1, &blob), 0);
    }

    #[test]
    fn a_truncated_blob_keeps_its_whole_entries() {
        let config = Config::default();
        let cache = filled();
        let blob = cache.blob(&config, 0, usize::MAX);
        assert_eq!(Cache::new(0).load(&config, 0, &blob[..blob.len() - 1]), 2);
        assert!(cache.blob(&config, 0, HEADER - 1).is_empty());
        assert!(cache.blob(&config, 0, HEADER + COUNT - 1).is_empty());
        assert_eq!(cache.blob(&config, 0, HEADER + COUNT).len(), HEADER + COUNT);
        let uncounted = Config { counts_entries: false, ..config };
        assert_eq!(cache.blob(&uncounted, 0, HEADER).len(), HEADER);
    }
}
