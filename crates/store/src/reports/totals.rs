//! The sums of many reports, and the file into which old reports are folded.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use crate::reports::model::{DeviceReport, RunReport, StoreReport};
use crate::reports::names::oldest_first;
use crate::reports::runs::{
    REPORT_MAGIC, SUFFIX, TOTALS_MAGIC, encode, read_file, read_those, try_read_file,
};
use crate::segment::cleanup::clean_up;
use vkstash_host::disk::folder::{FILE_MODE, Folder};
use vkstash_host::disk::{locks, ops as disk};
use vkstash_host::util::{believed, latest, random, unix_ms};

const NAME: &str = "totals.vkt";
const LOCK: &str = ".lock";
/// The number of reports that are kept separately at most, ...
const MOST: usize = 64;
/// ... and at least: a fold waits for the disk, so several reports are folded at once.
const KEEP: usize = 48;
/// The number of file names that the totals remember. A fold deletes what it has folded, so only the latest matter.
const REMEMBER: usize = 1024;

/// The sums of runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// The number of runs.
    pub runs: u64,
    /// The start of the first run, in Unix milliseconds; 0 if there is none.
    pub since_unix_ms: u64,
    /// The [`latest`] change of a report, in Unix milliseconds.
    pub until_unix_ms: u64,
    /// The counters of each device. Runs with the same device part are added up.
    pub devices: Vec<DeviceReport>,
    /// The first run that has counted anything: the other ones are compared with it.
    pub first: Option<RunReport>,
    /// The counters of the store. `unusable` is empty.
    pub store: StoreReport,
    /// Runs without a store, by reason.
    pub unusable: BTreeMap<String, u64>,
    /// Names of files that are included, in case they still exist.
    folded: Vec<String>,
    /// The report that changed last. Not in the file, because the latest reports are kept separately.
    #[serde(skip)]
    pub last: Option<RunReport>,
    /// The number of reports that are damaged, or of another version. Not in the file.
    #[serde(skip)]
    pub unreadable: u64,
}

impl Totals {
    /// Adds one run.
    pub fn add(&mut self, run: &RunReport) {
        self.runs = self.runs.saturating_add(1);
        let earlier = self.since_unix_ms == 0 || run.started_unix_ms < self.since_unix_ms;
        if earlier {
            self.since_unix_ms = run.started_unix_ms;
        }
        let is_first = |first: &RunReport| run.started_unix_ms < first.started_unix_ms;
        if run.has_counted() && self.first.as_ref().is_none_or(is_first) {
            self.first = Some(run.clone());
        }
        self.until_unix_ms = latest([self.until_unix_ms, run.updated_unix_ms], unix_ms());
        run.devices.iter().for_each(|device| device.clone().add_to(&mut self.devices));
        self.store.add(&run.store);
        if !run.store.unusable.is_empty() {
            let runs = self.unusable.entry(run.store.unusable.clone()).or_default();
            *runs = runs.saturating_add(1);
        }
    }
}

/// The sums of all reports in `folder`, folded ones included.
pub fn read(folder: &Path) -> Totals {
    let Ok(folder) = Folder::shared(folder, false) else { return Totals::default() };
    read_from(&folder)
}

/// [`read`] of an open folder.
pub(crate) fn read_from(folder: &Folder) -> Totals {
    let Separate { folded: mut totals, runs } = separately(folder);
    let now = unix_ms();
    let changed = |report: &RunReport| believed(report.updated_unix_ms, now);
    for report in runs {
        totals.add(&report);
        if totals.last.as_ref().is_none_or(|last| changed(last) <= changed(&report)) {
            totals.last = Some(report);
        }
    }
    totals
}

/// The runs of an application, as far as they can be told apart.
#[derive(Clone, Debug, Default)]
pub struct Separate {
    /// The sums of those that were folded.
    pub folded: Totals,
    /// The reports of the others, oldest first.
    pub runs: Vec<RunReport>,
}

/// The runs of the application in that folder below `root`. Empty if nothing can be read.
pub fn separate(root: &Path, application: &str) -> Separate {
    let folder = Folder::root(root, false).and_then(|root| root.sub(application, false)?.sub("runs", false));
    folder.map(|folder| separately(&folder)).unwrap_or_default()
}

fn separately(folder: &Folder) -> Separate {
    // The totals are read first: a report that is folded between the two reads is then missing for a moment, and not
    // counted twice.
    let mut folded: Totals = read_file(folder, NAME, TOTALS_MAGIC).unwrap_or_default();
    let names = folder.names(SUFFIX).unwrap_or_default();
    let reports = read_those(folder, names.clone());
    if reports.len() < names.len() {
        // What a fold has removed meanwhile is not unreadable.
        let left = folder.names(SUFFIX).unwrap_or_default();
        let is_unread = |name: &&String| !reports.iter().any(|(read, _)| read == *name);
        folded.unreadable = names.iter().filter(is_unread).filter(|name| left.contains(name)).count() as u64;
    }
    let runs = reports.into_iter().filter(|(name, _)| !folded.folded.contains(name));
    let runs = runs.map(|(_, report)| report).collect();
    Separate { folded, runs }
}

/// Removes unfinished files of dead processes, and folds the oldest reports if there are more than [`MOST`]. Does
/// nothing while another process does.
pub(crate) fn fold(folder: &Folder) -> io::Result<()> {
    clean_up(folder);
    let mut names = folder.names(SUFFIX)?;
    if names.len() <= MOST {
        return Ok(());
    }
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let lock = disk::openat(folder, LOCK, flags, FILE_MODE)?;
    locks::begin(&lock)?;
    // Totals that cannot be read now are not replaced.
    let mut totals: Totals = try_read_file(folder, NAME, TOTALS_MAGIC)?.unwrap_or_default();
    // The reports that stay are not read.
    oldest_first(&mut names);
    names.truncate(names.len() - KEEP);
    let mut done = Vec::new();
    for name in names {
        // A process died between the two steps below, or its disk failed.
        if totals.folded.contains(&name) {
            done.push(name);
        } else if let Some(report) = of_ended(folder, &name) {
            totals.add(&report);
            totals.folded.push(name.clone());
            done.push(name);
        }
    }
    let forget = totals.folded.len().saturating_sub(REMEMBER);
    totals.folded.drain(..forget);
    folder.replace_durably(NAME, random(), &encode(TOTALS_MAGIC, &totals)?)?;
    done.iter().try_for_each(|name| folder.remove_file(name))
}

/// The report of a process that has ended, which the lock of the file tells. The process id in the report does not,
/// because in another namespace it belongs to another process. None also for a file that its process has just replaced
/// by a newer one: the lock of such a file is free, too.
pub(crate) fn of_ended(folder: &Folder, name: &str) -> Option<RunReport> {
    let (file, _) = folder.open_file(name).ok()?;
    let is_ended = locks::take(&file) && folder.is_named(name, &file) == Ok(true);
    is_ended.then(|| read_file(folder, name, REPORT_MAGIC))?
}
