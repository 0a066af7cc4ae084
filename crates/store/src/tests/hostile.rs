//! Files of an attacker that are no segments: guard files, reports, totals and compressed payloads, with repaired
//! checksums where they have one.

use std::fs;

use crate::codec::{decode_into, encode_module};
use crate::format::bytes::{close_block, put_u32};
use crate::format::codec::Codec;
use crate::format::table;
use crate::part::crash_guard;
use crate::reports::model::{BypassReport, DeviceReport, RunReport};
use crate::reports::runs;
use crate::reports::runs::{REPORT_MAGIC, TOTALS_MAGIC};
use crate::reports::totals;
use crate::reports::totals::Totals;
use crate::stash::inspect::list_applications;
use crate::tests::damage::device_folder;
use crate::tests::disk::faults;
use crate::tests::disk::faults::Plan;
use crate::tests::fuzz::{odd, spoil};
use crate::tests::processes::in_a_child;
use crate::tests::watched;
use crate::tests::*;
use crate::tests::{first_seed, seeds};
use vkstash_host::disk::faults::Op;
use vkstash_host::disk::folder::Folder;

/// Some bytes of the file change, or it is cut, or it grows.
fn change(numbers: &mut Numbers, bytes: &mut Vec<u8>, from: usize) {
    let length = bytes.len();
    match numbers.next() % 6 {
        0 => bytes.truncate((numbers.next() % (length as u64 + 1)) as usize),
        1 => bytes.extend((0..numbers.next() % 200).map(|number| number as u8)),
        2 if length > from => {
            let at = from + (numbers.next() % (length - from) as u64) as usize;
            bytes[at] ^= 1 << (numbers.next() % 8);
        }
        _ if length > from => spoil(numbers, &mut bytes[from..], length as u64),
        _ => {}
    }
}

#[test]
fn changed_guard_files_condemn_nothing_that_was_not_in_flight() {
    const BLOCK: usize = 64;
    let root = root();
    let stash = open(root.path());
    let device = stash.device(&header()).unwrap();
    put_all(&device, Kind::Artifact, 0..8);
    drop((stash, device));
    let folder = device_folder(root.path(), &header());
    let file = folder.join("00000001-0000000000000001.vkg");
    let mut good = vec![0; BLOCK * 65];
    good[..8].copy_from_slice(b"\x89VKG\r\n\x1a\n");
    put_u32(&mut good, 8, 1);
    put_u32(&mut good, 12, 64);
    for number in 0..4 {
        let block = &mut good[BLOCK * (1 + number)..][..BLOCK];
        put_u32(block, 0, 1);
        block[4..36].copy_from_slice(&key(number as u64));
    }
    good.chunks_exact_mut(BLOCK).take(5).for_each(close_block);

    let opened = Folder::root(&folder, false).unwrap();
    let first = first_seed();
    let mut named = 0;
    for seed in first..first + seeds(1000) {
        let mut numbers = Numbers(seed);
        let mut bytes = good.clone();
        for _ in 0..1 + numbers.next() % 3 {
            change(&mut numbers, &mut bytes, 0);
            if numbers.next() % 2 == 0 {
                bytes.chunks_exact_mut(BLOCK).take(5).for_each(close_block);
            }
        }
        fs::write(&file, &bytes).unwrap();
        watched::forget();
        let left = crash_guard::stale_guards(&opened, &|| false).unwrap();
        assert!(watched::largest() <= 2 << 20, "seed {seed}: {} bytes at once", watched::largest());
        for key in left.iter().flat_map(|left| &left.marks.keys) {
            assert!(bytes.windows(32).any(|window| window == key), "seed {seed}: a key of nobody's");
            named += 1;
        }
        assert!(left.iter().map(|left| left.marks.keys.len()).sum::<usize>() <= 64);
        if seed % 50 == 0 {
            let stash = open(root.path());
            let device = stash.device(&header()).unwrap();
            assert!((4..8).all(|number| device.crash_count(&key(number)) == 0), "seed {seed}");
            assert_eq!(count_good(&device, Kind::Artifact, 0..8), 8);
        }
    }
    assert!(named > 0);
}

