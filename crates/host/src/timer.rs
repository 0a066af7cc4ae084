//! Timer that limits how long a thread of the program is delayed.
#![allow(unsafe_code, reason = "calls of the C library that its crates do not wrap")]

use std::time::{Duration, Instant};

/// Measures the time of a thread. A thread that did not have to wait is judged by its processor time: on a busy machine
/// other threads use the rest, as they would without the layer.
pub struct Timer {
    began: Instant,
    usage: Usage,
    limit: Duration,
}

/// What a thread has used.
struct Usage {
    computed: Duration,
    /// How often it gave up its processor to wait.
    waits: i64,
}

impl Usage {
    fn now() -> Usage {
        // SAFETY: zeros are a valid value of this structure of numbers, and the call gets a valid pointer to it.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
            usage
        };
        let time = |time: libc::timeval| {
            Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0))
                + Duration::from_micros(u64::try_from(time.tv_usec).unwrap_or(0))
        };
        // The width of a C `long`.
        #[allow(clippy::useless_conversion, reason = "32 bits wide on some platforms")]
        let waits = i64::from(usage.ru_nvcsw);
        Usage { computed: time(usage.ru_utime) + time(usage.ru_stime), waits }
    }
}

impl Timer {
    /// Starts now.
    pub fn of(limit: Duration) -> Timer {
        Timer { began: Instant::now(), usage: Usage::now(), limit }
    }

    /// Whether the time is over. Asked by the thread that started the timer.
    pub fn is_over(&self) -> bool {
        if self.began.elapsed() < self.limit {
            return false;
        }
        let now = Usage::now();
        now.waits != self.usage.waits || now.computed.saturating_sub(self.usage.computed) >= self.limit
    }
}

/// For work without a limit.
pub fn never() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_counts_and_so_does_computing() {
        let timer = Timer::of(Duration::from_millis(5));
        std::thread::sleep(Duration::from_millis(6));
        assert!(timer.is_over(), "it waited");
        assert!(!Timer::of(Duration::from_secs(600)).is_over());
        let timer = Timer::of(Duration::from_millis(5));
        let began = Instant::now();
        while !timer.is_over() {
            assert!(began.elapsed() < Duration::from_secs(60), "it computes");
        }
        assert!(began.elapsed() >= Duration::from_millis(5));
    }
}
