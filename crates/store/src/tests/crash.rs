//! Writers that are killed at any moment, one after the other. Each seals the file of the one before it.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::sync::mpsc;
use std::time::Instant;

use crate::stash::inspect::list_applications;
use crate::tests::processes::{FOLDER, child, folder_of_child};
use crate::tests::stale_files::grow_old;
use crate::tests::*;

const FIRST: &str = "VKSTASH_TEST_FIRST";
/// How many writers are killed.
const KILLS: &str = "VKSTASH_TEST_KILLS";
/// Distance between the numbers of two writers' first records.
const APART: u64 = 1 << 32;
/// After so many killed writers a new stash is begun.
const DEATHS: u64 = 20;

/// One number in so many has an artifact too.
const EVERY: u64 = 4;

/// Most artifacts have the data of another one, and are stored as references.
fn artifact(number: u64) -> Box<[u8]> {
    [&number.to_le_bytes()[..], &noise(number / EVERY % 7, 500)].concat().into()
}

/// Puts records of the numbers from `first` on, in rounds; says after each which numbers are on disk by now.
fn write_until_killed(folder: &Path, first: u64) -> ! {
    let open = || {
        let stash = open(folder);
        stash.set_reporter(Box::new(|_| Default::default()));
        stash
    };
    let mut stash = open();
    let mut numbers = Numbers(first);
    let mut next = first;
    loop {
        // From a few records to more than there are between two checkpoints.
        let round = 1 + numbers.next() % [4, 40, 400, 1500][(numbers.next() % 4) as usize];
        for number in next..next + round {
            while !stash.portable().put(Kind::Recipe, &key(number), payload(number)) {
                std::thread::sleep(Duration::from_millis(1));
            }
            if number % EVERY == 0 {
                let device = stash.device(&header()).unwrap();
                while !device.put(Kind::Artifact, &key(number), artifact(number)) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }
        next += round;
        if numbers.next() % 4 == 0 {
            // The file is sealed, and another one begun.
            drop(stash);
            stash = open();
        } else {
            stash.flush(LONG);
        }
        // The harness does not use standard error. One write, so that the line is whole.
        let line = format!("flushed {next}\n");
        std::io::stderr().write_all(line.as_bytes()).unwrap();
        if next - first > 60_000 {
            // If nobody kills this process, it must not fill the disk.
            std::thread::sleep(LONG);
        }
    }
}

/// Starts a writer and kills it. Returns the number up to which it had flushed.
fn kill_one(root: &Path, test: &str, first: u64, numbers: &mut Numbers) -> u64 {
    let mut child =
        child(test).env(FOLDER, root).env(FIRST, first.to_string()).stderr(Stdio::piped()).spawn().unwrap();
    let (send, receive) = mpsc::channel();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let reader = std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            let flushed = line.strip_prefix("flushed ").and_then(|number| number.parse::<u64>().ok());
            let Some(flushed) = flushed else { panic!("the writer says: {line}") };
            let _ = send.send(flushed);
        }
    });
    // Some are killed before they have written anything, some in the middle of a write.
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
    receive.try_iter().last().unwrap_or(flushed)
}

/// What was found of the records of all writers.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sum {
    /// Records that were on disk when their writer was killed, as the writer had said.
    flushed: u64,
    /// Of the flushed records, those that are missing.
    lost: u64,
    /// Records found after those.
    more: u64,
    wrong: u64,
    damaged: u64,
    /// Unfinished files of the last writers.
    half_made: u64,
    /// Unfinished files, and files without an index, that are still there after one more writer.
    left: u64,
}

