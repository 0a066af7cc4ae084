//! Tests of the sharing of stashes between programs: the layer's name for the program of a process (docs/format.md).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use vkstash_layer_tests::child::{Scenario, Step, scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::work::{self, Code, Done, Work};
use vkstash_model::app_name::AppName;

const STEPS: &[(&str, Step)] = &[("work", work::step)];

/// The applications of the stash, sorted.
fn applications(env: &Env) -> Vec<AppName> {
    let entries = fs::read_dir(env.stash_folder()).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| AppName::of_folder(entry.file_name().to_str()?));
    let mut names: Vec<_> = names.collect();
    names.sort_by(|one, other| one.folder.cmp(&other.folder));
    names
}

/// This system's dynamic linker, which is mapped here as in every program.
fn linker() -> PathBuf {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let paths = maps.lines().filter_map(|line| line.find('/').map(|at| Path::new(&line[at..])));
    let is_linker = |path: &&Path| path.file_name().unwrap().to_str().unwrap().starts_with("ld-");
    paths.into_iter().find(is_linker).expect("a dynamic linker").to_owned()
}

/// Runs this command, which is to do the work.
fn runs(scenario: &Scenario, env: &Env, command: &[&Path]) {
    let (program, arguments) = command.split_first().unwrap();
    let mut command = Command::new(program);
    command.args(arguments);
    env.apply(&mut command);
    let output = scenario.as_step(&mut command, "work", &Work::default()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_program_that_the_dynamic_linker_is_given_is_known_by_its_own_file() {
    scenario(STEPS, |scenario| {
        let Some(env) = scenario.on(Driver::Radv) else { return };
        let (linker, none) = (linker(), Path::new("/nowhere"));
        let copy = |name: &str| {
            let file = scenario.folder().join(name);
            fs::copy(std::env::current_exe().unwrap(), &file).unwrap();
            file
        };
        let (game, browser) = (copy("The Game.AppImage"), copy("firefox"));
        runs(scenario, &env, &[&game]);
        let alone = applications(&env);
        assert_eq!(alone.iter().map(|name| &name.display).collect::<Vec<_>>(), ["The_Game"]);
        runs(scenario, &env, &[&linker, &game]);
        runs(scenario, &env, &[&linker, Path::new("--library-path"), none, &game]);
        assert_eq!(applications(&env), alone);
        runs(scenario, &env, &[&linker, &browser]);
        assert_eq!(applications(&env), alone, "a browser is left alone, whoever starts it");
    });
}

#[test]
fn games_of_steam_are_told_apart_by_their_numbers() {
    scenario(STEPS, |scenario| {
        let Some(env) = scenario.on(Driver::Radv) else { return };
        let run = |number: &str| {
            let work = Work { code: Code::Module, ..Work::default() };
            scenario.run_ok::<Done>("work", &env.clone().var("SteamAppId", number), &work);
            applications(&env).len()
        };
        let counts = ["0", "", "no number", "620", "620", "400"].map(run);
        assert_eq!(counts, [1, 1, 1, 2, 2, 3], "0 and what is no number is as none");
        let all = applications(&env);
        assert!(all.iter().all(|name| AppName::are_kin(&name.folder, &all[0].folder)), "{all:?}");
    });
}
