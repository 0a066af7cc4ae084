//! File operations that fail, each one once and many at random: nothing panics, no byte is wrong, what was written is
//! there when the fault is gone, and what was not is counted.

mod steps;

use std::collections::HashSet;
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;

use crate::maintenance;
use crate::part::crash_guard::{CrashGuard, Work};
use crate::reports::model::RunReport;
use crate::tests::bit_flips::{build, with_a_file};
use crate::tests::disk::faults;
use crate::tests::disk::faults::{ERRORS, Plan};
use crate::tests::processes::in_a_child;
use crate::tests::stale_files::grow_old;
use crate::tests::*;
use vkstash_host::disk::faults::{Fault, Op};

/// Whether it is in the device part, its kind and its number, which gives its payload. Each is put once.
type Record = (bool, Kind, u64);

/// A file whose writer died before it was finished.
const HALF_MADE: &str = ".tmp-0000000000000001-00000001-0000000000000007.vks";

/// Faults that write a part of the data and then fail.
const TORN: [Fault; 2] = [Fault::Torn(128, Errno::IO), Fault::Torn(255, Errno::NOSPC)];

/// All faults.
fn every_fault() -> impl Iterator<Item = Fault> {
    ERRORS.into_iter().map(Fault::Error).chain([Fault::Short]).chain(TORN)
}

/// In memory if the machine has such a place: thousands of small files are made, and on a disk most of the time is its.
fn root() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Tries again if a fault makes an attempt fail.
fn trying<T, E: std::fmt::Debug>(mut attempt: impl FnMut() -> Result<T, E>) -> Option<T> {
    (0..20).find_map(|_| attempt().ok())
}

/// Copies a folder with the folders in it. Unfinished files are made to look old; other times do not matter.
fn copy(from: &Path, to: &Path) {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().mode(0o700).recursive(true).create(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).unwrap();
            if entry.file_name().to_string_lossy().starts_with(".tmp-") {
                grow_old(&target);
            }
        }
    }
}

/// As a program opens it, except that all of its work is done when it is dropped: what is looked at afterwards does not
/// change any more.
fn open_as_a_program(root: &Path) -> Option<Arc<Stash>> {
    let waits = WaitLimits { end: LONG, helper: LONG, ..WaitLimits::PROGRAM };
    trying(|| Stash::open_within(root, &app(), crate::stash::uses::Run::of_this_process(), waits))
}

/// The work of one stash, and what it has to report of it.
struct Run<'a> {
    stash: Arc<Stash>,
    safe: &'a mut Vec<Record>,
    put: Vec<Record>,
    /// Of records and uses.
    tried: u64,
}

