//! The claims of one process in one part (`claiming` says what they are for).
//!
//! A claim is the exclusive lock of one byte of the part's lock file, from before the compile until the writer has
//! written the artifact. The kernel drops it when its process ends: no claim has an age, and none needs to be cleaned
//! up. Byte 0 is locked, shared, by every process that may claim something; where nobody else has it nothing is
//! claimed. Files on other machines are not locked: what their servers do may take any time. What a claim says is a
//! hint. Whoever does not get it in time compiles.
//!
//! A forked child shares the locks of its parent. It claims nothing itself; a claim outlives its process only where a
//! child lives on without another program, and costs the others what a wait in vain costs.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::base::descriptor::Descriptor;
use crate::base::sync::{Mutex, MutexGuard};
use crate::disk::folder::{FILE_MODE, Folder};
use crate::disk::{locks, ops as disk};
use crate::format::record::Key;
use crate::maintenance::merge::LOCK;

/// The byte that every process has locked that may claim something.
const PRESENCE: u64 = 0;
/// After so many waits in vain in a row a process waits for one claim in [`SELDOM`].
pub(crate) const VAIN_LIMIT: u32 = 8;
pub(crate) const SELDOM: u32 = 64;

/// The claims of this process in one part.
pub(super) struct Claims {
    file: Descriptor,
    /// The bytes that this process has locked: few, those of compiles under way and of artifacts that are not written.
    held: Mutex<Vec<u64>>,
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
    pub(super) fn open(folder: &Folder) -> Option<Claims> {
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
    pub(super) fn announce(&self) {
        if disk::try_lock_byte(&self.file, PRESENCE, false).is_err() {
            self.useless.store(true, Ordering::Relaxed);
        }
    }

    /// Whether other processes may claim something in this part.
    pub(super) fn has_others(&self) -> bool {
        if self.useless.load(Ordering::Relaxed) {
            return false;
        }
        disk::others_have_byte(&self.file, PRESENCE).unwrap_or_else(|_| {
            self.useless.store(true, Ordering::Relaxed);
            false
        })
    }

    /// Whether this process has the claim now, or has had it before. None: nobody can tell.
    pub(super) fn take(&self, key: &Key) -> Option<bool> {
        let mut held = self.held();
        let byte = byte_of(key);
        if held.contains(&byte) {
            // Another thread compiles it, or the writer is about to write it.
            return None;
        }
        match disk::try_lock_byte(&self.file, byte, true) {
            Ok(()) => {
                held.push(byte);
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

    /// The bytes that this process has locked: none is taken or released while they are borrowed.
    pub(super) fn held(&self) -> MutexGuard<'_, Vec<u64>> {
        self.held.lock()
    }

    /// Whether this process claims nothing.
    pub(super) fn are_none(&self) -> bool {
        self.holds.load(Ordering::Acquire) == 0
    }

    /// Releases a claim, if this process has it.
    pub(super) fn release(&self, mut held: MutexGuard<'_, Vec<u64>>, key: &Key) {
        let byte = byte_of(key);
        if let Some(place) = held.iter().position(|&other| other == byte) {
            held.swap_remove(place);
            self.holds.fetch_sub(1, Ordering::Release);
            // If that fails the others wait in vain.
            let _ = disk::unlock_byte(&self.file, byte);
        }
    }

    /// A wait is over. `in_vain`: the other process has not come to an end.
    pub(super) fn note_wait(&self, in_vain: bool) {
        if in_vain {
            self.vain.fetch_add(1, Ordering::Relaxed);
        } else {
            self.vain.store(0, Ordering::Relaxed);
        }
    }

    /// Whether this call may wait.
    pub(super) fn may_wait(&self) -> bool {
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
