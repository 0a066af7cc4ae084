//! The stash that the devices of one process share, and the report of what they did.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError, Weak, mpsc};
use std::time::Duration;

use super::device_stats::DeviceStats;
use crate::config::Config;
use crate::guard::guard;
use crate::log;
use crate::recipe;
use vkstash_store::base::thread;
use vkstash_store::base::util::unix_ms;
use vkstash_store::forks as fork;
use vkstash_store::forks::PerProcess;
use vkstash_store::format::app_name::AppName;
use vkstash_store::reports::model::{DeviceReport, RunReport, StoreReport};
use vkstash_store::reports::runs;
use vkstash_store::reports::runs::RunName;
use vkstash_store::stash::open::{END, Stash};

/// What the report of this process's run is made of. One process is one run of an application, however often it
/// opens and closes the stash.
struct ReportSource {
    application: String,
    started_unix_ms: u64,
    /// The report's file in the stash.
    run: RunName,
    /// The folder that the environment names, for whoever started this process.
    folder: Option<PathBuf>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// Devices that may still count.
    devices: Vec<Arc<DeviceStats>>,
    /// What those that are gone have counted.
    gone: Vec<DeviceReport>,
    /// What the stores met that somebody still reports for, by the session's number.
    stores: BTreeMap<u64, StoreReport>,
    /// The same of the others, added up.
    closed: StoreReport,
}

impl Seen {
    fn devices(&mut self) -> Vec<DeviceReport> {
        let Seen { devices, gone, .. } = self;
        devices.retain_mut(|device| {
            // Nobody else holds it, so nobody counts any more.
            let is_gone = Arc::get_mut(device).is_some();
            if is_gone {
                device.report().add_to(gone);
            }
            !is_gone
        });
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
    fn report(&self, session: u64, store: StoreReport) -> RunReport {
        let mut seen = lock(&self.seen);
        if let Some(met) = seen.stores.get_mut(&session) {
            *met = store;
        }
        RunReport {
            application: self.application.clone(),
            started_unix_ms: self.started_unix_ms,
            updated_unix_ms: unix_ms(),
            pid: std::process::id(),
            devices: seen.devices(),
            store: seen.store(),
        }
    }

    fn publish(&self, report: &RunReport) {
        if let Some(folder) = &self.folder {
            if let Err(error) = runs::write(folder, report) {
                tracing::debug!("no report in {}: {error}", folder.display());
            }
        }
    }

    fn close(&self, session: u64) {
        let mut seen = lock(&self.seen);
        if let Some(store) = seen.stores.remove(&session) {
            seen.closed.add(&store);
            if !store.unusable.is_empty() {
                seen.closed.unusable = store.unusable;
            }
        }
    }
}

/// One session's place in the report. The writer keeps it until it ends, which may be after the session has gone.
struct Place {
    source: Arc<ReportSource>,
    number: u64,
    /// In [`fork::now`].
    process: u32,
}

impl Place {
    fn new(source: Arc<ReportSource>, number: u64) -> Place {
        lock(&source.seen).stores.insert(number, StoreReport::default());
        Place { source, number, process: fork::here() }
    }

    /// Makes the report, and writes it where the environment asks for it. Call it only inside [`RunName::in_turn`].
    fn report(&self, store: StoreReport) -> RunReport {
        let report = self.source.report(self.number, store);
        self.source.publish(&report);
        report
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Locks of a forked child's parent may be held by threads that are not in this process.
        if self.process == fork::now() {
            self.source.close(self.number);
        }
    }
}

/// Why a session has no stash, and who reports that.
struct Unusable {
    reason: String,
    place: Arc<Place>,
    /// How long the program waits for it.
    limit: Duration,
}

impl Unusable {
    /// Writes the report beside the program, which waits for it as it would for the end of a stash.
    fn publish(&self) {
        if self.place.source.folder.is_none() {
            return;
        }
        let store = StoreReport { unusable: self.reason.clone(), ..StoreReport::default() };
        let place = self.place.clone();
        let (done, ends) = mpsc::channel();
        let write = move || {
            place.source.run.in_turn(|| place.report(store));
            // Nobody waits any more where that fails.
            let _ = done.send(());
        };
        // Without a thread there is no report.
        if thread::spawn("vkstash-report", write).is_some() {
            let _ = ends.recv_timeout(self.limit);
        }
    }
}

/// What the devices of one application in this process share.
pub struct Session {
    source: Arc<ReportSource>,
    stash: Result<Arc<Stash>, Unusable>,
    /// In [`fork::now`].
    process: u32,
}

/// One process is not one application: a launcher may run several.
#[derive(Default)]
struct Applications {
    known: Vec<Application>,
    sessions: u64,
}

struct Application {
    folder: PathBuf,
    source: Arc<ReportSource>,
    session: Weak<Session>,
}

/// A forked child has nothing of its parent's: neither sessions nor what they would report.
static APPLICATIONS: PerProcess<Mutex<Applications>> = PerProcess::empty();

/// The name of the stash of a program that calls itself so.
pub fn name_of(config: &Config, application: &[u8]) -> AppName {
    let of_process = || AppName::of_process((!application.is_empty()).then_some(application));
    config.application.clone().unwrap_or_else(of_process)
}

impl Session {
    /// The session of this application in this process, opened if there is none. A stash that cannot be used
    /// gives a session without one: the program runs as without the layer, and one log line says why.
    pub fn open(config: &Config, application: &[u8]) -> Arc<Session> {
        log::init();
        let name = name_of(config, application);
        let folder = config.root.clone().unwrap_or_default().join(&name.folder);
        let mut applications = lock(APPLICATIONS.get());
        applications.sessions += 1;
        let number = applications.sessions;
        let known = applications.known.iter_mut().find(|application| application.folder == folder);
        let session = match known {
            Some(known) => match known.session.upgrade() {
                Some(session) => return session,
                None => {
                    let session = Arc::new(Session::new(config, &name, known.source.clone(), number));
                    known.session = Arc::downgrade(&session);
                    session
                }
            },
            None => {
                let source = Arc::new(ReportSource {
                    application: name.display.clone(),
                    started_unix_ms: unix_ms(),
                    run: RunName::of_this_process(),
                    folder: config.report.clone(),
                    seen: Mutex::default(),
                });
                let session = Arc::new(Session::new(config, &name, source.clone(), number));
                let session_of = Arc::downgrade(&session);
                applications.known.push(Application { folder, source, session: session_of });
                session
            }
        };
        drop(applications);
        flush_at_exit();
        session
    }

