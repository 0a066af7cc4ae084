//! The gate before driver calls of workers.
//!
//! A worker must not be inside a driver when the process forks, because the child would inherit locks that nobody
//! releases, nor when the process ends, because the driver's exit handlers destroy what the call uses, nor while the
//! program creates or destroys an instance or a device: drivers have locks of the whole process, and take them in
//! another order there than in a call that creates pipelines (docs/process.md). For these the gate is closed. And a
//! worker should not begin a call while the program waits for one, because drivers serialise them.

use std::cell::{Cell, OnceCell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::faults;
use crate::live;
use crate::state::devices::device::Device;
use crate::state::process::held;
use vkstash_host::forks::PerProcess;
use vkstash_host::held::HeldInDriver;
use vkstash_host::once::OnceLock;
use vkstash_host::signals;

/// How long a worker waits in a row for the program's calls. Threads that always have one under way do not starve it.
pub(super) const YIELDS_FOR: Duration = Duration::from_millis(10);
/// How long a fork waits for the driver calls under way.
const FORK_WAITS: Duration = Duration::from_millis(50);
/// How long a call of the program's that must be alone waits for the driver calls under way. One that takes longer is
/// waited for only once ([`Place::OVERSTAYS`]).
pub(super) const CALL_LIMIT: Duration = Duration::from_secs(1);
/// Time between two looks of a waiting thread. Waiting threads are not woken, so that the program's calls cost nothing.
const LOOKS_EVERY: Duration = Duration::from_micros(250);

const SHARDS: usize = 16;

/// Creation calls of some threads, on cache lines of its own: how many have begun in the upper half, how many are under
/// way in the lower one.
#[repr(align(128))]
#[derive(Default)]
struct Shard(AtomicU64);

impl Shard {
    const UNDER_WAY: u64 = 1;
    const BEGUN: u64 = 1 << 32;

    fn under_way(&self) -> u32 {
        self.0.load(Ordering::SeqCst) as u32
    }

    fn begun(&self) -> u32 {
        (self.0.load(Ordering::SeqCst) >> 32) as u32
    }
}

/// Workers inside a driver at a time; more wait.
const PLACES: usize = 32;

/// Where a worker stands that is inside a driver.
#[derive(Default)]
struct Place(AtomicU32);

impl Place {
    const FREE: u32 = 0;
    /// The worker is in a driver: the thread that closes the gate waits for it.
    const INSIDE: u32 = 1;
    /// A thread has waited for the worker in vain, and no other does, except for the end of the process. Once the
    /// worker comes back, its device is left to the program.
    const OVERSTAYS: u32 = 2;

    fn take(&self) -> bool {
        self.0.compare_exchange(Place::FREE, Place::INSIDE, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    fn state(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }

    fn give_up(&self) {
        // The worker may have left meanwhile.
        let _ = self.0.compare_exchange(Place::INSIDE, Place::OVERSTAYS, Ordering::SeqCst, Ordering::SeqCst);
    }
}

/// The gate of a process, or of a test.
#[derive(Default)]
pub(super) struct Gate {
    places: [Place; PLACES],
    /// Creation calls of the program, by thread.
    calls: [Shard; SHARDS],
    workers: AtomicU32,
    /// How many keep it closed: forks, and calls of the program's that must be alone.
    closed: AtomicU32,
    ending: AtomicBool,
    /// A flag that says whether there are workers.
    hint: Option<&'static AtomicBool>,
    /// Driver calls since a library was loaded.
    made: AtomicU64,
    /// [`libraries_loaded`] when a worker last looked.
    loaded: AtomicU64,
    after_call: OnceLock<fn()>,
}

/// Between a task and those who must not take away what its driver calls use.
#[derive(Default)]
pub(super) struct Stop {
    /// The owner of the task goes away.
    asked: AtomicBool,
    /// Driver calls of the task under way.
    inside: AtomicU32,
}

impl Stop {
    /// Asks the task to end. A thread that sees afterwards that the task is not in a driver knows that it enters none
    /// any more.
    pub(super) fn ask(&self) {
        self.asked.store(true, Ordering::SeqCst);
    }

    fn is_asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }

    /// Whether the task is in a driver.
    pub(super) fn is_in_driver(&self) -> bool {
        self.inside.load(Ordering::SeqCst) > 0
    }
}

/// What a worker runs.
#[derive(Clone)]
struct Running {
    gate: Arc<Gate>,
    stop: Arc<Stop>,
    /// The program's calls are not waited for.
    is_urgent: bool,
}

/// Whether this process has workers. A forked child may find true here; it then finds no gate.
static HAS_WORKERS: AtomicBool = AtomicBool::new(false);
/// A forked child begins with a gate of its own.
static GATE: PerProcess<Arc<Gate>> = PerProcess::empty();

thread_local! {
    /// Driver calls of this thread under way.
    static INSIDE: Cell<u32> = const { Cell::new(0) };
    /// The place of this thread while it is in a driver.
    static PLACE: Cell<usize> = const { Cell::new(0) };
    /// Forks that this thread has under way, and for which it has closed the gate.
    static FORKING: Cell<u32> = const { Cell::new(0) };
    static RUNNING: RefCell<Option<Running>> = const { RefCell::new(None) };
    /// A flag that is set when this worker enters a driver.
    static HAS_ENTERED: OnceCell<Arc<AtomicBool>> = const { OnceCell::new() };
    static SHARD: usize = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS
    };
}

/// What a worker does while the program creates pipelines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manners {
    /// The worker waits for the program's calls, but not for ever: drivers may serialise such calls.
    AfterCalls,
    /// The worker goes ahead: what it makes is not made by the program.
    BesideCalls,
}

