//! Whether the stash or the driver is asked first in this run, and what the calls of this run cost (docs/adaptive.md).
//!
//! A run has one way for each cache habit from its first call to its last, because what a driver has in memory depends
//! on the calls before. So runs are compared with runs.
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_macros))]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use vkstash_store::format::comparison::{AskedFirst, CacheHabit, Comparison};
use vkstash_store::format::record::Kind;
use vkstash_store::part::open::Part;

use crate::config::AskFirst;

/// This run, by cache habit.
#[derive(Default)]
pub struct Comparisons {
    habits: [Running; CacheHabit::ALL.len()],
    /// Nanoseconds that the layer needed for shader modules.
    module_nanos: AtomicU64,
}

/// One habit in this run.
#[derive(Default)]
struct Running {
    start: OnceLock<Start>,
    calls: AtomicU32,
    nanos: AtomicU64,
}

/// What was known when the run began.
struct Start {
    /// None: nothing is compared.
    before: Option<Comparison>,
    was_compared: bool,
    way: AskedFirst,
}

impl Start {
    fn of(ask: AskFirst, part: Option<&Part>, habit: CacheHabit) -> Start {
        let way = match (ask, part) {
            (AskFirst::Stash, _) | (AskFirst::Auto, None) => AskedFirst::Stash,
            (AskFirst::Driver, _) => AskedFirst::Driver,
            (AskFirst::Auto, Some(part)) => {
                let mut payload = Vec::new();
                let read = part.read(Kind::Comparison, &habit.key(), &mut payload);
                let known = read.then(|| Comparison::decode(&payload)).flatten();
                let before = known.unwrap_or_default();
                let (was_compared, way) = (known.is_some(), before.next_run());
                return Start { before: Some(before), was_compared, way };
            }
        };
        Start { before: None, was_compared: false, way }
    }
}

impl Comparisons {
    fn start(&self, ask: AskFirst, part: Option<&Part>, habit: CacheHabit) -> &Start {
        self.habits[habit.position()].start.get_or_init(|| Start::of(ask, part, habit))
    }

    /// Who is asked first.
    pub fn way(&self, ask: AskFirst, part: Option<&Part>, habit: CacheHabit) -> AskedFirst {
        let start = self.start(ask, part, habit);
        if habit == CacheHabit::FreshCache && !start.was_compared {
            // The first pipeline of a cache that many will share.
            return self.start(ask, part, CacheHabit::SharedCache).way;
        }
        start.way
    }

    /// Whether nothing of the stash is wanted before the driver was asked: that is so for every habit that this program
    /// is known to have.
    pub fn all_ask_driver(&self, ask: AskFirst, part: Option<&Part>) -> bool {
        let mut known = CacheHabit::ALL
            .map(|habit| self.start(ask, part, habit))
            .into_iter()
            .filter(|start| start.was_compared || ask == AskFirst::Driver)
            .peekable();
        known.peek().is_some() && known.all(|start| start.way == AskedFirst::Driver)
    }

    /// Whether calls of this habit are timed.
    pub fn is_timed(&self, habit: CacheHabit) -> bool {
        let Running { start, calls, .. } = &self.habits[habit.position()];
        start.get().is_some_and(|start| start.before.is_some())
            && calls.load(Ordering::Relaxed) < 1 << Comparison::MOST_POWER
    }

    /// The layer needed so long for a shader module.
    pub fn note_module(&self, took: Duration) {
        self.module_nanos.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
    }

