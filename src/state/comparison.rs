//! Whether the stash or the driver is asked first in this run, and what the calls of this run cost (docs/adaptive.md).
//!
//! A run has one way for each cache habit from its first call to its last, because what a driver has in memory depends
//! on the calls before. So runs are compared with runs.
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_macros))]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use vkstash_store::base::thread;
use vkstash_store::base::util::unix_ms;
use vkstash_store::format::comparison::{AskedFirst, CacheHabit, Comparison};
use vkstash_store::format::record::Kind;
use vkstash_store::settings::BackgroundMode;

use super::stored::Stored;
use crate::config::AskFirst;
use crate::faults;

/// This run, by cache habit.
#[derive(Default)]
pub struct Comparisons {
    habits: [Running; CacheHabit::ALL.len()],
    /// Nanoseconds that the layer needed for shader modules.
    module_nanos: AtomicU64,
    /// The records were replaced in this run, which therefore tells nothing.
    is_forgotten: AtomicBool,
    /// Whether serving costs more in this run than in others. Looked for once, so that all habits have the same answer.
    is_dear: OnceLock<bool>,
}

/// One habit in this run.
#[derive(Default)]
struct Running {
    start: OnceLock<Start>,
    calls: AtomicU32,
    nanos: AtomicU64,
    /// When the first of these calls began.
    began: OnceLock<Instant>,
    /// Nanoseconds from then to the end of the last one.
    span: AtomicU64,
}

impl Running {
    /// A call that began then has ended. Returns how many have.
    fn note(&self, began: Instant, took: Duration) -> u32 {
        let since = *self.began.get_or_init(|| began);
        let span = began.saturating_duration_since(since) + took;
        self.span.fetch_max(span.as_nanos() as u64, Ordering::AcqRel);
        self.nanos.fetch_add(took.as_nanos() as u64, Ordering::AcqRel);
        self.calls.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// How many calls ran side by side, on average and rounded. At least 1, though the program does other things between
    /// its calls.
    fn parallel(&self) -> u32 {
        let (nanos, span) = (self.nanos.load(Ordering::Acquire), self.span.load(Ordering::Acquire).max(1));
        u32::try_from(nanos.saturating_add(span / 2) / span).unwrap_or(u32::MAX).max(1)
    }
}

/// How a run finds its ways.
#[derive(Clone, Copy)]
pub struct Ask {
    /// What the user has chosen.
    pub first: AskFirst,
    /// Serving makes the program wait at its end where the machine is busy.
    pub waits_if_busy: bool,
}

/// What was known when the run began.
struct Start {
    /// None: nothing is compared.
    before: Option<Comparison>,
    way: AskedFirst,
    /// Days since 1970.
    day: u16,
    /// The run differs from others by what the machine does besides, and is not compared with them.
    is_apart: bool,
}

impl Start {
    /// Nothing is compared.
    fn fixed(way: AskedFirst) -> Start {
        Start { before: None, way, day: 0, is_apart: false }
    }

    /// `is_dear`: whether serving costs more now than at other times.
    fn of(
        ask: AskFirst,
        stored: Option<&Stored>,
        habit: CacheHabit,
        is_dear: impl FnOnce(&Stored) -> bool,
    ) -> Start {
        let known = |stored: &Stored| {
            let start = Start::known(stored, habit)?;
            // What the driver has lost, or has never had, is served, after few questions in vain.
            let is_apart = is_dear(stored);
            let way = if is_apart { AskedFirst::Driver } else { start.way };
            Some(Start { way, is_apart, ..start })
        };
        match (ask, stored) {
            (AskFirst::Driver, _) => Start::fixed(AskedFirst::Driver),
            (AskFirst::Stash, _) | (AskFirst::Auto, None) => Start::fixed(AskedFirst::Stash),
            (AskFirst::Auto, Some(stored)) => known(stored).unwrap_or(Start::fixed(AskedFirst::Stash)),
        }
    }

