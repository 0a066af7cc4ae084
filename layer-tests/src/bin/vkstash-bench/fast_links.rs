//! `fast-links`: a program that makes graphics pipelines of 14 vertex and 14 fragment shaders, first each of them once,
//! then, as in a new level, all other combinations. With VKSTASH_FAST_LINK and without, over an empty stash, beside the
//! driver alone; nothing has a disk cache.

use vkstash_layer_tests::bench::numbers::median;
use vkstash_layer_tests::bench::report::Call;

use crate::child::{Outcome, Runner};
use crate::environment::{self, Environment};
use crate::failure::Failure;
use crate::options::{Driver, FastLinks};
use crate::progress::progress;
use crate::table::{Figure, Table};

/// Pipelines that have each shader once.
const FIRST: usize = 14;
const ALL: usize = FIRST * FIRST;

/// One table.
pub(crate) fn run(runner: &Runner, options: &FastLinks, rounds: usize) -> Result<Vec<Table>, Failure> {
    let driver = options.on.driver.unwrap_or(Driver::Radv);
    environment::check(driver)?;
    if !runner.has_layer() {
        return Err("without the layer there is nothing to compare".into());
    }
    let bare = Environment { usual_order: true, ..Environment::bare(driver) };
    let mut runs: [Vec<Outcome>; 3] = Default::default();
    for round in 0..rounds {
        progress(&format!("round {} of {rounds}", round + 1));
        let [linked, compiled] = [(); 2].map(|()| runner.path("stash"));
        let mut ways = [
            (Environment { fast_link: true, ..bare.with_stash(&linked) }, Way::Linked),
            (bare.with_stash(&compiled), Way::Compiled),
            (bare, Way::Driver),
        ];
        ways.rotate_left(round % 3);
        for (environment, way) in ways {
            let (count, steps) = (ALL.to_string(), options.arithmetic.to_string());
            let what = ["--state", "shaders", "--cache", "none", "--count", &count, "--arithmetic", &steps];
            let outcome = runner.run_states(&environment, what)?;
            if way == Way::Linked {
                let linked = outcome.counter("fast_linked").unwrap_or_default();
                if linked != ALL as u64 {
                    return Err(format!("linked fast: {linked} of {ALL}, see src/state/policy.rs").into());
                }
            }
            runs[way as usize].push(outcome);
        }
    }
    let of = |way: Way, value: Of| runs[way as usize].iter().map(value).collect::<Vec<f64>>();
    let mut figures = Vec::new();
    let measured: [(&str, &str, Of); 5] = [
        ("first", "each shader once, all calls", |run| millis(&calls(run)[..FIRST]).sum()),
        ("change", "the other combinations, all calls", |run| millis(&calls(run)[FIRST..]).sum()),
        ("worst", "the other combinations, the longest call", |run| longest(&calls(run)[FIRST..])),
        ("median", "the other combinations, the median call", middle),
        ("process", "the whole process", |run| run.wall * 1e3),
    ];
    for (id, what, value) in measured {
        let linked = of(Way::Linked, value);
        for (peer, against, name) in [
            (Way::Driver, "without the layer", "linked fast"),
            (Way::Compiled, "the layer without fast links", "linked fast"),
        ] {
            let id = format!("fast_links.{id}.{}", peer as usize);
            let what = format!("{name}: {what}");
            figures.push(Figure::pairs(id, what, &linked, against, &of(peer, value), "ms"));
        }
    }
    let worst = of(Way::Linked, |run| longest(&calls(run)[FIRST..]));
    let compile = of(Way::Driver, middle);
    let (what, against) = ("linked fast: the longest call", "the median compile without the layer");
    figures.push(Figure::pairs("fast_links.worst.compile", what, &worst, against, &compile, "ms"));
    let device = runs[Way::Driver as usize].first().ok_or("no rounds")?.report.device.clone();
    Ok(vec![Table { title: "Unseen combinations of seen shaders".to_owned(), device, modules: ALL, figures }])
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Linked,
    Compiled,
    Driver,
}

type Of = fn(&Outcome) -> f64;

fn calls(outcome: &Outcome) -> &[Call] {
    &outcome.report.rounds[0].calls
}

fn millis(calls: &[Call]) -> impl Iterator<Item = f64> {
    calls.iter().map(|call| call.create_ns as f64 / 1e6)
}

fn longest(calls: &[Call]) -> f64 {
    millis(calls).fold(0.0, f64::max)
}

fn middle(run: &Outcome) -> f64 {
    median(&millis(&calls(run)[FIRST..]).collect::<Vec<_>>())
}
