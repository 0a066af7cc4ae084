//! `small`: whole processes that ask for few pipelines, at default settings, over the driver's warm disk cache. They
//! sleep before they ask, so that workers have time to park.
//!
//! One has the name of a program with other jobs, so its stash has many more pipelines than it asks for. The other has
//! a stash of its own.

use crate::child::{Outcome, Runner};
use crate::environment::{self, Environment};
use crate::failure::Failure;
use crate::options::{Driver, OnDriver};
use crate::progress::progress;
use crate::table::{Figure, Table};

/// Pipelines that the small job asks for.
const JOB: usize = 2;
/// Pipelines of the small program: fewer than are compared with the driver.
const PROGRAM: usize = 11;
/// What the program does before its first pipeline: time in which workers may park.
const LOADS: [&str; 2] = ["--pause-ms", "100"];
/// Runs that are not counted: the layer adapts to the last ones.
const BEFORE: usize = 3;

/// One table.
pub(crate) fn run(runner: &Runner, options: &OnDriver, rounds: usize) -> Result<Vec<Table>, Failure> {
    let driver = options.driver.unwrap_or(Driver::Radv);
    environment::check(driver)?;
    let (disk, large, own) = (runner.folder("disk")?, runner.path("stash"), runner.path("stash"));
    let plain = Environment::bare(driver).with_disk(&disk);
    progress("filling the driver's disk cache and the stashes");
    let shown = runner.run(&plain, NOTHING)?;
    // Without the driver's disk cache, so that every pipeline is recorded; again, so that every artifact was taken.
    let filling = Environment::bare(driver);
    for _ in 0..3 {
        runner.run(&filling.with_stash(&large), NOTHING)?;
        runner.run_first(PROGRAM, &filling.with_stash(&own), NOTHING)?;
    }
    let mut measured = [Measured::default(), Measured::default()];
    for round in 0..BEFORE + rounds {
        progress(&format!("round {} of {}", round + 1, BEFORE + rounds));
        for (measured, (stash, count)) in measured.iter_mut().zip([(&large, JOB), (&own, PROGRAM)]) {
            let with = Environment { usual_order: true, ..plain.with_stash(stash).with_background() };
            let run = |environment: &Environment<'_>| runner.run_first(count, environment, LOADS);
            let mut ways = [(with, 0), (with.without_background(), 1), (plain, 2)];
            ways.rotate_left(round % 3);
            for (environment, way) in ways {
                let outcome = run(&environment)?;
                if round >= BEFORE {
                    measured.runs[way].push(outcome);
                }
            }
        }
    }
    let [job, program] = &measured;
    let mut figures = Vec::new();
    job.figures("job", &format!("{JOB} pipelines, a stash of {}", shown.report.modules.len()), &mut figures);
    program.figures("program", &format!("{PROGRAM} pipelines, a stash of as many"), &mut figures);
    Ok(vec![Table {
        title: "Programs that ask for few pipelines, whole processes".to_owned(),
        device: shown.report.device.clone(),
        modules: shown.report.modules.len(),
        figures,
    }])
}

const NOTHING: [&str; 0] = [];

/// Runs with the layer, with the layer but no workers, and without the layer.
#[derive(Default)]
struct Measured {
    runs: [Vec<Outcome>; 3],
}

impl Measured {
    fn figures(&self, id: &str, what: &str, rows: &mut Vec<Figure>) {
        let [with, without_workers, plain] = &self.runs;
        let values =
            |outcomes: &[Outcome], of: fn(&Outcome) -> f64| outcomes.iter().map(of).collect::<Vec<_>>();
        let cpu: fn(&Outcome) -> f64 = |outcome| outcome.cpu * 1e3;
        let wall: fn(&Outcome) -> f64 = |outcome| outcome.wall * 1e3;
        for (name, short, of) in [("CPU", "cpu", cpu), ("wall", "wall", wall)] {
            let peers = values(plain, of);
            let mut row = |id: String, what: String, outcomes: &[Outcome]| {
                let values = values(outcomes, of);
                rows.push(Figure::pairs(id, what, &values, "without the layer", &peers, "ms"));
            };
            row(format!("small.{id}.{short}"), format!("{what}: {name}"), with);
            let what = format!("{what}, no workers: {name}");
            row(format!("small.{id}.no_workers.{short}"), what, without_workers);
        }
        let counted = |name: &'static str| {
            with.iter().map(|o| o.counter(name).unwrap_or_default() as f64).collect::<Vec<_>>()
        };
        for (name, words) in [("parked", "handed over"), ("parked_unasked", "parked in vain")] {
            let what = format!("{what}: {words}");
            rows.push(Figure::alone(
                format!("small.{id}.{name}"),
                what,
                &counted(name),
                "pipelines",
                "a run",
            ));
        }
    }
}
