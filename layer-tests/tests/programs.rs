//! Real programs with the layer: the first law, and the benefit of the stash.
//!
//! On lavapipe they draw and compute, and their output must be equal byte for byte if it is equal in all runs without
//! the layer. On RADV the compiler is real, and a second run must compile nothing.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::time::Duration;

use vkstash_layer_tests::child::{Scenario, scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::programs::{self, Missing, Program, Ran};

/// Number of pairs of runs, of which the median counts.
const PAIRS: usize = 2;
/// How many more runs without the layer have to be equal before another output with it counts as the layer's mistake.
const RUNS_BEFORE_BLAME: usize = 10;

/// All runs of a program on a driver.
struct Result {
    off: Vec<Ran>,
    cold: Ran,
    warm: Vec<Ran>,
}

fn median(runs: &[Ran]) -> f64 {
    let mut times: Vec<Duration> = runs.iter().map(|run| run.wall).collect();
    times.sort();
    // The lower of two: other work on the machine only adds time.
    times[(times.len() - 1) / 2].as_secs_f64()
}

/// The status of a program that a signal has ended is that number and the signal's.
const CRASHED: i32 = 128;

/// Runs without the layer, cold, then in turn without the layer and warm.
fn measure(scenario: &Scenario, program: Program, driver: &Driver, pairs: usize) -> Option<Result> {
    let _alone = programs::alone();
    let name = format!("{} on {}", program.title(), driver.name());
    match program.find(driver) {
        Ok(()) => {}
        Err(Missing::Known(reason)) => {
            scenario.not_here(&format!("{}: {reason}", program.title()));
            return None;
        }
        Err(Missing::Unknown(reason)) => {
            scenario.skip(&reason);
            return None;
        }
    }
    scenario.on(driver.clone())?;
    let stash = scenario.folder().join(format!("{name} stash"));
    let run = |kind: &str, number: usize| {
        let place = scenario.folder().join(format!("{name} {kind} {number}").replace([' ', ','], "-"));
        // Home and caches are new for each run; only the stash stays.
        let env = Env::new(driver.clone(), &place).stash(&stash);
        let env = if kind.starts_with("off") { env.without_layer() } else { env };
        program.run(&env, &place)
    };
    // What crashes now and then without the layer is run once more: that run compares with nothing.
    let without = |number: usize| {
        let ran = run("off", number);
        if ran.status < CRASHED { ran } else { run("off again", number) }
    };
    let again = |ran: &Ran| ran.status >= CRASHED && program.crashes_without_the_layer();
    let mut off = vec![without(0)];
    let mut cold = run("cold", 0);
    if again(&cold) {
        fs::remove_dir_all(&stash).unwrap();
        cold = run("cold again", 0);
    }
    let mut warm = Vec::new();
    for pair in 1..=pairs {
        off.push(without(pair));
        let ran = run("warm", pair);
        warm.push(if again(&ran) { run("warm again", pair) } else { ran });
    }
    let mut result = Result { off, cold, warm };
    // A few equal runs may be chance. Before the layer is blamed, more of them have to be equal.
    for number in pairs + 1..=pairs + RUNS_BEFORE_BLAME {
        if *driver != Driver::Lavapipe || !result.repeats() || result.same_output() {
            break;
        }
        result.off.push(without(number));
    }
    Some(result)
}

impl Result {
    fn ratio(&self) -> f64 {
        median(&self.warm) / median(&self.off)
    }

    /// Whether the program's output is the same in all runs without the layer.
    fn repeats(&self) -> bool {
        self.off.iter().all(|run| run.output == self.off[0].output)
    }

    fn same_output(&self) -> bool {
        self.with_layer().all(|run| run.output == self.off[0].output)
    }

    fn with_layer(&self) -> impl Iterator<Item = &Ran> {
        std::iter::once(&self.cold).chain(&self.warm)
    }

    /// Conditions for every driver.
    fn check(&self, name: &str) {
        let first = &self.off[0];
        for run in &self.off {
            assert_eq!(run.status, first.status, "{name} without the layer: {}", run.stderr);
            assert!(!run.had_layer(), "{name}: the layer was there without being asked for");
        }
        for run in self.with_layer() {
            assert_eq!(run.status, first.status, "{name}: {}", run.stderr);
            assert!(run.had_layer(), "{name}: the layer was not there: {}", run.stderr);
            assert_eq!(run.reports.sum("internal_failures"), 0, "{name}: {}", run.stderr);
            assert!(!run.stderr.contains("panicked at"), "{name}: {}", run.stderr);
        }
    }

    fn say(&self, name: &str) {
        println!("{name}: cold {}", counted(&self.cold));
        println!("{name}: warm {}", counted(&self.warm[0]));
        println!("{name}: warm run / run without the layer: {:.2}", self.ratio());
    }
}

/// The outcomes of the pipelines of a run, without zeros.
fn counted(run: &Ran) -> String {
    let counters = run.reports.counters();
    let mut text = String::new();
    for name in OUTCOMES {
        if counters.get(name).is_some_and(|count| *count != 0) {
            write!(text, "{name} {} ", counters[name]).unwrap();
        }
    }
    for bypass in run.reports.bypassed() {
        write!(text, "[{bypass:?}] ").unwrap();
    }
    text
}

const OUTCOMES: [&str; 9] = [
    "served",
    "offered",
    "not_taken",
    "driver_had",
    "compiled",
    "compiled_unrecorded",
    "compile_required",
    "bypassed",
    "failed",
];

fn outcomes(run: &Ran) -> BTreeMap<&'static str, u64> {
    OUTCOMES.into_iter().map(|name| (name, run.reports.sum(name))).collect()
}

