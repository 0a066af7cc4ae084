//! Where the stash lives.

use std::path::{Path, PathBuf};

use VkLayer_vkstash::config::Config;

/// The folder that holds one folder per application: `--dir`, else what the layer itself would use.
pub(crate) fn root(dir: Option<&Path>) -> Option<PathBuf> {
    dir.map(Path::to_owned).or_else(|| Config::from_environment().root)
}
