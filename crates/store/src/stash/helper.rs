//! The thread for whatever takes long: reading what the program could not wait for, sealing the files of dead writers,
//! folding reports, keeping bounds. Started by the writer, which so never keeps records waiting, and gone when nothing is
//! left to do.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread::JoinHandle;

use crate::base::thread;
use crate::base::util::lock;
use crate::part::open::Part;
use crate::part::queue::Shared;
use crate::reports::totals;
use crate::stash::maintenance::Keeper;
use crate::stash::writer::Runs;

/// What there is to do beside what the parts themselves wait for.
pub(crate) struct Job {
    pub(crate) runs: Arc<Runs>,
    pub(crate) keeper: Arc<Keeper>,
    /// Reports are to be folded.
    pub(crate) folds: bool,
    /// Bounds are to be kept.
    pub(crate) tends: bool,
}

/// The thread as the others see it.
#[derive(Default)]
pub(crate) struct Handle {
    busy: AtomicBool,
    join: Mutex<Option<JoinHandle<()>>>,
}

impl Handle {
    /// Whether it is at work.
    pub(crate) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Acquire)
    }

    /// For the writer: starts the thread with this job. False: there can be none.
    pub(crate) fn start(&self, shared: &Arc<Shared>, job: Job) -> bool {
        self.join();
        let working = shared.clone();
        self.busy.store(true, Ordering::Release);
        let body = move || {
            let work = std::panic::AssertUnwindSafe(|| job.run(&working));
            if std::panic::catch_unwind(work).is_err() {
                working.tallies.write_error("the helper thread failed".to_owned());
            }
            working.helper.busy.store(false, Ordering::Release);
            working.has_ended();
        };
        let handle = thread::spawn("vkstash-helper", body);
        let started = handle.is_some();
        if !started {
            self.busy.store(false, Ordering::Release);
        }
        *lock(&self.join) = handle;
        started
    }

    /// Joins a thread that has ended; one that has not goes on by itself.
    pub(crate) fn join(&self) {
        let handle = lock(&self.join).take();
        if let Some(handle) = handle.filter(|_| !self.is_busy()) {
            // A panic was caught inside.
            let _ = handle.join();
        }
    }

    /// In a forked child: the thread is not here, and nothing may be asked of it.
    pub(crate) fn forget(&self) {
        if let Ok(mut join) = self.join.try_lock() {
            std::mem::forget(join.take());
        }
    }
}

/// Folds the reports of others.
pub(crate) fn fold(runs: &Runs) {
    if let Ok(folder) = runs.parent.sub("runs", false) {
        // Another process may be at it, or the next one will be.
        let _ = totals::fold(&folder);
    }
}

impl Job {
    fn run(&self, shared: &Arc<Shared>) {
        thread::be_nice();
        let interrupted = || shared.is_closing();
        let parts: Vec<Arc<Part>> = lock(&shared.parts).iter().filter_map(Weak::upgrade).collect();
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
