//! The layer panics in the middle of a call: the program goes on as without the layer, no object of the driver is
//! leaked, and a log line says what happened.

use std::ffi::{CStr, CString, c_void};
use std::os::unix::ffi::OsStringExt as _;
use std::ptr;
use std::sync::{Arc, Mutex, OnceLock};

use ash::vk;
use serde::Deserialize;
use serde_json::{Value, json};

use vkstash_layer_tests::child::{Outcome, Run, Scenario, scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::paths::layer_library;
use vkstash_layer_tests::test_driver::TestDriver;
use vkstash_layer_tests::vulkan::{Device, DeviceOptions, Instance, InstanceOptions, spirv};
use vkstash_layer_tests::work::{Caches, Done, Shader, Work};

/// The results of a program, and the driver's record.
#[derive(Debug, Deserialize)]
struct Seen {
    done: Done,
    violations: Vec<String>,
    /// Numbers of instances and devices that were created and destroyed.
    made: Value,
}

/// Runs the program, and takes the driver's record when everything is destroyed.
fn step(input: &Value) -> Value {
    let work: Work = serde_json::from_value(input.clone()).unwrap();
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let driver = TestDriver::open();
    let device = Device::new(&instance, &work.device_options()).unwrap();
    let done = work.run(&device);
    drop(device);
    drop(Arc::into_inner(instance));
    let record = driver.take_record();
    let calls = record["calls"].as_array().unwrap();
    let count = |name| calls.iter().filter(|call| call["command"] == name && call["result"] == 0).count();
    let made = ["vkCreateInstance", "vkDestroyInstance", "vkCreateDevice", "vkDestroyDevice"].map(count);
    json!({ "done": done, "violations": record["violations"], "made": made })
}

fn run(scenario: &Scenario, env: &Env, work: &Work) -> Run<Seen> {
    scenario.run_ok::<Seen>("step", env, work)
}

/// Runs the program with a panic at this place; its results are those without the layer.
fn assert_untouched(scenario: &Scenario, env: &Env, work: &Work, place: &str, name: &str) -> Outcome {
    let env = env.clone().stash(scenario.folder().join(name));
    let alone = run(scenario, &env.clone().without_layer(), work);
    let report = scenario.folder().join(format!("report of {name}"));
    let env = env.report(report).var("VKSTASH_TEST_PANIC", place).var("RUST_BACKTRACE", "0");
    let outcome = scenario.run("step", &env, work);
    let with: Seen = serde_json::from_value(outcome.ok()).unwrap();
    let without = &alone.value;
    assert_eq!(with.violations, Vec::<String>::new(), "{place}: {}", outcome.stderr);
    assert_eq!(with.made, without.made, "{place}: made and destroyed");
    assert_eq!(with.made[0], with.made[1], "{place}: instances");
    assert_eq!(with.made[2], with.made[3], "{place}: devices");
    assert_eq!((&with.done.results, &with.done.made), (&without.done.results, &without.done.made), "{place}");
    let line = "internal failure in ";
    assert!(outcome.stderr.contains("panicked at"), "{place} was not reached: {}", outcome.stderr);
    assert!(outcome.stderr.contains(line), "{place}: {}", outcome.stderr);
    outcome
}

fn on_the_test_driver(test: impl FnOnce(&Scenario, &Env)) {
    scenario(&[("step", step)], |scenario| {
        if !cfg!(debug_assertions) {
            return scenario.not_here("a release build cannot inject failures");
        }
        if let Some(env) = scenario.on(Driver::Test(json!({}))) {
            test(scenario, &env);
        }
    });
}

#[test]
fn a_panic_while_an_instance_or_a_device_is_created_does_not_fail_the_program() {
    on_the_test_driver(|scenario, env| {
        for (number, place) in ["instance made", "device wanted", "device made"].into_iter().enumerate() {
            let name = format!("stash-{number}");
            let outcome = assert_untouched(scenario, env, &Work::default(), place, &name);
            assert!(
                outcome.reports.0.is_empty(),
                "{place}: the layer must be inactive: {:?}",
                outcome.reports
            );
        }
    });
}

#[test]
fn a_panic_at_one_pipeline_does_not_fail_the_batch() {
    on_the_test_driver(|scenario, env| {
        for shader in [Shader::Compute, Shader::RenderPass] {
            for caches in [Caches::None, Caches::Shared] {
                for place in ["pipeline asked for", "pipeline made"] {
                    for number in [1, 2, 3] {
                        for (batch, warm) in [(1, false), (3, false), (3, true)] {
                            let work = Work { shader, caches, batch, count: 3, ..Work::default() };
                            let name = format!("{shader:?}-{caches:?}-{place}-{number}-{batch}-{warm}");
                            if warm {
                                let env = env.clone().stash(scenario.folder().join(&name));
                                run(scenario, &env, &work);
                            }
                            let place = format!("{place}:{number}");
                            let outcome = assert_untouched(scenario, env, &work, &place, &name);
                            let counters = outcome.reports.counters();
                            assert_eq!(outcome.reports.sum("internal_failures"), 1, "{name}: {counters:?}");
                        }
                    }
                }
            }
        }
    });
}

#[test]
fn a_panic_while_a_device_is_looked_up_does_not_fail_the_program() {
    on_the_test_driver(|scenario, env| {
        for number in 1..=8 {
            let place = format!("device looked up:{number}");
            assert_untouched(scenario, env, &Work::default(), &place, &format!("stash-{number}"));
        }
    });
}

/// The device, the work, and what it came to.
type Late = (Device, Work, Option<Done>);

static LATE: Mutex<Option<Late>> = Mutex::new(None);
static KEY: OnceLock<libc::pthread_key_t> = OnceLock::new();

/// Does the work on a thread whose thread-local storage is gone: in the third round of destructors, because Rust's
/// standard library may need two.
extern "C" fn does_it(round: *mut c_void) {
    if round.addr() < 3 {
        // SAFETY: a live key; its destructor does not follow the value.
        unsafe { libc::pthread_setspecific(*KEY.get().unwrap(), ptr::without_provenance(round.addr() + 1)) };
        return;
    }
    let mut late = LATE.lock().unwrap();
    let (device, work, done) = late.as_mut().unwrap();
    *done = Some(work.run(device));
}

/// The step: the work in a destructor of thread-specific data, where the layer passes calls on undescribed. The
/// results, and how often the driver was called.
fn in_a_destructor(input: &Value) -> Value {
    let work: Work = serde_json::from_value(input.clone()).unwrap();
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let driver = TestDriver::open();
    let device = Device::new(&instance, &work.device_options()).unwrap();
    *LATE.lock().unwrap() = Some((device, work, None));
    let mut key = 0;
    // SAFETY: a function of this program, and a valid pointer for the key.
    assert_eq!(unsafe { libc::pthread_key_create(&mut key, Some(does_it)) }, 0);
    KEY.set(key).unwrap();
    let thread = std::thread::spawn(|| {
        let late = LATE.lock().unwrap();
        // The layer's thread-local storage exists from here on.
        assert!(Work { first: 100, ..Work::default() }.run(&late.as_ref().unwrap().0).all_made());
        // SAFETY: a live key; its destructor does not follow the value.
        unsafe { libc::pthread_setspecific(*KEY.get().unwrap(), ptr::without_provenance(1)) };
        TestDriver::open().take_record();
    });
    thread.join().unwrap();
    let (device, _, done) = LATE.lock().unwrap().take().unwrap();
    let record = driver.take_record();
    drop(device);
    let calls = record["calls"].as_array().unwrap();
    let creates = |call: &&Value| call["command"].as_str().unwrap().ends_with("Pipelines");
    json!({ "done": done, "violations": record["violations"], "made": calls.iter().filter(creates).count() })
}

/// Where the layer fails before it knows whether the stages have code, the driver must not get the call.
#[test]
fn a_call_of_which_nothing_is_known_fails_without_the_driver() {
    scenario(&[("step", in_a_destructor)], |scenario| {
        if !cfg!(debug_assertions) {
            return scenario.not_here("a release build cannot inject failures");
        }
        let env = scenario.on(Driver::Test(json!({}))).unwrap();
        for shader in [Shader::Compute, Shader::RenderPass] {
            let work = Work { shader, batch: 3, identifiers: true, ..Work::default() };
            let sound: Seen = scenario.run_ok("step", &env, &work).value;
            assert_eq!((sound.done.all_made(), sound.made), (true, json!(1)));
            let outcome = scenario.run("step", &env.clone().var("VKSTASH_TEST_PANIC", "call judged"), &work);
            let failed: Seen = serde_json::from_value(outcome.ok()).unwrap();
            assert!(outcome.stderr.contains("panicked at"), "it was not reached: {}", outcome.stderr);
            assert_eq!(failed.done.results, [vk::Result::ERROR_UNKNOWN.as_raw()]);
            assert_eq!((failed.done.made, failed.made), (vec![false; 3], json!(0)));
            assert_eq!(failed.violations, Vec::<String>::new());
        }
    });
}

/// VkNegotiateLayerInterface.
#[repr(C)]
struct Negotiation {
    s_type: i32,
    p_next: *mut c_void,
    version: u32,
    get_instance_proc_addr: Option<vk::PFN_vkGetInstanceProcAddr>,
    others: [*mut c_void; 2],
}

/// The commands that a layer above gets from this layer's vkGetInstanceProcAddr.
fn commands_of_the_layer(instance: &Instance, device: &Device) -> ash::Device {
    let path = CString::new(layer_library().into_os_string().into_vec()).unwrap();
    // SAFETY: the library that the loader has loaded; its command has this type.
    unsafe {
        let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD);
        assert!(!library.is_null(), "the layer is loaded");
        let negotiate = libc::dlsym(library, c"vkNegotiateLoaderLayerInterfaceVersion".as_ptr());
        assert!(!negotiate.is_null());
        let negotiate: unsafe extern "system" fn(&mut Negotiation) -> vk::Result =
            std::mem::transmute(negotiate);
        let mut negotiation = Negotiation {
            s_type: 1,
            p_next: ptr::null_mut(),
            version: 2,
            get_instance_proc_addr: None,
            others: [ptr::null_mut(); 2],
        };
        negotiate(&mut negotiation).result().unwrap();
        let get = negotiation.get_instance_proc_addr.unwrap();
        let look_up = |name: &CStr| match get(instance.raw.handle(), name.as_ptr()) {
            Some(found) => found as *const c_void,
            None => ptr::null(),
        };
        ash::Device::load_with(look_up, device.raw.handle())
    }
}

