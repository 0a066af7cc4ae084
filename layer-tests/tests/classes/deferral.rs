//! Ray tracing pipelines in deferred operations (contract 3.6).

use std::ptr;

use ash::vk;
use serde_json::{Value, json};
use vkstash_layer_tests::child::scenario;
use vkstash_layer_tests::env::Driver;
use vkstash_layer_tests::suite::device_segments;
use vkstash_layer_tests::test_driver::TestDriver;
use vkstash_store::stash::inspect::list_applications;

use super::rays::Rays;
use super::rig::{Rig, keep, keep_all};

const WORD: i32 = vk::Result::OPERATION_DEFERRED_KHR.as_raw();

/// The step: creates pipelines in deferred operations.
fn defer(input: &Value) -> Value {
    let Some(rays) = Rays::new(Rig::open()) else { return Value::Null };
    let fail_on = input["fail_on"] == true;
    let own = input["cache"] == true;
    let loaded: Vec<u8> = serde_json::from_value(input["loaded"].clone()).unwrap_or_default();
    let cache = if own { rays.rig.device.cache(&loaded) } else { vk::PipelineCache::null() };
    let deferring = &rays.deferring;
    let device = rays.rig.device.raw.handle();
    let mut results = Vec::new();
    // SAFETY: create infos and slots are valid until their operation is complete, and are overwritten then;
    // operations and pipelines are destroyed once.
    unsafe {
        let operation = deferring.create_deferred_operation(None).unwrap();
        // In one operation, one after the other: one pipeline, two, and three with a library.
        for count in 1..=3_u32 {
            let mut infos: Vec<_> = (0..count).map(|index| rays.groups(10 * count + index)).collect();
            if count == 3 {
                infos[2] = rays.library(rays.plain(40));
            }
            if fail_on {
                infos.iter_mut().for_each(|info| {
                    info.flags |= vk::PipelineCreateFlags::FAIL_ON_PIPELINE_COMPILE_REQUIRED;
                });
            }
            let mut made = vec![vk::Pipeline::null(); count as usize];
            let started = rays.create(operation, cache, &infos, &mut made);
            let mut outcome = match started {
                vk::Result::OPERATION_NOT_DEFERRED_KHR => vk::Result::SUCCESS,
                other => other,
            };
            if started == vk::Result::OPERATION_DEFERRED_KHR {
                std::thread::scope(|scope| {
                    for _ in 0..4 {
                        scope.spawn(|| {
                            let join = deferring.fp().deferred_operation_join_khr;
                            while join(device, operation) == vk::Result::THREAD_IDLE_KHR {
                                std::thread::yield_now();
                            }
                        });
                    }
                });
                // The last operation is destroyed without a query.
                if count < 3 || input["ask"] == true {
                    outcome = (deferring.fp().get_deferred_operation_result_khr)(device, operation);
                } else {
                    outcome = vk::Result::SUCCESS;
                }
            }
            infos.fill(vk::RayTracingPipelineCreateInfoKHR::default());
            drop(infos);
            let there: Vec<bool> = made.iter().map(|&made| made != vk::Pipeline::null()).collect();
            if count == 3 && there[2] {
                let linked = rays.linked(rays.plain(99), &made[2..]);
                let (result, pipeline) = rays.make(cache, linked);
                results.push(json!(["link", result.as_raw(), pipeline != vk::Pipeline::null()]));
                rays.destroy(&[pipeline]);
            }
            rays.destroy(&made);
            results.push(json!([started.as_raw(), outcome.as_raw(), there]));
        }
        deferring.destroy_deferred_operation(operation, None);
    }
    let data = if input["data"] == true { rays.rig.device.cache_data(cache) } else { Vec::new() };
    rays.rig.device.destroy_cache(cache);
    let script = std::env::var_os("VKSTASH_TEST_ICD").is_some();
    drop(rays);
    let violations = if script { TestDriver::open().take_record()["violations"].clone() } else { json!([]) };
    json!({ "results": results, "violations": violations, "data": data })
}

