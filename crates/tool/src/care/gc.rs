//! `vkstash gc`: brings the stash within its limits now.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use vkstash_host::disk::errors::OpenError;
use vkstash_model::recipe;
use vkstash_store::maintenance;
use vkstash_store::maintenance::outcome::Outcome;
use vkstash_store::settings;

use crate::cli::GcArgs;
use crate::config::in_force;
use crate::exchange::base::unfinished::remove_left;
use crate::stash::pulled_bases;
use crate::stash::root::{self, NoRoot};
use crate::stash::session_caches;
use crate::term::output;
use crate::term::progress::{Progress, Unit};
use crate::term::units::{counted, size, words};

/// Why the command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GcError {
    #[error(transparent)]
    NoRoot(#[from] NoRoot),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("nothing was evicted, because a limit may be lifted there: {}", .0.join("; "))]
    Settings(Vec<String>),
    #[error("cannot print it: {0}")]
    Print(#[from] io::Error),
}

pub(crate) fn main(args: &GcArgs) -> Result<(), GcError> {
    let root = root::named(args.dir.as_deref())?;
    let progress = RefCell::new(Progress::new("tidying", Unit::Things));
    let tell_progress = |done: usize, total: usize| progress.borrow_mut().set(done as u64, total as u64);
    let outcome = maintenance::run_with(&root, recipe::modules_of, &tell_progress)?;
    drop(progress);
    let sessions = session_caches::clean(&root)?;
    let pulled = pulled_bases::clean(&root)?;
    let read = settings::read(&root);
    // A base is built beside the one that it replaces.
    let places: BTreeSet<_> =
        read.all().bases.iter().filter_map(|base| base.parent().map(Path::to_owned)).collect();
    let unfinished = places.iter().map(|place| remove_left(place)).sum::<u64>();
    let mut lines = told(&outcome);
    if sessions.caches > 0 {
        lines.push(format!(
            "removed: {}, {}",
            counted(sessions.caches, "session cache"),
            size(sessions.bytes)
        ));
    }
    if pulled.bytes > 0 {
        lines.push(format!("removed: {}, {}", counted(pulled.bases, "pulled base"), size(pulled.bytes)));
    }
    if unfinished > 0 {
        lines.push(format!("removed: {}", counted(unfinished, "unfinished base")));
    }
    if lines.is_empty() {
        lines.push("nothing to evict, and nothing to merge".to_owned());
    }
    output::print(&(lines.join("\n") + "\n"))?;
    match in_force::limits_to_enforce(&root, &read) {
        Some(_) => Ok(()),
        None => Err(GcError::Settings(read.complaints())),
    }
}

/// The lines about records. None: there was nothing to do.
fn told(outcome: &Outcome) -> Vec<String> {
    let Outcome { evicted_records, evicted_bytes, written, freed, short_by, emptied } = outcome;
    let mut lines = Vec::new();
    match (size(*freed), size(*written)) {
        _ if *freed == 0 && *written == 0 => {}
        (freed, _) if *written == 0 => lines.push(format!("{freed} of files removed")),
        (freed, written) => lines.push(format!("{freed} of files replaced by {written}")),
    }
    let causes = evicted_bytes.iter().filter(|(_, bytes)| **bytes > 0);
    lines.extend(causes.map(|(cause, &bytes)| format!("evicted: {} ({})", size(bytes), words(cause))));
    if *evicted_records > 0 {
        lines.push(format!("evicted: {}", counted(*evicted_records, "record")));
    }
    if *emptied > 0 {
        lines.push(format!("removed: {} without records", counted(*emptied, "folder")));
    }
    let short_by = short_by.iter().map(|(cause, &bytes)| {
        format!("running programs keep {} more than allowed ({})", size(bytes), words(cause))
    });
    lines.extend(short_by);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_done_is_not_told() {
        let nothing: [String; 0] = [];
        assert_eq!(told(&Outcome::default()), nothing);
        let removed = Outcome { freed: 62_566, ..Outcome::default() };
        assert_eq!(told(&removed), ["61.1 KiB of files removed"]);
        let merged = Outcome { freed: 62_566, written: 512, ..Outcome::default() };
        assert_eq!(told(&merged), ["61.1 KiB of files replaced by 512 B"]);
        let limit = |bytes| [("total_limit".to_owned(), bytes)].into();
        let evicted = Outcome { evicted_records: 1, evicted_bytes: limit(2048), ..Outcome::default() };
        assert_eq!(told(&evicted), ["evicted: 2.0 KiB (total limit)", "evicted: 1 record"]);
        let in_use = Outcome { short_by: limit(2048), ..Outcome::default() };
        assert_eq!(told(&in_use), ["running programs keep 2.0 KiB more than allowed (total limit)"]);
    }
}