    /// None: what is known cannot be told now, so it must not be replaced, or the user wants nothing to adapt.
    fn known(stored: &Stored, habit: CacheHabit) -> Option<Start> {
        let (part, key) = (&stored.device, habit.key());
        if part.is_incomplete()
            || stored.stash.background_mode_at_opening() == Some(BackgroundMode::Profiling)
        {
            return None;
        }
        let mut payload = Vec::new();
        let before = if part.read(Kind::Comparison, &key, &mut payload) {
            Comparison::decode(&payload)?
        } else if part.contains(Kind::Comparison, &key) {
            return None;
        } else {
            Comparison::default()
        };
        let day = today();
        Some(Start { before: Some(before), way: before.next_run(day), day, is_apart: false })
    }

    /// What this run is compared with. None: with nothing.
    fn compared_with(&self) -> Option<Comparison> {
        self.before.filter(|_| !self.is_apart)
    }

    fn was_compared(&self) -> bool {
        self.before.is_some_and(|before| before.power().is_some())
    }
}

/// Days since 1970.
fn today() -> u16 {
    u16::try_from(unix_ms() / (24 * 60 * 60 * 1000)).unwrap_or(u16::MAX)
}

impl Comparisons {
    fn start(&self, ask: Ask, stored: Option<&Stored>, habit: CacheHabit) -> &Start {
        self.habits[habit.position()].start.get_or_init(|| {
            let look = |stored: &Stored| {
                ask.waits_if_busy && stored.has_artifacts() && faults::is_busy(thread::processors_are_busy)
            };
            let is_dear = |stored: &Stored| *self.is_dear.get_or_init(|| look(stored));
            let start = Start::of(ask.first, stored, habit, is_dear);
            if habit != CacheHabit::FreshCache || start.was_compared() {
                return start;
            }
            // The first pipeline of a cache that many will share.
            Start { way: self.start(ask, stored, CacheHabit::SharedCache).way, ..start }
        })
    }

    /// Who is asked first, if that was asked before in this run.
    pub fn known_way(&self, habit: CacheHabit) -> Option<AskedFirst> {
        self.habits[habit.position()].start.get().map(|start| start.way)
    }

    /// Who is asked first.
    pub fn way(&self, ask: Ask, stored: Option<&Stored>, habit: CacheHabit) -> AskedFirst {
        self.start(ask, stored, habit).way
    }

    /// Whether calls of this habit are timed.
    pub fn is_timed(&self, habit: CacheHabit) -> bool {
        let Running { start, calls, .. } = &self.habits[habit.position()];
        let before = start.get().and_then(Start::compared_with);
        let most = before.map(|before| before.power().unwrap_or(Comparison::MOST_POWER));
        most.is_some_and(|most| calls.load(Ordering::Relaxed) < 1 << most)
    }

    /// Whether no more calls of this habit are timed in this run.
    pub fn is_measured(&self, habit: CacheHabit) -> bool {
        self.habits[habit.position()].start.get().is_some() && !self.is_timed(habit)
    }

    /// What was compared is forgotten: this run must not bring it back.
    pub fn forget(&self) {
        self.is_forgotten.store(true, Ordering::Release);
    }

    /// The layer needed so long for a shader module.
    pub fn note_module(&self, took: Duration) {
        self.module_nanos.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
    }

    /// A pipeline was had without a compile, in a call that began then and took so long. Returns the habit's comparison
    /// with this run, if it is due to be recorded: when there are as many calls as in the runs before. The first run is
    /// recorded each time that the number has doubled, because a program may end without notice.
    pub fn note_call(&self, habit: CacheHabit, began: Instant, took: Duration) -> Option<Comparison> {
        let running = &self.habits[habit.position()];
        let calls = running.note(began, took);
        let power = calls.trailing_zeros() as u8;
        let before = running.start.get()?.compared_with()?;
        let is_due = before.power().map_or(power >= Comparison::LEAST_POWER, |known| known == power);
        if calls.is_power_of_two() && is_due { self.with_run(habit, power) } else { None }
    }

