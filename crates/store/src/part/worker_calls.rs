//! Count of the processes that died in a call which a worker of background work made ahead of the program.
//!
//! A death counts only if a worker was in the driver at that moment. It is taken back by a later process whose workers
//! make [`FURTHER`] calls more. Nobody can know whether the driver or a signal from outside has ended a process, and
//! workers that are in the driver nearly all the time are also there when a user kills the program. So after a counted
//! death workers are in the driver for one part in [`SHARE`] of the time only ([`Part::worker_pause`]), until the death
//! is taken back. A driver that crashes in their calls still crashes, and a signal from outside seldom comes during
//! such a call. docs/process.md states the rule.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::part::admission::Admission;
use crate::part::crash_guard::{Marks, Work};
use crate::part::open::Part;
use vkstash_model::crash_count::CrashCount;
use vkstash_model::record::{CRASH_LIMIT, Key, Kind, WORKERS};

/// A death is taken back when the workers of another process have made this number of calls more than those of the
/// process that died.
const FURTHER: u32 = 16;
/// After a counted death workers are in the driver for one part in this many of the time.
const SHARE: u32 = 64;

/// The deaths that are counted, as the record says (docs/format.md).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Deaths {
    count: u8,
    /// The number of calls that the workers of the last process had made when it died.
    calls: u32,
}

impl Deaths {
    fn of_record(record: &[u8]) -> Deaths {
        let calls = record.get(1..5).and_then(|bytes| bytes.first_chunk().copied());
        Deaths { count: record.first().copied().unwrap_or(0), calls: calls.map_or(0, u32::from_le_bytes) }
    }

    fn record(self) -> Box<[u8]> {
        let calls = self.calls.to_le_bytes();
        Box::new([self.count, calls[0], calls[1], calls[2], calls[3]])
    }
}

impl Part {
    /// [`Part::admit`] for a call of a worker, which is about to enter the driver.
    pub fn admit_worker(&self) -> Admission {
        self.admit_call(&WORKERS, Work::Worker(self.worker_calls.load(Ordering::Relaxed)))
    }

    /// A worker's call has returned. How long a worker stays out of the driver after a call that took so long.
    pub fn worker_pause(&self, spent: Duration) -> Duration {
        let made = self.worker_calls.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let deaths = self.worker_deaths();
        if deaths.count == 0 {
            return Duration::ZERO;
        }
        if made >= deaths.calls.saturating_add(FURTHER) {
            self.take_back(deaths);
            return Duration::ZERO;
        }
        spent * (SHARE - 1)
    }

    /// Whether workers are in the driver for a part of the time only.
    pub fn doubts_workers(&self) -> bool {
        self.worker_deaths().count > 0
    }

    /// The workers have come to the end of what was planned.
    pub fn workers_are_done(&self) {
        if self.worker_calls.load(Ordering::Relaxed) > 0 {
            self.take_back(self.worker_deaths());
        }
    }

    fn worker_deaths(&self) -> Deaths {
        let mut record = Vec::new();
        let known =
            self.has_any(Kind::CrashCount) && self.read_known(Kind::CrashCount, &WORKERS, &mut record);
        if known { Deaths::of_record(&record) } else { Deaths::default() }
    }

    /// Another process may have died meanwhile: at the limit nothing is taken back.
    fn take_back(&self, deaths: Deaths) {
        if (1..CRASH_LIMIT).contains(&deaths.count) {
            let fewer = Deaths { count: deaths.count - 1, ..deaths };
            self.put(Kind::CrashCount, &WORKERS, fewer.record());
        }
    }

    /// The record of one death more while `key` was in flight.
    pub(super) fn one_death_more(&self, key: &Key, marks: &Marks) -> Box<[u8]> {
        let counted = self.counted(key);
        let count = counted.of_artifact.saturating_add(1);
        match *key {
            WORKERS => Deaths { count, calls: marks.worker_calls }.record(),
            _ => CrashCount { of_artifact: count, ..counted }.record(),
        }
    }
}
