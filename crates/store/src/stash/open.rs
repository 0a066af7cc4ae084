//! One application's stash, as the layer and the tool hold it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::format::device::DeviceHeader;
use crate::format::file::PartIdentity;
use crate::home::Home;
use crate::maintenance::work::ModulesOf;
use crate::part::open::Part;
use crate::part::open::{Shared, Use};
pub use crate::part::queue::END;
use crate::part::queue::{Joined, WaitLimits};
use crate::reports::model::{RunReport, StoreReport};
use crate::reports::timeline::Entry;
use crate::settings::CacheKinds;
use crate::stash::background_mode;
use crate::stash::own_report::Runs;
use crate::stash::siblings::{Kin, Siblings};
use crate::stash::uses::{self, DeviceUses, Noted, Run};
use crate::stash::writer::Start;
pub use vkstash_host::disk::errors::OpenError;
use vkstash_host::sync::Mutex;
use vkstash_host::timer::{Timer, never};
use vkstash_model::app_name::AppName;
use vkstash_model::background_mode::BackgroundMode;
use vkstash_model::record::{FORGOTTEN, Key, RunDevices};

/// How many device parts a stash keeps open that no device uses.
const MOST_AT_REST: usize = 8;

/// An open stash. When the last reference is dropped, the writer writes queued records and the report, seals the
/// segments of this process, and does maintenance that is due. The dropping thread waits for that for a bounded time.
/// After that the writer goes on for as long as the process lives; queued records that it does not get to are lost.
///
/// In a forked child a stash is inert: records can be read, nothing is written, and dropping it does nothing.
pub struct Stash {
    shared: Arc<Shared>,
    home: Arc<Home>,
    portable: Arc<Part>,
    devices: Mutex<HashMap<[u8; 32], Arc<Part>>>,
    runs: Arc<Runs>,
    ignores_uses: AtomicBool,
    /// How often the order of use was forgotten.
    forgotten: AtomicU32,
}

impl Stash {
    /// Opens the application's folder below `root`, and creates it if it is missing.
    ///
    /// A stash on a read-only or full disk can be opened if its folder exists: records are served, and records that
    /// cannot be written are dropped and counted. Whatever cannot be read in the usual time is read by another thread,
    /// and counted.
    pub fn open(root: &Path, app: &AppName) -> Result<Arc<Stash>, OpenError> {
        Stash::open_in_run(root, Vec::new(), app, Run::of_this_process(), None, None)
    }

    /// [`Stash::open`] in a process that may have had this stash open before: all its stashes of a `run` share one
    /// report. `bases` are stashes that are looked into after this one, and never written; those that the settings of
    /// the root name come after them. `opening` and `end` replace the usual limits for waiting until parts are open and
    /// until the stash is closed.
    pub fn open_in_run(
        root: &Path,
        bases: Vec<PathBuf>,
        app: &AppName,
        run: Run,
        opening: Option<Duration>,
        end: Option<Duration>,
    ) -> Result<Arc<Stash>, OpenError> {
        let usual = WaitLimits::PROGRAM;
        // What another process has just recorded is read within such a limit, too.
        let refresh = opening.map_or(usual.refresh, |given| given.max(usual.refresh));
        let (opening, end) = (opening.unwrap_or(usual.opening), end.unwrap_or(usual.end));
        // A program that waits longer for the stash waits as long for the guard file, without which nothing is served.
        let guard = opening.max(usual.guard);
        let home = Home::with_bases(root, &app.folder, bases);
        Stash::open_home(home, app, run, WaitLimits { opening, refresh, guard, end, ..usual })
    }

    /// [`Stash::open`] for a tool: waits until everything is read and, when it is dropped, until everything is done.
    pub fn open_patiently(root: &Path, app: &AppName) -> Result<Arc<Stash>, OpenError> {
        Stash::open_within(root, app, Run::of_this_process(), WaitLimits::UNLIMITED)
    }

    /// [`Stash::open`] with these limits.
    pub(crate) fn open_within(
        root: &Path,
        app: &AppName,
        run: Run,
        waits: WaitLimits,
    ) -> Result<Arc<Stash>, OpenError> {
        Stash::open_home(Home::new(root, &app.folder), app, run, waits)
    }

    #[cfg(test)]
    pub(crate) fn open_with_bases(
        root: &Path,
        bases: Vec<PathBuf>,
        app: &AppName,
        run: Run,
        waits: WaitLimits,
    ) -> Result<Arc<Stash>, OpenError> {
        let home = Home::with_bases(root, &app.folder, bases).without_bases_of_settings();
        Stash::open_home(home, app, run, waits)
    }

