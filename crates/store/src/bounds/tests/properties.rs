//! Properties of plans and layouts that hold for every inventory, limit and clock.

use std::collections::HashSet;

use proptest::collection::vec;
use proptest::prelude::*;

use crate::bounds::tests::*;

fn time() -> impl Strategy<Value = u64> {
    let near = (0..400 * DAY).prop_map(|ago| NOW - ago);
    let far = prop_oneof![Just(0), Just(1), Just(u64::MAX), Just(NOW + 3650 * DAY), any::<u64>()];
    prop_oneof![3 => near, 1 => far]
}

fn size() -> impl Strategy<Value = u64> {
    prop_oneof![20 => 0..100_u64, 1 => Just(u64::MAX), 1 => any::<u64>()]
}

fn one_record() -> impl Strategy<Value = Record> {
    let last_use = (time(), prop_oneof![0..6_u64, any::<u64>()], 0..20_u32);
    (0..Kind::ALL.len(), 0..4_u8, size(), last_use, prop::bool::weighted(0.15)).prop_map(
        |(kind, name, bytes, (unix_ms, run, order), current)| Record {
            kind: Kind::ALL[kind],
            key: [name; 32],
            bytes,
            last_use: LastUse { unix_ms, run, order },
            current,
        },
    )
}

fn part() -> impl Strategy<Value = PartInventory> {
    let contents = prop_oneof![
        1 => Just(Listing::Foreign),
        1 => Just(Listing::Unlisted),
        4 => vec(one_record(), 0..12).prop_map(Listing::Listed),
    ];
    (size(), 0..50_u64, time(), prop::bool::weighted(0.1), contents).prop_map(
        |(bytes, frame, last_use, current, listing)| PartInventory {
            bytes,
            frame,
            last_use,
            current,
            listing,
        },
    )
}

fn inventory() -> impl Strategy<Value = Inventory> {
    let limit = prop::option::weighted(0.3, size().prop_map(|bytes| bytes.saturating_mul(5)));
    let modules = prop::option::weighted(0.3, policy());
    let app = (time(), prop::bool::weighted(0.2), limit, modules, vec(0..6_u64, 0..6), vec(part(), 0..5));
    let app = app.prop_map(|(last_use, current, limit, modules, runs, parts)| ApplicationInventory {
        last_use,
        current,
        limit,
        modules,
        runs,
        parts,
    });
    vec(app, 0..5).prop_map(|applications| Inventory { applications })
}

fn policy() -> impl Strategy<Value = ModulePolicy> {
    prop_oneof![
        3 => Just(ModulePolicy::All),
        1 => Just(ModulePolicy::None),
        2 => (0..5_u32).prop_map(ModulePolicy::UsedInLast),
    ]
}

fn limits() -> impl Strategy<Value = Limits> {
    let bytes = || prop_oneof![4 => 0..3000_u64, 1 => any::<u64>()];
    (bytes(), prop::option::weighted(0.3, bytes()), time(), policy()).prop_map(
        |(total_bytes, per_app, age, module_policy)| Limits {
            total_bytes,
            per_app,
            free_space_floor: 0,
            device_age: age % (500 * DAY),
            module_policy,
        },
    )
}

fn set(plan: &Plan) -> HashSet<Target> {
    plan.evictions.iter().map(|eviction| eviction.target).collect()
}

fn of_app(plan: &Plan, app: usize) -> HashSet<Target> {
    set(plan).into_iter().filter(|target| target.application == app).collect()
}

/// Every record and unlisted part that may go.
fn evictable(inventory: &Inventory) -> Vec<Target> {
    let mut found = Vec::new();
    for (application, app) in inventory.applications.iter().enumerate() {
        for (part, it) in app.parts.iter().enumerate() {
            if it.is_listed() {
                let records = it.records().iter().enumerate().filter(|(_, record)| !record.current);
                found.extend(records.map(|(at, _)| Target { application, part, record: Some(at) }));
            } else if !it.current {
                found.push(Target { application, part, record: None });
            }
        }
    }
    found
}

