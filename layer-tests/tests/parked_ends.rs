//! Programs that end, fork or destroy a device while workers make pipelines for it, and programs for which workers make
//! none.

use std::alloc::Layout;
use std::ffi::c_void;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use ash::vk;
use serde_json::{Value, json};

use vkstash_layer_tests::child::{self, Scenario, scenario};
use vkstash_layer_tests::env::{Driver, Env, MACHINE_DRIVER};
use vkstash_layer_tests::folder;
use vkstash_layer_tests::test_driver::TestDriver;
use vkstash_layer_tests::vulkan::{Device, Instance, InstanceOptions, spirv};
use vkstash_layer_tests::waiting::{self, until};
use vkstash_layer_tests::work::{self, Done, Work};

const COUNT: u32 = 40;

fn work() -> Work {
    Work { count: COUNT, ..Work::default() }
}

/// An environment whose stash has artifacts that were taken, with background work.
fn filled(scenario: &Scenario, driver: Driver) -> Option<Env> {
    let env = scenario.on(driver)?;
    for count in ["compiled", "served"] {
        let run = scenario.run_ok::<Done>("work", &env, &work());
        assert_eq!(run.reports.sum(count), u64::from(COUNT), "{:?}", run.reports.counters());
    }
    Some(env.var("VKSTASH_BACKGROUND_WORKERS", "2"))
}

/// Waits until workers have begun to make so many pipelines. Whatever the driver objects to is a failure.
fn until_workers_make(driver: &TestDriver, count: u64) {
    let mut made = 0;
    until("workers make pipelines", || {
        made += creating(&driver.take_record());
        made >= count
    });
}

/// Waits until workers have made everything: they have ended one task for each pipeline, and one that finds nothing
/// more.
fn until_all_is_made() {
    let trace = std::env::var_os("VKSTASH_TRACE").expect("a traced run");
    until("workers make everything", || waiting::tasks(Path::new(&trace), "park") > COUNT as usize);
}

/// `env` with a trace file of its own.
fn traced(scenario: &Scenario, env: &Env, name: &str) -> Env {
    env.clone().var("VKSTASH_TRACE", scenario.folder().join(name))
}

/// How many calls of a record create pipelines.
fn creating(record: &Value) -> u64 {
    assert_eq!(record["violations"], json!([]), "{record}");
    let calls = record["calls"].as_array().unwrap().iter();
    calls.filter(|call| call["command"] == "vkCreateComputePipelines").count() as u64
}

/// Creates a device, waits until workers have begun so many pipelines, and ends as the input says.
fn end(input: &Value) -> Value {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let driver = TestDriver::open();
    for number in 0..input["devices"].as_u64().unwrap_or(1) {
        let device = Device::new(&instance, &work().device_options()).unwrap();
        if input["devices"].is_u64() {
            // After a device without anything workers wait for the next one's first module.
            _ = device.module(&spirv::compute(1));
        }
        until_workers_make(&driver, input["after"].as_u64().unwrap() + number % 3);
        match input["end"].as_str().unwrap() {
            "device" => drop(device),
            "instance" => {
                // SAFETY: the specification requires the device to be destroyed first. Programs that do not are common,
                // and loaders tolerate it.
                unsafe { instance.raw.destroy_instance(None) };
                // The driver may be gone.
                assert_eq!(waiting::own_workers(), 0);
                std::mem::forget((device, instance));
                return json!(null);
            }
            "exit" => {
                std::mem::forget((device, instance));
                return json!(null);
            }
            // SAFETY: neither has preconditions; both end the process.
            "_exit" => unsafe { libc::_exit(3) },
            "abort" => std::process::abort(),
            "fork" => {
                // SAFETY: the child makes the calls that children of real programs make, and its parent waits for it.
                unsafe {
                    let child = libc::fork();
                    if child == 0 {
                        let made = Work { count: 3, ..Work::default() }.run(&device).all_made();
                        libc::_exit(if made { 7 } else { 8 });
                    }
                    let mut status = 0;
                    assert_eq!(libc::waitpid(child, &mut status, 0), child);
                    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7, "{status:#x}");
                }
                assert!(work().run(&device).all_made());
            }
            other => panic!("no end {other}"),
        }
        let record = driver.take_record();
        assert_eq!(record["violations"], json!([]), "{record}");
    }
    json!(null)
}

