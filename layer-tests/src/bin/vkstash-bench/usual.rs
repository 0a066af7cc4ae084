//! `usual`: what somebody has of the layer who installs it: each run from the first one on, over the driver's warm disk
//! cache and at default settings, beside the same run without it.

use std::fs;
use std::path::Path;
use std::time::Instant;

use vkstash_layer_tests::bench::report::{Device, Kind};

use crate::child::{Outcome, Runner};
use crate::compare::pair;
use crate::environment::{self, Environment};
use crate::failure::Failure;
use crate::load::BackgroundLoad;
use crate::options::{Driver, Pace, ProgramHabit, Usual};
use crate::progress::progress;
use crate::table::{Figure, Table};

/// From this run on a user's runs are alike.
const SETTLED: usize = 3;
/// A run that takes longer than so many times the median of the settled ones is one that a user notices.
const NOTICED: f64 = 1.5;

const DEFAULT: Driver = Driver::Radv;

/// One side of the comparison: one run of each round, or several.
#[derive(Default)]
struct Side {
    /// Microseconds of a creation call, the median of a run.
    calls: Vec<f64>,
    /// Milliseconds in all creation calls of a run.
    sums: Vec<f64>,
    /// Milliseconds of the process, and of its processor time.
    walls: Vec<f64>,
    processors: Vec<f64>,
    /// MiB of the process in memory at most.
    memory: Vec<f64>,
    /// Percent of the pipelines that were finished before they were asked for.
    parked: Vec<f64>,
    /// What the threads beside the program have done in a millisecond.
    beside: Vec<f64>,
}

impl Side {
    fn push(&mut self, (outcome, turns): &(Outcome, f64)) {
        let calls = outcome.calls(Kind::Create);
        self.calls.push(outcome.median(Kind::Create));
        self.sums.push(calls.iter().sum::<f64>() / 1e3);
        self.walls.push(outcome.wall * 1e3);
        self.processors.push(outcome.cpu * 1e3);
        self.memory.push(outcome.memory);
        let parked = outcome.counter("parked").unwrap_or_default() as f64;
        self.parked.push(parked / calls.len().max(1) as f64 * 100.0);
        self.beside.push(*turns);
    }
}

/// Runs of one client, with and without the layer in turn.
#[derive(Default)]
struct Pairs {
    with: Side,
    without: Side,
}

impl Pairs {
    fn figures(&self, id: &str, what: &str, rows: &mut Vec<Figure>) {
        let Pairs { with, without } = self;
        let mut row = |name: &str, words: &str, with: &[f64], without: &[f64], unit| {
            let (id, what) = (format!("usual.{id}.{name}"), format!("{what}: {words}"));
            rows.push(Figure::pairs(id, what, with, "without us", without, unit));
        };
        row("call", "call", &with.calls, &without.calls, "us");
        row("calls", "all calls", &with.sums, &without.sums, "ms");
        row("wall", "process", &with.walls, &without.walls, "ms");
        row("processor", "its processor time", &with.processors, &without.processors, "ms");
        row("memory", "its memory", &with.memory, &without.memory, "MiB");
        let ready = format!("{what}: ready before they were asked for");
        rows.push(Figure::alone(format!("usual.{id}.parked"), ready, &with.parked, "%", "all pipelines"));
        if without.beside.iter().any(|turns| *turns > 0.0) {
            let (id, what) = (format!("usual.{id}.beside"), format!("{what}: done beside it"));
            rows.push(Figure::pairs(id, what, &with.beside, "without us", &without.beside, "turns/ms"));
        }
    }
}

/// The measurements of one habit at one pace.
#[derive(Default)]
struct Measured {
    first: Pairs,
    settled: Pairs,
    lost: Pairs,
    /// For each round the longest of the settled runs over their median, in the creation calls.
    worst: Vec<f64>,
}

