//! Driver hits: pipelines that the driver had in its own caches, and of which the stash has no artifact. The serving
//! side notes them here (serve/driver_hits.rs), and background work records them while the program creates nothing
//! (background/driver_hits.rs).
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_macros))]

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustc_hash::FxHashSet;

use super::background_work::Listeners;
use vkstash_host::sync::Mutex;
use vkstash_model::record::Key;

/// The most keys that are noted in a run of a device.
pub const MOST: usize = if cfg!(target_pointer_width = "32") { 1024 } else { 4096 };

/// A pipeline that the driver had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverHit {
    /// Its key.
    pub key: Key,
    /// What the program's call took: what a served call spares it.
    pub took: Duration,
}

/// The pipelines of one device that the driver had.
#[derive(Default)]
pub struct DriverHits {
    background: Arc<Listeners>,
    recorded: AtomicBool,
    /// No pipeline is noted any more.
    closed: AtomicBool,
    keys: Mutex<Keys>,
}

#[derive(Default)]
struct Keys {
    waiting: VecDeque<DriverHit>,
    /// The sum of the times that the calls for the waiting pipelines took.
    took: Duration,
    /// The keys of all pipelines that were noted in this run.
    noted: FxHashSet<Key>,
}

impl DriverHits {
    /// None yet.
    pub fn new(background: Arc<Listeners>) -> DriverHits {
        DriverHits { background, ..DriverHits::default() }
    }

    /// Background work records what is noted from now on.
    pub fn record(&self) {
        self.recorded.store(true, Ordering::Relaxed);
    }

    /// Whether background work records what is noted.
    pub fn are_recorded(&self) -> bool {
        self.recorded.load(Ordering::Relaxed) && !self.closed.load(Ordering::Relaxed)
    }

    /// Notes a key once in a run. False: it was noted before, or there is no room.
    pub fn note(&self, hit: DriverHit) -> bool {
        let took = {
            let mut keys = self.keys.lock();
            if keys.noted.len() >= MOST || !keys.noted.insert(hit.key) {
                return false;
            }
            keys.waiting.push_back(hit);
            keys.took += hit.took;
            keys.took
        };
        self.background.tell(|work| work.driver_had(took));
        true
    }

    /// Takes the one that was noted first.
    pub fn take(&self) -> Option<DriverHit> {
        let mut keys = self.keys.lock();
        let hit = keys.waiting.pop_front()?;
        keys.took = keys.took.saturating_sub(hit.took);
        Some(hit)
    }

    /// Puts back what was taken and not looked at.
    pub fn put_back(&self, hit: DriverHit) {
        let mut keys = self.keys.lock();
        keys.waiting.push_front(hit);
        keys.took += hit.took;
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.keys.lock().waiting.is_empty()
    }

    /// Whether pipelines wait that could be recorded.
    pub fn are_left(&self) -> bool {
        self.are_recorded() && !self.is_empty()
    }

    /// No worker records a pipeline any more. Takes no lock.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::super::background_work::BackgroundWork;
    use super::*;

    /// Hears what the calls for those that wait have taken.
    #[derive(Default)]
    struct Heard(Mutex<Duration>);

    impl BackgroundWork for Heard {
        fn driver_had(&self, took: Duration) {
            *self.0.lock() = took;
        }
    }

    fn hit(number: u32) -> DriverHit {
        let mut key = [0; 32];
        key[..4].copy_from_slice(&number.to_le_bytes());
        DriverHit { key, took: Duration::from_millis(1) }
    }

    #[test]
    fn a_key_is_noted_once_in_a_run_and_the_number_of_keys_is_limited() {
        let (listeners, heard) = (Arc::new(Listeners::default()), Arc::new(Heard::default()));
        listeners.add(heard.clone());
        let hits = DriverHits::new(listeners);
        assert!(hits.note(hit(0)) && !hits.note(hit(0)) && hits.note(hit(1)));
        assert_eq!(*heard.0.lock(), Duration::from_millis(2));
        let first = hits.take().unwrap();
        assert_eq!(first, hit(0));
        assert!(hits.note(hit(MOST as u32 * 4)) && *heard.0.lock() == Duration::from_millis(2));
        hits.put_back(first);
        assert_eq!(
            (hits.take(), hits.take(), hits.take()),
            (Some(hit(0)), Some(hit(1)), Some(hit(MOST as u32 * 4)))
        );
        assert!(!hits.note(hit(1)), "it was recorded, or could not be");
        let noted = (2..2 * MOST as u32).filter(|number| hits.note(hit(*number))).count();
        assert_eq!(noted, MOST - 3);
    }
}
