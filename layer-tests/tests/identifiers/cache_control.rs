//! A driver without pipelineCreationCacheControl: neither the feature nor its flags reach it, and a request that
//! forbids compiling is not compiled.

use ash::vk;
use serde_json::{Value, json};

use super::*;

/// VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_CREATION_CACHE_CONTROL_FEATURES.
const CONTROL_FEATURES: i64 = 1_000_297_000;
const SHADERS: [Shader; 3] = [Shader::Compute, Shader::Specialized, Shader::RenderPass];

fn on_old_drivers(test: impl Fn(&Scenario, &Env)) {
    let script = |driver_id: u32| {
        let driver = json!({ "api_version": "1.2", "cache_control": false, "driver_id": driver_id });
        Setting::auto(test_driver(driver))
    };
    each(vec![script(0), script(3)], &[("job", do_job)], |scenario, env, _| test(scenario, env));
}

/// No structure, extension or flag of cache control reached the driver.
fn unseen(seen: &Seen) {
    for call in &seen.calls {
        let creates =
            call["command"] == "vkCreateDevice" || call["command"].as_str().unwrap().ends_with("Pipelines");
        let types = |chain: &str| call[chain].as_array().cloned().unwrap_or_default();
        for hidden in [CONTROL_FEATURES, IDENTIFIER_FEATURES, IDENTIFIER_STAGE] {
            let there = types("p_next").iter().chain(&types("stage_p_next")).any(|s_type| *s_type == hidden);
            assert!(!creates || !there, "{call}");
        }
        if call["command"].as_str().unwrap().ends_with("Pipelines") {
            let flags = call["flags"].as_array().unwrap().iter().map(|flags| flags.as_u64().unwrap());
            assert!(flags.into_iter().all(|flags| flags & FAIL_OR_RETURN_EARLY == 0), "{call}");
        }
    }
}

#[test]
fn pipelines_that_may_be_compiled_are_recorded_and_served() {
    on_old_drivers(|scenario, env| {
        for shader in SHADERS {
            for flags2 in [false, true] {
                for early_return in [false, true] {
                    let first = 1 + 10 * u32::from(flags2) + 20 * u32::from(early_return);
                    let caches = Caches::Fresh;
                    let work = Work { shader, flags2, early_return, first, caches, ..Work::default() };
                    let cold = run(scenario, env, Job::on_old_driver(work.clone()));
                    assert!(cold.value.done.all_made(), "{:?}", cold.value.done.results);
                    unseen(&cold.value);
                    let warm = run(scenario, env, Job::on_old_driver(work));
                    assert!(warm.value.done.all_made(), "{:?}", warm.value.done.results);
                    assert_eq!(warm.value.compiles, 0, "{:?}", warm.reports.counters());
                    unseen(&warm.value);
                }
            }
        }
    });
}

/// Also if the stash has the artifact: the driver would compile if it refused it (contract 3.5).
#[test]
fn pipelines_that_may_not_be_compiled_never_reach_the_driver() {
    on_old_drivers(|scenario, env| {
        for shader in SHADERS {
            for (flags2, unknown_structure) in [(false, false), (true, false), (false, true), (true, true)] {
                let caches = Caches::Fresh;
                run(scenario, env, Job::on_old_driver(Work { shader, flags2, caches, ..Work::default() }));
                let work = Work {
                    shader,
                    flags2,
                    unknown_structure,
                    caches,
                    fail_on: true,
                    batch: 2,
                    feedback: true,
                    ..Work::default()
                };
                let seen = run(scenario, env, Job::on_old_driver(work));
                let done = &seen.value.done;
                assert!(done.all_refused(), "{shader:?} {:?}", done.results);
                assert!(done.feedback.iter().all(|f| f.pipeline == 0 && f.stages.iter().all(|&s| s == 0)));
                assert_eq!(seen.reports.sum("compile_required"), 3, "{:?}", seen.reports.counters());
                let pipelines = seen.value.calls.iter().filter(|call| call.to_string().contains("Pipelines"));
                assert_eq!(pipelines.count(), 0);
                unseen(&seen.value);
            }
        }
    });
}

#[test]
fn early_return_stops_at_the_first_pipeline_that_may_not_be_compiled() {
    on_old_drivers(|scenario, env| {
        let work = Work { fail_on: true, early_return: true, batch: 3, ..Work::default() };
        let seen = run(scenario, env, Job::on_old_driver(work));
        assert!(seen.value.done.all_refused());
        assert_eq!(seen.reports.sum("compile_required"), 1, "{:?}", seen.reports.counters());
    });
}

