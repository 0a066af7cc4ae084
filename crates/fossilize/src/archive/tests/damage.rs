//! Archives that are damaged, cut, still written, or none at all.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;

use proptest::prelude::*;
use rustix::fs::{FileType, Mode};

use super::super::inflate::deflate;
use super::super::layout::{EMPTY, HEADER, MAGIC, NAME, VERSION};
use super::super::{Damage, MAX_PAYLOAD, OpenError, Reader, Tag};
use super::{Archive, Entries, few, read, written};

/// An entry whose header claims what it likes.
fn raw(tag: &str, hash: u64, header: [u32; 4], stored: &[u8]) -> Vec<u8> {
    let mut bytes = format!("{tag:0>24}{hash:016x}").into_bytes();
    bytes.extend(header.iter().flat_map(|field| field.to_le_bytes()));
    bytes.extend(stored);
    bytes
}

fn archive_of(entries: &[Vec<u8>]) -> Archive {
    Archive::of(&[&MAGIC[..], &[VERSION], &entries.concat()].concat())
}

/// Mostly entries, with sizes that are mostly true.
fn any_content() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let size = || prop_oneof![0..40u32, any::<u32>()];
    let bytes = |most| prop::collection::vec(any::<u8>(), 0..most);
    let entry = (0..13u8, 0..3u64, (size(), 0..4u32, 0..2u32, size()), bytes(40)).prop_map(
        |(tag, hash, (stored, flags, crc, size), bytes)| {
            let stored = if stored % 4 != 0 { bytes.len() as u32 } else { stored };
            raw(&format!("{tag:x}"), hash, [stored, flags, crc, size], &bytes)
        },
    );
    prop::collection::vec(prop_oneof![entry, bytes(80)], 0..8)
}

proptest! {
    #[test]
    fn any_content_is_read_without_a_panic(content in any_content()) {
        let reader = archive_of(&content).open().unwrap();
        let (intact, damaged) = read(&reader);
        prop_assert_eq!(intact.len() as u64 + damaged, reader.entries().len() as u64);
    }
}

#[test]
fn a_cut_archive_has_the_entries_before_the_cut() {
    let entries = few();
    let bytes = written(&entries);
    let ends: Vec<usize> = (0..=entries.len())
        .map(|many| written(&entries.clone().into_iter().take(many).collect()).len())
        .collect();
    for length in 0..=bytes.len() {
        let opened = Archive::of(&bytes[..length]).open();
        let Some(complete) = ends.iter().rposition(|&end| end <= length) else {
            assert!(matches!(opened, Err(OpenError::TooShort { .. })), "{length} bytes");
            continue;
        };
        let reader = opened.unwrap();
        let wanted: Entries = entries.clone().into_iter().take(complete).collect();
        assert_eq!(read(&reader), (wanted, 0), "{length} bytes");
        assert_eq!(reader.skipped().tail, (length - ends[complete]) as u64, "{length} bytes");
    }
}

/// An entry is intact, or it is counted, or its name is another one: names are not covered by the CRC.
#[test]
fn a_flipped_bit_never_changes_a_payload() {
    let entries = few();
    let bytes = written(&entries);
    for (at, bit) in (0..bytes.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << bit;
        let Ok(reader) = Archive::of(&flipped).open() else {
            assert!(at < MAGIC.len() + 1, "byte {at}, bit {bit}");
            continue;
        };
        let (intact, damaged) = read(&reader);
        let mut renamed = 0;
        for (name, payload) in &intact {
            match entries.get(name) {
                Some(original) => assert_eq!(payload, original, "byte {at}, bit {bit}"),
                None => {
                    assert!(entries.values().any(|original| original == payload), "byte {at}, bit {bit}");
                    renamed += 1;
                }
            }
        }
        let lost = entries.keys().filter(|name| !intact.contains_key(name)).count();
        let told = damaged + reader.skipped().entries() + renamed;
        assert!(lost == 0 || told > 0, "byte {at}, bit {bit}: {lost} entries are lost without a word");
    }
}

#[test]
fn unknown_tags_are_counted_by_number() {
    let archive = archive_of(&[
        raw("b", 1, [2, 1, 0, 2], b"{}"),
        raw("b", 2, [2, 1, 0, 2], b"{}"),
        raw("100000000000000000000004", 3, [2, 1, 0, 2], b"{}"),
        raw("1", 4, [2, 1, 0, 2], b"{}"),
    ]);
    let reader = archive.open().unwrap();
    assert_eq!(read(&reader), (Entries::from([((Tag::Sampler, 4), b"{}".to_vec())]), 0));
    assert_eq!(reader.skipped().unknown_tags, BTreeMap::from([(11, 2), ((1 << 92) + 4, 1)]));

    let many: Vec<_> = (0..100).map(|tag| raw(&format!("{:x}", 1000 + tag), 1, [0, 1, 0, 0], b"")).collect();
    let archive = archive_of(&many);
    let skipped = archive.open().unwrap().skipped().clone();
    assert_eq!((skipped.unknown_tags.len(), skipped.other_unknown, skipped.entries()), (64, 36, 100));
}

