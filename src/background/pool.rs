//! The worker pool: few threads, which exist while there is work.
//!
//! Each queued task ends in exactly one of `run` and `cancel`. docs/process.md describes when workers start and end,
//! and what happens in vkDestroyDevice, in forked children and at the end of the process.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::gate::{self, CALL_LIMIT, Gate, Stop, wait_until};
use super::processors;
pub use super::queue::Cancelled;
use super::queue::{Queue, Taken};
use crate::config::OfProcess;
use crate::faults;
use crate::log;
use crate::trace::spans;
use vkstash_host::forks::PerProcess;
use vkstash_host::guard::{contained, guard};
use vkstash_host::sync::{Condvar, Mutex, MutexGuard};
use vkstash_host::thread::{self, Stack};
use vkstash_model::background_mode::BackgroundMode;
use vkstash_model::variables::Background;

/// Workers of a process at most, where the environment does not say.
pub(super) const WORKERS: usize = 2;
/// More workers than anybody can mean.
const MAX_WORKERS: usize = 64;
/// How long a worker waits for the next task before it ends. A process whose program has ended lasts as long.
const IDLE: Duration = Duration::from_millis(500);
/// How long vkDestroyDevice waits for a task that is in no driver. It may wait for a disk.
const OUTSIDE_LIMIT: Duration = Duration::from_millis(10);
/// Time between two looks at what the tasks of such a device do.
const LOOKS_EVERY: Duration = Duration::from_millis(10);
/// How long the end of the process waits for driver calls under way, because the driver's exit handlers come next.
const END_LIMIT: Duration = Duration::from_secs(1);
/// How long the end of the process waits after that until tasks are cancelled, and for a lock.
pub(super) const CANCEL_LIMIT: Duration = Duration::from_millis(50);

/// Background work.
pub trait Task: Send {
    /// The task's name in traces.
    fn name(&self) -> &'static str;
    /// Does the work, on a worker. Driver calls need [`gate::enter_driver_of`].
    fn run(self: Box<Self>);
    /// Is called instead of `run`, on any thread. It calls no driver, and takes no lock that is held while tasks are
    /// queued.
    fn cancel(self: Box<Self>, why: Cancelled);
}

/// What an owner tells the pool of itself. The methods are called on any thread, and not under a lock of the pool.
pub trait Producer: Send + Sync {
    /// The mode in the settings of its application. A worker asks once, before the owner's first task.
    fn stored_mode(&self) -> Option<BackgroundMode> {
        None
    }
    /// The program has shown all of its workload: what is worth doing is queued now.
    fn commit(&self) {}
    /// What was measured so far means nothing any more.
    fn discard(&self) {}
    /// A task has panicked.
    fn failed(&self) {}
}

/// The owner of tasks, which are cancelled together when it leaves: there is one for each device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owner(u64);

/// Signals that the tasks of a commit are finished.
pub(super) type Event = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Info {
    producer: Option<Arc<dyn Producer>>,
    /// From the settings, once a worker has asked.
    stored: Option<Option<BackgroundMode>>,
}

type Tasks = Queue<Box<dyn Task>, Event, Info>;

struct State {
    queue: Tasks,
    workers: Vec<Worker>,
    /// Workers that have left `workers`.
    ended: Vec<Ended>,
    started: u64,
    /// The mode that the program has set.
    mode: Option<BackgroundMode>,
}

struct Worker {
    number: u64,
    handle: JoinHandle<()>,
    is_idle: bool,
    /// The worker must end.
    told: Arc<AtomicBool>,
    has_entered: Arc<AtomicBool>,
}

/// A worker that ends soon, or has ended.
struct Ended {
    handle: JoinHandle<()>,
    /// The worker has entered a driver, which may have something to destroy at the end of the thread.
    has_entered: Arc<AtomicBool>,
}

/// A pool: that of the process, or of a test.
pub(super) struct Pool(Arc<Shared>);

/// How long a pool waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// A worker for the next task.
    pub(super) idle: Duration,
    /// vkDestroyDevice for driver calls.
    pub(super) in_driver: Duration,
    /// vkDestroyDevice for tasks that are in no driver.
    pub(super) outside: Duration,
}

