//! `nvidia`: a closed driver with a disk cache that is as fast as an in-memory hit for a program that passes
//! no VkPipelineCache, and ten times slower for one that passes an empty one.

use crate::child::Runner;
use crate::environment::{self, Environment};
use crate::options::{Driver, OnDriver};
use crate::served::{FRESH, Habit, NONE};
use crate::table::Table;
use crate::{Failure, cost, served};

/// One table a habit.
pub(crate) fn run(runner: &Runner, options: &OnDriver, rounds: usize) -> Result<Vec<Table>, Failure> {
    let driver = options.driver.unwrap_or(Driver::Gpu);
    environment::check(driver)?;
    [NONE, FRESH].iter().map(|habit| table(runner, driver, habit, rounds)).collect()
}

fn table(runner: &Runner, driver: Driver, habit: &Habit, rounds: usize) -> Result<Table, Failure> {
    let measured = served::measure(runner, driver, habit, rounds)?;
    let mut figures = served::figures(habit, &measured);
    if runner.has_layer() {
        let disk = runner.folder("disk")?;
        let plain = Environment::bare(driver).with_disk(&disk);
        runner.run(&plain, habit.arguments)?;
        let what = format!("{}: first run, warm disk cache", habit.what);
        // Warm runs take a fraction of a compiling one.
        let (with, without) = cost::pairs(runner, plain, habit.arguments, rounds * 3, &what)?;
        figures.extend(cost::figures(&format!("{}.first_disk", habit.id), &what, &with, &without));
    }
    let shown = &measured.bare[0].report;
    Ok(Table {
        title: format!("Habit: {} passed; the driver's disk cache off unless named", habit.what),
        device: shown.device.clone(),
        modules: shown.modules.len(),
        figures,
    })
}
