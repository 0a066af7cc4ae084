//! Who answers a program's requests sooner: the payload of [`crate::format::record::Kind::Comparison`]
//! (docs/format.md, "Comparisons"). docs/adaptive.md says how runs are compared.

use std::time::Duration;

use crate::base::sort;
use crate::format::record::Key;

/// Length of the payload.
const BYTES: usize = 32;
/// Runs of each way whose times are kept.
const RUNS: usize = 3;
/// A request that is answered this fast, in nanoseconds, is not compared: no driver finds a pipeline in less.
const FAST_ENOUGH: u32 = 3_000;
/// How often a comparison begins again. A program whose runs always differ is not compared for ever.
const RESTARTS: u8 = 4;
/// A difference of the two ways' vkDestroyInstance below this many milliseconds is noise.
const LONG_END: u16 = 5;
/// The most that is recorded of it, in milliseconds, plus one.
const LONGEST_END: u16 = (1 << 12) - 1;
/// Days after which the way that the verdict is against has a run.
const DAYS: u16 = 7;

/// A program's habit of passing caches to the calls that create pipelines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CacheHabit {
    /// VK_NULL_HANDLE.
    NoCache = 1,
    /// A cache in which nothing was made yet.
    FreshCache = 2,
    /// A cache that holds other pipelines of this run.
    SharedCache = 3,
    /// A cache that the program has loaded with the data of earlier runs.
    LoadedCache = 4,
}

impl CacheHabit {
    /// All habits.
    pub const ALL: [CacheHabit; 4] =
        [CacheHabit::NoCache, CacheHabit::FreshCache, CacheHabit::SharedCache, CacheHabit::LoadedCache];

    /// The key of the habit's record.
    pub const fn key(self) -> Key {
        let mut key = [0; 32];
        key[31] = self as u8;
        key
    }

    /// The name in the statistics.
    pub const fn name(self) -> &'static str {
        match self {
            CacheHabit::NoCache => "no_cache",
            CacheHabit::FreshCache => "fresh_cache",
            CacheHabit::SharedCache => "shared_cache",
            CacheHabit::LoadedCache => "loaded_cache",
        }
    }

    /// The place in [`CacheHabit::ALL`].
    pub const fn position(self) -> usize {
        self as usize - 1
    }
}

/// Who is asked first for a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskedFirst {
    /// The stash.
    Stash,
    /// The driver, with the caches that the program and the driver have.
    Driver,
}

impl AskedFirst {
    /// The name in the statistics.
    pub const fn name(self) -> &'static str {
        match self {
            AskedFirst::Stash => "stash",
            AskedFirst::Driver => "driver",
        }
    }

    const fn position(self) -> usize {
        match self {
            AskedFirst::Stash => 0,
            AskedFirst::Driver => 1,
        }
    }
}

/// A duration of vkDestroyInstance as the record has it: milliseconds plus one, at most 4,095.
fn recorded_end(took: Duration) -> u16 {
    u16::try_from(took.as_millis()).unwrap_or(u16::MAX).saturating_add(1).min(LONGEST_END)
}

/// Whether one duration of vkDestroyInstance, as the record has it, is longer than another by more than noise.
fn is_longer(one: u16, other: u16) -> bool {
    one > other.saturating_add(other / 4).saturating_add(LONG_END)
}

/// The latest runs of one way: the mean time of a call in nanoseconds, the latest run first; 0: no such run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Means([u32; RUNS]);

impl Means {
    fn add(&mut self, mean: u32) {
        self.0.rotate_right(1);
        self.0[0] = mean.max(1);
    }

    fn runs(&self) -> usize {
        self.0.iter().filter(|mean| **mean > 0).count()
    }

    /// The middle one; of two the smaller one, because noise adds to a time. None: there is no run.
    pub fn typical(&self) -> Option<u32> {
        let mut known: Vec<u32> = self.0.iter().copied().filter(|mean| *mean > 0).collect();
        sort::sort(&mut known);
        known.get(known.len().saturating_sub(1) / 2).copied()
    }
}

