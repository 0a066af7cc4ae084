//! Statistics of what a program waits for: the calls in which it created pipelines, and its frames (docs/format.md).

use serde::{Deserialize, Serialize};

/// A call, or a frame, of this length or more is a long one: what people see and hear as a stutter.
pub const LONG_NS: u64 = 20_000_000;
/// The upper bound of the first interval of [`Lengths`]. [`LONG_NS`] is 64 times as long, so that it is the bound of an
/// interval, too.
const UNIT_NS: u64 = LONG_NS / 64;
/// The number of intervals between a length and its double.
const STEPS: u64 = 4;
/// The number of intervals. The last one begins at 17.92 s.
pub const LENGTHS: usize = 60;

/// A histogram: the number of frames in each interval of lengths.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lengths(Vec<u64>);

impl Lengths {
    /// The histogram of these numbers of frames, of which the first is that of the shortest frames.
    pub fn new(counts: impl IntoIterator<Item = u64>) -> Lengths {
        let mut counts: Vec<u64> = counts.into_iter().take(LENGTHS).collect();
        counts.truncate(counts.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1));
        Lengths(counts)
    }

    /// The place of the interval that counts a frame of this length.
    pub fn place(nanos: u64) -> usize {
        let units = nanos / UNIT_NS;
        if units < STEPS {
            return units as usize;
        }
        let doublings = u64::from(units.ilog2());
        let step = (units >> (doublings - u64::from(STEPS.ilog2()))) & (STEPS - 1);
        let place = STEPS * (doublings - 1) + step;
        (place as usize).min(LENGTHS - 1)
    }

    /// The shortest length in the interval at this place.
    pub fn begin(place: usize) -> u64 {
        let place = place as u64;
        if place < STEPS {
            return place * UNIT_NS;
        }
        let (doublings, step) = (place / STEPS + 1, place % STEPS);
        ((STEPS + step) * UNIT_NS) << (doublings - u64::from(STEPS.ilog2()))
    }

    /// The upper bound of the interval that has this length. None: the last interval has no upper bound.
    pub fn end(nanos: u64) -> Option<u64> {
        let next = Lengths::place(nanos) + 1;
        (next < LENGTHS).then(|| Lengths::begin(next))
    }

    /// The intervals that have frames: the shortest length in each, and the number of its frames.
    pub fn counts(&self) -> impl Iterator<Item = (u64, u64)> {
        let of_place = |(place, &count): (usize, &u64)| (Lengths::begin(place), count);
        self.0.iter().take(LENGTHS).enumerate().filter(|(_, count)| **count > 0).map(of_place)
    }

    fn add(&mut self, other: &Lengths) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (sum, &count) in self.0.iter_mut().zip(&other.0) {
            *sum = sum.saturating_add(count);
        }
    }
}

/// The frames of one device: what lies between two calls of vkQueuePresentKHR.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frames {
    /// Their number.
    pub count: u64,
    /// The sum of their lengths.
    pub ns: u64,
    /// How long they were.
    pub lengths: Lengths,
    /// Frames of [`LONG_NS`] or more in which the presenting thread created pipelines for half of the time, or more.
    pub stutters: u64,
    /// The length of the longest of these.
    pub longest_stutter_ns: u64,
    /// The most time that the presenting thread created pipelines in one frame.
    pub longest_wait_ns: u64,
    /// All the time that threads created pipelines which presented afterwards: before the first frame, too.
    pub waited_ns: u64,
}

/// What one device of a process has kept its program waiting for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// Calls that created pipelines or shader objects, on all threads.
    pub calls: u64,
    /// The time that they took.
    pub calls_ns: u64,
    /// Those of [`LONG_NS`] or more.
    pub long_calls: u64,
    /// The longest one.
    pub longest_call_ns: u64,
    /// The device's frames; none of a program that presents nothing.
    pub frames: Frames,
}

impl Waiting {
    /// Adds what another device has.
    pub fn add(&mut self, other: &Waiting) {
        let add = |sum: &mut u64, value: u64| *sum = sum.saturating_add(value);
        add(&mut self.calls, other.calls);
        add(&mut self.calls_ns, other.calls_ns);
        add(&mut self.long_calls, other.long_calls);
        self.longest_call_ns = self.longest_call_ns.max(other.longest_call_ns);
        let (frames, more) = (&mut self.frames, &other.frames);
        add(&mut frames.count, more.count);
        add(&mut frames.ns, more.ns);
        frames.lengths.add(&more.lengths);
        add(&mut frames.stutters, more.stutters);
        frames.longest_stutter_ns = frames.longest_stutter_ns.max(more.longest_stutter_ns);
        frames.longest_wait_ns = frames.longest_wait_ns.max(more.longest_wait_ns);
        add(&mut frames.waited_ns, more.waited_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_length_lies_between_the_bounds_of_its_place() {
        for place in 0..LENGTHS {
            let begin = Lengths::begin(place);
            assert_eq!(Lengths::place(begin), place, "{begin}");
            assert!(place == 0 || Lengths::place(begin - 1) == place - 1, "{begin}");
        }
        assert_eq!(Lengths::begin(LENGTHS - 1), 17_920_000_000);
        assert_eq!(Lengths::end(Lengths::begin(7) + 1), Some(Lengths::begin(8)));
        assert_eq!(Lengths::end(u64::MAX), None);
        assert_eq!((Lengths::place(0), Lengths::place(u64::MAX)), (0, LENGTHS - 1));
        let places = 0..LENGTHS;
        assert!(places.clone().any(|place| Lengths::begin(place) == LONG_NS), "what is long is told exactly");
        // Frames of 60 and of 30 a second, and what is a quarter longer, are told apart.
        let [sixty, longer, thirty] = [16_666_667, 20_833_333, 33_333_333].map(Lengths::place);
        assert!(sixty < longer && longer < thirty);
    }

    #[test]
    fn devices_add_up_and_the_longest_stays() {
        let device = |nanos: u64| Waiting {
            calls: 1,
            calls_ns: nanos,
            long_calls: u64::from(nanos >= LONG_NS),
            longest_call_ns: nanos,
            frames: Frames {
                count: 1,
                ns: nanos,
                lengths: Lengths::new((0..LENGTHS).map(|place| u64::from(place == Lengths::place(nanos)))),
                stutters: u64::from(nanos >= LONG_NS),
                longest_stutter_ns: nanos,
                longest_wait_ns: nanos / 2,
                waited_ns: nanos,
            },
        };
        let mut sum = Waiting::default();
        [LONG_NS, 3, 2 * LONG_NS, LONG_NS].iter().for_each(|&nanos| sum.add(&device(nanos)));
        assert_eq!((sum.calls, sum.long_calls, sum.longest_call_ns), (4, 3, 2 * LONG_NS));
        let frames = &sum.frames;
        assert_eq!((frames.count, frames.stutters, frames.longest_stutter_ns), (4, 3, 2 * LONG_NS));
        assert_eq!((frames.longest_wait_ns, frames.waited_ns), (LONG_NS, 4 * LONG_NS + 3));
        let counts: Vec<_> = frames.lengths.counts().collect();
        assert_eq!(counts, [(0, 1), (LONG_NS, 2), (2 * LONG_NS, 1)]);
    }

    #[test]
    fn forged_numbers_overflow_nothing() {
        let mut sum = Waiting { calls: u64::MAX, ..Waiting::default() };
        sum.frames.lengths = Lengths::new([u64::MAX; 2 * LENGTHS]);
        sum.add(&sum.clone());
        assert_eq!((sum.calls, sum.frames.lengths.counts().count()), (u64::MAX, LENGTHS));
    }
}
