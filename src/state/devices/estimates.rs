//! Estimates of the sources: what asking each has brought lately, and so whether it is worth asking for the next
//! pipeline.
//!
//! A question that finds nothing is dear where it makes the driver look into its disk cache: 0.8 ms on RADV (Mesa
//! 25.0.7), where a small pipeline is compiled in 2.2 ms. Whether it finds something depends on how the program passes
//! caches: what one cache has, another one need not have.
//!
//! Estimates are kept in the part of the device (docs/format.md), so that a run need not find out what the last one
//! has. A run whose source was not worth asking in the last one begins with one question.
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_macros))]

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::time::Duration;

use crate::faults;
use crate::state::process::policy::{CacheHabit, Policy};

/// The estimates of one device.
pub struct Estimates {
    /// The companions of caches.
    pub companion: Estimate,
    no_cache: Estimate,
    fresh: Estimate,
    shared: Estimate,
    loaded: Estimate,
}

/// The bytes of what is kept of one estimate.
const KEPT_ONE: usize = 8;
/// The bytes of what is kept of all.
const KEPT: usize = 5 * KEPT_ONE;

impl Estimates {
    /// The estimates that a device begins with: as the record says, or as the driver's row says where the record says
    /// nothing that can be true.
    pub fn new(policy: &Policy, record: Option<&[u8]>) -> Estimates {
        let kept = record.and_then(Estimates::parse);
        let mut kept = kept.into_iter().flatten();
        let mut next = || Estimate::new(policy.question_in_vain, kept.next());
        let [no_cache, fresh, shared, loaded, companion] = std::array::from_fn(|_| next());
        Estimates { companion, no_cache, fresh, shared, loaded }
    }

    fn parse(record: &[u8]) -> Option<Vec<EstimateRecord>> {
        let kept: Option<Vec<EstimateRecord>> = record.chunks(KEPT_ONE).map(EstimateRecord::parse).collect();
        kept.filter(|_| record.len() == KEPT)
    }

    /// The record of the estimates that the device part keeps.
    pub fn record(&self) -> Vec<u8> {
        let all = [&self.no_cache, &self.fresh, &self.shared, &self.loaded, &self.companion];
        all.iter().flat_map(|estimate| estimate.kept().encode()).collect()
    }

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

/// What is kept of an estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct EstimateRecord {
    is_worth_asking: bool,
    vain_us: u32,
}

impl EstimateRecord {
    fn parse(bytes: &[u8]) -> Option<EstimateRecord> {
        let (&is_worth_asking, rest) = bytes.split_first()?;
        let vain_us = rest.strip_prefix(&[0, 0, 0])?.try_into().ok()?;
        (is_worth_asking <= 1).then(|| EstimateRecord {
            is_worth_asking: is_worth_asking == 1,
            vain_us: u32::from_le_bytes(vain_us),
        })
    }

    fn encode(self) -> [u8; KEPT_ONE] {
        let [a, b, c, d] = self.vain_us.to_le_bytes();
        [self.is_worth_asking.into(), 0, 0, 0, a, b, c, d]
    }
}

/// What asking one source has brought.
pub struct Estimate {
    score: AtomicI32,
    passed_by: AtomicU32,
    /// The source is kept as not worth asking from a score of 0 to one of [`MOST`], so that what is kept changes
    /// rarely.
    is_kept_as_worth_it: AtomicBool,
    /// About the lower fifth of what questions in vain took, in microseconds.
    vain_us: AtomicU32,
    is_dear: AtomicBool,
    /// What the driver's row says that a question in vain takes, in microseconds.
    seed_us: u32,
}

/// So many questions in a row may bring nothing. One question that does bring something makes good for two that do not.
const MOST: i32 = 8;
/// After so many questions in vain the driver is asked once in so many times.
const SAMPLE: u32 = 64;
/// Questions in vain that take so many microseconds are dear, beside compiles of one or two milliseconds.
const DEAR_US: u32 = 300;
/// Questions become dear above a value, and cheap below one, that differ from [`DEAR_US`] by so many microseconds.
const BAND_US: u32 = 50;

/// What is learnt of a driver is within a quarter and four times of what its row says.
fn clamped(micros: u32, seed_us: u32) -> u32 {
    micros.clamp(seed_us / 4, seed_us.saturating_mul(4))
}