/// A program that forbids compiling is answered out of the cache that it loaded, and the stash has nothing.
#[test]
fn what_a_loaded_cache_has_is_had_where_the_program_forbids_compiling() {
    scenario(&[("defer", defer)], |scenario| {
        for deferral in ["never", "always"] {
            let env = scenario.on(Driver::Test(json!({ "deferral": deferral }))).unwrap();
            let env = env.stash(scenario.folder().join(format!("stash {deferral}")));
            let bare = env.clone().without_layer();
            let filled = scenario.run_ok::<Value>(
                "defer",
                &bare,
                &json!({ "cache": true, "ask": true, "data": true }),
            );
            let loaded =
                json!({ "cache": true, "ask": true, "fail_on": true, "loaded": filled.value["data"] });
            let without = scenario.run_ok::<Value>("defer", &bare, &loaded);
            let with = scenario.run_ok::<Value>("defer", &env, &loaded);
            assert_eq!(with.value["results"], without.value["results"], "{deferral}");
            assert_eq!(with.value["results"][0][2], json!([true]), "{deferral}: {}", with.value["results"]);
        }
    });
}

/// The answers of each call.
fn answers(value: &Value) -> Vec<i64> {
    let results = value["results"].as_array().unwrap();
    results.iter().filter(|one| one[0] != "link").map(|one| one[0].as_i64().unwrap()).collect()
}

/// The drivers that the suite runs on. NVIDIA's (580.159) is left out: an operation that is used a second time never
/// completes there, and COMPILE_REQUIRED crashes it, both also without the layer.
fn on_drivers() -> Vec<Driver> {
    vec![
        Driver::Radv,
        Driver::Test(json!({})),
        Driver::Test(json!({ "deferral": "always" })),
        Driver::Test(json!({ "deferral": "always", "reuse_handles": true })),
    ]
}

#[test]
fn served_pipelines_are_not_deferred_and_the_driver_gets_the_rest() {
    scenario(&[("defer", defer)], |scenario| {
        for (number, driver) in on_drivers().into_iter().enumerate() {
            let Some(env) = scenario.on(driver.clone()) else { continue };
            for (cache, ask) in [(false, true), (true, true), (false, false)] {
                let stash = format!("stash {number} {cache} {ask}");
                let env = env.clone().stash(scenario.folder().join(stash));
                let input = json!({ "cache": cache, "ask": ask });
                let without = scenario.run_ok::<Value>("defer", &env.clone().without_layer(), &input).value;
                // COMPILE_REQUIRED is not a failure of the pipeline, so the key is not recorded as failed.
                let forbidden = json!({ "cache": cache, "fail_on": true, "ask": ask });
                let refused = scenario.run_ok::<Value>("defer", &env, &forbidden);
                assert_eq!(refused.value["violations"], json!([]));
                assert_eq!(refused.reports.sum("compiled"), 0, "{:?}", refused.reports.counters());

                let cold = scenario.run_ok::<Value>("defer", &env, &input);
                assert_eq!(cold.value, without, "{driver:?} {input}");
                let counters = cold.reports.counters();
                assert!(cold.reports.bypassed().is_empty(), "{:?}", cold.reports.bypassed());
                assert_eq!(cold.reports.sum("compiled"), 7, "{driver:?} {input} {counters:?}");
                for _ in 0..2 {
                    let warm = scenario.run_ok::<Value>("defer", &env, &input);
                    let counters = warm.reports.counters();
                    let not_deferred = i64::from(vk::Result::OPERATION_NOT_DEFERRED_KHR.as_raw());
                    assert_eq!(answers(&warm.value), [not_deferred; 3], "{driver:?} {input} {counters:?}");
                    assert_eq!(warm.value["violations"], json!([]));
                    super::covered(&driver, &warm.reports, 7);
                    let made = |value: &Value| -> Vec<Value> {
                        let results = value["results"].as_array().unwrap();
                        results.iter().map(|one| one[2].clone()).collect()
                    };
                    assert_eq!(made(&warm.value), made(&without));
                }
                let served = scenario.run_ok::<Value>("defer", &env, &forbidden);
                assert_eq!(served.reports.sum("compile_required"), 0, "{:?}", served.reports.counters());
                assert_eq!(served.value["violations"], json!([]));
            }
        }
    });
}