    fn open_home(home: Home, app: &AppName, run: Run, waits: WaitLimits) -> Result<Arc<Stash>, OpenError> {
        if app.folder.is_empty() || app.folder.starts_with('.') || app.folder.contains(['/', '\0']) {
            return Err(OpenError::Name { name: app.folder.clone() });
        }
        let home = Arc::new(home);
        if waits.opening >= WaitLimits::UNLIMITED.opening {
            // A tool says why it cannot go on.
            home.open()?;
        }
        let shared = Shared::new(waits);
        let portable = Part::open(&home, PartIdentity::Portable, &shared)?;
        let runs =
            Arc::new(Runs { home: home.clone(), run, written: Mutex::default(), timeline: Mutex::default() });
        let start = Start::new(Arc::downgrade(&portable), runs.clone(), home.clone());
        // Set here only.
        let _ = shared.start.set(Box::new(move |shared| start.spawn(shared)));
        if portable.view().is_behind() {
            shared.ask_for_help();
        } else {
            let (limit, began) = (shared.left_for_opening(), Instant::now());
            let timer = Timer::of(limit);
            background_mode::read(&shared, &home, &|| limit.is_zero() || timer.is_over());
            if !home.knows_bases() {
                shared.ask_for_help();
            }
            shared.spent_on_opening(began.elapsed());
        }
        Ok(Arc::new(Stash {
            shared,
            home,
            portable,
            devices: Mutex::default(),
            runs,
            ignores_uses: AtomicBool::new(false),
            forgotten: AtomicU32::new(0),
        }))
    }

    /// The part that all devices share.
    pub fn portable(&self) -> &Arc<Part> {
        &self.portable
    }

    /// The part of this device header. The first call opens it.
    pub fn device(&self, header: &DeviceHeader) -> Result<Arc<Part>, OpenError> {
        let digest = header.digest();
        if self.shared.is_inert() {
            // A thread that this process does not have may hold the lock.
            let devices = self.devices.try_lock().ok_or(OpenError::Forked)?;
            return devices.get(&digest).cloned().ok_or(OpenError::Forked);
        }
        let mut devices = self.devices.lock();
        if let Some(part) = devices.get(&digest) {
            return Ok(part.clone());
        }
        let part = Part::open(&self.home, PartIdentity::Device(header.clone()), &self.shared)?;
        devices.insert(digest, part.clone());
        Ok(part)
    }

    /// The siblings of the part of this device header. Opens nothing.
    pub fn siblings(&self, header: &DeviceHeader, kin: Kin) -> Siblings {
        Siblings::new(&self.home, &self.shared, header, kin)
    }

    /// Sets the function that makes this process's report from the store's counters. The writer calls it after changes
    /// and when the stash closes. It must not hold a reference to the stash.
    pub fn set_reporter(&self, report: Box<dyn Fn(StoreReport) -> RunReport + Send + Sync>) {
        if !self.shared.is_inert() {
            *self.shared.reporter.lock() = Some(Arc::from(report));
        }
    }

    /// Sets the function that finds the modules that a recipe names. Without it a module counts as used when it was
    /// written.
    pub fn set_modules_of(&self, modules_of: ModulesOf) {
        // Later calls are ignored.
        let _ = self.shared.modules_of.set(modules_of);
    }

    /// Notes the creation of a pipeline, or a frame, for the timeline of this run.
    pub fn note_timeline(&self, entry: impl Into<Entry>) {
        if !self.ignores_uses.load(Ordering::Relaxed) {
            self.shared.push_timeline(entry.into());
        }
    }

    /// Notes a use of a key by one of the program's devices. The writer writes the first one of each device in a run as
    /// a use record. True: it is the first one. Uses that do not fit into the queue are dropped and counted.
    ///
    /// The record has the key only: an artifact and its recipe are used together.
    pub fn note_use(&self, by: &DeviceUses, key: &Key) -> bool {
        self.note(by, key, || None)
    }

    /// [`Stash::note_use`] of an artifact of `part` that the driver has taken, which verifies it.
    pub fn note_taken(&self, by: &DeviceUses, part: &Arc<Part>, key: &Key) -> bool {
        self.note(by, key, || Some(part.clone()))
    }

    fn note(&self, by: &DeviceUses, key: &Key, taken_from: impl FnOnce() -> Option<Arc<Part>>) -> bool {
        if self.ignores_uses.load(Ordering::Relaxed) {
            return false;
        }
        if !by.note(key, self.forgotten.load(Ordering::Relaxed)) {
            return false;
        }
        let noted = Use { key: *key, device: by.device(), taken_from: taken_from() };
        let records = noted.records();
        let noted = self.shared.push_use(noted);
        if !noted {
            by.unnote(key);
            self.shared.tallies.dropped(records);
        }
        noted
    }

    /// From now on uses are not noted: a process that makes records ahead of a program does not use them, and the order
    /// of the program's own uses stays.
    pub fn ignore_uses(&self) {
        self.ignores_uses.store(true, Ordering::Relaxed);
    }

