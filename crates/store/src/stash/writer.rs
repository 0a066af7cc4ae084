//! The writer: a thread that is started when there is something to write, and joined when the stash closes. It looks at
//! the queues in intervals, so that threads of the program rarely have to wake it. When nothing was to be written for a
//! while it ends, and the next one goes on with what it has left.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::format::sizes::RECORD_HEADER_BYTES;
use crate::home::Home;
use crate::maintenance::work::MANY_SEGMENTS;
use crate::part::open::Part;
use crate::part::open::{Pending, Shared, Use};
use crate::segment::append::{Appender, Item};
use crate::stash::duplicates::Duplicates;
use crate::stash::helper;
use crate::stash::helper::Job;
use crate::stash::own_report::Runs;
use crate::stash::schedule::{Schedule, Space};
use crate::stash::waiting::WaitingRecords;
use vkstash_host::sync::Mutex;
use vkstash_host::thread::{self, Stack};
use vkstash_host::timer::Timer;
use vkstash_host::util::random;
use vkstash_model::record::Kind;

/// Time between two looks at the queues while records come in.
const BUSY: Duration = Duration::from_millis(50);
/// Time between two looks at the queues when no record has come for [`QUIET_AFTER`], and the shortest time between two
/// reports of a new process, ...
const QUIET: Duration = Duration::from_millis(250);
/// ... and of an old one.
const SELDOM: Duration = Duration::from_secs(2);
const QUIET_AFTER: Duration = Duration::from_secs(1);
/// After so long without work the writer ends.
const IDLE_AFTER: Duration = if cfg!(test) { Duration::from_secs(1) } else { Duration::from_secs(20) };
/// Records that have waited for this long are written uncompressed, so that a killed process loses less.
const OVERDUE: Duration = Duration::from_millis(100);
/// Payload bytes of one batch.
const BATCH_BYTES: usize = 1 << 20;
/// One in so many processes that end before the helper ran folds the reports at its end.
const FOLDS_AT_END: u64 = 16;
/// The reason for a write that the free-space limit forbids.
pub(crate) const TOO_LITTLE_SPACE: &str = "less than the free-space floor is free";

/// The objects that a writer is started with.
pub(crate) struct Start {
    /// The part for use records. A weak reference, because the parts hold [`Shared`], which holds this.
    portable: Weak<Part>,
    /// Writes the report.
    runs: Arc<Runs>,
    /// The folders of the application and of all applications.
    home: Arc<Home>,
    /// The state of a writer whose thread has ended for lack of work. It holds [`Shared`], so closing the stash takes
    /// it out.
    resting: Arc<Mutex<Option<Writer>>>,
}

impl Start {
    pub(crate) fn new(portable: Weak<Part>, runs: Arc<Runs>, home: Arc<Home>) -> Start {
        Start { portable, runs, home, resting: Arc::default() }
    }

    /// Starts the thread. `None`: the system refuses it, and what another one has left is dropped.
    pub(crate) fn spawn(&self, shared: &Arc<Shared>) -> Option<JoinHandle<()>> {
        let (left, resting) = (self.resting.lock().take(), self.resting.clone());
        let writer = left.unwrap_or_else(|| {
            let schedule = Arc::new(Schedule::new(self.home.clone()));
            let space = Space::new(self.home.clone());
            Writer::new(shared.clone(), self.portable.clone(), self.runs.clone(), space, schedule)
        });
        thread::spawn("vkstash-writer", Stack::Own, move || live(writer, &resting))
    }
}

/// The life of the thread.
fn live(mut writer: Writer, resting: &Mutex<Option<Writer>>) {
    let shared = writer.shared.clone();
    shared.writer.begins();
    loop {
        let run = std::panic::AssertUnwindSafe(|| writer.run());
        match std::panic::catch_unwind(run) {
            Ok(Run::Rests) => {}
            Ok(Run::Ends) => break shared.writer.ends(true),
            Err(_) => {
                shared.writer.ends(false);
                shared.tallies.write_error("the writer thread failed".to_owned());
                shared.discard();
                shared.flush_done(u64::MAX);
                break;
            }
        }
        *resting.lock() = Some(writer);
        shared.writer.rests();
        // What comes from now on starts another thread. What came before is this one's.
        if !shared.is_wanted() || !shared.writer.goes_on() {
            return;
        }
        // The writer's state is still in `resting` if no other thread was started.
        match resting.lock().take() {
            Some(left) => writer = left,
            None => return,
        }
    }
    drop(writer);
    shared.guards_are_served();
    shared.notify_ended();
    // Also if the closing thread has stopped waiting.
    if shared.is_closing() {
        shared.discard_after_close();
    }
}

