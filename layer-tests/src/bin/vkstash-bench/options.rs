//! The benchmark's command line.

use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};
use vkstash_layer_tests::engines::Kind;

use crate::siblings::model::{Class, Toggled};

/// Measures what vkstash gains and what it costs, in paired, interleaved runs of a real Vulkan client.
///
/// Prints medians, and ratios against a peer of the same run, because machines differ. The output is Markdown with
/// the command, the machine and the driver above each table; progress goes to stderr.
#[derive(Parser)]
#[command(version)]
pub(crate) struct Options {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Figures that can be measured on every machine, on RADV's null device and lavapipe.
    Figures(Figures),
    /// Figures of the machine's own GPU, in the habits "no cache" and "fresh cache per pipeline".
    #[command(alias = "gpu")]
    Nvidia(OnDriver),
    /// One table: cold, through the stash, the driver's own disk cache, in memory.
    Demo(OnDriver),
    /// Pipelines of the same shaders that differ in state that drivers leave out of their keys, in each cache habit.
    States(States),
    /// The habits of seven engines, with and without the layer, over a cold and a warm disk cache of the driver. Fails
    /// if the layer adds more to a call than its budget.
    Engines(Engines),
    /// What commands cost while the program's state grows: modules, identifiers, layouts, caches.
    Growth(Growth),
    /// A user's runs from the first one on, over the driver's warm cache and at default settings, with and without the
    /// layer: in each cache habit, and at each pace of asking.
    Usual(Usual),
    /// Real programs (scripts/programs.sh) at default settings over the driver's warm cache, with and without the
    /// layer, and after the loss of that cache.
    Programs(Programs),
    /// An update of the driver, from an older version to the present one: the runs before it, and the first one after
    /// it without the layer, with it and nothing done, with it after the service, and with it where `vkstash prewarm`
    /// was run before the update, at default settings, in turn.
    Update(Update),
    /// Shader objects that are served, against a program that keeps the driver's binaries itself.
    Objects(OnDriver),
    /// Pipelines that background work finishes before the program asks for them.
    Parked(OnDriver),
    /// What busy workers cost the program: a thread that computes, and its own creation calls.
    Busy(OnDriver),
    /// What the layer costs programs that ask for few pipelines, with a large stash and with a small one.
    Small(OnDriver),
    /// Many processes at once that make and destroy four devices in turn, with pipelines of every kind: whether each
    /// ends.
    Stress(Stress),
    /// Served calls of 16 threads, with fewer of them in the driver at a time.
    Widths(OnDriver),
    /// Trains the dictionary of recipes (crates/store/src/codec/recipes.dict), and measures the size of stored recipes
    /// and the speed of both directions. Needs stashes, but neither layer nor driver.
    Recipes(Recipes),
    /// The work before every look-up (capture, encoding and SHA-256 of pipelines of every kind) and the look-up
    /// itself, each beside a fixed yardstick. Needs neither layer nor driver.
    Capture(Capture),
    /// Look-ups in a stash, in bases and in siblings, of one segment and of many; and opening a base of many
    /// applications. Needs neither layer nor driver.
    Lookups(Lookups),
    /// Whether the driver takes cache data of a device that enables other features or extensions, each toggled by
    /// itself: how many of how many. Needs neither the layer nor modules, nor anything else than the loader and the
    /// driver.
    Siblings(Siblings),
    /// What the driver of the environment (VK_DRIVER_FILES) writes into buffers that are too short for its data.
    ShortBuffers,
    /// What several predictors would have had ready of the requests of recorded runs, each run predicted from all
    /// earlier ones. Needs stashes, but neither layer nor driver.
    Predict(Predict),
}

impl Command {
    /// Whether it prints something else than the table of figures.
    pub(crate) fn prints_itself(&self) -> bool {
        matches!(
            self,
            Command::Recipes(_)
                | Command::Siblings(_)
                | Command::ShortBuffers
                | Command::Stress(Stress { step: true, .. })
        )
    }
}

#[derive(Args)]
pub(crate) struct Usual {
    /// The driver; default: RADV's null device.
    #[arg(long, value_enum)]
    pub(crate) driver: Option<Driver>,
    /// The caches that the program passes.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "HABIT")]
    #[arg(default_values_t = [ProgramHabit::None, ProgramHabit::Fresh, ProgramHabit::Shared, ProgramHabit::Loaded])]
    pub(crate) habits: Vec<ProgramHabit>,
    /// How fast the program asks.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PACE")]
    #[arg(default_values_t = [Pace::AtOnce, Pace::Pause, Pace::Gap100, Pace::Gap500])]
    pub(crate) paces: Vec<Pace>,
    /// Runs of each user with the layer, beside as many without it.
    #[arg(long, value_name = "N", default_value_t = 12)]
    pub(crate) runs: usize,
    /// Threads of the program that create pipelines.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) threads: usize,
    /// Threads of another program that compute all the time.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) beside: usize,
}