/// Creates one pipeline in an operation, twice. Gives the result, and the caches with which the driver was called.
fn defer_one(input: &Value) -> Value {
    let Some(rays) = Rays::new(Rig::open()) else { return Value::Null };
    let driver = TestDriver::open();
    let deferring = &rays.deferring;
    let device = rays.rig.device.raw.handle();
    let mut results = Vec::new();
    driver.control(input);
    for _ in 0..2 {
        driver.take_record();
        // SAFETY: create infos and slots are valid until the operation is complete; each object is destroyed once.
        unsafe {
            let operation = deferring.create_deferred_operation(None).unwrap();
            let mut made = [vk::Pipeline::null()];
            let started = rays.create(operation, vk::PipelineCache::null(), &[rays.plain(7)], &mut made);
            let mut outcome = started;
            if started == vk::Result::OPERATION_DEFERRED_KHR {
                while (deferring.fp().deferred_operation_join_khr)(device, operation)
                    == vk::Result::THREAD_IDLE_KHR
                {
                    std::thread::yield_now();
                }
                outcome = (deferring.fp().get_deferred_operation_result_khr)(device, operation);
            }
            rays.destroy(&made);
            deferring.destroy_deferred_operation(operation, None);
            let record = driver.take_record();
            assert_eq!(record["violations"], json!([]), "{record}");
            let calls = record["calls"].as_array().unwrap().iter();
            let creations: Vec<&Value> = calls
                .filter(|call| call["command"] == "vkCreateRayTracingPipelinesKHR")
                .map(|call| &call["cache"])
                .collect();
            results.push(json!({ "outcome": outcome.as_raw(), "caches": creations }));
        }
    }
    drop(rays);
    json!(results)
}

#[test]
fn a_key_whose_operation_failed_goes_to_the_driver_unchanged() {
    scenario(&[("defer one", defer_one)], |scenario| {
        let error = vk::Result::ERROR_FEATURE_NOT_PRESENT.as_raw();
        let env = scenario.on(Driver::Test(json!({}))).unwrap();
        let fails = json!({ "deferral": "fails", "deferral_error": error });
        let run = |input: &Value| scenario.run_ok::<Value>("defer one", &env, input);
        let cold = run(&fails).value;
        // The failure was unknown; from then on the driver gets the program's own call, without a cache.
        let own = json!({ "outcome": error, "caches": ["null"] });
        assert_ne!(cold[0], own, "{cold}");
        assert_eq!(cold[1], own);
        assert_eq!(run(&fails).value, json!([own, own]));
        // The driver now succeeds. The layer's part in the failure is not known here, so the call still goes to the
        // driver unchanged.
        let straight = json!({ "outcome": 0, "caches": own["caches"] });
        assert_eq!(run(&json!({ "deferral": "always" })).value, json!([straight, straight]));
        // A lack of memory may be temporary.
        let env = env.clone().stash(scenario.folder().join("short of memory"));
        let short = json!({ "deferral": "fails" });
        let rounds = scenario.run_ok::<Value>("defer one", &env, &short).value;
        // Both times the driver is asked, and then compiles through a private cache.
        let calls = |round: &Value| round["caches"].as_array().unwrap().len();
        assert!(calls(&rounds[0]) > 1 && calls(&rounds[0]) == calls(&rounds[1]), "{rounds}");
    });
}

