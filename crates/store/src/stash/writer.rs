//! The writer thread: started when there is something to write, joined when the stash closes. It looks at the
//! queues by timer, so that the threads of the program need not wake it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::base::thread;
use crate::base::timer::Timer;
use crate::base::util::{random, unix_ms};
use crate::disk::home::Home;
use crate::format::record::{Key, Kind, UseRecord};
use crate::format::sizes::HEAD_BYTES;
use crate::part::open::Part;
use crate::part::open::{Pending, Shared, Use};
use crate::segment::append::{Appender, Item};
use crate::stash::duplicates::Duplicates;
use crate::stash::held::Held;
use crate::stash::helper;
use crate::stash::helper::Job;
use crate::stash::maintenance::{Keeper, Space};
use crate::stash::own_report::Runs;
use crate::upkeep::work::CROWDED;

/// Between two looks at the queues while records come in.
const BUSY: Duration = Duration::from_millis(50);
/// The same after [`QUIET_AFTER`]; also the least time between two reports of a process that has just started, ...
const QUIET: Duration = Duration::from_millis(250);
/// ... and of one that has run for long: a program that never stops asking has its report written once in this time.
const SELDOM: Duration = Duration::from_secs(2);
const QUIET_AFTER: Duration = Duration::from_secs(1);
/// After so long without anything to do the writer sleeps until it is woken.
const IDLE_AFTER: Duration = if cfg!(test) { Duration::from_secs(1) } else { Duration::from_secs(20) };
/// Records that have waited for so long are written as they are: what a killed process loses counts, not their size.
const LATE: Duration = Duration::from_millis(100);
/// A batch is written when its records have this many bytes.
const BATCH_BYTES: usize = 1 << 20;
/// Of so many processes that end before the helper was called, one folds the reports at its end.
const FOLDS_AT_END: u64 = 16;
/// What a write that the user's file system has no room for is counted under.
pub(crate) const TOO_LITTLE_SPACE: &str = "less than the free-space floor is free";

/// What the writer needs to start.
pub(crate) struct Start {
    /// Where uses are written. Weak: the parts hold [`Shared`], which holds this.
    pub(crate) portable: Weak<Part>,
    /// Where reports are written.
    pub(crate) runs: Arc<Runs>,
    /// The application's folder, and that of all applications.
    pub(crate) home: Arc<Home>,
}

/// Starts the thread.
pub(crate) fn spawn(shared: &Arc<Shared>, start: &Start) -> Option<JoinHandle<()>> {
    let shared = shared.clone();
    let home = start.home.clone();
    let keeper = Arc::new(Keeper::new(home.clone()));
    let (portable, runs) = (start.portable.clone(), start.runs.clone());
    let body = move || {
        let mut writer = Writer::new(shared.clone(), portable, runs, Space::new(home), keeper);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| writer.run()));
        shared.writer.ends(outcome.is_ok());
        if outcome.is_err() {
            shared.tallies.write_error("the writer thread failed".to_owned());
            shared.discard();
            shared.flush_done(u64::MAX);
        }
        shared.notify_ended();
        // Also where nobody has waited for so long.
        if shared.is_closing() {
            shared.discard_after_close();
        }
    };
    thread::spawn("vkstash-writer", body)
}

struct Writer {
    shared: Arc<Shared>,
    portable: Weak<Part>,
    runs: Arc<Runs>,
    space: Space,
    keeper: Arc<Keeper>,
    /// The segments that are being written, by part.
    appenders: HashMap<String, Appender>,
    duplicates: Duplicates,
    held: Held,
    /// Keys whose first use in this run has been written.
    used: HashSet<Key>,
    /// Something that belongs into the report has happened since it was written.
    report_due: bool,
    reported: Option<Instant>,
    started: Instant,
    /// Reports of others are still to be folded.
    folds: bool,
}

impl Writer {
    fn new(
        shared: Arc<Shared>,
        portable: Weak<Part>,
        runs: Arc<Runs>,
        space: Space,
        keeper: Arc<Keeper>,
    ) -> Writer {
        Writer {
            shared,
            portable,
            runs,
            space,
            keeper,
            appenders: HashMap::new(),
            duplicates: Duplicates::default(),
            held: Held::default(),
            used: HashSet::new(),
            report_due: true,
            reported: None,
            started: Instant::now(),
            folds: false,
        }
    }

