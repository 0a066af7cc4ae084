//! Device parts whose headers differ from another one in the digest of the features alone.

use super::*;
use crate::stash::siblings::{Kin, Siblings};
use crate::tests::disk::faults;
use crate::tests::disk::faults::Plan;
use crate::tests::processes::in_a_child;

/// The header of a device that enables something else.
fn sibling(features: u8) -> DeviceHeader {
    DeviceHeader { features_digest: [features; 32], ..header() }
}

/// Writes artifacts for a device of that header.
fn fill(root: &Path, header: &DeviceHeader, numbers: std::ops::Range<u64>) {
    let stash = open(root);
    put_all(&stash.device(header).unwrap(), Kind::Artifact, numbers);
}

/// The numbers of the artifacts that are read, each with its own bytes.
fn read(siblings: &Siblings, numbers: std::ops::Range<u64>) -> Vec<u64> {
    let mut buffer = Vec::new();
    let is_read = |number: &u64| {
        let good = siblings.read(&key(*number), 0, &mut buffer).is_some();
        let expected = if good { payload(*number) } else { Box::default() };
        assert_eq!(*buffer, *expected, "record {number}");
        good
    };
    numbers.filter(is_read).collect()
}

#[test]
fn artifacts_of_other_features_are_read_and_those_of_other_drivers_are_not() {
    let root = root();
    let others: [fn(&mut DeviceHeader); 7] = [
        |h| h.vendor_id += 1,
        |h| h.device_id += 1,
        |h| h.driver_id += 1,
        |h| h.driver_version += 1,
        |h| h.pipeline_cache_uuid[3] += 1,
        |h| h.pointer_width = 4,
        |h| h.schema += 1,
    ];
    for (number, change) in others.iter().enumerate() {
        let mut other = sibling(77);
        change(&mut other);
        fill(root.path(), &other, number as u64..number as u64 + 1);
    }
    fill(root.path(), &header(), 10..12);
    fill(root.path(), &sibling(1), 20..23);
    fill(root.path(), &sibling(2), 22..25);
    let stash = open(root.path());
    let siblings = stash.siblings(&header(), Kin::Features);
    assert_eq!(read(&siblings, 0..30), (20..25).collect::<Vec<_>>());
    assert!(siblings.have_artifacts());
    let mut buffer = Vec::new();
    let first = siblings.read(&key(22), 0, &mut buffer).unwrap();
    let second = siblings.read(&key(22), first + 1, &mut buffer).unwrap();
    assert_eq!((*buffer == *payload(22), siblings.read(&key(22), second + 1, &mut buffer)), (true, None));
    siblings.note_refused(&key(21));
    assert_eq!(read(&siblings, 20..25), [20, 22, 23, 24]);
    assert_eq!(stash.report().damaged_records, 0);
    let own = stash.device(&header()).unwrap();
    assert_eq!(own.len(Kind::Artifact), 2, "nothing is copied");
}

#[test]
fn artifacts_of_other_versions_are_those_with_the_same_features() {
    let root = root();
    let others: [fn(&mut DeviceHeader); 8] = [
        |h| h.driver_version += 1,
        |h| h.pipeline_cache_uuid[3] += 1,
        |h| h.vendor_id += 1,
        |h| h.device_id += 1,
        |h| h.driver_id += 1,
        |h| h.pointer_width = 4,
        |h| h.schema += 1,
        |h| h.features_digest[0] += 1,
    ];
    for (number, change) in (0..).zip(others) {
        let mut other = header();
        change(&mut other);
        fill(root.path(), &other, number..number + 1);
    }
    fill(root.path(), &header(), 10..12);
    let stash = open(root.path());
    assert_eq!(read(&stash.siblings(&header(), Kin::Versions), 0..30), [0, 1]);
}

#[test]
fn without_siblings_there_is_nothing() {
    let root = root();
    fill(root.path(), &header(), 0..2);
    let stash = open(root.path());
    let siblings = stash.siblings(&header(), Kin::Features);
    assert!(read(&siblings, 0..2).is_empty() && !siblings.have_artifacts());
}

