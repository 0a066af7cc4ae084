//! The sessions of this process: the stash that the devices of one application share.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak, mpsc};
use std::time::Duration;

use ash::vk;
use rustix::process::{Resource, getrlimit};

use super::device_stats::DeviceStats;
use super::run_report::{ReportSource, SessionReport};
use super::switches;
use crate::config::Config;
use crate::live;
use crate::log;
use vkstash_host::forks as fork;
use vkstash_host::forks::PerProcess;
use vkstash_host::guard::guard;
use vkstash_host::once::Once;
use vkstash_host::program::Program;
use vkstash_host::sync::Mutex;
use vkstash_host::thread::{self, Stack};
use vkstash_model::app_name::{AppName, Identity};
use vkstash_model::counters::Count;
use vkstash_model::recipe;
use vkstash_store::reports::model::StoreReport;
use vkstash_store::settings;
use vkstash_store::stash::open::{END, Stash};

/// Why a session has no stash, and its share of the report that says so.
struct Unusable {
    reason: String,
    share: Arc<SessionReport>,
    /// How long the program waits for the last report.
    limit: Duration,
}

impl Unusable {
    /// Writes the report beside the program, which waits for it as it would for the end of a stash.
    fn publish(&self) {
        if !self.share.is_asked_for() {
            return;
        }
        let store = StoreReport { unusable: self.reason.clone(), ..StoreReport::default() };
        let share = self.share.clone();
        let (done, ends) = mpsc::channel();
        let write = move || {
            share.report_in_turn(store);
            // An error: the thread that waited has stopped waiting.
            let _ = done.send(());
        };
        // In an exit handler of a process whose main thread has left, the end of another thread would be a second
        // exit.
        if thread::main_has_ended() {
            return write();
        }
        // Without a thread there is no report.
        if thread::spawn("vkstash-report", Stack::Own, write).is_some() {
            let _ = ends.recv_timeout(self.limit);
        }
    }
}

/// What the devices of one application in this process share.
pub struct Session {
    source: Arc<ReportSource>,
    stash: Result<Arc<Stash>, Unusable>,
    /// The session outlasts its devices.
    is_kept: bool,
    /// The number of the program's live devices that use the session. The lock also covers whether the stash is at
    /// rest.
    devices: Mutex<usize>,
    /// The process, as [`fork::now`] numbers it, that opened this.
    process: u32,
}

/// One process is not one application: a launcher may run several.
#[derive(Default)]
struct Sessions {
    by_application: Vec<ApplicationSession>,
    /// How many there have been.
    opened: u64,
}

/// The last session of an application. The next one adds to the same report.
struct ApplicationSession {
    /// The application's folder in the stash.
    folder: PathBuf,
    source: Arc<ReportSource>,
    session: Weak<Session>,
    /// The session, held open while an instance lives that has had a device with it: programs that make devices in
    /// turn need not open and close the stash for each of them.
    kept: Option<Arc<Session>>,
    holders: Vec<vk::Instance>,
}

impl ApplicationSession {
    fn keep(&mut self, session: &Arc<Session>, holder: Option<vk::Instance>) {
        // A worker's stash is closed with its device. One that cannot be used is tried again.
        let Some(holder) = holder.filter(|_| session.is_kept) else { return };
        if !self.holders.contains(&holder) {
            self.holders.push(holder);
        }
        self.kept = Some(session.clone());
    }
}

/// A forked child has nothing of its parent's: neither sessions nor what they would report.
static SESSIONS: PerProcess<Mutex<Sessions>> = PerProcess::empty();

/// The name of the stash of a program that calls itself so.
pub fn name_of(config: &Config, application: &[u8]) -> AppName {
    config.application.clone().unwrap_or_else(|| {
        let (program, steam) = (Program::of_this_process(), config.steam);
        AppName::of(&Identity { application, program, steam })
    })
}

/// The number of a device that a program which calls itself so has just created: from 0, in the order in which it
/// creates them. A worker may open the stash for the second device before the first one needs it, so that order says
/// nothing.
pub fn number_device(application: &[u8]) -> u32 {
    static CREATED: PerProcess<Mutex<Created>> = PerProcess::empty();
    let mut created = CREATED.get().lock();
    let number = created.0.entry(application.to_owned()).or_default();
    let this = *number;
    *number = this.saturating_add(1);
    this
}

/// How many devices each application of a process has created.
#[derive(Default)]
struct Created(BTreeMap<Vec<u8>, u32>);