#[derive(Args)]
pub(crate) struct Programs {
    /// The driver: radv (on Mesa's fake render node; default), lavapipe, or gpu, whose manifest VKSTASH_TEST_DRIVER
    /// names.
    #[arg(long, value_enum)]
    pub(crate) driver: Option<Driver>,
    /// Only programs whose title contains one of these.
    #[arg(long, value_name = "TITLE")]
    pub(crate) only: Vec<String>,
    /// Runs of each user with the layer, beside as many without it.
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) runs: usize,
}

#[derive(Args)]
pub(crate) struct Update {
    /// The manifest of an older version of RADV (scripts/driver-update.sh unpacks one).
    #[arg(long, value_name = "FILE")]
    pub(crate) older: PathBuf,
    /// The caches that the program passes.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "HABIT")]
    #[arg(default_values_t = [ProgramHabit::None])]
    pub(crate) habits: Vec<ProgramHabit>,
    /// Real programs (scripts/programs.sh), once each, in place of the client.
    #[arg(long)]
    pub(crate) programs: bool,
    /// In place of that the first run of programs that ask as fast as this, where the layer has the tool compile again
    /// while they run, and where it does not.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PACE", conflicts_with = "programs")]
    pub(crate) paces: Vec<Pace>,
    /// With --paces: threads of another program that compute all the time.
    #[arg(long, value_name = "N", default_value_t = 0, requires = "paces")]
    pub(crate) busy: usize,
    /// Only programs whose title contains one of these.
    #[arg(long, value_name = "TITLE", requires = "programs")]
    pub(crate) only: Vec<String>,
}

/// What a program passes as pipelineCache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProgramHabit {
    /// VK_NULL_HANDLE: DXVK, vkd3d-proton, llama.cpp.
    None,
    /// A new one for each pipeline, whose data it reads.
    Fresh,
    /// One for all, empty at the start.
    Shared,
    /// One for all, loaded from a file and written back.
    Loaded,
}

impl ProgramHabit {
    pub(crate) fn words(self) -> &'static str {
        match self {
            ProgramHabit::None => "the program passes no cache",
            ProgramHabit::Fresh => "the program passes a new cache for each pipeline",
            ProgramHabit::Shared => "the program passes one cache",
            ProgramHabit::Loaded => "the program passes a cache that it has loaded from a file",
        }
    }

    /// For the client.
    pub(crate) fn argument(self, file: &Path) -> String {
        match self {
            ProgramHabit::None => "none".to_owned(),
            ProgramHabit::Fresh => "fresh-read".to_owned(),
            ProgramHabit::Shared => "shared".to_owned(),
            ProgramHabit::Loaded => format!("file:{}", file.display()),
        }
    }
}

/// How fast a program asks for its pipelines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Pace {
    /// As fast as it can.
    AtOnce,
    /// After 400 ms, as fast as it can.
    Pause,
    /// After 1.5 s, as fast as it can.
    Delayed,
    /// Every 100 us.
    Gap100,
    /// Every 500 us.
    Gap500,
    /// Every 5 ms.
    Gap5000,
    /// After 4 s, every 5 ms.
    Loading,
}

impl Pace {
    pub(crate) fn words(self) -> &'static str {
        match self {
            Pace::AtOnce => "as fast as it can",
            Pace::Pause => "after 400 ms",
            Pace::Delayed => "after 1.5 s",
            Pace::Gap100 => "every 100 us",
            Pace::Gap500 => "every 500 us",
            Pace::Gap5000 => "every 5 ms",
            Pace::Loading => "every 5 ms, after 4 s",
        }
    }

    /// For the client.
    pub(crate) fn arguments(self) -> Vec<String> {
        let words: &[&str] = match self {
            Pace::AtOnce => &[],
            Pace::Pause => &["--pause-ms", "400"],
            Pace::Delayed => &["--pause-ms", "1500"],
            Pace::Gap100 => &["--gap-us", "100"],
            Pace::Gap500 => &["--gap-us", "500"],
            Pace::Gap5000 => &["--gap-us", "5000"],
            Pace::Loading => &["--pause-ms", "4000", "--gap-us", "5000"],
        };
        words.iter().map(|&word| word.to_owned()).collect()
    }
}

#[derive(Args)]
pub(crate) struct Lookups {
    /// Segments of the bases and of the siblings.
    #[arg(long, value_delimiter = ',', value_name = "N", default_values_t = [1, 100, 1500])]
    pub(crate) segments: Vec<u32>,
    /// Applications in the base that is opened.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) applications: u32,
}

