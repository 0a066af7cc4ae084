//! `programs`: real programs at default settings over the driver's warm disk cache, each run beside one without the
//! layer, and once after the loss of that cache.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use vkstash_layer_tests::bench::numbers::Spread;
use vkstash_layer_tests::env::{self, Env};
use vkstash_layer_tests::paths;
use vkstash_layer_tests::programs::{self, Missing, Program, Ran};
use vkstash_layer_tests::report::UNREADY;

use crate::child::{Runner, is_tool_at_work};
use crate::failure::Failure;
use crate::options::{Driver, Programs};
use crate::progress::progress;
use crate::table::aligned;

/// From this run on a user's runs are alike.
const SETTLED: usize = 3;

/// Milliseconds of whole processes, and of their processor time.
#[derive(Default)]
struct Side {
    walls: Vec<f64>,
    processors: Vec<f64>,
}

impl Side {
    fn push(&mut self, ran: &Ran) {
        let millis = |time: Duration| time.as_secs_f64() * 1e3;
        self.walls.push(millis(ran.wall));
        self.processors.push(millis(ran.processor));
    }
}

/// Runs of one program, with and without the layer in turn.
#[derive(Default)]
struct Pairs {
    with: Side,
    without: Side,
}

impl Pairs {
    /// The times with and without the layer in milliseconds, and their ratio.
    fn cells(&self) -> [String; 2] {
        let cell = |with: &[f64], without: &[f64]| {
            let ratios: Vec<f64> = with.iter().zip(without).map(|(with, without)| with / without).collect();
            let [with, without, ratio] = [with, without, &ratios].map(|of| Spread::of(of).median);
            format!("{with:.0}/{without:.0} ({ratio:.2})")
        };
        let Pairs { with, without } = self;
        [cell(&with.walls, &without.walls), cell(&with.processors, &without.processors)]
    }
}

/// The measurements of one program.
#[derive(Default)]
struct Measured {
    first: Pairs,
    settled: Pairs,
    lost: Pairs,
    /// For each of the settled runs the number of requests, and of requests whose pipeline was ready.
    requests: Vec<f64>,
    ready: Vec<f64>,
    /// Why the pipelines of the other requests were not ready, in the last run.
    reasons: String,
    /// Pipelines compiled after the loss of the driver's cache, with the layer.
    compiled: Vec<f64>,
    outputs: Vec<(bool, Vec<u8>)>,
}

