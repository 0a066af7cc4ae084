//! Slow disks, and programs without descriptors: the program's thread waits for a bounded time until the stash is open,
//! and nothing is written twice because of that.

use std::fs;
use std::time::Instant;

use rustix::io::Errno;

use crate::part::admission::Admission;
use crate::part::crash_guard::CrashGuard;
use crate::tests::disk::faults;
use crate::tests::disk::faults::Plan;
use crate::tests::processes::in_a_child;
use crate::tests::*;
use vkstash_host::disk::faults::{Fault, Op};
use vkstash_host::disk::folder::Folder;
use vkstash_host::forks as fork;

/// The limits of a program, but with no limit at its end.
const PROGRAM: WaitLimits = WaitLimits { end: LONG, helper: LONG, ..WaitLimits::PROGRAM };

const KINDS: [Kind; 4] = [Kind::Module, Kind::Recipe, Kind::Layout, Kind::DeviceConfiguration];

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

/// The most operations that a program's threads may begin within the time for opening, and the one under way.
fn most_calls(delay: Duration) -> u64 {
    (WaitLimits::PROGRAM.opening.as_micros() / delay.as_micros()) as u64 + 1
}

/// A part with so many segments.
fn many_segments(root: &Path, count: u64) {
    record(&open(root), 0);
    for segment in segments(root) {
        for number in 1..count / 2 {
            let name = format!("{number:016x}-00000001-{number:016x}.vks");
            fs::copy(&segment, segment.with_file_name(name)).unwrap();
        }
    }
}

#[test]
fn a_program_waits_for_few_calls_however_slow_each_is_and_however_many_segments_there_are() {
    in_a_child(
        "a_program_waits_for_few_calls_however_slow_each_is_and_however_many_segments_there_are",
        &[],
        || {
            let root = root();
            many_segments(root.path(), 1_000);
            for delay in [1, 20, 500].map(Duration::from_millis) {
                faults::begin(Plan::Delayed { delay });
                let stash = open_within(root.path(), PROGRAM);
                let device = stash.device(&header()).unwrap();
                let calls = faults::calls();
                assert!(calls <= most_calls(delay), "{delay:?}: {calls} calls");
                assert!(device.is_incomplete(), "{delay:?}");
                // A miss, and a request for an artifact: the disk is not asked by this thread.
                assert!(!device.contains(Kind::Artifact, &key(1_000_000)), "{delay:?}");
                assert_eq!(faults::calls(), calls, "{delay:?}");
                faults::end();
                await_that("the rest is read", || {
                    !device.is_incomplete() && !stash.portable().is_incomplete()
                });
                assert_eq!(count_good(&device, Kind::Artifact, 0..10), 10, "{delay:?}");
            }
        },
    );
}

#[test]
fn threads_that_ask_at_once_wait_for_the_same_opening() {
    in_a_child("threads_that_ask_at_once_wait_for_the_same_opening", &[], || {
        let root = root();
        record(&open(root.path()), 0);
        let delay = Duration::from_millis(20);
        faults::begin(Plan::Delayed { delay });
        let stash = open_within(root.path(), PROGRAM);
        let parts: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| stash.device(&header()).unwrap())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(faults::calls() <= most_calls(delay), "{} calls", faults::calls());
        assert!(parts.iter().all(|part| Arc::ptr_eq(part, &parts[0])));
        faults::end();
        await_that("the rest is read", || !parts[0].is_incomplete());
        assert_eq!(count_good(&parts[0], Kind::Artifact, 0..10), 10);
    });
}

