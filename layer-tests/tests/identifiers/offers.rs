//! Tests of what a program sees before it creates a device, and of the commands that it gets afterwards.

use std::ffi::{CStr, c_char};
use std::mem::transmute;
use std::ptr;

use ash::vk::TaggedStructure as _;
use ash::{khr, vk};
use serde_json::{Value, json};

use super::*;
use vkstash_layer_tests::vulkan::{DeviceOptions, spirv};

const IDENTIFIER: &str = "VK_EXT_shader_module_identifier";
const CONTROL: &str = "VK_EXT_pipeline_creation_cache_control";
const COMMANDS: [&CStr; 2] = [c"vkGetShaderModuleIdentifierEXT", c"vkGetShaderModuleCreateInfoIdentifierEXT"];
const OWN_UUID: [u8; 16] = *b"vkstash-sha256-1";

/// An instance of 1.0 with the queries by extension, or one of 1.3 with both names of each.
fn instance(version: u32) -> Arc<Instance> {
    let options = InstanceOptions {
        api_version: version,
        extensions: vec![khr::get_physical_device_properties2::NAME],
        ..InstanceOptions::default()
    };
    Instance::new(&options).unwrap()
}

fn command(instance: &Instance, name: &CStr) -> vk::PFN_vkVoidFunction {
    // SAFETY: a live instance and a NUL-terminated name.
    unsafe { instance.entry.get_instance_proc_addr(instance.raw.handle(), name.as_ptr()) }
}

/// The two-call idiom with space for every number of elements from 0 to one more than there are.
fn listing(instance: &Instance, layer: Option<&CStr>) -> Value {
    let enumerate = instance.raw.fp_v1_0().enumerate_device_extension_properties;
    let physical = instance.physical_device();
    let layer: *const c_char = layer.map_or(ptr::null(), CStr::as_ptr);
    let mut all = 0;
    // SAFETY: a live physical device; NULL asks for the count.
    let counted = unsafe { enumerate(physical, layer, &mut all, ptr::null_mut()) };
    if counted != vk::Result::SUCCESS {
        return json!({ "result": counted.as_raw() });
    }
    let mut names = Vec::new();
    for room in 0..=all + 1 {
        let blank = vk::ExtensionProperties { spec_version: !0, ..Default::default() };
        let mut list = vec![blank; all as usize + 2];
        let mut count = room;
        // SAFETY: the list has space for more than `count` elements.
        let result = unsafe { enumerate(physical, layer, &mut count, list.as_mut_ptr()) };
        let complete = room >= all;
        let expected = if complete { vk::Result::SUCCESS } else { vk::Result::INCOMPLETE };
        assert_eq!((result, count), (expected, room.min(all)), "room for {room} of {all}");
        assert!(list[count as usize..].iter().all(|e| e.spec_version == !0), "written past the room");
        list.truncate(count as usize);
        assert!(list.iter().all(|extension| extension.spec_version != !0));
        names = list.iter().map(|e| e.extension_name_as_c_str().unwrap().to_str().unwrap().into()).collect();
    }
    names.sort();
    let names: Vec<String> = names;
    json!({ "result": 0, "names": names })
}

