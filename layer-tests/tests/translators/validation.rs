//! The Khronos validation layer below ours.

use std::collections::BTreeSet;

use vkstash_layer_tests::child::Run;
use vkstash_layer_tests::env;
use vkstash_layer_tests::translators::{Optimised, Plan};

use super::{LAVAPIPE, Machine, RADV, Seen, dxvk, on, vkd3d};

/// The validation layer below ours reports nothing that it does not report without ours. If the layer provides
/// identifiers, the client without it does without them.
fn same_messages(machine: &Machine, plan: Plan) {
    // The validation layer of distributions does not know maintenance5: it would take libraries for pipelines.
    on(machine, Plan { messages: true, flags2: false, ..plan }, |client| {
        if env::validation_manifest().is_none() {
            return client.scenario.skip("the Khronos validation layer is not installed");
        }
        let env = client.env.clone().validation();
        let ids = |run: &Run<Seen>| run.value.report.messages.iter().cloned().collect::<BTreeSet<_>>();
        let other_store = Plan { store: client.scenario.folder().join("alone"), ..client.plan.clone() };
        // The driver's own disk cache replaces the stash: this validation layer misunderstands links of libraries
        // that were created by identifier alone, with the layer or without it.
        let alone = env.clone().without_layer().driver_cache();
        let mut without = BTreeSet::new();
        for _ in 0..2 {
            without.extend(ids(&client.run_in(&alone, &other_store)));
        }
        for round in ["cold", "warm"] {
            let with = client.run_in(&env, &client.plan);
            assert!(!with.reports.0.is_empty(), "our layer is there");
            let new: Vec<_> = ids(&with).difference(&without).cloned().collect();
            assert!(new.is_empty(), "{round} {:?}: {new:?}, without us {without:?}", client.plan);
        }
    });
}

#[test]
fn vkd3d_brings_no_new_validation_messages() {
    for machine in [RADV, LAVAPIPE] {
        same_messages(&machine, vkd3d());
        same_messages(&machine, Plan { libraries: true, ..vkd3d() });
    }
}

#[test]
fn dxvk_brings_no_new_validation_messages() {
    for machine in [RADV, LAVAPIPE] {
        same_messages(&machine, dxvk());
        same_messages(&machine, Plan { optimised: Optimised::Link, ..dxvk() });
    }
}
