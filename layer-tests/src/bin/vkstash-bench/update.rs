//! `update`: what a user finds after an update of the driver: with an older version of it runs that fill the driver's
//! cache and the stash, then the first run on the present one, without the layer, with it and nothing done, with it
//! after the service (`vkstash prewarm --after-update`), and with it where `vkstash prewarm --driver` came before the
//! switch to the present one. At default settings, in turn.

mod folders;
mod paces;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use vkstash_layer_tests::bench::report::{Device, Kind};
use vkstash_layer_tests::env::{self, Env};
use vkstash_layer_tests::paths;
use vkstash_layer_tests::programs::{self, Program, Ran};

use crate::child::{self, Outcome, Runner};
use crate::environment::{self, Environment};
use crate::failure::Failure;
use crate::options::{Driver, ProgramHabit, Update};
use crate::programs::{User, reasons};
use crate::progress::progress;
use crate::table::{Figure, Table, aligned};

use self::folders::{BEFORE, Folders};

/// One side of the comparison, a run of each round.
#[derive(Default)]
struct Side {
    /// Milliseconds in all creation calls of a run.
    calls: Vec<f64>,
    /// Processor time of the thread that creates, and of the whole process.
    thread: Vec<f64>,
    processors: Vec<f64>,
    /// Milliseconds of the process.
    walls: Vec<f64>,
    /// Percent of the pipelines that were finished before they were asked for, and that were served then.
    ready: Vec<f64>,
    served: Vec<f64>,
}

impl Side {
    fn push(&mut self, outcome: &Outcome) {
        let calls = outcome.calls(Kind::Create);
        let percent =
            |name: &str| outcome.counter(name).unwrap_or_default() as f64 / calls.len().max(1) as f64 * 100.0;
        self.ready.push(percent("parked"));
        self.served.push(percent("served"));
        self.calls.push(calls.iter().sum::<f64>() / 1e3);
        let of_thread = outcome.report.rounds.iter().filter_map(|round| round.processor_ns);
        self.thread.push(of_thread.sum::<u64>() as f64 / 1e6);
        self.processors.push(outcome.cpu * 1e3);
        self.walls.push(outcome.wall * 1e3);
    }
}

/// The runs of one kind of client.
#[derive(Default)]
struct Measured {
    before: [Side; 2],
    without: Side,
    nothing_done: Side,
    prewarmed: Side,
    switched: Side,
    /// Seconds of `vkstash prewarm`, after the switch and before it.
    prewarm: [Vec<f64>; 2],
}

impl Measured {
    fn figures(&self, id: &str) -> Vec<Figure> {
        let mut rows = Vec::new();
        let mut compare = |part: &str, words: &str, with: &Side, peer: &str, without: &Side| {
            let mut row = |name: &str, what: &str, with: &[f64], without: &[f64]| {
                let (id, what) = (format!("update.{id}.{part}.{name}"), format!("{words}: {what}"));
                rows.push(Figure::pairs(id, what, with, peer, without, "ms"));
            };
            row("calls", "all calls", &with.calls, &without.calls);
            row("thread", "processor time of the thread that creates", &with.thread, &without.thread);
            row("processor", "processor time of the process", &with.processors, &without.processors);
            row("wall", "process", &with.walls, &without.walls);
            for (name, what, share) in
                [("ready", "ready before", &with.ready), ("served", "served", &with.served)]
            {
                let id = format!("update.{id}.{part}.{name}");
                rows.push(Figure::alone(id, format!("{words}: {what}"), share, "%", "all pipelines"));
            }
        };
        let [with, without] = &self.before;
        compare("before", "before the update", with, "without us", without);
        compare("unprepared", "after it, nothing done", &self.nothing_done, "without us", &self.without);
        compare("prewarmed", "after it and the service", &self.prewarmed, "without us", &self.without);
        compare("switched", "prepared before the switch", &self.switched, "without us", &self.without);
        compare("again", "after it and the service", &self.prewarmed, "before the update", with);
        for (name, what, seconds) in [
            ("prewarm", "vkstash prewarm --after-update", &self.prewarm[0]),
            ("prewarm-driver", "vkstash prewarm --all --driver", &self.prewarm[1]),
        ] {
            rows.push(Figure::alone(format!("update.{id}.{name}"), what, seconds, "s", "itself"));
        }
        rows
    }
}

