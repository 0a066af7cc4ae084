//! Frames of a program: what lies between two calls of vkQueuePresentKHR on one device.

use std::array;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::waits;
use vkstash_model::steps::tenths;
use vkstash_store::reports::timeline::{Creation, Frame};
use vkstash_store::reports::waiting::{self, LENGTHS, LONG_NS, Lengths};

/// A creation that took so many tenths of a microsecond makes its frame worth noting.
const SLOW: u32 = 10_000;
/// A program that goes on for so many nanoseconds is to have a new report: it may be killed.
const REPORT_EVERY: u64 = 60_000_000_000;

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
    /// How many there were of each length.
    lengths: [AtomicU64; LENGTHS],
    /// The sum of their lengths.
    nanos: AtomicU64,
    /// The presenting threads' time in creation calls.
    waited: AtomicU64,
    longest_wait: AtomicU64,
    stutters: AtomicU64,
    longest_stutter: AtomicU64,
    /// When a report was last asked for.
    asked_for_report: AtomicU64,
}

impl Default for Frames {
    fn default() -> Frames {
        let [began, nanos, waited, longest_wait, stutters, longest_stutter, asked_for_report] =
            array::from_fn(|_| AtomicU64::new(0));
        Frames {
            since: Instant::now(),
            number: AtomicU32::new(0),
            began,
            is_slow: AtomicBool::new(false),
            lengths: array::from_fn(|_| AtomicU64::new(0)),
            nanos,
            waited,
            longest_wait,
            stutters,
            longest_stutter,
            asked_for_report,
        }
    }
}

/// What comes of a presentation.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Presented {
    /// The frame that has ended, if it is worth noting.
    pub frame: Option<Frame>,
    /// The last report is too old.
    pub wants_report: bool,
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

    /// This thread of the program presents.
    #[inline]
    pub fn present(&self) -> Presented {
        self.present_at(self.since.elapsed().as_nanos() as u64, waits::take_of_thread())
    }

    /// A thread presents at this moment that has spent `waited` nanoseconds in creation calls since its last one.
    #[inline]
    fn present_at(&self, now: u64, waited: u64) -> Presented {
        let ended = self.number.fetch_add(1, Ordering::Relaxed);
        let length = now.saturating_sub(self.began.swap(now, Ordering::Relaxed));
        if ended > 0 {
            self.lengths[Lengths::place(length)].fetch_add(1, Ordering::Relaxed);
            self.nanos.fetch_add(length, Ordering::Relaxed);
        }
        if waited > 0 {
            self.wait(ended, length, waited);
        }
        let wants_report = now.saturating_sub(self.asked_for_report.load(Ordering::Relaxed)) >= REPORT_EVERY;
        if wants_report {
            self.asked_for_report.store(now, Ordering::Relaxed);
        }
        let is_slow = self.is_slow.load(Ordering::Relaxed);
        Presented { frame: if is_slow { self.end(ended, length) } else { None }, wants_report }
    }

    /// In the frame with this number, which has ended, the presenting thread has created pipelines.
    #[cold]
    fn wait(&self, ended: u32, length: u64, waited: u64) {
        self.waited.fetch_add(waited, Ordering::Relaxed);
        if ended == 0 {
            return;
        }
        self.longest_wait.fetch_max(waited.min(length), Ordering::Relaxed);
        if length >= LONG_NS && waited >= length / 2 {
            self.stutters.fetch_add(1, Ordering::Relaxed);
            self.longest_stutter.fetch_max(length, Ordering::Relaxed);
        }
    }

    #[cold]
    fn end(&self, number: u32, nanos: u64) -> Option<Frame> {
        self.is_slow.store(false, Ordering::Relaxed);
        let length = Duration::from_nanos(nanos);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let unix_us = u64::try_from(now.saturating_sub(length).as_micros()).unwrap_or(u64::MAX);
        (number > 0).then_some(Frame { number, tenths: tenths(length), unix_us })
    }

    /// Those that have ended.
    pub fn report(&self) -> waiting::Frames {
        let of = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let counts: [u64; LENGTHS] = array::from_fn(|place| of(&self.lengths[place]));
        waiting::Frames {
            count: counts.iter().sum(),
            ns: of(&self.nanos),
            lengths: Lengths::new(counts),
            stutters: of(&self.stutters),
            longest_stutter_ns: of(&self.longest_stutter),
            longest_wait_ns: of(&self.longest_wait),
            waited_ns: of(&self.waited),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_counted_from_the_first_presentation_and_noted_where_a_creation_was_slow() {
        let frames = Frames::default();
        let slow = Creation { tenths: SLOW, ..Creation::default() };
        let present = || frames.present().frame;
        frames.note(&slow);
        assert_eq!((frames.number(), present(), frames.number()), (0, None, 1));
        frames.note(&Creation { tenths: SLOW - 1, ..slow });
        assert_eq!((present(), frames.number()), (None, 2));
        frames.note(&slow);
        frames.note(&slow);
        let frame = present().unwrap();
        assert!(frame.number == 2 && frame.unix_us > 0, "{frame:?}");
        assert_eq!((present(), frames.number()), (None, 4));
    }

    #[test]
    fn a_stutter_is_a_long_frame_of_which_creations_took_half_on_the_presenting_thread() {
        let frames = Frames::default();
        let mut now = 0;
        let mut present = |length: u64, waited: u64| {
            now += length;
            frames.present_at(now, waited);
        };
        // What is created before the first frame is waited for, and no frame's.
        present(5 * LONG_NS, 3 * LONG_NS);
        present(LONG_NS - 1, LONG_NS - 1);
        present(LONG_NS, LONG_NS / 2 - 1);
        present(LONG_NS, LONG_NS / 2);
        present(3 * LONG_NS, 2 * LONG_NS);
        present(7 * LONG_NS, 0);
        let report = frames.report();
        assert_eq!((report.count, report.ns), (5, 13 * LONG_NS - 1));
        assert_eq!((report.stutters, report.longest_stutter_ns), (2, 3 * LONG_NS));
        assert_eq!((report.longest_wait_ns, report.waited_ns), (2 * LONG_NS, 7 * LONG_NS - 2));
        let counts: Vec<_> = report.lengths.counts().map(|(_, count)| count).collect();
        assert_eq!(counts, [1, 2, 1, 1]);
    }

    #[test]
    fn a_program_that_goes_on_is_reported_every_minute() {
        let frames = Frames::default();
        let wants = |now: u64| frames.present_at(now, 0).wants_report;
        let minute = REPORT_EVERY;
        let moments = [1, minute - 1, minute, minute + 1, 2 * minute - 1, 2 * minute];
        assert_eq!(moments.map(wants), [false, false, true, false, false, true]);
    }
}
