//! Records of other processes, and the files of processes that died.

use std::fs;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use crate::format::checkpoint::CheckpointPointer;
use crate::format::sizes::{FIRST_RECORD, HEADER_BYTES};
use crate::stash::inspect::list_applications;
use crate::tests::*;

/// Reads until the record is there.
fn await_record(part: &Part, number: u64) {
    let began = Instant::now();
    while count_good(part, Kind::Recipe, number..number + 1) == 0 {
        assert!(began.elapsed() < LONG, "record {number} never came");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn records_that_others_append_and_seal_are_seen_after_a_miss() {
    let root = root();
    let (reader, writer) = (open(root.path()), open(root.path()));
    let part = reader.portable();
    assert_eq!(count_good(part, Kind::Recipe, 0..1), 0);
    for round in 0..3 {
        put_all(writer.portable(), Kind::Recipe, round * 100..(round + 1) * 100);
        writer.flush(LONG);
        await_record(part, round * 100 + 99);
        assert_eq!(count_good(part, Kind::Recipe, 0..(round + 1) * 100), (round + 1) * 100);
    }
    drop(writer);
    // The reader follows the file to its end, and then reads it by its index.
    let another = open(root.path());
    put_all(another.portable(), Kind::Recipe, 300..400);
    another.flush(LONG);
    await_record(part, 399);
    drop(another);
    assert_eq!(count_good(part, Kind::Recipe, 0..400), 400);
    assert_eq!(part.len(Kind::Recipe), 400);
    assert_eq!(reader.report().damaged_records, 0);
    assert!(reader.report().refused.is_empty());
}

/// Look-ups pass over what a part has never had, so they must notice when it gets some.
#[test]
fn what_others_add_to_an_empty_part_is_found_in_sealed_files_and_in_those_that_are_still_written() {
    for sealed in [false, true] {
        let root = root();
        let (reader, writer) = (open(root.path()), open(root.path()));
        let part = reader.portable();
        assert!(part.is_empty() && !part.has_any(Kind::Recipe) && !part.contains(Kind::Recipe, &key(0)));
        put_all(writer.portable(), Kind::Recipe, 0..10);
        writer.flush(LONG);
        // The writer seals its file when it is closed.
        let writing = (!sealed).then_some(writer);
        await_record(part, 9);
        assert!(part.has_any(Kind::Recipe) && part.contains(Kind::Recipe, &key(0)), "sealed: {sealed}");
        assert!(!part.has_any(Kind::Module) && !part.contains(Kind::Module, &key(0)), "sealed: {sealed}");
        assert_eq!(count_good(part, Kind::Recipe, 0..10), 10, "sealed: {sealed}");
        drop(writing);
    }
}

#[test]
fn index_entries_of_unsealed_files_stay_in_memory_until_they_are_sealed() {
    let root = root();
    let reader = open(root.path());
    let part = reader.portable();
    let kept = || part.recent().len(Kind::Recipe);
    let await_none = |what: &str, number: u64| {
        let began = Instant::now();
        while kept() > 0 {
            assert!(began.elapsed() < LONG, "{} records are kept {what}", kept());
            // A miss makes the reader look for new files.
            assert!(!part.contains(Kind::Recipe, &key(1 << 40)));
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(count_good(part, Kind::Recipe, 0..number), number);
    };
    let write = |numbers: std::ops::Range<u64>| {
        let writer = open(root.path());
        put_all(writer.portable(), Kind::Recipe, numbers.start..numbers.start + 1);
        writer.flush(LONG);
        await_record(part, numbers.start);
        put_all(writer.portable(), Kind::Recipe, numbers.start + 1..numbers.end);
        writer.flush(LONG);
        await_record(part, numbers.end - 1);
        assert!(kept() > 0, "found in the file while it was written");
        writer
    };
    for round in 0..3 {
        drop(write(round * 100..round * 100 + 100));
        await_none("after it was sealed", round * 100 + 100);
    }
    // The file is removed together with its index.
    let late = write(300..400);
    segments(root.path()).iter().for_each(|path| fs::remove_file(path).unwrap());
    await_none("after it was taken away", 0);
    drop(late);
}

#[test]
fn files_that_disappear_and_come_back_under_another_name_are_followed() {
    let root = root();
    let segment = filled(root.path(), 50);
    let reader = open(root.path());
    assert_eq!(count_good(reader.portable(), Kind::Recipe, 0..50), 50);
    fs::rename(&segment, segment.with_file_name("ffff000000000000-00000001-0000000000000001.vks")).unwrap();
    assert_eq!(count_good(reader.portable(), Kind::Recipe, 0..50), 50);
    let writer = open(root.path());
    put_all(writer.portable(), Kind::Recipe, 50..60);
    writer.flush(LONG);
    await_record(reader.portable(), 59);
    assert_eq!(count_good(reader.portable(), Kind::Recipe, 0..60), 60);
    assert_eq!(reader.portable().len(Kind::Recipe), 60);
}

/// A file as its writer leaves it behind when it is killed.
fn orphaned(root: &Path, count: u64) -> PathBuf {
    let stash = open(root);
    for number in 0..count {
        while !stash.portable().put(Kind::Recipe, &key(number), payload(number)) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    stash.flush(LONG);
    let [segment] = segments(root).try_into().unwrap();
    let written = fs::read(&segment).unwrap();
    drop(stash);
    fs::write(&segment, written).unwrap();
    segment
}

fn sealed_and_all(root: &Path) -> (u64, u64) {
    let [application] = list_applications(root).unwrap().try_into().unwrap();
    (application.parts[0].sealed, application.parts[0].segments)
}

#[test]
fn the_file_of_a_dead_writer_is_sealed_by_the_next() {
    let root = root();
    let segment = orphaned(root.path(), 3000);
    // A torn tail.
    let length = fs::metadata(&segment).unwrap().len();
    fs::File::options().write(true).open(&segment).unwrap().set_len(length - 20).unwrap();
    assert_eq!(sealed_and_all(root.path()), (0, 1));
    let stash = open(root.path());
    let all = count_good(stash.portable(), Kind::Recipe, 0..3000);
    assert!(all >= 2999);
    assert_eq!(sealed_and_all(root.path()), (0, 1), "who only reads changes nothing");
    put_all(stash.portable(), Kind::Recipe, 3000..3001);
    drop(stash);
    assert_eq!(sealed_and_all(root.path()), (2, 2));
    let stash = open(root.path());
    assert_eq!(count_good(stash.portable(), Kind::Recipe, 0..3001), all + 1);
    assert_eq!(stash.report().damaged_records, 0);
}

#[test]
fn the_file_of_a_living_writer_is_left_alone() {
    let root = root();
    let living = open(root.path());
    put_all(living.portable(), Kind::Recipe, 0..10);
    living.flush(LONG);
    let other = open(root.path());
    assert_eq!(count_good(other.portable(), Kind::Recipe, 0..10), 10);
    put_all(other.portable(), Kind::Recipe, 10..20);
    drop(other);
    assert_eq!(sealed_and_all(root.path()), (1, 2));
    put_all(living.portable(), Kind::Recipe, 20..30);
    drop(living);
    assert_eq!(sealed_and_all(root.path()), (2, 2));
    assert_eq!(count_good(open(root.path()).portable(), Kind::Recipe, 0..30), 30);
}

#[test]
fn checkpoints_are_used_and_not_needed() {
    let root = root();
    let segment = orphaned(root.path(), 5000);
    let bytes = fs::read(&segment).unwrap();
    let pointer = CheckpointPointer::newest(&bytes[HEADER_BYTES..FIRST_RECORD]).unwrap();
    assert!(pointer.count >= 4 << 10, "{pointer:?}");
    let look = |what: &str| {
        let stash = open(root.path());
        assert_eq!(count_good(stash.portable(), Kind::Recipe, 0..5000), 5000, "{what}");
        stash.report().damaged_records
    };
    assert_eq!(look("whole"), 0);
    let file = fs::File::options().write(true).open(&segment).unwrap();
    // Record headers before the last checkpoint are not read.
    file.write_all_at(&[0xAA; 4], FIRST_RECORD as u64).unwrap();
    assert_eq!(look("a head is damaged"), 0);
    file.write_all_at(&bytes[FIRST_RECORD..FIRST_RECORD + 4], FIRST_RECORD as u64).unwrap();
    file.write_all_at(&[0xAA; 8], pointer.offset + 80).unwrap();
    assert!(look("the last checkpoint is damaged") <= 1);
    file.write_all_at(&bytes[pointer.offset as usize + 80..][..8], pointer.offset + 80).unwrap();
    file.write_all_at(&[0xAA; 64], HEADER_BYTES as u64).unwrap();
    assert_eq!(look("the marks are damaged"), 0);
}

#[test]
fn a_damaged_block_of_an_index_costs_nothing_but_a_scan() {
    let root = root();
    let segment = filled(root.path(), 2000);
    let length = fs::metadata(&segment).unwrap().len();
    let file = fs::File::options().write(true).open(&segment).unwrap();
    file.write_all_at(&[0xAA; 16], length - 384 - 5 * 4096 + 100).unwrap();
    let stash = open(root.path());
    assert_eq!(count_good(stash.portable(), Kind::Recipe, 0..2000), 2000);
    assert_eq!(stash.report().damaged_records, 1);
    assert_eq!(stash.portable().len(Kind::Recipe), 2000);
}

#[test]
fn a_full_segment_is_followed_by_another_and_both_are_read() {
    let root = root();
    let stash = open(root.path());
    // With checkpoints in the second, too. A batch holds up to 15,000 of them, and is not divided.
    let count: u64 = (1 << 17) + 30_000;
    for number in 0..count {
        let small = || Box::from(number.to_le_bytes());
        while !stash.portable().put(Kind::Recipe, &key(number), small()) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    flush_all(&stash);
    assert_eq!(segments(root.path()).len(), 2);
    let read = |stash: &Stash| {
        let mut buffer = Vec::new();
        for number in (0..count).step_by(37) {
            assert!(stash.portable().read(Kind::Recipe, &key(number), &mut buffer));
            assert_eq!(buffer, number.to_le_bytes());
        }
        assert!(!stash.portable().contains(Kind::Recipe, &key(count)));
        assert_eq!(stash.portable().len(Kind::Recipe) as u64, count);
    };
    read(&stash);
    drop(stash);
    read(&open(root.path()));
}