impl Estimate {
    fn new(seed: Duration, kept: Option<EstimateRecord>) -> Estimate {
        let seed_us = seed.as_micros().min(u128::from(u32::MAX / 4)) as u32;
        let seeds = EstimateRecord { is_worth_asking: true, vain_us: seed_us };
        let EstimateRecord { is_worth_asking, vain_us } = kept.unwrap_or(seeds);
        let vain_us = clamped(vain_us, seed_us);
        Estimate {
            score: AtomicI32::new(if is_worth_asking { MOST } else { 1 }),
            passed_by: AtomicU32::new(0),
            is_kept_as_worth_it: AtomicBool::new(is_worth_asking),
            vain_us: AtomicU32::new(vain_us),
            is_dear: AtomicBool::new(vain_us >= DEAR_US),
            seed_us,
        }
    }

    fn kept(&self) -> EstimateRecord {
        EstimateRecord {
            is_worth_asking: self.is_kept_as_worth_it.load(Ordering::Relaxed),
            vain_us: self.vain_us.load(Ordering::Relaxed),
        }
    }

    /// Whether the source is worth asking. To be called once for each request in which that decides.
    pub fn is_worth_asking(&self) -> bool {
        // The counts may be wrong by a few where threads meet.
        self.score.load(Ordering::Relaxed) > 0 || self.passed_by.fetch_add(1, Ordering::Relaxed) + 1 >= SAMPLE
    }

    /// Whether asking the source in vain takes long.
    pub fn is_dear(&self) -> bool {
        self.is_dear.load(Ordering::Relaxed)
    }

    /// Notes that the source had the pipeline. `was_worth_it`: it had it quickly. True: what is kept has changed.
    pub fn note_hit(&self, was_worth_it: bool) -> bool {
        let score = self.score.load(Ordering::Relaxed);
        self.note_score(score, if was_worth_it { (score + 2).min(MOST) } else { (score - 1).max(0) })
    }

    /// Notes that the source did not have the pipeline, and took so long. True: what is kept has changed.
    pub fn note_in_vain(&self, took: Duration) -> bool {
        let score = self.score.load(Ordering::Relaxed);
        let has_changed = self.note_score(score, (score - 1).max(0));
        let Some(took) = faults::measured(took) else { return has_changed };
        let took_us = took.as_micros().min(u128::from(u32::MAX)) as u32;
        let before = self.vain_us.load(Ordering::Relaxed);
        // One shorter than that weighs as much as four longer ones, whatever they are: so a thread that was interrupted
        // changes little.
        let next = if took_us < before { before - before / 4 } else { before + before / 16 + 1 };
        let next = clamped(next, self.seed_us);
        if next != before {
            self.vain_us.store(next, Ordering::Relaxed);
        }
        let is_dear = self.is_dear();
        let becomes_dear = next >= if is_dear { DEAR_US - BAND_US } else { DEAR_US + BAND_US };
        if becomes_dear != is_dear {
            self.is_dear.store(becomes_dear, Ordering::Relaxed);
        }
        has_changed || becomes_dear != is_dear
    }

    fn note_score(&self, before: i32, next: i32) -> bool {
        if next != before {
            self.score.store(next, Ordering::Relaxed);
        }
        if self.passed_by.load(Ordering::Relaxed) != 0 {
            self.passed_by.store(0, Ordering::Relaxed);
        }
        let was_worth_it = self.is_kept_as_worth_it.load(Ordering::Relaxed);
        let is_worth_it = next >= if was_worth_it { 1 } else { MOST };
        if is_worth_it != was_worth_it {
            self.is_kept_as_worth_it.store(is_worth_it, Ordering::Relaxed);
        }
        is_worth_it != was_worth_it
    }
}

#[cfg(test)]
mod tests {
    use ash::vk;

    use super::*;
    use crate::state::process::policy;

    const QUICK: Duration = Duration::from_micros(10);
    const SLOW: Duration = Duration::from_millis(5);

    fn of(driver: vk::DriverId, record: Option<&[u8]>) -> Estimates {
        Estimates::new(&policy::of(driver), record)
    }

    fn shared() -> Estimate {
        of(vk::DriverId::MESA_RADV, None).shared
    }

