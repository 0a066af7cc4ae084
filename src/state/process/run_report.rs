//! The report of a process's run: what its devices have counted, and what the stores of its sessions have met.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::device_stats::DeviceStats;
use vkstash_host::forks as fork;
use vkstash_host::sync::Mutex;
use vkstash_host::util::unix_ms;
use vkstash_model::counters::Count;
use vkstash_store::reports::model::{DeviceReport, RunReport, StoreReport};
use vkstash_store::reports::runs;
use vkstash_store::stash::uses::Run;

/// What the report of this process's run is made of. One process is one run of an application, however often it
/// opens and closes the stash.
pub struct ReportSource {
    application: String,
    /// The path of the program's file. Empty: not known.
    program: String,
    started_unix_ms: u64,
    /// The run, whose report is in the stash.
    run: Run,
    /// The folder for reports that the environment of this process names, beside the stash.
    folder: Option<PathBuf>,
    /// The process is leaving in order.
    is_leaving: AtomicBool,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// Counters of devices that may still change them.
    devices: Vec<Arc<DeviceStats>>,
    /// Reports of devices that were destroyed.
    gone: Vec<DeviceReport>,
    /// What the stores of open sessions have counted, by the session's number.
    stores: BTreeMap<u64, StoreReport>,
    /// The sum of the counts of closed sessions' stores.
    closed: StoreReport,
}

impl Seen {
    /// Moves the counts of destroyed devices into `gone`.
    fn fold(&mut self) {
        let Seen { devices, gone, .. } = self;
        devices.retain_mut(|device| {
            // This is the last reference to the counters, so that they do not change any more.
            let is_gone = Arc::get_mut(device).is_some();
            if is_gone {
                device.report().add_to(gone);
            }
            !is_gone
        });
    }

    fn devices(&mut self) -> Vec<DeviceReport> {
        self.fold();
        let Seen { devices, gone, .. } = self;
        let mut reports = gone.clone();
        devices.iter().for_each(|device| device.report().add_to(&mut reports));
        reports
    }

    fn store(&self) -> StoreReport {
        let mut sum = self.closed.clone();
        for store in self.stores.values() {
            sum.add(store);
            if sum.unusable.is_empty() {
                sum.unusable.clone_from(&store.unusable);
            }
        }
        sum
    }
}

impl ReportSource {
    /// The source of a run in which nothing has been counted yet. `folder` is that of
    /// [`Config::report`](crate::config::Config::report).
    pub fn new(application: &str, program: String, folder: Option<PathBuf>) -> ReportSource {
        ReportSource {
            application: application.to_owned(),
            program,
            started_unix_ms: unix_ms(),
            run: Run::of_this_process(),
            folder,
            is_leaving: AtomicBool::new(false),
            seen: Mutex::default(),
        }
    }

    /// The run, whose report is in the stash.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// Adds a device.
    pub fn add_device(&self, device: &Arc<DeviceStats>) {
        let mut seen = self.seen.lock();
        // A program may make many of them before the next report.
        seen.fold();
        seen.devices.push(device.clone());
    }

    /// The process is leaving in order: the next report is its last one.
    pub fn leave(&self) {
        self.is_leaving.store(true, Ordering::Relaxed);
    }

    /// The report, with what the store of this session has met by now.
    fn report(&self, session: u64, store: StoreReport) -> RunReport {
        let mut seen = self.seen.lock();
        if let Some(met) = seen.stores.get_mut(&session) {
            *met = store;
        }
        RunReport {
            application: self.application.clone(),
            program: self.program.clone(),
            started_unix_ms: self.started_unix_ms,
            updated_unix_ms: unix_ms(),
            pid: std::process::id(),
            is_over: self.is_leaving.load(Ordering::Relaxed)
                || seen.devices.iter().all(|device| device.is_left()),
            devices: seen.devices(),
            store: seen.store(),
            goes_on: true,
        }
    }

    /// The sum of these counters over all devices of the run so far. Makes no report due, and none undue.
    pub fn sum(&self, counts: &[Count]) -> u64 {
        let seen = self.seen.lock();
        let live =
            seen.devices.iter().flat_map(|device| counts.iter().map(|&what| device.counters.get(what)));
        let gone = seen.gone.iter().flat_map(|device| {
            counts.iter().map(|what| device.counters.get(what.name()).copied().unwrap_or_default())
        });
        live.chain(gone).fold(0, u64::saturating_add)
    }

    fn publish(&self, report: &RunReport) {
        if let Some(folder) = &self.folder {
            if let Err(error) = runs::write(folder, &self.run.name, report) {
                tracing::debug!("no report in {}: {error}", folder.display());
            }
        }
    }

    fn close(&self, session: u64) {
        let mut seen = self.seen.lock();
        if let Some(store) = seen.stores.remove(&session) {
            seen.closed.add(&store);
            if !store.unusable.is_empty() {
                seen.closed.unusable = store.unusable;
            }
        }
    }
}

/// One session's share of the report. The writer keeps it until it ends, which may be after the session has gone.
pub struct SessionReport {
    source: Arc<ReportSource>,
    number: u64,
    /// The process, as [`fork::now`] numbers it, that this belongs to.
    process: u32,
}

impl SessionReport {
    /// The share of the session with this number.
    pub fn new(source: Arc<ReportSource>, number: u64) -> SessionReport {
        source.seen.lock().stores.insert(number, StoreReport::default());
        SessionReport { source, number, process: fork::here() }
    }

    /// Whether the report goes to a folder even if there is no stash for it.
    pub fn is_asked_for(&self) -> bool {
        self.source.folder.is_some()
    }

    /// Writes the report to that folder alone.
    pub fn report_in_turn(&self, store: StoreReport) {
        self.source.run.name.in_turn(|| self.report(store));
    }

    /// Makes the report, and writes it where the environment asks for it. Call it only inside `RunName::in_turn`.
    pub fn report(&self, store: StoreReport) -> RunReport {
        let report = self.source.report(self.number, store);
        self.source.publish(&report);
        report
    }
}

impl Drop for SessionReport {
    fn drop(&mut self) {
        // Locks of a forked child's parent may be held by threads that are not in this process.
        if self.process == fork::now() {
            self.source.close(self.number);
        }
    }
}
