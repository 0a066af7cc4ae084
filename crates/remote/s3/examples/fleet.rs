//! A fleet of machines over one S3 server, day by day, with the real code and real files, as Markdown
//! (docs/evidence/fleet.md):
//! `cargo run --release -p vkstash-remote-s3 --example fleet -- [CLIENTS [APPLICATIONS [DAYS]]]`.
//!
//! Each client starts a few programs a day. Before a program it pulls; what neither its own stash nor the base has it
//! "compiles", records, and offers without a key. Every night one builder takes the inbox, compiles for every device
//! header that it knows, signs and publishes. On day 10 clients begin to get a new driver.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a simulation ends at the first surprise")]

#[path = "../../../store/src/tests/header.rs"]
mod header;
#[path = "../tests/server.rs"]
#[allow(dead_code, reason = "the tests count more")]
mod server;
#[path = "../../tests/support.rs"]
#[allow(dead_code, reason = "the tests need more")]
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use vkstash_model::identifier::module_identity;
use vkstash_model::record::{Key, Kind};
use vkstash_remote::build;
use vkstash_remote::home::Home;
use vkstash_remote::progress::Quiet;
use vkstash_remote::{pull, push};
use vkstash_store::format::device::DeviceHeader;
use vkstash_store::stash::open::Stash;
use vkstash_store::stash::uses::Run;

use server::Server;
use support::{DAY, NOW, World, app, files, key, noise, wait};

/// Different devices in the fleet.
const DEVICES: u64 = 3;
/// Pipelines of an application.
const PIPELINES: u64 = 20;
/// Of them, those that every run asks for; it asks for each of the others in one run of two.
const ALWAYS: u64 = 12;
/// Programs that a client starts on a day.
const STARTS: u64 = 2;
const UPDATE_DAY: u64 = 10;
/// One client of this number is asked for the hit rate of a new one each day.
const FRESH: usize = 10;
const MODULE: usize = 1500;
const PATIENT: Option<Duration> = Some(Duration::from_secs(60));

/// xorshift64*.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// One of `count` with Zipf's distribution: the first is the most frequent.
    fn popular(&mut self, count: u64) -> u64 {
        let share = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        (((count + 1) as f64).powf(share) as u64).clamp(1, count) - 1
    }
}

fn name(application: u64) -> String {
    format!("game {application}")
}

fn number(application: u64, pipeline: u64) -> u64 {
    application * PIPELINES + pipeline
}

fn module(number: u64) -> (Key, Box<[u8]>) {
    let code = noise(number ^ 0xFFFF, MODULE);
    (module_identity(Default::default(), &code), [&[0; 4][..], &code].concat().into())
}

fn on(device: u64, driver: u32) -> DeviceHeader {
    let known = header::header();
    DeviceHeader { device_id: known.device_id + device as u32, driver_version: driver, ..known }
}

#[derive(Clone, Debug, Default)]
struct Sums {
    runs: u64,
    asked: u64,
    hits: u64,
    /// Of runs of a program that this client had not started before with this driver.
    first_asked: u64,
    first_hits: u64,
    unchanged: u64,
    pulled: u64,
    offers: u64,
    offered: u64,
}

impl Sums {
    fn add(&mut self, other: &Sums) {
        self.runs += other.runs;
        self.asked += other.asked;
        self.hits += other.hits;
        self.first_asked += other.first_asked;
        self.first_hits += other.first_hits;
        self.unchanged += other.unchanged;
        self.pulled += other.pulled;
        self.offers += other.offers;
        self.offered += other.offered;
    }
}

struct Client {
    device: u64,
    driver: u32,
    numbers: Numbers,
    dir: PathBuf,
    started: BTreeSet<(u64, u32)>,
}

