//! Golden files: they stay readable, and the same bytes are written.

use std::fs;

use crate::format::file::{FileHeader, PartIdentity};
use crate::format::footer::encode_end;
use crate::format::record_header::{Stored, encode_record};
use crate::format::seal::Seal;
use crate::format::sizes::FIRST_RECORD;
use crate::format::table::Row;
use crate::reports::model::{BypassReport, DeviceReport, RunReport, StoreReport};
use crate::reports::runs;
use crate::reports::timeline::{self, Creation, Entry, Frame};
use crate::reports::waiting::{Frames, Lengths, Waiting};
use crate::tests::timelines::timelines;
use crate::tests::*;
use vkstash_model::record::ESTIMATES;
use vkstash_model::same::Same;
use vkstash_model::steps::Step;

/// The records of the golden segments.
fn segment(identity: PartIdentity, kind: Kind) -> Vec<u8> {
    segment_of(identity, (0..3).map(|n| (kind, key(n), format!("payload {n}").into_bytes())))
}

/// A segment with a seal, which a file lacks if it could not be written.
fn sealed() -> Vec<u8> {
    with_seal(segment(PartIdentity::Portable, Kind::Recipe))
}

/// What a later version may write: an artifact of another form, and a record of another kind.
fn later() -> Vec<u8> {
    let form = [&[1, 0, 0, 0, 99, 0, 0, 0][..], &[7; 200]].concat();
    let kind = Kind::Artifact as u8;
    let records = [(kind, key(0), artifact(0)), (kind, key(1), form), (200, key(2), vec![7; 100])];
    with_seal(segment_of_numbers(PartIdentity::Device(header()), records.into_iter()))
}

/// Seals a segment of three records.
fn with_seal(mut bytes: Vec<u8>) -> Vec<u8> {
    let seal = Seal { bytes: bytes.len() as u64, records: 3 }.encode();
    let at = Seal::OFFSET as usize;
    bytes[at..at + seal.len()].copy_from_slice(&seal);
    bytes
}

/// The payload of an artifact; all have the same data.
fn artifact(number: u8) -> Vec<u8> {
    [&[number, 0, 0, 0, 1, 0, 0, 0][..], &[7; 200]].concat()
}

/// An artifact, and two that are stored as references to it.
fn same() -> Vec<u8> {
    let of = |number| Same::of(&artifact(number), key(0)).unwrap().encode();
    let records =
        [(Kind::Artifact, key(0), artifact(0)), (Kind::Same, key(1), of(1)), (Kind::Same, key(2), of(2))];
    segment_of(PartIdentity::Device(header()), records.into_iter())
}

/// Costs of two pipelines, of which the first was measured twice.
fn costs() -> Vec<u8> {
    let records = [(0, 1500), (1, u32::MAX), (0, 400)];
    let records = records.map(|(n, micros)| (Kind::Cost, key(n), micros.to_le_bytes().to_vec()));
    segment_of(PartIdentity::Device(header()), records.into_iter())
}

fn found() -> Vec<u8> {
    let record = (Kind::Found, key(3), 60_u32.to_le_bytes().to_vec());
    segment_of(PartIdentity::Device(header()), [record].into_iter())
}

/// Questions with a shared cache have not been worth it, and are dear.
fn estimates() -> Vec<u8> {
    let words = [1_u32, 800, 1, 800, 0, 2400, 1, 800, 1, 200];
    let record = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    segment_of(PartIdentity::Device(header()), [(Kind::Estimates, ESTIMATES, record)].into_iter())
}

fn creations() -> [Creation; 2] {
    let step = |source, answer, tenths| Step { source, answer, tenths };
    let none = Step::default();
    let served = Creation {
        key: [1; 16],
        unix_us: 1_700_000_000_000_001,
        tenths: 702,
        reason: 1,
        result: 0,
        count: 2,
        steps: [step(0, 2, 2), step(2, 0, 690), none, none, none],
        frame: 0,
    };
    let all = [step(0, 2, 1), step(1, 2, 300), step(2, 4, 700), step(3, 2, 250), step(4, 0, u32::MAX)];
    [served, Creation { key: [2; 16], tenths: u32::MAX, count: 5, steps: all, ..served }]
}

