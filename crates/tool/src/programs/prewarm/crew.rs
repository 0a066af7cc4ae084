//! The workers, and what each of them is doing: gives out keys, watches time and memory, replaces workers that die, and
//! blames the key that they were at.
//!
//! Some workers make pipelines, others check what was made. A check asks another process than the one that made the
//! pipeline, because what a driver keeps in memory proves nothing. Checking begins when no worker is needed for making
//! any more, while the last and longest pipelines are still being made.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Display;
use std::os::unix::process::ExitStatusExt as _;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use super::child::{Child, Event, Launch, ending};
use super::limits::Limits;
use super::order::Task;
use super::plan::{Group, Planned, from_hex, header_of};
use super::quarantine::{self, Cause, Culprit};
use super::requests::{self, Requests};
use super::stop;

/// Keys that a worker has at most: the one that it works on and the next ones, so that it never waits for its parent.
const AT_ONCE: usize = 16;
/// A worker gets no further key while it has work for so many microseconds: another worker may be free earlier.
const ENOUGH: u64 = 10_000;
/// A worker more is started for so many waiting keys, or for so many microseconds of work: it takes some time to start.
const WORTH_A_WORKER: (usize, u64) = (2, 100_000);
/// A worker more is started for this number of keys that wait for the check, too.
const WORTH_A_CHECK: usize = 32;
/// What a check costs, in microseconds.
const CHECK: u64 = 200;
/// How often time and memory are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(25);
/// A worker that has nothing more to do may take this long to end.
const TO_END: Duration = Duration::from_secs(30);
/// A driver of which nothing can be kept is given up after this many pipelines.
const HOPELESS: u64 = 8;
/// A device that cannot be opened, or a worker that dies between two keys, is tried again so often.
const ATTEMPTS: u32 = 3;

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
    fn request(self, task: &Task) -> &'static str {
        match self {
            Phase::Make if task.again => "remake",
            Phase::Make => "make",
            Phase::Check => "check",
        }
    }
}

/// What came of one group.
#[derive(Default)]
pub(crate) struct Outcome {
    /// Of making.
    pub(crate) made: PhaseOutcome,
    /// Of the check.
    pub(crate) checked: PhaseOutcome,
    /// Keys that were given to the check.
    pub(crate) to_check: u64,
    /// Keys that were made again, because the driver does not take what was there.
    pub(crate) renewed: u64,
    /// Artifacts of links that were there, and that the driver does not take with what the recipe says of them.
    pub(crate) unconfirmed: u64,
    /// Artifacts that were there, and whose pipelines cannot be asked for, by reason.
    pub(crate) unchecked: BTreeMap<String, u64>,
}

impl Outcome {
    fn of(&mut self, phase: Phase) -> &mut PhaseOutcome {
        match phase {
            Phase::Make => &mut self.made,
            Phase::Check => &mut self.checked,
        }
    }
}

/// What came of one group in one phase.
#[derive(Default)]
pub(crate) struct PhaseOutcome {
    /// Keys that were made and recorded; or served, in the check.
    pub(crate) good: u64,
    /// Artifacts that were there when the worker looked.
    pub(crate) there: u64,
    /// Pipelines that were made, and of which the driver gives out nothing.
    pub(crate) unrecorded: u64,
    /// Keys whose artifact was not taken.
    pub(crate) missed: Vec<[u8; 32]>,
    /// Keys that were not made, by reason.
    pub(crate) cannot: BTreeMap<String, u64>,
    /// Why the group was given up.
    pub(crate) given_up: Option<String>,
    /// The group was given up because a worker cannot be started, or dies, or finds another device.
    pub(crate) failed: bool,
}

/// Told of each key that is done with.
pub(crate) trait Watcher {
    /// A key is made.
    fn done(&mut self);
    /// A line of news.
    fn tell(&mut self, line: &dyn Display);
}

/// One worker and what it has to do.
struct Slot {
    mark: u64,
    child: Child,
    phase: Phase,
    group: usize,
    /// The device is open.
    ready: bool,
    /// Sent and not answered; the first one is being worked on if `since` is set.
    sent: VecDeque<Task>,
    /// When it began what it does now.
    since: Instant,
    /// The worker has said that it began with the first key.
    working: bool,
    /// Keys that it has answered.
    answered: u64,
    /// The worker gets no more keys.
    retiring: bool,
    /// Why it was killed.
    killed: Option<Cause>,
    /// It was killed before it was done, because work ends.
    stopped: bool,
    /// Where the program's requests were when the worker got its last key ([`Requests::at`]).
    requests_at: Option<usize>,
}

