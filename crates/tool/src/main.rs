//! `vkstash`: runs programs with the layer, installs the layer's manifests, and shows what the stash did.
//!
//! The rooms, from the top floor down; nothing imports upwards. Each has a map of its own. The first floors are the
//! commands:
//!
//! - [`programs`] running a program with the layer, measuring one, compiling ahead of programs
//! - [`look`] what shows the stash and running programs, and changes nothing
//! - [`care`] what changes the stash and the settings
//! - [`setup`] installing the layer, and finding out why programs run without it
//! - [`exchange`] what goes to other machines and comes from them
//! - [`cli`] the command line, its help, and what shells complete
//!
//! Below are the things that commands share:
//!
//! - [`stash`] the place of the stash, and what commands find in it
//! - [`config`] the settings in force, and the configuration file
//! - [`layer`] the layer's library and manifests, and what the loader of a process is told
//! - [`drivers`] the drivers that are here, their caches, and what other versions of them have compiled
//! - [`reports`] what programs tell of themselves
//! - [`term`] printing, asking, and numbers and tables for people
//! - [`system`] this process, its machine, and files
//!
//! The tests have `schemas`, too: the JSON Schemas of what commands print.

mod care;
mod cli;
mod config;
mod drivers;
mod exchange;
mod layer;
mod look;
mod programs;
mod reports;
#[cfg(test)]
mod schemas;
mod setup;
mod stash;
mod system;
mod term;

use std::fmt::Display;
use std::io::IsTerminal as _;
use std::process::ExitCode;

use clap::FromArgMatches as _;
use vkstash_model::variables;
use vkstash_store::settings::places::use_files;

use cli::{Cli, Command};

fn main() -> ExitCode {
    cli::completion::answer();
    let cli = match cli::help::command().try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches))
    {
        Ok(cli) => cli,
        // The user asked for help or the version; that it cannot be printed is an error as in every command.
        Err(text) if !text.use_stderr() => {
            let in_colour = std::io::stdout().is_terminal();
            let printed = if in_colour { text.print() } else { term::output::print(&text.to_string()) };
            return exit_code(printed.map_err(|error| format!("cannot print it: {error}")));
        }
        Err(wrong) => wrong.exit(),
    };
    use_files(variables::configs());
    match cli.command {
        Command::Run(args) => programs::run::main(args),
        Command::Bench(args) => exit_code(programs::bench::main(&args)),
        Command::Install(args) => exit_code(setup::install::install(&args)),
        Command::Uninstall(args) => exit_code(setup::install::uninstall(&args)),
        Command::Stats(args) => exit_code(look::stats::main(&args)),
        Command::List(args) => exit_code(look::list::main(&args)),
        Command::Report(args) => exit_code(look::report::main(&args)),
        Command::Watch(args) => exit_code(look::watch::main(&args)),
        Command::Show(args) => exit_code(look::show::main(&args)),
        Command::Inspect(args) => exit_code(look::inspect::main(&args)),
        Command::Gc(args) => exit_code(care::gc::main(&args)),
        Command::Config(args) => exit_code(care::config::main(&args)),
        Command::Keep(args) => exit_code(care::keep::main(&args)),
        Command::Background(args) => exit_code(care::background::main(&args)),
        Command::Cache(args) => exit_code(care::cache::main(&args)),
        Command::Doctor(args) => exit_code(setup::doctor::main(&args)),
        Command::DoctorProbe(args) => drivers::probe::main(args.layer.as_deref()),
        Command::Prune(args) => exit_code(care::prune::prune(&args)),
        Command::Clear(args) => exit_code(care::prune::clear(&args)),
        Command::Export(args) => exit_code(exchange::export::main(&args)),
        Command::Base(args) => exit_code(exchange::base::main(&args)),
        Command::Import(args) => exit_code(exchange::import::main(&args)),
        Command::Prewarm(args) => programs::prewarm::main(&args),
        Command::PrewarmWorker(args) => vkstash_worker::serve(&args.library).unwrap_or_else(|error| {
            term::output::eprint_line(&error);
            ExitCode::FAILURE
        }),
        Command::Quarantine(args) => exit_code(care::quarantine::main(&args)),
        Command::Verify(args) => exit_code(care::verify::main(&args)),
        Command::Completions(args) => exit_code(cli::completion::main(&args)),
        Command::Man(args) => exit_code(cli::manual::man(&args)),
    }
}

/// Prints an error in one line, and gives the documented exit status.
fn exit_code<E: Display>(result: Result<(), E>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            term::output::eprint_line(&error);
            ExitCode::FAILURE
        }
    }
}
