//! What the threads of the program and the writer share: the queues, the tallies, and the signals between
//! them.

use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crossbeam_queue::{ArrayQueue, SegQueue};

use super::index::{Payload, Slot};
use super::part::{Key, Part};
use super::refusal::Refusal;
use super::upkeep::{ModulesOf, Outcome};
use super::{helper, writer};
use crate::fork;
use crate::memory::QUEUED;
use crate::stats::{RunReport, StoreReport};

/// Uses that may wait for the writer.
const QUEUE_USES: usize = 4096;
/// How long who waits for a flush stays awake.
const AWAKE: Duration = Duration::from_micros(100);
/// How soon the helper tries again what it could not do; twice as long after each failure, ...
const RETRY_AFTER: Duration = Duration::from_millis(250);
/// ... so often.
const RETRY_DOUBLINGS: u32 = 7;
/// What a queued record costs beside its payload.
const RECORD_OVERHEAD: usize = 256;

/// How long threads of the program wait, at most, for what can be done without them.
#[derive(Clone, Copy)]
pub(super) struct Haste {
    /// While a part is opened. A program opens two or three.
    pub(super) opening: Duration,
    /// After a miss, for what others have written, or for what an index does not say.
    pub(super) look: Duration,
    /// When the stash is closed, for what is queued; ...
    pub(super) writes: Duration,
    /// ... for what else is due then, both from the moment on in which it is closed; ...
    pub(super) end: Duration,
    /// ... and after that for the helper, which has been told to stop.
    pub(super) helper: Duration,
}

/// How long a process waits in its end where the environment says nothing else.
const END: Duration = Duration::from_millis(50);

impl Haste {
    /// What a program gets.
    pub(super) const PROGRAM: Haste = Haste {
        opening: Duration::from_millis(15),
        look: Duration::from_millis(5),
        writes: END,
        end: END,
        helper: Duration::ZERO,
    };

    /// For who has nothing better to do.
    pub(super) const NONE: Haste = Haste {
        opening: Duration::from_secs(3600),
        look: Duration::from_secs(3600),
        writes: Duration::from_secs(3600),
        end: Duration::from_secs(3600),
        helper: Duration::from_secs(3600),
    };
}

/// Who makes this process's report.
pub(super) type Reporter = Arc<dyn Fn(StoreReport) -> RunReport + Send + Sync>;

/// The first use of a key in this run, and the part whose artifact the driver has taken for it.
pub(super) struct Use {
    pub(super) key: Key,
    pub(super) taken_from: Option<Arc<Part>>,
}

/// A record on its way to the disk.
pub(super) struct Pending {
    pub(super) part: Arc<Part>,
    pub(super) slot: Slot,
    pub(super) payload: Arc<Payload>,
    /// When it was queued.
    pub(super) since: Instant,
}

/// A random number, good enough to keep two names apart.
pub(super) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Milliseconds since the Unix epoch.
pub(crate) fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Locks, also after a panic elsewhere: what is behind these locks is whole at any time.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the store met so far.
#[derive(Default)]
pub(super) struct Tallies {
    refused: Mutex<BTreeMap<String, u64>>,
    write_errors: Mutex<BTreeMap<String, u64>>,
    damaged: AtomicU64,
    written_records: AtomicU64,
    written_bytes: AtomicU64,
    dropped: AtomicU64,
    upkeep: Mutex<Outcome>,
}

/// Adds one, and says whether it is the first of its kind: the log tells of each kind once.
fn count_one(tally: &Mutex<BTreeMap<String, u64>>, reason: String) -> bool {
    let mut tally = lock(tally);
    let seen = tally.entry(reason).or_default();
    *seen += 1;
    *seen == 1
}

impl Tallies {
    /// A file was refused.
    pub(super) fn refused(&self, refusal: &Refusal) {
        let reason = refusal.name();
        if !count_one(&self.refused, reason.to_owned()) {
            return;
        }
        match refusal {
            Refusal::PutOff => {
                tracing::debug!("a file of the stash cannot be read for now; that is done beside the program");
            }
            _ => tracing::warn!("a file of the stash is refused ({reason}); it is left alone"),
        }
    }

    /// A write failed.
    pub(super) fn write_error(&self, reason: String) {
        if count_one(&self.write_errors, reason.clone()) {
            tracing::warn!("the stash cannot be written ({reason}); what is made now may not be kept");
        }
    }

