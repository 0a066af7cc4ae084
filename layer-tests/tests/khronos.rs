//! The layer between the installed loader and the Khronos loader's own test driver: negotiation, look-ups, several
//! GPUs, commands that the layer does not know, repeated use in one process, and other layers above and below this
//! one.
//!
//! scripts/khronos-icd.sh builds the driver; layer-tests/khronos/driver.cpp says what its GPUs have.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use ash::vk::{self, Handle};
use serde_json::{Value, json};

use vkstash_layer_tests::child::Scenario;
use vkstash_layer_tests::env::{self, Env, Layer};
use vkstash_layer_tests::khronos::{self, LayerLibrary, Negotiation, owner};
use vkstash_layer_tests::suite::files;
use vkstash_layer_tests::vulkan::{Device, DeviceOptions, IDENTIFIER_EXTENSION, Instance, InstanceOptions};
use vkstash_layer_tests::work::Work;

const ALPHA: usize = 0;
const BETA: usize = 1;
const GAMMA: usize = 2;

fn instance() -> Arc<Instance> {
    Instance::new(&InstanceOptions::default()).unwrap()
}

fn device(instance: &Arc<Instance>, gpu: usize, options: &DeviceOptions) -> Device {
    Device::on(instance, instance.physical_devices()[gpu], options).unwrap()
}

// --- negotiation; needs no driver -----------------------------------------------------------------------------

#[test]
fn loaders_from_version_two_on_get_version_two() {
    let layer = LayerLibrary::open();
    for version in [2, 3, 7, u32::MAX] {
        let (result, asked) = layer.look_ups(version);
        assert_eq!((result, asked.version), (vk::Result::SUCCESS, 2), "asked for {version}");
        assert!(asked.instance.is_some() && asked.device.is_some() && asked.physical_device.is_some());
        assert!(asked.p_next.is_null() && asked.s_type == 1, "{asked:?}");
    }
}

#[test]
fn loaders_that_cannot_be_served_are_refused_and_nothing_is_written() {
    let layer = LayerLibrary::open();
    for (s_type, version) in [(1, 0), (1, 1), (0, 2), (2, 2), (i32::MAX, 2)] {
        let mut asked = Negotiation::new(s_type, version);
        let result = layer.negotiate(Some(&mut asked));
        assert_eq!(result, vk::Result::ERROR_INITIALIZATION_FAILED, "sType {s_type}, version {version}");
        assert!(asked.instance.is_none() && asked.device.is_none() && asked.physical_device.is_none());
        assert_eq!((asked.s_type, asked.version), (s_type, version));
    }
    assert_eq!(layer.negotiate(None), vk::Result::ERROR_INITIALIZATION_FAILED);
}

#[test]
fn without_an_instance_only_the_layers_own_commands_are_found() {
    let layer = LayerLibrary::open();
    let look_up = layer.look_ups(2).1.instance.unwrap();
    // SAFETY: a null instance is allowed for these look-ups (the layer interface), and the names end with NUL.
    let find = |name: &CStr| owner(unsafe { look_up(vk::Instance::null(), name.as_ptr()) });
    for name in [c"vkCreateInstance", c"vkGetInstanceProcAddr", c"vkEnumerateInstanceVersion"] {
        assert_eq!(find(name), "layer", "{name:?}");
    }
    for name in [
        c"vkEnumeratePhysicalDevices",
        c"vkGetPhysicalDeviceFeatures2",
        c"vkCreateComputePipelines",
        c"vkGetShaderModuleIdentifierEXT",
        c"vkUnheardOfInstanceVKSTASH",
        c"",
    ] {
        assert_eq!(find(name), "none", "{name:?}");
    }
}

