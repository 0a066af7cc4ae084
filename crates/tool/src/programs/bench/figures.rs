//! Medians and quartiles of runs.

use std::time::Duration;

use serde::Serialize;
use vkstash_model::counters::Count;

use crate::programs::bench::runs::Run;
use crate::reports::tally::Tally;

/// A median between its quartiles.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Spread {
    /// The median.
    pub(super) median: f64,
    /// The lower quartile.
    pub(super) low: f64,
    /// The upper quartile.
    pub(super) high: f64,
}

impl Spread {
    /// Of no values everything is 0.
    pub(super) fn of(values: impl Iterator<Item = f64>) -> Spread {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let place = share * values.len().saturating_sub(1) as f64;
            let (below, above) = (place.floor() as usize, place.ceil() as usize);
            let (Some(&low), Some(&high)) = (values.get(below), values.get(above)) else { return 0.0 };
            low + (high - low) * place.fract()
        };
        Spread { median: at(0.5), low: at(0.25), high: at(0.75) }
    }

    /// Half of the quartiles' distance.
    pub(super) fn half(&self) -> f64 {
        (self.high - self.low) / 2.0
    }

    /// The quartiles' distance, as a part of the median.
    pub(super) fn relative(&self) -> f64 {
        if self.median > 0.0 { (self.high - self.low) / self.median } else { 0.0 }
    }
}

/// What runs of one kind took.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Figures {
    /// Seconds from the start of the command to its end.
    pub(super) seconds: Spread,
    /// These, divided by those of the runs without the layer, round by round.
    pub(super) ratio: Spread,
    /// Seconds of processor time of the command and of the children that it has waited for.
    pub(super) processor_seconds: Spread,
    /// These, divided by those of the runs without the layer, round by round.
    pub(super) processor_ratio: Spread,
}

impl Figures {
    pub(super) fn of(runs: &[Run], without: &[Run]) -> Figures {
        let of = |time: fn(&Run) -> Duration| {
            let seconds = move |run: &Run| time(run).as_secs_f64();
            let pairs = runs.iter().zip(without);
            let ratios = pairs.map(|(run, without)| seconds(run) / seconds(without).max(f64::MIN_POSITIVE));
            (Spread::of(runs.iter().map(seconds)), Spread::of(ratios))
        };
        let (seconds, ratio) = of(|run| run.wall);
        let (processor_seconds, processor_ratio) = of(|run| run.processor);
        Figures { seconds, ratio, processor_seconds, processor_ratio }
    }
}

/// What became of the pipelines of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Pipelines {
    /// The layer was there and saw a device.
    pub(super) has_device: bool,
    /// Requests for pipelines.
    pub(super) requested: u64,
    /// Pipelines that the stash served, or that were finished before the program asked for them.
    pub(super) served: u64,
    /// Pipelines in the program's cache or the driver's own caches.
    pub(super) driver_had: u64,
    /// Pipelines that the driver compiled.
    pub(super) compiled: u64,
    /// Pipelines that the driver got unchanged.
    pub(super) bypassed: u64,
}

impl Pipelines {
    pub(super) fn of(run: &Run) -> Pipelines {
        let mut tally = Tally::default();
        let devices = || run.reports.iter().flat_map(|report| &report.devices);
        devices().for_each(|device| tally.add(device));
        Pipelines {
            has_device: devices().next().is_some(),
            requested: tally.requests(),
            served: tally.served(),
            driver_had: tally.get(Count::DriverHad),
            compiled: tally.compiled(),
            bypassed: tally.get(Count::Bypassed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_lie_between_the_values() {
        let spread = Spread::of([4.0, 1.0, 3.0, 2.0].into_iter());
        assert_eq!(spread, Spread { median: 2.5, low: 1.75, high: 3.25 });
        assert_eq!(spread.relative(), 0.6);
        assert_eq!(Spread::of([7.0].into_iter()), Spread { median: 7.0, low: 7.0, high: 7.0 });
        assert_eq!(Spread::of(std::iter::empty()).relative(), 0.0);
    }
}
