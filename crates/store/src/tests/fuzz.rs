//! Random bytes as files, and good files that were changed and whose checksums were repaired. Nothing panics, no record
//! is read that was not put, and no memory is taken for a length before its bytes were read.

use std::fs;

use proptest::prelude::*;

use crate::format::bytes::{close_block, put_u32};
use crate::format::checkpoint::{CheckpointPointer, POINTER_BYTES, decode_checkpoint};
use crate::format::file::FileHeader;
use crate::format::footer::Footer;
use crate::format::record_header::{IndexEntry, payload_crc};
use crate::format::sizes::{
    CHECKPOINT_KIND, FIRST_RECORD, FOOTER_BYTES, HEADER_BYTES, INDEX_KIND, MAX_PAYLOAD, RECORD_HEADER_BYTES,
    RECORD_MAGIC,
};
use crate::format::table::{BLOCK_BYTES, Block};
use crate::stash::inspect::list_applications;
use crate::tests::bit_flips::{Built, build, with_a_file};
use crate::tests::watched;
use crate::tests::*;

const COUNT: u64 = 24;

/// Opens a stash with this file and reads all records, in every way.
fn use_it(root: &Path, file: &Path, bytes: &[u8], what: &str) {
    fs::write(file, bytes).unwrap();
    watched::forget();
    let stash = open(root);
    let part = stash.portable();
    // `count_good` fails on a wrong byte.
    count_good(part, Kind::Recipe, 0..COUNT + 2);
    let known: Vec<Key> = (0..COUNT).map(key).collect();
    for kind in Kind::ALL {
        part.len(kind);
        part.has_any(kind);
        part.for_each(kind, &mut |found, bytes| {
            let number = known.iter().position(|known| known == found);
            let number = number.unwrap_or_else(|| panic!("{what}: a key that nobody put")) as u64;
            assert!(*bytes == *payload(number), "{what}: wrong bytes for record {number}");
        });
    }
    drop(stash);
    list_applications(root).unwrap();
    // A compressed payload may be larger than its stored bytes by this factor.
    let compressed =
        |head: &[u8]| head.starts_with(&RECORD_MAGIC) && head.get(5).is_some_and(|&codec| codec != 0);
    let any = (0..bytes.len()).any(|at| compressed(&bytes[at..]));
    let limit = if any { MAX_PAYLOAD as usize } else { 4 * bytes.len() + (2 << 20) };
    let largest = watched::largest();
    assert!(largest <= limit, "{what}: {largest} bytes at once for a file of {}", bytes.len());
}

/// A number at a limit.
pub(crate) fn odd(numbers: &mut Numbers, near: u64) -> u64 {
    match numbers.next() % 6 {
        0 => 0,
        1 => u64::MAX,
        2 => near.wrapping_add(8),
        3 => near.wrapping_sub(8),
        4 => numbers.next() % (near + 1),
        _ => numbers.next() >> (numbers.next() % 64),
    }
}

/// Changes some bytes of a field.
pub(crate) fn spoil(numbers: &mut Numbers, bytes: &mut [u8], near: u64) {
    if bytes.len() < 8 {
        return;
    }
    let at = (numbers.next() % (bytes.len() as u64 / 4 - 1) * 4) as usize;
    let value = odd(numbers, near).to_le_bytes();
    let width = if numbers.next() % 2 == 0 { 4 } else { 8 };
    bytes[at..at + width].copy_from_slice(&value[..width]);
}

/// Changes the payload of a record that is not one of ours, and repairs its checksums.
fn spoil_payload(numbers: &mut Numbers, bytes: &mut [u8], head: usize) -> Option<()> {
    let length = bytes.len() as u64;
    let (entry, _) = IndexEntry::decode_header(bytes.get(head..)?.first_chunk()?, head as u64)?;
    // After pieces have been moved there may be a record of ours in its place.
    if !matches!(entry.kind, INDEX_KIND | CHECKPOINT_KIND) {
        return None;
    }
    let payload =
        bytes.get_mut(head + RECORD_HEADER_BYTES..head + RECORD_HEADER_BYTES + entry.stored as usize)?;
    spoil(numbers, payload, length);
    let crc = payload_crc(&entry.key, payload);
    put_u32(bytes, head + 56, crc);
    close_block(&mut bytes[head..head + RECORD_HEADER_BYTES]);
    Some(())
}

