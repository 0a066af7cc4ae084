//! The segments of a part as this process knows them: those that it found when it opened the part, and those that other
//! processes have written since.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};

use crate::format::file::{FileHeader, PartIdentity};
use crate::format::footer::encode_end;
use crate::format::record_header::IndexEntry;
use crate::format::refusal::Refusal;
use crate::format::seal::Seal;
use crate::segment::cleanup::clean_up;
use crate::segment::file::{DamagedIndex, Segment};
use crate::segment::load;
use crate::segment::load::{Loaded, State};
use crate::segment::name;
use crate::segment::scan;
use crate::segment::scan::Scan;
use vkstash_host::disk::errors::FileError;
use vkstash_host::disk::folder::{Folder, write_all_at};
use vkstash_host::disk::{locks, ops as disk};
use vkstash_host::sort;
use vkstash_host::sync::Mutex;
use vkstash_host::timer::Timer;

/// The shortest time between two refreshes after misses, in milliseconds.
const REFRESH_EVERY_MS: u64 = 100;

/// Segments, the newest first.
type Segments = Vec<Arc<Segment>>;

/// The segments in a part's folder.
#[derive(Default)]
pub(crate) struct View {
    segments: ArcSwap<Segments>,
    /// A segment was added once. False spares look-ups the list, which is empty then.
    any_added: AtomicBool,
    next_refresh: AtomicU64,
    /// Locked during a refresh. No thread waits for this lock, because a refresh may take long.
    known: Mutex<Known>,
    /// Names of the segments that this process writes.
    ours: Mutex<HashSet<String>>,
    /// Damaged records: the name of the segment and the offset of the record header.
    lost: Mutex<HashSet<(String, u64)>>,
    any_lost: AtomicBool,
    /// Not everything is read: it would take longer than a thread of the program may wait.
    behind: AtomicBool,
}

#[derive(Default)]
struct Known {
    /// Every file that was examined. It is not examined again.
    names: HashSet<String>,
    /// Files that other processes write, and the offset up to which each was read.
    followed: HashMap<String, u64>,
    /// Unsealed files without a live writer.
    orphans: Vec<Orphan>,
}

struct Orphan {
    segment: Arc<Segment>,
    header: FileHeader,
    bytes: u64,
}

/// How long a refresh may take.
pub(crate) struct ReadLimit<'a> {
    /// A file that takes longer is put off. None: no thread of the program waits.
    pub(crate) file: Option<Duration>,
    /// The refresh stops when this says true.
    pub(crate) interrupted: &'a dyn Fn() -> bool,
}

/// What a refresh has found.
#[derive(Default)]
pub(crate) struct Found {
    /// Records that other processes appended to the files that they write, in order.
    pub(crate) appended: Vec<(Arc<Segment>, Vec<IndexEntry>)>,
    /// Why files are not used.
    pub(crate) refused: Vec<Refusal>,
    /// The first file that is not used.
    pub(crate) first_refused: Option<String>,
    /// The number of damaged places.
    pub(crate) damaged: u64,
    /// The age of the newest file.
    pub(crate) newest: u64,
    /// Segments that were followed and are sealed or removed now.
    pub(crate) retired: Vec<Arc<Segment>>,
    /// Something is left for another refresh.
    pub(crate) put_off: bool,
}

impl View {
    /// The segments that have tables, the newest first.
    pub(crate) fn segments(&self) -> Guard<Arc<Segments>> {
        self.segments.load()
    }

    /// Whether no segment with a table was ever added. A segment that is being added counts.
    pub(crate) fn never_had_any(&self) -> bool {
        !self.any_added.load(Ordering::Acquire)
    }

    /// Whether a record is known to be damaged.
    pub(crate) fn is_lost(&self, segment: &Segment, offset: u64) -> bool {
        self.any_lost.load(Ordering::Acquire)
            && self.lost.lock().contains(&(segment.name().to_owned(), offset))
    }

    /// Notes that a record is damaged. False: that was known.
    pub(crate) fn lose(&self, segment: &Segment, offset: u64) -> bool {
        let new = self.lost.lock().insert((segment.name().to_owned(), offset));
        self.any_lost.store(true, Ordering::Release);
        new
    }

    /// Notes the name of a segment that this process writes.
    pub(crate) fn add_ours(&self, name: &str) {
        self.ours.lock().insert(name.to_owned());
    }

    /// Whether not everything is read.
    pub(crate) fn is_behind(&self) -> bool {
        self.behind.load(Ordering::Acquire)
    }

    /// Whether there may be unsealed files of dead writers.
    pub(crate) fn has_orphans(&self) -> bool {
        // A thread that holds the lock may be about to add one.
        self.known.try_lock().is_none_or(|known| !known.orphans.is_empty())
    }