impl Times {
    /// The times of a process's pool.
    pub(super) fn usual() -> Times {
        Times {
            idle: IDLE,
            in_driver: faults::time_limit(CALL_LIMIT),
            outside: faults::time_limit(OUTSIDE_LIMIT),
        }
    }
}

struct Shared {
    state: Mutex<State>,
    gate: Arc<Gate>,
    /// Notified when there are tasks, or workers must end.
    work: Condvar,
    /// A task is finished.
    done: Condvar,
    limit: usize,
    times: Times,
    /// The environment's mode.
    chosen: Option<BackgroundMode>,
}

/// A forked child begins without workers and tasks.
static POOL: PerProcess<Pool> = PerProcess::empty();

thread_local! {
    /// The task that this thread runs.
    static TASK: Cell<Option<u64>> = const { Cell::new(None) };
}

/// The pool of this process.
pub(super) fn of_process() -> &'static Pool {
    POOL.get_or_make(|_| {
        let gate = gate::of_process();
        gate.after_calls(at_exit_again);
        Pool::new(&OfProcess::get().background, gate.clone(), Times::usual())
    })
}

impl Owner {
    /// A new owner. Until it is registered its tasks are cancelled.
    #[allow(clippy::new_without_default, reason = "each is another one")]
    pub fn new() -> Owner {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Owner(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// The owner's tasks are accepted from now on until [`leave`], in this process: in a forked child they are cancelled.
/// `producer`: what the pool may ask of it.
pub fn register(owner: Owner, producer: Arc<dyn Producer>) {
    of_process().register(owner, producer);
}

/// Queues a task. Tasks start in the order in which they were received. If the task cannot be run, `cancel` is called
/// before this returns. A task that is queued by a running task is its successor: a commit that waits for one waits for
/// both.
pub fn queue(owner: Owner, task: Box<dyn Task>) {
    of_process().queue(owner, task);
}

/// Queues a task once this time has passed. A worker waits for that, and no commit does.
pub fn queue_after(owner: Owner, delay: Duration, task: Box<dyn Task>) {
    of_process().queue_after(owner, delay, task);
}

/// Queues the rest of the running task, which pauses for this time: commits that wait for the task wait for its rest.
pub fn go_on_after(owner: Owner, delay: Duration, task: Box<dyn Task>) {
    of_process().go_on_after(owner, delay, task);
}

/// The owner goes away: its queued tasks are cancelled, and its running ones end after the driver call under way, which
/// this waits for. A task that is in no driver enters none any more, and may still wait for a disk. With the last owner
/// the workers are told to end ([`join`]). False: a task hangs; what its driver call uses must not be destroyed.
pub fn leave(owner: Owner) -> bool {
    POOL.known().is_none_or(|pool| pool.leave(owner))
}

/// Waits until the workers that [`leave`] has told to end have ended. A driver may have destructors for its threads,
/// and is unloaded with its instance. vkDestroyDevice does not wait for that. False: one that has been in a driver does
/// not end in time.
pub fn join() -> bool {
    POOL.known().is_none_or(Pool::join)
}

/// Whether tasks are run at all now. An owner's settings may still have its tasks cancelled.
pub fn is_allowed() -> bool {
    of_process().is_allowed()
}

impl Pool {
    pub(super) fn new(environment: &Background, gate: Arc<Gate>, times: Times) -> Pool {
        let limit = environment.workers.unwrap_or_else(usual_workers).min(MAX_WORKERS);
        let chosen = environment.mode;
        let accepts = limit > 0 && chosen.is_none_or(BackgroundMode::allows_work);
        let (queue, workers) = (Queue::new(accepts), Vec::new());
        let state = State { queue, workers, ended: Vec::new(), started: 0, mode: None };
        Pool(Arc::new(Shared {
            state: Mutex::new(state),
            gate,
            work: Condvar::new(),
            done: Condvar::new(),
            limit,
            times,
            chosen,
        }))
    }

    #[cfg(test)]
    pub(super) fn new_owner(&self) -> Owner {
        let owner = Owner::new();
        self.enter(owner, Info::default());
        owner
    }

    pub(super) fn register(&self, owner: Owner, producer: Arc<dyn Producer>) {
        self.enter(owner, Info { producer: Some(producer), ..Info::default() });
    }

    fn enter(&self, owner: Owner, info: Info) {
        if let Some(mut state) = self.0.lock() {
            state.queue.enter(owner.0, info);
        }
    }

    pub(super) fn queue(&self, owner: Owner, task: Box<dyn Task>) {
        let by = TASK.get();
        self.push(task, |queue, task| queue.push(owner.0, task, by));
    }

    pub(super) fn queue_after(&self, owner: Owner, delay: Duration, task: Box<dyn Task>) {
        let at = Instant::now() + delay;
        self.push(task, |queue, task| queue.push_later(owner.0, task, at, None));
    }

    pub(super) fn go_on_after(&self, owner: Owner, delay: Duration, task: Box<dyn Task>) {
        let (at, by) = (Instant::now() + delay, TASK.get());
        self.push(task, |queue, task| queue.push_later(owner.0, task, at, by));
    }

    fn push(
        &self,
        task: Box<dyn Task>,
        push: impl FnOnce(&mut Tasks, Box<dyn Task>) -> Result<(), (Box<dyn Task>, Cancelled)>,
    ) {
        let shared = &self.0;
        let refused = if shared.gate.is_ending() { None } else { shared.lock() };
        let Some(mut state) = refused else {
            contained("a cancelled task", || task.cancel(Cancelled::ProcessEnds));
            return;
        };
        let queued = push(&mut state.queue, task);
        let unserved = if queued.is_ok() { shared.staff(&mut state) } else { Vec::new() };
        drop(state);
        if let Err((task, why)) = queued {
            contained("a cancelled task", || task.cancel(why));
        }
        shared.cancel(unserved, Cancelled::NoThread);
    }

    pub(super) fn leave(&self, owner: Owner) -> bool {
        let shared = &self.0;
        let Some(mut state) = shared.lock() else { return !shared.gate.is_entered() };
        let taken = state.queue.leave(owner.0);
        drop(state);
        shared.cancel(taken, Cancelled::DeviceDestroyed);
        let began = Instant::now();
        let Some(mut state) = shared.lock() else { return !shared.gate.is_entered() };
        while let Some(in_driver) = state.in_driver(owner) {
            let limit = match (in_driver, shared.gate.is_ending()) {
                (false, _) if began.elapsed() > shared.times.outside => break,
                (_, true) => END_LIMIT,
                (_, false) => shared.times.in_driver,
            };
            if began.elapsed() > limit {
                drop(state);
                log::init();
                tracing::warn!("a background task does not end; its device is not destroyed");
                return false;
            }
            state = shared.done.wait_timeout(state, LOOKS_EVERY);
        }
        if !state.queue.has_owners() {
            shared.dismiss(&mut state);
        }
        true
    }

    /// Waits for the workers that were told to end. False: one that has been in a driver does not in time.
    pub(super) fn join(&self) -> bool {
        let shared = &self.0;
        let Some(mut state) = shared.lock() else { return false };
        let handles = std::mem::take(&mut state.ended);
        drop(state);
        // An exit handler may have interrupted what a thread waits for.
        let limit = if shared.gate.is_ending() { CANCEL_LIMIT } else { shared.times.in_driver };
        let began = Instant::now();
        let mut all = true;
        for Ended { handle, has_entered } in handles {
            let has_entered = has_entered.load(Ordering::SeqCst);
            // Without, it may wait for a disk. Its owner has left, so it enters no driver any more.
            let limit =
                if has_entered { limit.saturating_sub(began.elapsed()) } else { shared.times.outside };
            all &= thread::join(handle, limit) || !has_entered;
        }
        all
    }

    pub(super) fn is_allowed(&self) -> bool {
        !self.0.gate.is_ending() && self.0.lock().is_some_and(|state| state.queue.accepts)
    }

    /// Changes the mode that the program has set. Tasks that are queued are run; `accepts`: new ones are accepted
    /// although the mode forbids it.
    pub(super) fn set_mode(&self, mode: BackgroundMode, accepts: bool) {
        if let Some(mut state) = self.0.lock() {
            state.mode = Some(mode);
            let user_allows = self.0.limit > 0 && self.0.chosen.is_none_or(BackgroundMode::allows_work);
            state.queue.accepts = user_allows && (accepts || mode.allows_work());
        }
    }

    /// The mode in force for an owner's tasks.
    #[cfg(test)]
    pub(super) fn mode(&self, owner: Owner) -> BackgroundMode {
        let Some(mut state) = self.0.lock() else { return BackgroundMode::Disabled };
        let stored = state.queue.owner(owner.0).and_then(|owned| owned.info.stored.flatten());
        let users = self.0.chosen.or(stored);
        let forbidden = users.filter(|mode| !mode.allows_work());
        forbidden.or(state.mode).or(users).unwrap_or_default()
    }

    /// Signals the event when all tasks that are queued or running now, and their successors, are finished. If there
    /// are none the event is given back.
    pub(super) fn commit(&self, event: Option<Event>, is_urgent: bool) -> Option<Event> {
        let shared = &self.0;
        let Some(mut state) = shared.lock() else { return event };
        let reached = state.queue.commit(event, is_urgent);
        if is_urgent {
            shared.start_more(&mut state);
        }
        reached
    }

    /// The producers of tasks of all owners, which may be asked for work and told of commits.
    pub(super) fn producers(&self) -> Vec<Arc<dyn Producer>> {
        let state = self.0.lock();
        let owners = state.iter().flat_map(|state| state.queue.owners());
        owners.filter_map(|owned| owned.info.producer.clone()).collect()
    }

    /// The process ends.
    pub(super) fn end(&self) {
        let shared = &self.0;
        if shared.gate.is_ending() {
            return;
        }
        shared.gate.end(faults::time_limit(END_LIMIT));
        // Workers cancel what is queued: a thread that this handler has interrupted may hold what `cancel` needs.
        let own = usize::from(TASK.get().is_some());
        let finished = || {
            let unfinished = shared.state.try_lock().map(|state| state.queue.unfinished_or_later());
            // Without the lock a worker that is about to wait may miss it, until the next time.
            shared.work.notify_all();
            unfinished.is_some_and(|unfinished| unfinished <= own)
        };
        wait_until(CANCEL_LIMIT, finished);
    }

    /// Runs `body` under the pool's lock.
    #[cfg(test)]
    pub(super) fn locked(&self, body: impl FnOnce()) {
        let _state = self.0.lock();
        body();
    }

    /// The number of workers.
    #[cfg(test)]
    pub(super) fn workers(&self) -> usize {
        self.0.lock().map_or(0, |state| state.workers.len())
    }
}

impl Shared {
    /// None: the process ends, and another thread holds the lock, perhaps for ever.
    fn lock(&self) -> Option<MutexGuard<'_, State>> {
        if !self.gate.is_ending() {
            return Some(self.state.lock());
        }
        let began = Instant::now();
        loop {
            match self.state.try_lock() {
                Some(state) => return Some(state),
                None if began.elapsed() > CANCEL_LIMIT => return None,
                None => std::thread::sleep(Duration::from_micros(100)),
            }
        }
    }

    /// Wakes or starts a worker for a new task. Returns tasks that no worker can run.
    #[must_use]
    fn staff(self: &Arc<Shared>, state: &mut State) -> Vec<Taken<Box<dyn Task>>> {
        let running = state.workers.len();
        let idle = state.workers.iter().filter(|worker| worker.is_idle).count();
        // One worker waits for the time of the tasks that are received later.
        let wanted = state.queue.queued().max(usize::from(running == 0 && state.queue.next_due().is_some()));
        if idle < wanted && running < self.limit && !self.start(state) && running == 0 {
            return state.queue.take_all();
        }
        // Each may be the one that waits for the time of a task.
        self.work.notify_all();
        Vec::new()
    }

    /// Starts workers beyond the limit for an urgent commit, as many as it has use for beside those that are busy. They
    /// end when it is done.
    fn start_more(self: &Arc<Shared>, state: &mut State) {
        let busy = state.workers.iter().filter(|worker| !worker.is_idle).count();
        let unfinished = state.queue.unfinished_urgent();
        // A task may have more than one successor.
        let useful = if unfinished == 0 { 0 } else { unfinished.max(WORKERS) };
        let wanted = busy + useful.min(processors::usable().saturating_sub(1).max(1));
        for _ in state.workers.len()..wanted {
            if !self.start(state) {
                break;
            }
        }
    }

    /// Starts a worker. False: the system refuses it.
    fn start(self: &Arc<Shared>, state: &mut State) -> bool {
        // Dropped handles would be fine, too: these threads have nothing left to do.
        state.ended.retain(|ended| !ended.handle.is_finished());
        let number = state.started;
        let [told, has_entered] = [(); 2].map(|()| Arc::<AtomicBool>::default());
        let (shared, my_told, entered) = (self.clone(), told.clone(), has_entered.clone());
        let life = move || shared.work(number, &my_told, &entered);
        let Some(handle) = thread::spawn("vkstash-worker", Stack::Drivers, life) else { return false };
        self.gate.worker_begins();
        state.started += 1;
        state.workers.push(Worker { number, handle, is_idle: false, told, has_entered });
        true
    }

    /// Has all workers end.
    fn dismiss(&self, state: &mut State) {
        for worker in state.workers.drain(..) {
            worker.told.store(true, Ordering::SeqCst);
            self.gate.worker_ends();
            state.ended.push(worker.into());
        }
        self.work.notify_all();
    }

    /// The life of a worker.
    fn work(self: Arc<Shared>, number: u64, told: &AtomicBool, entered: &Arc<AtomicBool>) {
        self.gate.begin_worker(entered);
        contained("a worker", || self.work_until_told(number, told));
        // Where it ends in another way than for lack of work.
        if let Some(mut state) = self.lock() {
            self.remove(&mut state, number);
        }
    }

    /// A worker ends. Called under the lock under which it finds nothing to do: whoever queues a task after that does
    /// not count on it.
    fn remove(&self, state: &mut State, number: u64) {
        if let Some(index) = state.workers.iter().position(|worker| worker.number == number) {
            let worker = state.workers.swap_remove(index);
            state.ended.push(worker.into());
            self.gate.worker_ends();
        }
    }

    fn work_until_told(self: &Arc<Shared>, number: u64, told: &AtomicBool) {
        let Some(mut state) = self.lock() else { return };
        while !told.load(Ordering::SeqCst) {
            if self.gate.is_ending() {
                let taken = state.queue.take_all();
                drop(state);
                return self.cancel(taken, Cancelled::ProcessEnds);
            }
            state.queue.receive_due(Instant::now());
            let next = match state.queue.take() {
                Some(taken) => {
                    let is_urgent = state.queue.is_urgent(&taken);
                    drop(state);
                    // Nothing that can be left to another run keeps a process alive whose main thread has left it.
                    if thread::main_has_ended() {
                        self.cancel([taken], Cancelled::ProcessEnds);
                    } else {
                        self.run(taken, is_urgent);
                    }
                    self.lock()
                }
                None => self.wait(state, number),
            };
            match next {
                Some(next) => state = next,
                None => return,
            }
        }
    }

    /// Waits for a task. None: there was none for a while, or there are more workers than are wanted.
    fn wait<'a>(&self, mut state: MutexGuard<'a, State>, number: u64) -> Option<MutexGuard<'a, State>> {
        if state.workers.len() > self.limit && state.queue.unfinished_urgent() == 0 {
            self.remove(&mut state, number);
            return None;
        }
        state.set_idle(number, true);
        // Every worker wakes up when the next task is received, because each may be the one that is needed.
        let due = state.queue.next_due();
        if due.is_some() && thread::main_has_ended() {
            // The process would last as long as this thread.
            self.remove(&mut state, number);
            return None;
        }
        let idle = self.times.idle;
        let limit = due.map_or(idle, |due| due.saturating_duration_since(Instant::now()).min(idle));
        let began = Instant::now();
        let mut state = self.work.wait_timeout(state, limit);
        state.set_idle(number, false);
        // The last worker stays for what is received later.
        let was_idle = began.elapsed() >= limit && limit == idle && state.queue.queued() == 0;
        if was_idle && !(state.is_last(number) && state.queue.next_due().is_some()) {
            self.remove(&mut state, number);
            return None;
        }
        Some(state)
    }