    fn run(&mut self) {
        // As urgent as the program: it writes little, and what waits for it dies with the process.
        // Unless something has happened before: started for the report alone.
        let mut for_the_report = self.shared.is_closing();
        // When there was something to write, and when there was anything at all.
        let (mut active, mut stirred) = (Instant::now(), Instant::now());
        let ending = loop {
            // Read before draining: what was queued before the question is written before the answer.
            let (closing, flush) = (self.shared.is_closing(), self.shared.flush_asked());
            let ending = closing.then(|| Timer::of(self.shared.haste.end));
            if closing || self.shared.is_leaving() {
                // First, because a process that dies from here on must not count as one that died of an artifact.
                self.shared.live_parts().iter().for_each(|part| part.ends_in_order());
            }
            if self.drain() {
                (active, stirred) = (Instant::now(), Instant::now());
                for_the_report = false;
            }
            if self.shared.take_touched() {
                (self.report_due, stirred) = (true, Instant::now());
                for_the_report = false;
            }
            if let Some(ending) = ending {
                break ending;
            }
            self.report(false);
            if self.answer(flush) || self.shared.is_closing() {
                continue;
            }
            self.call_the_helper(active.elapsed());
            self.sleep(active.elapsed(), stirred.elapsed());
        };
        if !self.held.is_empty() {
            // What follows may take long.
            self.report(true);
        }
        while !self.held.is_empty() {
            self.held.read_for(&self.shared);
            self.drain();
        }
        self.seal();
        // One for all of it: to replace a file costs more than to make one.
        self.report(true);
        self.shared.flush_done(u64::MAX);
        let parts = self.shared.live_parts();
        if for_the_report || !self.has_more_to_do(&parts) {
            return;
        }
        // The closing thread waits for what follows as long as `haste.end` allows.
        self.shared.writer.set_written();
        let interrupted = || ending.is_over();
        parts.iter().for_each(|part| part.seal_orphans(&interrupted));
        if self.folds && !interrupted() {
            helper::fold(&self.runs);
        }
        if self.keeper.tend_in_haste(&self.shared, &interrupted) {
            self.report_due = true;
            self.report(true);
        }
    }

    /// Whether there is more to do at the end than to write. A program finds out without asking the disk, and looks after
    /// the reports of others only now and then.
    fn has_more_to_do(&self, parts: &[Arc<Part>]) -> bool {
        let patient = !self.shared.haste.helper.is_zero();
        let crowded = || parts.iter().any(|part| part.view().segments().len() + 1 >= CROWDED);
        patient
            || parts.iter().any(|part| part.view().has_orphans())
            || !self.keeper.is_done() && crowded()
            || self.folds && random() % FOLDS_AT_END == 0
    }

    /// Has done by another thread what takes long.
    fn call_the_helper(&mut self, quiet_for: Duration) {
        if self.shared.helper.is_busy() {
            return;
        }
        let (asked, tends) =
            (self.shared.take_asked_for_help(), self.keeper.is_due(quiet_for, &self.portable));
        if asked || self.folds || tends {
            let (runs, keeper) = (self.runs.clone(), self.keeper.clone());
            let job = Job { runs, keeper, folds: self.folds, tends };
            // Where there can be no other thread, what it is for is left for another run.
            let started = helper::start(&self.shared, job);
            self.folds &= !started;
        }
    }

    /// Writes a report for a flush that is still open, and says whether there was one.
    fn answer(&mut self, flush: u64) -> bool {
        if !self.shared.flush_is_open(flush) || !self.held.is_empty() {
            return false;
        }
        self.report(true);
        self.shared.flush_done(flush);
        true
    }

    fn sleep(&self, quiet_for: Duration, idle_for: Duration) {
        if quiet_for < QUIET_AFTER || !self.held.is_empty() {
            std::thread::park_timeout(BUSY);
        } else if idle_for < IDLE_AFTER || self.report_due || !self.keeper.is_done() {
            if self.shared.may_doze() {
                std::thread::park_timeout(QUIET);
                self.shared.set_awake();
            }
        } else if self.shared.may_sleep() {
            // An idle program is not woken by us: whoever has something for the writer wakes it.
            match self.shared.until_retry() {
                // It may be time, and the helper not free.
                Some(wait) => std::thread::park_timeout(wait.max(BUSY)),
                None => std::thread::park(),
            }
            self.shared.set_awake();
        } else if self.shared.helper.is_busy() {
            // What was asked for may have to wait until the helper is free.
            std::thread::park_timeout(BUSY);
        }
    }

    /// Writes what is queued. False: there was nothing.
    fn drain(&mut self) -> bool {
        let noted = self.take_uses();
        let mut wrote = false;
        self.held.look(&self.shared);
        loop {
            let mut batches: Vec<(Arc<Part>, Vec<Item>)> = Vec::new();
            let (mut bytes, mut late) = (0, false);
            while bytes < BATCH_BYTES {
                let Some(Pending { part, slot, payload, since, .. }) = self.next() else { break };
                late |= since.is_some_and(|since| since.elapsed() > LATE);
                bytes += payload.0.len() + HEAD_BYTES;
                match batches.iter_mut().find(|(other, _)| Arc::ptr_eq(other, &part)) {
                    Some((_, items)) => items.push((slot, payload)),
                    None => batches.push((part, vec![(slot, payload)])),
                }
            }
            if batches.is_empty() {
                break;
            }
            wrote = true;
            for (part, items) in batches {
                self.write(&part, &items, late);
            }
        }
        self.report_due |= wrote || noted;
        wrote || noted
    }

    /// The next record that may be written.
    fn next(&mut self) -> Option<Pending> {
        if let Some(pending) = self.held.next() {
            return Some(pending);
        }
        loop {
            let pending = self.shared.pop()?;
            if pending.part.is_refused() {
                pending.part.index().unwritten(pending.slot, &pending.payload);
                self.shared.release(pending.payload.0.len());
                self.shared.tallies.dropped(1);
            } else if let Some(pending) = self.held.pass(pending, &self.shared) {
                return Some(pending);
            }
        }
    }

