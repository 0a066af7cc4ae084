//! Writing the report of this process to its stash.

use std::sync::Arc;

use crate::home::Home;
use crate::part::open::Shared;
use crate::reports::runs;
use crate::reports::timeline::{self, Entry, MOST};
use crate::stash::uses::Run;
use vkstash_host::descriptor::Descriptor;
use vkstash_host::sync::Mutex;

/// The file of the report.
pub(crate) struct Runs {
    /// The application's folder has the folder `runs`.
    pub(crate) home: Arc<Home>,
    pub(crate) run: Run,
    /// The report as it was written last. Its lock tells others that this process may write it again.
    pub(crate) written: Mutex<Option<Descriptor>>,
    /// The entries that the timeline does not have yet.
    pub(crate) timeline: Mutex<Vec<Entry>>,
}

impl Runs {
    /// Takes the entries that wait in the queue.
    pub(crate) fn take_timeline(&self, shared: &Shared) {
        let mut entries = self.timeline.lock();
        while let Some(entry) = shared.pop_timeline() {
            if entries.len() < MOST {
                entries.push(entry);
            }
        }
    }

    /// Writes the report, if there is a function that makes it.
    pub(crate) fn write(&self, shared: &Shared) {
        self.take_timeline(shared);
        // The layer's closure is not called under the lock.
        let Some(reporter) = shared.reporter.lock().clone() else { return };
        let written = self.run.name.in_turn(|| {
            let report = reporter(shared.tallies.report());
            let folder = self.home.open().and_then(|home| home.folder.sub("runs", true));
            let folder = folder.map_err(|error| error.to_string())?;
            let entries = std::mem::take(&mut *self.timeline.lock());
            let appended = timeline::append(&folder, &self.run.name.timeline(), &entries);
            let written = runs::write_in(&folder, &self.run.name, &report);
            // The lock of the file before is kept until the new one has its own.
            let kept = written.map(|file| *self.written.lock() = Some(file));
            appended.and(kept).map_err(|error| error.kind().to_string())
        });
        if let Err(reason) = written {
            shared.tallies.write_error(reason);
        }
    }
}
