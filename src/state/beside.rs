//! What the stash served or compiled beside a cache of the program's, or beside VK_NULL_HANDLE.
//!
//! None of it reaches the driver's own object. So the keys are remembered: the program's cache is owed their
//! artifacts when its data is asked for, and a pipeline that the cache would have held by now is looked for among
//! them before it is compiled (resolve/companion.rs).

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use ash::vk;
use rustc_hash::{FxBuildHasher, FxHashSet};

use super::budget::Room;
use crate::recipe::shader_set::ShaderSet;
use crate::store::part::Key;

/// The keys, and the companion cache.
#[derive(Default)]
pub struct Beside {
    // Translators make a cache for one pipeline: the first key needs no map, and costs no allocation.
    first: OnceLock<(Key, ShaderSet)>,
    first_is_in: AtomicBool,
    further: OnceLock<Box<Further>>,
    /// A cache of the layer's own with their artifacts, as far as somebody looked for a pipeline among them.
    pub companion: RwLock<Option<Companion>>,
}

struct Further {
    keys: papaya::HashMap<Key, (u32, ShaderSet), FxBuildHasher>,
    order: AtomicU32,
    by_shaders: [Mutex<HashMap<ShaderSet, Alike, FxBuildHasher>>; SHARDS],
}

/// Threads that make different pipelines rarely meet at the same one.
const SHARDS: usize = 16;

/// Keys of the same shaders.
#[derive(Default)]
struct Alike {
    keys: Vec<Key>,
    /// How many of them, from the front, need not be put into the companion any more.
    done: usize,
}

/// The companion cache.
pub struct Companion {
    /// The handle; the device destroys it.
    pub handle: vk::PipelineCache,
    /// What it takes.
    pub room: Vec<Room>,
}

impl Beside {
    /// A pipeline of this key was made beside the cache. Says whether it is the first time. Takes no lock for a key
    /// that is known: engines share one cache between all their threads.
    pub fn note(&self, key: &Key, shaders: ShaderSet) -> bool {
        if self.first.get().is_some_and(|(first, _)| first == key) {
            return false;
        }
        if self.first.set((*key, shaders)).is_ok() {
            return true;
        }
        let further = self.further.get_or_init(Box::default);
        let keys = further.keys.pin();
        if keys.get(key).is_some() || self.first.get().is_some_and(|(first, _)| first == key) {
            return false;
        }
        if keys.insert(*key, (further.order.fetch_add(1, Ordering::Relaxed), shaders)).is_some() {
            return false;
        }
        further.shard(shaders).entry(shaders).or_default().keys.push(*key);
        true
    }

    /// Whether a pipeline of this key was.
    pub fn contains(&self, key: &Key) -> bool {
        self.first.get().is_some_and(|(first, _)| first == key)
            || self.further.get().is_some_and(|further| further.keys.pin().get(key).is_some())
    }

    /// Every key, in the order of first use.
    pub fn keys(&self) -> Vec<(Key, ShaderSet)> {
        let mut keys: Vec<(u32, Key, ShaderSet)> = Vec::new();
        if let Some(further) = self.further.get() {
            keys.extend(further.keys.pin().iter().map(|(key, (order, shaders))| (*order, *key, *shaders)));
        }
        keys.sort_unstable_by_key(|(order, ..)| *order);
        let further = keys.into_iter().map(|(_, key, shaders)| (key, shaders));
        self.first.get().copied().into_iter().chain(further).collect()
    }

    /// Whether a pipeline of these shaders was, and whether there is one that the companion lacks.
    pub fn of(&self, shaders: ShaderSet) -> Option<Lacking> {
        let first = self.first.get().is_some_and(|(_, first)| *first == shaders);
        let mut lacking = first && !self.first_is_in.load(Ordering::Acquire);
        let mut any = first;
        if let Some(further) = self.further.get() {
            if let Some(alike) = further.shard(shaders).get(&shaders) {
                any = true;
                lacking |= alike.done < alike.keys.len();
            }
        }
        any.then_some(Lacking(lacking))
    }

    /// The next key of these shaders that the companion lacks; from now on it counts as put in. To be called while
    /// the companion is locked for writing.
    pub fn next_lacking(&self, shaders: ShaderSet) -> Option<Key> {
        if let Some((key, first)) = self.first.get() {
            if *first == shaders && !self.first_is_in.swap(true, Ordering::AcqRel) {
                return Some(*key);
            }
        }
        let mut shard = self.further.get()?.shard(shaders);
        let alike = shard.get_mut(&shaders)?;
        let key = alike.keys.get(alike.done).copied()?;
        alike.done += 1;
        Some(key)
    }
}