    /// Turns noted uses into records. False: there were none.
    fn take_uses(&mut self) -> bool {
        let mut any = false;
        while let Some(Use { key, taken_from }) = self.shared.pop_use() {
            any = true;
            if let Some(part) = taken_from {
                part.prove(&key);
            }
            if self.used.contains(&key) {
                continue;
            }
            let Some(portable) = self.portable.upgrade() else {
                self.shared.tallies.dropped(1);
                continue;
            };
            let sequence = u32::try_from(self.used.len()).unwrap_or(u32::MAX);
            let payload = UseRecord { unix_ms: unix_ms(), sequence, run: 0 }.encode();
            if portable.enqueue(Kind::Use, &key, payload.into()) {
                self.used.insert(key);
            }
        }
        any
    }

    /// Writes one batch, in as few calls as possible.
    fn write(&mut self, part: &Arc<Part>, items: &[Item], late: bool) {
        let stored = self.duplicates.replace(part, items);
        let fitting = self.space.fitting(&stored);
        let space = if fitting > 0 { Ok(()) } else { Err(TOO_LITTLE_SPACE.to_owned()) };
        let written = match space.and_then(|()| self.appender(part)) {
            Ok(appender) => {
                let (locations, bytes, outcome) = appender.append(&stored[..fitting], late);
                for (((slot, payload), (other, _)), location) in items.iter().zip(&*stored).zip(&locations) {
                    match slot == other {
                        true => part.index().written(*slot, payload, location),
                        false => part.index().written_as(*slot, payload, *other, location),
                    }
                }
                self.shared.tallies.written(locations.len(), bytes);
                match outcome {
                    Ok(()) if fitting < items.len() => Err((fitting, TOO_LITTLE_SPACE.to_owned())),
                    Ok(()) => Ok(()),
                    Err(error) => Err((locations.len(), reason(&error))),
                }
            }
            Err(reason) => Err((0, reason)),
        };
        let intact = written.as_ref().map_or_else(|(intact, _)| *intact, |()| items.len());
        match written {
            Ok(()) => part.reopen(),
            Err((_, reason)) => {
                part.close_for_a_while();
                self.shared.tallies.write_error(reason);
                self.shared.tallies.dropped((items.len() - intact) as u64);
                for (slot, payload) in &items[intact..] {
                    part.index().unwritten(*slot, payload);
                }
            }
        }
        let deaths = items[..intact].iter().filter(|(slot, _)| slot.kind == Kind::Deaths);
        part.deaths_are_written(deaths.map(|(slot, _)| &slot.key));
        items.iter().for_each(|(_, payload)| self.shared.release(payload.0.len()));
    }

    /// The segment to which this part's records go.
    fn appender(&mut self, part: &Part) -> Result<&mut Appender, String> {
        if self.appenders.get(part.name()).is_some_and(Appender::is_full) {
            if let Some(full) = self.appenders.remove(part.name()) {
                let segment = full.segment().clone();
                self.seal_one(full);
                part.replace_sealed(&segment);
            }
        }
        match self.appenders.entry(part.name().to_owned()) {
            std::collections::hash_map::Entry::Occupied(entry) => Ok(entry.into_mut()),
            std::collections::hash_map::Entry::Vacant(entry) => {
                let folder = part.folder().map_err(|error| error.to_string())?;
                let created = Appender::create(folder, part.identity().clone(), part.next_age());
                let created = created.map_err(|error| reason(&error))?;
                part.view().add_ours(created.segment().name());
                part.set_written();
                Ok(entry.insert(created))
            }
        }
    }

    fn seal_one(&self, appender: Appender) {
        match appender.seal() {
            Ok(bytes) => self.shared.tallies.written(0, bytes),
            // Not lost: it will be scanned instead.
            Err(error) => self.shared.tallies.write_error(reason(&error)),
        }
    }

    fn seal(&mut self) {
        for (_, appender) in std::mem::take(&mut self.appenders) {
            self.seal_one(appender);
            self.report_due = true;
        }
    }

    /// Brings the report up to date; at once if `now`, otherwise only as often as is bearable.
    fn report(&mut self, now: bool) {
        let interval = (self.started.elapsed() / 32).clamp(QUIET, SELDOM);
        let recent = self.reported.is_some_and(|reported| reported.elapsed() < interval);
        if !self.report_due || recent && !now {
            return;
        }
        self.report_due = false;
        self.runs.write(&self.shared);
        // Once a run, and not when the program ends: it may not get that far.
        self.folds |= self.reported.replace(Instant::now()).is_none();
    }
}

/// What a failed write is counted under.
fn reason(error: &std::io::Error) -> String {
    match rustix::io::Errno::from_io_error(error) {
        Some(rustix::io::Errno::BADF) => "descriptor closed by the program".to_owned(),
        _ => error.kind().to_string(),
    }
}
