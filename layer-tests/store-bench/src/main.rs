//! The store against LMDB, redb, SQLite and one file an entry, all in one run.
//!
//! | file | what it knows |
//! |---|---|
//! | `options` | the command line |
//! | `workload` | keys and values |
//! | `engines` | the five engines behind one interface |
//! | `jobs` | what is measured, in a process of its own |
//! | `child` | starting, hearing and killing that process |
//! | `rounds` | which jobs run when, so that noise hits every engine alike |
//! | `measures` | what the values mean, and the ratios |
//! | `report` | all values of a run, as JSON |
//! | `table`, `targets`, `plot` | the same for people |
//! | `machine` | what it ran on |

mod child;
mod engines;
mod jobs;
mod machine;
mod measures;
mod options;
mod plot;
mod report;
mod rounds;
mod table;
mod targets;
mod workload;

use std::process::ExitCode;

use clap::Parser as _;

use crate::options::{Command, Options};
use crate::report::Report;

/// What goes wrong is told to whoever started the benchmark, and ends it.
type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    let outcome = match Options::parse().command {
        Command::Run(run) => rounds::run(&run).and_then(|report| {
            report.write(run.json.as_deref(), run.docs.as_deref())?;
            println!("{}", table::document(&report));
            Ok(())
        }),
        Command::Plot { json, docs } => {
            Report::read(&json).and_then(|report| report.write(None, Some(&docs)))
        }
        Command::Job { job } => jobs::run(&job),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("store-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
