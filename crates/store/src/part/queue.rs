//! State that the threads of the program share with the writer and the helper: queues, counters, and the means to wake
//! each other.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_queue::{ArrayQueue, SegQueue};

use crate::maintenance::work::ModulesOf;
use crate::part::read_only::ReadOnlyPart;
use crate::part::tallies::Tallies;
use crate::part::threads::{HelperThread, WriterThread};
use crate::reports::model::{RunReport, StoreReport};
use crate::reports::timeline::Entry;
use crate::segment::append::{Payload, RecordId};
use crate::settings::ForProgram;
use vkstash_host::forks as fork;
use vkstash_host::once::OnceLock;
use vkstash_host::sync::{Condvar, Mutex};
use vkstash_model::budgets::QUEUED;
use vkstash_model::record::{Key, RunDevices};

/// The number of uses that may wait for the writer.
const QUEUE_USES: usize = 4096;
/// The number of entries that may wait for the writer, which puts them into the timeline.
const QUEUE_TIMELINE: usize = 2048;
/// A thread that waits for a flush polls for this long before it sleeps.
const AWAKE: Duration = Duration::from_micros(100);
/// The helper repeats a failed task after this time. Each failure doubles the time, ...
const RETRY_AFTER: Duration = Duration::from_millis(250);
/// ... at most this often.
const RETRY_DOUBLINGS: u32 = 7;
/// The shortest time between two moments at which a program waits for what is queued although it goes on.
const RESTS_EVERY: Duration = Duration::from_millis(250);
/// Memory that a queued record takes beside its payload.
const RECORD_OVERHEAD: usize = 256;

/// How long threads of the program wait at most.
#[derive(Clone, Copy)]
pub(crate) struct WaitLimits {
    /// Until all parts are open.
    pub(crate) opening: Duration,
    /// After a miss: for a refresh of the view, and for a scan in place of a damaged index.
    pub(crate) refresh: Duration,
    /// Until there is a guard file.
    pub(crate) guard: Duration,
    /// Until the stash is closed, or until it is flushed at the exit of the process.
    pub(crate) end: Duration,
    /// After that, until the helper has stopped.
    pub(crate) helper: Duration,
}

/// How long a program waits in all until its stash is open, if the environment does not say.
pub const OPENING: Duration = Duration::from_millis(15);
/// How long a program waits for the guard file of a part.
const GUARD: Duration = Duration::from_millis(15);
/// How long a program waits at its end if the environment does not say.
pub const END: Duration = Duration::from_millis(50);

impl WaitLimits {
    /// For a program.
    pub(crate) const PROGRAM: WaitLimits = WaitLimits {
        opening: OPENING,
        refresh: Duration::from_millis(5),
        guard: GUARD,
        end: END,
        helper: Duration::ZERO,
    };

    /// For a tool, which waits until everything is done.
    pub(crate) const UNLIMITED: WaitLimits = WaitLimits {
        opening: Duration::from_secs(3600),
        refresh: Duration::from_secs(3600),
        guard: Duration::from_secs(3600),
        end: Duration::from_secs(3600),
        helper: Duration::from_secs(3600),
    };
}

/// Makes the report of this process.
pub(crate) type Reporter = Arc<dyn Fn(StoreReport) -> RunReport + Send + Sync>;

/// The first use of a key by a device. `taken_from` is the part whose artifact the driver has taken.
pub(crate) struct Use<P> {
    pub(crate) key: Key,
    pub(crate) device: RunDevices,
    pub(crate) taken_from: Option<Arc<P>>,
}

impl<P> Use<P> {
    /// How many records it makes: the use, and that the artifact is verified.
    pub(crate) fn records(&self) -> u64 {
        1 + u64::from(self.taken_from.is_some())
    }
}

/// A record that waits for the writer.
pub(crate) struct Pending<P> {
    pub(crate) part: Arc<P>,
    pub(crate) id: RecordId,
    pub(crate) payload: Arc<Payload>,
    /// When the record was queued. `None`: the record was held back.
    pub(crate) since: Option<Instant>,
    /// The record was queued before all of its part was read, and what was read had no such record.
    pub(crate) unseen: bool,
}

/// Starts the writer's thread.
pub(crate) type Start<P> = Box<dyn Fn(&Arc<Shared<P>>) -> Option<JoinHandle<()>> + Send + Sync>;

/// Where queued records belong.
pub(crate) trait Destination {
    /// A record will not be written.
    fn unwritten(&self, id: RecordId, payload: &Arc<Payload>);
}

