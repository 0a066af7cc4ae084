//! How much of the machine the workers may use.

use std::time::Duration;

use crate::cli::PrewarmArgs;

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
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let jobs = args.jobs.map_or((cores / 2).max(1), usize::from);
        let share = total_memory() / 2 / jobs as u64;
        let memory = args.memory.map_or(share.clamp(LEAST_MEMORY, MOST_MEMORY), |size| size.0);
        Limits { jobs, timeout: Duration::from_secs(args.timeout), memory }
    }
}

/// Bytes of memory of this machine; 0 where it cannot be told.
fn total_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kibibytes.unwrap_or(0).saturating_mul(1024)
}
