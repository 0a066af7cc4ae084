//! The machine's GPU: both habits, cold and warm, with and without the driver's disk cache.

use crate::client::{Bench, DiskCache, Driver, Run};
use crate::table::{Rows, head, median, median_ns, per_pipeline, progress};

fn call(runs: &[Run]) -> f64 {
    median(runs.iter().map(|run| median_ns(&run.figures.pipelines) / 1e3))
}

/// Sum of what each creation call costs in the median round.
fn calls(runs: &[Run]) -> f64 {
    per_pipeline(&runs.iter().map(|run| run.figures.pipelines.clone()).collect::<Vec<_>>()).iter().sum()
}

/// The same, modules included.
fn total(runs: &[Run]) -> f64 {
    per_pipeline(&runs.iter().map(Run::with_modules).collect::<Vec<_>>()).iter().sum()
}

pub fn run(bench: &Bench) {
    let driver = Driver::Gpu;
    progress("a first run without anything");
    let plain = bench.run(driver, DiskCache::Off, None, &[]);
    head(&plain);
    let mut hits = Vec::new();
    let mut rows = Rows::default();
    let habits: [(&str, &[&str], f64); 2] =
        [("no cache passed", &[], 1.25), ("a fresh cache passed", &["--cache", "fresh"], 0.2)];
    for (habit, arguments, disk_limit) in habits {
        let (stash, disk) = (bench.fresh(), bench.fresh());
        progress(&format!("{habit}: cold, with the layer"));
        let cold = bench.run(driver, DiskCache::Off, Some(&stash), arguments);
        progress(&format!("{habit}: the driver's disk cache is filled"));
        bench.run(driver, DiskCache::In(&disk), None, arguments);
        let (mut warm, mut own, mut first, mut served) = (Vec::new(), Vec::new(), Vec::new(), 0);
        for round in 1..=bench.rounds {
            progress(&format!("{habit}: round {round} of {}", bench.rounds));
            warm.push(bench.run(driver, DiskCache::Off, Some(&stash), arguments));
            served += warm[round - 1].count("served");
            own.push(bench.run(driver, DiskCache::In(&disk), None, arguments));
            let empty = bench.fresh();
            first.push(bench.run(driver, DiskCache::In(&disk), Some(&empty), arguments));
            if hits.len() < 2 {
                progress("hits");
                hits.push(bench.run(driver, DiskCache::Off, None, &["--hit"]));
            }
        }
        let share = 100.0 * served as f64 / (bench.rounds * warm[0].figures.pipelines.len()) as f64;
        let counts = |run: &Run| format!("{:?}", run.reports.first().map(|r| &r.devices[0].counters));
        rows.plain(&format!("{habit}: first run, median call, us"), format!("{:.1}", call(&[cold.clone()])));
        rows.plain(&format!("{habit}: served, median call, us"), format!("{:.2}", call(&warm)));
        rows.plain(&format!("{habit}: hit, median call, us"), format!("{:.2}", call(&hits)));
        rows.plain(&format!("{habit}: driver's warm disk cache, us"), format!("{:.2}", call(&own)));
        rows.at_most(&format!("{habit}: not served in the second run"), 100.0 - share, 0.0, " %");
        rows.at_most(&format!("{habit}: served / hit"), call(&warm) / call(&hits), 1.25, "");
        let against = call(&warm) / call(&own);
        rows.at_most(&format!("{habit}: served / driver's warm disk cache"), against, disk_limit, "");
        let what = "first run with the driver's disk cache warm / without the layer";
        rows.at_most(&format!("{habit}: {what}, calls"), calls(&first) / calls(&own), 1.1, "");
        rows.at_most(&format!("{habit}: {what}, calls and modules"), total(&first) / total(&own), 1.1, "");
        let wall = |runs: &[Run]| median(runs.iter().map(|run| run.figures.wall as f64));
        rows.at_most(&format!("{habit}: {what}, first module to last"), wall(&first) / wall(&own), 1.1, "");
        eprintln!("{habit}: counters cold {}", counts(&cold));
        eprintln!("{habit}: counters warm {}", counts(&warm[0]));
        eprintln!("{habit}: counters first run over a warm disk cache {}", counts(&first[0]));
    }
    rows.print();
}
