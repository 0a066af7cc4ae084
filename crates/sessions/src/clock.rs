//! The time, for what may be late.

use rustix::time::{ClockId, clock_gettime};

/// Milliseconds of a clock that costs nothing and goes in steps of a few milliseconds.
pub(crate) fn coarse_ms() -> u64 {
    #[cfg(test)]
    if let stopped @ 1.. = STOPPED.load(std::sync::atomic::Ordering::SeqCst) {
        return stopped;
    }
    let now = clock_gettime(ClockId::MonotonicCoarse);
    (now.tv_sec as u64).wrapping_mul(1000).wrapping_add(now.tv_nsec as u64 / 1_000_000)
}

/// The time at which a test has stopped the clock of its process; 0: it has not.
#[cfg(test)]
pub(crate) static STOPPED: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
