//! Archives of Fossilize: what is exported and imported again has the keys under which programs ask.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use vkstash_layer_tests::child::scenario;
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::{paths, skip};
use vkstash_model::app_name::AppName;
use vkstash_model::record::{Key, Kind};
use vkstash_store::stash::inspect::list_applications;
use vkstash_store::stash::open::Stash;

use super::rebuilt::{STEPS, everything};

/// Fossilize's own programs, which scripts/fossilize.sh builds.
const TOOLS: &str = "VKSTASH_FOSSILIZE";
const NO_TOOLS: &str = "VKSTASH_FOSSILIZE names no folder with Fossilize's programs (scripts/fossilize.sh)";

fn tool(env: &Env, arguments: &[&str]) -> Output {
    let mut command = Command::new(paths::profile_folder().join("vkstash"));
    env.apply(&mut command);
    command.env("VKSTASH_LIBRARY", paths::layer_library()).args(arguments);
    command.output().unwrap()
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The keys of the portable records that archives of Fossilize have, by kind.
fn keys(stash: &Path) -> BTreeMap<&'static str, BTreeSet<Key>> {
    let [application] = list_applications(stash).unwrap().try_into().unwrap();
    let name = AppName { display: application.display, folder: application.folder };
    let stash = Stash::open_patiently(stash, &name).unwrap();
    let mut keys: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for kind in [Kind::Module, Kind::Layout, Kind::RenderPass, Kind::Recipe] {
        stash.portable().for_each(kind, &mut |key, _| {
            keys.entry(kind.name()).or_default().insert(*key);
        });
    }
    keys
}

/// What Fossilize has no form for, and what is not recorded: libraries of libraries that retain what a link optimizes.
fn is_expected(line: &str) -> bool {
    ["Fossilize does not know ", "Fossilize has no form for ", "there is no library of this digest"]
        .iter()
        .any(|reason| line.contains(reason))
}

#[test]
fn what_is_exported_and_imported_again_has_the_same_keys_and_is_served() {
    scenario(STEPS, |scenario| {
        let Some(env) = scenario.on(Driver::Radv) else { return };
        for (name, input) in everything() {
            scenario.run_ok::<Value>(name, &env, &input);
        }
        let archive = scenario.folder().join("archive.foz");
        let path = archive.to_str().unwrap();
        let exported = said(&tool(&env, &["export", path]));
        let left_out: Vec<_> = exported.lines().filter(|line| line.contains("left out")).collect();
        assert!(left_out.iter().all(|line| is_expected(line)), "{exported}");

        let imported = env.clone().stash(scenario.folder().join("imported"));
        let unowned = tool(&imported, &["import", path]);
        let error = String::from_utf8_lossy(&unowned.stderr);
        assert!(!unowned.status.success() && error.contains("--program"), "{error}");
        let program = std::env::current_exe().unwrap();
        let taken = said(&tool(&imported, &["import", path, "--program", program.to_str().unwrap()]));
        assert!(!taken.contains("left out"), "{taken}");
        let (ours, theirs) = (keys(&env.stash_folder()), keys(&imported.stash_folder()));
        let lacking = ours["recipe"].difference(&theirs["recipe"]).count();
        let refused = left_out.iter().map(|line| line.split_whitespace().next().unwrap());
        let refused: usize = refused.map(|count| count.parse::<usize>().unwrap()).sum();
        assert_eq!(lacking, refused, "{exported}");
        assert!(theirs["recipe"].len() > 50, "{exported}");
        for (kind, keys) in &theirs {
            assert!(keys.is_subset(&ours[kind]), "a key that is new, of a {kind}");
        }
        // Twice takes nothing.
        let again = said(&tool(&imported, &["import", path]));
        assert!(again.contains("nothing new"), "{again}");

        let folders =
            |env: &Env| list_applications(&env.stash_folder()).unwrap().into_iter().map(|found| found.folder);
        assert!(folders(&env).eq(folders(&imported)), "the application's folder");
        let prewarmed = tool(&imported, &["prewarm", "--all", "--every-device", "--json"]);
        let report: Value = serde_json::from_slice(&prewarmed.stdout).unwrap();
        assert!(report["made"].as_u64().unwrap() > 50, "{report:#}");
        for (name, input) in everything().into_iter().filter(|(name, _)| *name == "work") {
            let warm = scenario.run_ok::<Value>(name, &imported, &input).reports;
            assert!(warm.sum("served") > 0, "{input}: {:?}", warm.counters());
            assert_eq!(warm.sum("compiled"), 0, "{input}: {:?}", warm.counters());
        }
    });
}

