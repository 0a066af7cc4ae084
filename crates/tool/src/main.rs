//! `vkstash`: runs programs with the layer, installs the layer's manifests, and shows what the stash did.
//!
//! The floors, from the top down; nothing imports upwards:
//!
//! - `run`, `bench`, `install` programs with the layer, and the manifests through which the loader finds it; `prewarm`
//!   compiling ahead of programs
//! - `report` a page about an application
//! - `doctor` why programs run without the stash; `doctor_probe` the process that asks the loader and the drivers
//! - `watch` what running programs do now; `stats`, `list`, `show`, `inspect`, `config`, `keep`, `background`, `cache`,
//!   `gc`, `prune`, `quarantine`, `verify`, `export`, `import`, `base` the commands that read and change the stash;
//!   `manual` man pages; `completion` what shells complete
//! - `environment` what the loader of a process is told; `folder` the folder that it finds the layer in
//! - `foz` archives of Fossilize, for `export` and `import`; `steam` where Steam keeps such
//! - `pulled_bases` bases that were fetched, and `session_caches` the caches of sessions, for `gc`; `development` the
//!   header and the file for pkg-config; `update_service` what compiles again by itself after an update of a driver;
//!   `manifest` the layer's manifests; `in_force` the settings in force, and their
//!   sources
//! - `drivers` the drivers that are here, and what other versions of them have compiled; `loader_paths` where the
//!   Vulkan loader searches
//! - `driver_caches` the caches that drivers have on disk; `choice`, `pipeline_choice` which application a name means,
//!   and which pipeline the digits of a key; `deaths` where programs ended, in words; `library` the layer library that
//!   belongs to this tool; `remote` the program for object stores; `output` printing; `confirm` asking
//! - `played` sessions of programs as their users see them
//! - `term` what people see on a terminal; `help` the groups of commands
//! - `live_pages` what running programs show of themselves; `names` Vulkan's names; `machine` what the machine has;
//!   `tally` sums of counters; `units` numbers for people; `signals`, `pending_signals`, `start` signals and streams of
//!   the command that runs; `new_file`, `regular`, `root`, `elf`, `cli` files, folders, libraries, the command line

mod background;
mod base;
mod bench;
mod cache;
mod choice;
mod cli;
mod completion;
mod config;
mod confirm;
mod deaths;
mod development;
mod doctor;
mod doctor_probe;
mod driver_caches;
mod drivers;
mod elf;
mod environment;
mod export;
mod folder;
mod foz;
mod gc;
mod help;
mod import;
mod in_force;
mod inspect;
mod install;
mod keep;
mod library;
mod list;
mod live_pages;
mod loader_folder;
mod loader_paths;
mod machine;
mod manifest;
mod manual;
mod names;
mod new_file;
mod output;
mod pending_signals;
mod pipeline_choice;
mod played;
mod prewarm;
mod prune;
mod pulled_bases;
mod quarantine;
mod regular;
mod remote;
mod report;
mod root;
mod run;
mod session_caches;
mod show;
mod signals;
mod slips;
mod start;
mod stats;
mod steam;
mod tally;
mod term;
mod translator_caches;
mod units;
mod update_service;
mod verify;
mod watch;

use std::fmt::Display;
use std::io::IsTerminal as _;
use std::process::ExitCode;

use clap::FromArgMatches as _;
use vkstash_model::variables;
use vkstash_store::settings::places::use_files;

use cli::{Cli, Command};

fn main() -> ExitCode {
    completion::answer();
    let cli = match help::command().try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        // The user asked for help or the version; that it cannot be printed is an error as in every command.
        Err(text) if !text.use_stderr() => {
            let in_colour = std::io::stdout().is_terminal();
            let printed = if in_colour { text.print() } else { output::print(&text.to_string()) };
            return exit_code(printed.map_err(|error| format!("cannot print it: {error}")));
        }
        Err(wrong) => wrong.exit(),
    };
    use_files(variables::configs());
    match cli.command {
        Command::Run(args) => run::main(args),
        Command::Bench(args) => exit_code(bench::main(&args)),
        Command::Install(args) => exit_code(install::install(&args)),
        Command::Uninstall(args) => exit_code(install::uninstall(&args)),
        Command::Stats(args) => exit_code(stats::main(&args)),
        Command::List(args) => exit_code(list::main(&args)),
        Command::Report(args) => exit_code(report::main(&args)),
        Command::Watch(args) => exit_code(watch::main(&args)),
        Command::Show(args) => exit_code(show::main(&args)),
        Command::Inspect(args) => exit_code(inspect::main(&args)),
        Command::Gc(args) => exit_code(gc::main(&args)),
        Command::Config(args) => exit_code(config::main(&args)),
        Command::Keep(args) => exit_code(keep::main(&args)),
        Command::Background(args) => exit_code(background::main(&args)),
        Command::Cache(args) => exit_code(cache::main(&args)),
        Command::Doctor(args) => exit_code(doctor::main(&args)),
        Command::DoctorProbe(args) => doctor_probe::main(args.layer.as_deref()),
        Command::Prune(args) => exit_code(prune::prune(&args)),
        Command::Clear(args) => exit_code(prune::clear(&args)),
        Command::Export(args) => exit_code(export::main(&args)),
        Command::Base(args) => exit_code(base::main(&args)),
        Command::Import(args) => exit_code(import::main(&args)),
        Command::Prewarm(args) => prewarm::main(&args),
        Command::PrewarmWorker(args) => vkstash_worker::serve(&args.library).unwrap_or_else(|error| {
            output::eprint_line(&error);
            ExitCode::FAILURE
        }),
        Command::Quarantine(args) => exit_code(quarantine::main(&args)),
        Command::Verify(args) => exit_code(verify::main(&args)),
        Command::Completions(args) => exit_code(completion::main(&args)),
        Command::Man(args) => exit_code(manual::man(&args)),
    }
}

/// Prints an error in one line, and gives the documented exit status.
fn exit_code<E: Display>(result: Result<(), E>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::eprint_line(&error);
            ExitCode::FAILURE
        }
    }
}