/// (identifiers, cache control by its own structure, cache control of 1.3, UUID) by one pair of commands; the
/// structures held other values before.
fn support(instance: &Instance, features: &CStr, properties: &CStr, core13: bool) -> Value {
    let (Some(features), Some(properties)) = (command(instance, features), command(instance, properties))
    else {
        return Value::Null;
    };
    let physical = instance.physical_device();
    let mut answers = Vec::new();
    for before in [vk::FALSE, vk::TRUE] {
        let mut identifier = vk::PhysicalDeviceShaderModuleIdentifierFeaturesEXT {
            shader_module_identifier: before,
            ..Default::default()
        };
        let mut control = vk::PhysicalDevicePipelineCreationCacheControlFeatures {
            pipeline_creation_cache_control: before,
            ..Default::default()
        };
        let mut thirteen = vk::PhysicalDeviceVulkan13Features {
            pipeline_creation_cache_control: before,
            ..Default::default()
        };
        let mut list =
            vk::PhysicalDeviceFeatures2::default().push_next(&mut identifier).push_next(&mut control);
        if core13 {
            list = list.push_next(&mut thirteen);
        }
        let mut algorithm = vk::PhysicalDeviceShaderModuleIdentifierPropertiesEXT {
            shader_module_identifier_algorithm_uuid: [before as u8; 16],
            ..Default::default()
        };
        let mut chain = vk::PhysicalDeviceProperties2::default().push_next(&mut algorithm);
        // SAFETY: commands of these names have these types; a live physical device and valid chains.
        unsafe {
            transmute::<unsafe extern "system" fn(), vk::PFN_vkGetPhysicalDeviceFeatures2>(features)(
                physical, &mut list,
            );
            transmute::<unsafe extern "system" fn(), vk::PFN_vkGetPhysicalDeviceProperties2>(properties)(
                physical, &mut chain,
            );
        }
        answers.push(json!({
            "identifiers": identifier.shader_module_identifier,
            "control": control.pipeline_creation_cache_control,
            "control13": core13.then_some(thirteen.pipeline_creation_cache_control),
            "uuid": algorithm.shader_module_identifier_algorithm_uuid,
        }));
    }
    json!(answers)
}

fn offers(_: &Value) -> Value {
    let mut ways = Vec::new();
    let newest = instance(vk::API_VERSION_1_3);
    let core13 = newest.properties(newest.physical_device()).api_version >= vk::API_VERSION_1_3;
    let old = instance(vk::API_VERSION_1_0);
    for instance in [&newest, &old] {
        for (features, properties) in [
            (c"vkGetPhysicalDeviceFeatures2", c"vkGetPhysicalDeviceProperties2"),
            (c"vkGetPhysicalDeviceFeatures2KHR", c"vkGetPhysicalDeviceProperties2KHR"),
        ] {
            ways.push(support(instance, features, properties, core13));
        }
    }
    json!({
        "merged": listing(&newest, None),
        "merged_old": listing(&old, None),
        "own": listing(&newest, Some(c"VK_LAYER_VKSTASH_pipeline_cache")),
        "ways": ways,
        "tools": tools(&newest),
    })
}

/// The tools in vkGetPhysicalDeviceToolProperties, if the command exists.
fn tools(instance: &Instance) -> Vec<String> {
    let Some(get) = command(instance, c"vkGetPhysicalDeviceToolProperties") else { return Vec::new() };
    let physical = instance.physical_device();
    if instance.properties(physical).api_version < vk::API_VERSION_1_3 {
        return Vec::new();
    }
    // SAFETY: the command of this name has this type; a live physical device and the two-call idiom.
    unsafe {
        let get: vk::PFN_vkGetPhysicalDeviceToolProperties = transmute(get);
        let mut count = 0;
        assert_eq!(get(physical, &mut count, ptr::null_mut()), vk::Result::SUCCESS);
        let mut list = vec![vk::PhysicalDeviceToolProperties::default(); count as usize];
        assert_eq!(get(physical, &mut count, list.as_mut_ptr()), vk::Result::SUCCESS);
        list.iter().map(|tool| tool.name_as_c_str().unwrap().to_str().unwrap().to_owned()).collect()
    }
}

fn names(listing: &Value) -> Vec<String> {
    serde_json::from_value(listing["names"].clone()).unwrap()
}

/// The extensions of `with` that `without` lacks; none may be missing or repeated.
fn added(with: &Value, without: &Value) -> Vec<String> {
    let (with, without) = (names(with), names(without));
    assert!(without.iter().all(|name| with.contains(name)));
    let added: Vec<_> = with.iter().filter(|name| !without.contains(name)).cloned().collect();
    assert_eq!(with.len(), without.len() + added.len());
    added
}

