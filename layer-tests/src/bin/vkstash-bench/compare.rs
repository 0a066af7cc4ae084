//! Pairs of runs, with alternating order, so that a machine that becomes slower over the minutes slows down both
//! sides.

use crate::child::Outcome;
use crate::failure::Failure;

/// Runs `left` and `right` once each, `left` first on even rounds.
pub(crate) fn pair<T>(
    round: usize,
    left: impl FnOnce() -> Result<T, Failure>,
    right: impl FnOnce() -> Result<T, Failure>,
) -> Result<(T, T), Failure> {
    if round % 2 == 0 {
        let left = left()?;
        Ok((left, right()?))
    } else {
        let right = right()?;
        Ok((left()?, right))
    }
}

/// The results of one side of many pairs.
#[derive(Default)]
pub(crate) struct Series {
    /// One element for each run: the whole cost of each pipeline in microseconds, in the order of the modules.
    pub(crate) wholes: Vec<Vec<f64>>,
    /// One element for each run: the creation call of each pipeline in microseconds, in the order of the modules.
    pub(crate) calls: Vec<Vec<f64>>,
    /// Millions of instructions of each run's thread, if the machine counts them.
    pub(crate) instructions: Vec<f64>,
    /// Whole-process wall milliseconds.
    pub(crate) wall: Vec<f64>,
    /// Whole-process CPU milliseconds.
    pub(crate) cpu: Vec<f64>,
}

impl Series {
    /// Adds a run.
    pub(crate) fn push(&mut self, outcome: &Outcome) {
        use vkstash_layer_tests::bench::report::Kind;
        self.wholes.push(outcome.wholes(Kind::Create));
        self.calls.push(outcome.calls(Kind::Create));
        self.instructions.extend(outcome.instructions(Kind::Create));
        self.wall.push(outcome.wall * 1e3);
        self.cpu.push(outcome.cpu * 1e3);
    }

    /// Sum of each run, in milliseconds.
    pub(crate) fn totals(&self) -> Vec<f64> {
        self.wholes.iter().map(|run| run.iter().sum::<f64>() / 1e3).collect()
    }

    /// `self` minus `other`, module by module and pair by pair, in microseconds.
    pub(crate) fn differences(&self, other: &Series) -> Vec<f64> {
        let pairs = self.wholes.iter().zip(&other.wholes);
        pairs.flat_map(|(mine, theirs)| mine.iter().zip(theirs).map(|(mine, theirs)| mine - theirs)).collect()
    }

    /// `self` minus `other`, the fastest run of each module on both sides: the difference without the noise of other
    /// programs.
    pub(crate) fn best_differences(&self, other: &Series) -> Vec<f64> {
        let (mine, theirs) = (best(&self.wholes), best(&other.wholes));
        mine.iter().zip(theirs).map(|(mine, theirs)| mine - theirs).collect()
    }
}

fn best(runs: &[Vec<f64>]) -> Vec<f64> {
    let modules = runs.first().map_or(0, Vec::len);
    (0..modules).map(|module| runs.iter().map(|run| run[module]).fold(f64::INFINITY, f64::min)).collect()
}
