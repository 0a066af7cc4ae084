//! The processor's own counters of this thread.

use perf_event::events::Hardware;
use perf_event::{Builder, Counter};

/// Counts the instructions of the thread that makes this, in user mode.
pub(crate) struct Instructions(Counter);

impl Instructions {
    /// From now on. None where the machine does not count, or does not say.
    pub(crate) fn count() -> Option<Instructions> {
        let mut counter = Builder::new().kind(Hardware::INSTRUCTIONS).build().ok()?;
        counter.enable().ok()?;
        Some(Instructions(counter))
    }

    /// Until now. None where nothing was counted.
    pub(crate) fn so_far(mut self) -> Option<u64> {
        self.0.read().ok().filter(|&count| count > 0)
    }
}
