//! Benchmarks of the layer: child processes in paired, interleaved runs, with medians and ratios. Only a ratio
//! against a peer of the same run can be compared between machines; nothing here asserts an absolute time.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark may stop at what it did not expect")]

mod busy;
mod capture;
mod child;
mod compare;
mod cost;
mod demo;
mod engines;
mod environment;
mod failure;
mod figures;
mod growth;
mod linked;
mod load;
mod lookups;
mod machine;
mod nvidia;
mod objects;
mod options;
mod parked;
mod predict;
mod process;
mod programs;
mod progress;
mod recipes;
mod served;
mod short_buffers;
mod siblings;
mod small;
mod states;
mod stress;
mod table;
mod update;
mod usual;
mod widths;

use std::fs;
use std::process::ExitCode;
use std::time::SystemTime;

use clap::Parser as _;
use vkstash_layer_tests::bench::data::Data;

use crate::child::Runner;
use crate::failure::Failure;
use crate::options::{Command, Common, Growth, Options, Stress};
use crate::table::Table;

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("vkstash-bench: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), Failure> {
    let common = &options.common;
    if common.data.is_some() && options.command.prints_itself() {
        return Err("--data: this command's output is no such table".into());
    }
    let rounds = |usual: usize| common.rounds.unwrap_or(usual);
    match &options.command {
        Command::Capture(capture) => print(common, &capture::run(capture, rounds(301))?),
        Command::Lookups(lookups) => {
            print(common, &lookups::run(&lookups.segments, lookups.applications, rounds(25))?)
        }
        Command::Recipes(recipes) => recipes::run(recipes, rounds(5)),
        Command::Siblings(siblings) => siblings::run(siblings),
        Command::ShortBuffers => short_buffers::run(),
        Command::Predict(predict) => {
            let data = predict::run(predict)?;
            write(common, || data)
        }
        Command::Stress(Stress { step: true, .. }) => stress::step(),
        Command::Growth(Growth { step: Some(count), .. }) => growth::step(*count),
        _ => run_children(options),
    }
}

/// The commands whose figures come from child processes.
fn run_children(options: &Options) -> Result<(), Failure> {
    let common = &options.common;
    let rounds = |usual: usize| common.rounds.unwrap_or(usual);
    let runner = Runner::new(common)?;
    let of_programs = match &options.command {
        Command::Programs(programs) => {
            let driver = programs.driver.map_or_else(|| "Radv".to_owned(), |driver| format!("{driver:?}"));
            let rows = programs::run(&runner, programs, rounds(3))?;
            Some(("Real programs over the driver's warm cache", driver, rows))
        }
        Command::Update(update) if update.programs => {
            let rows = update::run_programs(&runner, update)?;
            Some(("Real programs after an update of the driver", "Radv".to_owned(), rows))
        }
        _ => None,
    };
    if let Some((title, driver, rows)) = of_programs {
        let here = machine::Machine::here();
        return write(common, || Data {
            topic: title.to_owned(),
            what: title.to_owned(),
            command: here.command.clone(),
            machine: here.words(&driver),
            rows,
        });
    }
    if let Command::Engines(engines) = &options.command {
        let tables = engines::run(&runner, engines, rounds(15))?;
        print(common, &tables)?;
        return engines::verdict(&tables);
    }
    let tables = match &options.command {
        Command::Figures(figures) => figures::run(&runner, figures, common.rounds)?,
        Command::Nvidia(nvidia) => nvidia::run(&runner, nvidia, rounds(3))?,
        Command::Usual(usual) => usual::run(&runner, usual, rounds(5))?,
        Command::Update(update) => update::run(&runner, update, rounds(9))?,
        Command::Parked(on) => parked::run(&runner, on, rounds(5))?,
        Command::Busy(on) => busy::run(&runner, on, rounds(30))?,
        Command::Objects(on) => objects::run(&runner, on, rounds(15))?,
        Command::Small(on) => small::run(&runner, on, rounds(40))?,
        Command::Stress(on) => stress::run(&runner, on, rounds(1))?,
        Command::Growth(on) => growth::run(&runner, on, rounds(5))?,
        Command::Widths(on) => widths::run(&runner, on, rounds(5))?,
        Command::States(states) => states::run(&runner, states, common.count, rounds(5))?,
        Command::Capture(_)
        | Command::Lookups(_)
        | Command::Engines(_)
        | Command::Programs(_)
        | Command::Predict(_)
        | Command::Recipes(_)
        | Command::ShortBuffers
        | Command::Siblings(_) => Vec::new(),
        Command::Demo(demo) => demo::run(&runner, demo, rounds(3))?,
    };
    print(common, &tables)
}

fn print(common: &Common, tables: &[Table]) -> Result<(), Failure> {
    let machine = machine::Machine::here();
    if common.json {
        println!("{}", table::json(&machine, tables)?);
    } else {
        print!("{}", table::markdown(&machine, tables));
    }
    write(common, || table::data(&machine, tables))
}

/// Writes the data file that was asked for.
fn write(common: &Common, data: impl FnOnce() -> Data) -> Result<(), Failure> {
    if let Some(file) = &common.data {
        fs::write(file, data().file(SystemTime::now()))?;
    }
    Ok(())
}
