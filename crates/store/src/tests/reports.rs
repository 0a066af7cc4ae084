//! Reports of runs, and their sums.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::reports::model::{BypassReport, DeviceReport, RunReport, StoreReport};
use crate::reports::{runs, totals};
use crate::tests::disk::faults;
use crate::tests::disk::faults::Plan;
use crate::tests::processes::in_a_child;
use crate::tests::*;
use vkstash_host::disk::faults::Op;
use vkstash_host::disk::folder::Folder;

fn report(number: u64) -> RunReport {
    let device = DeviceReport {
        name: "gpu".into(),
        counters: [("served".into(), number)].into(),
        bypassed: vec![BypassReport { reason: "library".into(), s_type: 1, count: 1 }],
        ..DeviceReport::default()
    };
    RunReport {
        application: "test".into(),
        program: "/opt/test".into(),
        started_unix_ms: 1000 + number,
        updated_unix_ms: 2000 + number,
        // No process has this number.
        pid: 0x7fff_ffff,
        is_over: true,
        devices: vec![device],
        store: StoreReport {
            evicted_bytes: [("expired".into(), number), ("free_space".into(), 1)].into(),
            evicted_records: number,
            compacted_bytes: 2 * number,
            reclaimed_bytes: 3 * number,
            ..StoreReport::default()
        },
        goes_on: false,
    }
}

fn runs_folder(root: &Path) -> PathBuf {
    root.join(app().folder).join("runs")
}

#[test]
fn the_report_is_refreshed_by_a_flush_and_at_the_end() {
    let root = root();
    let stash = open(root.path());
    let served = Arc::new(AtomicU64::new(1));
    let counter = served.clone();
    stash.set_reporter(Box::new(move |store| RunReport { store, ..report(counter.load(Ordering::Relaxed)) }));
    put_all(stash.portable(), Kind::Recipe, 0..3);
    stash.flush(LONG);
    let [first] = runs::read_all(&runs_folder(root.path())).try_into().unwrap();
    assert_eq!(first.devices, report(1).devices);
    assert_eq!(first.store.written_records, 3);
    served.store(2, Ordering::Relaxed);
    stash.touch();
    stash.flush(LONG);
    let [second] = runs::read_all(&runs_folder(root.path())).try_into().unwrap();
    assert_eq!(second.devices, report(2).devices);
    served.store(3, Ordering::Relaxed);
    stash.touch();
    drop(stash);
    let [last] = runs::read_all(&runs_folder(root.path())).try_into().unwrap();
    assert_eq!(last.devices, report(3).devices);
}

#[test]
fn a_run_that_wrote_nothing_is_reported_when_it_ends() {
    let root = root();
    let stash = open(root.path());
    stash.set_reporter(Box::new(|store| RunReport { store, ..report(1) }));
    drop(stash);
    assert_eq!(runs::read_all(&runs_folder(root.path())).len(), 1);
}

/// A process that opens its stash again while the disk still has the report of the first time.
#[test]
fn a_report_delayed_by_the_disk_replaces_no_later_one() {
    in_a_child("a_report_delayed_by_the_disk_replaces_no_later_one", &[], || {
        let root = root();
        let run = Run::of_this_process();
        let number = Arc::new(AtomicU64::new(1));
        let open = || {
            let end = Some(Duration::from_millis(50));
            let stash = Stash::open_in_run(root.path(), Vec::new(), &app(), run.clone(), None, end).unwrap();
            let number = number.clone();
            stash.set_reporter(Box::new(move |_| report(number.load(Ordering::SeqCst))));
            stash.touch();
            stash
        };
        faults::begin(Plan::BlockOnce { op: Op::Rename });
        let first = open();
        await_that("its report is on the way", faults::has_held);
        drop(first);
        number.store(2, Ordering::SeqCst);
        drop(open());
        faults::end();
        await_that("both writers have ended", || Arc::strong_count(&number) == 1);
        let [last] = runs::read_all(&runs_folder(root.path())).try_into().unwrap();
        assert_eq!(last.devices, report(2).devices);
    });
}

#[test]
fn a_report_replaces_the_earlier_one_of_its_process() {
    let root = root();
    write_report(root.path(), &report(1));
    write_report(root.path(), &RunReport { updated_unix_ms: 9, ..report(1) });
    write_report(root.path(), &RunReport { application: "other".into(), ..report(0) });
    let [other, mine] = runs::read_all(root.path()).try_into().unwrap();
    assert_eq!((other.application.as_str(), mine.updated_unix_ms), ("other", 9));
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 2, "nothing is left aside");
}

#[test]
fn damaged_and_cut_reports_and_junk_are_left_out() {
    let root = root();
    write_report(root.path(), &report(1));
    let [file] = files(root.path(), "vkr").try_into().unwrap();
    let good = fs::read(&file).unwrap();
    for length in 0..good.len() {
        fs::write(&file, &good[..length]).unwrap();
        assert!(runs::read_all(root.path()).is_empty());
    }
    for bit in 0..good.len() * 8 {
        let mut flipped = good.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        fs::write(&file, &flipped).unwrap();
        assert!(runs::read_all(root.path()).is_empty(), "bit {bit}");
    }
    fs::write(&file, &good).unwrap();
    fs::write(root.path().join("run-x.vkr"), "junk").unwrap();
    assert_eq!(runs::read_all(root.path()), [report(1)]);
    assert!(runs::read_all(&root.path().join("nowhere")).is_empty());
}

