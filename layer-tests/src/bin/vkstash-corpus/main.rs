//! A headless Vulkan client that creates compute pipelines from a folder of SPIR-V modules and reports the cost of
//! each call. Benchmarks and tests run it as a child process.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test program may stop at what it did not expect"
)]

mod caches;
mod counters;
mod create;
mod failure;
mod hit;
mod objects;
mod options;
mod slow;
mod vulkan;

use std::fs;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser as _;
use vkstash_layer_tests::bench::numbers::median;
use vkstash_layer_tests::bench::report::{Call, Kind, Report};
use vkstash_layer_tests::corpus::{self, Module};

use crate::caches::Cache;
use crate::create::{Plan, Source};
use crate::failure::Failure;
use crate::options::{Command, Habit, Objects, Options, Run};
use crate::vulkan::{Gpu, nanos};

fn main() -> ExitCode {
    let options = Options::parse();
    let done = match &options.command {
        Some(Command::FindSlow(options)) => slow::find(options),
        None => run(&options.run),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("vkstash-corpus: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Run) -> Result<(), Failure> {
    let modules = if options.no_pipelines { Vec::new() } else { corpus::read(&options.selection)? };
    let initial_data = match &options.cache {
        Habit::File(path) if path.exists() => fs::read(path)?,
        _ => Vec::new(),
    };
    if options.idle_thread {
        std::thread::spawn(|| {
            loop {
                std::thread::park();
            }
        });
    }
    let started = Instant::now();
    let gpu = Gpu::new(options)?;
    let mut report = Report {
        startup_ns: nanos(started),
        device: gpu.describes.clone(),
        modules: modules.iter().map(|module| module.name.clone()).collect(),
        ..Report::default()
    };
    if let Some(module) = modules.first().filter(|_| options.pause_ms + options.spin_ms > 0) {
        // Where a driver's caches keep nothing, background work begins with the first module.
        gpu.destroy_module(gpu.module(module)?.0);
    }
    std::thread::sleep(Duration::from_millis(options.pause_ms));
    (report.spun, report.spun_processor) = spin(Duration::from_millis(options.spin_ms));
    report.resident_kib = resident_kib();
    if !options.no_pipelines {
        rounds(&gpu, &modules, options, &initial_data, &mut report)?;
    }
    report.teardown_ns = gpu.destroy();
    if options.json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        summary(&report);
    }
    Ok(())
}

fn rounds(
    gpu: &Gpu,
    modules: &[Module],
    options: &Run,
    initial_data: &[u8],
    report: &mut Report,
) -> Result<(), Failure> {
    if let Some(made_of) = &options.shader_objects {
        let file = match made_of {
            Objects::File(path) => Some(path.as_path()),
            Objects::Code => None,
        };
        for _ in 0..options.rounds {
            report.rounds.push(objects::round(gpu, modules, file)?);
        }
        return Ok(());
    }
    let plan = Plan {
        kind: Kind::Create,
        source: Source::Null,
        modules_only: options.modules_only,
        threads: options.threads,
        gap: Duration::from_micros(options.gap_us),
    };
    if options.hit {
        report.rounds = hit::whole(gpu, modules, plan, options.rounds)?;
        return Ok(());
    }
    let shared = match options.cache {
        Habit::Shared | Habit::File(_) => Some(Cache::new(gpu, initial_data)?),
        _ => None,
    };
    let source = match (&shared, &options.cache) {
        (Some(cache), _) => Source::One(cache),
        (None, Habit::Fresh) => Source::Fresh { read: false },
        (None, Habit::FreshRead) => Source::Fresh { read: true },
        (None, _) => Source::Null,
    };
    for _ in 0..options.rounds {
        report.rounds.push(create::round(gpu, modules, Plan { source, ..plan })?);
    }
    if let (Some(cache), Habit::File(path), false) = (&shared, &options.cache, options.keep_cache_file) {
        let aside = path.with_extension("new");
        fs::write(&aside, cache.data()?)?;
        fs::rename(aside, path)?;
    }
    Ok(())
}

/// Computes for this long; returns how often a fixed piece of work was done in a millisecond, and in one of processor
/// time.
fn spin(time: Duration) -> (f64, f64) {
    let (started, before) = (Instant::now(), counters::processor_time());
    let (mut pieces, mut value) = (0u64, 1u64);
    while started.elapsed() < time {
        for _ in 0..1_000 {
            value = std::hint::black_box(value.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(7));
        }
        pieces += 1;
    }
    let (wall, processor) = (started.elapsed(), counters::processor_time() - before);
    let in_a_millisecond = |time: Duration| pieces as f64 / (time.as_secs_f64() * 1e3).max(1e-9);
    (in_a_millisecond(wall), in_a_millisecond(processor))
}

/// What the process occupies of the machine's memory now.
fn resident_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}

fn summary(report: &Report) {
    let device = &report.device;
    println!("{} ({} {}), {} modules", device.name, device.driver, device.driver_info, report.modules.len());
    for round in &report.rounds {
        let typical = |of: fn(&Call) -> u64| {
            median(&round.calls.iter().map(|call| of(call) as f64 / 1e3).collect::<Vec<_>>())
        };
        println!(
            "{:?}: median call {:.1} us, module {:.1} us, cache {:.1} us; all {:.1} ms",
            round.kind,
            typical(|call| call.create_ns),
            typical(|call| call.module_ns),
            typical(|call| call.cache_ns),
            round.total_ns as f64 / 1e6,
        );
    }
    println!("start {:.1} ms, end {:.1} ms", report.startup_ns as f64 / 1e6, report.teardown_ns as f64 / 1e6);
}
