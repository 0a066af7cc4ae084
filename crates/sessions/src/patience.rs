//! Limits of the time that a call waits for another process. A wait in vain is remembered: later calls, and threads
//! that were queued behind it, do not wait again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::clock::coarse_ms;

/// The longest wait for another process.
const PATIENCE: Duration = Duration::from_millis(50);
/// The time without waiting after a wait in vain, in milliseconds. It doubles with each further one.
const FIRST: u64 = 100;
/// The longest time without waiting, in milliseconds.
const LAST: u64 = 3200;

/// What is known of the waits for one lock.
#[derive(Debug)]
pub(crate) struct Patience {
    /// Until when nobody waits, in milliseconds of the coarse clock.
    until: AtomicU64,
    /// The last time without waiting; 0 after a success.
    pause: AtomicU64,
    /// How many waits were in vain.
    #[cfg(test)]
    pub(crate) in_vain: AtomicU64,
}

impl Patience {
    const fn new() -> Patience {
        Patience {
            until: AtomicU64::new(0),
            pause: AtomicU64::new(0),
            #[cfg(test)]
            in_vain: AtomicU64::new(0),
        }
    }

    /// How long a call may wait now. Zero: it tries once.
    pub(crate) fn now(&self) -> Duration {
        if coarse_ms() < self.until.load(Ordering::Relaxed) { Duration::ZERO } else { PATIENCE }
    }

    /// Notes how a call that was allowed to wait for `allowed` has ended.
    pub(crate) fn note(&self, allowed: Duration, had: bool) {
        let before = self.pause.load(Ordering::Relaxed);
        if had {
            // Usually it is 0: no other processor's cache is disturbed then.
            if before != 0 {
                self.pause.store(0, Ordering::Relaxed);
                self.until.store(0, Ordering::Relaxed);
            }
        } else if !allowed.is_zero() {
            let pause = (before * 2).clamp(FIRST, LAST);
            self.pause.store(pause, Ordering::Relaxed);
            #[cfg(test)]
            self.in_vain.fetch_add(1, Ordering::Relaxed);
            self.until.store(coarse_ms().saturating_add(pause), Ordering::Relaxed);
        }
    }
}

/// How many locks are told apart. Two locks that share an entry disturb each other's waits only.
const ENTRIES: usize = 64;

type Locks = [Patience; ENTRIES];

fn of(locks: &'static Locks, cache: u64) -> &'static Patience {
    &locks[cache as usize % ENTRIES]
}

/// For the lock of opening the cache with that hash, which this process may not have open.
pub(crate) fn opening(cache: u64) -> &'static Patience {
    static OPENING: Locks = [const { Patience::new() }; ENTRIES];
    of(&OPENING, cache)
}

/// For the lock of writing to it.
pub(crate) fn writing(cache: u64) -> &'static Patience {
    static WRITING: Locks = [const { Patience::new() }; ENTRIES];
    of(&WRITING, cache)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_in_vain_make_the_next_ones_rarer_and_a_success_ends_that() {
        let patience = Patience::new();
        for expected in [100, 200, 400, 800, 1600, 3200, 3200] {
            assert_eq!(patience.until.swap(0, Ordering::Relaxed) == 0, expected == 100);
            assert_eq!(patience.now(), PATIENCE);
            patience.note(PATIENCE, false);
            assert_eq!(patience.pause.load(Ordering::Relaxed), expected);
            assert_eq!(patience.now(), Duration::ZERO);
            patience.note(Duration::ZERO, false);
            assert_eq!(patience.pause.load(Ordering::Relaxed), expected, "a single try is no wait");
        }
        patience.note(Duration::ZERO, true);
        assert_eq!(patience.now(), PATIENCE);
    }
}
