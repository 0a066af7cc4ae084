//! `figures`: measurements with drivers that every machine can have.

use crate::child::Runner;
use crate::compare::Series;
use crate::environment::{self, Environment};
use crate::failure::Failure;
use crate::options::{Driver, Figures, Part};
use crate::progress::progress;
use crate::table::Table;
use crate::{cost, linked, process, served};

/// The selected parts; all if none is selected.
pub(crate) fn run(runner: &Runner, options: &Figures, rounds: Option<usize>) -> Result<Vec<Table>, Failure> {
    let wants = |part| options.only.is_empty() || options.only.contains(&part);
    let rounds = rounds.unwrap_or(5);
    let mut tables = Vec::new();
    if wants(Part::Served) || wants(Part::First) {
        environment::check(Driver::Radv)?;
        tables.push(compiling(runner, rounds, wants(Part::Served), wants(Part::First))?);
    }
    if wants(Part::Linked) {
        tables.extend(linked::run(runner, rounds)?);
    }
    if wants(Part::ProgramCache) {
        environment::check(Driver::Radv)?;
        tables.push(program_cache(runner, rounds)?);
    }
    if wants(Part::Process) {
        tables.extend(process::run(runner, rounds, options.pairs)?);
    }
    Ok(tables)
}

/// First and second run: the same processes show what serving gains and what recording costs.
fn compiling(runner: &Runner, rounds: usize, served: bool, first: bool) -> Result<Table, Failure> {
    let measured = served::measure(runner, Driver::Radv, &served::NONE, rounds)?;
    let mut figures = Vec::new();
    if served {
        figures = served::figures(&served::NONE, &measured);
    }
    if first {
        let (mut with, mut without) = (Series::default(), Series::default());
        measured.first.iter().for_each(|outcome| with.push(outcome));
        measured.bare.iter().for_each(|outcome| without.push(outcome));
        figures.extend(cost::figures("first", "first run", &with, &without));
        // The writer is a second thread, and the C library's allocator takes locks from then on. Programs with
        // threads have paid for that already, and only pay for the recording.
        let what = "first run, program with threads";
        let bare = Environment::bare(Driver::Radv);
        let (with, without) = cost::pairs(runner, bare, &["--idle-thread"], rounds, what)?;
        figures.extend(cost::figures("first_threads", what, &with, &without));
    }
    let shown = &measured.bare[0].report;
    Ok(Table {
        title: "First and second run, RADV's null device, Mesa's disk cache off unless named".to_owned(),
        device: shown.device.clone(),
        modules: shown.modules.len(),
        figures,
    })
}

/// A program that keeps a cache file, in its first run with the layer.
fn program_cache(runner: &Runner, rounds: usize) -> Result<Table, Failure> {
    let file = runner.path("app-cache");
    let habit = format!("file:{}", file.display());
    let plain = Environment::bare(Driver::Radv);
    progress("filling the application's own cache file");
    let filled = runner.run(&plain, ["--cache", &habit])?;
    // These runs are cheap: more of them compensate for the noise, which matters at microseconds.
    let arguments = ["--cache", &habit, "--keep-cache-file"];
    let what = "app cache warm, stash empty";
    let (with, without) = cost::pairs(runner, plain, &arguments, rounds * 4, what)?;
    let figures = cost::figures("app_cache", what, &with, &without);
    Ok(Table {
        title: "The application's own cache is warm, the stash empty, RADV".to_owned(),
        device: filled.report.device.clone(),
        modules: filled.report.modules.len(),
        figures,
    })
}
