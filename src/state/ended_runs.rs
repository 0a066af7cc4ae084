//! Runs whose devices are destroyed, for their comparison with others (docs/adaptive.md).
//!
//! Mesa writes what is loaded into a cache to its disk cache, in a thread of its own, and waits for that thread when the
//! instance is destroyed: the disk cache belongs to the physical device. So a run's costs are known only then.
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_macros))]

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use super::comparison::EndedHabit;
use super::process::Session;
use crate::config::Config;
use crate::guard::tls_destroyed;
use vkstash_store::base::util::lock;
use vkstash_store::forks as fork;
use vkstash_store::format::comparison::{CacheHabit, Comparison};
use vkstash_store::format::device::DeviceHeader;
use vkstash_store::format::record::Kind;
use vkstash_store::stash::open::END;

/// Of one instance.
pub struct EndedRuns {
    runs: Mutex<Vec<EndedRun>>,
    /// The pipelines of all of them, and of those that are not compared.
    pipelines: AtomicU32,
    /// Nothing was created with the device that was destroyed last.
    last_idle: AtomicBool,
    /// How long vkDestroyDevice has waited for the stash, the last time; in microseconds.
    waited: AtomicU64,
    /// In [`fork::now`].
    process: u32,
}

/// Of one device.
pub struct EndedRun {
    /// The device part.
    pub header: DeviceHeader,
    /// The habits that are compared.
    pub habits: Vec<EndedHabit>,
}

/// A program may make a thousand devices, and what the first ones show is enough.
const MOST_RUNS: usize = 16;

/// The longest that vkDestroyInstance waits for the stash, after vkDestroyDevice has waited for it.
const WAITS_ONCE_MORE: Duration = Duration::from_millis(10);
/// In less the stash is not opened even on a fast disk.
const LEAST_WAIT: Duration = Duration::from_millis(2);

/// The configuration for opening the stash again. `waited`: time that vkDestroyDevice has already waited. Opening and
/// closing share what is left of the limit. None: less than 2 ms is left.
fn once_more(config: &Config, waited: Duration) -> Option<Config> {
    let left = config.end.unwrap_or(END).saturating_sub(waited).min(WAITS_ONCE_MORE);
    let half = left / 2;
    let opening = config.opening.map_or(half, |opening| opening.min(half));
    let is_enough = left >= LEAST_WAIT;
    is_enough.then(|| Config { opening: Some(opening), end: Some(left - opening), ..config.clone() })
}

impl EndedRuns {
    /// None yet, in this process.
    pub fn new() -> EndedRuns {
        EndedRuns {
            runs: Mutex::default(),
            pipelines: AtomicU32::new(0),
            last_idle: AtomicBool::new(false),
            waited: AtomicU64::new(0),
            process: fork::here(),
        }
    }

    /// The program has destroyed a device, with which this many pipelines were made.
    pub fn add_pipelines(&self, pipelines: u64) {
        let pipelines = u32::try_from(pipelines).unwrap_or(u32::MAX);
        let sum = |known: u32| Some(known.saturating_add(pipelines));
        let _ = self.pipelines.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum);
    }

    /// The program has destroyed a device. `idle`: it has created neither modules nor pipelines with it.
    pub fn note_idle(&self, idle: bool) {
        self.last_idle.store(idle, Ordering::Relaxed);
    }

    /// Whether the program has created nothing with the device that it destroyed last.
    pub fn was_last_idle(&self) -> bool {
        self.last_idle.load(Ordering::Relaxed)
    }

    /// How many pipelines were made with the devices that are destroyed.
    pub fn pipelines(&self) -> u32 {
        self.pipelines.load(Ordering::Relaxed)
    }

    /// The program has waited so long for the stash, in vkDestroyDevice.
    pub fn note_wait(&self, waited: Duration) {
        self.waited.store(u64::try_from(waited.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// What that device's run has shown.
    pub fn add(&self, run: EndedRun) {
        if run.habits.is_empty() || self.is_inherited() {
            return;
        }
        let mut runs = lock(&self.runs);
        if runs.len() < MOST_RUNS {
            runs.push(run);
        }
    }

    /// The driver has destroyed the instance, which took so long. If that tells something new of a run, the stash is
    /// opened once more.
    pub fn record(&self, took: Duration, config: &Config, application: &[u8]) {
        // The maps of the store need thread-local storage.
        if self.is_inherited() || tls_destroyed() {
            return;
        }
        let runs = std::mem::take(&mut *lock(&self.runs));
        let pipelines = self.pipelines();
        let news = |run: &EndedRun| -> Vec<(CacheHabit, Comparison)> {
            let habits = run.habits.iter();
            habits.filter_map(|ended| Some((ended.habit, ended.with_end(took, pipelines)?))).collect()
        };
        let news: Vec<_> =
            runs.iter().map(|run| (&run.header, news(run))).filter(|(_, news)| !news.is_empty()).collect();
        if news.is_empty() {
            return;
        }
        let waited = Duration::from_micros(self.waited.load(Ordering::Relaxed));
        let Some(config) = once_more(config, waited) else { return };
        let session = Session::open(&config, application, None);
        let Some(stash) = session.stash() else { return };
        for (header, news) in news {
            let Ok(part) = stash.device(header) else { continue };
            for (habit, now) in news {
                part.put(Kind::Comparison, &habit.key(), Box::new(now.encode()));
            }
        }
    }

    /// A forked child leaves its parent's runs alone, whose lock may be held for ever.
    fn is_inherited(&self) -> bool {
        self.process != fork::now()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_share_one_limit() {
        let millis = Duration::from_millis;
        let total = |config: &Config, waited: u64| {
            once_more(config, millis(waited)).map(|config| {
                let (opening, end) = (config.opening.unwrap(), config.end.unwrap());
                opening + end
            })
        };
        let usual = Config::default();
        assert_eq!(total(&usual, 0), Some(WAITS_ONCE_MORE));
        for waited in 0..=60 {
            let sum = total(&usual, waited).map_or(Duration::ZERO, |more| more + millis(waited));
            assert!(sum <= END, "{waited}: {sum:?}");
            assert_eq!(sum.is_zero(), waited > 48, "{waited}");
        }
        let patient = Config { end: Some(millis(500)), opening: Some(millis(1)), ..Config::default() };
        assert_eq!(total(&patient, 495), Some(millis(5)));
        assert_eq!(once_more(&patient, millis(495)).unwrap().opening, Some(millis(1)));
        let impatient = Config { end: Some(Duration::ZERO), ..Config::default() };
        assert_eq!(total(&impatient, 0), None);
    }

    /// The child has the parent's lock as a thread of the parent held it, for ever.
    #[test]
    fn a_forked_child_leaves_its_parents_runs_alone() {
        let (ended, config) = (EndedRuns::new(), Config::default());
        let held = lock(&ended.runs);
        // SAFETY: the child only calls what takes no lock, and `_exit`.
        let status = unsafe {
            let child = libc::fork();
            if child == 0 {
                libc::alarm(60);
                ended.record(Duration::from_secs(1), &config, b"");
                libc::_exit(0);
            }
            let mut status = -1;
            assert_eq!(libc::waitpid(child, &mut status, 0), child);
            status
        };
        drop(held);
        assert_eq!(status, 0);
    }
}
