//! The processor's counters for this thread.

use std::time::Duration;

#[cfg(target_pointer_width = "64")]
use perf_event::{Builder, Counter, events::Hardware};

/// Counts the user-mode instructions of the creating thread.
#[cfg(target_pointer_width = "64")]
pub(crate) struct Instructions(Counter);

#[cfg(target_pointer_width = "64")]
impl Instructions {
    /// Starts counting. None if the machine does not count, or does not allow it.
    pub(crate) fn count() -> Option<Instructions> {
        let mut counter = Builder::new().kind(Hardware::INSTRUCTIONS).build().ok()?;
        counter.enable().ok()?;
        Some(Instructions(counter))
    }

    /// The count so far. None if nothing was counted.
    pub(crate) fn so_far(mut self) -> Option<u64> {
        self.0.read().ok().filter(|&count| count > 0)
    }
}

/// Counts nothing.
#[cfg(target_pointer_width = "32")]
pub(crate) struct Instructions;

#[cfg(target_pointer_width = "32")]
impl Instructions {
    pub(crate) fn count() -> Option<Instructions> {
        None
    }

    pub(crate) fn so_far(self) -> Option<u64> {
        None
    }
}

/// Processor time of this thread so far.
pub(crate) fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is on this stack; this clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
