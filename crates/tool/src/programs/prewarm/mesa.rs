//! `vkstash prewarm --mesa-foz`: a read-only database of Mesa's disk cache, for programs without the layer
//! (docs/prewarm.md).
//!
//! - [`devices`] what is left to make, and for which devices
//! - `private` ([`Private`]) the stash and the cache of Mesa that workers fill
//! - `database` the files that Mesa reads
//! - `target` ([`Target`]) the folder that gets them
//! - `announced` ([`Announced`]) the databases that were made, and the variables by which Mesa finds them

mod announced;
mod database;
pub(crate) mod devices;
mod private;
mod target;

use std::io;
use std::path::PathBuf;

use crate::exchange::base::BaseError;

pub(crate) use announced::{Announced, Databases};
pub(crate) use private::Private;
pub(crate) use target::Target;

/// Mesa's name for the folder of its single-file cache (`CACHE_DIR_NAME_SF`), in which it looks for databases, too.
const SINGLE_FILE: &str = "mesa_shader_cache_sf";

/// Why there is no database.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MesaError {
    #[error("{} is not empty: name a new folder for the database", .0.display())]
    NotEmpty(PathBuf),
    #[error("cannot write to {}: {source}", path.display())]
    Folder { path: PathBuf, source: io::Error },
    #[error("Mesa's variables cannot name {}: its path has a comma or a line break, or is no UTF-8", .0.display())]
    Name(PathBuf),
    #[error("there are no recipes to fill a database with: run the program with the layer first")]
    NoRecipes,
    #[error("no database is made: {0} has no driver of Mesa")]
    NotMesa(String),
    #[error("cannot copy the recipes for the workers: {0}")]
    Copy(#[source] Box<BaseError>),
    #[error("cannot prepare the workers: {0}")]
    Private(#[source] io::Error),
    #[error("cannot read what Mesa has written to {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("Mesa has written nothing that a database could have: is its disk cache built in?")]
    Nothing,
    #[error("Mesa would not find {name} in {}: the path of its cache is too long", folder.display())]
    NotFound { name: String, folder: PathBuf },
}

/// A device whose driver is one of Mesa's.
#[derive(Clone, Debug)]
pub(crate) struct Device {
    /// The number of the physical device.
    index: usize,
    name: String,
    /// The driver's version.
    version: String,
}
