//! Whether the machine has a processor left for a worker. Workers have the priority of the program
//! (docs/background.md).

use std::cell::Cell;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use super::gate;
use crate::config::OfProcess;
use crate::faults;
use vkstash_store::base::thread::{self, Times};

/// Waits for a processor up to this one happen on idle machines, too.
const SHORT: Duration = Duration::from_millis(1);
/// A worker that has found a processor left need not look again for so long: a look takes as long as making a pipeline
/// does with some drivers.
const FRESH: Duration = Duration::from_millis(1);
/// How long a worker pauses on a busy machine at first, because threads may run for a moment only, and at last.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LAST_PAUSE: Duration = Duration::from_millis(50);

/// What this worker has seen.
#[derive(Clone, Copy)]
struct Seen {
    /// When it last found a processor left. None: when it last looked, there was none.
    left_at: Option<Instant>,
    /// Its own times then.
    times: Times,
    /// How long it pauses now.
    pause: Duration,
}

thread_local! {
    static SEEN: Cell<Seen> = const {
        Cell::new(Seen { left_at: None, times: Times::ZERO, pause: Duration::ZERO })
    };
}

/// Whether this worker may go on: it takes no processor from others.
pub fn is_left() -> bool {
    if !asks() {
        return true;
    }
    // A thread that is ending begins nothing.
    let Ok(mut seen) = SEEN.try_with(Cell::get) else { return false };
    let now = Instant::now();
    if seen.left_at.is_some_and(|left| now.saturating_duration_since(left) < FRESH) {
        return true;
    }
    let times = thread::times().unwrap_or(seen.times);
    let is_busy = faults::is_busy(|| has_shared(seen.times, times) | thread::processors_are_busy());
    seen = Seen { left_at: (!is_busy).then_some(now), times, ..seen };
    let _ = SEEN.try_with(|kept| kept.set(seen));
    !is_busy
}

/// How long this worker pauses until it asks again. None: it may go on.
pub fn pause() -> Option<Duration> {
    let pause = |last: Duration| (2 * last).clamp(FIRST_PAUSE, LAST_PAUSE);
    let next = if is_left() { None } else { Some(pause(SEEN.try_with(Cell::get).ok()?.pause)) };
    let _ = SEEN.try_with(|seen| seen.set(Seen { pause: next.unwrap_or_default(), ..seen.get() }));
    next
}

/// Whether a worker has shared a processor with others between two looks: it has waited for more than a quarter of the
/// time in which it wanted one. So it is noticed where the program may not use all processors.
fn has_shared(before: Times, now: Times) -> bool {
    let waited = now.waited.saturating_sub(before.waited);
    waited > SHORT && waited.saturating_mul(3) > now.ran.saturating_sub(before.ran)
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

    fn times(ran: u64, waited: u64) -> Times {
        Times { ran: Duration::from_micros(ran), waited: Duration::from_micros(waited) }
    }

    #[test]
    fn who_has_waited_for_a_quarter_of_the_time_shares_a_processor() {
        let shared = |ran: u64, waited: u64| has_shared(times(7, 9), times(7 + ran, 9 + waited));
        assert!(shared(0, 1_001) && shared(3_000, 1_500) && shared(300_000, 150_000));
        assert!(!shared(0, 1_000), "on an idle machine, too");
        assert!(!shared(300_000, 2_000), "a long compile");
        assert!(!has_shared(times(9, 9), times(0, 0)));
    }
}
