//! Sums of counters over devices and runs.

use std::collections::BTreeMap;

use vkstash_model::counters::Count;
use vkstash_store::reports::model::DeviceReport;

/// The sum of any number of device reports.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    counters: BTreeMap<String, u64>,
    bypassed: BTreeMap<(String, i32), u64>,
}

impl Tally {
    /// Adds the counters of one device in one run. Reports may be forged, so sums saturate.
    pub(crate) fn add(&mut self, device: &DeviceReport) {
        for (name, &value) in &device.counters {
            grow(self.counters.entry(name.clone()).or_default(), value);
        }
        for bypass in &device.bypassed {
            grow(self.bypassed.entry((bypass.reason.clone(), bypass.s_type)).or_default(), bypass.count);
        }
    }

    pub(crate) fn get(&self, what: Count) -> u64 {
        self.counters.get(what.name()).copied().unwrap_or(0)
    }

    /// Every counter of this version, zeros included, and those that a newer version added.
    pub(crate) fn counters(&self) -> BTreeMap<String, u64> {
        let known = Count::ALL.iter().map(|&what| (what.name().to_owned(), self.get(what)));
        known.chain(self.counters.clone()).collect()
    }

    /// Bypassed pipelines by reason and VkStructureType, the most frequent first.
    pub(crate) fn bypassed(&self) -> Vec<(&str, i32, u64)> {
        let rows = self.bypassed.iter().map(|((reason, s_type), &count)| (reason.as_str(), *s_type, count));
        let mut rows: Vec<_> = rows.collect();
        rows.sort_by_key(|&(_, _, count)| std::cmp::Reverse(count));
        rows
    }

    /// Requests that the stash could have served.
    pub(crate) fn asked(&self) -> u64 {
        self.sum(&[
            Count::Served,
            Count::Parked,
            Count::Offered,
            Count::DriverHad,
            Count::Compiled,
            Count::CompiledUnrecorded,
            Count::CompileRequired,
        ])
    }

    /// All requests: also those that failed, that the stash must not touch, or that leave the driver nothing to
    /// compile.
    pub(crate) fn requests(&self) -> u64 {
        self.asked().saturating_add(self.sum(&[Count::Failed, Count::Bypassed, Count::NothingToCompile]))
    }

    /// Pipelines that the stash served, or that were finished before the program asked for them.
    pub(crate) fn served(&self) -> u64 {
        self.sum(&[Count::Served, Count::Parked])
    }

    /// Pipelines that were not compiled when the program asked for them.
    pub(crate) fn ready(&self) -> u64 {
        self.sum(&[Count::Served, Count::Parked, Count::Offered, Count::DriverHad])
    }

    /// Those, and the pipelines that were not ready. A program that forbids compiling asks again without that, for the
    /// same pipeline, or never.
    pub(crate) fn pipelines(&self) -> u64 {
        self.ready().saturating_add(self.compiled().max(self.get(Count::CompileRequired)))
    }

    /// Pipelines that the driver had to compile.
    pub(crate) fn compiled(&self) -> u64 {
        self.sum(&[Count::Compiled, Count::CompiledUnrecorded])
    }

    /// Share of the requests that the stash could have served and did: percent with one decimal, rounded down, so
    /// that 100 means all.
    pub(crate) fn hit_percent(&self) -> Option<f64> {
        self.percent_of_asked(self.served())
    }

    /// Share of the requests that the driver's or the program's own caches answered: percent with one decimal, rounded
    /// down.
    pub(crate) fn driver_percent(&self) -> Option<f64> {
        self.percent_of_asked(self.get(Count::DriverHad))
    }

    fn percent_of_asked(&self, count: u64) -> Option<f64> {
        let tenths = (u128::from(count) * 1000).checked_div(u128::from(self.asked()))?;
        Some(tenths as f64 / 10.0)
    }

    fn sum(&self, of: &[Count]) -> u64 {
        of.iter().fold(0, |sum, &what| sum.saturating_add(self.get(what)))
    }
}

/// Adds; saturates.
pub(crate) fn grow(sum: &mut u64, value: u64) {
    *sum = sum.saturating_add(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(counters: &[(Count, u64)]) -> Tally {
        let counters = counters.iter().map(|&(what, value)| (what.name().to_owned(), value)).collect();
        let mut tally = Tally::default();
        tally.add(&DeviceReport { counters, ..DeviceReport::default() });
        tally
    }

    #[test]
    fn one_miss_in_a_thousand_is_not_a_hundred_percent() {
        let tally = tally(&[(Count::Served, 9999), (Count::Compiled, 1)]);
        assert_eq!(tally.hit_percent(), Some(99.9));
    }

    #[test]
    fn a_pipeline_that_was_finished_before_the_request_is_a_hit() {
        let tally = tally(&[(Count::Served, 3), (Count::Parked, 6), (Count::Compiled, 1)]);
        assert_eq!((tally.served(), tally.hit_percent()), (9, Some(90.0)));
    }

    #[test]
    fn a_pipeline_that_is_asked_for_twice_because_compiling_was_forbidden_is_one() {
        let twice = tally(&[(Count::DriverHad, 3), (Count::CompileRequired, 5), (Count::Compiled, 4)]);
        assert_eq!((twice.ready(), twice.pipelines()), (3, 8));
        let once = tally(&[(Count::Offered, 1), (Count::CompileRequired, 2), (Count::CompiledUnrecorded, 4)]);
        assert_eq!((once.ready(), once.pipelines()), (1, 5));
    }

    #[test]
    fn bypassed_and_failed_requests_do_not_count_against_the_stash() {
        let tally = tally(&[(Count::Served, 1), (Count::Bypassed, 5), (Count::Failed, 2)]);
        assert_eq!(tally.hit_percent(), Some(100.0));
        assert_eq!(tally.requests(), 8);
    }

    #[test]
    fn pipelines_without_anything_to_compile_are_pipelines() {
        let tally = tally(&[(Count::NothingToCompile, 4)]);
        assert_eq!((tally.requests(), tally.hit_percent()), (4, None));
    }

    #[test]
    fn an_absurd_report_overflows_nothing() {
        let mut sum = tally(&[(Count::Served, u64::MAX), (Count::Compiled, u64::MAX)]);
        sum.add(&DeviceReport { counters: sum.counters(), ..DeviceReport::default() });
        assert_eq!(sum.get(Count::Served), u64::MAX);
        assert_eq!(sum.hit_percent(), Some(100.0));
    }

    #[test]
    fn no_requests_have_no_percentage() {
        assert_eq!(Tally::default().hit_percent(), None);
    }
}
