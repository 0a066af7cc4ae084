//! `busy`: what a program loses while workers park pipelines that it does not ask for.
//!
//! In a round each program runs once with workers and once without them, in turns first. So what else the machine does
//! changes the spread of the ratios more than their median. Processor time is given as well: it does not see that a
//! thread waits for a processor, but caches, locks and the program's own memory that workers use.

use std::fs;

use vkstash_layer_tests::bench::numbers::median;
use vkstash_layer_tests::bench::report::Kind;
use vkstash_layer_tests::folder;

use crate::child::{Outcome, Runner};
use crate::environment::{self, Environment};
use crate::failure::Failure;
use crate::options::{Driver, OnDriver};
use crate::progress::progress;
use crate::table::{Figure, Table};

/// A program that computes while workers park, and then creates modules alone. On RADV an artifact is parked in 15 us.
fn computes(driver: Driver) -> [&'static str; 3] {
    ["--modules-only", "--spin-ms", if driver == Driver::Lavapipe { "400" } else { "20" }]
}

/// A program that asks for other pipelines than those that workers park, from the creation of the device on.
const ASKS: [&str; 1] = ["--others"];

/// One table.
pub(crate) fn run(runner: &Runner, options: &OnDriver, rounds: usize) -> Result<Vec<Table>, Failure> {
    let driver = options.driver.unwrap_or(Driver::Lavapipe);
    environment::check(driver)?;
    let filled = runner.path("stash");
    progress("filling the stash");
    let filling = Environment::bare(driver).with_stash(&filled);
    let shown = runner.run(&filling, NOTHING)?;
    // Twice more, so that every artifact was taken.
    for _ in 0..2 {
        runner.run(&filling, NOTHING)?;
    }
    let run = |with_workers: bool, arguments: &[&str]| -> Result<Outcome, Failure> {
        // What a run records must not help the next one.
        let stash = runner.path("stash");
        folder::copy(&filled, &stash)?;
        let environment = Environment::bare(driver).with_stash(&stash);
        let environment = if with_workers { environment.with_background() } else { environment };
        let outcome = runner.run(&environment, arguments);
        fs::remove_dir_all(&stash)?;
        outcome
    };
    let (mut computing, mut asking) = (Both::default(), Both::default());
    for round in 0..rounds {
        progress(&format!("round {} of {rounds}", round + 1));
        for with_workers in [round % 2 == 0, round % 2 != 0] {
            computing.of(with_workers).push(run(with_workers, &computes(driver))?);
            asking.of(with_workers).push(run(with_workers, &ASKS)?);
        }
    }
    Ok(vec![Table {
        title: "A program beside busy workers".to_owned(),
        device: shown.report.device.clone(),
        modules: shown.report.modules.len(),
        figures: figures(&computing, &asking),
    }])
}

const NOTHING: [&str; 0] = [];

/// Runs with workers and without.
#[derive(Default)]
struct Both {
    with: Vec<Outcome>,
    without: Vec<Outcome>,
}

impl Both {
    fn of(&mut self, with_workers: bool) -> &mut Vec<Outcome> {
        if with_workers { &mut self.with } else { &mut self.without }
    }
}

fn figures(computing: &Both, asking: &Both) -> Vec<Figure> {
    let mut rows = Vec::new();
    let mut pairs = |id: &str, what: &str, both: &Both, unit, of: fn(&Outcome) -> f64| {
        let values = |outcomes: &[Outcome]| outcomes.iter().map(of).collect::<Vec<_>>();
        let (with, without) = (values(&both.with), values(&both.without));
        rows.push(Figure::pairs(format!("busy.{id}"), what, &with, "no workers", &without, unit));
    };
    let what = "a thread that computes: work in a millisecond";
    pairs("spin", what, computing, "pieces", |o| o.report.spun);
    let what = "the same: in one of its processor time";
    pairs("spin.processor", what, computing, "pieces", |o| o.report.spun_processor);
    let what = "the same program, which never asks for what is parked: start to end";
    pairs("unasked", what, computing, "ms", |o| o.wall * 1e3);
    let what = "the same: vkDestroyDevice and vkDestroyInstance";
    pairs("unasked.end", what, computing, "ms", |o| o.report.teardown_ns as f64 / 1e6);
    let what = "the same: memory before the end";
    pairs("unasked.memory", what, computing, "MiB", |o| o.report.resident_kib as f64 / 1024.0);
    pairs("calls.median", "own calls, median", asking, "us", |o| median(&o.calls(Kind::Create)));
    let what = "own calls, all of them";
    pairs("calls", what, asking, "ms", |o| o.calls(Kind::Create).iter().sum::<f64>() / 1e3);
    let what = "own calls and the creation of modules: processor time";
    pairs("calls.processor", what, asking, "ms", |o| {
        o.report.rounds.iter().filter_map(|round| round.processor_ns).sum::<u64>() as f64 / 1e6
    });
    let mut parked = |id: &str, what: &str, outcomes: &[Outcome]| {
        let counts: Vec<_> =
            outcomes.iter().map(|o| o.counter("parked_unasked").unwrap_or_default() as f64).collect();
        rows.push(Figure::alone(format!("busy.{id}"), what, &counts, "pipelines", "of all"));
    };
    parked("spin.parked", "parked beside the thread that computes", &computing.with);
    parked("calls.parked", "parked beside own calls", &asking.with);
    rows
}