/// What runs of an application with one cache habit have measured on one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Runs that asked the stash first.
    pub stash: Means,
    /// Runs that asked the driver first.
    pub driver: Means,
    verdict: Option<AskedFirst>,
    /// The number of calls behind each mean, as a power of two; 0: nothing was measured.
    power: u8,
    restarts: u8,
    /// The day of the latest run of the way that the verdict is against, in days since 1970.
    day: u16,
    /// About the shortest time that vkDestroyInstance has lately taken in runs of each way, in milliseconds plus one;
    /// 0: not known. On a busy machine a driver that waits for its own threads waits much longer, in any way.
    ends: [u16; 2],
}

impl Comparison {
    /// The fewest calls that are compared, as a power of two.
    pub const LEAST_POWER: u8 = 4;
    /// The most calls of a run that are measured, as a power of two.
    pub const MOST_POWER: u8 = 10;

    /// Who is asked first in the next run. Until there is a verdict the ways take turns, once two runs that asked the
    /// stash first are known: one that it serves, and one that has parked pipelines. Later the other way has a run a
    /// week.
    pub fn next_run(&self, today: u16) -> AskedFirst {
        let is_slow = self.is_slow();
        match self.verdict {
            Some(AskedFirst::Driver) if self.is_old(today) => AskedFirst::Stash,
            Some(AskedFirst::Stash) if self.is_old(today) && is_slow => AskedFirst::Driver,
            Some(verdict) => verdict,
            None => {
                let (stash, driver) = (self.stash.runs(), self.driver.runs());
                let is_due = stash >= 2 && driver < stash && self.restarts < RESTARTS;
                if is_due && is_slow { AskedFirst::Driver } else { AskedFirst::Stash }
            }
        }
    }

    /// Whether a driver may answer sooner than the stash has.
    fn is_slow(&self) -> bool {
        self.stash.0.iter().all(|mean| *mean == 0 || *mean > FAST_ENOUGH)
    }

    fn is_old(&self, today: u16) -> bool {
        today.abs_diff(self.day) >= DAYS
    }

    /// Who answers sooner, once that is known.
    pub fn verdict(&self) -> Option<AskedFirst> {
        self.verdict
    }

    /// The number of calls behind each mean, as a power of two. None: nothing was measured.
    pub fn power(&self) -> Option<u8> {
        Some(self.power).filter(|power| *power > 0)
    }

    /// Whether a run of this mean tells something new: the verdict can still be made or is against it, or the mean
    /// differs.
    pub fn is_news(&self, way: AskedFirst, mean: u32) -> bool {
        let known = match way {
            AskedFirst::Stash => self.stash.typical(),
            AskedFirst::Driver => self.driver.typical(),
        };
        let near = |known: u32| u64::from(known.abs_diff(mean)) * 4 <= u64::from(known);
        let is_open = match self.verdict {
            Some(verdict) => verdict != way,
            None => self.restarts < RESTARTS && (self.is_slow() || self.stash.runs() < RUNS),
        };
        is_open || !known.is_some_and(near)
    }

    /// The same with another run, in which the mean of 2^`power` calls was `mean` nanoseconds. Runs of another size are
    /// not mixed, because costs that arise once in a run are spread over its calls: without a verdict the comparison
    /// begins again.
    pub fn with_run(mut self, way: AskedFirst, power: u8, mean: u32, today: u16) -> Comparison {
        let power = power.clamp(Comparison::LEAST_POWER, Comparison::MOST_POWER);
        if self.power != power {
            if self.verdict.is_some() {
                return self.with_look(way, today);
            }
            let restarts = self.restarts.saturating_add(u8::from(self.power > 0));
            self = Comparison { power, restarts, ends: self.ends, ..Comparison::default() };
        }
        match way {
            AskedFirst::Stash => self.stash.add(mean),
            AskedFirst::Driver => self.driver.add(mean),
        }
        let before = self.verdict;
        self.verdict = self.judge();
        if self.verdict.is_some() && (before != self.verdict || before != Some(way)) {
            self.day = today;
        }
        self
    }