/// One table for each kind of client and habit.
pub(crate) fn run(runner: &Runner, options: &Update, rounds: usize) -> Result<Vec<Table>, Failure> {
    if !options.paces.is_empty() {
        return paces::run(runner, options, rounds);
    }
    environment::check(Driver::Radv)?;
    let older = fs::canonicalize(&options.older)?;
    let mut tables = Vec::new();
    for all_features in [false, true] {
        for &habit in &options.habits {
            let (mut measured, mut shown) = (Measured::default(), None);
            for round in 0..rounds {
                progress(&format!(
                    "{habit:?}, all features: {all_features}, round {} of {rounds}",
                    round + 1
                ));
                let device = one_user(runner, &older, habit, all_features, round, &mut measured)?;
                shown.get_or_insert(device);
            }
            let features = if all_features { "all features that the driver offers" } else { "few features" };
            let id = format!("{habit:?}.{}", if all_features { "all" } else { "few" }).to_lowercase();
            if let Some((device, modules)) = shown {
                let title = format!("An update of the driver: {}, which enables {features}", habit.words());
                tables.push(Table { title, device, modules, figures: measured.figures(&id) });
            }
        }
    }
    Ok(tables)
}

/// The runs of one user, and of one without the layer.
fn one_user(
    runner: &Runner,
    older: &Path,
    habit: ProgramHabit,
    all_features: bool,
    round: usize,
    measured: &mut Measured,
) -> Result<(Device, usize), Failure> {
    // The driver's cache and the program's own files are each user's own.
    let used = Folders { stash: runner.path("stash"), disk: runner.folder("disk")? };
    let disk_without = runner.folder("disk")?;
    let [file, file_without] = [runner.path("cache-file"), runner.path("cache-file")];
    let plain = Environment { usual_order: true, finish: true, ..Environment::bare(Driver::Radv) };
    let (with, without) = (plain.with_background(), plain.with_disk(&disk_without));
    let arguments = |file: &Path| {
        let mut arguments = vec!["--cache".to_owned(), habit.argument(file)];
        // The time that a program needs from its device to its first pipeline.
        arguments.extend(["--pause-ms".to_owned(), "400".to_owned()]);
        arguments.extend(all_features.then(|| "--all-features".to_owned()));
        arguments
    };
    for number in 0..BEFORE {
        let left = runner.run(&used.of(with).with_manifest(older), arguments(&file))?;
        let right = runner.run(&without.with_manifest(older), arguments(&file_without))?;
        if number + 1 == BEFORE {
            measured.before[0].push(&left);
            measured.before[1].push(&right);
        }
    }
    let [unprepared, switched] = [used.copied(runner)?, used.copied(runner)?];
    measured.prewarm[0].push(runner.prewarm(&used.of(with), None)?);
    // The older driver is still the active one.
    let new = environment::driver_manifest("radeon");
    let before = switched.of(with).with_manifest(older);
    measured.prewarm[1].push(runner.prewarm(&before, Some(&new))?);
    let mut shown = None;
    for place in 0..4 {
        match (round + place) % 4 {
            0 => {
                let outcome = runner.run(&without, arguments(&file_without))?;
                measured.without.push(&outcome);
                shown = Some(outcome.report);
            }
            1 => measured.nothing_done.push(&runner.run(&unprepared.of(with), arguments(&file))?),
            2 => measured.prewarmed.push(&runner.run(&used.of(with), arguments(&file))?),
            _ => measured.switched.push(&runner.run(&switched.of(with), arguments(&file))?),
        }
    }
    for folders in [used, unprepared, switched] {
        folders.remove()?;
    }
    fs::remove_dir_all(&disk_without)?;
    let shown = shown.ok_or("no run")?;
    Ok((shown.device, shown.modules.len()))
}

