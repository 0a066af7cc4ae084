//! `claims`: two processes at once that create the same pipelines in the same order, over one empty stash, and, as
//! control, over an empty stash each.

use std::path::Path;

use crate::child::{Outcome, Runner};
use crate::compare::pair;
use crate::environment::{self, Environment};
use crate::failure::Failure;
use crate::options::{Driver, OnDriver};
use crate::progress::progress;
use crate::table::{Figure, Table};

/// What both processes of a round have measured, together.
struct Both {
    outcomes: [Outcome; 2],
}

impl Both {
    fn counted(&self, name: &str) -> f64 {
        self.outcomes.iter().filter_map(|outcome| outcome.counter(name)).sum::<u64>() as f64
    }

    fn compiles(&self) -> f64 {
        self.counted("compiled") + self.counted("compiled_unrecorded")
    }

    /// The mean of both.
    fn mean(&self, of: impl Fn(&Outcome) -> f64) -> f64 {
        self.outcomes.iter().map(of).sum::<f64>() / 2.0
    }
}

/// One table.
pub(crate) fn run(runner: &Runner, options: &OnDriver, rounds: usize) -> Result<Vec<Table>, Failure> {
    let driver = options.driver.unwrap_or(Driver::Radv);
    environment::check(driver)?;
    if !runner.has_layer() {
        return Err("without the layer there is nothing to compare".into());
    }
    let bare = Environment::bare(driver);
    let (mut shared, mut apart) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        progress(&format!("round {} of {rounds}", round + 1));
        let [one, own, other] = [(); 3].map(|()| runner.path("stash"));
        let (left, right) =
            pair(round, || together(runner, bare, [&one, &one]), || together(runner, bare, [&own, &other]))?;
        shared.push(left);
        apart.push(right);
    }
    let first = &shared.first().ok_or("no rounds")?.outcomes[0].report;
    let (device, modules) = (first.device.clone(), first.modules.len());
    let title = "Two processes at once over an empty stash".to_owned();
    Ok(vec![Table { title, device, modules, figures: figures(&shared, &apart) }])
}

fn together(runner: &Runner, bare: Environment<'_>, stashes: [&Path; 2]) -> Result<Both, Failure> {
    let one = |stash| runner.run(&bare.with_stash(stash), ["--cache", "none"]);
    let [first, second] = stashes;
    std::thread::scope(|scope| {
        let first = scope.spawn(|| one(first));
        let second = one(second);
        let first = first.join().map_err(|_| "a thread of the benchmark panicked")?;
        Ok(Both { outcomes: [first?, second?] })
    })
}

fn figures(shared: &[Both], apart: &[Both]) -> Vec<Figure> {
    let of = |both: &[Both], value: &dyn Fn(&Both) -> f64| both.iter().map(value).collect::<Vec<_>>();
    // Processes that share nothing compile every pipeline twice.
    let once = |(shared, apart): (&Both, &Both)| 100.0 * (2.0 - 2.0 * shared.compiles() / apart.compiles());
    let once: Vec<_> = shared.iter().zip(apart).map(once).collect();
    let pairs = |name: &str, what: &str, value: &dyn Fn(&Both) -> f64, unit| {
        let (values, peers) = (of(shared, value), of(apart, value));
        Figure::pairs(format!("claims.{name}"), what, &values, "a stash each", &peers, unit)
    };
    let alone = |name: &str, what: &str, counter: &str| {
        let values = of(shared, &|both| both.counted(counter));
        Figure::alone(format!("claims.{name}"), what, &values, "pipelines", "one stash")
    };
    vec![
        Figure::alone("claims.once", "pipelines that are compiled once", &once, "%", "one stash"),
        pairs("compiles", "compiles of both processes", &Both::compiles, "compiles"),
        alone("other", "compiled by the other process at the same time", "served_by_other"),
        alone("vain", "waits in vain", "waited_in_vain"),
        pairs("wall", "a whole process", &|both| both.mean(|outcome| outcome.wall * 1e3), "ms"),
        pairs("cpu", "processor time of a process", &|both| both.mean(|outcome| outcome.cpu * 1e3), "ms"),
    ]
}
