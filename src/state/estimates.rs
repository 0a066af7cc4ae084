//! What asking a source has brought lately: whether it is worth asking for the next pipeline.
//!
//! A question that finds nothing is dear where it makes the driver look into its disk cache: 0.8 ms on RADV (Mesa
//! 25.0.7), where a small pipeline is compiled in 2.2 ms. Whether it finds something depends on how the program passes
//! caches: what one cache has, another one need not have.

use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use super::policy::CacheHabit;

/// The estimates of one device.
#[derive(Default)]
pub struct Estimates {
    /// The companions of caches.
    pub companion: Estimate,
    no_cache: Estimate,
    fresh: Estimate,
    shared: Estimate,
    loaded: Estimate,
}

impl Estimates {
    /// The driver's caches, for programs with this habit.
    pub fn driver(&self, habit: CacheHabit) -> &Estimate {
        match habit {
            CacheHabit::None => &self.no_cache,
            CacheHabit::Fresh => &self.fresh,
            CacheHabit::Shared => &self.shared,
            CacheHabit::Loaded => &self.loaded,
        }
    }
}

/// What asking one source has brought.
pub struct Estimate {
    score: AtomicI32,
    passed_by: AtomicU32,
}

impl Default for Estimate {
    fn default() -> Estimate {
        Estimate { score: AtomicI32::new(MOST), passed_by: AtomicU32::new(0) }
    }
}

/// So many questions in a row may bring nothing. One that does makes good for two that do not.
const MOST: i32 = 8;

/// Then it is asked once in so many times.
const SAMPLE: u32 = 64;

impl Estimate {
    /// Whether it is worth asking. To be called once for each request in which that decides.
    pub fn is_worth_asking(&self) -> bool {
        // The counts may be wrong by a few where threads meet.
        self.score.load(Ordering::Relaxed) > 0 || self.passed_by.fetch_add(1, Ordering::Relaxed) + 1 >= SAMPLE
    }

    /// It was asked. `was_worth_it`: it had the pipeline, and had it quickly.
    pub fn note(&self, was_worth_it: bool) {
        let score = self.score.load(Ordering::Relaxed);
        let next = if was_worth_it { (score + 2).min(MOST) } else { (score - 1).max(0) };
        if next != score {
            self.score.store(next, Ordering::Relaxed);
        }
        if self.passed_by.load(Ordering::Relaxed) != 0 {
            self.passed_by.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_that_has_nothing_is_asked_for_a_few_and_then_for_samples() {
        let estimate = Estimate::default();
        let asked = (0..1000).filter(|_| {
            let asks = estimate.is_worth_asking();
            if asks {
                estimate.note(false);
            }
            asks
        });
        assert_eq!(asked.count(), 8 + 992 / 64);
        estimate.note(true);
        assert!((0..5).all(|_| estimate.is_worth_asking()));
    }

    #[test]
    fn a_sample_that_was_not_taken_stays_due() {
        let estimate = Estimate::default();
        (0..8).for_each(|_| estimate.note(false));
        assert_eq!((0..70).filter(|_| estimate.is_worth_asking()).count(), 7);
        estimate.note(false);
        assert!(!estimate.is_worth_asking());
    }

    #[test]
    fn habits_are_judged_apart() {
        let estimates = Estimates::default();
        (0..8).for_each(|_| estimates.driver(CacheHabit::Shared).note(false));
        let worth = [CacheHabit::None, CacheHabit::Fresh, CacheHabit::Shared, CacheHabit::Loaded]
            .map(|habit| estimates.driver(habit).is_worth_asking());
        assert_eq!(worth, [true, true, false, true]);
    }
}
