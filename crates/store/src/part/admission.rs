//! Admission of artifacts to a driver, by crash counts, verified artifacts, and the marks of those in flight.
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::fs::{Timespec, Timestamps, UTIME_NOW};

use crate::part::crash_guard;
use crate::part::crash_guard::{CrashGuard, Marks, Slot, TooSlow, Work};
use crate::part::open::Part;
use vkstash_host::disk::ops as disk;
use vkstash_host::forks as fork;
use vkstash_host::once::OnceLock;
use vkstash_host::text::hex;
use vkstash_model::record::{CRASH_LIMIT, Key, Kind, WORKERS};

/// Whether a driver may have an artifact.
pub enum Admission {
    /// The driver may have the artifact. After the crash of another process an unverified artifact is marked as in
    /// flight until this is dropped.
    Granted(Option<InFlight>),
    /// Too many processes died while a driver looked at the artifact.
    Quarantined,
    /// The artifact's crash count may be in a segment that is not read yet, or the disk is too slow for the guard file.
    NotYet,
}

/// A mark in the guard file, which is cleared when this value is dropped.
pub struct InFlight {
    pub(super) part: Arc<Part>,
    pub(super) slot: Slot,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        // A forked child must not clear a mark of its parent, whose driver may be at it still.
        let guard = self.part.guard.get().and_then(Option::as_ref);
        let Some(guard) = guard.filter(|guard| guard.process() == fork::now()) else { return };
        guard.leave(&self.slot);
        if guard.is_slow() {
            // The writer makes the guard file and clears the mark.
            self.part.shared.ask_for_guards();
        }
    }
}

/// Writing a mark into the guard file may take the time that a thread waits for the file itself ([`WaitLimits`]),
/// divided by this. A disk that takes longer is too slow for marks.
///
/// [`WaitLimits`]: crate::part::queue::WaitLimits
const MARKS_IN_PATIENCE: u32 = 3;

/// Time between two looks for the end of another thread's count.
const LOOKS_AGAIN: Duration = Duration::from_micros(100);

impl Part {
    /// Asks for an artifact before a driver gets it.
    pub fn admit(&self, key: &Key) -> Admission {
        self.admit_call(key, Work::Artifact(key))
    }

    /// [`Part::admit`] for this work of the driver. Deaths during the work are counted under this key.
    pub(super) fn admit_call(&self, key: &Key, work: Work<'_>) -> Admission {
        if self.is_quarantined(key) {
            return Admission::Quarantined;
        }
        let is_verified = || self.is_there(Kind::Verified, key);
        if self.view.is_behind() && !is_verified() {
            return Admission::NotYet;
        }
        let marks = self.marks_in_flight.load(Ordering::Relaxed);
        let is_said = |guard: &Option<CrashGuard>| guard.as_ref().is_none_or(CrashGuard::says_artifacts);
        if !marks && self.guard.get().is_some_and(is_said) || is_verified() {
            return Admission::Granted(None);
        }
        // The file tells the next process that this one gave unverified artifacts to a driver.
        let Some(guard) = self.artifact_guard() else { return Admission::NotYet };
        let Some(mine) = guard.filter(|guard| marks && guard.process() == fork::now()) else {
            return Admission::Granted(None);
        };
        // The caller holds the part.
        let Some(part) = self.me.upgrade() else { return Admission::NotYet };
        match mine.enter(work) {
            Ok(slot) => Admission::Granted(slot.map(|slot| InFlight { part, slot })),
            Err(TooSlow) => Admission::NotYet,
        }
    }

    /// Whether there is a guard file, or can be none. Waits as long as [`Part::admit`] does.
    pub fn is_guarded(&self) -> bool {
        self.artifact_guard().is_some()
    }

    /// The guard file that says that this process gives artifacts to a driver.
    fn artifact_guard(&self) -> Option<Option<&CrashGuard>> {
        self.gives_artifacts.store(true, Ordering::Release);
        self.guard_in_time(&self.guard_until, CrashGuard::says_artifacts)
    }