/// A layer above asks before there is an instance.
#[test]
fn the_version_without_an_instance_is_the_loaders() {
    // SAFETY: the system's own loader, which stays loaded until the end of this function.
    let entry = unsafe { ash::Entry::load() }.unwrap();
    let layer = LayerLibrary::open();
    let look_up = layer.look_ups(2).1.instance.unwrap();
    // SAFETY: a null instance and a name with a NUL; the command has this type, and writes one number.
    let version = unsafe {
        let found = look_up(vk::Instance::null(), c"vkEnumerateInstanceVersion".as_ptr()).unwrap();
        let command: vk::PFN_vkEnumerateInstanceVersion = std::mem::transmute(found);
        let mut version = 0;
        command(&mut version).result().unwrap();
        version
    };
    // SAFETY: the loader's own command.
    assert_eq!(Some(version), unsafe { entry.try_enumerate_instance_version() }.unwrap());
}

// --- look-ups -------------------------------------------------------------------------------------------------

const HOOKED: [&CStr; 8] = [
    c"vkCreateShaderModule",
    c"vkDestroyShaderModule",
    c"vkCreatePipelineLayout",
    c"vkCreatePipelineCache",
    c"vkGetPipelineCacheData",
    c"vkCreateComputePipelines",
    c"vkDestroyDevice",
    c"vkGetDeviceProcAddr",
];
const LACKING: [&CStr; 7] = [
    c"vkCreateGraphicsPipelines",
    c"vkCreateRayTracingPipelinesKHR",
    c"vkCreateRayTracingPipelinesNV",
    c"vkMergePipelineCaches",
    c"vkCreateRenderPass2KHR",
    c"vkCreateSampler",
    c"vkNobodyHasThisVKSTASH",
];
const DRIVERS_OWN: [&CStr; 3] = [c"vkDestroyPipeline", c"vkCreateCommandPool", c"vkUnheardOfDeviceVKSTASH"];
const IDENTIFIERS: [&CStr; 2] =
    [c"vkGetShaderModuleIdentifierEXT", c"vkGetShaderModuleCreateInfoIdentifierEXT"];

/// Which library owns each command that the layer's own vkGetDeviceProcAddr finds on a device.
fn owners(device: &Device) -> BTreeMap<String, String> {
    let layer = LayerLibrary::open();
    let look_up = layer.look_ups(2).1.device.unwrap();
    let names = HOOKED.iter().chain(&LACKING).chain(&DRIVERS_OWN).chain(&IDENTIFIERS);
    // SAFETY: `device` lives through this call, and the names end with NUL.
    let find = |name: &CStr| owner(unsafe { look_up(device.raw.handle(), name.as_ptr()) });
    names.map(|name| (name.to_string_lossy().into_owned(), find(name))).collect()
}

/// For each GPU: the owners on a device without identifiers, and on one with identifiers where the GPU has them.
fn look_ups(_: &Value) -> Value {
    let instance = instance();
    let of = |gpu, identifiers| {
        let options = DeviceOptions { identifiers, ..DeviceOptions::default() };
        let known = instance.has(instance.physical_devices()[gpu], IDENTIFIER_EXTENSION);
        (known || !identifiers).then(|| owners(&device(&instance, gpu, &options)))
    };
    json!([ALPHA, BETA, GAMMA].map(|gpu| [of(gpu, false), of(gpu, true)]))
}

#[test]
fn a_device_has_what_its_driver_has_and_identifiers_where_enabled() {
    khronos::on(&[("look-ups", look_ups)], |scenario, env| {
        type Owners = Option<BTreeMap<String, String>>;
        let found = scenario.run_ok::<[[Owners; 2]; 3]>("look-ups", env, &()).value;
        for (gpu, enabled, owners) in
            found.iter().enumerate().flat_map(|(gpu, pair)| [(gpu, false, &pair[0]), (gpu, true, &pair[1])])
        {
            let Some(owners) = owners else {
                assert!(gpu == GAMMA && enabled, "GPU {gpu} has no identifiers");
                continue;
            };
            let is = |name: &CStr, wanted: &str| {
                let name = name.to_str().unwrap();
                assert_eq!(owners[name], wanted, "{name} on GPU {gpu}, identifiers enabled: {enabled}");
            };
            HOOKED.iter().for_each(|name| is(name, "layer"));
            LACKING.iter().for_each(|name| is(name, "none"));
            DRIVERS_OWN.iter().for_each(|name| is(name, "driver"));
            let identifiers = match (enabled, gpu) {
                (false, _) => "none",
                (true, BETA) => "driver",
                (true, _) => "layer",
            };
            IDENTIFIERS.iter().for_each(|name| is(name, identifiers));
        }
    });
}

