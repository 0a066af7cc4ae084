//! Calls that must reach the driver unchanged: with unknown structures, with invalid pointers in ignored members, and
//! all calls when the layer is disabled.

use vkstash_layer_tests::env::{Driver, Layer};
use vkstash_layer_tests::suite::{assert_all_served, files, on, run};
use vkstash_layer_tests::work::{Caches, Code, Shader, UNKNOWN_STRUCTURE, Work};

#[test]
fn an_unknown_structure_sends_the_pipeline_to_the_driver_and_is_counted_by_its_type() {
    for shader in [Shader::Compute, Shader::RenderPass] {
        for caches in [Caches::None, Caches::Shared] {
            on(Driver::Radv, |scenario, env| {
                let work = Work { shader, caches, unknown_structure: true, ..Work::default() };
                for _ in 0..2 {
                    let outcome = run(scenario, env, &work);
                    assert!(outcome.value.all_made(), "{outcome:?}");
                    let bypassed = outcome.reports.bypassed();
                    assert_eq!(bypassed.len(), 1, "{bypassed:?}");
                    assert_eq!(bypassed[0].s_type, UNKNOWN_STRUCTURE);
                    assert_eq!(bypassed[0].reason, "unknown_structure");
                    assert_eq!(bypassed[0].count, 3);
                    assert_eq!(outcome.reports.sum("bypassed"), 3);
                    assert_eq!(outcome.reports.sum("served") + outcome.reports.sum("compiled"), 0);
                }
            });
        }
    }
}

/// A pipeline that the driver compiled into the program's cache, because it bypassed the stash, is in that cache's
/// data.
#[test]
fn cache_data_of_bypassed_pipelines_is_complete() {
    on(Driver::Radv, |scenario, env| {
        let work = Work { unknown_structure: true, caches: Caches::Shared, ..Work::default() };
        let initial_data = run(scenario, env, &work).value.data.remove(0);
        let alone = env.clone().without_layer();
        let warm = run(scenario, &alone, &Work { fail_on: true, initial_data, ..work });
        assert!(warm.value.all_made(), "{:?}", warm.value.results);
    });
}

#[test]
fn pointers_that_the_specification_ignores_are_not_read() {
    for shader in [Shader::Compute, Shader::RenderPass, Shader::DynamicRendering] {
        on(Driver::Radv, |scenario, env| {
            let work = Work { shader, invalid_pointers: true, ..Work::default() };
            let cold = run(scenario, env, &work);
            assert!(cold.value.all_made(), "{cold:?}");
            assert_all_served(&run(scenario, env, &work), work.count);
            // Ignored pointers are not part of the key.
            assert_all_served(&run(scenario, env, &Work { invalid_pointers: false, ..work }), 3);
        });
    }
}

#[test]
fn state_that_rasterizer_discard_makes_irrelevant_is_not_read() {
    for shader in [Shader::RenderPass, Shader::DynamicRendering] {
        on(Driver::Radv, |scenario, env| {
            let work = Work { shader, invalid_pointers: true, discard: true, ..Work::default() };
            let cold = run(scenario, env, &work);
            assert!(cold.value.all_made(), "{cold:?}");
            assert_all_served(&run(scenario, env, &work), work.count);
            assert_all_served(&run(scenario, env, &Work { invalid_pointers: false, ..work }), 3);
        });
    }
}

#[test]
fn a_disabled_layer_does_nothing_however_it_was_loaded() {
    for layer in [Layer::Implicit, Layer::Explicit, Layer::Both] {
        for value in ["1", "0", ""] {
            on(Driver::Radv, |scenario, env| {
                let env = env.clone().layer(layer).var("VKSTASH_DISABLE", value);
                let work = Work { caches: Caches::Shared, feedback: true, ..Work::default() };
                let disabled = run(scenario, &env, &work);
                assert!(disabled.value.all_made(), "{disabled:?}");
                assert!(disabled.reports.0.is_empty(), "{layer:?} {value:?}: {:?}", disabled.reports);
                assert_eq!(files(&env.stash_folder(), ""), Vec::<std::path::PathBuf>::new());
                assert!(!disabled.stderr.contains("vkstash"), "{}", disabled.stderr);
                let without = run(scenario, &env.clone().without_layer(), &work);
                assert_eq!(disabled.value.feedback, without.value.feedback);
            });
        }
    }
}

#[test]
fn a_disabled_layer_does_not_emulate_identifiers() {
    on(Driver::Lavapipe, |scenario, env| {
        let env = env.clone().layer(Layer::Explicit).var("VKSTASH_DISABLE", "1");
        let outcome = scenario.run("work", &env, &Work { code: Code::Identifier, ..Work::default() });
        assert!(outcome.stderr.contains("ERROR_EXTENSION_NOT_PRESENT"), "{}", outcome.ending());
    });
}