impl Client {
    fn new(folder: &Path, number: u64) -> Client {
        let numbers = Numbers((number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let dir = folder.join(format!("client {number}"));
        Client { device: number % DEVICES, driver: 1, numbers, dir, started: BTreeSet::new() }
    }

    /// The programs of one day.
    fn day(&mut self, fleet: &Fleet, day: u64) -> Sums {
        // Half of the clients install the new driver at once, a quarter a day later, and so on.
        if day >= UPDATE_DAY && self.driver == 1 && self.numbers.next().is_multiple_of(2) {
            self.driver = 2;
        }
        let mut sums = Sums::default();
        for _ in 0..STARTS {
            let application = self.numbers.popular(fleet.applications);
            self.start(fleet, application, NOW + day * DAY, &mut sums);
        }
        sums
    }

    fn start(&mut self, fleet: &Fleet, application: u64, now: u64, sums: &mut Sums) {
        let (name, header) = (name(application), on(self.device, self.driver));
        let home = Home::open(&self.dir.join("remote")).unwrap();
        let request = pull::Request {
            applications: vec![(app(&name).folder, vec![header.clone()])],
            all: false,
            kept: false,
            rate: None,
            patience: Duration::from_secs(60),
            now,
        };
        let trust = fleet.world.trust();
        let pulled =
            wait(pull::pull(&fleet.server.bucket(), &home, &trust, &request, Arc::new(Quiet))).unwrap();
        assert!(pulled.failures.is_empty(), "{pulled:?}");
        sums.unchanged += u64::from(pulled.updated == 0);
        sums.pulled += pulled.bytes;

        let is_first = self.started.insert((application, self.driver));
        let root = self.dir.join("stash");
        let (bases, run) = (vec![home.base()], Run::of_this_process());
        let stash = Stash::open_in_run(&root, bases, &app(&name), run, PATIENT, PATIENT).unwrap();
        let part = stash.device(&header).unwrap();
        let (mut asked, mut hits, mut payload) = (0, 0, Vec::new());
        for pipeline in 0..PIPELINES {
            if pipeline >= ALWAYS && self.numbers.next().is_multiple_of(2) {
                continue;
            }
            let number = number(application, pipeline);
            asked += 1;
            if part.read(Kind::Artifact, &key(number), &mut payload) {
                assert!(payload == support::artifact(number), "the artifact of another pipeline");
                hits += 1;
                continue;
            }
            let (identity, record) = module(number);
            if !stash.portable().contains(Kind::Module, &identity) {
                assert!(stash.portable().put(Kind::Module, &identity, record));
            }
            assert!(part.put(Kind::Artifact, &key(number), support::artifact(number).into()));
        }
        drop(part);
        assert!(hits == asked || stash.flush(Duration::from_secs(60)));
        drop(stash);
        sums.runs += 1;
        sums.asked += asked;
        sums.hits += hits;
        if is_first {
            sums.first_asked += asked;
            sums.first_hits += hits;
        }
        if hits < asked {
            let request = push_of(&root, vec![app(&name).folder], now);
            let offered =
                wait(push::offer(&fleet.server.bucket(), &home, &request, Arc::new(Quiet))).unwrap();
            sums.offers += offered.segments;
            sums.offered += offered.bytes;
        }
    }
}

fn push_of(root: &Path, applications: Vec<String>, now: u64) -> push::Request {
    let (portable, replace, compact) = (false, false, false);
    push::Request { root: root.to_owned(), applications, portable, replace, compact, valid: 90 * DAY, now }
}

/// Takes the inbox, "compiles", and publishes.
struct Builder {
    dir: PathBuf,
    /// Device headers for which it compiles.
    headers: Vec<DeviceHeader>,
    /// The modules of the simulation.
    numbers: BTreeMap<Key, u64>,
    published: BTreeSet<String>,
}

#[derive(Default)]
struct Night {
    objects: usize,
    segments: u64,
    bytes: u64,
    took: Duration,
}

impl Builder {
    fn night(&mut self, fleet: &Fleet, now: u64, is_new_driver: bool) -> Night {
        let began = Instant::now();
        let bucket = || fleet.server.bucket();
        let home = Home::open(&self.dir.join("remote")).unwrap();
        let root = self.dir.join("stash");
        let new_applications = usize::MAX;
        let request = build::Request { root: root.clone(), applications: Vec::new(), new_applications, now };
        let taken = wait(build::take(&bucket(), &home, &request, Arc::new(Quiet))).unwrap();
        assert_eq!(taken.refused, 0);
        let mut changed: BTreeSet<String> = taken.applications.iter().cloned().collect();
        self.published.extend(changed.iter().cloned());
        if is_new_driver {
            changed.clone_from(&self.published);
        }
        let folders: BTreeMap<String, u64> =
            (0..fleet.applications).map(|number| (app(&name(number)).folder, number)).collect();
        for folder in &changed {
            let stash = Stash::open_patiently(&root, &app(&name(folders[folder]))).unwrap();
            let mut all = Vec::new();
            stash.portable().for_each(Kind::Module, &mut |identity, _| all.push(self.numbers[identity]));
            for header in &self.headers {
                let part = stash.device(header).unwrap();
                for number in all.iter().filter(|number| !part.contains(Kind::Artifact, &key(**number))) {
                    assert!(part.put(Kind::Artifact, &key(*number), support::artifact(*number).into()));
                }
            }
            assert!(stash.flush(Duration::from_secs(60)));
        }
        let request = push_of(&root, changed.into_iter().collect(), now);
        let (trust, signer) = (fleet.world.trust(), &fleet.world.signer);
        let pushed = wait(push::push(&bucket(), &home, &trust, signer, &request, Arc::new(Quiet))).unwrap();
        assert!(pushed.refused.is_empty(), "{pushed:?}");
        wait(build::remove(&bucket(), &taken, &[])).unwrap();
        let (objects, took) = (taken.objects.len(), began.elapsed());
        Night { objects, segments: pushed.segments, bytes: pushed.bytes, took }
    }
}

struct Fleet {
    world: World,
    server: Server,
    applications: u64,
}

/// What a machine that was set up today is served in its first run of each of the programs that are started most.
fn of_a_new_client(fleet: &Fleet, day: u64, driver: u32) -> f64 {
    let folder: TempDir = support::scratch();
    let mut client = Client::new(folder.path(), 1_000_000 + day);
    client.driver = driver;
    let mut sums = Sums::default();
    for application in 0..FRESH as u64 {
        client.start(fleet, application, NOW + day * DAY, &mut sums);
    }
    percent(sums.first_hits, sums.first_asked)
}

/// One day of all clients, several at a time.
fn day_of_all(clients: &mut [Client], fleet: &Fleet, day: u64) -> Sums {
    let threads = std::thread::available_parallelism().unwrap().get();
    let (next, mut sums) = (AtomicUsize::new(0), Sums::default());
    let todo: Vec<_> = clients.iter_mut().map(|client| std::sync::Mutex::new(Some(client))).collect();
    std::thread::scope(|scope| {
        let work = || {
            let mut sums = Sums::default();
            while let Some(slot) = todo.get(next.fetch_add(1, Ordering::Relaxed)) {
                let client = slot.lock().unwrap().take().unwrap();
                sums.add(&client.day(fleet, day));
            }
            sums
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().for_each(|worker| sums.add(&worker.join().unwrap()));
    });
    sums
}

fn percent(part: u64, all: u64) -> f64 {
    part as f64 / all.max(1) as f64 * 100.0
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

fn main() {
    let argument =
        |at: usize, usual: u64| std::env::args().nth(at).map_or(usual, |text| text.parse().unwrap());
    let (count, applications, days) = (argument(1, 200), argument(2, 500), argument(3, 14));
    let world = World::new();
    let served = world.folder.path().join("s3");
    let server = Server::start(&served);
    let fleet = Fleet { world, server, applications };
    // Beside it the server keeps notes of its own.
    let store = served.join("bucket/some/prefix/v1");
    let folder = support::scratch();
    let mut clients: Vec<Client> = (0..count).map(|number| Client::new(folder.path(), number)).collect();
    let numbers = (0..applications * PIPELINES).map(|number| (module(number).0, number)).collect();
    let headers = (0..DEVICES).map(|device| on(device, 1)).collect();
    let dir = folder.path().join("builder");
    let mut builder = Builder { dir, headers, numbers, published: BTreeSet::new() };
    println!(
        "{count} clients with {DEVICES} kinds of devices, {applications} applications of {PIPELINES} pipelines, {STARTS} starts a day;\n\
         a module has {MODULE} bytes, an artifact {}. New driver from day {UPDATE_DAY} on.\n",
        support::artifact(0).len()
    );
    println!(
        "| day | hits, first run of a program | hits, all runs | hits, a new machine | requests a start | nothing new | pulled, kB a start | offers | inbox, MB | published: segments, MB | night, s | store, MB |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
    for day in 1..=days {
        let before = fleet.server.requests.load(Ordering::Relaxed);
        let sums = day_of_all(&mut clients, &fleet, day);
        let requests = fleet.server.requests.load(Ordering::Relaxed) - before;
        let is_new_driver = day == UPDATE_DAY;
        if is_new_driver {
            builder.headers.extend((0..DEVICES).map(|device| on(device, 2)));
        }
        let night = builder.night(&fleet, NOW + day * DAY, is_new_driver);
        let fresh = of_a_new_client(&fleet, day, if day >= UPDATE_DAY { 2 } else { 1 });
        let stored: u64 = files(&store).values().map(|bytes| bytes.len() as u64).sum();
        println!(
            "| {day} | {:.1} % | {:.1} % | {fresh:.1} % | {:.2} | {:.0} % | {:.1} | {} | {:.2} | {} ({} objects taken), {:.2} | {:.1} | {:.1} |",
            percent(sums.first_hits, sums.first_asked),
            percent(sums.hits, sums.asked),
            requests as f64 / sums.runs as f64,
            percent(sums.unchanged, sums.runs),
            sums.pulled as f64 / 1e3 / sums.runs as f64,
            sums.offers,
            megabytes(sums.offered),
            night.segments,
            night.objects,
            megabytes(night.bytes),
            night.took.as_secs_f64(),
            megabytes(stored),
        );
    }
    let manifests = files(&store.join("manifests"));
    let largest = manifests.values().map(Vec::len).max().unwrap_or_default();
    let sum: usize = manifests.values().map(Vec::len).sum();
    println!("\n{} manifests, {sum} bytes in all, the largest {largest}.", manifests.len());
}