/// Uses a device through those commands. The driver's record.
fn through_instance_commands(_: &Value) -> Value {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let driver = TestDriver::open();
    let device = Device::new(&instance, &DeviceOptions::default()).unwrap();
    let raw = commands_of_the_layer(&instance, &device);
    driver.take_record();
    let code = spirv::compute(1);
    // SAFETY: a live device, valid create infos, and objects that are destroyed once.
    unsafe {
        raw.get_device_queue(0, 0);
        let module =
            raw.create_shader_module(&vk::ShaderModuleCreateInfo::default().code(&code), None).unwrap();
        let layout = raw.create_pipeline_layout(&vk::PipelineLayoutCreateInfo::default(), None).unwrap();
        let cache = raw.create_pipeline_cache(&vk::PipelineCacheCreateInfo::default(), None).unwrap();
        let stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(module)
            .name(c"main");
        let info = vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout);
        let made = raw.create_compute_pipelines(cache, &[info], None).unwrap();
        assert!(raw.get_pipeline_cache_data(cache).unwrap().len() > 32);
        raw.destroy_pipeline(made[0], None);
        raw.destroy_pipeline_cache(cache, None);
        raw.destroy_pipeline_layout(layout, None);
        raw.destroy_shader_module(module, None);
    }
    driver.take_record()
}

/// vkGetInstanceProcAddr does not know on which device a command will be used.
#[test]
fn commands_of_the_instance_pass_on_what_is_called_on_a_device_that_the_layer_leaves_alone() {
    scenario(&[("step", through_instance_commands)], |scenario| {
        if !cfg!(debug_assertions) {
            return scenario.not_here("a release build cannot inject failures");
        }
        let env = scenario.on(Driver::Test(json!({}))).unwrap();
        for place in [None, Some("device made")] {
            let env = place.into_iter().fold(env.clone(), |env, place| env.var("VKSTASH_TEST_PANIC", place));
            let record = scenario.run("step", &env, &()).ok();
            assert_eq!(record["violations"], json!([]));
            let calls = record["calls"].as_array().unwrap();
            assert!(calls.iter().any(|call| call["command"] == "vkCreateComputePipelines"));
        }
    });
}
