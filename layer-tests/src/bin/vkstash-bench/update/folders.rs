//! Folders of a user before and after an update of the driver.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::child::Runner;
use crate::environment::Environment;
use crate::failure::Failure;

/// Runs on the older driver before the update; the last one is compared.
pub(super) const BEFORE: usize = 3;

/// The stash of a user, and the driver's disk cache.
pub(super) struct Folders {
    pub(super) stash: PathBuf,
    pub(super) disk: PathBuf,
}

impl Folders {
    /// What another user has who has done the same.
    pub(super) fn copied(&self, runner: &Runner) -> Result<Folders, Failure> {
        let copied = Folders { stash: runner.path("stash"), disk: runner.path("disk") };
        copy(&self.stash, &copied.stash)?;
        copy(&self.disk, &copied.disk)?;
        Ok(copied)
    }

    pub(super) fn of<'a>(&'a self, environment: Environment<'a>) -> Environment<'a> {
        environment.with_disk(&self.disk).with_stash(&self.stash)
    }

    pub(super) fn remove(self) -> Result<(), Failure> {
        fs::remove_dir_all(self.stash)?;
        Ok(fs::remove_dir_all(self.disk)?)
    }
}

fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    let status = Command::new("cp").arg("-a").args([from, to]).status()?;
    if status.success() { Ok(()) } else { Err(format!("{} cannot be copied", from.display()).into()) }
}
