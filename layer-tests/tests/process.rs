//! The layer as a guest: what a host process may do to itself, and what the layer must not do to it.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fs;
use std::os::fd::IntoRawFd as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ash::vk;
use serde_json::{Value, json};

use vkstash_layer_tests::child::{self, Scenario, scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::suite::{assert_all_served, run};
use vkstash_layer_tests::vulkan::{Device, DeviceOptions, Instance, InstanceOptions};
use vkstash_layer_tests::work::{self, Work};

fn on_radv(step: child::Step, test: impl FnOnce(&Scenario, &Env)) {
    scenario(&[("step", step), ("work", work::step)], |scenario| {
        if let Some(env) = scenario.on(Driver::Radv) {
            test(scenario, &env);
        }
    });
}

fn device() -> Device {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    Device::new(&instance, &DeviceOptions::default()).unwrap()
}

/// Every destroy command takes VK_NULL_HANDLE.
fn destroy_null_handles(_: &Value) -> Value {
    let device = device();
    let raw = &device.raw;
    let null = std::ptr::null();
    // SAFETY: the specification allows VK_NULL_HANDLE in each of these.
    unsafe {
        raw.destroy_shader_module(vk::ShaderModule::null(), None);
        raw.destroy_pipeline_cache(vk::PipelineCache::null(), None);
        raw.destroy_pipeline_layout(vk::PipelineLayout::null(), None);
        raw.destroy_descriptor_set_layout(vk::DescriptorSetLayout::null(), None);
        raw.destroy_render_pass(vk::RenderPass::null(), None);
        raw.destroy_sampler(vk::Sampler::null(), None);
        raw.destroy_pipeline(vk::Pipeline::null(), None);
        (raw.fp_v1_0().destroy_device)(vk::Device::null(), null);
        (device.instance.raw.fp_v1_0().destroy_instance)(vk::Instance::null(), null);
    }
    json!(Work::default().run(&device).all_made())
}

#[test]
fn null_handles_can_be_destroyed() {
    on_radv(destroy_null_handles, |scenario, env| assert!(scenario.run_ok::<bool>("step", env, &()).value));
}

/// Content of the program's own files.
const OWN: &[u8] = b"the program's own";

/// The numbers of this process's descriptors, with their targets.
fn descriptors() -> BTreeMap<i32, PathBuf> {
    let entries = fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().path());
    let number = |path: &Path| path.file_name().unwrap().to_str().unwrap().parse().unwrap();
    entries.filter_map(|path| Some((number(&path), fs::read_link(&path).ok()?))).collect()
}

/// Closes all descriptors that it did not open itself, as daemons do, and goes on with files of its own in this
/// folder. Gives the files whose content changed.
fn close_all(input: &Value) -> Value {
    let folder: PathBuf = serde_json::from_value(input.clone()).unwrap();
    let device = device();
    assert!(Work::default().run(&device).all_made());
    // Until the layer has opened all files that it keeps open.
    let stash = std::env::var_os("VKSTASH_DIR").unwrap();
    let is_written = || descriptors().values().filter(|path| path.starts_with(&stash)).count() > 3;
    while !is_written() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let last = *descriptors().keys().last().unwrap();
    // SAFETY: close takes any number; closing the layer's descriptors is what this test is about.
    (3..=last).for_each(|number| _ = unsafe { libc::close(number) });
    let mut own = Vec::new();
    for number in 3..=last {
        let path = folder.join(number.to_string());
        fs::write(&path, OWN).unwrap();
        let file = fs::File::options().read(true).write(true).open(&path).unwrap();
        own.push((file.into_raw_fd(), path));
    }
    let more = Work { first: 100, count: 20, ..Work::default() };
    assert!(more.run(&device).all_made());
    drop(device);
    let open = descriptors();
    own.retain(|(number, path)| open.get(number) != Some(path) || fs::read(path).unwrap() != OWN);
    json!(own)
}

#[test]
fn a_program_that_closes_all_descriptors_keeps_its_own_files_intact() {
    scenario(&[("step", close_all), ("work", work::step)], |scenario| {
        let Some(env) = scenario.on(Driver::Test(json!({}))) else { return };
        run(scenario, &env, &Work::default());
        let own = scenario.folder().join("own");
        fs::create_dir(&own).unwrap();
        let logging = env.clone().var("VKSTASH_LOG", "trace");
        let logging = logging.var("VKSTASH_LOG_FILE", scenario.folder().join("log"));
        let changed: Vec<(i32, PathBuf)> = scenario.run_ok("step", &logging, &own).value;
        assert!(changed.is_empty(), "{changed:?}");
        // Records that were written before are served.
        assert_all_served(&run(scenario, &env, &Work::default()), 3);
    });
}

