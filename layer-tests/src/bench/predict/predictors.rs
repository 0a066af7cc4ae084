//! The predictors: each names the pipeline to make next, of those that are neither made nor asked for.

use std::cmp::Reverse;
use std::collections::VecDeque;

use VkLayer_vkstash::planned::{Noted, Order, Plan, in_order};

use vkstash_model::record::RunDevices;

use super::{Recorded, Used};

/// Later requests that count as what followed a request.
const FOLLOW: usize = 16;
/// Runs in which followers are looked up: the newest ones.
const RUNS: usize = 8;
/// Requests whose modules and libraries are looked up.
const RECENT: usize = 4;
/// A pipeline that a run or an order does not have.
const NOWHERE: u32 = u32::MAX;

/// The predictors, in the order of `all`.
pub const NAMES: [&str; 6] = [
    "plan",
    "followers",
    "same modules",
    "followers, then plan",
    "same modules, then plan",
    "plan, then followers",
];

/// The predictor of that place in [`NAMES`].
pub(super) fn all<'a>(name: usize, known: &'a Known<'a>, plan: &'a Planned) -> Box<dyn Predictor + 'a> {
    let linear = || Box::new(Linear::new(known, plan)) as Box<dyn Predictor + 'a>;
    let followers = || Box::new(Followers { known, next: VecDeque::new() }) as Box<dyn Predictor + 'a>;
    let related = || Box::new(Related::new(known, plan)) as Box<dyn Predictor + 'a>;
    match name {
        0 => linear(),
        1 => followers(),
        2 => related(),
        3 => Box::new([followers(), linear()]),
        4 => Box::new([related(), linear()]),
        _ => Box::new([linear(), followers()]),
    }
}

/// A predictor in one run.
pub(super) trait Predictor {
    /// The program has asked for this pipeline.
    fn note(&mut self, number: u32);
    /// What to make next.
    fn next(&mut self, progress: &Progress) -> Option<u32>;
}

/// The first one, and where it names nothing, the second one.
impl<'a> Predictor for [Box<dyn Predictor + 'a>; 2] {
    fn note(&mut self, number: u32) {
        self.iter_mut().for_each(|each| each.note(number));
    }

    fn next(&mut self, progress: &Progress) -> Option<u32> {
        self.iter_mut().find_map(|each| each.next(progress))
    }
}

/// What was made and asked for in one run.
pub(super) struct Progress {
    /// By number of a pipeline.
    made: Vec<bool>,
    asked: Vec<bool>,
}

impl Progress {
    pub(super) fn new(count: usize) -> Progress {
        Progress { made: vec![false; count], asked: vec![false; count] }
    }

    pub(super) fn make(&mut self, number: u32) {
        self.made[number as usize] = true;
    }

    pub(super) fn ask(&mut self, number: u32) {
        self.asked[number as usize] = true;
    }

    pub(super) fn is_made(&self, number: u32) -> bool {
        self.made[number as usize]
    }

    fn is_open(&self, number: u32) -> bool {
        !self.made[number as usize] && !self.asked[number as usize]
    }
}

/// What the earlier runs tell.
pub(super) struct Known<'a> {
    recorded: &'a Recorded,
    /// By number of a pipeline: its newest use, which the run of this number noted.
    last: Vec<Option<(u64, Used)>>,
    /// How many runs are known.
    learned: u64,
    /// The newest runs, the last one first: their orders, and by number of a pipeline the place in it.
    runs: VecDeque<(Vec<u32>, Vec<u32>)>,
}

impl<'a> Known<'a> {
    pub(super) fn new(recorded: &'a Recorded) -> Known<'a> {
        Known { recorded, last: vec![None; recorded.keys.len()], learned: 0, runs: VecDeque::new() }
    }

    pub(super) fn has(&self, number: u32) -> bool {
        self.last[number as usize].is_some()
    }

    pub(super) fn learn(&mut self, run: &[Used]) {
        self.learned += 1;
        let order: Vec<u32> = run.iter().map(|used| used.number).collect();
        let mut places = vec![NOWHERE; self.last.len()];
        for (used, place) in run.iter().zip(0..) {
            self.last[used.number as usize] = Some((self.learned, *used));
            places[used.number as usize] = place;
        }
        self.runs.push_front((order, places));
        self.runs.truncate(RUNS);
    }

    /// The order that background work has from the earlier runs.
    pub(super) fn plan(&self) -> Planned {
        let noted = self.last.iter().zip(&self.recorded.keys).filter_map(|(last, key)| {
            last.map(|(run, Used { unix_ms, sequence, .. })| {
                let devices = RunDevices::ALL;
                Noted { unix_ms, run, sequence, devices, key: *key }
            })
        });
        let order = in_order(noted.collect(), u64::MAX, RunDevices::ALL);
        let numbers: Vec<u32> = order.keys.iter().map(|key| self.recorded.numbers[key]).collect();
        let mut places = vec![NOWHERE; self.last.len()];
        for (number, place) in numbers.iter().zip(0..) {
            places[*number as usize] = place;
        }
        let lists = Lists::new(&numbers, &self.recorded.parts);
        Planned { order, numbers, places, lists }
    }
}

/// The order of background work, and by module or library the places in it of the pipelines that have it.
pub(super) struct Planned {
    order: Order,
    numbers: Vec<u32>,
    /// By number of a pipeline.
    places: Vec<u32>,
    lists: Lists,
}

/// The layer's own plan.
struct Linear<'a> {
    known: &'a Known<'a>,
    plan: Plan,
}

