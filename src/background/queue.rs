//! The pool's queue: which task is next, and who waits for which tasks. Without threads and locks.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Why a task is not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// The device of the task is destroyed.
    DeviceDestroyed,
    /// Background work is switched off.
    Disabled,
    /// The process ends.
    ProcessEnds,
    /// The system refuses to start a thread.
    NoThread,
}

/// The number of a task, in the order in which tasks were received.
type Number = u64;

/// A task that somebody has taken, to run it or to cancel it. Until [`Queue::finish`] the task counts as unfinished.
pub(super) struct Taken<T> {
    pub(super) number: Number,
    pub(super) owner: u64,
    /// Set when the task must end.
    pub(super) stop: Arc<AtomicBool>,
    pub(super) task: T,
}

/// A task that somebody runs or cancels.
struct Running {
    owner: u64,
    stop: Arc<AtomicBool>,
}

/// Tasks that somebody waits for: those with a number of at most `last`.
struct Commit<E> {
    last: Number,
    unfinished: usize,
    in_haste: bool,
    event: Option<E>,
}

/// What is known of an owner.
pub(super) struct Owned<O> {
    /// What the owner gave.
    pub(super) info: O,
    /// The owner's tasks are cancelled.
    pub(super) is_disabled: bool,
}

/// The queue. `T` is a task, `E` an event, `O` what an owner gives.
pub(super) struct Queue<T, E, O> {
    tasks: VecDeque<Taken<T>>,
    running: BTreeMap<Number, Running>,
    owners: BTreeMap<u64, Owned<O>>,
    commits: Vec<Commit<E>>,
    next: Number,
    unfinished: usize,
    /// Accepted tasks whose time has not come. No commit waits for them.
    later: Vec<Later<T>>,
    /// New tasks are accepted.
    pub(super) accepts: bool,
}

/// A task that is received at its time.
struct Later<T> {
    at: Instant,
    owner: u64,
    task: T,
}

impl<T, E, O> Queue<T, E, O> {
    pub(super) fn new(accepts: bool) -> Queue<T, E, O> {
        Queue {
            tasks: VecDeque::new(),
            running: BTreeMap::new(),
            owners: BTreeMap::new(),
            commits: Vec::new(),
            next: 0,
            unfinished: 0,
            later: Vec::new(),
            accepts,
        }
    }

    /// Adds an owner.
    pub(super) fn enter(&mut self, owner: u64, info: O) {
        self.owners.insert(owner, Owned { info, is_disabled: false });
    }

    pub(super) fn owner(&mut self, owner: u64) -> Option<&mut Owned<O>> {
        self.owners.get_mut(&owner)
    }

    pub(super) fn owners(&self) -> impl Iterator<Item = &Owned<O>> {
        self.owners.values()
    }

    pub(super) fn has_owners(&self) -> bool {
        !self.owners.is_empty()
    }

    /// Queues a task, or gives it back with the reason.
    pub(super) fn push(&mut self, owner: u64, task: T) -> Result<(), (T, Cancelled)> {
        match self.refuses(owner) {
            Some(why) => Err((task, why)),
            None => {
                self.receive(owner, task);
                Ok(())
            }
        }
    }

    /// Accepts a task that is received at this time, or gives it back with the reason.
    pub(super) fn push_later(&mut self, owner: u64, task: T, at: Instant) -> Result<(), (T, Cancelled)> {
        match self.refuses(owner) {
            Some(why) => Err((task, why)),
            None => {
                self.later.push(Later { at, owner, task });
                Ok(())
            }
        }
    }

    fn refuses(&self, owner: u64) -> Option<Cancelled> {
        match self.owners.get(&owner) {
            None => Some(Cancelled::DeviceDestroyed),
            Some(owned) if owned.is_disabled || !self.accepts => Some(Cancelled::Disabled),
            Some(_) => None,
        }
    }

    fn receive(&mut self, owner: u64, task: T) {
        self.tasks.push_back(Taken { number: self.next, owner, stop: Arc::default(), task });
        self.next += 1;
        self.unfinished += 1;
    }

    /// Receives the tasks whose time has come.
    pub(super) fn receive_due(&mut self, now: Instant) {
        self.receive_those(|later| later.at <= now);
    }

