//! The guard file. A process that has a driver compile, or gives unverified artifacts to one, has one until it ends in
//! an orderly way. A pipeline is marked in it while the driver compiles it. An unverified artifact is marked while the
//! driver looks at it only after a process died that gave artifacts to a driver, so that the next process knows what
//! was in flight if this one dies too. docs/format.md describes the bytes.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::format::bytes::{close_block, is_closed, put_u32};
use vkstash_host::descriptor::Descriptor;
use vkstash_host::disk::errors::FileError;
use vkstash_host::disk::folder::{Folder, read_at, write_all_at};
use vkstash_host::disk::{locks, ops as disk};
use vkstash_host::sort;
use vkstash_host::timer::Timer;
use vkstash_host::util::random;
use vkstash_model::record::{Key, WORKERS};

const MAGIC: [u8; 8] = *b"\x89VKG\r\n\x1a\n";
const VERSION: u32 = 2;
/// The version whose slots have artifacts and calls of workers only, both as [`ARTIFACT`].
const WITHOUT_COMPILES: u32 = 1;
/// Length of the header and of each slot, the place of one mark.
const BLOCK: usize = 64;
/// Number of calls that can be marked at the same time. Further ones are not marked.
const SLOTS: u32 = 64;
/// The header's flag of a process that gives unverified artifacts to a driver, or has workers.
const GIVES_ARTIFACTS: u32 = 1;
/// The kind of a mark in a slot: of an artifact, of a call of a worker, or of a compile.
const ARTIFACT: u32 = 1;
const WORKER: u32 = 2;
const COMPILE: u32 = 3;
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
    /// The time that a thread of the program may wait for a mark.
    patience: Duration,
    /// Creating the file, or a mark, took longer than `patience`: threads of the program do not write to the file any
    /// more.
    slow: AtomicBool,
    removed: AtomicBool,
    /// Whether the header has [`GIVES_ARTIFACTS`].
    gives_artifacts: AtomicBool,
    process: u32,
}

/// A mark would keep a thread of the program waiting.
#[derive(Debug)]
pub(crate) struct TooSlow;

/// Work of a driver, which a slot marks while it lasts.
#[derive(Clone, Copy)]
pub(crate) enum Work<'a> {
    /// The driver looks at the artifact of this key.
    Artifact(&'a Key),
    /// The driver runs a call of a worker of background work. Workers had made this number of calls before.
    Worker(u32),
    /// The driver compiles the pipeline of this key, which has these VkShaderStageFlags.
    Compile(&'a Key, u32),
}

/// The place of a mark.
pub(crate) struct Slot(u32);

impl CrashGuard {
    /// For the writer: creates the file, however long that takes. `process` is the caller's number
    /// ([`vkstash_host::forks::now`]): a forked child writes nothing to it. A program's thread may wait for a mark as
    /// long as `patience`.
    pub(crate) fn create(
        folder: &Arc<Folder>,
        process: u32,
        patience: Duration,
        gives_artifacts: bool,
    ) -> io::Result<CrashGuard> {
        let timer = Timer::of(patience);
        let name = format!("{:08x}-{:016x}{SUFFIX}", std::process::id(), random());
        let fd = folder.create_locked(&name)?;
        if let Err((_, error)) = write_all_at(&fd, &head(gives_artifacts), 0) {
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
            gives_artifacts: AtomicBool::new(gives_artifacts),
            process,
        })
    }

    /// Whether the file says that this process gives unverified artifacts to a driver.
    pub(crate) fn says_artifacts(&self) -> bool {
        self.gives_artifacts.load(Ordering::Acquire)
    }

    /// For the writer: has the file say so. If that fails the next process marks no artifacts, as after no death.
    pub(crate) fn say_artifacts(&self) {
        if !self.says_artifacts() {
            let _ = write_all_at(&self.fd, &head(true), 0);
            self.gives_artifacts.store(true, Ordering::Release);
        }
    }

    /// The process that created it.
    pub(crate) fn process(&self) -> u32 {
        self.process
    }

    /// Marks the driver's work with one positioned write. `None`: there is no free slot, or the write fails. If the
    /// disk is slow nothing is written. A disk that becomes slow is waited for once.
    pub(crate) fn enter(&self, work: Work<'_>) -> Result<Option<Slot>, TooSlow> {
        if self.is_slow() {
            return Err(TooSlow);
        }
        Ok(self.mark(work))
    }

    fn mark(&self, work: Work<'_>) -> Option<Slot> {
        let (kind, key, number) = match work {
            Work::Artifact(key) => (ARTIFACT, key, 0),
            Work::Worker(calls) => (WORKER, &WORKERS, calls),
            Work::Compile(key, stages) => (COMPILE, key, stages),
        };
        let claimed = self.taken.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |taken| {
            (taken != u64::MAX).then(|| taken | 1 << taken.trailing_ones())
        });
        let slot = claimed.ok()?.trailing_ones();
        let mut block = [0; BLOCK];
        put_u32(&mut block, 0, kind);
        block[4..36].copy_from_slice(key);
        put_u32(&mut block, 36, number);
        close_block(&mut block);
        if self.write_in_time(slot, &block).is_err() {
            self.leave(&Slot(slot));
            return None;
        }
        Some(Slot(slot))
    }

    /// The work is done: clears its mark. On a slow disk the writer is to clear it.
    pub(crate) fn leave(&self, slot: &Slot) {
        if self.is_slow() {
            self.to_clear.fetch_or(1 << slot.0, Ordering::AcqRel);
        } else {
            self.clear(slot.0, CrashGuard::write_in_time);
        }
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
        // If clearing fails and the process dies, the next process counts a death. A single death does not reach the
        // crash limit.
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

fn head(gives_artifacts: bool) -> [u8; BLOCK] {
    let mut head = [0; BLOCK];
    head[..8].copy_from_slice(&MAGIC);
    put_u32(&mut head, 8, VERSION);
    put_u32(&mut head, 12, SLOTS);
    put_u32(&mut head, 16, if gives_artifacts { GIVES_ARTIFACTS } else { 0 });
    close_block(&mut head);
    head
}

/// What a guard file says.
#[derive(Default)]
pub(crate) struct Marks {
    /// The process gave unverified artifacts to a driver, or had workers.
    pub(crate) gave_artifacts: bool,
    /// The artifacts that were in flight, and [`WORKERS`].
    pub(crate) keys: Vec<Key>,
    /// How many calls its workers had made before the ones in flight.
    pub(crate) worker_calls: u32,
    /// The pipelines that were compiled, with their VkShaderStageFlags.
    pub(crate) compiles: Vec<(Key, u32)>,
    /// When the last mark was made or cleared, in Unix milliseconds.
    pub(crate) unix_ms: u64,
}

impl Marks {
    /// Whether nothing was in flight that is not counted yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.compiles.is_empty()
    }

    /// Whether something of this key was.
    pub(crate) fn have(&self, key: &Key) -> bool {
        self.keys.contains(key) || self.compiles.iter().any(|(compiled, _)| compiled == key)
    }

    /// It is counted.
    pub(crate) fn forget(&mut self, key: &Key) {
        self.keys.retain(|other| other != key);
        self.compiles.retain(|(other, _)| other != key);
    }
}

