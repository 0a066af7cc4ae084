//! Serving with a real compiler: a second run compiles nothing.

use vkstash_layer_tests::child::Scenario;
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::suite::{self, assert_all_served, run};
use vkstash_layer_tests::work::{self, Caches, Code, Shader, Work};

fn on_radv(test: impl FnOnce(&Scenario, &Env)) {
    suite::on(Driver::Radv, test);
}

/// Runs the same program twice: the second run is served what the first one compiled.
fn cold_then_warm(work: Work) {
    on_radv(|scenario, env| {
        let cold = run(scenario, env, &work);
        assert!(cold.value.all_made(), "{cold:?}");
        assert_eq!(cold.reports.sum("compiled"), u64::from(work.count), "{:?}", cold.reports);
        assert_eq!(cold.reports.sum("served"), 0, "{:?}", cold.reports);
        let warm = run(scenario, env, &work);
        assert_eq!(warm.value.results, cold.value.results);
        assert!(warm.value.all_made(), "{warm:?}");
        assert_all_served(&warm, work.count);
    });
}

#[test]
fn the_second_run_is_served_with_no_cache() {
    cold_then_warm(Work::default());
}

#[test]
fn the_second_run_is_served_with_a_fresh_cache_for_each_pipeline() {
    cold_then_warm(Work { caches: Caches::Fresh, ..Work::default() });
}

#[test]
fn the_second_run_is_served_with_one_cache_for_all() {
    cold_then_warm(Work { caches: Caches::Shared, ..Work::default() });
}

#[test]
fn the_second_run_is_served_with_flags_in_the_chain() {
    cold_then_warm(Work { flags2: true, ..Work::default() });
}

#[test]
fn the_second_run_is_served_with_cache_control_enabled_by_the_program() {
    cold_then_warm(Work { cache_control: true, ..Work::default() });
}

#[test]
fn the_second_run_is_served_in_batches_of_derivatives() {
    cold_then_warm(Work { batch: 3, count: 6, derivatives: true, ..Work::default() });
}

#[test]
fn the_second_run_is_served_with_inline_modules() {
    cold_then_warm(Work { code: Code::Inline, ..Work::default() });
}

#[test]
fn the_second_run_is_served_with_specialization_constants() {
    cold_then_warm(Work { shader: Shader::Specialized, ..Work::default() });
}

#[test]
fn the_second_run_is_served_with_a_render_pass() {
    cold_then_warm(Work { shader: Shader::RenderPass, ..Work::default() });
}

#[test]
fn the_second_run_is_served_with_dynamic_rendering() {
    cold_then_warm(Work { shader: Shader::DynamicRendering, ..Work::default() });
}

#[test]
fn the_second_run_is_served_with_graphics_and_a_fresh_cache_for_each_pipeline() {
    let work = Work { shader: Shader::DynamicRendering, caches: Caches::Fresh, ..Work::default() };
    cold_then_warm(work);
}

#[test]
fn an_empty_identifier_beside_a_module_is_ignored() {
    cold_then_warm(Work { code: Code::ModuleAndEmptyIdentifier, ..Work::default() });
}

#[test]
fn a_forbidden_compile_stays_forbidden_without_an_artifact() {
    on_radv(|scenario, env| {
        let work = Work { fail_on: true, ..Work::default() };
        let cold = run(scenario, env, &work);
        assert!(cold.value.all_refused(), "{cold:?}");
        assert_eq!(cold.reports.sum("compile_required"), u64::from(work.count));
        assert_eq!(cold.reports.sum("compiled"), 0);
        // Forbidding to compile is not part of the key.
        run(scenario, env, &Work::default());
        let warm = run(scenario, env, &work);
        assert!(warm.value.all_made(), "{warm:?}");
        assert_all_served(&warm, work.count);
    });
}

#[test]
fn early_return_leaves_the_rest_of_the_batch_null() {
    on_radv(|scenario, env| {
        // The stash has the first constant, not the other two.
        run(scenario, env, &Work { count: 1, ..Work::default() });
        let work = Work { fail_on: true, early_return: true, batch: 3, ..Work::default() };
        let outcome = run(scenario, env, &work);
        assert_eq!(outcome.value.made, [true, false, false], "{outcome:?}");
        assert_eq!(outcome.value.results, [1_000_297_000]);
        assert_eq!(outcome.reports.sum("compile_required"), 1, "the third one must not be tried");
    });
}

#[test]
fn a_batch_continues_after_a_pipeline_that_may_not_be_compiled() {
    on_radv(|scenario, env| {
        run(scenario, env, &Work { count: 1, first: 2, ..Work::default() });
        let outcome = run(scenario, env, &Work { fail_on: true, batch: 3, ..Work::default() });
        assert_eq!(outcome.value.made, [false, true, false], "{outcome:?}");
        assert_eq!(outcome.value.results, [1_000_297_000]);
    });
}

