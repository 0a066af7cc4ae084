//! Dozens of flipped bits, and files cut at every length: no byte that is read is wrong, and only the records that were
//! hit are lost.

use std::fs;
use std::ops::Range;

use crate::format::checkpoint::{CheckpointPointer, POINTER_BYTES, encode_checkpoint};
use crate::format::file::{FileHeader, PartIdentity};
use crate::format::footer::encode_end;
use crate::format::record_header::{Stored, encode_record};
use crate::format::seal::Seal;
use crate::format::sizes::{
    CHECKPOINT_KIND, FIRST_RECORD, FOOTER_BYTES, HEADER_BYTES, INDEX_KIND, RECORD_HEADER_BYTES,
};
use crate::format::table::Row;
use crate::tests::*;

/// A segment of the portable part, and the place of everything in it.
pub(crate) struct Built {
    pub(crate) bytes: Vec<u8>,
    /// The header and the payload of each record, without the padding.
    pub(crate) records: Vec<Range<usize>>,
    /// Where the index, the header's copy and the footer start; the length of a file that is not sealed.
    pub(crate) end: usize,
}

/// Records 0 to `count` as recipes, a checkpoint after every `every` of them.
pub(crate) fn build(count: u64, every: usize, sealed: bool) -> Built {
    let identity = PartIdentity::Portable;
    let tag = identity.tag();
    let header = FileHeader { identity, created_unix_ms: 1, serial: 2 };
    let mut bytes = header.encode().to_vec();
    bytes.resize(FIRST_RECORD, 0);
    let (mut records, mut rows, mut listed, mut before, mut checkpoints) = (Vec::new(), Vec::new(), 0, 0, 0);
    for number in 0..count {
        let entry = encode_record(
            &mut bytes,
            0,
            tag,
            Kind::Recipe as u8,
            &key(number),
            Stored::plain(&payload(number)),
        );
        let start = entry.offset as usize;
        records.push(start..start + RECORD_HEADER_BYTES + entry.stored as usize);
        rows.push(Row::of(&entry));
        if rows.len() - listed == every {
            let payload = encode_checkpoint(before, &rows[listed..]);
            before = bytes.len() as u64;
            encode_record(&mut bytes, 0, tag, CHECKPOINT_KIND, &[0; 32], Stored::plain(&payload));
            let pointer = CheckpointPointer { offset: before, count: rows.len() as u32 }.encode();
            let slot = HEADER_BYTES + checkpoints % 2 * POINTER_BYTES;
            bytes[slot..slot + POINTER_BYTES].copy_from_slice(&pointer);
            (listed, checkpoints) = (rows.len(), checkpoints + 1);
        }
    }
    let end = bytes.len();
    if sealed {
        bytes.extend(encode_end(&header, end as u64, &rows));
        let seal = Seal { bytes: bytes.len() as u64, records: rows.len() as u32 }.encode();
        bytes[Seal::OFFSET as usize..][..seal.len()].copy_from_slice(&seal);
    }
    Built { bytes, records, end }
}

/// A stash whose portable part has one file, which the caller writes.
pub(crate) fn with_a_file(root: &Path) -> PathBuf {
    open(root);
    let folder = root.join(app().folder).join("portable");
    fs::DirBuilder::new().recursive(true).create(&folder).unwrap();
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    folder.join("0000000000000001-00000001-0000000000000001.vks")
}

/// Where bits are flipped.
#[derive(Clone, Copy, Debug)]
enum Zone {
    Anywhere,
    Heads,
    End,
}

/// The bytes of a zone.
fn places(built: &Built, zone: Zone) -> Vec<usize> {
    match zone {
        Zone::Anywhere => (FIRST_RECORD..built.end).collect(),
        Zone::Heads => {
            let heads =
                built.records.iter().flat_map(|record| record.start..record.start + RECORD_HEADER_BYTES);
            (0..FIRST_RECORD).chain(heads).collect()
        }
        // Without one there are the last records and the last checkpoint.
        Zone::End if built.end == built.bytes.len() => (built.end - 4000..built.end).collect(),
        Zone::End => (built.end..built.bytes.len()).collect(),
    }
}

/// The sums of all runs of one zone.
#[derive(Debug, Default)]
struct Sum {
    hit: usize,
    lost: usize,
}

