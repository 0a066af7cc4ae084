//! Pending entries: what the stash served or compiled beside a cache of the program's, or beside VK_NULL_HANDLE.
//!
//! None of it reaches the driver's object. So the keys are remembered: their artifacts are pending entries of the
//! program's cache, whose data has to hold them when it is asked for. A pipeline that the cache would have held by now
//! is looked for among them before it is compiled (serve/companion.rs).

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use rustc_hash::{FxBuildHasher, FxHashSet};

use super::companion::Companion;
use vkstash_host::once::OnceLock;
use vkstash_host::sort;
use vkstash_host::sync::{Mutex, MutexGuard};
use vkstash_model::record::Key;
use vkstash_model::shader_set::ShaderSet;

/// The keys, and the companion cache.
#[derive(Default)]
pub struct PendingKeys {
    // Translators make a cache for one pipeline: the first key needs no map, and costs no allocation.
    first: OnceLock<(Key, ShaderSet)>,
    first_is_in: AtomicBool,
    /// The first key is in the driver's object as well.
    first_is_inside: AtomicBool,
    further: OnceLock<Box<KeyTable>>,
    /// A cache of the layer's with their artifacts.
    pub companion: Companion,
}

struct KeyTable {
    keys: papaya::HashMap<Key, (u32, ShaderSet), FxBuildHasher>,
    order: AtomicU32,
    /// By the number of a shader. The number of a whole set of shaders is there without keys.
    by_shader: [Mutex<HashMap<u64, ShaderKeys, FxBuildHasher>>; SHARDS],
}

/// Threads that make different pipelines rarely meet at the same one.
const SHARDS: usize = 16;

/// Keys that have a shader in common.
#[derive(Default)]
struct ShaderKeys {
    keys: Vec<Key>,
    /// The first so many keys are in the companion, or cannot be put there.
    merged_up_to: usize,
}

impl PendingKeys {
    /// Notes that a pipeline of this key was made beside the cache. Returns whether it is the first one of this key.
    /// Takes no lock for a key that is known: engines share one cache between all their threads.
    pub fn note(&self, key: &Key, shaders: &ShaderSet) -> bool {
        let is_first = || self.first.get().is_some_and(|(first, _)| first == key);
        if is_first() {
            return false;
        }
        if self.first.get().is_none() && self.first.set((*key, shaders.clone())).is_ok() {
            return true;
        }
        let further = self.further.get_or_init(Box::default);
        let keys = further.keys.pin();
        if keys.get(key).is_some() || is_first() {
            return false;
        }
        let order = further.order.fetch_add(1, Ordering::Relaxed);
        if keys.insert(*key, (order, shaders.clone())).is_some() {
            return false;
        }
        for number in shaders.numbers() {
            further.shard(*number).entry(*number).or_default().keys.push(*key);
        }
        let together = shaders.together();
        further.shard(together).entry(together).or_default();
        true
    }

    /// Notes that a pipeline of this key was made inside the empty cache, before any was made beside it.
    pub fn note_inside(&self, key: &Key, shaders: &ShaderSet) {
        match self.first.set((*key, shaders.clone())) {
            Ok(()) => self.first_is_inside.store(true, Ordering::Release),
            // Another thread has made a pipeline beside the cache meanwhile: this one is noted as pending, too.
            Err(_) => _ = self.note(key, shaders),
        }
    }

    /// Whether a pipeline of this key was made beside the cache, or is the one inside.
    pub fn contains(&self, key: &Key) -> bool {
        self.first.get().is_some_and(|(first, _)| first == key)
            || self.further.get().is_some_and(|further| further.keys.pin().get(key).is_some())
    }

    /// Every key whose pipeline the driver's object of this cache need not have, in the order of first use.
    pub fn pending(&self) -> Vec<(Key, ShaderSet)> {
        let mut keys: Vec<(u32, Key, ShaderSet)> = Vec::new();
        if let Some(further) = self.further.get() {
            let all = further.keys.pin();
            keys.extend(all.iter().map(|(key, (order, shaders))| (*order, *key, shaders.clone())));
        }
        sort::by_key(&mut keys, |(order, ..)| *order);
        let further = keys.into_iter().map(|(_, key, shaders)| (key, shaders));
        let first = self.first.get().filter(|_| !self.first_is_inside.load(Ordering::Acquire));
        first.cloned().into_iter().chain(further).collect()
    }

    /// None: one of these shaders is in no pipeline that was made beside the cache, so that no artifact there fits.
    /// Else whether the companion lacks an artifact that may fit. A driver that keeps whole pipelines needs the
    /// artifact of exactly these shaders, which is among the keys of the shader that the fewest keys have; for a
    /// driver that keeps an entry per shader, one key of each of the other shaders is enough.
    pub fn of(&self, shaders: &ShaderSet) -> Option<CompanionGap> {
        if shaders.is_unknown() {
            return None;
        }
        let met = |&number: &u64| self.first_has(number) || self.count_of(number) > 0;
        shaders.numbers().iter().all(met).then(|| CompanionGap(self.next_lacking(shaders).is_some()))
    }

