//! `vkstash gc`: brings the stash within its limits now.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::path::Path;

use vkstash_model::recipe;
use vkstash_store::format::refusal::OpenError;
use vkstash_store::maintenance;
use vkstash_store::maintenance::outcome::Outcome;
use vkstash_store::settings;

use crate::base::unfinished::remove_left;
use crate::cli::GcArgs;
use crate::in_force;
use crate::output::Printer;
use crate::pulled_bases;
use crate::root;
use crate::session_caches;
use crate::term::progress::{Progress, Unit};
use crate::units::{counted, size};

/// Why the command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GcError {
    #[error("cannot tell where the stash is: neither HOME nor XDG_CACHE_HOME is set; name it with --dir")]
    NoRoot,
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("nothing was evicted, because a limit may be lifted there: {}", .0.join("; "))]
    Settings(Vec<String>),
    #[error("cannot print it: {0}")]
    Print(#[from] io::Error),
}

pub(crate) fn main(args: &GcArgs) -> Result<(), GcError> {
    let root = root::root(args.dir.as_deref()).ok_or(GcError::NoRoot)?;
    let progress = RefCell::new(Progress::new("tidying", Unit::Things));
    let tell_progress = |done: usize, total: usize| progress.borrow_mut().set(done as u64, total as u64);
    let outcome = maintenance::run_with(&root, recipe::modules_of, &tell_progress)?;
    drop(progress);
    let sessions = session_caches::clean(&root)?;
    let pulled = pulled_bases::clean(&root)?;
    let mut out = Printer::open()?;
    if sessions.caches == 0 || outcome != Outcome::default() {
        tell(&outcome, &mut out)?;
    }
    if sessions.caches > 0 {
        writeln!(out, "removed: {}, {}", counted(sessions.caches, "session cache"), size(sessions.bytes))?;
    }
    if pulled.bytes > 0 {
        writeln!(out, "removed: {}, {}", counted(pulled.bases, "pulled base"), size(pulled.bytes))?;
    }
    let read = settings::read(&root);
    // A base is built beside the one that it replaces.
    let places: BTreeSet<_> =
        read.all().bases.iter().filter_map(|base| base.parent().map(Path::to_owned)).collect();
    let unfinished = places.iter().map(|place| remove_left(place)).sum::<u64>();
    if unfinished > 0 {
        writeln!(out, "removed: {}", counted(unfinished, "unfinished base"))?;
    }
    match in_force::limits_to_enforce(&root, &read) {
        Some(_) => Ok(()),
        None => Err(GcError::Settings(read.complaints())),
    }
}

fn tell(outcome: &Outcome, out: &mut impl io::Write) -> io::Result<()> {
    let Outcome { evicted_records, evicted_bytes, written, freed, short_by, emptied } = outcome;
    if *freed == 0 && *evicted_records == 0 && *emptied == 0 {
        writeln!(out, "nothing to evict, and nothing to merge")?;
    } else if *freed > 0 || *evicted_records > 0 {
        let (freed, written) = (size(*freed), size(*written));
        writeln!(out, "{freed} of files replaced by {written}")?;
    }
    for (cause, &bytes) in evicted_bytes {
        writeln!(out, "evicted: {} ({cause})", size(bytes))?;
    }
    if *evicted_records > 0 {
        writeln!(out, "evicted: {}", counted(*evicted_records, "record"))?;
    }
    if *emptied > 0 {
        writeln!(out, "removed: {} without records", counted(*emptied, "folder"))?;
    }
    for (cause, &bytes) in short_by {
        writeln!(out, "running programs keep {} more than allowed ({cause})", size(bytes))?;
    }
    Ok(())
}