fn on_lavapipe(program: Program) {
    scenario(&[], |scenario| {
        let Some(result) = measure(scenario, program, &Driver::Lavapipe, PAIRS) else { return };
        let name = format!("{} on lavapipe", program.title());
        result.say(&name);
        result.check(&name);
        if result.repeats() {
            for run in result.with_layer() {
                let (with, without) = (&run.output, &result.off[0].output);
                let text = [with, without].map(|bytes| String::from_utf8_lossy(bytes));
                assert!(with == without, "{name}: other output: {text:?}");
            }
        } else {
            println!("{name}: its output differs from run to run without the layer already");
        }
    });
}

fn on_radv(program: Program) {
    scenario(&[], |scenario| {
        let Some(result) = measure(scenario, program, &Driver::Radv, 1) else { return };
        let name = format!("{} on RADV", program.title());
        result.say(&name);
        result.check(&name);
        let (cold, warm) = (outcomes(&result.cold), outcomes(&result.warm[0]));
        let stderr = &result.warm[0].stderr;
        // Pipelines that the driver found in the program's own cache in the first run are found there again.
        let driver_had = cold["driver_had"];
        // Without a compile in the cold run the rest of the test would prove nothing.
        assert!(cold["compiled"] > 0, "{name}: {cold:?} {}", result.cold.stderr);
        assert_eq!(warm["bypassed"], 0, "{name}: {:?}", result.warm[0].reports.bypassed());
        for (outcome, count) in &warm {
            let most = match *outcome {
                "served" => u64::MAX,
                "driver_had" => driver_had,
                _ => 0,
            };
            assert!(*count <= most, "{name}: {outcome}: {cold:?} {warm:?} {stderr}");
        }
        assert!(warm["served"] > 0, "{name}: {warm:?} {stderr}");
        if program.ends_by_itself() {
            let all: u64 = cold.values().sum();
            let had = warm["served"] + warm["driver_had"];
            assert_eq!(had, all, "{name}: {cold:?} {warm:?} {stderr}");
        }
    });
}