/// The session of the application in that folder, if this process has one open.
pub fn open_session(root: &Path, application: &str) -> Option<Arc<Session>> {
    let folder = root.join(application);
    let sessions = SESSIONS.known()?.lock();
    sessions.by_application.iter().find(|known| known.folder == folder)?.session.upgrade()
}

/// The caller has dropped a device of this session, which [`Session::open`] was called for. If it was the last one,
/// what is queued is written, and the session is kept for the next device.
pub fn rest(session: Arc<Session>) {
    let Some(sessions) = SESSIONS.known().filter(|_| session.process == fork::now()) else { return };
    let keeps =
        |known: &ApplicationSession| known.kept.as_ref().is_some_and(|kept| Arc::ptr_eq(kept, &session));
    let is_kept = sessions.lock().by_application.iter().any(keeps);
    let is_used = session.remove_user() > 0;
    if !is_kept || is_used {
        return;
    }
    if session.stash().is_some_and(|stash| stash.rest()) {
        return;
    }
    let mut known = sessions.lock();
    let mut kept = None;
    // Another thread may have created a device meanwhile, under the same lock.
    if *session.devices.lock() == 0 {
        kept = known.by_application.iter_mut().find(|known| keeps(known)).and_then(|known| known.kept.take());
    }
    drop(known);
    // The session is dropped after the lock: the last reference closes the stash.
    drop((kept, session));
}

/// The program has destroyed the instance: sessions that it alone has kept are closed, unless devices use them.
pub fn release(instance: vk::Instance) {
    let Some(sessions) = SESSIONS.known() else { return };
    let mut released = Vec::new();
    for known in &mut sessions.lock().by_application {
        known.holders.retain(|holder| *holder != instance);
        if known.holders.is_empty() {
            released.extend(known.kept.take());
        }
    }
    // The sessions are dropped after the lock: the last reference closes the stash.
    drop(released);
}

/// The sum of these counters over all devices that this process has had.
pub fn sum(counts: &[Count]) -> u64 {
    let Some(sessions) = SESSIONS.known() else { return 0 };
    sessions.lock().by_application.iter().fold(0, |sum, known| sum.saturating_add(known.source.sum(counts)))
}

impl Session {
    /// The session of this application in this process, opened if there is none. A stash that cannot be used
    /// gives a session without one: the program runs as without the layer, and one log line says why.
    ///
    /// `holder` is the instance of the device that the session is opened for: it keeps the session for its next
    /// devices, until [`release`]. The device says with [`rest`] that it is gone.
    pub fn open(config: &Config, application: &[u8], holder: Option<vk::Instance>) -> Arc<Session> {
        log::init();
        let name = name_of(config, application);
        let folder = config.root.clone().unwrap_or_default().join(&name.folder);
        let mut sessions = SESSIONS.get().lock();
        sessions.opened += 1;
        let number = sessions.opened;
        let known = sessions.by_application.iter_mut().find(|known| known.folder == folder);
        let session = match known {
            Some(known) => match known.session.upgrade() {
                Some(session) => {
                    known.keep(&session, holder);
                    holder.into_iter().for_each(|_| session.add_user());
                    return session;
                }
                None => {
                    let session = Arc::new(Session::new(config, &name, known.source.clone(), number));
                    known.session = Arc::downgrade(&session);
                    known.keep(&session, holder);
                    session
                }
            },
            None => {
                // Where the environment names the application, this process does not run it.
                let program = config.application.is_none().then(|| Program::of_this_process().path());
                let program = program.unwrap_or_default();
                let source = ReportSource::new(&name.display, program, config.report.clone());
                let source = Arc::new(source);
                let session = Arc::new(Session::new(config, &name, source.clone(), number));
                let weak = Arc::downgrade(&session);
                let (kept, holders) = (None, Vec::new());
                let mut known = ApplicationSession { folder, source, session: weak, kept, holders };
                known.keep(&session, holder);
                sessions.by_application.push(known);
                session
            }
        };
        holder.into_iter().for_each(|_| session.add_user());
        drop(sessions);
        flush_at_exit();
        session
    }

