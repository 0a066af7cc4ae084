//! Whether a kind of question to a driver finds anything.
//!
//! A question that finds nothing is dear where it makes the driver look into its disk cache: 0.8 ms on RADV (Mesa
//! 25.0.7), where a small pipeline is compiled in 2.2 ms. Four kinds are counted for each device. Of pipelines whose
//! shaders the driver has met only in different pipelines, some drivers have an entry for each shader, and others keep
//! whole pipelines. A cache that the driver got in a call that nobody has described may have anything. What a
//! cache cannot have may be on the driver's disk. And where the driver is asked before the stash, it has what earlier
//! runs have made, and nothing of a new level.

use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

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

#[cfg(test)]
mod tests {
    use super::*;

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
