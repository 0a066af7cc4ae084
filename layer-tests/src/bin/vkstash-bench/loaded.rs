//! `loaded`: whole processes at default settings on a machine whose processors all compute, over the driver's warm disk
//! cache. What a process waits for there takes its turn: also its own end, as long as one of its threads has to run for
//! it, and the threads of low priority that Mesa's disk cache has.

use std::time::Duration;

use crate::child::{Outcome, Runner};
use crate::environment::{self, Environment};
use crate::failure::Failure;
use crate::load::BackgroundLoad;
use crate::options::{Driver, OnDriver};
use crate::progress::progress;
use crate::table::{Figure, Table};

/// What the program does before its first pipeline: time in which workers may park.
const LOADS: [&str; 2] = ["--pause-ms", "30"];
/// Runs that are not counted: each records what was first taken in the one before.
const BEFORE: usize = 3;
/// A machine that was busy until now has come to rest.
const REST: Duration = Duration::from_millis(50);

/// One table.
pub(crate) fn run(runner: &Runner, options: &OnDriver, rounds: usize) -> Result<Vec<Table>, Failure> {
    let driver = options.driver.unwrap_or(Driver::Radv);
    environment::check(driver)?;
    let (disk, stash) = (runner.folder("disk")?, runner.path("stash"));
    let plain = Environment::bare(driver).with_disk(&disk);
    progress("filling the driver's disk cache and the stash");
    let shown = runner.run(&plain, NOTHING)?;
    if !runner.has_layer() {
        return Err("without the layer there is nothing to compare".into());
    }
    // Without the driver's disk cache, so that every pipeline is recorded.
    for _ in 0..BEFORE {
        runner.run(&Environment::bare(driver).with_stash(&stash), NOTHING)?;
    }
    let with = Environment { usual_order: true, ..plain.with_stash(&stash).with_background() };
    let ways = [
        with,
        with.without_background(),
        Environment { usual_order: false, ..with.without_background() },
        plain,
    ];
    let mut loads = [(0, Runs::default()), (threads(), Runs::default())];
    for round in 0..rounds {
        progress(&format!("round {} of {rounds}", round + 1));
        let mut order = [0, 1, 2, 3];
        order.rotate_left(round % 4);
        for (computing, runs) in &mut loads {
            let beside = BackgroundLoad::start(*computing);
            for &way in &order {
                runs[way].push(runner.run(&ways[way], LOADS)?);
            }
            drop(beside);
            std::thread::sleep(REST);
        }
    }
    Ok(vec![Table {
        title: "Whole programs on a busy machine".to_owned(),
        device: shown.report.device.clone(),
        modules: shown.report.modules.len(),
        figures: loads.iter().flat_map(|(computing, runs)| figures(*computing, runs)).collect(),
    }])
}

const NOTHING: [&str; 0] = [];

/// Runs with the layer, with the layer but no workers, the same with the stash asked first in any case, and without the
/// layer.
type Runs = [Vec<Outcome>; 4];

/// As many threads as processors.
fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn figures(computing: usize, [with, without_workers, from_stash, plain]: &Runs) -> Vec<Figure> {
    let wall = |outcomes: &[Outcome]| outcomes.iter().map(|outcome| outcome.wall * 1e3).collect::<Vec<_>>();
    let peers = wall(plain);
    let mut rows = Vec::new();
    for (id, what, outcomes) in [
        ("with", "start to end", with),
        ("without_workers", "the same, no workers", without_workers),
        ("from_stash", "the same, and the stash asked first", from_stash),
    ] {
        let id = format!("loaded.{computing}.{id}");
        let what = format!("beside {computing} threads that compute: {what}");
        rows.push(Figure::pairs(id, &what, &wall(outcomes), "no layer", &peers, "ms"));
    }
    let parked: Vec<_> = with.iter().map(|run| run.counter("parked").unwrap_or_default() as f64).collect();
    let what = format!("beside {computing} threads that compute: parked");
    rows.push(Figure::alone(format!("loaded.{computing}.parked"), &what, &parked, "pipelines", "of all"));
    rows
}
