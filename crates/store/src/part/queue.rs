//! What the threads of the program and the writer share: the queues, the tallies, and the signals between
//! them.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, OnceLock, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_queue::{ArrayQueue, SegQueue};

use crate::base::memory::QUEUED;
use crate::base::util::lock;
use crate::forks as fork;
use crate::format::record::Key;
use crate::part::tallies::Tallies;
use crate::part::threads::{HelperThread, WriterThread};
use crate::reports::model::{RunReport, StoreReport};
use crate::segment::append::{Payload, Slot};
use crate::upkeep::work::ModulesOf;

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
pub(crate) struct Haste {
    /// How long it may take to open a part. A program opens two or three.
    pub(crate) opening: Duration,
    /// Parts are opened by a thread of ours, which the program waits for so long, in all, and not by who asks for them.
    pub(crate) beside: bool,
    /// How long it may take, after a miss, to look for what others have written or for what an index does not say.
    pub(crate) look: Duration,
    /// How long it may take, in all, to close the stash or to leave with the stash open.
    pub(crate) end: Duration,
    /// How long who closes the stash waits after that for the helper, which has been told to stop.
    pub(crate) helper: Duration,
}

/// How long a program waits at its end, at most, where the environment says nothing else.
pub const END: Duration = Duration::from_millis(50);

impl Haste {
    /// What a program gets.
    pub(crate) const PROGRAM: Haste = Haste {
        opening: Duration::from_millis(15),
        beside: true,
        look: Duration::from_millis(5),
        end: END,
        helper: Duration::ZERO,
    };

    /// For who has nothing better to do.
    pub(crate) const NONE: Haste = Haste {
        opening: Duration::from_secs(3600),
        beside: false,
        look: Duration::from_secs(3600),
        end: Duration::from_secs(3600),
        helper: Duration::from_secs(3600),
    };
}

/// Who makes this process's report.
pub(crate) type Reporter = Arc<dyn Fn(StoreReport) -> RunReport + Send + Sync>;

/// The first use of a key in this run, and the part whose artifact the driver has taken for it.
pub(crate) struct Use<P> {
    pub(crate) key: Key,
    pub(crate) taken_from: Option<Arc<P>>,
}

/// A record on its way to the disk.
pub(crate) struct Pending<P> {
    pub(crate) part: Arc<P>,
    pub(crate) slot: Slot,
    pub(crate) payload: Arc<Payload>,
    /// When it was queued; `None`: it has been held back, so that it is late anyway.
    pub(crate) since: Option<Instant>,
    /// Its part was not all read then, and what was read had no such record.
    pub(crate) unseen: bool,
}

/// Starts the writer.
pub(crate) type Start<P> = Box<dyn Fn(&Arc<Shared<P>>) -> Option<JoinHandle<()>> + Send + Sync>;

/// Whose records wait.
pub(crate) trait Destination {
    /// This record is not written.
    fn unwritten(&self, slot: Slot, payload: &Arc<Payload>);
}

/// How it went to wait for the writer.
pub(crate) enum Joined {
    /// There is none: nothing has called for one, the system refuses the thread, or it has died.
    Nobody,
    /// Everything is done.
    Ended,
    /// It is not done, and goes on by itself.
    GoesOn,
}

/// Shared by the stash, its parts (`P`) and its writer.
pub(crate) struct Shared<P> {
    pub(crate) tallies: Tallies,
    pub(crate) reporter: Mutex<Option<Reporter>>,
    /// For the writer, which starts when there is something to write.
    pub(crate) start: OnceLock<Start<P>>,
    pub(crate) writer: WriterThread,
    pub(crate) helper: HelperThread,
    pub(crate) haste: Haste,
    pub(crate) modules_of: OnceLock<ModulesOf>,
    /// How long the program has waited for parts to be opened, in microseconds.
    waited: AtomicU64,
    /// Every part that was opened.
    pub(crate) parts: Mutex<Vec<Weak<P>>>,
    /// The same once the stash is closed: the writer needs them for as long as it takes.
    kept: Mutex<Vec<Arc<P>>>,
    records: SegQueue<Pending<P>>,
    waiting_bytes: AtomicUsize,
    uses: OnceLock<ArrayQueue<Use<P>>>,
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
    /// The process is about to end with the stash open.
    leaving: AtomicBool,
    flushes_asked: AtomicU64,
    flushes_done: Mutex<u64>,
    /// The same as `flushes_done`, for who does not want to wait for the lock.
    flushed_up_to: AtomicU64,
    flushed: Condvar,
    opened: Instant,
    process: u32,
}