#[derive(Args)]
pub(crate) struct Recipes {
    /// Folders of stashes: those that VKSTASH_DIR named, or folders above them.
    #[arg(long, required = true, num_args = 1.., value_name = "DIR")]
    pub(crate) stash: Vec<PathBuf>,
    /// Stashes that are measured separately, and not used for training.
    #[arg(long, num_args = 1.., value_name = "DIR")]
    pub(crate) held_out: Vec<PathBuf>,
    /// Train a dictionary, write it to this file, and measure it beside the one of the library.
    #[arg(long, value_name = "FILE")]
    pub(crate) train: Option<PathBuf>,
    /// The longest dictionary to train.
    #[arg(long, value_name = "BYTES", default_value_t = 8 << 10)]
    pub(crate) size: usize,
    /// Measure this dictionary beside the one of the library.
    #[arg(long, value_name = "FILE", conflicts_with = "train")]
    pub(crate) dictionary: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct Predict {
    /// Folders that VKSTASH_DIR named.
    #[arg(required = true, value_name = "STASH")]
    pub(crate) stashes: Vec<PathBuf>,
    /// Pipelines that are made before each request; less than one: one before every so many requests.
    #[arg(long, value_delimiter = ',', value_name = "N", default_values_t = [0.5, 1.0, 2.0, 4.0])]
    pub(crate) makes: Vec<f64>,
}

#[derive(Args)]
pub(crate) struct Capture {
    /// Only these cases, by the first part of the ids of their figures.
    #[arg(long, value_delimiter = ',', value_name = "CASE")]
    pub(crate) only: Vec<String>,
}

#[derive(Args)]
pub(crate) struct Common {
    /// Folder of .spv modules.
    #[arg(long, alias = "corpus", global = true, value_name = "DIR", default_value = "corpus")]
    pub(crate) modules: PathBuf,
    /// Number of modules, fewer if the folder holds fewer; for states: number of pipelines.
    #[arg(long, global = true, value_name = "N", default_value_t = 200)]
    pub(crate) count: usize,
    /// Each module so many times, each time with another string in it.
    #[arg(long, global = true, value_name = "N", default_value_t = 1)]
    pub(crate) copies: u32,
    /// Leave out larger modules.
    #[arg(long, global = true, value_name = "BYTES", default_value_t = 9216)]
    pub(crate) max_bytes: u64,
    /// Number of rounds of each comparison.
    #[arg(long, global = true, value_name = "N")]
    pub(crate) rounds: Option<usize>,
    /// The layer's library; default: libVkLayer_vkstash.so beside this program.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) library: Option<PathBuf>,
    /// Print JSON instead of tables.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Also write the tables to this file, as one for docs/evidence/data. Its figure is left to a person.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) data: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct Figures {
    /// Number of interleaved pairs of the program without pipelines.
    #[arg(long, value_name = "N", default_value_t = 60)]
    pub(crate) pairs: usize,
    /// Only these parts.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) only: Vec<Part>,
}

/// The parts of `figures`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Fraction served in the second run; served calls beside a hit, the disk cache and a compile.
    Served,
    /// Graphics pipelines, libraries and links: served ones, and the layer's cost for others.
    Linked,
    /// The layer's cost in a first run.
    First,
    /// The layer's cost if the program's own cache is warm and the stash empty.
    #[value(name = "app-cache")]
    ProgramCache,
    /// Whole processes: lavapipe, and programs without pipelines.
    Process,
}

#[derive(Args, Clone, Copy)]
pub(crate) struct OnDriver {
    /// The driver; default: the machine's own GPU (for demo RADV's null device if there is none).
    #[arg(long, value_enum)]
    pub(crate) driver: Option<Driver>,
}

#[derive(Args, Clone, Copy)]
pub(crate) struct Stress {
    #[command(flatten)]
    pub(crate) on: OnDriver,
    /// Seconds for which processes are started.
    #[arg(long, value_name = "N", default_value_t = 60)]
    pub(crate) seconds: u64,
    /// What this process does, as its parent says.
    #[arg(long, hide = true)]
    pub(crate) step: bool,
}

#[derive(Args)]
pub(crate) struct Engines {
    #[command(flatten)]
    pub(crate) on: OnDriver,
    /// Number of pipelines that each engine asks for.
    #[arg(long, value_name = "N", default_value_t = 6)]
    pub(crate) pipelines: u32,
    /// Only pipelines of this kind.
    #[arg(long, value_enum)]
    pub(crate) kind: Option<Kind>,
    /// Only these engines, by their names in vkstash-engine.
    #[arg(long, value_delimiter = ',', value_name = "ENGINE")]
    pub(crate) only: Vec<String>,
    /// Each call is made so many times more, and the last one is timed: what a call costs whose code the processor
    /// has at hand.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) again: u32,
}

