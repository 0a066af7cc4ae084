//! Programs that ended while a driver compiled a pipeline.

use std::path::Path;

use vkstash_store::stash::deaths;
use vkstash_store::stash::inspect::ApplicationInfo;

use super::finding::Finding;
use crate::stash::deaths::{next, words};
use crate::term::units::quoted;

pub(super) fn examine(root: &Path, applications: &[ApplicationInfo], findings: &mut Vec<Finding>) {
    for ApplicationInfo { folder, display, .. } in applications {
        // The latest is the one that the user looks for; `vkstash quarantine` lists them all.
        let Some(death) = deaths::of(root, folder).into_iter().next() else { continue };
        let next = next(root, folder, &quoted(display), &death);
        let next = format!("{next}; `vkstash quarantine` lists all of them");
        findings.push(Finding::note(format!("{display} {}", words(&death)), next));
    }
}
