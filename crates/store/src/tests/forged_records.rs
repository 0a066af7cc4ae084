//! Forged record headers with good checksums inside a payload. If the record around them is damaged, the reader finds
//! them while it looks for the next record; they must not hide the records that follow.

use std::fs;
use std::ops::Range;

use crate::format::file::{FileHeader, PartIdentity};
use crate::format::footer::encode_end;
use crate::format::record_header::{IndexEntry, Stored, encode_record};
use crate::format::sizes::{FILE_MAGIC, FIRST_RECORD, FOOTER_MAGIC, MAX_PAYLOAD, RECORD_HEADER_BYTES};
use crate::format::table::Row;
use crate::stash::inspect::list_applications;
use crate::tests::bit_flips::with_a_file;
use crate::tests::*;

fn tag() -> [u8; 8] {
    PartIdentity::Portable.tag()
}

/// The header of a record that does not exist.
fn forged(stored: u32) -> [u8; RECORD_HEADER_BYTES] {
    let (key, kind) = (key(1 << 40), Kind::Recipe as u8);
    IndexEntry { key, offset: 0, stored, length: stored, crc: 7, kind, codec: 0 }.encode_header(tag())
}

struct File {
    bytes: Vec<u8>,
    /// Record `number` has key `number`, this place and this payload.
    records: Vec<(Range<usize>, Vec<u8>)>,
    end: usize,
}

/// A file of these payloads.
fn file(payloads: Vec<Vec<u8>>, sealed: bool) -> File {
    let identity = PartIdentity::Portable;
    let header = FileHeader { identity, created_unix_ms: 1, serial: 2 };
    let mut bytes = header.encode().to_vec();
    bytes.resize(FIRST_RECORD, 0);
    let (mut records, mut rows) = (Vec::new(), Vec::new());
    for (number, payload) in (0..).zip(payloads) {
        let entry =
            encode_record(&mut bytes, 0, tag(), Kind::Recipe as u8, &key(number), Stored::plain(&payload));
        let start = entry.offset as usize;
        records.push((start..start + RECORD_HEADER_BYTES + payload.len(), payload));
        rows.push(Row::of(&entry));
    }
    let end = bytes.len();
    if sealed {
        bytes.extend(encode_end(&header, end as u64, &rows));
        // With a damaged index the reader has to look for the records.
        bytes[end + RECORD_HEADER_BYTES + 20] ^= 1;
    }
    File { bytes, records, end }
}

impl File {
    /// Damages the header of a record.
    fn hit(&mut self, number: usize) {
        let start = self.records[number].0.start;
        self.bytes[start] ^= 0x80;
    }

    /// All records but these are there, before the file is sealed and afterwards.
    fn check(&self, root: &Path, path: &Path, gone: &[usize], what: &str) {
        fs::write(path, &self.bytes).unwrap();
        let read = |how: &str| {
            let stash = open(root);
            let mut buffer = Vec::new();
            for (number, (_, payload)) in self.records.iter().enumerate() {
                let there = stash.portable().read(Kind::Recipe, &key(number as u64), &mut buffer);
                assert!(!there || buffer == *payload, "{what}, {how}: wrong bytes for record {number}");
                assert!(there || gone.contains(&number), "{what}, {how}: record {number} is lost");
            }
            stash
        };
        let stash = read("unsealed");
        assert!(stash.report().damaged_records > 0, "{what}");
        assert!(stash.portable().put(Kind::Layout, &key(1), Box::new([1])));
        drop(stash);
        let [application] = list_applications(root).unwrap().try_into().unwrap();
        let part = &application.parts[0];
        assert_eq!(part.sealed, part.segments, "{what}");
        let after = fs::read(path).unwrap();
        for (number, (place, _)) in self.records.iter().enumerate() {
            let kept = after.get(place.clone()) == Some(&self.bytes[place.clone()]);
            assert!(kept || gone.contains(&number), "{what}: record {number} was cut off");
        }
        drop(read("sealed"));
        segments(root).iter().for_each(|path| fs::remove_file(path).unwrap());
    }
}

const COUNT: usize = 12;

/// Records of which `number` has `forged` in its payload, at a place where a header may be.
fn around(number: usize, forged: &[u8], sealed: bool) -> File {
    let mut payloads: Vec<Vec<u8>> = (0..COUNT as u64).map(|number| payload(number).into_vec()).collect();
    payloads[number] = vec![0x55; 80];
    payloads[number].extend_from_slice(forged);
    payloads[number].extend_from_slice(&[0x55; 100]);
    let mut file = file(payloads, sealed);
    file.hit(number);
    file
}

/// Tries what `forged` makes of a distance, for the distance to the start of each later record, and for others.
fn try_everywhere(what: &str, forged: impl Fn(usize) -> Vec<u8>) {
    let root = root();
    let path = with_a_file(root.path());
    for sealed in [false, true] {
        for number in [0, 5, COUNT - 2] {
            let size = forged(0).len();
            let template = around(number, &vec![0; size], sealed);
            let start = template.records[number].0.start + RECORD_HEADER_BYTES + 80;
            let starts = template.records[number + 1..].iter().map(|(place, _)| place.start);
            let ends = [
                template.end,
                template.bytes.len(),
                template.bytes.len() + 8,
                start + (MAX_PAYLOAD as usize),
            ];
            for end in starts.flat_map(|start| [start, start + 24]).chain(ends) {
                let file = around(number, &forged(end - start), sealed);
                assert_eq!(file.end, template.end);
                let what = format!("{what} of record {number} up to {end}, sealed: {sealed}");
                file.check(root.path(), &path, &[number], &what);
            }
        }
    }
}