    /// The guard file, which the writer makes, if it `fits`. The first thread that needs it sets a deadline for all
    /// threads of the program: until then they wait, and afterwards nobody does. `Some(None)`: there can be none.
    /// `None`: the deadline is over, and the file is not there yet.
    pub(super) fn guard_in_time(
        &self,
        until: &OnceLock<Instant>,
        fits: impl Fn(&CrashGuard) -> bool,
    ) -> Option<Option<&CrashGuard>> {
        let made = || self.guard.get().map(Option::as_ref).filter(|guard| guard.is_none_or(&fits));
        if let Some(guard) = made() {
            return Some(guard);
        }
        // A part that cannot be written is used without a guard.
        let can_come = || self.may_have_guard() && self.open_folder().is_some();
        if !can_come() {
            return Some(None);
        }
        let until = until.get_or_init(|| {
            self.wants_guard.store(true, Ordering::Release);
            self.shared.ask_for_guards();
            Instant::now() + self.shared.waits.guard
        });
        let limit = until.saturating_duration_since(Instant::now());
        self.shared.await_guards(limit, || made().is_some() || !can_come());
        made().or_else(|| (!can_come()).then_some(None))
    }

    fn may_have_guard(&self) -> bool {
        self.shared.is_open() && !self.shared.is_leaving()
    }

    /// Everything is read: has the writer make the guard file ahead, if there seem to be artifacts that no driver has
    /// taken. A writer that does not run makes it when it is started.
    pub(super) fn foresee_guard(&self) {
        let mut unverified = 0_i64;
        for segment in self.view.segments().iter() {
            let of = |kind: Kind| i64::from(segment.tally().counts[kind.position()]);
            unverified += of(Kind::Artifact) + of(Kind::Same) - of(Kind::Verified);
        }
        if self.is_of_a_device() && unverified > 0 {
            self.gives_artifacts.store(true, Ordering::Release);
            self.wants_guard.store(true, Ordering::Release);
        }
        if self.wants_guard.load(Ordering::Acquire) {
            self.shared.foresee_guards();
        }
    }

    /// For the writer: makes the guard file if somebody wants it, and clears marks that threads of the program have
    /// left.
    pub(crate) fn serve_guard(&self) {
        if let Some(Some(guard)) = self.guard.get() {
            guard.clear_left();
            if self.gives_artifacts.load(Ordering::Acquire) {
                guard.say_artifacts();
            }
            return;
        }
        if !self.wants_guard.load(Ordering::Acquire) || !self.may_have_guard() {
            return;
        }
        // `wants_guard` stays set: the file is made the next time that guard files are asked for, by any part.
        let Some(folder) = self.open_folder() else { return };
        self.guard.get_or_init(|| {
            let patience = self.shared.waits.guard / MARKS_IN_PATIENCE;
            let gives_artifacts = self.gives_artifacts.load(Ordering::Acquire);
            CrashGuard::create(folder, self.shared.process(), patience, gives_artifacts).ok()
        });
    }

    /// How many processes died while a driver looked at the artifact of this key.
    pub fn crash_count(&self, key: &Key) -> u8 {
        self.counted(key).of_artifact
    }

    /// Whether [`CRASH_LIMIT`] processes died while a driver looked at the artifact of this key: no driver gets it any
    /// more. If it is a reference, the crash count of its target counts too, unless the driver has taken the data under
    /// this key.
    pub fn is_quarantined(&self, key: &Key) -> bool {
        if !self.has_any(Kind::CrashCount) {
            return false;
        }
        let is_reference = || !self.is_itself_there(Kind::Artifact, key);
        let target = || self.same_of(key, &mut Vec::new()).filter(|_| is_reference());
        self.crash_count(key) >= CRASH_LIMIT
            || target().is_some_and(|same| {
                self.crash_count(&same.target) >= CRASH_LIMIT && !self.is_there(Kind::Verified, key)
            })
    }

    /// For the writer: the driver has taken the artifact of this key.
    pub(crate) fn set_verified(&self, key: &Key) {
        if !self.stamped.swap(true, Ordering::Relaxed) {
            // The age limit must not hit a part that serves everything and is never written to.
            let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
            let stamps = Timestamps { last_access: now, last_modification: now };
            let _ = self.open_folder().map(|folder| disk::futimens(&**folder, &stamps));
        }
        if !self.is_there(Kind::Verified, key) {
            self.enqueue(Kind::Verified, key, Box::default());
        }
    }

