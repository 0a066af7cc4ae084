//! The measurements, each in a process of its own, with memory and caches of its own.

use std::collections::BTreeMap;
use std::fs;
use std::hint::black_box;
use std::io::{Read as _, Write as _};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::engines::{Engine, Fresh, Store};
use crate::failure::Failure;
use crate::workload::{self, ABSENT, OTHERS, PUTS, Random};

/// Bytes of values that are generated and inserted at a time: half of the stash's queue.
const CHUNK: usize = 32 << 20;

/// The results of a job, by the names in `measures`.
pub type Found = BTreeMap<String, f64>;

/// One measurement, which runs in a process of its own.
#[derive(Clone, Serialize, Deserialize)]
pub struct Job {
    pub engine: Engine,
    pub folder: PathBuf,
    /// Number of entries that the store has, or is to have.
    pub entries: u64,
    /// Selects the random entries.
    pub seed: u64,
    pub task: Task,
}

/// The kind of job.
#[derive(Clone, Serialize, Deserialize)]
pub enum Task {
    /// Fill it and close it.
    Fill,
    /// Insert these entries, print that it is done, and wait to be killed.
    FillAndWait { from: u64, to: u64 },
    /// Open it and get one entry.
    Open { number: u64 },
    /// Open it and look up every key.
    Memory,
    /// Verify all entries, then get this many.
    Gets { count: u64 },
    /// Look up absent keys for this long.
    Misses { name: String, milliseconds: u64 },
    /// Put this many entries, one by one.
    Puts { name: String, from: u64, count: u64, flush: bool },
    /// Put an entry at intervals until the standard input is closed.
    Write { writer: u64, every_ms: u64 },
}

/// Runs the job that `job` describes in JSON, and prints the results.
pub fn run(job: &str) -> Result<(), Failure> {
    let job: Job = serde_json::from_str(job)?;
    let found = match &job.task {
        Task::Fill => fill(&job)?,
        Task::FillAndWait { from, to } => {
            let mut store = job.open()?;
            insert(store.as_mut(), *from..*to)?;
            store.before_kill()?;
            say_ready()?;
            std::io::stdin().read_to_end(&mut Vec::new())?;
            return Err("nobody killed the writer".into());
        }
        Task::Open { number } => open(&job, *number)?,
        Task::Memory => memory(&job)?,
        Task::Gets { count } => gets(&job, *count)?,
        Task::Misses { name, milliseconds } => misses(&job, name, Duration::from_millis(*milliseconds))?,
        Task::Puts { name, from, count, flush } => puts(&job, name, *from, *count, *flush)?,
        Task::Write { writer, every_ms } => write(&job, *writer, Duration::from_millis(*every_ms))?,
    };
    println!("{}", serde_json::to_string(&found)?);
    Ok(())
}

fn say_ready() -> Result<(), Failure> {
    println!("ready");
    Ok(std::io::stdout().flush()?)
}

/// Times of single calls, in nanoseconds.
#[derive(Default)]
struct Times(Vec<u32>);

impl Times {
    fn time<T>(&mut self, call: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let outcome = call();
        self.0.push(u32::try_from(started.elapsed().as_nanos()).unwrap_or(u32::MAX));
        outcome
    }

    fn report(mut self, name: &str, found: &mut Found) {
        self.0.sort_unstable();
        let Some(last) = self.0.len().checked_sub(1) else { return };
        let at = |share: f64| f64::from(self.0[(last as f64 * share).round() as usize]);
        let mean = self.0.iter().map(|&time| f64::from(time)).sum::<f64>() / self.0.len() as f64;
        found.insert(format!("{name}.p50"), at(0.5));
        found.insert(format!("{name}.p99"), at(0.99));
        found.insert(format!("{name}.p999"), at(0.999));
        found.insert(format!("{name}.mean"), mean);
    }
}

fn fresh(number: u64) -> Fresh {
    (workload::key(number), workload::value(number))
}

impl Job {
    fn open(&self) -> Result<Box<dyn Store>, Failure> {
        self.engine.open(&self.folder)
    }
}

/// Gives the bytes of all values, and the time to insert them.
fn insert(store: &mut dyn Store, numbers: Range<u64>) -> Result<(u64, Duration), Failure> {
    let (mut bytes, mut took, mut chunk, mut waiting) = (0, Duration::ZERO, Vec::new(), 0);
    for number in numbers.clone() {
        let entry = fresh(number);
        waiting += entry.1.len();
        chunk.push(entry);
        if waiting >= CHUNK || number + 1 == numbers.end {
            let started = Instant::now();
            store.put_many(&mut chunk)?;
            took += started.elapsed();
            bytes += waiting as u64;
            waiting = 0;
            chunk.clear();
        }
    }
    Ok((bytes, took))
}

fn fill(job: &Job) -> Result<Found, Failure> {
    let mut store = job.open()?;
    let (bytes, mut took) = insert(store.as_mut(), 0..job.entries)?;
    let started = Instant::now();
    store.close()?;
    took += started.elapsed();
    let rate = bytes as f64 / 1e6 / took.as_secs_f64();
    Ok(Found::from([("bulk".to_owned(), rate), ("payload".to_owned(), bytes as f64)]))
}

