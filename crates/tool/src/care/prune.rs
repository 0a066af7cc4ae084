//! `vkstash prune` and `vkstash clear`: remove what applications have stored.

use std::cmp::Reverse;
use std::io::{self, Write as _};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use vkstash_host::disk::errors::OpenError;
use vkstash_model::app_name::AppName;
use vkstash_store::maintenance::prune::{self, Pruned, Request};
use vkstash_store::stash::inspect::{ApplicationInfo, list_applications};

use crate::cli::{ClearArgs, PruneArgs, RemovalArgs};
use crate::config::in_force;
use crate::stash::choice::{ChoiceError, choose, name_of};
use crate::stash::root::{self, NoRoot};
use crate::stash::session_caches::{self, Unused};
use crate::term::confirm::{Confirmed, confirm};
use crate::term::output::Printer;
use crate::term::table::{Column, Table};
use crate::term::units::{counted, size};
use crate::term::{screen, time};

const COLUMNS: [Column; 3] =
    [Column::words("last use", 1), Column::numbers("size", 0), Column::words("application", 2)];

/// Why the command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PruneError {
    #[error(transparent)]
    NoRoot(#[from] NoRoot),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Choice(#[from] ChoiceError),
    #[error("nothing was removed: there is no terminal to ask on; say --yes")]
    NobodyToAsk,
    #[error("nothing was removed")]
    Refused,
    #[error("{} not removed, or not wholly: running programs use {}",
        counted(*.0, "application"), if *.0 == 1 { "it" } else { "them" })]
    InUse(u64),
    #[error("{} left alone, because not all of {} can be read",
        counted(*.0, "application"), if *.0 == 1 { "it" } else { "them" })]
    Unread(u64),
    #[error("cannot print it: {0}")]
    Print(#[from] io::Error),
}

pub(crate) fn prune(args: &PruneArgs) -> Result<(), PruneError> {
    // What is older than the clock is nothing.
    let before = SystemTime::now().checked_sub(*args.older_than).unwrap_or(UNIX_EPOCH);
    remove(&args.applications, before, &args.removal)
}

pub(crate) fn clear(args: &ClearArgs) -> Result<(), PruneError> {
    // Also what a clock that was wrong has given a time to come.
    let before = UNIX_EPOCH + Duration::from_millis(u64::MAX);
    remove(&args.applications, before, &args.removal)
}

/// What goes of an application.
struct Candidate<'a> {
    info: &'a ApplicationInfo,
    records: Option<Pruned>,
    sessions: Unused,
    last_use: u64,
}

impl Candidate<'_> {
    /// None: nothing goes.
    fn of<'a>(
        root: &Path,
        info: &'a ApplicationInfo,
        before: SystemTime,
        is_dry_run: bool,
    ) -> Result<Option<Candidate<'a>>, OpenError> {
        let used_before = time::unix_ms(before);
        // Where the application's records cannot be read, nothing of it is removed.
        prune::prune(root, &Request { application: &info.folder, used_before, is_dry_run: true })?;
        let sessions = session_caches::remove_unused(root, info, before, is_dry_run);
        let request = Request { application: &info.folder, used_before, is_dry_run };
        let records = prune::prune(root, &request)?;
        let last_use =
            records.as_ref().map_or(0, |records| records.last_use).max(time::unix_ms(sessions.last_use));
        let nothing = records.is_none() && sessions.caches == 0 && sessions.in_use == 0;
        Ok((!nothing).then_some(Candidate { info, records, sessions, last_use }))
    }

    fn bytes(&self) -> u64 {
        self.records.as_ref().map_or(0, |records| records.bytes).saturating_add(self.sessions.bytes)
    }

    fn is_in_use(&self) -> bool {
        self.sessions.in_use > 0 || self.records.as_ref().is_some_and(|records| records.is_in_use)
    }

    /// What goes if it is not everything.
    fn parts(&self) -> String {
        let (mut parts, sessions) = (Vec::new(), self.sessions.caches);
        match &self.records {
            Some(records) if records.is_whole => return String::new(),
            Some(records) if records.device_parts > 0 => {
                parts.push(counted(records.device_parts, "device part"));
            }
            _ => {}
        }
        if sessions > 0 {
            parts.push(counted(sessions, "session cache"));
        }
        if parts.is_empty() { String::new() } else { format!(" ({} of it)", parts.join(" and ")) }
    }
}