    /// Notes that not everything is read.
    pub(crate) fn fall_behind(&self) {
        self.behind.store(true, Ordering::Release);
    }

    /// Notes that everything is read.
    pub(crate) fn set_caught_up(&self) {
        self.behind.store(false, Ordering::Release);
    }

    /// The next miss refreshes the view, however recent the last refresh is.
    pub(crate) fn invalidate(&self) {
        self.next_refresh.store(0, Ordering::Relaxed);
    }

    /// No refresh is due until then.
    pub(crate) fn put_refresh_off(&self, until_ms: u64) {
        self.next_refresh.store(until_ms, Ordering::Relaxed);
    }

    /// Whether refreshes were put off.
    pub(crate) fn is_put_off(&self, now_ms: u64) -> bool {
        self.next_refresh.load(Ordering::Relaxed) > now_ms + REFRESH_EVERY_MS
    }

    /// Whether a refresh is due. Of the threads that ask, one is told so.
    pub(crate) fn is_due(&self, now_ms: u64) -> bool {
        let due = self.next_refresh.load(Ordering::Relaxed);
        let next = now_ms + REFRESH_EVERY_MS;
        now_ms >= due
            && self.next_refresh.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Finds new files, files that are gone, and what was appended to files that other processes write. `None`: another
    /// thread refreshes the view now.
    pub(crate) fn refresh(
        &self,
        folder: &Arc<Folder>,
        identity: &PartIdentity,
        limit: &ReadLimit<'_>,
    ) -> Option<std::io::Result<Found>> {
        let mut known = self.known.try_lock()?;
        let (names, complete) = match folder.names_until(".vks", limit.interrupted) {
            Ok(names) => names,
            Err(error) => return Some(Err(error)),
        };
        let before = self.segments.load_full();

        // Merging removes files. This process read them until now, because it has them open.
        let present: HashSet<&str> = names.iter().map(String::as_str).collect();
        let is_there = |name: &str| !complete || present.contains(name);
        let gone = before.iter().filter(|segment| !is_there(segment.name())).cloned().collect();
        known.names.retain(|name| is_there(name));
        known.followed.retain(|name, _| is_there(name));
        self.ours.lock().retain(|name| is_there(name));

        let found = Found { put_off: !complete, ..Found::default() };
        let (known, added) = (&mut *known, Vec::new());
        let mut refresh = Refresh { folder, identity, limit, known, before, added, gone, found };
        // The newest first, because their records supersede those of the others if there is no time for all.
        for name in names.into_iter().rev() {
            let is_known = refresh.known.names.contains(&name) || self.ours.lock().contains(&name);
            if !is_known || refresh.known.followed.contains_key(&name) {
                refresh.read(name);
            }
        }
        let Refresh { added, gone, mut found, .. } = refresh;
        // Records of the newest file supersede the others, so they come last.
        found.appended.reverse();
        if !added.is_empty() || !gone.is_empty() {
            self.change(&gone, &added);
        }
        found.retired = gone;
        Some(Ok(found))
    }

    /// Removes segments from the list and adds others. The writer may do so during a refresh.
    fn change(&self, gone: &[Arc<Segment>], added: &[Arc<Segment>]) {
        if !added.is_empty() {
            // Before the list changes, so that no reader passes over what is in it.
            self.any_added.store(true, Ordering::Release);
        }
        self.segments.rcu(|segments| {
            let goes = |segment: &Arc<Segment>| gone.iter().any(|gone| Arc::ptr_eq(gone, segment));
            let stay = segments.iter().filter(|segment| !goes(segment));
            let mut all: Segments = stay.chain(added).cloned().collect();
            sort::by(&mut all, |one, other| other.name().cmp(one.name()));
            all
        });
    }

    /// Scans the segments that the program's threads could not wait for. False: one of them is not scanned.
    pub(crate) fn catch_up(&self, instead: &DamagedIndex<'_>) -> bool {
        self.segments.load().iter().all(|segment| segment.catch_up(instead))
    }

    /// Seals the files of dead writers, so that no process has to scan them again, and removes unfinished files. The
    /// next process tries again what fails.
    pub(crate) fn seal_orphans(
        &self,
        folder: &Arc<Folder>,
        identity: &PartIdentity,
        interrupted: &dyn Fn() -> bool,
    ) {
        clean_up(folder);
        while !interrupted() {
            // If a refresh holds the lock, its process finds the orphans at its next attempt.
            let Some(orphan) = self.known.try_lock().and_then(|mut known| known.orphans.pop()) else {
                break;
            };
            if seal(folder, &orphan).is_none() {
                continue;
            }
            if let Ok(loaded) = load::load(folder, orphan.segment.name(), Some(identity)) {
                self.change(&[orphan.segment], &[loaded.segment]);
            }
        }
    }

    /// Adds a segment of this process that is sealed now and has a table.
    pub(crate) fn add_sealed(&self, segment: Arc<Segment>) {
        self.change(&[], &[segment]);
    }
}

/// A refresh that is under way.
struct Refresh<'a> {
    folder: &'a Arc<Folder>,
    identity: &'a PartIdentity,
    limit: &'a ReadLimit<'a>,
    known: &'a mut Known,
    /// The segments that were known.
    before: Arc<Segments>,
    added: Segments,
    gone: Segments,
    found: Found,
}

