//! Measures what the stash costs and gains, against the driver itself in the same run, and prints ratios.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark may panic")]

mod client;
mod demo;
mod figures;
mod gpu;
mod processes;
mod table;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// Measures what the stash costs and gains.
#[derive(Parser)]
struct Options {
    #[command(subcommand)]
    what: What,
    /// Folder of .spv files (scripts/corpus.sh).
    #[arg(long, global = true, default_value = "corpus")]
    corpus: PathBuf,
    /// Modules to leave out.
    #[arg(long, global = true, default_value = "layer-tests/data/slow-modules.txt")]
    skip_list: PathBuf,
    /// How many modules.
    #[arg(long, global = true, default_value_t = 200)]
    count: usize,
    /// How often everything is measured.
    #[arg(long, global = true, default_value_t = 5)]
    rounds: usize,
}

#[derive(Subcommand)]
enum What {
    /// The figures on RADV's null device.
    Figures,
    /// Whole processes on lavapipe and RADV: a program that gains nothing, and one without pipelines.
    Processes,
    /// The figures on this machine's GPU.
    Gpu,
    /// The README's table.
    Demo,
}

fn main() {
    let options = Options::parse();
    let bench = client::Bench::new(&options.corpus, &options.skip_list, options.count, options.rounds);
    match options.what {
        What::Figures => figures::run(&bench),
        What::Processes => processes::run(&bench),
        What::Gpu => gpu::run(&bench),
        What::Demo => demo::run(&bench),
    }
}
