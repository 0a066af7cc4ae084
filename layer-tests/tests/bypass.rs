//! Calls that must reach the driver unchanged: with unknown structures, with invalid pointers in ignored members, and
//! all calls when the layer is disabled, or the user has it leave the program alone.

use std::process::Command;

use vkstash_layer_tests::env::{Driver, Env, Layer};
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

/// The name of this program's file is `layer-` and a hash.
#[test]
fn a_program_that_the_user_excludes_is_left_alone() {
    on(Driver::Radv, |scenario, env| {
        let work = Work::default();
        let config = scenario.folder().join("config.toml");
        let env = env.clone().var("VKSTASH_CONFIG", &config);
        let is_left_alone = |env: &Env| {
            let _ = std::fs::remove_dir_all(env.stash_folder());
            let run = run(scenario, env, &work);
            assert!(run.value.all_made(), "{run:?}");
            assert_eq!(run.reports.0.is_empty(), files(&env.stash_folder(), "").is_empty(), "{run:?}");
            run.reports.0.is_empty()
        };
        assert!(!is_left_alone(&env), "no list names it");
        for (list, expected) in
            [("['layer-*']", true), ("['LAYER*', 'x']", true), ("['layer', 'x*']", false), ("[]", false)]
        {
            std::fs::write(&config, format!("excluded-programs = {list}\n")).unwrap();
            assert_eq!(is_left_alone(&env), expected, "{list}");
        }
        for (variable, expected) in [("a:layer-*", true), ("a:b", false), ("", false)] {
            std::fs::write(&config, "excluded-programs = ['layer*']\n").unwrap();
            let env = env.clone().var("VKSTASH_EXCLUDED_PROGRAMS", variable);
            assert_eq!(is_left_alone(&env), expected, "the variable comes before the file: {variable:?}");
        }
    });
}

#[test]
fn a_browser_is_left_alone_by_its_name_unless_the_user_wants_it() {
    on(Driver::Radv, |scenario, env| {
        let browser = scenario.folder().join("firefox");
        std::fs::copy(std::env::current_exe().unwrap(), &browser).unwrap();
        for (wanted, expected) in [(None, false), (Some(""), true)] {
            let env =
                wanted.iter().fold(env.clone(), |env, value| env.var("VKSTASH_EXCLUDED_PROGRAMS", value));
            let mut command = Command::new(&browser);
            env.apply(&mut command);
            let output = scenario.as_step(&mut command, "work", &Work::default()).output().unwrap();
            assert!(output.status.success(), "{output:?}");
            assert_eq!(files(&env.stash_folder(), "").is_empty(), !expected, "{output:?}");
        }
    });
}