/// Flips 64 bits and reads everything; only records that were hit may be missing.
fn damage(built: &Built, zone: Zone, seed: u64, root: &Path, file: &Path, sum: &mut Sum) {
    let places = places(built, zone);
    let mut numbers = Numbers(seed);
    let mut bytes = built.bytes.clone();
    for _ in 0..64 {
        let at = places[(numbers.next() % places.len() as u64) as usize];
        bytes[at] ^= 1 << (numbers.next() % 8);
    }
    fs::write(file, &bytes).unwrap();
    let hit: Vec<bool> =
        built.records.iter().map(|record| bytes[record.clone()] != built.bytes[record.clone()]).collect();
    sum.hit += hit.iter().filter(|&&hit| hit).count();

    let what = |number: u64, how: &str| format!("{zone:?}, seed {seed}: record {number} {how}");
    let check = |stash: &Stash| {
        let mut lost = 0;
        for (number, &hit) in (0..).zip(&hit) {
            // `count_good` fails on a wrong byte.
            let good = count_good(stash.portable(), Kind::Recipe, number..number + 1) == 1;
            assert!(good || hit, "{}", what(number, "was not hit and is lost"));
            lost += usize::from(!good);
        }
        assert!(stash.report().refused.is_empty(), "seed {seed}: {:?}", stash.report().refused);
        lost
    };
    // All records at once, on a stash that has not found the damage yet.
    let stash = open(root);
    let mut seen = std::collections::HashSet::new();
    stash.portable().for_each(Kind::Recipe, &mut |found, bytes| {
        let number = (0..built.records.len() as u64).find(|&number| key(number) == *found);
        let number = number.unwrap_or_else(|| panic!("seed {seed}: a key that nobody put"));
        assert!(*bytes == *payload(number), "{}", what(number, "has wrong bytes"));
        assert!(seen.insert(number), "{}", what(number, "comes twice"));
    });
    for (number, hit) in (0..).zip(&hit) {
        assert!(*hit || seen.contains(&number), "{}", what(number, "is passed over"));
    }
    drop(stash);
    let stash = open(root);
    let lost = check(&stash);
    assert!(lost == 0 || stash.report().damaged_records > 0, "seed {seed}: lost without being counted");
    sum.lost += lost;
    if seed % 8 == 0 {
        // The next writer gives a new end to a file without a good one, and no record is lost by that either.
        assert!(stash.portable().put(Kind::Layout, &key(1), Box::new([1])));
        drop(stash);
        check(&open(root));
        segments(root).iter().filter(|path| *path != file).for_each(|path| fs::remove_file(path).unwrap());
    }
}

fn harm_with_every_seed(zone: Zone) {
    let root = root();
    let file = with_a_file(root.path());
    let (sealed, unsealed) = (build(300, 64, true), build(300, 64, false));
    let mut sums = [Sum::default(), Sum::default()];
    let first = first_seed();
    for seed in first..first + seeds(200) {
        damage(&sealed, zone, seed, root.path(), &file, &mut sums[0]);
        damage(&unsealed, zone, seed, root.path(), &file, &mut sums[1]);
    }
    println!("{zone:?}: sealed {:?}, unsealed {:?}", sums[0], sums[1]);
    match zone {
        Zone::Anywhere | Zone::Heads => assert!(sums.iter().all(|sum| sum.hit > 0)),
        Zone::End => assert_eq!((sums[0].hit, sums[0].lost), (0, 0)),
    }
}

#[test]
fn bits_flipped_in_the_middle_cost_the_records_that_they_hit() {
    harm_with_every_seed(Zone::Anywhere);
}

#[test]
fn bits_flipped_in_headers_cost_the_records_that_they_hit() {
    harm_with_every_seed(Zone::Heads);
}

#[test]
fn bits_flipped_in_the_index_and_the_footer_cost_nothing() {
    harm_with_every_seed(Zone::End);
}

/// Cuts a file at every length: all whole records before the cut are read. Only what was sealed counts as damaged: the
/// writer of another file may have died there.
fn cut_everywhere(built: &Built) {
    let root = root();
    let file = with_a_file(root.path());
    let count = built.records.len() as u64;
    let is_sealed = built.end < built.bytes.len();
    for length in (0..=built.bytes.len()).rev() {
        let damaged = u64::from(is_sealed && (FIRST_RECORD..built.bytes.len()).contains(&length));
        fs::write(&file, &built.bytes[..length]).unwrap();
        let whole = built.records.iter().filter(|record| record.end <= length).count() as u64;
        let stash = open(root.path());
        assert_eq!(count_good(stash.portable(), Kind::Recipe, 0..whole), whole, "cut at {length}");
        assert_eq!(count_good(stash.portable(), Kind::Recipe, 0..count), whole, "cut at {length}");
        assert_eq!(stash.portable().len(Kind::Recipe) as u64, whole, "cut at {length}");
        assert_eq!(stash.report().damaged_records, damaged, "cut at {length}");
        if length % 31 == 0 && length >= HEADER_BYTES {
            assert!(stash.portable().put(Kind::Layout, &key(1), Box::new([1])));
            drop(stash);
            let stash = open(root.path());
            assert_eq!(count_good(stash.portable(), Kind::Recipe, 0..count), whole, "sealed at {length}");
            assert_eq!(stash.report().damaged_records, 0, "sealed at {length}");
            segments(root.path()).iter().for_each(|path| fs::remove_file(path).unwrap());
        }
    }
}

#[test]
fn a_sealed_file_cut_at_every_length_keeps_the_records_before_the_cut() {
    cut_everywhere(&build(8, 3, true));
}

#[test]
fn an_unsealed_file_cut_at_every_length_keeps_the_records_before_the_cut() {
    cut_everywhere(&build(12, 3, false));
}

#[test]
fn the_file_built_by_these_tests_equals_the_writers() {
    let root = root();
    let written = fs::read(filled(root.path(), 50)).unwrap();
    let built = build(50, usize::MAX, true);
    // All but the age and the serial number, in the header and in its copy, and their checksums.
    let copy = written.len() - FOOTER_BYTES - HEADER_BYTES;
    assert_eq!(written[HEADER_BYTES..copy], built.bytes[HEADER_BYTES..copy]);
    assert_eq!(written[copy + HEADER_BYTES..], built.bytes[copy + HEADER_BYTES..]);
    assert_eq!(written[built.end + 4], INDEX_KIND);
}
