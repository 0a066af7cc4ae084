//! Graphics pipelines, their libraries and links, as translators create them: the cost of serving, and what the layer
//! adds where nothing is served.
//!
//! The test driver compiles nothing, so a call's time there is the layer's cost.

use vkstash_layer_tests::bench::numbers::median;
use vkstash_layer_tests::bench::report::Device;
use vkstash_layer_tests::translators::report::{Latency, Report, Times};

use crate::child::Runner;
use crate::environment::{self, Environment};
use crate::failure::Failure;
use crate::options::Driver;
use crate::progress::progress;
use crate::table::{Figure, Table};

/// Graphics pipelines of one run.
const PIPELINES: &str = "100";

/// A comparison of a translator's run with the layer and a filled stash, and a peer.
struct Comparison {
    /// The translator's arguments on both sides.
    arguments: &'static [&'static str],
    /// Additional arguments of the peer.
    peer: &'static [&'static str],
    /// Whether the peer runs with the layer, and a filled stash of its own.
    layered: bool,
    rows: &'static [Row],
}

struct Row {
    id: &'static str,
    what: &'static str,
    against: &'static str,
    pick: fn(&Times) -> &Latency,
    /// The peer's kind of calls, if it differs.
    of_peer: Option<fn(&Times) -> &Latency>,
}

const HIT: &str = "in-memory hit, no layer";
const WITHOUT: &str = "without the layer";
const COMPILED: &str = "compiled, no layer";

const COMPARISONS: [Comparison; 5] = [
    Comparison {
        arguments: &["--habit", "vkd3d"],
        peer: &["--inline"],
        layered: true,
        rows: &[Row {
            id: "identifier",
            what: "served, shaders by identifier, fresh cache",
            against: "served, inline code, fresh cache",
            pick: |times| &times.by_identifier,
            of_peer: Some(|times| &times.from_code),
        }],
    },
    Comparison {
        arguments: &["--habit", "vkd3d"],
        peer: &["--load-blobs"],
        layered: false,
        rows: &[Row {
            id: "whole",
            what: "served, shaders by identifier, fresh cache",
            against: HIT,
            pick: |times| &times.by_identifier,
            of_peer: None,
        }],
    },
    Comparison {
        arguments: &["--habit", "vkd3d", "--libraries"],
        peer: &["--load-blobs"],
        layered: false,
        rows: &[
            Row {
                id: "library",
                what: "served library with its fast link",
                against: HIT,
                pick: |times| &times.by_identifier,
                of_peer: None,
            },
            Row {
                id: "library_link",
                what: "fast link of one library",
                against: HIT,
                pick: |times| &times.fast_link,
                of_peer: None,
            },
        ],
    },
    Comparison {
        arguments: &["--habit", "dxvk"],
        peer: &[],
        layered: false,
        rows: &[
            Row {
                id: "fast_link",
                what: "fast link of four libraries",
                against: WITHOUT,
                pick: |times| &times.fast_link,
                of_peer: None,
            },
            Row {
                id: "inline",
                what: "served, inline code, a thread of its own",
                against: COMPILED,
                pick: |times| &times.optimised,
                of_peer: None,
            },
        ],
    },
    Comparison {
        arguments: &["--habit", "dxvk", "--link-optimised"],
        peer: &[],
        layered: false,
        rows: &[Row {
            id: "optimised_link",
            what: "served optimised link of four libraries",
            against: COMPILED,
            pick: |times| &times.optimised,
            of_peer: None,
        }],
    },
];

/// One table for each driver.
pub(crate) fn run(runner: &Runner, rounds: usize) -> Result<Vec<Table>, Failure> {
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

/// The report of a run that recorded nothing new.
fn served((report, compiled): (Report, u64)) -> Result<Report, Failure> {
    if compiled == 0 { Ok(report) } else { Err(format!("{compiled} pipelines were not served").into()) }
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
    let (stash, peers_stash) = (runner.path("stash"), runner.path("stash"));
    let layered = plain.with_stash(&stash);
    let peers = if comparison.layered { plain.with_stash(&peers_stash) } else { plain };
    let (with_store, peers_store) = (runner.folder("store")?, runner.folder("store")?);
    let with = || runner.translate(&layered, &with_store, PIPELINES, comparison.arguments, &[]);
    let without = || runner.translate(&peers, &peers_store, PIPELINES, comparison.arguments, comparison.peer);
    // Fills the stashes and the stores; not counted.
    with()?;
    without()?;
    let with = || served(with()?);
    let without = || served(without()?);
    let (mut left, mut right) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        // In alternating order, so that a machine that becomes slower slows down both sides.
        if round % 2 == 0 {
            left.push(with()?);
            right.push(without()?);
        } else {
            right.push(without()?);
            left.push(with()?);
        }
    }
    for row in comparison.rows {
        let medians = |reports: &[Report], pick: fn(&Times) -> &Latency| -> Vec<f64> {
            reports.iter().map(|report| pick(&report.times).p50()).collect()
        };
        let (with, without) = (medians(&left, row.pick), medians(&right, row.of_peer.unwrap_or(row.pick)));
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
