//! Verifying and repairing stashes.

use std::fs;
use std::os::unix::fs::FileExt;

use rustix::io::Errno;

use crate::format::refusal::Refusal;
use crate::format::sizes::{FIRST_RECORD, FOOTER_BYTES, RECORD_HEADER_BYTES};
use crate::maintenance::verify::{Fault, Repair, Request, Verified, verify};
use crate::tests::bit_flips::{build, with_a_file};
use crate::tests::damage::device_folder;
use crate::tests::disk::faults;
use crate::tests::folders::set_mode;
use crate::tests::processes::in_a_child;
use crate::tests::*;
use vkstash_host::disk::faults::{self as disk_faults, Op};

const COUNT: u64 = 40;
const ALL: Request<'_> = Request { application: None, contents: None, repair: false };
const REPAIR: Request<'_> = Request { repair: true, ..ALL };

fn verified(root: &Path, request: Request<'_>) -> Verified {
    let mut told = Vec::new();
    let verified = verify(root, &request, &mut |read, total| told.push((read, total))).unwrap();
    assert!(told.is_sorted() && told.last().is_none_or(|&(read, total)| read == total), "{told:?}");
    verified
}

fn flip(path: &Path, bit: u64) {
    let file = fs::File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, bit / 8).unwrap();
    byte[0] ^= 1 << (bit % 8);
    file.write_all_at(&byte, bit / 8).unwrap();
}

fn good(root: &Path) -> u64 {
    count_good(open(root).portable(), Kind::Recipe, 0..COUNT)
}

#[test]
fn a_whole_stash_is_whole_and_is_not_touched() {
    let root = root();
    assert_eq!(verified(&root.path().join("missing"), ALL).applications, 0);
    let segment = filled(root.path(), COUNT);
    let before = (fs::read(&segment).unwrap(), fs::metadata(&segment).unwrap().modified().unwrap());
    for request in [ALL, REPAIR, Request { contents: Some(|_, _, _| Some(true)), ..REPAIR }] {
        let found = verified(root.path(), request);
        assert_eq!((found.applications, found.files, found.records), (1, 1, COUNT));
        assert_eq!(found.bytes, before.0.len() as u64);
        assert!(found.bad.is_empty(), "{:?}", found.bad);
    }
    let after = (fs::read(&segment).unwrap(), fs::metadata(&segment).unwrap().modified().unwrap());
    assert_eq!(before, after);
}

/// What a program misses, verifying must name; and a repair costs one record at most. That is also one whose header is
/// damaged, which a program finds by the index as long as the segment is not merged.
#[test]
fn a_flipped_bit_that_costs_a_record_is_found_and_repaired() {
    let whole = root();
    let segment = filled(whole.path(), COUNT);
    let relative = segment.strip_prefix(whole.path()).unwrap().to_owned();
    let bits = fs::metadata(&segment).unwrap().len() * 8;
    let mut numbers = Numbers(7);
    let places = (0..150 / one_of(3)).map(|_| numbers.next() % bits);
    // The header and the first record's header, and the end of the file.
    let ends = (0..(FIRST_RECORD + RECORD_HEADER_BYTES) as u64 * 8).chain(bits - 600 * 8..bits);
    let ends = ends.step_by(13 * one_of(3) as usize);
    let mut lost = 0;
    for bit in places.chain(ends) {
        let copy = root();
        let damaged = copy.path().join(&relative);
        fs::create_dir_all(damaged.parent().unwrap()).unwrap();
        fs::copy(&segment, &damaged).unwrap();
        flip(&damaged, bit);
        let found = verified(copy.path(), ALL);
        assert!(found.bad.iter().all(|bad| bad.state == Repair::Left), "bit {bit}: {:?}", found.bad);
        let there = good(copy.path());
        assert!(there == COUNT || !found.bad.is_empty(), "bit {bit}: {} records lost unseen", COUNT - there);
        lost += COUNT - there;
        let repaired = verified(copy.path(), REPAIR);
        let faults = repaired.bad.iter().map(|bad| (&bad.fault, bad.state));
        assert!(faults.clone().all(|(_, state)| state == Repair::Repaired), "bit {bit}: {:?}", repaired.bad);
        assert!(verified(copy.path(), ALL).bad.is_empty(), "bit {bit}: damage is left");
        assert!(good(copy.path()) >= COUNT - 1, "bit {bit}");
    }
    assert!(lost > 0, "no bit has cost a record");
}