/// One table for each habit.
pub(crate) fn run(runner: &Runner, options: &Usual, rounds: usize) -> Result<Vec<Table>, Failure> {
    let driver = options.driver.unwrap_or(DEFAULT);
    environment::check(driver)?;
    let mut tables = Vec::new();
    for &habit in &options.habits {
        let (mut figures, mut shown) = (Vec::new(), None);
        for &pace in &options.paces {
            let mut measured = Measured::default();
            for round in 0..rounds {
                progress(&format!("{habit:?}, {pace:?}, round {} of {rounds}", round + 1));
                let device = one_user(runner, options, habit, pace, round, &mut measured)?;
                shown.get_or_insert(device);
            }
            let (id, what) = (format!("{habit:?}.{pace:?}").to_lowercase(), pace.words());
            let mut of = |part: &str, words: &str, pairs: &Pairs| {
                pairs.figures(&format!("{id}.{part}"), &format!("{what}, {words}"), &mut figures);
            };
            of("first", "first run", &measured.first);
            of("settled", &format!("runs {SETTLED} to {}", options.runs), &measured.settled);
            of("lost", "the driver's cache was lost", &measured.lost);
            let what = format!("{what}: the longest of the later runs over their median (at most {NOTICED})");
            figures.push(Figure::alone(
                format!("usual.{id}.worst"),
                what,
                &measured.worst,
                "times",
                "itself",
            ));
        }
        if let Some((device, modules)) = shown {
            let title = format!("A user's runs over the driver's warm cache: {}", habit.words());
            tables.push(Table { title, device, modules, figures });
        }
    }
    Ok(tables)
}

/// The runs of one user: the driver's cache is warm before the first one with the layer.
fn one_user(
    runner: &Runner,
    options: &Usual,
    habit: ProgramHabit,
    pace: Pace,
    round: usize,
    measured: &mut Measured,
) -> Result<(Device, usize), Failure> {
    let driver = options.driver.unwrap_or(DEFAULT);
    let (stash, disk) = (runner.path("stash"), runner.folder("disk")?);
    let bare = Environment { usual_order: true, finish: true, ..Environment::bare(driver).with_disk(&disk) }
        .with_background();
    let used = bare.with_stash(&stash);
    // A program's own files are its own in each of the two worlds.
    let files = [runner.path("cache-file"), runner.path("cache-file")];
    let arguments = |file: &Path| {
        let mut arguments = pace.arguments();
        arguments.extend(["--cache".to_owned(), habit.argument(file)]);
        arguments.extend(["--threads".to_owned(), options.threads.to_string()]);
        arguments
    };
    let (with, without) = (arguments(&files[0]), arguments(&files[1]));
    let shown = runner.run(&bare, &without)?;
    runner.run(&bare, &with)?;
    let beside = BackgroundLoad::start(options.beside);
    let run = |environment: &Environment, arguments: &[String]| {
        let (before, began) = (beside.turns(), Instant::now());
        // The measured time includes the tool that the layer may start at the end.
        let outcome = runner.run(environment, arguments)?;
        let turns = (beside.turns() - before) as f64;
        Ok((outcome, turns / (began.elapsed().as_secs_f64() * 1e3)))
    };
    let mut settled = Vec::new();
    for number in 1..=options.runs {
        let (left, right) = pair(round + number, || run(&used, &with), || run(&bare, &without))?;
        let pairs = match number {
            1 => &mut measured.first,
            SETTLED.. => &mut measured.settled,
            _ => continue,
        };
        pairs.with.push(&left);
        pairs.without.push(&right);
        if number >= SETTLED {
            settled.push(left.0.calls(Kind::Create).iter().sum::<f64>());
        }
    }
    settled.sort_by(f64::total_cmp);
    if let (Some(longest), Some(median)) = (settled.last(), settled.get(settled.len() / 2)) {
        measured.worst.push(longest / median);
    }
    // As after an update, or where the cache was deleted or has grown over its limit: a new folder for each side.
    let (lost_with, lost_without) = (runner.folder("disk")?, runner.folder("disk")?);
    let (left, right) = pair(
        round,
        || run(&used.with_disk(&lost_with), &with),
        || run(&bare.with_disk(&lost_without), &without),
    )?;
    measured.lost.with.push(&left);
    measured.lost.without.push(&right);
    for folder in [&stash, &disk, &lost_with, &lost_without] {
        fs::remove_dir_all(folder)?;
    }
    Ok((shown.report.device.clone(), shown.report.modules.len()))
}
