//! `widths`: served calls of 16 threads, with all of them or fewer in the driver at a time.

use vkstash_layer_tests::bench::report::Kind;

use crate::child::{Outcome, Runner};
use crate::environment::{self, Environment};
use crate::failure::Failure;
use crate::options::{Driver, OnDriver};
use crate::progress::progress;
use crate::served::medians;
use crate::table::{Figure, Table};

const THREADS: [&str; 2] = ["--threads", "16"];
const WIDTHS: [u32; 5] = [1, 2, 3, 4, 8];

/// One table.
pub(crate) fn run(runner: &Runner, options: &OnDriver, rounds: usize) -> Result<Vec<Table>, Failure> {
    let driver = options.driver.unwrap_or(Driver::Gpu);
    environment::check(driver)?;
    let stash = runner.path("stash");
    let disk = runner.folder("disk")?;
    let plain = Environment::bare(driver).with_disk(&disk);
    let layered = plain.with_stash(&stash);
    let at = |width: u32| Environment { width: Some(width), ..layered };
    progress("filling the driver's disk cache and the stash");
    let shown = runner.run(&plain, THREADS)?;
    for _ in 0..2 {
        runner.run(&Environment::bare(driver).with_stash(&stash), THREADS)?;
    }
    let (mut open, mut without) = (Vec::new(), Vec::new());
    let mut narrow = WIDTHS.map(|_| Vec::new());
    for round in 0..rounds {
        progress(&format!("round {} of {rounds}", round + 1));
        without.push(runner.run(&plain, THREADS)?);
        open.push(runner.run(&at(0), THREADS)?);
        for (outcomes, &width) in narrow.iter_mut().zip(&WIDTHS) {
            outcomes.push(runner.run(&at(width), THREADS)?);
        }
    }
    let mut figures =
        rows("open", "16 threads, all in the driver", &open, "no layer, warm disk cache", &without);
    for (outcomes, width) in narrow.iter().zip(WIDTHS) {
        let what = format!("16 threads, {width} in the driver at a time");
        figures.extend(rows(&width.to_string(), &what, outcomes, "all in the driver", &open));
    }
    Ok(vec![Table {
        title: "Served calls of many threads".to_owned(),
        device: shown.report.device.clone(),
        modules: shown.report.modules.len(),
        figures,
    }])
}

fn rows(id: &str, what: &str, outcomes: &[Outcome], against: &str, peers: &[Outcome]) -> Vec<Figure> {
    let total = |outcomes: &[Outcome]| {
        let sum =
            |outcome: &Outcome| outcome.report.rounds.iter().map(|round| round.total_ns as f64 / 1e6).sum();
        outcomes.iter().map(sum).collect::<Vec<f64>>()
    };
    let (calls, peer_calls) = (medians(outcomes, Kind::Create), medians(peers, Kind::Create));
    vec![
        Figure::pairs(
            format!("width.{id}.call"),
            format!("{what}: median call"),
            &calls,
            against,
            &peer_calls,
            "us",
        ),
        Figure::pairs(
            format!("width.{id}.total"),
            format!("{what}: all pipelines"),
            &total(outcomes),
            against,
            &total(peers),
            "ms",
        ),
    ]
}
