//! The README's table.

use crate::client::{Bench, DiskCache, Driver, Run};
use crate::table::{Rows, head, median_ns, progress};

fn row(rows: &mut Rows, what: &str, run: &Run) {
    let total: u64 = run.figures.pipelines.iter().sum();
    let call = median_ns(&run.figures.pipelines) / 1e3;
    rows.plain(what, format!("{call:9.1} us a pipeline, {:8.1} ms in all", total as f64 / 1e6));
}

pub fn run(bench: &Bench) {
    let driver = if has_gpu() { Driver::Gpu } else { Driver::RadvNull };
    let (stash, disk) = (bench.fresh(), bench.fresh());
    progress("cold, through vkstash");
    let cold = bench.run(driver, DiskCache::Off, Some(&stash), &[]);
    progress("again, through vkstash");
    let warm = bench.run(driver, DiskCache::Off, Some(&stash), &[]);
    progress("the driver's own disk cache is filled, and used");
    bench.run(driver, DiskCache::In(&disk), None, &[]);
    let own = bench.run(driver, DiskCache::In(&disk), None, &[]);
    progress("an in-memory VkPipelineCache");
    let hit = bench.run(driver, DiskCache::Off, None, &["--hit"]);
    head(&cold);
    let mut rows = Rows::default();
    row(&mut rows, "cold", &cold);
    row(&mut rows, "warm, served by vkstash", &warm);
    row(&mut rows, "driver's own disk cache, warm", &own);
    row(&mut rows, "in-memory VkPipelineCache hit", &hit);
    let share = 100.0 * warm.count("served") as f64 / warm.figures.pipelines.len() as f64;
    rows.plain("share served", format!("{share:.1} %"));
    rows.print();
}

/// Whether the machine has a GPU of its own: a device node that a driver can open.
fn has_gpu() -> bool {
    ["/dev/nvidia0", "/dev/dri/renderD128"].iter().any(|path| std::path::Path::new(path).exists())
}
