//! What the layer knows of each pipeline cache of the program.
//!
//! What the stash serves or compiles through a private cache never reaches the program's cache. So each cache
//! remembers the keys that it was passed for, and when the program asks for the data, or merges, those
//! artifacts are put in (docs/answers.md).
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_macros))]

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use rustc_hash::{FxBuildHasher, FxHashSet};

use super::blob_digests::BlobDigests;
use super::budget::BudgetedBytes;
use super::pending::{DriverContents, PendingKeys};
use vkstash_model::shader_set::ShaderSet;
use vkstash_store::base::util::lock;
use vkstash_store::format::record::Key;

/// Changes whenever the answer of a cache may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// Calls in which the driver may have filled the driver's object, counted when they begin and when they end.
    pub fills: u32,
    /// Changes of the pending entries.
    pub pending: u32,
}

/// A complete answer to vkGetPipelineCacheData: the two calls of a query must agree, and engines that ask
/// often must not pay each time. The next answer is built upon it.
#[derive(Clone)]
pub struct Remembered {
    /// [`CacheState::version`] at the time.
    pub version: Version,
    /// Bytes of the driver's own data at the time: commands that nobody hooks may fill the driver's object, too.
    pub driver_bytes: usize,
    /// The pending entries that are in it.
    pub keys: Arc<FxHashSet<Key>>,
    /// The data.
    pub data: Arc<BudgetedBytes>,
}

impl Remembered {
    /// Whether the driver's object has not changed since.
    pub fn is_filled_as(&self, version: Version, driver_bytes: usize) -> bool {
        self.version.fills == version.fills && self.driver_bytes == driver_bytes
    }

    /// Whether nothing has changed since.
    pub fn is_of(&self, version: Version, driver_bytes: usize) -> bool {
        self.version == version && self.driver_bytes == driver_bytes
    }
}

/// What the layer knows of one live cache of the program.
pub struct CacheState {
    empty_at_first: bool,
    calls_under_way: AtomicU32,
    holds_earlier_runs: AtomicBool,
    calls: AtomicU32,
    driver_filled: AtomicBool,
    fills: AtomicU32,
    /// The pending entries, and the companion cache.
    pub pending: PendingKeys,
    /// The digests of the pending entries' blobs, as far as the program has asked where its pipelines come from.
    pub pending_blobs: BlobDigests,
    /// What the driver's object may have.
    pub driver_contents: DriverContents,
    pending_changes: AtomicU32,
    compiled: Mutex<HashMap<Key, Arc<BudgetedBytes>, FxBuildHasher>>,
    answer: Mutex<Option<Remembered>>,
}

impl CacheState {
    /// A cache that was created with or without initial data.
    pub fn new(empty_at_first: bool) -> CacheState {
        CacheState {
            empty_at_first,
            calls_under_way: AtomicU32::new(0),
            holds_earlier_runs: AtomicBool::new(!empty_at_first),
            calls: AtomicU32::new(0),
            driver_filled: AtomicBool::new(!empty_at_first),
            fills: AtomicU32::new(0),
            pending: PendingKeys::default(),
            pending_blobs: BlobDigests::default(),
            driver_contents: DriverContents::new(!empty_at_first),
            pending_changes: AtomicU32::new(0),
            compiled: Mutex::default(),
            answer: Mutex::default(),
        }
    }

    /// A creation call names this cache. Says whether it is the first one and the cache was empty: then what
    /// it holds afterwards is a one-pipeline blob.
    pub fn begin_call(&self) -> bool {
        self.calls.fetch_add(1, Ordering::AcqRel) == 0 && self.empty_at_first
    }

    /// Whether a creation call that names this cache is under way: the driver may add to it at any moment.
    pub fn is_in_call(&self) -> bool {
        self.calls_under_way.load(Ordering::Acquire) > 0
    }

    /// The driver gets this cache in a call that was not described, and may put anything into it.
    pub fn mark_filled(&self) {
        self.mark_filled_with(&ShaderSet::default());
    }

    /// The driver gets this cache in a call for a pipeline of these shaders, and may fill it.
    pub fn mark_filled_with(&self, shaders: &ShaderSet) {
        self.driver_contents.note(shaders);
        self.driver_filled.store(true, Ordering::Release);
        self.fills.fetch_add(1, Ordering::AcqRel);
    }

    /// The call that found the cache empty put just this pipeline into it. It is not pending, but the companion should
    /// have it.
    pub fn note_fresh(&self, key: &Key, shaders: &ShaderSet) {
        self.pending.note_inside(key, shaders);
    }

    /// Whether the driver's object may hold anything.
    fn driver_filled(&self) -> bool {
        self.driver_filled.load(Ordering::Acquire)
    }

    /// Whether the cache may hold pipelines of an earlier run, which the stash need not have.
    pub fn holds_earlier_runs(&self) -> bool {
        self.holds_earlier_runs.load(Ordering::Acquire)
    }

    /// Changes whenever the answer may change.
    pub fn version(&self) -> Version {
        let pending = self.pending_changes.load(Ordering::Acquire);
        Version { fills: self.fills.load(Ordering::Acquire), pending }
    }

