//! The order in which pipelines are made, by what they are likely to cost.
//!
//! A program asks for pipelines in an order that the stash knows, so they are made in that order. But a long compile
//! that begins last keeps one worker busy while the others have nothing to do. So each pipeline is begun at the latest
//! when everything that is left would take the other workers no longer than this pipeline.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};

use vkstash_model::payload;
use vkstash_model::record::{Key, Kind};
use vkstash_store::part::open::Part;

/// What is said of a pipeline of which nothing is known, in microseconds.
const USUAL: u64 = 1000;

/// One recipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Task {
    /// The recipe's key.
    pub(crate) key: Key,
    /// Its place in the order of use, among all recipes of the application.
    pub(crate) place: usize,
    /// What making it takes, in microseconds, as far as that can be told.
    pub(crate) cost: u64,
    /// A worker died of it that had made others before: it is tried again in one that has not.
    pub(crate) alone: bool,
    /// The pipeline's artifact was in the stash before.
    pub(crate) present: bool,
    /// The pipeline is made again: the driver does not take the artifact that was in the stash.
    pub(crate) again: bool,
    /// The recipe names libraries, and so does not say everything about the pipeline (docs/prewarm.md, known limits).
    pub(crate) is_link: bool,
    /// A worker has not found its artifact, or the driver has not taken it; another worker asks once more.
    pub(crate) doubted: bool,
    /// The number of the newest worker when its artifact was made. Workers with higher numbers find it when they open
    /// the stash.
    pub(crate) made_at: u64,
}

impl Task {
    /// A pipeline that is to be made.
    pub(crate) fn new(key: Key, place: usize, cost: u64) -> Task {
        Task {
            key,
            place,
            cost,
            alone: false,
            present: false,
            again: false,
            is_link: false,
            doubted: false,
            made_at: 0,
        }
    }
}

/// The tasks, given in the order of use, in the order in which so many workers begin them: the order of use, except
/// that a task is begun early if it takes so long that the others would have to wait for it at the end.
pub(crate) fn schedule(tasks: Vec<Task>, jobs: usize) -> VecDeque<Task> {
    let mut left: u64 = tasks.iter().map(|task| task.cost).sum();
    let mut longest: Vec<usize> = (0..tasks.len()).collect();
    // Stable: of equal ones the one that is used first.
    longest.sort_by_key(|&at| Reverse(tasks[at].cost));
    let mut longest = longest.into_iter().peekable();
    let mut tasks: Vec<Option<Task>> = tasks.into_iter().map(Some).collect();
    let mut ordered = VecDeque::with_capacity(tasks.len());
    let mut first = 0;
    while ordered.len() < tasks.len() {
        while longest.next_if(|&at| tasks[at].is_none()).is_some() {}
        while tasks.get(first).is_some_and(Option::is_none) {
            first += 1;
        }
        let cost_of = |at: &usize| tasks[*at].as_ref().map_or(0, |task| task.cost);
        let is_due = |at: &usize| cost_of(at).saturating_mul(jobs as u64) >= left;
        let at = longest.next_if(is_due).unwrap_or(first);
        let Some(task) = tasks.get_mut(at).and_then(Option::take) else { break };
        left = left.saturating_sub(task.cost);
        ordered.push_back(task);
    }
    ordered
}

/// What the compile of a pipeline took that is in one of these parts, in microseconds: the first part that knows it
/// counts.
pub(crate) fn recorded_cost<'a>(parts: impl Iterator<Item = &'a Part>, key: &Key) -> Option<u64> {
    let mut record = Vec::new();
    for part in parts {
        let cost = if part.read(Kind::Artifact, key, &mut record) {
            payload::parse(&record).map(|(cost, _)| cost)
        } else if part.read(Kind::Cost, key, &mut record) {
            payload::cost(&record)
        } else {
            None
        };
        if let Some(cost) = cost {
            return Some(u64::try_from(cost.as_micros()).unwrap_or(u64::MAX));
        }
    }
    None
}

