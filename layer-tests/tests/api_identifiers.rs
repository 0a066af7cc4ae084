//! Identifiers from the C API, which needs no device, are those that the layer gives on a device.

use serde_json::{Value, json};

use vkstash_layer_tests::api::Api;
use vkstash_layer_tests::child::scenario;
use vkstash_layer_tests::env::Driver;
use vkstash_layer_tests::vulkan::{Device, DeviceOptions, Instance, InstanceOptions, spirv};

fn compare(_: &Value) -> Value {
    let api = Api::load();
    let codes: Vec<_> =
        (0..20).map(spirv::compute).chain([spirv::vertex(1.0), spirv::fragment(2.0)]).collect();
    // Before there is a device.
    let without: Vec<_> = codes.iter().map(|code| api.identifier(code)).collect();
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let device =
        Device::new(&instance, &DeviceOptions { identifiers: true, ..DeviceOptions::default() }).unwrap();
    for (code, (identifier, algorithm)) in codes.iter().zip(without) {
        assert_eq!(device.identifier_of_code(code), identifier);
        assert_eq!(&algorithm, b"vkstash-sha256-1");
    }
    Value::Null
}

#[test]
fn identifiers_without_a_device_are_those_of_a_device() {
    scenario(&[("compare", compare)], |scenario| {
        let Some(env) = scenario.on(Driver::Test(json!({}))) else { return };
        scenario.run_ok::<Value>("compare", &env.var("VKSTASH_IDENTIFIERS", "emulate"), &());
    });
}