impl Sum {
    /// Reads everything. `written`: the first number of each writer, and the number up to which it had flushed.
    fn read(&mut self, root: &Path, written: &[(u64, u64)]) {
        let stash = open(root);
        let (part, device) = (stash.portable(), stash.device(&header()).unwrap());
        let mut buffer = Vec::new();
        let mut found = 0;
        for &(first, flushed) in written {
            self.flushed += flushed - first;
            let mut number = first;
            loop {
                let there = part.read(Kind::Recipe, &key(number), &mut buffer);
                if !there && number >= flushed {
                    break;
                }
                found += u64::from(there);
                self.lost += u64::from(!there);
                self.more += u64::from(number >= flushed);
                self.wrong += u64::from(there && *buffer != *payload(number));
                if number % EVERY == 0 {
                    let there = device.read(Kind::Artifact, &key(number), &mut buffer);
                    self.lost += u64::from(!there && number < flushed);
                    self.wrong += u64::from(there && *buffer != *artifact(number));
                }
                number += 1;
            }
        }
        assert_eq!(
            part.len(Kind::Recipe) as u64,
            found,
            "in the order in which they were put, and nothing else"
        );
        self.damaged += stash.report().damaged_records;
    }

    /// Runs one more writer, and counts the files that it should have removed or sealed.
    fn clean_up(&mut self, root: &Path) {
        let application = root.join(app().folder);
        let device = application.join(format!("device-{}", header().short_digest()));
        let folders = [application.join("portable"), application.join("runs"), device];
        let names = || {
            let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).into_iter().flatten());
            entries.map(|entry| entry.unwrap().path()).collect::<Vec<_>>()
        };
        let is_temporary = |path: &Path| path.file_name().unwrap().to_string_lossy().starts_with(".tmp-");
        let is_empty = |path: &Path| fs::metadata(path).unwrap().len() == 0;
        let half_made = |path: &&PathBuf| is_temporary(path) || is_empty(path) && !path.ends_with(".lock");
        self.half_made += names().iter().filter(half_made).count() as u64;
        // A minute later.
        names().iter().filter(|path| is_temporary(path)).for_each(|path| grow_old(path));
        let stash = open(root);
        stash.set_reporter(Box::new(|_| Default::default()));
        assert!(stash.portable().put(Kind::Layout, &key(1), Box::new([1])));
        assert!(stash.device(&header()).unwrap().put(Kind::IdentifierPair, &key(1), Box::new([1; 32])));
        drop(stash);
        let [info] = list_applications(root).unwrap().try_into().unwrap();
        self.left += names().iter().filter(|path| is_temporary(path)).count() as u64;
        for part in &info.parts {
            self.left += part.segments - part.sealed + part.refused.len() as u64;
            self.damaged += part.damaged;
        }
    }
}

#[test]
fn flushed_records_survive_writers_that_are_killed_at_any_moment() {
    let test = "flushed_records_survive_writers_that_are_killed_at_any_moment";
    if let Some(folder) = folder_of_child(test) {
        let first = std::env::var(FIRST).unwrap().parse().unwrap();
        write_until_killed(&folder, first);
    }
    let kills = std::env::var(KILLS).map_or(40, |kills| kills.parse::<u64>().unwrap());
    let mut numbers = Numbers(u64::from(std::process::id()));
    let mut sum = Sum::default();
    for start in (0..kills).step_by(DEATHS as usize) {
        let root = root();
        let deaths = start..kills.min(start + DEATHS);
        let firsts = deaths.map(|death| death * APART);
        let written: Vec<_> =
            firsts.map(|first| (first, kill_one(root.path(), test, first, &mut numbers))).collect();
        sum.read(root.path(), &written);
        sum.clean_up(root.path());
        // All records are there when all files are sealed, too.
        let before = sum.more;
        sum.read(root.path(), &written);
        let more = sum.more - before;
        sum.flushed -= written.iter().map(|(first, flushed)| flushed - first).sum::<u64>();
        sum.more -= more;
    }
    println!("{kills} writers killed: {sum:?}");
    assert_eq!(sum, Sum { flushed: sum.flushed, more: sum.more, half_made: sum.half_made, ..Sum::default() });
    assert!(kills < 20 || sum.flushed > 0);
}
