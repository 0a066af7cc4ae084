//! Pipelines whose layouts have immutable samplers, as D3D12's static samplers become: workers make them with layouts
//! that they borrow from the program.

use std::path::PathBuf;
use std::time::Duration;

use ash::vk;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use vkstash_layer_tests::child::{Run, Scenario, Step, scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::test_driver::TestDriver;
use vkstash_layer_tests::vulkan::{Device, DeviceOptions, Instance, InstanceOptions, allocator, spirv};
use vkstash_layer_tests::waiting::until;

const COUNT: u64 = 6;
/// The feature, as [`CoreFeatures`](vkstash_layer_tests::vulkan::CoreFeatures) numbers it.
const SAMPLER_YCBCR_CONVERSION: usize = 65;

/// What is made with an allocator of the program's, or otherwise than usual.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Odd {
    Nothing,
    SamplerAllocator,
    SetAllocator,
    LayoutAllocator,
    Conversion,
}

/// A layout with a storage buffer and an immutable sampler, and what it was made of.
struct Layout<'a> {
    device: &'a Device,
    odd: Odd,
    conversion: vk::SamplerYcbcrConversion,
    sampler: vk::Sampler,
    set: vk::DescriptorSetLayout,
    layout: vk::PipelineLayout,
}

impl<'a> Layout<'a> {
    fn new(device: &'a Device, odd: Odd) -> Layout<'a> {
        let callbacks = allocator::of_malloc();
        let given = |place| (odd == place).then_some(&callbacks);
        let raw = &device.raw;
        // SAFETY: a live device, with the feature where there is a conversion, and valid create infos.
        unsafe {
            let mut conversion = vk::SamplerYcbcrConversion::null();
            if odd == Odd::Conversion {
                let info = vk::SamplerYcbcrConversionCreateInfo::default()
                    .format(vk::Format::G8_B8R8_2PLANE_420_UNORM);
                conversion = raw.create_sampler_ycbcr_conversion(&info, None).unwrap();
            }
            let mut converted = vk::SamplerYcbcrConversionInfo::default().conversion(conversion);
            let mut info = vk::SamplerCreateInfo::default().mag_filter(vk::Filter::LINEAR);
            if odd == Odd::Conversion {
                info = info.push_next(&mut converted);
            }
            let sampler = raw.create_sampler(&info, given(Odd::SamplerAllocator)).unwrap();
            let binding = |number, kind| {
                vk::DescriptorSetLayoutBinding::default()
                    .binding(number)
                    .descriptor_type(kind)
                    .descriptor_count(1)
                    .stage_flags(vk::ShaderStageFlags::COMPUTE)
            };
            let samplers = [sampler];
            let bindings = [
                binding(0, vk::DescriptorType::STORAGE_BUFFER),
                binding(1, vk::DescriptorType::COMBINED_IMAGE_SAMPLER).immutable_samplers(&samplers),
            ];
            let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
            let set = raw.create_descriptor_set_layout(&info, given(Odd::SetAllocator)).unwrap();
            let sets = [set];
            let info = vk::PipelineLayoutCreateInfo::default().set_layouts(&sets);
            let layout = raw.create_pipeline_layout(&info, given(Odd::LayoutAllocator)).unwrap();
            Layout { device, odd, conversion, sampler, set, layout }
        }
    }

    /// Makes the pipelines with it. Whether all could be made.
    fn make(&self) -> bool {
        make(self.device, self.layout, 0..COUNT as u32)
    }
}

impl Drop for Layout<'_> {
    fn drop(&mut self) {
        let callbacks = allocator::of_malloc();
        let given = |place| (self.odd == place).then_some(&callbacks);
        let raw = &self.device.raw;
        // SAFETY: each is destroyed once, with the allocator that it was created with, and not used any more.
        unsafe {
            raw.destroy_pipeline_layout(self.layout, given(Odd::LayoutAllocator));
            raw.destroy_descriptor_set_layout(self.set, given(Odd::SetAllocator));
            raw.destroy_sampler(self.sampler, given(Odd::SamplerAllocator));
            if self.odd == Odd::Conversion {
                raw.destroy_sampler_ycbcr_conversion(self.conversion, None);
            }
        }
    }
}

