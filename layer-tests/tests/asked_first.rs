//! Tests of the source that is asked first for a pipeline that is not parked, and of questions to a driver in vain.

use std::path::Path;
use std::sync::Arc;

use ash::vk;
use serde_json::{Value, json};

use vkstash_layer_tests::child::{Scenario, Step, scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::vulkan::{Device, DeviceOptions, Instance, InstanceOptions, graphics, spirv};
use vkstash_layer_tests::waiting::until;
use vkstash_layer_tests::work::{self, Caches, Code, Done, Shader, Work};

const STEPS: &[(&str, Step)] = &[("work", work::step), ("phases", phases)];

/// The pipelines of a program.
const COUNT: u32 = 20;

/// A driver with a disk cache that outlives the process.
fn on(scenario: &Scenario, mut script: Value) -> Env {
    let disk = scenario.folder().join(format!("disk {}", script["driver_version"]));
    let script_object = script.as_object_mut().unwrap();
    script_object.insert("disk_cache".to_owned(), json!(true));
    script_object.insert("disk_cache_dir".to_owned(), json!(disk));
    let env = scenario.on(Driver::Test(script)).unwrap();
    env.stash(scenario.folder().join("stash")).var("VKSTASH_ASK_FIRST", "auto")
}

fn program(caches: Caches) -> Work {
    Work { count: COUNT, caches, code: Code::Module, cache_control: true, ..Work::default() }
}

/// Runs the program; says how many pipelines the stash has served and the driver had.
fn run(scenario: &Scenario, env: &Env, work: &Work) -> (u64, u64) {
    let run = scenario.run_ok::<Done>("work", env, work);
    assert!(run.value.all_made());
    (run.reports.sum("served"), run.reports.sum("driver_had"))
}

/// Does one piece of work after the other on one device, with one cache for all if the first has a shared one.
fn phases(input: &Value) -> Value {
    let phases: Vec<Work> = serde_json::from_value(input.clone()).unwrap();
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let device = Arc::new(Device::new(&instance, &phases[0].device_options()).unwrap());
    let is_shared = phases[0].caches == Caches::Shared;
    let cache = if is_shared { device.cache(&[]) } else { Default::default() };
    let done: Vec<Done> = phases.iter().map(|work| work.run_through(&device, cache)).collect();
    if is_shared {
        device.destroy_cache(cache);
    }
    serde_json::to_value(done).unwrap()
}

/// How often the driver has said COMPILE_REQUIRED.
fn refusals(record: &Path) -> usize {
    let record: Value = serde_json::from_slice(&std::fs::read(record).unwrap()).unwrap();
    let calls = record["calls"].as_array().unwrap().iter();
    calls.filter(|call| call["result"] == 1000297000).count()
}

const ALL: u64 = COUNT as u64;

/// RADV, NVIDIA's driver, and one that was never measured.
const DRIVERS: [i32; 3] = [3, 4, 99];

#[test]
fn what_the_driver_has_it_is_asked_for_first_unless_its_disk_is_slow_beside_a_cache() {
    scenario(STEPS, |scenario| {
        for id in DRIVERS {
            for caches in [Caches::None, Caches::Fresh, Caches::Shared] {
                let version = 10 * id + caches as i32;
                let env = on(scenario, json!({ "driver_id": id, "driver_version": version }));
                let env = env.stash(scenario.folder().join(format!("stash {version}")));
                let work = program(caches);
                assert_eq!(run(scenario, &env, &work), (0, 0), "the first run records");
                let expected = if id == 4 && caches != Caches::None { (ALL, 0) } else { (0, ALL) };
                for _ in 0..2 {
                    assert_eq!(run(scenario, &env, &work), expected, "driver {id}, {caches:?}");
                }
                // A call that forbids compiling has the same order.
                let forbids = Work { fail_on: true, ..work };
                assert_eq!(run(scenario, &env, &forbids), expected, "driver {id}, {caches:?}");
            }
        }
    });
}

#[test]
fn what_the_driver_lacks_is_still_served() {
    scenario(STEPS, |scenario| {
        for id in DRIVERS {
            let env = on(scenario, json!({ "driver_id": id, "driver_version": id }));
            let env = env.stash(scenario.folder().join(format!("stash {id}")));
            let work = program(Caches::None);
            run(scenario, &env, &work);
            assert_eq!(run(scenario, &env, &work), (0, ALL));
            // The user deletes the driver's disk cache.
            std::fs::remove_dir_all(scenario.folder().join(format!("disk {id}"))).unwrap();
            assert_eq!(run(scenario, &env, &work), (ALL, 0), "driver {id}");
            // New pipelines are recorded as before; afterwards both the stash and the driver have all of them.
            let more = Work { count: COUNT + 5, ..work };
            assert_eq!(run(scenario, &env, &more).0, ALL);
            let (served, had) = run(scenario, &env, &more);
            assert_eq!(served + had, ALL + 5, "driver {id}");
        }
    });
}

/// A pipeline that the driver fails to make goes down as the program made it. Others are asked for as before.
#[test]
fn a_call_that_fails_is_no_reason_to_ask_for_others_in_another_order() {
    scenario(STEPS, |scenario| {
        let env = on(scenario, json!({ "driver_version": 1 }));
        let work = program(Caches::None);
        run(scenario, &env, &work);
        assert_eq!(run(scenario, &env, &work), (0, ALL));
        let fault = json!([{ "command": "vkCreateComputePipelines", "result": -8 }]);
        let one = Work { first: 1000, count: 1, ..program(Caches::None) };
        let failing = on(scenario, json!({ "driver_version": 1, "faults": fault }));
        let seen = scenario.run_ok::<Done>("work", &failing, &one);
        assert_eq!(seen.reports.sum("failed"), 1);
        assert_eq!(run(scenario, &env, &work), (0, ALL));
    });
}

#[test]
fn the_user_may_choose() {
    scenario(STEPS, |scenario| {
        let env = on(scenario, json!({ "driver_version": 1 }));
        let work = program(Caches::None);
        let [stash, driver] = ["stash", "driver"].map(|who| env.clone().var("VKSTASH_ASK_FIRST", who));
        assert_eq!(run(scenario, &stash, &work), (0, 0));
        for _ in 0..2 {
            assert_eq!(run(scenario, &stash, &work), (ALL, 0));
            assert_eq!(run(scenario, &driver, &work), (0, ALL));
        }
        let profiled = env.var("VKSTASH_BACKGROUND", "profiling");
        assert_eq!(run(scenario, &profiled, &work), (ALL, 0));
    });
}

/// A new level, or a game after its update.
#[test]
fn a_driver_that_is_asked_first_is_hardly_asked_for_what_it_never_has() {
    scenario(STEPS, |scenario| {
        // RADV is asked no other question. What that costs others nobody has measured: before each compile they are.
        for (id, questions) in [(3, 1..=20), (5, 100..=100)] {
            let env = on(scenario, json!({ "driver_id": id, "driver_version": id }));
            let env = env.stash(scenario.folder().join(format!("stash {id}")));
            let env = env.var("VKSTASH_ASK_FIRST", "driver");
            let work = program(Caches::None);
            run(scenario, &env, &work);
            let record = scenario.folder().join("record");
            // The first twenty are known to the driver.
            let new = Work { first: 1, count: 120, ..work };
            let (_, had) = run(scenario, &env.var("VKSTASH_TEST_ICD_RECORD", &record), &new);
            assert_eq!(had, ALL, "driver {id}");
            let refused = refusals(&record);
            assert!(questions.contains(&refused), "driver {id}: {refused} questions in vain");
        }
    });
}

/// A run need not find out what the last one has, and finds out when it is true no longer.
#[test]
fn questions_in_vain_are_remembered_by_the_next_run_until_one_is_not() {
    scenario(STEPS, |scenario| {
        let env = on(scenario, json!({ "driver_id": 3, "driver_version": 1 }));
        let record = scenario.folder().join("record");
        let recorded = env.clone().var("VKSTASH_TEST_ICD_RECORD", &record);
        let new = |first: u32| Work { first, count: 50, ..program(Caches::None) };
        let mut refused = Vec::new();
        for run in 0..3 {
            scenario.run_ok::<Done>("work", &recorded, &new(1000 * run));
            refused.push(refusals(&record));
        }
        assert_eq!(refused, [8, 1, 1]);
        // The user has played without the layer.
        scenario.run_ok::<Done>("work", &env.clone().var("VKSTASH_DISABLE", "1"), &new(5000));
        assert_eq!(run(scenario, &env, &new(5000)), (0, 50));
        scenario.run_ok::<Done>("work", &recorded, &new(6000));
        assert_eq!(refusals(&record), 8);
    });
}

/// The driver's disk cache has them since the user played without the layer.
#[test]
fn what_only_the_driver_has_is_not_compiled_after_questions_in_vain() {
    scenario(STEPS, |scenario| {
        for (version, who) in [(1, "stash"), (2, "driver")] {
            // Neither driver's row has `free_recording`, so the call that records does not stand in for a question.
            for id in [4, 5] {
                let version = 10 * id + version;
                let env = on(scenario, json!({ "driver_id": id, "driver_version": version }));
                let known = Work { first: 1020, count: 80, ..program(Caches::None) };
                scenario.run_ok::<Done>("work", &env.clone().var("VKSTASH_DISABLE", "1"), &known);
                let env = env.stash(scenario.folder().join(format!("stash {version}")));
                let env = env.var("VKSTASH_ASK_FIRST", who);
                run(scenario, &env, &program(Caches::None));
                let all = Work { first: 1000, count: 100, ..program(Caches::None) };
                let run = scenario.run_ok::<Done>("work", &env, &all);
                let seen = (run.reports.sum("driver_had"), run.reports.sum("compiled"));
                assert_eq!(seen, (80, 20), "driver {id}, {who} first");
            }
        }
    });
}

#[test]
fn a_program_that_asks_its_cache_gets_its_answer_after_questions_in_vain() {
    scenario(STEPS, |scenario| {
        for id in [3, 5] {
            let env = on(scenario, json!({ "driver_id": id, "driver_version": id }));
            let env = env.stash(scenario.folder().join(format!("stash {id}")));
            let env = env.var("VKSTASH_ASK_FIRST", "driver");
            run(scenario, &env, &program(Caches::None));
            let few = Work { count: 2, ..program(Caches::Shared) };
            let new = Work { first: 8000, ..program(Caches::Shared) };
            let phases = [few.clone(), new, Work { feedback: true, ..few }];
            let done = scenario.run_ok::<Vec<Done>>("phases", &env, &phases).value;
            let hits: Vec<bool> = done[2].feedback.iter().map(|feedback| feedback.says_hit()).collect();
            assert_eq!(hits, [true; 2], "driver {id}");
        }
    });
}

#[test]
fn a_call_that_forbids_compiling_gets_what_its_cache_has_after_questions_in_vain() {
    scenario(STEPS, |scenario| {
        // A compile that takes a quarter of the first one counts as no refusal: no interruption is as long as that.
        let script = json!({ "driver_id": 3, "ignore_blobs": true, "compile_us": 50_000 });
        let env = scenario.on(Driver::Test(script)).unwrap().stash(scenario.folder().join("stash"));
        for who in ["stash", "driver"] {
            // The first one goes through the program's cache, which is empty, and its artifact is useless.
            let one = Work { count: 1, ..program(Caches::Shared) };
            let new = Work { first: 8000, ..program(Caches::Shared) };
            let phases = [one.clone(), new, Work { fail_on: true, ..one }];
            let env = env.clone().stash(scenario.folder().join(who)).var("VKSTASH_ASK_FIRST", who);
            let done = scenario.run_ok::<Vec<Done>>("phases", &env, &phases);
            assert!(done.value[2].all_made(), "{who} first: {:?}", done.reports);
            assert_eq!(done.reports.sum("not_taken"), 1, "{who} first");
        }
    });
}

/// Pipelines of the same shaders and another state are no hits of this driver's.
#[test]
fn a_companion_that_finds_nothing_is_not_asked_for_ever() {
    scenario(STEPS, |scenario| {
        let env = on(scenario, json!({ "driver_id": 3, "driver_version": 1, "compile_us": 300 }));
        let record = scenario.folder().join("record");
        let env = env.var("VKSTASH_TEST_ICD_RECORD", &record).var("VKSTASH_TEST_UNHURRIED", "1");
        let some = Work { shader: Shader::DynamicRendering, count: 300, ..program(Caches::None) };
        let others = Work { shader: Shader::RenderPass, ..some.clone() };
        scenario.run_ok::<Vec<Done>>("phases", &env.var("VKSTASH_ASK_FIRST", "stash"), &[some, others]);
        let refused = refusals(&record);
        assert!((1..=20).contains(&refused), "{refused} questions to companions");
    });
}

/// The step: pipelines of two vertex and two fragment shaders, of which the second one has neither shader of the first;
/// then one with a shader of each, which may not be compiled, until it is there. All with one cache. Whether it was
/// there at once.
fn crossed(_: &Value) -> Value {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let options = DeviceOptions { cache_control: true, ..DeviceOptions::default() };
    let device = Device::new(&instance, &options).unwrap();
    let stage = |stage, code: &[u32]| {
        let stage = vk::PipelineShaderStageCreateInfo::default().stage(stage);
        stage.module(device.module(code)).name(c"main")
    };
    let vertex = [0.25, 0.5].map(|depth| stage(vk::ShaderStageFlags::VERTEX, &spirv::vertex(depth)));
    let fragment = [1.0, 2.0].map(|red| stage(vk::ShaderStageFlags::FRAGMENT, &spirv::fragment(red)));
    let (layout, pass) = (device.empty_layout(), device.render_pass(vk::Format::R8G8B8A8_UNORM));
    let cache = device.cache(&[]);
    let make = |vertex, fragment, flags| {
        graphics::plain(&[vertex, fragment], |info| {
            let info = info.layout(layout).render_pass(pass).flags(flags);
            // SAFETY: a valid create info, and a cache of the device.
            unsafe { device.create_graphics(cache, &[info]) }.0.as_raw()
        })
    };
    let plain = vk::PipelineCreateFlags::empty();
    assert_eq!([0, 1].map(|at| make(vertex[at], fragment[at], plain)), [0, 0]);
    let forbids = vk::PipelineCreateFlags::FAIL_ON_PIPELINE_COMPILE_REQUIRED;
    let first = make(vertex[0], fragment[1], forbids);
    assert!([0, vk::Result::PIPELINE_COMPILE_REQUIRED.as_raw()].contains(&first), "{first}");
    until("the companion has it", || make(vertex[0], fragment[1], forbids) == 0);
    device.destroy_cache(cache);
    json!(first == 0)
}

/// The driver's cache would have both shaders, if the pipelines had been made with it. Putting one artifact into the
/// companion takes longer than a call may take for that; the rest is put in by the next calls.
#[test]
fn what_a_slow_driver_has_not_put_into_the_companion_is_refused_at_first() {
    scenario(&[("crossed", crossed)], |scenario| {
        let hangs = json!({ "command": "vkCreatePipelineCache", "hang_ms": 20 });
        let env = scenario.on(Driver::Test(json!({ "shader_entries": true, "faults": [hangs] }))).unwrap();
        let at_once = |env: &Env, stash: &str| {
            let env = env.clone().stash(scenario.folder().join(stash));
            let runs = [(); 2].map(|()| scenario.run_ok::<bool>("crossed", &env, &()));
            (runs[1].value, runs[1].reports.sum("served"))
        };
        assert_eq!(at_once(&env.clone().without_layer(), ""), (true, 0));
        assert_eq!(at_once(&env, "unhurried"), (true, 2));
        assert_eq!(at_once(&env.without_var("VKSTASH_TEST_UNHURRIED"), "usual"), (false, 2));
    });
}

/// What a call found that may not compile took no time to compile.
#[test]
fn what_the_driver_has_counts_as_no_time_to_compile() {
    scenario(STEPS, |scenario| {
        let env = on(scenario, json!({ "driver_id": 3, "driver_version": 1 }));
        let work = program(Caches::None);
        scenario.run_ok::<Done>("work", &env.clone().var("VKSTASH_DISABLE", "1"), &work);
        let env = env.var("VKSTASH_ASK_FIRST", "stash");
        let run = scenario.run_ok::<Done>("work", &env, &Work { fail_on: true, ..work });
        assert_eq!((run.reports.sum("driver_had"), run.reports.sum("compile_ns")), (ALL, 0));
    });
}

/// Where the driver is asked first, an error says nothing of what it has.
#[test]
fn errors_are_no_questions_in_vain() {
    scenario(STEPS, |scenario| {
        let env = on(scenario, json!({ "driver_id": 3, "driver_version": 1 }));
        let known = Work { first: 1000, ..program(Caches::None) };
        scenario.run_ok::<Done>("work", &env.clone().var("VKSTASH_DISABLE", "1"), &known);
        // Each of these calls goes down twice: as the question, and as the program made it.
        let fault = |call: u32| json!({ "command": "vkCreateComputePipelines", "call": call, "result": -1 });
        let faults: Value = (1..=20).map(fault).collect();
        let env = on(scenario, json!({ "driver_id": 3, "driver_version": 1, "faults": faults }));
        let env = env.var("VKSTASH_ASK_FIRST", "driver");
        let failing = Work { first: 1, count: 10, ..program(Caches::None) };
        let run = scenario.run_ok::<Vec<Done>>("phases", &env, &[failing, known]);
        assert_eq!((run.reports.sum("failed"), run.reports.sum("driver_had")), (10, ALL));
    });
}

/// A pipeline that bypasses the stash may leave anything in the driver's caches.
#[test]
fn one_bypassed_pipeline_does_not_make_every_later_compile_a_question() {
    scenario(STEPS, |scenario| {
        for (version, caches) in [(1, Caches::None), (2, Caches::Shared)] {
            let env = on(scenario, json!({ "driver_id": 3, "driver_version": version }));
            let record = scenario.folder().join("record");
            let env = env.var("VKSTASH_TEST_ICD_RECORD", &record).var("VKSTASH_ASK_FIRST", "stash");
            let one = Work { first: 7000, count: 1, ..program(caches) };
            let bypassed = Work { first: 5000, unknown_structure: true, ..one.clone() };
            let new = Work { first: 1000, count: 100, ..program(caches) };
            let done = scenario.run_ok::<Vec<Done>>("phases", &env, &[one, bypassed, new]);
            assert_eq!(done.reports.sum("bypassed"), 1);
            let refused = refusals(&record);
            assert!((1..=10).contains(&refused), "{caches:?}: {refused} questions in vain");
        }
    });
}
