//! How much of the machine the workers may use.

use std::time::Duration;

use crate::cli::PrewarmArgs;
use crate::machine;

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
    /// What the user says, or what suits this machine.
    pub(crate) fn of(args: &PrewarmArgs) -> Limits {
        let jobs = args.jobs.map_or((machine::processors() / 2).max(1), usize::from);
        let share = machine::memory() / 2 / jobs as u64;
        let memory = args.memory.map_or(share.clamp(LEAST_MEMORY, MOST_MEMORY), |size| size.0);
        Limits { jobs, timeout: Duration::from_secs(args.timeout), memory }
    }
}