fn make(device: &Device, layout: vk::PipelineLayout, values: std::ops::Range<u32>) -> bool {
    let made = |value| {
        let stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(device.module(&spirv::compute(value)))
            .name(c"main");
        let info = vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout);
        // SAFETY: a valid create info of live objects.
        unsafe { device.create_compute(vk::PipelineCache::null(), &[info]) }.0 == vk::Result::SUCCESS
    };
    values.map(made).fold(true, |all, made| all & made)
}

/// What a program is like.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Program {
    api_version: u32,
    extensions: bool,
    odd: Odd,
}

impl Program {
    fn usual() -> Program {
        Program { api_version: vk::API_VERSION_1_3, extensions: false, odd: Odd::Nothing }
    }

    fn device(&self) -> Device {
        let options = InstanceOptions { api_version: self.api_version, ..InstanceOptions::default() };
        let instance = Instance::new(&options).unwrap();
        let mut options = DeviceOptions::default();
        if self.odd == Odd::Conversion {
            options.features = vec![SAMPLER_YCBCR_CONVERSION];
        }
        if self.extensions {
            options.extensions = vec![c"VK_KHR_maintenance4"];
        }
        Device::new(&instance, &options).unwrap()
    }
}

/// Makes the pipelines, and some more with a layout without immutable samplers.
fn work(input: &Value) -> Value {
    let (program, plain): (Program, u32) = serde_json::from_value(input.clone()).unwrap();
    let device = program.device();
    let layout = Layout::new(&device, program.odd);
    json!(layout.make() && make(&device, device.compute_layout(), 100..100 + plain))
}

/// Makes the pipelines once workers have made so many, with what the input names beside the layout.
fn late(input: &Value) -> Value {
    let (program, expected, then): (Program, u64, String) = serde_json::from_value(input.clone()).unwrap();
    let device = program.device();
    let driver = TestDriver::open();
    let mut layout = Layout::new(&device, program.odd);
    driver.wait_for_workers(expected);
    // From the driver's answer to the end of the task.
    std::thread::sleep(Duration::from_millis(5));
    let made = match then.as_str() {
        "same" => layout.make(),
        // Equal, but of another sampler; and then the first one.
        "other" => Layout::new(&device, program.odd).make() & layout.make(),
        // The sampler is destroyed, and another one has its handle if the driver likes.
        "again" => {
            drop(layout);
            layout = Layout::new(&device, program.odd);
            layout.make()
        }
        other => panic!("there is no {other}"),
    };
    let made = made && make(&device, device.compute_layout(), 100..101);
    drop(layout);
    drop(device);
    assert_eq!(driver.take_record()["violations"], json!([]));
    json!(made)
}

const STEPS: &[(&str, Step)] = &[("work", work), ("late", late), ("overlap", overlap), ("waiting", waiting)];

/// A stash of two runs over the test driver, and the environment in which workers use it.
fn filled(scenario: &Scenario, driver: Value, program: &Program, plain: u32) -> Env {
    let env = scenario.on(Driver::Test(driver)).unwrap().var("VKSTASH_BACKGROUND_WORKERS", "0");
    let run = || scenario.run_ok::<Value>("work", &env, &json!([program, plain])).value;
    (0..2).for_each(|_| assert_eq!(run(), json!(true)));
    env.var("VKSTASH_BACKGROUND_WORKERS", "2")
}

fn counts<const N: usize>(run: &Run<Value>, names: [&str; N]) -> [u64; N] {
    names.map(|name| run.reports.sum(name))
}

/// Handles that are used again, and handles that equal objects share.
fn drivers() -> impl Iterator<Item = Value> {
    [json!({}), json!({ "reuse_handles": true }), json!({ "equal_handles": true })].into_iter()
}

#[test]
fn what_was_made_with_the_programs_samplers_is_handed_over_to_requests_with_the_same() {
    for driver in drivers() {
        scenario(STEPS, |scenario| {
            let program = Program::usual();
            let env = filled(scenario, driver.clone(), &program, 1);
            for _ in 0..3 {
                let seen = scenario.run_ok::<Value>("late", &env, &json!([program, COUNT + 1, "same"]));
                let counters = seen.reports.counters();
                // The system may interrupt a worker before its task ends, so that the program does not wait for it.
                let [parked, served, unasked] = counts(&seen, ["parked", "served", "parked_unasked"]);
                assert_eq!(
                    (parked + served, parked + unasked),
                    (COUNT + 1, COUNT + 1),
                    "{driver}: {counters:?}"
                );
                let others = ["never_ahead", "other_samplers", "parking_failed", "compiled"];
                assert_eq!(counts(&seen, others), [0; 4], "{driver}: {counters:?}");
            }
        });
    }
}