    fn run(&self, taken: Taken<Box<dyn Task>>, is_urgent: bool) {
        let producer = match self.ask(taken.owner) {
            Ok(producer) => producer,
            Err(why) => return self.cancel([taken], why),
        };
        let Taken { number, stop, task, .. } = taken;
        TASK.set(Some(number));
        let run = || {
            let _span = spans::task(task.name());
            task.run();
        };
        self.gate.run(&stop, is_urgent, || note_failure(contained("a background task", run), producer));
        TASK.set(None);
        self.finish(number);
    }

    /// The producer of an owner whose tasks are run, or why they are not. The settings are read now if they were not.
    fn ask(&self, owner: u64) -> Result<Option<Arc<dyn Producer>>, Cancelled> {
        let mut state = self.lock().ok_or(Cancelled::ProcessEnds)?;
        let owned = state.queue.owner(owner).ok_or(Cancelled::DeviceDestroyed)?;
        let producer = owned.info.producer.clone();
        if owned.info.stored.is_some() {
            return if owned.is_disabled { Err(Cancelled::Disabled) } else { Ok(producer) };
        }
        drop(state);
        let read = || producer.as_ref().and_then(|producer| producer.stored_mode());
        let stored = guard("the settings of background work", read, || None);
        let disables = self.chosen.is_none() && stored.is_some_and(|mode| !mode.allows_work());
        let mut state = self.lock().ok_or(Cancelled::ProcessEnds)?;
        // The owner may have left meanwhile: it does not wait for this look at the settings.
        let owned = state.queue.owner(owner).ok_or(Cancelled::DeviceDestroyed)?;
        owned.info.stored = Some(stored);
        owned.is_disabled = disables;
        let taken = if disables { state.queue.take_of(owner) } else { Vec::new() };
        drop(state);
        self.cancel(taken, Cancelled::Disabled);
        if disables { Err(Cancelled::Disabled) } else { Ok(producer) }
    }

