//! Programs that end while the driver compiles: the stash names the pipeline.

use std::path::PathBuf;
use std::process::Command;

use ash::vk;
use serde_json::{Value, json};
use vkstash_fossilize::archive::{Reader, Tag};
use vkstash_host::text::hex;
use vkstash_layer_tests::child::{Scenario, scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::paths;
use vkstash_layer_tests::suite::{files, on, run, run_to_any_end};
use vkstash_layer_tests::vulkan::{Device, DeviceOptions, Instance, InstanceOptions, shader_objects, spirv};
use vkstash_layer_tests::waiting::until;
use vkstash_layer_tests::work::{self, Caches, End, Shader, Work};
use vkstash_model::record::Key;
use vkstash_store::stash::deaths::{self, Death};
use vkstash_store::stash::inspect::{list_applications, recorded_uses};

use super::classes::rays::Rays;
use super::classes::rig::Rig;

/// The constant of the first pipeline: as a number of 32 bits with a point, too, each has its own bits.
const FIRST: u32 = 0x005E_ED00;
const PIPELINES: u32 = 5;

/// The word of the n-th pipeline's module, from 0.
fn word(shader: Shader, n: u32) -> u32 {
    match shader {
        Shader::RenderPass | Shader::DynamicRendering => ((FIRST + n) as f32).to_bits(),
        _ => FIRST + n,
    }
}

fn command(shader: Shader) -> &'static str {
    match shader {
        Shader::RenderPass | Shader::DynamicRendering => "vkCreateGraphicsPipelines",
        _ => "vkCreateComputePipelines",
    }
}

/// The only application's folder in a stash.
fn folder(env: &Env) -> String {
    let [info] = list_applications(&env.stash_folder()).unwrap().try_into().unwrap();
    info.folder
}

fn deaths_of(env: &Env) -> Vec<Death> {
    deaths::of(&env.stash_folder(), &folder(env))
}

/// The keys of the program's pipelines, in the order of their creation, as a run without a death records them.
fn keys(scenario: &Scenario, env: &Env, work: &Work, name: &str) -> Vec<Key> {
    keys_of(scenario, env, "work", &serde_json::to_value(work).unwrap(), name)
}

/// The same of any step.
fn keys_of(scenario: &Scenario, env: &Env, step: &str, input: &Value, name: &str) -> Vec<Key> {
    let env = env.clone().stash(scenario.folder().join(format!("whole-{name}")));
    scenario.run_ok::<Value>(step, &env, input);
    let mut uses = recorded_uses(&env.stash_folder(), &folder(&env));
    uses.sort_by_key(|(_, noted)| noted.sequence);
    uses.into_iter().map(|(key, _)| key).collect()
}

fn dying(scenario: &Scenario, env: &Env, shader: Shader, n: u32, end: Value) -> Env {
    let mut fault = json!({ "command": command(shader), "word": word(shader, n) });
    fault.as_object_mut().unwrap().extend(end.as_object().unwrap().clone());
    let script = json!({ "compile_us": 200, "faults": [fault] });
    scenario.on(Driver::Test(script)).unwrap().stash(env.stash_folder())
}

#[test]
fn the_pipeline_at_which_a_program_ends_is_named_and_no_other() {
    on(Driver::Test(json!({})), |scenario, env| {
        let shaders = [(Shader::Compute, 0x20), (Shader::RenderPass, 0x11), (Shader::DynamicRendering, 0x11)];
        for (shader, stages) in shaders {
            // Of a device with cache control the driver is asked first; the program's own cache is passed, or none.
            let calls = [(Caches::None, true), (Caches::Fresh, true), (Caches::Shared, false)];
            for (caches, cache_control) in calls {
                let work =
                    Work { shader, caches, cache_control, count: PIPELINES, first: FIRST, ..Work::default() };
                let case = format!("{shader:?} {caches:?}");
                let keys = keys(scenario, env, &work, &case);
                for n in [0, 1, PIPELINES - 1] {
                    let stash = scenario.folder().join(format!("{case} {n}"));
                    let env = env.clone().stash(stash);
                    let dying = dying(scenario, &env, shader, n, json!({ "die": "segv" }));
                    for times in 1..=2 {
                        let dead = run_to_any_end(scenario, &dying, &work);
                        assert_eq!(dead.signal(), Some(libc::SIGSEGV), "{}", dead.ending());
                        let found = deaths_of(&env);
                        let named: Vec<_> =
                            found.iter().map(|death| (death.key, death.stages, death.deaths)).collect();
                        assert_eq!(named, [(keys[n as usize], stages, times)], "{case} {n}");
                    }
                    // A compile that ends well takes it back, and quarantines nothing.
                    let whole = run(scenario, &env, &work);
                    assert_eq!(whole.reports.sum("quarantined"), 0);
                    assert_eq!(deaths_of(&env), [], "{case} {n}");
                }
            }
        }
    });
}

