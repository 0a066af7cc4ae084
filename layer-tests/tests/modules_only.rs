//! Programs that create shader modules and no pipelines.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use vkstash_layer_tests::child::{self, scenario};
use vkstash_layer_tests::env::Driver;
use vkstash_layer_tests::report::Reports;
use vkstash_layer_tests::vulkan::{Device, DeviceOptions, Instance, InstanceOptions, spirv};

const COUNT: u64 = 4;
/// A limit for waiting; no test measures with it.
const PATIENCE: Duration = Duration::from_secs(500);

/// Creates modules. Waits for the report with them where the input says so, and is killed.
fn modules(input: &Value) -> Value {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let device = Device::new(&instance, &DeviceOptions::default()).unwrap();
    (0..COUNT as u32).for_each(|number| _ = device.module(&spirv::compute(number)));
    if *input == json!("is killed") {
        let folder = PathBuf::from(std::env::var_os("VKSTASH_REPORT").unwrap());
        let began = Instant::now();
        while Reports::read(&folder).sum("modules") < COUNT && began.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(5));
        }
        child::answer(&json!(null));
        // SAFETY: kill takes plain numbers, and ends this process.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    }
    json!(null)
}

#[test]
fn a_killed_program_whose_modules_were_known_is_reported() {
    for driver in [Driver::Test(json!({})), Driver::Lavapipe, Driver::Radv] {
        scenario(&[("modules", modules)], |scenario| {
            let Some(env) = scenario.on(driver.clone()) else { return };
            let whole = scenario.run_ok::<Value>("modules", &env, &"ends");
            assert_eq!(whole.reports.sum("modules"), COUNT, "{}", driver.name());
            let killed = scenario.run("modules", &env, &"is killed");
            assert_eq!(killed.signal(), Some(libc::SIGKILL), "{}", killed.ending());
            assert_eq!(killed.reports.sum("modules"), COUNT, "{}: {:?}", driver.name(), killed.reports);
        });
    }
}
