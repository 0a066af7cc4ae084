//! Artifacts with equal data, which are stored once: written, merged, evicted, damaged and forged.

use std::collections::HashMap;
use std::fs;

use proptest::prelude::*;
use sha2::{Digest, Sha256};

use crate::format::file::{FileHeader, PartIdentity};
use crate::format::footer::encode_end;
use crate::format::record_header::{Stored, encode_record};
use crate::format::sizes::FIRST_RECORD;
use crate::format::table::Row;
use crate::maintenance;
use crate::part::admission::Admission;
use crate::tests::fuzz::spoil;
use crate::tests::*;
use vkstash_model::same::Same;

/// The payload of an artifact with data number `data`.
fn artifact(number: u64, data: u64) -> Box<[u8]> {
    let mut numbers = Numbers(data ^ 0x5A5A);
    let bytes = (0..2000 + data % 7).map(|_| numbers.next() as u8);
    (number as u32).to_le_bytes().into_iter().chain([1, 0, 0, 0]).chain(bytes).collect()
}

fn device_folder(root: &Path) -> PathBuf {
    root.join(app().folder).join(format!("device-{}", header().short_digest()))
}

fn device_bytes(root: &Path) -> u64 {
    files(&device_folder(root), "vks").iter().map(|file| fs::metadata(file).unwrap().len()).sum()
}

fn run(root: &Path) {
    maintenance::run(root, |_, _| {}).unwrap();
}

/// A run of a program that puts these artifacts, each with this data.
fn record(root: &Path, artifacts: impl IntoIterator<Item = (u64, u64)>) {
    let stash = open(root);
    let device = stash.device(&header()).unwrap();
    for (number, data) in artifacts {
        let length = artifact(number, data).len() as u64;
        assert!(device.put(Kind::Artifact, &key(number), artifact(number, data)));
        assert_eq!(device.artifact_length(&key(number)), Some(length), "before it is written");
    }
}

fn read(part: &Part, number: u64) -> Option<Vec<u8>> {
    let mut buffer = Vec::new();
    part.read(Kind::Artifact, &key(number), &mut buffer).then_some(buffer)
}

/// Fails unless all of these are there.
fn expect(root: &Path, artifacts: impl IntoIterator<Item = (u64, u64)>) {
    let stash = open(root);
    let device = stash.device(&header()).unwrap();
    for (number, data) in artifacts {
        assert!(read(&device, number).as_deref() == Some(&*artifact(number, data)), "{number}");
        assert!(device.contains(Kind::Artifact, &key(number)));
        let length = artifact(number, data).len() as u64;
        assert_eq!(device.artifact_length(&key(number)), Some(length), "{number}");
    }
    assert_eq!(stash.report().damaged_records, 0);
}

/// How many artifacts are stored themselves, and how many as references.
fn counts(root: &Path) -> (usize, usize) {
    let device = open(root).device(&header()).unwrap();
    (device.len(Kind::Artifact), device.len(Kind::Same))
}

/// A segment with records of any kind, as this version's writer would not write it.
fn segment(root: &Path, name: u64, records: &[(u8, Key, &[u8])]) {
    drop(open(root).device(&header()).unwrap());
    let identity = PartIdentity::Device(header());
    let header = FileHeader { identity, created_unix_ms: 1, serial: name };
    let mut bytes = header.encode().to_vec();
    bytes.resize(FIRST_RECORD, 0);
    let tag = header.identity.tag();
    let row = |(kind, key, payload): &(u8, Key, &[u8])| {
        Row::of(&encode_record(&mut bytes, 0, tag, *kind, key, Stored::plain(payload)))
    };
    let rows: Vec<Row> = records.iter().map(row).collect();
    let end = bytes.len() as u64;
    bytes.extend_from_slice(&encode_end(&header, end, &rows));
    fs::write(device_folder(root).join(format!("{name:016x}-00000001-{name:016x}.vks")), bytes).unwrap();
}

fn reference(number: u64, data: u64, target: u64) -> Vec<u8> {
    Same::of(&artifact(number, data), key(target)).unwrap().encode()
}