/// What the process ended at is on the disk before the driver gets it again, with all that it names: it can be given to
/// the driver's developers, although no driver ever compiled it.
#[test]
fn the_next_run_records_what_the_last_one_ended_at_and_the_tool_exports_it() {
    on(Driver::Test(json!({})), |scenario, env| {
        use Tag::{ComputePipeline, GraphicsPipeline};
        // Modules and render passes of the archive.
        let classes = [
            (Shader::Compute, ComputePipeline, [1, 0]),
            (Shader::RenderPass, GraphicsPipeline, [2, 1]),
            (Shader::DynamicRendering, GraphicsPipeline, [2, 0]),
        ];
        for (shader, tag, needs) in classes {
            let work = Work { shader, count: PIPELINES, first: FIRST, ..Work::default() };
            let case = format!("{shader:?}");
            let key = keys(scenario, env, &work, &case)[0];
            let env = env.clone().stash(scenario.folder().join(&case));
            let dying = dying(scenario, &env, shader, 0, json!({ "die": "segv" }));
            let archive = scenario.folder().join(format!("{case}.foz"));
            for is_recorded in [false, true] {
                run_to_any_end(scenario, &dying, &work);
                let mut export = Command::new(paths::profile_folder().join("vkstash"));
                env.apply(&mut export);
                export.args(["export", archive.to_str().unwrap(), &folder(&env), &hex(&key)]);
                assert_eq!(export.output().unwrap().status.success(), is_recorded, "{case}");
            }
            let archive = Reader::open(&archive).unwrap();
            let count = |tag| archive.entries_of(tag).len();
            assert_eq!([Tag::ShaderModule, Tag::RenderPass].map(count), needs, "{case}");
            assert_eq!(count(ComputePipeline) + count(GraphicsPipeline), 1, "{case}");
            assert_eq!(archive.entries_of(tag)[0].hash().to_le_bytes(), key[..8], "{case}");
            assert!(count(Tag::PipelineLayout) == 1 && count(Tag::DescriptorSetLayout) <= 1, "{case}");
        }
    });
}

/// A program that the user ends in order while it compiles nothing, and one that is served, leave no death.
#[test]
fn what_is_served_is_not_compiled_and_leaves_no_death() {
    on(Driver::Test(json!({})), |scenario, env| {
        let work = Work { count: PIPELINES, first: FIRST, ..Work::default() };
        run(scenario, env, &work);
        let script = json!({ "faults": [{ "command": "vkDestroyDevice", "die": "segv" }] });
        let dying = scenario.on(Driver::Test(script)).unwrap().stash(env.stash_folder());
        assert_eq!(run_to_any_end(scenario, &dying, &work).signal(), Some(libc::SIGSEGV));
        assert_eq!(deaths_of(env), []);
    });
}

/// The step: creates ray tracing pipelines, each in a call of its own. In a deferred operation another thread joins it.
fn rays(input: &Value) -> Value {
    let rays = Rays::new(Rig::open()).expect("the programmable driver has ray tracing");
    let (deferring, device) = (&rays.deferring, rays.rig.device.raw.handle());
    let join = deferring.fp().deferred_operation_join_khr;
    for n in 0..PIPELINES {
        let (infos, mut made) = ([rays.plain(FIRST + n)], [vk::Pipeline::null()]);
        // SAFETY: create infos and slots are valid until the operation is complete; it is destroyed once, after that.
        unsafe {
            let operation = match input == "deferred" {
                true => deferring.create_deferred_operation(None).unwrap(),
                false => vk::DeferredOperationKHR::null(),
            };
            let started = rays.create(operation, vk::PipelineCache::null(), &infos, &mut made);
            if started == vk::Result::OPERATION_DEFERRED_KHR {
                let to_its_end = || {
                    while join(device, operation) == vk::Result::THREAD_IDLE_KHR {
                        std::thread::yield_now();
                    }
                };
                std::thread::scope(|scope| scope.spawn(to_its_end).join()).unwrap();
            }
            deferring.destroy_deferred_operation(operation, None);
        }
        rays.destroy(&made);
    }
    Value::Null
}

