//! `parked`: pipelines that background work finishes before the program asks for them.

use vkstash_layer_tests::bench::numbers::quantile;
use vkstash_layer_tests::bench::report::Kind;

use crate::child::{Outcome, Runner};
use crate::environment::{self, Environment};
use crate::failure::Failure;
use crate::options::{Driver, OnDriver};
use crate::progress::progress;
use crate::served::medians;
use crate::table::{Figure, Table};

/// Long enough for the workers to finish what they may.
const PAUSE: [&str; 2] = ["--pause-ms", "1500"];
const THREADS: [&str; 4] = ["--pause-ms", "1500", "--threads", "16"];
/// 2,000 requests a second, from the creation of the device on.
const AT_ONCE: [&str; 2] = ["--gap-us", "500"];
const SPIN: [&str; 2] = ["--spin-ms", "400"];

/// One table.
pub(crate) fn run(runner: &Runner, options: &OnDriver, rounds: usize) -> Result<Vec<Table>, Failure> {
    let driver = options.driver.unwrap_or(Driver::Radv);
    environment::check(driver)?;
    let (stash, disk) = (runner.path("stash"), runner.folder("disk")?);
    let plain = Environment::bare(driver).with_disk(&disk);
    let served = plain.with_stash(&stash);
    let parked = served.with_background();
    progress("filling the driver's disk cache and the stash");
    runner.run(&plain, NOTHING)?;
    // Without the driver's disk cache, so that every pipeline is recorded; twice, so that every artifact was taken.
    let filling = Environment::bare(driver).with_stash(&stash).with_background();
    let shown = runner.run(&filling, NOTHING)?;
    for _ in 0..2 {
        runner.run(&filling.without_background(), NOTHING)?;
    }
    let mut all = Measured::default();
    for round in 0..rounds {
        progress(&format!("round {} of {rounds}", round + 1));
        all.hit.push(runner.run(&Environment::bare(driver), ["--hit"])?);
        all.disk.push(runner.run(&plain, PAUSE)?);
        all.disk_threads.push(runner.run(&plain, THREADS)?);
        all.disk_rate.push(runner.run(&plain, AT_ONCE)?);
        all.disk_spin.push(runner.run(&plain, SPIN)?);
        all.served.push(runner.run(&served, PAUSE)?);
        all.served_rate.push(runner.run(&served, AT_ONCE)?);
        all.served_spin.push(runner.run(&served, SPIN)?);
        all.parked.push(runner.run(&parked, PAUSE)?);
        all.parked_threads.push(runner.run(&parked, THREADS)?);
        all.parked_rate.push(runner.run(&parked, AT_ONCE)?);
        all.parked_spin.push(runner.run(&parked, SPIN)?);
        // Short runs differ much from one to the next.
        for _ in 0..UNASKED {
            all.disk_unasked.push(runner.run(&plain, NEVER)?);
            all.served_unasked.push(runner.run(&served, NEVER)?);
            all.parked_unasked.push(runner.run(&parked, NEVER)?);
        }
    }
    Ok(vec![Table {
        title: "Parked pipelines, over the driver's warm disk cache".to_owned(),
        device: shown.report.device.clone(),
        modules: shown.report.modules.len(),
        figures: all.figures(),
    }])
}

const NOTHING: [&str; 0] = [];
/// Runs of a program that asks for nothing, in each round.
const UNASKED: usize = 8;
const NEVER: [&str; 1] = ["--no-pipelines"];

/// One element for each round.
#[derive(Default)]
struct Measured {
    hit: Vec<Outcome>,
    disk: Vec<Outcome>,
    disk_threads: Vec<Outcome>,
    disk_rate: Vec<Outcome>,
    disk_spin: Vec<Outcome>,
    disk_unasked: Vec<Outcome>,
    served: Vec<Outcome>,
    served_rate: Vec<Outcome>,
    served_spin: Vec<Outcome>,
    served_unasked: Vec<Outcome>,
    parked: Vec<Outcome>,
    parked_threads: Vec<Outcome>,
    parked_rate: Vec<Outcome>,
    parked_spin: Vec<Outcome>,
    parked_unasked: Vec<Outcome>,
}

fn calls(outcomes: &[Outcome]) -> Vec<f64> {
    medians(outcomes, Kind::Create)
}