    #[test]
    fn a_source_that_has_nothing_is_asked_for_a_few_and_then_for_samples() {
        let estimate = shared();
        let asked = (0..1000).filter(|_| {
            let asks = estimate.is_worth_asking();
            if asks {
                estimate.note_in_vain(SLOW);
            }
            asks
        });
        assert_eq!(asked.count(), 8 + 992 / 64);
        estimate.note_hit(true);
        assert!((0..5).all(|_| estimate.is_worth_asking()));
    }

    #[test]
    fn a_sample_that_was_not_taken_stays_due() {
        let estimate = shared();
        (0..8).for_each(|_| _ = estimate.note_hit(false));
        assert_eq!((0..70).filter(|_| estimate.is_worth_asking()).count(), 7);
        estimate.note_in_vain(SLOW);
        assert!(!estimate.is_worth_asking());
    }

    #[test]
    fn habits_are_judged_apart() {
        let estimates = of(vk::DriverId::MESA_RADV, None);
        (0..8).for_each(|_| _ = estimates.driver(CacheHabit::Shared).note_in_vain(SLOW));
        let worth = [CacheHabit::None, CacheHabit::Fresh, CacheHabit::Shared, CacheHabit::Loaded]
            .map(|habit| estimates.driver(habit).is_worth_asking());
        assert_eq!(worth, [true, true, false, true]);
    }

    #[test]
    fn what_is_kept_changes_rarely_and_spares_the_next_run_questions() {
        let estimates = of(vk::DriverId::MESA_RADV, None);
        let changes = (0..1000).filter(|_| estimates.loaded.note_in_vain(SLOW)).count();
        assert_eq!(changes, 1);
        let next = of(vk::DriverId::MESA_RADV, Some(&estimates.record()));
        assert!(next.loaded.is_worth_asking() && next.shared.is_worth_asking());
        assert!(!next.loaded.note_in_vain(SLOW), "as it was");
        assert!(!next.loaded.is_worth_asking(), "one question was enough");
        let found = (0..100).filter(|_| next.loaded.note_hit(true)).count();
        assert_eq!(found, 1, "and it is worth asking from then on");
        assert_eq!(of(vk::DriverId::MESA_RADV, Some(&next.record())).loaded.kept(), next.loaded.kept());
    }

    #[test]
    fn questions_are_dear_or_cheap_as_measured_and_within_what_the_row_allows() {
        let learnt = |driver, took| {
            let estimates = of(driver, None);
            let changes = (0..100).filter(|_| estimates.shared.note_in_vain(took)).count();
            (estimates.shared.is_dear(), changes)
        };
        assert_eq!(learnt(vk::DriverId::MESA_RADV, SLOW), (true, 1), "not worth asking");
        assert_eq!(learnt(vk::DriverId::MESA_RADV, QUICK), (false, 2), "and cheap");
        assert_eq!(learnt(vk::DriverId::INTEL_OPEN_SOURCE_MESA, QUICK), (false, 1));
        assert_eq!(learnt(vk::DriverId::INTEL_OPEN_SOURCE_MESA, SLOW), (true, 2));
        assert_eq!(learnt(vk::DriverId::NVIDIA_PROPRIETARY, SLOW), (false, 1));
        // A thread is interrupted now and then.
        let estimate = of(vk::DriverId::INTEL_OPEN_SOURCE_MESA, None).shared;
        for round in 0..1000 {
            estimate.note_in_vain(if round % 2 == 0 { SLOW } else { Duration::from_micros(100) });
            assert!(!estimate.is_dear(), "{round}");
        }
    }

    #[test]
    fn a_record_that_cannot_be_true_is_none() {
        let seeds = of(vk::DriverId::MESA_RADV, None).record();
        let shared = 2 * KEPT_ONE;
        for (at, byte) in [(0, 2), (shared + 1, 1), (shared + 3, 255)] {
            let mut record = seeds.clone();
            record[shared] = 0;
            record[at] = byte;
            assert_eq!(of(vk::DriverId::MESA_RADV, Some(&record)).record(), seeds, "{at}");
        }
        for length in [0, 8, 39, 48] {
            assert_eq!(of(vk::DriverId::MESA_RADV, Some(&vec![0; length])).record(), seeds, "{length}");
        }
        let absurd = [0, 0, 0, 0, 255, 255, 255, 255].repeat(5);
        let kept = of(vk::DriverId::MESA_RADV, Some(&absurd)).shared.kept();
        assert_eq!(kept, EstimateRecord { is_worth_asking: false, vain_us: 3200 });
    }
}