/// Options of `growth`.
#[derive(Args)]
pub(crate) struct Growth {
    #[command(flatten)]
    pub(crate) on: OnDriver,
    /// Numbers of objects.
    #[arg(long, value_delimiter = ',', value_name = "N", default_values_t = [1000, 10000])]
    pub(crate) numbers: Vec<u32>,
    /// What this process does, as its parent says.
    #[arg(long, hide = true)]
    pub(crate) step: Option<u32>,
}

#[derive(Args)]
pub(crate) struct States {
    #[command(flatten)]
    pub(crate) on: OnDriver,
    /// With background work and the order of the table of drivers, as users have it. Without them the figures show what
    /// the calls themselves cost.
    #[arg(long)]
    pub(crate) background: bool,
    /// Milliseconds for which each run with the layer does nothing at its end, so that workers can record what the
    /// driver had. They are not counted.
    #[arg(long, value_name = "N", default_value_t = 0, requires = "background")]
    pub(crate) idle_ms: u64,
    /// Runs with the layer, one after the other; the first three and the last are shown.
    #[arg(long, default_value_t = 3)]
    pub(crate) runs: usize,
    /// Only over the driver's warm disk cache.
    #[arg(long, conflicts_with = "cold")]
    pub(crate) warm: bool,
    /// Only the first run, over an empty disk cache of the driver.
    #[arg(long)]
    pub(crate) cold: bool,
    /// The programs forbid compiling in all calls but the first.
    #[arg(long)]
    pub(crate) fail_on: bool,
    /// The programs forbid compiling in all calls, and make a refused one once more without that.
    #[arg(long, conflicts_with = "fail_on")]
    pub(crate) retry: bool,
    /// Threads that create pipelines.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) threads: usize,
    /// Only these states, by their names in vkstash-states.
    #[arg(long, value_delimiter = ',', value_name = "STATE")]
    pub(crate) state: Vec<String>,
    /// Only these cache habits, by their names in vkstash-states.
    #[arg(long, value_delimiter = ',', value_name = "HABIT")]
    pub(crate) cache: Vec<String>,
}

impl States {
    pub(crate) fn shows(&self, habit: &str) -> bool {
        self.cache.is_empty() || self.cache.iter().any(|wanted| wanted == habit)
    }
}

#[derive(Args)]
pub(crate) struct Siblings {
    /// The driver.
    #[arg(long, value_enum, default_value = "gpu")]
    pub(crate) driver: Driver,
    /// Only pipelines of these classes.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) class: Vec<Class>,
    /// Only these comparisons.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) toggled: Vec<Toggled>,
    /// What this process does, as its parent says.
    #[arg(long, hide = true)]
    pub(crate) step: Option<String>,
}

/// The driver of a child process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Driver {
    /// RADV on its null device: the real compiler, no GPU.
    Radv,
    /// Mesa's CPU driver.
    Lavapipe,
    /// The driver that the loader finds on this machine.
    Gpu,
    /// The test driver of this repository, which compiles nothing.
    Test,
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// The arguments of each call of this program in the command of a data file.
    fn calls(command: &str) -> Vec<Vec<&str>> {
        command
            .split("vkstash-bench ")
            .skip(1)
            .map(|rest| {
                let words = rest.split([';', ',', '(']).next().unwrap_or_default().split_whitespace();
                words.take_while(|word| !["on", "with", "and", "in"].contains(word)).collect()
            })
            .collect()
    }

    #[test]
    fn calls_end_where_words_begin() {
        let command =
            "chrt -f 10 vkstash-bench --rounds 2 usual --runs 6; --runs 7; vkstash-bench busy, twice";
        assert_eq!(calls(command), [vec!["--rounds", "2", "usual", "--runs", "6"], vec!["busy"]]);
    }

    /// A figure whose command is gone cannot be measured again: it goes with the command.
    #[test]
    fn commands_of_data_files_are_taken() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/evidence/data");
        let (mut count, mut wrong) = (0, Vec::new());
        for entry in fs::read_dir(folder).expect("the folder is in the repository") {
            let path = entry.expect("the folder can be read").path();
            let text = fs::read_to_string(&path).expect("a file of text");
            let command = text.lines().find_map(|line| line.strip_prefix("# command: "));
            for call in calls(command.unwrap_or_default()) {
                count += 1;
                if let Err(error) = Options::try_parse_from(["vkstash-bench"].iter().chain(&call)) {
                    wrong.push(format!("{}: {call:?}: {}", path.display(), error.kind()));
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert!(count > 30, "only {count} commands");
    }
}
