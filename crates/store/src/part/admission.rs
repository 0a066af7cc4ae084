//! Whether a driver may have an artifact: crash counts, verified artifacts, and the marks of those in flight.

use std::sync::atomic::Ordering;
use std::sync::{Arc, TryLockError};
use std::time::Duration;

use rustix::fs::{Timespec, Timestamps, UTIME_NOW};

use crate::base::util::lock;
use crate::disk::folder::Folder;
use crate::disk::ops as disk;
use crate::forks as fork;
use crate::format::bytes::hex;
use crate::format::record::{CRASH_LIMIT, Key, Kind, WORKERS};
use crate::part::crash_guard;
use crate::part::crash_guard::{CrashGuard, InFlightSlot};
use crate::part::open::Part;

/// Whether a driver may have an artifact.
pub enum Admission<'a> {
    /// It may. After the crash of another process an unverified artifact is marked as in flight until this is dropped.
    Granted(Option<InFlight<'a>>),
    /// Too many processes died while a driver looked at it.
    Quarantined,
    /// Its crash count may be in a segment that is not read yet.
    NotYet,
}

/// Marks an artifact while the driver looks at it.
pub struct InFlight<'a>(#[allow(dead_code, reason = "dropped at the end of the call")] InFlightSlot<'a>);

/// Time between two looks for the end of another thread's count.
const LOOKS_AGAIN: Duration = Duration::from_micros(100);

impl Part {
    /// Asks for an artifact before a driver gets it.
    pub fn admit(&self, key: &Key) -> Admission<'_> {
        self.admit_call(key, 0)
    }

    /// [`Part::admit`] in a process whose workers have made so many calls.
    pub(super) fn admit_call(&self, key: &Key, worker_calls: u32) -> Admission<'_> {
        if self.is_quarantined(key) {
            return Admission::Quarantined;
        }
        let is_verified = || self.is_there(Kind::Verified, key);
        if self.view.is_behind() && !is_verified() {
            return Admission::NotYet;
        }
        let marks = self.marks_in_flight.load(Ordering::Relaxed);
        if !marks && self.guard.get().is_some() || is_verified() {
            return Admission::Granted(None);
        }
        // The file tells the next process that this one gave unverified artifacts to a driver.
        let guard = self.guard.get_or_init(|| {
            let is_usable = |_: &&Arc<Folder>| self.shared.is_open() && !self.shared.is_leaving();
            let folder = self.open_folder().filter(is_usable)?;
            // A part that cannot be written is used without a guard.
            CrashGuard::create(folder, self.shared.process()).ok()
        });
        let mine = guard.as_ref().filter(|guard| marks && guard.process() == fork::now());
        Admission::Granted(mine.and_then(|guard| guard.enter(key, worker_calls)).map(InFlight))
    }

    /// How many processes died while a driver looked at the artifact of this key.
    pub fn crash_count(&self, key: &Key) -> u8 {
        let mut buffer = Vec::new();
        let known = self.has_any(Kind::CrashCount) && self.read_known(Kind::CrashCount, key, &mut buffer);
        if known { buffer.first().copied().unwrap_or(0) } else { 0 }
    }

    /// Whether the artifact of this key has reached the limit. If it is a reference, the crash count of its target
    /// counts too, unless the driver has taken the data under this key.
    fn is_quarantined(&self, key: &Key) -> bool {
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

    /// Counts the artifacts that dead processes have left in flight. The counts apply at once. The guard files and
    /// their locks stay until the writer has written the counts, so nobody waits for the disk. False: nothing is
    /// counted, because the files cannot be listed or `interrupted` said true.
    pub(crate) fn count_crashes(&self, interrupted: &dyn Fn() -> bool) -> bool {
        let Some(folder) = self.open_folder().filter(|_| self.is_of_a_device()) else { return true };
        // Of two threads that read the part at once, one would find the files locked by the other, and mark nothing.
        let _counting = loop {
            match self.counting.try_lock() {
                Ok(counting) => break counting,
                Err(TryLockError::Poisoned(poisoned)) => break poisoned.into_inner(),
                Err(TryLockError::WouldBlock) if interrupted() => return false,
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOOKS_AGAIN),
            }
        };
        let Some(guards) = crash_guard::stale_guards(folder, interrupted) else { return false };
        // Whoever counts again finds the files locked or removed by this process, which goes on marking.
        if self.crashes_uncounted.swap(false, Ordering::Relaxed) || !guards.is_empty() {
            self.marks_in_flight.store(!guards.is_empty(), Ordering::Relaxed);
        }
        // The writer may write the first count before the last guard file is in the list; the lock makes it wait.
        let mut counted = lock(&self.counted_guards);
        for mut guard in guards {
            guard.keys.retain(|key| !self.is_there(Kind::Verified, key));
            for key in &guard.keys {
                if *key == WORKERS {
                    tracing::warn!("a process died while a worker of background work was in the driver");
                } else {
                    tracing::warn!(
                        "a process died while the driver looked at an artifact ({})",
                        hex(&key[..8])
                    );
                }
                self.put(Kind::CrashCount, key, self.one_death_more(key, &guard));
            }
            if guard.keys.is_empty() {
                guard.remove(folder);
            } else {
                counted.push(guard);
            }
        }
        true
    }

    /// For the writer, which has written a crash count for each of these keys: removes the guard files whose counts are
    /// all written. The next process counts the others again.
    pub(crate) fn crash_counts_are_written<'a>(&self, written: impl Iterator<Item = &'a Key>) {
        let mut written = written.peekable();
        let Some(folder) = self.open_folder().filter(|_| written.peek().is_some()) else { return };
        let mut counted = lock(&self.counted_guards);
        for key in written {
            // Counts are written in the order in which they were made.
            if let Some(guard) = counted.iter_mut().find(|guard| guard.keys.contains(key)) {
                guard.keys.retain(|other| other != key);
            }
        }
        counted.retain_mut(|guard| {
            guard.keys.retain(|key| !self.is_there(Kind::Verified, key));
            if guard.keys.is_empty() {
                guard.remove(folder);
            }
            !guard.keys.is_empty()
        });
    }

    /// Whether this process has a guard file in the part.
    pub(crate) fn has_guard(&self) -> bool {
        matches!(self.guard.get(), Some(Some(_)))
    }

    /// For the writer: the process ends in an orderly way, so nothing in flight has killed it.
    pub(crate) fn ends_in_order(&self) {
        if let Some(Some(guard)) = self.guard.get().filter(|_| !self.shared.is_inert()) {
            guard.remove();
        }
    }
}
