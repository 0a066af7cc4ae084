//! The order of jobs. In a round each job runs with one engine after the other, so that other work of the machine
//! affects all alike, and every round begins with another engine.

use std::fs::{self, File};
use std::io::Write as _;
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use crate::child::{self, Worker};
use crate::engines::Engine;
use crate::failure::Failure;
use crate::jobs::{Found, Job, Task};
use crate::machine::{self, Machine};
use crate::options::Run;
use crate::report::{Report, Size};
use crate::workload::{self, Random};

/// Prefix of a run's folder; its process id follows.
const PREFIX: &str = "run-";
/// Other live writers during a miss.
const WRITERS: [(u64, &str); 3] = [(0, "miss_0"), (1, "miss_1"), (8, "miss_8")];
/// Up to this many entries, filling is fast enough for several kills in a round.
const SMALL: u64 = 20_000;
const KILLS: usize = 4;
/// Bytes that the stash writes into one segment in any case, without sealing it.
const SHARE: usize = 48 << 20;
/// Up to this many entries, the number of processes that write so little is acceptable.
const BEARABLE: u64 = 200_000;
/// Largest size written to warm the page cache; more would have to wait for the disk.
const WARM: u64 = 2 << 30;

/// Runs all requested measurements.
pub fn run(options: &Run) -> Result<Report, Failure> {
    let options = options.sizes();
    fs::create_dir_all(&options.folder)?;
    let parent = options.folder.canonicalize()?;
    remove_abandoned(&parent)?;
    let folder = parent.join(format!("{PREFIX}{}", std::process::id()));
    if machine::is_in_memory(&options.folder)? {
        return Err(format!("{} is in memory, not on a disk", options.folder.display()).into());
    }
    fs::DirBuilder::new().mode(0o700).create(&folder)?;
    let _removed = Removed(folder.clone());
    let mut report = Report { machine: Machine::here(&options.folder)?, sizes: Vec::new() };
    for &entries in &options.entries {
        let payload = (0..entries).map(|number| workload::length(number) as u64).sum();
        let groups = groups(&options, payload)?;
        let rounds = options.rounds(entries);
        let size = Size::new(entries, payload, rounds, groups.len() == 1);
        let mut bench = Bench { options: &options, folder: &folder, entries, seed: 0, size };
        for round in 0..rounds {
            for group in &groups {
                let mut engines = group.clone();
                engines.rotate_left(round % group.len());
                eprintln!("{entries} entries, round {} of {rounds}: {engines:?}", round + 1);
                bench.seed = entries << 8 | round as u64;
                bench.round(&engines)?;
            }
        }
        report.sizes.push(bench.size);
    }
    Ok(report)
}

