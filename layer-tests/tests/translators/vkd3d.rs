//! The habits of vkd3d-proton.

use vkstash_layer_tests::translators::Plan;

use super::{
    EMULATED, LAVAPIPE, Machine, NATIVE, RADV, assert_all_by_identifier, assert_nothing_bypassed, on, vkd3d,
};

/// The vkd3d-proton client from its first start until the layer is uninstalled. `asked`: requests by identifier in a
/// run with a complete file of identifiers.
fn whole_cycle(machine: &Machine, plan: Plan) {
    on(machine, plan, |client| {
        let asked = client.plan.compute + client.plan.graphics;

        let cold = client.run();
        assert!(cold.value.report.identifiers, "{cold:?}");
        assert_eq!(cold.value.report.requested_by_identifier, 0);
        assert_eq!(cold.value.report.blobs, asked);
        assert_nothing_bypassed(&cold);

        let warm = client.run();
        assert!(!warm.value.report.book_rejected, "the algorithm is the same in every run: {warm:?}");
        assert_eq!(warm.value.report.algorithm, cold.value.report.algorithm);
        assert_eq!(warm.value.report.requested_by_identifier, asked);
        assert_nothing_bypassed(&warm);
        if machine.artifacts {
            assert_all_by_identifier(&warm, asked);
        } else {
            // No request could be served: the client translates again, and works.
            assert_eq!(warm.value.report.compile_required, asked, "{warm:?}");
        }

        // An update: identifiers stay the same, artifacts no longer fit.
        let updated = client.updated(machine);
        assert!(!updated.value.report.book_rejected, "{updated:?}");
        assert_eq!(updated.value.report.requested_by_identifier, asked);
        assert_nothing_bypassed(&updated);
        if machine.artifacts {
            assert_eq!(updated.value.report.compile_required, asked, "{updated:?}");
            assert_all_by_identifier(&client.updated(machine), asked);
        }
        // The old driver's artifacts are kept for the return to it.
        if machine.artifacts {
            assert_all_by_identifier(&client.run(), asked);
        }

        let alone = client.alone();
        let report = &alone.value.report;
        assert_eq!(report.identifiers, machine.native, "{report:?}");
        if machine.native {
            // The identifiers were always the driver's own.
            assert!(!report.book_rejected, "{report:?}");
            assert_eq!(report.requested_by_identifier, asked);
        } else {
            assert!(report.book_rejected, "an algorithm that is gone: {report:?}");
            assert_eq!(report.requested_by_identifier, 0);
            assert_eq!(report.translations, asked);
        }
    });
}

#[test]
fn whole_cycle_on_radv() {
    whole_cycle(&RADV, vkd3d());
}

#[test]
fn whole_cycle_on_lavapipe() {
    whole_cycle(&LAVAPIPE, vkd3d());
}

#[test]
fn whole_cycle_on_a_driver_without_identifiers() {
    whole_cycle(&EMULATED, vkd3d());
}

#[test]
fn whole_cycle_on_a_driver_with_short_identifiers() {
    whole_cycle(&NATIVE, vkd3d());
}

#[test]
fn whole_cycle_with_libraries_on_radv() {
    whole_cycle(&RADV, Plan { libraries: true, ..vkd3d() });
}

#[test]
fn whole_cycle_with_libraries_on_lavapipe() {
    whole_cycle(&LAVAPIPE, Plan { libraries: true, ..vkd3d() });
}

#[test]
fn whole_cycle_with_libraries_on_a_driver_without_identifiers() {
    whole_cycle(&EMULATED, Plan { libraries: true, ..vkd3d() });
}

#[test]
fn whole_cycle_with_libraries_on_a_driver_with_short_identifiers() {
    whole_cycle(&NATIVE, Plan { libraries: true, ..vkd3d() });
}

/// The cache data that it reads in a served run is worth as much as without the stash.
#[test]
fn its_cache_data_serves_it_after_the_layer_is_removed() {
    for machine in [RADV, NATIVE] {
        on(&machine, vkd3d(), |client| {
            client.run();
            let warm = client.run();
            assert_all_by_identifier(&warm, 6);
            let plan = Plan { load_blobs: true, ..client.plan.clone() };
            let alone = client.run_in(&client.env.clone().without_layer(), &plan);
            assert_eq!(alone.value.report.served_by_identifier, 6, "{alone:?}");
        });
    }
}

/// The driver's answer without the layer, and the layer's: vkd3d-proton's identifier file treats them alike.
#[test]
fn identifiers_stored_without_the_layer_work_with_the_layer() {
    for machine in [RADV, NATIVE] {
        on(&machine, vkd3d(), |client| {
            let alone = client.alone();
            assert!(alone.value.report.identifiers);
            // The layer knows nothing yet: everything is requested, refused and translated once.
            let first = client.run();
            assert!(!first.value.report.book_rejected);
            assert_eq!(first.value.report.compile_required, 6, "{first:?}");
            assert_all_by_identifier(&client.run(), 6);
        });
    }
}

#[test]
fn a_client_that_loads_its_own_cache_data_is_served_too() {
    for machine in [RADV, EMULATED, NATIVE] {
        on(&machine, Plan { load_blobs: true, ..vkd3d() }, |client| {
            client.run();
            let warm = client.run();
            let report = &warm.value.report;
            assert_eq!(report.served_by_identifier, 6, "{report:?} {:?}", warm.reports.counters());
            assert_eq!(warm.value.compiles, 0);
            assert_nothing_bypassed(&warm);
        });
    }
}