#[test]
fn a_forged_header_in_a_damaged_record_hides_nothing() {
    try_everywhere("a head", |distance| {
        forged((distance - distance.min(RECORD_HEADER_BYTES)) as u32).to_vec()
    });
}

#[test]
fn a_whole_forged_record_makes_no_later_one_trusted() {
    try_everywhere("a head behind a record", |distance| {
        let mut bytes = Vec::new();
        encode_record(&mut bytes, 0, tag(), Kind::Recipe as u8, &key(1 << 41), Stored::plain(&[9; 16]));
        let stored = distance.saturating_sub(bytes.len() + RECORD_HEADER_BYTES);
        bytes.extend(forged(stored as u32));
        bytes
    });
}

#[test]
fn a_forged_end_of_the_file_hides_nothing() {
    for (magic, back) in [(FOOTER_MAGIC, 200), (FILE_MAGIC, 120)] {
        let root = root();
        let path = with_a_file(root.path());
        let mut last = vec![0x55; 400];
        let mut payloads: Vec<Vec<u8>> = (0..3).map(|number| payload(number).into_vec()).collect();
        // After it there is one record, and less than a footer or a header takes.
        payloads.push(Vec::new());
        let at = last.len() + RECORD_HEADER_BYTES - back;
        last.splice(at..at + 8, magic);
        payloads[2] = last;
        let mut file = file(payloads, false);
        file.hit(2);
        file.check(root.path(), &path, &[2], &format!("{magic:x?}"));
    }
}

#[test]
fn a_forged_header_in_the_place_of_a_record_is_not_the_end_of_the_file() {
    let root = root();
    let path = with_a_file(root.path());
    let mut file = file((0..COUNT as u64).map(|number| payload(number).into_vec()).collect(), false);
    // In the place of a record's header, as if an old block of the disk had come back.
    let start = file.records[4].0.start;
    file.bytes[start..start + RECORD_HEADER_BYTES].copy_from_slice(&forged(MAX_PAYLOAD));
    file.check(root.path(), &path, &[4], "a head in the place of another");
}

#[test]
fn bits_flipped_between_forged_headers_cost_the_records_that_they_hit() {
    let root = root();
    let path = with_a_file(root.path());
    let first = first_seed();
    for seed in first..first + seeds(100) {
        let mut numbers = Numbers(seed);
        let sealed = numbers.next() % 2 == 0;
        let payloads = (0..60).map(|number| {
            let mut payload = payload(number).into_vec();
            for _ in 0..numbers.next() % 4 {
                let at = (numbers.next() % (payload.len() as u64 / 8 + 1) * 8) as usize;
                let stored =
                    (numbers.next() % [300, 3000, 30_000, 1 << 26][(numbers.next() % 4) as usize]) as u32;
                let mut bytes = Vec::new();
                if numbers.next() % 3 == 0 {
                    encode_record(
                        &mut bytes,
                        0,
                        tag(),
                        Kind::Recipe as u8,
                        &key(1 << 41),
                        Stored::plain(&[9; 16]),
                    );
                }
                bytes.extend(forged(stored));
                payload.splice(at..at, bytes);
            }
            payload
        });
        let mut file = file(payloads.collect(), sealed);
        let whole = file.bytes.clone();
        for _ in 0..64 {
            let record = &file.records[(numbers.next() % 60) as usize].0;
            let at = record.start + (numbers.next() % RECORD_HEADER_BYTES as u64) as usize;
            file.bytes[at] ^= 1 << (numbers.next() % 8);
        }
        let is_hit = |place: &Range<usize>| file.bytes[place.clone()] != whole[place.clone()];
        let gone: Vec<usize> = (0..60).filter(|&number| is_hit(&file.records[number].0)).collect();
        file.check(root.path(), &path, &gone, &format!("seed {seed}"));
    }
}

/// Bytes that this thread has read.
pub(crate) fn bytes_read() -> u64 {
    let io = fs::read_to_string("/proc/thread-self/io").unwrap();
    io.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap().parse().unwrap()
}

#[test]
fn a_file_of_forged_headers_is_read_a_bounded_number_of_times() {
    let root = root();
    let path = with_a_file(root.path());
    let length = 8 << 20;
    let mut headers = Vec::new();
    while headers.len() < length {
        headers.extend(forged((length - headers.len()) as u32));
    }
    let file = around(3, &headers, false);
    fs::write(&path, &file.bytes).unwrap();
    let before = bytes_read();
    let stash = open(root.path());
    let read = bytes_read() - before;
    let length = length as u64;
    assert!((length..(72 << 20) + 8 * length).contains(&read), "{read} bytes read of {length}");
    assert!(stash.portable().contains(Kind::Recipe, &key(2)));
}
