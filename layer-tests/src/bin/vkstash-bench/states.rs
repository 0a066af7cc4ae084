//! `states`: graphics pipelines of the same shaders that differ in state that drivers leave out of their own keys, in
//! each cache habit: runs with the layer beside one without.

use vkstash_layer_tests::bench::report::Device;

use crate::child::{Outcome, Runner};
use crate::environment::{self, Environment};
use crate::failure::Failure;
use crate::options::{Driver, States};
use crate::progress::progress;
use crate::table::{Figure, Table};

const STATES: [&str; 4] = ["viewport", "mixed", "formats", "shaders"];
const HABITS: [&str; 4] = ["none", "shared", "fresh", "file"];

/// One table without the driver's disk cache, one with a warm one.
pub(crate) fn run(
    runner: &Runner,
    options: &States,
    count: usize,
    rounds: usize,
) -> Result<Vec<Table>, Failure> {
    let driver = options.on.driver.unwrap_or(Driver::Radv);
    environment::check(driver)?;
    let states: Vec<&str> = match options.state.is_empty() {
        true => STATES.to_vec(),
        false => options.state.iter().map(String::as_str).collect(),
    };
    let mut tables = Vec::new();
    for warm_disk in [false, true].into_iter().skip(usize::from(options.warm)) {
        let disk = if warm_disk { "warm" } else { "off" };
        let mut table = Table {
            title: format!("Pipelines that differ in state alone; the driver's disk cache {disk}"),
            device: Device::default(),
            modules: count,
            figures: Vec::new(),
        };
        for state in &states {
            for habit in HABITS {
                progress(&format!("disk cache {disk}: {state}, cache {habit}"));
                let mut plain = Environment::bare(driver);
                (plain.background, plain.compares) = (options.background, options.background);
                let size = Size { warm_disk, count, rounds, runs: options.runs };
                compare(runner, plain, (state, habit), size, &mut table)?;
            }
        }
        tables.push(table);
    }
    Ok(tables)
}

struct Size {
    warm_disk: bool,
    count: usize,
    rounds: usize,
    runs: usize,
}

fn compare(
    runner: &Runner,
    plain: Environment<'_>,
    (state, habit): (&str, &str),
    size: Size,
    table: &mut Table,
) -> Result<(), Failure> {
    let Size { warm_disk, count, rounds, runs } = size;
    let disk = runner.folder("disk")?;
    let plain = if warm_disk { plain.with_disk(&disk) } else { plain };
    let run = |environment: &Environment<'_>, file: &std::path::Path| {
        let file = file.to_str().ok_or("the path of a temporary folder is not UTF-8")?;
        let count = count.to_string();
        runner.run_states(
            environment,
            ["--state", state, "--cache", habit, "--count", &count, "--cache-file", file],
        )
    };
    if warm_disk {
        run(&plain, &runner.path("cache"))?;
    }
    let total = |outcome: &Outcome| {
        outcome.report.rounds.iter().map(|round| round.total_ns).sum::<u64>() as f64 / 1e6
    };
    let mut without = Vec::new();
    let mut with = vec![Vec::new(); runs];
    let mut with_its_file = Vec::new();
    for _ in 0..rounds {
        // A program with a cache file has that file in its second run, with the layer and without.
        let (own, stash) = (runner.path("cache"), runner.path("stash"));
        let first = run(&plain, &own)?;
        without.push(match habit {
            "file" => [total(&first), total(&run(&plain, &own)?)],
            _ => [total(&first); 2],
        });
        table.device = first.report.device;
        if runner.has_layer() {
            let file = runner.path("cache");
            for (number, totals) in with.iter_mut().enumerate() {
                totals.push(total(&run(&plain.with_stash(&stash), &file)?));
                if habit == "file" && number == 0 {
                    let copy = runner.path("cache");
                    std::fs::copy(&file, &copy)?;
                    with_its_file.push(total(&run(&plain, &copy)?));
                }
            }
        }
    }
    let disk = if warm_disk { "disk" } else { "off" };
    let is_shown = |number: usize| number < 3 || number + 1 == runs;
    let shown = with.iter().enumerate().filter(|(number, totals)| is_shown(*number) && !totals.is_empty());
    for (number, totals) in shown {
        let peers: Vec<f64> = without.iter().map(|runs| runs[number.min(1)]).collect();
        let what = format!("{state}, cache {habit}: run {}", number + 1);
        let id = format!("states.{disk}.{state}.{habit}.{}", number + 1);
        table.figures.push(Figure::pairs(id, what, totals, "without the layer", &peers, "ms"));
    }
    if !with_its_file.is_empty() {
        let peers: Vec<f64> = without.iter().map(|runs| runs[1]).collect();
        let what = format!("{state}: the file of run 1, loaded without the layer");
        let id = format!("states.{disk}.{state}.{habit}.its_file");
        table.figures.push(Figure::pairs(id, what, &with_its_file, "without the layer", &peers, "ms"));
    }
    Ok(())
}
