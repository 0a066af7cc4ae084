//! The guard file. A process that gives unverified artifacts to a driver has one until it ends in an orderly way. A
//! process that finds the file of a dead process marks every unverified artifact in its own file while the driver looks
//! at it, so that the next process knows what was in flight if this one dies too. Otherwise nothing is marked, which
//! costs no write. docs/format.md describes the bytes.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::base::descriptor::Descriptor;
use crate::base::sort;
use crate::base::timer::Timer;
use crate::base::util::random;
use crate::disk::folder::{Folder, read_at, write_all_at};
use crate::disk::{locks, ops as disk};
use crate::format::bytes::{close_block, is_closed, put_u32};
use crate::format::record::Key;
use crate::format::refusal::Refusal;

const MAGIC: [u8; 8] = *b"\x89VKG\r\n\x1a\n";
const VERSION: u32 = 1;
/// Length of the header and of each slot, the place of one mark.
const BLOCK: usize = 64;
/// Number of calls that can be marked at the same time. Further ones are not marked.
const SLOTS: u32 = 64;
const IN_FLIGHT: u32 = 1;
/// The end of a guard file's name.
const SUFFIX: &str = ".vkg";

/// The guard file of this process in one part, locked until the process ends.
pub(crate) struct CrashGuard {
    folder: Arc<Folder>,
    name: String,
    fd: Descriptor,
    /// One bit for each slot.
    taken: AtomicU64,
    /// Slots that the writer is to clear.
    to_clear: AtomicU64,
    /// A program's thread may wait so long for a mark.
    patience: Duration,
    /// Creating the file, or a mark, took longer: threads of the program write no more to it.
    slow: AtomicBool,
    removed: AtomicBool,
    process: u32,
}

/// A mark would keep a thread of the program waiting.
#[derive(Debug)]
pub(crate) struct TooSlow;

/// One artifact is marked in the file until this is dropped.
pub(crate) struct Mark<'a> {
    guard: &'a CrashGuard,
    slot: u32,
}

impl CrashGuard {
    /// For the writer: creates the file, however long that takes. `process` is the caller's [`crate::forks::now`]: a
    /// forked child writes nothing to it. A program's thread may wait for a mark as long as `patience`.
    pub(crate) fn create(folder: &Arc<Folder>, process: u32, patience: Duration) -> io::Result<CrashGuard> {
        let timer = Timer::of(patience);
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
        Ok(CrashGuard {
            folder: folder.clone(),
            name,
            fd,
            taken: AtomicU64::new(0),
            to_clear: AtomicU64::new(0),
            patience,
            slow: AtomicBool::new(timer.is_over()),
            removed: AtomicBool::new(false),
            process,
        })
    }

    /// The process that created it.
    pub(crate) fn process(&self) -> u32 {
        self.process
    }

    /// Marks an artifact with one positioned write, in a process whose workers of background work have made so many
    /// calls. `None`: there is no free slot, or the write fails. If the disk is slow nothing is written. A disk that
    /// becomes slow is waited for once.
    pub(crate) fn enter(&self, key: &Key, worker_calls: u32) -> Result<Option<Mark<'_>>, TooSlow> {
        if self.is_slow() {
            return Err(TooSlow);
        }
        Ok(self.mark(key, worker_calls))
    }

    fn mark(&self, key: &Key, worker_calls: u32) -> Option<Mark<'_>> {
        let claimed = self.taken.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |taken| {
            (taken != u64::MAX).then(|| taken | 1 << taken.trailing_ones())
        });
        let slot = claimed.ok()?.trailing_ones();
        let mark = Mark { guard: self, slot };
        let mut block = [0; BLOCK];
        put_u32(&mut block, 0, IN_FLIGHT);
        block[4..36].copy_from_slice(key);
        put_u32(&mut block, 36, worker_calls);
        close_block(&mut block);
        self.write_in_time(slot, &block).ok()?;
        Some(mark)
    }

    /// Whether threads of the program write no more to it.
    pub(crate) fn is_slow(&self) -> bool {
        self.slow.load(Ordering::Relaxed)
    }

    /// For a thread of the program.
    fn write_in_time(&self, slot: u32, block: &[u8; BLOCK]) -> io::Result<()> {
        let timer = Timer::of(self.patience);
        let written = self.write(slot, block);
        if timer.is_over() {
            self.slow.store(true, Ordering::Relaxed);
        }
        written
    }

    /// For the writer: clears the marks that the program's threads have left.
    pub(crate) fn clear_left(&self) {
        let mut left = self.to_clear.swap(0, Ordering::AcqRel);
        while left != 0 {
            self.clear(left.trailing_zeros(), CrashGuard::write);
            left &= left - 1;
        }
    }

    fn clear(&self, slot: u32, write: impl Fn(&CrashGuard, u32, &[u8; BLOCK]) -> io::Result<()>) {
        // If that fails and the process dies, the next one counts a death. It takes two.
        let _ = write(self, slot, &[0; BLOCK]);
        self.taken.fetch_and(!(1 << slot), Ordering::AcqRel);
    }

    fn write(&self, slot: u32, block: &[u8; BLOCK]) -> io::Result<()> {
        let offset = BLOCK as u64 * (1 + u64::from(slot));
        write_all_at(&self.fd, block, offset).map_err(|(_, error)| error)
    }

    /// Removes the file: the process ends in an orderly way.
    pub(crate) fn remove(&self) {
        if !self.removed.swap(true, Ordering::AcqRel) {
            // If that fails, the next process marks artifacts without need.
            let _ = self.folder.remove_file(&self.name);
        }
    }
}

