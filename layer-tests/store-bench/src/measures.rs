//! The meaning of a run's values, and their comparison.

use crate::engines::Engine;
use crate::report::Size;

/// The unit of a measure.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Millions of bytes per second; more is better.
    Rate,
    /// Nanoseconds.
    Time,
    /// Bytes per entry.
    Bytes,
    /// Multiples of the payload.
    Share,
}

/// The statistic of many values.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Pick {
    Median,
    Least,
}

/// A row of the tables.
pub struct Measure {
    /// The name of its values.
    pub name: &'static str,
    pub title: &'static str,
    pub unit: Unit,
    pub pick: Pick,
    /// The name of LMDB's values for comparison.
    pub peer: &'static str,
    /// Whether the plot shows the measure.
    pub plotted: bool,
}

/// LMDB has no comparable value.
const NOBODY: &str = "";

impl Measure {
    const fn new(name: &'static str, title: &'static str, unit: Unit) -> Measure {
        Measure { name, title, unit, pick: Pick::Median, peer: name, plotted: false }
    }

    const fn least(self) -> Measure {
        Measure { pick: Pick::Least, ..self }
    }

    const fn against(self, peer: &'static str) -> Measure {
        Measure { peer, ..self }
    }

    const fn plotted(self) -> Measure {
        Measure { plotted: true, ..self }
    }

    /// The statistic of the values.
    pub fn value(&self, size: &Size, engine: Engine) -> Option<f64> {
        self.picked(size.values(self.name, engine))
    }

    fn picked(&self, values: &[f64]) -> Option<f64> {
        match self.pick {
            Pick::Median => median(values),
            Pick::Least => values.iter().copied().reduce(f64::min),
        }
    }

    /// The ratio to LMDB: the median of the pairs that were measured side by side, if there are as many of both.
    pub fn ratio(&self, size: &Size, engine: Engine) -> Option<f64> {
        let (values, peers) = (size.values(self.name, engine), size.values(self.peer, Engine::Lmdb));
        let peer = self.picked(peers)?;
        if self.pick == Pick::Median && values.len() == peers.len() {
            let pairs: Vec<f64> = values.iter().zip(peers).map(|(value, peer)| value / peer).collect();
            return median(&pairs);
        }
        Some(self.picked(values)? / peer)
    }
}

/// `None` without values.
fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let (half, odd) = (sorted.len() / 2, sorted.len() % 2 == 1);
    match half.checked_sub(1) {
        _ if odd => sorted.get(half).copied(),
        Some(before) => Some((sorted[before] + sorted[half]) / 2.0),
        None => None,
    }
}

/// All measures, in the order of the tables.
pub const ALL: [Measure; 30] = [
    Measure::new("bulk", "bulk insert", Unit::Rate).plotted(),
    Measure::new("put.p50", "single put, p50 (stash: put + flush)", Unit::Time).plotted(),
    Measure::new("put.p99", "single put, p99 (stash: put + flush)", Unit::Time),
    Measure::new("put_queued.p50", "single put, p50, stash without the flush", Unit::Time)
        .against("put.p50")
        .plotted(),
    Measure::new("put_queued.p99", "single put, p99, stash without the flush", Unit::Time).against("put.p99"),
    Measure::new("open", "open to first get, median", Unit::Time).plotted(),
    Measure::new("open", "open to first get, least", Unit::Time).least(),
    Measure::new("open_alone", "of that, open, median", Unit::Time),
    Measure::new("killed", "the same after kill -9 of the writer, median", Unit::Time).plotted(),
    Measure::new("killed", "the same after kill -9 of the writer, least", Unit::Time).least(),
    Measure::new("killed_all", "the same, no entry in a sealed segment, median", Unit::Time)
        .against("killed"),
    Measure::new("killed_all", "the same, no entry in a sealed segment, least", Unit::Time)
        .against("killed")
        .least(),
    Measure::new("hit.p50", "get hit, p50", Unit::Time).plotted(),
    Measure::new("hit.p99", "get hit, p99", Unit::Time),
    Measure::new("hit.mean", "get hit, mean", Unit::Time),
    Measure::new("look.p50", "get hit, p50, read in place, not copied", Unit::Time).against("hit.p50"),
    Measure::new("look.p99", "get hit, p99, read in place, not copied", Unit::Time).against("hit.p99"),
    Measure::new("miss_0.p50", "get miss, p50", Unit::Time).plotted(),
    Measure::new("miss_0.p99", "get miss, p99", Unit::Time),
    Measure::new("miss_0.mean", "get miss, mean", Unit::Time),
    Measure::new("miss_1.p50", "get miss, 1 other live writer, p50", Unit::Time),
    Measure::new("miss_1.p99", "get miss, 1 other live writer, p99", Unit::Time),
    Measure::new("miss_1.mean", "get miss, 1 other live writer, mean", Unit::Time),
    Measure::new("miss_8.p50", "get miss, 8 other live writers, p50", Unit::Time).plotted(),
    Measure::new("miss_8.p99", "get miss, 8 other live writers, p99", Unit::Time),
    Measure::new("miss_8.mean", "get miss, 8 other live writers, mean", Unit::Time),
    Measure::new("disk", "disk over payload, allocated", Unit::Share).plotted(),
    Measure::new("disk_length", "disk over payload, by length of the files", Unit::Share),
    Measure::new("memory.rss", "memory an entry, every key looked up", Unit::Bytes).plotted(),
    Measure::new("memory.anon", "of that, not pages of a file", Unit::Bytes).against(NOBODY),
];

/// The cost of reading the clock.
pub const TIMER: Measure = Measure::new("timer.p50", "the clock", Unit::Time);

/// A value with its unit.
pub fn in_words(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Rate => format!("{value:.0} MB/s"),
        Unit::Bytes => format!("{value:.1} B"),
        Unit::Share => format!("{value:.3}"),
        Unit::Time => {
            let (number, name) = match value {
                ..1e3 => return format!("{value:.0} ns"),
                ..1e6 => (value / 1e3, "us"),
                _ => (value / 1e6, "ms"),
            };
            let digits = usize::from(number < 100.0) + usize::from(number < 10.0);
            format!("{number:.digits$} {name}")
        }
    }
}

/// A ratio with three significant digits.
pub fn ratio_in_words(ratio: f64) -> String {
    let digits = match ratio {
        ..10.0 => 2,
        ..100.0 => 1,
        _ => 0,
    };
    format!("{ratio:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 9.0]), Some(3.0));
    }

    #[test]
    fn ratios_are_taken_pair_by_pair() {
        let mut size = Size::new(1, 1, 3, true);
        // The machine was ten times as slow in the second pair.
        for (stash, lmdb) in [(2.0, 1.0), (20.0, 10.0), (3.0, 1.0)] {
            size.add("open", Engine::Stash, stash);
            size.add("open", Engine::Lmdb, lmdb);
        }
        let ratio =
            |pick| Measure { pick, ..Measure::new("open", "", Unit::Time) }.ratio(&size, Engine::Stash);
        assert_eq!(ratio(Pick::Median), Some(2.0));
        assert_eq!(ratio(Pick::Least), Some(2.0));
        assert_eq!(Measure::new("bulk", "", Unit::Rate).ratio(&size, Engine::Stash), None);
    }

    #[test]
    fn values_are_told_with_the_digits_that_matter() {
        let time = |value| in_words(value, Unit::Time);
        assert_eq!(
            [time(320.4), time(1460.0), time(13_640.0), time(743e6)],
            ["320 ns", "1.46 us", "13.6 us", "743 ms"]
        );
    }
}
