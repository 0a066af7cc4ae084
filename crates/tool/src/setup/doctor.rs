//! `vkstash doctor`: finds out why programs run without the stash, or with little use of it.
//!
//! | file | what it knows |
//! |---|---|
//! | `finding` | what is told |
//! | `manifests` | where the Vulkan loader searches implicit layers, and the manifests of this one there |
//! | `variables` | the environment |
//! | `driver_caches` | what the drivers' own caches hold, and may hold |
//! | `place` | the folder of the stash |
//! | `bases` | whether bases that a pull has made are still believed |
//! | `died` | programs that ended while a driver compiled |
//! | `sandboxes` | Flatpak and Steam's runtime |
//! | `workers` | whether workers found a processor |
//! | `probe` | what the loader and the drivers answer, asked in a process of its own |

mod bases;
mod died;
mod driver_caches;
mod finding;
mod manifests;
mod place;
mod probe;
mod sandboxes;
mod variables;
mod workers;

use std::io;

use crate::cli::DoctorArgs;
use crate::term::output;

#[cfg(test)]
pub(crate) use finding::Finding as Output;
use finding::{Finding, Level};

/// Why the command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DoctorError {
    #[error("cannot print it: {0}")]
    Print(#[from] io::Error),
    #[error("cannot make JSON of it: {0}")]
    Json(#[from] serde_json::Error),
    #[error("{0} wrong")]
    Wrong(String),
}

pub(crate) fn main(args: &DoctorArgs) -> Result<(), DoctorError> {
    let mut findings = Vec::new();
    let installed = manifests::examine(&mut findings);
    variables::examine(&mut findings);
    probe::examine(installed.as_deref(), &mut findings);
    driver_caches::examine(&mut findings);
    sandboxes::examine(&mut findings);
    place::examine(args.dir.as_deref(), &mut findings);
    if args.json {
        output::print(&format!("{}\n", output::escaped(&serde_json::to_string_pretty(&findings)?)))?;
    } else {
        output::print(&findings.iter().map(Finding::text).collect::<String>())?;
    }
    match findings.iter().filter(|finding| finding.level == Level::Wrong).count() {
        0 => Ok(()),
        1 => Err(DoctorError::Wrong("1 thing is".to_owned())),
        count => Err(DoctorError::Wrong(format!("{count} things are"))),
    }
}