    /// The device is destroyed, and `pipelines` were made with the devices of the instance: what is recorded now,
    /// beside what was when the calls were as many as in the runs before.
    pub fn at_end(&self, pipelines: u32) -> impl Iterator<Item = (CacheHabit, Comparison)> + '_ {
        self.ended().filter_map(move |ended| Some((ended.habit, ended.at_device_end(pipelines)?)))
    }

    /// What the run has measured until its device was destroyed, for each habit that is compared.
    pub fn ended(&self) -> impl Iterator<Item = EndedHabit> + '_ {
        let is_forgotten = self.is_forgotten.load(Ordering::Acquire);
        CacheHabit::ALL.into_iter().filter(move |_| !is_forgotten).filter_map(|habit| {
            let running = &self.habits[habit.position()];
            let before = running.start.get()?.compared_with()?;
            let reached = running.calls.load(Ordering::Acquire).checked_ilog2()? as u8;
            let power = before.power().map_or(reached, |known| known.min(reached));
            if power >= Comparison::LEAST_POWER { self.measured(habit, power) } else { None }
        })
    }

    /// The habit's comparison with this run. None: the run tells nothing new.
    fn with_run(&self, habit: CacheHabit, power: u8) -> Option<Comparison> {
        if self.is_forgotten.load(Ordering::Acquire) {
            return None;
        }
        self.measured(habit, power)?.without_end()
    }

    fn measured(&self, habit: CacheHabit, power: u8) -> Option<EndedHabit> {
        let running = &self.habits[habit.position()];
        let start = running.start.get()?;
        let (mean, parallel) = (self.mean(habit), running.parallel());
        let (before, way, day) = (start.compared_with()?, start.way, start.day);
        Some(EndedHabit { habit, before, way, day, power, mean, parallel })
    }

    /// Mean time of the calls that were measured.
    fn mean(&self, habit: CacheHabit) -> Duration {
        let running = &self.habits[habit.position()];
        let mut calls = running.calls.load(Ordering::Acquire);
        let mut sum = running.nanos.load(Ordering::Acquire);
        if habit == CacheHabit::SharedCache {
            let first = &self.habits[CacheHabit::FreshCache.position()];
            let first_calls = first.calls.load(Ordering::Acquire);
            // The first pipelines of caches that many share: a driver may open its disk cache for them.
            if first_calls < 1 << Comparison::LEAST_POWER {
                calls += first_calls;
                sum += first.nanos.load(Ordering::Acquire);
            }
        }
        sum = sum.saturating_add(self.module_nanos.load(Ordering::Relaxed));
        Duration::from_nanos(sum / u64::from(calls.max(1)))
    }
}

/// What a run has measured for one habit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedHabit {
    /// The habit.
    pub habit: CacheHabit,
    before: Comparison,
    way: AskedFirst,
    /// The day on which the run began.
    day: u16,
    /// The number of calls that were measured, as a power of two.
    power: u8,
    /// Their mean time.
    mean: Duration,
    /// How many of them ran side by side.
    parallel: u32,
}

impl EndedHabit {
    /// The comparison with this run added. `end_share`: this call's share of a long vkDestroyInstance. None: the run
    /// tells nothing new.
    fn with_run(&self, end_share: Duration) -> Option<Comparison> {
        let mean = u32::try_from((self.mean + end_share).as_nanos()).unwrap_or(u32::MAX);
        let is_news = self.before.is_news(self.way, mean);
        let now = is_news.then(|| self.before.with_run(self.way, self.power, mean, self.day));
        now.filter(|now| *now != self.before)
    }

    /// The same before the end of the instance is known. Where earlier ends were long, a mean without that is not
    /// recorded; but if the verdict is against its way, that way has had its run.
    fn without_end(&self) -> Option<Comparison> {
        let not_known = || self.before.excess(self.way, Duration::MAX);
        if self.before.earlier_excess(self.way).unwrap_or_else(not_known).is_zero() {
            return self.with_run(Duration::ZERO);
        }
        let now = self.before.with_look(self.way, self.day);
        (now != self.before).then_some(now)
    }