#[test]
fn equal_artifacts_of_one_process_are_stored_once() {
    let root = root();
    let all = || (0..200).map(|number| (number, number % 2));
    record(root.path(), all());
    expect(root.path(), all());
    assert_eq!(counts(root.path()), (2, 198));
    let bytes = device_bytes(root.path());
    assert!(bytes < 2 * 2100 + 198 * 200 + 20_000, "{bytes} bytes");
    // Before they are written, and while they are.
    let stash = open(root.path());
    let device = stash.device(&header()).unwrap();
    for number in 200..300 {
        assert!(device.put(Kind::Artifact, &key(number), artifact(number, 7)));
        assert_eq!(read(&device, number).as_deref(), Some(&*artifact(number, 7)));
    }
    stash.flush(LONG);
    (200..300).for_each(|number| assert_eq!(read(&device, number).as_deref(), Some(&*artifact(number, 7))));
}

#[test]
fn equal_artifacts_of_several_processes_are_stored_once_when_they_are_merged() {
    let root = root();
    for process in 0..6 {
        record(root.path(), (0..10).map(|at| (process * 10 + at, at % 3)));
    }
    assert_eq!(counts(root.path()), (18, 42));
    run(root.path());
    assert_eq!(files(&device_folder(root.path()), "vks").len(), 1);
    assert_eq!(counts(root.path()), (3, 57));
    let all = || (0..60).map(|number| (number, number % 10 % 3));
    expect(root.path(), all());
    // Merged with later segments, too, whose references then name the targets that are there.
    for process in 6..12 {
        record(root.path(), (0..10).map(|at| (process * 10 + at, at % 3)));
        run(root.path());
    }
    run(root.path());
    expect(root.path(), (0..120).map(|number| (number, number % 10 % 3)));
}

#[test]
fn little_data_and_portable_records_are_stored_as_they_are() {
    let root = root();
    let stash = open(root.path());
    let device = stash.device(&header()).unwrap();
    for number in 0..10 {
        assert!(device.put(Kind::Artifact, &key(number), vec![1; 100].into()));
        assert!(stash.portable().put(Kind::Recipe, &key(number), vec![1; 1000].into()));
    }
    drop((stash, device));
    assert_eq!(counts(root.path()), (10, 0));
}

#[test]
fn an_artifact_that_is_recorded_anew_hides_its_reference() {
    let root = root();
    record(root.path(), [(0, 1), (1, 1), (2, 1)]);
    // A reference, then a whole artifact, then one that must not be a reference.
    record(root.path(), [(1, 2), (3, 2)]);
    expect(root.path(), [(0, 1), (1, 2), (2, 1), (3, 2)]);
    // The reference to the second one is then a miss, and the artifact is recorded again.
    record(root.path(), [(5, 1), (1, 1), (3, 2)]);
    expect(root.path(), [(0, 1), (1, 1), (2, 1), (3, 2), (5, 1)]);
    record(root.path(), [(6, 1), (6, 2), (7, 1), (7, 1)]);
    expect(root.path(), [(6, 2), (7, 1)]);
    for _ in 0..3 {
        record(root.path(), [(9, 9)]);
        run(root.path());
        expect(root.path(), [(0, 1), (1, 1), (2, 1), (3, 2), (5, 1), (6, 2), (7, 1)]);
    }
}

#[test]
fn a_target_that_was_recorded_anew_is_a_miss_and_never_another_pipeline() {
    let root = root();
    record(root.path(), [(0, 1), (1, 1)]);
    record(root.path(), [(0, 2)]);
    let device = open(root.path()).device(&header()).unwrap();
    assert_eq!(read(&device, 0).as_deref(), Some(&*artifact(0, 2)));
    assert_eq!(read(&device, 1), None);
}