/// The libraries whose commands the layer's vk_layerGetPhysicalDeviceProcAddr and vkGetInstanceProcAddr find with an
/// instance.
fn with_instance(names: &Value) -> Value {
    let instance = instance();
    let layer = LayerLibrary::open();
    let look_ups = layer.look_ups(2).1;
    let find = |look_up: Option<vk::PFN_vkGetInstanceProcAddr>, name: &Value| {
        let name = CString::new(name.as_str().unwrap()).unwrap();
        // SAFETY: `instance` lives through this call, and the name ends with NUL.
        owner(unsafe { look_up.unwrap()(instance.raw.handle(), name.as_ptr()) })
    };
    let names = names.as_array().unwrap();
    json!(
        names
            .iter()
            .map(|n| [find(look_ups.physical_device, n), find(look_ups.instance, n)])
            .collect::<Vec<_>>()
    )
}

#[test]
fn only_physical_device_commands_are_found_as_such() {
    // Name; owner as a physical-device command; owner as a command of an instance.
    let table = [
        ("vkCreateDevice", "layer", "layer"),
        ("vkEnumerateDeviceExtensionProperties", "layer", "layer"),
        ("vkGetPhysicalDeviceFeatures2", "layer", "layer"),
        ("vkGetPhysicalDeviceProperties2", "layer", "layer"),
        ("vkGetInstanceProcAddr", "none", "layer"),
        ("vkGetDeviceProcAddr", "none", "layer"),
        ("vkCreateInstance", "none", "layer"),
        ("vkDestroyInstance", "none", "layer"),
        ("vkDestroyDevice", "none", "layer"),
        ("vkCreateShaderModule", "none", "layer"),
        ("vkCreateComputePipelines", "none", "layer"),
        ("vkUnheardOfPhysicalDeviceVKSTASH", "loader", "loader"),
        ("vkUnheardOfDeviceVKSTASH", "none", "loader"),
        ("vkUnheardOfInstanceVKSTASH", "none", "loader"),
        ("vkNobodyHasThisVKSTASH", "none", "none"),
    ];
    khronos::on(&[("look-ups", with_instance)], |scenario, env| {
        let names = table.map(|row| row.0);
        let found = scenario.run_ok::<Vec<[String; 2]>>("look-ups", env, &names).value;
        for ((name, physical, any), found) in table.iter().zip(&found) {
            assert_eq!(found[0], *physical, "{name} as a physical-device command");
            assert_eq!(found[1], *any, "{name} of an instance");
        }
    });
}

// --- commands that the layer does not know --------------------------------------------------------------------

#[repr(C)]
#[derive(Default)]
struct Arrived {
    gpu: u32,
    a: u32,
    b: u64,
    c: f32,
}
type Unknown = unsafe extern "system" fn(u64, u32, u64, f32, *mut Arrived) -> vk::Result;

/// Calls a command of the test driver. Null where the look-up found no command.
fn call(command: vk::PFN_vkVoidFunction, handle: u64, a: u32) -> Value {
    let Some(command) = command else { return Value::Null };
    let mut out = Arrived::default();
    // SAFETY: the test driver's own commands have this type (driver.cpp); dispatchable handles are 64-bit pointers
    // here.
    let result = unsafe {
        let command = std::mem::transmute::<unsafe extern "system" fn(), Unknown>(command);
        command(handle, a, 0x0123_4567_89ab_cdef, 0.5, &mut out)
    };
    json!([result.as_raw(), out.gpu, out.a, out.b, out.c])
}