fn a_report(number: u64) -> RunReport {
    let bypassed = vec![BypassReport { reason: "library".into(), s_type: 1, count: number }];
    let counters = [("served".into(), number), ("compiled".into(), u64::MAX - number)].into();
    let device =
        DeviceReport { name: "gpu".into(), part: "abc".into(), counters, bypassed, ..Default::default() };
    RunReport {
        application: "test".into(),
        program: "/opt/test".into(),
        started_unix_ms: 1000 + number,
        updated_unix_ms: u64::MAX,
        pid: 0x7fff_ffff,
        devices: vec![device],
        ..RunReport::default()
    }
}

/// A report or totals with a changed body and a repaired checksum.
fn changed(numbers: &mut Numbers, good: &[u8]) -> Vec<u8> {
    const HEAD: usize = 24;
    let mut bytes = good.to_vec();
    change(numbers, &mut bytes, HEAD);
    for _ in 0..numbers.next() % 4 {
        // Lengths and numbers of more than one byte start with one of the last five values.
        let at = HEAD + (numbers.next() % (bytes.len().max(HEAD + 1) - HEAD) as u64) as usize;
        if let Some(byte) = bytes.get_mut(at) {
            *byte = 251 + (numbers.next() % 5) as u8;
        }
    }
    if numbers.next() % 16 > 0 && bytes.len() >= HEAD {
        let (length, crc) = (bytes.len() - HEAD, crc32c::crc32c(&bytes[HEAD..]));
        put_u32(&mut bytes, 12, length as u32);
        put_u32(&mut bytes, 16, crc);
        let crc = crc32c::crc32c(&bytes[..20]);
        put_u32(&mut bytes, 20, crc);
    }
    if numbers.next() % 16 == 0 && bytes.len() >= HEAD {
        spoil(numbers, &mut bytes[8..HEAD], 4 << 20);
    }
    bytes
}

#[test]
fn changed_reports_and_totals_are_read_or_left_out() {
    let root = root();
    let runs_folder = root.path().join(app().folder).join("runs");
    drop(open(root.path()));
    let folder = Folder::shared(&runs_folder, true).unwrap();
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(&runs_folder, fs::Permissions::from_mode(0o700)).unwrap();
    let mut sum = Totals::default();
    (0..3).for_each(|number| sum.add(&a_report(number)));
    let report = runs::encode(REPORT_MAGIC, &a_report(7)).unwrap();
    let total = runs::encode(TOTALS_MAGIC, &sum).unwrap();
    let mut read = 0;
    let first = first_seed();
    for seed in first..first + seeds(1000) {
        let mut numbers = Numbers(seed);
        fs::write(runs_folder.join("run-1.vkr"), changed(&mut numbers, &report)).unwrap();
        fs::write(runs_folder.join("run-2.vkr"), changed(&mut numbers, &report)).unwrap();
        fs::write(runs_folder.join("totals.vkt"), changed(&mut numbers, &total)).unwrap();
        watched::forget();
        read += runs::read_all(&runs_folder).len();
        totals::read(&runs_folder);
        // bincode takes at most 1 MiB of memory before it has read anything.
        assert!(watched::largest() <= 5 << 20, "seed {seed}: {} bytes at once", watched::largest());
        if seed % 50 == 0 {
            list_applications(root.path()).unwrap();
            let many = |number: u64| runs_folder.join(format!("run-x{number}.vkr"));
            (0..70).for_each(|number| fs::write(many(number), changed(&mut numbers, &report)).unwrap());
            // Totals that cannot be read are begun anew.
            totals::fold(&folder).unwrap();
            (0..70).for_each(|number| {
                let _ = fs::remove_file(many(number));
            });
        }
    }
    assert!(read > 0);
}

/// Instructions of all shapes, with text.
fn module() -> Vec<u8> {
    let mut words = vec![0, 0x0723_0203, 0x0001_0500, 11, 4000, 0];
    for round in 0..400_u32 {
        let next = 100 + 4 * round;
        words.extend([4 << 16 | 5, next, 0x6E69_616D, 0, 4 << 16 | 43, 2, next + 1, 0x3F80_0000 + round]);
        words.extend([5 << 16 | 129, 2, next + 2, next + 1, 20 + round % 5, 3 << 16 | 62, next, next + 2]);
    }
    words.iter().flat_map(|word: &u32| word.to_le_bytes()).collect()
}

