//! Files that take long to read. Holes and lengths that no writer makes are not read at all, and the program does not
//! wait for the others.

use std::fs;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use rustix::io::Errno;

use crate::format::checkpoint::CheckpointPointer;
use crate::format::file::{FileHeader, PartIdentity};
use crate::format::footer::{Footer, Tally};
use crate::format::sizes::{FIRST_RECORD, HEADER_BYTES, MAX_PAYLOAD};
use crate::part::admission::Admission;
use crate::reports::model::RunReport;
use crate::reports::runs;
use crate::stash::inspect::list_applications;
use crate::tests::bit_flips::{build, with_a_file};
use crate::tests::disk::faults;
use crate::tests::disk::faults::Plan;
use crate::tests::forged_records::bytes_read;
use crate::tests::processes::in_a_child;
use crate::tests::watched;
use crate::tests::*;
use vkstash_host::disk::faults::{Fault, Op};

const COUNT: u64 = 50;

/// A program that waits neither at opening nor for a refresh.
const HASTY: WaitLimits =
    WaitLimits { opening: Duration::ZERO, refresh: Duration::ZERO, ..WaitLimits::UNLIMITED };

fn open_hastily(root: &Path) -> Arc<Stash> {
    open_within(root, HASTY)
}

/// Runs `body` and returns how many bytes it has read.
fn reads<T>(body: impl FnOnce() -> T) -> (u64, T) {
    let before = bytes_read();
    let done = body();
    (bytes_read() - before, done)
}

#[test]
fn a_sparse_tail_of_any_length_is_not_read() {
    for (length, checkpoints) in [(8_u64 << 30, true), (8 << 30, false), (1 << 40, true), (1 << 40, false)] {
        let root = root();
        let path = with_a_file(root.path());
        let built = build(COUNT, if checkpoints { 20 } else { 1000 }, false);
        fs::write(&path, &built.bytes).unwrap();
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_len(length).unwrap();
        // There are data in the middle of the hole, which are read.
        file.write_all_at(&[0x55; 100_000], 1 << 30).unwrap();
        file.write_all_at(&[0x55; 100_000], length - 200_000).unwrap();
        let (read, stash) = reads(|| open(root.path()));
        assert!(read < 4 << 20, "{read} bytes read to open a file of {length}");
        assert_eq!(count_good(stash.portable(), Kind::Recipe, 0..COUNT), COUNT);
        let (read, applications) = reads(|| list_applications(root.path()).unwrap());
        assert!(read < 4 << 20, "{read} bytes read to list a file of {length}");
        assert_eq!(applications[0].parts[0].records["recipe"], COUNT);
        // The next writer cuts the tail off.
        assert!(stash.portable().put(Kind::Layout, &key(1), Box::new([1])));
        drop(stash);
        assert!(fs::metadata(&path).unwrap().len() < 1 << 20);
        assert_eq!(count_good(open(root.path()).portable(), Kind::Recipe, 0..COUNT), COUNT);
    }
}

#[test]
fn lengths_and_counts_in_a_long_file_are_not_believed() {
    let identity = PartIdentity::Portable;
    let tag = identity.tag();
    let header = FileHeader { identity, created_unix_ms: 1, serial: 2 };
    let built = build(COUNT, 1000, false);
    // An index of so many blocks, and checkpoints with so many records.
    let blocks = u32::MAX;
    let index_offset = built.bytes.len() as u64;
    let length = index_offset + 64 + u64::from(blocks) * 4096 + 128 + 256;
    let footer = Footer { index_offset, count: u32::MAX, blocks, tag, tally: Tally::default() };
    let pointer = CheckpointPointer { offset: index_offset, count: u32::MAX };
    for sealed in [true, false] {
        let root = root();
        let path = with_a_file(root.path());
        let mut bytes = built.bytes.clone();
        if !sealed {
            bytes[HEADER_BYTES..][..16].copy_from_slice(&pointer.encode());
        }
        assert!(bytes.len() > FIRST_RECORD);
        fs::write(&path, &bytes).unwrap();
        let file = fs::File::options().write(true).open(&path).unwrap();
        // A file system without files of that length cannot have such a file.
        let _ = file.set_len(length);
        if sealed {
            let _ = file.write_all_at(&header.encode(), length - 384);
            let _ = file.write_all_at(&footer.encode(), length - 256);
        }
        watched::forget();
        let (read, stash) = reads(|| open(root.path()));
        assert!(watched::largest() <= MAX_PAYLOAD as usize, "{} bytes at once", watched::largest());
        assert!(read < 4 << 20, "{read} bytes read");
        assert_eq!(count_good(stash.portable(), Kind::Recipe, 0..COUNT), COUNT);
    }
}

