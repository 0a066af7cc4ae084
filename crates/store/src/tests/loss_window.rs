//! Test of the loss window: the number of records that a killed process loses on an overloaded machine.

use std::io::{Read, Write};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::tests::processes::{FOLDER, child, folder_of_child};
use crate::tests::*;

const TEST: &str = "a_process_killed_on_a_busy_machine_loses_only_its_last_moment";
/// The number of processes to kill, if it is not the usual one.
const KILLS: &str = "VKSTASH_TEST_KILLS";
/// Threads that compute all the time.
const BUSY_THREADS: usize = 14;
/// What docs/process.md promises, without the time that a thread waits for a processor.
const PROMISED: Duration = Duration::from_millis(250);
/// Time between two records.
const STEP: Duration = Duration::from_millis(2);

const PUT: u8 = 1;
const WOKEN: u8 = 2;

/// A clock that is the same for all processes.
fn now() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a timespec on this stack, which the call fills in.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// One write, so that it is whole.
fn say(what: u8, number: u64, time: Duration) {
    let mut line = [0; 17];
    line[0] = what;
    line[1..9].copy_from_slice(&number.to_le_bytes());
    line[9..].copy_from_slice(&(time.as_nanos() as u64).to_le_bytes());
    // Standard output is the harness's.
    std::io::stderr().write_all(&line).unwrap();
}

fn put_until_killed(folder: &Path) -> ! {
    let stash = open(folder);
    stash.set_reporter(Box::new(|_| Default::default()));
    // How late the system wakes a thread that sleeps.
    std::thread::spawn(|| {
        loop {
            let began = now();
            std::thread::sleep(Duration::from_millis(50));
            say(WOKEN, (now() - began).saturating_sub(Duration::from_millis(50)).as_nanos() as u64, now());
        }
    });
    for number in 0.. {
        let payload = vec![number as u8; 2000].into_boxed_slice();
        assert!(stash.portable().put(Kind::Recipe, &key(number), payload));
        say(PUT, number, now());
        // At first nothing, so that the writer falls asleep.
        std::thread::sleep(if number == 0 { Duration::from_millis(1500) } else { STEP });
    }
    unreachable!()
}

/// How old the oldest record was that was lost, and how long a thread had to wait to be woken.
fn kill_one(numbers: &mut Numbers) -> (Duration, Duration) {
    let root = root();
    let mut child = child(TEST).env(FOLDER, root.path()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = child.stderr.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        said.read_to_end(&mut bytes).unwrap();
        bytes
    });
    std::thread::sleep(Duration::from_millis(1500 + numbers.next() % 1500));
    let killed = now();
    child.kill().unwrap();
    child.wait().unwrap();
    let (mut put, mut woken) = (Vec::new(), Duration::ZERO);
    for line in reader.join().unwrap().chunks_exact(17) {
        let word = |at: usize| u64::from_le_bytes(line[at..at + 8].try_into().unwrap());
        match line[0] {
            PUT => put.push((word(1), Duration::from_nanos(word(9)))),
            WOKEN => woken = woken.max(Duration::from_nanos(word(1))),
            other => panic!("{other}"),
        }
    }
    let stash = open(root.path());
    let part = stash.portable();
    let lost = put.iter().find(|(number, _)| !part.contains(Kind::Recipe, &key(*number)));
    let age = lost.map_or(Duration::ZERO, |(_, time)| killed.saturating_sub(*time));
    (age, woken)
}

#[test]
fn a_process_killed_on_a_busy_machine_loses_only_its_last_moment() {
    if let Some(folder) = folder_of_child(TEST) {
        put_until_killed(&folder);
    }
    let kills = std::env::var(KILLS).map_or(5, |kills| kills.parse::<u64>().unwrap());
    let done = AtomicBool::new(false);
    let mut numbers = Numbers(u64::from(std::process::id()));
    let mut ages = Vec::new();
    std::thread::scope(|scope| {
        for _ in 0..BUSY_THREADS {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    std::hint::black_box(Instant::now());
                }
            });
        }
        ages.extend((0..kills).map(|_| kill_one(&mut numbers)));
        done.store(true, Ordering::Relaxed);
    });
    ages.sort();
    let (oldest, _) = ages.last().unwrap();
    let over = ages.iter().filter(|(age, _)| *age > PROMISED).count();
    let woken = ages.iter().map(|(_, woken)| *woken).max().unwrap();
    println!(
        "{kills} processes killed: the oldest record lost was {oldest:?} old, {over} times older than {PROMISED:?}; \
         a thread waited {woken:?} at most to be woken"
    );
    for (age, woken) in ages {
        // The writer waits for a processor a few times: to be woken, to create its file, and to write.
        let bound = PROMISED + 8 * woken.max(Duration::from_millis(50));
        assert!(age <= bound, "lost what was {age:?} old, where a thread waits for {woken:?}");
    }
}