#[test]
fn after_an_error_the_driver_gets_the_programs_own_call() {
    scenario(&[("defer one", defer_one)], |scenario| {
        let error = vk::Result::ERROR_FEATURE_NOT_PRESENT.as_raw();
        let command = "vkCreateRayTracingPipelinesKHR";
        let fault = json!({ "command": command, "call": 1, "result": error });
        let input = json!({ "deferral": "always", "faults": [fault] });
        let env = scenario.on(Driver::Test(json!({}))).unwrap();
        let results = scenario.run_ok::<Value>("defer one", &env, &input).value;
        // The question, and then the program's own call.
        assert_eq!(results[0], json!({ "outcome": 0, "caches": ["null", "null"] }));
        // The driver succeeds again, so the pipeline is created through a private cache.
        assert_ne!(results[1]["caches"], results[0]["caches"]);
    });
}

#[test]
fn an_operation_that_fails_fails_as_without_the_layer() {
    scenario(&[("defer", defer)], |scenario| {
        let driver = Driver::Test(json!({ "deferral": "fails" }));
        let Some(env) = scenario.on(driver) else { return };
        let input = json!({ "ask": true });
        let without = scenario.run_ok::<Value>("defer", &env.clone().without_layer(), &input).value;
        assert_eq!(answers(&without), [i64::from(WORD); 3]);
        let with = scenario.run_ok::<Value>("defer", &env, &input);
        assert_eq!(with.value, without);
        let failed = with.reports.sum("failed");
        assert!(failed >= 3 && with.reports.sum("compiled") == 0, "{:?}", with.reports.counters());
    });
}

#[test]
fn an_evicted_artifact_counts_as_a_loss_when_an_operation_compiles_it_again() {
    scenario(&[("defer", defer)], |scenario| {
        let Some(env) = scenario.on(Driver::Test(json!({ "deferral": "always" }))) else { return };
        let input = json!({ "ask": true });
        let cold = scenario.run_ok::<Value>("defer", &env, &input);
        assert_eq!(cold.reports.sum("served_before"), 0, "{:?}", cold.reports.counters());
        let artifacts = device_segments(&env.stash_folder());
        let warm = scenario.run_ok::<Value>("defer", &env, &input);
        let served = warm.reports.sum("served");
        assert_eq!(served, 7, "{:?}", warm.reports.counters());
        artifacts.iter().for_each(|segment| std::fs::remove_file(segment).unwrap());
        let lost = scenario.run_ok::<Value>("defer", &env, &input);
        assert_eq!(lost.reports.sum("served_before"), served, "{:?}", lost.reports.counters());
        assert!(lost.reports.sum("served_before_ns") <= lost.reports.sum("compile_ns"));
    });
}

/// Two pipelines; the second derives from the first by its index.
fn derived(input: &Value) -> Value {
    let Some(rays) = Rays::new(Rig::open()) else { return Value::Null };
    let mut infos = [rays.groups(70), rays.groups(71)];
    infos[0].flags |= vk::PipelineCreateFlags::ALLOW_DERIVATIVES;
    infos[1].flags |= vk::PipelineCreateFlags::DERIVATIVE;
    infos[1].base_pipeline_index = 0;
    let given = input["only_the_first"] == true;
    let infos = if given { &infos[..1] } else { &infos[..] };
    let mut made = [vk::Pipeline::null(); 2];
    // SAFETY: create infos and slots are valid until the operation is complete; each object is destroyed once.
    let (started, result) = unsafe {
        let operation = rays.deferring.create_deferred_operation(None).unwrap();
        let started = rays.create(operation, vk::PipelineCache::null(), infos, &mut made[..infos.len()]);
        let device = rays.rig.device.raw.handle();
        while (rays.deferring.fp().deferred_operation_join_khr)(device, operation)
            == vk::Result::THREAD_IDLE_KHR
        {}
        let result = (rays.deferring.fp().get_deferred_operation_result_khr)(device, operation);
        rays.deferring.destroy_deferred_operation(operation, None);
        (started, result)
    };
    rays.destroy(&made);
    let script = std::env::var_os("VKSTASH_TEST_ICD").is_some();
    drop(rays);
    let violations = if script { TestDriver::open().take_record()["violations"].clone() } else { json!([]) };
    let made = made.map(|made| made != vk::Pipeline::null());
    json!({ "started": started.as_raw(), "results": [result.as_raw()], "made": made, "violations": violations })
}