impl<'a> Linear<'a> {
    fn new(known: &'a Known<'a>, planned: &Planned) -> Linear<'a> {
        Linear {
            known,
            plan: Plan::new(planned.order.keys.clone(), planned.order.of_last_run, &planned.order.runs),
        }
    }
}

impl Predictor for Linear<'_> {
    fn note(&mut self, number: u32) {
        self.plan.note_request(&self.known.recorded.keys[number as usize]);
    }

    fn next(&mut self, progress: &Progress) -> Option<u32> {
        while let Some(key) = self.plan.next() {
            let number = self.known.recorded.numbers[key];
            if progress.is_open(number) {
                return Some(number);
            }
            // Another predictor has had it made.
            self.plan.pass_over(key);
        }
        None
    }
}

/// What followed the last request in earlier runs: what did in the most of them first.
struct Followers<'a> {
    known: &'a Known<'a>,
    next: VecDeque<u32>,
}

impl Predictor for Followers<'_> {
    fn note(&mut self, number: u32) {
        let mut found: Vec<(u32, usize)> = Vec::new();
        for (order, places) in &self.known.runs {
            let place = places[number as usize];
            if place != NOWHERE {
                let followers = order[place as usize + 1..].iter().take(FOLLOW);
                found.extend(followers.zip(0..).map(|(follower, distance)| (*follower, distance)));
            }
        }
        if found.is_empty() {
            return;
        }
        found.sort_unstable();
        let of_one = found.chunk_by(|one, next| one.0 == next.0);
        let mut ranked: Vec<_> = of_one.map(|all| (Reverse(all.len()), all[0].1, all[0].0)).collect();
        ranked.sort_unstable();
        self.next = ranked.into_iter().map(|(.., follower)| follower).collect();
    }

    fn next(&mut self, progress: &Progress) -> Option<u32> {
        while let Some(number) = self.next.pop_front() {
            if progress.is_open(number) {
                return Some(number);
            }
        }
        None
    }
}

/// Pipelines with a module or a library of the last requests: for the rarest of these first, in the plan's order from
/// the request on.
struct Related<'a> {
    known: &'a Known<'a>,
    planned: &'a Planned,
    /// By entry of the lists: the first entry from there on that may be open. Each is passed over once.
    skips: Vec<u32>,
    recent: VecDeque<u32>,
}

impl<'a> Related<'a> {
    fn new(known: &'a Known<'a>, planned: &'a Planned) -> Related<'a> {
        let skips = (0..=planned.lists.places.len() as u32).collect();
        Related { known, planned, skips, recent: VecDeque::new() }
    }

    /// The first open pipeline of these entries.
    fn open(&mut self, mut entry: usize, end: usize, progress: &Progress) -> Option<u32> {
        loop {
            while self.skips[entry] as usize != entry {
                self.skips[entry] = self.skips[self.skips[entry] as usize];
                entry = self.skips[entry] as usize;
            }
            if entry >= end {
                return None;
            }
            let number = self.planned.numbers[self.planned.lists.places[entry] as usize];
            if progress.is_open(number) {
                return Some(number);
            }
            self.skips[entry] = entry as u32 + 1;
        }
    }
}

impl Predictor for Related<'_> {
    fn note(&mut self, number: u32) {
        self.recent.push_front(number);
        self.recent.truncate(RECENT);
    }

    fn next(&mut self, progress: &Progress) -> Option<u32> {
        let planned = self.planned;
        for at in 0..self.recent.len() {
            let number = self.recent[at] as usize;
            let place = planned.places[number];
            let mut ranges: Vec<_> =
                self.known.recorded.parts[number].iter().map(|part| planned.lists.of(*part)).collect();
            ranges.sort_unstable_by_key(|range| range.len());
            for range in ranges {
                let here = &planned.lists.places[range.clone()];
                let from = if place == NOWHERE { 0 } else { here.partition_point(|other| *other < place) };
                let found = self.open(range.start + from, range.end, progress);
                if let Some(found) = found.or_else(|| self.open(range.start, range.end, progress)) {
                    return Some(found);
                }
            }
        }
        None
    }
}

/// For each part the pipelines that have it, as their places in an order, ascending.
struct Lists {
    places: Vec<u32>,
    /// By part: where its pipelines begin, and at the end where the last one's end.
    starts: Vec<usize>,
}

impl Lists {
    fn new(order: &[u32], parts: &[Vec<u32>]) -> Lists {
        let mut pairs: Vec<(u32, u32)> = Vec::new();
        for (number, place) in order.iter().zip(0..) {
            pairs.extend(parts[*number as usize].iter().map(|part| (*part, place)));
        }
        pairs.sort_unstable();
        pairs.dedup();
        let count = parts.iter().flatten().map(|part| *part as usize + 1).max().unwrap_or(0);
        let mut starts = vec![0; count + 1];
        pairs.iter().for_each(|(part, _)| starts[*part as usize + 1] += 1);
        (0..count).for_each(|part| starts[part + 1] += starts[part]);
        Lists { places: pairs.into_iter().map(|(_, place)| place).collect(), starts }
    }

    fn of(&self, part: u32) -> std::ops::Range<usize> {
        self.starts[part as usize]..self.starts[part as usize + 1]
    }
}