#[test]
fn wrong_missing_chained_and_circular_references_are_misses() {
    let root = root();
    let (whole, none) = (artifact(0, 1), reference(1, 1, 99));
    let (myself, other) = (reference(2, 1, 2), reference(3, 2, 0));
    let (one, two) = (reference(4, 1, 5), reference(5, 1, 4));
    let (chain, good) = (reference(6, 1, 7), reference(7, 1, 0));
    let mut long = reference(8, 1, 0);
    long.push(0);
    let (kind, same) = (Kind::Artifact as u8, Kind::Same as u8);
    let records: Vec<(u8, Key, &[u8])> = vec![
        (kind, key(0), &whole),
        (same, key(1), &none),
        (same, key(2), &myself),
        (same, key(3), &other),
        (same, key(4), &one),
        (same, key(5), &two),
        (same, key(6), &chain),
        (same, key(7), &good),
        (same, key(8), &long),
        (same, key(9), b""),
    ];
    for merged in [false, true] {
        if merged {
            (2..6).for_each(|name| {
                segment(root.path(), name, &[(kind, key(100 + name), &artifact(name, name))])
            });
            run(root.path());
            assert_eq!(files(&device_folder(root.path()), "vks").len(), 1);
        } else {
            segment(root.path(), 1, &records);
        }
        let stash = open(root.path());
        let device = stash.device(&header()).unwrap();
        for number in 0..10 {
            let there = matches!(number, 0 | 7);
            let expected = there.then(|| artifact(number, 1).into_vec());
            assert_eq!(read(&device, number), expected, "{number}, merged: {merged}");
        }
        assert!(!device.contains(Kind::Artifact, &key(1)));
        assert_eq!(stash.report().damaged_records, 0);
    }
}

/// A program that does not know the kind (as this one does not know number 99) passes over it and copies it; in the
/// file that it seals the kind has the code of unknown ones.
#[test]
fn references_merged_by_an_older_program_are_found_after_the_next_merge() {
    let root = root();
    let (whole, same) = (artifact(0, 1), reference(1, 1, 0));
    segment(root.path(), 1, &[(Kind::Artifact as u8, key(0), &whole), (99, key(1), b"unknown")]);
    // A row with the code of another kind: what an older program makes of a record of this one.
    segment(root.path(), 2, &[(Kind::Same as u8, key(1), &same)]);
    let file = files(&device_folder(root.path()), "vks").pop().unwrap();
    let mut bytes = fs::read(&file).unwrap();
    let row = Row::of(&crate::format::record_header::IndexEntry {
        key: key(1),
        offset: FIRST_RECORD as u64,
        stored: same.len() as u32,
        length: same.len() as u32,
        crc: crate::format::record_header::payload_crc(&key(1), &same),
        kind: 99,
        codec: 0,
    });
    let identity = PartIdentity::Device(header());
    let header_of = FileHeader { identity, created_unix_ms: 1, serial: 2 };
    let end = FIRST_RECORD + 64 + 72;
    bytes.truncate(end);
    bytes.extend(encode_end(&header_of, end as u64, &[row]));
    fs::write(&file, bytes).unwrap();
    let device = open(root.path()).device(&header()).unwrap();
    assert_eq!((read(&device, 0).is_some(), read(&device, 1)), (true, None));
    drop(device);
    (3..6).for_each(|name| record(root.path(), [(name, name)]));
    run(root.path());
    assert_eq!(files(&device_folder(root.path()), "vks").len(), 1);
    expect(root.path(), [(0, 1), (1, 1)]);
    let all: Vec<u8> = fs::read(&files(&device_folder(root.path()), "vks")[0]).unwrap();
    assert!(all.windows(7).any(|bytes| bytes == b"unknown"));
}

#[test]
fn no_reference_to_an_artifact_with_a_crash_count_is_written_or_handed_out() {
    let root = root();
    record(root.path(), [(0, 1), (1, 1), (2, 1)]);
    {
        let stash = open(root.path());
        let device = stash.device(&header()).unwrap();
        assert!(device.put(Kind::Verified, &key(2), Box::default()));
        assert!(device.put(Kind::CrashCount, &key(0), Box::new([1])));
        let how = |number| matches!(device.admit(&key(number)), Admission::Granted(_));
        assert_eq!([0, 1, 2].map(how), [true; 3]);
        assert!(device.put(Kind::CrashCount, &key(0), Box::new([2])));
        assert_eq!([0, 1, 2].map(how), [false, false, true], "the driver has taken it under key 2");
        // Compiled again it is stored for itself, so its own count decides.
        assert!(device.put(Kind::Artifact, &key(1), artifact(1, 1)));
        stash.flush(LONG);
        assert_eq!([0, 1, 2].map(how), [false, true, true]);
    }
    (3..9).for_each(|number| record(root.path(), [(number, 1), (number + 100, number)]));
    run(root.path());
    expect(root.path(), (0..9).map(|number| (number, 1)));
    let device = open(root.path()).device(&header()).unwrap();
    let how = |number| matches!(device.admit(&key(number)), Admission::Granted(_));
    assert_eq!([0, 1, 2, 3, 8].map(how), [false, true, true, true, true]);
}