#[test]
fn the_index_of_a_base_pipeline_is_valid_in_every_call_to_the_driver() {
    scenario(&[("derived", derived)], |scenario| {
        for (number, driver) in on_drivers().into_iter().enumerate() {
            let Some(env) = scenario.on(driver.clone()) else { continue };
            let env = env.stash(scenario.folder().join(format!("stash {number}")));
            let without = scenario.run_ok::<Value>("derived", &env.clone().without_layer(), &json!({})).value;
            let cold = scenario.run_ok::<Value>("derived", &env, &json!({}));
            assert_eq!(cold.value, without, "{driver:?}");
            for _ in 0..2 {
                let warm = scenario.run_ok::<Value>("derived", &env, &json!({})).value;
                assert_eq!(warm["started"], vk::Result::OPERATION_NOT_DEFERRED_KHR.as_raw(), "{driver:?}");
                assert_eq!([&warm["made"], &warm["violations"]], [&without["made"], &without["violations"]]);
            }
        }
    });
}

/// If the driver has to create some pipelines of a call, those that were served are destroyed, and counted by their
/// final outcome.
#[test]
fn pipelines_of_a_partly_served_call_count_once() {
    scenario(&[("derived", derived)], |scenario| {
        let Some(env) = scenario.on(Driver::Test(json!({ "deferral": "always" }))) else { return };
        scenario.run_ok::<Value>("derived", &env, &json!({ "only_the_first": true }));
        let both = scenario.run_ok::<Value>("derived", &env, &json!({}));
        let counts = ["served", "offered", "driver_had", "saved_ns", "compiled"];
        assert_eq!(counts.map(|name| both.reports.sum(name)), [0, 0, 0, 0, 2], "{:?}", both.reports);
    });
}

/// Pipelines in an operation: one of a module, whose stage may carry an identifier structure of size 0; one that is
/// named by identifier alone; or both.
fn named(input: &Value) -> Value {
    let rays = Rays::new(Rig::open()).unwrap();
    let deferring = &rays.deferring;
    let device = rays.rig.device.raw.handle();
    let described = |value| {
        let info = rays.plain(value);
        // SAFETY: a create info with one stage.
        (info, unsafe { *info.p_stages })
    };
    let mut infos = Vec::new();
    if input["by_module"] == true {
        let (mut info, mut stage) = described(80);
        if input["empty_identifier"] == true {
            let node = vk::PipelineShaderStageModuleIdentifierCreateInfoEXT::default();
            stage.p_next = ptr::from_ref(keep(node)).cast();
        }
        if input["early_return"] == true {
            info.flags |= vk::PipelineCreateFlags::EARLY_RETURN_ON_FAILURE;
        }
        info.p_stages = keep(stage);
        infos.push(info);
    }
    if input["by_identifier"] == true {
        let (mut info, mut stage) = described(if input["another"] == true { 81 } else { 80 });
        let identifier = keep_all(rays.rig.device.identifier(stage.module));
        let node = vk::PipelineShaderStageModuleIdentifierCreateInfoEXT::default().identifier(identifier);
        stage.module = vk::ShaderModule::null();
        stage.p_next = ptr::from_ref(keep(node)).cast();
        info.p_stages = keep(stage);
        info.flags |= vk::PipelineCreateFlags::FAIL_ON_PIPELINE_COMPILE_REQUIRED;
        infos.push(info);
    }
    let mut made = vec![vk::Pipeline::null(); infos.len()];
    // SAFETY: create info and slot are valid until the operation is complete; each object is destroyed once.
    let started = unsafe {
        let operation = deferring.create_deferred_operation(None).unwrap();
        let started = rays.create(operation, vk::PipelineCache::null(), &infos, &mut made);
        while (deferring.fp().deferred_operation_join_khr)(device, operation) == vk::Result::THREAD_IDLE_KHR {
        }
        deferring.destroy_deferred_operation(operation, None);
        started
    };
    rays.destroy(&made);
    drop(rays);
    let violations = TestDriver::open().take_record()["violations"].clone();
    let made: Vec<bool> = made.iter().map(|made| *made != vk::Pipeline::null()).collect();
    json!({ "started": started.as_raw(), "made": made, "violations": violations })
}