    fn new(config: &Config, name: &AppName, source: Arc<ReportSource>, number: u64) -> Session {
        let run = source.run().clone();
        let share = SessionReport::new(source.clone(), number);
        let opened = match &config.root {
            _ if may_open_few_files() => {
                Err(format!("fewer than {LEAST_OPEN_FILES} open files are allowed: raise ulimit -n"))
            }
            _ if thread::may_use_little_space() => {
                Err("little address space is left to this process: raise ulimit -v".to_owned())
            }
            Some(root) => {
                Stash::open_in_run(root, config.bases.clone(), name, run, config.opening, config.end)
                    .map_err(|error| error.to_string())
            }
            None => Err("there is no cache directory: set VKSTASH_DIR".to_owned()),
        };
        let stash = match opened {
            Ok(stash) => {
                stash.set_modules_of(recipe::modules_of);
                if config.application.is_none() {
                    // Where the settings were put off, what is known of them stays.
                    stash.disabled_caches_at_opening().into_iter().for_each(switches::follow_settings);
                    let (root, folder) = (config.root.clone().unwrap_or_default(), name.folder.clone());
                    let written = live::Written::default();
                    stash.set_reporter(Box::new(move |store| {
                        written.note(store.written_records, store.written_bytes);
                        // On the writer's thread, which waits for the disk anyway.
                        switches::follow_settings(settings::disabled_caches(&root, &folder));
                        share.report(store)
                    }));
                } else {
                    // A worker's requests are none of the program's.
                    stash.ignore_uses();
                }
                Ok(stash)
            }
            Err(reason) => {
                tracing::warn!("nothing is stashed in this run: {reason}");
                Err(Unusable { reason, share: Arc::new(share), limit: config.end.unwrap_or(END) })
            }
        };
        let is_kept = stash.is_ok() && config.application.is_none();
        Session { source, stash, is_kept, devices: Mutex::new(0), process: fork::here() }
    }

    /// A device uses it from now on.
    fn add_user(&self) {
        let mut devices = self.devices.lock();
        *devices += 1;
        if let Ok(stash) = &self.stash {
            stash.wake();
        }
    }

    /// A device is gone. Says how many are left.
    fn remove_user(&self) -> usize {
        let mut devices = self.devices.lock();
        *devices = devices.saturating_sub(1);
        if let (0, true, Ok(stash)) = (*devices, self.is_kept, &self.stash) {
            stash.lie_down();
        }
        *devices
    }

    /// The stash, unless it is unusable.
    pub fn stash(&self) -> Option<&Arc<Stash>> {
        self.stash.as_ref().ok()
    }

    /// Adds a device to the report.
    pub fn add_device(&self, device: &Arc<DeviceStats>) {
        self.source.add_device(device);
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
        self.source.leave();
        match &self.stash {
            Ok(stash) => {
                stash.touch();
                stash.leave();
            }
            Err(unusable) => unusable.publish(),
        }
    }
}

/// The stash keeps about ten files open. Where the limit is lower than this, the driver could lack one: Mesa then goes
/// on without its disk cache, and compiles everything.
const LEAST_OPEN_FILES: u64 = 64;

fn may_open_few_files() -> bool {
    getrlimit(Resource::Nofile).current.is_some_and(|limit| limit < LEAST_OPEN_FILES)
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
    ONCE.run(|| unsafe {
        libc::atexit(at_exit);
    });
}

extern "C" fn at_exit() {
    let flush = || {
        // A forked child runs its parent's exit handlers, and has no sessions unless it opened some itself.
        let Some(sessions) = SESSIONS.known() else { return };
        // A thread that holds the lock now will not come back to release it.
        let Some(sessions) = sessions.try_lock() else { return };
        let live: Vec<_> =
            sessions.by_application.iter().filter_map(|known| known.session.upgrade()).collect();
        drop(sessions);
        live.iter().for_each(|session| session.leave());
        // The process is leaving: joining a thread from here could wait for one that waits for this one.
        std::mem::forget(live);
    };
    guard("exit", flush, || ());
}

#[cfg(test)]
mod tests {
    use ash::vk::Handle as _;

    use super::*;

    #[test]
    fn the_last_of_devices_that_go_together_puts_the_stash_to_rest() {
        let folder = tempfile::tempdir().unwrap();
        let config = Config { root: Some(folder.path().to_owned()), ..Config::default() };
        let instance = vk::Instance::from_raw(7);
        let open = || Session::open(&config, b"together", Some(instance));
        for round in 0..500 {
            let devices = [open(), open()];
            // Where it was not read yet when its last device went, it was closed, and this is another one.
            let stash = devices[0].stash().unwrap().clone();
            assert!(!stash.is_at_rest(), "{round}: in use");
            std::thread::scope(|scope| {
                for device in devices {
                    scope.spawn(|| rest(device));
                }
            });
            assert!(stash.is_at_rest(), "{round}: no device uses it");
        }
        release(instance);
    }
}
