//! `lookups`: what a look-up costs in the own part of a stash, in a base and in a sibling, of one segment and of many,
//! beside the own part of one segment and of as many; what it costs to open a base, beside an own stash that has the
//! same, and to open a base that has many applications. Needs neither layer nor driver.

use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use vkstash_layer_tests::bench::report::Device;
use vkstash_layer_tests::folder;
use vkstash_model::app_name::AppName;
use vkstash_model::record::{Key, Kind};
use vkstash_store::format::device::DeviceHeader;
use vkstash_store::stash::open::Stash;
use vkstash_store::stash::siblings::Kin;
use vkstash_store::stash::uses::Run;

use crate::capture::header::header;
use crate::failure::Failure;
use crate::progress::progress;
use crate::table::{Figure, Table};

/// Records of each segment.
const RECORDS: u64 = 20;
/// Keys that are looked up in each round.
const KEYS: u64 = 2000;
/// Until the layer's thread has merged the indexes.
const MERGED_AFTER: Duration = Duration::from_millis(500);

/// Three tables.
pub(crate) fn run(segments: &[u32], applications: u32, rounds: usize) -> Result<Vec<Table>, Failure> {
    let folder = tempfile::Builder::new().prefix("vkstash-bench-").tempdir()?;
    let path = |name: String| folder.path().join(name);
    let sibling = DeviceHeader { features_digest: [1; 32], ..header() };
    let one = Subject { root: path("own-1".to_owned()), ..Subject::default() };
    fill(&one.root, &header(), 1)?;
    let (mut figures, mut openings) = (Vec::new(), Vec::new());
    for &count in segments {
        progress(&format!("{count} segments"));
        let base = path(format!("base-{count}"));
        fill(&base, &header(), count)?;
        let beside = path(format!("sibling-{count}"));
        fill(&beside, &sibling, count)?;
        let as_many = Subject { root: path(format!("copy-{count}")), ..Subject::default() };
        folder::copy(&base, &as_many.root)?;
        let subjects = [
            ("base", Subject { root: path(format!("empty-{count}")), base: Some(base), in_siblings: false }),
            // The sibling's artifacts are in a base, where no writer rewrites segments meanwhile.
            (
                "sibling",
                Subject { root: path(format!("alone-{count}")), base: Some(beside), in_siblings: true },
            ),
        ];
        let (mut own, mut own_many, mut others) =
            (Times::default(), Times::default(), [(); 2].map(|()| Times::default()));
        openings.extend(beside_own(&subjects[0].1, &as_many, count, rounds)?);
        // One after the other: a process keeps few files open, and each is to have all of them.
        for _ in 0..rounds {
            own.measure(&one, 1)?;
            own_many.measure(&as_many, count)?;
            for ((_, subject), times) in subjects.iter().zip(&mut others) {
                times.measure(subject, count)?;
            }
        }
        for ((name, _), times) in subjects.iter().zip(&others) {
            for (against, short, peers) in
                [("1".to_owned(), "", &own), (count.to_string(), ".as_many", &own_many)]
            {
                let against = format!("own part, segments: {against}");
                for (what, measured, peers) in
                    [("hit", &times.hits, &peers.hits), ("miss", &times.misses, &peers.misses)]
                {
                    let id = format!("lookup.{name}{count}segments.{what}{short}");
                    let title = format!("{what}: {name}, {count} segments");
                    figures.push(Figure::pairs(id, title, measured, &against, peers, "ns"));
                }
            }
        }
    }
    let look_ups = table("Look-ups", figures);
    let openings =
        table("Opening a base, and the first look-up, beside an own stash with the same files", openings);
    Ok(vec![look_ups, openings, opening(folder.path(), applications, rounds)?])
}

fn table(title: &str, figures: Vec<Figure>) -> Table {
    let device = Device {
        name: "the store by itself".to_owned(),
        driver: "no driver".to_owned(),
        ..Device::default()
    };
    Table { title: title.to_owned(), device, modules: 0, figures }
}

