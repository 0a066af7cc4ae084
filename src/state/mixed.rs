//! Whether a driver has pipelines whose shaders it has met only in different pipelines.
//!
//! Some drivers keep an entry for each shader, and make such a pipeline of two entries. Others keep whole pipelines, and a
//! question that finds nothing is dear where they look into their disk cache: 0.8 ms on RADV (Mesa 25.0.7), where a small
//! pipeline is compiled in 2.2 ms.

use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

/// What asking for such pipelines has brought on one device.
pub struct Mixed {
    score: AtomicI32,
    passed_by: AtomicU32,
}

impl Default for Mixed {
    fn default() -> Mixed {
        Mixed { score: AtomicI32::new(MOST), passed_by: AtomicU32::new(0) }
    }
}

/// So many questions in a row may find nothing.
const MOST: i32 = 8;

/// Then the driver is asked for one of so many: an odd number, because a call may put two questions, to the cache and to
/// the companion beside it.
const SAMPLE: u32 = 63;

impl Mixed {
    /// Whether the driver is to be asked for the next one.
    pub fn is_worth_asking(&self) -> bool {
        // The counts may be wrong by a few where threads meet.
        self.score.load(Ordering::Relaxed) > 0
            || self.passed_by.fetch_add(1, Ordering::Relaxed) % SAMPLE == SAMPLE - 1
    }

    /// It was asked.
    pub fn note(&self, was_found: bool) {
        let score = self.score.load(Ordering::Relaxed);
        let next = if was_found { MOST } else { (score - 1).max(0) };
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
        let mixed = Mixed::default();
        let asked = (0..1000).filter(|_| {
            let asks = mixed.is_worth_asking();
            if asks {
                mixed.note(false);
            }
            asks
        });
        let count = asked.count();
        assert!((8..=8 + 1000 / 63 + 1).contains(&count), "{count}");
        mixed.note(true);
        assert!((0..5).all(|_| mixed.is_worth_asking()));
    }
}