/// Milliseconds that the program spent in creation calls.
fn in_calls(outcomes: &[Outcome]) -> Vec<f64> {
    outcomes.iter().map(|outcome| outcome.calls(Kind::Create).iter().sum::<f64>() / 1e3).collect()
}

/// Milliseconds from the creation of the device to the last pipeline.
fn until_last(outcomes: &[Outcome]) -> Vec<f64> {
    outcomes.iter().map(|o| o.report.rounds.iter().map(|round| round.total_ns as f64 / 1e6).sum()).collect()
}

fn shares(outcomes: &[Outcome]) -> Vec<f64> {
    let share = |outcome: &Outcome| {
        outcome.counter("parked").unwrap_or_default() as f64 / outcome.report.modules.len() as f64 * 100.0
    };
    outcomes.iter().map(share).collect()
}

impl Measured {
    fn figures(&self) -> Vec<Figure> {
        let mut rows = Vec::new();
        let of_all = "all pipelines";
        let hit = medians(&self.hit, Kind::Hit);
        let (parked, disk) = (calls(&self.parked), calls(&self.disk));
        let (threads, disk_threads) = (calls(&self.parked_threads), calls(&self.disk_threads));
        let mut pairs = |id: &str, what: &str, values: &[f64], against: &str, peers: &[f64], unit| {
            rows.push(Figure::pairs(format!("parked.{id}"), what, values, against, peers, unit));
        };
        pairs("hit", "parked, call", &parked, "in-memory hit", &hit, "us");
        pairs("disk", "parked, call", &parked, "warm disk cache, no layer", &disk, "us");
        pairs("served", "parked, call", &parked, "served", &calls(&self.served), "us");
        let what = "parked, 16 threads, call";
        pairs("threads", what, &threads, "16 threads, warm disk cache, no layer", &disk_threads, "us");
        let at_once = in_calls(&self.parked_rate);
        let what = "2,000 requests a second from the start: time in calls";
        pairs("rate.off", what, &at_once, "parking off", &in_calls(&self.served_rate), "ms");
        pairs("rate.disk", what, &at_once, "warm disk cache, no layer", &in_calls(&self.disk_rate), "ms");
        let what = "the same: until the last pipeline";
        let last = until_last(&self.parked_rate);
        pairs("rate.last", what, &last, "warm disk cache, no layer", &until_last(&self.disk_rate), "ms");
        let spun = |outcomes: &[Outcome]| outcomes.iter().map(|o| o.report.spun).collect::<Vec<_>>();
        let what = "a thread that computes while workers park: work in a millisecond";
        pairs("spin.off", what, &spun(&self.parked_spin), "parking off", &spun(&self.served_spin), "pieces");
        pairs("spin.disk", what, &spun(&self.parked_spin), "no layer", &spun(&self.disk_spin), "pieces");
        let wall = |outcomes: &[Outcome]| outcomes.iter().map(|o| o.wall * 1e3).collect::<Vec<_>>();
        let what = "a program that asks for nothing: start and end";
        pairs(
            "unasked.off",
            what,
            &wall(&self.parked_unasked),
            "parking off",
            &wall(&self.served_unasked),
            "ms",
        );
        pairs("unasked.disk", what, &wall(&self.parked_unasked), "no layer", &wall(&self.disk_unasked), "ms");
        let mib = |outcomes: &[Outcome]| {
            outcomes.iter().map(|o| o.report.resident_kib as f64 / 1024.0).collect::<Vec<_>>()
        };
        let what = "memory when everything is parked";
        pairs("memory", what, &mib(&self.parked), "parking off", &mib(&self.served), "MiB");
        let more: Vec<f64> =
            mib(&self.parked).iter().zip(mib(&self.served)).map(|(with, without)| with - without).collect();
        rows.push(Figure::alone("parked.memory.more", "the same: more", &more, "MiB", "parking off"));
        let mut share = |id: &str, what: &str, outcomes: &[Outcome]| {
            rows.push(Figure::alone(format!("parked.{id}"), what, &shares(outcomes), "%", of_all));
        };
        share("share", "parked after a pause", &self.parked);
        share("share.threads", "parked after a pause, 16 threads", &self.parked_threads);
        share("share.rate", "parked, 2,000 requests a second", &self.parked_rate);
        let slowest: Vec<f64> = self.parked.iter().map(|o| quantile(&o.calls(Kind::Create), 0.99)).collect();
        rows.push(Figure::alone("parked.p99", "parked, call: 99th percentile", &slowest, "us", "no peer"));
        rows
    }
}
