//! A worker gives back what it takes: it pauses for as long as it had to wait for a processor itself. Workers have the
//! priority of the program (docs/process.md), so where processors are scarce they would take those of others.
//!
//! What other programs do is not looked at: on a machine that always computes something workers would do nothing.

use std::cell::Cell;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use super::gate;
use crate::config::OfProcess;
use crate::faults;
use vkstash_host::thread;

/// A worker that waited for a processor for less than this goes on: threads wait as long on idle machines.
const SHORT: Duration = Duration::from_micros(100);
/// A worker looks at most this often: a look takes as long as making a pipeline does with some drivers. After a pause
/// it works for so long in any case.
const FRESH: Duration = Duration::from_millis(1);
/// The longest pause.
const LONGEST: Duration = Duration::from_millis(50);

/// What this worker has measured of its waits.
#[derive(Clone, Copy)]
struct Seen {
    /// When the worker last looked. None: it pauses, and what it waits for when it wakes up is no reason for another
    /// pause.
    looked: Option<Instant>,
    /// How long the worker had waited for processors by then, since it began.
    waited: Duration,
}

thread_local! {
    static SEEN: Cell<Seen> = const { Cell::new(Seen { looked: None, waited: Duration::ZERO }) };
}

/// How long this worker pauses before it goes on. None: it goes on.
pub fn pause() -> Option<Duration> {
    if !asks() {
        return None;
    }
    let seen = SEEN.try_with(Cell::get).ok()?;
    let now = Instant::now();
    if seen.looked.is_some_and(|looked| now.saturating_duration_since(looked) < FRESH) {
        return None;
    }
    let waited = thread::times()?.waited;
    let pause = seen.looked.and_then(|_| owed(waited.saturating_sub(seen.waited)));
    let _ = SEEN.try_with(|kept| kept.set(Seen { looked: pause.is_none().then_some(now), waited }));
    pause
}

/// The pause after a wait.
fn owed(waited: Duration) -> Option<Duration> {
    faults::is_busy(|| waited >= SHORT).then(|| waited.clamp(SHORT, LONGEST))
}

/// Whether this worker asks at all. Who has set the number of workers, or runs an urgent task, wants them.
fn asks() -> bool {
    // No lock: a child may be forked while the first worker looks.
    static NUMBER_IS_SET: AtomicU8 = AtomicU8::new(UNKNOWN);
    const UNKNOWN: u8 = 2;

    if NUMBER_IS_SET.load(Ordering::Relaxed) == UNKNOWN {
        let is_set = OfProcess::get().background.workers.is_some();
        NUMBER_IS_SET.store(u8::from(is_set), Ordering::Relaxed);
    }
    NUMBER_IS_SET.load(Ordering::Relaxed) == 0 && !gate::is_urgent()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_pauses_for_as_long_as_it_has_waited() {
        let owed = |micros: u64| owed(Duration::from_micros(micros)).map(|pause| pause.as_micros());
        assert_eq!((owed(0), owed(99)), (None, None), "on an idle machine, too");
        assert_eq!((owed(100), owed(4_000)), (Some(100), Some(4_000)));
        assert_eq!(owed(300_000), Some(50_000));
    }
}