/// Another thread of the process may be inside the disk, and hold locks, when the program forks or destroys its device.
#[test]
fn a_fork_and_an_end_during_opening_wait_for_nothing() {
    in_a_child("a_fork_and_an_end_during_opening_wait_for_nothing", &[], || {
        let root = root();
        record(&open(root.path()), 0);
        for round in 0..10 {
            // The helper waits inside the disk until the plan ends.
            faults::begin(Plan::Slow);
            let stash = open_within(root.path(), WaitLimits::PROGRAM);
            let device = stash.device(&header()).unwrap();
            stash.set_reporter(Box::new(|_| Default::default()));
            stash.touch();
            std::thread::sleep(Duration::from_millis(20 * round));
            // SAFETY: the child uses the stash as children of programs do, and ends with `_exit`.
            let child = unsafe { libc::fork() };
            if child == 0 {
                let puts = device.put(Kind::Recipe, &key(1), payload(1));
                let reads = device.read(Kind::Artifact, &key(1), &mut Vec::new());
                drop((device, stash));
                // SAFETY: ends the child without running the parent's handlers.
                unsafe { libc::_exit(i32::from(puts || reads)) };
            }
            let mut status = 0;
            // SAFETY: `child` is this process's child and `status` lives on this stack.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            assert_eq!(status, 0, "{round}: a child neither writes nor reads what was never read");
            let weak = Arc::downgrade(&device);
            drop((device, stash));
            faults::end();
            await_that("the layer's threads are done", || weak.upgrade().is_none());
        }
        expect(root.path(), 1);
    });
}