fn record_of<'a>(inventory: &'a Inventory, target: &Target) -> Option<&'a Record> {
    let part = &inventory.applications[target.application].parts[target.part];
    target.record.map(|at| &part.records()[at])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_plan_fits_or_says_by_how_much_it_does_not(
        inventory in inventory(), limits in limits(), now in time(),
    ) {
        let plan = plan(&inventory, &limits, now);
        let may_go: HashSet<Target> = evictable(&inventory).into_iter().collect();
        let after = carried_out(&inventory, &plan);
        let live = after.live();
        prop_assert_eq!(u128::from(plan.live_after), live.min(u128::from(u64::MAX)));
        let allowed = u128::from(limits.total_bytes);
        let short = |app| plan.shortfalls.iter().find(|shortfall| shortfall.application == app);
        match short(None) {
            None => prop_assert!(live <= allowed),
            Some(shortfall) => {
                prop_assert_eq!(u128::from(shortfall.bytes), (live - allowed).min(u128::from(u64::MAX)));
                prop_assert_eq!(&set(&plan), &may_go);
            }
        }
        for (at, app) in inventory.applications.iter().enumerate() {
            let left = after.applications[at].live();
            if let Some(limit) = app.limit.or(limits.per_app) {
                prop_assert!(left <= u128::from(limit) || short(Some(at)).is_some());
            }
            if short(Some(at)).is_some() {
                let mut own = may_go.iter().filter(|target| target.application == at);
                prop_assert!(own.all(|target| set(&plan).contains(target)));
            }
        }
    }

    #[test]
    fn the_files_fit_once_what_was_asked_for_is_reclaimed(
        inventory in inventory(), limits in limits(), now in time(),
    ) {
        let plan = plan(&inventory, &limits, now);
        let whole: u128 = plan.evictions.iter().filter(|eviction| eviction.target.record.is_none())
            .map(|eviction| u128::from(eviction.bytes)).sum();
        let emptied: u128 = plan.applications.iter().flat_map(|&app| &inventory.applications[app].parts)
            .filter(|part| part.is_listed()).map(PartInventory::disk).sum();
        let reclaimed: u128 = plan.reclaim.iter().map(|reclaim| u128::from(reclaim.bytes)).sum();
        let disk: u128 = inventory.applications.iter().flat_map(|app| &app.parts).map(PartInventory::disk).sum();
        let left = disk - whole - emptied - reclaimed;
        let huge = reclaimed >= u128::from(u64::MAX);
        prop_assert!(left <= u128::from(limits.total_bytes) || !plan.shortfalls.is_empty() || huge);
    }

    #[test]
    fn nothing_that_runs_goes_and_nothing_goes_twice(
        inventory in inventory(), limits in limits(), now in time(),
    ) {
        let plan = plan(&inventory, &limits, now);
        let may_go: HashSet<Target> = evictable(&inventory).into_iter().collect();
        prop_assert!(set(&plan).is_subset(&may_go));
        prop_assert_eq!(set(&plan).len(), plan.evictions.len());
        for &app in &plan.applications {
            let left = carried_out(&inventory, &plan).applications[app].live();
            prop_assert!(left == 0 && !inventory.applications[app].current);
        }
    }

    #[test]
    fn a_larger_limit_never_evicts_more(
        inventory in inventory(), limits in limits(), now in time(), more in 0..500_u64,
    ) {
        let small = plan(&inventory, &limits, now);
        let roomier = Limits { total_bytes: limits.total_bytes.saturating_add(more), ..limits };
        prop_assert!(set(&plan(&inventory, &roomier, now)).is_subset(&set(&small)));
        // One application's limit spares that application, at the cost of others.
        for app in 0..inventory.applications.len() {
            let mut other = inventory.clone();
            let own = &mut other.applications[app].limit;
            *own = own.or(limits.per_app).map(|limit| limit.saturating_add(more));
            let larger = plan(&other, &limits, now);
            prop_assert!(of_app(&larger, app).is_subset(&of_app(&small, app)));
        }
    }

    #[test]
    fn a_second_plan_finds_nothing_to_do(
        inventory in inventory(), limits in limits(), now in time(),
    ) {
        let first = plan(&inventory, &limits, now);
        let after = carried_out(&inventory, &first);
        let second = plan(&after, &limits, now);
        // What is left decides up to when the clock is believed, so ages can only shrink.
        prop_assert!(second.evictions.iter().all(|eviction| {
            !first.shortfalls.is_empty() && eviction.bytes == 0
        }), "{:?}", second);
    }

    /// Where clocks were right, the order is that of the noted times, class by class.
    #[test]
    fn the_least_recently_used_go_first_and_modules_before_artifacts(
        ages in vec(vec((0..8_usize, 0..170 * DAY, any::<bool>()), 0..20), 1..4), limit in 0..500_u64,
    ) {
        let apps = ages.iter();
        let apps = apps.map(|records| app(vec![listed(records.iter().enumerate().map(|(at, &(kind, age, current))| {
            let unix_ms = NOW - age;
            let last_use = LastUse { unix_ms, run: unix_ms / DAY, order: at as u32 };
            Record { last_use, current, ..record(Kind::ALL[kind], at as u8, 0) }
        }).collect())]));
        let inventory = stored(apps.collect());
        let plan = plan(&inventory, &total(limit), NOW);
        let gone = set(&plan);
        let stays: Vec<&Record> = evictable(&inventory).iter().filter(|target| !gone.contains(target))
            .filter_map(|target| record_of(&inventory, target)).collect();
        for target in &gone {
            let evicted = record_of(&inventory, target).unwrap();
            for kept in &stays {
                if kept.kind == evicted.kind {
                    prop_assert!(evicted.last_use.unix_ms <= kept.last_use.unix_ms);
                }
                prop_assert!(!(kept.kind == Kind::Module && evicted.kind != Kind::Module));
                prop_assert!(!(kept.kind == Kind::Artifact && evicted.kind == Kind::Recipe));
            }
        }
    }

    #[test]
    fn a_layout_names_every_record_once_and_starts_with_the_latest_run(records in vec(one_record(), 0..40)) {
        let order = layout(&records);
        prop_assert_eq!(order.iter().copied().collect::<HashSet<_>>().len(), records.len());
        prop_assert_eq!(order.len(), records.len());
        for pair in order.windows(2) {
            let (one, next) = (&records[pair[0]], &records[pair[1]]);
            if one.kind == next.kind {
                prop_assert!(one.last_use.run >= next.last_use.run);
                if one.last_use.run == next.last_use.run && one.last_use.run != 0 {
                    prop_assert!(one.last_use.order <= next.last_use.order);
                }
            }
        }
    }
}
