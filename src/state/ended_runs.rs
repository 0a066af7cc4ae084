//! Runs whose devices are destroyed, for their comparison with others (docs/adaptive.md).
//!
//! Mesa writes what is loaded into a cache to its disk cache, in a thread of its own, and waits for that thread when the
//! instance is destroyed: the disk cache belongs to the physical device. So a run's costs are known only then.
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_macros))]

use std::sync::Mutex;
use std::time::Duration;

use super::comparison::EndedHabit;
use super::process::Session;
use crate::config::Config;
use vkstash_store::base::util::lock;
use vkstash_store::format::comparison::{CacheHabit, Comparison};
use vkstash_store::format::device::DeviceHeader;
use vkstash_store::format::record::Kind;

/// Of one instance.
#[derive(Default)]
pub struct EndedRuns(Mutex<Vec<EndedRun>>);

/// Of one device.
pub struct EndedRun {
    /// The device part.
    pub header: DeviceHeader,
    /// The habits that are compared.
    pub habits: Vec<EndedHabit>,
    /// The number of pipelines that were made.
    pub pipelines: u32,
}

/// A program may make a thousand devices, and what the first ones show is enough.
const MOST_RUNS: usize = 16;

impl EndedRuns {
    /// The program has destroyed a device.
    pub fn add(&self, run: EndedRun) {
        let mut runs = lock(&self.0);
        if runs.len() < MOST_RUNS && !run.habits.is_empty() {
            runs.push(run);
        }
    }

    /// The driver has destroyed the instance, which took so long. If that tells something new of a run, the stash is
    /// opened once more.
    pub fn record(&self, took: Duration, config: &Config, application: &[u8]) {
        let runs = std::mem::take(&mut *lock(&self.0));
        let pipelines = runs.iter().fold(0, |sum: u32, run| sum.saturating_add(run.pipelines));
        let news = |run: &EndedRun| -> Vec<(CacheHabit, Comparison)> {
            let habits = run.habits.iter();
            habits.filter_map(|ended| Some((ended.habit, ended.with_end(took, pipelines)?))).collect()
        };
        let news: Vec<_> =
            runs.iter().map(|run| (&run.header, news(run))).filter(|(_, news)| !news.is_empty()).collect();
        if news.is_empty() {
            return;
        }
        let session = Session::open(config, application);
        let Some(stash) = session.stash() else { return };
        for (header, news) in news {
            let Ok(part) = stash.device(header) else { continue };
            for (habit, now) in news {
                part.put(Kind::Comparison, &habit.key(), Box::new(now.encode()));
            }
        }
    }
}
