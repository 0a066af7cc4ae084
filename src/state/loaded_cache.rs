//! Whether a cache that the program has loaded is asked before the stash on a driver whose disk is slow beside a cache.
//! Asking is always right; what is kept here says only whether it is worth it.

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
}
