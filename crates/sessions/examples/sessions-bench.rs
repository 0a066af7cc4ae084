//! Benchmark of sessions, beside the stash's own records in the same run.
//!
//! `cargo run --release -p vkstash-sessions --example sessions-bench [entries [bytes of a value]]`
//!
//! Where two things are compared, processor time counts: other programs on the machine take elapsed time from both.
#![allow(clippy::unwrap_used, reason = "a benchmark ends at the first surprise")]

use std::hint::black_box;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tempfile::TempDir;
use vkstash_model::app_name::AppName;
use vkstash_model::record::Kind;
use vkstash_sessions::description::{Description, Guid, Mode, Place};
use vkstash_sessions::session::Session;
use vkstash_store::format::device::DeviceHeader;
use vkstash_store::stash::open::Stash;

/// With the key, a little less than a cache keeps in memory by default: each found value evicts one.
const VALUE: usize = 960;
/// Values have at most this length.
const LONGEST: usize = 1 << 20;
const ROUNDS: usize = 9;
/// Finds of one thread in a measurement.
const FINDS: usize = 400_000;

/// xorshift64*.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
}

fn key(number: u64) -> [u8; 32] {
    let mut numbers = Numbers(number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut key = [0; 32];
    key.chunks_exact_mut(8).for_each(|chunk| chunk.copy_from_slice(&numbers.next().to_le_bytes()));
    key
}

fn value(number: u64, length: usize) -> Vec<u8> {
    let mut numbers = Numbers(number | 1 << 40);
    (0..length).map(|_| numbers.next() as u8).collect()
}

/// Numbers in random order.
fn shuffled(count: u64) -> Vec<[u8; 32]> {
    let mut all: Vec<u64> = (0..count).collect();
    let mut numbers = Numbers(77);
    for at in (1..all.len()).rev() {
        all.swap(at, (numbers.next() % (at as u64 + 1)) as usize);
    }
    all.into_iter().map(key).collect()
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// The median of an odd number of values.
fn middle(values: impl Iterator<Item = f64>) -> f64 {
    let mut all: Vec<f64> = values.collect();
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

fn description(identifier: u8) -> Description {
    Description {
        identifier: Guid([identifier; 16]),
        mode: Mode::Disk,
        driver_versioned: false,
        working_directory: false,
        maximum_in_memory_bytes: 0,
        maximum_in_memory_entries: 0,
        maximum_value_file_bytes: u32::MAX,
        version: 1,
    }
}

fn line(what: &str, measured: String, asked: &str, met: bool) {
    println!("{what:<58} {measured:>16}   {asked:<16} {}", if met { "met" } else { "NOT MET" });
}

/// Time that this thread has computed.
fn computed() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

fn nanoseconds(time: Duration, count: usize) -> f64 {
    time.as_nanos() as f64 / count as f64
}

/// What finds of threads in memory have taken.
#[derive(Clone, Copy)]
struct Finds {
    /// From the first begin to the last end.
    per_second: f64,
    /// Nanoseconds of processor time for a find.
    cost: f64,
    /// How often one of the threads has given its processor up while it was finding: it waited for a lock.
    waits: u64,
}

/// How often this thread has given its processor up by itself.
fn waits() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.unwrap().trim().parse().unwrap()
}

/// Threads that all find the same entries in memory. Each takes its own time: another thread may not run when they
/// begin.
fn finds_of(threads: usize, session: &Session, keys: &[[u8; 32]]) -> Finds {
    let barrier = Barrier::new(threads);
    let find = |thread: usize| {
        let mut buffer = vec![0; LONGEST];
        barrier.wait();
        let (waits_before, computed_before, began) = (waits(), computed(), Instant::now());
        for number in 0..FINDS {
            black_box(session.find(&keys[(number + thread) % keys.len()], Some(&mut buffer)).unwrap());
        }
        (began, Instant::now(), computed() - computed_before, waits() - waits_before)
    };
    let taken: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|thread| scope.spawn(move || find(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let began = taken.iter().map(|taken| taken.0).min().unwrap();
    let ended = taken.iter().map(|taken| taken.1).max().unwrap();
    let finds = threads * FINDS;
    Finds {
        per_second: finds as f64 / (ended - began).as_secs_f64(),
        cost: nanoseconds(taken.iter().map(|taken| taken.2).sum(), finds),
        waits: taken.iter().map(|taken| taken.3).sum(),
    }
}

/// Where everything is stored, and how much.
struct Setting {
    root: TempDir,
    app: AppName,
    place: Place,
    entries: u64,
    /// Bytes of a value.
    length: usize,
}

impl Setting {
    fn open(&self, description: &Description) -> Session {
        Session::create(description, Some(&self.place), None).unwrap()
    }

    fn open_stash(&self) -> Arc<Stash> {
        Stash::open(self.root.path(), &self.app).unwrap()
    }
}

fn main() {
    let entries: u64 = std::env::args().nth(1).map_or(100_000, |count| count.parse().unwrap());
    let length: usize = std::env::args().nth(2).map_or(VALUE, |length| length.parse().unwrap());
    // On a real disk, where programs were built, and also where this one was carried to.
    let own_path = std::env::current_exe().unwrap();
    let root = tempfile::tempdir_in(own_path.parent().unwrap()).unwrap();
    let app = AppName::new(Some(b"sessions-bench"), b"/bin/sessions-bench");
    let place = Place::new(root.path(), &app);
    let setting = Setting { root, app, place, entries, length };
    let cores = std::thread::available_parallelism().unwrap().get();
    println!("{entries} entries, keys of 32 bytes, values of {length} bytes, {cores} processors\n");
    measure_stores(&setting);
    measure_opening(&setting);
    measure_memory(&setting, cores);
    measure_disk(&setting);
}

fn measure_stores(setting: &Setting) {
    let session = setting.open(&description(1));
    let mut storing = Duration::ZERO;
    let mut times: Vec<Duration> = (0..setting.entries)
        .map(|number| {
            let (key, value) = (key(number), value(number, setting.length));
            let computed_before = (number % 16 == 0).then(computed);
            let began = Instant::now();
            session.store(&key, &value).unwrap();
            let time = began.elapsed();
            storing += computed_before.map_or(Duration::ZERO, |before| computed() - before);
            time
        })
        .collect();
    let half = median(&mut times);
    line(
        "store returns, median",
        format!("{:.2} us", nanoseconds(half, 1000)),
        "<= 10 us",
        half.as_micros() < 10,
    );
    for (name, part) in [("99 %", 0.99), ("99.9 %", 0.999), ("longest, which writes the index again", 1.0)] {
        let at = ((times.len() - 1) as f64 * part) as usize;
        println!("{:<58} {:>13.2} us", format!("store returns, {name}"), nanoseconds(times[at], 1000));
    }
    let mean = nanoseconds(storing, (setting.entries / 16) as usize * 1000);
    println!("{:<58} {mean:>13.2} us", "processor time of a store, mean of every 16th");
}

fn measure_opening(setting: &Setting) {
    let mut times: Vec<Duration> = (0..101)
        .map(|_| {
            let began = Instant::now();
            let session = setting.open(&description(1));
            let time = began.elapsed();
            drop(session);
            time
        })
        .collect();
    let half = median(&mut times);
    let name = format!("opening {} entries, median", setting.entries);
    line(&name, format!("{:.1} us", nanoseconds(half, 1000)), "<= 1 ms", half.as_micros() < 1000);
}

fn measure_memory(setting: &Setting, cores: usize) {
    let large = Description {
        maximum_in_memory_bytes: 1 << 20,
        maximum_in_memory_entries: 1 << 10,
        ..description(2)
    };
    let session = setting.open(&large);
    let few: Vec<[u8; 32]> = (0..64).map(key).collect();
    few.iter()
        .enumerate()
        .for_each(|(number, key)| session.store(key, &value(number as u64, setting.length)).unwrap());
    let rounds: Vec<[Finds; 2]> =
        (0..ROUNDS).map(|_| [1, 8].map(|threads| finds_of(threads, &session, &few))).collect();
    let half = |of: fn(&[Finds; 2]) -> f64| middle(rounds.iter().map(of));
    let one = 1e9 / half(|[one, _]| one.per_second);
    line("find in memory, value copied", format!("{one:.0} ns"), "<= 500 ns", one <= 500.0);
    let ratio = half(|[one, eight]| eight.per_second / one.per_second);
    // What other programs take of the processors is taken from 8 threads and not from one, which they leave a
    // processor.
    let cost = half(|[one, eight]| eight.cost / one.cost);
    println!("{:<58} {cost:>16.2}", "processor time of a find, 8 threads over 1 thread");
    let waits: u64 = rounds.iter().map(|[_, eight]| eight.waits).sum();
    println!("{:<58} {waits:>16}", format!("waits for a lock in {} finds of 8 threads", ROUNDS * 8 * FINDS));
    let asked = if cores >= 8 { 6.0 } else { 0.9 * cores as f64 };
    line(
        "8 threads over 1 thread, finds in memory",
        format!("{ratio:.2}"),
        &format!(">= {asked:.1}"),
        ratio >= asked,
    );
}

/// Nanoseconds of processor time that one record takes from disk.
#[derive(Clone, Copy)]
struct Reads {
    /// Of each record the first time.
    first_get: f64,
    first_find: f64,
    get: f64,
    find: f64,
    /// A find of the length alone.
    length: f64,
}

impl Reads {
    fn of(setting: &Setting, header: &DeviceHeader, keys: &[[u8; 32]]) -> Reads {
        let stash = setting.open_stash();
        let part = stash.device(header).unwrap();
        let session = setting.open(&description(1));
        let mut buffer = Vec::new();
        let mut room = vec![0; LONGEST];
        let mut get = || {
            let began = computed();
            keys.iter().for_each(|key| assert!(part.read(Kind::Artifact, key, &mut buffer)));
            nanoseconds(computed() - began, keys.len())
        };
        let mut find = || {
            let began = computed();
            keys.iter().for_each(|key| _ = session.find(key, Some(&mut room)).unwrap());
            nanoseconds(computed() - began, keys.len())
        };
        let (first_get, first_find, get, find) = (get(), find(), get(), find());
        let began = computed();
        keys.iter().for_each(|key| _ = session.find(key, None).unwrap());
        let length = nanoseconds(computed() - began, keys.len());
        Reads { first_get, first_find, get, find, length }
    }
}

/// Puts all entries into the stash, as artifacts.
fn fill_stash(setting: &Setting, header: &DeviceHeader) {
    let stash = setting.open_stash();
    let part = stash.device(header).unwrap();
    for number in 0..setting.entries {
        while !part.put(Kind::Artifact, &key(number), value(number, setting.length).into()) {
            stash.flush(Duration::from_secs(10));
        }
    }
    stash.flush(Duration::from_secs(60));
}

/// Finds from disk, beside the stash's own records.
fn measure_disk(setting: &Setting) {
    let count = setting.entries;
    let header = DeviceHeader {
        pointer_width: 8,
        vendor_id: 1,
        device_id: 2,
        driver_id: 3,
        driver_version: 4,
        schema: 5,
        pipeline_cache_uuid: [6; 16],
        features_digest: [7; 32],
    };
    fill_stash(setting, &header);
    let mut keys = shuffled(count);
    keys.truncate(20_000);
    let mut rounds: Vec<Reads> = (0..ROUNDS).map(|_| Reads::of(setting, &header, &keys)).collect();
    rounds.sort_by(|one, other| one.get.total_cmp(&other.get));
    let Reads { get, find, .. } = rounds[ROUNDS / 2];
    println!("{:<58} {get:>13.0} ns", format!("the stash's own get, of {count} artifacts"));
    println!("{:<58} {find:>13.0} ns", "find from disk");
    rounds.sort_by(|one, other| one.first_get.total_cmp(&other.first_get));
    let Reads { first_get, first_find, .. } = rounds[ROUNDS / 2];
    println!("{:<58} {first_get:>13.0} ns", "the same get, the first of each artifact");
    println!("{:<58} {first_find:>13.0} ns", "find from disk, the first of each entry");
    let firsts = middle(rounds.iter().map(|reads| reads.first_find / reads.first_get));
    let others = middle(rounds.iter().map(|reads| reads.find / reads.get));
    let ratios =
        [("find from disk over the stash's get, first finds", firsts), ("the same, found before", others)];
    for (name, ratio) in ratios {
        line(name, format!("{ratio:.2}"), "<= 1.2", ratio <= 1.2);
    }
    let ratio = middle(rounds.iter().map(|reads| reads.length / reads.get));
    let name = "length alone over the stash's get; it fetches the value";
    println!("{name:<58} {ratio:>16.2}");
}