/// A frame, and creations in it and before.
fn timeline_entries() -> [Entry; 3] {
    let [served, other] = creations();
    let frame = Frame { number: 8120, tenths: 2_120_000, unix_us: 1_700_000_000_000_002 };
    [served.into(), frame.into(), Creation { frame: 8120, ..other }.into()]
}

fn timeline() -> Vec<u8> {
    let (root, folder) = timelines();
    timeline::append(&folder, "one.vkl", &timeline_entries()).unwrap();
    fs::read(root.path().join("one.vkl")).unwrap()
}

fn segment_of(identity: PartIdentity, given: impl Iterator<Item = (Kind, Key, Vec<u8>)>) -> Vec<u8> {
    segment_of_numbers(identity, given.map(|(kind, key, payload)| (kind as u8, key, payload)))
}

/// Kinds by their numbers in files.
fn segment_of_numbers(identity: PartIdentity, given: impl Iterator<Item = (u8, Key, Vec<u8>)>) -> Vec<u8> {
    let header =
        FileHeader { identity, created_unix_ms: 0x0123_4567_89AB_CDEF, serial: 0x1122_3344_5566_7788 };
    let mut records = Vec::new();
    let base = FIRST_RECORD as u64;
    let tag = header.identity.tag();
    let rows: Vec<_> = given
        .map(|(kind, key, payload)| {
            Row::of(&encode_record(&mut records, base, tag, kind, &key, Stored::plain(&payload)))
        })
        .collect();
    let mut bytes = header.encode().to_vec();
    bytes.resize(base as usize, 0);
    bytes.extend_from_slice(&records);
    bytes.extend_from_slice(&encode_end(&header, base + records.len() as u64, &rows));
    bytes
}

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn waiting() -> Waiting {
    Waiting {
        calls: 16,
        calls_ns: 17,
        long_calls: 18,
        longest_call_ns: 19,
        frames: Frames {
            count: 20,
            ns: 21,
            lengths: Lengths::new([22, 0, 23]),
            stutters: 24,
            longest_stutter_ns: 25,
            longest_wait_ns: 26,
            waited_ns: 27,
        },
    }
}

fn report() -> RunReport {
    RunReport {
        application: "test".into(),
        program: "/opt/test/test".into(),
        started_unix_ms: 1,
        updated_unix_ms: 2,
        pid: 3,
        is_over: true,
        devices: vec![DeviceReport {
            name: "gpu".into(),
            vendor_id: 4,
            device_id: 5,
            driver_id: 6,
            driver_version: 7,
            part: "0123456789abcdef".into(),
            counters: [("served".into(), 8)].into(),
            bypassed: vec![BypassReport { reason: "library".into(), s_type: 9, count: 10 }],
            waiting: waiting(),
        }],
        store: StoreReport {
            damaged_records: 11,
            evicted_bytes: [("total_limit".into(), 12)].into(),
            evicted_records: 13,
            compacted_bytes: 14,
            reclaimed_bytes: 15,
            ..StoreReport::default()
        },
        goes_on: false,
    }
}