/// Held by a worker around every call that it makes to a driver.
#[must_use]
pub struct InDriver {
    gate: Arc<Gate>,
    stop: Arc<Stop>,
    _held: HeldInDriver,
}

/// Held by a worker around every call that it makes to the driver of a device.
#[must_use]
pub struct InDriverOf<'a> {
    inside: InDriver,
    device: &'a Device,
}

/// Held by a thread of the program for the duration of a vkCreate*Pipelines.
#[must_use]
pub struct ProgramCall<'a>(Option<&'a Shard>);

/// [`enter_driver_of`] where there is no device.
#[cfg(test)]
pub(super) fn enter_driver() -> Option<InDriver> {
    enter(Manners::AfterCalls)
}

/// Waits until a worker may call a driver. None: it may not any more, so its task must end. The process ends or forks
/// for too long, or the device of the task is being destroyed.
fn enter(manners: Manners) -> Option<InDriver> {
    let running = RUNNING.try_with(|running| running.borrow().clone()).ok().flatten();
    let running = running.unwrap_or_else(|| Running {
        gate: of_process().clone(),
        stop: Arc::default(),
        is_urgent: false,
    });
    running.gate.enter(&running.stop, running.is_urgent || manners == Manners::BesideCalls)
}

/// Waits until a worker may call the driver of this device. None: its task must end. So it must while the driver may
/// call the program back, and if a call on this device has overstayed.
pub fn enter_driver_of(device: &Device, manners: Manners) -> Option<InDriverOf<'_>> {
    let inside = enter(manners)?;
    // Looked at behind the gate: who makes the driver call back waits there for this thread.
    device.is_open_to_workers().then_some(InDriverOf { inside, device })
}

/// Whether this thread is a worker that is in a driver.
pub fn is_in_driver() -> bool {
    INSIDE.try_with(|inside| inside.get() > 0).unwrap_or(false)
}

/// Whether the task that this thread runs must end: long tasks ask between two driver calls.
pub fn must_end() -> bool {
    let ends = |running: &Running| running.stop.is_asked() || running.gate.ending.load(Ordering::SeqCst);
    RUNNING.try_with(|running| running.borrow().as_ref().is_some_and(ends)).unwrap_or(true)
}