/// What the driver must not see is stripped from copies, which the driver would read until the operation is complete.
#[test]
fn a_call_that_must_be_changed_for_the_driver_is_made_without_its_operation() {
    scenario(&[("named", named)], |scenario| {
        let not_deferred = vk::Result::OPERATION_NOT_DEFERRED_KHR.as_raw();
        let made = json!({ "started": not_deferred, "made": [true], "violations": [] });
        let without_identifiers = json!({ "deferral": "always" });
        let without_control = json!({ "deferral": "always", "api_version": "1.2", "cache_control": false });
        for (script, input) in [
            (&without_identifiers, json!({ "by_module": true, "empty_identifier": true })),
            (&without_control, json!({ "by_module": true, "early_return": true })),
        ] {
            let env = scenario.on(Driver::Test(script.clone())).unwrap();
            let ended = scenario.run_ok::<Value>("named", &env, &input);
            assert_eq!(ended.value, made, "{input}");
        }
        // No source has the second pipeline, which does not keep the first one from being found.
        let env = scenario.on(Driver::Test(without_identifiers)).unwrap();
        let both = json!({ "by_module": true, "by_identifier": true, "another": true });
        let refused = vk::Result::PIPELINE_COMPILE_REQUIRED.as_raw();
        let ended = scenario.run_ok::<Value>("named", &env, &both);
        assert_eq!(ended.value, json!({ "started": refused, "made": [true, false], "violations": [] }));
    });
}

/// Two equal pipelines in an operation. Gives what the driver says of each.
fn told(_: &Value) -> Value {
    let rays = Rays::new(Rig::open()).unwrap();
    let deferring = &rays.deferring;
    let device = rays.rig.device.raw.handle();
    let feedbacks = [(); 2].map(|()| ptr::from_mut(keep(vk::PipelineCreationFeedback::default())));
    let infos = feedbacks.map(|feedback| {
        let node = vk::PipelineCreationFeedbackCreateInfo {
            p_pipeline_creation_feedback: feedback,
            ..Default::default()
        };
        let mut info = rays.plain(81);
        info.p_next = ptr::from_ref(keep(node)).cast();
        info
    });
    let mut made = [vk::Pipeline::null(); 2];
    // SAFETY: create infos, slots and feedback are valid until the operation is complete; objects are destroyed once.
    unsafe {
        let operation = deferring.create_deferred_operation(None).unwrap();
        let started = rays.create(operation, vk::PipelineCache::null(), &infos, &mut made);
        assert!(started.as_raw() >= 0, "{started:?}");
        while (deferring.fp().deferred_operation_join_khr)(device, operation) == vk::Result::THREAD_IDLE_KHR {
        }
        deferring.destroy_deferred_operation(operation, None);
    }
    rays.destroy(&made);
    drop(rays);
    // SAFETY: kept, and complete.
    json!(feedbacks.map(|feedback| unsafe { (*feedback).flags.as_raw() }))
}