/// Why the writer's thread ends.
enum Run {
    /// The stash is closed.
    Ends,
    /// For lack of work.
    Rests,
}

struct Writer {
    shared: Arc<Shared>,
    portable: Weak<Part>,
    runs: Arc<Runs>,
    space: Space,
    schedule: Arc<Schedule>,
    /// The segments that this process writes, by part.
    appenders: HashMap<String, Appender>,
    duplicates: Duplicates,
    held: WaitingRecords,
    /// The report has changed since it was written.
    report_due: bool,
    reported: Option<Instant>,
    started: Instant,
    /// Old reports of other processes are to be folded.
    folds: bool,
}

impl Writer {
    fn new(
        shared: Arc<Shared>,
        portable: Weak<Part>,
        runs: Arc<Runs>,
        space: Space,
        schedule: Arc<Schedule>,
    ) -> Writer {
        Writer {
            shared,
            portable,
            runs,
            space,
            schedule,
            appenders: HashMap::new(),
            duplicates: Duplicates::default(),
            held: WaitingRecords::default(),
            report_due: true,
            reported: None,
            started: Instant::now(),
            folds: false,
        }
    }

    fn run(&mut self) -> Run {
        // The writer keeps the priority of the program: it writes little, and unwritten records die with the process.
        // The writer was started for the report alone, unless it finds something else to do.
        let mut for_the_report = self.shared.is_closing() && self.reported.is_none();
        // The last time that there was something to write, and the last time that there was anything to do.
        let (mut active, mut stirred) = (Instant::now(), Instant::now());
        let ending = loop {
            // Read before the queues: what was queued before a flush is written before its answer.
            let (closing, flush) = (self.shared.is_closing(), self.shared.flush_asked());
            let ending = closing.then(|| Timer::of(self.shared.left_for_end()));
            if closing || self.shared.is_leaving() {
                // Removed first, so that a process that dies from here on does not look as if an artifact had killed
                // it.
                self.shared.live_parts().iter().for_each(|part| part.ends_in_order());
            }
            self.serve_guards();
            // Read after the flush that it belongs to.
            let seals = self.shared.take_seals();
            if self.drain() {
                (active, stirred) = (Instant::now(), Instant::now());
                for_the_report = false;
            }
            if seals {
                self.seal_and_go_on();
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
            // Most programs end now: the helper would outlast them.
            if !self.shared.is_at_rest() {
                self.call_the_helper(active.elapsed());
            }
            if self.sleeps(active.elapsed(), stirred.elapsed()) {
                return Run::Rests;
            }
        };
        self.end(&ending, for_the_report);
        Run::Ends
    }

    /// Writes what is left, and does what else there is time for before `ending` is over. The closing thread waits no
    /// longer. `for_the_report`: there was nothing to write but the report.
    fn end(&mut self, ending: &Timer, for_the_report: bool) {
        if !self.held.is_empty() {
            // Reading the parts may take long.
            self.report(true);
        }
        while !self.held.is_empty() {
            self.held.read_for(&self.shared);
            self.drain();
        }
        self.seal();
        // One report for everything, because replacing a file is dear.
        self.report(true);
        self.shared.flush_done(u64::MAX);
        let parts = self.shared.live_parts();
        if for_the_report || !self.has_more_to_do(&parts) {
            return;
        }
        // The closing thread waits for the following within the limit, too.
        self.shared.writer.set_written();
        let interrupted = || ending.is_over();
        parts.iter().for_each(|part| part.seal_orphans(&interrupted));
        if self.folds && !interrupted() {
            helper::fold(&self.runs);
        }
        if self.schedule.run_at_shutdown(&self.shared, &interrupted) {
            self.report_due = true;
            self.report(true);
        }
    }

    /// Makes the guard files that are wanted. Threads of the program may wait for them.
    fn serve_guards(&self) {
        if self.shared.take_guards_asked() {
            self.shared.live_parts().iter().for_each(|part| part.serve_guard());
            self.shared.guards_are_served();
        }
    }

    /// Whether there is more to do at the end than to write. Answered without the disk. Reports of other processes are
    /// folded only now and then.
    fn has_more_to_do(&self, parts: &[Arc<Part>]) -> bool {
        let patient = !self.shared.waits.helper.is_zero();
        let many_segments = || parts.iter().any(|part| part.view().segments().len() + 1 >= MANY_SEGMENTS);
        patient
            || parts.iter().any(|part| part.view().has_orphans())
            || !self.schedule.is_done() && many_segments()
            || self.folds && random() % FOLDS_AT_END == 0
    }

    /// Starts the helper if there is work for it.
    fn call_the_helper(&mut self, quiet_for: Duration) {
        if self.shared.helper.is_busy() {
            return;
        }
        let (asked, maintains) =
            (self.shared.take_asked_for_help(), self.schedule.is_due(quiet_for, &self.portable));
        // A thread that starts beside the program's first pipelines slows them down, so reports wait.
        let folds = self.folds && (quiet_for >= QUIET_AFTER || asked || maintains);
        if asked || folds || maintains {
            let (runs, schedule) = (self.runs.clone(), self.schedule.clone());
            // Without another thread the work is left for another run.
            let started = helper::start(&self.shared, Job { runs, schedule, folds, maintains });
            self.folds &= !(started && folds);
        }
    }

    /// Writes the report for a flush that waits. False: none does.
    fn answer(&mut self, flush: u64) -> bool {
        if !self.shared.flush_is_open(flush) || !self.held.is_empty() {
            return false;
        }
        self.report(true);
        self.shared.flush_done(flush);
        true
    }

    /// Sleeps until the queues are looked at again. True: there was nothing to do for so long that the thread ends, or
    /// it is one of the last ones of a process whose program has ended.
    fn sleeps(&mut self, quiet_for: Duration, idle_for: Duration) -> bool {
        let shared = self.shared.clone();
        let looks_often = quiet_for < QUIET_AFTER || !self.held.is_empty();
        // Work that another process can do does not keep this process alive. But no thread ends while an exit handler
        // runs: if it were the last one beside the handler's thread, the C library would call `exit` a second time.
        if thread::main_has_ended() && self.held.is_empty() && !shared.is_leaving() {
            self.report(true);
            if !shared.is_wanted() {
                return true;
            }
            shared.writer.sleep(BUSY);
        } else if looks_often {
            shared.writer.sleep(BUSY);
        } else if idle_for < IDLE_AFTER
            || self.report_due
            || !self.schedule.is_done()
            || shared.until_retry().is_some()
        {
            if shared.may_doze() {
                shared.writer.sleep(QUIET);
                shared.set_awake();
            }
        } else if !shared.is_wanted() && !shared.is_leaving() {
            return true;
        } else if shared.helper.is_busy() || shared.is_leaving() {
            // The helper may be asked for again when it is done.
            shared.writer.sleep(BUSY);
        }
        false
    }

    /// Writes what is queued. False: there was nothing.
    fn drain(&mut self) -> bool {
        let noted = self.take_uses();
        let mut wrote = false;
        self.held.release(&self.shared);
        loop {
            let mut batches: Vec<(Arc<Part>, Vec<Item>)> = Vec::new();
            let (mut bytes, mut overdue) = (0, false);
            while bytes < BATCH_BYTES {
                let Some(Pending { part, id, payload, since, .. }) = self.next() else { break };
                overdue |= since.is_some_and(|since| since.elapsed() > OVERDUE);
                bytes += payload.0.len() + RECORD_HEADER_BYTES;
                match batches.iter_mut().find(|(other, _)| Arc::ptr_eq(other, &part)) {
                    Some((_, items)) => items.push((id, payload)),
                    None => batches.push((part, vec![(id, payload)])),
                }
            }
            if batches.is_empty() {
                break;
            }
            wrote = true;
            for (part, items) in batches {
                self.serve_guards();
                self.write(&part, &items, overdue);
            }
        }
        self.runs.take_timeline(&self.shared);
        self.report_due |= wrote || noted;
        wrote || noted
    }

    /// The next record that may be written now.
    fn next(&mut self) -> Option<Pending> {
        if let Some(pending) = self.held.next() {
            return Some(pending);
        }
        loop {
            let pending = self.shared.pop()?;
            if pending.part.is_refused() {
                pending.part.recent().unwritten(pending.id, &pending.payload);
                self.shared.release(pending.payload.0.len());
                self.shared.tallies.dropped(1);
            } else if let Some(pending) = self.held.pass(pending, &self.shared) {
                return Some(pending);
            }
        }
    }

    /// Makes records of the uses that were noted. False: there were none.
    fn take_uses(&mut self) -> bool {
        let mut any = false;
        while let Some(Use { key, device, taken_from }) = self.shared.pop_use() {
            any = true;
            if let Some(part) = taken_from {
                part.set_verified(&key);
            }
            let Some(portable) = self.portable.upgrade() else {
                self.shared.tallies.dropped(1);
                continue;
            };
            let run = &self.runs.run;
            let Some(record) = run.note(&key, device, || portable.next_age()) else { continue };
            if portable.enqueue(Kind::Use, &key, record.encode().into()) {
                run.set_written(&key, record);
            }
        }
        any
    }

    /// Writes one batch in as few calls as possible.
    fn write(&mut self, part: &Arc<Part>, items: &[Item], overdue: bool) {
        let stored = self.duplicates.replace(part, items);
        let fitting = self.space.fitting(&stored);
        let space = if fitting > 0 { Ok(()) } else { Err(TOO_LITTLE_SPACE.to_owned()) };
        let written = match space.and_then(|()| self.appender(part)) {
            Ok(appender) => {
                let (locations, bytes, outcome) = appender.append(&stored[..fitting], overdue);
                for (((id, payload), (other, _)), location) in items.iter().zip(&*stored).zip(&locations) {
                    match id == other {
                        true => part.recent().written(*id, payload, location),
                        false => part.recent().written_as(*id, payload, *other, location),
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
                for (id, payload) in &items[intact..] {
                    part.recent().unwritten(*id, payload);
                }
            }
        }
        let crash_counts = items[..intact].iter().filter(|(id, _)| id.kind == Kind::CrashCount);
        part.crash_counts_are_written(crash_counts.map(|(id, _)| &id.key));
        items.iter().for_each(|(_, payload)| self.shared.release(payload.0.len()));
    }

    /// The segment that takes the records of this part.
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

    /// Seals all segments of this process, so that they may be rewritten. The next records go to new ones.
    fn seal_and_go_on(&mut self) {
        let parts = self.shared.live_parts();
        for (name, appender) in std::mem::take(&mut self.appenders) {
            let segment = appender.segment().clone();
            self.seal_one(appender);
            if let Some(part) = parts.iter().find(|part| part.name() == name) {
                part.replace_sealed(&segment);
            }
            self.report_due = true;
        }
    }

    fn seal_one(&self, appender: Appender) {
        match appender.seal() {
            Ok(bytes) => self.shared.tallies.written(0, bytes),
            // Nothing is lost: the file is scanned instead.
            Err(error) => self.shared.tallies.write_error(reason(&error)),
        }
    }

    fn seal(&mut self) {
        for (_, appender) in std::mem::take(&mut self.appenders) {
            self.seal_one(appender);
            self.report_due = true;
        }
    }

    /// Writes the report if it has changed: at once if `now`, otherwise at most once in an interval.
    fn report(&mut self, now: bool) {
        let interval = (self.started.elapsed() / 32).clamp(QUIET, SELDOM);
        let recent = self.reported.is_some_and(|reported| reported.elapsed() < interval);
        if !self.report_due || recent && !now {
            return;
        }
        self.report_due = false;
        self.runs.write(&self.shared);
        // At the first report, because the program may not end in an orderly way.
        self.folds |= self.reported.replace(Instant::now()).is_none();
    }
}

/// The reason under which a failed write is counted.
fn reason(error: &std::io::Error) -> String {
    match rustix::io::Errno::from_io_error(error) {
        Some(rustix::io::Errno::BADF) => "descriptor closed by the program".to_owned(),
        _ => error.kind().to_string(),
    }
}