#[test]
fn requests_with_other_samplers_miss_and_leave_what_waits_to_those_with_the_same() {
    for driver in drivers() {
        scenario(STEPS, |scenario| {
            let program = Program::usual();
            let env = filled(scenario, driver.clone(), &program, 1);
            // Where equal samplers share a handle, they are one object as long as one of them lives.
            let are_one = driver["equal_handles"] == true;
            let seen = scenario.run_ok::<Value>("late", &env, &json!([program, COUNT + 1, "other"]));
            let counters = seen.reports.counters();
            let [other, parked] = counts(&seen, ["other_samplers", "parked"]);
            if are_one {
                assert_eq!(other, 0, "{counters:?}");
            } else {
                // But for what a worker was not done with.
                assert!(other == COUNT && parked + 1 >= COUNT, "{counters:?}");
            }
            let seen = scenario.run_ok::<Value>("late", &env, &json!([program, COUNT + 1, "again"]));
            let counters = seen.reports.counters();
            let [other, parked, served] = counts(&seen, ["other_samplers", "parked", "served"]);
            assert_eq!(parked + served, COUNT + 1, "{driver}: {counters:?}");
            assert!(parked <= 1 && other == COUNT, "{driver}: {counters:?}");
        });
    }
}

#[test]
fn what_cannot_be_lent_is_never_made_ahead_and_counted_as_that() {
    let usual = Program::usual();
    let odd = |odd| Program { odd, ..usual.clone() };
    let programs = [
        Program { api_version: vk::API_VERSION_1_2, ..usual.clone() },
        odd(Odd::SamplerAllocator),
        odd(Odd::SetAllocator),
        odd(Odd::LayoutAllocator),
    ];
    for program in programs {
        scenario(STEPS, |scenario| {
            let env = filled(scenario, json!({}), &program, 1);
            let seen = scenario.run_ok::<Value>("late", &env, &json!([program, 1, "same"]));
            let counters = seen.reports.counters();
            assert_eq!(seen.value, json!(true));
            assert_eq!(counts(&seen, ["never_ahead"]), [COUNT], "{program:?}: {counters:?}");
            let [served, parked, unasked, failed] =
                counts(&seen, ["served", "parked", "parked_unasked", "parking_failed"]);
            assert_eq!((served + parked, parked + unasked, failed), (COUNT + 1, 1, 0), "{counters:?}");
        });
    }
}

#[test]
fn before_1_3_the_extension_says_that_layouts_may_go() {
    scenario(STEPS, |scenario| {
        let program = Program { api_version: vk::API_VERSION_1_2, extensions: true, odd: Odd::Nothing };
        let env = filled(scenario, json!({ "extensions": ["VK_KHR_maintenance4"] }), &program, 1);
        let seen = scenario.run_ok::<Value>("late", &env, &json!([program, COUNT + 1, "same"]));
        let [parked, unasked] = counts(&seen, ["parked", "parked_unasked"]);
        assert_eq!(parked + unasked, COUNT + 1, "{:?}", seen.reports.counters());
    });
}

/// The place of a command in a record, if it was called.
fn place(record: &Value, command: &str) -> Option<usize> {
    record["calls"].as_array().unwrap().iter().position(|call| call["command"] == command)
}