/// The outcome of waiting for the writer.
pub(crate) enum Joined {
    /// There is no writer: it was never needed, the system refuses the thread, or it panicked.
    Nobody,
    /// All the work is done.
    Ended,
    /// The work is not done, and continues after the stash is closed.
    GoesOn,
}

/// The state that the stash, its parts (`P`), the writer and the helper share.
pub(crate) struct Shared<P> {
    pub(crate) tallies: Tallies,
    pub(crate) reporter: Mutex<Option<Reporter>>,
    /// Starts the writer when there is something to write.
    pub(crate) start: OnceLock<Start<P>>,
    pub(crate) writer: WriterThread,
    pub(crate) helper: HelperThread,
    pub(crate) waits: WaitLimits,
    pub(crate) modules_of: OnceLock<ModulesOf>,
    /// The user's settings for this program, once they were read.
    pub(crate) said: OnceLock<ForProgram>,
    /// Time that the program has waited for parts to be opened, in microseconds.
    waited: AtomicU64,
    /// Time that the program has waited for parts of bases, which are only read, in microseconds.
    waited_for_read_only: AtomicU64,
    /// When the stash last came to rest and was written, in [`Shared::now_ms`]; 0: never.
    rested_at: AtomicU64,
    /// No device uses the stash.
    at_rest: AtomicBool,
    /// Time that the program has waited for the stash to be written at rest, in microseconds, since the last device was
    /// created.
    waited_at_rest: AtomicU64,
    rewrites: AtomicU64,
    /// All parts that were opened.
    pub(crate) parts: Mutex<Vec<Weak<P>>>,
    /// The live parts when the stash was closed: the writer may need them for longer than the program does.
    parts_at_close: Mutex<Vec<Arc<P>>>,
    /// Parts whose indexes the helper is to merge.
    unmerged: Mutex<Vec<Arc<ReadOnlyPart>>>,
    records: SegQueue<Pending<P>>,
    waiting_bytes: AtomicUsize,
    uses: OnceLock<ArrayQueue<Use<P>>>,
    timeline: SegQueue<Entry>,
    touched: AtomicBool,
    /// The writer is to seal the segments that it writes.
    seals: AtomicBool,
    /// The helper has something to do.
    asked_for_help: AtomicBool,
    /// When the helper repeats a failed task, in [`Shared::now_ms`]; the greatest number if there is none.
    retry_at: AtomicU64,
    /// A part wants a guard file, or has marks to clear.
    guards_asked: AtomicBool,
    /// With `guards_served`: waiting for a guard file.
    guards: Mutex<()>,
    guards_served: Condvar,
    /// With `ended`: waiting for the end of a thread.
    ending: Mutex<()>,
    ended: Condvar,
    /// The writer sleeps for a short time; a record must wake it.
    dozing: AtomicBool,
    closing: AtomicBool,
    /// The process exits with the stash open.
    leaving: AtomicBool,
    flushes_asked: AtomicU64,
    flushes_done: Mutex<u64>,
    /// A copy of `flushes_done` that is read without the lock.
    flushed_up_to: AtomicU64,
    flushed: Condvar,
    opened: Instant,
    process: u32,
}