    /// What is recorded when the device is destroyed. A run that was too short for the comparison may begin another
    /// one. As long as there is no verdict, each run must count, though its program may end without vkDestroyInstance:
    /// its end is taken to be as long as earlier ones.
    fn at_device_end(&self, pipelines: u32) -> Option<Comparison> {
        let earlier = self.before.earlier_excess(self.way).filter(|excess| !excess.is_zero());
        if let Some(excess) = earlier.filter(|_| self.before.verdict().is_none()) {
            return self.with_run(self.end_share(excess, pipelines));
        }
        let is_short = self.before.power().is_some_and(|known| self.power < known);
        if is_short { self.without_end() } else { None }
    }

    /// A call's share of that much of vkDestroyInstance. The whole program waits for it, so it weighs as much as calls
    /// of that length in all the threads that created pipelines side by side.
    fn end_share(&self, excess: Duration, pipelines: u32) -> Duration {
        excess.saturating_mul(self.parallel) / pipelines.max(1)
    }

    /// The comparison with this run, after which the driver took so long to destroy the instance; with its devices this
    /// many `pipelines` were made. A long end is a part of what they cost, because the driver waited for what it did
    /// with them in threads of its own. None: the end tells nothing new.
    pub fn with_end(&self, took: Duration, pipelines: u32) -> Option<Comparison> {
        // A shorter run leaves the driver less to do.
        if self.before.power().is_some_and(|known| known != self.power) {
            return None;
        }
        let excess = self.before.excess(self.way, took);
        let known = self.without_end().unwrap_or(self.before);
        let with_run = self.with_run(self.end_share(excess, pipelines)).unwrap_or(self.before);
        let now = with_run.with_end(self.way, took);
        (now != known).then_some(now)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// The day of all runs.
    const DAY: u16 = 20_000;

    /// Calls one after the other.
    struct Thread(Cell<Instant>);

    impl Thread {
        fn new() -> Thread {
            Thread(Cell::new(Instant::now()))
        }

        fn call(&self, comparisons: &Comparisons, habit: CacheHabit, took: Duration) -> Option<Comparison> {
            let began = self.0.get();
            self.0.set(began + took);
            comparisons.note_call(habit, began, took)
        }
    }

    fn started(way: AskedFirst) -> Comparisons {
        let comparisons = Comparisons::default();
        for running in &comparisons.habits {
            let start = Start { before: Some(Comparison::default()), way, day: DAY, is_apart: false };
            assert!(running.start.set(start).is_ok());
        }
        comparisons
    }

    /// A run that asks the stash first, after earlier ones.
    fn after(before: Comparison, habit: CacheHabit) -> Comparisons {
        let comparisons = Comparisons::default();
        let start = Start { before: Some(before), way: AskedFirst::Stash, day: DAY, is_apart: false };
        assert!(comparisons.habits[habit.position()].start.set(start).is_ok());
        comparisons
    }

    #[test]
    fn a_run_is_recorded_each_time_that_its_calls_double() {
        let thread = Thread::new();
        let comparisons = started(AskedFirst::Stash);
        let mut due = Vec::new();
        for call in 1..=1024_u32 {
            if let Some(now) = thread.call(&comparisons, CacheHabit::NoCache, Duration::from_micros(4)) {
                due.push(call);
                let expected =
                    Comparison::default().with_run(AskedFirst::Stash, call.ilog2() as u8, 4000, DAY);
                assert_eq!(now, expected);
            }
        }
        assert_eq!(due, (4..=10).map(|power| 1 << power).collect::<Vec<u32>>());
        assert!(!comparisons.is_timed(CacheHabit::NoCache) && comparisons.is_timed(CacheHabit::FreshCache));
    }

    #[test]
    fn modules_are_part_of_what_a_run_costs() {
        let thread = Thread::new();
        let comparisons = started(AskedFirst::Driver);
        comparisons.note_module(Duration::from_micros(160));
        let call = || thread.call(&comparisons, CacheHabit::SharedCache, Duration::from_micros(5));
        let now = (0..16).find_map(|_| call());
        assert_eq!(now, Some(Comparison::default().with_run(AskedFirst::Driver, 4, 15_000, DAY)));
    }

    #[test]
    fn the_first_pipeline_of_a_shared_cache_is_part_of_what_a_run_costs() {
        let thread = Thread::new();
        let comparisons = started(AskedFirst::Driver);
        assert_eq!(thread.call(&comparisons, CacheHabit::FreshCache, Duration::from_micros(85)), None);
        let call = || thread.call(&comparisons, CacheHabit::SharedCache, Duration::from_micros(0));
        let now = (0..16).find_map(|_| call());
        assert_eq!(now, Some(Comparison::default().with_run(AskedFirst::Driver, 4, 5_000, DAY)));
    }

    #[test]
    fn a_run_is_recorded_at_the_size_of_those_before_or_at_its_end() {
        let thread = Thread::new();
        let before = Comparison::default().with_run(AskedFirst::Stash, 6, 9_000, DAY);
        let comparisons = after(before, CacheHabit::NoCache);
        let call = || thread.call(&comparisons, CacheHabit::NoCache, Duration::from_micros(4));
        assert_eq!((0..40).find_map(|_| call()), None);
        let begun_again = before.with_run(AskedFirst::Stash, 5, 4_000, DAY);
        assert_eq!(comparisons.at_end(40).collect::<Vec<_>>(), [(CacheHabit::NoCache, begun_again)]);
        let with_run = before.with_run(AskedFirst::Stash, 6, 4_000, DAY);
        assert_eq!((0..24).find_map(|_| call()), Some(with_run));
        assert!(!comparisons.is_timed(CacheHabit::NoCache) && comparisons.at_end(40).next().is_none());
    }

    #[test]
    fn a_long_end_is_part_of_what_a_run_costs() {
        let thread = Thread::new();
        let millis = Duration::from_millis;
        let before = Comparison::default().with_run(AskedFirst::Stash, 4, 4_000, DAY);
        let before = before.with_end(AskedFirst::Driver, millis(1));
        let comparisons = after(before, CacheHabit::NoCache);
        for _ in 0..20 {
            let _ = thread.call(&comparisons, CacheHabit::NoCache, Duration::from_micros(4));
        }
        let [ended] = comparisons.ended().collect::<Vec<_>>().try_into().unwrap();
        for (end, mean) in [(5, 4_000), (41, 1_004_000)] {
            let with_run = before.with_run(AskedFirst::Stash, 4, mean, DAY);
            let expected = with_run.with_end(AskedFirst::Stash, millis(end));
            assert_eq!(ended.with_end(millis(end), 40), Some(expected));
            let next = EndedHabit { before: expected, ..ended };
            assert_eq!(next.with_end(millis(end), 40).is_some(), mean > 4_000, "nothing new");
        }
    }

    #[test]
    fn threads_wait_together_for_a_long_end() {
        let micros = Duration::from_micros;
        let before = Comparison::default().with_run(AskedFirst::Stash, 4, 4_000, DAY);
        let before = before.with_end(AskedFirst::Driver, Duration::ZERO);
        for (threads, idle, mean) in
            [(1, 0, 1_004_000), (1, 90, 1_004_000), (4, 0, 4_004_000), (4, 4, 2_004_000)]
        {
            let comparisons = after(before, CacheHabit::FreshCache);
            let start = Instant::now();
            for call in 0..20 {
                let began = start + micros(call / threads * (4 + idle));
                let _ = comparisons.note_call(CacheHabit::FreshCache, began, micros(4));
            }
            let [ended] = comparisons.ended().collect::<Vec<_>>().try_into().unwrap();
            let expected = before.with_run(AskedFirst::Stash, 4, mean, DAY);
            let expected = expected.with_end(AskedFirst::Stash, Duration::from_millis(40));
            assert_eq!(ended.with_end(Duration::from_millis(40), 40), Some(expected), "{threads} {idle}");
        }
    }

    /// The verdict of these runs is the driver's, and their ends are longer if the stash is asked first.
    fn with_long_ends() -> Comparison {
        let mut before = Comparison::default();
        for (way, mean) in
            [(AskedFirst::Stash, 100_000), (AskedFirst::Stash, 100_000), (AskedFirst::Driver, 4_000)]
        {
            before = before.with_run(way, 6, mean, DAY - 10);
        }
        let millis = Duration::from_millis;
        before = before.with_end(AskedFirst::Stash, millis(60)).with_end(AskedFirst::Driver, millis(1));
        assert_eq!((before.verdict(), before.next_run(DAY)), (Some(AskedFirst::Driver), AskedFirst::Stash));
        before
    }

    #[test]
    fn a_weekly_look_is_over_although_its_run_is_shorter() {
        let thread = Thread::new();
        let before = with_long_ends();
        let comparisons = after(before, CacheHabit::NoCache);
        let call = || thread.call(&comparisons, CacheHabit::NoCache, Duration::from_micros(4));
        assert_eq!((0..40).find_map(|_| call()), None);
        let looked = before.with_look(AskedFirst::Stash, DAY);
        assert_eq!(comparisons.at_end(40).collect::<Vec<_>>(), [(CacheHabit::NoCache, looked)]);
        let [ended] = comparisons.ended().collect::<Vec<_>>().try_into().unwrap();
        assert_eq!(ended.with_end(Duration::from_millis(60), 40), None);
        assert_eq!(looked.next_run(DAY), AskedFirst::Driver);
    }

    #[test]
    fn a_weekly_look_is_over_although_its_program_ends_without_notice() {
        let thread = Thread::new();
        let before = with_long_ends();
        let comparisons = after(before, CacheHabit::NoCache);
        let call = || thread.call(&comparisons, CacheHabit::NoCache, Duration::from_micros(4));
        let looked = before.with_look(AskedFirst::Stash, DAY);
        assert_eq!((0..64).find_map(|_| call()), Some(looked));
        // If it does not, the run counts with its end.
        let [ended] = comparisons.ended().collect::<Vec<_>>().try_into().unwrap();
        let with_run = before.with_run(AskedFirst::Stash, 6, 4_000 + 59_000_000 / 64, DAY);
        assert_eq!(ended.with_end(Duration::from_millis(60), 64), Some(with_run));
    }

    #[test]
    fn before_a_verdict_runs_count_although_their_instances_are_not_destroyed() {
        let thread = Thread::new();
        let millis = Duration::from_millis;
        let mut before = Comparison::default()
            .with_end(AskedFirst::Stash, millis(60))
            .with_end(AskedFirst::Driver, millis(1));
        for way in [AskedFirst::Stash, AskedFirst::Stash, AskedFirst::Driver] {
            before = before.with_run(way, 4, 9_000, DAY);
        }
        assert_eq!((before.verdict(), before.next_run(DAY)), (None, AskedFirst::Driver));
        let comparisons = after(before, CacheHabit::NoCache);
        let call = || thread.call(&comparisons, CacheHabit::NoCache, Duration::from_micros(4));
        assert_eq!((0..20).find_map(|_| call()), None);
        let with_run = before.with_run(AskedFirst::Stash, 4, 4_000 + 59_000_000 / 40, DAY);
        assert_eq!(comparisons.at_end(40).collect::<Vec<_>>(), [(CacheHabit::NoCache, with_run)]);
    }

    #[test]
    fn what_the_user_chose_is_not_compared() {
        let thread = Thread::new();
        for (first, way) in [(AskFirst::Stash, AskedFirst::Stash), (AskFirst::Driver, AskedFirst::Driver)] {
            let ask = Ask { first, waits_if_busy: true };
            let comparisons = Comparisons::default();
            assert_eq!(comparisons.way(ask, None, CacheHabit::NoCache), way);
            assert!(!comparisons.is_timed(CacheHabit::NoCache));
            let due = (0..20).filter_map(|_| thread.call(&comparisons, CacheHabit::NoCache, Duration::ZERO));
            assert_eq!(due.count(), 0);
        }
    }
}