/// Destroys a layout, and its sampler, while a worker's call with them hangs; and the device, if the input says so.
fn overlap(input: &Value) -> Value {
    let (folder, ends): (PathBuf, bool) = serde_json::from_value(input.clone()).unwrap();
    let (entered, goes_on) = (folder.join("entered"), folder.join("goes on"));
    let device = Program::usual().device();
    let driver = TestDriver::open();
    let hangs = json!({ "command": "vkCreateComputePipelines", "touch": entered, "until": goes_on });
    driver.control(&json!({ "faults": [hangs] }));
    let layout = Layout::new(&device, Odd::Nothing);
    until("a worker is in the driver", || entered.exists());
    driver.take_record();
    drop(layout);
    let record = driver.take_record();
    for command in ["vkDestroyPipelineLayout", "vkDestroySampler"] {
        assert_eq!(place(&record, command), None, "{record}");
    }
    assert!(place(&record, "vkDestroyDescriptorSetLayout").is_some(), "nothing uses it: {record}");
    let release = move || {
        if ends {
            // The program is in vkDestroyDevice.
            std::thread::sleep(Duration::from_millis(100));
        }
        std::fs::write(&goes_on, "").unwrap();
    };
    let releases = std::thread::spawn(release);
    let (mut called, mut violations) = (Vec::new(), Vec::new());
    let mut look = |what: &str| {
        let record = driver.take_record();
        let names = record["calls"].as_array().unwrap().iter().map(|call| call["command"].as_str().unwrap());
        called.extend(names.map(str::to_owned));
        violations.extend(record["violations"].as_array().unwrap().clone());
        called.iter().position(|name| name == what)
    };
    if !ends {
        until("the worker destroys them", || look("vkDestroySampler").is_some());
    }
    drop(device);
    releases.join().unwrap();
    let [layout, sampler, end] = ["vkDestroyPipelineLayout", "vkDestroySampler", "vkDestroyDevice"].map(look);
    assert!(layout.is_some() && sampler.is_some() && layout < end && sampler < end, "{called:?}");
    assert!(violations.is_empty(), "{violations:?}");
    json!(null)
}

#[test]
fn what_the_program_destroys_while_a_worker_uses_it_is_destroyed_by_the_worker_and_before_the_device() {
    for ends in [false, true] {
        scenario(STEPS, |scenario| {
            let env = filled(scenario, json!({}), &Program::usual(), 0);
            let seen = scenario.run_ok::<Value>("overlap", &env, &json!([scenario.folder(), ends]));
            assert_eq!(seen.reports.sum("internal_failures"), 0, "{:?}", seen.reports.counters());
        });
    }
}

/// Gives workers so many milliseconds once the layout is there, and makes the pipelines.
fn waiting(input: &Value) -> Value {
    let (program, wait_ms, then): (Program, u64, String) = serde_json::from_value(input.clone()).unwrap();
    let device = program.device();
    // On a driver whose caches keep nothing workers begin now.
    device.module(&spirv::compute(u32::MAX));
    let mut layout = Layout::new(&device, program.odd);
    std::thread::sleep(Duration::from_millis(wait_ms));
    if then == "again" {
        drop(layout);
        layout = Layout::new(&device, program.odd);
    }
    json!(layout.make())
}

#[test]
fn real_drivers_take_layouts_that_workers_have_borrowed() {
    scenario(STEPS, |scenario| {
        for driver in [Driver::Radv, Driver::Lavapipe, Driver::Machine] {
            let Some(env) = scenario.on(driver.clone()) else { continue };
            for odd in [Odd::Nothing, Odd::Conversion] {
                let program = Program { odd, ..Program::usual() };
                let env = env.clone().stash(scenario.folder().join(format!("{} {odd:?}", driver.name())));
                let idle = env.clone().var("VKSTASH_BACKGROUND_WORKERS", "0");
                (0..2).for_each(|_| _ = scenario.run_ok::<Value>("work", &idle, &json!([program, 0])));
                let env = env.var("VKSTASH_BACKGROUND_WORKERS", "2");
                // The colour conversion may be destroyed before its sampler, so a layout with one is not lent.
                let (all, none) = match odd {
                    Odd::Conversion => ("never_ahead", "parked"),
                    _ => ("parked", "never_ahead"),
                };
                let come_to_it = [300, 1_000, 4_000, 16_000].into_iter().any(|wait_ms| {
                    let seen = scenario.run_ok::<Value>("waiting", &env, &json!([program, wait_ms, "same"]));
                    assert_eq!(seen.value, json!(true));
                    assert_eq!(seen.reports.sum(none), 0, "{:?}", seen.reports.counters());
                    seen.reports.sum(all) == COUNT
                });
                assert!(come_to_it, "{}, {odd:?}", driver.name());
                // Workers that are late use the second layout.
                let seen = scenario.run_ok::<Value>("waiting", &env, &json!([program, 300, "again"]));
                assert_eq!((seen.value, seen.reports.sum(none)), (json!(true), 0), "{}", driver.name());
            }
        }
    });
}