/// The lists and answers of one setting: what is added to the driver's, and what is TRUE.
fn offered(setting: Setting, extensions: &[&str], own: &[&str], uuid: Option<[u8; 16]>) {
    each(vec![setting], &[("offers", offers)], |scenario, env, _| {
        let without = scenario.run_ok::<Value>("offers", &env.clone().without_layer(), &()).value;
        let with = scenario.run_ok::<Value>("offers", env, &()).value;
        for list in ["merged", "merged_old"] {
            assert_eq!(added(&with[list], &without[list]), extensions, "{:?} {list}", env.driver());
        }
        let explicit = env.clone().layer(vkstash_layer_tests::env::Layer::Explicit);
        let explicit = scenario.run_ok::<Value>("offers", &explicit, &()).value;
        assert_eq!(explicit["merged"], with["merged"]);
        assert_eq!(names(&explicit["own"]), own);
        assert_eq!(with["tools"], without["tools"], "a list that the layer does not touch");
        for (way, alone) in with["ways"].as_array().unwrap().iter().zip(without["ways"].as_array().unwrap()) {
            assert_eq!(way.is_null(), alone.is_null(), "the layer adds no command");
            for (answer, alone) in
                way.as_array().into_iter().flatten().zip(alone.as_array().into_iter().flatten())
            {
                assert_eq!(answer["identifiers"], 1);
                assert_eq!(answer["control"], 1);
                assert!(answer["control13"].is_null() || answer["control13"] == 1);
                let expected = uuid.map_or(alone["uuid"].clone(), |uuid| json!(uuid));
                assert_eq!(answer["uuid"], expected);
            }
        }
        assert!(!with["ways"][0].is_null() && !with["ways"][3].is_null());
    });
}

#[test]
fn a_driver_without_identifiers_gets_them_under_every_name() {
    offered(Setting::auto(Driver::Lavapipe), &[IDENTIFIER], &[IDENTIFIER], Some(OWN_UUID));
    offered(Setting::auto(test_driver(json!({}))), &[IDENTIFIER], &[IDENTIFIER], Some(OWN_UUID));
}

#[test]
fn a_driver_without_cache_control_gets_both() {
    for version in ["1.1", "1.2"] {
        let driver = test_driver(json!({ "api_version": version, "cache_control": false }));
        let both = [CONTROL, IDENTIFIER];
        offered(Setting::auto(driver), &both, &both, Some(OWN_UUID));
    }
}

#[test]
fn a_driver_with_identifiers_answers_for_itself() {
    for setting in native() {
        offered(setting, &[], &[], None);
    }
}

#[test]
fn forced_identifiers_are_the_layers_and_listed_once() {
    offered(Setting::forced(Driver::Radv), &[], &[IDENTIFIER], Some(OWN_UUID));
    let driver = test_driver(json!({ "identifiers": true }));
    offered(Setting::forced(driver), &[], &[IDENTIFIER], Some(OWN_UUID));
}

/// No feature is offered, and the program's structures hold what the driver wrote.
#[test]
fn no_feature_is_offered_where_none_may_be_emulated() {
    let drivers = [Driver::Lavapipe, old_driver(), test_driver(json!({}))];
    let off = drivers.map(|driver| Setting { driver, mode: "off" }).to_vec();
    // A driver of 1.3 without the feature violates the specification.
    let broken = Setting::auto(test_driver(json!({ "cache_control": false })));
    each([off, vec![broken]].concat(), &[("offers", offers)], |scenario, env, _| {
        let without = scenario.run_ok::<Value>("offers", &env.clone().without_layer(), &()).value;
        assert_eq!(scenario.run_ok::<Value>("offers", env, &()).value, without);
    });
}

