//! Claims: of several processes that need the same artifact at the same time, one compiles, and the others wait for it.
//!
//! A claim is the exclusive lock of one byte of the part's lock file, from before the compile until the writer has
//! written the artifact. The kernel drops it when its process ends: no claim has an age, and none needs to be cleaned
//! up. Byte 0 is locked, shared, by every process that may claim something; where nobody else has it nothing is
//! claimed. Files on other machines are not locked: what their servers do may take any time. What a claim says is a
//! hint. Whoever does not get it in time compiles.
//!
//! A forked child shares the locks of its parent. It claims nothing itself; a claim outlives its process only where a
//! child lives on without another program, and costs the others what a wait in vain costs.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::base::descriptor::Descriptor;
use crate::base::util::lock;
use crate::disk::folder::{FILE_MODE, Folder};
use crate::disk::{locks, ops as disk};
use crate::format::record::{Key, Kind};
use crate::maintenance::merge::LOCK;
use crate::part::open::Part;
use crate::part::recent_records::Source;
use crate::segment::append::RecordId;

/// The byte that every process has locked that may claim something.
const PRESENCE: u64 = 0;
/// The shortest time between two looks.
const FIRST_STEP: Duration = Duration::from_micros(50);
/// The longest time between two looks, ...
const LAST_STEP: Duration = Duration::from_millis(1);
/// ... which are as many as double the time that was waited.
const STEPS_IN_WAIT: u32 = 16;
/// After so many waits in vain in a row a process waits for one claim in [`SELDOM`].
pub(crate) const VAIN_LIMIT: u32 = 8;
pub(crate) const SELDOM: u32 = 64;
/// How often a view that another thread refreshes is refreshed again.
const REFRESHES: u32 = 4;

/// What has come of claiming a key.
pub enum Claim<'a> {
    /// This process compiles. Others wait until this is dropped, and until what was queued by then is written.
    Taken(Taken<'a>),
    /// This process compiles: nobody else is there, or nobody can tell.
    Unclaimed,
    /// Another process has recorded the artifact.
    Recorded,
    /// This process compiles: it has waited for another one as long as it may.
    InVain,
}

/// A claim of this process.
pub struct Taken<'a> {
    part: &'a Part,
    claims: &'a Claims,
    key: Key,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if self.part.shared.is_inert() {
            // A forked child: the claim is its parent's.
            return;
        }
        let held = lock(&self.claims.held);
        let id = RecordId { kind: Kind::Artifact, key: self.key };
        // Asked while the writer cannot release it: what is queued will be written, and is released then.
        let is_queued = |source: &Source| matches!(source, Source::Queued(_));
        if self.part.recent.with(&id, |entry| is_queued(&entry.source)).unwrap_or(false) {
            drop(held);
            // The others wait for it.
            self.part.shared.wake_from_sleep();
        } else {
            self.claims.release(held, &self.key);
        }
    }
}

/// The claims of this process in one part.
pub(super) struct Claims {
    file: Descriptor,
    /// The bytes that this process has locked.
    held: Mutex<HashSet<u64>>,
    /// Their number.
    holds: AtomicUsize,
    /// An operation has failed.
    useless: AtomicBool,
    /// Waits in vain since the last one that was not.
    vain: AtomicU32,
    /// Waits that were left out.
    left_out: AtomicU32,
}

impl Claims {
    /// For the writer. None: nothing can be claimed there.
    fn open(folder: &Folder) -> Option<Claims> {
        if !locks::are_of_this_machine(folder) {
            return None;
        }
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        Some(Claims {
            file: disk::openat(folder, LOCK, flags, FILE_MODE).ok()?,
            held: Mutex::default(),
            holds: AtomicUsize::new(0),
            useless: AtomicBool::new(false),
            vain: AtomicU32::new(0),
            left_out: AtomicU32::new(0),
        })
    }

    /// Others see from now on that this process may claim something.
    fn announce(&self) {
        if disk::try_lock_byte(&self.file, PRESENCE, false).is_err() {
            self.useless.store(true, Ordering::Relaxed);
        }
    }

    /// Whether other processes may claim something in this part.
    fn has_others(&self) -> bool {
        if self.useless.load(Ordering::Relaxed) {
            return false;
        }
        disk::others_have_byte(&self.file, PRESENCE).unwrap_or_else(|_| {
            self.useless.store(true, Ordering::Relaxed);
            false
        })
    }

