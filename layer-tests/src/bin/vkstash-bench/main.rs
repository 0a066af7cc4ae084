//! Benchmarks of the layer: child processes in paired, interleaved runs, with medians and ratios. Only a ratio
//! against a peer of the same run can be compared between machines; nothing here asserts an absolute time.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark may stop at what it did not expect")]

mod artifacts;
mod bases;
mod beside;
mod busy;
mod capture;
mod child;
mod codec;
mod compare;
mod cost;
mod demo;
mod devices;
mod engines;
mod environment;
mod failure;
mod figures;
mod linked;
mod loaded;
mod lookups;
mod machine;
mod modules;
mod nvidia;
mod options;
mod parked;
mod process;
mod programs;
mod progress;
mod recipes;
mod served;
mod siblings;
mod small;
mod states;
mod stress;
mod table;
mod usual;
mod widths;

use std::fs;
use std::process::ExitCode;
use std::time::SystemTime;

use clap::Parser as _;
use vkstash_layer_tests::bench::data::Data;

use crate::child::Runner;
use crate::failure::Failure;
use crate::options::{Command, Common, Options, Stress};
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
    if matches!(options.command, Command::Modules) {
        modules::run(common.rounds.unwrap_or(5));
        return Ok(());
    }
    if matches!(options.command, Command::Codec) {
        return codec::run(&common.modules, common.rounds.unwrap_or(5));
    }
    if let Command::Recipes(recipes) = &options.command {
        return recipes::run(recipes, common.rounds.unwrap_or(5));
    }
    if let Command::Artifacts(artifacts) = &options.command {
        return artifacts::run(&artifacts.stash, common.rounds.unwrap_or(5));
    }
    if let Command::Capture(capture) = &options.command {
        return print(common, &capture::run(capture, common.rounds.unwrap_or(301))?);
    }
    if let Command::Lookups(lookups) = &options.command {
        let rounds = common.rounds.unwrap_or(25);
        return print(common, &lookups::run(&lookups.segments, lookups.applications, rounds)?);
    }
    if let Command::Siblings(siblings) = &options.command {
        return siblings::run(siblings);
    }
    if let Command::Stress(Stress { step: true, .. }) = &options.command {
        return stress::step();
    }
    let runner = Runner::new(common)?;
    if let Command::Programs(programs) = &options.command {
        let rows = programs::run(&runner, programs, common.rounds.unwrap_or(3))?;
        let here = machine::Machine::here();
        let title = "Real programs over the driver's warm cache".to_owned();
        let driver = programs.driver.map_or_else(|| "Radv".to_owned(), |driver| format!("{driver:?}"));
        return write(common, || Data {
            topic: title.clone(),
            what: title,
            command: here.command.clone(),
            machine: here.words(&driver),
            rows,
        });
    }
    let tables = match &options.command {
        Command::Figures(figures) => figures::run(&runner, figures, common.rounds)?,
        Command::Nvidia(nvidia) => nvidia::run(&runner, nvidia, common.rounds.unwrap_or(3))?,
        Command::Usual(usual) => usual::run(&runner, usual, common.rounds.unwrap_or(5))?,
        Command::Parked(on) => parked::run(&runner, on, common.rounds.unwrap_or(5))?,
        Command::Busy(on) => busy::run(&runner, on, common.rounds.unwrap_or(30))?,
        Command::Loaded(on) => loaded::run(&runner, on, common.rounds.unwrap_or(10))?,
        Command::Small(on) => small::run(&runner, on, common.rounds.unwrap_or(40))?,
        Command::Bases(on) => bases::run(&runner, on, common.rounds.unwrap_or(5))?,
        Command::Devices(on) => devices::run(&runner, on, common.rounds.unwrap_or(5))?,
        Command::Stress(on) => stress::run(&runner, on, common.rounds.unwrap_or(1))?,
        Command::Widths(on) => widths::run(&runner, on, common.rounds.unwrap_or(5))?,
        Command::Engines(engines) => engines::run(&runner, engines, common.rounds.unwrap_or(15))?,
        Command::States(states) => states::run(&runner, states, common.count, common.rounds.unwrap_or(5))?,
        Command::Modules
        | Command::Codec
        | Command::Recipes(_)
        | Command::Artifacts(_)
        | Command::Capture(_)
        | Command::Lookups(_)
        | Command::Programs(_)
        | Command::Siblings(_) => Vec::new(),
        Command::Demo(demo) => demo::run(&runner, demo, common.rounds.unwrap_or(3))?,
    };
    print(common, &tables)?;
    if !runner.has_layer() {
        eprintln!("the layer was left out (--layer-off)");
    }
    Ok(())
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