fn call_unknown(_: &Value) -> Value {
    let instance = instance();
    let look_up = instance.entry.static_fn().get_instance_proc_addr;
    // SAFETY: `instance` lives through this call, and the name ends with NUL.
    let find = |name: &CStr| unsafe { look_up(instance.raw.handle(), name.as_ptr()) };
    let mut answers = Vec::new();
    for (gpu, physical) in instance.physical_devices().into_iter().enumerate() {
        let number = gpu as u32 + 10;
        answers.push(call(find(c"vkUnheardOfPhysicalDeviceVKSTASH"), physical.as_raw(), number));
        let options = DeviceOptions { extensions: vec![c"VK_VKSTASH_unheard_of"], ..Default::default() };
        let device = device(&instance, gpu, &options);
        let handle = device.raw.handle();
        // SAFETY: `device` lives through this call, and the name ends with NUL.
        let direct = unsafe {
            (instance.raw.fp_v1_0().get_device_proc_addr)(handle, c"vkUnheardOfDeviceVKSTASH".as_ptr())
        };
        answers.push(call(direct, handle.as_raw(), number));
        answers.push(call(find(c"vkUnheardOfDeviceVKSTASH"), handle.as_raw(), number));
    }
    json!(answers)
}

#[test]
fn unknown_commands_reach_the_driver_unchanged() {
    khronos::on(&[("call", call_unknown)], |scenario, env| {
        let bare = scenario.run_ok::<Vec<Value>>("call", &env.clone().without_layer(), &()).value;
        let event_set = vk::Result::EVENT_SET.as_raw();
        for gpu in 0..3 {
            let wanted = json!([event_set, gpu, gpu + 10, 0x0123_4567_89ab_cdef_u64, 0.5]);
            assert_eq!(bare[gpu * 3..gpu * 3 + 3], [wanted.clone(), wanted.clone(), wanted], "GPU {gpu}");
        }
        for layer in [Layer::Implicit, Layer::Explicit] {
            let env = env.clone().layer(layer);
            assert_eq!(scenario.run_ok::<Vec<Value>>("call", &env, &()).value, bare, "{layer:?}");
        }
    });
}

// --- several GPUs ---------------------------------------------------------------------------------------------

fn describe(_: &Value) -> Value {
    let instance = instance();
    let describe = |physical| {
        let properties = instance.properties(physical);
        // SAFETY: `physical` belongs to `instance`, which lives through this call.
        let features = unsafe { instance.raw.get_physical_device_features(physical) };
        json!({
            "device": [properties.device_id, properties.api_version],
            "uuid": properties.pipeline_cache_uuid,
            "features": [features.robust_buffer_access, features.geometry_shader, features.tessellation_shader],
            "identifiers": instance.identifier_support(physical),
            "extensions": instance.device_extensions(physical).iter().map(|name| name.to_str().unwrap().to_owned())
                .collect::<Vec<_>>(),
        })
    };
    json!(instance.physical_devices().into_iter().map(describe).collect::<Vec<_>>())
}

