//! Eviction by example.

use crate::bounds::tests::*;

#[test]
fn nothing_goes_while_everything_fits() {
    let inventory = stored(vec![app(vec![listed(vec![record(Kind::Artifact, 1, 900)]), foreign(10, 100)])]);
    let plan = plan(&inventory, &total(20), NOW);
    assert_eq!((gone(&plan), plan.live_before, plan.live_after), (vec![], 20, 20));
    assert_eq!((plan.shortfalls, plan.reclaim, plan.applications), (vec![], vec![], vec![]));
}

#[test]
fn eviction_goes_down_to_nine_tenths_of_the_limit_oldest_first() {
    let records = (0..11).map(|name| record(Kind::Artifact, name, u64::from(name))).collect();
    let plan = plan(&stored(vec![app(vec![listed(records)])]), &total(100), NOW);
    assert_eq!(gone(&plan), [(0, 0, Some(10)), (0, 0, Some(9))]);
    assert_eq!(plan.live_after, 90);
    assert_eq!(causes(&plan), [Cause::TotalLimit; 2]);
    // The evicted records lie in a file of 110 bytes that may take 100.
    assert_eq!(plan.reclaim, [Reclaim { application: 0, part: 0, bytes: 10 }]);
}

#[test]
fn other_headers_go_first_then_modules_then_artifacts_then_what_describes_them() {
    let portable = listed(vec![
        record(Kind::Layout, 1, 9),
        record(Kind::Recipe, 2, 8),
        record(Kind::Module, 3, 1),
        record(Kind::Use, 4, 6),
    ]);
    let device = listed(vec![
        record(Kind::Artifact, 5, 5),
        record(Kind::IdentifierPair, 6, 7),
        record(Kind::CrashCount, 7, 90),
    ]);
    let inventory = stored(vec![app(vec![portable, device, foreign(10, 1), foreign(10, 2)])]);
    let order = gone(&plan(&inventory, &total(0), NOW));
    let by_worth = [
        (0, 3, None),
        (0, 2, None),
        (0, 0, Some(2)),
        (0, 1, Some(0)),
        (0, 0, Some(1)),
        (0, 1, Some(1)),
        (0, 0, Some(3)),
        (0, 0, Some(0)),
        (0, 1, Some(2)),
    ];
    assert_eq!(order, by_worth);
}

#[test]
fn an_old_header_expires_without_any_pressure_and_one_of_unknown_age_does_not() {
    let unknown = PartInventory { last_use: 0, ..foreign(10, 0) };
    let parts = vec![listed(vec![record(Kind::Artifact, 1, 0)]), foreign(10, 181), foreign(10, 179), unknown];
    let plan = plan(&stored(vec![app(parts)]), &Limits::default(), NOW);
    assert_eq!((gone(&plan), causes(&plan)), (vec![(0, 1, None)], vec![Cause::Expired]));
}

#[test]
fn a_matching_part_never_expires() {
    let inventory = stored(vec![
        app(vec![listed(vec![record(Kind::Artifact, 1, 0)])]),
        app(vec![listed(vec![record(Kind::Artifact, 1, 3000)])]),
    ]);
    assert_eq!(gone(&plan(&inventory, &Limits::default(), NOW)), []);
}

#[test]
fn an_abandoned_application_goes_before_anybodys_modules_and_its_folder_with_it() {
    let dead = app(vec![listed(vec![record(Kind::Artifact, 1, 400), record(Kind::Recipe, 1, 400)])]);
    let alive = app(vec![listed(vec![record(Kind::Module, 1, 150), record(Kind::Artifact, 1, 0)])]);
    let plan = plan(&stored(vec![alive, dead]), &total(35), NOW);
    assert_eq!(gone(&plan), [(1, 0, Some(0))]);
    let inventory = stored(vec![
        app(vec![listed(vec![record(Kind::Module, 1, 150), record(Kind::Artifact, 1, 0)])]),
        app(vec![listed(vec![record(Kind::Artifact, 1, 400), record(Kind::Recipe, 1, 400)])]),
    ]);
    let plan = crate::bounds::tests::plan(&inventory, &total(25), NOW);
    assert_eq!(gone(&plan), [(1, 0, Some(0)), (1, 0, Some(1))]);
    assert_eq!((plan.applications, plan.reclaim), (vec![1], vec![]));
}

#[test]
fn an_application_has_its_own_limit_or_the_one_for_each() {
    let of = |limit| {
        let records = (0..10).map(|name| record(Kind::Artifact, name, u64::from(name))).collect();
        ApplicationInventory { limit, ..app(vec![listed(records)]) }
    };
    let limits = Limits { per_app: Some(50), ..total(PLENTY) };
    let plan = plan(&stored(vec![of(None), of(Some(100)), of(Some(80))]), &limits, NOW);
    let count = |app| plan.evictions.iter().filter(|eviction| eviction.target.application == app).count();
    assert_eq!([0, 1, 2].map(count), [6, 0, 3]);
    assert!(causes(&plan).iter().all(|&cause| cause == Cause::ApplicationLimit));
    let reclaim = plan.reclaim.iter().map(|reclaim| (reclaim.application, reclaim.bytes)).collect::<Vec<_>>();
    assert_eq!(reclaim, [(0, 50), (2, 20)]);
}

