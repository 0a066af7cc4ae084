//! The time, for what may be late.

use rustix::time::{ClockId, clock_gettime};

/// Milliseconds of a clock that costs nothing and goes in steps of a few milliseconds.
pub(crate) fn coarse_ms() -> u64 {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    (now.tv_sec as u64).wrapping_mul(1000).wrapping_add(now.tv_nsec as u64 / 1_000_000)
}