fn write_many(folder: &Path, count: u64) -> u64 {
    for number in 0..count {
        // Files of as many processes.
        let run = RunReport { application: number.to_string(), ..report(number) };
        write_report(folder, &run);
    }
    (0..count).sum()
}

#[test]
fn old_reports_are_folded_and_the_sums_stay() {
    let root = root();
    let sum = write_many(root.path(), 100);
    let before = totals::read(root.path());
    totals::fold(&Folder::root(root.path(), false).unwrap()).unwrap();
    assert_eq!(files(root.path(), "vkr").len(), 48);
    assert_eq!(runs::read_all(root.path())[0].started_unix_ms, 1052, "the oldest are folded");
    let after = totals::read(root.path());
    for totals in [before, after] {
        assert_eq!((totals.runs, totals.since_unix_ms, totals.until_unix_ms), (100, 1000, 2099));
        assert_eq!(totals.first.unwrap().started_unix_ms, 1000, "the first run stays as it was");
        let [device] = totals.devices.try_into().unwrap();
        assert_eq!(device.counters.get("served"), Some(&sum));
        assert_eq!(device.bypassed[0].count, 100);
        let store = totals.store;
        assert_eq!(store.evicted_bytes, [("expired".into(), sum), ("free_space".into(), 100)].into());
        assert_eq!(
            (store.evicted_records, store.compacted_bytes, store.reclaimed_bytes),
            (sum, 2 * sum, 3 * sum)
        );
    }
}

#[test]
fn a_crash_between_folding_and_deleting_counts_nothing_twice() {
    let root = root();
    write_many(root.path(), 100);
    let saved: Vec<_> =
        files(root.path(), "vkr").into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect();
    let folder = Folder::root(root.path(), false).unwrap();
    totals::fold(&folder).unwrap();
    for (path, content) in &saved {
        fs::write(path, content).unwrap();
    }
    assert_eq!(totals::read(root.path()).runs, 100);
    totals::fold(&folder).unwrap();
    assert_eq!(totals::read(root.path()).runs, 100);
    assert_eq!(files(root.path(), "vkr").len(), 48);
}

#[test]
fn the_report_of_a_running_process_is_not_folded_whatever_its_number() {
    let root = root();
    let folder = runs_folder(root.path());
    // Older than the others, which have the number of a living process, as in a namespace of processes.
    let stash =
        Stash::open_within(root.path(), &app(), Run::named(RunName::new(1, 1, 1)), WaitLimits::UNLIMITED)
            .unwrap();
    let served = Arc::new(AtomicU64::new(1));
    let counter = served.clone();
    stash.set_reporter(Box::new(move |_| RunReport {
        started_unix_ms: 1,
        ..report(counter.load(Ordering::Relaxed))
    }));
    stash.touch();
    stash.flush(LONG);
    for number in 0..100 {
        let pid = std::process::id();
        write_report(&folder, &RunReport { application: number.to_string(), pid, ..report(number) });
    }
    let fold = || totals::fold(&Folder::shared(&folder, false).unwrap()).unwrap();
    let kept = |files: usize| {
        let all = runs::read_all(&folder);
        assert_eq!(all.len(), files);
        assert_eq!(totals::read(&folder).runs, 101);
        all[0].devices[0].counters["served"]
    };
    fold();
    assert_eq!(kept(49), 1);
    served.store(2, Ordering::Relaxed);
    stash.touch();
    stash.flush(LONG);
    assert_eq!(kept(49), 2, "it writes the file again");
    drop(stash);
    (100..120).for_each(|number| write_report(&folder, &report(number)));
    fold();
    assert_eq!(files(&folder, "vkr").len(), 48);
    assert_eq!(totals::read(&folder).runs, 121);
}

#[test]
fn a_report_that_is_replaced_while_its_lock_is_asked_for_is_not_folded() {
    in_a_child("a_report_that_is_replaced_while_its_lock_is_asked_for_is_not_folded", &[], || {
        let root = root();
        let folder = Folder::shared(root.path(), true).unwrap();
        let name = RunName::new(1, 1, 1);
        let before = runs::write_in(&folder, &name, &report(1)).unwrap();
        let file = folder.names("vkr").unwrap().remove(0);
        faults::begin(Plan::BlockOnce { op: Op::Lock });
        let (found, now) = std::thread::scope(|scope| {
            let asked = scope.spawn(|| totals::of_ended(&folder, &file));
            await_that("the lock is asked for", faults::has_held);
            // The file that was opened is free from here on.
            let new = runs::write_in(&folder, &name, &report(2)).unwrap();
            drop(before);
            faults::end();
            (asked.join().unwrap(), new)
        });
        assert_eq!(found, None);
        drop(now);
        assert_eq!(totals::of_ended(&folder, &file).unwrap().devices, report(2).devices);
    });
}
