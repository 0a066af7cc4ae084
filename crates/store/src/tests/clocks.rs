//! Runs whose clock was wrong, among others: each thing that is ordered by time.

use std::fs;
use std::time::SystemTime;

use crate::maintenance;
use crate::maintenance::prune::{Request, prune};
use crate::reports::timeline::{self, Creation};
use crate::reports::totals;
use crate::tests::*;
use vkstash_host::disk::folder::Folder;
use vkstash_host::util::unix_ms;
use vkstash_model::record::{FORGOTTEN, RunDevices, UseRecord};

/// The first day of 2100, in Unix milliseconds.
const FUTURE: u64 = 4_102_444_800_000;
const DAY: u64 = 24 * 60 * 60 * 1000;

/// A run that uses these keys in this order, a millisecond apart, by a clock that shows `begin`. With FORGOTTEN among
/// them it forgets the order so far.
fn a_run(root: &Path, begin: u64, keys: &[Key]) {
    let stash = open(root);
    let run = stash.portable().next_age();
    for (sequence, key) in (0..).zip(keys) {
        let used =
            UseRecord { unix_ms: begin + u64::from(sequence), sequence, devices: RunDevices::ALL, run };
        assert!(stash.portable().put(Kind::Use, key, used.encode().into()));
    }
    drop(stash);
    // A later run has a later time.
    std::thread::sleep(Duration::from_millis(5));
}

/// The keys in their order of use, the last run last.
fn order(root: &Path) -> Vec<Key> {
    let mut uses = open(root).noted_uses(&|| false).unwrap();
    uses.sort();
    uses.iter().map(|used| used.key).collect()
}

#[test]
fn a_run_dated_in_the_future_is_the_last_one_until_another_has_run() {
    let root = root();
    let keys: Vec<Key> = (0..8).map(key).collect();
    a_run(root.path(), unix_ms(), &keys[..2]);
    a_run(root.path(), FUTURE, &keys[2..5]);
    assert_eq!(order(root.path()), keys[..5]);
    a_run(root.path(), unix_ms(), &keys[5..7]);
    assert_eq!(order(root.path()), keys[..7]);
    maintenance::run(root.path(), |_, _| ()).unwrap();
    assert_eq!(order(root.path()), keys[..7], "merged");
    a_run(root.path(), unix_ms(), &keys[7..]);
    assert_eq!(order(root.path()), keys);
}

#[test]
fn what_a_run_in_the_future_forgets_does_not_hide_what_later_ones_use() {
    for merged in [false, true] {
        let root = root();
        a_run(root.path(), unix_ms(), &[key(0), key(1)]);
        a_run(root.path(), FUTURE, &[key(2), FORGOTTEN, key(3), key(4)]);
        a_run(root.path(), unix_ms(), &[key(5)]);
        if merged {
            maintenance::run(root.path(), |_, _| ()).unwrap();
        }
        assert_eq!(order(root.path()), [key(3), key(4), key(5)], "merged: {merged}");
    }
}

#[test]
fn a_report_in_the_future_is_folded_first_and_is_neither_the_last_run_nor_its_time() {
    let root = root();
    let now = unix_ms();
    let run = |started: u64| RunReport {
        application: started.to_string(),
        pid: 0x7fff_ffff,
        started_unix_ms: started,
        updated_unix_ms: started,
        ..RunReport::default()
    };
    write_report(root.path(), &run(FUTURE));
    let only = totals::read(root.path());
    assert_eq!(only.until_unix_ms, FUTURE, "without another time it is as it is");
    (1..=70).for_each(|number| write_report(root.path(), &run(now - 1000 + number)));
    let check = |runs: u64| {
        let sums = totals::read(root.path());
        assert_eq!((sums.runs, sums.since_unix_ms, sums.until_unix_ms), (runs, now - 999, now - 930));
        assert_eq!(sums.last.unwrap().started_unix_ms, now - 930);
    };
    check(71);
    totals::fold(&Folder::root(root.path(), false).unwrap()).unwrap();
    let left = runs::read_all(root.path());
    assert_eq!((left.len(), left[0].started_unix_ms), (48, now - 977));
    check(71);
}

#[test]
fn a_timeline_in_the_future_gives_way_to_later_ones() {
    let (root, folder) = timelines::timelines();
    let name = |started: u64| RunName::new(started, 1, started).timeline();
    for number in 0..8 {
        timeline::append(&folder, &name(FUTURE + number), &[Creation::default()]).unwrap();
    }
    for number in 1..=8 {
        timeline::append(&folder, &name(1000 + number), &[Creation::default()]).unwrap();
        assert!(folder.names(".vkl").unwrap().contains(&name(1000 + number)));
    }
    let mut names = folder.names(".vkl").unwrap();
    names.sort();
    assert_eq!(names, (1001..=1008).map(name).collect::<Vec<_>>());
    drop(root);
}

/// As if the newest segment of a part and its folder were of that time.
fn date(folder: &Path, unix_ms: u64) {
    for file in files(folder, "vks") {
        let name = file.file_name().unwrap().to_str().unwrap();
        fs::rename(&file, folder.join(format!("{unix_ms:016x}{}", &name[16..]))).unwrap();
    }
    let then = SystemTime::UNIX_EPOCH + Duration::from_millis(unix_ms);
    fs::File::open(folder).unwrap().set_modified(then).unwrap();
}

#[test]
fn an_old_drivers_part_dated_in_the_future_goes_before_that_of_the_present_driver() {
    let root = root();
    let old = DeviceHeader { driver_version: 77, ..header() };
    for header in [&old, &header()] {
        let stash = open(root.path());
        put_all(&stash.device(header).unwrap(), Kind::Artifact, 0..50);
        flush_all(&stash);
    }
    let part = |header: &DeviceHeader| {
        root.path().join(app().folder).join(format!("device-{}", header.short_digest()))
    };
    let bytes = |header: &DeviceHeader| {
        files(&part(header), "vks").iter().map(|file| file.metadata().unwrap().len()).sum::<u64>()
    };
    date(&part(&old), FUTURE);
    date(&part(&header()), unix_ms() - DAY);
    let limit = bytes(&old) + bytes(&header()) - 1;
    fs::write(root.path().join("config.toml"), format!("limit = {limit}\nfree-space = 'none'\n")).unwrap();
    maintenance::run(root.path(), |_, _| ()).unwrap();
    assert_eq!((bytes(&old), bytes(&header()) > 0), (0, true));
}

#[test]
fn what_is_dated_in_the_future_has_no_age_and_another_time_decides() {
    let root = root();
    let stash = open(root.path());
    put_all(stash.portable(), Kind::Module, 0..10);
    drop(stash);
    let part = root.path().join(app().folder).join("portable");
    let before = |used_before: u64| {
        let request = Request { application: &app().folder, used_before, is_dry_run: true };
        prune(root.path(), &request).unwrap().is_some()
    };
    date(&part, FUTURE);
    fs::remove_dir_all(root.path().join(app().folder).join("runs")).unwrap_or_default();
    assert!(!before(unix_ms()), "nothing says that it is old");
    // The names of segments follow the latest one, whatever the clock says since.
    let then = SystemTime::now() - Duration::from_millis(100 * DAY);
    fs::File::open(&part).unwrap().set_modified(then).unwrap();
    assert!(before(unix_ms()) && !before(unix_ms() - 101 * DAY));
}