impl<P: Destination> Shared<P> {
    /// With empty queues.
    pub(crate) fn new(waits: WaitLimits) -> Arc<Shared<P>> {
        Arc::new(Shared {
            tallies: Tallies::default(),
            reporter: Mutex::new(None),
            start: OnceLock::new(),
            writer: WriterThread::default(),
            helper: HelperThread::default(),
            waits,
            modules_of: OnceLock::new(),
            said: OnceLock::new(),
            waited: AtomicU64::new(0),
            waited_for_read_only: AtomicU64::new(0),
            rested_at: AtomicU64::new(0),
            at_rest: AtomicBool::new(false),
            waited_at_rest: AtomicU64::new(0),
            rewrites: AtomicU64::new(0),
            parts: Mutex::default(),
            parts_at_close: Mutex::default(),
            unmerged: Mutex::default(),
            records: SegQueue::new(),
            waiting_bytes: AtomicUsize::new(0),
            uses: OnceLock::new(),
            timeline: SegQueue::new(),
            touched: AtomicBool::new(false),
            seals: AtomicBool::new(false),
            asked_for_help: AtomicBool::new(false),
            retry_at: AtomicU64::new(u64::MAX),
            guards_asked: AtomicBool::new(false),
            guards: Mutex::default(),
            guards_served: Condvar::new(),
            ending: Mutex::default(),
            ended: Condvar::new(),
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

    /// How long the program may wait for the next part.
    pub(crate) fn left_for_opening(&self) -> Duration {
        let waited = Duration::from_micros(self.waited.load(Ordering::Relaxed));
        self.waits.opening.saturating_sub(waited)
    }

    /// Notes that somebody has waited for parts that are only read. Returns the sum.
    pub(crate) fn spent_on_read_only(&self, waited: Duration) -> Duration {
        let waited = u64::try_from(waited.as_micros()).unwrap_or(u64::MAX);
        let before = self.waited_for_read_only.fetch_add(waited, Ordering::Relaxed);
        Duration::from_micros(before.saturating_add(waited))
    }

    /// How often segments were rewritten that this process may have open.
    pub(crate) fn rewrites(&self) -> u64 {
        self.rewrites.load(Ordering::Acquire)
    }

    /// Segments were rewritten.
    pub(crate) fn note_rewrite(&self) {
        self.rewrites.fetch_add(1, Ordering::AcqRel);
    }

    /// Notes that the program has waited for a part.
    pub(crate) fn spent_on_opening(&self, waited: Duration) {
        self.waited.fetch_add(waited.as_micros() as u64, Ordering::Relaxed);
    }

    /// No device uses the stash any more: writes what is queued and the report, as when the stash is closed. The first
    /// time the segments are sealed, because most programs have one device. In the next moments nobody waits: a program
    /// that makes devices in turn would wait for each of them. What is written later is lost in the same cases as the
    /// records of a device that lives.
    pub(crate) fn rest(self: &Arc<Self>) {
        let rested_at = self.rested_at.load(Ordering::Relaxed);
        let is_recent = rested_at != 0 && self.now_ms() < rested_at + RESTS_EVERY.as_millis() as u64;
        if !is_recent {
            let began = Instant::now();
            let limit = self.left_for_end();
            let is_written = if rested_at == 0 { self.flush_and_seal(limit) } else { self.flush(limit) };
            if is_written {
                self.rested_at.store(self.now_ms(), Ordering::Relaxed);
            }
            self.waited_at_rest.fetch_add(began.elapsed().as_micros() as u64, Ordering::Relaxed);
        }
        // The parts that the next device needs may be others.
        self.waited.store(0, Ordering::Relaxed);
        self.waited_for_read_only.store(0, Ordering::Relaxed);
    }

    /// No device uses the stash, until [`Shared::wakes`].
    pub(crate) fn lies_down(&self) {
        self.at_rest.store(true, Ordering::Relaxed);
    }

    /// Another device uses the stash: the program may wait at its end anew.
    pub(crate) fn wakes(&self) {
        self.at_rest.store(false, Ordering::Relaxed);
        self.waited_at_rest.store(0, Ordering::Relaxed);
    }

    /// Whether no device uses the stash, which is kept for the next one.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.at_rest.load(Ordering::Relaxed)
    }

    /// How long the program may wait until the stash is closed: both ends share one limit.
    pub(crate) fn left_for_end(&self) -> Duration {
        let waited = Duration::from_micros(self.waited_at_rest.load(Ordering::Relaxed));
        self.waits.end.saturating_sub(waited)
    }

    /// Milliseconds since the stash was opened, plus one: never 0.
    pub(crate) fn now_ms(&self) -> u64 {
        self.opened.elapsed().as_millis() as u64 + 1
    }

    /// Whether this is a forked child of the process that opened the stash. A child has no writer, and threads that do
    /// not exist in it may hold locks.
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

    /// Whether the process exits with the stash open.
    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::SeqCst)
    }