#[test]
fn a_file_that_takes_too_long_is_read_in_the_background() {
    let root = root();
    let path = with_a_file(root.path());
    let built = build(COUNT, 1000, false);
    let mut bytes = built.bytes.clone();
    bytes.resize(32 << 20, 0x55);
    fs::write(&path, &bytes).unwrap();
    // The program's thread reads the first bytes at most.
    let (read, stash) = reads(|| open_hastily(root.path()));
    assert!(read < 1 << 20, "{read} bytes read by the program's thread");
    assert_eq!(stash.report().refused.get("put_off"), Some(&1));
    let part = stash.portable();
    await_that("the file is read", || count_good(part, Kind::Recipe, 0..COUNT) == COUNT);
    assert_eq!(part.len(Kind::Recipe) as u64, COUNT);
    // The next processes need not read it.
    assert!(part.put(Kind::Layout, &key(1), Box::new([1])));
    drop(stash);
    assert!(fs::metadata(&path).unwrap().len() < 1 << 20);
}

#[test]
fn a_part_that_cannot_be_read_in_the_background_is_tried_again_later() {
    in_a_child("a_part_that_cannot_be_read_in_the_background_is_tried_again_later", &[], || {
        let root = root();
        let path = with_a_file(root.path());
        let mut bytes = build(COUNT, 1000, false).bytes;
        bytes.resize(32 << 20, 0x55);
        fs::write(&path, &bytes).unwrap();
        // The program has no time to list the folder, and the helper cannot.
        let (fault, op) = (Fault::Error(Errno::MFILE), Some(Op::List));
        faults::begin(Plan::Nth { fault, op, n: 1, on: true });
        let stash = open_hastily(root.path());
        // By then maintenance is done, and the writer is idle.
        std::thread::sleep(Duration::from_secs(8));
        await_that("the helper has tried", || faults::calls() > 0);
        let behind = stash.portable().view().is_behind();
        let tries = faults::end().len();
        assert!(behind, "the file has not been read");
        assert!((1..100).contains(&tries), "{tries} tries");
        await_that("the file is read", || count_good(stash.portable(), Kind::Recipe, 0..COUNT) == COUNT);
        await_that("nothing is left", || !stash.portable().view().is_behind());
    });
}

#[test]
fn the_damaged_index_of_a_long_file_is_replaced_in_the_background() {
    let root = root();
    let segment = filled(root.path(), 2000);
    let length = fs::metadata(&segment).unwrap().len();
    let file = fs::File::options().write(true).open(&segment).unwrap();
    for block in 1..=12 {
        file.write_all_at(&[0xAA; 16], length - 384 - block * 4096 + 100).unwrap();
    }
    let waits = WaitLimits { refresh: Duration::ZERO, ..WaitLimits::UNLIMITED };
    let stash = open_within(root.path(), waits);
    let part = stash.portable();
    assert!(!part.contains(Kind::Recipe, &key(0)), "it is not looked for by the program's thread");
    await_that("the heads are read", || part.contains(Kind::Recipe, &key(0)));
    assert_eq!(count_good(part, Kind::Recipe, 0..2000), 2000);
    assert_eq!(stash.report().damaged_records, 1);
}

#[test]
fn unverified_artifacts_wait_until_all_crash_counts_are_read() {
    let root = root();
    let stash = open(root.path());
    let device = stash.device(&header()).unwrap();
    put_all(&device, Kind::Artifact, 0..3);
    assert!(device.put(Kind::Verified, &key(0), Box::default()));
    assert!(device.put(Kind::CrashCount, &key(1), Box::new([2])));
    drop((device, stash));
    // The newest file takes long to read.
    let folder = root.path().join(app().folder).join(format!("device-{}", header().short_digest()));
    let [sealed] = files(&folder, "vks").try_into().unwrap();
    let bytes = fs::read(&sealed).unwrap();
    let late = folder.join("ffff000000000000-00000001-0000000000000001.vks");
    fs::write(&late, &bytes[..FIRST_RECORD]).unwrap();
    let file = fs::File::options().write(true).open(&late).unwrap();
    file.write_all_at(&vec![0x55; 64 << 20], FIRST_RECORD as u64).unwrap();

    let waits = WaitLimits { opening: Duration::from_millis(20), ..WaitLimits::UNLIMITED };
    let stash = open_within(root.path(), waits);
    let device = stash.device(&header()).unwrap();
    let of = |number| match device.admit(&key(number)) {
        Admission::Granted(_) => "yes",
        Admission::Quarantined => "never",
        Admission::NotYet => "not yet",
    };
    // On a busy machine that takes longer than opening may, too.
    await_that("the short file is read", || (of(0), of(1)) == ("yes", "never"));
    await_that("all is known", || {
        assert_eq!((of(0), of(1)), ("yes", "never"), "what is known holds");
        of(2) == "yes"
    });
}