/// A file that was sealed is told from one whose writer died, wherever it was cut and whatever of its end is damaged.
#[test]
fn a_sealed_file_that_lost_its_end_is_named_with_the_number_of_lost_records() {
    let root = root();
    let segment = filled(root.path(), COUNT);
    let whole = fs::read(&segment).unwrap();
    let footer = whole.len() - FOOTER_BYTES;
    let cuts =
        (0..970).map(|number| 1 + number * (whole.len() - 1) / 970).map(|length| whole[..length].to_vec());
    let flips = (footer..whole.len()).map(|at| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        bytes
    });
    let (mut cut, mut refused, mut lost_some) = (0, 0, 0);
    for bytes in cuts.chain(flips) {
        fs::write(&segment, &bytes).unwrap();
        let found = verified(root.path(), ALL);
        let [bad] = &found.bad[..] else { panic!("{} bytes: {:?}", bytes.len(), found.bad) };
        match bad.fault {
            Fault::Cut(lost) => {
                assert_eq!(lost, COUNT - found.records, "{} bytes", bytes.len());
                (cut, lost_some) = (cut + 1, lost_some + u64::from(lost > 0));
            }
            Fault::Refused(_) if bytes.len() < FIRST_RECORD => refused += 1,
            ref fault => panic!("{} bytes: {fault:?}", bytes.len()),
        }
    }
    assert!(cut + refused > 1000 && lost_some > 500, "{cut} {refused} {lost_some}");
    let found = verified(root.path(), REPAIR);
    assert_eq!(found.bad[0].state, Repair::Repaired);
    assert!(verified(root.path(), ALL).bad.is_empty());
    assert_eq!(good(root.path()), COUNT);
}

/// That of a killed writer has no end, and is whole.
#[test]
fn a_file_without_an_end_whose_writer_died_is_whole() {
    let root = root();
    let orphan = with_a_file(root.path());
    fs::write(&orphan, build(12, 5, false).bytes).unwrap();
    assert!(verified(root.path(), ALL).bad.is_empty());
}

#[test]
fn a_record_that_its_key_does_not_name_goes_and_an_older_one_counts_again() {
    let root = root();
    let write = |payload: &[u8]| {
        assert!(open(root.path()).portable().put(Kind::Recipe, &key(0), payload.into()));
    };
    filled(root.path(), COUNT);
    let before = payload_of(root.path());
    write(b"something else");
    fn is_true(_: Kind, of: &Key, payload: &[u8]) -> Option<bool> {
        (*of == key(0)).then(|| payload != b"something else")
    }
    let request = Request { contents: Some(is_true), ..ALL };
    assert!(verified(root.path(), ALL).bad.is_empty(), "its checksum is right");
    let found = verified(root.path(), request);
    assert_eq!(found.bad.iter().map(|bad| &bad.fault).collect::<Vec<_>>(), [&Fault::Untrue(1)]);
    let repaired = verified(root.path(), Request { repair: true, ..request });
    assert_eq!(repaired.bad[0].state, Repair::Repaired);
    assert!(verified(root.path(), request).bad.is_empty());
    assert_eq!(payload_of(root.path()), before);
}

fn payload_of(root: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    assert!(open(root).portable().read(Kind::Recipe, &key(0), &mut bytes));
    bytes
}

#[test]
fn foreign_files_are_named_and_stay() {
    let root = root();
    let segment = filled(root.path(), COUNT);
    let foreign = segment.with_file_name("00000000000000ff-0123456789abcdef.vks");
    fs::write(&foreign, vec![b'x'; 4096]).unwrap();
    let found = verified(root.path(), REPAIR);
    let bad: Vec<_> = found.bad.iter().map(|bad| (bad.fault.clone(), bad.state)).collect();
    assert_eq!(bad, [(Fault::Refused(Refusal::NotASegment), Repair::Left)]);
    assert_eq!(found.records, COUNT);
    assert!(foreign.exists());
}

