//! A headless Vulkan client whose graphics pipelines share their shaders and differ in state that drivers leave out
//! of their own shader keys. A driver compiles a few of them and finds the others in its cache, so a layer that keeps
//! pipelines out of that cache makes such a program slower.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test program may stop at what it did not expect"
)]

mod pipelines;
mod state;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ash::vk;
use clap::{Parser, ValueEnum};
use vkstash_layer_tests::bench::report::{self, Call, Kind, Report, Round};
use vkstash_layer_tests::vulkan::{Device, DeviceOptions, Instance, InstanceOptions};

use crate::pipelines::Objects;
use crate::state::State;

/// The pipelineCache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Habit {
    /// VK_NULL_HANDLE.
    None,
    /// One for all, empty at first.
    Shared,
    /// A new one for each pipeline.
    Fresh,
    /// One for all, loaded from --cache-file if that exists, and written there at the end.
    File,
}

/// Creates graphics pipelines that differ in little, and reports the cost of each call.
#[derive(Parser)]
#[command(version)]
struct Options {
    /// The state in which they differ.
    #[arg(long, value_enum, default_value = "viewport")]
    state: State,
    /// The pipelineCache.
    #[arg(long, value_enum, default_value = "shared")]
    cache: Habit,
    /// The file of `--cache file`.
    #[arg(long, value_name = "FILE", required_if_eq("cache", "file"))]
    cache_file: Option<PathBuf>,
    /// Number of pipelines.
    #[arg(long, value_name = "N", default_value_t = 200)]
    count: u32,
    /// The order of `--state shuffled`.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u32,
    /// How often all pipelines are created.
    #[arg(long, value_name = "N", default_value_t = 1)]
    times: u32,
    /// Request creation feedback.
    #[arg(long, conflicts_with = "batch")]
    feedback: bool,
    /// Create infos in one call.
    #[arg(long, value_name = "N", default_value_t = 1)]
    batch: usize,
    /// Threads that create pipelines.
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// Forbid compiling in every call but the first; all must succeed.
    #[arg(long)]
    fail_on: bool,
    /// Forbid compiling in every call, and make it once more without that if it is refused, as translators do.
    #[arg(long, conflicts_with = "fail_on")]
    retry: bool,
    /// Milliseconds for which the program does nothing after its last pipeline. They are not counted.
    #[arg(long, value_name = "N", default_value_t = 0)]
    idle_ms: u64,
    /// VkApplicationInfo::pApplicationName.
    #[arg(long, value_name = "NAME", default_value = "vkstash-states")]
    application: String,
    /// Print the full report as JSON.
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let report = run(&options);
    if options.json {
        println!("{}", serde_json::to_string(&report).expect("a report is JSON"));
        return ExitCode::SUCCESS;
    }
    let calls = &report.rounds[0].calls;
    let mut sorted: Vec<u64> = calls.iter().map(Call::whole_ns).collect();
    sorted.sort_unstable();
    let at = |share: usize| sorted[(sorted.len() - 1) * share / 100] as f64 / 1e3;
    println!(
        "{}: {:?}, cache {:?}: {} pipelines in {:.2} ms; median {:.1} us, p99 {:.1} us, most {:.1} us",
        report.device.name,
        options.state,
        options.cache,
        options.count,
        sorted.iter().sum::<u64>() as f64 / 1e6,
        at(50),
        at(99),
        at(100),
    );
    ExitCode::SUCCESS
}

fn run(options: &Options) -> Report {
    let started = Instant::now();
    let named = InstanceOptions { application: options.application.clone(), ..InstanceOptions::default() };
    let instance = Instance::new(&named).expect("an instance");
    let wanted = DeviceOptions {
        dynamic_rendering: true,
        cache_control: options.fail_on || options.retry,
        ..DeviceOptions::default()
    };
    let device = Arc::new(Device::new(&instance, &wanted).expect("a device"));
    let properties = instance.properties(device.physical);
    let mut report = Report {
        startup_ns: nanos(started),
        device: report::Device {
            name: properties.device_name_as_c_str().unwrap_or_default().to_string_lossy().into_owned(),
            driver_version: properties.driver_version,
            vendor_id: properties.vendor_id,
            device_id: properties.device_id,
            ..report::Device::default()
        },
        modules: (0..options.count).map(|index| format!("{index}")).collect(),
        ..Report::default()
    };
    report.rounds.push(round(options, &device));
    let started = Instant::now();
    drop(device);
    drop(instance);
    report.teardown_ns = nanos(started);
    report
}

