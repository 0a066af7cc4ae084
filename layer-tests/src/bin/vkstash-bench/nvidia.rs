//! `nvidia`: a closed driver whose disk cache is as fast as an in-memory hit for a program that passes no
//! VkPipelineCache, and ten times slower for one that passes an empty one.

use vkstash_layer_tests::bench::report::Kind;

use crate::child::Runner;
use crate::compare::pair;
use crate::environment::{self, Environment};
use crate::failure::Failure;
use crate::options::{Driver, OnDriver};
use crate::served::{FRESH, Habit, NONE, SHARED};
use crate::table::{Figure, Table};
use crate::{cost, served};

/// One table for each habit.
pub(crate) fn run(runner: &Runner, options: &OnDriver, rounds: usize) -> Result<Vec<Table>, Failure> {
    let driver = options.driver.unwrap_or(Driver::Gpu);
    environment::check(driver)?;
    [NONE, FRESH, SHARED].iter().map(|habit| table(runner, driver, habit, rounds)).collect()
}

fn table(runner: &Runner, driver: Driver, habit: &Habit, rounds: usize) -> Result<Table, Failure> {
    let measured = served::measure(runner, driver, habit, rounds)?;
    let mut figures = served::figures(habit, &measured);
    let disk = runner.folder("disk")?;
    let plain = Environment::bare(driver).with_disk(&disk);
    runner.run(&plain, habit.arguments)?;
    let what = format!("{}: first run, warm disk cache", habit.what);
    // Warm runs take a fraction of the time of a compiling one.
    let (with, without) = cost::pairs(runner, plain, habit.arguments, rounds * 3, &what)?;
    figures.extend(cost::figures(&format!("{}.first_disk", habit.id), &what, &with, &without));
    figures.push(second_over_disk(runner, &plain, habit, rounds * 3)?);
    let shown = &measured.bare[0].report;
    Ok(Table {
        title: format!("Habit: {} passed; the driver's disk cache off unless named", habit.what),
        device: shown.device.clone(),
        modules: shown.modules.len(),
        figures,
    })
}

/// The second run with the layer over the driver's warm disk cache, as users have it.
fn second_over_disk(
    runner: &Runner,
    plain: &Environment<'_>,
    habit: &Habit,
    rounds: usize,
) -> Result<Figure, Failure> {
    let stash = runner.path("stash");
    let layered = plain.with_stash(&stash);
    runner.run(&layered, habit.arguments)?;
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let (left, right) =
            pair(round, || runner.run(&layered, habit.arguments), || runner.run(plain, habit.arguments))?;
        with.push(left);
        without.push(right);
    }
    Ok(Figure::pairs(
        format!("{}.second_disk.call", habit.id),
        format!("{}: later runs, warm disk cache: median call", habit.what),
        &served::medians(&with, Kind::Create),
        "without the layer",
        &served::medians(&without, Kind::Create),
        "us",
    ))
}
