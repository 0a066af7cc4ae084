//! One part of a stash: its state, how it is opened, and how the rest of it is read later.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::format::codec::Codec;
use crate::format::file::PartIdentity;
use crate::format::refusal::Refusal;
use crate::home::Home;
use crate::part::bases::{Bases, Place};
use crate::part::crash_guard::{CrashGuard, StaleGuard};
use crate::part::digests::Digests;
use crate::part::queue::{self, Destination};
use crate::part::recent_records::{RecentRecords, Source};
use crate::part::view::{Found, ReadLimit, View};
use crate::segment::append::{Payload, RecordId};
use crate::segment::file::{DamagedIndex, Location, Segment};
use crate::segment::load;
use crate::segment::load::State;
use vkstash_host::disk::errors::{FileError, OpenError, is_for_now};
use vkstash_host::disk::folder::Folder;
use vkstash_host::once::OnceLock;
use vkstash_host::sync::Mutex;
use vkstash_host::timer::{Timer, never};
use vkstash_host::util::unix_ms;
use vkstash_model::record::Kind;

/// What the parts of a stash share.
pub(crate) type Shared = queue::Shared<Part>;
/// A record that waits for the writer.
pub(crate) type Pending = queue::Pending<Part>;
/// The first use of a key in this run.
pub(crate) type Use = queue::Use<Part>;

impl Destination for Part {
    fn unwritten(&self, id: RecordId, payload: &Arc<Payload>) {
        self.recent.unwritten(id, payload);
    }
}

/// After this many failed attempts to read a part, its records are written without comparing them.
const TRIES: u32 = 4;
/// The pause after a refresh that took too long, as a multiple of its duration.
const REFRESHES_IN_PAUSE: u32 = 100;
/// Nothing is written to a part for this long after a failed write.
const RETRY_AFTER: Duration = Duration::from_secs(30);

/// One part, open for reading and appending. All threads share it.
///
/// `records.rs` reads and queues records, `admission.rs` decides whether a driver may have an artifact.
pub struct Part {
    /// Queued records hold a reference to their part.
    pub(super) me: Weak<Part>,
    name: String,
    folder_name: String,
    identity: PartIdentity,
    home: Arc<Home>,
    folder: OnceLock<Arc<Folder>>,
    pub(super) view: View,
    bases: Bases,
    /// Records that are not in the tables of the view: queued, written by this process, or appended by other processes.
    pub(super) recent: RecentRecords,
    pub(super) digests: Digests,
    pub(super) guard: OnceLock<Option<CrashGuard>>,
    /// The writer is to make the guard file.
    pub(super) wants_guard: AtomicBool,
    /// Pipelines that a driver compiles for the program are marked in the guard file.
    pub(super) marks_compiles: AtomicBool,
    /// The guard file is to say that this process gives unverified artifacts to a driver.
    pub(super) gives_artifacts: AtomicBool,
    /// The deadline until which threads of the program wait for the guard file before a driver gets an artifact.
    pub(super) guard_until: OnceLock<Instant>,
    /// The same deadline before a driver compiles.
    pub(super) compile_guard_until: OnceLock<Instant>,
    /// A process died that gave unverified artifacts to a driver, so each of them is marked now.
    pub(super) marks_in_flight: AtomicBool,
    /// Calls that workers of background work have made ahead of the program.
    pub(super) worker_calls: AtomicU32,
    /// Guard files of dead processes whose crash counts are not written yet.
    pub(super) counted_guards: Mutex<Vec<StaleGuard>>,
    pub(crate) shared: Arc<Shared>,
    /// The age of the newest segment, as its name says.
    newest: AtomicU64,
    /// No record is accepted until this time ([`Shared::now_ms`]); 0 if the last write succeeded.
    closed_until: AtomicU64,
    /// The folder's time stamp says that this run uses the part.
    pub(super) stamped: AtomicBool,
    /// The guard files of dead processes are still to be counted.
    pub(super) crashes_uncounted: AtomicBool,
    /// Locked while the crashes of dead processes are counted.
    pub(super) counting: Mutex<()>,
    /// The part turned out to be unusable after it was opened.
    refused: AtomicBool,
    /// A file could not be read, and nobody will try again.
    unreadable: AtomicBool,
    /// Failed attempts in a row to read the rest of the part.
    failures: AtomicU32,
    /// This process has a segment in the part.
    written: AtomicBool,
    /// Segments that were followed and are sealed or removed by now. `recent` still has records of them.
    retired: Mutex<Vec<Arc<Segment>>>,
}

