//! Pipelines that background work finishes before the program asks for them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ash::vk;
use serde_json::{Value, json};

use vkstash_layer_tests::child::{Run, Scenario, scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::report::UNREADY;
use vkstash_layer_tests::test_driver::TestDriver;
use vkstash_layer_tests::vulkan::{Device, DeviceOptions, Instance, InstanceOptions, allocator, spirv};
use vkstash_layer_tests::waiting::PATIENCE;
use vkstash_layer_tests::work::{self, Caches, Code, Done, Shader, Work};

const COUNT: u64 = 8;

/// The drivers that compile and have something to park.
fn drivers() -> [Driver; 3] {
    [Driver::Test(json!({})), Driver::Radv, Driver::Machine]
}

/// `env` with two background workers.
pub fn with_parking(env: &Env) -> Env {
    env.clone().var("VKSTASH_BACKGROUND_WORKERS", "2")
}

/// The step: creates a device, waits until workers have parked so many pipelines, and then does the work.
pub fn late(input: &Value) -> Value {
    let work: Work = serde_json::from_value(input["work"].clone()).unwrap();
    let options = InstanceOptions { messages: work.messages, ..InstanceOptions::default() };
    let instance = Instance::new(&options).unwrap();
    let device = Arc::new(Device::new(&instance, &work.device_options()).unwrap());
    if work.code != Code::Identifier {
        // On a driver whose caches keep nothing workers begin now, unless the program may ask by identifier alone.
        device.module(&spirv::compute(u32::MAX));
    }
    until_parked(&input["trace"], input["parked"].as_u64().unwrap());
    let done = work.run(&device);
    drop(device);
    serde_json::to_value(Done { messages: instance.messages(), ..done }).unwrap()
}

/// Waits until workers have parked so many pipelines: until they have ended one task for each, and one that finds
/// nothing more to make. For 0 pipelines workers get a moment.
pub fn until_parked(trace: &Value, count: u64) {
    let trace: PathBuf = serde_json::from_value(trace.clone()).unwrap();
    let tasks = || {
        let text = std::fs::read_to_string(&trace).unwrap_or_default();
        text.lines().filter(|line| line.contains("\"name\":\"park\"")).count() as u64
    };
    if count == 0 {
        return std::thread::sleep(Duration::from_millis(300));
    }
    let begun = Instant::now();
    while tasks() <= count {
        assert!(begun.elapsed() < PATIENCE, "workers have ended {} tasks", tasks());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The step: does the work on two devices of the same instance, each time after workers have parked everything. The
/// first one is destroyed before that if the input says so.
fn in_turn(input: &Value) -> Value {
    let work: Work = serde_json::from_value(input["work"].clone()).unwrap();
    let parked = input["parked"].as_u64().unwrap();
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let (mut all_made, mut devices) = (true, Vec::new());
    for so_far in [parked, 2 * parked + 1] {
        if input["ends"] == true {
            devices.clear();
        }
        let device = Arc::new(Device::new(&instance, &work.device_options()).unwrap());
        until_parked(&input["trace"], so_far);
        all_made &= work.run(&device).all_made();
        devices.push(device);
    }
    json!(all_made)
}

/// Engines make their device again when a setting changes, and some programs a first one to look at it.
#[test]
fn a_second_device_is_handed_what_the_first_one_used() {
    scenario(&[("work", work::step), ("in turn", in_turn)], |scenario| {
        let env = scenario.on(Driver::Test(json!({}))).unwrap();
        let work = Work { count: COUNT as u32, ..Work::default() };
        (0..2).for_each(|_| _ = scenario.run_ok::<Done>("work", &env, &work));
        for ends in [true, false] {
            let (env, trace) = traced(scenario, &with_parking(&env));
            let input = json!({ "work": work, "parked": COUNT, "trace": trace, "ends": ends });
            let ended = scenario.run_ok::<bool>("in turn", &env, &input);
            let counters = ended.reports.counters();
            assert!(ended.value);
            assert_eq!(ended.reports.sum("parked"), 2 * COUNT, "{ends}: {counters:?}");
            assert_eq!(ended.reports.sum("parked_unasked"), 0, "{ends}: {counters:?}");
        }
    });
}

/// Runs the work after workers have parked so many pipelines.
pub fn run_parked(scenario: &Scenario, env: &Env, work: &Work, parked: u64) -> Run<Done> {
    let (env, trace) = traced(scenario, env);
    scenario.run_ok::<Done>("late", &env, &json!({ "work": work, "parked": parked, "trace": trace }))
}

/// `env` with a new trace file.
pub fn traced(scenario: &Scenario, env: &Env) -> (Env, PathBuf) {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let trace = scenario.folder().join(format!("trace {}", NUMBER.fetch_add(1, Ordering::Relaxed)));
    (env.clone().var("VKSTASH_TRACE", &trace), trace)
}

/// The step: creates the pipelines of the work with an allocator once workers have parked them.
fn with_allocator(input: &Value) -> Value {
    let work: Work = serde_json::from_value(input["work"].clone()).unwrap();
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let driver = TestDriver::open();
    let device = Device::new(&instance, &work.device_options()).unwrap();
    until_parked(&input["trace"], input["parked"].as_u64().unwrap());
    let layout = device.compute_layout();
    let callbacks = allocator::of_malloc();
    // SAFETY: valid create infos; each object is destroyed once, with the allocator that it was created with.
    unsafe {
        for value in work.first..work.first + work.count {
            let module = device.module(&spirv::compute(value));
            let stage = vk::PipelineShaderStageCreateInfo::default()
                .stage(vk::ShaderStageFlags::COMPUTE)
                .module(module)
                .name(c"main");
            let info = vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout);
            let cache = vk::PipelineCache::null();
            let made = device.raw.create_compute_pipelines(cache, &[info], Some(&callbacks)).unwrap();
            made.iter().for_each(|made| device.raw.destroy_pipeline(*made, Some(&callbacks)));
        }
    }
    drop(device);
    driver.take_record()["violations"].clone()
}

/// The program would destroy parked pipelines with its allocator, but workers make them without one.
#[test]
fn a_program_that_passes_an_allocator_is_handed_nothing() {
    scenario(&[("work", work::step), ("with allocator", with_allocator)], |scenario| {
        let env = scenario.on(Driver::Test(json!({}))).unwrap();
        let work = Work { count: COUNT as u32, ..Work::default() };
        (0..2).for_each(|_| _ = scenario.run_ok::<Done>("work", &env, &work));
        let (env, trace) = traced(scenario, &with_parking(&env));
        let input = json!({ "work": work, "parked": COUNT, "trace": trace });
        let ended = scenario.run_ok::<Value>("with allocator", &env, &input);
        assert_eq!(ended.value, json!([]));
        let counts = ["parked", "own_allocator", "parked_unasked"].map(|name| ended.reports.sum(name));
        assert_eq!(counts, [0, COUNT, COUNT], "{:?}", ended.reports.counters());
    });
}

#[test]
fn what_an_earlier_run_used_is_handed_over() {
    scenario(&[("work", work::step), ("late", late)], |scenario| {
        for (number, driver) in drivers().into_iter().enumerate() {
            let Some(env) = scenario.on(driver.clone()) else { continue };
            for (index, shader) in
                [Shader::Compute, Shader::Specialized, Shader::RenderPass, Shader::DynamicRendering]
                    .into_iter()
                    .enumerate()
            {
                let env = env.clone().stash(scenario.folder().join(format!("stash {number} {index}")));
                let work = Work { shader, count: COUNT as u32, ..Work::default() };
                let first = scenario.run_ok::<Done>("work", &env, &work);
                assert_eq!(first.reports.sum("compiled"), COUNT, "{:?}", first.reports.counters());
                // Artifacts that no driver has taken yet are not taken by a worker first.
                let second = scenario.run_ok::<Done>("work", &env, &work);
                assert_eq!(second.reports.sum("served"), COUNT, "{:?}", second.reports.counters());
                let third = run_parked(scenario, &with_parking(&env), &work, COUNT);
                let counters = third.reports.counters();
                assert_eq!(
                    counters.get("parked"),
                    Some(&COUNT),
                    "{shader:?}, {}: {counters:?}",
                    driver.name()
                );
                assert!(third.value.all_made());
                let others =
                    ["served", "compiled", "driver_had", "parking_failed", "parked_unasked", "bypassed"];
                assert_eq!(others.map(|name| third.reports.sum(name)), [0; 6], "{counters:?}");
                assert!(!counters.contains_key("asked_first"), "{counters:?}");
            }
        }
    });
}

#[test]
fn what_was_not_ready_is_counted_with_the_reason() {
    scenario(&[("work", work::step), ("late", late)], |scenario| {
        let env = with_parking(&scenario.on(Driver::Test(json!({}))).unwrap());
        let counts = |run: &Run<Done>| UNREADY.map(|name| run.reports.sum(name));
        let work = Work { count: COUNT as u32, ..Work::default() };
        let first = scenario.run_ok::<Done>("work", &env, &work);
        assert_eq!(counts(&first), [COUNT, 0, 0, 0, 0, 0, 0, 0, 0], "{:?}", first.reports.counters());
        // The program of this run does not wait for workers.
        let second = scenario.run_ok::<Done>("work", &env, &work);
        assert_eq!(
            counts(&second).iter().sum::<u64>() + second.reports.sum("parked"),
            COUNT,
            "{:?}",
            second.reports.counters()
        );
        let more = Work { count: COUNT as u32 + 3, ..work };
        let third = run_parked(scenario, &env, &more, COUNT);
        assert_eq!(third.reports.sum("parked"), COUNT, "{:?}", third.reports.counters());
        assert_eq!(counts(&third), [3, 0, 0, 0, 0, 0, 0, 0, 0], "{:?}", third.reports.counters());
    });
}

/// The calling thread, and those that it starts, run on the first processor that it may use.
fn keep_to_one_processor() {
    // SAFETY: 0 is the calling thread; the sets are on this stack, of the size that is told.
    unsafe {
        let mut allowed: libc::cpu_set_t = std::mem::zeroed();
        assert_eq!(libc::sched_getaffinity(0, size_of_val(&allowed), &mut allowed), 0);
        let numbers = 0..libc::CPU_SETSIZE as usize;
        let first = numbers.into_iter().find(|&number| libc::CPU_ISSET(number, &allowed)).unwrap();
        let mut one: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(first, &mut one);
        assert_eq!(libc::sched_setaffinity(0, size_of_val(&one), &one), 0);
    }
}

/// The names of the layer's threads after workers have parked, and whether their policy, nice value and processors are
/// those of this thread, which keeps to one processor.
fn priorities(input: &Value) -> Value {
    let work: Work = serde_json::from_value(input["work"].clone()).unwrap();
    keep_to_one_processor();
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let device = Arc::new(Device::new(&instance, &work.device_options()).unwrap());
    until_parked(&input["trace"], input["parked"].as_u64().unwrap());
    let read = |task: &Path| {
        let text = std::fs::read_to_string(task.join("stat")).unwrap_or_default();
        let (name, rest) = text.split_once(") ").unwrap_or_default();
        let fields: Vec<_> = rest.split_whitespace().map(str::to_owned).collect();
        // The 19th and the 41st field of all.
        let of = |number: usize| fields.get(number - 3).cloned().unwrap_or_default();
        let status = std::fs::read_to_string(task.join("status")).unwrap_or_default();
        let processors =
            status.lines().find_map(|line| line.strip_prefix("Cpus_allowed:")).map(str::to_owned);
        (name.split_once('(').unwrap_or_default().1.to_owned(), (of(19), of(41), processors))
    };
    let (_, own) = read(Path::new("/proc/thread-self"));
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten().map(|task| read(&task.path()));
    let of_layer = tasks.filter(|(name, _)| name.starts_with("vkstash"));
    let found: Vec<_> = of_layer.map(|(name, priority)| (name, priority == own)).collect();
    assert!(work.run(&device).all_made());
    serde_json::to_value(found).unwrap()
}

/// A thread of low priority keeps locks, and the process from ending, while it waits for a processor, and the threads
/// that it starts inherit the priority.
#[test]
fn no_thread_of_the_layer_has_another_priority_or_affinity_than_the_program() {
    scenario(&[("work", work::step), ("priorities", priorities)], |scenario| {
        for driver in [Driver::Test(json!({})), Driver::Radv] {
            let Some(env) = scenario.on(driver) else { continue };
            let folder = scenario.folder().join(format!("stash of {}", env.driver().name()));
            let env = env.stash(folder);
            let work = Work { count: COUNT as u32, ..Work::default() };
            scenario.run_ok::<Done>("work", &env, &work);
            scenario.run_ok::<Done>("work", &env, &work);
            let (env, trace) = traced(scenario, &with_parking(&env));
            let input = json!({ "work": work, "parked": COUNT, "trace": trace });
            let found = scenario.run_ok::<Vec<(String, bool)>>("priorities", &env, &input).value;
            for name in ["vkstash-worker", "vkstash-writer"] {
                assert!(found.iter().any(|(of, _)| of == name), "{name}: {found:?}");
            }
            assert!(found.iter().all(|(_, is_own)| *is_own), "{found:?}");
        }
    });
}

/// The step: creates a pipeline whose stage has a name, once workers have parked it if the input says so. The driver's
/// calls that make pipelines, and how many of them have the name.
fn named(input: &Value) -> Value {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let driver = TestDriver::open();
    let device = Device::new(&instance, &DeviceOptions::default()).unwrap();
    if !input["trace"].is_null() {
        until_parked(&input["trace"], 1);
    }
    let mut name = vk::DebugUtilsObjectNameInfoEXT::default().object_name(c"of the program");
    let stage = vk::PipelineShaderStageCreateInfo::default()
        .stage(vk::ShaderStageFlags::COMPUTE)
        .module(device.module(&spirv::compute(1)))
        .name(c"main")
        .push_next(&mut name);
    let info = vk::ComputePipelineCreateInfo::default().stage(stage).layout(device.compute_layout());
    // SAFETY: a valid create info.
    let (result, _) = unsafe { device.create_compute(vk::PipelineCache::null(), &[info]) };
    assert_eq!(result, vk::Result::SUCCESS);
    let record = driver.take_record();
    assert_eq!(record["violations"], json!([]));
    let calls = record["calls"].as_array().unwrap();
    let makes = |call: &&Value| call["command"] == "vkCreateComputePipelines" && call["result"] == 0;
    let names = vk::StructureType::DEBUG_UTILS_OBJECT_NAME_INFO_EXT.as_raw();
    let is_named =
        |call: &&Value| call["stage_p_next"].as_array().is_some_and(|types| types.contains(&json!(names)));
    let made = calls.iter().filter(makes);
    json!([made.clone().count(), made.filter(is_named).count()])
}

/// A recipe has no names: the driver gets those of the program's own calls only.
#[test]
fn a_parked_pipelines_stages_have_no_names() {
    scenario(&[("named", named)], |scenario| {
        let env = scenario.on(Driver::Test(json!({}))).unwrap();
        for _ in 0..2 {
            let [made, named] = scenario.run_ok::<[u64; 2]>("named", &env, &json!({})).value;
            assert!(made == 1 && named == 1, "{made} {named}");
        }
        let (env, trace) = traced(scenario, &with_parking(&env));
        let run = scenario.run_ok::<[u64; 2]>("named", &env, &json!({ "trace": trace }));
        assert_eq!(run.reports.sum("parked"), 1, "{:?}", run.reports.counters());
        assert_eq!(run.value, [1, 0]);
    });
}

/// A worker is a thread that the program does not know, and the program may hold a lock that its callback needs while
/// it waits for a worker.
#[test]
fn messengers_of_the_program_hear_nothing_of_workers() {
    scenario(&[("work", work::step), ("late", late)], |scenario| {
        for driver in [Driver::Test(json!({ "messages": "making" })), Driver::Radv] {
            let Some(env) = scenario.on(driver.clone()) else { continue };
            let folder = scenario.folder().join(format!("stash of {}", env.driver().name()));
            let env = env.stash(folder);
            let work = Work { count: COUNT as u32, messages: true, ..Work::default() };
            let first = scenario.run_ok::<Done>("work", &env, &work);
            let said = first.value.messages.len() as u64;
            assert!(driver == Driver::Radv || said >= COUNT, "{said} of the program's own calls");
            scenario.run_ok::<Done>("work", &env, &work);
            let run = run_parked(scenario, &with_parking(&env), &work, COUNT);
            assert_eq!(run.reports.sum("parked"), COUNT, "{:?}", run.reports.counters());
            assert_eq!(run.value.messages, Vec::<String>::new());
        }
    });
}

/// How often a report callback was called.
static REPORTED: AtomicU64 = AtomicU64::new(0);

unsafe extern "system" fn count_reports(
    _: vk::DebugReportFlagsEXT,
    _: vk::DebugReportObjectTypeEXT,
    _: u64,
    _: usize,
    code: i32,
    _: *const std::ffi::c_char,
    _: *const std::ffi::c_char,
    data: *mut std::ffi::c_void,
) -> vk::Bool32 {
    // SAFETY: the data that the callback was created with.
    unsafe { (*data.cast::<AtomicU64>()).fetch_add(u64::from(code == 7), Ordering::Relaxed) };
    vk::FALSE
}

/// The step: creates a report callback, waits until workers have parked everything, and then makes something else.
/// Answers with what the callback has heard of the two.
#[expect(deprecated, reason = "programs still use VK_EXT_debug_report")]
fn reported(input: &Value) -> Value {
    let work: Work = serde_json::from_value(input["work"].clone()).unwrap();
    let options =
        InstanceOptions { extensions: vec![ash::ext::debug_report::NAME], ..InstanceOptions::default() };
    let instance = Instance::new(&options).unwrap();
    let report = ash::ext::debug_report::Instance::new(&instance.entry, &instance.raw);
    let info = vk::DebugReportCallbackCreateInfoEXT::default()
        .flags(vk::DebugReportFlagsEXT::WARNING)
        .pfn_callback(Some(count_reports))
        .user_data(std::ptr::from_ref(&REPORTED).cast_mut().cast());
    // SAFETY: a live instance with the extension; the data is static.
    let callback = unsafe { report.create_debug_report_callback(&info, None) }.unwrap();
    let device = Arc::new(Device::new(&instance, &work.device_options()).unwrap());
    until_parked(&input["trace"], input["parked"].as_u64().unwrap());
    let of_workers = REPORTED.load(Ordering::Relaxed);
    let others = Work { first: 1000, ..work };
    assert!(others.run(&device).all_made());
    drop(device);
    // SAFETY: nothing of the instance is in use.
    unsafe { report.destroy_debug_report_callback(callback, None) };
    json!([of_workers, REPORTED.load(Ordering::Relaxed)])
}

#[test]
fn report_callbacks_hear_nothing_of_workers_and_all_of_the_program() {
    scenario(&[("work", work::step), ("reported", reported)], |scenario| {
        let env = scenario.on(Driver::Test(json!({ "messages": "making" }))).unwrap();
        let work = Work { count: COUNT as u32, ..Work::default() };
        (0..2).for_each(|_| _ = scenario.run_ok::<Done>("work", &env, &work));
        let (env, trace) = traced(scenario, &with_parking(&env));
        let input = json!({ "work": work, "parked": COUNT, "trace": trace });
        let heard = scenario.run_ok::<[u64; 2]>("reported", &env, &input);
        let [of_workers, of_program] = heard.value;
        assert!(of_workers == 0 && of_program >= COUNT, "{:?} {:?}", heard.value, heard.reports.counters());
        assert_eq!(heard.reports.sum("parked_unasked"), COUNT, "{:?}", heard.reports.counters());
    });
}

/// Everything that the driver says about the calls of workers and of the program.
fn checked(input: &Value) -> Value {
    let work: Work = serde_json::from_value(input["work"].clone()).unwrap();
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let driver = TestDriver::open();
    let device = Arc::new(Device::new(&instance, &work.device_options()).unwrap());
    until_parked(&input["trace"], input["parked"].as_u64().unwrap());
    let record = driver.take_record();
    assert_eq!(record["violations"], json!([]), "{record}");
    let calls = record["calls"].as_array().unwrap().iter();
    let made: Vec<_> = calls.filter(|call| call["command"] == "vkCreateComputePipelines").cloned().collect();
    if input["asks"] == true {
        assert!(work.run(&device).all_made());
    }
    let record = driver.take_record();
    assert_eq!(record["violations"], json!([]), "{record}");
    drop(device);
    let last = driver.take_record();
    assert_eq!(last["violations"], json!([]), "{last}");
    json!({ "created": made.len(), "made": made, "calls": record["calls"] })
}

#[test]
fn the_driver_is_not_asked_again_and_nothing_is_left_over() {
    scenario(&[("work", work::step), ("checked", checked)], |scenario| {
        let env = scenario.on(Driver::Test(json!({}))).unwrap();
        let work = Work { count: COUNT as u32, ..Work::default() };
        scenario.run_ok::<Done>("work", &env, &work);
        scenario.run_ok::<Done>("work", &env, &work);
        for asks in [true, false] {
            let (env, trace) = traced(scenario, &with_parking(&env));
            let input = json!({ "work": work, "parked": COUNT, "asks": asks, "trace": trace });
            let outcome = scenario.run_ok::<Value>("checked", &env, &input);
            let counters = outcome.reports.counters();
            assert_eq!(outcome.value["created"], COUNT, "{}", outcome.value);
            let calls = outcome.value["calls"].as_array().unwrap();
            let creating = calls.iter().filter(|call| call["command"] == "vkCreateComputePipelines");
            assert_eq!(creating.count(), 0, "{calls:?}");
            let (parked, unasked) = if asks { (COUNT, 0) } else { (0, COUNT) };
            let counts = ["parked", "parked_unasked"].map(|name| outcome.reports.sum(name));
            assert_eq!(counts, [parked, unasked], "{counters:?}");
        }
    });
}

#[test]
fn caches_feedback_and_identifiers_are_as_if_the_call_had_made_it() {
    scenario(&[("work", work::step), ("late", late)], |scenario| {
        for (number, driver) in drivers().into_iter().enumerate() {
            let Some(env) = scenario.on(driver) else { continue };
            let habits = [
                Work { caches: Caches::Fresh, feedback: true, ..Work::default() },
                Work { caches: Caches::Shared, feedback: true, ..Work::default() },
                Work { feedback: true, ..Work::default() },
                Work { code: Code::Inline, ..Work::default() },
                Work { flags2: true, ..Work::default() },
                Work { fail_on: true, ..Work::default() },
                Work { batch: 4, ..Work::default() },
            ];
            for (index, habit) in habits.into_iter().enumerate() {
                let env = env.clone().stash(scenario.folder().join(format!("stash {number} {index}")));
                let work = Work { count: COUNT as u32, ..habit };
                scenario.run_ok::<Done>("work", &env, &Work { fail_on: false, ..work.clone() });
                let served = scenario.run_ok::<Done>("work", &env, &work);
                let parked = run_parked(scenario, &with_parking(&env), &work, COUNT);
                let counters = parked.reports.counters();
                assert_eq!(counters.get("parked"), Some(&COUNT), "{index}: {counters:?}");
                assert_eq!(parked.value.results, served.value.results);
                assert_eq!(parked.value.made, served.value.made);
                let hits = |done: &Done| done.feedback.iter().map(|f| f.says_hit()).collect::<Vec<_>>();
                assert_eq!(hits(&parked.value), hits(&served.value), "{index}");
                let valid = |done: &Done| done.feedback.iter().map(|f| f.pipeline & 1).collect::<Vec<_>>();
                assert_eq!(valid(&parked.value), valid(&served.value), "{index}");
                assert_eq!(parked.value.data.len(), served.value.data.len(), "{index}");
                for (parked, served) in parked.value.data.iter().zip(&served.value.data) {
                    // Mesa aligns each object but not the end, so a few bytes depend on the order.
                    let apart = parked.len().abs_diff(served.len());
                    assert!(apart <= 8 * COUNT as usize, "{index}: the program's own cache has it");
                }
            }
        }
    });
}

/// Workers need neither a layout nor a sampler for such pipelines.
#[test]
fn pipelines_of_a_descriptor_heap_are_parked_and_handed_over() {
    let has_heaps = Driver::Test(json!({ "extensions": ["VK_EXT_descriptor_heap"] }));
    scenario(&[("work", work::step), ("late", late), ("checked", checked)], |scenario| {
        let env = scenario.on(has_heaps).unwrap();
        for shader in [Shader::Compute, Shader::Specialized, Shader::RenderPass, Shader::DynamicRendering] {
            let env = env.clone().stash(scenario.folder().join(format!("stash {shader:?}")));
            let work = Work { shader, heap: 1, count: COUNT as u32, ..Work::default() };
            for count in ["compiled", "served"] {
                let run = scenario.run_ok::<Done>("work", &env, &work);
                assert_eq!(run.reports.sum(count), COUNT, "{shader:?}: {:?}", run.reports.counters());
            }
            let parked = run_parked(scenario, &with_parking(&env), &work, COUNT);
            let counters = parked.reports.counters();
            assert!(parked.value.all_made());
            let others = ["served", "compiled", "parking_failed", "parked_unasked", "bypassed"];
            assert_eq!(counters.get("parked"), Some(&COUNT), "{shader:?}: {counters:?}");
            assert_eq!(others.map(|name| parked.reports.sum(name)), [0; 5], "{shader:?}: {counters:?}");

            // The embedded sampler is part of the pipeline.
            let other = Work { heap: 2, ..work.clone() };
            let asked = run_parked(scenario, &with_parking(&env), &other, 0);
            let counts = ["parked", "compiled"].map(|name| asked.reports.sum(name));
            assert_eq!(counts, [0, COUNT], "{shader:?}: {:?}", asked.reports.counters());
        }
        // The create infos that workers pass, as the driver sees them.
        let env = env.stash(scenario.folder().join("stash seen"));
        let work = Work { heap: 1, count: COUNT as u32, ..Work::default() };
        scenario.run_ok::<Done>("work", &env, &work);
        scenario.run_ok::<Done>("work", &env, &work);
        let (env, trace) = traced(scenario, &with_parking(&env));
        let input = json!({ "work": work, "parked": COUNT, "asks": true, "trace": trace });
        let outcome = scenario.run_ok::<Value>("checked", &env, &input);
        let made = outcome.value["made"].as_array().unwrap();
        assert_eq!(made.len() as u64, COUNT, "{made:?}");
        for call in made {
            assert_eq!(call["stage_p_next"], json!([1_000_135_006]), "{call}");
            assert_eq!(call["flags"][0].as_u64().unwrap() & 1 << 36, 1 << 36, "{call}");
        }
    });
}

/// The step: waits until workers have asked for so many pipelines and then for none any more, and ends.
fn asked_by_workers(input: &Value) -> Value {
    let work: Work = serde_json::from_value(input["work"].clone()).unwrap();
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let driver = TestDriver::open();
    let device = Device::new(&instance, &work.device_options()).unwrap();
    let (mut asked, mut quiet, begun) = (0, 0, Instant::now());
    let least = input["least"].as_u64().unwrap();
    while asked < least || quiet < input["quiet"].as_u64().unwrap() {
        assert!(begun.elapsed() < PATIENCE, "workers have asked {asked} times");
        std::thread::sleep(Duration::from_millis(5));
        let record = driver.take_record();
        let calls = record["calls"].as_array().unwrap().iter();
        let more = calls.filter(|call| call["command"] == "vkCreateComputePipelines").count() as u64;
        (asked, quiet) = (asked + more, if more == 0 { quiet + 1 } else { 0 });
    }
    drop(device);
    json!(asked)
}

/// A program is served them all the same, so the artifacts stay as they are.
#[test]
fn what_the_driver_always_refuses_to_workers_is_passed_by_in_later_runs() {
    scenario(&[("work", work::step), ("asked", asked_by_workers)], |scenario| {
        let env = scenario.on(Driver::Test(json!({}))).unwrap();
        let work = Work { count: COUNT as u32, ..Work::default() };
        for count in ["compiled", "served"] {
            assert_eq!(scenario.run_ok::<Done>("work", &env, &work).reports.sum(count), COUNT);
        }
        let required =
            json!({ "faults": [{ "command": "vkCreateComputePipelines", "result": 1_000_297_000 }] });
        let refusing = with_parking(&env).var("VKSTASH_TEST_ICD", required.to_string());
        let asked = |least: u64, quiet: u64| {
            let input = json!({ "work": work, "least": least, "quiet": quiet });
            let run = scenario.run_ok::<u64>("asked", &refusing, &input);
            (run.value, run.reports.sum("parking_failed"))
        };
        // Once may be chance.
        assert_eq!([asked(COUNT, 20), asked(COUNT, 20)], [(COUNT, COUNT); 2]);
        assert_eq!(asked(0, 200), (0, 0));

        // The artifacts are as good as before for the program, which makes them again if the driver refuses them. Then
        // they are others.
        assert_eq!(scenario.run_ok::<Done>("work", &env, &work).reports.sum("served"), COUNT);
        let ignoring = json!({ "ignore_blobs": true, "compile_us": 50_000 });
        let ignoring = env.clone().var("VKSTASH_TEST_ICD", ignoring.to_string());
        let made = scenario.run_ok::<Done>("work", &ignoring, &work).reports.sum("compiled");
        // A compile that is far faster than the first one, on a busy machine, counts as no refusal.
        assert!(made > 0);
        assert_eq!(asked(made, 20), (made, made));
    });
}

/// lavapipe keeps nothing, so there are no artifacts: a worker compiles, and only what took little time before.
#[test]
fn a_driver_that_keeps_nothing_compiles_ahead() {
    scenario(&[("work", work::step), ("late", late)], |scenario| {
        let Some(env) = scenario.on(Driver::Lavapipe) else { return };
        for (index, shader) in [Shader::Compute, Shader::RenderPass].into_iter().enumerate() {
            let env = env.clone().stash(scenario.folder().join(format!("stash {index}")));
            let work = Work { shader, count: COUNT as u32, ..Work::default() };
            let first = scenario.run_ok::<Done>("work", &env, &work);
            assert_eq!(first.reports.sum("parked"), 0, "{:?}", first.reports.counters());
            let second = run_parked(scenario, &with_parking(&env), &work, COUNT);
            let counters = second.reports.counters();
            assert!(second.value.all_made());
            let counts = ["parked", "compiled_unrecorded", "compiled"].map(|name| second.reports.sum(name));
            assert_eq!(counts, [COUNT, 0, 0], "{shader:?}: {counters:?}");
            // The processors have compiled all the same.
            let nanos = ["saved_ns", "compiled_ahead_ns"].map(|name| second.reports.sum(name));
            assert!(nanos[0] > 0 && nanos[0] == nanos[1], "{shader:?}: {counters:?}");
        }
    });
}

/// A driver without identifiers and without cache data has nothing by identifier but what is parked.
#[test]
fn a_request_by_identifier_alone_is_answered_on_a_driver_that_keeps_nothing() {
    scenario(&[("work", work::step), ("late", late)], |scenario| {
        let Some(env) = scenario.on(Driver::Lavapipe) else { return };
        let by_module =
            Work { count: COUNT as u32, identifiers: true, cache_control: true, ..Work::default() };
        let by_identifier = Work { code: Code::Identifier, fail_on: true, ..by_module.clone() };
        scenario.run_ok::<Done>("work", &env, &by_module);
        let without = scenario.run_ok::<Done>("work", &env, &by_identifier);
        assert!(without.value.all_refused(), "{:?}", without.reports.counters());
        let parked = run_parked(scenario, &with_parking(&env), &by_identifier, COUNT);
        let counters = parked.reports.counters();
        assert!(parked.value.all_made(), "{counters:?}");
        let counts = ["parked", "identifier_served"].map(|name| parked.reports.sum(name));
        assert_eq!(counts, [COUNT; 2], "{counters:?}");
    });
}
