//! Whole processes from outside: with a driver that keeps nothing, and without any pipelines. The layer should not be
//! noticeable in either.

use crate::child::{Outcome, Runner};
use crate::compare::{Series, pair};
use crate::cost;
use crate::environment::{self, Environment};
use crate::failure::Failure;
use crate::options::Driver;
use crate::progress::progress;
use crate::table::{Figure, Table};

/// One table for each driver.
pub(crate) fn run(runner: &Runner, rounds: usize, pairs: usize) -> Result<Vec<Table>, Failure> {
    let mut tables = Vec::new();
    for driver in [Driver::Radv, Driver::Lavapipe] {
        environment::check(driver)?;
        let mut figures = Vec::new();
        let mut modules = 0;
        if driver == Driver::Lavapipe {
            let shown = compare(runner, driver, &[], rounds, "lavapipe, all pipelines", &mut figures)?;
            modules = shown.report.modules.len();
            // Recipes are recorded on a driver that keeps nothing, so the first run differs from later ones.
            let what = "lavapipe, first run, program with threads";
            let arguments = ["--idle-thread"];
            let (with, without) = cost::pairs(runner, Environment::bare(driver), &arguments, rounds, what)?;
            figures.extend(cost::figures("process.first.lavapipe", what, &with, &without));
        }
        let what = "no pipelines";
        let shown = compare(runner, driver, &["--no-pipelines"], pairs, what, &mut figures)?;
        let title = match driver {
            Driver::Lavapipe => "Whole processes with and without the layer, lavapipe",
            _ => "Whole processes with and without the layer, RADV",
        };
        tables.push(Table { title: title.to_owned(), device: shown.report.device, modules, figures });
    }
    Ok(tables)
}

/// Pairs on one stash that a first pair, which is not counted, has filled, as on every day but the first.
fn compare(
    runner: &Runner,
    driver: Driver,
    arguments: &[&str],
    rounds: usize,
    what: &str,
    figures: &mut Vec<Figure>,
) -> Result<Outcome, Failure> {
    progress(&format!("{what}: {rounds} pairs on {driver:?}"));
    let plain = Environment::bare(driver);
    let stash = runner.path("stash");
    let layered = plain.with_stash(&stash);
    let shown = runner.run(&plain, arguments)?;
    runner.run(&layered, arguments)?;
    let (mut with, mut without) = (Series::default(), Series::default());
    for round in 0..rounds {
        let (left, right) =
            pair(round, || runner.run(&layered, arguments), || runner.run(&plain, arguments))?;
        with.push(&left);
        without.push(&right);
    }
    let id = if arguments.is_empty() { "process.pipelines" } else { "process.none" };
    let rows = [("wall", &with.wall, &without.wall), ("CPU", &with.cpu, &without.cpu)];
    for (name, with, without) in rows {
        figures.push(Figure::pairs(
            format!("{id}.{driver:?}.{name}").to_lowercase(),
            format!("{what}: {name}"),
            with,
            "without the layer",
            without,
            "ms",
        ));
    }
    Ok(shown)
}