#[test]
fn what_cannot_be_an_entry_is_counted() {
    let archive = archive_of(&[
        raw("1", 1, [2, 1, 0, 2], b"ok"),
        raw("1", 1, [2, 1, 0, 2], b"2!"),
        raw("x", 2, [2, 1, 0, 2], b"{}"),
        raw("1", 3, [2, 0, 0, 2], b"{}"),
        raw("1", 4, [2, 3, 0, 2], b"{}"),
        raw("1", 5, [2, 1, 0, 3], b"{}"),
        raw("1", 6, [2, 2, 0, 2], b"{}"),
        raw("1", 7, [2, 1, 5, 2], b"{}"),
    ]);
    let reader = archive.open().unwrap();
    let skipped = reader.skipped();
    assert_eq!((skipped.duplicates, skipped.malformed_names, skipped.malformed_headers), (1, 1, 3));
    assert_eq!(skipped.entries(), 5);
    assert_eq!(read(&reader), (Entries::from([((Tag::Sampler, 1), b"ok".to_vec())]), 2));
    let damage = |hash| reader.read(reader.find(Tag::Sampler, hash).unwrap()).unwrap_err();
    assert!(matches!(damage(6), Damage::Inflate { stated: 2 }));
    assert!(matches!(damage(7), Damage::Crc { stated: 5, .. }));
}

#[test]
fn a_stream_of_another_size_is_damaged() {
    let payload = b"ab".repeat(40);
    let stored = deflate(&payload).unwrap();
    let length = stored.len() as u32;
    for (claimed, cut, intact) in
        [(80, 0, true), (79, 0, false), (81, 0, false), (0, 0, false), (80, 1, false)]
    {
        let stored = &stored[..stored.len() - cut];
        let archive = archive_of(&[raw("4", 1, [length - cut as u32, 2, 0, claimed], stored)]);
        let (entries, damaged) = read(&archive.open().unwrap());
        assert_eq!((entries.len(), damaged), (usize::from(intact), u64::from(!intact)), "{claimed} {cut}");
    }
}

#[test]
fn claims_of_four_gib_are_not_believed() {
    let huge = u32::MAX;
    let archive = archive_of(&[
        raw("1", 1, [2, 2, 0, huge], b"{}"),
        raw("1", 2, [2, 1, 0, huge], b"{}"),
        raw("1", 3, [2, 1, 0, 2], b"{}"),
        raw("1", 4, [huge, 1, 0, huge], b"{}"),
    ]);
    let reader = archive.open().unwrap();
    assert_eq!((reader.skipped().malformed_headers, reader.skipped().tail), (2, (NAME + HEADER + 2) as u64));
    assert_eq!(read(&reader).0.len(), 1);

    // A file that has so many bytes, none of them on the disk.
    let archive = archive_of(&[raw("1", 1, [huge, 1, 0, huge], b"")]);
    let mut file = fs::File::options().append(true).open(&archive.path).unwrap();
    file.set_len(file.metadata().unwrap().len() + u64::from(huge)).unwrap();
    file.write_all(&raw("1", 2, [2, 1, 0, 2], b"{}")).unwrap();
    let reader = archive.open().unwrap();
    assert_eq!((reader.skipped().too_large, reader.skipped().tail), (1, 0));
    assert_eq!(read(&reader).0.len(), 1);
}

#[test]
fn the_largest_payload_is_read_and_no_larger_one() {
    for (size, too_large) in [(MAX_PAYLOAD, 0), (MAX_PAYLOAD + 1, 1)] {
        let archive = archive_of(&[raw("1", 1, [size, 1, 0, size], b"")]);
        let file = fs::File::options().append(true).open(&archive.path).unwrap();
        file.set_len(file.metadata().unwrap().len() + u64::from(size)).unwrap();
        let reader = archive.open().unwrap();
        assert_eq!(reader.skipped().too_large, too_large);
        let (intact, damaged) = read(&reader);
        assert_eq!((intact.len() as u64, damaged), (1 - too_large, 0));
        assert!(intact.values().all(|payload| payload.len() == size as usize));
    }
}

#[test]
fn entries_over_the_limit_are_counted() {
    let archive = Archive::of(&written(&few()));
    let reader = Reader::open_up_to(&archive.path, 3).unwrap();
    assert_eq!((reader.entries().len(), reader.skipped().over_limit), (3, 1));
}

#[test]
fn an_archive_that_grows_has_the_entries_of_its_opening() {
    let entries = few();
    let bytes = written(&entries);
    let archive = Archive::of(&bytes[..EMPTY as usize]);
    let mut file = fs::File::options().append(true).open(&archive.path).unwrap();
    let mut readers = vec![archive.open().unwrap()];
    for byte in &bytes[EMPTY as usize..] {
        file.write_all(&[*byte]).unwrap();
        readers.push(archive.open().unwrap());
    }
    let mut most = 0;
    for reader in &readers {
        let (intact, damaged) = read(reader);
        assert_eq!((intact.len(), damaged), (reader.entries().len(), 0));
        assert!(intact.iter().all(|(name, payload)| entries[name] == *payload));
        assert!(intact.len() >= most);
        most = intact.len();
    }
    assert_eq!(most, entries.len());
}

#[test]
fn an_archive_that_is_cut_while_it_is_read_is_damaged() {
    let archive = Archive::of(&written(&few()));
    let reader = archive.open().unwrap();
    fs::File::options().write(true).open(&archive.path).unwrap().set_len(EMPTY + 60).unwrap();
    let (intact, damaged) = read(&reader);
    assert_eq!((intact.len(), damaged), (1, 3));
}

#[test]
fn what_is_no_file_is_refused_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo.foz");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).unwrap();
    for path in [folder.path(), &fifo] {
        let error = Reader::open(path).unwrap_err();
        let wanted =
            format!("{} is not a regular file: an archive of Fossilize (.foz) is wanted", path.display());
        assert_eq!(error.to_string(), wanted);
    }
    let missing = Reader::open(&folder.path().join("missing.foz")).unwrap_err().to_string();
    assert!(missing.contains("missing.foz cannot be opened: ") && !missing.contains('\n'), "{missing}");
    let other = Archive::of(b"a text that is longer than 16 bytes").open().unwrap_err().to_string();
    assert!(
        other.ends_with("is not an archive of Fossilize: its first 16 bytes are not those of a .foz file")
    );
}