/// The second one is had from the cache into which the first one was compiled: the layer's, where the program passed
/// none.
#[test]
fn no_deferred_pipeline_is_a_hit_in_a_cache_that_the_program_did_not_pass() {
    scenario(&[("told", told)], |scenario| {
        let hit = vk::PipelineCreationFeedbackFlags::APPLICATION_PIPELINE_CACHE_HIT.as_raw();
        for deferral in ["always", "never"] {
            let env = scenario.on(Driver::Test(json!({ "deferral": deferral }))).unwrap();
            let env = env.stash(scenario.folder().join(format!("stash {deferral}")));
            let told = scenario.run_ok::<Vec<u32>>("told", &env, &json!({}));
            assert_eq!(told.reports.sum("compiled"), 2, "{:?}", told.reports.counters());
            assert!(told.value.iter().all(|flags| *flags != 0 && flags & hit == 0), "{:?}", told.value);
        }
    });
}

#[test]
fn an_emulated_identifier_in_a_deferred_call_never_reaches_the_driver() {
    scenario(&[("named", named)], |scenario| {
        let env = scenario.on(Driver::Test(json!({ "deferral": "always" }))).unwrap();
        scenario.run_ok::<Value>("named", &env, &json!({ "by_module": true }));
        let served = scenario.run_ok::<Value>("named", &env, &json!({ "by_identifier": true }));
        let not_deferred = vk::Result::OPERATION_NOT_DEFERRED_KHR.as_raw();
        assert_eq!(served.value, json!({ "started": not_deferred, "made": [true], "violations": [] }));
        assert_eq!(served.reports.sum("identifier_served"), 1, "{:?}", served.reports.counters());
    });
}

/// A driver whose caches keep nothing: there is nothing to be served.
#[test]
fn operations_on_a_driver_without_cache_data_count_by_their_results() {
    scenario(&[("defer", defer)], |scenario| {
        let lavapipe = vk::DriverId::MESA_LLVMPIPE.as_raw();
        for deferral in ["never", "always"] {
            let driver = json!({ "deferral": deferral, "driver_id": lavapipe, "identifiers": true });
            let Some(env) = scenario.on(Driver::Test(driver)) else { return };
            let counted = |input: Value| {
                let run = scenario.run_ok::<Value>("defer", &env, &input);
                ["compiled_unrecorded", "compile_required", "failed"].map(|name| run.reports.sum(name))
            };
            assert_eq!(counted(json!({ "ask": true })), [7, 0, 0], "{deferral}");
            assert_eq!(counted(json!({ "ask": true, "fail_on": true })), [0, 6, 0], "{deferral}");
        }
    });
}

/// The driver gets the program's own call, and the recipe and the cost are recorded.
#[test]
fn an_operation_on_a_driver_without_cache_data_leaves_its_recipe_and_its_cost() {
    scenario(&[("defer one", defer_one)], |scenario| {
        let lavapipe = vk::DriverId::MESA_LLVMPIPE.as_raw();
        let driver = json!({ "driver_id": lavapipe, "cache_data": "header_only" });
        let env = scenario.on(Driver::Test(driver)).unwrap();
        let own = json!({ "outcome": 0, "caches": ["null"] });
        for deferral in ["always", "never"] {
            let run = scenario.run_ok::<Value>("defer one", &env, &json!({ "deferral": deferral }));
            let own = match deferral {
                "always" => own.clone(),
                _ => json!({ "outcome": run.value[0]["outcome"], "caches": own["caches"] }),
            };
            assert_eq!(run.value, json!([own, own]), "{deferral}");
            let [application] = list_applications(&env.stash_folder()).unwrap().try_into().unwrap();
            let sum =
                |kind: &str| application.parts.iter().filter_map(|part| part.records.get(kind)).sum::<u64>();
            assert_eq!((sum("recipe"), sum("artifact")), (1, 0), "{deferral}");
            assert!(sum("cost") >= 1 && sum("use") >= 1, "{deferral}");
        }
    });
}
