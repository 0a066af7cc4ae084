//! Man pages, made from the definitions of the command line.

use std::io;
use std::path::PathBuf;

use clap::CommandFactory as _;

use crate::cli::{Cli, ManArgs};

/// Why nothing, or not everything, was written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ManualError {
    #[error("cannot write to {}: {error}", folder.display())]
    Folder { folder: PathBuf, error: io::Error },
}

/// Writes a page for `vkstash`, and one for each of its commands.
pub(crate) fn man(args: &ManArgs) -> Result<(), ManualError> {
    let failed = |error| ManualError::Folder { folder: args.folder.clone(), error };
    std::fs::create_dir_all(&args.folder).map_err(failed)?;
    clap_mangen::generate_to(Cli::command(), &args.folder).map_err(failed)
}
