//! Whole processes: programs that gain nothing must lose nothing.

use crate::client::{Bench, DiskCache, Driver};
use crate::table::{Rows, head, median, progress};

pub fn run(bench: &Bench) {
    let mut rows = Rows::default();
    let shown = bench.run(Driver::Lavapipe, DiskCache::Off, None, &["--no-pipelines"]);
    let cases: [(&str, Driver, &[&str]); 3] = [
        ("lavapipe, pipelines", Driver::Lavapipe, &[]),
        ("lavapipe, no pipelines", Driver::Lavapipe, &["--no-pipelines"]),
        ("RADV null, no pipelines", Driver::RadvNull, &["--no-pipelines"]),
    ];
    for (what, driver, arguments) in cases {
        let stash = bench.fresh();
        let (mut wall, mut cpu) = (Vec::new(), Vec::new());
        let pairs = bench.rounds * if arguments.is_empty() { 4 } else { 20 };
        progress(&format!("{what}: {pairs} pairs"));
        for pair in 0..=pairs {
            let run = |layer: bool| bench.run(driver, DiskCache::Off, layer.then_some(&*stash), arguments);
            let (with, without) = if pair % 2 == 0 {
                let with = run(true);
                (with, run(false))
            } else {
                let without = run(false);
                (run(true), without)
            };
            // The first pair warms the machine up.
            if pair > 0 {
                wall.push(with.wall.as_secs_f64() / without.wall.as_secs_f64());
                cpu.push(with.cpu.as_secs_f64() / without.cpu.as_secs_f64());
            }
        }
        rows.within(&format!("{what}: whole process, wall, with / without"), median(wall), 0.98, 1.02);
        rows.plain(&format!("{what}: the same, CPU time"), format!("{:.3}", median(cpu)));
    }
    head(&shown);
    rows.print();
}
