//! The place of the stash.

use std::path::{Path, PathBuf};

use vkstash_model::variables;

/// The place of the stash is not known.
#[derive(Debug, thiserror::Error)]
#[error("cannot tell where the stash is: neither HOME nor XDG_CACHE_HOME is set; name it with --dir")]
pub(crate) struct NoRoot;

/// The folder that holds one folder for each application: `--dir`, or the folder that the layer would use.
pub(crate) fn root(dir: Option<&Path>) -> Option<PathBuf> {
    dir.map(Path::to_owned).or_else(variables::root)
}

/// [`root`] for a command that can do nothing without it.
pub(crate) fn named(dir: Option<&Path>) -> Result<PathBuf, NoRoot> {
    root(dir).ok_or(NoRoot)
}