/// Whether the companion lacks some of the artifacts that may fit.
pub struct Lacking(pub bool);

impl Default for Further {
    fn default() -> Further {
        Further {
            keys: papaya::HashMap::with_hasher(FxBuildHasher),
            order: AtomicU32::new(0),
            by_shaders: Default::default(),
        }
    }
}

impl Further {
    fn shard(&self, shaders: ShaderSet) -> MutexGuard<'_, HashMap<ShaderSet, Alike, FxBuildHasher>> {
        lock(&self.by_shaders[shaders.shard(SHARDS)])
    }
}

/// What the driver may have put into its own object: of which shaders, as far as that is known.
pub struct Filled {
    anything: AtomicBool,
    shaders: Mutex<FxHashSet<ShaderSet>>,
}

impl Filled {
    /// Nothing, or anything.
    pub fn new(anything: bool) -> Filled {
        Filled { anything: AtomicBool::new(anything), shaders: Mutex::default() }
    }

    /// A pipeline of these shaders went through the driver's object.
    pub fn note(&self, shaders: ShaderSet) {
        if !self.anything.load(Ordering::Acquire) {
            lock(&self.shaders).insert(shaders);
        }
    }

    /// So did one that nobody has described.
    pub fn note_anything(&self) {
        self.anything.store(true, Ordering::Release);
    }

    /// Whether the driver's object can have a pipeline of these shaders.
    pub fn may_have(&self, shaders: ShaderSet) -> bool {
        self.anything.load(Ordering::Acquire) || lock(&self.shaders).contains(&shaders)
    }
}

/// VK_NULL_HANDLE in the place of a cache: many drivers have one of their own behind it.
pub struct NullCache {
    /// What was made beside it.
    pub beside: Beside,
    /// What the driver may have put into it.
    pub filled: Filled,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::model::{Bytes, Code, Compute, Extensions, Pipeline, Stage};

    fn shaders(code: u8) -> ShaderSet {
        ShaderSet::of(&Pipeline::Compute(Compute {
            flags: 0,
            stage: Stage {
                flags: 0,
                stage: 32,
                code: Code::Module([code; 32]),
                entry_point: Bytes(b"main"),
                specialization: Default::default(),
                mappings: Default::default(),
                extensions: Extensions::default(),
            },
            layout: None,
            extensions: Extensions::default(),
        }))
    }

    #[test]
    fn a_key_is_noted_once_and_in_order() {
        let beside = Beside::default();
        assert!(beside.note(&[2; 32], shaders(1)) && !beside.note(&[2; 32], shaders(1)));
        assert!(beside.note(&[1; 32], shaders(1)) && !beside.note(&[1; 32], shaders(1)));
        assert!(beside.note(&[3; 32], shaders(2)));
        let keys: Vec<Key> = beside.keys().into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, [[2; 32], [1; 32], [3; 32]]);
        assert!(beside.contains(&[1; 32]) && !beside.contains(&[4; 32]));
    }

    #[test]
    fn what_the_companion_lacks_is_of_the_same_shaders_and_handed_out_once() {
        let beside = Beside::default();
        assert!(beside.of(shaders(1)).is_none());
        for key in 1..=4 {
            beside.note(&[key; 32], shaders(key % 2));
        }
        assert!(beside.of(shaders(1)).is_some_and(|Lacking(lacking)| lacking));
        assert_eq!(beside.next_lacking(shaders(1)), Some([1; 32]));
        assert_eq!(beside.next_lacking(shaders(1)), Some([3; 32]));
        assert_eq!(beside.next_lacking(shaders(1)), None);
        assert!(beside.of(shaders(1)).is_some_and(|Lacking(lacking)| !lacking));
        beside.note(&[5; 32], shaders(1));
        assert_eq!(beside.next_lacking(shaders(1)), Some([5; 32]));
        assert_eq!(beside.next_lacking(shaders(0)), Some([2; 32]));
    }

    #[test]
    fn what_nobody_described_may_be_anything() {
        let filled = Filled::new(false);
        filled.note(shaders(1));
        assert!(filled.may_have(shaders(1)) && !filled.may_have(shaders(2)));
        filled.note_anything();
        assert!(filled.may_have(shaders(2)));
    }
}
