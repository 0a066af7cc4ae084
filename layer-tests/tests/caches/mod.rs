//! The program's own pipeline caches: what vkGetPipelineCacheData says must be true whether the stash served or not.
//!
//! - [`data`] the data that programs read from their caches, on real drivers
//! - [`calls`] the calls that reach the driver, on the test driver
//! - [`sizes`] what programs are told of the size of that data, and what a question costs
//! - [`slow`] a loaded cache whose pipelines the driver takes long to find

mod calls;
mod data;
mod sizes;
mod slow;

use serde_json::Value;

use vkstash_layer_tests::vulkan::{Device, DeviceOptions, Instance, InstanceOptions};

/// First constants of four groups of three pipelines each.
const GROUPS: [u32; 4] = [1, 11, 21, 31];

fn device(cache_control: bool) -> Device {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    Device::new(&instance, &DeviceOptions { cache_control, ..DeviceOptions::default() }).unwrap()
}

/// The recorded calls of one command.
fn calls<'a>(record: &'a Value, command: &str) -> Vec<&'a Value> {
    record["calls"].as_array().unwrap().iter().filter(|call| call["command"] == command).collect()
}
