//! The program `vkstash-remote`, which talks to object stores and verifies signatures; this one is linked with neither.

use std::env;
use std::path::PathBuf;

/// The program's name.
pub(crate) const PROGRAM: &str = "vkstash-remote";

/// The program that lies beside this one, or else the one on the PATH.
pub(crate) fn program() -> PathBuf {
    let beside = env::current_exe().ok().map(|path| path.with_file_name(PROGRAM));
    beside.filter(|path| path.is_file()).unwrap_or_else(|| PROGRAM.into())
}
