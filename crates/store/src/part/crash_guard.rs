//! Artifacts that a driver is looking at for the first time. A process that hands such artifacts out has a file here
//! until it ends in order. Whoever finds the file of a dead one is careful: it marks each such artifact before the
//! call, and should it die too, the next knows of which. Processes after good ones pay for no mark.
//! docs/format.md has the file's bytes.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::base::descriptor::Descriptor;
use crate::base::util::random;
use crate::disk::folder::{Folder, read_at, write_all_at};
use crate::disk::ops as disk;
use crate::format::bytes::{close_block, is_closed, put_u32};
use crate::format::record::Key;
use crate::format::refusal::Refusal;

const MAGIC: [u8; 8] = *b"\x89VKG\r\n\x1a\n";
const VERSION: u32 = 1;
/// The head, and each slot.
const BLOCK: usize = 64;
/// Calls at once that are guarded; more go without.
const SLOTS: u32 = 64;
const IN_FLIGHT: u32 = 1;
/// How the files' names end.
const SUFFIX: &str = ".vkg";

/// This process's file in one part. Locked as long as the process lives.
pub(crate) struct Guard {
    folder: Arc<Folder>,
    name: String,
    fd: Descriptor,
    taken: AtomicU64,
    removed: AtomicBool,
    process: u32,
}

/// An artifact is with the driver until this is dropped.
pub(crate) struct Entered<'a> {
    guard: &'a Guard,
    slot: u32,
}

impl Guard {
    /// Creates the file. `process` names it: in a forked child nothing is written.
    pub(crate) fn create(folder: &Arc<Folder>, process: u32) -> io::Result<Guard> {
        let name = format!("{:08x}-{:016x}{SUFFIX}", std::process::id(), random());
        let fd = folder.create_locked(&name)?;
        let mut head = [0; BLOCK];
        head[..8].copy_from_slice(&MAGIC);
        put_u32(&mut head, 8, VERSION);
        put_u32(&mut head, 12, SLOTS);
        close_block(&mut head);
        if let Err((_, error)) = write_all_at(&fd, &head, 0) {
            let _ = folder.remove_file(&name);
            return Err(error);
        }
        Ok(Guard {
            folder: folder.clone(),
            name,
            fd,
            taken: AtomicU64::new(0),
            removed: AtomicBool::new(false),
            process,
        })
    }

    /// The process that it belongs to.
    pub(crate) fn process(&self) -> u32 {
        self.process
    }

    /// One positioned write. `None`: more calls at once than slots, or it cannot be written.
    pub(crate) fn enter(&self, key: &Key) -> Option<Entered<'_>> {
        let claimed = self.taken.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |taken| {
            (taken != u64::MAX).then(|| taken | 1 << taken.trailing_ones())
        });
        let slot = claimed.ok()?.trailing_ones();
        let entered = Entered { guard: self, slot };
        let mut block = [0; BLOCK];
        put_u32(&mut block, 0, IN_FLIGHT);
        block[4..36].copy_from_slice(key);
        close_block(&mut block);
        self.write(slot, &block).ok()?;
        Some(entered)
    }

    fn write(&self, slot: u32, block: &[u8; BLOCK]) -> io::Result<()> {
        let offset = BLOCK as u64 * (1 + u64::from(slot));
        write_all_at(&self.fd, block, offset).map_err(|(_, error)| error)
    }

    /// The process ends in order: what is in flight now does not kill it.
    pub(crate) fn remove(&self) {
        if !self.removed.swap(true, Ordering::AcqRel) {
            // Where that fails the next process is more careful than it need be.
            let _ = self.folder.remove_file(&self.name);
        }
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        // Left in flight it counts one death, and it takes two.
        let _ = self.guard.write(self.slot, &[0; BLOCK]);
        self.guard.taken.fetch_and(!(1 << self.slot), Ordering::AcqRel);
    }
}

/// A file of a process that is dead, and what was in flight in it. Its lock is held until this is dropped: of the
/// processes that start after a death, one counts it.
pub(crate) struct Left {
    pub(crate) keys: Vec<Key>,
    name: String,
    _locked: Descriptor,
}

impl Left {
    /// It has been counted.
    pub(crate) fn remove(&self, folder: &Folder) {
        // Counted once more by the next process where that fails.
        let _ = folder.remove_file(&self.name);
    }
}

/// The files that dead processes have left in this part. `None`: they cannot be listed or opened for now, or not before
/// `interrupted` says true.
pub(crate) fn left_behind(folder: &Folder, interrupted: &dyn Fn() -> bool) -> Option<Vec<Left>> {
    let (names, complete) = folder.names_until(SUFFIX, interrupted).ok()?;
    let mut left = Vec::new();
    for name in names {
        if interrupted() {
            return None;
        }
        left.extend(read_left(folder, name).ok()?);
    }
    complete.then_some(left)
}

/// There is no descriptor left to read it with.
struct NotNow;

fn read_left(folder: &Folder, name: String) -> Result<Option<Left>, NotNow> {
    match folder.open_file_or_put_off(&name) {
        Ok((fd, _)) => Ok(read_open(fd, name)),
        Err(Refusal::PutOff) => Err(NotNow),
        Err(_) => Ok(None),
    }
}

fn read_open(fd: Descriptor, name: String) -> Option<Left> {
    // Held: its process lives, or another one is counting.
    disk::try_lock(&fd).ok()?;
    // Without a name: another one has counted it since it was opened.
    disk::fstat(&fd).ok().filter(|stat| stat.st_nlink > 0)?;
    let mut bytes = Vec::new();
    read_at(&fd, &mut bytes, BLOCK * (1 + SLOTS as usize), 0).ok()?;
    let mut blocks = bytes.chunks_exact(BLOCK);
    let head = blocks.next();
    if !head.is_some_and(|head| {
        head.starts_with(&MAGIC) && head[8..12] == VERSION.to_le_bytes() && is_closed(head)
    }) {
        // Of another version, or of a process that died at creating it, which cannot be told apart.
        return None;
    }
    let in_flight = |block: &[u8]| block.starts_with(&IN_FLIGHT.to_le_bytes()) && is_closed(block);
    let mut keys: Vec<Key> = blocks
        .filter(|block| in_flight(block))
        .filter_map(|block| block[4..].first_chunk().copied())
        .collect();
    // However many threads had it at once, one process died of it.
    keys.sort_unstable();
    keys.dedup();
    Some(Left { keys, name, _locked: fd })
}
