//! The report of this process, as a file of its stash.

use std::sync::Arc;

use crate::base::util::lock;
use crate::disk::home::Home;
use crate::part::open::Shared;
use crate::reports::runs::{self, RunName};

/// Where this process's report goes.
pub(crate) struct Runs {
    /// Has the application's folder, in which runs/ is.
    pub(crate) home: Arc<Home>,
    pub(crate) name: RunName,
}

impl Runs {
    /// Writes the report, if somebody makes one.
    pub(crate) fn write(&self, shared: &Shared) {
        // Not called under the lock: it is the program's closure.
        let Some(reporter) = lock(&shared.reporter).clone() else { return };
        let written = self.name.in_turn(|| {
            let report = reporter(shared.tallies.report());
            let folder = self.home.open().and_then(|home| home.folder.sub("runs", true));
            let folder = folder.map_err(|error| error.to_string())?;
            runs::write_in(&folder, &self.name, &report).map_err(|error| error.kind().to_string())
        });
        if let Err(reason) = written {
            shared.tallies.write_error(reason);
        }
    }
}
