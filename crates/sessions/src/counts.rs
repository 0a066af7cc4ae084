//! How many values the sessions of this process were asked for, and how many of them there were.

use std::array;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use vkstash_store::forks::PerProcess;

/// Threads that find at the same time write to different ones, which lie on different lines of the processors' caches.
const SHARDS: usize = 16;

#[derive(Default)]
#[repr(align(128))]
struct Shard {
    delivered: AtomicU64,
    missed: AtomicU64,
}

struct Counts([Shard; SHARDS]);

impl Default for Counts {
    fn default() -> Counts {
        Counts(array::from_fn(|_| Shard::default()))
    }
}

static COUNTS: PerProcess<Counts> = PerProcess::empty();
static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The shard of this thread. No destructor, so that it can be used in exit handlers, too.
    static MINE: Cell<usize> = const { Cell::new(usize::MAX) };
}

fn mine() -> &'static Shard {
    let number = MINE.with(|mine| {
        if mine.get() == usize::MAX {
            mine.set(THREADS.fetch_add(1, Ordering::Relaxed) % SHARDS);
        }
        mine.get()
    });
    let Counts(shards) = COUNTS.get();
    shards.get(number).unwrap_or(&shards[0])
}

/// A value was handed over.
pub(crate) fn delivered() {
    mine().delivered.fetch_add(1, Ordering::Relaxed);
}

/// There was no value, or a damaged one.
pub(crate) fn missed() {
    mine().missed.fetch_add(1, Ordering::Relaxed);
}

/// What the sessions of this process were asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Values that were handed over. A find that asks for the length alone does not count.
    pub delivered: u64,
    /// Keys without a value, or with one that is damaged.
    pub missed: u64,
}

/// The sums over all sessions so far.
pub fn asked() -> Asked {
    let Some(Counts(shards)) = COUNTS.known() else { return Asked::default() };
    let sum =
        |of: fn(&Shard) -> &AtomicU64| shards.iter().map(|shard| of(shard).load(Ordering::Relaxed)).sum();
    Asked { delivered: sum(|shard| &shard.delivered), missed: sum(|shard| &shard.missed) }
}
