//! `stress`: many processes at once, one after the other for a given time, each of which makes and destroys four
//! devices in turn, and compute, graphics and ray tracing pipelines on each; without the layer, with an empty stash,
//! and with a filled one. Prints how long a process takes, and how many do not end.

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
/// Devices of a process. NVIDIA's driver 580.159.04 alone, without any layer, spins for ever in a process that goes on
/// making and destroying devices with ray tracing pipelines (docs/evidence/measurements.md).
const IN_TURN: usize = 8;
/// Processes at a time.
const AT_ONCE: usize = 16;
/// A process that has not ended after so long hangs.
const PATIENCE: Duration = Duration::from_secs(120);
/// Time between two looks.
const LOOKS_EVERY: Duration = Duration::from_millis(10);

/// What a process of the benchmark does.
pub(crate) fn step() -> Result<(), Failure> {
    let mut alive: [Option<Device>; DEVICES] = Default::default();
    let instance =
        Instance::new(&InstanceOptions::default()).map_err(|error| format!("no instance: {error}"))?;
    for number in 0..IN_TURN {
        let slot = &mut alive[number % DEVICES];
        drop(slot.take());
        *slot = Some(device(&instance)?);
    }
    Ok(())
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

/// What came of the processes of one round.
#[derive(Default)]
struct Ran {
    /// Seconds of a process from its start to its end, the mean of all that ended.
    seconds: f64,
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
        Environment { usual_order: true, ..Environment::bare(driver).with_disk(&disk) }.with_background();
    progress("filling the driver's disk cache");
    let shown = runner.run_first::<&str>(1, &plain, [])?;
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
            let now = together(runner, options, environment)?;
            let Ran { seconds, hangs, failures, .. } = now;
            progress(&format!(
                "round {} of {rounds}: {what}: {seconds:.2} s a process, {hangs} hang, {failures} fail",
                round + 1
            ));
            ran.push(now);
        }
    }
    Ok(vec![Table {
        title: format!("{AT_ONCE} processes at once for {} s, four devices in turn", options.seconds),
        device: shown.report.device,
        modules: 0,
        figures: figures(&without, &empty, &filled),
    }])
}

/// The figures of all rounds: without the layer, and with a stash that is empty and filled.
fn figures(without: &[Ran], empty: &[Ran], filled: &[Ran]) -> Vec<Figure> {
    let values = |ran: &[Ran], of: fn(&Ran) -> f64| ran.iter().map(of).collect::<Vec<_>>();
    let peers = values(without, |ran| ran.seconds);
    let mut figures = Vec::new();
    for (id, what, ran) in [
        ("none", "without the layer", without),
        ("empty", "an empty stash", empty),
        ("filled", "a filled stash", filled),
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
        let (name, words) = (format!("stress.{id}.took"), format!("{what}: a process"));
        figures.push(Figure::pairs(
            name,
            words,
            &values(ran, |ran| ran.seconds),
            "without the layer",
            &peers,
            "seconds",
        ));
    }
    figures
}

/// Keeps so many processes running until the time is over.
fn together(runner: &Runner, options: &Stress, environment: &Environment<'_>) -> Result<Ran, Failure> {
    let reports = runner.folder("reports")?;
    let start =
        || -> Result<_, Failure> { Ok((Instant::now(), start(runner.home(), environment, &reports)?)) };
    let (began, time) = (Instant::now(), Duration::from_secs(options.seconds));
    let mut running = (0..AT_ONCE).map(|_| start()).collect::<Result<Vec<_>, Failure>>()?;
    let (mut ran, mut took) = (Ran::default(), Vec::new());
    while !running.is_empty() {
        std::thread::sleep(LOOKS_EVERY);
        let mut still = Vec::new();
        for (since, mut child) in running {
            match child.try_wait()? {
                Some(status) if status.success() => took.push(since.elapsed().as_secs_f64()),
                Some(_) => ran.failures += 1,
                None if since.elapsed() > PATIENCE => {
                    ran.hangs += 1;
                    child.kill()?;
                    child.wait()?;
                }
                None => {
                    still.push((since, child));
                    continue;
                }
            }
            if began.elapsed() < time {
                still.push(start()?);
            }
        }
        running = still;
    }
    ran.seconds = took.iter().sum::<f64>() / took.len() as f64;
    if environment.stash.is_some() {
        let read = runs::read_all(&reports);
        ran.parked = ["parked", "parked_unasked"].iter().map(|name| counted(&read, name)).sum();
    }
    std::fs::remove_dir_all(&reports)?;
    Ok(ran)
}

fn start(home: &Home, environment: &Environment<'_>, reports: &Path) -> Result<Child, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["stress", "--step"]);
    environment.apply(&mut command, home, reports);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(command.spawn()?)
}
