//! Served from the stash: a real compiler, and a second run that compiles nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends at the first surprise")]

use vkstash_layer_tests::child::{Run, Scenario, scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::work::{self, Caches, Code, Done, Shader, Work};

/// Runs a program on RADV.
fn on_radv(test: impl FnOnce(&Scenario, &Env)) {
    scenario(&[("work", work::step)], |scenario| {
        if let Some(env) = scenario.on(Driver::Radv) {
            test(scenario, &env);
        }
    });
}

fn run(scenario: &Scenario, env: &Env, work: &Work) -> Run<Done> {
    scenario.run_ok("work", env, work)
}

/// Runs the same program twice: what the first run compiled, the second finds.
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

fn assert_all_served(warm: &Run<Done>, count: u32) {
    let counters = warm.reports.counters();
    assert_eq!(warm.reports.sum("served"), u64::from(count), "{counters:?} {}", warm.stderr);
    for other in ["compiled", "compiled_unrecorded", "not_taken", "driver_had", "bypassed", "failed"] {
        assert_eq!(warm.reports.sum(other), 0, "{other}: {counters:?} {}", warm.stderr);
    }
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
fn a_module_beside_an_empty_identifier_is_a_module() {
    cold_then_warm(Work { code: Code::ModuleAndEmptyIdentifier, ..Work::default() });
}
