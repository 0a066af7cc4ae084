//! Man pages and shell completions, made from the definitions of the command line.

use std::io::{self, Write as _};
use std::path::PathBuf;

use clap::CommandFactory as _;

use crate::cli::{Cli, CompletionsArgs, ManArgs};
use crate::output::StandardOutput;

/// Why nothing, or not everything, was written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ManualError {
    #[error("cannot write to {}: {error}", folder.display())]
    Folder { folder: PathBuf, error: io::Error },
    #[error("cannot print it: {0}")]
    Print(#[from] io::Error),
}

/// Writes a page for `vkstash`, and one for each of its commands.
pub(crate) fn man(args: &ManArgs) -> Result<(), ManualError> {
    let failed = |error| ManualError::Folder { folder: args.folder.clone(), error };
    std::fs::create_dir_all(&args.folder).map_err(failed)?;
    clap_mangen::generate_to(Cli::command(), &args.folder).map_err(failed)
}

/// Prints what a shell needs to complete commands and options.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<(), ManualError> {
    // The generator panics where it cannot write.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "vkstash", &mut script);
    Ok(StandardOutput::open()?.write_all(&script)?)
}