    /// Records did not match their checksums.
    pub(super) fn damaged(&self, count: u64) {
        if count > 0 && self.damaged.fetch_add(count, Ordering::Relaxed) == 0 {
            tracing::warn!("the stash holds damaged records; they are skipped");
        }
    }

    /// Something was written.
    pub(super) fn written(&self, records: usize, bytes: u64) {
        self.written_records.fetch_add(records as u64, Ordering::Relaxed);
        self.written_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Records or uses were dropped.
    pub(super) fn dropped(&self, count: u64) {
        self.dropped.fetch_add(count, Ordering::Relaxed);
    }

    /// What was evicted and merged.
    pub(super) fn tended(&self, outcome: Outcome) {
        *lock(&self.upkeep) = outcome;
    }

    /// All of it.
    pub(super) fn report(&self) -> StoreReport {
        let Outcome { evicted_records, evicted_bytes, written, freed, .. } = lock(&self.upkeep).clone();
        StoreReport {
            unusable: String::new(),
            refused: lock(&self.refused).clone(),
            damaged_records: self.damaged.load(Ordering::Relaxed),
            written_records: self.written_records.load(Ordering::Relaxed),
            written_bytes: self.written_bytes.load(Ordering::Relaxed),
            write_errors: lock(&self.write_errors).clone(),
            dropped: self.dropped.load(Ordering::Relaxed),
            evicted_bytes,
            evicted_records,
            compacted_bytes: written,
            reclaimed_bytes: freed.saturating_sub(written),
        }
    }
}

/// Shared by the stash, its parts and its writer.
pub(super) struct Shared {
    pub(super) tallies: Tallies,
    pub(super) reporter: Mutex<Option<Reporter>>,
    /// For the writer, which starts when there is something to write.
    pub(super) start: OnceLock<writer::Start>,
    pub(super) thread: writer::Handle,
    pub(super) helper: helper::Handle,
    pub(super) haste: Haste,
    pub(super) modules_of: OnceLock<ModulesOf>,
    /// Every part that was opened.
    pub(super) parts: Mutex<Vec<Weak<Part>>>,
    records: SegQueue<Pending>,
    waiting_bytes: AtomicUsize,
    uses: OnceLock<ArrayQueue<Use>>,
    touched: AtomicBool,
    /// There is something for the helper to do.
    asked_for_help: AtomicBool,
    /// In [`Shared::now_ms`]: when the helper tries again what it could not do; the greatest number where there is nothing.
    retry_at: AtomicU64,
    /// For who waits for the end of a thread.
    ending: Mutex<()>,
    ended: Condvar,
    /// The writer sleeps for a moment, out of which a record should wake it.
    dozing: AtomicBool,
    /// The writer sleeps so long that a record should wake it.
    asleep: AtomicBool,
    closing: AtomicBool,
    flushes_asked: AtomicU64,
    flushes_done: Mutex<u64>,
    /// The same as `flushes_done`, for who does not want to wait for the lock.
    flushed_up_to: AtomicU64,
    flushed: Condvar,
    opened: Instant,
    process: u32,
}

impl Shared {
    /// With nothing in it.
    pub(super) fn new(haste: Haste) -> Arc<Shared> {
        Arc::new(Shared {
            tallies: Tallies::default(),
            reporter: Mutex::new(None),
            start: OnceLock::new(),
            thread: writer::Handle::default(),
            helper: helper::Handle::default(),
            haste,
            modules_of: OnceLock::new(),
            parts: Mutex::default(),
            records: SegQueue::new(),
            waiting_bytes: AtomicUsize::new(0),
            uses: OnceLock::new(),
            touched: AtomicBool::new(false),
            asked_for_help: AtomicBool::new(false),
            retry_at: AtomicU64::new(u64::MAX),
            ending: Mutex::default(),
            ended: Condvar::new(),
            asleep: AtomicBool::new(false),
            dozing: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            flushes_asked: AtomicU64::new(0),
            flushes_done: Mutex::new(0),
            flushed_up_to: AtomicU64::new(0),
            flushed: Condvar::new(),
            opened: Instant::now(),
            process: fork::here(),
        })
    }

    /// Milliseconds since the stash was opened, plus one: never 0.
    pub(super) fn now_ms(&self) -> u64 {
        self.opened.elapsed().as_millis() as u64 + 1
    }

    /// Whether this is a forked child of the process that opened the stash: there is no writer here, and locks
    /// may be held by threads that don't exist.
    pub(super) fn is_inert(&self) -> bool {
        self.process != fork::now()
    }