/// Makes one change, and repairs the checksums so that as much as possible of the file is read.
fn mutate(numbers: &mut Numbers, built: &Built, bytes: &mut Vec<u8>) {
    let length = bytes.len();
    let random = |numbers: &mut Numbers, below: usize| (numbers.next() % below.max(1) as u64) as usize;
    match numbers.next() % 11 {
        0 if length > 0 => {
            let at = random(numbers, length);
            bytes[at] ^= 1 << (numbers.next() % 8);
        }
        1 => bytes.truncate(random(numbers, length)),
        // Pieces are swapped, or come again elsewhere.
        2 | 3 if length > 1024 => {
            let (size, from) = (8 * (1 + random(numbers, 60)), 8 * random(numbers, length / 8 - 64));
            let to = 8 * random(numbers, length / 8 - 64);
            let piece = bytes[from..from + size].to_vec();
            if numbers.next() % 2 == 0 {
                let other = bytes[to..to + size].to_vec();
                bytes[from..from + size].copy_from_slice(&other);
                bytes[to..to + size].copy_from_slice(&piece);
            } else {
                bytes.splice(to..to, piece);
            }
        }
        4 if length >= HEADER_BYTES => {
            spoil(numbers, &mut bytes[8..HEADER_BYTES], length as u64);
            close_block(&mut bytes[..HEADER_BYTES]);
        }
        5 if length >= FIRST_RECORD => {
            let offset = odd(numbers, built.end as u64) & !7;
            let pointer = CheckpointPointer { offset, count: odd(numbers, COUNT) as u32 }.encode();
            let slot = HEADER_BYTES + random(numbers, 2) * POINTER_BYTES;
            bytes[slot..slot + POINTER_BYTES].copy_from_slice(&pointer);
        }
        6 => {
            let head = built.records[random(numbers, built.records.len())].start;
            if let Some(head) = bytes.get_mut(head..head + RECORD_HEADER_BYTES) {
                spoil(numbers, &mut head[4..60], length as u64);
                close_block(head);
            }
        }
        // Checkpoints and, in a sealed file, the index record: what stands behind a record of ours.
        7 => {
            let behind = built.records.iter().map(|record| record.end.next_multiple_of(8));
            let heads: Vec<_> =
                behind.filter(|at| !built.records.iter().any(|record| record.start == *at)).collect();
            if !heads.is_empty() {
                let head = heads[random(numbers, heads.len())];
                spoil_payload(numbers, bytes, head);
            }
        }
        // A block of the index, and the footer.
        8 | 9 if length > built.end + RECORD_HEADER_BYTES + BLOCK_BYTES => {
            let start = built.end + RECORD_HEADER_BYTES;
            let block = &mut bytes[start..start + BLOCK_BYTES];
            let used = 16 + 20 * (COUNT as usize + 1);
            spoil(numbers, &mut block[4..used], length as u64);
            let crc = crc32c::crc32c(&block[4..]);
            put_u32(block, 0, crc);
        }
        10 if length >= FOOTER_BYTES => {
            let footer = &mut bytes[length - FOOTER_BYTES..];
            spoil(numbers, &mut footer[8..FOOTER_BYTES - 4], length as u64);
            close_block(footer);
        }
        _ => {}
    }
}

#[test]
fn changed_files_whose_checksums_are_repaired_give_nothing_wrong() {
    let first = first_seed();
    let root = root();
    let file = with_a_file(root.path());
    let good = [build(COUNT, 5, true), build(COUNT, 5, false)];
    for seed in first..first + seeds(1500) {
        let mut numbers = Numbers(seed);
        let built = &good[(numbers.next() % 2) as usize];
        let mut bytes = built.bytes.clone();
        for _ in 0..1 + numbers.next() % 4 {
            mutate(&mut numbers, built, &mut bytes);
        }
        use_it(root.path(), &file, &bytes, &format!("seed {seed}"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn blocks_of_random_bytes_are_decoded_or_not(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..6000),
        magic in 0..4_usize,
    ) {
        let starts: [&[u8]; 4] = [b"", b"\x89VKS\r\n\x1a\n\x02\0\0\0\x80\0\0\0", b"\x89VKF\r\n\x1a\n", b"\x8bvkr"];
        let start = starts[magic];
        let length = start.len().min(bytes.len());
        bytes[..length].copy_from_slice(&start[..length]);
        for size in [RECORD_HEADER_BYTES, HEADER_BYTES, FOOTER_BYTES] {
            if let Some(block) = bytes.get_mut(..size) {
                close_block(block);
                let _ = FileHeader::decode(block);
                let _ = block.first_chunk().and_then(Footer::decode);
                let _ = block.first_chunk().and_then(|head| IndexEntry::decode_header(head, 8));
            }
        }
        let _ = FileHeader::decode(&bytes);
        let _ = CheckpointPointer::newest(&bytes);
        let rows = decode_checkpoint(&bytes).map_or(0, |(_, rows)| rows.count());
        prop_assert!(rows <= bytes.len() / 20);
        if let Some(block) = bytes.get_mut(..BLOCK_BYTES) {
            let crc = crc32c::crc32c(&block[4..]);
            put_u32(block, 0, crc);
            let rows = Block::check(block.to_vec()).map_or(0, |block| block.rows().count());
            prop_assert!(rows <= BLOCK_BYTES / 20);
        }
    }

    #[test]
    fn files_of_random_bytes_give_nothing(
        bytes in proptest::collection::vec(any::<u8>(), 0..20_000), head in any::<bool>(),
    ) {
        let root = root();
        let file = with_a_file(root.path());
        let mut bytes = bytes;
        if head {
            let start = build(1, 1, false).bytes;
            bytes.splice(0..0, start[..FIRST_RECORD].iter().copied());
        }
        use_it(root.path(), &file, &bytes, "random bytes");
    }
}
