//! Waiting of the program: the calls in which it creates pipelines.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use vkstash_host::sharded::Sharded;
use vkstash_store::reports::waiting::{LONG_NS, Waiting};

thread_local! {
    /// Nanoseconds that this thread has spent in creation calls since it last presented. It has no destructor, so exit
    /// handlers may use it.
    static SINCE_PRESENTATION: Cell<u64> = const { Cell::new(0) };
}

/// Takes the nanoseconds that this thread has spent in creation calls since it last called this.
#[inline]
pub fn take_of_thread() -> u64 {
    SINCE_PRESENTATION.take()
}

/// The places of the numbers that threads add to.
#[derive(Clone, Copy)]
enum Place {
    Calls,
    Nanos,
    Long,
}

/// The creation calls of one device.
#[derive(Default)]
pub struct Waits {
    numbers: Sharded<3>,
    longest: AtomicU64,
}

impl Waits {
    /// A creation call begins on this thread. It ends when the result is dropped.
    #[inline]
    pub fn begin(&self) -> Wait<'_> {
        Wait { waits: self, before: SINCE_PRESENTATION.get(), began: Instant::now() }
    }

    fn add(&self, took: u64, inside: u64) {
        let add = |place: Place, amount| self.numbers.add(place as usize, amount);
        add(Place::Calls, 1);
        add(Place::Nanos, took.saturating_sub(inside));
        if took >= LONG_NS {
            add(Place::Long, 1);
        }
        if took > self.longest.load(Ordering::Relaxed) {
            self.longest.fetch_max(took, Ordering::Relaxed);
        }
    }

    /// The calls so far, without frames.
    pub fn report(&self) -> Waiting {
        let sum = |place: Place| self.numbers.sum(place as usize);
        Waiting {
            calls: sum(Place::Calls),
            calls_ns: sum(Place::Nanos),
            long_calls: sum(Place::Long),
            longest_call_ns: self.longest.load(Ordering::Relaxed),
            ..Waiting::default()
        }
    }
}

/// A creation call that is under way.
pub struct Wait<'a> {
    waits: &'a Waits,
    /// What the thread had waited before.
    before: u64,
    began: Instant,
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let took = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        // A driver's callback may have created pipelines inside this call: their time is part of this one.
        let inside = SINCE_PRESENTATION.get().saturating_sub(self.before);
        SINCE_PRESENTATION.set(self.before.saturating_add(took));
        self.waits.add(took, inside);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_call_inside_another_one_is_waited_for_once() {
        let waits = Waits::default();
        take_of_thread();
        let outer = waits.begin();
        let inner = waits.begin();
        std::thread::sleep(Duration::from_millis(2));
        drop(inner);
        let of_inner = waits.report().calls_ns;
        drop(outer);
        let waiting = waits.report();
        assert_eq!((waiting.calls, waiting.long_calls), (2, u64::from(waiting.longest_call_ns >= LONG_NS)));
        assert!(of_inner >= 2_000_000 && waiting.calls_ns >= of_inner);
        // The outer one is as long as all of it, and the thread has waited for that alone.
        assert_eq!((waiting.calls_ns, take_of_thread()), (waiting.longest_call_ns, waiting.calls_ns));
        assert_eq!(take_of_thread(), 0);
    }

    #[test]
    fn calls_of_other_threads_are_the_devices_and_not_this_threads() {
        let waits = Waits::default();
        take_of_thread();
        std::thread::scope(|scope| _ = scope.spawn(|| drop(waits.begin())));
        assert_eq!((waits.report().calls, take_of_thread()), (1, 0));
    }
}
