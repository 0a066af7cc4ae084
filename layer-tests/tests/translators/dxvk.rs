//! The habits of DXVK.

use serde_json::json;

use vkstash_layer_tests::child::Run;
use vkstash_layer_tests::env::Driver;
use vkstash_layer_tests::translators::report::Links;
use vkstash_layer_tests::translators::{Optimised, Plan};

use super::{EMULATED, LAVAPIPE, Machine, NATIVE, RADV, Seen, assert_nothing_bypassed, dxvk, on};

/// DXVK's compute pipelines: created from code, destroyed, and created again by identifier.
fn compute(machine: &Machine) {
    on(machine, Plan { graphics: 0, ..dxvk() }, |client| {
        let count = client.plan.compute;
        // What this run compiled is there; in a later run the first half is served too.
        let back = |run: &Run<Seen>, served: u32| {
            let (report, counters) = (&run.value.report, run.reports.counters());
            assert!(report.identifiers, "{report:?}");
            assert_eq!(report.requested_by_identifier, count);
            assert_nothing_bypassed(run);
            if machine.artifacts {
                assert_eq!(report.served_by_identifier, count, "{report:?} {counters:?}");
                assert_eq!(report.translations, count, "{report:?}");
                assert_eq!(run.reports.sum("served"), u64::from(served), "{counters:?}");
                assert_eq!(run.reports.sum("compiled"), u64::from(2 * count - served), "{counters:?}");
            }
        };
        back(&client.run(), count);
        back(&client.run(), 2 * count);
        back(&client.updated(machine), count);
        back(&client.updated(machine), 2 * count);
        back(&client.run(), 2 * count);

        let alone = client.alone();
        assert_eq!(alone.value.report.identifiers, machine.native);
    });
}

#[test]
fn compute_on_radv() {
    compute(&RADV);
}

#[test]
fn compute_on_lavapipe() {
    compute(&LAVAPIPE);
}

#[test]
fn compute_on_a_driver_without_identifiers() {
    compute(&EMULATED);
}

#[test]
fn compute_on_a_driver_with_short_identifiers() {
    compute(&NATIVE);
}

/// The complete DXVK client in every situation: it always draws, whatever is served.
fn draws(machine: &Machine, optimised: Optimised) {
    on(machine, Plan { optimised, ..dxvk() }, |client| {
        let count = client.plan.graphics;
        let complete = |run: &Run<Seen>| {
            let links = run.value.report.links;
            // Twice, because the first ones are destroyed.
            let expected = Links { fast: 2 * count, optimised: count, failed: 0, memoised: 0 };
            assert_eq!(links, expected, "{:?}", run.reports.counters());
        };
        for _ in 0..2 {
            complete(&client.run());
        }
        complete(&client.updated(machine));
        complete(&client.alone());
    });
}

#[test]
fn draws_on_radv() {
    draws(&RADV, Optimised::Link);
    draws(&RADV, Optimised::Whole);
}

#[test]
fn draws_on_lavapipe() {
    draws(&LAVAPIPE, Optimised::Link);
    draws(&LAVAPIPE, Optimised::Whole);
}

#[test]
fn draws_on_a_driver_without_identifiers() {
    draws(&EMULATED, Optimised::Link);
    draws(&EMULATED, Optimised::Whole);
}

#[test]
fn draws_on_a_driver_with_short_identifiers() {
    draws(&NATIVE, Optimised::Link);
    draws(&NATIVE, Optimised::Whole);
}

/// A link with FAIL_ON may be refused for no reason (contract 2.6). The program does without that link from then on,
/// and still draws.
#[test]
fn refused_links_cost_no_frame() {
    let driver = || Driver::Test(json!({ "fast_linking": false }));
    on(&Machine { driver, ..EMULATED }, dxvk(), |client| {
        let count = client.plan.graphics;
        for _ in 0..2 {
            let links = client.run().value.report.links;
            assert_eq!(links.optimised, count, "{links:?}");
            assert_eq!(links.fast + links.failed, 2 * count, "{links:?}");
            assert_eq!(links.memoised, links.failed, "{links:?}");
        }
    });
}

/// In every run libraries are created by identifier at once.
fn libraries_are_created_by_identifier(machine: &Machine, optimised: Optimised) {
    on(machine, Plan { optimised, ..dxvk() }, |client| {
        // Three compute pipelines, two vertex shaders, three fragment shaders.
        let asked = 3 + 2 + 3;
        let back = |run: &Run<Seen>| {
            let (report, counters) = (&run.value.report, run.reports.counters());
            assert_nothing_bypassed(run);
            assert_eq!(report.requested_by_identifier, asked, "{report:?} {counters:?}");
            if !machine.artifacts {
                return;
            }
            if optimised == Optimised::Link && machine.retained_uncached {
                assert!(report.served_by_identifier >= 3, "the compute pipelines: {report:?} {counters:?}");
                return;
            }
            assert_eq!(report.compile_required, 0, "{report:?} {counters:?}");
            assert_eq!(report.translations, asked, "the first time, from code: {report:?} {counters:?}");
        };
        back(&client.run());
        back(&client.run());
        back(&client.updated(machine));
        back(&client.updated(machine));
        back(&client.run());
    });
}

#[test]
fn libraries_are_created_by_identifier_on_radv() {
    libraries_are_created_by_identifier(&RADV, Optimised::Link);
    libraries_are_created_by_identifier(&RADV, Optimised::Whole);
}

#[test]
fn libraries_are_created_by_identifier_on_lavapipe() {
    libraries_are_created_by_identifier(&LAVAPIPE, Optimised::Link);
    libraries_are_created_by_identifier(&LAVAPIPE, Optimised::Whole);
}

#[test]
fn libraries_are_created_by_identifier_on_a_driver_without_identifiers() {
    libraries_are_created_by_identifier(&EMULATED, Optimised::Link);
    libraries_are_created_by_identifier(&EMULATED, Optimised::Whole);
}

#[test]
fn libraries_are_created_by_identifier_on_a_driver_with_short_identifiers() {
    libraries_are_created_by_identifier(&NATIVE, Optimised::Link);
    libraries_are_created_by_identifier(&NATIVE, Optimised::Whole);
}