/// The end of a program.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    /// The program closes the stash.
    Close,
    /// The program calls `leave` with the stash open, and its process goes on a little longer.
    Leave,
}

/// The file operations at the end of a program.
const ASKED_AT_THE_END: [Op; 12] = [
    Op::Write,
    Op::Remove,
    Op::Rename,
    Op::Open,
    Op::MakeFolder,
    Op::List,
    Op::Stat,
    Op::Space,
    Op::Truncate,
    Op::Stamp,
    Op::Lock,
    Op::Read,
];

/// If the disk does not answer, the program goes on; what is left is written when the disk answers again.
#[test]
fn nobody_waits_for_a_disk_that_stands_still() {
    in_a_child("nobody_waits_for_a_disk_that_stands_still", &[], || {
        // What was written before, and whether anything is left for the end.
        let ways = [(None, true), (Some(0), true), (Some(COUNT), true), (Some(COUNT), false), (None, false)];
        for op in ASKED_AT_THE_END {
            for (before, more) in ways {
                for end in [End::Close, End::Leave] {
                    end_on_a_disk_that_stands_still(op, before, more, end);
                }
            }
        }
    });
}

fn end_on_a_disk_that_stands_still(op: Op, before: Option<u64>, more: bool, end: End) {
    let what = format!("{op:?} {before:?} {more} {end:?}");
    let root = root();
    let stash = open(root.path());
    put_all(&stash.device(&header()).unwrap(), Kind::Artifact, 0..1);
    drop(stash);
    let device_folder = root.path().join(app().folder).join(format!("device-{}", header().short_digest()));
    let guards = || files(&device_folder, "vkg").len();
    let reports = || runs::read_all(&root.path().join(app().folder).join("runs"));

    let waits = WaitLimits { opening: LONG, refresh: LONG, guard: LONG, ..WaitLimits::PROGRAM };
    let stash = open_within(root.path(), waits);
    let held = Arc::new(());
    let reporter = held.clone();
    stash.set_reporter(Box::new(move |store| {
        let _ = &reporter;
        RunReport { store, ..RunReport::default() }
    }));
    let device = stash.device(&header()).unwrap();
    // The artifact is unverified.
    assert!(matches!(device.admit(&key(0)), Admission::Granted(_)));
    assert_eq!(guards(), 1);
    if let Some(count) = before {
        put_all(stash.portable(), Kind::Recipe, 0..count);
        stash.touch();
        flush_all(&stash);
    }
    let (first, count) = (before.unwrap_or(0), if more { COUNT } else { 0 });
    // First, because the writer may be faster than this thread.
    faults::begin(Plan::Block { op });
    put_all(stash.portable(), Kind::Recipe, first..first + count);
    (first..first + count).for_each(|number| note_use(&stash, &key(number)));
    drop(device);
    // Without a limit it would wait for ever.
    let left = match end {
        End::Close => {
            drop(stash);
            None
        }
        End::Leave => {
            stash.leave();
            Some(stash)
        }
    };
    let all = first + count;
    let is_written = || {
        let stash = open(root.path());
        let is_there = |kind, number| stash.portable().contains(kind, &key(number));
        (0..all).all(|number| is_there(Kind::Recipe, number))
            && (first..all).all(|number| is_there(Kind::Use, number))
    };
    match op {
        Op::Remove => assert_eq!(guards(), 1, "{what}: nobody has waited for that"),
        Op::Write => assert!(count == 0 || !is_written(), "{what}"),
        _ => {}
    }
    faults::end();
    await_that(&format!("{what}: the rest is written"), is_written);
    await_that(&format!("{what}: what was handed out is not suspected"), || guards() == 0);
    drop(left);
    await_that(&format!("{what}: nobody asks for reports any more"), || Arc::strong_count(&held) == 1);
    let [report] = reports().try_into().unwrap();
    assert_eq!(report.store.dropped, 0, "{what}");
    assert_eq!(report.store.written_records, first + 2 * count, "{what}");
}

