//! Benefit that an application has of the stash, or the reason why it has none, in words.

use vkstash_model::background_mode::BackgroundMode;
use vkstash_model::counters::Count;

use super::model::{Application, Benefit, Store, Work};
use super::unready;
use crate::reports::tally::Tally;

/// The benefit and, if there is none, the reason in words.
pub(super) fn judge(
    application: &Application,
    tally: &Tally,
    mode: BackgroundMode,
) -> (Benefit, Option<String>) {
    if tally.served() > 0 {
        return (Benefit::Some, None);
    }
    let Application { runs, devices, store, .. } = application;
    // The first run of a device part can only record: on a new device, with other features, after a driver update. With
    // more runs than parts, one of them had a second run.
    let parts: usize = devices.iter().map(|device| device.parts.len().max(1)).sum();
    let is_early = *runs <= (parts as u64).max(1) || !application.lacks.is_empty();
    // Whether an offered artifact was taken is not known on devices that cannot confirm it.
    if is_early || tally.requests() == 0 || tally.get(Count::Offered) > 0 {
        return (Benefit::Unknown, None);
    }
    // Of all runs the first one would count, for which nothing was planned.
    let last = application.last_run.as_ref().map_or(&application.work, |run| &run.work);
    let reason = reason(tally, store, mode, last);
    let remark = format!("no benefit here: nothing was served in {runs} runs; {reason}");
    (Benefit::None, Some(remark))
}

/// What was counted of the runs, in words. Nothing is guessed: each reason has counters of its own.
fn reason(tally: &Tally, store: &Store, mode: BackgroundMode, last: &Work) -> String {
    // A program that forbids compiling asks again without that, for the same pipeline.
    let answered = tally.requests().saturating_sub(tally.get(Count::CompileRequired));
    let most = |count: u64| count.saturating_mul(2) > answered;
    let mostly = |what: Count| most(tally.get(what));
    let plain = if !store.unusable.is_empty() {
        "the stash could not be used"
    } else if answered == 0 {
        "the program forbids compiling, and nothing that it asks for is recorded"
    } else if mostly(Count::Bypassed) {
        "most of what is asked for must not be cached"
    } else if mostly(Count::SwitchedOff) {
        "compilations were disabled (`vkstash cache`)"
    } else if mostly(Count::DriverHad) {
        return format!("the driver's own cache has nearly everything already{}", unready(last));
    } else if mostly(Count::NothingKept) {
        return nothing_kept(tally, mode, last);
    } else if mostly(Count::NotTaken) {
        "the driver did not take what was recorded"
    } else if mostly(Count::Quarantined) {
        "what was recorded is not handed out, because processes died of it (`vkstash quarantine`)"
    } else if mostly(Count::NotReady) {
        "the disk was too slow to find what was recorded in time"
    } else if mostly(Count::CompiledUnrecorded) {
        "of most of what the driver compiled nothing could be recorded"
    } else if !store.write_errors.is_empty() {
        "what was recorded could not be written"
    } else if most(store.dropped) {
        "what was recorded could not be written as fast"
    } else if store.evicted_records > 0 || tally.get(Count::ServedBefore) > 0 {
        "what was recorded was evicted before it was asked for again (`vkstash keep` has the limits)"
    } else {
        "no run asked for what an earlier one had recorded"
    };
    plain.to_owned()
}

/// Why no pipeline was ready, as text that follows another reason.
fn unready(work: &Work) -> String {
    unready::of(|what| work.get(what))
        .map_or(String::new(), |(_, reasons)| format!(" (not ready: {reasons})"))
}

/// Why nothing was served on a driver whose caches keep nothing: there background work alone can help.
fn nothing_kept(tally: &Tally, mode: BackgroundMode, last: &Work) -> String {
    let plain = if !mode.allows_work() {
        "this driver's caches keep nothing that could be served"
    } else if tally.get(Count::ModulesSwitchedOff) > 0 {
        "this driver's caches keep nothing, and conversions were disabled, which background work needs (`vkstash cache`)"
    } else if tally.get(Count::ParkedUnasked) > 0 {
        "this driver's caches keep nothing, and background work made other pipelines than the program asked for"
    } else if tally.get(Count::ParkingFailed) > 0 {
        "this driver's caches keep nothing, and background work could not make what the program asks for"
    } else {
        let had_nothing =
            "this driver's caches keep nothing, and background work had nothing ready when the program asked";
        return had_nothing.to_owned() + &unready(last);
    };
    plain.to_owned()
}

#[cfg(test)]
mod tests {
    use vkstash_store::reports::model::{DeviceReport, RunReport};
    use vkstash_store::reports::totals::Totals;

    use super::super::collect::{example, of_all};
    use super::*;

    fn judged(counters: &[(Count, u64)], runs: u64) -> (Benefit, Option<String>) {
        judged_in(BackgroundMode::Allowed, counters, runs)
    }

    fn judged_in(mode: BackgroundMode, counters: &[(Count, u64)], runs: u64) -> (Benefit, Option<String>) {
        let counters = counters.iter().map(|&(what, value)| (what.name().to_owned(), value)).collect();
        let mut tally = Tally::default();
        tally.add(&DeviceReport { counters, ..DeviceReport::default() });
        let mut application = Application { runs, ..of_all(&example(Totals::default())) };
        application.work.counters = tally.counters();
        judge(&application, &tally, mode)
    }

