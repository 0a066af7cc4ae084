//! All of the maintenance, in order. In each part one process at a time carries the decisions out.

use std::cell::Cell;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use crate::bounds;
use crate::bounds::{Cause, Plan, Room};
use crate::maintenance::inventory::Listed;
use crate::maintenance::outcome::Outcome;
use crate::maintenance::survey::{self, ApplicationFolder, Survey};
use crate::maintenance::work::{MANY_SEGMENTS, ModulesOf, Work};
use crate::maintenance::{inventory, merge, remove, uses};
use crate::segment::cleanup::clean_up;
use vkstash_host::disk::errors::OpenError;
use vkstash_host::disk::folder::Folder;
use vkstash_host::util::unix_ms;

/// Bytes that are written at most while a process ends.
const SHUTDOWN_SCRATCH: u64 = 8 << 20;
/// The size of the largest stash of which an inventory is made while a process ends. Larger ones are left to a process
/// that is idle for a while.
const SHUTDOWN_INVENTORY: u64 = 256 << 20;
/// Bytes that are written at most where less space is free than should be: a merge writes its new file before it
/// deletes the old ones.
const EMERGENCY_SCRATCH: u64 = 64 << 20;

/// Enforces the limits for all stashes below `root`, merges segments, and removes folders without a record. A missing
/// root counts as empty.
pub fn run(root: &Path, modules_of: ModulesOf) -> Result<Outcome, OpenError> {
    run_with(root, modules_of, &|_, _| {})
}

