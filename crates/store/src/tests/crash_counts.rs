//! Guard files of dead processes, and the processes that count them.

use std::mem::ManuallyDrop;
use std::sync::Barrier;
use std::time::Instant;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::part::admission::Admission;
use crate::part::crash_guard::{CrashGuard, Work};
use crate::stash::stopped::forgive;
use crate::tests::disk::faults;
use crate::tests::disk::faults::Plan;
use crate::tests::processes::in_a_child;
use crate::tests::*;
use vkstash_host::disk::faults::{Fault, Op};
use vkstash_host::disk::folder::Folder;
use vkstash_host::forks as fork;
use vkstash_model::record::WORKERS;

/// A stash with an artifact, and the guard file of a process that died of it, with its folder.
pub(super) fn after_a_crash(root: &Path) -> (Key, PathBuf, PathBuf) {
    let artifact = key(1);
    let stash = open(root);
    let device = stash.device(&header()).unwrap();
    assert!(device.put(Kind::Artifact, &artifact, payload(1)));
    drop((device, stash));
    let folder = root.join(app().folder).join(format!("device-{}", header().short_digest()));
    let left = crash_with(&folder, &artifact);
    (artifact, folder, left)
}

/// Leaves the guard file of a process that died of an artifact.
fn crash_with(folder: &Path, artifact: &Key) -> PathBuf {
    let opened = Arc::new(Folder::root(folder, false).unwrap());
    let before = files(folder, "vkg");
    let process = DyingProcess::new(&opened);
    // The process leaves neither of the two entries in an orderly way.
    for _ in 0..2 {
        assert!(process.guard.enter(Work::Artifact(artifact)).unwrap().is_some());
    }
    drop(process);
    files(folder, "vkg").into_iter().find(|file| !before.contains(file)).unwrap()
}

/// Leaves the guard file of a process that died while the driver compiled these, and had compiled others before.
pub(super) fn die_compiling(folder: &Path, keys: &[Key], stages: u32, gives_artifacts: bool) {
    let opened = Arc::new(Folder::root(folder, false).unwrap());
    let process = DyingProcess::that(&opened, gives_artifacts);
    let before = [key(90), key(91)].map(|done| process.guard.enter(Work::Compile(&done, stages)).unwrap());
    before.iter().flatten().for_each(|done| process.guard.leave(done));
    keys.iter().for_each(|key| assert!(process.guard.enter(Work::Compile(key, stages)).unwrap().is_some()));
}

/// Stands for a process with a guard file. When it is dropped it is dead: nobody holds the lock of its file any more,
/// neither this process nor a child that another test has forked and that has not started its program yet.
struct DyingProcess {
    guard: ManuallyDrop<CrashGuard>,
    folder: Arc<Folder>,
}

impl DyingProcess {
    fn new(folder: &Arc<Folder>) -> DyingProcess {
        DyingProcess::that(folder, true)
    }

    fn that(folder: &Arc<Folder>, gives_artifacts: bool) -> DyingProcess {
        let guard = CrashGuard::create(folder, fork::here(), LONG, gives_artifacts).unwrap();
        DyingProcess { guard: ManuallyDrop::new(guard), folder: folder.clone() }
    }
}

impl Drop for DyingProcess {
    fn drop(&mut self) {
        // SAFETY: this is the destructor, so `self.guard` is not used after it.
        unsafe { ManuallyDrop::drop(&mut self.guard) };
        for file in files(self.folder.path(), "vkg") {
            let file = std::fs::File::open(file).unwrap();
            for operation in [FlockOperation::LockExclusive, FlockOperation::Unlock] {
                flock(&file, operation).unwrap();
            }
        }
    }
}

pub(super) fn crashes_found(root: &Path, artifact: &Key) -> u8 {
    open(root).device(&header()).unwrap().crash_count(artifact)
}

#[test]
fn one_of_many_processes_that_start_at_once_counts_a_crash() {
    for _ in 0..20 {
        let root = root();
        let (artifact, folder, _) = after_a_crash(root.path());
        let together = Barrier::new(6);
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    together.wait();
                    crashes_found(root.path(), &artifact)
                });
            }
        });
        assert!(files(&folder, "vkg").is_empty());
        assert_eq!(crashes_found(root.path(), &artifact), 1);
    }
}

