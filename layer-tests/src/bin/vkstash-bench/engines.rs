//! `engines`: seven engines' habits of caching pipelines, each run beside the same run without the layer, with a
//! verdict on what the layer adds to a call.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use vkstash_layer_tests::bench::numbers::median;
use vkstash_layer_tests::engines::{self, Done, Kind, Program};

use crate::child::Runner;
use crate::environment::{self, Environment};
use crate::failure::Failure;
use crate::options::{Driver, Engines};
use crate::progress::progress;
use crate::table::{Figure, Table};

/// What an engine finds in a run.
const RUNS: [&str; 3] = ["first run", "second run", "its own files lost"];

/// What ends the name of a figure that has a budget.
const ADDED: &str = ".added";

/// Runs with the layer, and without it. One element for each round.
type Pairs = [Vec<Done>; 2];

/// For each kind of pipelines one table for a cold disk cache of the driver, and one for a warm one.
pub(crate) fn run(runner: &Runner, options: &Engines, rounds: usize) -> Result<Vec<Table>, Failure> {
    let driver = options.on.driver.unwrap_or(Driver::Radv);
    environment::check(driver)?;
    let mut tables = Vec::new();
    for kind in options.kind.map_or(vec![Kind::Compute, Kind::Graphics], |kind| vec![kind]) {
        let suite = Suite { runner, options, driver, kind };
        let warm = suite.warm_disk()?;
        tables.push(suite.table(None, rounds)?);
        tables.push(suite.table(Some(&warm), rounds)?);
    }
    Ok(tables)
}

/// Fails with the rows that are beyond their budget.
pub(crate) fn verdict(tables: &[Table]) -> Result<(), Failure> {
    let figures = tables.iter().flat_map(|table| &table.figures);
    let budgets: Vec<&Figure> = figures.filter(|figure| figure.id.ends_with(ADDED)).collect();
    let beyond: Vec<&str> =
        budgets.iter().filter(|figure| is_beyond(figure)).map(|figure| figure.id.as_str()).collect();
    match beyond[..] {
        [] => {
            eprintln!("within the budgets: {} figures", budgets.len());
            Ok(())
        }
        _ => Err(format!("beyond the budget, of {}: {}", budgets.len(), beyond.join(", ")).into()),
    }
}

fn is_beyond(figure: &Figure) -> bool {
    figure.peer.is_some_and(|budget| figure.value > budget)
}

/// All engines with pipelines of one kind.
struct Suite<'a> {
    runner: &'a Runner,
    options: &'a Engines,
    driver: Driver,
    kind: Kind,
}