/// The guard file of a dead process. Its lock is held until this is dropped, so that one process counts the crash.
pub(crate) struct StaleGuard {
    pub(crate) marks: Marks,
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

/// What the guard files of dead processes in this part say that nobody has counted. Nothing is removed.
pub(crate) fn uncounted(folder: &Folder) -> Vec<Marks> {
    let names = folder.names(SUFFIX).unwrap_or_default();
    let marks = |name: String| {
        let (fd, _) = folder.open_file(&name).ok()?;
        if locks::is_locked(&fd) { None } else { read_marks(&fd) }
    };
    names.into_iter().filter_map(marks).collect()
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
        Err(FileError::PutOff) => Err(NotNow),
        Err(_) => Ok(None),
    }
}

fn read_open(fd: Descriptor, name: String) -> Option<StaleGuard> {
    // A locked file has a live process, or another process counts its crash.
    locks::take_alone(&fd).then_some(())?;
    Some(StaleGuard { marks: read_marks(&fd)?, name, _locked: fd })
}

fn read_marks(fd: &Descriptor) -> Option<Marks> {
    // A file without a name was counted by another process after it was opened here.
    let stat = disk::fstat(fd).ok().filter(|stat| stat.st_nlink > 0)?;
    let mut bytes = Vec::new();
    read_at(fd, &mut bytes, BLOCK * (1 + SLOTS as usize), 0).ok()?;
    let mut blocks = bytes.chunks_exact(BLOCK);
    let number = |block: &[u8], at: usize| -> u32 {
        block.get(at..).and_then(|rest| rest.first_chunk()).copied().map_or(0, u32::from_le_bytes)
    };
    let head = blocks.next().filter(|head| head.starts_with(&MAGIC) && is_closed(head))?;
    let gave_artifacts = match number(head, 8) {
        WITHOUT_COMPILES => true,
        VERSION => number(head, 16) & GIVES_ARTIFACTS != 0,
        _ => return None,
    };
    let unix_ms = u64::try_from(stat.st_mtime).unwrap_or(0).saturating_mul(1000);
    let mut marks = Marks { gave_artifacts, unix_ms, ..Marks::default() };
    for block in blocks.filter(|block| is_closed(block)) {
        let Some(key) = block[4..].first_chunk::<32>() else { continue };
        match number(block, 0) {
            ARTIFACT | WORKER => {
                marks.keys.push(*key);
                marks.worker_calls = marks.worker_calls.max(number(block, 36));
            }
            COMPILE => marks.compiles.push((*key, number(block, 36))),
            _ => {}
        }
    }
    // Several threads may have had the same in flight. One process died.
    sort::sort(&mut marks.keys);
    marks.keys.dedup();
    sort::by_key(&mut marks.compiles, |(key, _)| *key);
    marks.compiles.dedup_by_key(|(key, _)| *key);
    Some(marks)
}
