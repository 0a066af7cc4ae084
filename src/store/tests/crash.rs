//! Writers that are killed at any moment, one after the other, each sealing what the one before it left.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::sync::mpsc;
use std::time::Instant;

use super::harm::seeds;
use super::processes::{FOLDER, child, folder_of_child};
use super::*;

const FIRST: &str = "VKSTASH_TEST_FIRST";

/// Puts records of the numbers from `first` on, in rounds; says after each which numbers are on disk by now.
fn write_until_killed(folder: &Path, first: u64) -> ! {
    let stash = open(folder);
    let mut numbers = Numbers(first);
    let mut next = first;
    loop {
        // From a handful, up to more than what is between two checkpoints.
        let round = 1 + numbers.next() % [4, 40, 400, 1500][(numbers.next() % 4) as usize];
        for number in next..next + round {
            while !stash.portable().put(Kind::Recipe, &key(number), payload(number)) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        next += round;
        stash.flush(LONG);
        // Standard error is the test harness's to leave alone; one write, so that it is whole.
        let line = format!("flushed {next}\n");
        std::io::stderr().write_all(line.as_bytes()).unwrap();
        if next - first > 60_000 {
            // Not that a machine's disk is filled where nobody comes to kill.
            std::thread::sleep(LONG);
        }
    }
}

#[test]
fn what_was_flushed_survives_writers_that_are_killed_at_any_moment() {
    let test = "what_was_flushed_survives_writers_that_are_killed_at_any_moment";
    if let Some(folder) = folder_of_child(test) {
        let first = std::env::var(FIRST).unwrap().parse().unwrap();
        write_until_killed(&folder, first);
    }
    const APART: u64 = 1 << 32;
    // A new stash after so many deaths.
    const DEATHS: u64 = 20;
    let kills = seeds(40);
    let mut numbers = Numbers(u64::from(std::process::id()));
    let (mut acknowledged, mut unacknowledged) = (0, 0);
    for start in (0..kills).step_by(DEATHS as usize) {
        let root = root();
        // From which number on each writer wrote, and up to which it had flushed.
        let mut written: Vec<(u64, u64)> = Vec::new();
        for death in start..kills.min(start + DEATHS) {
            let first = death * APART;
            let mut child = child(test)
                .env(FOLDER, root.path())
                .env(FIRST, first.to_string())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let (send, receive) = mpsc::channel();
            let lines = BufReader::new(child.stderr.take().unwrap()).lines();
            let reader = std::thread::spawn(move || {
                for line in lines.map_while(Result::ok) {
                    let flushed = line.strip_prefix("flushed ").and_then(|number| number.parse::<u64>().ok());
                    let Some(flushed) = flushed else { panic!("the writer says: {line}") };
                    let _ = send.send(flushed);
                }
            });
            // Some die before they have written anything, some in the middle of something, at any microsecond.
            let mut flushed = first;
            for _ in 0..numbers.next() % 5 {
                flushed = receive.recv().unwrap();
            }
            let wait = Duration::from_micros(numbers.next() % 8000);
            let began = Instant::now();
            while began.elapsed() < wait {
                std::thread::sleep(wait - began.elapsed().min(wait));
            }
            child.kill().unwrap();
            child.wait().unwrap();
            reader.join().unwrap();
            flushed = receive.try_iter().last().unwrap_or(flushed);
            written.push((first, flushed));
        }
        let stash = open(root.path());
        let part = stash.portable();
        for &(first, flushed) in &written {
            assert_eq!(count_good(part, Kind::Recipe, first..flushed), flushed - first, "flushed by {first}");
            acknowledged += flushed - first;
        }
        // What was on its way is there or not, and right.
        let mut keys = 0;
        part.for_each(Kind::Recipe, &mut |_, _| keys += 1);
        let on_the_way: u64 = written
            .iter()
            .map(|&(_, flushed)| {
                (flushed..).take_while(|&n| count_good(part, Kind::Recipe, n..n + 1) == 1).count()
            })
            .map(|count| count as u64)
            .sum();
        unacknowledged += on_the_way;
        let all: u64 = written.iter().map(|(first, flushed)| flushed - first).sum();
        assert_eq!(keys, all + on_the_way, "in the order in which they were put, and nothing else");
        let report = stash.report();
        assert_eq!(report.damaged_records, 0);
        // A writer that died before its first write leaves an empty file.
        let empty =
            segments(root.path()).iter().filter(|path| fs::metadata(path).unwrap().len() == 0).count();
        let refused: u64 = report.refused.values().sum();
        assert_eq!((refused, report.refused.len()), (empty as u64, usize::from(empty > 0)), "{report:?}");
        // And the next one seals what the last one left.
        assert!(part.put(Kind::Layout, &key(1), Box::new([1])));
        drop(stash);
        let [application] =
            crate::store::inspect::list_applications(root.path()).unwrap().try_into().unwrap();
        let info = &application.parts[0];
        assert_eq!((info.sealed, info.damaged), (info.segments, 0), "all are sealed");
        let part = open(root.path());
        assert_eq!(part.portable().len(Kind::Recipe) as u64, keys);
    }
    println!("{kills} writers killed: {acknowledged} records acknowledged, {unacknowledged} more found");
    assert!(kills < 20 || acknowledged > 0);
}