    fn new(config: &Config, name: &AppName, source: Arc<ReportSource>, number: u64) -> Session {
        let run = source.run.clone();
        let place = Place::new(source.clone(), number);
        let opened = match &config.root {
            Some(root) => Stash::open_in_run(root, name, run, config.opening, config.end)
                .map_err(|error| error.to_string()),
            None => Err("there is no cache directory: set VKSTASH_DIR".to_owned()),
        };
        let stash = match opened {
            Ok(stash) => {
                stash.set_modules_of(recipe::modules_of);
                if config.application.is_none() {
                    stash.set_reporter(Box::new(move |store| place.report(store)));
                } else {
                    // A worker's requests are none of the program's.
                    stash.ignore_uses();
                }
                Ok(stash)
            }
            Err(reason) => {
                tracing::warn!("nothing is stashed in this run: {reason}");
                Err(Unusable { reason, place: Arc::new(place), limit: config.end.unwrap_or(END) })
            }
        };
        Session { source, stash, process: fork::here() }
    }

    /// The stash, unless it is unusable.
    pub fn stash(&self) -> Option<&Arc<Stash>> {
        self.stash.as_ref().ok()
    }

    /// Adds a device to the report.
    pub fn add_device(&self, device: &Arc<DeviceStats>) {
        lock(&self.source.seen).devices.push(device.clone());
    }

    /// From now on the report is brought up to date whenever the device has counted something: by the writer, which
    /// the first count starts.
    pub fn follow(&self, device: &DeviceStats) {
        let stash = self.stash().map(Arc::downgrade);
        device.counters.listen(move || {
            if let Some(stash) = stash.as_ref().and_then(Weak::upgrade) {
                stash.touch();
            }
        });
    }

    /// The process is leaving with the session open.
    fn leave(&self) {
        match &self.stash {
            Ok(stash) => stash.leave(),
            Err(unusable) => unusable.publish(),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // A forked child leaves its parent's session alone.
        if self.process != fork::now() {
            return;
        }
        // Otherwise the last reference to the stash has the last report written.
        if let Err(unusable) = &self.stash {
            unusable.publish();
        }
    }
}

/// Programs leave without vkDestroyDevice more often than not. The handler is registered after the driver was
/// loaded, so it runs before the driver's own.
fn flush_at_exit() {
    static ONCE: Once = Once::new();
    // SAFETY: the handler is a function of a library that is never unloaded (linked with -z nodelete).
    ONCE.call_once(|| unsafe {
        libc::atexit(at_exit);
    });
}

extern "C" fn at_exit() {
    let flush = || {
        // A forked child runs its parent's exit handlers, and has no sessions unless it opened some itself.
        let Some(applications) = APPLICATIONS.known() else { return };
        // A thread that holds the lock now will not come back to release it.
        let Ok(applications) = applications.try_lock() else { return };
        let live: Vec<_> = applications.known.iter().filter_map(|known| known.session.upgrade()).collect();
        drop(applications);
        live.iter().for_each(|session| session.leave());
        // The process is leaving: joining a thread from here could wait for one that waits for this one.
        std::mem::forget(live);
    };
    guard("exit", flush, || ());
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
