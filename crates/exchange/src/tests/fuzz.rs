//! Archives made to deceive: valid archives, changed, with every checksum repaired.

use super::numbers::{Numbers, first_seed, seeds};
use super::*;
use vkstash_model::recipe;
use vkstash_store::maintenance;

fn below(numbers: &mut Numbers, limit: usize) -> usize {
    (numbers.next() % limit.max(1) as u64) as usize
}

fn one_of(numbers: &mut Numbers, places: &[usize]) -> Option<usize> {
    let at = below(numbers, places.len());
    places.get(at).copied()
}

/// Offsets of tar headers.
fn headers(bytes: &[u8]) -> Vec<usize> {
    let is_header = |at: &usize| bytes[*at..].get(257..262) == Some(b"ustar");
    (0..bytes.len()).step_by(512).filter(is_header).collect()
}

/// Offsets of records.
fn records(bytes: &[u8]) -> Vec<usize> {
    (0..bytes.len()).step_by(8).filter(|&at| bytes[at..].starts_with(b"\x8bvkr")).collect()
}

fn repair_header(bytes: &mut [u8], at: usize) {
    bytes[at + 148..at + 156].fill(b' ');
    let sum: u64 = bytes[at..at + 512].iter().map(|&byte| u64::from(byte)).sum();
    bytes[at + 148..at + 156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

/// Repairs every checksum of a record, if the record is complete.
fn repair_record(bytes: &mut [u8], at: usize) {
    let stored = u32::from_le_bytes(bytes[at + 8..at + 12].try_into().unwrap()) as usize;
    if let Some(payload) = bytes.get(at + 64..at + 64 + stored) {
        let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[at + 24..at + 56]), payload);
        bytes[at + 56..at + 60].copy_from_slice(&crc.to_le_bytes());
    }
    let crc = crc32c::crc32c(&bytes[at..at + 60]);
    bytes[at + 60..at + 64].copy_from_slice(&crc.to_le_bytes());
}

fn mutate(numbers: &mut Numbers, bytes: &mut Vec<u8>) {
    let length = bytes.len();
    match below(numbers, 9) {
        0 if length > 0 => {
            let at = below(numbers, length);
            bytes[at] ^= 1 << below(numbers, 8);
        }
        1 => bytes.truncate(below(numbers, length)),
        // A range of blocks is repeated or removed.
        2 if length > 4096 => {
            let from = 512 * below(numbers, length / 512);
            let size = (512 * (1 + below(numbers, 6))).min(length - from);
            if below(numbers, 2) == 0 {
                bytes.drain(from..from + size);
            } else {
                let block = bytes[from..from + size].to_vec();
                let to = 512 * below(numbers, length / 512);
                bytes.splice(to..to, block);
            }
        }
        3 | 4 => {
            let Some(at) = one_of(numbers, &headers(bytes)).filter(|at| at + 512 <= length) else { return };
            // Name, size, type, prefix.
            let (start, width) = [(0, 100), (124, 12), (156, 1), (345, 155)][below(numbers, 4)];
            let place = at + start + below(numbers, width);
            bytes[place] = b"\0\xff./0-7LxgSKaz-vks"[below(numbers, 18)];
            repair_header(bytes, at);
        }
        kind => {
            let Some(at) = one_of(numbers, &records(bytes)).filter(|at| at + 64 <= length) else { return };
            let stored = u32::from_le_bytes(bytes[at + 8..at + 12].try_into().unwrap()) as usize;
            match kind {
                // Another kind, codec or length.
                5 => bytes[at + 4 + below(numbers, 12)] = numbers.next() as u8 >> below(numbers, 8),
                // Another key: that of another record, or a random one.
                6 => {
                    let from =
                        one_of(numbers, &records(bytes)).filter(|from| from + 64 <= length).unwrap_or(at);
                    bytes.copy_within(from + 24..from + 56, at + 24);
                    bytes[at + 24 + below(numbers, 32)] ^= u8::from(below(numbers, 3) == 0);
                }
                // Another payload.
                _ if stored > 0 && at + 64 + stored <= length => {
                    for _ in 0..1 + below(numbers, 4) {
                        bytes[at + 64 + below(numbers, stored)] = numbers.next() as u8;
                    }
                }
                _ => {}
            }
            repair_record(bytes, at);
        }
    }
}

#[test]
fn a_forged_archive_puts_no_wrong_record_into_the_stash() {
    let (first, seeds) = (first_seed(), seeds(300));
    let good = full_archive();
    let outer = root();
    let to = outer.path().join("stash");
    let mut taken = 0;
    for seed in first..first + seeds {
        let mut numbers = Numbers(seed);
        let mut bytes = good.clone();
        for _ in 0..1 + below(&mut numbers, 6) {
            mutate(&mut numbers, &mut bytes);
        }
        match import(&to, &*bytes, below(&mut numbers, 2) == 0) {
            Ok(imported) => {
                let counts = imported.applications.values().flat_map(|taken| taken.records.values());
                taken += counts.sum::<u64>();
            }
            Err(ImportError::Archive(_) | ImportError::Nothing) => {}
            Err(error) => panic!("seed {seed}: {error}"),
        }
        let outside = fs::read_dir(outer.path()).unwrap();
        let names: Vec<_> =
            outside.map(|entry| entry.unwrap().file_name()).filter(|name| name != "stash").collect();
        assert!(names.is_empty(), "seed {seed}: {names:?}");
        if !to.exists() {
            continue;
        }
        for entry in fs::read_dir(&to).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let app = AppName::of_folder(&name).unwrap_or_else(|| panic!("seed {seed}: {name}"));
            let stash = Stash::open_patiently(&to, &app).unwrap();
            for kind in Kind::ALL {
                stash.portable().for_each(kind, &mut |key, payload| match kind {
                    Kind::Use => assert!(stash.portable().contains(Kind::Recipe, key), "seed {seed}"),
                    _ => assert!(check::is_true(kind, key, payload), "seed {seed}: {kind:?}"),
                });
            }
            assert_eq!(stash.report().damaged_records, 0, "seed {seed}");
        }
        maintenance::run(&to, recipe::modules_of).unwrap();
        fs::remove_dir_all(&to).unwrap();
    }
    assert!(taken > 10 * seeds, "{taken} records came in");
}
