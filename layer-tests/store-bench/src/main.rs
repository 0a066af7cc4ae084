//! The store against LMDB, redb, SQLite and one file an entry, all in one run.
//!
//! The floors, from the top down; nothing imports upwards:
//!
//! - `output` the files that a run leaves
//! - `document`, `plot` a run for people: the tables, the bars
//! - `targets` what is asked of the store
//! - `table` tables in Markdown
//! - `measures` what the values mean, and the ratios
//! - `rounds` which jobs run when, so that noise hits every engine alike
//! - `report` all values of a run, as JSON
//! - `child` starting, hearing and killing the process of a job
//! - `jobs` what is measured, in a process of its own
//! - `options` the command line
//! - `engines` the five engines behind one interface
//! - `workload` keys and values
//! - `machine` what it ran on
//! - `failure` how anything here fails

mod child;
mod document;
mod engines;
mod failure;
mod jobs;
mod machine;
mod measures;
mod options;
mod output;
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

fn main() -> ExitCode {
    let outcome = match Options::parse().command {
        Command::Run(run) => rounds::run(&run).and_then(|report| {
            output::write(&report, run.json.as_deref(), run.docs.as_deref())?;
            println!("{}", document::text(&report));
            Ok(())
        }),
        Command::Plot { json, docs } => {
            Report::read(&json).and_then(|report| output::write(&report, None, Some(&docs)))
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
