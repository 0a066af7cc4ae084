//! The pool's queue: which task is next, and who waits for which tasks. Without threads and locks.
//!
//! - An *owner* is whose tasks are cancelled together when it leaves: a device.
//! - A task is *queued* from when it is received until a thread takes it.
//! - It is *unfinished* from when it is received until it was run or cancelled.
//! - A task for *later* is received when its time has come.
//! - A *successor* is a task that a running task queues as its continuation. It is unfinished from then on, also if it
//!   is for later. A task and its successors, and theirs, are a *chain*, named by the number of its first task.
//! - A *commit* is a call of the program that asks to be told when all tasks that are unfinished now are finished, and
//!   the successors of each.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use super::gate::Stop;
use vkstash_host::sort;

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

/// Why a task is not accepted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Refused {
    /// The owner has left.
    NoOwner,
    /// The user has switched off the owner's tasks.
    OwnerDisabled,
    /// No new tasks are accepted.
    NotAccepted,
}

impl From<Refused> for Cancelled {
    fn from(refused: Refused) -> Cancelled {
        match refused {
            Refused::NoOwner => Cancelled::DeviceDestroyed,
            Refused::OwnerDisabled | Refused::NotAccepted => Cancelled::Disabled,
        }
    }
}

/// The number of a task, in the order in which tasks were received.
type Number = u64;

/// A task that a thread has taken, to run it or to cancel it. Until [`Queue::finish`] the task counts as unfinished.
pub(super) struct Taken<T> {
    pub(super) number: Number,
    /// The chain that the task belongs to: its own number, or that of the chain's first task. It decides which commits
    /// wait for the task.
    chain: Number,
    pub(super) owner: u64,
    /// The request to the task to end.
    pub(super) stop: Arc<Stop>,
    pub(super) task: T,
}

/// A task that a thread runs or cancels.
struct Running {
    chain: Number,
    owner: u64,
    stop: Arc<Stop>,
}

/// The tasks that a commit waits for: those with a number of at most `last`, and their successors.
struct Commit<E> {
    last: Number,
    unfinished: usize,
    is_urgent: bool,
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
    /// Accepted tasks whose time has not come.
    later: Vec<Later<T>>,
    /// New tasks are accepted.
    pub(super) accepts: bool,
}

/// A task that is received at its time.
struct Later<T> {
    at: Instant,
    owner: u64,
    task: T,
    /// Some for a successor, which counts as unfinished already.
    chain: Option<Number>,
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

    /// Queues a task, or gives it back with the reason. `by`: the running task that queues it as its successor. The
    /// commits that wait for that one wait for the successor, too, and if there is such a commit, the successor is
    /// accepted where new tasks are not.
    pub(super) fn push(&mut self, owner: u64, task: T, by: Option<Number>) -> Result<(), (T, Cancelled)> {
        let chain = self.chain_of(by);
        if let Some(why) = self.refuses_successor(owner, chain) {
            return Err((task, why.into()));
        }
        chain.iter().for_each(|chain| self.wait_for_successor(*chain));
        self.receive(owner, task, chain);
        Ok(())
    }

    /// Accepts a task that is received at this time, or gives it back with the reason. `by` as in [`Queue::push`].
    pub(super) fn push_later(
        &mut self,
        owner: u64,
        task: T,
        at: Instant,
        by: Option<Number>,
    ) -> Result<(), (T, Cancelled)> {
        let chain = self.chain_of(by);
        if let Some(why) = self.refuses_successor(owner, chain) {
            return Err((task, why.into()));
        }
        chain.iter().for_each(|chain| self.wait_for_successor(*chain));
        self.later.push(Later { at, owner, task, chain });
        Ok(())
    }

    fn chain_of(&self, by: Option<Number>) -> Option<Number> {
        by.and_then(|by| self.running.get(&by)).map(|running| running.chain)
    }

    fn refuses_successor(&self, owner: u64, chain: Option<Number>) -> Option<Refused> {
        let is_committed = chain.is_some_and(|chain| self.commits.iter().any(|commit| chain <= commit.last));
        self.refuses(owner).filter(|why| !(is_committed && *why == Refused::NotAccepted))
    }

