//! The place of the stash.

use std::path::{Path, PathBuf};

use vkstash_model::variables;

/// The folder that holds one folder for each application: `--dir`, or the folder that the layer would use.
pub(crate) fn root(dir: Option<&Path>) -> Option<PathBuf> {
    dir.map(Path::to_owned).or_else(variables::root)
}