fn all() -> [(&'static str, Vec<u8>); 10] {
    [
        ("portable-v2.vks", segment(PartIdentity::Portable, Kind::Recipe)),
        ("sealed-v2.vks", sealed()),
        ("later-v2.vks", later()),
        ("device-v2.vks", segment(PartIdentity::Device(header()), Kind::Artifact)),
        ("same-v2.vks", same()),
        ("cost-v2.vks", costs()),
        ("found-v2.vks", found()),
        ("estimates-v2.vks", estimates()),
        ("timeline-v2.vkl", timeline()),
        ("report-v4.vkr", runs::encode(runs::REPORT_MAGIC, &report()).unwrap()),
    ]
}

/// With `VKSTASH_PUBLISH_GOLDEN` set, writes the files of a version that is about to be published instead.
#[test]
fn what_is_written_is_byte_for_byte_as_published() {
    for (name, bytes) in all() {
        if std::env::var_os("VKSTASH_PUBLISH_GOLDEN").is_some() {
            fs::write(golden(name), &bytes).unwrap();
        }
        assert_eq!(fs::read(golden(name)).unwrap(), bytes, "{name} is published: raise the version instead");
    }
}

/// A module that the filter takes, one that it does not, and something for the dictionary.
fn compressible(number: u64) -> (Kind, Vec<u8>) {
    let words: Vec<u32> = match number {
        0 => [0, 0x0723_0203, 0x0001_0300, 0, 400, 0]
            .into_iter()
            .chain((0..60).flat_map(|step| [5 << 16 | 129, 6, 100 + step, 99 + step, 98 + step]))
            .collect(),
        1 => vec![7; 100],
        _ => return (Kind::Recipe, (0..120).map(|at| if at % 3 == 0 { at } else { 0 }).collect()),
    };
    (Kind::Module, words.iter().flat_map(|word| word.to_le_bytes()).collect())
}

/// Another version of zstd may compress them otherwise; what is stored stays readable.
#[test]
fn every_way_of_storing_stays_readable() {
    let name = "compressed-v2.vks";
    if std::env::var_os("VKSTASH_PUBLISH_GOLDEN").is_some() {
        let root = root();
        let stash = open(root.path());
        for number in 0..3 {
            let (kind, payload) = compressible(number);
            assert!(stash.portable().put(kind, &key(number), payload.into()));
        }
        drop(stash);
        fs::copy(&segments(root.path())[0], golden(name)).unwrap();
    }
    let root = root();
    drop(open(root.path()));
    fs::copy(golden(name), root.path().join(app().folder).join("portable/a.vks")).unwrap();
    let stash = open(root.path());
    let mut codecs = Vec::new();
    for number in 0..3 {
        let (kind, payload) = compressible(number);
        let mut buffer = Vec::new();
        assert!(stash.portable().read(kind, &key(number), &mut buffer));
        assert_eq!(buffer, payload);
        let bytes = fs::read(golden(name)).unwrap();
        let at = bytes.windows(32).position(|window| window == key(number)).unwrap();
        codecs.push(bytes[at - 24 + 5]);
    }
    assert_eq!(codecs, [2, 1, 3]);
}

#[test]
fn reports_stay_readable_and_those_of_another_version_are_left_out() {
    let root = root();
    let mut bytes = fs::read(golden("report-v4.vkr")).unwrap();
    fs::write(root.path().join("run-a.vkr"), &bytes).unwrap();
    for (file, version) in [("run-b.vkr", 3), ("run-c.vkr", 5)] {
        bytes[8] = version;
        let crc = crc32c::crc32c(&bytes[..20]);
        bytes[20..24].copy_from_slice(&crc.to_le_bytes());
        fs::write(root.path().join(file), &bytes).unwrap();
    }
    assert_eq!(runs::read_all(root.path()), [report()]);
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 3);
}

#[test]
fn references_to_equal_artifacts_stay_readable() {
    let root = root();
    drop(open(root.path()).device(&header()).unwrap());
    let folder = root.path().join(app().folder).join(format!("device-{}", header().short_digest()));
    fs::copy(golden("same-v2.vks"), folder.join("a.vks")).unwrap();
    let device = open(root.path()).device(&header()).unwrap();
    let mut buffer = Vec::new();
    for number in 0..3 {
        assert!(device.read(Kind::Artifact, &key(number.into()), &mut buffer));
        assert_eq!(buffer, artifact(number));
    }
}

#[test]
fn costs_stay_readable_and_are_no_artifacts() {
    let root = root();
    drop(open(root.path()).device(&header()).unwrap());
    let folder = root.path().join(app().folder).join(format!("device-{}", header().short_digest()));
    fs::copy(golden("cost-v2.vks"), folder.join("a.vks")).unwrap();
    let device = open(root.path()).device(&header()).unwrap();
    let mut buffer = Vec::new();
    for (number, micros) in [(0, 400_u32), (1, u32::MAX)] {
        assert!(device.read(Kind::Cost, &key(number), &mut buffer));
        assert_eq!(buffer, micros.to_le_bytes());
        assert!(!device.contains(Kind::Artifact, &key(number)));
    }
    assert!(!device.has_any(Kind::Artifact) && device.has_any(Kind::Cost));
    // What is in a file without an index may count twice.
    let few = |limit, kind| device.has_fewer_than(limit, kind);
    assert!(few(1, Kind::Artifact) && !few(2, Kind::Cost) && few(5, Kind::Cost));
}