/// `Home` uses a folder that another process is about to remove, if that takes long.
#[test]
fn a_folder_that_somebody_has_locked_for_its_removal_is_used_and_stays() {
    let root = root();
    drop(open(root.path()));
    let folder = root.path().join(app().folder);
    fs::remove_dir_all(&folder).unwrap();
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let remover = fs::File::open(&folder).unwrap();
    rustix::fs::flock(&remover, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    let stash = open(root.path());
    record(&stash, 0);
    assert!(stash.flush(LONG));
    assert!(fs::remove_dir(&folder).is_err(), "it is not empty any more");
    drop(stash);
    expect(root.path(), 1);
    // Where it was removed before anything was created in it, this run records nothing, and the next one does.
    fs::remove_dir_all(&folder).unwrap();
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let remover = fs::File::open(&folder).unwrap();
    rustix::fs::flock(&remover, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    let home = crate::home::Home::new(root.path(), &app().folder);
    let opened = home.open().unwrap();
    fs::remove_dir(&folder).unwrap();
    assert!(opened.folder.sub("portable", true).is_err());
    drop(remover);
    record(&open(root.path()), 0);
    expect(root.path(), 1);
}

/// A stash with an artifact that no driver has taken.
fn unverified(root: &Path) -> Key {
    let stash = open(root);
    assert!(stash.device(&header()).unwrap().put(Kind::Artifact, &key(1), payload(1)));
    key(1)
}

fn guards(root: &Path) -> Vec<PathBuf> {
    files(&root.join(app().folder).join(format!("device-{}", header().short_digest())), "vkg")
}

fn is_granted(part: &Part, artifact: &Key) -> bool {
    matches!(part.admit(artifact), Admission::Granted(_))
}

#[test]
fn a_programs_thread_asks_nothing_of_the_disk_for_its_first_unverified_artifact() {
    in_a_child("a_programs_thread_asks_nothing_of_the_disk_for_its_first_unverified_artifact", &[], || {
        for op in [Op::Open, Op::Lock, Op::Rename, Op::Write] {
            let root = root();
            let artifact = unverified(root.path());
            let stash = open_within(root.path(), PROGRAM);
            let device = stash.device(&header()).unwrap();
            await_that("it is read", || !device.is_incomplete());
            // The thread that makes the guard file waits inside the disk.
            faults::begin(Plan::Block { op });
            assert!(
                !is_granted(&device, &artifact),
                "{op:?}: a process that died of it would leave no trace"
            );
            await_that("the file is being made", faults::has_held);
            assert!(!is_granted(&device, &artifact), "{op:?}");
            faults::end();
            await_that("it is used once the file is there", || is_granted(&device, &artifact));
            assert_eq!(guards(root.path()).len(), 1, "{op:?}");
            drop((device, stash));
            assert!(guards(root.path()).is_empty(), "{op:?}");
        }
    });
}

#[test]
fn the_writer_makes_the_guard_file_before_a_program_asks_for_an_unverified_artifact() {
    let root = root();
    let artifact = unverified(root.path());
    let stash = open(root.path());
    let device = stash.device(&header()).unwrap();
    assert!(guards(root.path()).is_empty(), "a program that makes nothing has none");
    stash.touch();
    await_that("the file is made", || !guards(root.path()).is_empty());
    assert!(device.put(Kind::Verified, &artifact, Box::default()));
    drop((device, stash));
    assert!(guards(root.path()).is_empty());

    let stash = open(root.path());
    let device = stash.device(&header()).unwrap();
    assert!(stash.portable().put(Kind::Recipe, &key(1), payload(1)));
    flush_all(&stash);
    assert!(is_granted(&device, &artifact) && guards(root.path()).is_empty(), "all are verified");
}

#[test]
fn a_program_waits_for_one_mark_on_a_disk_that_becomes_slow_and_for_none_on_one_that_is() {
    let test = "a_program_waits_for_one_mark_on_a_disk_that_becomes_slow_and_for_none_on_one_that_is";
    in_a_child(test, &[], || {
        // On a busy machine a fast disk must not seem slow.
        let (guard, delay) = (Duration::from_millis(300), Duration::from_millis(120));
        for was_slow in [false, true] {
            let root = root();
            let artifact = unverified(root.path());
            // This process did not end in an orderly way.
            let folder = root.path().join(app().folder).join(format!("device-{}", header().short_digest()));
            let opened = Arc::new(Folder::root(&folder, false).unwrap());
            drop(CrashGuard::create(&opened, fork::here(), LONG, true).unwrap());
            let stash = open_within(root.path(), WaitLimits { guard, ..PROGRAM });
            let device = stash.device(&header()).unwrap();
            await_that("it is read", || !device.is_incomplete());
            // Reads the index.
            assert!(!device.contains(Kind::Verified, &artifact));
            if was_slow {
                faults::begin(Plan::Delayed { delay });
                await_that("the file is made", || !is_granted(&device, &artifact) && device.has_guard());
                assert_eq!(faults::calls(), 0);
            } else {
                await_that("the file is made", || is_granted(&device, &artifact) && device.has_guard());
                faults::begin(Plan::Delayed { delay });
                let Admission::Granted(mark) = device.admit(&artifact) else { panic!("the disk was fast") };
                assert_eq!(faults::calls(), 1, "the call that is under way");
                let marked = || {
                    let [file] = guards(root.path()).try_into().unwrap();
                    fs::read(file).unwrap().windows(32).any(|bytes| bytes == artifact)
                };
                assert!(marked());
                drop(mark);
                assert_eq!(faults::calls(), 1, "the writer clears it");
                await_that("it is cleared", || !marked());
            }
            assert!(!is_granted(&device, &artifact), "it is not used unmarked");
            assert_eq!(faults::calls(), u64::from(!was_slow));
            faults::end();
        }
    });
}

#[test]
fn a_slow_look_for_new_files_is_not_repeated_soon() {
    in_a_child("a_slow_look_for_new_files_is_not_repeated_soon", &[], || {
        let root = root();
        record(&open(root.path()), 0);
        let stash = open_within(root.path(), PROGRAM);
        let device = stash.device(&header()).unwrap();
        await_that("it is read", || !device.is_incomplete());
        // Reads the index.
        assert!(!device.contains(Kind::Artifact, &key(1_000_000)));
        faults::begin(Plan::Delayed { delay: Duration::from_millis(20) });
        await_that("it is due", || {
            assert!(!device.contains(Kind::Artifact, &key(1_000_000)));
            faults::calls() > 0
        });
        let calls = faults::calls();
        assert_eq!(calls, 1, "the call that is under way");
        // The usual interval is 100 ms.
        std::thread::sleep(Duration::from_millis(150));
        assert!(!device.contains(Kind::Artifact, &key(1_000_000)));
        assert_eq!(faults::calls(), calls);
        faults::end();
    });
}
