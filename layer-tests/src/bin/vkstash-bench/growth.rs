//! `growth`: what commands cost while a program's state grows, over the driver's warm disk cache and at default
//! settings, with and without the layer. A command is linear if its time per call is the same however much there is,
//! or grows as the driver's own does.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use ash::vk;
use serde::{Deserialize, Serialize};
use vkstash_layer_tests::bench::report::Device as Described;
use vkstash_layer_tests::vulkan::{Device, DeviceOptions, Instance, InstanceOptions, spirv};
use vkstash_layer_tests::work::Work;

use crate::child::Runner;
use crate::environment::{self, Environment};
use crate::failure::Failure;
use crate::options::{Driver, Growth};
use crate::progress::progress;
use crate::table::{Figure, Table};

/// Runs before those that are counted: the first fills the caches, and later ones record what the driver had.
const BEFORE: usize = 3;

/// Pipelines that are made beside all layouts.
const NEW_PIPELINES: u32 = 256;

/// What one process measured.
#[derive(Serialize, Deserialize)]
struct Measured {
    device: Described,
    /// Commands, and the microseconds of a call, on average over the last quarter of all calls.
    commands: Vec<(String, f64)>,
}

/// What a process of the benchmark does, with so many objects of each kind. Prints JSON.
pub(crate) fn step(count: u32) -> Result<(), Failure> {
    let instance = Instance::new(&InstanceOptions::default())?;
    let options = DeviceOptions { cache_control: true, identifiers: true, ..DeviceOptions::default() };
    let device = Device::new(&instance, &options)?;
    let mut times = Times { count, commands: Vec::new() };
    modules(&device, &mut times);
    layouts(&device, &mut times);
    shared_cache(&device, &mut times);
    merged_caches(&device, &mut times);
    let physical = instance.properties(device.physical);
    let device = Described {
        name: physical.device_name_as_c_str().unwrap_or_default().to_string_lossy().into_owned(),
        driver_version: physical.driver_version,
        ..Described::default()
    };
    println!("{}", serde_json::to_string(&Measured { device, commands: times.commands })?);
    Ok(())
}

struct Times {
    count: u32,
    commands: Vec<(String, f64)>,
}

impl Times {
    /// Makes a call for each number.
    fn each(&mut self, name: &str, mut call: impl FnMut(u32)) {
        self.timed(name, |number| {
            let began = Instant::now();
            call(number);
            began.elapsed().as_secs_f64()
        });
    }

    /// Notes the calls' seconds, which `call` gives.
    fn timed(&mut self, name: &str, mut call: impl FnMut(u32) -> f64) {
        let seconds: Vec<f64> = (0..self.count).map(&mut call).collect();
        let last = &seconds[seconds.len() * 3 / 4..];
        self.commands.push((name.to_owned(), last.iter().sum::<f64>() * 1e6 / last.len() as f64));
    }
}

fn modules(device: &Device, times: &mut Times) {
    let codes: Vec<_> = (0..times.count).map(|number| spirv::compute(90_000 + number)).collect();
    let mut made = Vec::new();
    times.each("vkCreateShaderModule", |number| made.push(device.module(&codes[number as usize])));
    times.each("vkGetShaderModuleIdentifierEXT", |number| drop(device.identifier(made[number as usize])));
    times.each("vkGetShaderModuleCreateInfoIdentifierEXT", |number| {
        drop(device.identifier_of_code(&codes[number as usize]));
    });
    times.each("vkDestroyShaderModule", |number| {
        // SAFETY: created above, and destroyed once.
        unsafe { device.destroy_module(made[number as usize]) };
    });
}

fn layouts(device: &Device, times: &mut Times) {
    let mut made = Vec::new();
    times.each("vkCreatePipelineLayout", |number| {
        let ranges = [vk::PushConstantRange::default()
            .stage_flags(vk::ShaderStageFlags::COMPUTE)
            .size(4 + 4 * (number % 32))];
        let info = vk::PipelineLayoutCreateInfo::default().push_constant_ranges(&ranges);
        // SAFETY: a live device and a valid create info.
        made.push(unsafe { device.raw.create_pipeline_layout(&info, None) }.expect("a layout"));
    });
    // No earlier run has made these: each is compiled, and recorded with what it names.
    let first = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u32);
    let spent: Vec<f64> = (0..NEW_PIPELINES)
        .map(|number| {
            let began = Instant::now();
            create(device, first.wrapping_add(number) >> 1, vk::PipelineCache::null());
            began.elapsed().as_secs_f64()
        })
        .collect();
    let average = spent.iter().sum::<f64>() * 1e6 / spent.len() as f64;
    times.commands.push(("a new shader and its pipeline, beside all layouts".to_owned(), average));
    times.each("vkDestroyPipelineLayout", |number| {
        // SAFETY: created above, and destroyed once.
        unsafe { device.raw.destroy_pipeline_layout(made[number as usize], None) };
    });
}

