//! Recording after the end of a program: the tool records, at the lowest priority, what background work has not
//! recorded because the program was never quiet for long enough (docs/prewarm.md).

use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::tool::{self, Environment, Errand, NotStarted, When};
use crate::faults;
use crate::state::devices::device::Device;
use vkstash_host::forks::PerProcess;
use vkstash_host::guard::contained;
use vkstash_host::once::Once;
use vkstash_host::sync::{Mutex, MutexGuard};
use vkstash_host::thread::{self, Stack};
use vkstash_model::background_mode::BackgroundMode;

/// A program that ends waits for so long until the tool is started, which takes about one millisecond.
const PATIENCE: Duration = Duration::from_millis(20);
/// For so many devices of a process the tool is started. No program has more.
const MOST: usize = 4;

/// A device that the program may leave with something to be done.
struct Followed {
    device: Weak<Device>,
    environment: Environment,
}

/// The devices of this process.
#[derive(Default)]
struct Devices {
    alive: Vec<Followed>,
    /// For how many the tool was started.
    started: usize,
}

static DEVICES: PerProcess<Mutex<Devices>> = PerProcess::empty();

fn devices() -> MutexGuard<'static, Devices> {
    DEVICES.get().lock()
}

/// A device was created: once it is destroyed, or the process exits, what has not been recorded is left to the tool.
pub fn follow(device: &Arc<Device>) {
    let config = &device.instance.config;
    if config.finish == Some(false) || !tool::is_possible(config) {
        return;
    }
    let environment = tool::environment();
    let mut devices = devices();
    devices.alive.retain(|followed| followed.device.strong_count() > 0);
    devices.alive.push(Followed { device: Arc::downgrade(device), environment });
    drop(devices);
    static AT_EXIT: Once = Once::new();
    // SAFETY: the handler is a function of a library that is never unloaded (linked with -z nodelete).
    AT_EXIT.run(|| unsafe {
        libc::atexit(at_exit);
    });
}

/// The program destroys the device, and no worker records anything for it any more.
pub fn leave(device: &Device) {
    if DEVICES.known().is_none() {
        return;
    }
    let mut devices = devices();
    let position = devices.alive.iter().position(|of| std::ptr::eq(of.device.as_ptr(), device));
    let Some(Followed { environment, .. }) = position.map(|at| devices.alive.swap_remove(at)) else { return };
    if has_left_something(device) && devices.started < MOST {
        devices.started += 1;
        drop(devices);
        start(device, environment);
    }
}

/// Programs leave without vkDestroyDevice more often than not.
extern "C" fn at_exit() {
    contained("the start of the tool", || {
        // A forked child runs its parent's handlers, and has no devices unless it created some itself. A thread that
        // holds the lock now will not come back to release it.
        let Some(mut devices) = DEVICES.known().and_then(Mutex::try_lock) else { return };
        let left = std::mem::take(&mut devices.alive);
        let room = MOST.saturating_sub(devices.started);
        drop(devices);
        let mut started = 0;
        for Followed { device, environment } in left {
            let Some(device) = device.upgrade() else { continue };
            if started < room && has_left_something(&device) {
                started += 1;
                start(&device, environment);
            }
            // The process is leaving: the last reference would join threads that may wait for this one.
            std::mem::forget(device);
        }
    });
}

/// Reads no disk.
fn has_left_something(device: &Device) -> bool {
    let Some(stored) = device.stored().filter(|_| device.work.driver_hits.are_left()) else { return false };
    let settings = stored.stash.background_mode_at_opening();
    !device.instance.config.asks_settings || settings.is_none_or(BackgroundMode::allows_work)
}

/// Starts the tool on a thread, because that reads the disk, and the program waits for no disk that stands still.
fn start(device: &Device, environment: Environment) {
    let on_battery = device.instance.config.finish.is_some();
    let Some(errand) = Errand::of(device, on_battery, environment) else { return };
    let (done, is_done) = sync_channel(1);
    let body = move || {
        match errand.start(When::After) {
            Ok(()) => tracing::info!("what was not recorded is left to vkstash"),
            Err(reason @ NotStarted::Untrusted { .. }) => tracing::warn!("vkstash is not started: {reason}"),
            Err(reason) => tracing::info!("what was not recorded is left to the next run: {reason}"),
        }
        // An error: the thread that waited for this has stopped waiting.
        let _ = done.send(());
    };
    if thread::spawn("vkstash-finish", Stack::Own, body).is_some() {
        // If it takes longer, the thread goes on for as long as the process does.
        let _ = is_done.recv_timeout(faults::time_limit(PATIENCE));
    }
}