#[test]
fn every_gpu_keeps_its_own_properties() {
    khronos::on(&[("describe", describe)], |scenario, env| {
        let bare = scenario.run_ok::<Value>("describe", &env.clone().without_layer(), &()).value;
        let with = scenario.run_ok::<Value>("describe", env, &()).value;
        let identifier = IDENTIFIER_EXTENSION.to_str().unwrap();
        for gpu in [ALPHA, BETA, GAMMA] {
            for part in ["device", "uuid", "features"] {
                assert_eq!(with[gpu][part], bare[gpu][part], "{part} of GPU {gpu}");
            }
            assert_eq!(bare[gpu]["features"][gpu], 1, "the driver's GPUs differ");
            let times = |list: &Value| {
                list["extensions"].as_array().unwrap().iter().filter(|name| *name == identifier).count()
            };
            assert_eq!(times(&bare[gpu]), usize::from(gpu == BETA));
            assert!(times(&with[gpu]) <= 1, "{}", with[gpu]["extensions"]);
            assert_eq!(with[gpu]["identifiers"][0], times(&with[gpu]) == 1, "GPU {gpu}");
        }
        assert_eq!(
            with[BETA]["identifiers"], bare[BETA]["identifiers"],
            "a driver's own algorithm is its own"
        );
        assert_eq!(with[ALPHA]["identifiers"][0], true);
        assert_ne!(with[ALPHA]["identifiers"][1], with[BETA]["identifiers"][1]);
    });
}

/// Creates one device on each of these GPUs, all alive at the same time, and makes the same pipelines on each in
/// turn.
fn at_once(gpus: &Value) -> Value {
    let instance = instance();
    let gpus: Vec<usize> = serde_json::from_value(gpus.clone()).unwrap();
    let options = DeviceOptions { cache_control: true, ..DeviceOptions::default() };
    let devices: Vec<_> = gpus.iter().map(|&gpu| (gpu, device(&instance, gpu, &options))).collect();
    let mut good = true;
    for first in 1..4 {
        for (gpu, device) in &devices {
            good &= Work { first, count: 1, ..Work::default() }.run(device).all_made();
            let cache = device.cache(&[]);
            let data = device.cache_data(cache);
            device.destroy_cache(cache);
            good &= data.len() == 32 && data[16..32] == [b'a' + *gpu as u8; 16];
        }
    }
    json!(good)
}

#[test]
fn two_gpus_at_once_have_a_stash_each() {
    khronos::on(&[("work", at_once)], |scenario, env| {
        let run = |gpus: &[usize]| {
            let run = scenario.run_ok::<bool>("work", env, &gpus);
            assert!(run.value, "a pipeline or a cache of another GPU: {}", run.stderr);
            let sum = |name| run.reports.sum(name);
            (sum("served"), sum("compiled"))
        };
        assert_eq!(run(&[ALPHA]), (0, 3));
        // Artifacts of alpha do not serve beta.
        assert_eq!(run(&[BETA, ALPHA]), (3, 3));
        assert_eq!(run(&[ALPHA, BETA]), (6, 0));
        let parts = files(&env.stash_folder(), ".vks");
        let folders: std::collections::BTreeSet<_> = parts
            .iter()
            .filter_map(|path| path.parent())
            .filter(|p| p.to_string_lossy().contains("device-"))
            .collect();
        assert_eq!(folders.len(), 2, "{parts:?}");
    });
}

// --- repeated use in one process ------------------------------------------------------------------------------

/// How many threads and open files this process has.
fn held() -> [usize; 2] {
    ["/proc/self/task", "/proc/self/fd"].map(|folder| fs::read_dir(folder).unwrap().count())
}

fn holds_no_more_than(first: [usize; 2], now: [usize; 2]) -> bool {
    now[0] <= first[0] && now[1] <= first[1]
}