    #[test]
    fn the_first_run_can_only_record() {
        assert_eq!(judged(&[(Count::Compiled, 9)], 1).0, Benefit::Unknown);
        assert_eq!(judged(&[], 5).0, Benefit::Unknown);
    }

    #[test]
    fn the_first_run_after_a_driver_update_can_only_record() {
        let report = |version: u32| DeviceReport {
            driver_version: version,
            counters: [(Count::Compiled.name().to_owned(), 9)].into(),
            ..DeviceReport::default()
        };
        let after = |versions: &[u32]| {
            let mut runs = Totals::default();
            for &version in versions {
                runs.add(&RunReport { devices: vec![report(version)], ..RunReport::default() });
            }
            of_all(&example(runs))
        };
        let early = after(&[1, 2]);
        assert_eq!((early.benefit, early.remark), (Benefit::Unknown, None));
        assert_eq!(after(&[1, 2, 2]).benefit, Benefit::None);
    }

    /// Each reason where it holds, and what comes close to it.
    #[test]
    fn each_reason_is_what_was_counted() {
        type Counters<'a> = &'a [(Count, u64)];
        let compiled = (Count::Compiled, 10);
        let unrecorded = (Count::CompiledUnrecorded, 10);
        let kept_nothing = (Count::NothingKept, 10);
        let reasons: [(&str, Counters<'_>, Counters<'_>); 14] = [
            ("forbids compiling", &[(Count::CompileRequired, 9)], &[(Count::CompileRequired, 9), compiled]),
            ("must not be cached", &[(Count::Bypassed, 11), compiled], &[(Count::Bypassed, 10), compiled]),
            (
                "compilations were disabled",
                &[unrecorded, (Count::SwitchedOff, 10)],
                &[unrecorded, (Count::SwitchedOff, 5)],
            ),
            (
                "has nearly everything",
                &[(Count::DriverHad, 11), compiled],
                &[(Count::DriverHad, 10), compiled],
            ),
            (
                "conversions were disabled",
                &[unrecorded, kept_nothing, (Count::ModulesSwitchedOff, 1)],
                &[compiled, (Count::ModulesSwitchedOff, 1)],
            ),
            (
                "other pipelines than the program asked for",
                &[unrecorded, kept_nothing, (Count::ParkedUnasked, 3)],
                &[compiled, (Count::ParkedUnasked, 3)],
            ),
            (
                "could not make what the program asks for",
                &[unrecorded, kept_nothing, (Count::ParkingFailed, 3)],
                &[compiled, (Count::ParkingFailed, 3)],
            ),
            ("had nothing ready", &[unrecorded, kept_nothing], &[unrecorded, (Count::NothingKept, 5)]),
            ("did not take", &[compiled, (Count::NotTaken, 9)], &[compiled, (Count::NotTaken, 1)]),
            (
                "processes died of it",
                &[compiled, (Count::Quarantined, 9)],
                &[compiled, (Count::Quarantined, 1)],
            ),
            ("the disk was too slow", &[compiled, (Count::NotReady, 9)], &[compiled, (Count::NotReady, 1)]),
            ("nothing could be recorded", &[unrecorded], &[(Count::CompiledUnrecorded, 9), compiled]),
            ("was evicted", &[compiled, (Count::ServedBefore, 1)], &[compiled]),
            ("no run asked for", &[compiled], &[compiled, (Count::ServedBefore, 1)]),
        ];
        for (reason, holds, near) in reasons {
            let remark = |counters| judged(counters, 3).1.unwrap();
            assert!(remark(holds).contains(reason), "{reason}: {}", remark(holds));
            assert!(!remark(near).contains(reason), "{reason}: {}", remark(near));
        }
    }

    #[test]
    fn what_the_store_reports_is_named() {
        let remark = |store: &dyn Fn() -> Store| {
            let counters = [(Count::Compiled.name().to_owned(), 10)];
            let mut tally = Tally::default();
            tally.add(&DeviceReport { counters: counters.into(), ..DeviceReport::default() });
            let application = Application { runs: 3, store: store(), ..of_all(&example(Totals::default())) };
            judge(&application, &tally, BackgroundMode::Allowed).1.unwrap()
        };
        let one = || [("why".to_owned(), 1)].into();
        let cases: [(&str, &dyn Fn() -> Store); 4] = [
            ("could not be used", &|| Store { unusable: one(), ..Store::default() }),
            ("could not be written", &|| Store { write_errors: one(), ..Store::default() }),
            ("could not be written as fast", &|| Store { dropped: 6, ..Store::default() }),
            ("was evicted", &|| Store { evicted_records: 1, ..Store::default() }),
        ];
        for (reason, store) in cases {
            assert!(remark(store).contains(reason), "{reason}: {}", remark(store));
        }
        assert!(!remark(&|| Store { dropped: 5, ..Store::default() }).contains("as fast"));
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
    fn why_nothing_was_ready_is_said() {
        let counters = [(Count::DriverHad, 9), (Count::NotKept, 9)];
        let remark = judged(&counters, 3).1.unwrap();
        assert!(remark.ends_with("has nearly everything already (not ready: 9 not kept yet)"), "{remark}");
        let counters = [(Count::CompiledUnrecorded, 9), (Count::NothingKept, 9), (Count::AskedFirst, 8)];
        let remark = judged(&counters, 3).1.unwrap();
        let end = "when the program asked (not ready: 8 asked for before a worker came to them)";
        assert!(remark.ends_with(end), "{remark}");
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