#[test]
fn what_runs_now_stays_and_the_plan_says_so() {
    let mut records: Vec<Record> = (0..10).map(|name| record(Kind::Artifact, name, 50)).collect();
    records[..8].iter_mut().for_each(|record| record.current = true);
    let busy = PartInventory { current: true, ..foreign(10, 1000) };
    let unlisted = PartInventory { listing: Listing::Unlisted, ..busy.clone() };
    let application = ApplicationInventory { current: true, ..app(vec![listed(records), busy, unlisted]) };
    let plan = plan(&stored(vec![application]), &total(30), NOW);
    assert_eq!(gone(&plan), [(0, 0, Some(8)), (0, 0, Some(9))]);
    assert_eq!(plan.shortfalls, [Shortfall { limit: Cause::TotalLimit, application: None, bytes: 70 }]);
}

#[test]
fn dead_bytes_are_reclaimed_before_anything_live_goes() {
    let records = vec![record(Kind::Artifact, 1, 1), record(Kind::Artifact, 2, 2)];
    let part = PartInventory { bytes: 200, ..listed(records) };
    let plan = plan(&stored(vec![app(vec![part])]), &total(50), NOW);
    assert_eq!(gone(&plan), []);
    assert_eq!(plan.reclaim, [Reclaim { application: 0, part: 0, bytes: 150 }]);
}

#[test]
fn the_module_policy_counts_the_runs_of_the_application() {
    let modules = (0..5).map(|name| record(Kind::Module, name, u64::from(name) * 300)).collect();
    let mut application = app(vec![listed(modules)]);
    let gone_under = |application: &ApplicationInventory, module_policy| {
        let limits = Limits { module_policy, ..Limits::default() };
        let plan = plan(&stored(vec![application.clone()]), &limits, NOW);
        assert!(causes(&plan).iter().all(|&cause| cause == Cause::ModulePolicy));
        let mut gone: Vec<usize> = gone(&plan).into_iter().filter_map(|(.., record)| record).collect();
        gone.sort_unstable();
        gone
    };
    assert_eq!(gone_under(&application, ModulePolicy::All), [0_usize; 0]);
    assert_eq!(gone_under(&application, ModulePolicy::UsedInLast(3)), [3, 4]);
    assert_eq!(gone_under(&application, ModulePolicy::UsedInLast(6)), [0_usize; 0]);
    assert_eq!(gone_under(&application, ModulePolicy::UsedInLast(u32::MAX)), [0_usize; 0]);
    assert_eq!(gone_under(&application, ModulePolicy::UsedInLast(0)), [0, 1, 2, 3, 4]);
    assert_eq!(gone_under(&application, ModulePolicy::None), [0, 1, 2, 3, 4]);
    // Runs that used no module count too.
    application.runs.extend([NOW + 1, NOW + 2]);
    assert_eq!(gone_under(&application, ModulePolicy::UsedInLast(3)), [1, 2, 3, 4]);
    // A use in an unknown run is a use; no use at all is none.
    let Listing::Listed(modules) = &mut application.parts[0].listing else { unreachable!() };
    modules[3].last_use.run = 0;
    modules[0].last_use = LastUse::default();
    modules[1].current = true;
    assert_eq!(gone_under(&application, ModulePolicy::UsedInLast(3)), [0, 2, 4]);
}

#[test]
fn an_applications_own_module_policy_stands_in_place_of_the_general_one() {
    let of = |modules| {
        let records = vec![record(Kind::Module, 1, 1), record(Kind::Module, 2, 300)];
        ApplicationInventory { modules, ..app(vec![listed(records)]) }
    };
    let own = [None, Some(ModulePolicy::All), Some(ModulePolicy::None), Some(ModulePolicy::UsedInLast(1))];
    let gone_under = |module_policy| {
        let limits = Limits { module_policy, ..Limits::default() };
        let plan = plan(&stored(own.map(of).into()), &limits, NOW);
        let mut gone: Vec<(usize, usize)> =
            gone(&plan).into_iter().filter_map(|(app, _, record)| Some((app, record?))).collect();
        gone.sort_unstable();
        gone
    };
    assert_eq!(gone_under(ModulePolicy::All), [(2, 0), (2, 1), (3, 1)]);
    assert_eq!(gone_under(ModulePolicy::None), [(0, 0), (0, 1), (2, 0), (2, 1), (3, 1)]);
}

#[test]
fn the_floor_is_three_percent_and_at_most_a_gibibyte() {
    assert_eq!(Limits::floor_for(0), 0);
    assert_eq!(Limits::floor_for(10_000), 300);
    assert_eq!(Limits::floor_for(1 << 40), 1 << 30);
    assert_eq!(Limits::floor_for(u64::MAX), 1 << 30);
}
