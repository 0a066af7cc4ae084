//! The store's behaviour and its faults.
mod bases;
mod bit_flips;
mod browse;
mod clocks;
mod compiles;
mod crash;
mod crash_counts;
mod damage;
mod descriptors;
mod disk;
mod faults;
mod folders;
mod forged_records;
mod full;
mod fuzz;
mod golden;
mod header;
mod hostile;
mod locks;
mod long_reads;
mod loss_window;
mod maintenance;
mod many_applications;
mod many_processes;
pub(crate) mod numbers;
mod power_cuts;
mod processes;
mod reports;
mod roundtrip;
mod same;
mod settings;
mod sharing;
mod siblings;
mod slow_disk;
mod stale_files;
mod strict;
mod timelines;
mod verify;
pub(crate) mod watched;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::TempDir;

pub(crate) use header::header;
pub(crate) use numbers::{Numbers, first_seed, seeds};

use crate::format::device::DeviceHeader;
use crate::part::open::Part;
use crate::part::queue::WaitLimits;
use crate::reports::model::RunReport;
use crate::reports::runs::{self, RunName};
use crate::stash::open::Stash;
use crate::stash::uses::{DeviceUses, Run};
use vkstash_model::app_name::AppName;
use vkstash_model::record::{Key, Kind};

/// Long enough for any wait on a busy machine; no test asserts it.
const LONG: Duration = Duration::from_secs(600);

/// Waits until it says true.
fn await_that(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < LONG, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The program's only device uses the key.
fn note_use(stash: &Stash, key: &Key) {
    stash.note_use(&DeviceUses::of(0), key);
}

fn app() -> AppName {
    AppName::new(Some(b"test"), b"/bin/test")
}

pub(crate) fn root() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn open_within(root: &Path, waits: WaitLimits) -> Arc<Stash> {
    Stash::open_within(root, &app(), Run::of_this_process(), waits).unwrap()
}

fn open(root: &Path) -> Arc<Stash> {
    Stash::open_patiently(root, &app()).unwrap()
}

/// One of how many cases a test tries: of `usual` many, or every one (scripts/test.sh --all, scripts/fuzz.sh).
fn one_of(usual: u64) -> u64 {
    if std::env::var_os("VKSTASH_TEST_EVERY_CASE").is_some() { 1 } else { usual }
}

/// The key of record `number`.
fn key(number: u64) -> Key {
    let mut numbers = Numbers(number);
    let mut key = [0; 32];
    key.chunks_exact_mut(8).for_each(|chunk| chunk.copy_from_slice(&numbers.next().to_le_bytes()));
    key
}

/// The payload of record `number`; all lengths modulo 8 occur.
fn payload(number: u64) -> Box<[u8]> {
    let mut numbers = Numbers(number ^ 0xABCD);
    let length = (numbers.next() % 700) as usize;
    (0..length).map(|_| numbers.next() as u8).collect()
}

/// A payload that no other record has.
fn noise(number: u64, length: usize) -> Box<[u8]> {
    let mut numbers = Numbers(number ^ 0x1234_5678);
    (0..length).map(|_| numbers.next() as u8).collect()
}

fn put_all(part: &Part, kind: Kind, numbers: std::ops::Range<u64>) {
    numbers.for_each(|number| assert!(part.put(kind, &key(number), payload(number))));
}

/// Waits until all is written, as long as something is still being written.
fn flush_all(stash: &Stash) {
    let mut before = None;
    while !stash.flush(Duration::from_secs(60)) {
        let written = stash.report().written_records;
        assert!(before.replace(written) != Some(written), "nothing more is written after {written} records");
    }
}

/// Number of the records that can be read; fails on any wrong byte.
fn count_good(part: &Part, kind: Kind, numbers: std::ops::Range<u64>) -> u64 {
    let mut buffer = Vec::new();
    let read = |number: &u64| {
        let good = part.read(kind, &key(*number), &mut buffer);
        assert!(!good || *buffer == *payload(*number), "wrong bytes for record {number}");
        good
    };
    numbers.filter(read).count() as u64
}

/// Writes a report as the process of that number does.
fn write_report(folder: &Path, report: &RunReport) {
    let random = crc32c::crc32c(report.application.as_bytes());
    runs::write(folder, &RunName::new(report.started_unix_ms, report.pid, random.into()), report).unwrap();
}

/// The segments of the portable part.
fn segments(root: &Path) -> Vec<PathBuf> {
    files(&root.join(app().folder).join("portable"), "vks")
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|found| found == extension));
    files.sort();
    files
}

/// A sealed stash with so many recipes in one segment.
fn filled(root: &Path, count: u64) -> PathBuf {
    let stash = open(root);
    put_all(stash.portable(), Kind::Recipe, 0..count);
    drop(stash);
    let [segment] = segments(root).try_into().unwrap();
    segment
}
