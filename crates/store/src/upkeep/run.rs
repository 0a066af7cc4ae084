//! Keeping a store within its bounds: files are looked at, [`crate::bounds`] decides, and the decisions are carried
//! out, by one process at a time in each part. Readers keep what they have open.

use std::cell::Cell;
use std::collections::HashMap;
use std::path::Path;

use crate::base::util::unix_ms;
use crate::bounds;
use crate::bounds::{Cause, Plan, Room};
use crate::disk::folder::Folder;
use crate::format::refusal::OpenError;
use crate::segment::cleanup::sweep;
use crate::upkeep::outcome::Outcome;
use crate::upkeep::survey::{self, Survey};
use crate::upkeep::work::{CROWDED, ModulesOf, Work};
use crate::upkeep::{inventory, merge, remove, uses};

/// What is written at most while a process is about to end.
const HASTY_SCRATCH: u64 = 8 << 20;
/// No larger stash is looked into then for what is to go: that is left to a program that is quiet for a while.
const HASTY_LOOK: u64 = 256 << 20;
/// What is written at most where less is free than should be: what is to shrink has to be written first.
const EMERGENCY_SCRATCH: u64 = 64 << 20;

/// Keeps everything below `root` within its bounds, and takes away what was left without a record. A missing root counts
/// as empty.
pub fn run(root: &Path, modules_of: ModulesOf) -> Result<Outcome, OpenError> {
    let root = match Folder::root(root, false) {
        Ok(root) => root,
        Err(OpenError::Unreadable { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            return Ok(Outcome::default());
        }
        Err(error) => return Err(error),
    };
    let work = Work { application: None, hasty: false, interrupted: &|| false, modules_of };
    let mut outcome = tend(&root, &work);
    // Files on their way in that a file system could not hold without a name.
    sweep(&root);
    outcome.emptied = remove::without_records(&root);
    Ok(outcome)
}

/// The same as far as `work` goes. What cannot be read or written is left for another time.
pub(crate) fn tend(root: &Folder, work: &Work<'_>) -> Outcome {
    // Who was interrupted once stays so: what was left out then must not be taken for what there is.
    let stopped = Cell::new(false);
    let interrupted = || {
        stopped.set(stopped.get() || (work.interrupted)());
        stopped.get()
    };
    let work = &Work { interrupted: &interrupted, ..*work };
    let mut outcome = Outcome::default();
    if work.hasty && !work.application.is_some_and(|name| survey::is_crowded(root, name, CROWDED)) {
        return outcome;
    }
    let survey = Survey::of(root, work.interrupted);
    if (work.interrupted)() {
        return outcome;
    }
    let now = unix_ms();
    let limits = survey.limits();
    let free = survey.free;
    let mut evicted: HashMap<(usize, usize), HashMap<u64, Cause>> = HashMap::new();
    let mut must_free: HashMap<(usize, usize), u64> = HashMap::new();
    let mut gone: Vec<(usize, usize)> = Vec::new();
    let mut emptied = Vec::new();
    let bearable = !work.hasty || survey.bytes() <= HASTY_LOOK;
    if bearable && survey.needs_plan(&limits, now) && !(work.interrupted)() {
        let Some((inventory, listed)) = inventory::of(&survey, &limits, work) else { return outcome };
        let Plan { evictions, applications, reclaim, shortfalls, .. } =
            bounds::plan(&inventory, &limits, free, now);
        for eviction in evictions {
            let place = (eviction.target.application, eviction.target.part);
            match eviction.target.record {
                Some(record) => {
                    let hash = listed[&place][record];
                    evicted.entry(place).or_default().insert(hash, eviction.cause);
                }
                None => {
                    let part = &survey.applications[place.0].parts[place.1];
                    let records = part.records();
                    if remove::part(part) {
                        outcome.evicted(eviction.cause, records, part.bytes);
                        outcome.freed += part.bytes;
                        gone.push(place);
                    }
                }
            }
        }
        must_free.extend(reclaim.iter().map(|part| ((part.application, part.part), part.bytes)));
        for short in shortfalls {
            *outcome.short_by.entry(short.limit.name().to_owned()).or_default() += short.bytes;
        }
        emptied = applications;
    }
    let spare = free.saturating_sub(limits.free_space_floor);
    let scratch = spare.max((free / 2).min(EMERGENCY_SCRATCH));
    let scratch = if work.hasty { scratch.min(HASTY_SCRATCH) } else { scratch };
    for (at, application) in survey.applications.iter().enumerate() {
        let mine = work.application.is_none_or(|name| name == application.name);
        let nothing = HashMap::new();
        let concerned =
            |place: &(usize, usize)| !gone.contains(place) && (mine || evicted.contains_key(place));
        let places: Vec<_> = (0..application.parts.len()).map(|part| (at, part)).filter(concerned).collect();
        let due = |place: &(usize, usize)| {
            evicted.contains_key(place) || application.parts[place.1].may_need_merging()
        };
        if !places.iter().any(due) {
            continue;
        }
        let uses = uses::Uses::of(application, work.interrupted);
        for place in places.into_iter().filter(due) {
            if (work.interrupted)() {
                return outcome;
            }
            let room = Room { must_free: must_free.get(&place).copied().unwrap_or(0), scratch };
            let job = merge::Job {
                part: &application.parts[place.1],
                uses: &uses,
                evicted: evicted.get(&place).unwrap_or(&nothing),
                synced: !work.hasty,
                interrupted: work.interrupted,
            };
            job.run(room, &mut outcome);
        }
    }
    for at in emptied {
        remove::application(root, &survey.applications[at]);
    }
    outcome
}