    /// Whether a pipeline of exactly these shaders was made beside the cache.
    pub fn met_together(&self, shaders: &ShaderSet) -> bool {
        if self.first.get().is_some_and(|(_, first)| first == shaders) {
            return true;
        }
        let together = shaders.together();
        self.further.get().is_some_and(|further| further.shard(together).contains_key(&together))
    }

    /// The next key whose artifact the companion should have. A key may come more than once.
    pub fn next_lacking(&self, shaders: &ShaderSet) -> Option<(Key, Place)> {
        let numbers = shaders.numbers();
        if numbers.iter().any(|&number| self.first_has(number)) && !self.first_is_in.load(Ordering::Acquire) {
            return self.first.get().map(|(key, _)| (*key, Place::First));
        }
        let next = |number: u64, most: usize| {
            let shard = self.further.get()?.shard(number);
            let alike = shard.get(&number).filter(|alike| alike.merged_up_to < most)?;
            Some((*alike.keys.get(alike.merged_up_to)?, Place::Of(number)))
        };
        let rarest = numbers.iter().min_by_key(|number| self.count_of(**number));
        rarest
            .and_then(|&number| next(number, usize::MAX))
            .or_else(|| numbers.iter().find_map(|&number| next(number, 1)))
    }

    /// Marks the key at `place` as done: it is in the companion, or cannot be put there. For the thread that fills it.
    pub fn pass_by(&self, place: Place) {
        match place {
            Place::First => self.first_is_in.store(true, Ordering::Release),
            Place::Of(number) => {
                let further = self.further.get();
                if let Some(alike) = further
                    .map(|further| further.shard(number))
                    .as_mut()
                    .and_then(|shard| shard.get_mut(&number))
                {
                    alike.merged_up_to += 1;
                }
            }
        }
    }

    fn first_has(&self, number: u64) -> bool {
        self.first.get().is_some_and(|(_, first)| first.numbers().contains(&number))
    }

    fn count_of(&self, number: u64) -> usize {
        let Some(further) = self.further.get() else { return 0 };
        further.shard(number).get(&number).map_or(0, |alike| alike.keys.len())
    }
}

/// The place of a key that the companion lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The first key that was noted.
    First,
    /// The next key of the pipelines that have this shader.
    Of(u64),
}

/// Whether the companion lacks some of the artifacts that may fit.
pub struct CompanionGap(pub bool);

impl Default for KeyTable {
    fn default() -> KeyTable {
        KeyTable {
            keys: papaya::HashMap::with_hasher(FxBuildHasher),
            order: AtomicU32::new(0),
            by_shader: Default::default(),
        }
    }
}

impl KeyTable {
    fn shard(&self, number: u64) -> MutexGuard<'_, HashMap<u64, ShaderKeys, FxBuildHasher>> {
        self.by_shader[number as usize % SHARDS].lock()
    }
}

/// What the driver may have put into the driver's object of a cache: which shaders, as far as that is known.
pub struct DriverContents {
    anything: AtomicBool,
    shaders: Mutex<FxHashSet<u64>>,
    keys: Mutex<FxHashSet<Key>>,
}

impl DriverContents {
    /// A cache that is known to be empty, or one that may have anything (`anything`).
    pub fn new(anything: bool) -> DriverContents {
        DriverContents {
            anything: AtomicBool::new(anything),
            shaders: Mutex::default(),
            keys: Mutex::default(),
        }
    }

    /// A pipeline of these shaders went through the driver's object; of unknown ones: it may have anything.
    pub fn note(&self, shaders: &ShaderSet) {
        if shaders.is_unknown() {
            // Many threads note the same.
            if !self.may_have_anything() {
                self.anything.store(true, Ordering::Release);
            }
            return;
        }
        let mut met = self.shaders.lock();
        met.insert(shaders.together());
        // Where the cache may have anything, single shaders are not asked for.
        if !self.may_have_anything() {
            met.extend(shaders.numbers());
        }
    }

    /// The pipeline of this key went through the driver's object. Whether it is the first time.
    pub fn note_key(&self, key: &Key) -> bool {
        self.keys.lock().insert(*key)
    }

    /// Whether pipelines of unknown shaders went through the cache.
    fn may_have_anything(&self) -> bool {
        self.anything.load(Ordering::Acquire)
    }

    /// Whether the driver's object can have a pipeline of these shaders. `as_a_whole`: such a driver keeps no entry for
    /// each shader, so it must have met them in one pipeline.
    pub fn may_have(&self, shaders: &ShaderSet, as_a_whole: bool) -> bool {
        if self.may_have_anything() {
            return true;
        }
        if shaders.is_unknown() {
            return false;
        }
        let met = self.shaders.lock();
        if as_a_whole {
            met.contains(&shaders.together())
        } else {
            shaders.numbers().iter().all(|number| met.contains(number))
        }
    }
}

/// VK_NULL_HANDLE in the place of a cache: many drivers have a cache of the driver's behind it.
pub struct NullCache {
    /// The pipelines that were made beside the driver's cache behind VK_NULL_HANDLE.
    pub pending: PendingKeys,
    /// The pipelines that the driver may have put into that cache.
    pub driver_contents: DriverContents,
}