#[test]
fn a_program_may_end_whatever_the_workers_are_at() {
    scenario(&[("work", work::step), ("end", end)], |scenario| {
        let Some(env) = filled(scenario, Driver::Test(json!({}))) else { return };
        // Once more, with pipelines that only the driver's own disk cache has.
        let disk =
            json!({ "driver_id": 99, "disk_cache": true, "disk_cache_dir": scenario.folder().join("disk") });
        let found = scenario.on(Driver::Test(disk)).unwrap().stash(scenario.folder().join("found"));
        scenario.run_ok::<Done>("work", &found.clone().without_layer(), &work());
        let first = scenario.run_ok::<Done>("work", &found, &work());
        assert_eq!(first.reports.sum("driver_had"), u64::from(COUNT), "{:?}", first.reports.counters());
        let found = found.var("VKSTASH_BACKGROUND_WORKERS", "2");
        let mut killed = 0;
        for (env, after) in
            [0, 1, 2, 5, 20, COUNT].into_iter().map(|after| (&env, after)).chain([(&found, 0), (&found, 3)])
        {
            for end in ["device", "instance", "exit", "fork"] {
                scenario.run_ok::<Value>("end", env, &json!({ "end": end, "after": after }));
            }
            for end in ["_exit", "abort"] {
                // Each may count as a death of the driver's, and after the second one workers make nothing any more.
                let stash = scenario.folder().join(format!("killed-{killed}"));
                killed += 1;
                folder::copy(&env.stash_folder(), &stash).unwrap();
                let ended =
                    scenario.run("end", &env.clone().stash(stash), &json!({ "end": end, "after": after }));
                assert!(!ended.hung && !ended.status.success(), "{end}, {after}: {}", ended.ending());
            }
        }
        let many = json!({ "end": "device", "after": 0, "devices": 300 });
        scenario.run_ok::<Value>("end", &env, &many);
        let forks = json!({ "end": "fork", "after": 0, "devices": 20 });
        scenario.run_ok::<Value>("end", &env, &forks);
    });
}

static IN_HANDLER: Mutex<Option<Device>> = Mutex::new(None);

extern "C" fn late_destructor() {
    drop(IN_HANDLER.lock().unwrap().take());
    child::answer(&TestDriver::open().take_record()["violations"]);
    // SAFETY: _exit has no preconditions; it ends the process before the step's own answer.
    unsafe { libc::_exit(0) };
}

/// The device is destroyed by a handler that is registered before Vulkan is loaded, when this thread has no local
/// storage any more.
fn global_destructor(_: &Value) -> Value {
    // SAFETY: a function of this program.
    unsafe { libc::atexit(late_destructor) };
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let device = Device::new(&instance, &work().device_options()).unwrap();
    until_workers_make(&TestDriver::open(), COUNT.into());
    *IN_HANDLER.lock().unwrap() = Some(device);
    std::process::exit(3)
}

#[test]
fn an_exit_handler_may_destroy_a_device_with_parked_pipelines() {
    scenario(&[("work", work::step), ("handler", global_destructor)], |scenario| {
        let Some(env) = filled(scenario, Driver::Test(json!({}))) else { return };
        let outcome = scenario.run("handler", &env, &());
        assert_eq!(outcome.ok(), json!([]));
        assert!(
            !outcome.stderr.contains("panicked") && !outcome.stderr.contains("Thread Local"),
            "{}",
            outcome.stderr
        );
    });
}

/// Gives workers time on a driver without memory.
fn without_memory(_: &Value) -> Value {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let driver = TestDriver::open();
    driver.control(&json!({ "faults": [{ "command": "vkCreateComputePipelines", "result": -2 }] }));
    let device = Device::new(&instance, &work().device_options()).unwrap();
    let mut asked = 0;
    // Both workers may ask before either knows; then neither does, and a worker that has no task for a while ends.
    until("workers give up", || {
        asked += creating(&driver.take_record());
        asked > 0 && waiting::own_workers() == 0
    });
    driver.control(&json!({ "faults": null }));
    assert!(work().run(&device).all_made());
    json!(asked)
}

#[test]
fn a_driver_without_memory_is_not_asked_for_the_rest() {
    scenario(&[("work", work::step), ("no memory", without_memory)], |scenario| {
        let Some(env) = filled(scenario, Driver::Test(json!({}))) else { return };
        let run = scenario.run_ok::<u64>("no memory", &env, &());
        assert!((1..=4).contains(&run.value), "each worker asks once: {}", run.value);
    });
}