#[test]
fn an_artifact_is_used_as_lately_as_what_names_it() {
    let root = root();
    // The first run makes number 0 the one that has the data; later ones use number 1 only.
    record(root.path(), [(0, 1), (1, 1)]);
    for run in 0..4 {
        let stash = open(root.path());
        let device = stash.device(&header()).unwrap();
        for number in 10 + run * 20..30 + run * 20 {
            assert!(device.put(Kind::Artifact, &key(number), artifact(number, number)));
            note_use(&stash, &key(number));
        }
    }
    let stash = open(root.path());
    note_use(&stash, &key(1));
    drop(stash);
    fs::write(root.path().join("config.toml"), "limit = '100KiB'\nfree-space = 'none'\n").unwrap();
    run(root.path());
    let device = open(root.path()).device(&header()).unwrap();
    let left = (10..90).filter(|&number| device.contains(Kind::Artifact, &key(number))).count();
    assert!((10..60).contains(&left), "{left} of 80 are left");
    assert_eq!(read(&device, 1).as_deref(), Some(&*artifact(1, 1)));
}

#[test]
fn a_run_that_is_going_on_keeps_what_its_references_name() {
    let root = root();
    record(root.path(), [(0, 1)]);
    let stash = open(root.path());
    let device = stash.device(&header()).unwrap();
    // A process knows only artifacts that it has recorded itself, so this reference names number 1.
    assert!(device.put(Kind::Artifact, &key(1), artifact(1, 1)));
    assert!(device.put(Kind::Artifact, &key(2), artifact(2, 1)));
    stash.flush(LONG);
    for number in 10..13 {
        record(root.path(), [(number, 1), (number + 10, number)]);
    }
    run(root.path());
    assert!(device.put(Kind::Artifact, &key(3), artifact(3, 1)));
    stash.flush(LONG);
    expect(root.path(), [0, 1, 2, 3, 10, 11, 12].map(|number| (number, 1)));
    drop((stash, device));
    record(root.path(), [(40, 40)]);
    run(root.path());
    expect(root.path(), [0, 1, 2, 3, 10, 11, 12].map(|number| (number, 1)));
}

#[test]
fn a_damaged_target_costs_its_references_and_is_counted_once() {
    let root = root();
    record(root.path(), (0..5).map(|number| (number, 1)));
    let file = files(&device_folder(root.path()), "vks").pop().unwrap();
    let mut bytes = fs::read(&file).unwrap();
    let data = artifact(0, 1);
    let at = bytes.windows(100).position(|window| window == &data[100..200]).unwrap();
    bytes[at] ^= 1;
    fs::write(&file, bytes).unwrap();
    let stash = open(root.path());
    let device = stash.device(&header()).unwrap();
    (0..5).for_each(|number| assert_eq!(read(&device, number), None));
    assert_eq!(stash.report().damaged_records, 1);
}

