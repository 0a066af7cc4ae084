//! The thread for whatever takes long: reading what the program could not wait for, sealing the files of dead writers,
//! folding reports, keeping bounds. Started by the writer, which so never keeps records waiting, and gone when nothing is
//! left to do.

use std::sync::Arc;

use crate::base::thread;
use crate::part::open::Shared;
use crate::reports::totals;
use crate::stash::maintenance::Keeper;
use crate::stash::own_report::Runs;

/// What there is to do beside what the parts themselves wait for.
pub(crate) struct Job {
    pub(crate) runs: Arc<Runs>,
    pub(crate) keeper: Arc<Keeper>,
    /// Reports are to be folded.
    pub(crate) folds: bool,
    /// Bounds are to be kept.
    pub(crate) tends: bool,
}

/// Folds the reports of others.
pub(crate) fn fold(runs: &Runs) {
    if let Ok(folder) = runs.home.open().and_then(|home| home.folder.sub("runs", false)) {
        // Another process may be at it, or the next one will be.
        let _ = totals::fold(&folder);
    }
}

/// Starts the thread with this job. False: there can be none.
pub(crate) fn start(shared: &Arc<Shared>, job: Job) -> bool {
    let working = shared.clone();
    shared.helper.start(move || {
        let work = std::panic::AssertUnwindSafe(|| job.run(&working));
        if std::panic::catch_unwind(work).is_err() {
            working.tallies.write_error("the helper thread failed".to_owned());
        }
        working.helper.set_done();
        working.notify_ended();
    })
}

impl Job {
    fn run(&self, shared: &Arc<Shared>) {
        thread::be_nice();
        let interrupted = || shared.is_closing();
        let parts = shared.live_parts();
        for part in &parts {
            part.catch_up(&interrupted);
        }
        parts.iter().for_each(|part| part.seal_orphans(&interrupted));
        if self.folds {
            fold(&self.runs);
        }
        if self.tends && !interrupted() && self.keeper.tend(shared) {
            shared.touch();
        }
    }
}
