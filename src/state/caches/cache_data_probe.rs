//! Probe of a driver's pipeline caches: whether their data holds pipelines at all.

use std::sync::atomic::{AtomicU32, Ordering};

use super::pipeline_class::PipelineClass;
use super::sized_data::NoData;

/// After so many compiles in a row that left no cache data, a driver's caches are taken to hold no pipelines of a
/// class, and the layer does not record them any more.
const LIMIT: u32 = 8;

/// What the cache data of a driver has held so far, for each class of pipelines.
#[derive(Default)]
pub struct CacheDataProbe([Empty; PipelineClass::COUNT]);

/// Compiles in a row that left no data.
type Empty = AtomicU32;

impl CacheDataProbe {
    /// Whether the driver's cache data is worth reading after it has compiled a pipeline of this class.
    pub fn is_worth_reading(&self, class: PipelineClass) -> bool {
        self.0[class as usize].load(Ordering::Relaxed) < LIMIT
    }

    /// Why there was no data after a pipeline was compiled; None: there was some. Where the program's own cache went
    /// without that pipeline (`beside_its_cache`), an empty cache is enough once. One that could not be read says less.
    pub fn note(&self, class: PipelineClass, lacks: Option<NoData>, beside_its_cache: bool) {
        let empty = &self.0[class as usize];
        let Some(lacks) = lacks else {
            empty.store(0, Ordering::Relaxed);
            return;
        };
        let step = if beside_its_cache && lacks == NoData::Empty { LIMIT } else { 1 };
        let before = empty.fetch_add(step, Ordering::Relaxed);
        if before < LIMIT && before + step >= LIMIT {
            tracing::info!("the driver's pipeline caches hold nothing of {class:?} pipelines");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_class_that_caches_do_not_hold_says_nothing_about_the_others() {
        use PipelineClass::{Complete, Link};
        let probe = CacheDataProbe::default();
        for _ in 0..LIMIT {
            assert!(probe.is_worth_reading(Link));
            probe.note(Link, Some(NoData::Empty), false);
        }
        assert!(!probe.is_worth_reading(Link) && probe.is_worth_reading(Complete));
        probe.note(Link, None, false);
        assert!(probe.is_worth_reading(Link), "there was data after all");
        probe.note(Complete, Some(NoData::Unreadable), true);
        assert!(probe.is_worth_reading(Complete), "an error is not an empty cache");
        probe.note(Complete, Some(NoData::Empty), true);
        assert!(!probe.is_worth_reading(Complete), "once at the program's cost is enough");
    }
}
