//! `update --paces`: the first run after an update that nobody prepared, where the layer has the tool compile again
//! while the program runs (VKSTASH_UPDATE, docs/prewarm.md), beside the same run where it does not, and without us.

use std::time::Instant;

use vkstash_layer_tests::bench::report::Kind;

use super::folders::{BEFORE, Folders};
use crate::child::{Outcome, Runner};
use crate::environment::{self, Environment};
use crate::failure::Failure;
use crate::load::BackgroundLoad;
use crate::options::{Driver, Pace, Update};
use crate::progress::progress;
use crate::table::{Figure, Table};

/// A call that takes longer makes a frame late.
const FRAME_MS: f64 = 1e3 / 60.0;

/// One side of the comparison, a run of each round.
#[derive(Default)]
struct Side {
    /// Milliseconds in all creation calls, and in the longest.
    calls: Vec<f64>,
    longest: Vec<f64>,
    /// Calls longer than a frame.
    late: Vec<f64>,
    /// Processor time of the whole process, without the tool.
    processors: Vec<f64>,
    /// Percent of the pipelines that were compiled nowhere in this run.
    had: Vec<f64>,
    /// What the threads beside the program have done in a millisecond.
    beside: Vec<f64>,
}

impl Side {
    fn push(&mut self, outcome: &Outcome, turns: f64) {
        let calls: Vec<f64> = outcome.calls(Kind::Create).iter().map(|micros| micros / 1e3).collect();
        let counters = ["parked", "served", "driver_had"].map(|name| outcome.counter(name));
        let had: f64 = counters.into_iter().flatten().map(|count| count as f64).sum();
        self.had.push(had / calls.len().max(1) as f64 * 100.0);
        self.late.push(calls.iter().filter(|&&call| call > FRAME_MS).count() as f64);
        self.longest.push(calls.iter().copied().fold(0.0, f64::max));
        self.calls.push(calls.iter().sum());
        self.processors.push(outcome.cpu * 1e3);
        self.beside.push(turns);
    }

    fn rows(&self, id: &str, what: &str, without: &Side) -> Vec<Figure> {
        let pairs = |name: &str, of: &str, values: &[f64], peers: &[f64], unit: &'static str| {
            Figure::pairs(format!("{id}.{name}"), format!("{what}: {of}"), values, "without us", peers, unit)
        };
        let mut rows = vec![
            pairs("calls", "all calls", &self.calls, &without.calls, "ms"),
            pairs("longest", "the longest call", &self.longest, &without.longest, "ms"),
            pairs("processor", "processor time of the process", &self.processors, &without.processors, "ms"),
        ];
        if without.beside.iter().any(|&turns| turns > 0.0) {
            rows.push(pairs("beside", "done beside it", &self.beside, &without.beside, "turns/ms"));
        }
        let alone = |name: &str, of: &str, values: &[f64], unit: &'static str, note: &str| {
            Figure::alone(format!("{id}.{name}"), format!("{what}: {of}"), values, unit, note)
        };
        rows.push(alone("late", "calls longer than a frame of 60 Hz", &self.late, "", "a run"));
        rows.push(alone("had", "compiled already", &self.had, "%", "all pipelines"));
        rows
    }
}

/// One table for each pace.
pub(crate) fn run(runner: &Runner, options: &Update, rounds: usize) -> Result<Vec<Table>, Failure> {
    environment::check(Driver::Radv)?;
    let older = std::fs::canonicalize(&options.older)?;
    let used = Folders { stash: runner.path("stash"), disk: runner.folder("disk")? };
    let plain = Environment { usual_order: true, ..Environment::bare(Driver::Radv) };
    let with = plain.with_background();
    for _ in 0..BEFORE {
        let finish = Environment { finish: true, ..used.of(with).with_manifest(&older) };
        runner.run::<&str>(&finish, [])?;
    }
    let mut tables = Vec::new();
    for &pace in &options.paces {
        let mut sides = <[Side; 3]>::default();
        let mut shown = None;
        for round in 0..rounds {
            progress(&format!("{}, round {} of {rounds}", pace.words(), round + 1));
            for place in 0..3 {
                let side = (round + place) % 3;
                let folders = used.copied(runner)?;
                let environment = match side {
                    0 => plain.with_disk(&folders.disk),
                    1 => folders.of(with),
                    _ => Environment { update: true, ..folders.of(with) },
                };
                let load = BackgroundLoad::start(options.busy);
                let (before, began) = (load.turns(), Instant::now());
                let outcome = runner.run(&environment, pace.arguments())?;
                let turns = (load.turns() - before) as f64 / (began.elapsed().as_secs_f64() * 1e3);
                drop(load);
                sides[side].push(&outcome, turns);
                shown.get_or_insert(outcome.report);
                folders.remove()?;
            }
        }
        let shown = shown.ok_or("no run")?;
        tables.push(Table {
            title: title(pace, options.busy),
            device: shown.device,
            modules: shown.modules.len(),
            figures: figures(pace, options.busy, &sides),
        });
    }
    Ok(tables)
}

fn title(pace: Pace, busy: usize) -> String {
    let load = if busy == 0 { String::new() } else { format!(", beside {busy} threads that compute") };
    format!("The first run after an update: a program that asks {}{load}", pace.words())
}

fn figures(pace: Pace, busy: usize, [without, nothing, beside]: &[Side; 3]) -> Vec<Figure> {
    let load = if busy == 0 { String::new() } else { format!(".busy-{busy}") };
    let id = format!("update.{pace:?}{load}").to_lowercase();
    let mut rows = nothing.rows(&format!("{id}.nothing"), "nothing done", without);
    rows.extend(beside.rows(&format!("{id}.beside"), "compiled beside it", without));
    rows.push(Figure::alone(
        format!("{id}.without.late"),
        "without us: calls longer than a frame of 60 Hz",
        &without.late,
        "",
        "a run",
    ));
    rows
}