fn create(device: &Device, number: u32, cache: vk::PipelineCache) {
    assert!(Work { first: 1 + number, count: 1, ..Work::default() }.run_through(device, cache).all_made());
}

/// One cache for all, whose size is asked for after each pipeline.
fn shared_cache(device: &Device, times: &mut Times) {
    let cache = device.cache(&[]);
    times.timed("vkGetPipelineCacheData, the size after each pipeline", |number| {
        create(device, number, cache);
        let began = Instant::now();
        device.cache_size(cache);
        began.elapsed().as_secs_f64()
    });
    // The driver writes all of it: per pipeline.
    let mut data = Vec::new();
    for name in ["vkGetPipelineCacheData, all data, by pipeline", "the same once more, by pipeline"] {
        let began = Instant::now();
        data = device.cache_data(cache);
        let spent = began.elapsed().as_secs_f64() * 1e6;
        times.commands.push((name.to_owned(), spent / f64::from(times.count)));
    }
    let began = Instant::now();
    let loaded = device.cache(&data);
    let spent = began.elapsed().as_secs_f64() * 1e6;
    times
        .commands
        .push(("vkCreatePipelineCache, all data, by pipeline".to_owned(), spent / f64::from(times.count)));
    device.destroy_cache(loaded);
    let began = Instant::now();
    device.destroy_cache(cache);
    let spent = began.elapsed().as_secs_f64() * 1e6;
    times.commands.push((
        "vkDestroyPipelineCache, one with all, by pipeline".to_owned(),
        spent / f64::from(times.count),
    ));
}

/// A cache for each pipeline, merged into one.
fn merged_caches(device: &Device, times: &mut Times) {
    let all = device.cache(&[]);
    let caches: Vec<_> = (0..times.count)
        .map(|number| {
            let cache = device.cache(&[]);
            create(device, number, cache);
            cache
        })
        .collect();
    times.each("vkMergePipelineCaches, one pipeline into all", |number| {
        // SAFETY: live caches that no other thread uses; the destination is not a source.
        unsafe { device.raw.merge_pipeline_caches(all, &[caches[number as usize]]) }.expect("merged");
    });
    times.each("vkDestroyPipelineCache, one pipeline", |number| {
        device.destroy_cache(caches[number as usize]);
    });
    times.each("vkGetPipelineCacheData, the size, nothing new", |_| {
        device.cache_size(all);
    });
    device.destroy_cache(all);
}

/// One table: a row for each command and number.
pub(crate) fn run(runner: &Runner, options: &Growth, rounds: usize) -> Result<Vec<Table>, Failure> {
    let driver = options.on.driver.unwrap_or(Driver::Radv);
    environment::check(driver)?;
    let (mut figures, mut shown) = (Vec::new(), None);
    for &count in &options.numbers {
        let (disk, stash) = (runner.folder("disk")?, runner.path("stash"));
        let plain = Environment { usual_order: true, ..Environment::bare(driver).with_disk(&disk) };
        let with = plain.with_stash(&stash).with_background();
        progress(&format!("{count} objects: filling the driver's disk cache and the stash"));
        let number = count.to_string();
        let step = ["growth", "--step", &number];
        runner.step::<Measured>(&plain, step)?;
        for _ in 0..BEFORE {
            runner.step::<Measured>(&with, step)?;
        }
        let [mut layered, mut bare]: [Vec<Measured>; 2] = Default::default();
        for round in 0..rounds {
            progress(&format!("{count} objects: round {} of {rounds}", round + 1));
            let mut both = [(&with, &mut layered), (&plain, &mut bare)];
            both.rotate_left(round % 2);
            for (environment, runs) in both {
                runs.push(runner.step(environment, step)?);
            }
        }
        for (index, (name, _)) in bare[0].commands.iter().enumerate() {
            let values = |runs: &[Measured]| runs.iter().map(|run| run.commands[index].1).collect::<Vec<_>>();
            let id = format!("growth.{}.{count}", name.replace([' ', ','], "_"));
            let what = format!("{name}, of {count}");
            figures.push(Figure::pairs(id, what, &values(&layered), "no layer", &values(&bare), "us"));
        }
        shown = bare.pop().map(|run| run.device);
    }
    Ok(vec![Table {
        title: "Commands while the program's state grows".to_owned(),
        device: shown.unwrap_or_default(),
        modules: 0,
        figures,
    }])
}
