//! Keeping a store within its bounds: files are looked at, [`super::bounds`] decides, and the decisions are carried
//! out, by one process at a time in each part. Readers keep what they have open.
//!
//! | file | what it knows |
//! |---|---|
//! | `survey` | which applications, parts and files there are |
//! | `contents` | what is in one part, and which of it is live |
//! | `uses` | when what was used last |
//! | `inventory` | the same as the decisions need to see it |
//! | `merge` | how segments become one |
//! | `remove` | how whole parts, applications and empty folders go |

mod contents;
mod inventory;
mod merge;
mod remove;
mod survey;
mod uses;

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use super::bounds::{self, Cause, Plan, Room};
use super::folder::Folder;
use super::part::Key;
use super::refusal::OpenError;
use super::shared::unix_ms;
use super::sweep::sweep;
use survey::Survey;

/// Calls its second argument for each module that an encoded recipe names. The store knows nothing of recipes.
pub type ModulesOf = fn(&[u8], &mut dyn FnMut(&Key));

/// So many files in one part are worth a look although the process is about to end.
pub(super) const CROWDED: usize = 8;
/// What is written at most while a process is about to end.
const HASTY_SCRATCH: u64 = 8 << 20;
/// No larger stash is looked into then for what is to go: that is left to a program that is quiet for a while.
const HASTY_LOOK: u64 = 256 << 20;
/// What is written at most where less is free than should be: what is to shrink has to be written first.
const EMERGENCY_SCRATCH: u64 = 64 << 20;

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Records that were evicted.
    pub evicted_records: u64,
    /// What they and evicted parts took, by [`Cause::name`].
    pub evicted_bytes: BTreeMap<String, u64>,
    /// Bytes that were written.
    pub written: u64,
    /// Bytes that files take less than before, those that were written included.
    pub freed: u64,
    /// By how much limits stay exceeded, by [`Cause::name`]: running programs hold the rest.
    pub short_by: BTreeMap<String, u64>,
    /// Folders of applications without a record that were removed.
    pub emptied: u64,
}

impl Outcome {
    fn evicted(&mut self, cause: Cause, records: u64, bytes: u64) {
        self.evicted_records += records;
        *self.evicted_bytes.entry(cause.name().to_owned()).or_default() += bytes;
    }
}

/// How much may be done.
pub(super) struct Work<'a> {
    /// The folder of the application whose segments are merged; None: of all of them.
    pub(super) application: Option<&'a str>,
    /// The process is about to end: only what writes little, and only if it is due.
    pub(super) hasty: bool,
    /// Where it says true, everything is left as it is then, which is always in order.
    pub(super) interrupted: &'a dyn Fn() -> bool,
    pub(super) modules_of: ModulesOf,
}

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
pub(super) fn tend(root: &Folder, work: &Work<'_>) -> Outcome {
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
