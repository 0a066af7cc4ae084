//! Stashes that are looked into after the user's own, and never written.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use super::*;
use crate::format::file::PartIdentity;
use crate::part::read_only::ReadOnlyPart;
use crate::part::tallies::Tallies;
use crate::stash::siblings::Kin;
use crate::tests::disk::faults;
use crate::tests::disk::faults::Plan;
use crate::tests::processes::in_a_child;
use vkstash_host::disk::folder::Folder;
use vkstash_host::program::Program;
use vkstash_host::timer::never;
use vkstash_model::app_name::{AppName, Identity};
use vkstash_model::variables::CONFIG_FILE;

fn with_bases(root: &Path, bases: &[&Path]) -> Arc<Stash> {
    let bases = bases.iter().map(|path| path.to_path_buf()).collect();
    let run = Run::of_this_process();
    Stash::open_with_bases(root, bases, &app(), run, WaitLimits::UNLIMITED).unwrap()
}

/// A stash with these records in both parts.
fn fill(root: &Path, numbers: std::ops::Range<u64>) {
    let stash = open(root);
    put_all(stash.portable(), Kind::Recipe, numbers.clone());
    put_all(&stash.device(&header()).unwrap(), Kind::Artifact, numbers);
}

fn numbers(part: &Part, kind: Kind, all: std::ops::Range<u64>) -> Vec<u64> {
    all.filter(|number| count_good(part, kind, *number..*number + 1) == 1).collect()
}