fn remove(names: &[String], before: SystemTime, args: &RemovalArgs) -> Result<(), PruneError> {
    let root = root::named(args.dir.as_deref())?;
    let mut found = list_applications(&root)?;
    found.retain(|info| AppName::is_folder(&info.folder));
    let mut asked = Vec::new();
    for name in names {
        asked.push(choose(&found, name, &root)?);
    }
    if names.is_empty() {
        asked.extend(&found);
    }
    asked.sort_by(|one, other| one.folder.cmp(&other.folder));
    asked.dedup_by(|one, other| one.folder == other.folder);

    let mut unread = Vec::new();
    asked.retain(|info| match Candidate::of(&root, info, before, true) {
        Ok(_) => true,
        Err(error) => {
            unread.push(format!("{}: left alone: {error}", info.folder));
            false
        }
    });
    let all = |is_dry_run: bool| -> Result<Vec<Candidate<'_>>, OpenError> {
        let asked = asked.iter().copied();
        asked.filter_map(|info| Candidate::of(&root, info, before, is_dry_run).transpose()).collect()
    };
    let mut candidates = all(true)?;
    candidates.sort_by_key(|candidate| Reverse(candidate.last_use));
    let mut out = Printer::open()?;
    for line in &unread {
        writeln!(out, "{line}")?;
    }
    show(&candidates, &found, &mut out)?;
    if candidates.is_empty() || args.dry_run {
        out.flush()?;
        return if unread.is_empty() { Ok(()) } else { Err(PruneError::Unread(unread.len() as u64)) };
    }
    out.flush()?;
    if !args.yes {
        ask(candidates.len())?;
    }
    let done = all(false)?;
    let in_use = done.iter().filter(|candidate| candidate.is_in_use()).count() as u64;
    let bytes = in_force::sum(done.iter().filter(|of| !of.is_in_use()).map(Candidate::bytes));
    // Where all are in use, the error says so.
    if done.len() as u64 > in_use {
        writeln!(out, "removed: {} of {}", size(bytes), counted(done.len() as u64 - in_use, "application"))?;
    }
    out.flush()?;
    match (in_use, unread.len() as u64) {
        (0, 0) => Ok(()),
        (0, unread) => Err(PruneError::Unread(unread)),
        (in_use, _) => Err(PruneError::InUse(in_use)),
    }
}

fn show(candidates: &[Candidate<'_>], found: &[ApplicationInfo], out: &mut Printer) -> io::Result<()> {
    if candidates.is_empty() {
        return writeln!(out, "nothing to remove");
    }
    let now = time::now();
    let mut table = Table::new(&COLUMNS);
    for candidate in candidates {
        let used =
            if candidate.last_use == 0 { "never".to_owned() } else { time::age(candidate.last_use, now) };
        let info = candidate.info;
        let name = name_of(found, info);
        let use_now = if candidate.is_in_use() { " - a running program uses it" } else { "" };
        let (bytes, parts) = (size(candidate.bytes()).to_string(), candidate.parts());
        table.row([used, bytes, format!("{name}{parts}{use_now}")]);
    }
    out.write_all(table.lines(screen::width()).as_bytes())?;
    let bytes = in_force::sum(candidates.iter().map(Candidate::bytes));
    writeln!(out, "{}, {}", counted(candidates.len() as u64, "application"), size(bytes))
}

/// Asks on the terminal whether all of that is to go.
fn ask(applications: usize) -> Result<(), PruneError> {
    let what = if applications == 1 { "it" } else { "them" };
    match confirm(&format!("Remove {what}?"))? {
        Confirmed::Yes => Ok(()),
        Confirmed::No => Err(PruneError::Refused),
        Confirmed::NobodyToAsk => Err(PruneError::NobodyToAsk),
    }
}
