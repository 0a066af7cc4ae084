//! Stash and cache folders that only the workers have, so that each pipeline is compiled, and lands in a cache of Mesa
//! that has nothing else: recipes without artifacts, no settings of the user, and a cache folder for each device.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{MesaError, SINGLE_FILE};
use crate::exchange::base;
use crate::exchange::export::{Chosen, chosen_parts};
use crate::layer::folder::Folder;

/// Variables by which Mesa would not write to that cache, or find a pipeline elsewhere.
const REMOVED: [&str; 7] = [
    "MESA_SHADER_CACHE_DISABLE",
    "MESA_GLSL_CACHE_DISABLE",
    "MESA_GLSL_CACHE_DIR",
    "MESA_DISK_CACHE_COMBINE_RW_WITH_RO_FOZ",
    "MESA_DISK_CACHE_READ_ONLY_FOZ_DBS",
    "MESA_DISK_CACHE_READ_ONLY_FOZ_DBS_DYNAMIC_LIST",
    // Artifacts of a base would be served.
    "VKSTASH_BASE",
];

/// Folders of this run.
pub(crate) struct Private {
    stash: PathBuf,
    caches: PathBuf,
    /// An empty folder in place of the system's settings, and an empty file in place of the user's: they may name
    /// bases, or tell drivers to keep nothing.
    settings: (PathBuf, PathBuf),
}

impl Private {
    /// Empty folders, which go away with the run's folder.
    pub(crate) fn new(run: &Folder) -> Result<Private, MesaError> {
        let below = |name: &str| -> io::Result<PathBuf> {
            let path = run.path().join(name);
            DirBuilder::new().mode(0o700).create(&path)?;
            Ok(path)
        };
        let create = || {
            let settings = below("settings")?;
            let file = settings.join("config.toml");
            fs::write(&file, "")?;
            Ok(Private { stash: below("stash")?, caches: below("mesa")?, settings: (settings, file) })
        };
        create().map_err(MesaError::Private)
    }

    /// Copies the recipes of these applications and what they name.
    pub(crate) fn take(&self, root: &Path, applications: &[String]) -> Result<(), MesaError> {
        let failed = |error: base::BaseError| MesaError::Copy(Box::new(error));
        let chosen = chosen_parts(root, applications, true).map_err(|error| failed(error.into()))?;
        let Chosen { parts, bytes } = chosen;
        base::copy(root, &parts, bytes, &self.stash).map_err(failed)
    }

    /// Gives the environment to a worker that makes pipelines on this device.
    pub(crate) fn apply(&self, command: &mut Command, device: usize) {
        for name in REMOVED {
            command.env_remove(name);
        }
        // Several workers may append to the same file: Mesa locks it.
        command.env("MESA_DISK_CACHE_SINGLE_FILE", "1").env("MESA_SHADER_CACHE_DIR", self.parent(device));
        command.env("VKSTASH_DIR", &self.stash);
        command.env("XDG_CONFIG_DIRS", &self.settings.0).env("VKSTASH_CONFIG", &self.settings.1);
    }

    /// The cache that Mesa has filled for this device, if it has made one.
    pub(crate) fn cache(&self, device: usize) -> PathBuf {
        self.parent(device).join(SINGLE_FILE)
    }

    fn parent(&self, device: usize) -> PathBuf {
        self.caches.join(device.to_string())
    }
}
