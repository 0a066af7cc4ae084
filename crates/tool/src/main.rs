//! `vkstash`: runs programs with the layer, installs the layer's manifests, and tells what the stash did.
//!
//! The floors, from the top down; nothing imports upwards:
//!
//! - `run`, `install` programs with the layer, and the manifests through which the loader finds it
//! - `stats`, `keep`, `gc`, `quarantine`, `export`, `import` the commands that read and change the stash
//! - `manifest` the layer's manifests; `kept` what is kept of a stash, and who says so
//! - `choice` which application is meant; `library` the layer library that belongs to this tool; `output` what is printed
//! - `exchange` the file that export writes; `names`, `tally`, `units` Vulkan's names, sums, numbers for people;
//!   `signals`, `start` being a transparent parent; `new_file`, `root`, `elf`, `cli` files, folders, the command line

mod choice;
mod cli;
mod elf;
mod exchange;
mod export;
mod gc;
mod import;
mod install;
mod keep;
mod kept;
mod library;
mod manifest;
mod names;
mod new_file;
mod output;
mod quarantine;
mod root;
mod run;
mod signals;
mod start;
mod stats;
mod tally;
mod units;

use std::fmt::Display;
use std::io::IsTerminal as _;
use std::process::ExitCode;

use clap::Parser as _;

use cli::{Cli, Command};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        // Help and the version, which somebody asked for: that they could not be printed is an error as everywhere.
        Err(text) if !text.use_stderr() => {
            let in_colour = std::io::stdout().is_terminal();
            let printed = if in_colour { text.print() } else { output::print(&text.to_string()) };
            return at_the_edge(printed.map_err(|error| format!("cannot print it: {error}")));
        }
        Err(wrong) => wrong.exit(),
    };
    match cli.command {
        Command::Run(args) => run::main(args),
        Command::Install(args) => at_the_edge(install::install(&args)),
        Command::Uninstall(args) => at_the_edge(install::uninstall(&args)),
        Command::Stats(args) => at_the_edge(stats::main(&args)),
        Command::Gc(args) => at_the_edge(gc::main(&args)),
        Command::Keep(args) => at_the_edge(keep::main(&args)),
        Command::Export(args) => at_the_edge(export::main(&args)),
        Command::Import(args) => at_the_edge(import::main(&args)),
        Command::Quarantine(args) => at_the_edge(quarantine::main(&args)),
    }
}

/// One line for people, and the exit status that the manual promises.
fn at_the_edge<E: Display>(result: Result<(), E>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::complain(&error);
            ExitCode::FAILURE
        }
    }
}
