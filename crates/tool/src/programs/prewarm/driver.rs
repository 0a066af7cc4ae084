//! `vkstash prewarm --driver`: a driver that need not be the active one (docs/prewarm.md).

use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::layer::manifest::MOST_BYTES;
use crate::system::regular;

use super::plan::Plan;

/// Why no worker can be given the driver.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DriverError {
    #[error("cannot read the driver's manifest {}: {error}", path.display())]
    Read { path: PathBuf, error: io::Error },
    #[error(
        "{} is no manifest of a Vulkan driver: it has no ICD.library_path; name a file such as \
         /usr/share/vulkan/icd.d/radeon_icd.json",
        .0.display()
    )]
    NoManifest(PathBuf),
    #[error("the loader would take {} for several files, because it separates them by colons", .0.display())]
    Colon(PathBuf),
}

/// The absolute path of this manifest, if it is one.
pub(crate) fn manifest(path: &Path) -> Result<PathBuf, DriverError> {
    let unreadable = |error| DriverError::Read { path: path.to_owned(), error };
    let bytes = regular::read(path, MOST_BYTES).map_err(unreadable)?;
    let json = serde_json::from_slice::<serde_json::Value>(&bytes).unwrap_or_default();
    if !json["ICD"]["library_path"].is_string() {
        return Err(DriverError::NoManifest(path.to_owned()));
    }
    // Links are not followed: a relative library_path begins at the folder of the name that the loader gets.
    let path = std::path::absolute(path).map_err(unreadable)?;
    if path.as_os_str().as_bytes().contains(&b':') {
        return Err(DriverError::Colon(path));
    }
    Ok(path)
}

/// Says for each application without a device that workers had this driver alone.
pub(crate) fn explain(plan: &mut Plan, manifest: &Path) {
    for (number, planned) in plan.applications.iter_mut().enumerate() {
        if planned.recipes > 0 && !plan.groups.iter().any(|group| group.application == number) {
            planned.problems.push(format!(
                "workers load the driver of {} alone (--driver); libraries of a package that is not installed \
                 may need LD_LIBRARY_PATH",
                manifest.display()
            ));
        }
    }
}
