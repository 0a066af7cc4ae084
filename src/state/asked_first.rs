//! When the driver is asked for a pipeline before anything is described and hashed: where what it has in memory costs
//! less than describing a pipeline does. Asking is always right; what is kept here says only whether it is worth it.

use std::num::NonZeroU64;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::Duration;

use crate::faults;

/// Whether a cache that the program has loaded is asked first: while it has what it is asked for, in memory. What the
/// driver finds on disk instead takes many times as long as a served call.
pub struct LoadedCacheFirst {
    score: AtomicI32,
    fastest: Fastest,
}

impl Default for LoadedCacheFirst {
    fn default() -> LoadedCacheFirst {
        LoadedCacheFirst { score: AtomicI32::new(8), fastest: Fastest::default() }
    }
}

impl LoadedCacheFirst {
    /// Whether it has been worth it so far.
    pub fn is_worth_it(&self) -> bool {
        self.score.load(Ordering::Relaxed) >= 0
    }

    /// What asking has brought: how long a hit took, None for a miss.
    pub fn note(&self, hit: Option<Duration>) {
        let step = if hit.is_some_and(|took| self.fastest.is_in_memory(took)) { 1 } else { -4 };
        let next = (self.score.load(Ordering::Relaxed) + step).min(16);
        // Once it was not worth it, it stays so. Threads that meet here lose a step at worst.
        if self.is_worth_it() {
            self.score.store(next, Ordering::Relaxed);
        }
    }
}

/// Tells a driver's hits in memory from its hits on disk.
struct Fastest(AtomicU64);

impl Default for Fastest {
    fn default() -> Fastest {
        Fastest(AtomicU64::new(u64::MAX))
    }
}

impl Fastest {
    /// In-memory hits take 1 to 10 us on RADV and 40 to 130 us on NVIDIA, hits on disk 60 to 80 us and 560 to 1700 us.
    const FAST: Duration = Duration::from_micros(30);
    const SLOW: Duration = Duration::from_micros(300);

    fn is_in_memory(&self, took: Duration) -> bool {
        let nanos = took.as_nanos() as u64;
        let fastest = self.0.load(Ordering::Relaxed);
        // Rare, so threads do not wait for each other's write.
        if nanos < fastest {
            self.0.fetch_min(nanos, Ordering::Relaxed);
        }
        took <= faults::time_limit(Fastest::FAST) || (nanos / 4 <= fastest && took <= Fastest::SLOW)
    }
}

/// Stages of which a cache, or the driver's behind VK_NULL_HANDLE, has lately had a pipeline in memory, or its
/// companion: it is likely to have the next one as well, which differs in state that drivers leave out of their keys.
///
/// A direct-mapped table without locks. Two sets of stages that meet in a slot push each other out.
#[derive(Default)]
pub struct RecentHits {
    // Translators make a cache for each pipeline: nothing is allocated before the first hit.
    slots: OnceLock<Box<[AtomicU64; SLOTS]>>,
    fastest: Fastest,
}

/// Who had it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// The cache that the program passed, or the driver's behind VK_NULL_HANDLE.
    ProgramsCache,
    /// The layer's cache beside it.
    Companion,
}

/// More sets of stages than a frame's worth of loading has; 2 KiB.
const SLOTS: usize = 256;

impl RecentHits {
    /// Whether no set of stages was ever put in.
    pub fn is_empty(&self) -> bool {
        self.slots.get().is_none()
    }

    /// Who had the last pipeline of these stages in memory, if anybody had.
    pub fn holder(&self, stages: NonZeroU64) -> Option<Holder> {
        let found = slot(self.slots.get()?, stages).load(Ordering::Relaxed);
        let holders = [Holder::ProgramsCache, Holder::Companion];
        holders.into_iter().find(|&holder| found == entry(stages, holder))
    }

    /// What asking has brought: how long a hit took, None for a miss.
    pub fn note(&self, stages: NonZeroU64, holder: Holder, hit: Option<Duration>) {
        if hit.is_some_and(|took| self.fastest.is_in_memory(took)) {
            let slots = self.slots.get_or_init(|| Box::new([const { AtomicU64::new(0) }; SLOTS]));
            slot(slots, stages).store(entry(stages, holder), Ordering::Relaxed);
        } else if let Some(slots) = self.slots.get().filter(|_| self.holder(stages) == Some(holder)) {
            slot(slots, stages).store(0, Ordering::Relaxed);
        }
    }
}

