//! Size and speed of storing recipes, and the dictionary for it.

mod samples;
mod train;
mod ways;

use std::fs;
use std::hint::black_box;
use std::mem::MaybeUninit;

use vkstash_layer_tests::bench::numbers::median;
use vkstash_model::record::Kind;

use self::samples::{KINDS, Program};
use self::ways::Way;
use crate::failure::Failure;
use crate::options::Recipes;
use crate::progress::progress;

/// Least number of payloads for one timing; if there are fewer, they are repeated.
const PAYLOADS: usize = 20_000;

/// Prints sizes, and processor times of one thread, medians over the rounds.
pub(crate) fn run(options: &Recipes, rounds: usize) -> Result<(), Failure> {
    let programs = samples::programs(&options.stash)?;
    let held_out = samples::programs(&options.held_out)?;
    let dictionary = match (&options.train, &options.dictionary) {
        (Some(file), _) => {
            let dictionary = train::train(&programs, options.size)?;
            fs::write(file, &dictionary)?;
            Some(dictionary)
        }
        (None, Some(file)) => Some(fs::read(file)?),
        (None, None) => None,
    };
    let mut ways = Way::all(dictionary.as_deref())?;
    println!(
        "| stashes | kind | stored as | records | raw bytes | digests | stored bytes | raw / stored | compress us, MB/s | decompress us, MB/s |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for (name, programs) in [("given", &programs), ("held out", &held_out)] {
        sizes(name, programs, &mut ways);
        for kind in KINDS {
            let payloads: Vec<&[u8]> = programs.iter().flat_map(|program| program.of(kind)).collect();
            table(name, kind, &payloads, &mut ways, rounds);
        }
    }
    Ok(())
}

/// Prints the size of each program's records on stderr.
fn sizes(name: &str, programs: &[Program], ways: &mut [Way]) {
    for program in programs {
        let payloads: Vec<&[u8]> = KINDS.into_iter().flat_map(|kind| program.of(kind)).collect();
        let raw: usize = payloads.iter().map(|payload| payload.len()).sum();
        let mut line = format!("{name}: {}: {} records, {raw} bytes", program.name, payloads.len());
        for way in ways.iter_mut() {
            let stored: usize = payloads.iter().map(|payload| way.encode(payload).length).sum();
            line += &format!(", {} {:.2}", way.name, raw as f64 / stored as f64);
        }
        progress(&line);
    }
}

fn table(name: &str, kind: Kind, payloads: &[&[u8]], ways: &mut [Way], rounds: usize) {
    if payloads.is_empty() {
        return;
    }
    let raw: usize = payloads.iter().map(|payload| payload.len()).sum();
    let digests: usize = match kind {
        Kind::Recipe => payloads.iter().map(|payload| 32 * samples::digests(payload).len()).sum(),
        _ => 0,
    };
    let times = PAYLOADS.div_ceil(payloads.len());
    for way in ways {
        let stored: Vec<_> = payloads.iter().map(|payload| way.encode(payload)).collect();
        let bytes: usize = stored.iter().map(|stored| stored.length).sum();
        let (mut encoding, mut decoding) = (Vec::new(), Vec::new());
        for _ in 0..rounds.max(1) {
            encoding.push(seconds(times, || {
                for payload in payloads {
                    black_box(way.encode(black_box(payload)));
                }
            }));
            decoding.push(seconds(times, || {
                for (payload, stored) in payloads.iter().zip(&stored) {
                    assert!(
                        way.decode(black_box(stored), payload),
                        "{}: what was stored has changed",
                        way.name
                    );
                }
            }));
        }
        let figure = |seconds: &[f64]| {
            let seconds = median(seconds) / times as f64;
            format!("{:.2}, {:.0}", seconds * 1e6 / payloads.len() as f64, raw as f64 / seconds / 1e6)
        };
        println!(
            "| {name} | {} | {} | {} | {raw} | {digests} | {bytes} | {:.2} | {} | {} |",
            kind.name(),
            way.name,
            payloads.len(),
            raw as f64 / bytes as f64,
            figure(&encoding),
            figure(&decoding),
        );
    }
}

/// Processor seconds of this thread for this many repetitions of the step.
fn seconds(times: usize, mut step: impl FnMut()) -> f64 {
    let started = processor_time();
    (0..times).for_each(|_| step());
    processor_time() - started
}

/// Processor seconds of this thread: other programs on the machine do not count.
fn processor_time() -> f64 {
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: the system writes the whole structure if the call succeeds, and only then it is read.
    let time = unsafe {
        assert_eq!(libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, time.as_mut_ptr()), 0, "no such clock");
        time.assume_init()
    };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