    /// The task that queues a successor is unfinished itself, so the commits that wait for it still wait.
    fn wait_for_successor(&mut self, chain: Number) {
        let waiting = self.commits.iter_mut().filter(|commit| chain <= commit.last);
        waiting.for_each(|commit| commit.unfinished += 1);
        self.unfinished += 1;
    }

    fn refuses(&self, owner: u64) -> Option<Refused> {
        match self.owners.get(&owner) {
            None => Some(Refused::NoOwner),
            Some(owned) if owned.is_disabled => Some(Refused::OwnerDisabled),
            Some(_) => (!self.accepts).then_some(Refused::NotAccepted),
        }
    }

    /// `chain`: where the task is a successor, which counts as unfinished already.
    fn receive(&mut self, owner: u64, task: T, chain: Option<Number>) {
        let (number, stop) = (self.next, Arc::default());
        if chain.is_none() {
            self.unfinished += 1;
        }
        self.tasks.push_back(Taken { number, chain: chain.unwrap_or(number), owner, stop, task });
        self.next += 1;
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
        sort::by_key(&mut due, |later| later.at);
        due.into_iter().for_each(|later| self.receive(later.owner, later.task, later.chain));
    }

    /// The number of queued tasks.
    pub(super) fn queued(&self) -> usize {
        self.tasks.len()
    }

    /// Takes the first task that an urgent commit waits for, or else the first one.
    pub(super) fn take(&mut self) -> Option<Taken<T>> {
        let urgent = self.tasks.iter().position(|task| self.is_urgent(task));
        let taken = self.tasks.remove(urgent.unwrap_or(0))?;
        self.note_running(&taken);
        Some(taken)
    }

    /// The most tasks that an urgent commit waits for.
    pub(super) fn unfinished_urgent(&self) -> usize {
        let is_urgent = self.commits.iter().filter(|commit| commit.is_urgent);
        is_urgent.map(|commit| commit.unfinished).max().unwrap_or(0)
    }

    /// Whether an urgent commit waits for the task.
    pub(super) fn is_urgent(&self, task: &Taken<T>) -> bool {
        self.commits.iter().any(|commit| commit.is_urgent && task.chain <= commit.last)
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
        running.for_each(|running| running.stop.ask());
        self.take_of(owner)
    }

    fn note_running(&mut self, taken: &Taken<T>) {
        let Taken { number, chain, owner, stop, .. } = taken;
        self.running.insert(*number, Running { chain: *chain, owner: *owner, stop: stop.clone() });
    }

    /// What tells whether the tasks of an owner that somebody else runs or cancels are in a driver. `own`: the task of
    /// the asking thread.
    pub(super) fn running(&self, owner: u64, own: Option<Number>) -> impl Iterator<Item = &Stop> {
        let of_owner = self.running.iter().filter(move |(_, running)| running.owner == owner);
        of_owner.filter(move |(number, _)| Some(**number) != own).map(|(_, running)| &*running.stop)
    }

    /// A taken task was run or cancelled. Gives the events of the commits that waited for this task only.
    pub(super) fn finish(&mut self, number: Number) -> Vec<E> {
        let chain = self.running.remove(&number).map_or(number, |running| running.chain);
        self.unfinished -= 1;
        let waiting = self.commits.iter_mut().filter(|commit| chain <= commit.last);
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

    /// The number of unfinished tasks, and of those for later that do not count as unfinished yet.
    pub(super) fn unfinished_or_later(&self) -> usize {
        self.unfinished + self.later.iter().filter(|later| later.chain.is_none()).count()
    }

    /// Adds a commit, which waits for all unfinished tasks. Gives the event back if there are none.
    pub(super) fn commit(&mut self, event: Option<E>, is_urgent: bool) -> Option<E> {
        if self.unfinished == 0 {
            return event;
        }
        let (last, unfinished) = (self.next - 1, self.unfinished);
        self.commits.push(Commit { last, unfinished, is_urgent, event });
        None
    }
}