    fn cancel(&self, taken: impl IntoIterator<Item = Taken<Box<dyn Task>>>, why: Cancelled) {
        for Taken { number, task, .. } in taken {
            contained("a cancelled task", || task.cancel(why));
            self.finish(number);
        }
    }

    fn finish(&self, number: u64) {
        let Some(mut state) = self.lock() else { return };
        let reached = state.queue.finish(number);
        let are_too_many = state.workers.len() > self.limit;
        drop(state);
        self.done.notify_all();
        if are_too_many {
            self.work.notify_all();
        }
        signal(reached);
    }
}

impl From<Worker> for Ended {
    fn from(Worker { handle, has_entered, .. }: Worker) -> Ended {
        Ended { handle, has_entered }
    }
}

impl State {
    /// Whether tasks of an owner, but for the one that this thread runs, are in a driver. None: no task is running.
    fn in_driver(&self, owner: Owner) -> Option<bool> {
        self.queue.running(owner.0, TASK.get()).map(Stop::is_in_driver).reduce(|one, other| one || other)
    }

    /// Whether there is no other worker.
    fn is_last(&self, number: u64) -> bool {
        !self.workers.iter().any(|other| other.number != number)
    }

    fn set_idle(&mut self, number: u64, is_idle: bool) {
        if let Some(worker) = self.workers.iter_mut().find(|worker| worker.number == number) {
            worker.is_idle = is_idle;
        }
    }
}

pub(super) fn signal(events: impl IntoIterator<Item = Event>) {
    for event in events {
        contained("a completion event", event);
    }
}

fn note_failure(ended: bool, producer: Option<Arc<dyn Producer>>) {
    if let Some(producer) = producer.filter(|_| !ended) {
        contained("a counter", || producer.failed());
    }
}

/// One processor is left to the program.
fn usual_workers() -> usize {
    processors::usable().saturating_sub(1).clamp(1, WORKERS)
}

/// Has the handler run at exit, before every handler that was registered until now: drivers register some in their
/// calls, for example those of LLVM. The handler does its work once.
///
/// Called on workers only: a signal handler that calls `exit` in the middle of this would wait for the C library's
/// lock. And only while no fork begins: its child would wait for that lock when it exits.
fn at_exit_again() {
    // SAFETY: the handler is a function of a library that is never unloaded (linked with -z nodelete).
    unsafe { libc::atexit(at_exit) };
}

extern "C" fn at_exit() {
    // A forked child has no pool unless it has tasks of its own.
    let end = || {
        if let Some(pool) = POOL.known() {
            pool.end();
        }
    };
    contained("exit", end);
}
