//! A Vulkan program that creates compute pipelines from a folder of SPIR-V modules, the way real programs do,
//! and says what each call cost. It never submits anything.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test program may panic")]

mod corpus;
mod device;
mod habits;

use std::path::PathBuf;
use std::time::Instant;

use clap::{Parser, ValueEnum};
use serde::Serialize;

/// What is passed as pipelineCache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CacheHabit {
    /// VK_NULL_HANDLE.
    None,
    /// A new, empty cache per pipeline, destroyed afterwards.
    Fresh,
    /// The same, and its data is read, as translators do.
    FreshRead,
    /// One cache, empty at first.
    Shared,
    /// One cache, loaded from and saved to --cache-file.
    File,
}

/// Creates compute pipelines from a folder of SPIR-V modules.
#[derive(Parser)]
pub struct Options {
    /// Folder of .spv files.
    #[arg(long)]
    corpus: PathBuf,
    /// How many modules, spread evenly over those that fit.
    #[arg(long, default_value_t = 200)]
    count: usize,
    /// Largest module, in bytes.
    #[arg(long, default_value_t = 9216)]
    max_bytes: u64,
    /// File of names (prefixes) to leave out: modules that take a compiler seconds or minutes.
    #[arg(long)]
    skip_list: Option<PathBuf>,
    /// What is passed as pipelineCache.
    #[arg(long, value_enum, default_value_t = CacheHabit::None)]
    cache: CacheHabit,
    /// For --cache file.
    #[arg(long)]
    cache_file: Option<PathBuf>,
    /// Ask by identifier first, as vkd3d-proton does: identifiers are read from this file, or written to it
    /// where it does not exist; what must be compiled is created with its module.
    #[arg(long)]
    identifiers: Option<PathBuf>,
    /// Only an instance and a device.
    #[arg(long)]
    no_pipelines: bool,
    /// Measures first uses of entries in a freshly loaded in-memory VkPipelineCache instead.
    #[arg(long)]
    hit: bool,
    /// Threads that create pipelines.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Leaves by _exit, without destroying anything.
    #[arg(long)]
    leave: bool,
    /// Prints every figure as JSON.
    #[arg(long)]
    json: bool,
}

/// What a run measured; times in nanoseconds.
#[derive(Default, Serialize)]
pub struct Figures {
    /// deviceName.
    device: String,
    /// driverName and driverInfo.
    driver: String,
    /// Each vkCreateComputePipelines, in the order of the modules.
    pipelines: Vec<u64>,
    /// Each vkCreateShaderModule.
    modules: Vec<u64>,
    /// Calls that were answered VK_PIPELINE_COMPILE_REQUIRED.
    compile_required: u64,
    /// Pipelines that were made by identifier alone.
    by_identifier: u64,
    /// Time from the first module to the last pipeline.
    wall: u64,
}

fn main() {
    let options = Options::parse();
    let modules = if options.no_pipelines { Vec::new() } else { corpus::load(&options) };
    let device = device::Device::new();
    let mut figures =
        Figures { device: device.name.clone(), driver: device.driver.clone(), ..Default::default() };
    let started = Instant::now();
    if options.hit {
        habits::first_uses(&device, &modules, &mut figures);
    } else {
        habits::run(&device, &options, &modules, &mut figures);
    }
    figures.wall = started.elapsed().as_nanos() as u64;
    if options.json {
        println!("{}", serde_json::to_string(&figures).unwrap());
    } else {
        let mut sorted = figures.pipelines.clone();
        sorted.sort_unstable();
        let median = sorted.get(sorted.len() / 2).copied().unwrap_or(0) as f64 / 1e3;
        let total = figures.pipelines.iter().sum::<u64>() as f64 / 1e6;
        println!(
            "{} ({}): {} pipelines, median {median:.1} us, total {total:.1} ms",
            figures.device,
            figures.driver,
            figures.pipelines.len()
        );
    }
    if options.leave {
        // SAFETY: ends the process at once; nothing runs after it.
        unsafe { libc::_exit(0) };
    }
    drop(device);
}
