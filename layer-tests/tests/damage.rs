//! Stashes that are damaged, foreign, locked or full: the program runs as without the layer, and a counter or a log
//! line says why.

use std::fs::{self, OpenOptions, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;

use serde_json::{Value, json};

use vkstash_layer_tests::child::{Run, Scenario, scenario};
use vkstash_layer_tests::env::{Driver, Env, Layer};
use vkstash_layer_tests::suite::{assert_all_served, device_segments, files, on, run};
use vkstash_layer_tests::work::{self, Done, Work};
use vkstash_layer_tests::{paths, skip};

/// Fills a stash, damages each of its device segments, and runs the same program again.
fn after_damage(damage: impl Fn(&Path), check: impl Fn(&Run<Done>)) {
    on(Driver::Radv, |scenario, env| {
        check(&damaged(scenario, env, damage));
        heals(scenario, env);
    });
}

/// The run after the damage.
fn damaged(scenario: &Scenario, env: &Env, damage: impl Fn(&Path)) -> Run<Done> {
    run(scenario, env, &Work::default());
    let segments = device_segments(&env.stash_folder());
    assert!(!segments.is_empty(), "the first run leaves a segment");
    segments.iter().for_each(|path| damage(path));
    let again = run(scenario, env, &Work::default());
    assert!(again.value.all_made(), "{again:?}");
    again
}

/// What was lost was recorded again, so the next run is served.
fn heals(scenario: &Scenario, env: &Env) {
    let next = run(scenario, env, &Work::default());
    assert_all_served(&next, 3);
}

fn flip(path: &Path, at: u64) {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
}

fn refused(run: &Run<Done>, reason: &str) {
    assert_eq!(run.reports.refused().get(reason), Some(&1), "{:?} {}", run.reports, run.stderr);
    assert_eq!(run.reports.sum("served"), 0);
    assert_eq!(run.reports.sum("compiled"), 3);
}

#[test]
fn a_truncated_segment_serves_its_complete_records() {
    on(Driver::Radv, |scenario, env| {
        // The driver decides the size and order of the artifacts in the file.
        let mut partly = 0;
        for tenths in 1..10 {
            let env = env.clone().stash(scenario.folder().join(format!("{tenths} tenths")));
            let again = damaged(scenario, &env, |path| {
                let length = path.metadata().unwrap().len() * tenths / 10;
                OpenOptions::new().write(true).open(path).unwrap().set_len(length).unwrap();
            });
            let (served, compiled) = (again.reports.sum("served"), again.reports.sum("compiled"));
            assert_eq!(served + compiled, 3, "{tenths} tenths: {:?}", again.reports);
            partly += u32::from(served > 0 && compiled > 0);
            heals(scenario, &env);
        }
        assert!(partly > 0, "no end took some of them alone");
    });
}

#[test]
fn a_segment_that_is_shorter_than_its_header_is_refused() {
    let cut = |path: &Path| OpenOptions::new().write(true).open(path).unwrap().set_len(100).unwrap();
    after_damage(cut, |again| refused(again, "truncated"));
}

#[test]
fn an_empty_segment_is_refused() {
    after_damage(|path| fs::write(path, b"").unwrap(), |again| refused(again, "truncated"));
}

#[test]
fn a_segment_of_random_bytes_is_refused() {
    let noise: Vec<u8> = (0u32..20_000).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    after_damage(|path| fs::write(path, &noise).unwrap(), |again| refused(again, "not_a_segment"));
}

#[test]
fn a_flipped_bit_costs_one_pipeline() {
    // The first record's payload begins after the headers of the file and of the record.
    after_damage(
        |path| flip(path, 128 + 64 + 100),
        |again| {
            assert_eq!(again.reports.sum("served"), 2, "{:?} {}", again.reports, again.stderr);
            assert_eq!(again.reports.sum("compiled"), 1);
            assert_eq!(again.reports.store().damaged_records, 1);
        },
    );
}

#[test]
fn a_damaged_header_costs_nothing() {
    after_damage(|path| flip(path, 40), |again| assert_all_served(again, 3));
}

#[test]
fn no_single_flipped_bit_crashes_a_program() {
    on(Driver::Radv, |scenario, env| {
        run(scenario, env, &Work::default());
        let path = device_segments(&env.stash_folder()).remove(0);
        let sound = fs::read(&path).unwrap();
        let everything = files(&env.stash_folder(), "");
        for step in 0..24 {
            fs::write(&path, &sound).unwrap();
            flip(&path, sound.len() as u64 * step / 24);
            let again = run(scenario, env, &Work::default());
            assert!(again.value.all_made(), "{again:?}");
            // Remove all files that could be used in place of the damaged one.
            for file in files(&env.stash_folder(), "") {
                if !everything.contains(&file) {
                    fs::remove_file(file).unwrap();
                }
            }
        }
    });
}

#[test]
fn a_segment_of_another_device_is_refused() {
    on(Driver::Radv, |scenario, env| {
        run(scenario, env, &Work::default());
        let mine = device_segments(&env.stash_folder()).remove(0);
        let other = env.clone().stash(scenario.folder().join("other")).var("RADV_FORCE_FAMILY", "navi31");
        run(scenario, &other, &Work::default());
        let theirs = device_segments(&other.stash_folder()).remove(0);
        assert_ne!(mine.parent().unwrap().file_name(), theirs.parent().unwrap().file_name());
        fs::copy(&theirs, &mine).unwrap();
        let again = run(scenario, env, &Work::default());
        assert!(again.value.all_made(), "{again:?}");
        let refused = again.reports.refused();
        assert_eq!(refused.values().sum::<u64>(), 1, "{refused:?}");
        assert_eq!(again.reports.sum("compiled"), 3, "{:?}", again.reports);
        assert_eq!(fs::read(&mine).unwrap(), fs::read(&theirs).unwrap(), "it is somebody's: left alone");
        heals(scenario, env);
    });
}

#[test]
fn an_unreadable_segment_is_refused() {
    if paths::are_private() {
        return skip::not_here(
            &skip::this_test(),
            "root reads everything: the tree is in another user's private folder",
        );
    }
    let lock = |path: &Path| fs::set_permissions(path, Permissions::from_mode(0o000)).unwrap();
    after_damage(lock, |again| refused(again, "unreadable"));
}

#[test]
fn a_segment_that_is_a_symbolic_link_is_refused() {
    let link = |path: &Path| {
        let aside = path.parent().unwrap().join("aside");
        fs::rename(path, &aside).unwrap();
        symlink(&aside, path).unwrap();
    };
    after_damage(link, |again| refused(again, "symbolic_link"));
}

#[test]
fn a_segment_that_is_a_folder_is_refused() {
    let replace = |path: &Path| {
        fs::remove_file(path).unwrap();
        fs::create_dir(path).unwrap();
    };
    after_damage(replace, |again| refused(again, "not_a_file"));
}

/// The program runs, nothing is recorded; the report and one log line say why.
fn assert_unusable(run: &Run<Done>, why: &str) {
    assert!(run.value.all_made(), "{run:?}");
    let unusable = run.reports.store().unusable;
    assert!(unusable.contains(why), "{unusable:?} {}", run.stderr);
    let lines: Vec<_> = run.stderr.lines().filter(|line| line.starts_with("vkstash:")).collect();
    assert!(lines.len() == 1 && lines[0].contains(why), "{lines:?}");
    assert_eq!(run.reports.sum("served") + run.reports.sum("compiled"), 0, "{:?}", run.reports);
    assert_eq!(run.reports.sum("compiled_unrecorded"), 3, "{:?}", run.reports);
}

#[test]
fn a_stash_that_is_a_file_is_unusable() {
    on(Driver::Radv, |scenario, env| {
        fs::write(env.stash_folder(), "a file").unwrap();
        assert_unusable(&run(scenario, env, &Work::default()), "not a folder");
        assert_eq!(fs::read(env.stash_folder()).unwrap(), b"a file");
    });
}

/// The driver needs the descriptors.
#[test]
fn a_program_that_may_open_few_files_has_no_stash() {
    on(Driver::Radv, |scenario, env| {
        let few = env.clone().open_files_limit(32);
        assert_unusable(&run(scenario, &few, &Work::default()), "ulimit -n");
    });
}

/// The step's work, and the address space that the program has used at most, in bytes.
fn measured(input: &Value) -> Value {
    assert!(serde_json::from_value::<Done>(work::step(input)).unwrap().all_made());
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmPeak:")).unwrap();
    json!(peak.trim_end_matches("kB").trim().parse::<u64>().unwrap() << 10)
}

/// What the threads of a stash reserve is missing to the driver, which dies of that.
#[test]
fn a_program_with_little_address_space_has_no_stash() {
    scenario(&[("measured", measured)], |scenario| {
        const MIB: u64 = 1 << 20;
        let Some(env) = scenario.on(Driver::Radv) else { return };
        let work = Work { count: 20, ..Work::default() };
        let seen = |env: &Env, limit: u64| {
            let seen = scenario.run("measured", &env.clone().address_space_limit(limit), &work);
            assert!(seen.status.success(), "{} MiB: {}: {}", limit / MIB, seen.ending(), seen.stderr);
            (seen.ok().as_u64().unwrap(), seen.stderr.contains("ulimit -v"))
        };
        let (alone, _) = seen(&env.clone().layer(Layer::Off), 4096 * MIB);
        // The library itself needs some, with debug information and without optimization.
        let least = alone + 64 * MIB;
        seen(&env, 4096 * MIB);
        assert!(seen(&env, least).1);
        for more in 1..40 {
            seen(&env, least + more * 32 * MIB);
        }
        assert!(!seen(&env, least + 2048 * MIB).1);
    });
}

#[test]
fn a_stash_that_cannot_be_created_is_unusable() {
    on(Driver::Radv, |scenario, env| {
        let locked = scenario.folder().join("locked");
        fs::create_dir(&locked).unwrap();
        fs::set_permissions(&locked, Permissions::from_mode(0o500)).unwrap();
        let env = env.clone().stash(locked.join("stash"));
        assert_unusable(&run(scenario, &env, &Work::default()), "cannot be created");
    });
}

#[test]
fn a_stash_that_others_may_write_to_is_unusable() {
    on(Driver::Radv, |scenario, env| {
        fs::create_dir(env.stash_folder()).unwrap();
        fs::set_permissions(env.stash_folder(), Permissions::from_mode(0o777)).unwrap();
        assert_unusable(&run(scenario, env, &Work::default()), "written to by others");
    });
}

#[test]
fn a_program_without_a_home_folder_runs() {
    on(Driver::Radv, |scenario, env| {
        let env = env.clone().var("VKSTASH_DIR", "").var("HOME", "/nonexistent").var("XDG_CACHE_HOME", "");
        let outcome = run(scenario, &env, &Work::default());
        assert!(outcome.value.all_made(), "{outcome:?}");
    });
}

fn set_mode_of_folders(folder: &Path, mode: u32) {
    fs::set_permissions(folder, Permissions::from_mode(0o700)).unwrap();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        if entry.path().is_dir() {
            set_mode_of_folders(&entry.path(), mode);
        }
    }
    fs::set_permissions(folder, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_read_only_stash_serves_its_artifacts() {
    on(Driver::Radv, |scenario, env| {
        run(scenario, env, &Work::default());
        set_mode_of_folders(&env.stash_folder(), 0o500);
        let warm = run(scenario, env, &Work { count: 5, ..Work::default() });
        set_mode_of_folders(&env.stash_folder(), 0o700);
        assert!(warm.value.all_made(), "{warm:?}");
        assert_eq!(warm.reports.sum("served"), 3, "{:?} {}", warm.reports, warm.stderr);
        let store = warm.reports.store();
        assert!(!store.write_errors.is_empty() && store.dropped > 0, "{store:?} {}", warm.stderr);
    });
}

/// Runs on a full disk, then with space again. The first run leaves nothing, or complete records.
fn on_a_full_disk(bytes: u64, check: impl Fn(&Run<Done>)) {
    on(Driver::Radv, |scenario, env| {
        let limited = env.clone().file_size_limit(bytes);
        let full = run(scenario, &limited, &Work { count: 10, ..Work::default() });
        assert!(full.value.all_made(), "{full:?}");
        check(&full);
        let next = run(scenario, env, &Work { count: 10, ..Work::default() });
        assert!(next.value.all_made(), "{next:?}");
        assert_eq!(next.reports.store().damaged_records, 0, "whole records or none");
        let warm = run(scenario, env, &Work { count: 10, ..Work::default() });
        assert_all_served(&warm, 10);
    });
}

#[test]
fn a_full_disk_stops_the_stash_and_not_the_program() {
    for bytes in [1000, 3000, 6000] {
        on_a_full_disk(bytes, |full| {
            let store = full.reports.store();
            assert!(
                !store.write_errors.is_empty() && store.dropped > 0,
                "{bytes}: {store:?} {}",
                full.stderr
            );
        });
    }
}

/// If not even a report can be written, the log must say why nothing was recorded.
#[test]
fn a_full_disk_is_reported_in_the_log() {
    on_a_full_disk(0, |full| {
        assert!(full.stderr.lines().any(|line| line.starts_with("vkstash: warn:")), "{full:?}");
    });
}
