//! `stress`: many processes at once that make and destroy four devices in turn, and compute, graphics and ray tracing
//! pipelines on each, for a given time; without the layer, with an empty stash, and with a filled one. Prints how many
//! devices they come to, and how many processes do not end.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ash::vk;
use vkstash_layer_tests::vulkan::{Device, Instance, InstanceOptions};
use vkstash_store::reports::runs;

use crate::child::{Runner, counted};
use crate::environment::{self, Environment, Home};
use crate::failure::Failure;
use crate::options::{Driver, Stress};
use crate::progress::progress;
use crate::siblings::config;
use crate::siblings::model::{Class, Toggled};
use crate::siblings::pipelines::Pipelines;
use crate::table::{Figure, Table};

/// Devices that are alive at a time.
const DEVICES: usize = 4;
/// Pipelines of each class on each device.
const PIPELINES: u32 = 8;
/// Every so many devices are those of another instance.
const AN_INSTANCE: usize = 16;
const NOTHING: [&str; 0] = [];
/// A process that has not ended so long after its time hangs.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a process of the benchmark does, as its parent says: prints how many devices it has come to.
pub(crate) fn step(seconds: u64) -> Result<(), Failure> {
    let (began, mut count) = (Instant::now(), 0);
    let mut alive: [Option<Device>; DEVICES] = Default::default();
    let mut instance = new_instance()?;
    while began.elapsed() < Duration::from_secs(seconds) {
        if count % AN_INSTANCE == AN_INSTANCE - 1 {
            instance = new_instance()?;
        }
        let slot = &mut alive[count % DEVICES];
        drop(slot.take());
        *slot = Some(device(&instance)?);
        count += 1;
    }
    alive.into_iter().for_each(drop);
    drop(instance);
    println!("{count}");
    Ok(())
}

fn new_instance() -> Result<Arc<Instance>, Failure> {
    Instance::new(&InstanceOptions::default()).map_err(|error| format!("no instance: {error}").into())
}

/// A device with its pipelines: with ray tracing where the driver has it.
fn device(instance: &Arc<Instance>) -> Result<Device, Failure> {
    let of = |class| config::cases(instance, class, Toggled::Core).and_then(|cases| cases.into_iter().next());
    let rays = of(Class::RayTracing);
    let has_rays = rays.is_some();
    let (_, config) = rays.or_else(|| of(Class::Compute)).ok_or("it lacks what compute pipelines need")?;
    let device = config.device(instance).map_err(|error| format!("no device: {error}"))?;
    for class in [Class::Compute, Class::RenderPass, Class::RayTracing] {
        if class == Class::RayTracing && !has_rays {
            continue;
        }
        let pipelines = Pipelines::new(&device, class);
        for number in 0..PIPELINES {
            let (cache, flags) = (vk::PipelineCache::null(), vk::PipelineCreateFlags::empty());
            let result = pipelines.make(number, cache, flags);
            if result != vk::Result::SUCCESS {
                return Err(format!("{class:?}: {result:?}").into());
            }
        }
    }
    Ok(device)
}

/// Processes that ran at the same time.
struct Ran {
    /// Devices a second, of all processes.
    rate: f64,
    hangs: usize,
    failures: usize,
    /// Pipelines that workers had made.
    parked: u64,
}

/// One table.
pub(crate) fn run(runner: &Runner, options: &Stress, rounds: usize) -> Result<Vec<Table>, Failure> {
    let driver = options.on.driver.unwrap_or(Driver::Gpu);
    environment::check(driver)?;
    let disk = runner.folder("disk")?;
    let plain =
        Environment { compares: true, ..Environment::bare(driver).with_disk(&disk) }.with_background();
    progress("filling the driver's disk cache");
    let shown = runner.run_first(1, &plain, NOTHING)?;
    together(runner, &Stress { seconds: 5, ..*options }, &plain)?;
    let [mut without, mut empty, mut filled] = [(); 3].map(|()| Vec::new());
    for round in 0..rounds {
        let stash = runner.path("stash");
        let with = plain.with_stash(&stash);
        for (what, environment, ran) in [
            ("without the layer", &plain, &mut without),
            ("an empty stash", &with, &mut empty),
            ("a filled stash", &with, &mut filled),
        ] {
            progress(&format!("round {} of {rounds}: {what}", round + 1));
            ran.push(together(runner, options, environment)?);
        }
    }
    let values = |ran: &[Ran], of: fn(&Ran) -> f64| ran.iter().map(of).collect::<Vec<_>>();
    let peers = values(&without, |ran| ran.rate);
    let mut figures = Vec::new();
    for (id, what, ran) in [
        ("none", "without the layer", &without),
        ("empty", "an empty stash", &empty),
        ("filled", "a filled stash", &filled),
    ] {
        let mut alone = |name: &str, words: &str, of: fn(&Ran) -> f64| {
            let (id, what) = (format!("stress.{id}.{name}"), format!("{what}: {words}"));
            figures.push(Figure::alone(id, what, &values(ran, of), "processes", "a round"));
        };
        alone("hangs", "processes that do not end", |ran| ran.hangs as f64);
        alone("failures", "processes that end with an error", |ran| ran.failures as f64);
        if id == "none" {
            continue;
        }
        let (name, words) = (format!("stress.{id}.parked"), format!("{what}: made by workers"));
        figures.push(Figure::alone(
            name,
            words,
            &values(ran, |ran| ran.parked as f64),
            "pipelines",
            "a round",
        ));
        let (name, words) = (format!("stress.{id}.devices"), format!("{what}: devices of all processes"));
        figures.push(Figure::pairs(
            name,
            words,
            &values(ran, |ran| ran.rate),
            "without the layer",
            &peers,
            "a second",
        ));
    }
    Ok(vec![Table {
        title: format!(
            "{} processes at once for {} s, four devices in turn",
            options.processes, options.seconds
        ),
        device: shown.report.device,
        modules: 0,
        figures,
    }])
}

fn together(runner: &Runner, options: &Stress, environment: &Environment<'_>) -> Result<Ran, Failure> {
    let reports = runner.folder("reports")?;
    let start = |_| start(runner.home(), options.seconds, environment, &reports);
    let began = Instant::now();
    let children = (0..options.processes).map(start).collect::<Result<Vec<_>, Failure>>()?;
    let limit = Duration::from_secs(options.seconds) + PATIENCE;
    let mut ran = Ran { rate: 0.0, hangs: 0, failures: 0, parked: 0 };
    let mut devices = 0;
    for mut child in children {
        while child.try_wait()?.is_none() && began.elapsed() < limit {
            std::thread::sleep(Duration::from_millis(20));
        }
        if child.try_wait()?.is_none() {
            ran.hangs += 1;
            child.kill()?;
        }
        let output = child.wait_with_output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        match said.trim().parse::<u64>() {
            Ok(count) if output.status.success() => devices += count,
            _ => ran.failures += 1,
        }
    }
    ran.rate = devices as f64 / options.seconds as f64;
    if environment.stash.is_some() {
        let read = runs::read_all(&reports);
        ran.parked = ["parked", "parked_unasked"].iter().map(|name| counted(&read, name)).sum();
    }
    std::fs::remove_dir_all(&reports)?;
    Ok(ran)
}

fn start(home: &Home, seconds: u64, environment: &Environment<'_>, reports: &Path) -> Result<Child, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["stress", "--step", "--seconds", &seconds.to_string()]);
    environment.apply(&mut command, home, reports);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(File::create("/dev/null")?);
    Ok(command.spawn()?)
}
