//! The store against LMDB, redb, SQLite and one file for each entry, all in one run.
//!
//! The floors, from the top down; nothing imports upwards:
//!
//! - `output` the output files of a run
//! - `document`, `plot` a run for people: the tables, the bars
//! - `targets` the targets of the store
//! - `table` tables in Markdown
//! - `measures` the meaning of values, and the ratios
//! - `rounds` the order of jobs, so that noise affects every engine alike
//! - `report` all values of a run, as JSON
//! - `child` starting and killing the process of a job, and its output
//! - `jobs` the measurements, in a process of their own
//! - `options` the command line
//! - `engines` the five engines behind one interface
//! - `workload` keys and values
//! - `machine` the machine of a run
//! - `failure` the error type

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