impl<P: Destination> Shared<P> {
    /// With nothing in it.
    pub(crate) fn new(haste: Haste) -> Arc<Shared<P>> {
        Arc::new(Shared {
            tallies: Tallies::default(),
            reporter: Mutex::new(None),
            start: OnceLock::new(),
            writer: WriterThread::default(),
            helper: HelperThread::default(),
            haste,
            modules_of: OnceLock::new(),
            waited: AtomicU64::new(0),
            parts: Mutex::default(),
            kept: Mutex::default(),
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
            leaving: AtomicBool::new(false),
            flushes_asked: AtomicU64::new(0),
            flushes_done: Mutex::new(0),
            flushed_up_to: AtomicU64::new(0),
            flushed: Condvar::new(),
            opened: Instant::now(),
            process: fork::here(),
        })
    }

    /// How long the program may wait for the next part. The first one leaves some of it for the next.
    pub(crate) fn left_for_opening(&self) -> Duration {
        let all = self.haste.opening;
        let left = all.saturating_sub(Duration::from_micros(self.waited.load(Ordering::Relaxed)));
        left.min(all * 2 / 3)
    }

    /// The program has waited so long for a part.
    pub(crate) fn spent_on_opening(&self, waited: Duration) {
        self.waited.fetch_add(waited.as_micros() as u64, Ordering::Relaxed);
    }

    /// Milliseconds since the stash was opened, plus one: never 0.
    pub(crate) fn now_ms(&self) -> u64 {
        self.opened.elapsed().as_millis() as u64 + 1
    }

    /// Whether this is a forked child of the process that opened the stash: there is no writer here, and locks
    /// may be held by threads that don't exist.
    pub(crate) fn is_inert(&self) -> bool {
        self.process != fork::now()
    }

    /// The process that opened the stash, in [`fork::now`].
    pub(crate) fn process(&self) -> u32 {
        self.process
    }

