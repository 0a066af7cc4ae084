//! Frames of a program: what lies between two calls of vkQueuePresentKHR on one device.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use vkstash_model::steps::tenths;
use vkstash_store::reports::timeline::{Creation, Frame};

/// A creation that took so many tenths of a microsecond makes its frame worth noting.
const SLOW: u32 = 10_000;

/// The frames of one device. Presentations on several queues at a time may mix up the lengths of frames, and nothing
/// else.
pub struct Frames {
    /// Moments are nanoseconds since then.
    since: Instant,
    /// The frame that is under way: 0 before the first presentation.
    number: AtomicU32,
    /// When it began.
    began: AtomicU64,
    /// A slow creation has ended in it.
    is_slow: AtomicBool,
}

impl Default for Frames {
    fn default() -> Frames {
        Frames {
            since: Instant::now(),
            number: AtomicU32::new(0),
            began: AtomicU64::new(0),
            is_slow: AtomicBool::new(false),
        }
    }
}

impl Frames {
    /// The frame that is under way, 0 for none.
    #[inline]
    pub fn number(&self) -> u32 {
        self.number.load(Ordering::Relaxed)
    }

    /// A creation has ended.
    pub fn note(&self, creation: &Creation) {
        if creation.tenths >= SLOW && self.number() > 0 {
            self.is_slow.store(true, Ordering::Relaxed);
        }
    }

    /// The program presents. Gives the frame that ends if it is worth noting.
    #[inline]
    pub fn present(&self) -> Option<Frame> {
        let now = self.since.elapsed();
        let nanos = now.as_nanos() as u64;
        let ended = self.number.fetch_add(1, Ordering::Relaxed);
        let began = self.began.load(Ordering::Relaxed);
        self.began.store(nanos, Ordering::Relaxed);
        if self.is_slow.load(Ordering::Relaxed) { self.end(ended, nanos.saturating_sub(began)) } else { None }
    }

    #[cold]
    fn end(&self, number: u32, nanos: u64) -> Option<Frame> {
        self.is_slow.store(false, Ordering::Relaxed);
        let length = Duration::from_nanos(nanos);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let unix_us = u64::try_from(now.saturating_sub(length).as_micros()).unwrap_or(u64::MAX);
        (number > 0).then_some(Frame { number, tenths: tenths(length), unix_us })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_counted_from_the_first_presentation_and_noted_where_a_creation_was_slow() {
        let frames = Frames::default();
        let slow = Creation { tenths: SLOW, ..Creation::default() };
        frames.note(&slow);
        assert_eq!((frames.number(), frames.present(), frames.number()), (0, None, 1));
        frames.note(&Creation { tenths: SLOW - 1, ..slow });
        assert_eq!((frames.present(), frames.number()), (None, 2));
        frames.note(&slow);
        frames.note(&slow);
        let frame = frames.present().unwrap();
        assert!(frame.number == 2 && frame.unix_us > 0, "{frame:?}");
        assert_eq!((frames.present(), frames.number()), (None, 4));
    }
}
