//! VKSTASH_COMPILE_STORED: compiles from stored SPIR-V in calls that forbid compiling.

use std::fs;

use serde_json::json;

use super::*;
use vkstash_layer_tests::suite::device_segments;

const STEP: &[(&str, Step)] = &[("job", do_job)];
const SHADERS: [Shader; 4] =
    [Shader::Compute, Shader::Specialized, Shader::RenderPass, Shader::DynamicRendering];

fn compiling_stored(env: &Env) -> Env {
    env.clone().var("VKSTASH_COMPILE_STORED", "1")
}

/// Lavapipe keeps no artifacts, so everything is compiled.
#[test]
fn a_driver_without_artifacts_compiles_what_the_stash_has_the_code_of() {
    let nothing_kept = test_driver(json!({ "cache_data": "header_only", "driver_id": 13 }));
    let settings = vec![Setting::auto(Driver::Lavapipe), Setting::auto(nothing_kept)];
    each(settings, STEP, |scenario, env, _| {
        for shader in SHADERS {
            for (code, flags2) in [(Code::Module, false), (Code::Inline, true)] {
                let first = 1 + 10 * shader as u32 + 100 * u32::from(flags2);
                let by_code = Work { shader, code, flags2, first, identifiers: true, ..Work::default() };
                let by_identifier = Work { code: Code::Identifier, feedback: true, ..by_code.clone() };
                let on = compiling_stored(env);
                assert!(run(scenario, &on, by_code.clone()).value.done.all_made());
                let off = run(scenario, env, by_identifier.clone());
                assert!(off.value.done.all_refused(), "off by default: {:?}", off.value.done.results);
                for caches in [Caches::None, Caches::Fresh, Caches::Shared] {
                    let warm = run(scenario, &on, Work { caches, ..by_identifier.clone() });
                    let counters = warm.reports.counters();
                    assert!(warm.value.done.all_made(), "{shader:?} {code:?} {caches:?}: {counters:?}");
                    assert_eq!(warm.reports.sum("rehydrated"), 3, "{counters:?}");
                    assert_eq!(warm.reports.sum("compiled_unrecorded"), 3, "{counters:?}");
                    assert_eq!(warm.reports.sum("compile_required"), 0, "{counters:?}");
                    assert!(!warm.value.done.feedback.iter().any(Feedback::says_hit));
                }
            }
        }
    });
}

#[test]
fn lost_artifacts_are_compiled_once_and_served_from_then_on() {
    let kept = emulated().into_iter().filter(|setting| setting.driver != Driver::Lavapipe).collect();
    each(kept, STEP, |scenario, env, _| {
        for shader in SHADERS {
            let by_code = Work { shader, identifiers: true, ..Work::default() };
            let by_identifier = Work { code: Code::Identifier, ..by_code.clone() };
            run(scenario, env, by_code);
            for segment in device_segments(&env.stash_folder()) {
                fs::remove_file(segment).unwrap();
            }
            let off = run(scenario, env, by_identifier.clone());
            assert!(off.value.done.all_refused(), "{:?}", off.value.done.results);
            assert_eq!(off.reports.sum("rehydrated"), 0);
            let on = run(scenario, &compiling_stored(env), by_identifier.clone());
            assert!(on.value.done.all_made(), "{:?}", on.reports.counters());
            assert_eq!(on.reports.sum("rehydrated"), 3);
            assert_eq!(on.reports.sum("compiled"), 3);
            let warm = run(scenario, env, by_identifier);
            assert!(warm.value.done.all_made(), "{:?}", warm.reports.counters());
            assert_eq!(warm.reports.sum("identifier_served"), 3);
            assert_eq!(warm.value.compiles, 0);
        }
    });
}

