//! Limits of what the workers may use of the machine.

use std::time::Duration;

use crate::cli::PrewarmArgs;
use crate::system::machine;

/// Memory of one worker, by default at most.
const MOST_MEMORY: u64 = 4 << 30;
/// And at least: below it drivers do not even start.
const LEAST_MEMORY: u64 = 512 << 20;

/// The limits.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    /// Workers at a time.
    pub(crate) jobs: usize,
    /// For one pipeline.
    pub(crate) timeout: Duration,
    /// Resident bytes of one worker.
    pub(crate) memory: u64,
}

impl Limits {
    /// For so many processors and bytes of memory: workers that would have too little are left out.
    pub(crate) fn within(processors: usize, memory: u64, timeout: Duration) -> Limits {
        let most = usize::try_from(memory / LEAST_MEMORY).unwrap_or(usize::MAX);
        let jobs = processors.min(most).max(1);
        let memory = (memory / jobs as u64).clamp(LEAST_MEMORY, MOST_MEMORY);
        Limits { jobs, timeout, memory }
    }

    /// What the user says, or what suits this machine.
    pub(crate) fn of(args: &PrewarmArgs) -> Limits {
        let jobs = args.jobs.map_or((machine::processors() / 2).max(1), usize::from);
        let share = machine::memory() / 2 / jobs as u64;
        let memory = args.memory.map_or(share.clamp(LEAST_MEMORY, MOST_MEMORY), |size| size.0);
        Limits { jobs, timeout: Duration::from_secs(args.timeout), memory }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_that_would_have_too_little_memory_are_left_out() {
        let of = |processors, memory| {
            let Limits { jobs, memory, .. } = Limits::within(processors, memory, Duration::ZERO);
            (jobs, memory)
        };
        assert_eq!(of(4, 4 << 30), (4, 1 << 30));
        assert_eq!(of(4, 1 << 30), (2, 512 << 20));
        assert_eq!(of(4, 0), (1, 512 << 20));
        assert_eq!(of(2, u64::MAX), (2, 4 << 30));
    }
}
