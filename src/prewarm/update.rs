//! After a driver update: has the tool compile what programs used, while this one runs (docs/prewarm.md).

use std::collections::VecDeque;
use std::sync::Arc;

use super::tool::{self, Errand, NotStarted, When};
use crate::background::processors;
use crate::state::ahead::background_work::BackgroundWork;
use crate::state::devices::device::Device;
use vkstash_host::forks::PerProcess;
use vkstash_host::sync::{Mutex, MutexGuard};
use vkstash_host::thread::{self, Stack};
use vkstash_store::format::device::DeviceHeader;
use vkstash_store::settings;
use vkstash_store::stash::behind::{DriverVersion, behind};
use vkstash_store::stash::inspect::parts_of;

/// Devices that a process looks at. No program has more.
const MOST: usize = 16;

/// From so many processors on the tool is started unless the user forbids it. With one, what it compiles delays what
/// the program compiles at that time.
const ENOUGH_PROCESSORS: usize = 2;

/// What this process has looked at: each application and device once, by one thread at a time.
#[derive(Default)]
struct Looks {
    known: Vec<(String, DeviceHeader)>,
    waiting: VecDeque<Errand>,
    /// Whether a thread runs that takes the waiting errands.
    is_running: bool,
    /// The tool runs beside this process, or was asked to: it sees to all devices of the application.
    is_over: bool,
}

static LOOKS: PerProcess<Mutex<Looks>> = PerProcess::empty();

fn looks() -> MutexGuard<'static, Looks> {
    LOOKS.get().lock()
}

/// Looks, on a thread of its own, whether the stash has pipelines of another version of this device's driver, and
/// starts the tool if it has.
pub fn consider(device: &Device) {
    let config = &device.instance.config;
    let is_wanted = config.update.unwrap_or_else(|| processors::usable() >= ENOUGH_PROCESSORS);
    if !is_wanted || !tool::is_possible(config) {
        return;
    }
    let Some(errand) = Errand::of(device, config.update.is_some(), tool::environment()) else { return };
    let mut looks = looks();
    let is_known = looks.known.iter().any(|(known, of)| *known == errand.folder && *of == errand.header);
    if is_known || looks.is_over || looks.known.len() >= MOST {
        return;
    }
    looks.known.push((errand.folder.clone(), errand.header.clone()));
    looks.waiting.push_back(errand);
    device.work.listeners.add(Arc::new(Update));
}

struct Update;

impl BackgroundWork for Update {
    fn first_command(&self) {
        start();
    }
}

/// Starts the thread if there is something to take. Without a thread nothing is done. It calls no driver, and the
/// library stays in memory: no thread waits for it.
fn start() {
    let mut looks = looks();
    if !looks.is_running && !looks.waiting.is_empty() {
        looks.is_running = thread::spawn("vkstash-update", Stack::Own, run).is_some();
    }
}

/// The thread: takes what waits, until nothing does.
fn run() {
    loop {
        let mut looks = looks();
        let Some(errand) = looks.waiting.pop_front().filter(|_| !looks.is_over) else {
            looks.is_running = false;
            return;
        };
        drop(looks);
        let is_over = look(errand);
        self::looks().is_over |= is_over;
    }
}

/// True: nothing more is to be looked at in this process.
fn look(errand: Errand) -> bool {
    let updates = settings::read(&errand.root).all().updates;
    if updates == Some(false) && !errand.on_battery {
        tracing::debug!("the settings switch it off that pipelines are compiled again by themselves");
        return true;
    }
    let version = DriverVersion::from(&errand.header);
    let parts = parts_of(&errand.root, &errand.folder).unwrap_or_default();
    if behind(&parts, &version).is_none() {
        tracing::debug!("no other version of the driver has made more pipelines");
        return false;
    }
    match errand.start(When::During) {
        Ok(()) => {
            tracing::info!("the driver was updated: its pipelines are compiled again in the background")
        }
        Err(reason @ NotStarted::Untrusted { .. }) => tracing::warn!("vkstash is not started: {reason}"),
        Err(reason) => {
            tracing::info!("the driver was updated, and nothing is compiled beside this process: {reason}");
        }
    }
    true
}