    /// The same with a run that cannot be compared. If the verdict is against its way, that way has had its run for
    /// this week.
    pub fn with_look(mut self, way: AskedFirst, today: u16) -> Comparison {
        if self.verdict.is_some_and(|verdict| verdict != way) {
            self.day = today;
        }
        self
    }

    /// The same with a run whose instance the driver destroyed in this time. A longer time raises what is known by an
    /// eighth: one quick end does not count for ever. What is not more than noise changes nothing. If the first end of
    /// the driver's tells that runs of the stash end late, those, which were not charged for that, are forgotten.
    pub fn with_end(mut self, way: AskedFirst, took: Duration) -> Comparison {
        let (now, known) = (recorded_end(took), &mut self.ends[way.position()]);
        let is_first = *known == 0;
        if is_first || is_longer(*known, now) {
            *known = now;
        } else if is_longer(now, *known) {
            *known = now.min(*known + *known / 8 + 1);
        }
        let end_late = || self.earlier_excess(AskedFirst::Stash).is_some_and(|more| !more.is_zero());
        if is_first && way == AskedFirst::Driver && self.verdict.is_none() && end_late() {
            self.stash = Means::default();
        }
        self
    }

    /// How much longer the driver takes to destroy the instance after a run that asked the stash first than after
    /// others: it waits for threads of its own. `took`: how long vkDestroyInstance took in this run. Zero: no longer,
    /// or not known. Runs that ask the driver first end as they do without the layer. Much more than in other runs of
    /// the same way is the machine's doing.
    pub fn excess(&self, way: AskedFirst, took: Duration) -> Duration {
        let mut ends = self.ends;
        let (now, known) = (recorded_end(took), &mut ends[way.position()]);
        *known = if *known == 0 { now } else { now.min(*known + *known / 4) };
        Comparison::excess_of(way, ends)
    }

    /// The same as far as earlier runs tell. None: none of this way has told yet.
    pub fn earlier_excess(&self, way: AskedFirst) -> Option<Duration> {
        (self.ends[way.position()] != 0).then(|| Comparison::excess_of(way, self.ends))
    }

    fn excess_of(way: AskedFirst, [stash, driver]: [u16; 2]) -> Duration {
        let excess = if driver == 0 { 0 } else { stash.saturating_sub(driver) };
        let counts = way == AskedFirst::Stash && excess >= LONG_END;
        Duration::from_millis(if counts { excess.into() } else { 0 })
    }

    fn judge(&self) -> Option<AskedFirst> {
        let (stash, driver) = (u64::from(self.stash.typical()?), u64::from(self.driver.typical()?));
        let runs = (self.stash.runs(), self.driver.runs());
        // The fewer the runs, the larger the difference that noise does not explain.
        let factor = match runs {
            (2.., 1) => 4,
            (2, 2..) | (2.., 2) => 2,
            _ => 1,
        };
        // The stash also costs what nobody measures, such as what the driver writes in other threads.
        let is_near = 10 * driver <= 11 * stash;
        match self.verdict {
            // A program whose requests have changed is judged by its latest runs. A little noise is not recorded.
            Some(AskedFirst::Stash) if is_near => Some(AskedFirst::Driver),
            Some(AskedFirst::Driver) if 4 * driver > 5 * stash => Some(AskedFirst::Stash),
            Some(verdict) => Some(verdict),
            None if runs.0 < 2 => None,
            None if factor > 1 && driver >= factor * stash => Some(AskedFirst::Stash),
            None if factor > 1 && stash >= factor * driver => Some(AskedFirst::Driver),
            None if factor > 1 => None,
            // What is no faster than the driver is not worth its memory.
            None if is_near => Some(AskedFirst::Driver),
            None => Some(AskedFirst::Stash),
        }
    }

