//! Threads that compute while something is measured, as other programs of the user do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

/// Until it is dropped.
pub(crate) struct BackgroundLoad {
    is_over: Arc<AtomicBool>,
    turns: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

/// Steps of a turn: so many that counting it costs nothing, and so few that a short run has many.
const STEPS: u64 = 4096;

impl BackgroundLoad {
    /// Starts so many threads that compute beside the measured program.
    pub(crate) fn start(count: usize) -> BackgroundLoad {
        let (is_over, turns) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let compute = || {
            let (is_over, turns) = (is_over.clone(), turns.clone());
            std::thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    (0..STEPS).for_each(|step| _ = std::hint::black_box(step));
                    turns.fetch_add(1, Ordering::Relaxed);
                }
            })
        };
        let threads = (0..count).map(|_| compute()).collect();
        BackgroundLoad { is_over, turns, threads }
    }

    /// How many turns all threads have done.
    pub(crate) fn turns(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
    }
}

impl Drop for BackgroundLoad {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // The threads cannot panic.
        self.threads.drain(..).for_each(|thread| _ = thread.join());
    }
}
