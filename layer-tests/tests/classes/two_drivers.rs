//! Two drivers in one instance.

use serde_json::{Value, json};
use vkstash_layer_tests::child::scenario;
use vkstash_layer_tests::env::Driver;
use vkstash_layer_tests::vulkan::{Device, DeviceOptions, Instance, InstanceOptions, spirv};
use vkstash_layer_tests::work::{Code, Shader, Work};

/// Two drivers in one instance: one lacks identifiers, the other has its own.
fn two_drivers(_: &Value) -> Value {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let devices = instance.physical_devices();
    let options = DeviceOptions { identifiers: true, cache_control: true, ..Default::default() };
    let open = devices.iter().map(|&physical| Device::on(&instance, physical, &options).unwrap());
    let open: Vec<_> = open.collect();
    let about = |device: &Device| {
        let made = Work::default().run(device).all_made();
        let work = Work { code: Code::Identifier, shader: Shader::Compute, ..Work::default() };
        let by_identifier = work.run(device).made;
        let (feature, uuid) = instance.identifier_support(device.physical);
        json!({
            "name": instance.properties(device.physical).device_name_as_c_str().unwrap().to_str().unwrap(),
            "made": made,
            "by_identifier": by_identifier,
            "feature": feature,
            "uuid": uuid,
            "size": device.identifier_of_code(&spirv::compute(1)).len(),
        })
    };
    json!(open.iter().map(about).collect::<Vec<_>>())
}

#[test]
fn two_drivers_in_one_instance_do_not_share_artifacts() {
    scenario(&[("step", two_drivers)], |scenario| {
        let Some(env) = scenario.on(Driver::Lavapipe) else { return };
        if scenario.on(Driver::Radv).is_none() {
            return;
        }
        let folder = "/usr/share/vulkan/icd.d";
        let find = |prefix: &str| {
            let names = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
            let fits = |path: &std::path::PathBuf| path.to_string_lossy().contains(prefix);
            names.filter(fits).min().unwrap().to_string_lossy().into_owned()
        };
        let both = format!("{}:{}", find("/lvp_icd"), find("/radeon_icd"));
        let env = env.clone().var("VK_ICD_FILENAMES", &both).var("VK_DRIVER_FILES", &both);
        let env = env.var("RADV_FORCE_FAMILY", "navi21");
        for _ in 0..2 {
            let devices = scenario.run_ok::<Vec<Value>>("step", &env, &()).value;
            assert_eq!(devices.len(), 2, "{devices:?}");
            let (radv, lavapipe): (Vec<_>, Vec<_>) =
                devices.iter().partition(|device| device["name"].as_str().unwrap().contains("RADV"));
            assert_eq!(radv[0]["by_identifier"], json!([true, true, true]), "{radv:?}");
            assert_eq!(lavapipe[0]["by_identifier"], json!([false, false, false]), "{lavapipe:?}");
            assert_eq!((&lavapipe[0]["size"], &lavapipe[0]["feature"]), (&json!(32), &json!(true)));
            assert_ne!(radv[0]["uuid"], lavapipe[0]["uuid"]);
            assert!(devices.iter().all(|device| device["made"] == true), "{devices:?}");
        }
    });
}