fn round(options: &Options, device: &Device) -> Round {
    let objects = Objects::new(device, options.state);
    let file = options.cache_file.as_ref().filter(|_| options.cache == Habit::File);
    let loaded = file.and_then(|path| fs::read(path).ok()).unwrap_or_default();
    let shared = matches!(options.cache, Habit::Shared | Habit::File).then(|| device.cache(&loaded));
    let all = (0..options.times).flat_map(|_| 0..options.count);
    let indices: Vec<u32> = all
        .map(|index| match options.state {
            // Visits each pipeline once if 7 does not divide the count.
            State::Shuffled => (index * 7 + options.seed) % options.count,
            _ => index,
        })
        .collect();
    let began = Instant::now();
    let next = AtomicUsize::new(0);
    let batches: Vec<&[u32]> = indices.chunks(options.batch.max(1)).collect();
    let work = || {
        let mut calls = Vec::new();
        while let Some(batch) = batches.get(next.fetch_add(1, Ordering::Relaxed)) {
            calls.push(call(options, device, &objects, shared, batch));
        }
        calls
    };
    let calls = std::thread::scope(|scope| {
        let threads: Vec<_> = (1..options.threads).map(|_| scope.spawn(work)).collect();
        let mut calls = work();
        threads.into_iter().for_each(|thread| calls.extend(thread.join().expect("a thread")));
        calls
    });
    let total_ns = nanos(began);
    std::thread::sleep(Duration::from_millis(options.idle_ms));
    if let Some(cache) = shared {
        if let Some(path) = file {
            fs::write(path, device.cache_data(cache)).expect("the cache file");
        }
        device.destroy_cache(cache);
    }
    Round { kind: Kind::Create, total_ns, processor_ns: None, instructions: None, calls }
}

fn call(
    options: &Options,
    device: &Device,
    objects: &Objects,
    shared: Option<vk::PipelineCache>,
    batch: &[u32],
) -> Call {
    let mut call = Call::default();
    let started = Instant::now();
    let fresh = (options.cache == Habit::Fresh).then(|| device.cache(&[]));
    call.cache_ns = if fresh.is_some() { nanos(started) } else { 0 };
    let cache = shared.or(fresh).unwrap_or_default();
    let flags = match options.retry || options.fail_on && batch != [0] {
        true => vk::PipelineCreateFlags::FAIL_ON_PIPELINE_COMPILE_REQUIRED,
        false => vk::PipelineCreateFlags::empty(),
    };
    let mut feedback = vk::PipelineCreationFeedback::default();
    let mut asked = options.feedback.then_some(&mut feedback);
    (call.result, call.create_ns) =
        objects.create(device, cache, options.state, batch, flags, asked.as_deref_mut());
    if options.retry && call.result == vk::Result::PIPELINE_COMPILE_REQUIRED.as_raw() {
        let refused_in = call.create_ns;
        let flags = vk::PipelineCreateFlags::empty();
        (call.result, call.create_ns) = objects.create(device, cache, options.state, batch, flags, asked);
        call.create_ns += refused_in;
    }
    call.feedback = options.feedback.then_some(feedback.flags.as_raw());
    if let Some(cache) = fresh {
        let started = Instant::now();
        device.destroy_cache(cache);
        call.cache_ns += nanos(started);
    }
    assert_eq!(call.result, vk::Result::SUCCESS.as_raw(), "pipelines {batch:?}");
    call
}

fn nanos(started: Instant) -> u64 {
    started.elapsed().as_nanos() as u64
}