    /// Counts what dead processes have left in flight. The counts apply at once. The guard files and
    /// their locks stay until the writer has written the counts, so nobody waits for the disk. False: nothing is
    /// counted, because the files cannot be listed or `interrupted` said true.
    pub(crate) fn count_crashes(&self, interrupted: &dyn Fn() -> bool) -> bool {
        let Some(folder) = self.open_folder().filter(|_| self.is_of_a_device()) else { return true };
        // Of two threads that read the part at once, one would find the files locked by the other, and mark nothing.
        let _counting = loop {
            match self.counting.try_lock() {
                Some(counting) => break counting,
                None if interrupted() => return false,
                None => std::thread::sleep(LOOKS_AGAIN),
            }
        };
        // Once by each process: a file whose crash was counted may still be there if it could not be removed.
        if !self.crashes_uncounted.load(Ordering::Relaxed) {
            return true;
        }
        let Some(guards) = crash_guard::stale_guards(folder, interrupted) else { return false };
        self.crashes_uncounted.store(false, Ordering::Relaxed);
        let gave_artifacts = guards.iter().any(|guard| guard.marks.gave_artifacts);
        self.marks_in_flight.store(gave_artifacts, Ordering::Relaxed);
        // The writer may write the first count before the last guard file is in the list; the lock makes it wait.
        let mut counted = self.counted_guards.lock();
        for mut guard in guards {
            guard.marks.keys.retain(|key| !self.is_there(Kind::Verified, key));
            let marks = &guard.marks;
            marks.keys.iter().for_each(|key| self.count_artifact(key, marks));
            marks.compiles.iter().for_each(|(key, stages)| self.count_compile(key, *stages, marks.unix_ms));
            if marks.is_empty() {
                guard.remove(folder);
            } else {
                counted.push(guard);
            }
        }
        true
    }

    /// A process died while a driver looked at this artifact, or while a worker was in the driver.
    fn count_artifact(&self, key: &Key, marks: &Marks) {
        let is_last = self.crash_count(key).saturating_add(1) >= CRASH_LIMIT;
        let of_worker = "a process died while a worker of background work was in the driver";
        if *key == WORKERS && !is_last {
            // Workers are in the driver for much of the time, so a program that is ended by a signal is met
            // there, too. That is no failure, as long as it does not happen again.
            tracing::info!("{of_worker}");
        } else if *key == WORKERS {
            tracing::warn!("{of_worker}");
        } else {
            tracing::warn!("a process died while the driver looked at an artifact ({})", hex(&key[..8]));
        }
        self.put(Kind::CrashCount, key, self.one_death_more(key, marks));
    }

    /// For the writer, which has written a crash count for each of these keys: removes the guard files whose counts are
    /// all written. The next process counts the others again.
    pub(crate) fn crash_counts_are_written<'a>(&self, written: impl Iterator<Item = &'a Key>) {
        let mut written = written.peekable();
        let Some(folder) = self.open_folder().filter(|_| written.peek().is_some()) else { return };
        let mut counted = self.counted_guards.lock();
        for key in written {
            // Counts are written in the order in which they were made.
            if let Some(guard) = counted.iter_mut().find(|guard| guard.marks.have(key)) {
                guard.marks.forget(key);
            }
        }
        counted.retain_mut(|guard| {
            guard.marks.keys.retain(|key| !self.is_there(Kind::Verified, key));
            if guard.marks.is_empty() {
                guard.remove(folder);
            }
            !guard.marks.is_empty()
        });
    }

    /// Whether this process has a guard file in the part.
    pub(crate) fn has_guard(&self) -> bool {
        matches!(self.guard.get(), Some(Some(_)))
    }

    /// Whether this process has a guard file in the part that costs the next process marks if it is left, or the writer
    /// is to make one.
    pub(crate) fn expects_guard(&self) -> bool {
        self.gives_artifacts.load(Ordering::Relaxed) && !matches!(self.guard.get(), Some(None))
    }

    /// For the writer: the process ends in an orderly way, so nothing in flight has killed it.
    pub(crate) fn ends_in_order(&self) {
        if let Some(Some(guard)) = self.guard.get().filter(|_| !self.shared.is_inert()) {
            guard.remove();
        }
    }
}