/// The driver's call must not forbid compiling, and must not use the feature if the driver lacks it.
#[test]
fn the_call_that_compiles_does_not_forbid_it() {
    let settings = vec![Setting::auto(test_driver(json!({}))), Setting::auto(old_driver())];
    each(settings, STEP, |scenario, env, setting| {
        for flags2 in [false, true] {
            let work = Work { flags2, identifiers: true, caches: Caches::Fresh, ..Work::default() };
            let job = |work: Work| Job::on(setting, work);
            run(scenario, env, job(work.clone()));
            for segment in device_segments(&env.stash_folder()) {
                fs::remove_file(segment).unwrap();
            }
            let by_identifier = Work { code: Code::Identifier, early_return: true, ..work };
            let seen = run(scenario, &compiling_stored(env), job(by_identifier.clone()));
            assert!(seen.value.done.all_made(), "{:?}", seen.reports.counters());
            assert_eq!(seen.reports.sum("rehydrated"), 3);
            assert_eq!(seen.value.compiles, 3);
            let compiling = seen.value.calls("vkCreateComputePipelines").filter(|call| call["result"] == 0);
            assert!(compiling.into_iter().all(|call| call["flags"][0].as_u64().unwrap() & 0x100 == 0));
            let seen = run(scenario, &compiling_stored(env), job(by_identifier));
            assert!(seen.value.done.all_made());
            assert_eq!(seen.value.compiles, 0, "{:?}", seen.reports.counters());
        }
    });
}

#[test]
fn code_that_the_stash_lacks_stays_compile_required() {
    let settings = [emulated(), vec![Setting::auto(old_driver())]].concat();
    each(settings, STEP, |scenario, env, setting| {
        let env = compiling_stored(env);
        for shader in [Shader::Compute, Shader::RenderPass] {
            for code in [Code::Identifier, Code::Bytes] {
                for bytes in [vec![0; 32], vec![7; 16], vec![9; 33]] {
                    let work = Work { shader, code, bytes, ..Work::default() };
                    let seen = run(scenario, &env, Job::on(setting, work));
                    assert!(seen.value.done.all_refused(), "{:?}", seen.value.done.results);
                    assert_eq!(seen.reports.sum("rehydrated"), 0);
                }
            }
        }
    });
}

/// If the compile fails, the answer is COMPILE_REQUIRED: the program comes back with the code and gets the error
/// then.
#[test]
fn a_failing_driver_leaves_compile_required() {
    each(vec![Setting::auto(test_driver(json!({ "cache_data": "empty" })))], STEP, |scenario, env, _| {
        run(scenario, env, Work { identifiers: true, ..Work::default() });
        let fault = json!({ "command": "vkCreateComputePipelines", "result": -2 });
        let faulty = test_driver(json!({ "cache_data": "empty", "faults": [fault] }));
        let faulty = compiling_stored(&scenario.on(faulty).unwrap().stash(env.stash_folder()));
        let seen = run(scenario, &faulty, Work { code: Code::Identifier, feedback: true, ..Work::default() });
        assert!(seen.value.done.all_refused(), "{:?}", seen.value.done.results);
        let silent = |f: &Feedback| f.pipeline == 0 && f.stages.iter().all(|&stage| stage == 0);
        assert!(seen.value.done.feedback.iter().all(silent), "{:?}", seen.value.done.feedback);
    });
}

/// The driver answers for its own identifiers.
#[test]
fn the_drivers_own_identifiers_are_left_alone() {
    let own = vec![Setting::auto(Driver::Radv), Setting::auto(test_driver(json!({ "identifiers": true })))];
    each(own, STEP, |scenario, env, _| {
        let work = Work { identifiers: true, ..Work::default() };
        run(scenario, env, work.clone());
        for segment in device_segments(&env.stash_folder()) {
            fs::remove_file(segment).unwrap();
        }
        let seen = run(scenario, &compiling_stored(env), Work { code: Code::Identifier, ..work });
        assert!(seen.value.done.all_refused(), "{:?}", seen.value.done.results);
        assert_eq!(seen.reports.sum("rehydrated"), 0);
    });
}