/// The step: creates shader objects, a compute shader and then two that are linked.
fn shaders(_: &Value) -> Value {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let device = Device::new(&instance, &shader_objects::device_options()).unwrap();
    use vk::ShaderStageFlags as S;
    let shader = |stage, next, linked, words| shader_objects::Shader {
        stage,
        next,
        linked,
        code: shader_objects::Code::Spirv(words),
        constant: None,
    };
    let calls = [
        vec![shader(S::COMPUTE, S::empty(), false, spirv::compute(1))],
        vec![
            shader(S::VERTEX, S::FRAGMENT, true, spirv::vertex(1.0)),
            shader(S::FRAGMENT, S::empty(), true, spirv::fragment(1.0)),
        ],
    ];
    for call in calls {
        // SAFETY: a live device with the extension; each object is destroyed once, when nothing uses it.
        unsafe {
            let (_, made) = shader_objects::create(&device, &[], &call);
            shader_objects::destroy(&device, &made);
        }
    }
    Value::Null
}

fn named(env: &Env) -> Vec<(Key, u32, u8)> {
    deaths_of(env).iter().map(|death| (death.key, death.stages, death.deaths)).collect()
}

#[test]
fn ray_tracing_pipelines_are_named_in_the_call_and_in_a_deferred_operation() {
    scenario(&[("rays", rays)], |scenario| {
        const RAYGEN: u32 = vk::ShaderStageFlags::RAYGEN_KHR.as_raw();
        let commands = ["vkCreateRayTracingPipelinesKHR", "vkDeferredOperationJoinKHR"];
        for (command, how, deferral) in
            [(commands[0], "at once", "never"), (commands[1], "deferred", "always")]
        {
            let script = json!({ "deferral": deferral });
            let env = scenario.on(Driver::Test(script)).unwrap();
            let input = json!(how);
            let keys = keys_of(scenario, &env, "rays", &input, how);
            for n in [0, PIPELINES - 1] {
                let fault = json!({ "command": command, "word": FIRST + n, "die": "segv" });
                let script = json!({ "deferral": deferral, "faults": [fault] });
                let stash = scenario.folder().join(format!("{how} {n}"));
                let env = scenario.on(Driver::Test(script)).unwrap().stash(stash);
                for times in 1..=2 {
                    let dead = scenario.run("rays", &env, &input);
                    assert_eq!(dead.signal(), Some(libc::SIGSEGV), "{}", dead.ending());
                    assert_eq!(named(&env), [(keys[n as usize], RAYGEN, times)], "{how} {n}");
                }
                let whole = scenario.on(Driver::Test(json!({ "deferral": deferral }))).unwrap();
                scenario.run_ok::<Value>("rays", &whole.stash(env.stash_folder()), &input);
                assert_eq!(named(&env), [], "{how} {n}");
            }
        }
    });
}

#[test]
fn shader_objects_are_named_and_linked_ones_together() {
    scenario(&[("shaders", shaders)], |scenario| {
        let with = |faults: Value| json!({ "shader_object": true, "faults": faults });
        let whole = scenario.on(Driver::Test(with(json!([])))).unwrap();
        let keys = keys_of(scenario, &whole, "shaders", &Value::Null, "shaders");
        // The second place is that of the linked fragment shader alone.
        for (shader, key, stages) in [(0, keys[0], 0x20), (1, keys[1], 0x11)] {
            let fault = json!({
                "command": "vkCreateShadersEXT", "code": "spirv", "shader": shader, "die": "segv",
            });
            let stash = scenario.folder().join(format!("shader {shader}"));
            let env = scenario.on(Driver::Test(with(json!([fault])))).unwrap().stash(&stash);
            for times in 1..=2 {
                let dead = scenario.run("shaders", &env, &Value::Null);
                assert_eq!(dead.signal(), Some(libc::SIGSEGV), "{}", dead.ending());
                assert_eq!(named(&env), [(key, stages, times)]);
            }
            scenario.run_ok::<Value>("shaders", &whole.clone().stash(stash), &Value::Null);
            assert_eq!(named(&env), []);
        }
    });
}