/// A stash without artifacts over a base, beside a stash that has copies of the base's files.
fn beside_own(over: &Subject, own: &Subject, segments: u32, rounds: usize) -> Result<[Figure; 2], Failure> {
    // Both folders are there when they are measured.
    open_once(&over.root, over.base.clone())?;
    let mut pairs = [(Vec::new(), Vec::new()), (Vec::new(), Vec::new())];
    for _ in 0..rounds {
        let (of_base, of_own) = (open_once(&over.root, over.base.clone())?, open_once(&own.root, None)?);
        for (at, pair) in pairs.iter_mut().enumerate() {
            pair.0.push(of_base[at]);
            pair.1.push(of_own[at]);
        }
    }
    let (what, against) =
        (format!("base of {segments} segments"), format!("own stash, segments: {segments}"));
    let figure = |name: &str, (base, own): &(Vec<f64>, Vec<f64>), title: &str, unit: &'static str| {
        Figure::pairs(
            format!("open.base{segments}.{name}"),
            format!("{what}: {title}"),
            base,
            &against,
            own,
            unit,
        )
    };
    Ok([figure("time", &pairs[0], "time", "us"), figure("reads", &pairs[1], "read calls", "calls")])
}

/// Opens a stash, and looks for an artifact: microseconds, and system calls that read.
fn open_once(root: &Path, base: Option<PathBuf>) -> Result<[f64; 2], Failure> {
    let (before, started) = (read_calls(), Instant::now());
    let stash = open(root, base)?;
    let is_there = stash.device(&header())?.contains(Kind::Artifact, &key(0));
    let (time, reads) = (started.elapsed().as_nanos() as f64 / 1e3, (read_calls() - before) as f64);
    if is_there { Ok([time, reads]) } else { Err("the artifact was not found".into()) }
}

/// A base of many applications, of which a program uses one.
fn opening(folder: &Path, applications: u32, rounds: usize) -> Result<Table, Failure> {
    progress(&format!("{applications} applications"));
    let (few, many) = (folder.join("few"), folder.join("many"));
    fill(&few, &header(), 1)?;
    fill(&many, &header(), 1)?;
    let own = many.join(&app().folder);
    for number in 1..applications {
        folder::copy(&own, &many.join(format!("other-{number}")))?;
    }
    let (mut times, mut reads) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for round in 0..rounds {
        for (at, base) in [&few, &many].into_iter().enumerate() {
            let [time, calls] = open_once(&folder.join(format!("fresh-{round}-{at}")), Some(base.clone()))?;
            times[at].push(time);
            reads[at].push(calls);
        }
    }
    let [few_times, many_times] = &times;
    let [few_reads, many_reads] = &reads;
    let (what, against) = (format!("base of {applications} applications"), "base of 1 application");
    Ok(table(
        "Opening a stash with a base, and the first look-up",
        vec![
            Figure::pairs("bases.open", format!("{what}: time"), many_times, against, few_times, "us"),
            Figure::pairs(
                "bases.reads",
                format!("{what}: read calls"),
                many_reads,
                against,
                few_reads,
                "calls",
            ),
        ],
    ))
}

/// System calls of this process that read.
fn read_calls() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/io").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("syscr: "));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}

fn app() -> AppName {
    AppName::new(Some(b"bench"), b"bench")
}

fn open(root: &Path, base: Option<PathBuf>) -> Result<Arc<Stash>, Failure> {
    let (bases, run) = (base.into_iter().collect(), Run::of_this_process());
    Ok(Stash::open_in_run(root, bases, &app(), run, Some(Duration::from_secs(60)), None)?)
}

fn key(number: u64) -> Key {
    let mut key = [0; 32];
    for (at, chunk) in (1..).zip(key.chunks_exact_mut(8)) {
        let mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(2 * at + 1));
        chunk.copy_from_slice(&(mixed ^ mixed >> 29).to_le_bytes());
    }
    key
}