    /// The record's payload.
    pub fn encode(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        for (place, mean) in bytes.chunks_exact_mut(4).zip(self.stash.0.iter().chain(&self.driver.0)) {
            place.copy_from_slice(&mean.to_le_bytes());
        }
        bytes[24] = match self.verdict {
            None => 0,
            Some(AskedFirst::Stash) => 1,
            Some(AskedFirst::Driver) => 2,
        };
        bytes[25] = self.power;
        bytes[26] = self.restarts;
        bytes[27..29].copy_from_slice(&self.day.to_le_bytes());
        let ends = u32::from(self.ends[0]) | u32::from(self.ends[1]) << 12;
        bytes[29..].copy_from_slice(&ends.to_le_bytes()[..3]);
        bytes
    }

    /// None: not a payload that this version knows.
    pub fn decode(payload: &[u8]) -> Option<Comparison> {
        let payload: &[u8; BYTES] = payload.try_into().ok()?;
        let means = |at: usize| {
            let mut means = [0; RUNS];
            for (mean, bytes) in means.iter_mut().zip(payload[at..].chunks_exact(4)) {
                *mean = u32::from_le_bytes(bytes.try_into().ok()?);
            }
            Some(Means(means))
        };
        let verdict = match payload[24] {
            0 => None,
            1 => Some(AskedFirst::Stash),
            2 => Some(AskedFirst::Driver),
            _ => return None,
        };
        let (power, restarts) = (payload[25], payload[26]);
        let day = u16::from_le_bytes([payload[27], payload[28]]);
        let ends = u32::from_le_bytes([payload[29], payload[30], payload[31], 0]);
        let ends = [ends as u16 & LONGEST_END, (ends >> 12) as u16];
        let (stash, driver) = (means(0)?, means(12)?);
        let comparison = Comparison { stash, driver, verdict, power, restarts, day, ends };
        let is_known = (Comparison::LEAST_POWER..=Comparison::MOST_POWER).contains(&power);
        (is_known || comparison == Comparison::default()).then_some(comparison)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use AskedFirst::{Driver, Stash};

    const TODAY: u16 = 20_000;

    /// Runs a program whose calls take so long in each way; what was asked first in each run, from the second on.
    fn runs(count: usize, stash: impl Fn(usize) -> u32, driver: u32) -> (Vec<AskedFirst>, Comparison) {
        let mut now = Comparison::default();
        let asked = (0..count).map(|run| {
            let way = now.next_run(TODAY);
            now = now.with_run(way, 8, if way == Stash { stash(run) } else { driver }, TODAY);
            way
        });
        (asked.collect(), now)
    }

    #[test]
    fn the_faster_one_is_asked_after_a_few_runs() {
        let (asked, now) = runs(9, |_| 11_000, 8_000);
        assert_eq!(asked, [Stash, Stash, Driver, Driver, Stash, Driver, Driver, Driver, Driver]);
        assert_eq!(now.verdict(), Some(Driver));
        let (asked, now) = runs(9, |_| 8_000, 11_000);
        assert_eq!(asked, [Stash, Stash, Driver, Driver, Stash, Driver, Stash, Stash, Stash]);
        assert_eq!(now.verdict(), Some(Stash));
        assert_eq!(runs(9, |_| 9_000, 9_800).1.verdict(), Some(Driver), "nearly as fast as the stash");
        assert_eq!(runs(9, |_| 9_000, 10_000).1.verdict(), Some(Stash));
    }

    #[test]
    fn the_larger_the_difference_the_fewer_trials_are_needed() {
        assert_eq!(runs(5, |_| 7_000, 61_000).0, [Stash, Stash, Driver, Stash, Stash]);
        assert_eq!(runs(5, |_| 61_000, 7_000).0, [Stash, Stash, Driver, Driver, Driver]);
        assert_eq!(runs(6, |_| 7_000, 15_000).0, [Stash, Stash, Driver, Driver, Stash, Stash]);
        assert_eq!(runs(6, |_| 15_000, 7_000).0, [Stash, Stash, Driver, Driver, Driver, Driver]);
    }

    #[test]
    fn parked_pipelines_are_compared_with_nothing() {
        let asked = runs(9, |run| if run == 0 { 9_000 } else { 1_800 }, 1).0;
        assert_eq!(asked, [Stash; 9]);
    }

    #[test]
    fn a_program_that_changes_is_judged_by_its_latest_runs() {
        let (_, mut now) = runs(9, |_| 8_000, 11_000);
        for _ in 0..3 {
            now = now.with_run(Stash, 8, 9_900, TODAY);
        }
        assert_eq!(now.verdict(), Some(Stash), "noise");
        for _ in 0..3 {
            now = now.with_run(Stash, 8, 20_000, TODAY);
        }
        assert_eq!(now.verdict(), Some(Driver));
        assert_eq!(now.with_run(Driver, 9, 90_000, TODAY), now, "a run of another size");
    }

    #[test]
    fn the_other_way_has_a_run_a_week_and_a_wrong_verdict_ends() {
        // The trials were the first runs after boots.
        let (_, mut now) = runs(6, |_| 15_000, 70_000);
        assert_eq!(now.verdict(), Some(Stash));
        let mut looks = 0;
        for day in TODAY..TODAY + 60 {
            for _ in 0..3 {
                let way = now.next_run(day);
                looks += u32::from(Some(way) != now.verdict());
                now = now.with_run(way, 8, if way == Stash { 15_000 } else { 5_000 }, day);
            }
        }
        assert_eq!(now.verdict(), Some(Driver));
        assert!((2..=10).contains(&looks), "{looks}");
    }

    #[test]
    fn runs_of_another_size_do_not_prolong_the_weekly_look() {
        let (_, mut now) = runs(9, |_| 8_000, 11_000);
        let looks = (TODAY..TODAY + 30).filter(|&day| {
            let way = now.next_run(day);
            now = now.with_run(way, 5, 9_000, day);
            way == Driver
        });
        let looks = looks.count();
        assert!((2..=5).contains(&looks), "{looks}");
    }

    #[test]
    fn what_cannot_lead_to_a_trial_is_no_news_again() {
        let mut parked = Comparison::default();
        for _ in 0..3 {
            assert!(parked.is_news(Stash, 1_500));
            parked = parked.with_run(Stash, 8, 1_500, TODAY);
        }
        assert!(!parked.is_news(Stash, 1_600) && parked.is_news(Stash, 9_000));
    }

    #[test]
    fn only_a_run_that_differs_is_news() {
        let (_, now) = runs(9, |_| 8_000, 11_000);
        assert!(!now.is_news(Stash, 8_000) && !now.is_news(Stash, 9_900));
        assert!(now.is_news(Stash, 10_100) && now.is_news(Stash, 5_000) && now.is_news(Driver, 11_000));
        assert!(Comparison::default().is_news(Stash, 1));
    }

    #[test]
    fn runs_of_other_sizes_are_not_mixed_and_not_compared_for_ever() {
        let mut now = Comparison::default();
        for run in 0..40_u8 {
            let way = now.next_run(TODAY);
            now = now.with_run(way, if run % 4 < 2 { 5 } else { 9 }, 9_000, TODAY);
        }
        assert_eq!((now.verdict(), now.next_run(TODAY)), (None, Stash));
        assert!(now.restarts >= RESTARTS);
    }

    #[test]
    fn an_end_is_long_beside_those_of_the_other_way() {
        let millis = Duration::from_millis;
        let (_, now) = runs(9, |_| 8_000, 11_000);
        assert_eq!(now.excess(Stash, millis(90)), Duration::ZERO, "the other way's is not known");
        let now = now.with_end(Stash, millis(900)).with_end(Stash, millis(48)).with_end(Driver, millis(1));
        assert_eq!(now.excess(Stash, millis(300)), millis(59), "a busy machine");
        assert_eq!(now.excess(Stash, millis(5)), Duration::ZERO);
        assert_eq!(now.excess(Driver, millis(300)), Duration::ZERO);
        assert_eq!(Comparison::decode(&now.encode()), Some(now));
        assert_eq!(
            Comparison::default().with_end(Driver, millis(0)).excess(Stash, Duration::MAX),
            millis(4094)
        );
    }

    #[test]
    fn runs_that_were_not_charged_for_their_late_end_are_forgotten() {
        let end = |way| Duration::from_millis(if way == Stash { 250 } else { 1 });
        let mut now = Comparison::default();
        let asked: Vec<_> = (0..12)
            .map(|_| {
                let way = now.next_run(TODAY);
                let excess = now.excess(way, end(way)) / 4_000;
                let calls = if way == Stash { 27_000 } else { 74_000 };
                now = now.with_run(way, 10, calls + excess.as_nanos() as u32, TODAY).with_end(way, end(way));
                way
            })
            .collect();
        assert_eq!(now.verdict(), Some(Driver), "{asked:?}, {now:?}");
        assert!(asked[9..].iter().all(|way| *way == Driver), "{asked:?}");
    }

    #[test]
    fn one_quick_end_does_not_count_for_ever() {
        let millis = Duration::from_millis;
        let mut now = Comparison::default().with_end(Driver, millis(1)).with_end(Stash, millis(60));
        assert_eq!(now.excess(Stash, millis(60)), millis(59));
        now = now.with_end(Stash, millis(1));
        assert_eq!(now.excess(Stash, millis(60)), Duration::ZERO);
        for _ in 0..30 {
            now = now.with_end(Stash, millis(60));
        }
        assert!(now.excess(Stash, millis(60)) >= millis(40), "{now:?}");
        for end in [60, 65, 55, 61] {
            assert_eq!(now.with_end(Stash, millis(end)), now, "noise is not recorded");
        }
    }

    #[test]
    fn a_run_that_cannot_be_compared_ends_the_weekly_look() {
        let (_, now) = runs(9, |_| 11_000, 8_000);
        assert_eq!((now.verdict(), now.next_run(TODAY + 7)), (Some(Driver), Stash));
        assert_eq!(now.with_look(Driver, TODAY + 7), now, "it is the verdict's way");
        assert_eq!(now.with_look(Stash, TODAY + 7).next_run(TODAY + 7), Driver);
        assert_eq!(Comparison::default().with_look(Stash, TODAY), Comparison::default());
    }

    #[test]
    fn other_payloads_are_ignored() {
        let good = runs(9, |_| 8_000, 11_000).1.encode();
        assert!(Comparison::decode(&good).is_some());
        assert!(Comparison::decode(&good[1..]).is_none() && Comparison::decode(&[]).is_none());
        for (at, value) in [(24, 3), (25, 0), (25, 3), (25, 11)] {
            let mut bad = good;
            bad[at] = value;
            assert!(Comparison::decode(&bad).is_none(), "{at} {value}");
        }
        assert_eq!(Comparison::decode(&[0; BYTES]), Some(Comparison::default()));
    }

    proptest! {
        #[test]
        fn a_comparison_reads_back(
            given in proptest::collection::vec((any::<bool>(), 0_u8..20, any::<u32>(), any::<u16>()), 0..30),
            ends in any::<Option<u16>>(),
        ) {
            let mut now = Comparison::default();
            for (stash, power, mean, day) in given {
                let way = if stash { Stash } else { Driver };
                now = now.with_run(way, power, mean, day);
                now = ends.map_or(now, |end| now.with_end(way, Duration::from_millis(end.into())));
                prop_assert_eq!(Comparison::decode(&now.encode()), Some(now));
            }
        }
    }
}