    /// A pipeline was had without a compile in so long. Returns the habit's comparison with this run, if it is due to be
    /// recorded: each time that the number of calls has doubled, because a program may end without notice.
    pub fn note_call(&self, habit: CacheHabit, took: Duration) -> Option<Comparison> {
        let Running { start, calls, nanos } = &self.habits[habit.position()];
        let mut sum = nanos.fetch_add(took.as_nanos() as u64, Ordering::Relaxed) + took.as_nanos() as u64;
        let mut calls = calls.fetch_add(1, Ordering::Relaxed) + 1;
        let power = calls.trailing_zeros() as u8;
        if !calls.is_power_of_two() || !(Comparison::LEAST_POWER..=Comparison::MOST_POWER).contains(&power) {
            return None;
        }
        let Start { before, way, .. } = start.get()?;
        if habit == CacheHabit::SharedCache {
            let first = &self.habits[CacheHabit::FreshCache.position()];
            let first_calls = first.calls.load(Ordering::Relaxed);
            // The first pipelines of caches that many share: a driver may open its disk cache for them.
            if first_calls < 1 << Comparison::LEAST_POWER {
                calls += first_calls;
                sum += first.nanos.load(Ordering::Relaxed);
            }
        }
        let sum = sum.saturating_add(self.module_nanos.load(Ordering::Relaxed));
        let mean = u32::try_from(sum / u64::from(calls)).unwrap_or(u32::MAX);
        Some((*before)?.with_run(*way, power, mean))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(way: AskedFirst) -> Comparisons {
        let comparisons = Comparisons::default();
        for running in &comparisons.habits {
            let start = Start { before: Some(Comparison::default()), was_compared: false, way };
            assert!(running.start.set(start).is_ok());
        }
        comparisons
    }

    #[test]
    fn a_run_is_recorded_each_time_that_its_calls_double() {
        let comparisons = started(AskedFirst::Stash);
        let mut due = Vec::new();
        for call in 1..=5000_u32 {
            if let Some(now) = comparisons.note_call(CacheHabit::NoCache, Duration::from_micros(4)) {
                due.push(call);
                let expected = Comparison::default().with_run(AskedFirst::Stash, call.ilog2() as u8, 4000);
                assert_eq!(now, expected);
            }
        }
        assert_eq!(due, (4..=12).map(|power| 1 << power).collect::<Vec<u32>>());
        assert!(!comparisons.is_timed(CacheHabit::NoCache) && comparisons.is_timed(CacheHabit::FreshCache));
    }

    #[test]
    fn modules_are_part_of_what_a_run_costs() {
        let comparisons = started(AskedFirst::Driver);
        comparisons.note_module(Duration::from_micros(160));
        let call = || comparisons.note_call(CacheHabit::SharedCache, Duration::from_micros(5));
        let now = (0..16).find_map(|_| call());
        assert_eq!(now, Some(Comparison::default().with_run(AskedFirst::Driver, 4, 15_000)));
    }

    #[test]
    fn the_first_pipeline_of_a_shared_cache_is_part_of_what_a_run_costs() {
        let comparisons = started(AskedFirst::Driver);
        assert_eq!(comparisons.note_call(CacheHabit::FreshCache, Duration::from_micros(85)), None);
        let call = || comparisons.note_call(CacheHabit::SharedCache, Duration::from_micros(0));
        let now = (0..16).find_map(|_| call());
        assert_eq!(now, Some(Comparison::default().with_run(AskedFirst::Driver, 4, 5_000)));
    }

    #[test]
    fn what_the_user_chose_is_not_compared() {
        for (ask, way) in [(AskFirst::Stash, AskedFirst::Stash), (AskFirst::Driver, AskedFirst::Driver)] {
            let comparisons = Comparisons::default();
            assert_eq!(comparisons.way(ask, None, CacheHabit::NoCache), way);
            assert!(!comparisons.is_timed(CacheHabit::NoCache));
            assert_eq!(comparisons.all_ask_driver(ask, None), way == AskedFirst::Driver);
            let due = (0..20).filter_map(|_| comparisons.note_call(CacheHabit::NoCache, Duration::ZERO));
            assert_eq!(due.count(), 0);
        }
        assert!(!Comparisons::default().all_ask_driver(AskFirst::Auto, None));
    }
}
