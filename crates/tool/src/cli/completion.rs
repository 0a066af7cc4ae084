//! Completions for shells: commands, options, and the names of the applications in the stash.
//!
//! A shell gets a script that asks this tool at each completion, by an environment variable.

use std::ffi::OsStr;
use std::io::{self, Write as _};

use clap_complete::CompletionCandidate;
use clap_complete::engine::ArgValueCompleter;
use clap_complete::env::{CompleteEnv, Shells};
use vkstash_store::stash::inspect::list_applications;

use crate::cli::CompletionsArgs;
use crate::cli::help;
use crate::stash::choice::name_of;
use crate::stash::root;
use crate::term::output::StandardOutput;
use crate::term::units::plain;

/// Names the shell that asks.
const VARIABLE: &str = "VKSTASH_COMPLETE";

/// Why nothing was printed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CompletionError {
    #[error("no completions for {0} are known")]
    Shell(String),
    #[error("cannot print it: {0}")]
    Print(#[from] io::Error),
}

/// Prints the script for a shell.
pub(crate) fn main(args: &CompletionsArgs) -> Result<(), CompletionError> {
    let shell = args.shell.to_string();
    let shells = Shells::builtins();
    let found = shells.completer(&shell).ok_or(CompletionError::Shell(shell.clone()))?;
    let mut script = Vec::new();
    found.write_registration(VARIABLE, "vkstash", "vkstash", "vkstash", &mut script)?;
    Ok(StandardOutput::open()?.write_all(&script)?)
}

/// Answers a shell that asks, and ends this process then.
pub(crate) fn answer() {
    if std::env::var_os(VARIABLE).is_some() {
        CompleteEnv::with_factory(|| with_names(help::command())).var(VARIABLE).complete();
    }
}

/// The command and those below it: names of applications are completed from the stash.
fn with_names(command: clap::Command) -> clap::Command {
    let named = |argument: clap::Arg| match argument.get_id().as_str() {
        "application" | "applications" => argument.add(ArgValueCompleter::new(applications)),
        _ => argument,
    };
    command.mut_args(named).mut_subcommands(with_names)
}

/// The applications that begin so, by the names that commands take.
fn applications(begun: &OsStr) -> Vec<CompletionCandidate> {
    let Some(begun) = begun.to_str() else { return Vec::new() };
    let found = root::root(None).and_then(|root| list_applications(&root).ok()).unwrap_or_default();
    let names = found.iter().map(|info| name_of(&found, info));
    // A shell would take other characters for something else.
    let fit = names.filter(|name| name.starts_with(begun) && plain(name) == *name);
    fit.map(CompletionCandidate::new).collect()
}
