//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::engines::Engine;

/// Measures the store against other engines.
#[derive(Parser)]
pub struct Options {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Measures, and prints the tables as Markdown
    #[command(args_override_self = true)]
    Run(Run),
    /// Writes store-bench.md and store-bench.svg from the JSON of a run
    Plot {
        /// The JSON of a run
        json: PathBuf,
        /// The folder for the two files
        #[arg(long)]
        docs: PathBuf,
    },
    /// One job in a process of its own; started by a run
    #[command(hide = true)]
    Job { job: String },
}

#[derive(Args)]
pub struct Run {
    /// Sizes of the stores, in entries of about 9 KB; 1000000 needs 14 GB of disk and 16 GB of memory
    #[arg(long, value_delimiter = ',', default_values_t = [10_000, 100_000])]
    pub entries: Vec<u64>,
    /// Only these engines
    #[arg(long, value_delimiter = ',', default_values_t = Engine::ALL, value_enum)]
    pub engines: Vec<Engine>,
    /// Number of rounds; default: 5, or 2 from 500000 entries on
    #[arg(long)]
    pub rounds: Option<usize>,
    /// Processes per round that open the store
    #[arg(long, default_value_t = 20)]
    pub opens: usize,
    /// Gets per round
    #[arg(long, default_value_t = 100_000)]
    pub gets: u64,
    /// Single puts per round
    #[arg(long, default_value_t = 1000)]
    pub puts: u64,
    /// Milliseconds per round of looking up misses: more than the interval in which a reader looks for records of
    /// other processes
    #[arg(long, default_value_t = 1000)]
    pub miss_ms: u64,
    /// Milliseconds between the puts of each other live writer
    #[arg(long, default_value_t = 20)]
    pub writer_ms: u64,
    /// A smoke test of a few seconds: 2000 entries, one round; its figures mean nothing
    #[arg(long)]
    pub quick: bool,
    /// A folder on an ordinary disk for the stores; a subfolder is created there, and removed at the end
    #[arg(long)]
    pub folder: PathBuf,
    /// The JSON file for the values
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// The folder for store-bench.md and store-bench.svg
    #[arg(long)]
    pub docs: Option<PathBuf>,
}

impl Run {
    /// The options with the effect of `--quick`.
    pub fn sizes(&self) -> Run {
        let mut sizes = Run {
            entries: self.entries.clone(),
            engines: self.engines.clone(),
            folder: self.folder.clone(),
            json: None,
            docs: None,
            ..*self
        };
        if self.quick {
            sizes.entries = vec![2000];
            sizes.rounds = Some(self.rounds.unwrap_or(1));
            (sizes.opens, sizes.gets, sizes.puts, sizes.miss_ms) = (3, 2000, 100, 150);
        }
        sizes
    }

    /// Number of rounds for a store of this size.
    pub fn rounds(&self, entries: u64) -> usize {
        self.rounds.unwrap_or(if entries >= 500_000 { 2 } else { 5 }).max(1)
    }
}
