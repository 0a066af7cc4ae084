//! Processes that end while a driver compiles: their guard files, what the next process counts, and what tools read.

use crate::part::admission::Admission;
use crate::stash::deaths;
use crate::tests::crash_counts::die_compiling;
use crate::tests::processes::in_a_child;
use crate::tests::*;
use vkstash_host::util::unix_ms;
use vkstash_model::crash_count::CrashCount;

const STAGES: u32 = 0x11;

/// A part whose compiles are marked.
fn part(stash: &Stash) -> Arc<Part> {
    let part = stash.device(&header()).unwrap();
    part.foresee_compiles();
    part
}

#[test]
fn a_process_that_foresees_no_compiles_marks_none_and_waits_for_no_guard_file() {
    let root = root();
    let stash = open(root.path());
    let part = stash.device(&header()).unwrap();
    assert!(part.compiling(&key(1), STAGES).is_none() && !part.has_guard());
}

/// The root of a stash, and the folder of its device part.
fn with_part() -> (tempfile::TempDir, PathBuf) {
    let root = root();
    drop(part(&open(root.path())));
    let folder = root.path().join(app().folder).join(format!("device-{}", header().short_digest()));
    (root, folder)
}

fn deaths_of(root: &Path) -> Vec<(Key, u32, u8)> {
    let found = deaths::of(root, &app().folder);
    assert!(found.iter().all(|death| death.part == header().short_digest()));
    let now = unix_ms();
    assert!(found.iter().all(|death| (now - 60_000..=now).contains(&death.unix_ms)), "{found:?}");
    found.into_iter().map(|death| (death.key, death.stages, death.deaths)).collect()
}

#[test]
fn a_process_that_ends_in_a_compile_leaves_the_key_until_it_is_compiled() {
    let (root, folder) = with_part();
    assert!(deaths_of(root.path()).is_empty());
    die_compiling(&folder, &[key(2)], STAGES, false);
    for _ in 0..2 {
        assert_eq!(deaths_of(root.path()), [(key(2), STAGES, 1)], "the file says it, and is left");
    }
    drop(part(&open(root.path())));
    assert!(files(&folder, "vkg").is_empty());
    assert_eq!(deaths_of(root.path()), [(key(2), STAGES, 1)], "the record says it");
    die_compiling(&folder, &[key(2)], STAGES, false);
    assert_eq!(deaths_of(root.path()), [(key(2), STAGES, 2)], "one is recorded, one is in a file");
    let stash = open(root.path());
    assert_eq!((part(&stash).compile_deaths(&key(2)), part(&stash).crash_count(&key(2))), (2, 0));
    assert!(!part(&stash).is_quarantined(&key(2)));
    part(&stash).has_compiled(&key(2));
    stash.flush(LONG);
    assert!(deaths_of(root.path()).is_empty());
}

#[test]
fn a_compile_in_a_live_process_is_no_death_and_an_end_in_order_leaves_none() {
    let (root, folder) = with_part();
    let stash = open(root.path());
    let mark = part(&stash).compiling(&key(1), STAGES);
    assert!(mark.is_some() && deaths_of(root.path()).is_empty(), "its file is locked");
    let [guard] = &files(&folder, "vkg")[..] else { panic!() };
    let marks = || std::fs::read(guard).unwrap().windows(32).any(|window| window == key(1));
    assert!(marks());
    drop(mark);
    assert!(!marks());
    std::mem::forget(part(&stash).compiling(&key(1), STAGES));
    stash.leave();
    drop(stash);
    assert!(files(&folder, "vkg").is_empty() && deaths_of(root.path()).is_empty());
}

#[test]
fn a_death_in_a_compile_costs_marks_of_artifacts_only_if_the_process_gave_artifacts() {
    let (root, folder) = with_part();
    let artifact = part(&open(root.path())).put(Kind::Artifact, &key(1), payload(1));
    assert!(artifact);
    for gives_artifacts in [false, true] {
        die_compiling(&folder, &[key(1)], STAGES, gives_artifacts);
        let stash = open(root.path());
        let Admission::Granted(mark) = part(&stash).admit(&key(1)) else { panic!("{gives_artifacts}") };
        assert_eq!(mark.is_some(), gives_artifacts);
        assert_eq!(part(&stash).crash_count(&key(1)), 0);
    }
}

/// The header says it as soon as the first artifact goes to a driver, although the file was made for compiles.
#[test]
fn the_file_of_a_process_that_compiles_says_so_once_it_gives_artifacts() {
    let (root, folder) = with_part();
    let stash = open(root.path());
    drop(part(&stash).compiling(&key(2), STAGES));
    let says = || std::fs::read(&files(&folder, "vkg")[0]).unwrap()[16];
    assert_eq!(says(), 0);
    assert!(part(&stash).put(Kind::Artifact, &key(1), payload(1)));
    assert!(matches!(part(&stash).admit(&key(1)), Admission::Granted(None)));
    assert_eq!(says(), 1);
}

#[test]
fn deaths_of_an_artifact_and_in_its_compile_are_counted_beside_each_other() {
    let (root, folder) = with_part();
    let count = CrashCount { of_artifact: 1, compile: None };
    assert!(part(&open(root.path())).put(Kind::CrashCount, &key(1), count.record()));
    die_compiling(&folder, &[key(1), key(3), key(1)], STAGES, false);
    let stash = open(root.path());
    let of = |number| (part(&stash).crash_count(&key(number)), part(&stash).compile_deaths(&key(number)));
    assert_eq!([of(1), of(2), of(3)], [(1, 1), (0, 0), (0, 1)]);
    part(&stash).has_compiled(&key(1));
    assert_eq!(of(1), (1, 0));
}

#[test]
fn a_forked_child_neither_marks_nor_clears() {
    in_a_child("a_forked_child_neither_marks_nor_clears", &[], || {
        let root = root();
        let stash = open(root.path());
        let part = part(&stash);
        let mut mark = part.compiling(&key(1), STAGES);
        assert!(mark.is_some());
        // SAFETY: the child runs code of this test alone, and ends at once.
        match unsafe { libc::fork() } {
            0 => {
                let marks = part.compiling(&key(2), STAGES).is_some();
                drop(mark.take());
                // SAFETY: a process may end itself.
                unsafe { libc::_exit(i32::from(marks)) };
            }
            child => {
                let mut status = 0;
                // SAFETY: a child of this process, and a place for its status.
                assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
                assert_eq!(status, 0, "the child marks nothing");
            }
        }
        let folder = root.path().join(app().folder).join(format!("device-{}", header().short_digest()));
        let [guard] = &files(&folder, "vkg")[..] else { panic!() };
        let bytes = std::fs::read(guard).unwrap();
        assert!(bytes.windows(32).any(|window| window == key(1)), "the mark of the parent stays");
        drop(mark);
        let bytes = std::fs::read(guard).unwrap();
        assert!(!bytes.windows(32).any(|window| window == key(1)));
    });
}

#[test]
#[ignore = "prints times"]
fn what_a_mark_costs() {
    let root = root();
    let stash = open(root.path());
    let part = part(&stash);
    drop(part.compiling(&key(1), STAGES).unwrap());
    let rounds = (0..9).map(|_| {
        let began = std::time::Instant::now();
        (0..10_000).for_each(|_| drop(part.compiling(&key(1), STAGES).unwrap()));
        began.elapsed().as_nanos() as f64 / 10_000.0
    });
    let mut rounds: Vec<f64> = rounds.collect();
    rounds.sort_by(f64::total_cmp);
    println!("{:.0} ns, {:.0} to {:.0}: both writes of a compile", rounds[4], rounds[0], rounds[8]);
}
