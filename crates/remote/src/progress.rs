//! Progress reports of a transfer, and the limit of its rate.

use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The receiver of progress reports. Its lines have no line end.
pub trait Progress: Send + Sync {
    /// Something that the user should know of.
    fn line(&self, text: &str);
    /// Adds this number of bytes to what has to be copied.
    fn more(&self, _bytes: u64) {}
    /// Adds this number of bytes to what was copied.
    fn done(&self, _bytes: u64) {}
}

/// Nobody is told.
pub struct Quiet;

impl Progress for Quiet {
    fn line(&self, _text: &str) {}
}

/// The most bytes a second, for all copies together.
pub struct Rate {
    per_second: Option<u64>,
    /// When the next byte may come.
    next: Mutex<Option<Instant>>,
}

impl Rate {
    /// At most this number of bytes a second. None: no limit.
    pub fn new(per_second: Option<u64>) -> Rate {
        Rate { per_second: per_second.filter(|&rate| rate > 0), next: Mutex::new(None) }
    }

    /// Waits as long as these bytes take.
    pub(crate) async fn pay(&self, bytes: usize) {
        let Some(rate) = self.per_second else { return };
        let until = {
            let mut next = self.next.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            let from = next.unwrap_or_else(Instant::now).max(Instant::now());
            let until = from + Duration::from_secs_f64(bytes as f64 / rate as f64);
            *next = Some(until);
            until
        };
        tokio::time::sleep_until(until.into()).await;
    }
}