/// A stash whose device part has so many segments. Each is made in a stash of its own, so that none are merged.
fn fill(root: &Path, header: &DeviceHeader, segments: u32) -> Result<(), Failure> {
    for segment in 0..segments {
        let place = if segment == 0 { root.to_owned() } else { root.with_extension("one") };
        let stash = Stash::open_patiently(&place, &app())?;
        let part = stash.device(header)?;
        for number in 0..RECORDS {
            let key = key(u64::from(segment) * RECORDS + number);
            part.put(Kind::Artifact, &key, [&key[..], &[0; 224]].concat().into());
        }
        let name = format!("device-{}", part.name());
        drop((part, stash));
        if segment > 0 {
            let made = place.join(app().folder).join(&name);
            for file in fs::read_dir(&made)? {
                let file = file?;
                fs::rename(file.path(), root.join(app().folder).join(&name).join(file.file_name()))?;
            }
            fs::remove_dir_all(&place)?;
        }
    }
    Ok(())
}

/// What is measured.
#[derive(Default)]
struct Subject {
    root: PathBuf,
    base: Option<PathBuf>,
    in_siblings: bool,
}

/// Nanoseconds of a look-up, round by round.
#[derive(Default)]
struct Times {
    hits: Vec<f64>,
    misses: Vec<f64>,
}

impl Times {
    fn measure(&mut self, subject: &Subject, segments: u32) -> Result<(), Failure> {
        let stash = open(&subject.root, subject.base.clone())?;
        let looked_up = LookedUp::new(stash, segments, subject.in_siblings)?;
        std::thread::sleep(MERGED_AFTER);
        self.hits.push(looked_up.look_up(true));
        self.misses.push(looked_up.look_up(false));
        Ok(())
    }
}

/// A part, or the siblings of one.
struct LookedUp {
    stash: Arc<Stash>,
    siblings: Option<vkstash_store::stash::siblings::Siblings>,
    records: u64,
}

impl LookedUp {
    fn new(stash: Arc<Stash>, segments: u32, in_siblings: bool) -> Result<LookedUp, Failure> {
        let siblings = in_siblings.then(|| stash.siblings(&header(), Kin::Features));
        let found = LookedUp { stash, siblings, records: u64::from(segments) * RECORDS };
        // Opens it, and reads what is read once.
        let deadline = Instant::now() + Duration::from_secs(20);
        while !found.has_all() {
            if Instant::now() > deadline {
                return Err("not all records are found".into());
            }
        }
        Ok(found)
    }

    fn has_all(&self) -> bool {
        let mut buffer = Vec::new();
        (0..self.records).all(|number| self.read(&key(number), &mut buffer))
    }

    fn read(&self, key: &Key, buffer: &mut Vec<u8>) -> bool {
        match &self.siblings {
            Some(siblings) => siblings.read(key, 0, buffer).is_some(),
            None => self.stash.device(&header()).is_ok_and(|part| part.read(Kind::Artifact, key, buffer)),
        }
    }

    /// Nanoseconds of a look-up.
    fn look_up(&self, hits: bool) -> f64 {
        let mut buffer = Vec::new();
        let keys: Vec<Key> = (0..KEYS)
            .map(|number| key(if hits { number * 7919 % self.records } else { (1 << 40) + number }))
            .collect();
        let part = self.stash.device(&header());
        let started = Instant::now();
        for key in &keys {
            let found = match (&self.siblings, &part) {
                (Some(siblings), _) => siblings.read(key, 0, &mut buffer).is_some(),
                (None, Ok(part)) => part.read(Kind::Artifact, key, &mut buffer),
                (None, Err(_)) => false,
            };
            assert_eq!(
                black_box(found),
                hits,
                "{} records, sibling {}",
                self.records,
                self.siblings.is_some()
            );
        }
        started.elapsed().as_nanos() as f64 / KEYS as f64
    }
}
