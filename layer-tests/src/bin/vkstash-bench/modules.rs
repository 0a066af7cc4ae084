//! The cost of naming a module: SHA-256 of its code, beside a copy of the same bytes.

use std::hint::black_box;
use std::time::Instant;

use vkstash_layer_tests::bench::numbers::{Spread, median};
use vkstash_model::identifier::module_identity;

/// Bytes for one figure in each round.
const BYTES: usize = 32 << 20;

/// Prints megabytes (10^6 bytes) per second for small, typical and large modules, medians over the rounds.
pub(crate) fn run(rounds: usize) {
    println!("| code | identity MB/s | memcpy MB/s | identity / memcpy, time |\n|---|---|---|---|");
    for (name, size) in [("1 KB", 1 << 10), ("10 KB", 10 << 10), ("1 MB", 1 << 20)] {
        let code: Vec<u8> = (0..size).map(|at: usize| (at * 31) as u8).collect();
        let mut copy = vec![0; size];
        let (mut hashing, mut copying) = (Vec::new(), Vec::new());
        for _ in 0..rounds.max(1) {
            hashing.push(speed(size, || {
                black_box(module_identity(Default::default(), black_box(&code)));
            }));
            copying.push(speed(size, || {
                copy.copy_from_slice(black_box(&code));
                black_box(&mut copy);
            }));
        }
        let ratios: Vec<f64> = hashing.iter().zip(&copying).map(|(hash, copy)| copy / hash).collect();
        let ratio = Spread::of(&ratios).median;
        println!("| {name} | {:.0} | {:.0} | {ratio:.1} |", median(&hashing), median(&copying));
    }
}

/// Megabytes per second.
fn speed(size: usize, mut step: impl FnMut()) -> f64 {
    let steps = BYTES / size;
    let started = Instant::now();
    (0..steps).for_each(|_| step());
    (steps * size) as f64 / started.elapsed().as_secs_f64() / 1e6
}
