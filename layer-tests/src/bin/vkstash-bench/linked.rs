//! Graphics pipelines, their libraries and links, as translators make them: what is served, and what the layer
//! adds where there is nothing to serve.
//!
//! On the test driver, which compiles nothing, a call of the layer is what the layer costs.

use vkstash_layer_tests::bench::numbers::median;
use vkstash_layer_tests::bench::report::Device;
use vkstash_layer_tests::translators::report::{Latency, Report, Times};

use crate::child::Runner;
use crate::environment::{self, Environment};
use crate::options::Driver;
use crate::table::{Figure, Table};
use crate::{Failure, progress};

/// Graphics pipelines of one run.
const PIPELINES: &str = "100";

/// What is compared: a translator's run with the layer and a filled stash, and one without the layer.
struct Comparison {
    /// The translator's arguments in both.
    arguments: &'static [&'static str],
    /// Further ones without the layer.
    peer: &'static [&'static str],
    rows: &'static [Row],
}

struct Row {
    id: &'static str,
    what: &'static str,
    against: &'static str,
    pick: fn(&Times) -> &Latency,
}

const HIT: &str = "in-memory hit, no layer";
const WITHOUT: &str = "without the layer";
const COMPILED: &str = "compiled, no layer";

const COMPARISONS: [Comparison; 4] = [
    Comparison {
        arguments: &["--habit", "vkd3d"],
        peer: &["--load-blobs"],
        rows: &[Row {
            id: "whole",
            what: "served, shaders by identifier, fresh cache",
            against: HIT,
            pick: |times| &times.by_identifier,
        }],
    },
    Comparison {
        arguments: &["--habit", "vkd3d", "--libraries"],
        peer: &["--load-blobs"],
        rows: &[
            Row {
                id: "library",
                what: "served library with its fast link",
                against: HIT,
                pick: |times| &times.by_identifier,
            },
            Row {
                id: "library_link",
                what: "fast link of one library",
                against: HIT,
                pick: |times| &times.fast_link,
            },
        ],
    },
    Comparison {
        arguments: &["--habit", "dxvk"],
        peer: &[],
        rows: &[
            Row {
                id: "fast_link",
                what: "fast link of four libraries",
                against: WITHOUT,
                pick: |times| &times.fast_link,
            },
            Row {
                id: "inline",
                what: "served, inline code, a thread of its own",
                against: COMPILED,
                pick: |times| &times.optimised,
            },
        ],
    },
    Comparison {
        arguments: &["--habit", "dxvk", "--link-optimised"],
        peer: &[],
        rows: &[Row {
            id: "optimised_link",
            what: "served optimised link of four libraries",
            against: COMPILED,
            pick: |times| &times.optimised,
        }],
    },
];

/// One table a driver.
pub(crate) fn run(runner: &Runner, rounds: usize) -> Result<Vec<Table>, Failure> {
    if !runner.has_layer() {
        return Ok(Vec::new());
    }
    let mut tables = Vec::new();
    for driver in [Driver::Radv, Driver::Test] {
        environment::check(driver)?;
        let mut table = Table {
            title: "Graphics pipelines and links".to_owned(),
            device: Device::default(),
            modules: PIPELINES.parse()?,
            figures: Vec::new(),
        };
        for comparison in &COMPARISONS {
            compare(runner, driver, comparison, rounds, &mut table)?;
        }
        tables.push(table);
    }
    Ok(tables)
}

fn compare(
    runner: &Runner,
    driver: Driver,
    comparison: &Comparison,
    rounds: usize,
    table: &mut Table,
) -> Result<(), Failure> {
    progress(&format!("{driver:?}: {}", comparison.arguments.join(" ")));
    let plain = Environment::bare(driver);
    let stash = runner.path("stash");
    let layered = plain.with_stash(&stash);
    let (with_store, plain_store) = (runner.folder("store")?, runner.folder("store")?);
    let with = || runner.translate(&layered, &with_store, PIPELINES, comparison.arguments, &[]);
    let without = || runner.translate(&plain, &plain_store, PIPELINES, comparison.arguments, comparison.peer);
    // Fills the stash and the stores; nothing of it counts.
    (with()?, without()?);
    let (mut left, mut right) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        // In turns, so that a machine that gets slower hurts both alike.
        if round % 2 == 0 {
            left.push(with()?);
            right.push(without()?);
        } else {
            right.push(without()?);
            left.push(with()?);
        }
    }
    for row in comparison.rows {
        let medians = |reports: &[Report]| -> Vec<f64> {
            reports.iter().map(|report| (row.pick)(&report.times).p50()).collect()
        };
        let (with, without) = (medians(&left), medians(&right));
        if median(&without).is_nan() {
            return Err(format!("{}: the translator made no such call", row.what).into());
        }
        let id = format!("{driver:?}.{}", row.id).to_lowercase();
        table.figures.push(Figure::pairs(id, row.what, &with, row.against, &without, "us"));
    }
    if let Some(report) = left.first() {
        table.device.name.clone_from(&report.device);
    }
    Ok(())
}