/// Estimates from the length of the code what no driver has compiled yet.
pub(crate) struct Lengths<'a> {
    portable: &'a Part,
    /// Bytes of the record of each module that was looked at.
    modules: HashMap<Key, u64>,
}

impl<'a> Lengths<'a> {
    /// Nothing is looked at yet.
    pub(crate) fn new(portable: &'a Part) -> Lengths<'a> {
        Lengths { portable, modules: HashMap::new() }
    }

    /// Bytes of the records of these modules together.
    fn of(&mut self, modules: &[Key]) -> u64 {
        let mut record = Vec::new();
        let mut of_one = |module: &Key| {
            *self.modules.entry(*module).or_insert_with(|| {
                self.portable.read(Kind::Module, module, &mut record);
                record.len() as u64
            })
        };
        modules.iter().map(&mut of_one).sum()
    }

    /// Fills in the costs that are not known: as much for each byte as the known ones took. If none is known, a
    /// microsecond a byte, and at least [`USUAL`].
    pub(crate) fn fill_in<'k>(&mut self, costs: &mut [Option<u64>], modules_of: impl Fn(usize) -> &'k [Key]) {
        if costs.iter().all(Option::is_some) {
            return;
        }
        let (mut known, mut bytes) = (0, 0);
        let lengths: Vec<u64> = (0..costs.len()).map(|at| self.of(modules_of(at))).collect();
        for (cost, length) in costs.iter().zip(&lengths) {
            if let Some(cost) = cost {
                (known, bytes) = (known + cost, bytes + length);
            }
        }
        let estimate = |length: u64| match u128::from(length) * u128::from(known) {
            0 => length.max(USUAL),
            product => u64::try_from(product / u128::from(bytes.max(1))).unwrap_or(u64::MAX),
        };
        for (cost, length) in costs.iter_mut().zip(lengths) {
            cost.get_or_insert_with(|| estimate(length));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ordered(costs: &[u64], jobs: usize) -> Vec<u64> {
        let task = |(at, &cost): (usize, &u64)| Task::new([at as u8; 32], at, cost);
        let tasks = costs.iter().enumerate().map(task).collect();
        schedule(tasks, jobs).into_iter().map(|task| task.cost).collect()
    }

    /// How long so many workers take that each begin the next one when they are done.
    fn makespan(costs: &[u64], jobs: usize) -> u64 {
        let mut ends = vec![0u64; jobs];
        for cost in costs {
            *ends.iter_mut().min().unwrap() += cost;
        }
        ends.into_iter().max().unwrap()
    }

    #[test]
    fn what_is_used_first_is_made_first() {
        assert_eq!(ordered(&[3, 1, 2, 4, 3, 2, 1], 2)[..3], [3, 1, 2]);
        assert_eq!(ordered(&[], 2), [0; 0]);
        assert_eq!(ordered(&[0, 0, 0], 2), [0, 0, 0]);
    }

    #[test]
    fn a_long_one_at_the_end_begins_in_time() {
        let mut costs = vec![10u64; 100];
        costs.push(500);
        let in_order = makespan(&costs, 2);
        let better = ordered(&costs, 2);
        assert_eq!(in_order, 1000);
        assert_eq!(makespan(&better, 2), 750);
        // And not earlier than that.
        assert_eq!(better.iter().position(|&cost| cost == 500), Some(50));
    }

    #[test]
    fn one_worker_keeps_the_order_of_use_and_nothing_is_lost() {
        let costs: Vec<u64> = (0..200).map(|at| at * 7919 % 101).collect();
        assert_eq!(ordered(&costs, 1)[..190], costs[..190]);
        for jobs in [1, 2, 8, 64] {
            let mut sorted = ordered(&costs, jobs);
            sorted.sort_unstable();
            let mut all = costs.clone();
            all.sort_unstable();
            assert_eq!(sorted, all);
            let ideal = costs.iter().sum::<u64>().div_ceil(jobs as u64).max(100);
            assert!(makespan(&ordered(&costs, jobs), jobs) <= ideal + ideal / 10 + 1, "{jobs}");
        }
    }
}
