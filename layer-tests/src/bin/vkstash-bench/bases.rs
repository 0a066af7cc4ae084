//! `bases`: the first run of a fresh client over a base, beside a run of a program whose own stash has everything.

use vkstash_layer_tests::bench::report::Kind;

use crate::child::Runner;
use crate::environment::{self, Environment};
use crate::failure::Failure;
use crate::options::{Driver, OnDriver};
use crate::progress::progress;
use crate::served::medians;
use crate::table::{Figure, Table};

/// One table.
pub(crate) fn run(runner: &Runner, options: &OnDriver, rounds: usize) -> Result<Vec<Table>, Failure> {
    let driver = options.driver.unwrap_or(Driver::Radv);
    environment::check(driver)?;
    let base = runner.path("stash");
    let bare = Environment::bare(driver);
    let warm = bare.with_stash(&base);
    progress("filling the stash");
    let arguments = ["--cache", "none"];
    let shown = runner.run(&warm, arguments)?;
    let (mut fresh, mut own) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        progress(&format!("round {} of {rounds}", round + 1));
        let empty = runner.path("fresh");
        fresh.push(runner.run(&Environment { base: Some(&base), ..bare.with_stash(&empty) }, arguments)?);
        own.push(runner.run(&warm, arguments)?);
    }
    let shares: Vec<f64> = fresh.iter().filter_map(|run| Some(100.0 * run.share_served()?)).collect();
    let figures = vec![
        Figure::alone("base.served", "served in a fresh client's first run", &shares, "%", "base"),
        Figure::pairs(
            "base.call",
            "a fresh client over a base: median call",
            &medians(&fresh, Kind::Create),
            "own stash, warm",
            &medians(&own, Kind::Create),
            "us",
        ),
    ];
    Ok(vec![Table {
        title: "A fresh client over a base".to_owned(),
        device: shown.report.device.clone(),
        modules: shown.report.modules.len(),
        figures,
    }])
}
