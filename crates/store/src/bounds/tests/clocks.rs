//! Clocks that were wrong: in an earlier run, or now.

use crate::bounds::tests::*;

/// Artifacts in the order of their runs (from 1), with the times that those runs noted.
fn runs(times: &[u64]) -> Inventory {
    let of_run = |(at, &unix_ms): (usize, &u64)| Record {
        last_use: LastUse { unix_ms, run: at as u64 + 1, order: 0 },
        ..record(Kind::Artifact, at as u8, 0)
    };
    stored(vec![app(vec![listed(times.iter().enumerate().map(of_run).collect())])])
}

/// The records in the order in which they would go.
fn order(inventory: &Inventory, now: u64) -> Vec<usize> {
    let all = plan(inventory, &total(0), now);
    all.evictions.iter().map(|eviction| eviction.target.record.unwrap()).collect()
}

#[test]
fn a_clock_set_back_does_not_make_a_later_run_older() {
    for back in [0, 1, NOW - 3650 * DAY] {
        assert_eq!(order(&runs(&[NOW - 3 * DAY, NOW - 2 * DAY, back, NOW - DAY]), NOW), [0, 1, 2, 3]);
        assert_eq!(order(&runs(&[NOW - 3 * DAY, NOW - 2 * DAY, back]), NOW), [0, 1, 2]);
    }
}

#[test]
fn a_use_from_the_future_is_no_newer_than_the_run_that_followed() {
    for future in [NOW + 1, NOW + 3650 * DAY, u64::MAX] {
        assert_eq!(order(&runs(&[NOW - 3 * DAY, future, NOW - DAY]), NOW), [0, 1, 2]);
        assert_eq!(order(&runs(&[future, NOW - DAY, future]), NOW), [0, 1, 2]);
        // Nor newer than what others used since.
        let mut inventory = runs(&[future, NOW - 50 * DAY]);
        inventory.applications.push(app(vec![listed(vec![record(Kind::Artifact, 9, 20)])]));
        let all = plan(&inventory, &total(0), NOW);
        assert_eq!(gone(&all), [(0, 0, Some(0)), (0, 0, Some(1)), (1, 0, Some(0))]);
    }
}

#[test]
fn a_clock_that_is_wrong_now_leaves_the_order_of_the_runs() {
    let inventory = runs(&[NOW - 3 * DAY, NOW - 2 * DAY, NOW - DAY]);
    for now in [0, 1, NOW - 3650 * DAY, NOW + 3650 * DAY, u64::MAX] {
        assert_eq!(order(&inventory, now), [0, 1, 2], "{now}");
    }
}

#[test]
fn without_known_runs_the_noted_times_decide_even_if_now_is_before_them() {
    let mut inventory = runs(&[NOW - DAY, NOW - 3 * DAY, NOW - 2 * DAY]);
    let Listing::Listed(records) = &mut inventory.applications[0].parts[0].listing else { unreachable!() };
    records.iter_mut().for_each(|record| record.last_use.run = 0);
    for now in [0, NOW - 3650 * DAY, NOW, u64::MAX] {
        assert_eq!(order(&inventory, now), [1, 2, 0], "{now}");
    }
}

#[test]
fn a_run_is_ordered_by_its_first_uses_where_times_are_equal() {
    let mut inventory = runs(&[NOW - DAY; 3]);
    let Listing::Listed(records) = &mut inventory.applications[0].parts[0].listing else { unreachable!() };
    for (record, order) in records.iter_mut().zip([7, 0, u32::MAX]) {
        record.last_use = LastUse { run: 5, order, ..record.last_use };
    }
    assert_eq!(order(&inventory, NOW), [1, 0, 2]);
}

#[test]
fn a_clock_years_ahead_expires_nothing_that_was_in_use_lately() {
    let mut parts = vec![listed(vec![record(Kind::Artifact, 1, 1)]), foreign(10, 10), foreign(10, 170)];
    // This run has noted uses by the wrong clock already.
    let wrong = LastUse { unix_ms: NOW + 3650 * DAY, run: NOW, order: 0 };
    let mut current = listed(vec![Record { current: true, last_use: wrong, ..record(Kind::Artifact, 2, 0) }]);
    current.current = true;
    parts.push(current);
    let application = ApplicationInventory { current: true, last_use: wrong.unix_ms, ..app(parts) };
    let idle = app(vec![listed(vec![record(Kind::Module, 1, 100)])]);
    let inventory = stored(vec![application, idle]);
    for now in [NOW + 3650 * DAY, u64::MAX] {
        let limits = Limits { device_age: 210 * DAY, ..Limits::default() };
        assert_eq!(gone(&plan(&inventory, &limits, now)), [], "{now}");
    }
}

#[test]
fn a_clock_set_back_now_expires_nothing_and_evicts_no_more_than_the_limit_asks() {
    let inventory = stored(vec![app(vec![listed(vec![record(Kind::Artifact, 1, 1)]), foreign(10, 1000)])]);
    for now in [0, 1, NOW - 2000 * DAY] {
        assert_eq!(gone(&plan(&inventory, &total(20), now)), []);
        assert_eq!(gone(&plan(&inventory, &total(19), now)), [(0, 1, None)]);
    }
}