fn open(job: &Job, number: u64) -> Result<Found, Failure> {
    let (key, mut buffer) = (workload::key(number), Vec::new());
    let started = Instant::now();
    let mut store = job.open()?;
    let opened = started.elapsed();
    let there = store.get(&key, &mut buffer)?;
    let took = started.elapsed();
    if !there || *buffer != *workload::value(number) {
        return Err(format!("entry {number} is not as it was put").into());
    }
    store.close()?;
    let nanoseconds = |time: Duration| time.as_nanos() as f64;
    Ok(Found::from([("open".to_owned(), nanoseconds(took)), ("open_alone".to_owned(), nanoseconds(opened))]))
}

/// Bytes of this process in memory: all, and those of no file. The kernel counts the pages of this file exactly; the
/// counters of /proc/self/status lag behind. page by page for this file; the counters of /proc/self/status lag
/// behind.
fn resident() -> Result<[f64; 2], Failure> {
    let text = fs::read_to_string("/proc/self/smaps_rollup")?;
    let kilobytes = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok())
    };
    match (kilobytes("Rss:"), kilobytes("Anonymous:")) {
        (Some(all), Some(own)) => Ok([all * 1024.0, own * 1024.0]),
        _ => Err("/proc/self/smaps_rollup is not as expected".into()),
    }
}

fn memory(job: &Job) -> Result<Found, Failure> {
    // Memory of an empty store, its code included, does not belong to the index.
    let twin = job.folder.with_extension("empty");
    fs::create_dir(&twin)?;
    let mut empty = job.engine.open(&twin)?;
    empty.contains(&workload::key(0))?;
    empty.close()?;
    fs::remove_dir_all(&twin)?;

    let before = resident()?;
    let mut store = job.open()?;
    for number in 0..job.entries {
        if !store.contains(&workload::key(number))? {
            return Err(format!("entry {number} is missing").into());
        }
    }
    let after = resident()?;
    store.close()?;
    let each = |at: usize| (after[at] - before[at]) / job.entries as f64;
    Ok(Found::from([("memory.rss".to_owned(), each(0)), ("memory.anon".to_owned(), each(1))]))
}

fn gets(job: &Job, count: u64) -> Result<Found, Failure> {
    let (mut store, mut buffer) = (job.open()?, Vec::new());
    // Also loads everything into the caches, and LMDB's pages into this process.
    for number in 0..job.entries {
        let there = store.get(&workload::key(number), &mut buffer)?;
        let right = if number % 64 == 0 {
            *buffer == *workload::value(number)
        } else {
            workload::looks_like(number, &buffer)
        };
        if !there || !right {
            return Err(format!("entry {number} is not as it was put").into());
        }
    }
    let mut found = Found::new();
    let mut random = Random::new(job.seed);
    let mut times = Times::default();
    for _ in 0..count {
        let key = workload::key(random.below(job.entries));
        if !times.time(|| store.get(&key, &mut buffer))? {
            return Err("an entry is missing".into());
        }
        black_box(&buffer);
    }
    times.report("hit", &mut found);

    let mut times = Times::default();
    for _ in 0..count {
        let key = workload::key(random.below(job.entries));
        let Some(sum) = times.time(|| store.look(&key))? else {
            times = Times::default();
            break;
        };
        black_box(sum);
    }
    times.report("look", &mut found);

    let mut times = Times::default();
    for _ in 0..count {
        times.time(|| black_box(()));
    }
    times.report("timer", &mut found);
    store.close()?;
    Ok(found)
}

fn misses(job: &Job, name: &str, long: Duration) -> Result<Found, Failure> {
    let (mut store, mut buffer) = (job.open()?, Vec::new());
    let mut random = Random::new(job.seed);
    let mut absent = || workload::key(ABSENT + random.below(ABSENT));
    // Warm, as for hits.
    for number in 0..job.entries {
        store.contains(&workload::key(number))?;
    }
    let mut times = Times::default();
    let started = Instant::now();
    while started.elapsed() < long {
        for _ in 0..100 {
            let key = absent();
            if times.time(|| store.get(&key, &mut buffer))? {
                return Err("there is an entry that nobody put".into());
            }
        }
    }
    store.close()?;
    let mut found = Found::new();
    times.report(name, &mut found);
    Ok(found)
}

fn puts(job: &Job, name: &str, from: u64, count: u64, flush: bool) -> Result<Found, Failure> {
    let (mut store, mut buffer) = (job.open()?, Vec::new());
    // The first put creates files and threads.
    store.put(&mut fresh(PUTS + from + count))?;
    store.flush()?;
    let mut times = Times::default();
    for number in PUTS + from..PUTS + from + count {
        let mut entry = fresh(number);
        times.time(|| {
            store.put(&mut entry)?;
            if flush { store.flush() } else { Ok(()) }
        })?;
        if !store.get(&entry.0, &mut buffer)? || !workload::looks_like(number, &buffer) {
            return Err("an entry cannot be read right after it was put".into());
        }
    }
    store.close()?;
    let mut found = Found::new();
    times.report(name, &mut found);
    Ok(found)
}

fn write(job: &Job, writer: u64, every: Duration) -> Result<Found, Failure> {
    let mut store = job.open()?;
    let first = OTHERS + (writer << 24);
    store.put(&mut fresh(first))?;
    store.flush()?;
    let ended = Arc::new(AtomicBool::new(false));
    let tell = ended.clone();
    std::thread::spawn(move || {
        // An error also ends the job.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        tell.store(true, Ordering::Relaxed);
    });
    say_ready()?;
    let mut number = first;
    while !ended.load(Ordering::Relaxed) {
        std::thread::sleep(every);
        number += 1;
        store.put(&mut fresh(number))?;
    }
    store.close()?;
    Ok(Found::new())
}