    /// Whether the stash is being closed.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    /// Whether the process is about to end with the stash open.
    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::SeqCst)
    }

    /// The parts that somebody holds.
    pub(crate) fn live_parts(&self) -> Vec<Arc<P>> {
        lock(&self.parts).iter().filter_map(Weak::upgrade).collect()
    }

    /// Whether somebody writes, or could be started to.
    pub(crate) fn is_open(&self) -> bool {
        !self.is_inert() && !self.is_closing() && !self.writer.has_failed()
    }

    /// Room in the queue for a payload of that length. False: full.
    pub(crate) fn reserve(&self, length: usize) -> bool {
        let cost = length + RECORD_OVERHEAD;
        let before = self.waiting_bytes.fetch_add(cost, Ordering::Relaxed);
        let fits = before + cost <= QUEUED;
        if !fits {
            self.waiting_bytes.fetch_sub(cost, Ordering::Relaxed);
        }
        fits
    }

    /// Queues a record for which there is room.
    pub(crate) fn push(&self, pending: Pending<P>) {
        self.records.push(pending);
    }

    /// The next record to write. Its room stays taken until [`Shared::release`].
    pub(crate) fn pop(&self) -> Option<Pending<P>> {
        self.records.pop()
    }

    /// Gives the room of a written payload back.
    pub(crate) fn release(&self, length: usize) {
        self.waiting_bytes.fetch_sub(length + RECORD_OVERHEAD, Ordering::Relaxed);
    }

    /// Records were queued: the writer also ends a shorter sleep.
    pub(crate) fn wake_for_records(self: &Arc<Self>) {
        self.wake();
        if self.dozing.load(Ordering::Relaxed) && self.dozing.swap(false, Ordering::Relaxed) {
            self.writer.unpark();
        }
        if self.writer.has_failed() || self.is_closing() && self.writer.is_gone() {
            self.discard();
        }
    }

    /// There is something to do: starts the writer, or wakes it where it sleeps for good.
    fn wake(self: &Arc<Self>) {
        self.start_writer();
        // With the writer's fence in `may_sleep`: either it sees what there is to do or we see that it sleeps.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed) {
            self.writer.unpark();
        }
    }

    /// There is something for the helper to do, which the writer starts.
    pub(crate) fn ask_for_help(self: &Arc<Self>) {
        self.asked_for_help.store(true, Ordering::Relaxed);
        // While the stash is being opened there is no writer yet; whoever opens it sees to that.
        if self.start.get().is_some() && self.is_open() {
            self.wake();
        }
    }

    /// The same for what has just failed, so many times in a row: the helper waits before it tries again.
    pub(crate) fn ask_for_help_later(self: &Arc<Self>, failures: u32) {
        let delay = RETRY_AFTER * (1 << failures.saturating_sub(1).min(RETRY_DOUBLINGS));
        self.retry_at.fetch_min(self.now_ms() + delay.as_millis() as u64, Ordering::Relaxed);
        if self.is_open() {
            // A writer that sleeps for good is to sleep until then.
            self.wake();
        }
    }

    /// How long it is until then; `None`: there is nothing to try again.
    pub(crate) fn until_retry(&self) -> Option<Duration> {
        let at = self.retry_at.load(Ordering::Relaxed);
        (at != u64::MAX).then(|| Duration::from_millis(at.saturating_sub(self.now_ms())))
    }

    /// Whether help was asked for since the last call, or it is time to try again.
    pub(crate) fn take_asked_for_help(&self) -> bool {
        let again = self.until_retry().is_some_and(|wait| wait.is_zero());
        if again {
            self.retry_at.store(u64::MAX, Ordering::Relaxed);
        }
        let asked = self.asked_for_help.load(Ordering::Relaxed);
        again | (asked && self.asked_for_help.swap(false, Ordering::Relaxed))
    }

    /// The writer or the helper has ended: wakes who waits for that.
    pub(crate) fn notify_ended(&self) {
        let _ending = lock(&self.ending);
        self.ended.notify_all();
    }

    /// Waits until `is_over` says true, for at most so long.
    pub(crate) fn await_end(&self, limit: Duration, is_over: impl Fn() -> bool) {
        drop(self.ended.wait_timeout_while(lock(&self.ending), limit, |()| !is_over()));
    }

    /// For the last of whoever writes and closes the stash: nothing more comes of what was put meanwhile, and nobody
    /// asks for a report.
    pub(crate) fn discard_after_close(&self) {
        // What is queued holds its part, which would never be freed.
        self.discard();
        // Parts may outlive the stash; what the program's closure holds must not. Neither is dropped under the lock.
        let reporter = lock(&self.reporter).take();
        let kept = std::mem::take(&mut *lock(&self.kept));
        drop((reporter, kept));
    }

    /// Nobody will write what is queued: counts it as dropped.
    pub(crate) fn discard(&self) {
        while self.pop_use().is_some() {
            self.tallies.dropped(1);
        }
        while let Some(pending) = self.pop() {
            pending.part.unwritten(pending.slot, &pending.payload);
            self.release(pending.payload.0.len());
            self.tallies.dropped(1);
        }
    }

    /// Called by the writer before it sleeps until somebody wakes it. False: there is something to do.
    pub(crate) fn may_sleep(&self) -> bool {
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
    pub(crate) fn may_doze(&self) -> bool {
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
    pub(crate) fn set_awake(&self) {
        self.asleep.store(false, Ordering::Relaxed);
        self.dozing.store(false, Ordering::Relaxed);
    }

    /// Notes a use; a writer that does not sleep for good finds it by itself. False: the ring is full.
    pub(crate) fn push_use(self: &Arc<Self>, noted: Use<P>) -> bool {
        if !self.is_open() {
            return false;
        }
        let queued = self.uses.get_or_init(|| ArrayQueue::new(QUEUE_USES)).push(noted).is_ok();
        self.wake();
        queued
    }

    /// The next noted use.
    pub(crate) fn pop_use(&self) -> Option<Use<P>> {
        self.uses.get()?.pop()
    }

    /// The report has changed.
    pub(crate) fn touch(self: &Arc<Self>) {
        if !self.touched.load(Ordering::Relaxed) && self.is_open() {
            self.touched.store(true, Ordering::Release);
            self.wake();
        }
    }

    /// Whether the report has changed since the last call.
    pub(crate) fn take_touched(&self) -> bool {
        self.touched.load(Ordering::Relaxed) && self.touched.swap(false, Ordering::Acquire)
    }

    /// Whether nothing waits for the writer.
    fn is_drained(&self) -> bool {
        let uses = self.uses.get().is_none_or(ArrayQueue::is_empty);
        self.waiting_bytes.load(Ordering::Relaxed) == 0 && uses && !self.touched.load(Ordering::Relaxed)
    }

    fn start_writer(self: &Arc<Self>) {
        if let Some(start) = self.start.get().filter(|_| self.writer.is_not_started() && !self.is_inert()) {
            self.writer.start(|| start(self));
        }
    }

    /// Waits for the end of the writer and of the helper, for as long as the haste of the stash allows; where that does
    /// not come they go on by themselves, as the process does.
    pub(crate) fn join(&self) -> Joined {
        let Some(handle) = self.writer.take_to_join() else { return Joined::Nobody };
        // A reporter that holds the last reference to the stash would have the writer wait for itself.
        if self.writer.is_me() {
            return Joined::GoesOn;
        }
        self.await_end(self.haste.end, || self.writer.has_ended());
        self.await_end(self.haste.helper, || !self.helper.is_busy());
        self.helper.join();
        if !self.writer.has_ended() {
            return Joined::GoesOn;
        }
        // A panic was caught inside.
        let _ = handle.join();
        if self.writer.has_failed() { Joined::Nobody } else { Joined::Ended }
    }

    /// Asks the writer to write everything, and waits for it; at most `limit`. False: it did not come to that.
    pub(crate) fn flush(self: &Arc<Self>, limit: Duration) -> bool {
        if !self.is_open() || self.is_drained() && !self.writer.is_running() {
            return false;
        }
        self.flush_in_any_case(limit)
    }

    /// The process is about to end in order, with the stash open: the writer is told so, and then asked to write everything
    /// and the report. Waits for that as long as closing would. False: there is no writer. Where there is none yet it
    /// is started only if `called_for`.
    pub(crate) fn leave(self: &Arc<Self>, called_for: bool) -> bool {
        self.leaving.store(true, Ordering::SeqCst);
        if self.is_open() && (called_for || !self.writer.is_not_started()) {
            self.flush_in_any_case(self.haste.end);
        }
        !self.writer.has_failed()
    }

    fn flush_in_any_case(self: &Arc<Self>, limit: Duration) -> bool {
        self.start_writer();
        let mine = self.flushes_asked.fetch_add(1, Ordering::SeqCst) + 1;
        self.writer.unpark();
        // Where the writer needs no longer than it takes to fall asleep and be woken, that is spared.
        let began = Instant::now();
        while self.flushed_up_to.load(Ordering::Acquire) < mine && began.elapsed() < limit.min(AWAKE) {
            std::thread::yield_now();
        }
        let done = lock(&self.flushes_done);
        let unfinished = |done: &mut u64| *done < mine && !self.writer.has_failed();
        let waited = self.flushed.wait_timeout_while(done, limit, unfinished);
        waited.is_ok_and(|(done, _)| *done >= mine)
    }

    /// The number of the latest flush that was asked for.
    pub(crate) fn flush_asked(&self) -> u64 {
        self.flushes_asked.load(Ordering::SeqCst)
    }

    /// Whether somebody waits for flush number `asked`.
    pub(crate) fn flush_is_open(&self, asked: u64) -> bool {
        *lock(&self.flushes_done) < asked
    }

    /// Everything that was queued before flush number `asked` is on disk.
    pub(crate) fn flush_done(&self, asked: u64) {
        let mut done = lock(&self.flushes_done);
        *done = (*done).max(asked);
        self.flushed_up_to.store(*done, Ordering::Release);
        self.flushed.notify_all();
    }

    /// No more records are taken; the writer does what is left to do, and ends. Where there is none yet it is started only
    /// if `called_for`.
    pub(crate) fn close(self: &Arc<Self>, called_for: bool) {
        *lock(&self.kept) = self.live_parts();
        self.closing.store(true, Ordering::SeqCst);
        if called_for {
            self.start_writer();
        }
        self.writer.unpark();
    }
}
