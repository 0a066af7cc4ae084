//! Tests of the validity of what workers make ahead: the Khronos validation layer below ours says nothing of it.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use vkstash_layer_tests::child::{Scenario, scenario};
use vkstash_layer_tests::env::{self, Driver, Env};
use vkstash_layer_tests::vulkan::{Device, Instance, InstanceOptions, spirv};
use vkstash_layer_tests::waiting::PATIENCE;
use vkstash_layer_tests::work::Work;

use super::rebuilt::{OWN_MISTAKES, STEPS, everything};
use super::rig::Rig;

/// The step: creates a device, plain or with all features, and leaves it to the workers until they have nothing to do.
/// The trace shows that; without one nothing is waited for.
fn idle(input: &Value) -> Value {
    let trace: Option<PathBuf> = serde_json::from_value(input["trace"].clone()).unwrap();
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let (plain, rig);
    let device: &Device = match input["has_all_features"] == true {
        true => {
            rig = Rig::on(&instance, Default::default());
            &rig.device
        }
        false => {
            plain = Arc::new(
                Device::new(&instance, &Work { cache_control: true, ..Work::default() }.device_options())
                    .unwrap(),
            );
            &plain
        }
    };
    // On a driver whose caches keep nothing workers begin now.
    device.module(&spirv::compute(u32::MAX));
    let Some(trace) = trace else { return json!(null) };
    let tasks = || fs::read_to_string(&trace).unwrap_or_default().matches("\"name\":\"park\"").count();
    let (began, mut seen, mut since) = (Instant::now(), 0, Instant::now());
    while seen == 0 || since.elapsed() < Duration::from_millis(300) {
        assert!(began.elapsed() < PATIENCE, "workers have made nothing");
        std::thread::sleep(Duration::from_millis(10));
        if tasks() != seen {
            (seen, since) = (tasks(), Instant::now());
        }
    }
    json!(null)
}

/// Runs the step with the validation layer below ours. Returns the counter of this name, and what it has to say. It
/// writes to a file: workers do nothing while a program has a messenger.
fn judged(scenario: &Scenario, env: &Env, input: &Value, counter: &str) -> (u64, BTreeSet<String>) {
    let folder = scenario.folder();
    let (log, settings) = (folder.join("validation.txt"), folder.join("vk_layer_settings.txt"));
    let lines = format!(
        "khronos_validation.debug_action = VK_DBG_LAYER_ACTION_LOG_MSG\n\
         khronos_validation.report_flags = error\n\
         khronos_validation.log_filename = {}\n",
        log.display()
    );
    fs::write(&settings, lines).unwrap();
    let env = env.clone().validation().var("VK_LAYER_SETTINGS_PATH", &settings);
    let count = scenario.run_ok::<Value>("idle", &env, input).reports.sum(counter);
    let said = fs::read_to_string(&log).expect("the validation layer has opened its log");
    fs::remove_file(&log).unwrap();
    let ids = said.split("VUID-").skip(1).map(|text| {
        let is_of_id = |byte: char| byte.is_ascii_alphanumeric() || byte == '-';
        format!("VUID-{}", text.split(|byte| !is_of_id(byte)).next().unwrap_or_default())
    });
    (count, ids.collect())
}

fn workers_bring_no_message(scenario: &Scenario, driver: Driver) {
    let Some(env) = scenario.on(driver) else { return };
    if env::validation_manifest().is_none() {
        return scenario.skip("the Khronos validation layer is not installed");
    }
    for (name, input) in everything() {
        scenario.run_ok::<Value>(name, &env, &input);
    }
    for has_all_features in [false, true] {
        let alone = json!({ "has_all_features": has_all_features });
        let (_, of_device) = judged(scenario, &env.clone().without_layer(), &alone, "");
        let mut made = 0;
        // After each program, whose pipelines come first then.
        for (number, (name, input)) in everything().into_iter().enumerate() {
            // The second run of it shows which artifacts the driver takes.
            scenario.run_ok::<Value>(name, &env, &input);
            let trace = scenario.folder().join(format!("trace {has_all_features} {number}"));
            let env = env.clone().var("VKSTASH_BACKGROUND_WORKERS", "2").var("VKSTASH_TRACE", &trace);
            let input = json!({ "trace": trace, "has_all_features": has_all_features });
            let (count, of_workers) = judged(scenario, &env, &input, "parked_unasked");
            let is_new = |id: &&String| !of_device.contains(*id) && !OWN_MISTAKES.contains(&id.as_str());
            let new: Vec<_> = of_workers.iter().filter(is_new).collect();
            assert!(new.is_empty(), "{name}, {count} made, {has_all_features}: {new:?}");
            made += count;
        }
        assert!(made > 5, "{made}");
    }
}

#[test]
fn workers_bring_no_validation_message_on_radv() {
    scenario(&[STEPS, &[("idle", idle)]].concat(), |scenario| {
        workers_bring_no_message(scenario, Driver::Radv)
    });
}

#[test]
fn workers_bring_no_validation_message_on_lavapipe() {
    scenario(&[STEPS, &[("idle", idle)]].concat(), |scenario| {
        workers_bring_no_message(scenario, Driver::Lavapipe)
    });
}