/// Whether this thread runs a task that an urgent commit waits for. True for a thread that is ending.
pub fn is_urgent() -> bool {
    RUNNING.try_with(|running| running.borrow().as_ref().is_some_and(|it| it.is_urgent)).unwrap_or(true)
}

/// A number that changes with every creation call that the program begins while there are workers. None: one is under
/// way.
pub fn begun_calls() -> Option<u32> {
    let running = RUNNING.try_with(|running| running.borrow().clone()).ok().flatten();
    let gate = running.map_or_else(|| of_process().clone(), |running| running.gate);
    (!gate.has_calls()).then(|| gate.begun_calls())
}

/// Whether this process has workers.
pub fn has_workers() -> bool {
    HAS_WORKERS.load(Ordering::Relaxed)
}

/// Says that a thread of the program creates pipelines. Without workers this is one relaxed load.
pub fn program_call() -> ProgramCall<'static> {
    if !HAS_WORKERS.load(Ordering::Relaxed) {
        return ProgramCall(None);
    }
    GATE.known().map_or(ProgramCall(None), |gate| gate.program_call())
}

/// Runs a call of the program's while no worker is inside a driver: one that the specification forbids in parallel with
/// any other on the same instance, which may be a worker's, or that a driver takes badly beside others. A worker that
/// does not come back in time is not waited for again, and makes nothing more on its device.
pub fn without_workers<R>(call: impl FnOnce() -> R) -> R {
    struct Closed<'a>(&'a Gate, #[allow(dead_code, reason = "noted while it lives")] HeldInDriver);
    impl Drop for Closed<'_> {
        fn drop(&mut self) {
            self.0.open();
        }
    }
    let Some(gate) = GATE.known() else { return call() };
    // A thread that is cancelled in the driver would leave the gate closed.
    let _uncancelled = signals::Uncancelled::begin();
    gate.close_for_call(faults::time_limit(CALL_LIMIT));
    let _closed = Closed(gate, held::CLOSED_GATE.hold());
    call()
}

/// The gate of this process.
pub(super) fn of_process() -> &'static Arc<Gate> {
    GATE.get_or_make(|_| Arc::new(Gate { hint: Some(&HAS_WORKERS), ..Gate::default() }))
}

