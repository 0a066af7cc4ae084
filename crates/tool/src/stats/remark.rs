//! Whether an application benefits from the stash, and if not, why.

use VkLayer_vkstash::stats::Count;
use vkstash_store::settings::BackgroundMode;

use super::model::{Benefit, Store};
use crate::tally::Tally;

/// The benefit and, if there is none, the reason in words.
pub(super) fn judge(
    tally: &Tally,
    runs: u64,
    store: &Store,
    mode: BackgroundMode,
) -> (Benefit, Option<String>) {
    if tally.served() > 0 {
        return (Benefit::Some, None);
    }
    // The first run can only record. Whether an offered artifact was taken is not known on devices that cannot
    // confirm it.
    if runs < 2 || tally.requests() == 0 || tally.get(Count::Offered) > 0 {
        return (Benefit::Unknown, None);
    }
    let remark =
        format!("no benefit here: nothing was served in {runs} runs; {}", reason(tally, store, mode));
    (Benefit::None, Some(remark))
}

fn reason(tally: &Tally, store: &Store, mode: BackgroundMode) -> &'static str {
    // A program that forbids compiling asks again without that, for the same pipeline.
    let answered = tally.requests().saturating_sub(tally.get(Count::CompileRequired));
    let most = |count: u64| count.saturating_mul(2) > answered;
    let nothing_kept = tally.get(Count::NothingKept);
    if !store.unusable.is_empty() {
        "the stash could not be used"
    } else if answered == 0 {
        "the program forbids compiling, and nothing that it asks for is recorded"
    } else if most(tally.get(Count::Bypassed)) {
        "most of what is asked for must not be cached"
    } else if most(tally.get(Count::DriverHad)) {
        "the driver's own cache has nearly everything already"
    } else if most(nothing_kept) && !mode.allows_work() {
        "this driver's caches keep nothing that could be served"
    } else if most(nothing_kept) {
        "this driver's caches keep nothing, and background work had nothing ready when the program asked"
    } else if tally.get(Count::NotTaken) > 0 {
        "the driver did not take what was recorded"
    } else if most(tally.get(Count::CompiledUnrecorded)) {
        "this driver gives nothing that could be recorded"
    } else if !store.write_errors.is_empty() {
        "what was recorded could not be written"
    } else {
        "each run asks for other pipelines"
    }
}

#[cfg(test)]
mod tests {
    use vkstash_store::reports::model::DeviceReport;

    use super::*;

    fn judged(counters: &[(Count, u64)], runs: u64) -> (Benefit, Option<String>) {
        judged_in(BackgroundMode::Allowed, counters, runs)
    }

    fn judged_in(mode: BackgroundMode, counters: &[(Count, u64)], runs: u64) -> (Benefit, Option<String>) {
        let counters = counters.iter().map(|&(what, value)| (what.name().to_owned(), value)).collect();
        let mut tally = Tally::default();
        tally.add(&DeviceReport { counters, ..DeviceReport::default() });
        judge(&tally, runs, &Store::default(), mode)
    }

    #[test]
    fn the_first_run_can_only_record() {
        assert_eq!(judged(&[(Count::Compiled, 9)], 1).0, Benefit::Unknown);
        assert_eq!(judged(&[], 5).0, Benefit::Unknown);
    }

    #[test]
    fn a_warm_driver_cache_is_named_as_the_reason() {
        let (benefit, remark) = judged(&[(Count::DriverHad, 90), (Count::Compiled, 10)], 3);
        assert_eq!(benefit, Benefit::None);
        assert!(remark.unwrap().contains("the driver's own cache"));
    }

    #[test]
    fn a_driver_whose_caches_keep_nothing_can_be_helped_by_background_work() {
        let (benefit, remark) = judged(&[(Count::CompiledUnrecorded, 9), (Count::NothingKept, 9)], 2);
        assert_eq!(benefit, Benefit::None);
        assert!(remark.unwrap().ends_with("and background work had nothing ready when the program asked"));
        let counters = [(Count::CompiledUnrecorded, 9), (Count::NothingKept, 9), (Count::Parked, 1)];
        assert_eq!(judged(&counters, 2), (Benefit::Some, None));
    }

    #[test]
    fn nobody_hears_of_background_work_that_is_disabled() {
        let counters = [(Count::CompiledUnrecorded, 9), (Count::NothingKept, 9)];
        for mode in [BackgroundMode::Disabled, BackgroundMode::Profiling] {
            let remark = judged_in(mode, &counters, 2).1.unwrap();
            assert!(remark.ends_with("; this driver's caches keep nothing that could be served"), "{remark}");
        }
    }

    /// Chromium asks for each pipeline twice.
    #[test]
    fn requests_that_forbid_compiling_hide_no_reason() {
        let counters =
            [(Count::CompileRequired, 20), (Count::CompiledUnrecorded, 11), (Count::NothingKept, 11)];
        assert!(judged(&counters, 5).1.unwrap().contains("this driver's caches keep nothing"));
        let counters = [(Count::CompileRequired, 90), (Count::DriverHad, 9), (Count::Compiled, 1)];
        assert!(judged(&counters, 5).1.unwrap().contains("the driver's own cache"));
        let remark = judged(&[(Count::CompileRequired, 3)], 2).1.unwrap();
        assert!(remark.contains("the program forbids compiling"), "{remark}");
    }

    #[test]
    fn something_served_is_a_benefit() {
        assert_eq!(judged(&[(Count::Served, 1), (Count::DriverHad, 90)], 3), (Benefit::Some, None));
    }

    #[test]
    fn a_device_that_cannot_confirm_is_not_judged() {
        assert_eq!(judged(&[(Count::Offered, 5)], 3).0, Benefit::Unknown);
    }
}
