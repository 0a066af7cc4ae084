//! The driver's own cache: a user or a program disables it, and the driver is told at vkCreateDevice.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::Arc;

use ash::{khr, vk};
use serde_json::{Value, json};

use vkstash_layer_tests::api::{Api, DISABLE, DRIVER_MANAGED, ENABLE};
use vkstash_layer_tests::child::{Scenario, scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::folder::configure;
use vkstash_layer_tests::test_driver::TestDriver;
use vkstash_layer_tests::vulkan::binaries::{self, InternalCacheControl};
use vkstash_layer_tests::vulkan::{Device, Instance, InstanceOptions, spirv};
use vkstash_store::settings::CacheKinds;
use vkstash_store::stash::inspect::list_applications;

/// sType of VkDevicePipelineBinaryInternalCacheControlKHR.
const CONTROL: i64 = 1_000_483_008;
/// sType of VkPhysicalDevicePipelineCreationCacheControlFeatures.
const CACHE_CONTROL: i64 = 1_000_297_000;

/// A device that says of pipeline binaries what `says` names.
fn device(instance: &Arc<Instance>, says: &str) -> Device {
    let physical = instance.physical_device();
    let queue = [vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0])];
    let mut five = vk::PhysicalDeviceMaintenance5FeaturesKHR::default().maintenance5(true);
    let features = binaries::Features::on(ptr::from_mut(&mut five).cast());
    let keeps = InternalCacheControl::new(false);
    let names = [khr::maintenance5::NAME.as_ptr(), binaries::NAME.as_ptr()];
    let mut info = vk::DeviceCreateInfo::default().queue_create_infos(&queue);
    match says {
        "nothing" => {}
        "keeps its cache" => {
            info = info.enabled_extension_names(&names);
            info.p_next = ptr::from_ref(&keeps).cast();
        }
        "uses binaries" => {
            info = info.enabled_extension_names(&names);
            info.p_next = ptr::from_ref(&features).cast();
        }
        other => panic!("{other}"),
    }
    // SAFETY: a live physical device and a valid create info.
    let raw = unsafe { instance.raw.create_device(physical, &info, None) }.unwrap();
    Device::adopt(instance, physical, raw)
}

/// Creates a device and a pipeline. Answers how often the driver was told, and what it complains about.
fn create(input: &Value) -> Value {
    let control = input["control"].as_u64().unwrap_or(0) as u32;
    if control != 0 {
        assert_eq!(Api::load().control(DRIVER_MANAGED, control), 0);
    }
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let device = device(&instance, input["says"].as_str().unwrap_or("nothing"));
    let stage = vk::PipelineShaderStageCreateInfo::default()
        .stage(vk::ShaderStageFlags::COMPUTE)
        .module(device.module(&spirv::compute(1)))
        .name(c"main");
    let info = vk::ComputePipelineCreateInfo::default().stage(stage).layout(device.compute_layout());
    // SAFETY: a valid create info.
    let (result, _) = unsafe { device.create_compute(vk::PipelineCache::null(), &[info]) };
    assert_eq!(result, vk::Result::SUCCESS);
    drop(device);
    if input["driver"] != "test" {
        return Value::Null;
    }
    let record = TestDriver::open().take_record();
    drop(instance);
    let calls = record["calls"].as_array().unwrap();
    let devices = calls.iter().filter(|call| call["command"] == "vkCreateDevice");
    let has = |s_type: i64| {
        let in_chain = |call: &Value| {
            let chain = call["p_next"].as_array().cloned().unwrap_or_default();
            chain.iter().any(|node| node.as_i64() == Some(s_type))
        };
        devices.clone().map(in_chain).collect::<Vec<_>>()
    };
    let (tells, controls) = (has(CONTROL), has(CACHE_CONTROL));
    let told = tells.iter().filter(|tells| **tells).count();
    json!({ "told": told, "tells": tells, "controls": controls, "violations": record["violations"] })
}

/// Writes a configuration file that disables kinds, and others for one application.
fn store(root: &Path, all: CacheKinds, own: Option<(&str, CacheKinds)>) {
    let line = |kinds: CacheKinds| format!("disabled-caches = '{}'\n", kinds.text());
    let own = own.map(|(folder, kinds)| format!("[application.{folder}]\n{}", line(kinds)));
    configure(root, &(line(all) + &own.unwrap_or_default()));
}

/// How often the driver was told.
fn told(scenario: &Scenario, env: &Env, mut input: Value) -> u64 {
    input["driver"] = "test".into();
    let said = scenario.run_ok::<Value>("create", env, &input).value;
    assert_eq!(said["violations"], json!([]), "{input}");
    said["told"].as_u64().unwrap()
}

fn test_driver() -> Value {
    json!({ "pipeline_binary": true, "api_version": "1.4", "disk_cache": true })
}

#[test]
fn the_driver_is_told_what_the_user_has_disabled() {
    scenario(&[("create", create)], |scenario| {
        let env = scenario.on(Driver::Test(test_driver())).unwrap();
        let root = env.stash_folder();
        assert_eq!(told(scenario, &env, json!({})), 0);
        store(&root, CacheKinds::DRIVER_MANAGED, None);
        assert_eq!(told(scenario, &env, json!({})), 1);
        // The program says otherwise, or may have the driver look for binaries in that cache.
        assert_eq!(told(scenario, &env, json!({ "says": "keeps its cache" })), 1, "only its own structure");
        assert_eq!(told(scenario, &env, json!({ "says": "uses binaries" })), 0);
        // The application's own setting comes first.
        let folder = list_applications(&root).unwrap()[0].folder.clone();
        store(&root, CacheKinds::DRIVER_MANAGED, Some((&folder, CacheKinds::NONE)));
        assert_eq!(told(scenario, &env, json!({})), 0);
        store(&root, CacheKinds::NONE, Some((&folder, CacheKinds::DRIVER_MANAGED)));
        assert_eq!(told(scenario, &env, json!({})), 1);
        // Drivers that cannot be told.
        for driver in
            [json!({ "pipeline_binary": true, "api_version": "1.4" }), json!({ "disk_cache": true })]
        {
            let env = scenario.on(Driver::Test(driver)).unwrap();
            assert_eq!(told(scenario, &env, json!({})), 0);
        }
    });
}