impl Gate {
    pub(super) fn program_call(&self) -> ProgramCall<'_> {
        // A thread that is leaving has no local storage any more.
        let shard = &self.calls[SHARD.try_with(|shard| *shard).unwrap_or(0)];
        shard.0.fetch_add(Shard::BEGUN + Shard::UNDER_WAY, Ordering::SeqCst);
        ProgramCall(Some(shard))
    }

    pub(super) fn has_calls(&self) -> bool {
        self.calls.iter().any(|shard| shard.under_way() != 0)
    }

    fn begun_calls(&self) -> u32 {
        self.calls.iter().fold(0, |sum, shard| sum.wrapping_add(shard.begun()))
    }

    /// Runs a task on this thread: [`enter_driver`] in it fails once it is asked to stop.
    pub(super) fn run(self: &Arc<Gate>, stop: &Arc<Stop>, is_urgent: bool, task: impl FnOnce()) {
        struct Reset(Option<Running>);
        impl Drop for Reset {
            fn drop(&mut self) {
                RUNNING.set(self.0.take());
            }
        }
        let running = Running { gate: self.clone(), stop: stop.clone(), is_urgent };
        let _reset = Reset(RUNNING.replace(Some(running)));
        task();
    }

    fn enter(self: &Arc<Gate>, stop: &Arc<Stop>, goes_beside: bool) -> Option<InDriver> {
        let began = Instant::now();
        loop {
            if stop.is_asked() || self.ending.load(Ordering::SeqCst) {
                return None;
            }
            // The thread that closes the gate waits for this worker's outer call in any case.
            let is_inside = INSIDE.get() > 0;
            let is_closed = || self.closed.load(Ordering::SeqCst) != 0 && !is_inside;
            let goes_first = is_inside || goes_beside || !self.has_calls() || began.elapsed() > YIELDS_FOR;
            if !is_closed() && goes_first && (is_inside || self.take_place()) {
                stop.inside.fetch_add(1, Ordering::SeqCst);
                INSIDE.set(INSIDE.get() + 1);
                let (gate, of_task) = (self.clone(), stop.clone());
                let _held = held::WORKER.hold();
                let entered = InDriver { gate, stop: of_task, _held };
                // Either this thread sees that the gate was closed meanwhile, or that it is to stop, or the
                // thread that closed the gate sees this thread inside.
                if !is_closed() && !stop.is_asked() && !self.ending.load(Ordering::SeqCst) {
                    HAS_ENTERED.with(|told| {
                        told.get().into_iter().for_each(|told| told.store(true, Ordering::SeqCst));
                    });
                    return Some(entered);
                }
                drop(entered);
            }
            std::thread::sleep(LOOKS_EVERY);
        }
    }

    /// A place for this thread, which is inside from now on. False: there is none.
    fn take_place(&self) -> bool {
        let taken = self.places.iter().position(Place::take);
        taken.into_iter().for_each(|at| PLACE.set(at));
        taken.is_some()
    }

    /// The places of the other threads.
    fn others(&self) -> impl Iterator<Item = &Place> {
        let own = (INSIDE.get() > 0).then(|| PLACE.get());
        self.places.iter().enumerate().filter(move |(at, _)| Some(*at) != own).map(|(_, place)| place)
    }

    /// Whether another thread is inside a driver.
    pub(super) fn is_entered(&self) -> bool {
        self.others().any(|place| place.state() != Place::FREE)
    }

    /// From now on no worker enters, until [`Gate::open`] is called as often. Waits for the calls under way, but for
    /// those that a thread has waited for in vain. False: the time is over.
    pub(super) fn close(&self, limit: Duration) -> bool {
        self.closed.fetch_add(1, Ordering::SeqCst);
        wait_until(limit, || !self.others().any(|place| place.state() == Place::INSIDE))
    }

    pub(super) fn open(&self) {
        self.closed.fetch_sub(1, Ordering::SeqCst);
    }

    /// [`Gate::close`] before a call of the program; a worker that does not leave in time is not waited for again.
    pub(super) fn close_for_call(&self, limit: Duration) {
        if !self.close(limit) {
            self.others().for_each(Place::give_up);
        }
    }

    /// The process ends: from now on no worker enters. Waits for the calls under way. False: the time is over.
    pub(super) fn end(&self, limit: Duration) -> bool {
        self.ending.store(true, Ordering::SeqCst);
        wait_until(limit, || !self.is_entered())
    }

    /// Whether the process ends.
    pub(super) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::SeqCst)
    }

    /// `after` is called by a new worker if a library was loaded since the last one, and then at the end of the first,
    /// the second, the fourth driver call and so on. No fork begins meanwhile.
    pub(super) fn after_calls(&self, after: fn()) {
        // The callback is set once for a process.
        let _ = self.after_call.set(after);
    }

    fn call_after_call(&self) {
        if let Some(after) = self.after_call.get() {
            after();
        }
    }

    /// Calls what is called after driver calls, on a new worker, where there may be a driver that is not known yet.
    /// Each call may cost memory that is never released, so a program with many devices pays once. `has_entered` is set
    /// once the worker has entered a driver.
    pub(super) fn begin_worker(self: &Arc<Gate>, has_entered: &Arc<AtomicBool>) {
        self.prepare_exit();
        HAS_ENTERED.with(|told| _ = told.set(has_entered.clone()));
    }

    fn prepare_exit(self: &Arc<Gate>) {
        let loaded = libraries_loaded();
        if self.loaded.load(Ordering::Relaxed) == loaded {
            return;
        }
        if let Some(entered) = self.enter(&Arc::default(), true) {
            self.loaded.store(loaded, Ordering::Relaxed);
            self.made.store(0, Ordering::Relaxed);
            // As after a first driver call.
            drop(entered);
        }
    }

    /// A worker was started. Called under one lock with [`Gate::worker_ends`].
    pub(super) fn worker_begins(&self) {
        let before = self.workers.fetch_add(1, Ordering::SeqCst);
        if let Some(hint) = self.hint {
            live::set_workers(before + 1);
            watch_forks();
            hint.store(true, Ordering::Relaxed);
        }
    }

    /// A worker has ended.
    pub(super) fn worker_ends(&self) {
        let left = self.workers.fetch_sub(1, Ordering::SeqCst) - 1;
        if let Some(hint) = self.hint {
            live::set_workers(left);
            if left == 0 {
                hint.store(false, Ordering::Relaxed);
            }
        }
    }
}