    /// The process that opened the stash, in [`fork::now`].
    pub(super) fn process(&self) -> u32 {
        self.process
    }

    /// Whether the stash is being closed.
    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    /// Whether somebody writes, or could be started to.
    pub(super) fn is_open(&self) -> bool {
        !self.is_inert() && !self.is_closing() && !self.thread.has_failed()
    }

    /// Room in the queue for a payload of that length. False: full.
    pub(super) fn reserve(&self, length: usize) -> bool {
        let cost = length + RECORD_OVERHEAD;
        let before = self.waiting_bytes.fetch_add(cost, Ordering::Relaxed);
        let fits = before + cost <= QUEUED;
        if !fits {
            self.waiting_bytes.fetch_sub(cost, Ordering::Relaxed);
        }
        fits
    }

    /// Queues a record for which there is room.
    pub(super) fn push(&self, pending: Pending) {
        self.records.push(pending);
    }

    /// The next record to write. Its room stays taken until [`Shared::release`].
    pub(super) fn pop(&self) -> Option<Pending> {
        self.records.pop()
    }

    /// Gives the room of a written payload back.
    pub(super) fn release(&self, length: usize) {
        self.waiting_bytes.fetch_sub(length + RECORD_OVERHEAD, Ordering::Relaxed);
    }

    /// Records were queued: the writer also ends a shorter sleep.
    pub(super) fn wake_for_records(self: &Arc<Self>) {
        self.wake();
        if self.dozing.load(Ordering::Relaxed) && self.dozing.swap(false, Ordering::Relaxed) {
            self.thread.unpark();
        }
        if self.thread.has_failed() || self.is_closing() && self.thread.is_gone() {
            self.discard();
        }
    }

    /// There is something to do: starts the writer, or wakes it where it sleeps for good.
    fn wake(self: &Arc<Self>) {
        self.thread.start(self);
        // With the writer's fence in `may_sleep`: either it sees what there is to do or we see that it sleeps.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed) {
            self.thread.unpark();
        }
    }

    /// There is something for the helper to do, which the writer starts.
    pub(super) fn ask_for_help(self: &Arc<Self>) {
        self.asked_for_help.store(true, Ordering::Relaxed);
        // While the stash is being opened there is no writer yet; whoever opens it sees to that.
        if self.start.get().is_some() && self.is_open() {
            self.wake();
        }
    }

    /// The same for what has just failed, so many times in a row: the helper waits before it tries again.
    pub(super) fn ask_for_help_later(self: &Arc<Self>, failures: u32) {
        let delay = RETRY_AFTER * (1 << failures.saturating_sub(1).min(RETRY_DOUBLINGS));
        self.retry_at.fetch_min(self.now_ms() + delay.as_millis() as u64, Ordering::Relaxed);
        if self.is_open() {
            // A writer that sleeps for good is to sleep until then.
            self.wake();
        }
    }

    /// How long it is until then; `None`: there is nothing to try again.
    pub(super) fn until_retry(&self) -> Option<Duration> {
        let at = self.retry_at.load(Ordering::Relaxed);
        (at != u64::MAX).then(|| Duration::from_millis(at.saturating_sub(self.now_ms())))
    }

    /// Whether help was asked for since the last call, or it is time to try again.
    pub(super) fn take_asked_for_help(&self) -> bool {
        let again = self.until_retry().is_some_and(|wait| wait.is_zero());
        if again {
            self.retry_at.store(u64::MAX, Ordering::Relaxed);
        }
        let asked = self.asked_for_help.load(Ordering::Relaxed);
        again | (asked && self.asked_for_help.swap(false, Ordering::Relaxed))
    }

    /// The writer or the helper has ended, or the writer has written everything.
    pub(super) fn has_ended(&self) {
        let _ending = lock(&self.ending);
        self.ended.notify_all();
    }

    /// Waits until `is_over` says true, for at most so long.
    pub(super) fn await_end(&self, limit: Duration, is_over: impl Fn() -> bool) {
        drop(self.ended.wait_timeout_while(lock(&self.ending), limit, |()| !is_over()));
    }

    /// For the last of whoever writes and closes the stash: nothing more comes of what was put meanwhile, and nobody
    /// asks for a report.
    pub(super) fn is_closed(&self) {
        // What is queued holds its part, which would never be freed.
        self.discard();
        // Parts may outlive the stash; what the program's closure holds must not.
        *lock(&self.reporter) = None;
    }

