//! The program's own pipeline caches.
//!
//! What the stash serves or compiles through a private cache never reaches the program's cache. So each cache
//! remembers the keys that it was passed for, and when the program asks for the data, or merges, those
//! artifacts are put in (design: the application's own VkPipelineCache).

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rustc_hash::FxBuildHasher;

use crate::store::part::Key;

/// A complete answer to vkGetPipelineCacheData: the two calls of a query must agree, and engines that ask
/// often must not pay each time.
#[derive(Clone)]
pub struct Remembered {
    /// [`AppCache::version`] at the time.
    pub version: (u32, u32),
    /// The data.
    pub data: Arc<[u8]>,
}

/// One live cache of the program.
pub struct AppCache {
    empty_at_first: bool,
    calls: AtomicU32,
    driver_filled: AtomicBool,
    // Translators make a cache for one pipeline: the first key needs no map, and costs no allocation.
    first: OnceLock<Key>,
    further: OnceLock<papaya::HashMap<Key, u32, FxBuildHasher>>,
    owed_count: AtomicU32,
    answer: Mutex<Option<Remembered>>,
}

impl AppCache {
    /// A cache that was created with or without initial data.
    pub fn new(empty_at_first: bool) -> AppCache {
        AppCache {
            empty_at_first,
            calls: AtomicU32::new(0),
            driver_filled: AtomicBool::new(!empty_at_first),
            first: OnceLock::new(),
            further: OnceLock::new(),
            owed_count: AtomicU32::new(0),
            answer: Mutex::default(),
        }
    }

    /// A creation call names this cache. Says whether it is the first one and the cache was empty: then what
    /// it holds afterwards is a one-pipeline blob.
    pub fn begin_call(&self) -> bool {
        self.calls.fetch_add(1, Ordering::AcqRel) == 0 && self.empty_at_first
    }

    /// The driver gets this cache in a call and may fill it.
    pub fn mark_filled(&self) {
        self.driver_filled.store(true, Ordering::Release);
    }

    /// Whether the driver's own object may hold anything.
    pub fn driver_filled(&self) -> bool {
        self.driver_filled.load(Ordering::Acquire)
    }

    /// Changes whenever the answer may change.
    pub fn version(&self) -> (u32, u32) {
        (self.calls.load(Ordering::Acquire), self.owed_count.load(Ordering::Acquire))
    }

    /// The last answer.
    pub fn answer(&self) -> MutexGuard<'_, Option<Remembered>> {
        self.answer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The stash made a pipeline of this key for a call that named this cache. Lock-free: engines share one
    /// cache between all their threads.
    pub fn owe(&self, key: &Key) {
        if self.first.get_or_init(|| *key) == key {
            // Says the same however often it is said.
            self.owed_count.fetch_max(1, Ordering::AcqRel);
            return;
        }
        let further = self.further.get_or_init(|| papaya::HashMap::with_hasher(FxBuildHasher)).pin();
        if further.get(key).is_none() {
            further.insert(*key, self.owed_count.fetch_add(1, Ordering::AcqRel));
        }
    }

    /// Whether the program may expect this key in its cache.
    pub fn holds(&self, key: &Key) -> bool {
        self.first.get() == Some(key)
            || self.further.get().is_some_and(|further| further.pin().get(key).is_some())
    }

    /// Every key owed, in the order of first use.
    pub fn owed(&self) -> Vec<Key> {
        let mut keys: Vec<(u32, Key)> = Vec::new();
        if let Some(further) = self.further.get() {
            keys.extend(further.pin().iter().map(|(key, order)| (*order, *key)));
        }
        keys.sort_unstable();
        self.first.get().copied().into_iter().chain(keys.into_iter().map(|(_, key)| key)).collect()
    }

    /// Takes over what another cache is owed: vkMergePipelineCaches.
    pub fn merge_from(&self, source: &AppCache) {
        source.owed().iter().for_each(|key| self.owe(key));
        self.calls.fetch_add(1, Ordering::AcqRel);
        if source.driver_filled() {
            self.mark_filled();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_call_of_an_empty_cache_is_fresh() {
        let cache = AppCache::new(true);
        assert!(cache.begin_call() && !cache.driver_filled());
        assert!(!cache.begin_call());
        let loaded = AppCache::new(false);
        assert!(!loaded.begin_call() && loaded.driver_filled());
    }

    #[test]
    fn keys_are_owed_once_in_order_and_merge() {
        let (one, two) = (AppCache::new(true), AppCache::new(true));
        [[1; 32], [2; 32], [1; 32]].iter().for_each(|key| one.owe(key));
        let before = two.version();
        two.merge_from(&one);
        assert_eq!(two.owed(), [[1; 32], [2; 32]]);
        assert_ne!(two.version(), before);
        assert!(two.holds(&[2; 32]) && !two.holds(&[3; 32]));
    }
}