#[test]
fn the_driver_is_told_what_the_program_has_disabled() {
    scenario(&[("create", create)], |scenario| {
        let env = scenario.on(Driver::Test(test_driver())).unwrap().var("VKSTASH_DEVELOPER_MODE", "1");
        assert_eq!(told(scenario, &env, json!({ "control": DISABLE })), 1);
        assert_eq!(told(scenario, &env, json!({ "control": ENABLE })), 0);
    });
}

#[test]
fn a_driver_that_does_not_want_to_be_told_keeps_its_features() {
    scenario(&[("create", create)], |scenario| {
        let refused = |calls: u32| {
            let fault = |call| json!({ "command": "vkCreateDevice", "call": call, "result": -8 });
            let mut script = test_driver();
            script["faults"] = (1..=calls).map(fault).collect();
            let env = scenario.on(Driver::Test(script)).unwrap();
            store(&env.stash_folder(), CacheKinds::DRIVER_MANAGED, None);
            let said = scenario.run_ok::<Value>("create", &env, &json!({ "driver": "test" })).value;
            assert_eq!(said["violations"], json!([]));
            (said["tells"].clone(), said["controls"].clone())
        };
        assert_eq!(refused(0), (json!([true]), json!([true])));
        assert_eq!(refused(1), (json!([true, false]), json!([true, true])));
        assert_eq!(refused(2), (json!([true, false, false]), json!([true, true, false])));
    });
}

/// Files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn radv_keeps_nothing_while_its_cache_is_disabled_and_the_stash_serves() {
    scenario(&[("create", create)], |scenario| {
        let Some(env) = scenario.on(Driver::Radv) else { return };
        let env = env.driver_cache().var("VKSTASH_BACKGROUND", "disabled");
        // The disk cache writes one file for each entry.
        let env = env.var("MESA_DISK_CACHE_MULTI_FILE", "1");
        store(&env.stash_folder(), CacheKinds::DRIVER_MANAGED, None);
        let first = scenario.run_ok::<Value>("create", &env, &json!({}));
        assert_eq!(first.reports.sum("compiled"), 1, "{:?}", first.reports.counters());
        let of_driver = |file: &&PathBuf| file.to_string_lossy().contains("driver-cache");
        let kept = || {
            files(scenario.folder()).iter().filter(of_driver).filter(|file| !file.ends_with("index")).count()
        };
        assert_eq!(kept(), 0, "{:?}", files(scenario.folder()));
        let second = scenario.run_ok::<Value>("create", &env, &json!({}));
        assert_eq!(second.reports.sum("served"), 1, "{:?}", second.reports.counters());
        assert_eq!(kept(), 0, "{:?}", files(scenario.folder()));
        store(&env.stash_folder(), CacheKinds::NONE, None);
        let env = env.stash(scenario.folder().join("other stash"));
        scenario.run_ok::<Value>("create", &env, &json!({}));
        assert!(kept() > 0, "{:?}", files(scenario.folder()));
    });
}

/// A driver writes what it compiles, and RADV also what it is given.
#[test]
fn the_drivers_cache_gets_no_other_entries_than_without_the_layer() {
    scenario(&[("create", create)], |scenario| {
        for driver in [Driver::Test(test_driver()), Driver::Radv] {
            let Some(env) = scenario.on(driver.clone()) else { continue };
            let env = env.stash(scenario.folder().join(format!("stash of {}", driver.name())));
            // The disk cache writes one file for each entry.
            let env = env.var("VKSTASH_BACKGROUND", "disabled").var("MESA_DISK_CACHE_MULTI_FILE", "1");
            let written = |env: &Env, name: &str| {
                let folder = scenario.folder().join(format!("{} {name}", driver.name()));
                std::fs::create_dir(&folder).unwrap();
                let mut script = test_driver();
                script["disk_cache_dir"] = json!(folder);
                let env = env.clone().driver_cache().var("MESA_SHADER_CACHE_DIR", &folder);
                let env = match driver {
                    Driver::Test(_) => env.var("VKSTASH_TEST_ICD", script.to_string()),
                    _ => env,
                };
                let reports = scenario.run_ok::<Value>("create", &env, &json!({})).reports;
                let is_entry = |file: &PathBuf| !file.ends_with("index");
                let entries = files(&folder).into_iter().filter(is_entry);
                let entries = entries.map(|file| file.strip_prefix(&folder).unwrap().to_owned());
                (entries.collect::<BTreeSet<_>>(), reports.sum("served"))
            };
            let (without, _) = written(&env.clone().without_layer(), "without the layer");
            assert!(!without.is_empty(), "{}", driver.name());
            assert_eq!(written(&env, "first run"), (without.clone(), 0), "{}", driver.name());
            let expected = if driver == Driver::Radv { without } else { BTreeSet::new() };
            assert_eq!(written(&env, "second run"), (expected, 1), "{}", driver.name());
        }
    });
}
