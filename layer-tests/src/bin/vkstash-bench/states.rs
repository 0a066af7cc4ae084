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

/// The driver's disk cache.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Disk {
    Off,
    /// Empty at the beginning of each round.
    Cold,
    Warm,
}

impl Disk {
    fn name(self) -> &'static str {
        match self {
            Disk::Off => "off",
            Disk::Cold => "cold",
            Disk::Warm => "warm",
        }
    }
}

/// One table without the driver's disk cache, one with a warm one; or one with a cold one.
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
    let disks: &[Disk] = match (options.cold, options.warm) {
        (true, _) => &[Disk::Cold],
        (false, true) => &[Disk::Warm],
        (false, false) => &[Disk::Off, Disk::Warm],
    };
    for &kind in disks {
        let disk = kind.name();
        let mut table = Table {
            title: format!("Pipelines that differ in state alone; the driver's disk cache {disk}"),
            device: Device::default(),
            modules: count,
            figures: Vec::new(),
        };
        for state in &states {
            for habit in HABITS.into_iter().filter(|habit| options.shows(habit)) {
                progress(&format!("disk cache {disk}: {state}, cache {habit}"));
                let mut plain = Environment::bare(driver);
                (plain.background, plain.usual_order) = (options.background, options.background);
                let runs = if kind == Disk::Cold { 1 } else { options.runs };
                let kinds = Runs { disk: kind, count, rounds, runs, options };
                compare(runner, plain, (state, habit), kinds, &mut table)?;
            }
        }
        tables.push(table);
    }
    Ok(tables)
}

struct Runs<'a> {
    disk: Disk,
    count: usize,
    rounds: usize,
    runs: usize,
    options: &'a States,
}

fn compare(
    runner: &Runner,
    plain: Environment<'_>,
    (state, habit): (&str, &str),
    kinds: Runs<'_>,
    table: &mut Table,
) -> Result<(), Failure> {
    let Runs { disk: kind, count, rounds, runs, options } = kinds;
    let disk = runner.folder("disk")?;
    let plain = if kind == Disk::Warm { plain.with_disk(&disk) } else { plain };
    let refusing = options.fail_on.then_some("--fail-on").or(options.retry.then_some("--retry"));
    let run_with = |environment: &Environment<'_>, file: &std::path::Path, refusing: Option<&str>| {
        let file = file.to_str().ok_or("the path of a temporary folder is not UTF-8")?;
        let (count, threads) = (count.to_string(), options.threads.to_string());
        let idle = if environment.stash.is_some() { options.idle_ms } else { 0 }.to_string();
        let arguments = ["--state", state, "--cache", habit, "--count", &count, "--cache-file", file];
        let further = ["--threads", &threads, "--idle-ms", &idle];
        runner.run_states(environment, arguments.into_iter().chain(further).chain(refusing))
    };
    let run = |environment: &Environment<'_>, file: &std::path::Path| run_with(environment, file, refusing);
    if kind == Disk::Warm {
        // This run may compile: it fills the disk cache. Calls that forbid compiling would leave it empty.
        run_with(&plain, &runner.path("cache"), None)?;
    }
    let total = |outcome: &Outcome| {
        outcome.report.rounds.iter().map(|round| round.total_ns).sum::<u64>() as f64 / 1e6
    };
    let whole = |outcome: &Outcome| outcome.wall * 1e3;
    let mut took = Took { with: vec![Vec::new(); runs], ..Took::default() };
    for _ in 0..rounds {
        // A program with a cache file has that file in its second run, with the layer and without.
        let (own, stash) = (runner.path("cache"), runner.path("stash"));
        let disks = [runner.folder("disk")?, runner.folder("disk")?];
        let [plain, layered] = disks.each_ref().map(|disk| match kind {
            Disk::Cold => plain.with_disk(disk),
            Disk::Off | Disk::Warm => plain,
        });
        let first = run(&plain, &own)?;
        took.without.push(match habit {
            "file" if runs > 1 => [total(&first), total(&run(&plain, &own)?)],
            _ => [total(&first); 2],
        });
        took.whole_without.push(whole(&first));
        table.device = first.report.device;
        let file = runner.path("cache");
        for (number, totals) in took.with.iter_mut().enumerate() {
            let outcome = run(&layered.with_stash(&stash), &file)?;
            totals.push(total(&outcome));
            if number + 1 == runs {
                took.whole_with.push(whole(&outcome));
            }
            if runs > 1 && habit == "file" && number == 0 {
                let copy = runner.path("cache");
                std::fs::copy(&file, &copy)?;
                took.with_its_file.push(total(&run(&plain, &copy)?));
            }
        }
    }
    took.add_figures((state, habit), &kinds, table);
    Ok(())
}

/// Milliseconds of the rounds.
#[derive(Default)]
struct Took {
    /// Without the layer: the first run, and the second one or the first again.
    without: Vec<[f64; 2]>,
    /// With the layer: the rounds of each run.
    with: Vec<Vec<f64>>,
    /// Without the layer, with the file that the program has written in its first run with it.
    with_its_file: Vec<f64>,
    /// The whole process, in the first run without the layer.
    whole_without: Vec<f64>,
    /// The whole process, in the last run with the layer.
    whole_with: Vec<f64>,
}

impl Took {
    fn add_figures(&self, (state, habit): (&str, &str), kinds: &Runs<'_>, table: &mut Table) {
        let &Runs { disk: kind, runs, options, .. } = kinds;
        // Published figures call the warm disk cache `disk`.
        let disk = if kind == Disk::Warm { "disk" } else { kind.name() };
        let is_shown = |number: usize| number < 3 || number + 1 == runs;
        let shown =
            self.with.iter().enumerate().filter(|(number, totals)| is_shown(*number) && !totals.is_empty());
        for (number, totals) in shown {
            let peers: Vec<f64> = self.without.iter().map(|runs| runs[number.min(1)]).collect();
            let what = format!("{state}, cache {habit}: run {}", number + 1);
            let id = format!("states.{disk}.{state}.{habit}.{}", number + 1);
            table.figures.push(Figure::pairs(id, what, totals, "without the layer", &peers, "ms"));
        }
        if !self.whole_with.is_empty() && habit != "file" && options.idle_ms == 0 {
            let what = format!("{state}, cache {habit}: run {runs}, the whole process");
            let id = format!("states.{disk}.{state}.{habit}.process");
            table.figures.push(Figure::pairs(
                id,
                what,
                &self.whole_with,
                "without the layer",
                &self.whole_without,
                "ms",
            ));
        }
        if !self.with_its_file.is_empty() {
            let peers: Vec<f64> = self.without.iter().map(|runs| runs[1]).collect();
            let what = format!("{state}: the file of run 1, loaded without the layer");
            let id = format!("states.{disk}.{state}.{habit}.its_file");
            table.figures.push(Figure::pairs(
                id,
                what,
                &self.with_its_file,
                "without the layer",
                &peers,
                "ms",
            ));
        }
    }
}