    /// When the next task is received.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.later.iter().map(|later| later.at).min()
    }

    fn receive_those(&mut self, which: impl Fn(&Later<T>) -> bool) {
        let (mut due, rest) = self.later.drain(..).partition::<Vec<_>, _>(which);
        self.later = rest;
        due.sort_by_key(|later| later.at);
        due.into_iter().for_each(|later| self.receive(later.owner, later.task));
    }

    /// The number of queued tasks.
    pub(super) fn waiting(&self) -> usize {
        self.tasks.len()
    }

    /// Takes the first task.
    pub(super) fn take(&mut self) -> Option<Taken<T>> {
        let taken = self.tasks.pop_front()?;
        self.note_running(&taken);
        Some(taken)
    }

    /// Takes the first task if a commit in haste waits for it.
    pub(super) fn take_in_haste(&mut self) -> Option<Taken<T>> {
        let first = self.tasks.front()?.number;
        if self.is_in_haste(first) { self.take() } else { None }
    }

    /// The number of queued tasks that commits in haste wait for.
    pub(super) fn waiting_in_haste(&self) -> usize {
        self.tasks.iter().filter(|task| self.is_in_haste(task.number)).count()
    }

    /// Whether a commit in haste waits for the task.
    pub(super) fn is_in_haste(&self, number: Number) -> bool {
        self.commits.iter().any(|commit| commit.in_haste && number <= commit.last)
    }

    /// Takes all tasks, to cancel them.
    pub(super) fn take_all(&mut self) -> Vec<Taken<T>> {
        self.receive_those(|_| true);
        let taken: Vec<_> = self.tasks.drain(..).collect();
        taken.iter().for_each(|taken| self.note_running(taken));
        taken
    }

    /// Takes the tasks of an owner, to cancel them.
    pub(super) fn take_of(&mut self, owner: u64) -> Vec<Taken<T>> {
        self.receive_those(|later| later.owner == owner);
        let (taken, rest) = self.tasks.drain(..).partition::<Vec<_>, _>(|task| task.owner == owner);
        self.tasks = rest.into();
        taken.iter().for_each(|taken| self.note_running(taken));
        taken
    }

    /// Removes an owner, tells its running tasks to end, and takes its queued tasks, to cancel them.
    pub(super) fn leave(&mut self, owner: u64) -> Vec<Taken<T>> {
        self.owners.remove(&owner);
        let running = self.running.values().filter(|running| running.owner == owner);
        running.for_each(|running| running.stop.store(true, Ordering::SeqCst));
        self.take_of(owner)
    }

    fn note_running(&mut self, taken: &Taken<T>) {
        let Taken { number, owner, stop, .. } = taken;
        self.running.insert(*number, Running { owner: *owner, stop: stop.clone() });
    }

    /// Whether somebody else runs or cancels tasks of an owner. `own`: the task that the asking thread runs.
    pub(super) fn is_running(&self, owner: u64, own: Option<Number>) -> bool {
        self.running.iter().any(|(number, running)| running.owner == owner && Some(*number) != own)
    }

    /// A taken task was run or cancelled. Gives the events of the commits that waited for this task only.
    pub(super) fn finish(&mut self, number: Number) -> Vec<E> {
        self.running.remove(&number);
        self.unfinished -= 1;
        let waiting = self.commits.iter_mut().filter(|commit| number <= commit.last);
        waiting.for_each(|commit| commit.unfinished -= 1);
        let mut events = Vec::new();
        self.commits.retain_mut(|commit| {
            if commit.unfinished == 0 {
                events.extend(commit.event.take());
            }
            commit.unfinished != 0
        });
        events
    }

    /// The number of tasks that were neither run nor cancelled yet, with those whose time has not come.
    pub(super) fn pending(&self) -> usize {
        self.unfinished + self.later.len()
    }

    /// Waits for all unfinished tasks. Gives the event back if there are none.
    pub(super) fn commit(&mut self, event: Option<E>, in_haste: bool) -> Option<E> {
        if self.unfinished == 0 {
            return event;
        }
        let (last, unfinished) = (self.next - 1, self.unfinished);
        self.commits.push(Commit { last, unfinished, in_haste, event });
        None
    }
}