#[test]
fn the_newest_siblings_are_used() {
    let root = root();
    for number in 0..12 {
        fill(root.path(), &sibling(number as u8 + 100), number..number + 1);
        // The age of a segment is in milliseconds.
        std::thread::sleep(Duration::from_millis(2));
    }
    // A device that was served by its siblings.
    let stash = open(root.path());
    put_all(&stash.device(&sibling(50)).unwrap(), Kind::Verified, 0..3);
    drop(stash);
    let stash = open(root.path());
    assert_eq!(read(&stash.siblings(&header(), Kin::Features), 0..12), (4..12).collect::<Vec<_>>());
}

#[test]
fn quarantined_and_damaged_artifacts_are_not_read() {
    let root = root();
    let stash = open(root.path());
    let part = stash.device(&sibling(1)).unwrap();
    put_all(&part, Kind::Artifact, 0..6);
    assert!(part.put(Kind::CrashCount, &key(1), Box::new([1])));
    assert!(part.put(Kind::CrashCount, &key(2), Box::new([2])));
    let folder = root.path().join(app().folder).join(format!("device-{}", sibling(1).short_digest()));
    drop((part, stash));
    let [segment] = files(&folder, "vks").try_into().unwrap();
    let mut bytes = std::fs::read(&segment).unwrap();
    let wanted = payload(4);
    let at = bytes.windows(wanted.len()).position(|window| *window == *wanted);
    // A payload that is stored compressed is found by nobody: then this record's checksum is damaged instead.
    let at = at.unwrap_or_else(|| bytes.windows(32).position(|window| *window == key(4)).unwrap());
    bytes[at] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    let stash = open(root.path());
    let siblings = stash.siblings(&header(), Kin::Features);
    assert_eq!(read(&siblings, 0..6), [0, 1, 3, 5]);
    let (wanted, mut buffer) = (sibling(1).features_digest, Vec::new());
    let read_of = |digest: Key, buffer: &mut Vec<u8>| {
        (0..6)
            .filter(|&number| siblings.read_of(&|of| *of == digest, &key(number), buffer))
            .collect::<Vec<_>>()
    };
    assert_eq!(read_of(wanted, &mut buffer), [0, 1, 3, 5]);
    assert_eq!(read_of([77; 32], &mut buffer), [0; 0], "of a device that enables something else");
    let has_of = (0..6).filter(|&number| siblings.has_of(&|of| *of == wanted, &key(number)));
    assert_eq!(has_of.collect::<Vec<_>>(), [0, 1, 3, 5], "a damaged one is known to be so by now");
}

#[test]
fn references_are_followed_and_a_folder_of_another_name_is_none() {
    let root = root();
    let stash = open(root.path());
    let part = stash.device(&sibling(1)).unwrap();
    // The writer stores the second one as a reference.
    let data = noise(1, 9000);
    let payload = |prefix: u8| [&[prefix; 8][..], &data].concat().into_boxed_slice();
    assert!(part.put(Kind::Artifact, &key(0), payload(1)));
    flush_all(&stash);
    assert!(part.put(Kind::Artifact, &key(1), payload(2)));
    drop((part, stash));
    let stash = open(root.path());
    assert_eq!(stash.device(&sibling(1)).unwrap().len(Kind::Same), 1);
    let mut buffer = Vec::new();
    for number in [0, 1] {
        assert!(stash.siblings(&header(), Kin::Features).read(&key(number), 0, &mut buffer).is_some());
        assert_eq!(*buffer, *payload(number as u8 + 1));
    }
    drop(stash);
    let folder = root.path().join(app().folder);
    let name = format!("device-{}", sibling(1).short_digest());
    std::fs::rename(folder.join(&name), folder.join("device-0123456789abcdef")).unwrap();
    let stash = open(root.path());
    assert!(stash.siblings(&header(), Kin::Features).read(&key(0), 0, &mut buffer).is_none());
}

#[test]
fn without_time_nothing_is_opened_and_nobody_waits() {
    let root = root();
    fill(root.path(), &sibling(1), 0..3);
    let none = Duration::ZERO;
    let stash = open_within(root.path(), WaitLimits { opening: none, refresh: none, ..WaitLimits::PROGRAM });
    assert!(read(&stash.siblings(&header(), Kin::Features), 0..3).is_empty());
}

fn is_found(siblings: &Siblings, number: u64) -> bool {
    siblings.read(&key(number), 0, &mut Vec::new()).is_some()
}