#[test]
fn a_crash_that_one_process_counts_is_not_counted_by_another() {
    let root = root();
    let (artifact, _, left) = after_a_crash(root.path());
    let one = open(root.path());
    let device = one.device(&header()).unwrap();
    assert_eq!(device.crash_count(&artifact), 1);
    // The count may be on the disk already or not.
    assert!(crashes_found(root.path(), &artifact) <= 1);
    one.flush(LONG);
    assert!(!left.exists(), "gone as soon as the death is written");
    assert_eq!(crashes_found(root.path(), &artifact), 1);
}

/// The helper may read a part while the thread that opens it counts, and the file may still be there if it could not be
/// removed.
#[test]
fn a_process_counts_a_death_once_and_marks_go_on() {
    let root = root();
    let (artifact, _, left) = after_a_crash(root.path());
    let guard = std::fs::read(&left).unwrap();
    let stash = open(root.path());
    let device = stash.device(&header()).unwrap();
    for _ in 0..3 {
        assert!(device.count_crashes(&|| false));
        assert!(stash.flush(LONG));
        std::fs::write(&left, &guard).unwrap();
        assert_eq!(device.crash_count(&artifact), 1);
        assert!(matches!(device.admit(&artifact), Admission::Granted(Some(_))), "it is marked");
    }
}

#[test]
fn a_guard_file_whose_lock_is_held_is_not_counted() {
    let root = root();
    let (artifact, folder, _) = after_a_crash(root.path());
    let left =
        crate::part::crash_guard::stale_guards(&Folder::root(&folder, false).unwrap(), &|| false).unwrap();
    assert_eq!(left.iter().map(|left| left.marks.keys.clone()).collect::<Vec<_>>(), [vec![artifact]]);
    assert_eq!(crashes_found(root.path(), &artifact), 0, "its lock is held");
    drop(left);
    assert_eq!(crashes_found(root.path(), &artifact), 1);
}

/// Whoever has killed a process on purpose takes its file away.
#[test]
fn the_end_of_a_process_that_was_killed_on_purpose_is_no_crash() {
    let root = root();
    let (artifact, _, left) = after_a_crash(root.path());
    let process = std::process::id();
    forgive(root.path(), &app().folder, process + 1);
    assert!(left.exists(), "the file of another process");
    forgive(root.path(), "no-such-application", process);
    assert!(left.exists());
    let locked = std::fs::File::open(&left).unwrap();
    flock(&locked, FlockOperation::LockExclusive).unwrap();
    forgive(root.path(), &app().folder, process);
    assert!(left.exists(), "its process lives");
    drop(locked);
    forgive(root.path(), &app().folder, process);
    assert!(!left.exists());
    assert_eq!(crashes_found(root.path(), &artifact), 0);
}

#[test]
fn a_guard_file_stays_if_its_crash_count_cannot_be_written() {
    in_a_child("a_guard_file_stays_if_its_crash_count_cannot_be_written", &[], || {
        let root = root();
        let (artifact, folder, left) = after_a_crash(root.path());
        assert_eq!(crashes_found(root.path(), &artifact), 1);
        assert!(!left.exists(), "the first death is on the disk");
        let left = crash_with(&folder, &artifact);
        let (fault, op) = (Fault::Error(Errno::NOSPC), Some(Op::Write));
        faults::begin(Plan::Nth { fault, op, n: 1, on: true });
        let stash = open(root.path());
        let device = stash.device(&header()).unwrap();
        stash.flush(LONG);
        assert!(!faults::end().is_empty(), "the second is not");
        assert_eq!(device.crash_count(&artifact), 1);
        assert!(left.exists());
        drop((device, stash));
        assert_eq!(crashes_found(root.path(), &artifact), 2);
        assert!(files(&folder, "vkg").is_empty());
    });
}