/// Every file and folder with what a write would change.
fn snapshot(folder: &Path) -> BTreeMap<PathBuf, (u64, i64, i64)> {
    let mut found = BTreeMap::new();
    let mut rest = vec![folder.to_owned()];
    while let Some(path) = rest.pop() {
        let stat = fs::symlink_metadata(&path).unwrap();
        if stat.is_dir() {
            rest.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        found.insert(path, (stat.len(), stat.mtime(), stat.mtime_nsec()));
    }
    found
}

#[test]
fn where_a_base_has_another_installation_of_the_application_that_counts() {
    let (own, base) = (root(), root());
    let program = Program::of(b"/bin/test", &[]);
    let identity = Identity { application: b"test", program: &program, steam: Some(620) };
    let (kin, other) =
        (AppName::of(&identity), AppName::of(&Identity { application: b"no kin", ..identity }));
    for (name, numbers) in [(&other, 20..30), (&kin, 0..10)] {
        let stash = Stash::open_patiently(base.path(), name).unwrap();
        put_all(stash.portable(), Kind::Recipe, numbers.clone());
        put_all(&stash.device(&header()).unwrap(), Kind::Artifact, numbers);
        put_all(
            &stash.device(&DeviceHeader { features_digest: [7; 32], ..header() }).unwrap(),
            Kind::Artifact,
            10..12,
        );
    }
    let before = snapshot(base.path());
    let served = || {
        let stash = with_bases(own.path(), &[base.path()]);
        let device = stash.device(&header()).unwrap();
        let siblings = stash.siblings(&header(), Kin::Features);
        let of_sibling = (0..30).filter(|number| siblings.read(&key(*number), 0, &mut Vec::new()).is_some());
        let of_sibling: Vec<_> = of_sibling.collect();
        (numbers(stash.portable(), Kind::Recipe, 0..30), numbers(&device, Kind::Artifact, 0..30), of_sibling)
    };
    let all = (0..10).collect::<Vec<_>>();
    assert_eq!(served(), (all.clone(), all, vec![10, 11]));
    assert!(snapshot(base.path()) == before, "nothing is written to a base");
    fill(base.path(), 5..7);
    assert_eq!(served(), (vec![5, 6], vec![5, 6], vec![]), "its own folder comes first");
}

#[test]
fn what_a_base_has_is_there_and_nothing_is_written_to_it() {
    let (own, base) = (root(), root());
    fill(base.path(), 0..20);
    fill(own.path(), 15..25);
    let before = snapshot(base.path());
    for _ in 0..2 {
        let stash = with_bases(own.path(), &[base.path()]);
        let device = stash.device(&header()).unwrap();
        for (part, kind) in [(stash.portable(), Kind::Recipe), (&device, Kind::Artifact)] {
            assert_eq!(numbers(part, kind, 0..30), (0..25).collect::<Vec<_>>());
            assert!((0..25).all(|number| part.contains(kind, &key(number))));
            assert!(!part.contains(kind, &key(25)) && part.has_any(kind));
            assert!(!part.has_fewer_than(100, kind), "of bases that have some it is not known");
        }
        assert!(stash.note_taken(&DeviceUses::of(0), &device, &key(3)));
        put_all(&device, Kind::Artifact, 100..101);
    }
    assert!(snapshot(base.path()) == before);
    let stash = open(own.path());
    let device = stash.device(&header()).unwrap();
    assert!(device.contains(Kind::Verified, &key(3)) && !device.contains(Kind::Artifact, &key(3)));
    assert_eq!(numbers(&device, Kind::Artifact, 0..200), (15..25).chain([100]).collect::<Vec<_>>());
}

/// A part of so many segments. Each has a record of its own, and one that all have.
fn part_of_segments(root: &Path, segments: u64) -> ReadOnlyPart {
    for number in 0..segments {
        let stash = open(root);
        put_all(stash.portable(), Kind::Recipe, number..number + 1);
        assert!(stash.portable().put(Kind::Recipe, &key(99), number.to_le_bytes().into()));
    }
    let folder = Folder::root(&root.join(app().folder).join("portable"), false).unwrap();
    let part = ReadOnlyPart::new(folder, PartIdentity::Portable);
    assert!(part.open_until(None, &never, &Tallies::default()));
    part
}

#[test]
fn a_look_up_asks_the_segments_that_have_the_key_alone() {
    let root = root();
    let part = part_of_segments(root.path(), 6);
    let segments = part.segments();
    assert!(segments > 3, "{segments}");
    assert_eq!(part.asked(Kind::Recipe, &key(50)), segments);
    part.merge(&never);
    let asked = [50, 0, 5, 99].map(|number| part.asked(Kind::Recipe, &key(number)));
    assert_eq!(asked, [0, 1, 1, segments]);
    let mut buffer = Vec::new();
    for number in 0..6 {
        assert!(part.read(Kind::Recipe, &key(number), &mut buffer, &|_| ()));
        assert_eq!(*buffer, *payload(number));
    }
    assert!(part.read(Kind::Recipe, &key(99), &mut buffer, &|_| ()));
    assert_eq!(*buffer, 5_u64.to_le_bytes(), "the newest");
    assert!(!part.contains(Kind::Module, &key(1)) && !part.contains(Kind::Recipe, &key(6)));
}

/// The helper does it after the first miss.
#[test]
fn the_indexes_of_a_base_are_merged() {
    let (own, base) = (root(), root());
    drop(part_of_segments(base.path(), 4));
    let stash = with_bases(own.path(), &[base.path()]);
    assert!(!stash.portable().contains(Kind::Recipe, &key(50)));
    let part = stash.portable().base_parts()[0].clone();
    await_that("merged", || part.asked(Kind::Recipe, &key(50)) == 0);
    assert_eq!(numbers(stash.portable(), Kind::Recipe, 0..10), [0, 1, 2, 3]);
}

#[test]
fn the_own_record_comes_first_and_then_the_bases_in_their_order() {
    let (own, first, second) = (root(), root(), root());
    for (number, root) in [&own, &first, &second].into_iter().enumerate() {
        let stash = open(root.path());
        for record in number as u64..3 {
            let payload = Box::new([number as u8; 50]);
            assert!(stash.portable().put(Kind::Recipe, &key(record), payload));
        }
    }
    let stash = with_bases(own.path(), &[first.path(), second.path()]);
    let mut buffer = Vec::new();
    let owner = |record: u64, buffer: &mut Vec<u8>| {
        assert!(stash.portable().read(Kind::Recipe, &key(record), buffer));
        buffer[0]
    };
    assert_eq!([0, 1, 2].map(|record| owner(record, &mut buffer)), [0, 0, 0]);
    let empty = root();
    let stash = with_bases(empty.path(), &[first.path(), second.path()]);
    let mut owner =
        |record: u64| stash.portable().read(Kind::Recipe, &key(record), &mut buffer).then(|| buffer[0]);
    assert_eq!([0, 1, 2].map(&mut owner), [None, Some(1), Some(1)]);
    let stash = with_bases(empty.path(), &[second.path(), first.path()]);
    let mut owner =
        |record: u64| stash.portable().read(Kind::Recipe, &key(record), &mut buffer).then(|| buffer[0]);
    assert_eq!([0, 1, 2].map(&mut owner), [None, Some(1), Some(2)]);
}

/// With the bases that the settings of the root name.
fn with_settings(root: &Path, bases: &[&Path], opening: Duration) -> Arc<Stash> {
    let bases = bases.iter().map(|path| path.to_path_buf()).collect();
    let (run, end) = (Run::of_this_process(), Some(LONG));
    Stash::open_in_run(root, bases, &app(), run, Some(opening), end).unwrap()
}

fn set_bases(root: &Path, bases: &[&Path]) {
    let bases: Vec<_> = bases.iter().map(|base| format!("'{}'", base.display())).collect();
    std::fs::write(root.join(CONFIG_FILE), format!("bases = [{}]\n", bases.join(", "))).unwrap();
}

#[test]
fn bases_of_the_settings_come_after_those_that_the_process_was_told_of() {
    let (own, told, set) = (root(), root(), root());
    for (number, root) in [&told, &set].into_iter().enumerate() {
        let stash = open(root.path());
        for record in number as u64..3 {
            let payload = Box::new([number as u8; 50]);
            assert!(stash.portable().put(Kind::Recipe, &key(record), payload));
        }
    }
    fill(&set.path().join("more"), 3..4);
    set_bases(own.path(), &[set.path(), told.path(), &set.path().join("more")]);
    let stash = with_settings(own.path(), &[told.path()], LONG);
    let mut buffer = Vec::new();
    let mut owner =
        |record: u64| stash.portable().read(Kind::Recipe, &key(record), &mut buffer).then(|| buffer[0]);
    assert_eq!([0, 1, 2].map(&mut owner), [Some(0); 3]);
    assert!(owner(3).is_some() && owner(4).is_none());
    assert_eq!(stash.portable().base_parts().len(), 3, "none twice");
    // A tool looks into the stash that it was told of.
    let stash = open(own.path());
    assert!(!stash.portable().contains(Kind::Recipe, &key(0)));
}

/// The settings are read when there is time; a miss proves nothing before.
#[test]
fn bases_of_settings_that_are_read_late_are_looked_into_all_the_same() {
    in_a_child("bases_of_settings_that_are_read_late_are_looked_into_all_the_same", &[], || {
        let (told, set) = (root(), root());
        fill(told.path(), 0..1);
        fill(set.path(), 1..3);
        for bases in [&[][..], &[told.path()]] {
            let own = root();
            set_bases(own.path(), &[set.path()]);
            faults::begin(Plan::Slow);
            let stash = with_settings(own.path(), bases, WaitLimits::PROGRAM.opening);
            let part = stash.portable();
            assert!(!part.contains(Kind::Recipe, &key(2)) && part.may_have_more());
            faults::end();
            await_that("it is found", || {
                let found = part.contains(Kind::Recipe, &key(2));
                assert!(found || part.may_have_more());
                found
            });
        }
    });
}

#[test]
fn without_a_base_nothing_more_is_looked_into() {
    let own = root();
    std::fs::write(own.path().join(CONFIG_FILE), "limit = '1GiB'\n").unwrap();
    let stash = with_settings(own.path(), &[], LONG);
    let part = stash.portable();
    assert!(!part.contains(Kind::Recipe, &key(2)));
    assert!(part.base_parts().is_empty() && !part.may_have_more());
}

/// What a driver took on another machine proves nothing here. What it died of is not read; what is made here is.
#[test]
fn crash_counts_of_a_base_apply_to_its_artifacts_and_verified_ones_and_uses_do_not() {
    let (own, base) = (root(), root());
    let stash = open(base.path());
    let device = stash.device(&header()).unwrap();
    put_all(&device, Kind::Artifact, 0..2);
    assert!(device.put(Kind::CrashCount, &key(0), Box::new([2])));
    assert!(device.put(Kind::Verified, &key(1), Box::default()));
    assert!(stash.portable().put(Kind::Use, &key(1), Box::new([0; 12])));
    drop((device, stash));
    let stash = with_bases(own.path(), &[base.path()]);
    let device = stash.device(&header()).unwrap();
    assert_eq!(numbers(&device, Kind::Artifact, 0..2), [1], "a quarantined artifact is not read");
    assert_eq!(device.crash_count(&key(0)), 0);
    put_all(&device, Kind::Artifact, 0..1);
    assert_eq!(numbers(&device, Kind::Artifact, 0..2), [0, 1]);
    assert!(!device.contains(Kind::Verified, &key(1)) && !stash.portable().contains(Kind::Use, &key(1)));
}

#[test]
fn siblings_are_looked_for_in_bases_too() {
    let (own, base) = (root(), root());
    let other = DeviceHeader { features_digest: [1; 32], ..header() };
    let stash = open(base.path());
    put_all(&stash.device(&other).unwrap(), Kind::Artifact, 0..3);
    drop(stash);
    let before = snapshot(base.path());
    let stash = with_bases(own.path(), &[base.path()]);
    let mut buffer = Vec::new();
    assert!(stash.siblings(&header(), Kin::Features).read(&key(2), 0, &mut buffer).is_some());
    assert_eq!(*buffer, *payload(2));
    drop(stash);
    assert!(snapshot(base.path()) == before);
}

/// Changes something about a base's folder of the application.
type Change = fn(&Path);

#[test]
fn a_base_that_cannot_be_trusted_or_read_is_not_used() {
    let mode = |path: &Path, mode: u32| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let changes: [(&str, Change); 6] = [
        ("others may write to the root", |path| {
            fs::set_permissions(path.parent().unwrap(), fs::Permissions::from_mode(0o777)).unwrap();
        }),
        ("others may write to the folder", |path| {
            fs::set_permissions(path, fs::Permissions::from_mode(0o770)).unwrap();
        }),
        ("others may write to a file", |path| {
            for file in files(&path.join("portable"), "vks") {
                fs::set_permissions(file, fs::Permissions::from_mode(0o666)).unwrap();
            }
        }),
        ("a link", |path| {
            fs::rename(path, path.with_extension("moved")).unwrap();
            std::os::unix::fs::symlink(path.with_extension("moved"), path).unwrap();
        }),
        ("missing", |path| fs::remove_dir_all(path).unwrap()),
        ("no folder", |path| {
            fs::remove_dir_all(path).unwrap();
            fs::write(path, "").unwrap();
        }),
    ];
    for (what, change) in changes {
        let (own, base, good) = (root(), root(), root());
        mode(base.path(), 0o755);
        fill(base.path(), 0..3);
        fill(good.path(), 3..6);
        change(&base.path().join(app().folder));
        let nowhere = base.path().join("nowhere");
        let stash = with_bases(own.path(), &[base.path(), &nowhere, good.path()]);
        assert_eq!(numbers(stash.portable(), Kind::Recipe, 0..6), [3, 4, 5], "{what}");
        put_all(stash.portable(), Kind::Recipe, 0..3);
        assert_eq!(numbers(stash.portable(), Kind::Recipe, 0..6), [0, 1, 2, 3, 4, 5], "{what}");
    }
}

#[test]
fn a_damaged_base_gives_what_is_intact() {
    for seed in first_seed()..first_seed() + seeds(20) {
        let mut random = Numbers(seed);
        let (own, base) = (root(), root());
        let segment = filled(base.path(), 40);
        let mut bytes = fs::read(&segment).unwrap();
        for _ in 0..1 + random.next() % 4 {
            let at = random.next() as usize % bytes.len();
            bytes[at] ^= 1 << (random.next() % 8);
        }
        if random.next() % 4 == 0 {
            bytes.truncate(random.next() as usize % bytes.len());
        }
        fs::write(&segment, &bytes).unwrap();
        let stash = with_bases(own.path(), &[base.path()]);
        // Fails on any wrong byte.
        count_good(stash.portable(), Kind::Recipe, 0..40);
        drop(stash);
        assert!(fs::read(&segment).unwrap() == bytes, "nothing is repaired in a base");
    }
}

/// So that the next run has it of its own.
#[test]
fn what_is_found_damaged_in_a_base_is_recorded_in_the_own_stash() {
    let (own, base) = (root(), root());
    let segment = filled(base.path(), 40);
    let mut bytes = fs::read(&segment).unwrap();
    let wanted = payload(7);
    let at = bytes.windows(wanted.len()).position(|part| *part == *wanted);
    let at = at.unwrap_or(crate::format::sizes::FIRST_RECORD + 200);
    bytes[at + 1] ^= 1;
    fs::write(&segment, &bytes).unwrap();
    let stash = with_bases(own.path(), &[base.path()]);
    let part = stash.portable();
    let damaged = (0..40).find(|number| count_good(part, Kind::Recipe, *number..*number + 1) == 0).unwrap();
    assert!(!part.contains(Kind::Recipe, &key(damaged)));
    assert_eq!(stash.report().damaged_records, 1, "counted once, however often it is asked for");
    let said: Vec<_> = stash.report().refused.into_keys().collect();
    assert!(
        said.len() == 1 && said[0].starts_with("base: records in ") && said[0].contains("damaged"),
        "{said:?}"
    );
    put_all(part, Kind::Recipe, damaged..damaged + 1);
    assert_eq!(count_good(part, Kind::Recipe, 0..40), 40);
}

#[test]
fn what_a_base_has_in_other_bytes_is_not_there() {
    let (own, base) = (root(), root());
    fill(base.path(), 0..3);
    let stash = with_bases(own.path(), &[base.path()]);
    let part = stash.portable();
    assert!(part.has(Kind::Recipe, &key(1), &payload(1)) && !part.has(Kind::Recipe, &key(1), &payload(2)));
    assert!(!part.has(Kind::Recipe, &key(3), &payload(3)));
    put_all(part, Kind::Recipe, 1..2);
    assert!(part.has(Kind::Recipe, &key(1), &payload(2)), "what the stash itself has is not compared");
}

/// Until then a miss does not say that something was lost.
#[test]
fn a_miss_proves_nothing_before_all_bases_are_open() {
    let (own, base) = (root(), root());
    fill(base.path(), 0..3);
    let none = Duration::ZERO;
    let waits = |opening| WaitLimits { opening, refresh: opening, ..WaitLimits::UNLIMITED };
    for (opening, proves) in [(none, false), (LONG, true)] {
        let (bases, run) = (vec![base.path().to_owned()], Run::of_this_process());
        let stash = Stash::open_with_bases(own.path(), bases, &app(), run, waits(opening)).unwrap();
        let part = stash.portable();
        await_that("it is read", || !part.is_incomplete());
        assert_eq!(part.contains(Kind::Recipe, &key(1)), proves);
        assert_eq!(part.may_have_more(), !proves);
    }
}

#[test]
fn a_base_that_vanishes_in_use_is_a_miss() {
    let (own, base) = (root(), root());
    fill(base.path(), 0..20);
    let stash = with_bases(own.path(), &[base.path()]);
    assert_eq!(numbers(stash.portable(), Kind::Recipe, 0..5).len(), 5);
    fs::remove_dir_all(base.path()).unwrap();
    count_good(stash.portable(), Kind::Recipe, 0..20);
    put_all(stash.portable(), Kind::Recipe, 20..30);
    assert_eq!(numbers(stash.portable(), Kind::Recipe, 20..30).len(), 10);
}

/// As on a read-only file system; root is not bound by modes.
#[test]
fn a_base_without_permission_to_write_is_used() {
    let (own, base) = (root(), root());
    fill(base.path(), 0..4);
    let mut paths: Vec<_> = snapshot(base.path()).into_keys().collect();
    paths.reverse();
    let set = |path: &Path, folder: u32, file: u32| {
        let mode = if path.is_dir() { folder } else { file };
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    paths.iter().for_each(|path| set(path, 0o555, 0o444));
    let stash = with_bases(own.path(), &[base.path()]);
    assert_eq!(numbers(stash.portable(), Kind::Recipe, 0..6), [0, 1, 2, 3]);
    drop(stash);
    paths.iter().rev().for_each(|path| set(path, 0o755, 0o644));
}