    /// Nobody will write what is queued: counts it as dropped.
    pub(super) fn discard(&self) {
        while let Some(pending) = self.pop() {
            pending.part.index().unwritten(pending.slot, &pending.payload);
            self.release(pending.payload.0.len());
            self.tallies.dropped(1);
        }
    }

    /// Called by the writer before it sleeps until somebody wakes it. False: there is something to do.
    pub(super) fn may_sleep(&self) -> bool {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let noted =
            self.uses.get().is_some_and(|uses| !uses.is_empty()) || self.touched.load(Ordering::Relaxed);
        let asked = self.asked_for_help.load(Ordering::Relaxed)
            || self.is_closing()
            || self.flush_is_open(self.flush_asked());
        let idle = self.records.is_empty() && !noted && !asked;
        if !idle {
            self.asleep.store(false, Ordering::Relaxed);
        }
        idle
    }

    /// Called by the writer before a shorter sleep, out of which records alone wake it. False: there is something to do.
    pub(super) fn may_doze(&self) -> bool {
        self.dozing.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let asked = self.is_closing() || self.flush_is_open(self.flush_asked());
        let idle = self.records.is_empty() && !asked;
        if !idle {
            self.dozing.store(false, Ordering::Relaxed);
        }
        idle
    }

    /// Called by the writer after any sleep.
    pub(super) fn is_awake(&self) {
        self.asleep.store(false, Ordering::Relaxed);
        self.dozing.store(false, Ordering::Relaxed);
    }

    /// Notes a use; a writer that does not sleep for good finds it by itself. False: the ring is full.
    pub(super) fn push_use(self: &Arc<Self>, noted: Use) -> bool {
        if !self.is_open() {
            return false;
        }
        let queued = self.uses.get_or_init(|| ArrayQueue::new(QUEUE_USES)).push(noted).is_ok();
        self.wake();
        queued
    }

    /// The next noted use.
    pub(super) fn pop_use(&self) -> Option<Use> {
        self.uses.get()?.pop()
    }

    /// The report has changed.
    pub(super) fn touch(self: &Arc<Self>) {
        if !self.touched.load(Ordering::Relaxed) && self.is_open() {
            self.touched.store(true, Ordering::Release);
            self.wake();
        }
    }

    /// Whether the report has changed since the last call.
    pub(super) fn take_touched(&self) -> bool {
        self.touched.load(Ordering::Relaxed) && self.touched.swap(false, Ordering::Acquire)
    }

    /// Whether nothing waits for the writer.
    fn is_drained(&self) -> bool {
        let uses = self.uses.get().is_none_or(ArrayQueue::is_empty);
        self.waiting_bytes.load(Ordering::Relaxed) == 0 && uses && !self.touched.load(Ordering::Relaxed)
    }

    /// Asks the writer to write everything, and waits for it; at most `limit`. False: it did not come to that.
    pub(super) fn flush(self: &Arc<Self>, limit: Duration) -> bool {
        if !self.is_open() || self.is_drained() && !self.thread.is_running() {
            return false;
        }
        self.thread.start(self);
        let mine = self.flushes_asked.fetch_add(1, Ordering::SeqCst) + 1;
        self.thread.unpark();
        // Where the writer needs no longer than it takes to fall asleep and be woken, that is spared.
        let began = Instant::now();
        while self.flushed_up_to.load(Ordering::Acquire) < mine && began.elapsed() < limit.min(AWAKE) {
            std::thread::yield_now();
        }
        let done = lock(&self.flushes_done);
        let unfinished = |done: &mut u64| *done < mine && !self.thread.has_failed();
        let waited = self.flushed.wait_timeout_while(done, limit, unfinished);
        waited.is_ok_and(|(done, _)| *done >= mine)
    }

    /// The number of the latest flush that was asked for.
    pub(super) fn flush_asked(&self) -> u64 {
        self.flushes_asked.load(Ordering::SeqCst)
    }

    /// Whether somebody waits for flush number `asked`.
    pub(super) fn flush_is_open(&self, asked: u64) -> bool {
        *lock(&self.flushes_done) < asked
    }

    /// Everything that was queued before flush number `asked` is on disk.
    pub(super) fn flush_done(&self, asked: u64) {
        let mut done = lock(&self.flushes_done);
        *done = (*done).max(asked);
        self.flushed_up_to.store(*done, Ordering::Release);
        self.flushed.notify_all();
    }

    /// No more records are taken; the writer ends.
    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
        self.thread.unpark();
    }
}
