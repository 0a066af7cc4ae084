//! Times that can be compared although some clocks were wrong.
//!
//! A time in the future is impossible. A use is never older than a use of an earlier run, because runs are numbered
//! without a clock.

use std::collections::BTreeMap;

use crate::bounds::inventory::{Inventory, LastUse, PartInventory};

/// The present clock is believed up to this time after everything recorded before this run. Otherwise a clock that
/// jumps years ahead would make all age limits pass at once. After a real pause of more than that, age limits apply one
/// run later.
const BELIEVED_GAP_MS: u64 = 30 * 24 * 60 * 60 * 1000;

/// The time from which ages are counted, at most `now_ms`.
pub(crate) fn reference(inventory: &Inventory, now_ms: u64) -> u64 {
    let newest = inventory.applications.iter().flat_map(|app| {
        let own = (!app.current).then_some(app.last_use);
        own.into_iter().chain(app.parts.iter().flat_map(of_earlier_runs))
    });
    reference_of(newest, now_ms)
}

/// The time from which the ages of things that were used then are counted, at most `now_ms`.
pub fn reference_of(last_uses: impl Iterator<Item = u64>, now_ms: u64) -> u64 {
    let newest = last_uses.filter(|&time| time <= now_ms).max().unwrap_or(0);
    newest.saturating_add(BELIEVED_GAP_MS).min(now_ms)
}

fn of_earlier_runs(part: &PartInventory) -> impl Iterator<Item = u64> {
    let own = (!part.current).then_some(part.last_use);
    let records = part.records().iter().filter(|record| !record.current);
    own.into_iter().chain(records.map(|record| record.last_use.unix_ms))
}

/// The times of the runs of one application, by their uses.
pub(crate) struct Runs {
    now: u64,
    /// For each run: the latest possible time before it, and the time that replaces an impossible one.
    bounds: BTreeMap<u64, (u64, u64)>,
}

impl Runs {
    pub(crate) fn of(uses: impl Iterator<Item = LastUse>, now: u64) -> Runs {
        // The first and the last possible time of each run.
        let mut spans: BTreeMap<u64, Option<(u64, u64)>> = BTreeMap::new();
        for used in uses.filter(|used| used.run != 0) {
            let span = spans.entry(used.run).or_default();
            if (1..=now).contains(&used.unix_ms) {
                let (first, last) = span.unwrap_or((used.unix_ms, used.unix_ms));
                *span = Some((first.min(used.unix_ms), last.max(used.unix_ms)));
            }
        }
        let mut floor = 0;
        let mut bounds: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for (&run, span) in &spans {
            bounds.insert(run, (floor, now));
            floor = span.map_or(floor, |(_, last)| last.max(floor));
        }
        let mut next = now;
        for ((_, (floor, ceiling)), span) in bounds.iter_mut().zip(spans.values()).rev() {
            *ceiling = next.max(*floor);
            // A run whose clock was set back began no earlier than the previous run ended.
            next = span.map_or(next, |(first, _)| first.max(*floor));
        }
        Runs { now, bounds }
    }

    /// The time of a use, as far as it can be known. 0: never used.
    pub(crate) fn time(&self, used: LastUse) -> u64 {
        self.past(used).max(self.bounds_of(used).0)
    }

    /// The time that was noted, unless it lies in the future: then the latest possible one. For uses of processes that
    /// ran at the same time, none of which came after the other.
    pub(crate) fn past(&self, used: LastUse) -> u64 {
        if used.unix_ms > self.now { self.bounds_of(used).1 } else { used.unix_ms }
    }

    fn bounds_of(&self, used: LastUse) -> (u64, u64) {
        self.bounds.get(&used.run).copied().unwrap_or((0, self.now))
    }
}
