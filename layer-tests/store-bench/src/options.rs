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
    /// Measures, and prints tables as Markdown
    #[command(args_override_self = true)]
    Run(Run),
    /// Writes store-bench.md and store-bench.svg from the JSON of a run
    Plot {
        /// The JSON of a run
        json: PathBuf,
        /// Where the two files go
        #[arg(long)]
        docs: PathBuf,
    },
    /// What a run starts for itself: one job in a process of its own
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
    /// How often everything is measured; where none is given 5 times, from 500000 entries on twice
    #[arg(long)]
    pub rounds: Option<usize>,
    /// Fresh processes per round that open the store
    #[arg(long, default_value_t = 20)]
    pub opens: usize,
    /// Gets per round
    #[arg(long, default_value_t = 100_000)]
    pub gets: u64,
    /// Single puts per round
    #[arg(long, default_value_t = 1000)]
    pub puts: u64,
    /// For how long misses are looked up in a round, in milliseconds: longer than a reader keeps from looking
    /// for what others wrote
    #[arg(long, default_value_t = 1000)]
    pub miss_ms: u64,
    /// How often each of the other live writers puts an entry, in milliseconds
    #[arg(long, default_value_t = 20)]
    pub writer_ms: u64,
    /// A smoke test of a few seconds: 2000 entries, one round; its figures mean nothing
    #[arg(long)]
    pub quick: bool,
    /// A folder on an ordinary disk for the stores; one below it is made, and removed in the end
    #[arg(long)]
    pub folder: PathBuf,
    /// Where the values go as JSON
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// Where store-bench.md and store-bench.svg go
    #[arg(long)]
    pub docs: Option<PathBuf>,
}

impl Run {
    /// With what `--quick` stands for.
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

    /// How often a store of that size is measured.
    pub fn rounds(&self, entries: u64) -> usize {
        self.rounds.unwrap_or(if entries >= 500_000 { 2 } else { 5 }).max(1)
    }
}