#[test]
fn a_writer_remembers_a_bounded_number_of_artifacts_and_stores_forgotten_ones_twice() {
    let root = root();
    let stash = open(root.path());
    let device = stash.device(&header()).unwrap();
    let payload = |number: u64| [&[0; 8][..], &number.to_le_bytes(), &[3; 192]].concat().into_boxed_slice();
    for number in 0..40_000 {
        while !device.put(Kind::Artifact, &key(number), payload(number % 20_000)) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    flush_all(&stash);
    let mut buffer = Vec::new();
    for number in 0..40_000 {
        assert!(device.read(Kind::Artifact, &key(number), &mut buffer), "{number}");
        assert_eq!(*buffer, *payload(number % 20_000));
    }
}

/// References and their targets with any bytes changed, and their checksums repaired.
#[test]
fn changed_references_whose_checksums_are_repaired_give_nothing_wrong() {
    let root = root();
    drop(open(root.path()).device(&header()).unwrap());
    let first = first_seed();
    for seed in first..first + seeds(600) {
        let mut numbers = Numbers(seed);
        let kind = |numbers: &mut Numbers| if numbers.next() % 3 == 0 { Kind::Artifact } else { Kind::Same };
        let mut records: Vec<(u8, Key, Vec<u8>)> =
            vec![(Kind::Artifact as u8, key(0), artifact(0, 1).into())];
        for number in 1..8 {
            let target = numbers.next() % 8;
            let payload = match kind(&mut numbers) {
                Kind::Artifact => artifact(number, numbers.next() % 3).into_vec(),
                _ => reference(number, numbers.next() % 3, target),
            };
            let kind = if payload.len() == 72 { Kind::Same } else { Kind::Artifact };
            records.push((kind as u8, key(number), payload));
        }
        for _ in 0..numbers.next() % 3 {
            let at = (numbers.next() % 8) as usize;
            spoil(&mut numbers, &mut records[at].2, 72);
        }
        let listed: Vec<_> = records.iter().map(|(kind, key, payload)| (*kind, *key, &**payload)).collect();
        segment(root.path(), 1, &listed);
        if seed % 2 == 0 {
            (2..6).for_each(|name| segment(root.path(), name, &[(99, key(name), b"")]));
            run(root.path());
        }
        let device = open(root.path()).device(&header()).unwrap();
        for (number, (_, key, payload)) in records.iter().enumerate() {
            let mut found = Vec::new();
            if !device.read(Kind::Artifact, key, &mut found) {
                continue;
            }
            let right = match Same::decode(payload) {
                None => found == *payload,
                Some(same) => {
                    let target = records
                        .iter()
                        .find(|(kind, key, _)| *key == same.target && *kind == Kind::Artifact as u8);
                    let mut expected = target.unwrap().2.clone();
                    same.complete(&mut expected) && found == expected
                }
            };
            assert!(right, "seed {seed}: wrong bytes for record {number}");
        }
        drop(device);
        files(&device_folder(root.path()), "vks").iter().for_each(|file| fs::remove_file(file).unwrap());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(60) })]

    /// Runs that record, merge, and record anew: what is read is what was put last, or nothing where a target was
    /// recorded anew.
    #[test]
    fn recorded_and_merged_artifacts_are_read_as_they_were_put(
        runs in proptest::collection::vec(
            (proptest::collection::vec((0..12_u64, 0..4_u64), 1..14), any::<bool>()), 1..9,
        ),
    ) {
        let root = root();
        let mut last = HashMap::new();
        let mut renewed = false;
        for (artifacts, merges) in runs {
            record(root.path(), artifacts.iter().copied());
            for (number, data) in artifacts {
                renewed |= last.insert(number, data).is_some_and(|before| before != data);
            }
            if merges {
                run(root.path());
            }
            let device = open(root.path()).device(&header()).unwrap();
            for (&number, &data) in &last {
                match read(&device, number) {
                    Some(payload) => prop_assert_eq!(&*payload, &*artifact(number, data)),
                    None => prop_assert!(renewed, "{} is lost", number),
                }
            }
        }
    }

    #[test]
    fn any_bytes_are_a_reference_to_the_right_data_or_none(
        bytes in proptest::collection::vec(any::<u8>(), 0..160), whole in any::<bool>(),
    ) {
        let mut bytes = bytes;
        let data = [4; 300];
        if whole {
            bytes.resize(72, 0);
            bytes[40..].copy_from_slice(&Sha256::digest(data));
        }
        if let Some(same) = Same::decode(&bytes) {
            let mut payload = [[9; 8].as_slice(), &data].concat();
            prop_assert_eq!(same.complete(&mut payload), whole);
            prop_assert_eq!(same.encode(), bytes);
        }
    }
}