/// The user, or the system for lack of memory, ends a program whose driver hangs.
#[test]
fn a_kill_from_outside_while_the_driver_hangs_names_the_pipeline() {
    on(Driver::Test(json!({})), |scenario, env| {
        let work = Work { count: PIPELINES, first: FIRST, ..Work::default() };
        let keys = keys(scenario, env, &work, "hangs");
        let reached = scenario.folder().join("reached");
        let hangs = json!({ "touch": reached, "until": scenario.folder().join("never") });
        let running = scenario.start("work", &dying(scenario, env, Shader::Compute, 2, hangs), &work);
        until("the driver compiles", || reached.exists());
        assert_eq!(deaths_of(env), [], "the program lives");
        // SAFETY: kill takes plain numbers; the child is not waited for yet.
        assert_eq!(unsafe { libc::kill(running.pid() as i32, libc::SIGKILL) }, 0);
        assert_eq!(running.wait().signal(), Some(libc::SIGKILL));
        assert_eq!(named(env), [(keys[2], 0x20, 1)]);
    });
}

/// The step: a thread creates pipelines, and the program exits when the driver is at one of them.
fn exits_beside(input: &Value) -> Value {
    let (work, reached): (Work, PathBuf) = serde_json::from_value(input.clone()).unwrap();
    std::thread::spawn(move || work::step(&serde_json::to_value(work).unwrap()));
    until("the driver compiles", || reached.exists());
    Value::Null
}

#[test]
fn an_exit_in_order_from_another_thread_leaves_no_death() {
    scenario(&[("exits", exits_beside)], |scenario| {
        let reached = scenario.folder().join("reached");
        let fault = json!({
            "command": "vkCreateComputePipelines", "word": FIRST + 2,
            "touch": reached, "until": scenario.folder().join("never"),
        });
        let env = scenario.on(Driver::Test(json!({ "faults": [fault] }))).unwrap();
        let work = Work { count: PIPELINES, first: FIRST, ..Work::default() };
        let gone = scenario.run("exits", &env, &(&work, &reached));
        assert!(gone.status.success(), "{}", gone.ending());
        assert!(reached.exists());
        assert_eq!(deaths_of(&env), []);
        assert_eq!(files(&env.stash_folder(), ".vkg"), [] as [PathBuf; 0]);
    });
}

/// The step: a forked child dies in a compile of its own, while the driver compiles for a thread of its parent.
fn forks_beside(input: &Value) -> Value {
    let [reached, died, goes_on]: [PathBuf; 3] = serde_json::from_value(input.clone()).unwrap();
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let device = Device::new(&instance, &DeviceOptions::default()).unwrap();
    let create = |n| Work { count: 1, first: FIRST + n, ..Work::default() }.run(&device).all_made();
    let mut made = create(0);
    let ended = std::thread::scope(|scope| {
        let beside = scope.spawn(|| create(1));
        until("the driver compiles", || reached.exists());
        let mut status = 0;
        // SAFETY: the child makes the calls that children of real programs make, and its parent waits for it.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                create(2);
                libc::_exit(0);
            }
            libc::waitpid(child, &raw mut status, 0);
        }
        std::fs::write(died, []).unwrap();
        until("the test has looked", || goes_on.exists());
        made &= beside.join().unwrap();
        status
    });
    json!([made, ended])
}

