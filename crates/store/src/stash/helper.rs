//! The helper: a thread for work that would delay records. It reads what the program could not wait for, seals the
//! files of dead writers, folds reports, and does maintenance. The writer starts it, and it ends when its work is done.

use std::sync::Arc;

use crate::part::open::Shared;
use crate::reports::totals;
use crate::stash::background_mode;
use crate::stash::own_report::Runs;
use crate::stash::schedule::Schedule;

/// The work of one helper thread, beside what the parts ask for.
pub(crate) struct Job {
    pub(crate) runs: Arc<Runs>,
    pub(crate) schedule: Arc<Schedule>,
    /// Whether reports are to be folded.
    pub(crate) folds: bool,
    /// Whether maintenance is due.
    pub(crate) maintains: bool,
}

/// Folds old reports of other processes.
pub(crate) fn fold(runs: &Runs) {
    if let Ok(folder) = runs.home.open().and_then(|home| home.folder.sub("runs", false)) {
        // If it fails, the next process tries again.
        let _ = totals::fold(&folder);
    }
}

/// Starts the thread. False: the system refuses it.
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
        let interrupted = || shared.is_closing();
        let parts = shared.live_parts();
        for part in &parts {
            part.catch_up(&interrupted);
        }
        shared.merge(&interrupted);
        background_mode::read(shared, &self.runs.home, &interrupted);
        parts.iter().for_each(|part| part.seal_orphans(&interrupted));
        if self.folds {
            fold(&self.runs);
        }
        if self.maintains && !interrupted() && self.schedule.maintain(shared) {
            shared.touch();
        }
    }
}