#[test]
fn a_pipeline_named_by_identifiers_alone_is_served_from_the_stash() {
    for shader in [Shader::Compute, Shader::DynamicRendering] {
        on_radv(|scenario, env| {
            let by_identifier = Work { code: Code::Identifier, shader, ..Work::default() };
            let cold = run(scenario, env, &by_identifier);
            assert!(cold.value.all_refused(), "{cold:?}");
            run(scenario, env, &Work { identifiers: true, shader, ..Work::default() });
            let warm = run(scenario, env, &by_identifier);
            assert!(warm.value.all_made(), "{warm:?}");
            assert_all_served(&warm, by_identifier.count);
            assert_eq!(warm.reports.sum("identifier_requests"), u64::from(by_identifier.count));
            assert_eq!(warm.reports.sum("identifier_served"), u64::from(by_identifier.count));
        });
    }
}

#[test]
fn unknown_identifiers_return_compile_required() {
    on_radv(|scenario, env| {
        for bytes in [vec![0], vec![0xff; 32], vec![0; 20], (0..32).collect()] {
            let outcome = run(scenario, env, &Work { code: Code::Bytes, bytes, ..Work::default() });
            assert!(outcome.value.all_refused(), "{outcome:?}");
        }
    });
}

#[test]
fn different_constants_are_different_pipelines() {
    for shader in [Shader::Compute, Shader::Specialized, Shader::RenderPass] {
        on_radv(|scenario, env| {
            run(scenario, env, &Work { shader, ..Work::default() });
            let other = run(scenario, env, &Work { shader, first: 100, ..Work::default() });
            assert_eq!(other.reports.sum("served"), 0, "{:?}", other.reports.counters());
            assert_eq!(other.reports.sum("compiled"), 3, "{:?}", other.reports.counters());
        });
    }
}

/// The program's cache data from a served run is equivalent to that of a run without the stash: it warms a run
/// without the layer.
#[test]
fn cache_data_taken_in_a_served_run_warms_a_run_without_the_layer() {
    for shader in [Shader::Compute, Shader::RenderPass] {
        on_radv(|scenario, env| {
            let work = Work { shader, caches: Caches::Shared, ..Work::default() };
            run(scenario, env, &work);
            let warm = run(scenario, env, &work);
            assert_all_served(&warm, work.count);
            let alone = env.clone().without_layer();
            let may_not_compile = Work { fail_on: true, ..work };
            let without = run(scenario, &alone, &may_not_compile);
            assert!(without.value.all_refused(), "an empty cache holds nothing: {without:?}");
            let initial_data = warm.value.data[0].clone();
            let with = run(scenario, &alone, &Work { initial_data, ..may_not_compile });
            assert!(with.value.all_made(), "{:?}", with.value.results);
        });
    }
}

#[test]
fn cache_data_taken_in_the_first_run_warms_a_run_without_the_layer() {
    for caches in [Caches::Shared, Caches::Fresh] {
        on_radv(|scenario, env| {
            let work = Work { count: 1, caches, ..Work::default() };
            let cold = run(scenario, env, &work);
            let initial_data = cold.value.data[0].clone();
            let work = Work { fail_on: true, caches: Caches::Shared, initial_data, ..work };
            let with = run(scenario, &env.clone().without_layer(), &work);
            assert!(with.value.all_made(), "{:?}", with.value.results);
        });
    }
}

/// HIT speaks of the application's cache (contract 3.7).
#[test]
fn feedback_never_claims_a_hit_in_a_cache_that_was_not_passed() {
    for shader in [Shader::Compute, Shader::RenderPass] {
        on_radv(|scenario, env| {
            for caches in [Caches::None, Caches::Fresh] {
                let work = Work { shader, caches, feedback: true, ..Work::default() };
                for _ in 0..2 {
                    let outcome = run(scenario, env, &work);
                    assert!(outcome.value.all_made(), "{outcome:?}");
                    assert_eq!(outcome.value.feedback.len(), work.count as usize);
                    assert!(!outcome.value.feedback.iter().any(work::Feedback::says_hit), "{outcome:?}");
                }
            }
        });
    }
}

#[test]
fn feedback_is_the_same_as_without_the_layer_on_a_first_run() {
    on_radv(|scenario, env| {
        for shader in [Shader::Compute, Shader::RenderPass] {
            for caches in [Caches::None, Caches::Shared, Caches::Fresh] {
                let work = Work { shader, caches, feedback: true, ..Work::default() };
                let without = run(scenario, &env.clone().without_layer(), &work);
                let with = run(scenario, &env.clone().stash(scenario.folder().join("cold")), &work);
                std::fs::remove_dir_all(scenario.folder().join("cold")).unwrap();
                assert_eq!(with.value.feedback, without.value.feedback, "{shader:?} {caches:?}");
            }
        }
    });
}

#[test]
fn feedback_of_a_forbidden_compile_is_the_same_as_without_the_layer() {
    on_radv(|scenario, env| {
        for (shader, code) in [
            (Shader::Compute, Code::Module),
            (Shader::Compute, Code::Identifier),
            (Shader::RenderPass, Code::Module),
            (Shader::RenderPass, Code::Identifier),
        ] {
            for caches in [Caches::None, Caches::Fresh, Caches::Shared] {
                let work = Work { shader, code, caches, fail_on: true, feedback: true, ..Work::default() };
                let without = run(scenario, &env.clone().without_layer(), &work);
                let with = run(scenario, env, &work);
                assert!(with.value.all_refused(), "{with:?}");
                assert_eq!(with.value.feedback, without.value.feedback, "{shader:?} {code:?} {caches:?}");
            }
        }
    });
}