/// The layer cannot copy this chain, so the flag stays in it; the program gets its pipeline nevertheless.
#[test]
fn a_program_gets_its_pipelines_beside_an_unknown_structure() {
    on_old_drivers(|scenario, env| {
        let work = Work { unknown_structure: true, early_return: true, ..Work::default() };
        let seen = run(scenario, env, Job::on_old_driver(work.clone()));
        assert!(seen.value.done.all_made());
        unseen(&seen.value);
        let job = Job::on_old_driver(Work { flags2: true, ..work });
        let seen = scenario.run_ok::<Seen>("job", env, &job);
        assert!(seen.value.done.all_made());
    });
}

#[test]
fn requests_by_identifier_return_compile_required() {
    on_old_drivers(|scenario, env| {
        for shader in SHADERS {
            for flags2 in [false, true] {
                let work = Work { shader, flags2, caches: Caches::Fresh, ..Work::default() };
                run(scenario, env, Job::on_old_driver(work.clone()));
                let work = Work { code: Code::Identifier, ..work };
                let seen = run(scenario, env, Job::on_old_driver(work));
                assert!(seen.value.done.all_refused());
                assert_eq!(seen.reports.sum("identifier_requests"), 3);
                assert_eq!(seen.value.compiles, 0);
                unseen(&seen.value);
            }
        }
    });
}

/// Externally synchronized caches, a flag of the feature.
fn synchronized_caches(_: &Value) -> Value {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let device = old_device(&instance, false, Asks::Extensions);
    let info =
        vk::PipelineCacheCreateInfo::default().flags(vk::PipelineCacheCreateFlags::EXTERNALLY_SYNCHRONIZED);
    // SAFETY: a live device and a valid create info; the cache is used and destroyed once.
    let cache = unsafe { device.raw.create_pipeline_cache(&info, None) }.unwrap();
    let done = Work::default().run_through(&device, cache);
    let data = device.cache_data(cache).len();
    device.destroy_cache(cache);
    drop(device);
    assert!(data > 32, "the program's cache holds its pipelines");
    answer(done, instance)
}

#[test]
fn externally_synchronized_caches_reach_the_driver_as_plain_caches() {
    each(vec![Setting::auto(old_driver())], &[("caches", synchronized_caches)], |scenario, env, _| {
        for _ in 0..2 {
            let run = scenario.run_ok::<Seen>("caches", env, &());
            assert_eq!(run.value.violations, Vec::<String>::new());
            assert!(run.value.done.all_made());
            let flags = run.value.calls("vkCreatePipelineCache").map(|call| call["flags"].clone());
            assert!(flags.into_iter().all(|flags| flags == json!([0])));
        }
    });
}

/// A driver that has the feature answers for itself.
#[test]
fn a_driver_with_cache_control_sees_what_the_program_asks_for() {
    let settings = vec![
        Setting::auto(test_driver(json!({ "api_version": "1.2" }))),
        Setting::auto(test_driver(json!({ "api_version": "1.2", "identifiers": true }))),
    ];
    each(settings, &[("job", do_job)], |scenario, env, _| {
        let work = Work { fail_on: true, ..Work::default() };
        let seen = run(scenario, env, Job::on_old_driver(work));
        assert!(seen.value.done.all_refused());
        let created = seen.value.calls("vkCreateDevice").next().unwrap();
        assert!(created["p_next"].as_array().unwrap().iter().any(|s_type| *s_type == CONTROL_FEATURES));
        assert!(seen.value.calls("vkCreateComputePipelines").count() > 0);
    });
}

/// A device whose caches keep nothing: the layer does only what it promised.
#[test]
fn a_driver_without_cache_data_never_gets_the_flags_either() {
    for cache_data in ["header_only", "empty", "error"] {
        let driver =
            json!({ "api_version": "1.2", "cache_control": false, "cache_data": cache_data, "driver_id": 3 });
        each(vec![Setting::auto(test_driver(driver))], &[("job", do_job)], |scenario, env, _| {
            let work = Work { count: 12, early_return: true, ..Work::default() };
            let seen = run(scenario, env, Job::on_old_driver(work.clone()));
            assert!(seen.value.done.all_made());
            unseen(&seen.value);
            let forbidden = Work { fail_on: true, ..work };
            for asks in [Asks::Extensions, Asks::ControlAlone] {
                let job = Job { work: forbidden.clone(), asks };
                let seen = run(scenario, env, job);
                assert!(seen.value.done.all_refused());
                assert_eq!(seen.value.calls("vkCreateComputePipelines").count(), 0);
            }
            let allowed = Work { count: 12, early_return: true, ..Work::default() };
            let job = Job { work: allowed, asks: Asks::ControlAlone };
            let seen = run(scenario, env, job);
            assert!(seen.value.done.all_made());
            unseen(&seen.value);
        });
    }
}
