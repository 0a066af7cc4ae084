//! Counters that threads add to without queueing for each other: each is spread over a few cache lines, and added up
//! only when somebody asks.

use std::array;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Threads that count at the same time write to different shards.
pub const SHARDS: usize = 16;

/// The shard of the calling thread. It can be asked in exit handlers, too: the number has no destructor.
#[inline]
pub fn own_shard() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static OWN: Cell<usize> = const { Cell::new(SHARDS) });
    OWN.try_with(|own| {
        if own.get() == SHARDS {
            own.set(THREADS.fetch_add(1, Ordering::Relaxed) % SHARDS);
        }
        own.get()
    })
    .unwrap_or(0)
}

/// On cache lines of its own; processors fetch two at a time.
#[repr(align(128))]
struct Shard<const N: usize>([AtomicU64; N]);

/// `N` counters.
pub struct Sharded<const N: usize>([Shard<N>; SHARDS]);

impl<const N: usize> Default for Sharded<N> {
    fn default() -> Sharded<N> {
        Sharded(array::from_fn(|_| Shard(array::from_fn(|_| AtomicU64::new(0)))))
    }
}

impl<const N: usize> Sharded<N> {
    /// Adds to one counter.
    #[inline]
    pub fn add(&self, counter: usize, amount: u64) {
        self.0[own_shard()].0[counter].fetch_add(amount, Ordering::SeqCst);
    }

    /// What all threads have added to one counter.
    pub fn sum(&self, counter: usize) -> u64 {
        self.0.iter().map(|shard| shard.0[counter].load(Ordering::SeqCst)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_add_up() {
        let counters = Sharded::<3>::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|number| counters.add(number % 2, 1)));
            }
        });
        assert_eq!([0, 1, 2].map(|counter| counters.sum(counter)), [2000, 2000, 0]);
    }
}
