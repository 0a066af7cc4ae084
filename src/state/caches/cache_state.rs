//! State of a pipeline cache of the program, as far as the layer knows it.
//!
//! What the stash serves or compiles through a private cache never reaches the program's cache. So each cache
//! remembers the keys that it was passed for, and when the program asks for the data, or merges, those
//! artifacts are put in (docs/process.md).
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_macros))]

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::blob_digests::BlobDigests;
use super::cache_answer::CacheAnswer;
use super::pending::{DriverContents, PendingKeys};
use vkstash_model::record::Key;
use vkstash_model::shader_set::ShaderSet;

/// What the layer knows of one live cache of the program.
pub struct CacheState {
    empty_at_first: bool,
    calls_under_way: AtomicU32,
    holds_earlier_runs: AtomicBool,
    calls: AtomicU32,
    driver_filled: AtomicBool,
    fills: AtomicU32,
    news: AtomicU32,
    fills_unseen: AtomicBool,
    /// The pending entries, and the companion cache.
    pub pending: PendingKeys,
    /// The pending entries' data.
    pub answer: CacheAnswer,
    /// The digests of the pending entries' blobs, as far as the program has asked where its pipelines come from.
    pub pending_blobs: BlobDigests,
    /// What the driver's object may have.
    pub driver_contents: DriverContents,
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
            news: AtomicU32::new(0),
            fills_unseen: AtomicBool::new(false),
            pending: PendingKeys::default(),
            answer: CacheAnswer::default(),
            pending_blobs: BlobDigests::default(),
            driver_contents: DriverContents::new(!empty_at_first),
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
        self.news.fetch_add(1, Ordering::AcqRel);
        self.note_filled(&ShaderSet::default());
    }

    /// The driver gets this cache in a call for this pipeline of these shaders, and may fill it.
    pub fn mark_filled_with(&self, key: &Key, shaders: &ShaderSet) {
        if !self.holds(key) && self.driver_contents.note_key(key) {
            self.news.fetch_add(1, Ordering::AcqRel);
        }
        self.note_filled(shaders);
    }

    fn note_filled(&self, shaders: &ShaderSet) {
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

    /// Calls in which the driver may have filled the driver's object, counted when they begin and when they end.
    pub fn fills(&self) -> u32 {
        self.fills.load(Ordering::Acquire)
    }

    /// Those of them for pipelines that are not pending, and were not asked for before: only they can add to the
    /// complete data.
    pub fn news(&self) -> u32 {
        self.news.load(Ordering::Acquire)
    }

    /// Whether there may be more since that number of [`news`](CacheState::news).
    pub fn has_news_since(&self, news: u32) -> bool {
        news != self.news() || self.fills_unseen.load(Ordering::Acquire)
    }

    /// The driver may add to its object at times that are not known.
    pub fn fill_unseen(&self) {
        self.fills_unseen.store(true, Ordering::Release);
    }

    /// Whether what the driver's object has is as it was at that number of [`fills`](CacheState::fills).
    pub fn is_filled_as(&self, fills: u32) -> bool {
        fills == self.fills() && !self.is_in_call() && !self.fills_unseen.load(Ordering::Acquire)
    }

    /// Whether the program may expect this key in its cache.
    pub fn holds(&self, key: &Key) -> bool {
        self.pending.contains(key)
    }

    /// The keys of the pending entries, in the order of first use.
    pub fn pending(&self) -> Vec<Key> {
        self.pending.pending().into_iter().map(|(key, _)| key).collect()
    }

    /// Takes over what is known of another cache: vkMergePipelineCaches, after the driver has merged. The keys that are
    /// pending here from now on.
    pub fn merge_from(&self, source: &CacheState) -> Vec<Key> {
        self.calls.fetch_add(1, Ordering::AcqRel);
        if source.driver_filled() {
            self.mark_filled();
        }
        if source.holds_earlier_runs() {
            self.holds_earlier_runs.store(true, Ordering::Release);
        }
        self.pending_blobs.merge_from(&source.pending_blobs);
        let theirs = source.pending.pending().into_iter();
        theirs.filter(|(key, shaders)| self.pending.note(key, shaders)).map(|(key, _)| key).collect()
    }
}

/// A creation call that names a cache, until it is over. A call that may have filled the cache counts at its end, too:
/// data that was read during the call lacks what the driver added later.
pub struct InCall {
    cache: Arc<CacheState>,
    fills: u32,
    news: u32,
}

impl InCall {
    /// Before the driver gets the cache.
    pub fn new(cache: Arc<CacheState>) -> InCall {
        cache.calls_under_way.fetch_add(1, Ordering::AcqRel);
        let (fills, news) = (cache.fills(), cache.news());
        InCall { cache, fills, news }
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
        if self.cache.news() != self.news {
            self.cache.news.fetch_add(1, Ordering::AcqRel);
        }
        if self.cache.fills() != self.fills {
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
        for key in [[1; 32], [2; 32], [1; 32], [2; 32], [3; 32]] {
            one.pending.note(&key, &shaders);
        }
        two.pending.note(&[2; 32], &shaders);
        assert_eq!(two.merge_from(&one), [[1; 32], [3; 32]]);
        assert_eq!(two.pending(), [[2; 32], [1; 32], [3; 32]]);
        assert!(two.merge_from(&one).is_empty());
        assert!(two.holds(&[1; 32]) && !two.holds(&[4; 32]));
        assert!(!two.begin_call(), "it may hold something now");
    }

    #[test]
    fn fills_are_counted_when_something_may_have_come_in_and_only_then() {
        let cache = Arc::new(CacheState::new(false));
        let call = InCall::new(cache.clone());
        cache.begin_call();
        cache.pending.note(&[1; 32], &ShaderSet::default());
        assert!(cache.is_in_call() && !cache.is_filled_as(0));
        drop(call);
        assert!(cache.is_filled_as(0), "served");
        let call = InCall::new(cache.clone());
        cache.mark_filled();
        let during = cache.fills();
        let another = call.clone();
        drop(call);
        assert!(cache.is_in_call() && cache.fills() != during, "the driver has put it in by now");
        drop(another);
        assert!(!cache.is_in_call() && cache.is_filled_as(cache.fills()));
        cache.fill_unseen();
        assert!(!cache.is_filled_as(cache.fills()));
    }
}
