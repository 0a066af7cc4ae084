//! A replay of recorded orders of first use: how many requests of a run each predictor would have had ready, had it
//! known the earlier runs alone.
//!
//! The model: before each request so many pipelines are made, each of what a predictor names next. A request is ready
//! if its pipeline was made before it. All predictors may make the same number; one that names nothing makes nothing.

mod predictors;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;
use vkstash_model::record::{FORGOTTEN, Key, UseRecord};

pub use self::predictors::NAMES;
use self::predictors::{Known, Progress};

/// Runs of a program that are read: its newest ones.
const MOST_RUNS: usize = 64;

/// The runs of one program.
pub struct Recorded {
    /// By number.
    keys: Vec<Key>,
    numbers: HashMap<Key, u32, FxBuildHasher>,
    /// The oldest run first. Each key is once in a run.
    runs: Vec<Vec<Used>>,
    /// By number of a key: itself, its modules and its libraries, as numbers.
    parts: Vec<Vec<u32>>,
}

/// The first use of a key in a run.
#[derive(Clone, Copy)]
struct Used {
    number: u32,
    unix_ms: u64,
    sequence: u32,
}

impl Recorded {
    /// The runs of these uses, in any order. `parts` are modules and libraries by the key of a pipeline.
    pub fn new(mut uses: Vec<(Key, UseRecord)>, parts: &HashMap<Key, Vec<Key>>) -> Recorded {
        uses.retain(|(key, _)| *key != FORGOTTEN);
        uses.sort_unstable_by_key(|(key, noted)| (noted.run, noted.sequence, noted.unix_ms, *key));
        let mut recorded =
            Recorded { keys: Vec::new(), numbers: HashMap::default(), runs: Vec::new(), parts: Vec::new() };
        let runs: Vec<_> = uses.chunk_by(|(_, one), (_, next)| one.run == next.run).collect();
        // By number of a key, the run that has it.
        let mut seen: Vec<usize> = Vec::new();
        for (at, run) in runs[runs.len().saturating_sub(MOST_RUNS)..].iter().enumerate() {
            let mut order = Vec::new();
            for (key, noted) in *run {
                let number = recorded.number(key);
                seen.resize(recorded.keys.len(), usize::MAX);
                if seen[number as usize] != at {
                    seen[number as usize] = at;
                    order.push(Used { number, unix_ms: noted.unix_ms, sequence: noted.sequence });
                }
            }
            recorded.runs.push(order);
        }
        for number in 0..recorded.keys.len() {
            let named = parts.get(&recorded.keys[number]);
            let own = named.into_iter().flatten().map(|part| recorded.number(part));
            let own = own.chain([number as u32]).collect();
            recorded.parts.push(own);
        }
        recorded
    }

    fn number(&mut self, key: &Key) -> u32 {
        let next = self.keys.len() as u32;
        let number = *self.numbers.entry(*key).or_insert(next);
        if number == next {
            self.keys.push(*key);
        }
        number
    }

    /// Runs that can be predicted: all but the first one.
    pub fn predicted(&self) -> usize {
        self.runs.len().saturating_sub(1)
    }

    /// Every run but the first one is predicted from all earlier ones. `makes`: pipelines that are made before each
    /// request; less than one: one before every so many requests. One sum for each of [`NAMES`].
    pub fn replay(&self, makes: f64) -> Vec<Sum> {
        let mut sums = vec![Sum::default(); NAMES.len()];
        let mut known = Known::new(self);
        for (at, run) in self.runs.iter().enumerate() {
            if at > 0 {
                let plan = known.plan();
                for (name, sum) in sums.iter_mut().enumerate() {
                    sum.add(self.one_run(run, &known, &plan, name, makes));
                }
            }
            known.learn(run);
        }
        sums
    }

    fn one_run(
        &self,
        run: &[Used],
        known: &Known,
        plan: &predictors::Planned,
        name: usize,
        makes: f64,
    ) -> Sum {
        let mut progress = Progress::new(self.keys.len());
        let mut predictor = predictors::all(name, known, plan);
        let (mut sum, mut credit) = (Sum::default(), 0.0);
        for used in run {
            credit += makes;
            while credit >= 1.0 {
                credit -= 1.0;
                if let Some(number) = predictor.next(&progress) {
                    progress.make(number);
                    sum.made += 1;
                }
            }
            let is_ready = progress.is_made(used.number);
            sum.requests += 1;
            sum.new += usize::from(!known.has(used.number));
            sum.ready += usize::from(is_ready);
            progress.ask(used.number);
            predictor.note(used.number);
        }
        sum
    }
}

/// What a predictor had ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// First uses in the predicted runs.
    pub requests: usize,
    /// Those whose key no earlier run had: no predictor can have them ready.
    pub new: usize,
    /// Those whose pipeline was made before.
    pub ready: usize,
    /// Pipelines that were made.
    pub made: usize,
}

impl Sum {
    fn add(&mut self, other: Sum) {
        self.requests += other.requests;
        self.new += other.new;
        self.ready += other.ready;
        self.made += other.made;
    }

    /// Pipelines that were made and that the run did not ask for.
    pub fn in_vain(&self) -> usize {
        self.made - self.ready
    }
}