/// Never 0, which stands for nothing.
fn entry(stages: NonZeroU64, holder: Holder) -> u64 {
    stages.get() & !3 | if holder == Holder::ProgramsCache { 1 } else { 2 }
}

fn slot(slots: &[AtomicU64; SLOTS], stages: NonZeroU64) -> &AtomicU64 {
    // FxHasher turns its best bits to the lower end, and has no upper half in 32 bits.
    &slots[stages.get() as usize % SLOTS]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loaded_cache_is_asked_first_while_it_has_what_it_is_asked_for() {
        let micros = |micros| Some(Duration::from_micros(micros));
        let first = LoadedCacheFirst::default();
        for _ in 0..100 {
            first.note(micros(4));
            first.note(micros(4));
            first.note(micros(4));
            first.note(micros(4));
            first.note(None);
        }
        assert!(first.is_worth_it());
        (0..5).for_each(|_| first.note(micros(65)));
        assert!(!first.is_worth_it(), "from the disk");
        (0..100).for_each(|_| first.note(micros(4)));
        assert!(!first.is_worth_it());
        let slow = LoadedCacheFirst::default();
        (0..100).for_each(|_| slow.note(micros(80)));
        assert!(slow.is_worth_it(), "this driver is no faster");
        let disk = LoadedCacheFirst::default();
        (0..3).for_each(|_| disk.note(micros(660)));
        assert!(!disk.is_worth_it());
        let empty = LoadedCacheFirst::default();
        (0..3).for_each(|_| empty.note(None));
        assert!(!empty.is_worth_it());
    }

    #[test]
    fn stages_are_asked_for_first_while_the_driver_has_them_in_memory() {
        let micros = |micros| Some(Duration::from_micros(micros));
        let (one, other) = (NonZeroU64::new(4).unwrap(), NonZeroU64::new(8).unwrap());
        let hits = RecentHits::default();
        for holder in [Holder::ProgramsCache, Holder::Companion] {
            hits.note(one, holder, None);
            hits.note(one, holder, micros(400));
            assert_eq!(hits.holder(one), None, "a hit on disk");
            hits.note(one, holder, micros(5));
            assert_eq!((hits.holder(one), hits.holder(other)), (Some(holder), None));
            hits.note(other, holder, None);
            assert_eq!(hits.holder(one), Some(holder), "the miss was of others");
            hits.note(one, holder, None);
            assert_eq!(hits.holder(one), None);
            hits.note(one, holder, micros(5));
            hits.note(one, holder, micros(70));
            assert_eq!(hits.holder(one), None, "from the disk");
        }
        hits.note(one, Holder::Companion, micros(5));
        hits.note(one, Holder::ProgramsCache, None);
        assert_eq!(hits.holder(one), Some(Holder::Companion), "the miss was the other's");
    }

    #[test]
    fn stages_that_meet_in_a_slot_push_each_other_out() {
        let hits = RecentHits::default();
        let (one, same_slot) = (NonZeroU64::new(4).unwrap(), NonZeroU64::new(4 + SLOTS as u64).unwrap());
        for stages in [one, same_slot] {
            hits.note(stages, Holder::ProgramsCache, Some(Duration::from_micros(5)));
        }
        assert_eq!((hits.holder(one), hits.holder(same_slot)), (None, Some(Holder::ProgramsCache)));
        hits.note(one, Holder::ProgramsCache, None);
        assert!(hits.holder(same_slot).is_some());
    }

    #[test]
    fn modules_of_real_handles_meet_rarely() {
        use std::collections::HashSet;
        use std::hash::BuildHasher as _;
        // Addresses of one allocation after the other, as drivers' handles are.
        for distance in [64_u64, 4096, 16 << 10, 1 << 20] {
            let taken: HashSet<usize> = (0..SLOTS as u64)
                .map(|number| 0x5600_0000_0000 + number * distance)
                .map(|handle| rustc_hash::FxBuildHasher.hash_one((handle, 32_u32)) as usize % SLOTS)
                .collect();
            assert!(taken.len() > SLOTS / 2, "{distance} bytes: {} of {SLOTS}", taken.len());
        }
    }
}
