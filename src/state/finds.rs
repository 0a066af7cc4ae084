//! Whether a kind of question to a driver finds anything.
//!
//! A question that finds nothing is dear where it makes the driver look into its disk cache: 0.8 ms on RADV (Mesa
//! 25.0.7), where a small pipeline is compiled in 2.2 ms. Four kinds are counted for each device. Of pipelines whose
//! shaders the driver has met only in different pipelines, some drivers have an entry for each shader, and others keep
//! whole pipelines. A cache that the driver got in a call that nobody has described may have anything. What a
//! cache cannot have may be on the driver's disk. And where the driver is asked before the stash, it has what earlier
//! runs have made, and nothing of a new level.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::time::Duration;

/// What asking has brought.
pub struct Finds {
    score: AtomicI32,
    passed_by: AtomicU32,
}

impl Default for Finds {
    fn default() -> Finds {
        Finds { score: AtomicI32::new(MOST), passed_by: AtomicU32::new(0) }
    }
}

/// So many questions in a row may find nothing. A find makes good for two that find nothing.
const MOST: i32 = 8;

/// Then one question in 63 is put. The number is odd, because a call may ask twice, the cache and the companion beside
/// it: with an even number the samples would all be questions to the same one.
const SAMPLE: u32 = 63;

impl Finds {
    /// Whether the driver is to be asked for the next one.
    pub fn is_worth_asking(&self) -> bool {
        // The counts may be wrong by a few where threads meet.
        self.score.load(Ordering::Relaxed) > 0
            || self.passed_by.fetch_add(1, Ordering::Relaxed) % SAMPLE == SAMPLE - 1
    }

    /// It was asked.
    pub fn note(&self, was_found: bool) {
        let score = self.score.load(Ordering::Relaxed);
        let next = if was_found { (score + 2).min(MOST) } else { (score - 1).max(0) };
        if next != score {
            self.score.store(next, Ordering::Relaxed);
        }
    }
}

/// Whether the driver's disk cache has what the program asks for, as far as the last call tells that could compile.
#[derive(Default)]
pub struct WarmDisk(AtomicBool);

/// RADV takes 60 to 120 us for a pipeline that its disk cache has, whatever cache it gets, and more than 350 us to compile
/// the smallest ones.
const FOUND: Duration = Duration::from_micros(250);

impl WarmDisk {
    /// A call that could compile, with a cache that held nothing, took so long.
    pub fn note(&self, took: Duration) {
        let was_found = took < FOUND;
        if self.is_likely() != was_found {
            self.0.store(was_found, Ordering::Relaxed);
        }
    }

    /// Whether the next pipeline is likely to be found.
    pub fn is_likely(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_call_tells_whether_the_disk_is_warm() {
        let disk = WarmDisk::default();
        assert!(!disk.is_likely());
        for (micros, is_likely) in [(95, true), (120, true), (1500, false), (400, false), (60, true)] {
            disk.note(Duration::from_micros(micros));
            assert_eq!(disk.is_likely(), is_likely, "{micros} us");
        }
    }

    #[test]
    fn a_driver_of_whole_pipelines_is_asked_for_a_few_and_then_for_samples() {
        let finds = Finds::default();
        let asked = (0..1000).filter(|_| {
            let asks = finds.is_worth_asking();
            if asks {
                finds.note(false);
            }
            asks
        });
        assert_eq!(asked.count(), 8 + 992 / 63);
        finds.note(true);
        assert!((0..5).all(|_| finds.is_worth_asking()));
    }
}