    /// Forgets the order in which records were used: earlier uses count for eviction only, and the next use of each key
    /// is noted again. False: that cannot be noted.
    pub fn forget_order(&self) -> bool {
        let forgotten = Use { key: FORGOTTEN, device: RunDevices::default(), taken_from: None };
        let noted = !self.shared.is_inert() && self.shared.push_use(forgotten);
        if noted {
            self.forgotten.fetch_add(1, Ordering::Relaxed);
        }
        noted
    }

    /// The uses that count for the order of use: those since the order was forgotten. None: interrupted. May read from
    /// the disk.
    pub fn noted_uses(&self, interrupted: &dyn Fn() -> bool) -> Option<Vec<Noted>> {
        uses::of(&self.portable, &self.runs.run, interrupted)
    }

    /// The number of this process's run among the uses; 0: it has noted none.
    pub fn run(&self) -> u64 {
        self.runs.run.number()
    }

    /// The mode of background work in the settings of the application, or in those of all. Reads from the disk.
    pub fn background_mode(&self) -> Option<BackgroundMode> {
        background_mode::of(&self.home, self.home.open().ok()?, &never)?.0.background
    }

    /// The mode when the stash was opened. Reads nothing: None also where the settings were put off and are not read
    /// yet.
    pub fn background_mode_at_opening(&self) -> Option<BackgroundMode> {
        self.shared.said.get()?.background
    }

    /// The caches that the settings disabled when the stash was opened. Reads nothing: None where the settings were put
    /// off and are not read yet.
    pub fn disabled_caches_at_opening(&self) -> Option<CacheKinds> {
        self.shared.said.get().map(|said| said.disabled_caches)
    }

    /// Tells the writer that the counters of the report have changed. Starts the writer, or wakes it if it sleeps
    /// without an end.
    pub fn touch(&self) {
        self.shared.touch();
    }

    /// Has the writer write queued records and the report, and waits for that at most for `limit`. False: not
    /// everything is known to be written.
    pub fn flush(&self, limit: Duration) -> bool {
        self.shared.flush(limit)
    }

    /// Has the writer write everything and seal its segments, and waits for that at most for `limit`: a merge leaves
    /// out segments that are still written to.
    pub fn seal(&self, limit: Duration) -> bool {
        self.shared.flush_and_seal(limit)
    }

    /// Segments were rewritten: from now on this process reads the new ones, and nothing that is gone.
    pub fn follow_rewritten(&self) {
        if !self.shared.is_inert() {
            self.shared.note_rewrite();
            self.shared.live_parts().iter().for_each(|part| part.refresh_after_merging(&never));
        }
    }

    /// No device uses the stash any more, and the next one may: until [`Stash::wake`] it is at rest.
    pub fn lie_down(&self) {
        self.shared.lies_down();
    }

    /// At rest: writes what is queued and the report. The caller waits
    /// for that as long as when the stash is closed, but not each time. False: the stash must be closed and opened
    /// again. It could not be used, it keeps many files open, a part is not read yet (a writer at its end does not wait
    /// for that), or there is or will be a guard file, which would be left if the process ends in another way.
    pub fn rest(&self) -> bool {
        let is_sound = || {
            let parts = self.shared.live_parts();
            self.shared.is_open()
                && !parts.iter().any(|part| part.expects_guard() || part.is_refused() || part.holds_back())
                && self.devices.lock().len() <= MOST_AT_REST
        };
        if self.shared.is_inert() || !is_sound() {
            return false;
        }
        self.shared.rest();
        // The writer may have made a guard file meanwhile.
        is_sound()
    }

    /// Whether it waits for the program's next device ([`Stash::lie_down`]).
    pub fn is_at_rest(&self) -> bool {
        self.shared.is_at_rest()
    }

    /// Another device of the program uses the stash.
    pub fn wake(&self) {
        self.shared.wakes();
    }

    /// For an exit handler: the process ends in an orderly way, so the guard files are removed. Queued records and the
    /// report are written, and waited for as when the stash is closed.
    pub fn leave(&self) {
        if !self.shared.is_inert() && !self.shared.leave(self.has_final_work()) {
            self.end_alone();
        }
    }

    /// Whether there is something to do at the end even if nothing was written.
    fn has_final_work(&self) -> bool {
        let has_guard = || self.shared.live_parts().iter().any(|part| part.has_guard());
        self.shared.reporter.lock().is_some() || has_guard()
    }

    /// In a process that gets no threads: what the writer does at the end, but for records.
    fn end_alone(&self) {
        self.shared.live_parts().iter().for_each(|part| part.ends_in_order());
        self.runs.write(&self.shared);
    }

    /// The store's counters.
    pub fn report(&self) -> StoreReport {
        self.shared.tallies.report()
    }
}

impl Drop for Stash {
    fn drop(&mut self) {
        if self.shared.is_inert() {
            self.shared.writer.forget();
            self.shared.helper.forget();
            return;
        }
        self.shared.close(self.has_final_work());
        match self.shared.join() {
            Joined::Nobody => self.end_alone(),
            Joined::Ended => {}
            Joined::GoesOn => return,
        }
        self.shared.discard_after_close();
    }
}
