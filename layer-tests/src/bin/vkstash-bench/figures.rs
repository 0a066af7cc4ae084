//! RADV's null device: what is served costs, and what a first run pays.

use crate::client::{Bench, DiskCache, Driver, Run};
use crate::table::{Rows, head, median, median_ns, per_pipeline, progress};

/// The rounds of one kind of run.
#[derive(Default)]
struct Kind(Vec<Run>);

impl Kind {
    /// Median over the rounds of the median call, in microseconds.
    fn call(&self) -> f64 {
        median(self.0.iter().map(|run| median_ns(&run.figures.pipelines) / 1e3))
    }

    fn calls(&self) -> Vec<f64> {
        per_pipeline(&self.0.iter().map(|run| run.figures.pipelines.clone()).collect::<Vec<_>>())
    }

    fn with_modules(&self) -> Vec<f64> {
        per_pipeline(&self.0.iter().map(Run::with_modules).collect::<Vec<_>>())
    }
}

/// Median over the pipelines of what one kind costs more than another, in microseconds.
fn more(with: &[f64], without: &[f64]) -> f64 {
    median(with.iter().zip(without).map(|(with, without)| (with - without) / 1e3))
}

pub fn run(bench: &Bench) {
    let driver = Driver::RadvNull;
    let (disk, cache_file) = (bench.fresh(), bench.fresh().join("app.cache"));
    let cache_file = cache_file.to_str().unwrap();
    let with_file = ["--cache", "file", "--cache-file", cache_file];
    progress("the driver's disk cache and the program's cache are filled");
    bench.run(driver, DiskCache::In(&disk), None, &[]);
    bench.run(driver, DiskCache::Off, None, &with_file);
    let loaded = std::fs::read(cache_file).unwrap();

    let [mut plain, mut cold, mut warm, mut fresh_warm] = [const { Kind(Vec::new()) }; 4];
    let [mut hit, mut own_disk, mut app, mut app_layer] = [const { Kind(Vec::new()) }; 4];
    for round in 1..=bench.rounds {
        progress(&format!("round {round} of {}", bench.rounds));
        let stash = bench.fresh();
        // Which of the two comes first changes, so that neither has the warmer machine.
        if round % 2 == 0 {
            plain.0.push(bench.run(driver, DiskCache::Off, None, &[]));
        }
        cold.0.push(bench.run(driver, DiskCache::Off, Some(&stash), &[]));
        if round % 2 == 1 {
            plain.0.push(bench.run(driver, DiskCache::Off, None, &[]));
        }
        warm.0.push(bench.run(driver, DiskCache::Off, Some(&stash), &[]));
        hit.0.push(bench.run(driver, DiskCache::Off, None, &["--hit"]));
        fresh_warm.0.push(bench.run(driver, DiskCache::Off, Some(&stash), &["--cache", "fresh"]));
        own_disk.0.push(bench.run(driver, DiskCache::In(&disk), None, &[]));
        for layer in [false, true] {
            std::fs::write(cache_file, &loaded).unwrap();
            let empty = bench.fresh();
            let stash = layer.then_some(empty.as_path());
            let run = bench.run(driver, DiskCache::Off, stash, &with_file);
            if layer { &mut app_layer } else { &mut app }.0.push(run);
        }
    }

    head(&plain.0[0]);
    let served: u64 = warm.0.iter().map(|run| run.count("served")).sum();
    let asked: u64 = warm.0.iter().map(|run| run.figures.pipelines.len() as u64).sum();
    let mut rows = Rows::default();
    rows.plain("first run, median call, us", format!("{:.1}", cold.call()));
    rows.plain("served, median call, us", format!("{:.2}", warm.call()));
    rows.plain("hit, median call, us", format!("{:.2}", hit.call()));
    rows.plain("driver's warm disk cache, median call, us", format!("{:.2}", own_disk.call()));
    rows.at_most("not served in the second run", 100.0 * (1.0 - served as f64 / asked as f64), 0.0, " %");
    rows.at_most("served / first run", warm.call() / cold.call(), 0.01, "");
    rows.at_most("served / hit", warm.call() / hit.call(), 3.0, "");
    rows.at_most("served, fresh cache passed / hit", fresh_warm.call() / hit.call(), 3.0, "");
    rows.at_most("served / driver's warm disk cache", warm.call() / own_disk.call(), 1.0 / 3.0, "");
    let (with, without) = (cold.with_modules(), plain.with_modules());
    rows.at_most(
        "first run, more than without the layer (module included)",
        more(&with, &without),
        20.0,
        " us",
    );
    rows.at_most(
        "first run, total / without",
        with.iter().sum::<f64>() / without.iter().sum::<f64>(),
        1.02,
        "",
    );
    let extra = more(&app_layer.calls(), &app.calls());
    rows.at_most("app cache warm, stash empty, more than without", extra, 5.0, " us");
    rows.print();
}
