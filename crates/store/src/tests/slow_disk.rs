//! Slow disks, and programs without descriptors: the program's thread waits for a bounded time until the stash is open,
//! and nothing is written twice because of that.

use std::fs;
use std::time::Instant;

use rustix::io::Errno;

use crate::disk::faults;
use crate::disk::faults::{Fault, Plan};
use crate::disk::op::Op;
use crate::tests::processes::in_a_child;
use crate::tests::*;

/// The limits of a program, but with no limit at its end.
const PROGRAM: WaitLimits = WaitLimits { end: LONG, helper: LONG, ..WaitLimits::PROGRAM };

const KINDS: [Kind; 4] = [Kind::Module, Kind::Recipe, Kind::Layout, Kind::Setup];

/// What a run of a program records: the same in each, and one thing of its own.
fn record(stash: &Stash, run: u64) {
    let device = stash.device(&header()).unwrap();
    for kind in KINDS {
        put_all(stash.portable(), kind, 0..10);
    }
    put_all(&device, Kind::Artifact, 0..10);
    assert!(device.put(Kind::IdentifierPair, &key(0), Box::new([1; 32])));
    assert!(device.put(Kind::Verified, &key(0), Box::default()));
    assert!(device.put(Kind::Failed, &key(1), Box::new([1])));
    assert!(device.put(Kind::Failed, &key(2), Box::new([run as u8])));
    assert!(stash.portable().put(Kind::Recipe, &key(100 + run), payload(100 + run)));
}

/// How many records a first run writes, and a later one that does not see what is there.
const FIRST: u64 = 4 * 10 + 10 + 5;
const LATER: u64 = 2;

fn expect(root: &Path, runs: u64) {
    let stash = open(root);
    let device = stash.device(&header()).unwrap();
    for kind in KINDS {
        assert_eq!(count_good(stash.portable(), kind, 0..10), 10);
    }
    assert_eq!(count_good(stash.portable(), Kind::Recipe, 100..100 + runs), runs);
    assert_eq!(count_good(&device, Kind::Artifact, 0..10), 10);
    let mut failed = Vec::new();
    assert!(device.read(Kind::Failed, &key(2), &mut failed));
    assert_eq!(failed, [runs as u8 - 1]);
}

#[test]
fn a_program_waits_for_one_slow_call_when_its_stash_is_opened_and_writes_nothing_twice() {
    in_a_child(
        "a_program_waits_for_one_slow_call_when_its_stash_is_opened_and_writes_nothing_twice",
        &[],
        || {
            let root = root();
            for run in 0..4 {
                faults::begin(Plan::Slow);
                let stash = open_within(root.path(), PROGRAM);
                let device = stash.device(&header()).unwrap();
                assert_eq!(faults::calls(), 1, "{run}: the first call takes longer than all of it may");
                assert!(device.is_incomplete() && stash.portable().is_incomplete(), "{run}");
                record(&stash, run);
                assert_eq!(count_good(&device, Kind::Artifact, 0..10), 10, "held records can be read");
                assert!(!stash.flush(Duration::from_millis(100)), "{run}: nothing can be written");
                assert_eq!(stash.report().written_records, 0, "{run}");
                assert_eq!(stash.report().refused["put_off"], 2);
                assert_eq!(faults::calls(), 1, "{run}: and nothing more is asked of the disk");
                faults::end();
                flush_all(&stash);
                assert_eq!(stash.report().written_records, if run == 0 { FIRST } else { LATER }, "{run}");
                assert!(!device.is_incomplete(), "{run}");
                drop((device, stash));
                expect(root.path(), run + 1);
            }
        },
    );
}

#[test]
fn records_of_a_short_program_are_compared_and_written_in_the_background() {
    in_a_child("records_of_a_short_program_are_compared_and_written_in_the_background", &[], || {
        let root = root();
        for run in 0..4 {
            faults::begin(Plan::Slow);
            let stash = open_within(root.path(), WaitLimits::PROGRAM);
            stash.set_reporter(Box::new(|_| Default::default()));
            let device = Arc::downgrade(&stash.device(&header()).unwrap());
            record(&stash, run);
            let began = Instant::now();
            drop(stash);
            assert!(began.elapsed() < LONG, "{run}: it would wait for ever");
            faults::end();
            await_that("the writer is done", || device.upgrade().is_none());
            let inspected = crate::stash::inspect::list_applications(root.path()).unwrap();
            let records = |kind: Kind| -> u64 {
                inspected[0].parts.iter().filter_map(|part| part.records.get(kind.name())).sum()
            };
            assert_eq!((records(Kind::Artifact), records(Kind::Module)), (10, 10), "{run}");
            expect(root.path(), run + 1);
        }
    });
}

#[test]
fn a_stash_that_turns_out_to_be_unusable_late_takes_no_records_and_says_why() {
    in_a_child("a_stash_that_turns_out_to_be_unusable_late_takes_no_records_and_says_why", &[], || {
        use std::os::unix::fs::PermissionsExt;
        let root = root();
        drop(open(root.path()));
        let folder = root.path().join(app().folder);
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        faults::begin(Plan::Slow);
        let stash = open_within(root.path(), PROGRAM);
        assert!(stash.portable().put(Kind::Recipe, &key(1), payload(1)));
        faults::end();
        await_that("it is found out", || !stash.report().unusable.is_empty());
        assert!(stash.report().unusable.contains("can be written to by others"), "{:?}", stash.report());
        assert!(!stash.portable().put(Kind::Recipe, &key(2), payload(2)));
        stash.flush(Duration::from_secs(5));
        assert!(stash.report().dropped >= 2);
        drop(stash);
        assert!(segments(root.path()).is_empty());
        // If it is found in time, opening fails.
        assert!(Stash::open_patiently(root.path(), &app()).is_err());
    });
}

/// A program at its limit of descriptors, or of memory, when it first needs the stash.
#[test]
fn a_stash_is_opened_once_a_descriptor_is_free() {
    in_a_child("a_stash_is_opened_once_a_descriptor_is_free", &[], || {
        let root = root();
        {
            let stash = open(root.path());
            record(&stash, 0);
        }
        for (op, n) in [(Op::Open, 5), (Op::Stat, 5), (Op::List, 2)]
            .into_iter()
            .flat_map(|(op, times)| (1..=times).map(move |n| (op, n)))
        {
            let error = [Errno::MFILE, Errno::NFILE, Errno::NOMEM][n as usize % 3];
            faults::begin(Plan::Nth { fault: Fault::Error(error), op: Some(op), n, on: false });
            let stash =
                Stash::open(root.path(), &app()).unwrap_or_else(|error| panic!("{op:?} {n}: {error}"));
            let device = stash.device(&header()).unwrap_or_else(|error| panic!("{op:?} {n}: {error}"));
            await_that("it is tried again", || !device.is_incomplete() && !stash.portable().is_incomplete());
            faults::end();
            assert_eq!(count_good(&device, Kind::Artifact, 0..10), 10, "{op:?} {n}");
            assert_eq!(count_good(stash.portable(), Kind::Module, 0..10), 10, "{op:?} {n}");
            let report = stash.report();
            assert!(report.refused.keys().all(|reason| reason == "put_off"), "{op:?} {n}: {report:?}");
            assert_eq!((&*report.unusable, report.dropped), ("", 0), "{op:?} {n}: {report:?}");
        }
    });
}