const COMMANDS: [&CStr; 33] = [
    c"vkGetInstanceProcAddr",
    c"vkGetDeviceProcAddr",
    c"vkCreateInstance",
    c"vkDestroyInstance",
    c"vkEnumerateInstanceExtensionProperties",
    c"vkEnumeratePhysicalDevices",
    c"vkEnumerateDeviceExtensionProperties",
    c"vkGetPhysicalDeviceFeatures2",
    c"vkGetPhysicalDeviceFeatures2KHR",
    c"vkGetPhysicalDeviceProperties2",
    c"vkGetPhysicalDeviceProperties2KHR",
    c"vkCreateDevice",
    c"vkDestroyDevice",
    c"vkCreateShaderModule",
    c"vkDestroyShaderModule",
    c"vkCreateSampler",
    c"vkCreatePipelineCache",
    c"vkGetPipelineCacheData",
    c"vkMergePipelineCaches",
    c"vkCreateComputePipelines",
    c"vkCreateGraphicsPipelines",
    c"vkCreateRayTracingPipelinesKHR",
    c"vkCreateRayTracingPipelinesNV",
    c"vkCreateRenderPass2",
    c"vkCreateRenderPass2KHR",
    c"vkGetShaderModuleIdentifierEXT",
    c"vkGetShaderModuleCreateInfoIdentifierEXT",
    c"vkQueueSubmit2",
    c"vkQueueSubmit2KHR",
    c"vkCmdDraw",
    c"vkGetPipelineKeyKHR",
    c"vkCreateSwapchainKHR",
    c"vkCreateNothing",
];

/// The commands that each of the two look-ups knows, by name.
fn look_ups(_: &Value) -> Value {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let device = Device::new(&instance, &DeviceOptions::default()).unwrap();
    let known = |name: &CStr| {
        let get = instance.entry.static_fn().get_instance_proc_addr;
        // SAFETY: a live instance, and a NUL-terminated name.
        let by_instance = unsafe { get(instance.raw.handle(), name.as_ptr()) }.is_some();
        (name.to_str().unwrap().to_owned(), by_instance, device.has_command(name))
    };
    json!(COMMANDS.map(known).to_vec())
}

#[test]
fn look_ups_find_the_same_commands_as_without_the_layer() {
    for driver in [Driver::Radv, Driver::Lavapipe] {
        scenario(&[("step", look_ups)], |scenario| {
            let Some(env) = scenario.on(driver.clone()) else { return };
            let ask = |env: &Env| scenario.run_ok::<Vec<(String, bool, bool)>>("step", env, &()).value;
            let (with, without) = (ask(&env), ask(&env.clone().without_layer()));
            let new: Vec<_> = with.iter().filter(|known| !without.contains(known)).collect();
            // On a driver that lacks them, the emulated commands may be found by instance; no other differs.
            let emulated = |name: &str| driver == Driver::Lavapipe && name.contains("Identifier");
            assert!(new.iter().all(|(name, _, by_device)| emulated(name) && !by_device), "{new:?}");
        });
    }
}

/// The device that the exit handler below destroys.
static DEVICE: Mutex<Option<Device>> = Mutex::new(None);

extern "C" fn late_destructor() {
    let device = DEVICE.lock().unwrap().take().unwrap();
    let made = Work { first: 500, ..Work::default() }.run(&device).all_made();
    drop(device);
    child::answer(&json!(made));
    // SAFETY: _exit has no preconditions; it ends the process before the step's own answer.
    unsafe { libc::_exit(0) };
}

/// A handler that is registered before Vulkan is loaded runs after all others.
fn global_destructor(_: &Value) -> Value {
    // SAFETY: a function of this program.
    unsafe { libc::atexit(late_destructor) };
    let device = device();
    assert!(Work::default().run(&device).all_made());
    *DEVICE.lock().unwrap() = Some(device);
    std::process::exit(3)
}

/// C++ programs with their device in a global object end like this.
#[test]
fn a_device_can_be_used_and_destroyed_in_an_exit_handler() {
    for driver in [Driver::Radv, Driver::Lavapipe] {
        scenario(&[("step", global_destructor)], |scenario| {
            let Some(env) = scenario.on(driver) else { return };
            let without = scenario.run("step", &env.clone().without_layer(), &());
            if !without.status.success() {
                return scenario.skip(&without.ending());
            }
            for _ in 0..2 {
                let with = scenario.run("step", &env, &());
                assert_eq!(with.ok(), json!(true));
            }
        });
    }
}