/// Writes docs/evidence/programs.md: `scripts/programs.sh --table`.
#[test]
#[ignore = "measures, and takes minutes"]
fn table() {
    scenario(&[], |scenario| {
        let mut text = TABLE.to_owned();
        let date = std::env::var("VKSTASH_PROGRAMS_DATE").unwrap_or_default();
        for program in programs::ALL {
            // A folder of its own for each program.
            let on = |driver| match program.runs_on(&driver) {
                true => measure(scenario, program, &driver, 3).map(Some),
                false => Some(None),
            };
            let (Some(radv), Some(lavapipe)) = (on(Driver::Radv), on(Driver::Lavapipe)) else {
                writeln!(text, "| {} | {} | not here | | | | | {date} |", program.title(), program.version())
                    .unwrap();
                continue;
            };
            let output = match lavapipe.as_ref().map(|runs| (runs.repeats(), runs.same_output())) {
                None => "not run",
                _ if !program.is_compared() => "not compared: it moves",
                Some((false, _)) => "not compared: it differs without the layer already",
                Some((true, true)) => "the same",
                Some((true, false)) => "OTHER",
            };
            let count = |count: Option<u64>| count.map_or("not run".to_owned(), |count| count.to_string());
            let pipelines = count(radv.as_ref().map(|runs| outcomes(&runs.cold).values().sum::<u64>()));
            let served = count(radv.as_ref().map(|runs| outcomes(&runs.warm[0])["served"]));
            let (title, version) = (program.title(), program.version());
            let [ratio, ratio_radv] = [lavapipe, radv]
                .map(|runs| runs.map_or("-".to_owned(), |runs| format!("{:.2}", runs.ratio())));
            let row = format!("{pipelines} | {served} | {output} | {ratio} | {ratio_radv} | {date} |");
            writeln!(text, "| {title} | {version} | {row}").unwrap();
        }
        match std::env::var_os("VKSTASH_PROGRAMS_TABLE") {
            Some(path) => std::fs::write(path, text).unwrap(),
            None => println!("{text}"),
        }
    });
}

const TABLE: &str = "\
# Real programs

Written by `scripts/programs.sh --table`; the suite `layer-tests/tests/programs.rs` checks the same with every change.
Each program runs without the layer, then cold with it, then three times in turn without it and warm.

- *pipelines*: pipelines of the cold run on RADV (family navi21, on Mesa's fake render node)
- *served*: how many of them the stash served in the second run on RADV. The driver found the others in the program's
  own cache, as in the first run; any other outcome fails the suite
- *output*: what the program computed, drew or showed on lavapipe, with the layer (cold and warm) and without it,
  compared byte for byte
- *ratio*: time of a whole warm run divided by that of a run without the layer, medians, with start-up and waiting. On
  lavapipe nothing can be gained (its cache data is empty, and the layer passes calls through), so 1.00 is the aim. On
  RADV nothing is drawn; what remains is the program's start and its pipelines.

*not run* and *-* mean that the program is left out on that driver, without the layer too: llama.cpp compiles for
minutes on lavapipe; zink on RADV compiles on threads of its own, and how much it has compiled when a signal ends
glxgears is a matter of chance. *not here* is a program that the machine of this table lacks: GTK 4 draws with Vulkan
as with its other renderers from 4.14 on, which Debian 12 does not have.

| program | version | pipelines | served | output on lavapipe | ratio lavapipe | ratio RADV | measured |
|---|---|---|---|---|---|---|---|
";

macro_rules! programs {
    ($($module:ident: $program:ident),* $(,)?) => {$(
        mod $module {
            use super::*;

            #[test]
            fn does_the_same_on_lavapipe() {
                on_lavapipe(Program::$program);
            }

            #[test]
            fn is_served_on_radv() {
                on_radv(Program::$program);
            }
        }
    )*};
}

programs! {
    wgpu: Wgpu,
    wgpu_with_its_cache: WgpuCache,
    dawn: Dawn,
    ncnn: Ncnn,
    taichi: Taichi,
    slangpy: Slangpy,
    pygfx: Pygfx,
    mpv: Mpv,
    vkcube: Vkcube,
    vkd3d_triangle: Vkd3dTriangle,
    vkd3d_gears: Vkd3dGears,
    gtk: Gtk,
    qt_quick: Qt,
}

/// zink, but not on RADV, where its pipelines depend on its own threads.
mod zink {
    use super::*;

    #[test]
    fn does_the_same_on_lavapipe() {
        on_lavapipe(Program::Zink);
    }
}

/// llama.cpp, but not on lavapipe, where it takes too long.
mod llama {
    use super::*;

    #[test]
    fn is_served_on_radv() {
        on_radv(Program::Llama);
    }
}