impl Suite<'_> {
    fn names(&self) -> Vec<&'static str> {
        let only = &self.options.only;
        engines::names().filter(|name| only.is_empty() || only.iter().any(|only| only == name)).collect()
    }

    /// What each engine asks for.
    fn program(&self) -> Program {
        let Engines { pipelines, again, .. } = *self.options;
        Program { kind: self.kind, count: pipelines, feedback: false, described: false, again }
    }

    /// A disk cache of the driver that has all pipelines.
    fn warm_disk(&self) -> Result<PathBuf, Failure> {
        let warm = self.runner.folder("warm-disk")?;
        for name in self.names() {
            let environment = Environment::bare(self.driver).with_disk(&warm);
            let own = self.runner.path("own");
            self.runner.engine(&environment, name, &own, Program { again: 0, ..self.program() })?;
        }
        Ok(warm)
    }

    fn table(&self, disk: Option<&Path>, rounds: usize) -> Result<Table, Failure> {
        let names = self.names();
        let title = if disk.is_some() { "warm" } else { "cold" };
        let mut measured: Vec<[Pairs; 3]> = names.iter().map(|_| Default::default()).collect();
        for round in 0..rounds {
            progress(&format!("{}, {title} disk cache, round {} of {rounds}", self.kind.name(), round + 1));
            for (name, runs) in names.iter().zip(&mut measured) {
                // The order alternates between rounds, because the machine changes with time.
                let habits = [true, false].map(|is_layered| Habit::new(self, disk, name, is_layered));
                for (at, pairs) in runs.iter_mut().enumerate() {
                    let mut done = [None, None];
                    for side in if round % 2 == 0 { [0, 1] } else { [1, 0] } {
                        done[side] = Some(habits[side].run(at)?);
                    }
                    pairs.iter_mut().zip(done).for_each(|(all, one)| all.extend(one));
                }
                habits.iter().try_for_each(Habit::remove)?;
            }
        }
        let kind = self.kind.name();
        let device = measured.iter().flatten().flatten().flatten().next().map(|done| done.device.clone());
        let figures = names.iter().zip(&measured).flat_map(|(name, runs)| {
            self.figures(&format!("engines.{kind}.{title}.{name}"), name, disk.is_some(), runs)
        });
        Ok(Table {
            title: format!(
                "Engines over a {title} disk cache of the driver, {kind} pipelines, creation calls"
            ),
            device: device.unwrap_or_default(),
            modules: self.options.pipelines as usize,
            figures: figures.collect(),
        })
    }

    fn figures(&self, id: &str, name: &str, is_warm: bool, runs: &[Pairs; 3]) -> Vec<Figure> {
        let all = |side: &[Done]| side.iter().map(|done| microseconds(done.spent())).collect::<Vec<_>>();
        let first = all(&runs[0][1]);
        let mut figures = Vec::new();
        for (number, [layered, without]) in runs.iter().enumerate() {
            let (id, what) = (format!("{id}.{number}"), format!("{name}, {}", RUNS[number]));
            let (with, bare) = (all(layered), all(without));
            figures.push(Figure::pairs(&id, &what, &with, "no layer", &bare, "us"));
            if number > 0 {
                let id = format!("{id}.first");
                figures.push(Figure::pairs(id, &what, &with, "no layer, first run", &first, "us"));
            }
            // Over a cold disk cache the driver has to compile in these runs.
            let compiles = !is_warm && number != 1;
            figures.push(self.added(&format!("{id}{ADDED}"), &what, layered, without, compiles));
        }
        figures
    }

    /// What the layer adds to a call: the median over all pipelines, of each the fastest round on both sides.
    fn added(&self, id: &str, what: &str, layered: &[Done], without: &[Done], compiles: bool) -> Figure {
        let [with, bare] = [layered, without].map(|side| self.best(side));
        // The layer may save a program the second call for a pipeline.
        let asked = without.iter().map(|done| done.calls.len()).max().unwrap_or_default();
        let calls = asked as f64 / f64::from(self.options.pipelines);
        let added: Vec<f64> = with.iter().zip(&bare).map(|(with, bare)| (with - bare) / calls).collect();
        let budget = match self.kind {
            _ if compiles => (median(&bare) / calls / 100.0).max(25.0),
            Kind::Compute => 2.0,
            Kind::Graphics => 4.0,
        };
        let mut figure = Figure::alone(id, format!("{what}, added to a call"), &added, "us", "");
        figure.peer = Some(budget);
        figure.against = format!("budget: {}", if is_beyond(&figure) { "beyond" } else { "within" });
        figure
    }

    /// Microseconds in the calls for each pipeline, in its fastest round.
    fn best(&self, rounds: &[Done]) -> Vec<f64> {
        let spent_on = |done: &Done, name| {
            let own = done.calls.iter().filter(|call| call.name == name);
            microseconds(own.map(|call| call.took).sum())
        };
        let best = |name| rounds.iter().map(|done| spent_on(done, name)).fold(f64::INFINITY, f64::min);
        (0..self.options.pipelines).map(best).collect()
    }
}

fn microseconds(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}

/// One engine's runs of a round, with its own files, its stash and the driver's disk cache.
struct Habit<'a> {
    suite: &'a Suite<'a>,
    engine: &'a str,
    environment: Environment<'a>,
    is_layered: bool,
    own: PathBuf,
    stash: PathBuf,
    /// None: a new folder for each run, so that the driver never finds anything there.
    disk: Option<&'a Path>,
}

impl<'a> Habit<'a> {
    fn new(suite: &'a Suite<'_>, disk: Option<&'a Path>, engine: &'a str, is_layered: bool) -> Habit<'a> {
        let environment =
            Environment { background: true, usual_order: true, ..Environment::bare(suite.driver) };
        let [own, stash] = ["own", "stash"].map(|name| suite.runner.path(name));
        Habit { suite, engine, environment, is_layered, own, stash, disk }
    }

    /// The run with that number in [`RUNS`].
    fn run(&self, number: usize) -> Result<Done, Failure> {
        if number == 2 {
            self.remove_own()?;
        }
        let Suite { runner, .. } = *self.suite;
        let empty = runner.path("cold-disk");
        let mut environment = self.environment.with_disk(self.disk.unwrap_or(&empty));
        if self.is_layered {
            environment = environment.with_stash(&self.stash);
        }
        let done = runner.engine(&environment, self.engine, &self.own, self.suite.program());
        remove(&empty)?;
        done
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