#[test]
fn what_was_found_stays_readable() {
    let root = root();
    drop(open(root.path()).device(&header()).unwrap());
    let folder = root.path().join(app().folder).join(format!("device-{}", header().short_digest()));
    fs::copy(golden("found-v2.vks"), folder.join("a.vks")).unwrap();
    let device = open(root.path()).device(&header()).unwrap();
    let mut buffer = Vec::new();
    assert!(device.read(Kind::Found, &key(3), &mut buffer));
    assert_eq!(buffer, 60_u32.to_le_bytes());
}

#[test]
fn timelines_stay_readable_and_nothing_is_read_of_another_version() {
    let root = root();
    let runs = root.path().join(app().folder).join("runs");
    drop(open(root.path()));
    fs::create_dir_all(&runs).unwrap();
    let mut bytes = fs::read(golden("timeline-v2.vkl")).unwrap();
    fs::write(runs.join("run-1.vkl"), &bytes).unwrap();
    for version in [1, 3] {
        bytes[8] = version;
        fs::write(runs.join(format!("run-{version}2.vkl")), &bytes).unwrap();
    }
    let [unknown, other, known] = <[_; 3]>::try_from(timeline::all(root.path(), &app().folder)).unwrap();
    assert!(unknown.is_unreadable && other.is_unreadable && other.creations.is_empty());
    let entries =
        known.creations.into_iter().map(Entry::from).chain(known.frames.into_iter().map(Entry::from));
    let [served, frame, other] = timeline_entries();
    assert_eq!(entries.collect::<Vec<_>>(), [served, other, frame]);
    assert_eq!(timeline::last(root.path(), &app().folder).len(), 2);
}

#[test]
fn estimates_stay_readable() {
    let root = root();
    drop(open(root.path()).device(&header()).unwrap());
    let folder = root.path().join(app().folder).join(format!("device-{}", header().short_digest()));
    fs::copy(golden("estimates-v2.vks"), folder.join("a.vks")).unwrap();
    let read = || {
        let device = open(root.path()).device(&header()).unwrap();
        let mut buffer = Vec::new();
        device.read(Kind::Estimates, &ESTIMATES, &mut buffer).then_some(buffer)
    };
    let before = read().unwrap();
    assert_eq!((before.len(), &before[16..24]), (40, &[0, 0, 0, 0, 0x60, 9, 0, 0][..]));
    for number in 0..4 {
        super::maintenance::one_run(root.path(), |stash| {
            let part = stash.device(&header()).unwrap();
            assert!(part.put(Kind::Artifact, &key(number), vec![1; 40].into_boxed_slice()));
        });
    }
    super::maintenance::run(root.path());
    assert_eq!(read(), Some(before), "after a merge");
}

#[test]
fn segments_stay_readable() {
    let root = root();
    let stash = open(root.path());
    let device = stash.device(&header()).unwrap();
    drop((stash, device));
    let application = root.path().join(app().folder);
    let device_folder = application.join(format!("device-{}", header().short_digest()));
    fs::copy(golden("portable-v2.vks"), application.join("portable/a.vks")).unwrap();
    fs::copy(golden("device-v2.vks"), device_folder.join("a.vks")).unwrap();
    let stash = open(root.path());
    let device = stash.device(&header()).unwrap();
    let mut buffer = Vec::new();
    for number in 0..3 {
        for (part, kind) in [(stash.portable(), Kind::Recipe), (&device, Kind::Artifact)] {
            assert!(part.read(kind, &key(number), &mut buffer));
            assert_eq!(buffer, format!("payload {number}").as_bytes());
        }
    }
    let report = stash.report();
    assert_eq!((report.damaged_records, report.refused.len()), (0, 0));
}