/// Prints one table, and returns its rows.
pub(crate) fn run(runner: &Runner, options: &Programs, rounds: usize) -> Result<Vec<Vec<String>>, Failure> {
    let driver = match options.driver.unwrap_or(Driver::Radv) {
        Driver::Lavapipe => env::Driver::Lavapipe,
        Driver::Gpu => env::Driver::Machine,
        // Programs choose a device that can present or compute, which the null device cannot.
        _ => env::Driver::Radv,
    };
    let head = [
        "program",
        "pipelines",
        "ready, and why not",
        "first run: process, ms",
        "its processor time, ms",
        "later runs: process, ms",
        "its processor time, ms",
        "driver's cache lost: process, ms",
        "its processor time, ms",
        "compiled",
        "given back",
        "output",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    for program in programs::ALL {
        let title = program.title();
        let is_wanted = options.only.is_empty() || options.only.iter().any(|only| title.contains(only));
        if !is_wanted || !program.runs_on(&driver) {
            continue;
        }
        if let Err(Missing::Known(reason) | Missing::Unknown(reason)) = program.find(&driver) {
            progress(&format!("{title} is left out: {reason}"));
            continue;
        }
        let mut measured = Measured::default();
        for round in 0..rounds {
            progress(&format!("{title}, round {} of {rounds}", round + 1));
            one_user(runner, program, &driver, options.runs, round, &mut measured)?;
        }
        rows.push(measured.row(program));
    }
    println!(
        "With the layer / without it (ratio): medians of {rounds} rounds; later runs are {SETTLED} to {}; {}\n",
        options.runs,
        driver.name()
    );
    let table = rows.iter().map(|row| row.to_vec()).collect();
    print!("{}", aligned(rows));
    Ok(table)
}

/// The environments of one user with and without the layer: the program's home stays from run to run.
pub(crate) struct User {
    folder: PathBuf,
    /// The environment of its next run.
    pub(crate) env: Env,
    runs: usize,
}

impl User {
    pub(crate) fn new(runner: &Runner, driver: &env::Driver, has_layer: bool) -> Result<User, Failure> {
        let folder = runner.folder("user")?;
        let tests_set = ["OPEN_MS", "END_MS", "BACKGROUND_WORKERS", "ASK_FIRST", "TEST_UNHURRIED"];
        let plain = Env::new(driver.clone(), &folder).driver_cache();
        let env = tests_set.iter().fold(plain, |env, name| env.without_var(format!("VKSTASH_{name}")));
        let env = env.var("VKSTASH_FINISH", "1").var("VKSTASH_TOOL", tool(&folder, driver)?);
        let env = if has_layer { env } else { env.without_layer() };
        Ok(User { folder, env, runs: 0 })
    }

    /// One run. Once more if it fails: taichi crashes now and then on a busy machine, also without the layer.
    pub(crate) fn run(&mut self, program: Program, disk: &Path) -> Result<Ran, Failure> {
        let mut ran = self.run_once(program, disk);
        if is_failed(program, &ran) {
            ran = self.run_once(program, disk);
        }
        if is_failed(program, &ran) {
            let title = program.title();
            return Err(format!("{title} ends with {}: {}", ran.status, ran.stderr.trim_end()).into());
        }
        Ok(ran)
    }

    fn run_once(&mut self, program: Program, disk: &Path) -> Ran {
        self.runs += 1;
        let place = self.folder.join(format!("run-{}", self.runs));
        let env = ["MESA_SHADER_CACHE_DIR", "__GL_SHADER_DISK_CACHE_PATH"]
            .iter()
            .fold(self.env.clone(), |env, name| env.var(name, disk));
        let ran = program.run(&env, &place);
        if self.env.has_layer() {
            while is_tool_at_work(&self.env.stash_folder()) {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        ran
    }
}

/// What is ended from outside ends as it likes.
fn is_failed(program: Program, ran: &Ran) -> bool {
    program.ends_by_itself() && ran.status != 0
}

/// The tool, which is to find the driver's device: the layer does not pass on what is preloaded into a program.
fn tool(folder: &Path, driver: &env::Driver) -> Result<PathBuf, Failure> {
    let tool = paths::profile_folder().join("vkstash");
    if *driver != env::Driver::Radv {
        return Ok(tool);
    }
    let script = folder.join("vkstash-on-shim");
    let preload = format!("LD_PRELOAD='{}' AMDGPU_GPU_ID=navi21", programs::shim().display());
    fs::write(&script, format!("#!/bin/sh\nexec env {preload} '{}' \"$@\"\n", tool.display()))?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    Ok(script)
}

/// Runs of one user. The driver's cache is warm before the first one with the layer.
fn one_user(
    runner: &Runner,
    program: Program,
    driver: &env::Driver,
    runs: usize,
    round: usize,
    measured: &mut Measured,
) -> Result<(), Failure> {
    let disk = runner.folder("disk")?;
    let (mut with, mut without) = (User::new(runner, driver, true)?, User::new(runner, driver, false)?);
    // Each user's own files are there, too.
    without.run(program, &disk)?;
    let plain = with.env.clone();
    with.env = plain.clone().without_layer();
    with.run(program, &disk)?;
    with.env = plain;
    for number in 1..=runs {
        let [left, right] = both(round + number, &mut with, &mut without, |user| user.run(program, &disk))?;
        let pairs = match number {
            1 => &mut measured.first,
            SETTLED.. => &mut measured.settled,
            _ => continue,
        };
        pairs.with.push(&left);
        pairs.without.push(&right);
        if number >= SETTLED {
            let names = ["served", "parked", "offered", "driver_had", "compiled", "compiled_unrecorded"];
            measured.requests.push(names.iter().map(|name| left.reports.sum(name)).sum::<u64>() as f64);
            measured.ready.push(left.reports.sum("parked") as f64);
            measured.reasons = reasons(&left);
            if !measured.reasons.is_empty() {
                measured.reasons.insert_str(0, "; of the last run");
            }
            measured.outputs.extend([(true, left.output), (false, right.output)]);
        }
    }
    let disks = [runner.folder("disk")?, runner.folder("disk")?];
    let is_layered = |user: &User| user.env.has_layer();
    let [left, right] = both(round, &mut with, &mut without, |user| {
        let disk = if is_layered(user) { &disks[0] } else { &disks[1] };
        user.run(program, disk)
    })?;
    measured.lost.with.push(&left);
    measured.lost.without.push(&right);
    let compiled = ["compiled", "compiled_unrecorded"].map(|name| left.reports.sum(name));
    measured.compiled.push(compiled.iter().sum::<u64>() as f64);
    for folder in [&disk, &disks[0], &disks[1], &with.folder, &without.folder] {
        fs::remove_dir_all(folder)?;
    }
    Ok(())
}

/// Why pipelines were not ready, the most frequent reason first.
pub(crate) fn reasons(ran: &Ran) -> String {
    let why = |name: &'static str| (ran.reports.sum(name), name);
    let mut reasons: Vec<_> = UNREADY.into_iter().map(why).filter(|&(count, _)| count > 0).collect();
    reasons.sort_unstable_by_key(|&(count, _)| std::cmp::Reverse(count));
    let words: Vec<_> = reasons.iter().map(|(count, name)| format!(", {count} {name}")).collect();
    words.concat()
}

/// Runs both, with and without the layer. The order alternates between rounds, because the machine changes with time.
fn both(
    round: usize,
    with: &mut User,
    without: &mut User,
    run: impl Fn(&mut User) -> Result<Ran, Failure>,
) -> Result<[Ran; 2], Failure> {
    if round % 2 == 0 {
        let left = run(with)?;
        return Ok([left, run(without)?]);
    }
    let right = run(without)?;
    Ok([run(with)?, right])
}

impl Measured {
    fn row(&self, program: Program) -> [String; 12] {
        let median = |of: &[f64]| Spread::of(of).median;
        let [first, first_processor] = self.first.cells();
        let [later, later_processor] = self.settled.cells();
        let [lost, lost_processor] = self.lost.cells();
        // The share of the processor time that the loss of the driver's cache costs without the layer.
        let cold = median(&self.lost.without.processors);
        let warm = median(&self.settled.without.processors);
        let given_back = match cold - warm {
            least if least < 100.0 => "-".to_owned(),
            costs => format!("{:.0} %", (cold - median(&self.lost.with.processors)) / costs * 100.0),
        };
        let without = self.outputs.iter().filter(|(with, _)| !with).map(|(_, output)| output);
        let repeats = without.clone().all(|output| Some(output) == without.clone().next());
        let is_same = self.outputs.iter().all(|(_, output)| *output == self.outputs[0].1);
        let output = match (program.is_compared() && repeats, is_same) {
            (false, _) => "not compared: it differs without the layer",
            (true, true) => "the same",
            (true, false) => "OTHER",
        };
        [
            program.title().to_owned(),
            format!("{:.0}", median(&self.requests)),
            format!("{:.0}{}", median(&self.ready), self.reasons),
            first,
            first_processor,
            later,
            later_processor,
            lost,
            lost_processor,
            format!("{:.0}", median(&self.compiled)),
            given_back,
            output.to_owned(),
        ]
    }
}