/// Real programs: prints one table, and returns its rows.
pub(crate) fn run_programs(runner: &Runner, options: &Update) -> Result<Vec<Vec<String>>, Failure> {
    let older = fs::canonicalize(&options.older)?;
    let head = [
        "program",
        "before the update",
        "first run after it, nothing done",
        "after the service",
        "service, s",
        "prepared before the switch",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    for program in programs::ALL {
        let title = program.title();
        let is_wanted = options.only.is_empty() || options.only.iter().any(|only| title.contains(only));
        let is_here = program.runs_on(&env::Driver::Radv) && program.find(&env::Driver::Radv).is_ok();
        if !is_here || !is_wanted {
            progress(&format!("{title} is left out"));
            continue;
        }
        progress(title);
        rows.push(one_program(runner, program, &older)?);
    }
    println!(
        "Pipelines that were ready before the program asked, others that were served, and all; ms in these calls\n"
    );
    let table = rows.iter().map(|row| row.to_vec()).collect();
    print!("{}", aligned(rows));
    Ok(table)
}

fn one_program(runner: &Runner, program: Program, older: &Path) -> Result<[String; 6], Failure> {
    let mut user = User::new(runner, &env::Driver::Radv, true)?;
    let new = user.env.clone();
    let used = Folders { stash: new.stash_folder(), disk: runner.folder("disk")? };
    let old =
        ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"].iter().fold(new.clone(), |env, name| env.var(name, older));
    user.env = old.clone();
    let mut before = String::new();
    for _ in 0..BEFORE {
        before = cell(&user.run(program, &used.disk)?);
    }
    let [unprepared, switched] = [used.copied(runner)?, used.copied(runner)?];
    let manifest = env::installed_manifest(&env::Driver::Radv).ok_or("no manifest of RADV")?;
    // The older driver is still the active one.
    prewarm(&old.stash(&switched.stash), &switched.disk, Some(&manifest))?;
    let mut first_run = |folders: &Folders| -> Result<String, Failure> {
        user.env = new.clone().stash(&folders.stash);
        Ok(cell(&user.run(program, &folders.disk)?))
    };
    let nothing_done = first_run(&unprepared)?;
    let seconds = prewarm(&new, &used.disk, None)?;
    let (after, prepared) = (first_run(&used)?, first_run(&switched)?);
    for folders in [used, unprepared, switched] {
        folders.remove()?;
    }
    Ok([program.title().to_owned(), before, nothing_done, after, format!("{seconds:.1}"), prepared])
}

fn cell(ran: &Ran) -> String {
    let sum = |name: &str| ran.reports.sum(name);
    let others = ["driver_had", "compiled", "compiled_unrecorded", "bypassed"].map(sum).iter().sum::<u64>();
    let [ready, served] = ["parked", "served"].map(sum);
    let calls: u64 = ["compile_ns", "served_ns", "parked_ns"].map(sum).iter().sum();
    let (all, calls, why) = (ready + served + others, calls as f64 / 1e6, reasons(ran));
    format!("{ready} + {served} of {all}, {calls:.1} ms{why}")
}

/// [`child::prewarm`] on the fake render node that the programs have.
fn prewarm(env: &Env, disk: &Path, driver: Option<&Path>) -> Result<f64, Failure> {
    let tool: PathBuf = env.get("VKSTASH_TOOL").ok_or("the environment names no tool")?.into();
    let mut command = Command::new(tool);
    env.clone().var("MESA_SHADER_CACHE_DIR", disk).without_var("RADV_FORCE_FAMILY").apply(&mut command);
    command.env("VKSTASH_LIBRARY", paths::layer_library());
    child::prewarm(command, driver)
}