impl Drop for Mark<'_> {
    fn drop(&mut self) {
        if self.guard.is_slow() {
            self.guard.to_clear.fetch_or(1 << self.slot, Ordering::AcqRel);
        } else {
            self.guard.clear(self.slot, CrashGuard::write_in_time);
        }
    }
}

/// The guard file of a dead process. Its lock is held until this is dropped, so that one process counts the crash.
pub(crate) struct StaleGuard {
    /// What was in flight.
    pub(crate) keys: Vec<Key>,
    /// How many calls its workers had made before the ones in flight.
    pub(crate) worker_calls: u32,
    name: String,
    _locked: Descriptor,
}

impl StaleGuard {
    /// Removes the file: its crash is counted.
    pub(crate) fn remove(&self, folder: &Folder) {
        // If that fails, the next process counts the crash again.
        let _ = folder.remove_file(&self.name);
    }
}

/// The guard files of dead processes in this part. `None`: they cannot be read for now, or `interrupted` says true.
pub(crate) fn stale_guards(folder: &Folder, interrupted: &dyn Fn() -> bool) -> Option<Vec<StaleGuard>> {
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

/// Removes the guard files of a process that has ended.
pub(crate) fn forgive(folder: &Folder, process: u32) {
    let begins = format!("{process:08x}-");
    let names = folder.names(SUFFIX).unwrap_or_default();
    for name in names.into_iter().filter(|name| name.starts_with(&begins)) {
        // A locked file is that of a live process, which has the number in another container.
        if folder.open_to_take(&name).is_ok_and(|fd| locks::take_alone(&fd)) {
            let _ = folder.remove_file(&name);
        }
    }
}

/// There is no descriptor or no memory to read the file.
struct NotNow;

fn read_left(folder: &Folder, name: String) -> Result<Option<StaleGuard>, NotNow> {
    match folder.open_to_take(&name) {
        Ok(fd) => Ok(read_open(fd, name)),
        Err(Refusal::PutOff) => Err(NotNow),
        Err(_) => Ok(None),
    }
}

fn read_open(fd: Descriptor, name: String) -> Option<StaleGuard> {
    // A locked file has a live process, or another process counts its crash.
    locks::take_alone(&fd).then_some(())?;
    // A file without a name was counted by another process after it was opened here.
    disk::fstat(&fd).ok().filter(|stat| stat.st_nlink > 0)?;
    let mut bytes = Vec::new();
    read_at(&fd, &mut bytes, BLOCK * (1 + SLOTS as usize), 0).ok()?;
    let mut blocks = bytes.chunks_exact(BLOCK);
    let head = blocks.next();
    if !head.is_some_and(|head| {
        head.starts_with(&MAGIC) && head[8..12] == VERSION.to_le_bytes() && is_closed(head)
    }) {
        // The file has another version, or its process died while it created it.
        return None;
    }
    let in_flight = |block: &[u8]| block.starts_with(&IN_FLIGHT.to_le_bytes()) && is_closed(block);
    let (mut keys, mut worker_calls) = (Vec::new(), 0);
    for block in blocks.filter(|block| in_flight(block)) {
        keys.extend(block[4..].first_chunk::<32>());
        let calls = block.get(36..).and_then(|rest| rest.first_chunk()).copied();
        worker_calls = worker_calls.max(calls.map_or(0, u32::from_le_bytes));
    }
    // Several threads may have had the same artifact in flight. One process died.
    sort::sort(&mut keys);
    keys.dedup();
    Some(StaleGuard { keys, worker_calls, name, _locked: fd })
}
