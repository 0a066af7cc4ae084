//! VK_EXT_shader_module_identifier, answered by the driver, or by the layer because the driver lacks it or because of
//! VKSTASH_IDENTIFIERS; and the cache control that it needs.
//!
//! - [`offers`] lists, features, properties and commands
//! - [`sameness`] what an identifier depends on
//! - [`served`] pipelines by identifier, across devices and processes; sizes and random bytes
//! - [`cache_control`] drivers without pipelineCreationCacheControl
//! - [`wrong_records`] records with other content than their keys say
//! - [`validation`] none of it reaches the driver

mod cache_control;
mod offers;
mod sameness;
mod served;
mod validation;
mod wrong_records;

use std::sync::Arc;

use ash::{ext, khr, vk};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use vkstash_layer_tests::child::{Run, Scenario, Step, scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::test_driver::TestDriver;
use vkstash_layer_tests::vulkan::{Device, Instance, InstanceOptions};
use vkstash_layer_tests::work::{Caches, Code, Done, Feedback, Shader, Work};

/// VK_PIPELINE_CREATE_FAIL_ON_PIPELINE_COMPILE_REQUIRED_BIT and VK_PIPELINE_CREATE_EARLY_RETURN_ON_FAILURE_BIT.
const FAIL_OR_RETURN_EARLY: u64 = 0x100 | 0x200;
/// VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_MODULE_IDENTIFIER_FEATURES_EXT.
const IDENTIFIER_FEATURES: i64 = 1_000_462_000;
/// VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_MODULE_IDENTIFIER_CREATE_INFO_EXT.
const IDENTIFIER_STAGE: i64 = 1_000_462_002;

/// A driver, and the value of VKSTASH_IDENTIFIERS.
#[derive(Clone)]
struct Setting {
    driver: Driver,
    mode: &'static str,
}

impl Setting {
    fn auto(driver: Driver) -> Setting {
        Setting { driver, mode: "auto" }
    }

    fn forced(driver: Driver) -> Setting {
        Setting { driver, mode: "emulate" }
    }

    fn env(&self, scenario: &Scenario) -> Option<Env> {
        Some(scenario.on(self.driver.clone())?.var("VKSTASH_IDENTIFIERS", self.mode))
    }

    fn env_for_two_devices(&self, scenario: &Scenario) -> Option<Env> {
        Some(scenario.on_two_devices(self.driver.clone())?.var("VKSTASH_IDENTIFIERS", self.mode))
    }
}

fn test_driver(script: Value) -> Driver {
    Driver::Test(script)
}

/// The test driver without pipelineCreationCacheControl, which only a driver below 1.3 may lack.
fn old_driver() -> Driver {
    test_driver(json!({ "api_version": "1.2", "cache_control": false }))
}

/// Settings in which the layer answers, on drivers that have cache control.
fn emulated() -> Vec<Setting> {
    vec![
        Setting::auto(Driver::Lavapipe),
        Setting::forced(Driver::Radv),
        Setting::auto(test_driver(json!({}))),
        Setting::forced(test_driver(json!({ "identifiers": true, "identifier_size": 20 }))),
    ]
}

/// Settings in which the driver answers.
fn native() -> Vec<Setting> {
    vec![
        Setting::auto(Driver::Radv),
        Setting { driver: Driver::Radv, mode: "off" },
        Setting::auto(test_driver(json!({ "identifiers": true }))),
        Setting::auto(test_driver(json!({ "identifiers": true, "identifier_size": 8 }))),
    ]
}

/// Runs a test for each setting whose driver is available, with a stash of its own.
fn each(settings: Vec<Setting>, steps: &[(&str, Step)], test: impl Fn(&Scenario, &Env, &Setting)) {
    each_in(Setting::env, settings, steps, test);
}

/// [`each`] for steps that create two devices of one instance.
fn each_with_two_devices(
    settings: Vec<Setting>,
    steps: &[(&str, Step)],
    test: impl Fn(&Scenario, &Env, &Setting),
) {
    each_in(Setting::env_for_two_devices, settings, steps, test);
}

fn each_in(
    env: fn(&Setting, &Scenario) -> Option<Env>,
    settings: Vec<Setting>,
    steps: &[(&str, Step)],
    test: impl Fn(&Scenario, &Env, &Setting),
) {
    scenario(steps, |scenario| {
        for (number, setting) in settings.iter().enumerate() {
            let Some(env) = env(setting, scenario) else { continue };
            let env = env.stash(scenario.folder().join(format!("stash-{number}")));
            test(scenario, &env, setting);
        }
    });
}

/// How a job's device enables cache control and identifiers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
enum Asks {
    /// The features of 1.3 and the extension, as far as the work needs them.
    #[default]
    Core,
    /// Both features are asked for by extensions, as by a program on a device below 1.3.
    Extensions,
    /// Only cache control is asked for, by its extension.
    ControlAlone,
    /// The device enables neither feature.
    Neither,
}

/// Pipelines to create, and the options of their device.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Job {
    work: Work,
    asks: Asks,
}

