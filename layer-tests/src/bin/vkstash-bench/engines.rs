//! `engines`: six engines' habits of caching pipelines, each run beside the same run without the layer.

use std::fs;
use std::path::{Path, PathBuf};

use vkstash_layer_tests::engines::{self, Spent};

use crate::child::Runner;
use crate::environment::{self, Environment};
use crate::failure::Failure;
use crate::options::{Driver, Engines};
use crate::progress::progress;
use crate::table::{Figure, Table};

/// What an engine finds in a run.
const RUNS: [&str; 3] = ["first run", "second run", "its own files lost"];

/// Times with the layer, and without it. One element for each round.
type Pairs = [Vec<Spent>; 2];

/// One table for a cold disk cache of the driver, and one for a warm one.
pub(crate) fn run(runner: &Runner, options: &Engines, rounds: usize) -> Result<Vec<Table>, Failure> {
    let driver = options.on.driver.unwrap_or(Driver::Radv);
    environment::check(driver)?;
    let chosen = |name: &&str| options.only.is_empty() || options.only.iter().any(|only| only == name);
    let names: Vec<&str> = engines::names().filter(chosen).collect();
    let warm = runner.folder("warm-disk")?;
    for name in &names {
        let environment = Environment::bare(driver).with_disk(&warm);
        runner.engine(&environment, name, &runner.path("own"), options.pipelines)?;
    }
    let mut tables = Vec::new();
    for (disk, title) in [(None, "cold"), (Some(&warm), "warm")] {
        let mut measured: Vec<[Pairs; 3]> = names.iter().map(|_| Default::default()).collect();
        for round in 0..rounds {
            progress(&format!("{title} disk cache, round {} of {rounds}", round + 1));
            for (name, runs) in names.iter().zip(&mut measured) {
                // The order alternates between rounds, because the machine changes with time.
                let program = |layered| Program::new(runner, options, driver, disk, name, layered);
                let programs = [program(true), program(false)];
                for (at, pairs) in runs.iter_mut().enumerate() {
                    let mut spent = [None, None];
                    for side in if round % 2 == 0 { [0, 1] } else { [1, 0] } {
                        spent[side] = Some(programs[side].run(at)?);
                    }
                    pairs.iter_mut().zip(spent).for_each(|(all, one)| all.extend(one));
                }
                programs.iter().try_for_each(Program::remove)?;
            }
        }
        tables.push(table(options, title, &names, &measured));
    }
    Ok(tables)
}

/// One program of a round, with its own files, its stash and the driver's disk cache.
struct Program<'a> {
    runner: &'a Runner,
    engine: &'a str,
    pipelines: u32,
    environment: Environment<'a>,
    is_layered: bool,
    own: PathBuf,
    stash: PathBuf,
    /// None: a new folder for each run, so that the driver never finds anything there.
    disk: Option<&'a Path>,
}

impl<'a> Program<'a> {
    fn new(
        runner: &'a Runner,
        options: &Engines,
        driver: Driver,
        disk: Option<&'a PathBuf>,
        engine: &'a str,
        is_layered: bool,
    ) -> Program<'a> {
        let is_whole = !options.plain;
        let environment =
            Environment { background: is_whole, usual_order: is_whole, ..Environment::bare(driver) };
        let [own, stash] = ["own", "stash"].map(|name| runner.path(name));
        let pipelines = options.pipelines;
        Program {
            runner,
            engine,
            pipelines,
            environment,
            is_layered,
            own,
            stash,
            disk: disk.map(PathBuf::as_path),
        }
    }

    /// The run with that number in [`RUNS`].
    fn run(&self, number: usize) -> Result<Spent, Failure> {
        if number == 2 {
            self.remove_own()?;
        }
        let empty = self.runner.path("cold-disk");
        let mut environment = self.environment.with_disk(self.disk.unwrap_or(&empty));
        if self.is_layered {
            environment = environment.with_stash(&self.stash);
        }
        let spent = self.runner.engine(&environment, self.engine, &self.own, self.pipelines);
        remove(&empty)?;
        spent
    }

    fn remove_own(&self) -> Result<(), Failure> {
        remove(&self.own)
    }

    fn remove(&self) -> Result<(), Failure> {
        self.remove_own()?;
        remove(&self.stash)
    }
}

fn remove(folder: &Path) -> Result<(), Failure> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

fn table(options: &Engines, disk: &str, names: &[&str], measured: &[[Pairs; 3]]) -> Table {
    let time = |spent: &Spent| if options.whole { spent.whole } else { spent.calls };
    let microseconds =
        |all: &[Spent]| all.iter().map(|spent| time(spent).as_nanos() as f64 / 1e3).collect::<Vec<_>>();
    let mut figures = Vec::new();
    for (name, runs) in names.iter().zip(measured) {
        let first = microseconds(&runs[0][1]);
        for (number, [layered, without]) in runs.iter().enumerate() {
            let (what, layered) = (RUNS[number], microseconds(layered));
            let id = format!("engines.{disk}.{name}.{number}");
            let without = microseconds(without);
            figures.push(Figure::pairs(&id, format!("{name}, {what}"), &layered, "no layer", &without, "us"));
            if number > 0 {
                let id = format!("{id}.first");
                figures.push(Figure::pairs(
                    id,
                    format!("{name}, {what}"),
                    &layered,
                    "no layer, first run",
                    &first,
                    "us",
                ));
            }
        }
    }
    let what = if options.whole { "whole habits" } else { "creation calls" };
    Table {
        title: format!("Engines over a {disk} disk cache of the driver, {what}"),
        device: measured
            .iter()
            .flatten()
            .flatten()
            .flatten()
            .next()
            .map(|spent| spent.device.clone())
            .unwrap_or_default(),
        modules: options.pipelines as usize,
        figures,
    }
}
