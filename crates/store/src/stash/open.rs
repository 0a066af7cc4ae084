//! One application's stash, and the thread that writes it.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::base::util::lock;
use crate::disk::home::Home;
use crate::format::app_name::AppName;
use crate::format::device::DeviceHeader;
use crate::format::file::PartIdentity;
use crate::format::record::{Key, Kind};
pub use crate::format::refusal::OpenError;
use crate::part::open::Part;
use crate::part::open::{Shared, Use};
pub use crate::part::queue::END;
use crate::part::queue::{Haste, Joined};
use crate::reports::model::{RunReport, StoreReport};
use crate::reports::runs::RunName;
use crate::stash::own_report::Runs;
use crate::stash::writer::{self, Start};
use crate::upkeep::work::ModulesOf;

/// An open stash. Dropping the last reference has what is queued and the report written and this process's segments sealed,
/// and waits for that and for what else is due, but for a moment only. What is not done by then goes on beside the program for
/// as long as the process lives; what is left of it the next process does, and what was not written is lost.
///
/// In a forked child it is inert: records are still read, nothing is written, and dropping it does nothing.
pub struct Stash {
    shared: Arc<Shared>,
    home: Arc<Home>,
    portable: Arc<Part>,
    devices: Mutex<HashMap<[u8; 32], Arc<Part>>>,
    runs: Arc<Runs>,
}

impl Stash {
    /// Opens (and creates where missing) the application's folder below `root`. Starts no thread.
    ///
    /// A stash whose disk is read-only, or full, opens as long as its folder is there: it serves what it has,
    /// and drops and counts what it can't write. What takes long to read is not there at first: it is read beside the
    /// program, and counted.
    pub fn open(root: &Path, app: &AppName) -> Result<Arc<Stash>, OpenError> {
        Stash::open_in_run(root, app, RunName::of_this_process(), None, None)
    }

    /// The same for a process that may have had this stash open before: its run has one report. `opening`, `end`: how long
    /// the program waits until its parts are open, and until the stash is closed, where that is not the usual time.
    pub fn open_in_run(
        root: &Path,
        app: &AppName,
        run: RunName,
        opening: Option<Duration>,
        end: Option<Duration>,
    ) -> Result<Arc<Stash>, OpenError> {
        let usual = Haste::PROGRAM;
        let (opening, end) = (opening.unwrap_or(usual.opening), end.unwrap_or(usual.end));
        Stash::open_within(root, app, run, Haste { opening, end, ..usual })
    }

    /// The same for who waits until all of it is read, and in the end until everything is done.
    pub fn open_patiently(root: &Path, app: &AppName) -> Result<Arc<Stash>, OpenError> {
        Stash::open_within(root, app, RunName::of_this_process(), Haste::NONE)
    }

    /// The same for who waits for so long.
    pub(crate) fn open_within(
        root: &Path,
        app: &AppName,
        run: RunName,
        haste: Haste,
    ) -> Result<Arc<Stash>, OpenError> {
        if app.folder.is_empty() || app.folder.starts_with('.') || app.folder.contains(['/', '\0']) {
            return Err(OpenError::Name { name: app.folder.clone() });
        }
        let home = Arc::new(Home::new(root, &app.folder));
        if !haste.beside {
            home.open()?;
        }
        let shared = Shared::new(haste);
        let portable = Part::open(&home, PartIdentity::Portable, &shared)?;
        let runs = Arc::new(Runs { home: home.clone(), name: run });
        let start = Start { portable: Arc::downgrade(&portable), runs: runs.clone(), home: home.clone() };
        // The only place that sets it.
        let _ = shared.start.set(Box::new(move |shared| writer::spawn(shared, &start)));
        if portable.view().is_behind() {
            shared.ask_for_help();
        }
        Ok(Arc::new(Stash { shared, home, portable, devices: Mutex::default(), runs }))
    }

    /// The part that every device shares.
    pub fn portable(&self) -> &Arc<Part> {
        &self.portable
    }