fn iterate(count: &Value) -> Value {
    let life = |round: u64| {
        let instance = instance();
        for gpu in [ALPHA, BETA] {
            let options = DeviceOptions { cache_control: true, ..DeviceOptions::default() };
            let device = device(&instance, gpu, &options);
            assert!(Work { first: round as u32 + 1, ..Work::default() }.run(&device).all_made());
        }
    };
    life(0);
    let first = held();
    (1..=count.as_u64().unwrap()).for_each(life);
    // The kernel may list a joined thread for a moment longer, now as after the first life.
    for _ in 0..100 {
        if holds_no_more_than(first, held()) {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    json!([first, held()])
}

#[test]
fn fifty_iterations_leave_neither_threads_nor_files() {
    khronos::on(&[("iterate", iterate)], |scenario, env| {
        // The program waits until the writer has ended, however busy the machine is.
        let env = &env.clone().var("VKSTASH_END_MS", "20000");
        let [first, last] = scenario.run_ok::<[[usize; 2]; 2]>("iterate", env, &50).value;
        assert!(
            holds_no_more_than(first, last),
            "threads and open files: {last:?} after fifty iterations, {first:?} after the first"
        );
    });
}

// --- other layers ---------------------------------------------------------------------------------------------

/// Which library is on top, whether the layer made every pipeline, and the answer of the driver's own command.
fn beside_other_layers(_: &Value) -> Value {
    let instance = instance();
    let device = device(&instance, ALPHA, &DeviceOptions { cache_control: true, ..Default::default() });
    let handle = device.raw.handle();
    // SAFETY: a live device and NUL-terminated names.
    let find = |name: &CStr| unsafe { (instance.raw.fp_v1_0().get_device_proc_addr)(handle, name.as_ptr()) };
    let made = Work::default().run(&device).all_made();
    let arrived = call(find(c"vkUnheardOfDeviceVKSTASH"), handle.as_raw(), 7);
    json!({ "top": owner(find(c"vkCreateComputePipelines")), "made": made, "arrived": arrived[2] })
}

/// A first and a second run with the same stash. Returns which library was on top.
fn served_beside_other_layers(scenario: &Scenario, env: &Env) -> String {
    let cold = scenario.run_ok::<Value>("work", env, &());
    let warm = scenario.run_ok::<Value>("work", env, &());
    for run in [&cold, &warm] {
        assert_eq!((&run.value["made"], &run.value["arrived"]), (&json!(true), &json!(7)), "{}", run.stderr);
    }
    assert_eq!((cold.reports.sum("compiled"), warm.reports.sum("served")), (3, 3), "{}", warm.stderr);
    warm.value["top"].as_str().unwrap().to_owned()
}

#[test]
fn every_way_to_load_the_layer_works_also_beside_mesas_own_layer() {
    khronos::on(&[("work", beside_other_layers)], |scenario, env| {
        for layer in [Layer::Implicit, Layer::Explicit, Layer::Both] {
            let env = env.clone().layer(layer).stash(scenario.folder().join(format!("{layer:?}")));
            assert_eq!(served_beside_other_layers(scenario, &env), "layer", "{layer:?}");
        }
        let beside = env.clone().without_var("NODEVICE_SELECT").stash(scenario.folder().join("mesa"));
        assert_eq!(served_beside_other_layers(scenario, &beside), "layer");
        let off = scenario.run_ok::<Value>("work", &env.clone().without_layer(), &());
        assert_eq!((&off.value["top"], off.reports.0.len()), (&json!("driver"), 0));
    });
}

#[test]
fn the_validation_layer_may_stand_below_and_above() {
    khronos::on(&[("work", beside_other_layers)], |scenario, env| {
        if env::validation_manifest().is_none() {
            return scenario.skip("the validation layer is not installed");
        }
        let env = env.clone().layer(Layer::Explicit).validation();
        let below = env.clone().stash(scenario.folder().join("below"));
        assert_eq!(served_beside_other_layers(scenario, &below), "layer");
        // Loaders before 1.3.268 sort layers by the order of the folders, newer loaders by the order of the file
        // names.
        let folders = ["validation", "explicit"].map(|name| scenario.folder().join(name));
        let above = env
            .stash(scenario.folder().join("above"))
            .var("VK_LAYER_PATH", std::env::join_paths(folders).unwrap())
            .var("VK_INSTANCE_LAYERS", format!("{}:{}", env::VALIDATION, env::LAYER));
        assert_eq!(served_beside_other_layers(scenario, &above), "validation");
    });
}
