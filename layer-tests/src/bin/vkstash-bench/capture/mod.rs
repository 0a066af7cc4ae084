//! `capture`: the layer's work before it knows whether the stash has a pipeline, without Vulkan: the recipe is
//! captured, encoded and hashed, and its key is looked up.
//!
//! Each figure stands beside a yardstick that was timed right before it: if a shared machine is half as fast for a
//! second, both take twice as long.

mod cases;
#[path = "../../../../../crates/store/src/tests/header.rs"]
pub(crate) mod header;
mod objects;

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};
use vkstash_layer_tests::bench::report::Device;
use vkstash_model::app_name::AppName;
use vkstash_model::key;
use vkstash_model::record::{Key, Kind};
use vkstash_recipe::capture::Scratch;
use vkstash_store::part::open::Part;
use vkstash_store::stash::open::Stash;

use self::cases::{Case, LIBRARIES};
use self::header::header;
use self::objects::Live;
use crate::failure::Failure;
use crate::options::Capture;
use crate::progress::progress;
use crate::table::{Figure, Table};

/// Records in the index.
const RECORDS: u64 = 10_000;

/// Bytes of a typical artifact.
const ARTIFACT: usize = 4096;

/// Kinds of keys: those of the records, and others.
const STORED: u8 = 5;
const ABSENT: u8 = 6;

/// Repetitions of a step in each round: few enough that most rounds end before the system lets another program run.
const ITERATIONS: u32 = 200;

const YARDSTICK: &str = "SHA-256 of 1 KiB";

/// One table, with six rows for each case.
pub(crate) fn run(options: &Capture, rounds: usize) -> Result<Vec<Table>, Failure> {
    let folder = tempfile::Builder::new().prefix("vkstash-bench-").tempdir()?;
    let (live, cases) = (Live::new(&LIBRARIES), cases::all());
    fill(folder.path(), &live, &cases)?;
    let stash = open(folder.path())?;
    let bench = Bench { live, part: stash.device(&header())?, rounds: rounds.max(1) };
    let mut figures = Vec::new();
    let wanted = |case: &&Case| options.only.is_empty() || options.only.iter().any(|only| only == case.id);
    for case in cases.iter().filter(wanted) {
        progress(case.what);
        bench.case(case, &mut figures);
    }
    bench.store(&mut figures);
    let device = Device {
        name: "the library by itself".to_owned(),
        driver: "no driver".to_owned(),
        ..Device::default()
    };
    let title = format!("Capture, key and look-up in an index of {RECORDS}");
    Ok(vec![Table { title, device, modules: 0, figures }])
}

fn open(folder: &Path) -> Result<Arc<Stash>, Failure> {
    Ok(Stash::open(folder, &AppName::new(Some(b"bench"), b"bench"))?)
}

/// A first run, which is not measured; the second finds every case on the disk.
fn fill(folder: &Path, live: &Live, cases: &[Case]) -> Result<(), Failure> {
    let stash = open(folder)?;
    let part = stash.device(&header())?;
    for number in 0..RECORDS {
        let key = objects::key(STORED, number);
        part.put(Kind::Artifact, &key, artifact(&key));
    }
    let mut bytes = Vec::new();
    for case in cases {
        let key = encoded(live, case, &mut bytes);
        part.put(Kind::Artifact, &key, artifact(&key));
    }
    stash.flush(Duration::from_secs(60));
    Ok(())
}

/// A payload that no other record has: equal ones would be stored once.
fn artifact(key: &Key) -> Box<[u8]> {
    let mut payload = vec![0; ARTIFACT];
    payload[8..8 + key.len()].copy_from_slice(key);
    payload.into()
}

/// Leaves the encoded recipe in `bytes`.
fn encoded(live: &Live, case: &Case, bytes: &mut Vec<u8>) -> Key {
    let mut scratch = Scratch::default();
    let recipe = case.info.capture(live, &mut scratch);
    key::encode(&recipe, bytes).expect("a recipe that can be encoded");
    key::digest(key::RECIPE, bytes)
}

struct Bench {
    live: Live,
    part: Arc<Part>,
    rounds: usize,
}