    /// The part of this device header, opened on first use, the same object afterwards.
    pub fn device(&self, header: &DeviceHeader) -> Result<Arc<Part>, OpenError> {
        let digest = header.digest();
        if self.shared.is_inert() {
            // Locks may be held by threads that are not in this process.
            let devices = self.devices.try_lock().map_err(|_| OpenError::Forked)?;
            return devices.get(&digest).cloned().ok_or(OpenError::Forked);
        }
        let mut devices = lock(&self.devices);
        if let Some(part) = devices.get(&digest) {
            return Ok(part.clone());
        }
        let part = Part::open(&self.home, PartIdentity::Device(header.clone()), &self.shared)?;
        devices.insert(digest, part.clone());
        Ok(part)
    }

    /// Who makes this process's report; polled by the writer while something has changed, and once more
    /// when the stash closes. It is told what the store met. It must not hold the stash itself.
    pub fn set_reporter(&self, report: Box<dyn Fn(StoreReport) -> RunReport + Send + Sync>) {
        if !self.shared.is_inert() {
            *lock(&self.shared.reporter) = Some(Arc::from(report));
        }
    }

    /// Who finds the modules that a recipe names: without it modules count as used when they were written.
    pub fn set_modules_of(&self, modules_of: ModulesOf) {
        // The first one counts.
        let _ = self.shared.modules_of.set(modules_of);
    }

    /// Notes a use of a record without waking anybody: a bounded lock-free ring, dropped when full. The
    /// writer writes the first use of each key in a run as a Kind::Use record and refreshes the report.
    ///
    /// A [`Kind::Use`] record is known by the key alone: an artifact and its recipe are used as one.
    pub fn note_use(&self, _kind: Kind, key: &Key) {
        self.note(key, || None);
    }

    /// The same for an artifact of `part` that the driver has just taken: from now on it is proven. Says whether this is
    /// the first use of that key in this run.
    pub fn note_taken(&self, part: &Arc<Part>, key: &Key) -> bool {
        self.note(key, || Some(part.clone()))
    }

    /// True once a key; false where it could not be noted.
    fn note(&self, key: &Key, taken_from: impl FnOnce() -> Option<Arc<Part>>) -> bool {
        if !self.portable.note(key) {
            return false;
        }
        let noted = self.shared.push_use(Use { key: *key, taken_from: taken_from() });
        if !noted {
            self.portable.unnote(key);
            self.shared.tallies.dropped(1);
        }
        noted
    }

    /// Tells the writer that the report has changed, without waking it unless it sleeps for good. Starts it where
    /// there is none yet.
    pub fn touch(&self) {
        self.shared.touch();
    }

    /// Writes everything that is queued, and the report; waits at most `limit`. For an exit handler. False: not all
    /// of it is known to be written.
    pub fn flush(&self, limit: Duration) -> bool {
        self.shared.flush(limit)
    }

    /// For an exit handler: the process is about to end in order, and what drivers are looking at now does not kill it.
    /// What is queued and the report are written, and waited for as when the stash is closed.
    pub fn leave(&self) {
        if !self.shared.is_inert() && !self.shared.leave(self.has_last_words()) {
            self.end_alone();
        }
    }

    /// Whether there is something to do at the end even where nothing was written.
    fn has_last_words(&self) -> bool {
        let has_guard = || self.shared.live_parts().iter().any(|part| part.has_guard());
        lock(&self.shared.reporter).is_some() || has_guard()
    }

    /// In a process that gets no thread: what the writer would do at the end, without records.
    fn end_alone(&self) {
        self.shared.live_parts().iter().for_each(|part| part.ends_in_order());
        self.runs.write(&self.shared);
    }

    /// What the store met so far.
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
        self.shared.close(self.has_last_words());
        match self.shared.join() {
            Joined::Nobody => self.end_alone(),
            Joined::Ended => {}
            Joined::GoesOn => return,
        }
        self.shared.discard_after_close();
    }
}