impl Part {
    /// Opens the part in the application's folder and the indexes of its segments. A folder that is missing and cannot
    /// be created is an empty part. A folder that must not be trusted is an error.
    pub(crate) fn open(
        home: &Arc<Home>,
        identity: PartIdentity,
        shared: &Arc<Shared>,
    ) -> Result<Arc<Part>, OpenError> {
        let (name, folder_name) = match &identity {
            PartIdentity::Portable => ("portable".to_owned(), "portable".to_owned()),
            PartIdentity::Device(header) => {
                let name = header.short_digest();
                let folder = format!("device-{name}");
                (name, folder)
            }
        };
        let part = Arc::new_cyclic(|me| Part {
            me: me.clone(),
            name,
            folder_name,
            identity,
            home: home.clone(),
            folder: OnceLock::new(),
            view: View::default(),
            bases: Bases::default(),
            recent: RecentRecords::default(),
            digests: Digests::default(),
            guard: OnceLock::new(),
            wants_guard: AtomicBool::new(false),
            marks_compiles: AtomicBool::new(false),
            gives_artifacts: AtomicBool::new(false),
            guard_until: OnceLock::new(),
            compile_guard_until: OnceLock::new(),
            marks_in_flight: AtomicBool::new(true),
            worker_calls: AtomicU32::new(0),
            counted_guards: Mutex::default(),
            shared: shared.clone(),
            newest: AtomicU64::new(0),
            closed_until: AtomicU64::new(0),
            stamped: AtomicBool::new(false),
            crashes_uncounted: AtomicBool::new(true),
            counting: Mutex::default(),
            refused: AtomicBool::new(false),
            unreadable: AtomicBool::new(false),
            failures: AtomicU32::new(0),
            written: AtomicBool::new(false),
            retired: Mutex::default(),
        });
        // A crash count may be in a segment that is not read yet.
        part.view.fall_behind();
        shared.parts.lock().push(part.me.clone());
        let began = Instant::now();
        let outcome = part.read_in_time();
        shared.spent_on_opening(began.elapsed());
        match outcome {
            Ok(true) => part.set_caught_up(),
            Ok(false) => shared.ask_for_help(),
            Err(error) => return Err(error),
        }
        Ok(part)
    }

    /// Opens the folder and reads what it can in the time that is left for opening. False: the helper has to read the
    /// rest.
    fn read_in_time(&self) -> Result<bool, OpenError> {
        let limit = self.shared.left_for_opening();
        let timer = Timer::of(limit);
        let interrupted = || timer.is_over();
        let complete = self.read_new(&ReadLimit { file: Some(limit / 2), interrupted: &interrupted })?;
        if self.folder.get().is_none() && !complete {
            self.shared.tallies.refused(&Refusal::File(FileError::PutOff));
        }
        Ok(complete)
    }

    /// Opens the folder, reads what is new in it, and counts the crashes of other processes. False: something is left.
    fn read_new(&self, limit: &ReadLimit<'_>) -> Result<bool, OpenError> {
        let folder = match self.folder_until(limit.interrupted) {
            Ok(folder) => folder,
            Err(error) if error.is_for_now() => return Ok(false),
            // Only the part's own folder is missing: the part is empty.
            Err(OpenError::NotCreated { .. }) if self.home.is_open() => return Ok(true),
            Err(error) => return Err(error),
        };
        let complete = match self.view.refresh(&folder, &self.identity, limit) {
            Some(Ok(found)) => {
                let complete = !found.put_off;
                self.take_in(found);
                complete
            }
            Some(Err(error)) if is_for_now(&error) => false,
            Some(Err(source)) => {
                return Err(OpenError::Unreadable { path: folder.path().to_owned(), source });
            }
            None => false,
        };
        let damaged = || self.shared.tallies.damaged(1);
        Ok(complete
            && self.view.catch_up(&DamagedIndex { damaged: &damaged, interrupted: limit.interrupted })
            && (!self.crashes_uncounted.load(Ordering::Relaxed) || self.count_crashes(limit.interrupted)))
    }

    /// Everything is read, and the crashes are counted.
    fn set_caught_up(&self) {
        self.crashes_uncounted.store(false, Ordering::Relaxed);
        self.failures.store(0, Ordering::Relaxed);
        self.view.set_caught_up();
        self.foresee_guard();
        // The writer may hold records back until now.
        self.shared.wake_from_sleep();
    }

    /// The part cannot be used. The program, which did not wait for that, is told by the report.
    fn refuse(&self, error: &OpenError) {
        tracing::warn!("nothing is stashed from now on: {error}");
        self.shared.tallies.set_unusable(error.to_string());
        self.refused.store(true, Ordering::Release);
    }