impl Refresh<'_> {
    /// Reads a file that is new or followed.
    fn read(&mut self, name: String) {
        let (limit, timer) = (self.limit, self.limit.file.map(Timer::of));
        let interrupted = || (limit.interrupted)() || timer.as_ref().is_some_and(Timer::is_over);
        let mut replaced = None;
        if let Some(end) = self.known.followed.get(&name).copied() {
            let Some(segment) = self.before.iter().find(|segment| segment.name() == name).cloned() else {
                return;
            };
            if self.follow(&segment, end, &interrupted) {
                return;
            }
            replaced = Some(segment);
        }
        let loaded = match load::load_until(self.folder, &name, Some(self.identity), &interrupted) {
            Err(Refusal::NotYet) => return,
            Err(Refusal::File(FileError::PutOff)) => {
                self.found.put_off = true;
                self.found.refused.push(Refusal::File(FileError::PutOff));
                return;
            }
            loaded => loaded,
        };
        self.known.followed.remove(&name);
        self.gone.extend(replaced);
        match loaded {
            Ok(loaded) => self.add(loaded),
            Err(refusal) => {
                self.found.first_refused.get_or_insert_with(|| name.clone());
                self.found.refused.push(refusal);
            }
        }
        self.known.names.insert(name);
    }

    /// Reads what was appended to a followed file after `end`. False: its writer is gone, so that it has to be loaded.
    fn follow(&mut self, segment: &Arc<Segment>, end: u64, interrupted: &dyn Fn() -> bool) -> bool {
        let (tail, still_written) = tail(self.folder, segment.name(), end, self.identity, interrupted);
        self.found.put_off |= tail.stopped;
        let goes_on = still_written || tail.stopped;
        if goes_on {
            self.known.followed.insert(segment.name().to_owned(), tail.end);
            if !tail.entries.is_empty() {
                self.found.appended.push((segment.clone(), tail.entries));
            }
        }
        goes_on
    }

    fn add(&mut self, loaded: Loaded) {
        let Loaded { segment, header, damaged, bytes, state, .. } = loaded;
        self.found.newest = self.found.newest.max(name::age_of(segment.name()));
        self.found.damaged += damaged;
        match (state, header) {
            (State::Written, _) => {
                self.known.followed.insert(segment.name().to_owned(), segment.end());
            }
            (State::Orphaned, Some(header)) => {
                self.known.orphans.push(Orphan { segment: segment.clone(), header, bytes });
            }
            _ => {}
        }
        self.added.push(segment);
    }
}

/// The records that were appended to a file after `end`, and whether its writer is alive.
fn tail(
    folder: &Arc<Folder>,
    name: &str,
    end: u64,
    identity: &PartIdentity,
    interrupted: &dyn Fn() -> bool,
) -> (Scan, bool) {
    let nothing =
        || Scan { entries: Vec::new(), damaged: 0, end, sealed: false, failed: false, stopped: false };
    let Ok((fd, length)) = folder.open_file(name) else { return (nothing(), true) };
    if length <= end {
        return (nothing(), locks::is_locked(&fd));
    }
    let found = scan::scan(&fd, end, length, identity.tag(), true, interrupted);
    let goes_on = !found.sealed && locks::is_locked(&fd);
    (found, goes_on)
}

/// Seals a file. `None`: another process does, the file has changed, or it cannot be written.
fn seal(folder: &Folder, orphan: &Orphan) -> Option<()> {
    let fd = folder.open_to_seal(orphan.segment.name()).ok()?;
    disk::try_lock(&fd).ok()?;
    if disk::fstat(&fd).ok()?.st_size as u64 != orphan.bytes {
        return None;
    }
    let rows = orphan.segment.known_rows();
    let base = orphan.segment.end();
    let end = encode_end(&orphan.header, base, &rows);
    // The index has to follow the last whole record.
    disk::ftruncate(&fd, base).ok()?;
    if write_all_at(&fd, &end, base).is_err() {
        // The next process scans it again.
        let _ = disk::ftruncate(&fd, base);
        return None;
    }
    let seal = Seal { bytes: base + end.len() as u64, records: rows.len() as u32 };
    // If this write fails the file is complete all the same, but a later cut of it is not noticed.
    let _ = write_all_at(&fd, &seal.encode(), Seal::OFFSET);
    Some(())
}