/// The child has a stash of its own: its death is told, and the mark of its parent is none of a dead process.
#[test]
fn a_forked_child_that_dies_in_a_compile_names_its_own_pipeline_alone() {
    scenario(&[("work", work::step), ("forks", forks_beside)], |scenario| {
        let [reached, died, goes_on] =
            ["reached", "died", "goes on"].map(|name| scenario.folder().join(name));
        let command = "vkCreateComputePipelines";
        let hangs = json!({ "command": command, "word": FIRST + 1, "touch": reached, "until": goes_on });
        let dies = json!({ "command": command, "word": FIRST + 2, "die": "kill" });
        let whole = scenario.on(Driver::Test(json!({}))).unwrap();
        let keys = keys(scenario, &whole, &Work { first: FIRST, ..Work::default() }, "forks");
        let env = scenario.on(Driver::Test(json!({ "faults": [hangs, dies] }))).unwrap();
        let running = scenario.start("forks", &env, &[&reached, &died, &goes_on]);
        until("the child has died", || died.exists());
        assert_eq!(named(&env), [(keys[2], 0x20, 1)], "the parent lives");
        std::fs::write(goes_on, []).unwrap();
        assert_eq!(running.wait().ok(), json!([true, libc::SIGKILL]));
        assert_eq!(named(&env), [(keys[2], 0x20, 1)], "the parent has ended in order");
    });
}

/// The step: creates a pipeline that nobody has recorded once a worker is in the driver.
fn beside_a_worker(input: &Value) -> Value {
    let (work, reached): (Work, PathBuf) = serde_json::from_value(input.clone()).unwrap();
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let device = Device::new(&instance, &work.device_options()).unwrap();
    until("a worker is in the driver", || reached.exists());
    work.run(&device);
    Value::Null
}

#[test]
fn what_a_worker_makes_beside_is_no_compile_of_the_programs() {
    scenario(&[("work", work::step), ("beside", beside_a_worker)], |scenario| {
        let env = scenario.on(Driver::Test(json!({}))).unwrap().var("VKSTASH_BACKGROUND_WORKERS", "1");
        let known = Work { count: 2, ..Work::default() };
        (0..2).for_each(|_| drop(run(scenario, &env, &known)));
        // A death of a process that gave artifacts to a driver: from now on calls of workers are marked.
        let killed = Work { end: End::Kill(0), ..known };
        assert_eq!(run_to_any_end(scenario, &env, &killed).signal(), Some(libc::SIGKILL));
        let work = Work { count: 1, first: FIRST, ..Work::default() };
        let key = keys(scenario, &env, &work, "beside")[0];
        let reached = scenario.folder().join("reached");
        let worker = json!({
            "command": "vkCreatePipelineCache", "call": 1,
            "touch": reached, "until": scenario.folder().join("never"),
        });
        let program = json!({ "command": "vkCreateComputePipelines", "word": FIRST, "die": "kill" });
        let script = json!({ "faults": [worker, program] });
        let dying = scenario.on(Driver::Test(script)).unwrap().stash(env.stash_folder());
        let dying = dying.var("VKSTASH_BACKGROUND_WORKERS", "1");
        let dead = scenario.run("beside", &dying, &(&work, &reached));
        assert_eq!(dead.signal(), Some(libc::SIGKILL), "{}", dead.ending());
        let marks: Vec<u8> = files(&env.stash_folder(), ".vkg")
            .iter()
            .flat_map(|file| {
                std::fs::read(file).unwrap()[64..].chunks(64).map(|slot| slot[0]).collect::<Vec<_>>()
            })
            .filter(|mark| *mark != 0)
            .collect();
        // docs/format.md: 2 a worker, which marks nothing before it knows of that death, 3 a compile.
        assert!(marks.contains(&3) && marks.iter().all(|mark| [2, 3].contains(mark)), "{marks:?}");
        assert_eq!(named(&env), [(key, 0x20, 1)]);
    });
}

#[test]
#[ignore = "a figure: 50 kills at random moments of a compile"]
fn fifty_kills() {
    on(Driver::Test(json!({})), |scenario, env| {
        let work = Work { count: PIPELINES, first: FIRST, ..Work::default() };
        let keys = keys(scenario, env, &work, "kills");
        let named = (0..50_u32).filter(|kill| {
            let n = kill % PIPELINES;
            let env = env.clone().stash(scenario.folder().join(format!("kill-{kill}")));
            // Spread over 20 ms, in no order.
            let end = json!({ "hang_ms": kill * 7919 % 20, "die": "kill" });
            let dead = run_to_any_end(scenario, &dying(scenario, &env, Shader::Compute, n, end), &work);
            assert_eq!(dead.signal(), Some(libc::SIGKILL), "{}", dead.ending());
            matches!(&deaths_of(&env)[..], [death] if death.key == keys[n as usize])
        });
        println!("the culprit is named in {} of 50", named.count());
    });
}