/// Threads that ask for the same pipelines while workers make them.
fn many_threads(input: &Value) -> Value {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let device = Device::new(&instance, &work().device_options()).unwrap();
    let driver = TestDriver::open();
    until_workers_make(&driver, input.as_u64().unwrap());
    let handles: Vec<vk::Pipeline> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..16)
            .map(|_| {
                scope.spawn(|| {
                    let done = work().run(&device);
                    assert!(done.all_made());
                    done.pipelines
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let distinct: std::collections::BTreeSet<_> = handles.iter().collect();
    assert_eq!(distinct.len(), handles.len(), "each request has a pipeline of its own");
    drop(device);
    let record = driver.take_record();
    assert_eq!(record["violations"], json!([]), "{record}");
    json!(null)
}

#[test]
fn a_parked_pipeline_is_given_to_one_of_many_threads() {
    scenario(&[("work", work::step), ("many_threads", many_threads)], |scenario| {
        let Some(env) = filled(scenario, Driver::Test(json!({}))) else { return };
        for after in [0, 1, 10, COUNT] {
            let run = scenario.run_ok::<Value>("many_threads", &env, &after);
            let counters = run.reports.counters();
            let [parked, served, had] = ["parked", "served", "driver_had"].map(|name| run.reports.sum(name));
            assert!(parked <= u64::from(COUNT), "{counters:?}");
            assert_eq!(parked + served + had, 16 * u64::from(COUNT), "{counters:?}");
        }
    });
}

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static FOREIGN: AtomicU64 = AtomicU64::new(0);

fn thread() -> u64 {
    // SAFETY: gettid has no preconditions.
    unsafe { libc::syscall(libc::SYS_gettid) as u64 }
}

fn count(data: *mut c_void) {
    ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the callbacks' user data is the number of the program's thread, which lives as long as the program.
    if unsafe { *data.cast::<u64>() } != thread() {
        FOREIGN.fetch_add(1, Ordering::Relaxed);
    }
}

unsafe extern "system" fn allocate(
    data: *mut c_void,
    size: usize,
    alignment: usize,
    _: vk::SystemAllocationScope,
) -> *mut c_void {
    count(data);
    let Ok(layout) = Layout::from_size_align(size, alignment.max(16)) else { return std::ptr::null_mut() };
    let mut memory = std::ptr::null_mut();
    // SAFETY: a place for a pointer, and a power of two that is a multiple of a pointer's size.
    match unsafe { libc::posix_memalign(&mut memory, layout.align(), layout.size().max(1)) } {
        0 => memory,
        _ => std::ptr::null_mut(),
    }
}

unsafe extern "system" fn reallocate(
    data: *mut c_void,
    original: *mut c_void,
    size: usize,
    _: usize,
    _: vk::SystemAllocationScope,
) -> *mut c_void {
    count(data);
    // SAFETY: memory of `allocate`; drivers ask for no alignment above malloc's here.
    unsafe { libc::realloc(original, size) }
}

unsafe extern "system" fn free(data: *mut c_void, memory: *mut c_void) {
    count(data);
    // SAFETY: memory of `allocate`, or null.
    unsafe { libc::free(memory) };
}

/// A program with allocators for instance, device, or neither. Without any it waits for workers, and then does its
/// work.
fn with_allocators(input: &Value) -> Value {
    let this: &'static u64 = Box::leak(Box::new(thread()));
    let callbacks = vk::AllocationCallbacks::default()
        .user_data((this as *const u64).cast_mut().cast())
        .pfn_allocation(Some(allocate))
        .pfn_reallocation(Some(reallocate))
        .pfn_free(Some(free));
    let chosen = |name: &str| (input[name] == true).then_some(&callbacks);
    let instance = Instance::with_allocator(&InstanceOptions::default(), chosen("instance")).unwrap();
    let physical = instance.physical_device();
    let queue = [vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0])];
    let info = vk::DeviceCreateInfo::default().queue_create_infos(&queue);
    // SAFETY: a live physical device and a valid create info.
    let raw = unsafe { instance.raw.create_device(physical, &info, chosen("device")) }.unwrap();
    let device = Device::adopt(&instance, physical, raw);
    if input == &json!({}) {
        until_all_is_made();
    }
    // Workers have begun with the device's first command, or do not at all.
    let workers = waiting::own_workers();
    assert!(work().run(&device).all_made());
    // Destroying them would need the allocators again.
    std::mem::forget((device, instance));
    json!([ALLOCATIONS.load(Ordering::Relaxed), FOREIGN.load(Ordering::Relaxed), workers])
}

#[test]
fn allocators_of_the_program_are_called_on_its_own_threads() {
    scenario(&[("work", work::step), ("allocators", with_allocators)], |scenario| {
        let machine = std::env::var_os(MACHINE_DRIVER).map(|_| Driver::Machine);
        let Some(env) = filled(scenario, machine.unwrap_or(Driver::Radv)) else { return };
        let none = scenario.run_ok::<Value>("allocators", &traced(scenario, &env, "trace"), &json!({}));
        assert_eq!(none.reports.sum("parked"), u64::from(COUNT), "{:?}", none.reports.counters());
        assert!(none.value[2].as_u64().unwrap() > 0, "workers wait for what is parked");
        for place in ["instance", "device"] {
            let run = scenario.run_ok::<Value>("allocators", &env, &json!({ place: true }));
            let counters = run.reports.counters();
            assert!(run.value[0].as_u64().unwrap() > 0, "{place}: the driver uses them");
            assert_eq!([&run.value[1], &run.value[2]], [0, 0], "{place}");
            assert_eq!(run.reports.sum("parked"), 0, "{place}: {counters:?}");
            assert_eq!(run.reports.sum("served"), u64::from(COUNT), "{place}: {counters:?}");
        }
    });
}

/// Creates a device, and ends when workers have come to their end: they have made everything, or leave the driver
/// alone. In between, the input may have this process killed by a signal: when a worker is in the driver, or when none
/// is.
fn idle(input: &Value) -> Value {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let driver = TestDriver::open();
    if let Some(call) = input["in_call"].as_u64() {
        let stays = json!({ "command": "vkCreateComputePipelines", "call": call, "hang_ms": 3_600_000 });
        driver.control(&json!({ "faults": [stays] }));
    }
    let device = Device::new(&instance, &work().device_options()).unwrap();
    let trace = std::env::var_os("VKSTASH_TRACE").expect("a traced run");
    let ended = || waiting::tasks(Path::new(&trace), "park");
    // A task that ended early says little: the stash may not have been open yet.
    let have_ended = || ended() > 0 && waiting::own_workers() == 0;
    match input["in_call"].as_u64() {
        Some(call) => {
            let mut made = 0;
            until("a worker comes to the call, or leaves the driver alone", || {
                made += creating(&driver.take_record());
                made >= call || made == 0 && have_ended()
            });
        }
        None => until("workers end", || ended() > COUNT as usize || have_ended()),
    }
    if let Some(signal) = input["signal"].as_i64() {
        // SAFETY: kill takes plain numbers; the default action ends this process.
        unsafe { libc::kill(libc::getpid(), signal as i32) };
        loop {
            std::thread::park();
        }
    }
    drop(device);
    json!(null)
}

/// How many pipelines a run has parked, if workers get as long as they need.
fn parked_now(scenario: &Scenario, env: &Env, name: &str) -> u64 {
    let run = scenario.run_ok::<Value>("idle", &traced(scenario, env, name), &json!({}));
    run.reports.sum("parked_unasked")
}

/// Without workers the program would not have called the driver at all.
#[test]
fn a_driver_that_dies_in_a_worker_is_left_alone_after_a_few_runs() {
    scenario(&[("work", work::step), ("idle", idle)], |scenario| {
        let Some(env) = filled(scenario, Driver::Test(json!({}))) else { return };
        for (number, call) in [1, u64::from(COUNT) / 2].into_iter().enumerate() {
            let stash = scenario.folder().join(format!("stash of call {call}"));
            let copied =
                std::process::Command::new("cp").arg("-r").arg(env.stash_folder()).arg(&stash).status();
            assert!(copied.unwrap().success());
            let env = env.clone().stash(stash);
            let dies =
                json!({ "faults": [{ "command": "vkCreateComputePipelines", "call": call, "die": "segv" }] });
            let dying = env.clone().var("VKSTASH_TEST_ICD", dies.to_string());
            let end = |run: u32| {
                let env = traced(scenario, &dying, &format!("trace {number} {run}"));
                scenario.run("idle", &env, &json!({})).signal()
            };
            let ends: Vec<_> = (0..5).map(end).collect();
            let expected = [Some(libc::SIGSEGV); 3].into_iter().chain([None; 2]);
            assert_eq!(ends, expected.collect::<Vec<_>>(), "the first run cannot know");
            assert_eq!(parked_now(scenario, &env, &format!("trace {number} after")), 0);
        }
    });
}

/// A launcher or a session that ends its programs by a signal says nothing about the driver.
#[test]
fn a_signal_from_outside_does_not_switch_background_work_off() {
    scenario(&[("work", work::step), ("idle", idle)], |scenario| {
        let Some(env) = filled(scenario, Driver::Test(json!({}))) else { return };
        let killed = |name: &str, input: &Value| {
            let outcome = scenario.run("idle", &traced(scenario, &env, name), input);
            assert_eq!(outcome.signal().map(i64::from), input["signal"].as_i64(), "{}", outcome.ending());
            outcome.stderr
        };
        let counted = "a process died while a worker";
        for run in 0..10 {
            let signal = [libc::SIGTERM, libc::SIGKILL][run % 2];
            let said = killed(&format!("idle {run}"), &json!({ "signal": signal }));
            assert!(!said.contains(counted), "{run}: {said}");
        }
        // One that meets a worker in the driver counts, until a run has shown that its workers live.
        for run in 0..3 {
            // After the end of a good run calls are not marked.
            killed(&format!("before {run}"), &json!({ "signal": libc::SIGKILL }));
            killed(&format!("in {run}"), &json!({ "signal": libc::SIGKILL, "in_call": 7 }));
            // A user hears nothing of it: that is how programs like Chromium end.
            let env = traced(scenario, &env, &format!("good {run}")).var("VKSTASH_LOG", "info");
            let good = scenario.run("idle", &env, &json!({}));
            good.ok();
            let line = good.stderr.lines().find(|line| line.contains(counted)).map(str::to_owned);
            assert!(line.is_some_and(|line| line.contains(" info: ")), "{run}: {}", good.stderr);
        }
        assert_eq!(parked_now(scenario, &env, "last"), u64::from(COUNT));
        for run in 0..3 {
            killed(&format!("row {run}"), &json!({ "signal": libc::SIGTERM, "in_call": 7 }));
        }
        assert_eq!(parked_now(scenario, &env, "off"), 0, "three in a row, of which two are counted");
    });
}

/// Creates a device, and ends the main thread alone.
fn end_main_thread(_: &Value) -> Value {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let device = Device::new(&instance, &work().device_options()).unwrap();
    let driver = TestDriver::open();
    until_workers_make(&driver, COUNT.into());
    std::mem::forget((device, instance));
    // The harness waits on the main thread for this one: a forked child has this thread only, as its main thread.
    // SAFETY: the child ends its only thread of the program's; the pipe's ends and the byte are on this stack.
    unsafe {
        let (mut ends, mut byte) = ([0; 2], 0_u8);
        assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
        let child = libc::fork();
        if child == 0 {
            let instance = Instance::new(&InstanceOptions::default()).unwrap();
            let device = Device::new(&instance, &work().device_options()).unwrap();
            until_workers_make(&driver, COUNT.into());
            std::mem::forget((device, instance));
            libc::write(ends[1], c"e".as_ptr().cast(), 1);
            libc::pthread_exit(std::ptr::null_mut());
        }
        // From the end of the thread on, however long the machine needs until then.
        libc::close(ends[1]);
        assert_eq!(libc::read(ends[0], (&raw mut byte).cast(), 1), 1, "the child has come to its end");
        let begun = std::time::Instant::now();
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
        json!(begun.elapsed().as_secs())
    }
}

#[test]
fn a_program_whose_main_thread_ends_does_not_wait_for_workers() {
    scenario(&[("work", work::step), ("end_main_thread", end_main_thread)], |scenario| {
        let Some(env) = filled(scenario, Driver::Test(json!({}))) else { return };
        let run = scenario.run_ok::<u64>("end_main_thread", &env, &());
        assert!(run.value < 15, "{} s: what is parked is released after 20 s", run.value);
    });
}