/// All workers.
pub(crate) struct Crew<'a> {
    launch: &'a Launch,
    limits: Limits,
    applications: &'a [Planned],
    groups: &'a mut [Group],
    outcomes: Vec<Outcome>,
    culprits: Vec<Culprit>,
    /// How often a group's worker died without a culprit, in a row, for each phase.
    failures: Vec<[u32; 2]>,
    slots: Vec<Slot>,
    requests: Requests,
    marks: u64,
    looked: Instant,
    /// Work has ended before it was done.
    stopped: bool,
    sender: Sender<(u64, Event)>,
    events: Receiver<(u64, Event)>,
}

impl<'a> Crew<'a> {
    /// Nothing is started yet.
    pub(crate) fn new(
        launch: &'a Launch,
        limits: Limits,
        applications: &'a [Planned],
        groups: &'a mut [Group],
    ) -> Crew<'a> {
        let (sender, events) = channel();
        let to_check = |group: &Group| Outcome { to_check: group.checks.len() as u64, ..Outcome::default() };
        let requests = Requests::new(launch.program, groups.iter().flat_map(|group| &group.tasks));
        Crew {
            launch,
            limits,
            applications,
            outcomes: groups.iter().map(to_check).collect(),
            culprits: Vec::new(),
            failures: vec![[0; 2]; groups.len()],
            groups,
            slots: Vec::new(),
            requests,
            marks: 0,
            looked: Instant::now(),
            stopped: false,
            sender,
            events,
        }
    }

    /// Works until nothing is left to do, or until it is to stop.
    pub(crate) fn run(mut self, watcher: &mut dyn Watcher) -> (Vec<Outcome>, Vec<Culprit>) {
        loop {
            if self.launch.stop.reason().is_some() {
                self.stop();
            } else {
                self.employ(watcher);
            }
            if self.slots.is_empty() {
                break;
            }
            let left = LOOK_EVERY.saturating_sub(self.looked.elapsed());
            match self.events.recv_timeout(left) {
                Ok((mark, event)) => self.hear(mark, event, watcher),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            if self.looked.elapsed() >= LOOK_EVERY {
                self.looked = Instant::now();
                self.look();
            }
        }
        (self.outcomes, self.culprits)
    }

    /// Ends all workers. What they have reported is on the disk.
    fn stop(&mut self) {
        self.stopped = true;
        for slot in self.slots.iter_mut().filter(|slot| slot.killed.is_none()) {
            slot.stopped = true;
            slot.child.kill();
        }
    }

    /// Gives keys to the workers, and starts workers where there is work, up to the limit.
    fn employ(&mut self, watcher: &mut dyn Watcher) {
        for slot in 0..self.slots.len() {
            self.feed(slot);
        }
        while self.slots.len() < self.limits.jobs {
            let wanted = self.wanted(Phase::Make).map(|group| (group, Phase::Make));
            let wanted = wanted.or_else(|| self.wanted(Phase::Check).map(|group| (group, Phase::Check)));
            let Some((group, phase)) = wanted else { break };
            if !self.start(group, phase, watcher) {
                break;
            }
        }
    }

    /// The group with the most work for each of its workers, among those that need another one.
    fn wanted(&self, phase: Phase) -> Option<usize> {
        let is_open = |slot: &&Slot, group| slot.group == group && !slot.retiring;
        let open =
            |group| self.slots.iter().filter(|slot| is_open(slot, group) && slot.phase == phase).count();
        let work = |group: usize| -> (usize, u64) {
            let tasks = self.tasks(group, phase);
            (tasks.len(), tasks.iter().map(|task| cost(phase, task)).sum())
        };
        let is_wanted = |group: &usize| {
            let ((keys, micros), open) = (work(*group), open(*group));
            let is_worth_it = keys > WORTH_A_WORKER.0 * open || micros > WORTH_A_WORKER.1 * open as u64;
            // While pipelines are made there will be more to check; and those that run may find what they were started
            // after only.
            let is_made = || self.slots.iter().any(|slot| slot.group == *group && slot.phase == Phase::Make);
            match phase {
                _ if keys == 0 => false,
                Phase::Make => open == 0 || is_worth_it,
                Phase::Check => keys > WORTH_A_CHECK * (1 + open) || open == 0 && !is_made(),
            }
        };
        let wanted = (0..self.groups.len()).filter(is_wanted);
        wanted.max_by_key(|&group| work(group).1 / (1 + open(group)) as u64)
    }

    fn tasks(&self, group: usize, phase: Phase) -> &VecDeque<Task> {
        match phase {
            Phase::Make => &self.groups[group].tasks,
            Phase::Check => &self.groups[group].checks,
        }
    }

    fn tasks_mut(&mut self, group: usize, phase: Phase) -> &mut VecDeque<Task> {
        match phase {
            Phase::Make => &mut self.groups[group].tasks,
            Phase::Check => &mut self.groups[group].checks,
        }
    }

    fn start(&mut self, group: usize, phase: Phase, watcher: &mut dyn Watcher) -> bool {
        self.marks += 1;
        let Group { device, configuration, application, header, .. } = &self.groups[group];
        let folder = &self.applications[*application].name.folder;
        let width = header.pointer_width;
        match Child::start(self.launch, width, folder, Some(*device), &self.sender, self.marks) {
            Ok(mut child) => {
                child.send(&format!("open {device} {}", hex::encode(configuration)));
                self.slots.push(Slot {
                    mark: self.marks,
                    child,
                    phase,
                    group,
                    ready: false,
                    sent: VecDeque::new(),
                    since: Instant::now(),
                    working: false,
                    answered: 0,
                    retiring: false,
                    killed: None,
                    stopped: false,
                    requests_at: None,
                });
                true
            }
            Err(error) => {
                // Workers that run go on. If there is none, nothing can be done.
                if self.slots.is_empty() {
                    for group in 0..self.groups.len() {
                        for phase in [Phase::Make, Phase::Check] {
                            self.give_up(group, phase, &format!("cannot start a worker: {error}"), watcher);
                        }
                    }
                }
                false
            }
        }
    }

    /// Sends keys to a worker, or lets it end.
    fn feed(&mut self, at: usize) {
        let Slot { group, phase, mark, ready, retiring, .. } = self.slots[at];
        if !ready || retiring {
            return;
        }
        loop {
            let slot = &self.slots[at];
            let sent: u64 = slot.sent.iter().map(|task| cost(phase, task)).sum();
            // Towards the end fewer, however little they cost the last time: the others are to have work as long.
            let share = (self.tasks(group, phase).len() / (2 * self.limits.jobs)).clamp(1, AT_ONCE);
            let is_full = slot.sent.len() >= share || !slot.sent.is_empty() && sent >= ENOUGH;
            if is_full || slot.sent.iter().any(|task| task.alone) {
                return;
            }
            // What a worker died of is tried by one that has done nothing else; others leave it to that one.
            let fresh = slot.answered == 0 && slot.sent.is_empty();
            let (requests_at, before) = (self.requests.at(), slot.requests_at);
            let tasks = self.tasks_mut(group, phase);
            let suits = |task: &Task| (fresh || !task.alone) && task.made_at < mark;
            let next = requests::next(tasks, requests_at, before, suits);
            let Some(task) = next.and_then(|next| tasks.remove(next)) else { return self.retire(at) };
            let slot = &mut self.slots[at];
            slot.requests_at = requests_at;
            slot.child.send(&format!("{} {}", phase.request(&task), hex::encode(task.key)));
            slot.sent.push_back(task);
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
            if slot.killed.is_some() || slot.stopped {
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
        let (group, phase) = (slot.group, slot.phase);
        if !slot.ready {
            let opened =
                what == "opened" && second.and_then(header_of).as_ref() == Some(&self.groups[group].header);
            if opened {
                slot.ready = true;
                slot.since = Instant::now();
                // Before it gets the first key: then nothing but the device is to blame.
                self.look();
            } else {
                let reason = line.strip_prefix("cannot ").unwrap_or("the device is not what it was");
                let reason = reason.to_owned();
                self.retire(at);
                self.give_up(group, phase, &reason, watcher);
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
        let Some(task) = slot.sent.pop_front() else { return };
        (slot.working, slot.since) = (false, Instant::now());
        slot.answered += 1;
        self.failures[group][phase as usize] = 0;
        self.note(group, phase, task, what, reason.unwrap_or("no reason"));
        if phase == Phase::Make {
            watcher.done();
        }
        let made = &self.outcomes[group].made;
        let nothing_kept = made.good == 0 && made.there == 0 && self.groups[group].there == 0;
        // A driver's cache on disk may keep what the driver does not give out.
        if made.unrecorded >= HOPELESS && nothing_kept && self.launch.private.is_none() {
            self.give_up(group, Phase::Make, NOTHING_KEPT, watcher);
        }
        // What a driver keeps of each pipeline adds up: a worker is replaced before it would be killed for that.
        let slot = &self.slots[at];
        if !slot.retiring && slot.child.resident().is_some_and(|bytes| bytes > self.limits.memory / 4 * 3) {
            self.retire(at);
        }
    }

    /// What a worker has answered.
    fn note(&mut self, group: usize, phase: Phase, mut task: Task, what: &str, reason: &str) {
        let Outcome { made, checked, to_check, renewed, unconfirmed, unchecked } = &mut self.outcomes[group];
        match (phase, what) {
            (Phase::Make, "made" | "there") => {
                if what == "made" {
                    made.good += 1;
                    *renewed += u64::from(task.again);
                } else {
                    made.there += u64::from(!task.again);
                }
                (task.present, task.alone, task.doubted, task.made_at) = (false, false, false, self.marks);
                // Artifacts that nobody will use need no check.
                if self.launch.private.is_none() {
                    *to_check += 1;
                    self.groups[group].checks.push_back(task);
                }
            }
            (Phase::Make, "unrecorded") => made.unrecorded += 1,
            (Phase::Check, "served") => checked.good += 1,
            // The worker may have read the folder while another process changed it.
            (Phase::Check, "missed") if !task.doubted => {
                (task.doubted, task.alone, task.made_at) = (true, false, self.marks);
                self.groups[group].checks.push_back(task);
            }
            // Of a link the recipe does not say everything: what a program has recorded may be right.
            (Phase::Check, "missed") if task.present && task.is_link => {
                *unconfirmed += 1;
                *to_check -= 1;
            }
            (Phase::Check, "missed") if task.present => {
                (task.again, task.alone) = (true, false);
                *to_check -= 1;
                self.groups[group].there = self.groups[group].there.saturating_sub(1);
                self.groups[group].tasks.push_back(task);
            }
            (Phase::Check, "missed") => checked.missed.push(task.key),
            (Phase::Check, _) if task.present => {
                *unchecked.entry(reason.to_owned()).or_default() += 1;
                *to_check -= 1;
            }
            _ => *self.outcomes[group].of(phase).cannot.entry(reason.to_owned()).or_default() += 1,
        }
    }

    /// A worker has ended.
    fn bury(&mut self, at: usize, watcher: &mut dyn Watcher) {
        let mut slot = self.slots.swap_remove(at);
        let status = slot.child.wait();
        let is_asked_to = status.as_ref().is_ok_and(|status| status.signal().is_some_and(is_ending));
        if is_asked_to || slot.stopped {
            return self.forgive(slot, watcher);
        }
        let Slot { mut sent, group, phase, ready, working, answered, killed, .. } = slot;
        if sent.is_empty() && ready {
            // In order, or after its work.
            return;
        }
        let cause = killed.unwrap_or(Cause::Died(ending(status)));
        let culprit = if working { sent.pop_front() } else { None };
        let tasks = self.tasks_mut(group, phase);
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
            Some(task) => self.blame(group, phase, &task, cause, watcher),
            None => self.fail(group, phase, &format!("the worker {cause}"), watcher),
        }
    }

    /// A worker was ended on purpose, by this process or by somebody's signal: neither the driver nor a key is to
    /// blame, and another worker goes on.
    fn forgive(&mut self, slot: Slot, watcher: &mut dyn Watcher) {
        let Slot { child, sent, group, phase, .. } = slot;
        child.forgive();
        let tasks = self.tasks_mut(group, phase);
        for task in sent.into_iter().rev() {
            tasks.push_front(task);
        }
        if !self.stopped {
            self.fail(group, phase, "the worker was told to end", watcher);
        }
    }

    /// A worker has ended without a culprit. Not too many others are started.
    fn fail(&mut self, group: usize, phase: Phase, reason: &str, watcher: &mut dyn Watcher) {
        let failures = &mut self.failures[group][phase as usize];
        *failures += 1;
        if *failures >= ATTEMPTS {
            self.give_up(group, phase, reason, watcher);
        }
    }

    fn blame(&mut self, group: usize, phase: Phase, task: &Task, cause: Cause, watcher: &mut dyn Watcher) {
        let planned = &self.applications[self.groups[group].application];
        let culprit = quarantine::put(planned, &self.groups[group], &task.key, cause, phase == Phase::Check);
        watcher.tell(&culprit);
        self.culprits.push(culprit);
        if phase == Phase::Make {
            watcher.done();
        }
    }

    /// Nothing more is tried in this group.
    fn give_up(&mut self, group: usize, phase: Phase, reason: &str, watcher: &mut dyn Watcher) {
        let tasks = std::mem::take(self.tasks_mut(group, phase));
        let outcome = self.outcomes[group].of(phase);
        if tasks.is_empty() {
            return;
        }
        outcome.given_up = Some(reason.to_owned());
        outcome.failed |= reason != NOTHING_KEPT;
        for _ in tasks {
            *outcome.cannot.entry(reason.to_owned()).or_default() += 1;
            if phase == Phase::Make {
                watcher.done();
            }
        }
    }
}

fn is_ending(signal: i32) -> bool {
    stop::ENDING.contains(&signal)
}

/// Microseconds of work.
fn cost(phase: Phase, task: &Task) -> u64 {
    match phase {
        Phase::Make => task.cost,
        Phase::Check => CHECK,
    }
}