/// The times of one step and of the yardstick over many rounds, in nanoseconds.
struct Series {
    step: Vec<f64>,
    yardstick: Vec<f64>,
}

impl Bench {
    fn case(&self, case: &Case, figures: &mut Vec<Figure>) {
        let mut scratch = Scratch::default();
        let recipe = case.info.capture(&self.live, &mut scratch);
        let mut bytes = Vec::new();
        key::encode(&recipe, &mut bytes).expect("a recipe that can be encoded");
        let mut push = |step: &str, what: &str, series| {
            let what = format!("{}: {what}", case.what);
            figures.push(figure(&format!("{}.{step}", case.id), what, series));
        };
        push("total", "all of it", self.series(|| found(&self.live, &self.part, case, &mut bytes)));
        push("capture", "capture", self.series(|| captured(&self.live, case)));
        let mut buffer = Vec::new();
        push(
            "encode",
            &format!("encoding, {} bytes", bytes.len()),
            self.series(|| key::encode(&recipe, &mut buffer)),
        );
        push("hash", "SHA-256", self.series(|| key::digest(key::RECIPE, black_box(&bytes))));
        let own = key::digest(key::RECIPE, &bytes);
        push("hit", "look-up", self.series(|| self.part.contains(Kind::Artifact, black_box(&own))));
    }

    /// The figures that do not depend on the pipeline.
    fn store(&self, figures: &mut Vec<Figure>) {
        let (mut there, mut absent, mut read) = (keys(STORED), keys(ABSENT), keys(STORED));
        let mut buffer = Vec::new();
        let rows = [
            (
                "hit",
                "look-up, another key each time",
                self.series(|| self.part.contains(Kind::Artifact, there())),
            ),
            ("miss", "look-up, absent", self.series(|| self.part.contains(Kind::Artifact, absent()))),
            (
                "read",
                "look-up, reading 4 KiB and checking them",
                self.series(|| self.part.read(Kind::Artifact, read(), &mut buffer)),
            ),
        ];
        figures
            .extend(rows.map(|(id, what, series)| figure(&format!("store.{id}"), what.to_owned(), series)));
    }

    /// Times a step and the yardstick in turn, after one round that is not counted.
    fn series<T>(&self, mut step: impl FnMut() -> T) -> Series {
        let block = vec![7; 1024];
        let mut series = Series { step: Vec::new(), yardstick: Vec::new() };
        for round in 0..=self.rounds {
            let yardstick = self.nanoseconds(&mut || Sha256::digest(black_box(&block)));
            let step = self.nanoseconds(&mut step);
            if round > 0 {
                series.yardstick.push(yardstick);
                series.step.push(step);
            }
        }
        series
    }

    fn nanoseconds<T>(&self, step: &mut impl FnMut() -> T) -> f64 {
        let started = Instant::now();
        for _ in 0..ITERATIONS {
            black_box(step());
        }
        started.elapsed().as_nanos() as f64 / f64::from(ITERATIONS)
    }
}

/// All steps together. A function of its own, so that an instruction counter can be limited to it.
#[inline(never)]
fn found(live: &Live, part: &Part, case: &Case, buffer: &mut Vec<u8>) -> bool {
    let mut scratch = Scratch::default();
    let recipe = black_box(&case.info).capture(live, &mut scratch);
    key::encode(&recipe, buffer).is_ok() && part.contains(Kind::Artifact, &key::digest(key::RECIPE, buffer))
}

#[inline(never)]
fn captured(live: &Live, case: &Case) -> usize {
    let mut scratch = Scratch::default();
    black_box(&black_box(&case.info).capture(live, &mut scratch)).pipeline.stages().len()
}

/// Keys in sequence: a program does not request the same pipeline twice.
fn keys(kind: u8) -> impl FnMut() -> &'static Key {
    let keys: &'static [Key] =
        (0..RECORDS).map(|number| objects::key(kind, number)).collect::<Vec<_>>().leak();
    let mut at = 0;
    move || {
        at = (at + 1) % keys.len();
        &keys[at]
    }
}

fn figure(id: &str, what: String, Series { step, yardstick }: Series) -> Figure {
    Figure::pairs(id, what, &step, YARDSTICK, &yardstick, "ns")
}