impl Job {
    fn on_old_driver(work: Work) -> Job {
        Job { work, asks: Asks::Extensions }
    }
}

impl From<Work> for Job {
    fn from(work: Work) -> Job {
        Job { work, asks: Asks::Core }
    }
}

/// The results of a job, and the test driver's record.
#[derive(Debug, Deserialize)]
struct Seen {
    done: Done,
    violations: Vec<String>,
    compiles: u64,
    calls: Vec<Value>,
}

impl Seen {
    /// Calls of one command.
    fn calls(&self, command: &str) -> impl Iterator<Item = &Value> {
        self.calls.iter().filter(move |call| call["command"] == command)
    }
}

/// The step: runs a job, and takes the test driver's record after the device is destroyed.
fn do_job(input: &Value) -> Value {
    let job: Job = serde_json::from_value(input.clone()).unwrap();
    let options = InstanceOptions { messages: job.work.messages, ..InstanceOptions::default() };
    let instance = Instance::new(&options).unwrap();
    let device = match job.asks {
        Asks::Core => Device::new(&instance, &job.work.device_options()).unwrap(),
        asks => old_device(&instance, job.work.flags2, asks),
    };
    let done = job.work.run(&device);
    drop(device);
    answer(done, instance)
}

/// Call this when the devices are destroyed.
fn answer(done: Done, instance: Arc<Instance>) -> Value {
    // Other drivers have no record.
    let record = match std::env::var_os("VKSTASH_TEST_ICD") {
        Some(_) => TestDriver::open().take_record(),
        None => json!({ "violations": [], "compiles": 0, "calls": [] }),
    };
    let done = Done { messages: instance.messages(), ..done };
    drop(Arc::into_inner(instance));
    let [violations, compiles, calls] = ["violations", "compiles", "calls"].map(|name| record[name].clone());
    json!({ "done": done, "violations": violations, "compiles": compiles, "calls": calls })
}

/// A device below 1.3, with cache control and identifiers as extensions.
fn old_device(instance: &Arc<Instance>, maintenance5: bool, asks: Asks) -> Device {
    let mut control = vk::PhysicalDevicePipelineCreationCacheControlFeatures::default()
        .pipeline_creation_cache_control(true);
    let mut identifier =
        vk::PhysicalDeviceShaderModuleIdentifierFeaturesEXT::default().shader_module_identifier(true);
    let mut five = vk::PhysicalDeviceMaintenance5FeaturesKHR::default().maintenance5(true);
    // An extension that stays, between those that the layer removes.
    let mut names = vec![ext::robustness2::NAME.as_ptr()];
    let queue = [vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0])];
    let mut info = vk::DeviceCreateInfo::default().queue_create_infos(&queue);
    if asks != Asks::Neither {
        names.insert(0, ext::pipeline_creation_cache_control::NAME.as_ptr());
        info = info.push_next(&mut control);
    }
    if asks == Asks::Extensions {
        names.push(ext::shader_module_identifier::NAME.as_ptr());
        info = info.push_next(&mut identifier);
    }
    if maintenance5 {
        names.push(khr::maintenance5::NAME.as_ptr());
        info = info.push_next(&mut five);
    }
    let info = info.enabled_extension_names(&names);
    let physical = instance.physical_device();
    // SAFETY: a live physical device and a valid create info.
    let raw = unsafe { instance.raw.create_device(physical, &info, None) }.unwrap();
    // The program's own structures are unchanged.
    assert_eq!([control.pipeline_creation_cache_control, identifier.shader_module_identifier], [vk::TRUE; 2]);
    Device::adopt(instance, physical, raw)
}

/// Runs a job; the test driver must report no violations.
fn run(scenario: &Scenario, env: &Env, job: impl Into<Job>) -> Run<Seen> {
    let job = job.into();
    let run = scenario.run_ok::<Seen>("job", env, &job);
    assert_eq!(run.value.violations, Vec::<String>::new(), "{:?} {job:?}", env.driver());
    run
}