    /// Reading the rest takes longer than a thread of the program may wait.
    pub(super) fn fall_behind(&self) {
        if !self.view.is_behind() {
            self.view.fall_behind();
            self.shared.ask_for_help();
        }
    }

    /// For the helper: reads what the program could not wait for, and drops recent records of retired segments.
    pub(crate) fn catch_up(&self, interrupted: &dyn Fn() -> bool) {
        self.recent.forget_segments(&std::mem::take(&mut *self.retired.lock()));
        if !self.view.is_behind() || self.is_refused() {
            return;
        }
        match self.read_new(&ReadLimit { file: None, interrupted }) {
            Ok(true) => self.set_caught_up(),
            Err(error) if self.folder.get().is_none() => self.refuse(&error),
            // A folder that cannot be listed now may be readable later.
            Ok(false) | Err(_) => {
                let failures = self.failures.fetch_add(1, Ordering::Relaxed).saturating_add(1);
                self.shared.ask_for_help_later(failures);
            }
        }
    }

    /// Takes over what a refresh of the view has found.
    fn take_in(&self, found: Found) {
        self.newest.fetch_max(found.newest, Ordering::Relaxed);
        self.shared.tallies.damaged(found.damaged);
        found.refused.iter().for_each(|refusal| self.shared.tallies.refused(refusal));
        if found.refused.iter().any(|refusal| matches!(refusal, Refusal::File(FileError::Unreadable(_)))) {
            self.unreadable.store(true, Ordering::Relaxed);
        }
        for (segment, entries) in found.appended {
            for entry in entries {
                let Some(kind) = Kind::from_number(entry.kind) else { continue };
                if Codec::from_number(entry.codec).is_some() {
                    let source = Source::Disk(Location::new(&segment, &entry));
                    self.recent.insert(RecordId { kind, key: entry.key }, source);
                }
            }
        }
        if !found.retired.is_empty() {
            self.retired.lock().extend(found.retired);
            self.shared.ask_for_help();
        }
        if found.put_off {
            self.fall_behind();
        }
    }

    /// After a miss, at most every 100 ms: reads what other processes have written since. True: a second look-up may
    /// succeed.
    pub(super) fn refresh_after_miss(&self) -> bool {
        if self.view.is_behind() || !self.view.is_due(self.shared.now_ms()) || self.shared.is_inert() {
            return false;
        }
        self.refresh_in_time()
    }

    /// [`Part::refresh_after_miss`] however recent the last refresh is, unless the disk is slow. False: another thread
    /// is about it.
    pub(super) fn refresh_now(&self) -> bool {
        let is_idle = self.view.is_behind() || self.view.is_put_off(self.shared.now_ms());
        is_idle || self.refresh_in_time()
    }

    fn refresh_in_time(&self) -> bool {
        let limit = self.shared.waits.refresh;
        let (timer, began) = (Timer::of(limit), Instant::now());
        let found = self.refresh(&ReadLimit { file: Some(limit / 2), interrupted: &|| timer.is_over() });
        if timer.is_over() {
            // A call cannot be given up, so a program on a slow disk waits for few of them.
            let pause = began.elapsed() * REFRESHES_IN_PAUSE;
            self.view.put_refresh_off(self.shared.now_ms() + pause.as_millis() as u64);
        }
        found
    }

    fn refresh(&self, limit: &ReadLimit<'_>) -> bool {
        let Some(folder) = self.folder.get() else { return false };
        match self.view.refresh(folder, &self.identity, limit) {
            Some(Ok(found)) => {
                self.take_in(found);
                true
            }
            Some(Err(_)) | None => false,
        }
    }

    /// Segments were merged: opens the new ones and closes those that are gone.
    pub(crate) fn refresh_after_merging(&self, interrupted: &dyn Fn() -> bool) {
        self.refresh(&ReadLimit { file: None, interrupted });
    }

    /// Whether the part turned out to be unusable after it was opened.
    pub(crate) fn is_refused(&self) -> bool {
        self.refused.load(Ordering::Acquire)
    }

    /// Whether the writer has to hold records back until it can compare them with all that the part has.
    pub(crate) fn holds_back(&self) -> bool {
        self.view.is_behind() && !self.is_refused() && self.failures.load(Ordering::Relaxed) < TRIES
    }

    /// For the writer at the end: the part cannot be read, so its records are written without comparing them.
    pub(crate) fn stop_holding_back(&self) {
        self.failures.store(TRIES, Ordering::Relaxed);
    }

    /// Whether some of the part is not read yet, so that a miss proves nothing.
    pub fn is_incomplete(&self) -> bool {
        self.view.is_behind()
    }