impl<'a> Run<'a> {
    fn open(root: &Path, safe: &'a mut Vec<Record>) -> Option<Run<'a>> {
        let stash = open_as_a_program(root)?;
        stash.set_reporter(Box::new(|store| RunReport { store, ..RunReport::default() }));
        Some(Run { stash, safe, put: Vec::new(), tried: 0 })
    }

    fn part(&self, of_device: bool) -> Option<Arc<Part>> {
        match of_device {
            true => trying(|| self.stash.device(&header())),
            false => Some(self.stash.portable().clone()),
        }
    }

    fn put(&mut self, of_device: bool, kind: Kind, numbers: std::ops::Range<u64>) {
        let Some(part) = self.part(of_device) else { return };
        for number in numbers {
            self.tried += 1;
            if part.put(kind, &key(number), payload(number)) {
                self.put.push((of_device, kind, number));
            }
        }
    }

    fn take(&mut self, numbers: std::ops::Range<u64>) {
        let Some(part) = self.part(true) else { return };
        for number in numbers {
            drop(part.admit(&key(number)));
            self.stash.note_taken(&DeviceUses::of(0), &part, &key(number));
            // The use and the record *verified*.
            self.tried += 2;
        }
    }

    /// Every record that was put is written or counted as dropped; those that are there stay.
    fn flush(&mut self) {
        self.stash.flush(LONG);
        let parts = [self.part(false), self.part(true)];
        let put = std::mem::take(&mut self.put);
        let is_there = |(of_device, kind, number): &Record| {
            let part = parts[usize::from(*of_device)].as_ref();
            part.is_some_and(|part| part.contains(*kind, &key(*number)))
        };
        self.safe.extend(put.into_iter().filter(is_there));
        let report = self.stash.report();
        // The crash that it may have found adds one record, the crash count; one more if it was found in a part that
        // could then not be opened.
        let own = (report.written_records + report.dropped).checked_sub(self.tried);
        assert!(
            own.is_some_and(|own| own <= 1 + u64::from(report.dropped > 0)),
            "{} were put: {report:?}",
            self.tried
        );
    }
}

/// Reads all of these and says how many are there; fails on a wrong byte.
fn read(stash: &Stash, records: &[Record]) -> usize {
    let device = trying(|| stash.device(&header()));
    let mut buffer = Vec::new();
    let mut good = |(of_device, kind, number): &Record| {
        let part = if *of_device { device.as_ref() } else { Some(stash.portable()) };
        let there = part.is_some_and(|part| part.read(*kind, &key(*number), &mut buffer));
        assert!(!there || *buffer == *payload(*number), "wrong bytes for record {number}");
        there
    };
    records.iter().filter(|record| good(record)).count()
}

/// The state before: a sealed file, the file of a dead writer, and an unfinished file of that writer.
fn prepare(root: &Path) -> Vec<Record> {
    let orphan = with_a_file(root);
    fs::write(&orphan, build(12, 5, false).bytes).unwrap();
    let mut safe: Vec<Record> = (0..12).map(|number| (false, Kind::Recipe, number)).collect();
    let stash = open(root);
    let device = stash.device(&header()).unwrap();
    put_all(&device, Kind::Artifact, 0..6);
    safe.extend((0..6).map(|number| (true, Kind::Artifact, number)));
    stash.flush(LONG);
    let folder = device.folder().unwrap();
    let guard = CrashGuard::create(&folder, 0, LONG, true).unwrap();
    // The writer died during the use of this artifact.
    assert!(guard.enter(Work::Artifact(&key(3))).unwrap().is_some());
    drop(stash);
    fs::write(orphan.with_file_name(HALF_MADE), "half").unwrap();
    safe
}

/// Some runs of a program, two of them at the same time.
fn some_runs(root: &Path, safe: &mut Vec<Record>) {
    let before = safe.clone();
    let mut of_other = Vec::new();
    let Some(mut one) = Run::open(root, safe) else { return };
    one.put(false, Kind::Recipe, 100..104);
    one.put(true, Kind::Artifact, 100..104);
    one.flush();
    if let Some(mut two) = Run::open(root, &mut of_other) {
        read(&two.stash, &before);
        two.put(false, Kind::Module, 200..203);
        two.take(0..2);
        two.flush();
        one.put(false, Kind::Layout, 110..113);
        one.flush();
        // Reads what the other has appended since.
        two.stash.portable().refresh_after_merging(&|| false);
        read(&two.stash, &[(false, Kind::Layout, 110), (true, Kind::Artifact, 100)]);
        let mut seen = HashSet::new();
        two.stash.portable().for_each(Kind::Recipe, &mut |key, bytes| {
            assert!(seen.insert(*key) && !bytes.is_empty() || bytes.is_empty());
        });
    }
    drop(one);
    safe.append(&mut of_other);
    let _ = maintenance::run(root, |_, _| {});
    if let Some(again) = open_as_a_program(root) {
        read(&again, safe);
    }
}

/// All records are there: at once, after maintenance, and after a new record and maintenance again.
fn check(root: &Path, safe: &[Record]) {
    for round in 0..3 {
        let stash = open(root);
        assert_eq!(read(&stash, safe), safe.len(), "in round {round}: {:?}", stash.report());
        assert_eq!(stash.report().damaged_records, 0, "in round {round}: {:?}", stash.report());
        if round == 1 {
            put_all(stash.portable(), Kind::DeviceConfiguration, 0..2);
        }
        drop(stash);
        maintenance::run(root, |_, _| {}).unwrap();
    }
}

/// Does [`some_runs`] with each plan of `plans`, on a copy of the state before, as long as `goes_on` says so of the
/// faults that have struck.
fn iterations(plans: impl Iterator<Item = Plan>, goes_on: impl Fn(&[(Op, Fault)]) -> bool) -> u64 {
    let model = root();
    let before = prepare(model.path());
    let mut count = 0;
    for plan in plans {
        let root = root();
        copy(model.path(), root.path());
        let mut safe = before.clone();
        SAY.with(|say| *say.borrow_mut() = format!("{plan:?}"));
        faults::begin(plan);
        some_runs(root.path(), &mut safe);
        let hit = faults::end();
        check(root.path(), &safe);
        let portable = root.path().join(app().folder).join("portable");
        assert!(portable.exists() && !portable.join(HALF_MADE).exists());
        assert!(open(root.path()).device(&header()).unwrap().crash_count(&key(3)) > 0);
        if !goes_on(&hit) {
            break;
        }
        count += 1;
    }
    count
}

thread_local! {
    static SAY: std::cell::RefCell<String> = const { std::cell::RefCell::new(String::new()) };
}

/// Says with which plan a test has failed.
fn say_the_plan() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        before(info);
        eprintln!("with {}", SAY.with(|say| say.borrow().clone()));
    }));
}