/// The masks of blocked signals of the layer's threads.
fn signal_masks(_: &Value) -> Value {
    let device = device();
    assert!(Work::default().run(&device).all_made());
    let mut masks = Vec::new();
    for _ in 0..10_000 {
        for task in fs::read_dir("/proc/self/task").unwrap().flatten() {
            let name = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
            let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
            let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
            if let (true, Some(blocked)) = (name.starts_with("vkstash"), blocked) {
                masks.push(u64::from_str_radix(blocked.trim(), 16).unwrap());
            }
        }
        if !masks.is_empty() {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    json!(masks)
}

/// A signal to the process goes to any thread that does not block it: the host's handlers must run on the host's
/// threads.
#[test]
fn the_layers_threads_block_the_hosts_signals() {
    on_radv(signal_masks, |scenario, env| {
        let masks = scenario.run_ok::<Vec<u64>>("step", env, &()).value;
        assert!(!masks.is_empty(), "the writer was seen");
        for signal in
            [libc::SIGINT, libc::SIGTERM, libc::SIGALRM, libc::SIGUSR1, libc::SIGCHLD, libc::SIGPROF]
        {
            assert!(masks.iter().all(|mask| mask >> (signal - 1) & 1 == 1), "signal {signal}: {masks:x?}");
        }
    });
}

/// No more files can be opened.
fn out_of_files(_: &Value) -> Value {
    let device = Arc::new(device());
    let open = fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    let limit = libc::rlimit { rlim_cur: (open - 1) as libc::rlim_t, rlim_max: (open - 1) as libc::rlim_t };
    // SAFETY: a valid limit structure.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
    json!(Work { count: 20, ..Work::default() }.run(&device).all_made())
}

#[test]
fn a_program_without_free_descriptors_runs() {
    on_radv(out_of_files, |scenario, env| {
        assert!(scenario.run_ok::<bool>("step", env, &()).value);
        run(scenario, env, &Work { count: 20, ..Work::default() });
        assert!(scenario.run_ok::<bool>("step", env, &()).value);
    });
}

/// Creates pipelines on a thread that is about to end.
extern "C" fn at_thread_exit(verdict: *mut std::ffi::c_void) {
    let device = DEVICE.lock().unwrap();
    let made = Work { first: 300, ..Work::default() }.run(device.as_ref().unwrap()).all_made();
    // SAFETY: the thread below stored a pointer to a flag that outlives the thread.
    unsafe { *verdict.cast::<bool>() = made };
}

/// Destructors of pthread keys run after thread-local storage of other kinds is destroyed.
fn end_threads(_: &Value) -> Value {
    *DEVICE.lock().unwrap() = Some(device());
    let mut key = 0;
    // SAFETY: a function of this program, and a valid pointer for the key.
    assert_eq!(unsafe { libc::pthread_key_create(&mut key, Some(at_thread_exit)) }, 0);
    let mut verdicts = [false; 3];
    for verdict in &mut verdicts {
        let place = std::ptr::from_mut(verdict).expose_provenance();
        let thread = std::thread::spawn(move || {
            assert!(Work::default().run(DEVICE.lock().unwrap().as_ref().unwrap()).all_made());
            let place = std::ptr::with_exposed_provenance_mut::<std::ffi::c_void>(place);
            // SAFETY: a live key; the flag outlives the thread, which is joined.
            unsafe { libc::pthread_setspecific(key, place) };
        });
        thread.join().unwrap();
    }
    drop(DEVICE.lock().unwrap().take());
    json!(verdicts)
}

#[test]
fn a_thread_can_use_vulkan_in_its_destructors() {
    for driver in [Driver::Radv, Driver::Lavapipe] {
        scenario(&[("step", end_threads)], |scenario| {
            let Some(env) = scenario.on(driver) else { return };
            for _ in 0..2 {
                assert_eq!(scenario.run_ok::<[bool; 3]>("step", &env, &()).value, [true; 3]);
            }
        });
    }
}

/// A destructor of a pthread key destroys the device and the instance.
extern "C" fn destroys_all(_: *mut std::ffi::c_void) {
    drop(DEVICE.lock().unwrap().take());
}

fn end_with_a_thread(_: &Value) -> Value {
    let mut key = 0;
    // SAFETY: a function of this program, and a valid pointer for the key.
    assert_eq!(unsafe { libc::pthread_key_create(&mut key, Some(destroys_all)) }, 0);
    let thread = std::thread::spawn(move || {
        let device = device();
        let made = Work { count: 40, ..Work::default() }.run(&device).all_made();
        *DEVICE.lock().unwrap() = Some(device);
        // SAFETY: a live key; its destructor does not use the value.
        unsafe { libc::pthread_setspecific(key, std::ptr::dangling()) };
        made
    });
    let made = thread.join().unwrap();
    json!(made && DEVICE.lock().unwrap().is_none())
}

#[test]
fn a_device_and_its_instance_are_destroyed_without_thread_local_storage() {
    scenario(&[("step", end_with_a_thread)], |scenario| {
        let Some(env) = scenario.on(Driver::Radv) else { return };
        let env = env.var("VKSTASH_ASK_FIRST", "auto");
        for _ in 0..3 {
            let run = scenario.run_ok::<bool>("step", &env, &());
            assert!(run.value && !run.stderr.contains("panicked"), "{}", run.stderr);
        }
    });
}
