//! The layer's cost for a program that gains nothing from it in this run.

use vkstash_layer_tests::bench::numbers::median;

use crate::child::Runner;
use crate::compare::{Series, pair};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::progress::progress;
use crate::table::Figure;

/// Runs pairs: with an empty stash, and without the layer.
pub(crate) fn pairs(
    runner: &Runner,
    without: Environment<'_>,
    arguments: &[&str],
    rounds: usize,
    what: &str,
) -> Result<(Series, Series), Failure> {
    let (mut with, mut plain) = (Series::default(), Series::default());
    for round in 0..rounds {
        progress(&format!("{what}: pair {} of {rounds}", round + 1));
        let stash = runner.path("stash");
        let (left, right) = pair(
            round,
            || runner.run(&without.with_stash(&stash), arguments),
            || runner.run(&without, arguments),
        )?;
        with.push(&left);
        plain.push(&right);
    }
    Ok((with, plain))
}

/// The rows: the additional cost of a pipeline, the ratio of all of them together, and that of the whole process. Both
/// sides include modules and the program's own caches.
pub(crate) fn figures(id: &str, what: &str, with: &Series, without: &Series) -> Vec<Figure> {
    let per_run = |series: &Series| series.calls.iter().map(|run| median(run)).collect::<Vec<_>>();
    let mut figures = vec![
        Figure::alone(
            format!("{id}.more"),
            format!("{what}: more per pipeline"),
            &with.differences(without),
            "us",
            "without the layer, pair by pair",
        ),
        Figure::alone(
            format!("{id}.more_best"),
            format!("{what}: more per pipeline, fastest runs"),
            &with.best_differences(without),
            "us",
            "without the layer, fastest of all runs",
        ),
        Figure::pairs(
            format!("{id}.call"),
            format!("{what}: median call"),
            &per_run(with),
            "without the layer",
            &per_run(without),
            "us",
        ),
        Figure::pairs(
            format!("{id}.total"),
            format!("{what}: all pipelines"),
            &with.totals(),
            "without the layer",
            &without.totals(),
            "ms",
        ),
    ];
    for (name, words, with, without) in [
        ("wall", "whole process", &with.wall, &without.wall),
        ("cpu", "its processor time", &with.cpu, &without.cpu),
    ] {
        let (id, what) = (format!("{id}.{name}"), format!("{what}: {words}"));
        figures.push(Figure::pairs(id, what, with, "without the layer", without, "ms"));
    }
    // Noise of other programs does not affect instruction counts.
    if !with.instructions.is_empty() && !without.instructions.is_empty() {
        let what = format!("{what}: millions of instructions");
        let (mine, theirs) = (&with.instructions, &without.instructions);
        figures.push(Figure::pairs(
            format!("{id}.instructions"),
            what,
            mine,
            "without the layer",
            theirs,
            "M",
        ));
    }
    figures
}