/// How often this process has loaded a library, plus one.
fn libraries_loaded() -> u64 {
    unsafe extern "C" fn look(
        info: *mut libc::dl_phdr_info,
        size: libc::size_t,
        found: *mut libc::c_void,
    ) -> libc::c_int {
        if size >= std::mem::offset_of!(libc::dl_phdr_info, dlpi_subs) {
            // SAFETY: the C library passes a structure of `size` bytes, which the field is within, and the pointer
            // below.
            unsafe { *found.cast::<u64>() = (*info).dlpi_adds };
        }
        // Each library says the same.
        1
    }
    let mut found = 0_u64;
    // SAFETY: the function is called during this call only, with the pointer to a number on this stack.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut found).cast()) };
    found + 1
}

/// Looks until `condition` holds. False: the time is over.
pub(super) fn wait_until(limit: Duration, condition: impl Fn() -> bool) -> bool {
    let began = Instant::now();
    while !condition() {
        if began.elapsed() > limit {
            return false;
        }
        std::thread::sleep(LOOKS_EVERY);
    }
    true
}

impl InDriver {
    fn place(&self) -> &Place {
        // Less than the number of places ([`Gate::take_place`]).
        &self.gate.places[PLACE.get() % PLACES]
    }
}

impl Drop for InDriver {
    fn drop(&mut self) {
        if (self.gate.made.fetch_add(1, Ordering::Relaxed) + 1).is_power_of_two() {
            self.gate.call_after_call();
        }
        INSIDE.set(INSIDE.get() - 1);
        self.stop.inside.fetch_sub(1, Ordering::SeqCst);
        if INSIDE.get() == 0 {
            self.place().0.store(Place::FREE, Ordering::SeqCst);
        }
    }
}

impl Drop for InDriverOf<'_> {
    fn drop(&mut self) {
        if self.inside.place().state() == Place::OVERSTAYS {
            self.device.work.close();
        }
    }
}

impl Drop for ProgramCall<'_> {
    fn drop(&mut self) {
        if let Some(shard) = self.0 {
            shard.0.fetch_sub(Shard::UNDER_WAY, Ordering::SeqCst);
        }
    }
}

/// Has every fork of this process wait until no worker is inside a driver. Children of `_Fork` and `clone` run no
/// handlers.
fn watch_forks() {
    static WATCHED: AtomicBool = AtomicBool::new(false);
    if !WATCHED.swap(true, Ordering::AcqRel) {
        // SAFETY: the handlers take no lock and do not allocate. The library with their code is never unloaded (linked
        // with `-z nodelete`).
        unsafe {
            libc::pthread_atfork(Some(before_fork), Some(after_fork_in_parent), Some(after_fork_in_child))
        };
    }
}

extern "C" fn before_fork() {
    if let Some(gate) = GATE.known() {
        gate.close(faults::time_limit(FORK_WAITS));
        FORKING.set(FORKING.get() + 1);
    }
}

extern "C" fn after_fork_in_parent() {
    // The gate may be newer than the fork.
    if let Some(gate) = GATE.known().filter(|_| FORKING.get() > 0) {
        FORKING.set(FORKING.get() - 1);
        gate.open();
    }
}

extern "C" fn after_fork_in_child() {
    FORKING.set(0);
    HAS_WORKERS.store(false, Ordering::Relaxed);
}