/// The structures in queries to the driver, if the program asks only for its list of extensions.
fn asked(_: &Value) -> Value {
    let instance = instance(vk::API_VERSION_1_3);
    let driver = TestDriver::open();
    driver.take_record();
    listing(&instance, None);
    let record = driver.take_record();
    let calls = record["calls"].as_array().unwrap().iter();
    let queries = calls.filter(|call| call["command"].as_str().unwrap().ends_with("2"));
    json!(queries.flat_map(|call| call["p_next"].as_array().unwrap().clone()).collect::<Vec<_>>())
}

/// Layers below warn of structures whose extension the driver does not list.
#[test]
fn a_driver_is_asked_only_for_what_it_lists() {
    let identifiers = [
        vk::PhysicalDeviceShaderModuleIdentifierFeaturesEXT::STRUCTURE_TYPE,
        vk::PhysicalDeviceShaderModuleIdentifierPropertiesEXT::STRUCTURE_TYPE,
    ]
    .map(|s_type| s_type.as_raw());
    let control = vk::PhysicalDevicePipelineCreationCacheControlFeatures::STRUCTURE_TYPE.as_raw();
    let driver_properties = vk::PhysicalDeviceDriverProperties::STRUCTURE_TYPE.as_raw();
    let cases = [
        (json!({}), vec![control, driver_properties]),
        (json!({ "identifiers": true }), [&identifiers[..], &[control, driver_properties]].concat()),
        (json!({ "pipeline_binary": true }), vec![control, driver_properties]),
        (json!({ "api_version": "1.2" }), vec![control, driver_properties]),
        (json!({ "api_version": "1.2", "cache_control": false }), vec![driver_properties]),
        (json!({ "api_version": "1.1", "cache_control": false }), vec![]),
        (
            json!({ "api_version": "1.1", "extensions": ["VK_KHR_driver_properties"] }),
            vec![control, driver_properties],
        ),
    ];
    for (script, mut expected) in cases {
        expected.sort_unstable();
        each(vec![Setting::auto(test_driver(script.clone()))], &[("asked", asked)], |scenario, env, _| {
            let mut asked = scenario.run_ok::<Vec<i32>>("asked", env, &()).value;
            asked.sort_unstable();
            assert_eq!(asked, expected, "{script}");
        });
    }
}

/// A program that cannot enable features (1.0, no extension) is not offered any.
fn unreachable(_: &Value) -> Value {
    let options = InstanceOptions { api_version: vk::API_VERSION_1_0, ..InstanceOptions::default() };
    listing(&Instance::new(&options).unwrap(), None)
}

#[test]
fn a_program_that_cannot_ask_for_features_sees_the_drivers_list() {
    let settings = vec![Setting::auto(Driver::Lavapipe), Setting::auto(old_driver())];
    each(settings, &[("list", unreachable)], |scenario, env, _| {
        let without = scenario.run_ok::<Value>("list", &env.clone().without_layer(), &()).value;
        assert_eq!(scenario.run_ok::<Value>("list", env, &()).value, without);
    });
}

