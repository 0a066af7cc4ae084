//! Runs whose devices are destroyed, for their comparison with others (docs/adaptive.md).
//!
//! Mesa writes what is loaded into a cache to its disk cache, in a thread of its own, and waits for that thread when the
//! instance is destroyed: the disk cache belongs to the physical device. So a run's costs are known only then.
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_macros))]

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
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

/// Of one instance.
pub struct EndedRuns {
    runs: Mutex<Vec<EndedRun>>,
    /// The pipelines of all of them, and of those that are not compared.
    pipelines: AtomicU32,
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

/// The program has waited for the stash when it destroyed its last device.
const WAITS_ONCE_MORE: Duration = Duration::from_millis(10);

impl EndedRuns {
    /// None yet, in this process.
    pub fn new() -> EndedRuns {
        EndedRuns { runs: Mutex::default(), pipelines: AtomicU32::new(0), process: fork::here() }
    }

    /// The program has destroyed a device, with which this many pipelines were made.
    pub fn add_pipelines(&self, pipelines: u64) {
        let pipelines = u32::try_from(pipelines).unwrap_or(u32::MAX);
        let sum = |known: u32| Some(known.saturating_add(pipelines));
        let _ = self.pipelines.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum);
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
        let pipelines = self.pipelines.load(Ordering::Relaxed);
        let news = |run: &EndedRun| -> Vec<(CacheHabit, Comparison)> {
            let habits = run.habits.iter();
            habits.filter_map(|ended| Some((ended.habit, ended.with_end(took, pipelines)?))).collect()
        };
        let news: Vec<_> =
            runs.iter().map(|run| (&run.header, news(run))).filter(|(_, news)| !news.is_empty()).collect();
        if news.is_empty() {
            return;
        }
        let config = Config {
            end: Some(config.end.map_or(WAITS_ONCE_MORE, |end| end.min(WAITS_ONCE_MORE))),
            ..config.clone()
        };
        let session = Session::open(&config, application);
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