#[cfg(test)]
mod tests {
    use super::*;
    use vkstash_model::recipe::{Bytes, Code, Extensions, Pipeline, RayTracing, Stage};

    fn shaders(codes: &[u8]) -> ShaderSet {
        let stage = |code: &u8| Stage {
            flags: 0,
            stage: 1,
            code: Code::Module([*code; 32]),
            entry_point: Bytes(b"main"),
            specialization: Default::default(),
            mappings: Default::default(),
            extensions: Extensions::default(),
        };
        ShaderSet::of(&Pipeline::RayTracing(RayTracing {
            flags: 0,
            stages: codes.iter().map(stage).collect(),
            groups: Default::default(),
            max_recursion: 1,
            interface: None,
            libraries: Default::default(),
            dynamic: Default::default(),
            layout: None,
            extensions: Extensions::default(),
        }))
    }

    fn lacking(pending: &PendingKeys, codes: &[u8]) -> Vec<u8> {
        let mut keys: Vec<u8> = std::iter::from_fn(|| {
            let (key, place) = pending.next_lacking(&shaders(codes))?;
            pending.pass_by(place);
            Some(key[0])
        })
        .collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    #[test]
    fn a_key_is_noted_once_and_in_order() {
        let (pending, shaders) = (PendingKeys::default(), shaders(&[1]));
        for key in [2, 1, 3] {
            assert!(pending.note(&[key; 32], &shaders) && !pending.note(&[key; 32], &shaders));
        }
        let keys: Vec<Key> = pending.pending().into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, [[2; 32], [1; 32], [3; 32]]);
        assert!(pending.contains(&[1; 32]) && !pending.contains(&[4; 32]));
    }

    #[test]
    fn what_is_inside_is_not_pending_and_the_companion_gets_it() {
        let pending = PendingKeys::default();
        pending.note_inside(&[1; 32], &shaders(&[1]));
        pending.note(&[2; 32], &shaders(&[1]));
        assert_eq!(pending.pending().len(), 1);
        assert!(pending.contains(&[1; 32]));
        assert_eq!(lacking(&pending, &[1]), [1, 2]);
        // The call that found the cache empty may end after others.
        let late = PendingKeys::default();
        late.note(&[2; 32], &shaders(&[1]));
        late.note_inside(&[1; 32], &shaders(&[1]));
        assert_eq!(late.pending().len(), 2);
    }

    #[test]
    fn all_keys_of_the_same_shaders_are_handed_out_once() {
        let pending = PendingKeys::default();
        assert!(pending.of(&shaders(&[1, 9])).is_none());
        for key in 1..=6 {
            pending.note(&[key; 32], &shaders(&[key % 2, 9]));
        }
        assert!(pending.of(&shaders(&[1, 9])).is_some_and(|CompanionGap(lacking)| lacking));
        assert_eq!(lacking(&pending, &[1, 9]), [1, 2, 3, 5], "all of the rarer shader, one of the other");
        assert!(pending.of(&shaders(&[1, 9])).is_some_and(|CompanionGap(lacking)| !lacking));
        pending.note(&[7; 32], &shaders(&[1, 9]));
        assert!(pending.of(&shaders(&[1, 9])).is_some_and(|CompanionGap(lacking)| lacking));
        assert_eq!(lacking(&pending, &[1, 9]), [7]);
        assert!(pending.of(&shaders(&[1, 8])).is_none(), "one of its shaders was never met");
        assert!(pending.of(&ShaderSet::default()).is_none());
    }

    #[test]
    fn shaders_that_were_met_apart_may_be_had_together() {
        let pending = PendingKeys::default();
        for (key, codes) in [(1, [1, 11]), (2, [1, 12]), (3, [2, 11]), (4, [3, 13])] {
            pending.note(&[key; 32], &shaders(&codes));
        }
        let found = lacking(&pending, &[2, 12]);
        assert!(found.contains(&2) && found.contains(&3), "{found:?}");
        assert!(pending.of(&shaders(&[2, 12])).is_some_and(|CompanionGap(lacking)| !lacking));
        assert!(!pending.met_together(&shaders(&[2, 12])) && pending.met_together(&shaders(&[2, 11])));
        assert!(pending.met_together(&shaders(&[1, 11])), "the first one");
    }

    #[test]
    fn what_nobody_described_may_be_anything() {
        let filled = DriverContents::new(false);
        filled.note(&shaders(&[1, 2]));
        assert!(filled.may_have(&shaders(&[2]), false) && !filled.may_have(&shaders(&[2, 3]), false));
        assert!(filled.may_have(&shaders(&[1, 2]), true) && !filled.may_have(&shaders(&[2]), true));
        assert!(!filled.may_have(&ShaderSet::default(), false));
        filled.note(&ShaderSet::default());
        assert!(filled.may_have(&shaders(&[3]), true) && filled.may_have(&ShaderSet::default(), true));
    }
}