    /// Whether this process has the claim now, or has had it before. None: nobody can tell.
    fn take(&self, key: &Key) -> Option<bool> {
        let mut held = lock(&self.held);
        let byte = byte_of(key);
        if held.contains(&byte) {
            // Another thread compiles it, or the writer is about to write it.
            return None;
        }
        match disk::try_lock_byte(&self.file, byte, true) {
            Ok(()) => {
                held.insert(byte);
                self.holds.fetch_add(1, Ordering::Release);
                Some(true)
            }
            Err(Errno::AGAIN | Errno::ACCESS) => Some(false),
            Err(_) => {
                self.useless.store(true, Ordering::Relaxed);
                None
            }
        }
    }

    fn release(&self, mut held: std::sync::MutexGuard<'_, HashSet<u64>>, key: &Key) {
        let byte = byte_of(key);
        if held.remove(&byte) {
            self.holds.fetch_sub(1, Ordering::Release);
            // If that fails the others wait in vain.
            let _ = disk::unlock_byte(&self.file, byte);
        }
    }

    /// Whether this call may wait.
    fn may_wait(&self) -> bool {
        self.vain.load(Ordering::Relaxed) < VAIN_LIMIT
            || self.left_out.fetch_add(1, Ordering::Relaxed) % SELDOM == SELDOM - 1
    }
}

/// The byte that stands for a key. Keys are digests, so two with one byte are not met.
fn byte_of(key: &Key) -> u64 {
    let start = key.first_chunk().copied().map_or(0, u64::from_le_bytes);
    // Offsets are signed, and the presence has a byte of its own.
    (start >> 2) + 1
}

impl Part {
    /// Claims a key whose artifact is missing, before it is compiled. `limit`: the longest wait, asked if another process
    /// has the claim.
    pub fn claim(&self, key: &Key, limit: impl FnOnce() -> Duration) -> Claim<'_> {
        let Some(claims) = self.claims_if_shared() else { return Claim::Unclaimed };
        match claims.take(key) {
            None => Claim::Unclaimed,
            Some(true) => self.with_claim(claims, key),
            Some(false) if !claims.may_wait() => Claim::Unclaimed,
            Some(false) => self.await_claim(claims, key, limit()),
        }
    }

    fn await_claim<'a>(&'a self, claims: &'a Claims, key: &Key, limit: Duration) -> Claim<'a> {
        let began = Instant::now();
        loop {
            let waited = began.elapsed();
            if waited >= limit {
                claims.vain.fetch_add(1, Ordering::Relaxed);
                return Claim::InVain;
            }
            let step = (waited / STEPS_IN_WAIT).clamp(FIRST_STEP, LAST_STEP);
            std::thread::sleep(step.min(limit - waited));
            match claims.take(key) {
                None => return Claim::Unclaimed,
                Some(false) => {}
                Some(true) => {
                    claims.vain.store(0, Ordering::Relaxed);
                    return self.with_claim(claims, key);
                }
            }
        }
    }

    /// Looks once more: whoever had the claim before may have recorded the artifact.
    fn with_claim<'a>(&'a self, claims: &'a Claims, key: &Key) -> Claim<'a> {
        let taken = Taken { part: self, claims, key: *key };
        for _ in 0..REFRESHES {
            if self.refresh_now() {
                break;
            }
            std::thread::sleep(FIRST_STEP);
        }
        if self.is_there(Kind::Artifact, key) { Claim::Recorded } else { Claim::Taken(taken) }
    }

    /// None: no other process may claim something in this part, as far as this one knows.
    fn claims_if_shared(&self) -> Option<&Claims> {
        if !self.shared.is_open() || self.is_incomplete() || !self.accepts() {
            return None;
        }
        match self.claims.get() {
            Some(claims) => claims.as_ref().filter(|claims| claims.has_others()),
            None => {
                if !self.wants_claims.swap(true, Ordering::AcqRel) {
                    self.shared.ask_for_guards();
                }
                None
            }
        }
    }

    /// For the writer: opens the file if somebody wants to claim something.
    pub(crate) fn serve_claims(&self) {
        let Some(folder) = self.open_folder().filter(|_| self.wants_claims.load(Ordering::Acquire)) else {
            return;
        };
        if self.claims.get().is_none() {
            // Only then: what another process sees, this one acts upon.
            self.claims.get_or_init(|| Claims::open(folder)).iter().for_each(Claims::announce);
        }
    }

    /// For the writer, which has written these artifacts, or has failed to.
    pub(crate) fn release_claims<'a>(&self, ids: impl Iterator<Item = &'a RecordId>) {
        let Some(Some(claims)) = self.claims.get() else { return };
        if claims.holds.load(Ordering::Acquire) == 0 {
            return;
        }
        for id in ids.filter(|id| id.kind == Kind::Artifact) {
            claims.release(lock(&claims.held), &id.key);
        }
    }
}
