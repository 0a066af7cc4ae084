//! Helpers that all suites use.

use std::fs;
use std::path::{Path, PathBuf};

use crate::child::{Outcome, Run, Scenario, scenario};
use crate::env::{Driver, Env};
use crate::waiting::PATIENCE;
use crate::work::{self, Done, Work};
use vkstash_model::app_name::AppName;
use vkstash_model::record::{Key, Kind};
use vkstash_store::stash::inspect::list_applications;
use vkstash_store::stash::open::Stash;

/// A test on this driver whose only step is [`work::step`].
pub fn on(driver: Driver, test: impl FnOnce(&Scenario, &Env)) {
    scenario(&[("work", work::step)], |scenario| {
        if let Some(env) = scenario.on(driver) {
            test(scenario, &env);
        }
    });
}

/// Runs a program that must end normally.
pub fn run(scenario: &Scenario, env: &Env, work: &Work) -> Run<Done> {
    scenario.run_ok("work", env, work)
}

/// Runs a program that may end in any way.
pub fn run_to_any_end(scenario: &Scenario, env: &Env, work: &Work) -> Outcome {
    scenario.run("work", env, work)
}

/// Every pipeline of a run was served and confirmed, and the driver compiled nothing.
pub fn assert_all_served(run: &Run<Done>, count: u32) {
    let counters = run.reports.counters();
    assert_eq!(run.reports.sum("served"), u64::from(count), "{counters:?} {}", run.stderr);
    for other in ["compiled", "compiled_unrecorded", "not_taken", "driver_had", "bypassed", "failed"] {
        assert_eq!(run.reports.sum(other), 0, "{other}: {counters:?} {}", run.stderr);
    }
}

/// The files below `folder` whose names end with `suffix`, sorted.
pub fn files(folder: &Path, suffix: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).map(|entries| entries.flatten().collect::<Vec<_>>());
        for path in entries.unwrap_or_default().iter().map(fs::DirEntry::path) {
            if path.is_dir() {
                folders.push(path);
            } else if path.to_string_lossy().ends_with(suffix) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The segment files of a stash's device parts.
pub fn device_segments(stash: &Path) -> Vec<PathBuf> {
    let in_device_part = |path: &PathBuf| {
        let part = path.parent().and_then(Path::file_name).unwrap_or_default();
        part.to_string_lossy().starts_with("device-")
    };
    files(stash, ".vks").into_iter().filter(in_device_part).collect()
}

/// Reads the artifacts of the only device part of a stash, and writes what `change` makes of them.
pub fn rewrite_artifacts(env: &Env, change: impl FnOnce(&mut Vec<(Key, Vec<u8>)>)) {
    let [info] = list_applications(&env.stash_folder()).unwrap().try_into().unwrap();
    let header = info.parts.iter().find_map(|part| part.device.clone()).unwrap();
    let name = AppName { display: info.display, folder: info.folder };
    let stash = Stash::open_patiently(&env.stash_folder(), &name).unwrap();
    let part = stash.device(&header).unwrap();
    let mut found = Vec::new();
    part.for_each(Kind::Artifact, &mut |key, payload| found.push((*key, payload.to_vec())));
    let before = found.clone();
    change(&mut found);
    let changed = found.iter().zip(&before).filter(|(now, before)| now != before);
    for ((key, payload), _) in changed {
        assert!(part.put(Kind::Artifact, key, payload.clone().into_boxed_slice()));
    }
    assert!(stash.flush(PATIENCE));
    stash.leave();
}
