//! The effect that compressing artifacts would have: reading an artifact from the store with its checksum, beside
//! reading fewer bytes and decompressing them. Processor time of one thread, with the files in memory.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use vkstash_layer_tests::bench::numbers::median;
use vkstash_model::app_name::AppName;
use vkstash_model::record::{Key, Kind};
use vkstash_store::part::open::Part;
use vkstash_store::stash::inspect::list_applications;
use vkstash_store::stash::open::Stash;
use zstd::bulk::{Compressor, Decompressor};

use crate::codec::processor_time;
use crate::failure::Failure;
use crate::progress::progress;

/// Least number of artifacts for one timing.
const ARTIFACTS: usize = 5_000;

/// Prints ratios and microseconds for each artifact, medians over the rounds.
pub(crate) fn run(root: &Path, rounds: usize) -> Result<(), Failure> {
    let mut artifacts: Vec<(Arc<Part>, Key, Vec<u8>)> = Vec::new();
    for application in list_applications(root)? {
        let name = AppName { display: application.display.clone(), folder: application.folder.clone() };
        let stash = Stash::open_patiently(root, &name)?;
        for header in application.parts.iter().filter_map(|part| part.device.as_ref()) {
            let part = stash.device(header)?;
            part.for_each(Kind::Artifact, &mut |key, payload| {
                artifacts.push((part.clone(), *key, payload.to_vec()));
            });
        }
    }
    if artifacts.is_empty() {
        return Err(format!("{} holds no artifacts", root.display()).into());
    }
    let raw: usize = artifacts.iter().map(|(.., payload)| payload.len()).sum();
    progress(&format!("{} artifacts, {raw} bytes", artifacts.len()));
    let repeats = ARTIFACTS.div_ceil(artifacts.len());
    let per_artifact = |seconds: f64| seconds * 1e6 / (repeats * artifacts.len()) as f64;

    let mut buffer = Vec::new();
    let mut reading = || {
        let started = processor_time();
        for (part, key, payload) in artifacts.iter().cycle().take(repeats * artifacts.len()) {
            assert!(part.read(Kind::Artifact, key, &mut buffer) && buffer.len() == payload.len());
        }
        per_artifact(processor_time() - started)
    };
    let read = median(&(0..rounds.max(1)).map(|_| reading()).collect::<Vec<_>>());
    println!("| | raw / stored | us an artifact | of reading it as it is |");
    println!("|---|---|---|---|");
    println!("| read from the store as it is | 1.00 | {read:.2} | 1.00 |");
    for level in [1, 3] {
        let (mut compressor, mut decompressor) = (Compressor::new(level)?, Decompressor::new()?);
        let stored: Vec<Vec<u8>> =
            artifacts.iter().map(|(.., payload)| compressor.compress(payload)).collect::<Result<_, _>>()?;
        let bytes: usize = stored.iter().map(Vec::len).sum();
        let mut out = Vec::new();
        let mut decompressing = || {
            let started = processor_time();
            for ((.., payload), stored) in
                artifacts.iter().zip(&stored).cycle().take(repeats * artifacts.len())
            {
                out.resize(payload.len(), 0);
                let length = decompressor.decompress_to_buffer(black_box(stored), &mut out[..]);
                assert!(length.is_ok_and(|length| length == payload.len()));
            }
            per_artifact(processor_time() - started)
        };
        let took = median(&(0..rounds.max(1)).map(|_| decompressing()).collect::<Vec<_>>());
        let ratio = raw as f64 / bytes as f64;
        println!("| decompressed from memory, zstd-{level} | {ratio:.2} | {took:.2} | {:.2} |", took / read);
    }
    Ok(())
}
