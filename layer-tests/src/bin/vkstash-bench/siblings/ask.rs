//! The child processes: one compiles, another one asks.

use std::fs;
use std::io::Write as _;
use std::sync::Arc;

use ash::vk;
use vkstash_layer_tests::vulkan::{Device, Instance, InstanceOptions};

use super::config::{self, Config};
use super::model::{Answer, Case, Class, Step};
use super::pipelines::Pipelines;
use crate::failure::Failure;

/// How many pipelines are asked for in each case.
const COUNT: u32 = 2;
const FAIL: vk::PipelineCreateFlags = vk::PipelineCreateFlags::FAIL_ON_PIPELINE_COMPILE_REQUIRED;

pub(super) fn run(step: &Step) -> Result<(), Failure> {
    let instance =
        Instance::new(&InstanceOptions::default()).map_err(|error| format!("no instance: {error}"))?;
    let properties = instance.properties(instance.physical_device());
    let cases = config::cases(&instance, step.class, step.toggled).ok_or("it lacks what the class needs")?;
    match step.from {
        None => {
            let name = properties.device_name_as_c_str()?.to_string_lossy();
            println!("{name}, driver version {:#x}", properties.driver_version);
            compile(&instance, step, &cases)
        }
        Some(from) => ask(&instance, step, &cases, from),
    }
}

/// The numbers of a case's pipelines: no other case has the same.
fn numbers(case: usize) -> impl Iterator<Item = u32> {
    let first = COUNT * case as u32 + 1;
    first..first + COUNT
}

/// Makes the pipelines of all cases on the device of the first one, each in a cache of its own.
fn compile(instance: &Arc<Instance>, step: &Step, cases: &[(String, Config)]) -> Result<(), Failure> {
    let device = device(&cases[0].1, instance, step.class).map_err(|error| format!("no device: {error}"))?;
    let pipelines = Pipelines::new(&device, step.class);
    let mut made: Vec<Vec<u8>> = Vec::new();
    for number in (0..cases.len()).flat_map(numbers) {
        let (result, data) =
            with_cache(&device, &[], |cache| pipelines.make(number, cache, vk::PipelineCreateFlags::empty()));
        if result != vk::Result::SUCCESS {
            return Err(format!("compiling: {result:?}").into());
        }
        made.push(data);
    }
    fs::write(&step.file, serde_json::to_vec(&made)?)?;
    Ok(())
}

fn ask(
    instance: &Arc<Instance>,
    step: &Step,
    cases: &[(String, Config)],
    from: usize,
) -> Result<(), Failure> {
    let made: Vec<Vec<u8>> = serde_json::from_slice(&fs::read(&step.file)?)?;
    for (index, (name, config)) in cases.iter().enumerate().skip(from) {
        let (answer, same) = match device(config, instance, step.class) {
            Err(_) => (Answer::NoDevice, false),
            Ok(device) => case(&Pipelines::new(&device, step.class), &device, index, &made),
        };
        let case = Case { index, name: name.clone(), answer, same };
        // Known before the next case is tried, which may end the process.
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", serde_json::to_string(&case)?)?;
        out.flush()?;
    }
    Ok(())
}

fn device(config: &Config, instance: &Arc<Instance>, class: Class) -> Result<Device, vk::Result> {
    assert!(class != Class::RayTracing || config.has_ray_tracing());
    config.device(instance)
}

fn case(pipelines: &Pipelines<'_>, device: &Device, index: usize, made: &[Vec<u8>]) -> (Answer, bool) {
    let (mut answer, mut same) = (Answer::Taken, true);
    for number in numbers(index) {
        let offered = &made[number as usize - 1];
        match with_cache(device, &[], |cache| pipelines.make(number, cache, FAIL)).0 {
            vk::Result::PIPELINE_COMPILE_REQUIRED_EXT => {}
            vk::Result::SUCCESS => return (Answer::Known, false),
            _ => return (Answer::Failed, false),
        }
        match with_cache(device, offered, |cache| pipelines.make(number, cache, FAIL)).0 {
            vk::Result::SUCCESS => {}
            vk::Result::PIPELINE_COMPILE_REQUIRED_EXT => answer = Answer::Refused,
            _ => return (Answer::Failed, false),
        }
        let compiled =
            with_cache(device, &[], |cache| pipelines.make(number, cache, vk::PipelineCreateFlags::empty()));
        same &= compiled.0 == vk::Result::SUCCESS && compiled.1 == *offered;
    }
    (answer, same)
}

/// Does it with a new cache, and reads the cache's data.
fn with_cache(
    device: &Device,
    data: &[u8],
    make: impl FnOnce(vk::PipelineCache) -> vk::Result,
) -> (vk::Result, Vec<u8>) {
    let cache = device.cache(data);
    let result = make(cache);
    let data = device.cache_data(cache);
    device.destroy_cache(cache);
    (result, data)
}
