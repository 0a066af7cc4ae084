//! The simulated disk cache of the driver.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::config::Config;
use crate::hash::Digest;

static DISK: LazyLock<Mutex<HashSet<Digest>>> = LazyLock::new(Mutex::default);

/// Whether the disk cache has an entry.
pub fn has(config: &Config, key: &Digest) -> bool {
    if !config.disk_cache {
        return false;
    }
    if config.disk_cache_us > 0 {
        thread::sleep(Duration::from_micros(config.disk_cache_us));
    }
    let known = DISK.lock().unwrap_or_else(PoisonError::into_inner).contains(key);
    known || config.disk_cache_dir.as_ref().is_some_and(|folder| folder.join(name(key)).exists())
}

/// Reads entries that it has. `is_beside`: a pipeline cache was passed.
pub fn read(config: &Config, entries: usize, is_beside: bool) {
    if is_beside && config.disk_entry_beside_us > 0 {
        thread::sleep(Duration::from_micros(config.disk_entry_beside_us * entries as u64));
    }
}

/// Adds an entry.
pub fn add(config: &Config, key: &Digest) {
    if !config.disk_cache {
        return;
    }
    DISK.lock().unwrap_or_else(PoisonError::into_inner).insert(*key);
    if let Some(folder) = &config.disk_cache_dir {
        // If the disk is full, a driver goes on without its cache.
        let _ = std::fs::create_dir_all(folder);
        let _ = std::fs::write(folder.join(name(key)), []);
    }
}

fn name(key: &Digest) -> String {
    key[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Microseconds that the driver needs for what it has still to write.
static UNWRITTEN_US: AtomicU64 = AtomicU64::new(0);

/// A cache was loaded with so many entries: the driver writes them, whether it has them or not.
pub fn note_loaded(config: &Config, entries: usize) {
    UNWRITTEN_US.fetch_add(entries as u64 * config.disk_cache_write_us, Ordering::Relaxed);
}

/// Waits until everything is written.
pub fn finish() {
    thread::sleep(Duration::from_micros(UNWRITTEN_US.swap(0, Ordering::Relaxed)));
}
