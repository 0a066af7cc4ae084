//! The families of pipelines that a driver's caches may hold or not, and what they have given so far.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use ash::vk;

use crate::recipe::capture::parsed::Parsed;

/// What a driver may keep in its caches or not: RADV, for one, caches complete pipelines and no fast links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Complete compute and graphics pipelines. A driver that gives nothing of them gives nothing at all.
    Complete,
    /// Graphics pipeline libraries.
    Library,
    /// Links of graphics pipeline libraries.
    Link,
    /// Ray tracing pipelines and their libraries.
    RayTracing,
}

impl Family {
    const COUNT: usize = 4;

    /// Of the pipeline that a create info describes.
    pub fn of(parsed: &Parsed<'_>) -> Family {
        if parsed.bind_point == vk::PipelineBindPoint::RAY_TRACING_KHR {
            Family::RayTracing
        } else if parsed.is_linked() {
            Family::Link
        } else if parsed.is_library() {
            Family::Library
        } else {
            Family::Complete
        }
    }
}

/// After this many compiles of which nothing could be kept, and none of which anything could, a driver is
/// taken to give nothing, and the layer stands aside.
const PATIENCE: u32 = 8;

/// What the driver's caches have given so far, for each family.
#[derive(Default)]
pub struct Harvests([Harvest; Family::COUNT]);

#[derive(Default)]
struct Harvest {
    /// How often in a row there was nothing.
    fruitless: AtomicU32,
    /// The last time there was something.
    fruitful: AtomicBool,
}

impl Harvests {
    /// Whether the driver's cache data is worth asking for after it made a pipeline of this family.
    pub fn give(&self, family: Family) -> bool {
        self.0[family as usize].fruitless.load(Ordering::Relaxed) < PATIENCE
    }

    /// Whether it gave something the last time, so that it will most likely do so again.
    pub fn gave(&self, family: Family) -> bool {
        self.0[family as usize].fruitful.load(Ordering::Relaxed)
    }

    /// The driver gave nothing for a pipeline that it compiled, or gave something after all. Where the
    /// program's own cache went without that pipeline (`at_its_cost`), once is enough.
    pub fn note(&self, family: Family, fruitful: bool, at_its_cost: bool) {
        let Harvest { fruitless, fruitful: last } = &self.0[family as usize];
        if last.load(Ordering::Relaxed) != fruitful {
            last.store(fruitful, Ordering::Relaxed);
        }
        if fruitful {
            fruitless.store(0, Ordering::Relaxed);
            return;
        }
        let step = if at_its_cost { PATIENCE } else { 1 };
        let before = fruitless.fetch_add(step, Ordering::Relaxed);
        if before < PATIENCE && before + step >= PATIENCE {
            tracing::info!("the driver's pipeline caches hold nothing of {family:?} pipelines");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_family_that_gives_nothing_says_nothing_about_the_others() {
        let harvests = Harvests::default();
        for _ in 0..PATIENCE {
            assert!(harvests.give(Family::Link));
            harvests.note(Family::Link, false, false);
        }
        assert!(!harvests.give(Family::Link) && harvests.give(Family::Complete));
        assert!(!harvests.gave(Family::Link));
        harvests.note(Family::Link, true, false);
        assert!(harvests.gave(Family::Link) && !harvests.gave(Family::Complete));
        assert!(harvests.give(Family::Link), "it gave something after all");
        harvests.note(Family::Complete, false, true);
        assert!(!harvests.give(Family::Complete), "once at the program's cost is enough");
    }
}