#[test]
fn crashes_are_counted_in_the_background_if_the_program_cannot_wait() {
    let root = root();
    let (artifact, folder, _) = after_a_crash(root.path());
    let opened = Folder::root(&folder, false).unwrap();
    assert!(crate::part::crash_guard::stale_guards(&opened, &|| true).is_none(), "its time is over");
    let waits = WaitLimits { opening: Duration::ZERO, ..WaitLimits::UNLIMITED };
    let stash = open_within(root.path(), waits);
    let device = stash.device(&header()).unwrap();
    let began = Instant::now();
    while device.view().is_behind() {
        assert!(began.elapsed() < LONG, "the deaths are counted");
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(device.crash_count(&artifact), 1);
}

/// A program at its limit of descriptors, or of memory.
#[test]
fn parts_and_guard_files_are_read_once_a_descriptor_is_free() {
    in_a_child("parts_and_guard_files_are_read_once_a_descriptor_is_free", &[], || {
        // The part's folder, its segment and the guard file are opened, in this order; the folder is listed for both.
        // The operations after that are the writer's; other tests let those fail.
        let plans = [(Op::Open, 3), (Op::List, 2), (Op::Stat, 2)];
        for (op, n) in plans.iter().flat_map(|&(op, times)| (1..=times).map(move |n| (op, n))) {
            let root = root();
            let (artifact, folder, _) = after_a_crash(root.path());
            let stash = open(root.path());
            let error = [Errno::MFILE, Errno::NFILE, Errno::NOMEM][n as usize % 3];
            faults::begin(Plan::Nth { fault: Fault::Error(error), op: Some(op), n, on: false });
            let opened = stash.device(&header());
            let struck = faults::end();
            let device = opened.unwrap_or_else(|error| panic!("{op:?} {n}: {error}"));
            assert_eq!(struck.len(), 1, "{op:?} {n}: {struck:?}");
            let began = Instant::now();
            while device.view().is_behind() {
                assert!(began.elapsed() < LONG, "{op:?} {n}: it is read beside the program");
                std::thread::sleep(Duration::from_millis(2));
            }
            let segments_put_off = stash.report().refused.get("put_off").copied().unwrap_or(0);
            assert_eq!(
                segments_put_off,
                u64::from(matches!((op, n), (Op::Open | Op::Stat, 1..=2))),
                "{op:?} {n}"
            );
            assert!(device.contains(Kind::Artifact, &artifact), "{op:?} {n}: {struck:?}");
            assert_eq!(device.crash_count(&artifact), 1, "{op:?} {n}: {struck:?}");
            drop((device, stash));
            assert!(files(&folder, "vkg").is_empty(), "{op:?} {n}: {struck:?}");
        }
    });
}

/// Leaves the guard file of a process that died while a worker was in the driver, after so many calls of workers.
fn die_in_a_worker(folder: &Path, calls: u32) {
    let opened = Arc::new(Folder::root(folder, false).unwrap());
    assert!(DyingProcess::new(&opened).guard.enter(Work::Worker(calls)).unwrap().is_some());
}

const CALL: Duration = Duration::from_micros(200);

#[test]
fn a_process_whose_workers_come_further_takes_back_a_death_in_a_worker() {
    for (calls, is_done) in [(0, true), (40, true), (0, false), (40, false)] {
        let root = root();
        let (_, folder, _) = after_a_crash(root.path());
        // Never two in a row.
        for _ in 0..4 {
            die_in_a_worker(&folder, calls);
            let stash = open(root.path());
            let device = stash.device(&header()).unwrap();
            assert_eq!(device.crash_count(&WORKERS), 1, "{calls}");
            device.workers_are_done();
            assert_eq!(device.crash_count(&WORKERS), 1, "they have made nothing");
            for _ in 1..calls + 16 {
                assert!(matches!(device.admit_worker(), Admission::Granted(Some(_))));
                assert!(device.worker_pause(CALL) > 10 * CALL, "seldom in the driver");
            }
            if is_done {
                device.workers_are_done();
            } else {
                assert_eq!(device.worker_pause(CALL), Duration::ZERO);
            }
            assert_eq!(device.crash_count(&WORKERS), 0);
            assert!(!device.doubts_workers() && device.worker_pause(CALL) == Duration::ZERO);
            // The process dies of anything else, or is killed.
            stash.flush(LONG);
        }
    }
}

#[test]
fn workers_are_kept_out_of_a_driver_in_which_two_processes_died_of_them() {
    let root = root();
    let (_, folder, _) = after_a_crash(root.path());
    die_in_a_worker(&folder, 3);
    let stash = open(root.path());
    let device = stash.device(&header()).unwrap();
    for _ in 0..3 + 15 {
        assert!(matches!(device.admit_worker(), Admission::Granted(_)));
        assert!(!device.worker_pause(CALL).is_zero());
    }
    drop((device, stash));
    die_in_a_worker(&folder, 3);
    for _ in 0..2 {
        let stash = open(root.path());
        let device = stash.device(&header()).unwrap();
        assert!(matches!(device.admit_worker(), Admission::Quarantined));
        device.workers_are_done();
    }
}