/// A plan for every `step`-th call.
fn each_call(fault: Fault, on: bool, step: u64) -> impl Iterator<Item = Plan> {
    // Different errors begin at different calls.
    let from = ERRORS
        .iter()
        .position(|&error| Fault::Error(error) == fault)
        .map_or(0, |at| at as u64 * step / ERRORS.len() as u64);
    (0..).map(move |number| Plan::Nth { fault, op: None, n: 1 + from + number * step, on })
}

/// The step for [`each_call`], so that all errors together try a quarter of the calls, and so does each kind of read or
/// write that does a part of its work.
fn step(fault: Fault) -> u64 {
    one_of(if matches!(fault, Fault::Error(_)) { 4 * ERRORS.len() as u64 } else { 4 })
}

#[test]
fn every_file_operation_of_a_process_may_fail_once() {
    in_a_child("every_file_operation_of_a_process_may_fail_once", &[], || {
        say_the_plan();
        let began = std::time::Instant::now();
        for fault in every_fault() {
            let calls = iterations(each_call(fault, false, step(fault)), |hit| !hit.is_empty());
            assert!(calls * step(fault) > 10, "{fault:?}: {calls} iterations");
            eprintln!("{fault:?}: {calls} iterations, {:?}", began.elapsed());
        }
    });
}

#[test]
fn every_file_operation_from_one_on_may_fail() {
    in_a_child("every_file_operation_from_one_on_may_fail", &[], || {
        say_the_plan();
        let began = std::time::Instant::now();
        // What is interrupted again and again waits as long.
        for fault in every_fault().filter(|fault| *fault != Fault::Error(Errno::INTR)) {
            let calls = iterations(each_call(fault, true, 3 * step(fault) + 1), |hit| !hit.is_empty());
            eprintln!("{fault:?}: {calls} iterations, {:?}", began.elapsed());
        }
    });
}

#[test]
fn file_operations_may_fail_at_random() {
    in_a_child("file_operations_may_fail_at_random", &[], || {
        say_the_plan();
        let first = first_seed();
        let plans = (first..first + seeds(150)).map(|seed| Plan::Random { seed, one_of: 4 << (seed % 6) });
        let faults = AtomicU64::new(0);
        let iterations = iterations(plans, |hit| {
            faults.fetch_add(hit.len() as u64, Ordering::Relaxed);
            true
        });
        eprintln!("{iterations} iterations, {} faults", faults.into_inner());
    });
}
