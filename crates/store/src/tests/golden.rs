//! Files of every published version: they stay readable, and this version writes the same bytes.

use std::fs;

use crate::format::file::{FileHeader, PartIdentity};
use crate::format::footer::encode_end;
use crate::format::record::ESTIMATES;
use crate::format::record_header::{Stored, encode_record};
use crate::format::same::Same;
use crate::format::seal::Seal;
use crate::format::sizes::{FIRST_RECORD, VERSION};
use crate::format::table::Row;
use crate::reports::model::{BypassReport, DeviceReport, RunReport, StoreReport};
use crate::reports::runs;
use crate::reports::timeline::{self, Creation, Entry, Frame, Step};
use crate::tests::timelines::timelines;
use crate::tests::*;

/// The records of the golden segments.
fn segment(identity: PartIdentity, kind: Kind) -> Vec<u8> {
    segment_of(identity, (0..3).map(|n| (kind, key(n), format!("payload {n}").into_bytes())))
}

/// A segment with a seal, which files of the first versions of vkstash lack.
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

/// What earlier programs wrote of who had answered sooner: two times, and then three with a verdict.
fn comparisons() -> Vec<u8> {
    let record = |words: [u32; 8]| words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let records: [Vec<u8>; 2] =
        [record([9000, 0, 0, 0, 0, 0, 0x0700, 0]), record([8000, 9000, 0, 40_000, 0, 0, 0x2b00_0701, 0x51])];
    let mut key = [0; 32];
    key[31] = 3;
    let records = records.into_iter().map(|record| (Kind::Estimates, key, record));
    segment_of(PartIdentity::Device(header()), records)
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

/// What a file of the second version has: frames, and creations in them.
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
    let header = FileHeader {
        version: VERSION,
        identity,
        created_unix_ms: 0x0123_4567_89AB_CDEF,
        serial: 0x1122_3344_5566_7788,
    };
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

fn report() -> RunReport {
    RunReport {
        application: "test".into(),
        program: "/opt/test/test".into(),
        started_unix_ms: 1,
        updated_unix_ms: 2,
        pid: 3,
        devices: vec![DeviceReport {
            name: "gpu".into(),
            vendor_id: 4,
            device_id: 5,
            driver_id: 6,
            driver_version: 7,
            part: "0123456789abcdef".into(),
            counters: [("served".into(), 8)].into(),
            bypassed: vec![BypassReport { reason: "library".into(), s_type: 9, count: 10 }],
        }],
        store: StoreReport {
            damaged_records: 11,
            evicted_bytes: [("total_limit".into(), 12)].into(),
            evicted_records: 13,
            compacted_bytes: 14,
            reclaimed_bytes: 15,
            ..StoreReport::default()
        },
    }
}

fn all() -> [(&'static str, Vec<u8>); 11] {
    [
        ("portable-v2.vks", segment(PartIdentity::Portable, Kind::Recipe)),
        ("sealed-v2.vks", sealed()),
        ("later-v2.vks", later()),
        ("device-v2.vks", segment(PartIdentity::Device(header()), Kind::Artifact)),
        ("same-v2.vks", same()),
        ("cost-v2.vks", costs()),
        ("found-v2.vks", found()),
        ("comparison-v2.vks", comparisons()),
        ("estimates-v2.vks", estimates()),
        ("timeline-v2.vkl", timeline()),
        ("report-v3.vkr", runs::encode(runs::REPORT_MAGIC, &report()).unwrap()),
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
fn a_report_of_version_3_stays_readable_and_older_ones_are_left_out() {
    let root = root();
    let versions =
        [("run-a.vkr", "report-v1.vkr"), ("run-b.vkr", "report-v2.vkr"), ("run-c.vkr", "report-v3.vkr")];
    for (file, version) in versions {
        fs::copy(golden(version), root.path().join(file)).unwrap();
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
fn timelines_stay_readable() {
    let root = root();
    let runs = root.path().join(app().folder).join("runs");
    drop(open(root.path()));
    fs::create_dir_all(&runs).unwrap();
    fs::copy(golden("timeline-v1.vkl"), runs.join("run-1.vkl")).unwrap();
    assert_eq!(timeline::last(root.path(), &app().folder), creations());
    fs::copy(golden("timeline-v2.vkl"), runs.join("run-2.vkl")).unwrap();
    let [second, first] = <[_; 2]>::try_from(timeline::all(root.path(), &app().folder)).unwrap();
    assert_eq!((first.creations, first.frames), (creations().to_vec(), Vec::new()));
    let entries =
        second.creations.into_iter().map(Entry::from).chain(second.frames.into_iter().map(Entry::from));
    let [served, frame, other] = timeline_entries();
    assert_eq!(entries.collect::<Vec<_>>(), [served, other, frame]);
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
fn comparisons_are_left_out_when_files_are_merged() {
    let root = root();
    for number in 0..4 {
        super::maintenance::one_run(root.path(), |stash| {
            let part = stash.device(&header()).unwrap();
            assert!(part.put(Kind::Artifact, &key(number), vec![1; 40].into_boxed_slice()));
        });
    }
    let folder = root.path().join(app().folder).join(format!("device-{}", header().short_digest()));
    fs::copy(golden("comparison-v2.vks"), folder.join("0000000000000000-00000001-0000000000000000.vks"))
        .unwrap();
    let has_any = || {
        let stash = open(root.path());
        stash.device(&header()).unwrap().has_any(Kind::Estimates)
    };
    assert!(has_any());
    super::maintenance::run(root.path());
    assert!(!has_any());
    let stash = open(root.path());
    let part = stash.device(&header()).unwrap();
    assert!((0..4).all(|number| part.contains(Kind::Artifact, &key(number))));
}

#[test]
fn every_version_stays_readable() {
    ["v1", "v2"].into_iter().for_each(stays_readable);
}

fn stays_readable(version: &str) {
    let root = root();
    let stash = open(root.path());
    let device = stash.device(&header()).unwrap();
    drop((stash, device));
    let application = root.path().join(app().folder);
    let device_folder = application.join(format!("device-{}", header().short_digest()));
    fs::copy(golden(&format!("portable-{version}.vks")), application.join("portable/a.vks")).unwrap();
    fs::copy(golden(&format!("device-{version}.vks")), device_folder.join("a.vks")).unwrap();
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