/// [`run`], which tells how many applications it is done with, and how many there are.
pub fn run_with(
    root: &Path,
    modules_of: ModulesOf,
    progress: &dyn Fn(usize, usize),
) -> Result<Outcome, OpenError> {
    let root = match Folder::root(root, false) {
        Ok(root) => Arc::new(root),
        Err(OpenError::Unreadable { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            return Ok(Outcome::default());
        }
        Err(error) => return Err(error),
    };
    clean_up_parts(&root);
    let work = Work { application: None, at_shutdown: false, interrupted: &|| false, progress, modules_of };
    let mut outcome = maintain(&root, &work);
    // Temporary files of an import, on file systems without unnamed files.
    clean_up(&root);
    outcome.emptied = remove::without_records(&root);
    Ok(outcome)
}

/// Removes what killed programs have left unfinished in parts that no program has written to since.
fn clean_up_parts(root: &Folder) {
    for name in root.names("").unwrap_or_default() {
        let Ok(application) = root.sub(&name, false) else { continue };
        let parts = survey::part_names(&application);
        parts.iter().filter_map(|part| application.sub(part, false).ok()).for_each(|part| clean_up(&part));
    }
}

/// Does the maintenance that `work` describes. Another process tries again what fails.
pub(crate) fn maintain(root: &Arc<Folder>, work: &Work<'_>) -> Outcome {
    // Once interrupted, it stays interrupted: what was left out must not be taken for missing.
    let stopped = Cell::new(false);
    let interrupted = || {
        stopped.set(stopped.get() || (work.interrupted)());
        stopped.get()
    };
    let work = &Work { interrupted: &interrupted, ..*work };
    let mut outcome = Outcome::default();
    if let Some(application) = work.application.filter(|_| work.at_shutdown) {
        if !survey::has_many_segments(root, application, MANY_SEGMENTS) {
            return outcome;
        }
        // What the next run of this program waits for comes first.
        carry_out(root, &Survey::of_one(root, application), work, &mut outcome);
    }
    let survey = Survey::of(root, work.interrupted);
    let is_due = || {
        let limits = survey.limits_to_enforce();
        survey.bytes() <= SHUTDOWN_INVENTORY
            && limits.is_some_and(|limits| survey.needs_plan(&limits, unix_ms()))
    };
    if !(work.interrupted)() && (!work.at_shutdown || is_due()) {
        carry_out(root, &survey, work, &mut outcome);
    }
    outcome
}

/// Evicts what the limits ask for, where all applications are known, and merges segments.
fn carry_out(root: &Folder, survey: &Survey, work: &Work<'_>, outcome: &mut Outcome) {
    let now = unix_ms();
    let mut decisions = Decisions::default();
    let limits = survey.limits_to_enforce().filter(|limits| survey.needs_plan(limits, now));
    if let Some(limits) = limits.filter(|_| !(work.interrupted)()) {
        let Some((inventory, listed)) = inventory::of(survey, &limits, now, work) else { return };
        let plan = bounds::plan(&inventory, &limits, now);
        decisions = Decisions::of(plan, &listed, survey, outcome);
    }
    let free = survey.free;
    let spare = free.saturating_sub(survey.free_space_floor());
    let scratch = spare.max((free / 2).min(EMERGENCY_SCRATCH));
    let scratch = if work.at_shutdown { scratch.min(SHUTDOWN_SCRATCH) } else { scratch };
    for (at, application) in survey.applications.iter().enumerate() {
        (work.progress)(at, survey.applications.len());
        if decisions.merge(at, application, scratch, work, outcome).is_none() {
            return;
        }
    }
    for at in decisions.emptied {
        let application = &survey.applications[at];
        if let Some(folder) = application.open() {
            remove::application(root, &folder, &application.name);
        }
    }
}

/// What is to be evicted, once whole parts are removed. A part is named by the places of its application and of itself
/// in the survey.
#[derive(Default)]
struct Decisions {
    /// The records to evict, by hash.
    evicted: HashMap<(usize, usize), HashMap<u64, Cause>>,
    /// Bytes that merging must free.
    must_free: HashMap<(usize, usize), u64>,
    /// The parts that were removed.
    gone: Vec<(usize, usize)>,
    /// The applications that have nothing left.
    emptied: Vec<usize>,
}

impl Decisions {
    /// Removes the parts that are evicted as a whole. The rest is left to [`Decisions::merge`].
    fn of(plan: Plan, listed: &Listed, survey: &Survey, outcome: &mut Outcome) -> Decisions {
        let mut decisions = Decisions { emptied: plan.applications, ..Decisions::default() };
        for eviction in plan.evictions {
            let place = (eviction.target.application, eviction.target.part);
            match eviction.target.record {
                Some(record) => {
                    let hash = listed[&place][record];
                    decisions.evicted.entry(place).or_default().insert(hash, eviction.cause);
                }
                None => {
                    let part = &survey.applications[place.0].parts[place.1];
                    let records = part.records();
                    if remove::part(part) {
                        outcome.evicted(eviction.cause, records, part.bytes);
                        outcome.freed += part.bytes;
                        decisions.gone.push(place);
                    }
                }
            }
        }
        let must_free = plan.reclaim.iter().map(|part| ((part.application, part.part), part.bytes));
        decisions.must_free = must_free.collect();
        for short in plan.shortfalls {
            *outcome.short_by.entry(short.limit.name().to_owned()).or_default() += short.bytes;
        }
        decisions
    }

    /// Evicts records of one application, and merges its segments. `scratch`: bytes that may be written meanwhile.
    /// `None`: interrupted.
    fn merge(
        &self,
        at: usize,
        application: &ApplicationFolder,
        scratch: u64,
        work: &Work<'_>,
        outcome: &mut Outcome,
    ) -> Option<()> {
        let mine = work.application.is_none_or(|name| name == application.name);
        let is_due = |place: &(usize, usize)| {
            let is_evicted = self.evicted.contains_key(place);
            !self.gone.contains(place)
                && (is_evicted || mine && application.parts[place.1].may_need_merging())
        };
        let places: Vec<_> = (0..application.parts.len()).map(|part| (at, part)).filter(is_due).collect();
        if places.is_empty() {
            return Some(());
        }
        let nothing = HashMap::new();
        let uses = uses::Uses::of(application, work.interrupted);
        for place in places {
            if (work.interrupted)() {
                return None;
            }
            let room = Room { must_free: self.must_free.get(&place).copied().unwrap_or(0), scratch };
            let job = merge::Job {
                part: &application.parts[place.1],
                uses: &uses,
                evicted: self.evicted.get(&place).unwrap_or(&nothing),
                choice: merge::Choice::Worthwhile,
                interrupted: work.interrupted,
            };
            job.run(room, outcome);
        }
        Some(())
    }
}