/// What programs do not use must not pass for whole.
#[test]
fn what_is_no_file_or_no_folder_of_the_user_alone_is_named() {
    let root = root();
    let segment = filled(root.path(), COUNT);
    let stash = open(root.path());
    put_all(&stash.device(&header()).unwrap(), Kind::Artifact, 0..3);
    drop(stash);
    assert!(verified(root.path(), ALL).bad_folders.is_empty());

    fs::create_dir(segment.with_file_name("00000000000000aa-0123456789abcdef.vks")).unwrap();
    let link = segment.with_file_name("00000000000000ab-0123456789abcdef.vks");
    std::os::unix::fs::symlink(&segment, link).unwrap();
    let device = device_folder(root.path(), &header());
    set_mode(&device, 0o777);
    std::os::unix::fs::symlink(root.path(), root.path().join("another")).unwrap();
    let found = verified(root.path(), REPAIR);
    assert!(found.bad.len() == 2 && found.bad.iter().all(|bad| bad.state == Repair::Left), "{:?}", found.bad);
    assert!(found.bad.iter().all(|bad| matches!(bad.fault, Fault::Refused(_))), "{:?}", found.bad);
    let named = found.bad_folders.iter().map(|bad| bad.folder.rsplit('/').next().unwrap());
    let device = device.file_name().unwrap().to_str().unwrap();
    assert_eq!(named.collect::<Vec<_>>(), ["another", device], "{:?}", found.bad_folders);
}

/// As where a header is written while the folder is read.
#[test]
fn a_read_that_fails_once_makes_no_segment_a_foreign_one() {
    in_a_child("a_read_that_fails_once_makes_no_segment_a_foreign_one", &[], || {
        let root = root();
        let stash = open(root.path());
        put_all(&stash.device(&header()).unwrap(), Kind::Artifact, 0..3);
        drop(stash);
        for n in 1.. {
            let fault = disk_faults::Fault::Error(Errno::IO);
            faults::begin(faults::Plan::Nth { fault, op: Some(Op::Read), n, on: false });
            let found = verified(root.path(), ALL);
            let has_struck = !faults::end().is_empty();
            assert!(found.bad.iter().all(|bad| bad.fault == Fault::Unread), "{n}: {:?}", found.bad);
            if !has_struck {
                assert!(n > 2 && found.bad.is_empty());
                break;
            }
        }
    });
}

#[test]
fn a_segment_that_is_being_written_is_read_and_not_repaired() {
    let root = root();
    let stash = open(root.path());
    for number in 0..COUNT {
        assert!(stash.portable().put(Kind::Recipe, &key(number), vec![7; 300].into()));
    }
    flush_all(&stash);
    let found = verified(root.path(), REPAIR);
    assert_eq!((found.records, found.bad.len()), (COUNT, 0));
    let files: Vec<_> = segments(root.path());
    let length = fs::metadata(&files[0]).unwrap().len();
    flip(&files[0], (length - 300) * 8);
    let found = verified(root.path(), REPAIR);
    assert_eq!(found.bad.iter().map(|bad| bad.state).collect::<Vec<_>>(), [Repair::InUse]);
}

#[test]
fn one_application_can_be_asked_for() {
    let root = root();
    filled(root.path(), COUNT);
    let folder = app().folder;
    assert_eq!(verified(root.path(), Request { application: Some(&folder), ..ALL }).records, COUNT);
    assert_eq!(verified(root.path(), Request { application: Some("another"), ..ALL }).applications, 0);
}

/// `cargo test --release -p vkstash-store --lib what_verifying_costs -- --ignored --nocapture`
#[test]
#[ignore = "prints figures"]
fn what_verifying_costs() {
    let root = root();
    let stash = open(root.path());
    for number in 0..50_000 {
        let length = 1000 + (number as usize * 37) % 8000;
        assert!(stash.portable().put(Kind::Artifact, &key(number), noise(number, length)));
        if number % 1000 == 0 {
            flush_all(&stash);
        }
    }
    drop(stash);
    let files = segments(root.path());
    let plain = |digest: &mut dyn FnMut(&[u8])| {
        let began = Instant::now();
        files.iter().for_each(|file| digest(&fs::read(file).unwrap()));
        began.elapsed()
    };
    for round in 0..5 {
        let began = Instant::now();
        let found = verified(root.path(), ALL);
        let verified = began.elapsed();
        assert!(found.bad.is_empty() && found.records == 50_000, "{found:?}");
        let mut crc = 0;
        let with_crc = plain(&mut |bytes| crc ^= crc32c::crc32c(bytes));
        let mut sha = <sha2::Sha256 as sha2::Digest>::new();
        let with_sha = plain(&mut |bytes| sha2::Digest::update(&mut sha, bytes));
        let times = |other: Duration| verified.as_secs_f64() / other.as_secs_f64();
        println!(
            "{round}: {} MB verified in {verified:?}: {:.2} of reading with CRC-32C, {:.2} with SHA-256 ({crc:x})",
            found.bytes / 1_000_000,
            times(with_crc),
            times(with_sha),
        );
    }
}
