//! `vkstash bench`: a program with and without the stash, in turns.

mod comparison;
mod figures;
mod remarks;
mod runs;
mod text;

use std::io;

use crate::bench::comparison::{Caches, Comparison};
use crate::bench::figures::{Figures, Pipelines};
use crate::bench::runs::{Arm, Bench, RunError};
use crate::cli::BenchArgs;
use crate::output;

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
    let mut bench = Bench::new(args)?;
    let first = bench.run(Arm::Without)?;
    // Fills the stash. A second one is served, and decides who is asked first from then on.
    bench.run(Arm::Warm)?;
    bench.run(Arm::Warm)?;
    let mut taken = [Vec::new(), Vec::new(), Vec::new()];
    let runs = usize::from(args.runs);
    for round in 0..runs {
        // Each kind comes first, second and last in turn.
        for place in 0..Arm::ALL.len() {
            let at = (round + place) % Arm::ALL.len();
            taken[at].push(bench.run(Arm::ALL[at])?);
        }
    }
    let [without, empty, filled] = &taken;
    let pipelines = filled.last().map(Pipelines::of).unwrap_or_default();
    let result = Comparison {
        command: args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        runs,
        driver_cache: Caches::of(filled.last(), args.empty_driver_cache),
        without: Figures::of(without, without),
        empty_stash: Figures::of(empty, without),
        filled_stash: Figures::of(filled, without),
        remarks: remarks::of(&first, &taken, &pipelines),
        pipelines,
    };
    if args.json {
        let json = serde_json::to_string_pretty(&result)?;
        return Ok(output::print(&format!("{}\n", output::escaped(&json)))?);
    }
    let text = if args.markdown { text::markdown(&result) } else { text::plain(&result) };
    Ok(output::print(&text)?)
}