/// Whether the commands exist, by the instance's and by the device's look-up, with and without the extension; and
/// that all pointers to a command work alike.
fn commands(_: &Value) -> Value {
    let instance = instance(vk::API_VERSION_1_3);
    let on = DeviceOptions { cache_control: true, identifiers: true, ..DeviceOptions::default() };
    let (on, off) =
        (Device::new(&instance, &on).unwrap(), Device::new(&instance, &DeviceOptions::default()).unwrap());
    let code = spirv::compute(7);
    let module = on.module(&code);
    let expected = on.identifier_of_code(&code);
    assert_eq!(on.identifier(module), expected);
    let mut of_module = vk::ShaderModuleIdentifierEXT::default();
    let mut of_info = vk::ShaderModuleIdentifierEXT::default();
    let by_instance = COMMANDS.map(|name| command(&instance, name).unwrap());
    let info = vk::ShaderModuleCreateInfo::default().code(&code);
    // SAFETY: commands of these names have these types; a live device with the extension and its module.
    unsafe {
        let get: vk::PFN_vkGetShaderModuleIdentifierEXT = transmute(by_instance[0]);
        get(on.raw.handle(), module, &mut of_module);
        let get: vk::PFN_vkGetShaderModuleCreateInfoIdentifierEXT = transmute(by_instance[1]);
        get(on.raw.handle(), &info, &mut of_info);
    }
    for answer in [of_module, of_info] {
        assert_eq!(&answer.identifier[..answer.identifier_size as usize], expected);
    }
    let first = command(&instance, c"vkGetDeviceProcAddr").unwrap();
    // SAFETY: the command of this name has this type.
    let first: vk::PFN_vkGetDeviceProcAddr = unsafe { transmute(first) };
    // SAFETY: a live device, and its own look-up, which any look-up may return.
    let second: vk::PFN_vkGetDeviceProcAddr =
        unsafe { transmute(first(on.raw.handle(), c"vkGetDeviceProcAddr".as_ptr()).unwrap()) };
    let there = |device: &Device| {
        [first, second].map(|look_up| {
            // SAFETY: a live device and NUL-terminated names.
            COMMANDS.map(|name| unsafe { look_up(device.raw.handle(), name.as_ptr()) }.is_some())
        })
    };
    json!({ "on": there(&on), "off": there(&off) })
}

#[test]
fn the_commands_are_there_for_devices_that_enabled_the_extension_only() {
    let settings = [emulated(), native()].concat();
    each_with_two_devices(settings, &[("commands", commands)], |scenario, env, setting| {
        let found = scenario.run_ok::<Value>("commands", env, &()).value;
        assert_eq!(found["on"], json!([[true, true], [true, true]]), "{:?} {}", setting.driver, setting.mode);
        assert_eq!(
            found["off"],
            json!([[false, false], [false, false]]),
            "{:?} {}",
            setting.driver,
            setting.mode
        );
    });
}

/// VkPhysicalDeviceVulkan14Features, which the bindings lack.
#[repr(C)]
struct Vulkan14Features {
    s_type: vk::StructureType,
    p_next: *mut std::ffi::c_void,
    switches: [vk::Bool32; 21],
}

/// A structure that is newer than the bindings stands before the identifier's own, which must be removed
/// nevertheless.
fn newer_features(_: &Value) -> Value {
    let options =
        InstanceOptions { api_version: vk::make_api_version(0, 1, 4, 0), ..InstanceOptions::default() };
    let instance = Instance::new(&options).unwrap();
    let physical = instance.physical_device();
    let mut identifier =
        vk::PhysicalDeviceShaderModuleIdentifierFeaturesEXT::default().shader_module_identifier(true);
    let mut thirteen = vk::PhysicalDeviceVulkan13Features::default().pipeline_creation_cache_control(true);
    let mut newer = Vulkan14Features {
        s_type: vk::StructureType::from_raw(55),
        p_next: (&raw mut identifier).cast(),
        switches: [0; 21],
    };
    thirteen.p_next = (&raw mut newer).cast();
    let queue = [vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0])];
    let names = [ash::ext::shader_module_identifier::NAME.as_ptr()];
    let mut info = vk::DeviceCreateInfo::default().queue_create_infos(&queue).enabled_extension_names(&names);
    info.p_next = (&raw const thirteen).cast();
    // SAFETY: a live physical device and a valid create info.
    let raw = unsafe { instance.raw.create_device(physical, &info, None) }.unwrap();
    let device = Device::adopt(&instance, physical, raw);
    json!(Work::default().run(&device).all_made())
}

#[test]
fn a_device_with_features_that_are_newer_than_the_layer_can_have_identifiers() {
    let fourteen = test_driver(json!({ "api_version": "1.4" }));
    let settings = vec![Setting::auto(Driver::Lavapipe), Setting::auto(fourteen)];
    each(settings, &[("device", newer_features)], |scenario, env, _| {
        assert!(scenario.run_ok::<bool>("device", env, &()).value);
    });
}