    /// Whether all that was asked for until now was read, or is known to be damaged. For who must not take a lack of
    /// descriptors, or a disk that fails, for a part that has nothing.
    pub fn was_readable(&self) -> bool {
        let failed = |segment: &Arc<Segment>| segment.has_failed() || segment.is_put_off();
        !self.is_incomplete()
            && !self.is_refused()
            && !self.unreadable.load(Ordering::Relaxed)
            && !self.view.segments().iter().any(failed)
    }

    /// [`Part::is_incomplete`], or a base that may have the record is not open yet.
    pub fn may_have_more(&self) -> bool {
        let (bases, place) = self.bases();
        self.is_incomplete() || bases.are_incomplete(&place)
    }

    /// Whether records are accepted: the last write succeeded, or failed long enough ago.
    pub(super) fn accepts(&self) -> bool {
        let until = self.closed_until.load(Ordering::Relaxed);
        !self.is_refused() && (until == 0 || self.shared.now_ms() >= until)
    }

    /// A write failed: no record is accepted for a while.
    pub(crate) fn close_for_a_while(&self) {
        let until = self.shared.now_ms() + RETRY_AFTER.as_millis() as u64;
        self.closed_until.store(until, Ordering::Relaxed);
    }

    /// A write succeeded.
    pub(crate) fn reopen(&self) {
        self.closed_until.store(0, Ordering::Relaxed);
    }

    /// The writer has created a segment in this part.
    pub(crate) fn set_written(&self) {
        self.written.store(true, Ordering::Relaxed);
        self.shared.ask_for_help();
    }

    /// Seals the segments of dead writers, if this process writes to the part.
    pub(crate) fn seal_orphans(&self, interrupted: &dyn Fn() -> bool) {
        let Some(folder) = self.folder.get().filter(|_| self.written.load(Ordering::Relaxed)) else { return };
        self.view.seal_orphans(folder, &self.identity, interrupted);
    }

    /// The writer has sealed this full segment and continues in another one.
    pub(crate) fn replace_sealed(&self, written: &Arc<Segment>) {
        let Ok(folder) = self.folder() else { return };
        // If it cannot be loaded its records stay among the recent ones.
        let Ok(loaded) = load::load(&folder, written.name(), Some(&self.identity)) else { return };
        if loaded.state == State::Sealed {
            self.view.add_sealed(loaded.segment);
            self.recent.forget_segments(std::slice::from_ref(written));
        }
    }

    /// The age for a new segment, or the number of a new run: they rise even if the clock stands still or was set back.
    pub(crate) fn next_age(&self) -> u64 {
        let next = unix_ms().max(self.newest.load(Ordering::Relaxed).saturating_add(1));
        self.newest.store(next, Ordering::Relaxed);
        next
    }

    /// The part's folder, opened or created now if it is not open. May wait for the disk.
    pub(crate) fn folder(&self) -> Result<Arc<Folder>, OpenError> {
        self.home.open()?;
        self.folder_until(&never)
    }

    fn folder_until(&self, interrupted: &dyn Fn() -> bool) -> Result<Arc<Folder>, OpenError> {
        if let Some(folder) = self.folder.get() {
            return Ok(folder.clone());
        }
        let home = self.home.open_until(interrupted)?;
        let folder = Arc::new(home.folder.sub_until(&self.folder_name, true, interrupted)?);
        Ok(self.folder.get_or_init(|| folder).clone())
    }

    /// The counterparts of this part in the bases (stashes that are only read), and what they need to find it there.
    pub(super) fn bases(&self) -> (&Bases, Place<'_>) {
        let Part { home, identity, folder_name, .. } = self;
        (&self.bases, Place { home, identity, folder_name })
    }

    /// The part in the bases that are open.
    #[cfg(test)]
    pub(crate) fn base_parts(&self) -> Vec<Arc<crate::part::read_only::ReadOnlyPart>> {
        self.bases.open()
    }

    /// The part's folder, if it is open.
    pub(super) fn open_folder(&self) -> Option<&Arc<Folder>> {
        self.folder.get()
    }

    /// The part's name: the short digest of the device header in hexadecimal, or "portable".
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the headers of its segments say.
    pub(crate) fn identity(&self) -> &PartIdentity {
        &self.identity
    }

    /// Whether the part belongs to a device.
    pub(crate) fn is_of_a_device(&self) -> bool {
        matches!(self.identity, PartIdentity::Device(_))
    }

    /// The segments that this process knows.
    pub(crate) fn view(&self) -> &View {
        &self.view
    }

    /// The records that are not in the segments' tables.
    pub(crate) fn recent(&self) -> &RecentRecords {
        &self.recent
    }
}
