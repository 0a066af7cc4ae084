//! Counters of the requests to all sessions of this process: values that were delivered, and keys without a value.

use vkstash_host::forks::PerProcess;
use vkstash_host::sharded::Sharded;

const DELIVERED: usize = 0;
const MISSED: usize = 1;

static COUNTS: PerProcess<Sharded<2>> = PerProcess::empty();

/// A value was handed over.
pub(crate) fn delivered() {
    COUNTS.get().add(DELIVERED, 1);
}

/// There was no value, or a damaged one.
pub(crate) fn missed() {
    COUNTS.get().add(MISSED, 1);
}

/// What the sessions of this process were asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Values that were handed over. A find that asks for the length alone does not count.
    pub delivered: u64,
    /// Keys without a value, or with one that is damaged.
    pub missed: u64,
}

/// The sums over all sessions so far.
pub fn requests() -> Requests {
    let Some(counts) = COUNTS.known() else { return Requests::default() };
    Requests { delivered: counts.sum(DELIVERED), missed: counts.sum(MISSED) }
}
