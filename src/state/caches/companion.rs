//! The companion of a cache of the program's: a cache of the layer's with the artifacts of pending pipelines, as far as
//! a request looked for a pipeline among them (serve/companion.rs).
//!
//! It comes in generations. One is asked, by any number of threads, and nobody merges into it; what is added goes into
//! another one, which is asked from then on. So no lock is held while drivers look for a pipeline and merge (contract
//! 4.4), where they may call the program. Once nobody uses the earlier generation any more, it is
//! brought up to date and becomes the next: each artifact is merged twice, however many there are.
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_macros))]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use ash::vk;
use rustc_hash::FxHashSet;

use super::private_cache::{CacheCommands, PrivateCache, SharedCache};
use crate::faults;
use crate::state::process::held;
use vkstash_host::held::HeldInDriver;
use vkstash_host::memory::{Budget, Taken};
use vkstash_host::sync::Mutex;
use vkstash_model::budgets::COMPANIONS;
use vkstash_model::record::Key;

/// What the artifacts in all companions of the process may take.
static ROOM: Budget = Budget::new(COMPANIONS);

/// How long a thread waits for another one that adds to a companion, and how often it looks.
const PATIENCE: Duration = Duration::from_millis(5);
const LOOKS_EVERY: Duration = Duration::from_micros(50);

/// The companion of one cache, or of VK_NULL_HANDLE.
#[derive(Default)]
pub struct Companion {
    asked: ArcSwapOption<Generation>,
    filling: Mutex<Slot>,
}

/// A companion as it is now, for as long as a thread uses it. The last one that does destroys it.
pub struct Generation {
    cache: SharedCache,
    /// A pipeline was found with it, which the driver may have put there.
    has_answered: AtomicBool,
}

enum Slot {
    Idle(Contents),
    /// A thread adds to the companion.
    InUse,
}

impl Default for Slot {
    fn default() -> Slot {
        Slot::Idle(Contents::default())
    }
}

#[derive(Default)]
struct Contents {
    /// The keys whose artifacts are in it.
    keys: FxHashSet<Key>,
    /// The room that they take.
    room: Vec<Taken>,
    /// The generation before, which lacks `owed`.
    before: Option<Arc<Generation>>,
    owed: Vec<SharedCache>,
}

impl Companion {
    /// The generation that is asked. None: nothing was put in.
    pub fn current(&self) -> Option<Arc<Generation>> {
        self.asked.load_full()
    }

    /// Whether a thread adds to it.
    pub fn is_in_use(&self) -> bool {
        matches!(*self.filling.lock(), Slot::InUse)
    }

    /// Waits for a thread that adds to it, but not for longer than that usually takes: the driver may call the program
    /// there, which may wait for the caller. None: that thread is not done.
    pub fn fill<'a>(&'a self, commands: &'a CacheCommands) -> Option<Filling<'a>> {
        let (began, limit) = (Instant::now(), faults::time_limit(PATIENCE));
        loop {
            if let Slot::Idle(contents) = std::mem::replace(&mut *self.filling.lock(), Slot::InUse) {
                let _held = held::COMPANION.hold();
                return Some(Filling { companion: self, commands, contents, parts: Vec::new(), _held });
            }
            if began.elapsed() > limit {
                return None;
            }
            std::thread::sleep(LOOKS_EVERY);
        }
    }

    /// The program destroys the cache, or the device, and uses it in no other call.
    pub fn close(&self) {
        drop(self.asked.swap(None));
        let contents = std::mem::take(&mut *self.filling.lock());
        // Not under the lock: the driver destroys caches.
        drop(contents);
    }
}

impl Generation {
    /// The handle. Nobody merges into it.
    pub fn handle(&self) -> vk::PipelineCache {
        self.cache.handle()
    }

    /// A pipeline was found with it.
    pub fn note_answer(&self) {
        self.has_answered.store(true, Ordering::Release);
    }
}

/// The companion, while a thread adds to it.
pub struct Filling<'a> {
    companion: &'a Companion,
    commands: &'a CacheCommands,
    contents: Contents,
    parts: Vec<PrivateCache<'a>>,
    _held: HeldInDriver,
}

impl<'a> Filling<'a> {
    /// Whether the artifact of this key is in it.
    pub fn has(&self, key: &Key) -> bool {
        self.contents.keys.contains(key)
    }

    /// Room for an artifact of so many bytes. None: there is none now.
    pub fn room_for(&self, bytes: usize) -> Option<Taken> {
        // The earlier generation has it as well.
        ROOM.take(2 * bytes)
    }

    /// Adds the artifact of a key.
    pub fn add(&mut self, key: &Key, part: PrivateCache<'a>, room: Taken) {
        self.contents.keys.insert(*key);
        self.contents.room.push(room);
        self.parts.push(part);
    }

    /// From now on the companion with what was added is asked.
    pub fn publish(mut self) {
        if self.parts.is_empty() {
            return;
        }
        let current = self.companion.current();
        let Some(cache) = self.next(current.as_deref()) else { return };
        let next = Generation { cache, has_answered: AtomicBool::new(false) };
        self.companion.asked.store(Some(Arc::new(next)));
        if current.is_some() {
            self.contents.owed = self.parts.drain(..).map(PrivateCache::shared).collect();
        }
        self.contents.before = current;
    }

    /// A cache with everything that was added. None: the driver makes none.
    fn next(&mut self, current: Option<&Generation>) -> Option<SharedCache> {
        let unused = self.contents.before.take().and_then(Arc::into_inner);
        let owed = std::mem::take(&mut self.contents.owed);
        let current_has_more = current.is_some_and(|current| current.has_answered.load(Ordering::Acquire));
        let (next, lacks_all) = match unused {
            Some(before) => (before.cache, current_has_more),
            None => (self.commands.for_threads()?.shared(), true),
        };
        let mut sources = Vec::new();
        match current.filter(|_| lacks_all) {
            Some(current) => sources.push(current.handle()),
            None => sources.extend(owed.iter().map(SharedCache::handle)),
        }
        sources.extend(self.parts.iter().map(PrivateCache::handle));
        // SAFETY: the sources are live caches of the layer's, into which nobody merges; only this thread has `next`.
        unsafe { self.commands.merge(next.handle(), &sources) }?;
        Some(next)
    }
}

impl Drop for Filling<'_> {
    fn drop(&mut self) {
        *self.companion.filling.lock() = Slot::Idle(std::mem::take(&mut self.contents));
    }
}
