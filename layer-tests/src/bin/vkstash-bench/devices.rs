//! `devices`: programs that make and destroy many devices in turn on one instance, as test suites and programs that
//! look for a device do, with and without the layer.

use crate::child::{Outcome, Runner};
use crate::compare::pair;
use crate::environment::{self, Environment};
use crate::failure::Failure;
use crate::options::{Devices, Driver};
use crate::progress::progress;
use crate::table::{Figure, Table};

/// One table.
pub(crate) fn run(runner: &Runner, options: &Devices, rounds: usize) -> Result<Vec<Table>, Failure> {
    let driver = options.on.driver.unwrap_or(Driver::Radv);
    environment::check(driver)?;
    if !runner.has_layer() {
        return Err("without the layer there is nothing to compare".into());
    }
    let count = options.devices.to_string();
    let in_turn = ["--devices-in-turn", "--rounds", &count];
    let nothing = in_turn.iter().chain(&["--no-pipelines"]).copied().collect::<Vec<_>>();
    let plain = Environment { usual_order: true, ..Environment::bare(driver) }.with_background();
    let mut figures = Vec::new();
    let shown = runner.run_first(1, &plain, in_turn)?;
    let warm = runner.path("stash");
    runner.run_first(1, &plain.with_stash(&warm), in_turn)?;
    let cases: [(&str, &str, &[&str], bool); 4] = [
        ("none.no_stash", "no pipelines, no stash", &nothing, false),
        ("none.stash", "no pipelines, a stash", &nothing, true),
        ("one.first", "one pipeline each, first run", &in_turn, false),
        ("one.second", "one pipeline each, second run", &in_turn, true),
    ];
    for (id, what, arguments, over_stash) in cases {
        progress(&format!("{what}: {rounds} pairs of {count} devices on {driver:?}"));
        let (mut with, mut without) = (Series::default(), Series::default());
        for round in 0..rounds {
            let stash = if over_stash { warm.clone() } else { runner.path("stash") };
            let layered = plain.with_stash(&stash);
            let run = |environment: &Environment<'_>| runner.run_first(1, environment, arguments);
            let (left, right) = pair(round, || run(&layered), || run(&plain))?;
            with.push(&left);
            without.push(&right);
        }
        let mut row = |name: &str, what: String, with: &[f64], without: &[f64], unit| {
            let id = format!("devices.{id}.{name}");
            figures.push(Figure::pairs(id, what, with, "without the layer", without, unit));
        };
        row("each", format!("{what}: each device, averaged"), &with.each, &without.each, "us");
        row("wall", format!("{what}: the whole process"), &with.wall, &without.wall, "ms");
    }
    Ok(vec![Table {
        title: format!("{count} devices made and destroyed in turn"),
        device: shown.report.device,
        modules: 1,
        figures,
    }])
}

#[derive(Default)]
struct Series {
    /// Microseconds that a device takes, for each run.
    each: Vec<f64>,
    /// Milliseconds of each whole process.
    wall: Vec<f64>,
}

impl Series {
    fn push(&mut self, outcome: &Outcome) {
        let each = &outcome.report.devices_ns;
        self.each.push(each.iter().sum::<u64>() as f64 / 1e3 / each.len().max(1) as f64);
        self.wall.push(outcome.wall * 1e3);
    }
}
