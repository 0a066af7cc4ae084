//! The cost of a served pipeline, beside the alternatives in the same rounds.

use vkstash_layer_tests::bench::numbers::median;
use vkstash_layer_tests::bench::report::Kind;

use crate::child::{Outcome, Runner};
use crate::compare::pair;
use crate::environment::Environment;
use crate::failure::Failure;
use crate::options::Driver;
use crate::progress::progress;
use crate::table::Figure;

/// The pipelineCache that a program passes, by the client's arguments.
pub(crate) struct Habit {
    /// For the ids of figures.
    pub(crate) id: &'static str,
    /// The habit in words.
    pub(crate) what: &'static str,
    /// The client's arguments.
    pub(crate) arguments: &'static [&'static str],
}

/// VK_NULL_HANDLE, as in most programs.
pub(crate) const NONE: Habit = Habit { id: "none", what: "no cache", arguments: &["--cache", "none"] };
/// A new empty VkPipelineCache for each pipeline, as in vkd3d-proton.
pub(crate) const FRESH: Habit = Habit { id: "fresh", what: "fresh cache", arguments: &["--cache", "fresh"] };

/// One VkPipelineCache, empty at first, for all pipelines, as in engines.
pub(crate) const SHARED: Habit =
    Habit { id: "shared", what: "one shared cache", arguments: &["--cache", "shared"] };

/// Every list has one element for each round; lists that need the layer are empty without it.
#[derive(Default)]
pub(crate) struct Measured {
    /// Runs with neither layer nor disk cache: every pipeline is compiled.
    pub(crate) bare: Vec<Outcome>,
    /// Runs with the layer, an empty stash and no disk cache: every pipeline is compiled and recorded.
    pub(crate) first: Vec<Outcome>,
    /// The layer with the stash of that run.
    pub(crate) second: Vec<Outcome>,
    /// No layer; first uses in a freshly loaded in-memory cache, in the process that compiled its contents.
    pub(crate) hit: Vec<Outcome>,
    /// No layer; first uses in a freshly loaded in-memory cache, in a process that compiled nothing: its driver is as
    /// cold as in a process that the layer serves.
    pub(crate) loaded: Vec<Outcome>,
    /// No layer; the driver's own disk cache, filled before.
    pub(crate) disk: Vec<Outcome>,
}

/// Runs everything, interleaved.
pub(crate) fn measure(
    runner: &Runner,
    driver: Driver,
    habit: &Habit,
    rounds: usize,
) -> Result<Measured, Failure> {
    let mut measured = Measured::default();
    let bare = Environment::bare(driver);
    let disk = runner.folder("disk")?;
    progress(&format!("{}: filling the driver's own disk cache", habit.what));
    runner.run(&bare.with_disk(&disk), habit.arguments)?;
    let file = runner.path("cache");
    let with_file = format!("file:{}", file.display());
    progress(&format!("{}: filling a cache file", habit.what));
    runner.run(&bare, ["--cache", &with_file])?;
    for round in 0..rounds {
        progress(&format!("{}: round {} of {rounds}: compiling", habit.what, round + 1));
        let stash = runner.path("stash");
        let layered = bare.with_stash(&stash);
        let (first, plain) =
            pair(round, || runner.run(&layered, habit.arguments), || runner.run(&bare, habit.arguments))?;
        measured.first.push(first);
        measured.bare.push(plain);
        measured.second.push(runner.run(&layered, habit.arguments)?);
        measured.disk.push(runner.run(&bare.with_disk(&disk), habit.arguments)?);
        progress(&format!("{}: round {} of {rounds}: in-memory hits", habit.what, round + 1));
        measured.hit.push(runner.run(&bare, ["--hit"])?);
        measured.loaded.push(runner.run(&bare, ["--cache", &with_file, "--keep-cache-file"])?);
    }
    Ok(measured)
}

/// Median call of each round, in microseconds.
pub(crate) fn medians(outcomes: &[Outcome], kind: Kind) -> Vec<f64> {
    outcomes.iter().map(|outcome| outcome.median(kind)).collect()
}

/// Median cost of each round for a pipeline with its module and own cache, in microseconds.
fn whole_medians(outcomes: &[Outcome]) -> Vec<f64> {
    outcomes.iter().map(|outcome| median(&outcome.wholes(Kind::Create))).collect()
}

/// Percentage of the pipelines that the stash served, in each round.
pub(crate) fn shares(outcomes: &[Outcome]) -> Vec<f64> {
    outcomes.iter().map(|outcome| outcome.share_served().map_or(f64::NAN, |share| share * 100.0)).collect()
}

/// The rows.
pub(crate) fn figures(habit: &Habit, measured: &Measured) -> Vec<Figure> {
    let id = |name: &str| format!("{}.{name}", habit.id);
    let what = |text: &str| format!("{}: {text}", habit.what);
    let calls = |outcomes: &[Outcome]| medians(outcomes, Kind::Create);
    let (cold, disk) = (calls(&measured.bare), calls(&measured.disk));
    let hit = medians(&measured.hit, Kind::Hit);
    let loaded = calls(&measured.loaded);
    let mut rows = vec![
        Figure::pairs(id("hit_cold"), what("in-memory hit, call"), &hit, "compile, no layer", &cold, "us"),
        Figure::pairs(
            id("disk_cold"),
            what("warm disk cache, call"),
            &disk,
            "compile, no layer",
            &cold,
            "us",
        ),
        Figure::pairs(
            id("disk_hit"),
            what("warm disk cache, call"),
            &disk,
            "in-memory hit, process that compiled",
            &hit,
            "us",
        ),
    ];
    if measured.second.is_empty() {
        return rows;
    }
    let (first, served) = (calls(&measured.first), calls(&measured.second));
    let share = shares(&measured.second);
    rows.extend([
        Figure::alone(id("share"), what("served on the second run"), &share, "%", "all pipelines"),
        Figure::pairs(id("served_first"), what("served, call"), &served, "first run, layer", &first, "us"),
        Figure::pairs(
            id("served_hit"),
            what("served, call"),
            &served,
            "in-memory hit, process that compiled",
            &hit,
            "us",
        ),
        Figure::pairs(
            id("served_loaded"),
            what("served, call"),
            &served,
            "in-memory hit, process that compiled nothing",
            &loaded,
            "us",
        ),
        Figure::pairs(id("served_disk"), what("served, call"), &served, "warm disk cache", &disk, "us"),
        Figure::pairs(
            id("served_disk_whole"),
            what("served, with module and own cache"),
            &whole_medians(&measured.second),
            "warm disk cache",
            &whole_medians(&measured.disk),
            "us",
        ),
    ]);
    rows
}
