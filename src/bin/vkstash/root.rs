//! Where the stash lives.

use std::env;
use std::path::{Path, PathBuf};

/// The folder that holds one folder per application: `--dir`, else VKSTASH_DIR, else the user's cache.
// To be replaced by the layer's own configuration, so that the two can never disagree.
pub(crate) fn root(dir: Option<&Path>) -> Option<PathBuf> {
    if let Some(dir) = dir {
        return Some(dir.to_owned());
    }
    if let Some(dir) = env::var_os("VKSTASH_DIR").filter(|value| !value.is_empty()) {
        return Some(dir.into());
    }
    directories::ProjectDirs::from("", "", "vkstash").map(|dirs| dirs.cache_dir().to_owned())
}
