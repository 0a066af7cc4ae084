//! The stash that the devices of one process share, and the report of what they did.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, Once, OnceLock, PoisonError, Weak};
use std::time::Duration;

use crate::config::Config;
use crate::guard::guard;
use crate::log;
use crate::recipe;
use crate::stats::{Counters, DeviceReport, RunReport, StoreReport};
use crate::store::name::AppName;
use crate::store::runs;
use crate::store::stash::Stash;
use crate::store::unix_ms;

/// How long a leaving process waits for its last records.
const LAST_WRITES: Duration = Duration::from_secs(2);

/// One device of this process, as reports show it. It outlives the device.
pub struct DeviceStats {
    /// Name and numbers of the device; counters are filled in when a report is made.
    pub identity: DeviceReport,
    /// Name of its device part, once opened.
    pub part: OnceLock<String>,
    /// Its counters.
    pub counters: Counters,
}

impl DeviceStats {
    fn report(&self) -> DeviceReport {
        DeviceReport {
            part: self.part.get().cloned().unwrap_or_default(),
            counters: self.counters.values(),
            bypassed: self.counters.bypasses(),
            ..self.identity.clone()
        }
    }
}

/// Where reports come from.
struct ReportSource {
    application: String,
    started_unix_ms: u64,
    folder: Option<PathBuf>,
    devices: Mutex<Vec<Arc<DeviceStats>>>,
}

impl ReportSource {
    fn report(&self, store: StoreReport) -> RunReport {
        RunReport {
            application: self.application.clone(),
            started_unix_ms: self.started_unix_ms,
            updated_unix_ms: unix_ms(),
            pid: std::process::id(),
            devices: lock(&self.devices).iter().map(|device| device.report()).collect(),
            store,
        }
    }

    /// Writes the report to the folder that the environment names, for whoever started this process.
    fn publish(&self, report: &RunReport) {
        if let Some(folder) = &self.folder {
            if let Err(error) = runs::write(folder, report) {
                tracing::debug!("no report in {}: {error}", folder.display());
            }
        }
    }
}

/// What the devices of one application in this process share.
pub struct Session {
    source: Arc<ReportSource>,
    stash: Option<Arc<Stash>>,
    unusable: String,
}

/// The sessions of this process by application folder. One process is not one application: a launcher may
/// run several (wishes: one launcher process, several games).
static SESSIONS: Mutex<Vec<(PathBuf, Weak<Session>)>> = Mutex::new(Vec::new());

impl Session {
    /// The session of this application in this process, opened if there is none. A stash that cannot be used
    /// gives a session without one: the program runs as without us, and one log line says why.
    pub fn open(config: &Config, application: &[u8]) -> Arc<Session> {
        log::init();
        let name = AppName::of_process((!application.is_empty()).then_some(application));
        let key = config.root.clone().unwrap_or_default().join(&name.folder);
        let mut sessions = lock(&SESSIONS);
        sessions.retain(|(_, session)| session.strong_count() > 0);
        let known = sessions.iter().find(|(path, _)| *path == key);
        if let Some(session) = known.and_then(|(_, session)| session.upgrade()) {
            return session;
        }
        let session = Arc::new(Session::new(config, &name));
        sessions.push((key, Arc::downgrade(&session)));
        drop(sessions);
        flush_at_exit();
        session
    }

    fn new(config: &Config, name: &AppName) -> Session {
        let source = Arc::new(ReportSource {
            application: name.display.clone(),
            started_unix_ms: unix_ms(),
            folder: config.report.clone(),
            devices: Mutex::default(),
        });
        let opened = match &config.root {
            Some(root) => Stash::open(root, name).map_err(|error| error.to_string()),
            None => Err("there is no cache directory: set VKSTASH_DIR".to_owned()),
        };
        match opened {
            Ok(stash) => {
                stash.set_modules_of(recipe::modules_of);
                let reports = source.clone();
                stash.set_reporter(Box::new(move |store| {
                    let report = reports.report(store);
                    reports.publish(&report);
                    report
                }));
                Session { source, stash: Some(stash), unusable: String::new() }
            }
            Err(unusable) => {
                tracing::warn!("nothing is stashed in this run: {unusable}");
                Session { source, stash: None, unusable }
            }
        }
    }

    /// The stash, unless it is unusable.
    pub fn stash(&self) -> Option<&Arc<Stash>> {
        self.stash.as_ref()
    }

    /// Adds a device to the report.
    pub fn add_device(&self, device: &Arc<DeviceStats>) {
        lock(&self.source.devices).push(device.clone());
    }

    fn finish(&self) {
        let mut store = StoreReport { unusable: self.unusable.clone(), ..StoreReport::default() };
        if let Some(stash) = &self.stash {
            stash.ends_in_order();
            stash.flush(LAST_WRITES);
            store = stash.report();
        }
        self.source.publish(&self.source.report(store));
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.finish();
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
        // A thread that holds the lock now will not come back to release it.
        let Ok(sessions) = SESSIONS.try_lock() else { return };
        let live: Vec<_> = sessions.iter().filter_map(|(_, session)| session.upgrade()).collect();
        drop(sessions);
        live.iter().for_each(|session| session.finish());
        // The process is leaving: joining a thread from here could wait for one that waits for us.
        std::mem::forget(live);
    };
    guard("exit", flush, || ());
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
