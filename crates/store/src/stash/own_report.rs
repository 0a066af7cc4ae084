//! Writing the report of this process to its stash.

use std::sync::{Arc, Mutex};

use crate::base::util::lock;
use crate::disk::home::Home;
use crate::part::open::Shared;
use crate::reports::runs::{self, RunName};
use crate::reports::timeline::{self, Creation, MOST};

/// The file of the report.
pub(crate) struct Runs {
    /// The application's folder has the folder `runs`.
    pub(crate) home: Arc<Home>,
    pub(crate) name: RunName,
    /// The creations that the timeline does not have yet.
    pub(crate) creations: Mutex<Vec<Creation>>,
}

impl Runs {
    /// Takes the creations that wait in the queue.
    pub(crate) fn take_creations(&self, shared: &Shared) {
        let mut creations = lock(&self.creations);
        while let Some(creation) = shared.pop_creation() {
            if creations.len() < MOST {
                creations.push(creation);
            }
        }
    }

    /// Writes the report, if there is a function that makes it.
    pub(crate) fn write(&self, shared: &Shared) {
        self.take_creations(shared);
        // The layer's closure is not called under the lock.
        let Some(reporter) = lock(&shared.reporter).clone() else { return };
        let written = self.name.in_turn(|| {
            let report = reporter(shared.tallies.report());
            let folder = self.home.open().and_then(|home| home.folder.sub("runs", true));
            let folder = folder.map_err(|error| error.to_string())?;
            let creations = std::mem::take(&mut *lock(&self.creations));
            let written = timeline::append(&folder, &self.name.timeline(), &creations);
            written
                .and(runs::write_in(&folder, &self.name, &report))
                .map_err(|error| error.kind().to_string())
        });
        if let Err(reason) = written {
            shared.tallies.write_error(reason);
        }
    }
}