/// Removes the folders of interrupted runs.
fn remove_abandoned(parent: &Path) -> Result<(), Failure> {
    for entry in fs::read_dir(parent)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let process = name.strip_prefix(PREFIX).and_then(|number| number.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

/// A folder that is removed when dropped.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        // The benchmark may have failed because of this folder.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Groups of engines whose stores exist at the same time: all, if all fit into the page cache.
fn groups(options: &Run, payload: u64) -> Result<Vec<Vec<Engine>>, Failure> {
    // Enough for the engine with the largest overhead.
    let (one, disk, memory) =
        (payload * 3 / 2, machine::free_disk(&options.folder)?, machine::free_memory()?);
    let all = one * options.engines.len() as u64;
    if all < disk && all < memory {
        return Ok(vec![options.engines.clone()]);
    }
    if one > disk {
        return Err(
            format!("{} MB of disk are needed, {} MB are free", one / 1_000_000, disk / 1_000_000).into()
        );
    }
    if one > memory {
        eprintln!("the stores do not fit into the page cache: these are figures of the disk");
    }
    Ok(options.engines.iter().map(|&engine| vec![engine]).collect())
}

struct Bench<'a> {
    options: &'a Run,
    folder: &'a Path,
    entries: u64,
    seed: u64,
    size: Size,
}

impl Bench<'_> {
    fn folder_of(&self, engine: Engine) -> PathBuf {
        self.folder.join(format!("{engine:?}").to_lowercase())
    }

    fn job(&self, engine: Engine, task: Task) -> Job {
        Job { engine, folder: self.folder_of(engine), entries: self.entries, seed: self.seed, task }
    }

    fn add(&mut self, engine: Engine, found: Found) {
        found.into_iter().for_each(|(name, value)| self.size.add(&name, engine, value));
    }

    fn measure(&mut self, engine: Engine, task: Task) -> Result<(), Failure> {
        let found = child::run(&self.job(engine, task))?;
        self.add(engine, found);
        Ok(())
    }

    fn clear(&self, engine: Engine) -> Result<(), Failure> {
        let folder = self.folder_of(engine);
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        Ok(fs::DirBuilder::new().mode(0o700).create(folder)?)
    }

    /// Waits until the kernel has written everything to the disk, so that one engine's writes do not disturb the next
    /// one.
    fn settle(&self) -> Result<(), Failure> {
        Ok(rustix::fs::syncfs(File::open(self.folder)?)?)
    }

    /// Makes the kernel allocate as many pages to a file as a store needs, and free them. A virtual machine may have
    /// to ask its host for pages that it has not used for some seconds, which takes longer than filling them; the
    /// next file gets these pages.
    fn warm(&self) -> Result<(), Failure> {
        let path = self.folder.join("warm");
        let mut file = File::create(&path)?;
        let bytes = vec![1; 1 << 20];
        for _ in 0..(self.size.payload * 5 / 4).min(WARM) / bytes.len() as u64 {
            file.write_all(&bytes)?;
        }
        Ok(fs::remove_file(&path)?)
    }

    fn round(&mut self, engines: &[Engine]) -> Result<(), Failure> {
        for &engine in engines {
            self.clear(engine)?;
            self.settle()?;
            self.warm()?;
            self.measure(engine, Task::Fill)?;
            let (allocated, long) = disk(&self.folder_of(engine))?;
            let payload = self.size.payload as f64;
            self.size.add("disk", engine, allocated as f64 / payload);
            self.size.add("disk_length", engine, long as f64 / payload);
        }
        self.settle()?;
        let mut random = Random::new(self.seed);
        // The first open is not counted.
        for time in 0..=self.options.opens {
            let number = random.below(self.entries);
            for &engine in engines {
                let found = child::run(&self.job(engine, Task::Open { number }))?;
                if time > 0 {
                    self.add(engine, found);
                }
            }
        }
        for &engine in engines {
            self.measure(engine, Task::Memory)?;
        }
        for &engine in engines {
            self.measure(engine, Task::Gets { count: self.options.gets })?;
        }
        for (writers, name) in WRITERS {
            for &engine in engines.iter().filter(|engine| writers == 0 || engine.many_processes()) {
                self.misses(engine, writers, name)?;
            }
        }
        for (name, from, flush) in [("put_queued", 0, false), ("put", 1 << 32, true)] {
            for &engine in engines.iter().filter(|&&engine| flush || engine == Engine::Stash) {
                let count = self.options.puts;
                self.settle()?;
                self.measure(engine, Task::Puts { name: name.to_owned(), from, count, flush })?;
            }
        }
        let kills = if self.entries <= SMALL && !self.options.quick { KILLS } else { 1 };
        let everything = 0..self.entries;
        for _ in 0..kills {
            for &engine in engines {
                self.kill(engine, "killed", std::slice::from_ref(&everything))?;
            }
            // No other engine seals.
            if engines.contains(&Engine::Stash) && self.entries <= BEARABLE {
                self.kill(Engine::Stash, "killed_all", &self.shares())?;
            }
        }
        engines.iter().try_for_each(|&engine| self.clear(engine))
    }

    fn misses(&mut self, engine: Engine, writers: u64, name: &str) -> Result<(), Failure> {
        let every_ms = self.options.writer_ms;
        let start = |writer| Worker::start(&self.job(engine, Task::Write { writer, every_ms }))?.ready();
        // Numbered so that no two puts of a round have the same key.
        let others: Vec<Worker> =
            (0..writers).map(|writer| start(writers + writer)).collect::<Result<_, _>>()?;
        let milliseconds = self.options.miss_ms;
        self.measure(engine, Task::Misses { name: name.to_owned(), milliseconds })?;
        for other in others {
            other.finish()?;
        }
        Ok(())
    }

    /// Lets these writers fill the store one after the other, kills them all, and opens the store.
    fn kill(&mut self, engine: Engine, name: &str, writers: &[Range<u64>]) -> Result<(), Failure> {
        self.clear(engine)?;
        self.settle()?;
        let mut alive = Vec::new();
        for &Range { start: from, end: to } in writers {
            alive.push(Worker::start(&self.job(engine, Task::FillAndWait { from, to }))?.ready()?);
        }
        alive.into_iter().try_for_each(Worker::kill)?;
        self.settle()?;
        // The last entry: it is not in a sorted index yet.
        let number = self.entries - 1;
        let found = child::run(&self.job(engine, Task::Open { number }))?;
        let open = found.get("open").ok_or("the job did not say how long it took")?;
        self.size.add(name, engine, *open);
        Ok(())
    }

    /// The entries, divided among so many writers that none of them fills a segment.
    fn shares(&self) -> Vec<Range<u64>> {
        let (mut shares, mut from, mut bytes) = (Vec::new(), 0, 0);
        for number in 0..self.entries {
            bytes += workload::length(number);
            if bytes >= SHARE || number + 1 == self.entries {
                shares.push(from..number + 1);
                (from, bytes) = (number + 1, 0);
            }
        }
        shares
    }
}

/// Bytes that the files and folders in `folder` occupy on disk, and the total length of the files.
fn disk(folder: &Path) -> Result<(u64, u64), Failure> {
    let own = fs::metadata(folder)?.blocks() * 512;
    let mut sum = (own, 0);
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        if metadata.is_dir() {
            let (allocated, long) = disk(&entry.path())?;
            sum = (sum.0 + allocated, sum.1 + long);
        } else {
            sum = (sum.0 + metadata.blocks() * 512, sum.1 + metadata.len());
        }
    }
    Ok(sum)
}