#[test]
fn a_sibling_that_was_not_looked_at_in_time_is_looked_for_again() {
    in_a_child("a_sibling_that_was_not_looked_at_in_time_is_looked_for_again", &[], || {
        let root = root();
        fill(root.path(), &sibling(1), 0..3);
        let opening = Duration::from_millis(500);
        let stash = open_within(root.path(), WaitLimits { opening, refresh: opening, ..WaitLimits::PROGRAM });
        let _device = stash.device(&header()).unwrap();
        let siblings = stash.siblings(&header(), Kin::Features);
        faults::begin(Plan::Delayed { delay: Duration::from_millis(300) });
        assert!(!is_found(&siblings, 1));
        faults::end();
        await_that("it is found once the disk is fast", || is_found(&siblings, 1));
    });
}

#[test]
fn a_disk_that_stays_slow_is_tried_a_few_times() {
    in_a_child("a_disk_that_stays_slow_is_tried_a_few_times", &[], || {
        let root = root();
        for number in 0..20 {
            fill(root.path(), &sibling(number as u8 + 1), number..number + 1);
        }
        let stash = open_within(root.path(), WaitLimits::PROGRAM);
        let _device = stash.device(&header()).unwrap();
        let siblings = stash.siblings(&header(), Kin::Features);
        faults::begin(Plan::Delayed { delay: Duration::from_millis(20) });
        // Each attempt is due 100 ms after the one before.
        for _ in 0..20 {
            let _ = is_found(&siblings, 19);
            std::thread::sleep(Duration::from_millis(120));
        }
        let before = faults::calls();
        let _ = is_found(&siblings, 19);
        assert_eq!(faults::calls(), before);
        faults::end();
    });
}

#[test]
fn siblings_that_are_not_used_keep_no_descriptor() {
    in_a_child("siblings_that_are_not_used_keep_no_descriptor", &[], || {
        let root = root();
        for number in 0..40 {
            fill(root.path(), &sibling(number as u8 + 1), number..number + 1);
        }
        let stash = open(root.path());
        let _device = stash.device(&header()).unwrap();
        let count = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        let before = count();
        let siblings = stash.siblings(&header(), Kin::Features);
        let _ = is_found(&siblings, 1);
        // Two for each of the eight that are used, and files that the helper reads meanwhile; forty would keep more.
        assert!(count() - before <= 24, "{before} and {}", count());
    });
}

#[test]
fn what_is_cleared_is_gone_in_siblings_too() {
    let root = root();
    fill(root.path(), &sibling(1), 0..3);
    let stash = open(root.path());
    let _own = stash.device(&header()).unwrap();
    let siblings = stash.siblings(&header(), Kin::Features);
    assert!(is_found(&siblings, 1));
    let kinds = crate::settings::CacheKinds::COMPILATIONS;
    crate::maintenance::clear::clear(root.path(), Some(&app().folder), kinds).unwrap();
    stash.follow_rewritten();
    assert!(!is_found(&siblings, 1));
}

#[test]
fn what_the_driver_has_taken_is_read_again() {
    let root = root();
    for (features, bytes) in [(1, 500), (2, 600)] {
        let stash = open(root.path());
        assert!(stash.device(&sibling(features)).unwrap().put(Kind::Artifact, &key(1), noise(1, bytes)));
        drop(stash);
        // The age of a segment is in milliseconds.
        std::thread::sleep(Duration::from_millis(2));
    }
    let stash = open(root.path());
    let siblings = stash.siblings(&header(), Kin::Features);
    let mut buffer = Vec::new();
    assert!(siblings.read_taken(&key(1), &mut buffer) && buffer.len() == 600, "the newest one");
    let number = siblings.read(&key(1), 1, &mut buffer).unwrap();
    siblings.note_taken(&key(1), number);
    assert!(siblings.read_taken(&key(1), &mut buffer) && buffer.len() == 500);
    assert!(!siblings.read_taken(&key(2), &mut buffer) && buffer.is_empty());
}

#[test]
fn many_threads_ask_at_once() {
    let root = root();
    fill(root.path(), &sibling(1), 0..50);
    let stash = open(root.path());
    let siblings = stash.siblings(&header(), Kin::Features);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut buffer = Vec::new();
                // Some threads miss while another one opens.
                for number in 0..50 {
                    if siblings.read(&key(number), 0, &mut buffer).is_some() {
                        assert_eq!(*buffer, *payload(number));
                    }
                }
            });
        }
    });
    assert_eq!(read(&siblings, 0..50).len(), 50);
}
