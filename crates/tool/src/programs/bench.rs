//! `vkstash bench`: a program with and without the stash, in turns.

mod caches;
mod comparison;
mod figures;
mod remarks;
mod runs;
mod text;

use std::io;

use crate::cli::BenchArgs;
use crate::drivers::caches::on_disk;
use crate::programs::bench::caches::Caches;
use crate::programs::bench::comparison::Comparison;
use crate::programs::bench::figures::{Figures, Pipelines};
use crate::programs::bench::runs::{Arm, Bench, Run, RunError};
use crate::term::output;
use crate::term::progress::{Progress, Unit};

#[cfg(test)]
pub(crate) use comparison::Comparison as Output;

/// Runs before those that count: a first one fills the stash, and a second one is served, which decides who is asked
/// first from then on.
const FILLING: usize = 2;

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    #[error(transparent)]
    Run(#[from] RunError),
    #[error("cannot make JSON of it: {0}")]
    Json(#[from] serde_json::Error),
    #[error("cannot print it: {0}")]
    Print(#[from] io::Error),
}

pub(crate) fn main(args: &BenchArgs) -> Result<(), BenchError> {
    let result = measure(args)?;
    if args.json {
        let json = serde_json::to_string_pretty(&result)?;
        return Ok(output::print(&format!("{}\n", output::escaped(&json)))?);
    }
    let text = if args.markdown { text::markdown(&result) } else { text::plain(&result) };
    Ok(output::print(&text)?)
}

fn measure(args: &BenchArgs) -> Result<Comparison, RunError> {
    let mut bench = Bench::new(args)?;
    let runs = usize::from(args.runs);
    let total = (1 + FILLING + Arm::ALL.len() * runs) as u64;
    let mut progress = Progress::new("running", Unit::Things);
    let mut done = 0;
    let mut run = |arm: Arm, doing: String| -> Result<Run, RunError> {
        progress.goes_on(doing);
        let run = bench.run(arm)?;
        done += 1;
        progress.set(done, total);
        Ok(run)
    };
    let first = run(Arm::Without, "first run, which does not count".to_owned())?;
    for _ in 0..FILLING {
        run(Arm::Warm, "filling the stash".to_owned())?;
    }
    let before = on_disk::all();
    let mut taken = [Vec::new(), Vec::new(), Vec::new()];
    for round in 0..runs {
        // Each kind comes first, second and last in turn.
        for place in 0..Arm::ALL.len() {
            let at = (round + place) % Arm::ALL.len();
            taken[at].push(run(Arm::ALL[at], format!("round {} of {runs}", round + 1))?);
        }
    }
    drop(progress);
    let [without, empty, filled] = &taken;
    let pipelines = filled.last().map(Pipelines::of).unwrap_or_default();
    let driver_cache = Caches::of(filled.last(), &before, args.empty_driver_cache);
    Ok(Comparison {
        command: args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        runs,
        filled_by_runs: FILLING,
        without: Figures::of(without, without),
        empty_stash: Figures::of(empty, without),
        filled_stash: Figures::of(filled, without),
        remarks: remarks::of(&first, &taken, &pipelines, &driver_cache),
        driver_cache,
        pipelines,
    })
}
