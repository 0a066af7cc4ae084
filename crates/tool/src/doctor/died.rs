//! Programs that ended while a driver compiled a pipeline.

use std::path::Path;

use vkstash_store::format::record::Kind;
use vkstash_store::stash::browse::Browser;
use vkstash_store::stash::deaths::{self, Death};
use vkstash_store::stash::inspect::ApplicationInfo;

use super::finding::Finding;
use crate::deaths::{digits, words};

/// Whether the stash has the pipeline's recipe. A process that ends in its first compile leaves none.
fn is_recorded(root: &Path, folder: &str, death: &Death) -> bool {
    let portable = Browser::open(root, folder, "portable");
    portable.is_ok_and(|portable| portable.read(Kind::Recipe, &death.key, &mut Vec::new()))
}

pub(super) fn examine(root: &Path, applications: &[ApplicationInfo], findings: &mut Vec<Finding>) {
    for ApplicationInfo { folder, display, .. } in applications {
        // The latest is the one that the user looks for; `vkstash quarantine` lists them all.
        let Some(death) = deaths::of(root, folder).into_iter().next() else { continue };
        let key = digits(&death);
        let what = match is_recorded(root, folder, &death) {
            true => format!(
                "`vkstash show {folder} {key}` shows it, `vkstash export FILE.foz {folder} {key}` writes it to a file \
                 for the driver's developers"
            ),
            false => "run the program again: it is recorded before the driver gets it".to_owned(),
        };
        let next = format!("{what}; `vkstash quarantine` lists all of them");
        findings.push(Finding::note(format!("{display} {}", words(&death)), next));
    }
}
