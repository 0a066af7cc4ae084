//! Stopwatch for a compile.

use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

use crate::state::devices::device::Device;

/// Measures one compile.
pub struct Stopwatch {
    since: Instant,
    /// Processor time of this process at the start. None: not asked for.
    processors: Option<Duration>,
}

/// What a compile took.
#[derive(Clone, Copy)]
pub struct Took {
    /// Until the driver had done it.
    pub wall: Duration,
    /// What it would take undisturbed: that is recorded with an artifact, as what serving it saves.
    pub cost: Duration,
}

impl Stopwatch {
    pub fn begin(device: &Device) -> Stopwatch {
        // A worker of `vkstash prewarm --background` runs when nobody else wants to, and its compile may take many
        // times what it would take in the program. It does nothing else, so its processor time is the compile's.
        let is_worker = device.instance.config.application.is_some();
        Stopwatch { since: Instant::now(), processors: is_worker.then(processor_time).flatten() }
    }

    pub fn end(&self) -> Took {
        let wall = self.since.elapsed();
        let processors = self.processors.and_then(|before| processor_time()?.checked_sub(before));
        // A driver's own threads may compile side by side.
        Took { wall, cost: processors.map_or(wall, |processors| processors.min(wall)) }
    }
}

/// The processor time of all threads of this process: drivers have threads of their own.
fn processor_time() -> Option<Duration> {
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: clock_gettime fills the structure in where it succeeds, and only then it is read.
    let time = unsafe {
        if libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, time.as_mut_ptr()) != 0 {
            return None;
        }
        time.assume_init()
    };
    Some(Duration::new(u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?))
}
