//! The workers, and what each of them is doing: gives out keys, watches time and memory, replaces workers that die, and
//! blames the key that they were at.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Display;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use super::child::{Child, Event, Launch, ending};
use super::plan::{Group, Planned, Task, from_hex, header_of};
use super::quarantine::{self, Cause, Culprit};

/// Keys that a worker has at most: the one that it works on and the next one, so that it never waits for its parent.
const AT_ONCE: usize = 2;
/// How often time and memory are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(25);
/// A worker that has nothing more to do may take this long to end.
const TO_END: Duration = Duration::from_secs(30);
/// A driver of which nothing can be kept is given up after this many pipelines.
const HOPELESS: u64 = 8;
/// A device that cannot be opened, or a worker that dies between two keys, is tried again so often.
const ATTEMPTS: u32 = 3;

/// The limits.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    /// Workers at a time.
    pub(crate) jobs: usize,
    /// For one pipeline.
    pub(crate) timeout: Duration,
    /// Resident bytes of one worker.
    pub(crate) memory: u64,
}

const NOTHING_KEPT: &str = "the driver gives out nothing that could be kept";

/// What is asked of the workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Compile and record.
    Make,
    /// Answer from the artifact, without compiling.
    Check,
}

impl Phase {
    fn request(self) -> &'static str {
        match self {
            Phase::Make => "make",
            Phase::Check => "check",
        }
    }
}

/// What came of one group in one phase.
#[derive(Default)]
pub(crate) struct Outcome {
    /// Made and recorded; or served, in the check.
    pub(crate) good: Vec<[u8; 32]>,
    /// Artifacts that were there when the worker looked.
    pub(crate) there: Vec<[u8; 32]>,
    /// Pipelines that were made, and of which the driver gives out nothing.
    pub(crate) unrecorded: u64,
    /// Keys whose artifact was not taken.
    pub(crate) missed: Vec<[u8; 32]>,
    /// Keys that were not made, by reason.
    pub(crate) cannot: BTreeMap<String, u64>,
    /// Why the group was given up.
    pub(crate) given_up: Option<String>,
    /// It was given up because a worker cannot be started, or dies, or finds another device.
    pub(crate) failed: bool,
}

/// Told of each key that is done with.
pub(crate) trait Watcher {
    /// A key is done with.
    fn done(&mut self);
    /// A line of news.
    fn tell(&mut self, line: &dyn Display);
}

/// One worker and what it has to do.
struct Slot {
    mark: u64,
    child: Child,
    group: usize,
    /// The device is open.
    ready: bool,
    /// Sent and not answered; the first one is being worked on if `since` is set.
    sent: VecDeque<Task>,
    /// When it began what it does now.
    since: Instant,
    /// It has said that it began with the first key.
    working: bool,
    /// Keys that it has answered.
    answered: u64,
    /// It gets no more keys.
    retiring: bool,
    /// Why it was killed.
    killed: Option<Cause>,
}

/// All workers.
pub(crate) struct Crew<'a> {
    launch: &'a Launch,
    limits: Limits,
    phase: Phase,
    applications: &'a [Planned],
    groups: &'a mut [Group],
    outcomes: Vec<Outcome>,
    culprits: Vec<Culprit>,
    /// How often a group's worker died without a culprit, in a row.
    failures: Vec<u32>,
    slots: Vec<Slot>,
    marks: u64,
    sender: Sender<(u64, Event)>,
    events: Receiver<(u64, Event)>,
}

