//! Waiting for what the layer's threads do, in steps and suites. No test measures with it.

use std::path::Path;
use std::time::{Duration, Instant};

/// A limit for everything that is waited for. Machines may be busy.
pub const PATIENCE: Duration = Duration::from_secs(500);
/// Time between two looks.
const LOOKS_EVERY: Duration = Duration::from_millis(2);

/// Waits until the condition holds; `what` is named if it never does.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < PATIENCE, "{what}: it does not happen");
        std::thread::sleep(LOOKS_EVERY);
    }
}

/// How many background tasks of this name a trace (`VKSTASH_TRACE`) has.
pub fn tasks(trace: &Path, name: &str) -> usize {
    let text = std::fs::read_to_string(trace).unwrap_or_default();
    let name = format!("\"name\":\"{name}\"");
    text.lines().filter(|line| line.contains("\"cat\":\"task\"") && line.contains(&name)).count()
}

/// The names of the layer's threads in this process.
pub fn own_threads() -> Vec<String> {
    let names = names_of_threads().map(|name| name.trim_end().to_owned());
    names.filter(|name| name.starts_with("vkstash")).collect()
}

/// The threads of this process that are workers of background work.
pub fn own_workers() -> usize {
    own_threads().iter().filter(|name| *name == "vkstash-worker").count()
}

/// The threads of this process that have not given themselves a name yet: they have that of the thread that has started
/// them, which is the calling one.
pub fn unnamed_threads() -> usize {
    let own = std::fs::read_to_string("/proc/thread-self/comm").expect("this thread has a name");
    names_of_threads().filter(|name| *name == own).count().saturating_sub(1)
}

/// Without those that only the system has not yet done with: it shows a thread for a while after it was joined.
fn names_of_threads() -> impl Iterator<Item = String> {
    const PF_EXITING: u64 = 4;
    let is_left = |stat: &str| {
        let flags = stat
            .rsplit_once(')')
            .and_then(|(_, fields)| fields.split_whitespace().nth(6)?.parse::<u64>().ok());
        flags.expect("proc(5) has flags") & PF_EXITING == 0
    };
    let threads = std::fs::read_dir("/proc/self/task").expect("this process has threads");
    let threads = threads.flatten().filter(move |thread| {
        std::fs::read_to_string(thread.path().join("stat")).is_ok_and(|stat| is_left(&stat))
    });
    threads.flat_map(|thread| std::fs::read_to_string(thread.path().join("comm")))
}
