//! `demo`: the ways to a pipeline side by side, in a minute.

use vkstash_layer_tests::bench::report::Kind;

use crate::child::{Outcome, Runner};
use crate::environment::{self, Environment};
use crate::failure::Failure;
use crate::options::{Driver, OnDriver};
use crate::progress::progress;
use crate::served::{self, NONE};
use crate::table::{Figure, Table};

/// One table; each row is compared with a compile.
pub(crate) fn run(runner: &Runner, options: &OnDriver, rounds: usize) -> Result<Vec<Table>, Failure> {
    let driver = match options.driver {
        Some(driver) => driver,
        None => pick(runner),
    };
    environment::check(driver)?;
    progress(&format!("driver: {driver:?}"));
    let measured = served::measure(runner, driver, &NONE, rounds)?;
    let cold_medians = served::medians(&measured.bare, Kind::Create);
    let cold_totals = totals(&measured.bare, Kind::Create);
    let mut figures = vec![
        Figure::alone("cold", "compiled, no cache anywhere: median", &cold_medians, "us", ""),
        Figure::alone("cold_total", "compiled, no cache anywhere: all", &cold_totals, "ms", ""),
    ];
    let ways = [
        ("first", "first run with vkstash (compiled, recorded)", &measured.first, Kind::Create),
        ("served", "second run with vkstash", &measured.second, Kind::Create),
        ("disk", "the driver's own disk cache, warm", &measured.disk, Kind::Create),
        ("hit", "in-memory VkPipelineCache, first use", &measured.hit, Kind::Hit),
    ];
    for (id, what, outcomes, kind) in ways {
        if outcomes.is_empty() {
            continue;
        }
        let medians = served::medians(outcomes, kind);
        figures.push(Figure::pairs(id, format!("{what}: median"), &medians, "compiled", &cold_medians, "us"));
        let totals = totals(outcomes, kind);
        let id = format!("{id}_total");
        figures.push(Figure::pairs(id, format!("{what}: all"), &totals, "compiled", &cold_totals, "ms"));
    }
    if !measured.second.is_empty() {
        let share = served::shares(&measured.second);
        figures.push(Figure::alone("share", "served from the stash on the second run", &share, "%", ""));
    }
    let shown = &measured.bare[0].report;
    Ok(vec![Table {
        title: "What one compute pipeline costs, way by way".to_owned(),
        device: shown.device.clone(),
        modules: shown.modules.len(),
        figures,
    }])
}

/// Milliseconds of all creation calls of each run; the average, if a run has several rounds.
fn totals(outcomes: &[Outcome], kind: Kind) -> Vec<f64> {
    let total = |outcome: &Outcome| {
        let calls = outcome.calls(kind);
        let rounds = calls.len() / outcome.report.modules.len().max(1);
        calls.iter().sum::<f64>() / rounds.max(1) as f64 / 1e3
    };
    outcomes.iter().map(total).collect()
}

/// The machine's GPU if there is one, else the driver that compiles without one.
fn pick(runner: &Runner) -> Driver {
    let seen = runner.run(&Environment::bare(Driver::Gpu), ["--no-pipelines"]);
    match seen {
        Ok(outcome) if outcome.report.device.gpu => Driver::Gpu,
        _ => Driver::Radv,
    }
}