#[test]
fn hostile_compressed_payloads_are_decoded_or_refused() {
    let payload = module();
    let mut stored = Vec::new();
    assert_eq!(encode_module(&payload, &mut stored), Codec::Spirv);
    let filtered = zstd::bulk::decompress(&stored, payload.len()).unwrap();
    let (mut done, mut refused) = (0, 0);
    let first = first_seed();
    for seed in first..first + seeds(3000) {
        let mut numbers = Numbers(seed);
        let codec = [Codec::Plain, Codec::Zstd, Codec::Spirv][(numbers.next() % 3) as usize];
        let bytes = match numbers.next() % 4 {
            0 => (0..numbers.next() % 600).map(|_| numbers.next() as u8).collect(),
            1 => {
                let mut bytes = stored.clone();
                change(&mut numbers, &mut bytes, 0);
                bytes
            }
            // A valid zstd frame of streams that do not fit together.
            _ => {
                let mut bytes = filtered.clone();
                let from = [0, 24, 24][(numbers.next() % 3) as usize];
                (0..1 + numbers.next() % 3).for_each(|_| change(&mut numbers, &mut bytes, from));
                zstd::bulk::compress(&bytes, 1).unwrap()
            }
        };
        let length = match numbers.next() % 4 {
            0 => (odd(&mut numbers, payload.len() as u64) % (8 << 20)) as usize,
            _ => payload.len(),
        };
        watched::forget();
        let mut out = vec![7; (numbers.next() % 100) as usize];
        let outcome = decode_into(codec, &bytes, length, &mut out);
        assert_eq!(out.len(), if outcome.is_ok() { length } else { 0 }, "seed {seed}");
        assert!(
            watched::largest() <= length + (64 << 10),
            "seed {seed}: {} bytes at once",
            watched::largest()
        );
        *(if outcome.is_ok() { &mut done } else { &mut refused }) += 1;
    }
    assert!(done > 0 && refused > 0, "{done} decoded, {refused} refused");
}

/// Nothing of the hash function is secret, because hashes are in files: keys can be chosen so that all have one hash.
#[test]
fn keys_of_one_hash_cost_a_look_up_few_reads() {
    in_a_child("keys_of_one_hash_cost_a_look_up_few_reads", &[], || {
        let colliding = |number: u64| {
            let mut key = [0; 32];
            key[..8].copy_from_slice(&number.to_le_bytes());
            key[8..16].copy_from_slice(&number.rotate_right(17).to_le_bytes());
            key
        };
        assert_eq!(table::hash(3, &colliding(1)), table::hash(3, &colliding(999)));
        let (root, base) = (root(), root());
        for path in [root.path(), base.path()] {
            let stash = open(path);
            for number in 0..1000 {
                assert!(stash.portable().put(Kind::Recipe, &colliding(number), payload(number)));
            }
        }
        let own = tempfile::tempdir().unwrap();
        let with_base = || {
            let (bases, run) = (vec![base.path().to_owned()], Run::of_this_process());
            Stash::open_with_bases(own.path(), bases, &app(), run, WaitLimits::UNLIMITED).unwrap()
        };
        for stash in [open(root.path()), with_base()] {
            let (part, mut buffer) = (stash.portable(), Vec::new());
            // Reads what is read once.
            assert!(!part.read(Kind::Recipe, &key(5), &mut buffer));
            let found = (0..1000).filter(|number| part.read(Kind::Recipe, &colliding(*number), &mut buffer));
            assert!((1..1000).contains(&found.count()));
            // A look-up during which the part has taken a newer view of its files looks once more.
            let reads = [(); 3].map(|()| {
                faults::begin(Plan::Counted { op: Op::Read });
                assert!(!part.read(Kind::Recipe, &colliding(5000), &mut buffer));
                let reads = faults::calls();
                faults::end();
                reads
            });
            assert!(reads.iter().any(|&reads| reads <= 3 * 64), "{reads:?} reads");
        }
    });
}