/// Fossilize's list has every pipeline, and its replayer makes all of them.
#[test]
fn fossilize_lists_and_replays_what_was_exported() {
    scenario(STEPS, |scenario| {
        let Some(tools) = std::env::var_os(TOOLS).map(PathBuf::from) else {
            return skip::not_here(&skip::this_test(), NO_TOOLS);
        };
        let Some(env) = scenario.on(Driver::Radv) else { return };
        // The replayer leaves out what this driver does not offer, which some of the others need.
        for (name, input) in everything().into_iter().filter(|(name, _)| *name == "work") {
            scenario.run_ok::<Value>(name, &env, &input);
        }
        let archive = scenario.folder().join("archive.foz");
        let exported = said(&tool(&env, &["export", archive.to_str().unwrap()]));
        let count: usize = exported.split_whitespace().next().unwrap().parse().unwrap();
        let without = env.clone().without_layer();
        let run = |program: &str, arguments: &[&str]| {
            let mut command = Command::new(tools.join(program));
            without.apply(&mut command);
            let output = command.args(arguments).arg(&archive).output().unwrap();
            assert!(output.status.success(), "{program}: {output:?}");
            let text = [output.stdout, output.stderr].concat();
            String::from_utf8_lossy(&text).into_owned()
        };
        let listed = |tag: &str| run("fossilize-list", &["--tag", tag]).lines().count();
        // Graphics and compute pipelines (enum ResourceTag).
        assert_eq!(listed("6") + listed("7"), count, "{exported}");
        let replayed = run("fossilize-replay", &["--num-threads", "1"]);
        assert!(!replayed.contains("ERROR") && !replayed.contains("WARN"), "{replayed}");
        let played = |what: &str| {
            let line = replayed.lines().find(|line| line.contains("Playing back") && line.contains(what));
            let words: Vec<_> = line.unwrap().split_whitespace().collect();
            words[words.iter().position(|word| *word == "back").unwrap() + 1].parse::<usize>().unwrap()
        };
        assert_eq!(played("graphics pipelines") + played("compute pipelines"), count, "{replayed}");
    });
}

/// What Fossilize's layer has recorded of programs that ran without vkstash is served after it was imported and made.
#[test]
fn what_fossilize_has_recorded_is_served() {
    scenario(STEPS, |scenario| {
        let Some(tools) = std::env::var_os(TOOLS).map(PathBuf::from) else {
            return skip::not_here(&skip::this_test(), NO_TOOLS);
        };
        let Some(env) = scenario.on(Driver::Radv) else { return };
        let recorded = scenario.folder().join("recorded");
        std::fs::create_dir(&recorded).unwrap();
        let works = || everything().into_iter().filter(|(name, _)| *name == "work");
        for (number, (name, input)) in works().enumerate() {
            let recorder = env.clone().without_layer().var("VK_LAYER_PATH", &tools);
            let recorder = recorder.var("VK_INSTANCE_LAYERS", "VK_LAYER_fossilize").var("FOSSILIZE", "1");
            let dump = recorded.join(number.to_string());
            scenario.run_ok::<Value>(name, &recorder.var("FOSSILIZE_DUMP_PATH", dump), &input);
        }
        let mut archives = 0;
        let program = std::env::current_exe().unwrap();
        for entry in std::fs::read_dir(&recorded).unwrap() {
            let path = entry.unwrap().path();
            let words = ["import", path.to_str().unwrap(), "--program", program.to_str().unwrap()];
            let taken = said(&tool(&env, &words));
            assert!(!taken.contains("left out") && !taken.contains("damaged"), "{taken}");
            archives += 1;
        }
        assert!(archives >= works().count(), "{archives}");
        // The same objects in one archive each: Fossilize's own program merges its own, and ours are exported.
        let (merged, own) = (scenario.folder().join("merged.foz"), scenario.folder().join("own.foz"));
        let mut merge = Command::new(tools.join("fossilize-merge-db"));
        merge.arg(&merged).args(std::fs::read_dir(&recorded).unwrap().map(|entry| entry.unwrap().path()));
        let output = merge.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        said(&tool(&env, &["export", own.to_str().unwrap()]));
        let [theirs, ours] = [&merged, &own].map(|path| std::fs::metadata(path).unwrap().len());
        assert!(ours * 10 <= theirs * 13, "{ours} bytes, and {theirs} of Fossilize's");
        let prewarmed = tool(&env, &["prewarm", "--all", "--every-device", "--json"]);
        let report: Value = serde_json::from_slice(&prewarmed.stdout).unwrap();
        assert!(report["made"].as_u64().unwrap() > 10, "{report:#}");
        for (name, input) in works() {
            let warm = scenario.run_ok::<Value>(name, &env, &input).reports;
            assert!(warm.sum("served") > 0, "{input}: {:?}", warm.counters());
            assert_eq!(warm.sum("compiled"), 0, "{input}: {:?}", warm.counters());
        }
    });
}