    /// The parts that are in use.
    pub(crate) fn live_parts(&self) -> Vec<Arc<P>> {
        self.parts.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// Whether records are written: a writer runs or can be started.
    pub(crate) fn is_open(&self) -> bool {
        !self.is_inert() && !self.is_closing() && !self.writer.has_failed()
    }

    /// Reserves room in the queue for a payload of that length. False: the queue is full.
    pub(crate) fn reserve(&self, length: usize) -> bool {
        let cost = length + RECORD_OVERHEAD;
        let before = self.waiting_bytes.fetch_add(cost, Ordering::Relaxed);
        let fits = before + cost <= QUEUED;
        if !fits {
            self.waiting_bytes.fetch_sub(cost, Ordering::Relaxed);
        }
        fits
    }

    /// Queues a record whose room is reserved.
    pub(crate) fn push(&self, pending: Pending<P>) {
        self.records.push(pending);
    }

    /// The next record to write. Its room stays reserved until [`Shared::release`].
    pub(crate) fn pop(&self) -> Option<Pending<P>> {
        self.records.pop()
    }

    /// Frees the room of a payload.
    pub(crate) fn release(&self, length: usize) {
        self.waiting_bytes.fetch_sub(length + RECORD_OVERHEAD, Ordering::Relaxed);
    }

    /// A record was queued: starts or wakes the writer.
    pub(crate) fn wake_for_records(self: &Arc<Self>) {
        self.wake();
        if self.dozing.load(Ordering::Relaxed) && self.dozing.swap(false, Ordering::Relaxed) {
            self.wake_from_sleep();
        }
        if self.writer.has_failed() || self.is_closing() && self.writer.is_gone() {
            self.discard();
        }
    }

    /// Starts the writer, unless it runs.
    fn wake(self: &Arc<Self>) {
        // Pairs with the fence in `is_wanted`: a writer that comes to rest sees what was stored before, or this thread
        // sees that it rests.
        fence(Ordering::SeqCst);
        self.start_writer();
    }

    /// Ends a sleep of the writer. Not in a forked child, where a thread that does not exist may hold the lock.
    pub(crate) fn wake_from_sleep(&self) {
        if !self.is_inert() {
            self.writer.wake();
        }
    }

    /// The helper has something to do. The writer starts the helper.
    pub(crate) fn ask_for_help(self: &Arc<Self>) {
        self.asked_for_help.store(true, Ordering::Relaxed);
        // While the stash is being opened there is no writer to wake; `Stash::open` asks again.
        if self.start.get().is_some() && self.is_open() {
            self.wake();
        }
    }

    /// The writer makes guard files as soon as it runs.
    pub(crate) fn foresee_guards(&self) {
        self.guards_asked.store(true, Ordering::Release);
    }

    /// Has the writer make guard files, and clear marks.
    pub(crate) fn ask_for_guards(self: &Arc<Self>) {
        self.foresee_guards();
        if self.is_open() {
            self.wake();
            // From a sleep of any kind.
            self.wake_from_sleep();
        }
        if self.writer.has_failed() {
            self.guards_are_served();
        }
    }

    /// Whether guard files were asked for since the last call.
    pub(crate) fn take_guards_asked(&self) -> bool {
        self.guards_asked.load(Ordering::Relaxed) && self.guards_asked.swap(false, Ordering::AcqRel)
    }

    /// For the writer: they are made.
    pub(crate) fn guards_are_served(&self) {
        let _guards = self.guards.lock();
        self.guards_served.notify_all();
    }

    /// Waits until `is_over` says true, at most for `limit`.
    pub(crate) fn await_guards(&self, limit: Duration, is_over: impl Fn() -> bool) {
        // Sleeping and being woken takes as long as the writer usually does.
        let began = Instant::now();
        while began.elapsed() < limit.min(AWAKE) {
            if is_over() {
                return;
            }
            std::thread::yield_now();
        }
        if !limit.is_zero() {
            drop(self.guards_served.wait_timeout_while(self.guards.lock(), limit, |()| !is_over()));
        }
    }

    /// The helper is to merge the indexes of these parts.
    pub(crate) fn merge_later(self: &Arc<Self>, parts: impl Iterator<Item = Arc<ReadOnlyPart>>) {
        let mut unmerged = self.unmerged.lock();
        unmerged.extend(parts);
        let is_asked = !unmerged.is_empty();
        drop(unmerged);
        if is_asked {
            self.ask_for_help();
        }
    }

    /// For the helper.
    pub(crate) fn merge(&self, interrupted: &dyn Fn() -> bool) {
        for part in std::mem::take(&mut *self.unmerged.lock()) {
            part.merge(interrupted);
        }
    }

    /// The helper's task has failed, this many times in a row. It is repeated later.
    pub(crate) fn ask_for_help_later(self: &Arc<Self>, failures: u32) {
        let delay = RETRY_AFTER * (1 << failures.saturating_sub(1).min(RETRY_DOUBLINGS));
        self.retry_at.fetch_min(self.now_ms() + delay.as_millis() as u64, Ordering::Relaxed);
        if self.is_open() {
            // The writer must not sleep for longer.
            self.wake();
        }
    }

    /// Time until the failed task is repeated. `None`: there is none.
    pub(crate) fn until_retry(&self) -> Option<Duration> {
        let at = self.retry_at.load(Ordering::Relaxed);
        (at != u64::MAX).then(|| Duration::from_millis(at.saturating_sub(self.now_ms())))
    }

    /// Whether the helper was asked for since the last call, or a failed task is due.
    pub(crate) fn take_asked_for_help(&self) -> bool {
        let again = self.until_retry().is_some_and(|wait| wait.is_zero());
        if again {
            self.retry_at.store(u64::MAX, Ordering::Relaxed);
        }
        let asked = self.asked_for_help.load(Ordering::Relaxed);
        again | (asked && self.asked_for_help.swap(false, Ordering::Relaxed))
    }

    /// The writer or the helper has ended.
    pub(crate) fn notify_ended(&self) {
        let _ending = self.ending.lock();
        self.ended.notify_all();
    }

    /// Waits until `is_over` says true, at most for `limit`.
    pub(crate) fn await_end(&self, limit: Duration, is_over: impl Fn() -> bool) {
        drop(self.ended.wait_timeout_while(self.ending.lock(), limit, |()| !is_over()));
    }

    /// For the last user of a closed stash, which is the writer or the thread that closes it: drops what was queued too
    /// late, the reporter and the parts.
    pub(crate) fn discard_after_close(&self) {
        // A queued record holds its part, which holds this.
        self.discard();
        // The program may keep a part for longer; the reporter's closure must not live on with it. Dropping either may
        // run other code, so no lock is held.
        let reporter = self.reporter.lock().take();
        let kept = std::mem::take(&mut *self.parts_at_close.lock());
        drop((reporter, kept));
    }

    /// Drops and counts everything in the queues.
    pub(crate) fn discard(&self) {
        while let Some(noted) = self.pop_use() {
            self.tallies.dropped(noted.records());
        }
        while let Some(pending) = self.pop() {
            pending.part.unwritten(pending.id, &pending.payload);
            self.release(pending.payload.0.len());
            self.tallies.dropped(1);
        }
    }

    /// For the writer that has come to rest: whether there is something to do.
    pub(crate) fn is_wanted(&self) -> bool {
        fence(Ordering::SeqCst);
        let noted =
            self.uses.get().is_some_and(|uses| !uses.is_empty()) || self.touched.load(Ordering::Relaxed);
        let asked = self.asked_for_help.load(Ordering::Relaxed)
            || self.guards_asked.load(Ordering::Relaxed)
            || self.is_closing()
            || self.flush_is_open(self.flush_asked());
        !self.records.is_empty() || noted || asked
    }

    /// For the writer, before a short sleep. False: there is something to do.
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

    /// For the writer, after a sleep.
    pub(crate) fn set_awake(&self) {
        self.dozing.store(false, Ordering::Relaxed);
    }

    /// Queues a use. A writer in a short sleep is not woken. False: the queue is full.
    pub(crate) fn push_use(self: &Arc<Self>, noted: Use<P>) -> bool {
        if !self.is_open() {
            return false;
        }
        let queued = self.uses.get_or_init(|| ArrayQueue::new(QUEUE_USES)).push(noted).is_ok();
        self.wake();
        queued
    }

    /// The next use.
    pub(crate) fn pop_use(&self) -> Option<Use<P>> {
        self.uses.get()?.pop()
    }

    /// Queues an entry for the timeline, which goes without those that the writer comes too late for. A
    /// program that creates pipelines counts something, and so the writer comes.
    pub(crate) fn push_timeline(&self, entry: Entry) {
        // Of room for all at once, its first use would touch each page.
        if self.is_open() && self.timeline.len() < QUEUE_TIMELINE {
            self.timeline.push(entry);
        }
    }

    /// The next entry for the timeline.
    pub(crate) fn pop_timeline(&self) -> Option<Entry> {
        self.timeline.pop()
    }

    /// The counters of the report have changed.
    pub(crate) fn touch(self: &Arc<Self>) {
        if !self.touched.load(Ordering::Relaxed) && self.is_open() {
            self.touched.store(true, Ordering::Release);
            self.wake();
        }
    }

    /// Whether the counters have changed since the last call.
    pub(crate) fn take_touched(&self) -> bool {
        self.touched.load(Ordering::Relaxed) && self.touched.swap(false, Ordering::Acquire)
    }

    /// Whether the writer has nothing to do.
    fn is_drained(&self) -> bool {
        let uses = self.uses.get().is_none_or(ArrayQueue::is_empty);
        self.waiting_bytes.load(Ordering::Relaxed) == 0 && uses && !self.touched.load(Ordering::Relaxed)
    }

    fn start_writer(self: &Arc<Self>) {
        let may_start = || (self.writer.is_not_started() || self.writer.is_resting()) && !self.is_inert();
        if let Some(start) = self.start.get().filter(|_| may_start()) {
            self.writer.start(|| start(self));
        }
    }

    /// Waits for the end of the writer and of the helper, within the limits of the stash. After that they go on,
    /// detached.
    pub(crate) fn join(&self) -> Joined {
        // If the reporter holds the last reference to the stash, the writer drops it and must not wait for itself.
        if self.writer.is_me() {
            return Joined::GoesOn;
        }
        let Some(handle) = self.writer.take_to_join() else { return Joined::Nobody };
        self.await_end(self.left_for_end(), || self.writer.has_ended());
        self.await_end(self.waits.helper, || !self.helper.is_busy());
        self.helper.join();
        if !self.writer.has_ended() {
            return Joined::GoesOn;
        }
        // The thread's body catches panics.
        let _ = handle.join();
        if self.writer.has_failed() { Joined::Nobody } else { Joined::Ended }
    }

    /// Has the writer write everything that is queued, and waits for that at most for `limit`. False: it is not known
    /// to be written.
    pub(crate) fn flush(self: &Arc<Self>, limit: Duration) -> bool {
        self.has_to_flush() && self.flush_in_any_case(limit)
    }

    fn has_to_flush(&self) -> bool {
        self.is_open() && (!self.is_drained() || self.writer.is_in_use())
    }

    /// [`Shared::flush`], and the writer seals what it has written to, as at its end. What it writes afterwards goes to
    /// new segments.
    pub(crate) fn flush_and_seal(self: &Arc<Self>, limit: Duration) -> bool {
        // Without a writer there is nothing to seal; a later one writes other segments.
        if !self.has_to_flush() {
            return false;
        }
        // Before the flush, so that the writer that answers it has seen this.
        self.seals.store(true, Ordering::SeqCst);
        self.flush_in_any_case(limit)
    }

    /// Whether the writer is to seal its segments.
    pub(crate) fn take_seals(&self) -> bool {
        self.seals.load(Ordering::Relaxed) && self.seals.swap(false, Ordering::SeqCst)
    }

    /// The process exits with the stash open: has the writer remove the guard files and write everything, and waits for
    /// that as long as for closing. A writer that was not needed yet is started only if `called_for`. False: there can
    /// be no writer.
    pub(crate) fn leave(self: &Arc<Self>, called_for: bool) -> bool {
        self.leaving.store(true, Ordering::SeqCst);
        if self.is_open() && (called_for || !self.writer.is_not_started()) {
            self.flush_in_any_case(self.left_for_end());
        }
        !self.writer.has_failed()
    }

    fn flush_in_any_case(self: &Arc<Self>, limit: Duration) -> bool {
        self.start_writer();
        let mine = self.flushes_asked.fetch_add(1, Ordering::SeqCst) + 1;
        self.wake_from_sleep();
        // Sleeping and being woken takes as long as the writer usually does.
        let began = Instant::now();
        while self.flushed_up_to.load(Ordering::Acquire) < mine && began.elapsed() < limit.min(AWAKE) {
            std::thread::yield_now();
        }
        let done = self.flushes_done.lock();
        let unfinished = |done: &mut u64| *done < mine && !self.writer.has_failed();
        *self.flushed.wait_timeout_while(done, limit, unfinished) >= mine
    }

    /// The number of the latest flush.
    pub(crate) fn flush_asked(&self) -> u64 {
        self.flushes_asked.load(Ordering::SeqCst)
    }

    /// Whether a thread waits for flush number `asked`.
    pub(crate) fn flush_is_open(&self, asked: u64) -> bool {
        *self.flushes_done.lock() < asked
    }

    /// Everything that was queued before flush number `asked` is written.
    pub(crate) fn flush_done(&self, asked: u64) {
        let mut done = self.flushes_done.lock();
        *done = (*done).max(asked);
        self.flushed_up_to.store(*done, Ordering::Release);
        self.flushed.notify_all();
    }

    /// Closes the queues: the writer does what is left to do, and ends. A writer that was not needed yet is started
    /// only if `called_for`.
    pub(crate) fn close(self: &Arc<Self>, called_for: bool) {
        *self.parts_at_close.lock() = self.live_parts();
        self.closing.store(true, Ordering::SeqCst);
        if called_for || self.writer.is_resting() {
            self.start_writer();
        }
        self.wake_from_sleep();
    }
}