impl<'a> Crew<'a> {
    /// Nothing is started yet.
    pub(crate) fn new(
        launch: &'a Launch,
        limits: Limits,
        phase: Phase,
        applications: &'a [Planned],
        groups: &'a mut [Group],
    ) -> Crew<'a> {
        let (sender, events) = channel();
        Crew {
            launch,
            limits,
            phase,
            applications,
            outcomes: groups.iter().map(|_| Outcome::default()).collect(),
            culprits: Vec::new(),
            failures: vec![0; groups.len()],
            groups,
            slots: Vec::new(),
            marks: 0,
            sender,
            events,
        }
    }

    /// Works until nothing is left to do.
    pub(crate) fn run(mut self, watcher: &mut dyn Watcher) -> (Vec<Outcome>, Vec<Culprit>) {
        loop {
            self.employ(watcher);
            if self.slots.is_empty() {
                break;
            }
            match self.events.recv_timeout(LOOK_EVERY) {
                Ok((mark, event)) => self.hear(mark, event, watcher),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            self.look();
        }
        (self.outcomes, self.culprits)
    }

    /// Starts workers where there is work, up to the limit, and gives them keys.
    fn employ(&mut self, watcher: &mut dyn Watcher) {
        for slot in 0..self.slots.len() {
            self.feed(slot);
        }
        while self.slots.len() < self.limits.jobs {
            // The group with the most work for each of its workers.
            let open = |group: &usize| {
                self.slots.iter().filter(|slot| slot.group == *group && !slot.retiring).count()
            };
            let waiting = |group: &usize| self.groups[*group].tasks.len();
            let wanted = (0..self.groups.len()).filter(|group| waiting(group) > AT_ONCE * open(group));
            let Some(group) = wanted.max_by_key(|group| waiting(group) / (1 + open(group))) else { break };
            if !self.start(group, watcher) {
                break;
            }
        }
    }

    fn start(&mut self, group: usize, watcher: &mut dyn Watcher) -> bool {
        self.marks += 1;
        let planned = &self.applications[self.groups[group].application];
        match Child::start(self.launch, &planned.name.folder, &self.sender, self.marks) {
            Ok(mut child) => {
                let Group { device, setup, .. } = &self.groups[group];
                child.send(&format!("open {device} {}", hex::encode(setup)));
                self.slots.push(Slot {
                    mark: self.marks,
                    child,
                    group,
                    ready: false,
                    sent: VecDeque::new(),
                    since: Instant::now(),
                    working: false,
                    answered: 0,
                    retiring: false,
                    killed: None,
                });
                true
            }
            Err(error) => {
                // Those that run go on. If there is none, nothing can be done.
                if self.slots.is_empty() {
                    (0..self.groups.len()).for_each(|group| {
                        self.give_up(group, &format!("cannot start a worker: {error}"), watcher)
                    });
                }
                false
            }
        }
    }

    /// Sends keys to a worker, or lets it end.
    fn feed(&mut self, at: usize) {
        let Slot { group, ready, retiring, .. } = self.slots[at];
        if !ready || retiring {
            return;
        }
        let slot = &mut self.slots[at];
        let tasks = &mut self.groups[group].tasks;
        while slot.sent.len() < AT_ONCE && !slot.sent.iter().any(|task| task.alone) {
            let fresh = slot.answered == 0 && slot.sent.is_empty();
            match tasks.front() {
                // It wants a worker of its own.
                Some(task) if task.alone && !fresh => {
                    slot.retiring = true;
                    break;
                }
                Some(_) => {}
                None => {
                    slot.retiring = true;
                    break;
                }
            }
            let Some(task) = tasks.pop_front() else { break };
            slot.child.send(&format!("{} {}", self.phase.request(), hex::encode(task.key)));
            slot.sent.push_back(task);
        }
        if slot.retiring {
            self.retire(at);
        }
    }

    /// Lets a worker end: it answers what it was asked before.
    fn retire(&mut self, at: usize) {
        let slot = &mut self.slots[at];
        slot.retiring = true;
        slot.child.finish();
        if slot.sent.is_empty() {
            slot.since = Instant::now();
        }
    }

    /// Looks at times and memory.
    fn look(&mut self) {
        for slot in &mut self.slots {
            if slot.killed.is_some() {
                continue;
            }
            let patience = match (slot.ready, slot.sent.is_empty()) {
                (true, false) => self.limits.timeout,
                (true, true) => TO_END,
                (false, _) => self.limits.timeout.max(TO_END),
            };
            // A worker that is asked nothing waits for its parent.
            let waits = slot.ready && slot.sent.is_empty() && !slot.retiring;
            if !waits && slot.since.elapsed() > patience {
                slot.killed = Some(Cause::Hung(patience));
            } else if slot.child.resident().is_some_and(|bytes| bytes > self.limits.memory) {
                slot.killed = Some(Cause::Memory(self.limits.memory));
            }
            if slot.killed.is_some() {
                slot.child.kill();
            }
        }
    }

    fn hear(&mut self, mark: u64, event: Event, watcher: &mut dyn Watcher) {
        let Some(at) = self.slots.iter().position(|slot| slot.mark == mark) else { return };
        match event {
            Event::Line(line) => self.hear_line(at, &line, watcher),
            Event::End => self.bury(at, watcher),
        }
    }

    fn hear_line(&mut self, at: usize, line: &str, watcher: &mut dyn Watcher) {
        let mut words = line.splitn(3, ' ');
        let (what, second, reason) = (words.next().unwrap_or_default(), words.next(), words.next());
        let slot = &mut self.slots[at];
        let group = slot.group;
        if !slot.ready {
            let opened =
                what == "opened" && second.and_then(header_of).as_ref() == Some(&self.groups[group].header);
            if opened {
                slot.ready = true;
                slot.since = Instant::now();
            } else {
                let reason = line.strip_prefix("cannot ").unwrap_or("the device is not what it was");
                let reason = reason.to_owned();
                self.retire(at);
                self.give_up(group, &reason, watcher);
            }
            return;
        }
        let Some(key) = second.and_then(from_hex) else { return };
        if slot.sent.front().is_none_or(|task| task.key != key) {
            return;
        }
        if what == "start" {
            (slot.working, slot.since) = (true, Instant::now());
            return;
        }
        slot.sent.pop_front();
        (slot.working, slot.since) = (false, Instant::now());
        slot.answered += 1;
        let outcome = &mut self.outcomes[group];
        self.failures[group] = 0;
        match what {
            "made" | "served" => outcome.good.push(key),
            "there" => outcome.there.push(key),
            "missed" => outcome.missed.push(key),
            "unrecorded" => outcome.unrecorded += 1,
            _ => *outcome.cannot.entry(reason.unwrap_or("no reason").to_owned()).or_default() += 1,
        }
        watcher.done();
        let outcome = &self.outcomes[group];
        let nothing_kept =
            outcome.good.is_empty() && outcome.there.is_empty() && self.groups[group].there.is_empty();
        if outcome.unrecorded >= HOPELESS && nothing_kept {
            self.give_up(group, NOTHING_KEPT, watcher);
        }
        // What a driver keeps of each pipeline adds up: a worker is replaced before it would be killed for that.
        let slot = &self.slots[at];
        if !slot.retiring && slot.child.resident().is_some_and(|bytes| bytes > self.limits.memory / 4 * 3) {
            self.retire(at);
        }
    }

    /// A worker has ended.
    fn bury(&mut self, at: usize, watcher: &mut dyn Watcher) {
        let slot = self.slots.swap_remove(at);
        let Slot { mut sent, group, ready, working, answered, killed, .. } = slot;
        let status = ending(slot.child.wait());
        if sent.is_empty() && ready {
            // In order, or after its work.
            return;
        }
        let cause = killed.unwrap_or(Cause::Died(status));
        let culprit = if working { sent.pop_front() } else { None };
        let tasks = &mut self.groups[group].tasks;
        for task in sent.into_iter().rev() {
            tasks.push_front(task);
        }
        match culprit {
            // What a driver made of earlier keys may be to blame: once more in a new worker. Not after a hang, which
            // would cost the same time again.
            Some(mut task) if answered > 0 && !matches!(cause, Cause::Hung(_)) => {
                task.alone = true;
                tasks.push_front(task);
            }
            Some(task) => self.blame(group, &task, cause, watcher),
            None => {
                self.failures[group] += 1;
                if self.failures[group] >= ATTEMPTS && self.outcomes[group].given_up.is_none() {
                    self.give_up(group, &format!("the worker {cause}"), watcher);
                }
            }
        }
    }

    fn blame(&mut self, group: usize, task: &Task, cause: Cause, watcher: &mut dyn Watcher) {
        let planned = &self.applications[self.groups[group].application];
        let culprit =
            quarantine::put(planned, &self.groups[group], &task.key, cause, self.phase == Phase::Check);
        watcher.tell(&culprit);
        self.culprits.push(culprit);
        watcher.done();
    }

    /// Nothing more is tried in this group.
    fn give_up(&mut self, group: usize, reason: &str, watcher: &mut dyn Watcher) {
        let tasks = std::mem::take(&mut self.groups[group].tasks);
        if tasks.is_empty() && self.outcomes[group].given_up.is_some() {
            return;
        }
        self.outcomes[group].given_up = Some(reason.to_owned());
        self.outcomes[group].failed |= reason != NOTHING_KEPT;
        for _ in tasks {
            *self.outcomes[group].cannot.entry(reason.to_owned()).or_default() += 1;
            watcher.done();
        }
    }
}