    /// The last answer.
    pub fn answer(&self) -> MutexGuard<'_, Option<Remembered>> {
        lock(&self.answer)
    }

    /// A pipeline of this key was made beside this cache, by the stash, for a call that named it: from now on the
    /// artifact is pending, which the cache's data has to hold as well.
    pub fn add_pending(&self, key: &Key, shaders: &ShaderSet) {
        if self.pending.note(key, shaders) {
            self.change_pending();
        }
    }

    /// The pending entries have changed: a reader of the new version finds them.
    pub fn change_pending(&self) {
        self.pending_changes.fetch_add(1, Ordering::AcqRel);
    }

    /// Adds the pending entry of a pipeline that was compiled through a cache of the layer's: the driver would have
    /// kept it in the program's cache, so its data is kept here, and the answer is complete even if nothing can be
    /// written.
    pub fn add_pending_compiled(&self, key: &Key, shaders: &ShaderSet, blob: &[u8]) {
        // No room: then there is what the stash keeps.
        if let Some(kept) = BudgetedBytes::compiled(blob) {
            self.compiled().insert(*key, Arc::new(kept));
        }
        self.add_pending(key, shaders);
    }

    fn compiled(&self) -> MutexGuard<'_, HashMap<Key, Arc<BudgetedBytes>, FxBuildHasher>> {
        lock(&self.compiled)
    }

    /// What was compiled for this cache and is kept here.
    pub fn kept(&self, key: &Key) -> Option<Arc<BudgetedBytes>> {
        self.compiled().get(key).cloned()
    }

    /// Whether the program may expect this key in its cache.
    pub fn holds(&self, key: &Key) -> bool {
        self.pending.contains(key)
    }

    /// Whether the layer has a companion beside this cache.
    pub fn has_companion(&self) -> bool {
        self.pending.companion.read().is_ok_and(|companion| companion.is_some())
    }

    /// The keys of the pending entries, in the order of first use.
    pub fn pending(&self) -> Vec<Key> {
        self.pending.pending().into_iter().map(|(key, _)| key).collect()
    }

    /// Takes over the pending entries of another cache: vkMergePipelineCaches, after the driver has merged.
    pub fn merge_from(&self, source: &CacheState) {
        self.calls.fetch_add(1, Ordering::AcqRel);
        if source.driver_filled() {
            self.mark_filled();
        }
        if source.holds_earlier_runs() {
            self.holds_earlier_runs.store(true, Ordering::Release);
        }
        self.pending_blobs.merge_from(&source.pending_blobs);
        for (key, shaders) in source.pending.pending() {
            if let Some(kept) = source.kept(&key) {
                self.compiled().insert(key, kept);
            }
            self.add_pending(&key, &shaders);
        }
    }
}

/// A creation call that names a cache, until it is over. The version changes when the call ends, too: data that was
/// read during the call lacks what the driver added later.
pub struct InCall {
    cache: Arc<CacheState>,
    fills: u32,
}

impl InCall {
    /// Before the driver gets the cache.
    pub fn new(cache: Arc<CacheState>) -> InCall {
        cache.calls_under_way.fetch_add(1, Ordering::AcqRel);
        let fills = cache.fills.load(Ordering::Acquire);
        InCall { cache, fills }
    }
}

impl Clone for InCall {
    fn clone(&self) -> InCall {
        InCall::new(self.cache.clone())
    }
}

impl Drop for InCall {
    fn drop(&mut self) {
        // Other calls' fills count as this call's at worst.
        if self.cache.fills.load(Ordering::Acquire) != self.fills {
            self.cache.fills.fetch_add(1, Ordering::AcqRel);
        }
        self.cache.calls_under_way.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Deref for InCall {
    type Target = CacheState;

    fn deref(&self) -> &CacheState {
        &self.cache
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_call_of_an_empty_cache_is_fresh() {
        let cache = CacheState::new(true);
        assert!(cache.begin_call() && !cache.driver_filled());
        assert!(!cache.begin_call());
        let loaded = CacheState::new(false);
        assert!(!loaded.begin_call() && loaded.driver_filled());
        assert!(loaded.holds_earlier_runs() && !cache.holds_earlier_runs());
        cache.merge_from(&loaded);
        assert!(cache.holds_earlier_runs());
    }

    #[test]
    fn keys_are_pending_once_in_order_and_merge() {
        let (one, two) = (CacheState::new(true), CacheState::new(true));
        let shaders = ShaderSet::default();
        one.add_pending_compiled(&[1; 32], &shaders, b"blob");
        [[2; 32], [1; 32], [2; 32], [3; 32]].iter().for_each(|key| one.add_pending(key, &shaders));
        let before = two.version();
        two.merge_from(&one);
        assert_eq!(two.pending(), [[1; 32], [2; 32], [3; 32]]);
        assert_ne!(two.version(), before);
        assert!(two.holds(&[2; 32]) && !two.holds(&[4; 32]));
        assert!(two.kept(&[1; 32]).is_some_and(|kept| **kept == *b"blob"));
        assert!(!two.begin_call(), "it may hold something now");
    }

    #[test]
    fn the_version_changes_when_something_may_have_come_in_and_only_then() {
        let cache = Arc::new(CacheState::new(false));
        let mut last = cache.version();
        let mut changed =
            |cache: &CacheState| std::mem::replace(&mut last, cache.version()) != cache.version();
        cache.add_pending(&[1; 32], &ShaderSet::default());
        assert!(changed(&cache));
        let call = InCall::new(cache.clone());
        cache.begin_call();
        cache.add_pending(&[1; 32], &ShaderSet::default());
        assert!(cache.is_in_call());
        drop(call);
        assert!(!changed(&cache), "served again");
        let call = InCall::new(cache.clone());
        cache.mark_filled();
        assert!(changed(&cache));
        let another = call.clone();
        drop(call);
        assert!(changed(&cache) && cache.is_in_call(), "the driver has put it in by now");
        drop(another);
        assert!(!cache.is_in_call());
    }
}