/// If everything was served, a program waits at its end for the uses, the index behind them and its seal, and one
/// report.
#[test]
fn the_end_of_a_served_run_writes_one_report() {
    in_a_child("the_end_of_a_served_run_writes_one_report", &[], || {
        let runs = |root: &Path| runs::read_all(&root.join(app().folder).join("runs"));
        let served = |root: &Path, op: Op| {
            let stash = open_within(root, WaitLimits { helper: Duration::ZERO, ..WaitLimits::UNLIMITED });
            stash.set_reporter(Box::new(|store| RunReport { store, ..RunReport::default() }));
            let device = stash.device(&header()).unwrap();
            // The first report is written when the run begins to count.
            let before = runs(root).len();
            stash.touch();
            await_that("the first report", || runs(root).len() > before);
            faults::begin(Plan::Counted { op });
            for number in 0..10 {
                assert!(stash.note_taken(&DeviceUses::of(0), &device, &key(number)));
            }
            drop((device, stash));
            let calls = faults::calls();
            faults::end();
            calls
        };
        let root = root();
        {
            let stash = open(root.path());
            put_all(&stash.device(&header()).unwrap(), Kind::Artifact, 0..10);
        }
        // From the second run on the artifacts are verified.
        served(root.path(), Op::Stamp);
        // A segment and a report are renamed when they are made; a segment is written three times, a report once.
        assert_eq!(served(root.path(), Op::Rename), 2);
        assert_eq!(served(root.path(), Op::Write), 4);
        assert_eq!(served(root.path(), Op::Truncate), 0);
        let newest = runs(root.path()).into_iter().map(|run| run.store.written_records).collect::<Vec<_>>();
        assert!(newest.contains(&10), "the last report has what was written: {newest:?}");
    });
}

#[test]
fn many_files_at_once_are_put_off_and_all_are_read() {
    let root = root();
    let path = with_a_file(root.path());
    let built = build(COUNT, 1000, false);
    for number in 0..300_u64 {
        let name = format!("{number:016x}-00000001-0000000000000001.vks");
        fs::write(path.with_file_name(name), &built.bytes).unwrap();
    }
    let (read, stash) = reads(|| open_hastily(root.path()));
    assert!(read < 1 << 20, "{read} bytes read by the program's thread");
    assert_eq!(stash.report().refused["put_off"], 1, "not even the folder is opened");
    let part = stash.portable();
    await_that("all files are read", || !part.view().is_behind());
    assert_eq!(part.view().segments().len(), 300);
    assert_eq!(count_good(part, Kind::Recipe, 0..COUNT), COUNT);
}

/// Measures how long opening takes a thread of the program: `cargo test --release -p vkstash-store --lib
/// tests::long_reads -- --ignored --nocapture`.
#[test]
#[ignore = "it measures"]
fn opening_times_of_a_program() {
    let measure = |what: &str, prepare: &dyn Fn(&Path)| {
        let root = root();
        let path = with_a_file(root.path());
        prepare(&path);
        let began = Instant::now();
        let stash = Stash::open(root.path(), &app()).unwrap();
        let opened = began.elapsed();
        let began = Instant::now();
        stash.portable().contains(Kind::Recipe, &key(1 << 50));
        let missed = began.elapsed();
        let began = Instant::now();
        await_that("all is read", || !stash.portable().view().is_behind());
        let rest = began.elapsed();
        assert!(stash.portable().put(Kind::Layout, &key(1), Box::new([1])));
        let began = Instant::now();
        drop(stash);
        println!(
            "{what}: opened in {:.2} ms, a miss {:.2} ms, the rest known after {:.0} ms, closed in {:.2} ms",
            opened.as_secs_f64() * 1e3,
            missed.as_secs_f64() * 1e3,
            rest.as_secs_f64() * 1e3,
            began.elapsed().as_secs_f64() * 1e3
        );
    };
    let built = build(COUNT, 1000, false);
    let sparse = |length: u64| {
        let bytes = built.bytes.clone();
        move |path: &Path| {
            fs::write(path, &bytes).unwrap();
            fs::File::options().write(true).open(path).unwrap().set_len(length).unwrap();
        }
    };
    measure("a sparse tail of 8 GiB", &sparse(8 << 30));
    measure("a sparse tail of 1 TiB", &sparse(1 << 40));
    measure("dense garbage, 1 GiB", &|path| {
        fs::write(path, &built.bytes).unwrap();
        let file = fs::File::options().write(true).open(path).unwrap();
        (1..=1024).for_each(|mib| file.write_all_at(&vec![0x55; 1 << 20], mib << 20).unwrap());
    });
    let long = build(130_000, 192, false);
    let several = |count: u64, bytes: &[u8]| {
        let bytes = bytes.to_vec();
        move |path: &Path| {
            for number in 0..count {
                let name = format!("{number:016x}-00000001-0000000000000001.vks");
                fs::write(path.with_file_name(name), &bytes).unwrap();
            }
        }
    };
    measure("one unsealed file of 130,000 records", &several(1, &long.bytes));
    measure("20 of them", &several(20, &long.bytes));
    let sealed = build(1000, 192, true);
    measure("100 sealed files", &several(100, &sealed.bytes));
    measure("20,000 sealed files", &several(20_000, &sealed.bytes[..]));
    measure("nothing", &|_| ());
}
