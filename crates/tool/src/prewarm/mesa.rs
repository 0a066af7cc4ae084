//! `vkstash prewarm --mesa-foz`: a read-only database of Mesa's disk cache, for programs without the layer
//! (docs/prewarm.md).
//!
//! - `private` ([`Private`]) the stash and the cache of Mesa that workers fill
//! - `database` ([`Database`]) the files that Mesa reads
//! - `target` ([`Target`]) the folder that gets them
//! - `announced` ([`Announced`]) what was made, and the variables by which Mesa finds it

mod announced;
mod database;
mod private;
mod target;

use std::io;
use std::path::{Path, PathBuf};

use super::plan::{Group, Plan};
use crate::base::BaseError;
use crate::driver_caches::on_disk;
use crate::names::driver_version;
use crate::units::plain;

pub(crate) use announced::Announced;
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

/// Leaves work for drivers of Mesa only, says for which devices, and gives the recipes to the workers.
pub(crate) fn prepare(plan: &mut Plan, private: &Private, root: &Path) -> Result<Vec<Device>, MesaError> {
    let devices = restrict(plan)?;
    let folders: Vec<_> = plan.applications.iter().map(|planned| planned.name.folder.clone()).collect();
    private.take(root, &folders)?;
    Ok(devices)
}

fn restrict(plan: &mut Plan) -> Result<Vec<Device>, MesaError> {
    if plan.applications.iter().all(|planned| planned.recipes == 0) {
        return Err(MesaError::NoRecipes);
    }
    let is_of_mesa = |group: &Group| on_disk::vendor_of(group.header.driver_id) == Some("Mesa");
    let (mut devices, mut others): (Vec<Device>, Vec<String>) = (Vec::new(), Vec::new());
    for group in &plan.groups {
        let name = plain(&group.device_name);
        if !is_of_mesa(group) {
            let problem = format!("{name} is left out: it has no driver of Mesa");
            let problems = &mut plan.applications[group.application].problems;
            if !problems.contains(&problem) {
                problems.push(problem);
            }
            if !others.contains(&name) {
                others.push(name);
            }
        } else if devices.iter().all(|known| known.index != group.device) {
            let version = driver_version(group.header.driver_id, group.header.driver_version);
            devices.push(Device { index: group.device, name, version });
        }
    }
    if devices.is_empty() && !others.is_empty() {
        return Err(MesaError::NotMesa(others.join(", ")));
    }
    plan.groups.retain(is_of_mesa);
    // What is there was made for the check: here everything is made, and nothing is checked.
    plan.groups.iter_mut().for_each(|group| group.checks.clear());
    Ok(devices)
}
