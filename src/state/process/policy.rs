//! Table of drivers: what is known about each, with the measurement behind each row (docs/evidence/measurements.md).

use std::time::Duration;

use ash::vk;

use crate::config::AskFirst;
use crate::faults;

/// How a program passes caches to the calls that create its pipelines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheHabit {
    /// No cache.
    None,
    /// A cache of its own for each call.
    Fresh,
    /// One cache for many calls.
    Shared,
    /// A cache that began with data of an earlier run.
    Loaded,
}

/// How a driver is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// What a question takes for which the driver has nothing.
    pub question_in_vain: Duration,
    /// A call with a private cache finds what the driver's disk cache has as quickly as one without. So the driver is
    /// not asked for it once more after a question in vain: the call that records finds it there.
    pub free_recording: bool,
    /// What is in the driver's disk cache costs many times a served call if any cache is passed. So a cache that has
    /// not met the only shader of a pipeline is not asked for it: the call that records finds it on the disk at the
    /// same price, once. Other pipelines are left to background work.
    pub dear_disk_beside_cache: bool,
    /// Complete pipelines are entries of the driver's caches as a whole: it has none whose shaders it has met only in
    /// different pipelines.
    pub whole_pipelines: bool,
    /// How many threads at a time are let into the driver with served calls; None: any number.
    pub served_width: Option<u32>,
    /// The bind points of pipelines whose cache data the driver takes, too, if it was made on a device that enables
    /// other features.
    pub siblings: &'static [vk::PipelineBindPoint],
    /// The driver's cache data is worth keeping.
    pub artifacts: bool,
    /// Workers make ray tracing pipelines. NVIDIA's driver takes locks of CUDA in that call, in another order than
    /// where it creates and destroys devices, and spins in vkDestroyDevice after others' threads have made some.
    pub workers_make_ray_tracing: bool,
    /// Flags that ask for what tools look into, of which pipelines from caches answer as compiled ones do. Pipelines
    /// with others go to the driver as they are.
    pub looked_into: vk::PipelineCreateFlags,
}

impl Policy {
    /// Whether the driver is asked before the stash for what is not parked. It is, because what its caches have then
    /// costs what it costs without the layer; except where it is likely to be on a disk that costs many times a served
    /// call.
    pub fn asks_driver_first(&self, user: AskFirst, habit: CacheHabit) -> bool {
        match user {
            AskFirst::Driver => true,
            AskFirst::Stash => false,
            AskFirst::Auto => {
                !self.dear_disk_beside_cache || matches!(habit, CacheHabit::None | CacheHabit::Loaded)
            }
        }
    }

    /// Whether what the driver has answered after this time was worth asking for before the stash. Where the disk is
    /// dear beside a cache, NVIDIA's hits in memory take 40 to 130 us, and those on disk 560 to 1700.
    pub fn is_quick(&self, took: Duration, habit: CacheHabit) -> bool {
        let has_dear_disk = self.dear_disk_beside_cache && habit != CacheHabit::None;
        !has_dear_disk || took <= faults::time_limit(Duration::from_micros(300))
    }
}

/// Statistics are kept beside the code in cache entries; where a driver has none for what a cache had, conformance
/// tests fail it.
const STATISTICS: vk::PipelineCreateFlags = vk::PipelineCreateFlags::CAPTURE_STATISTICS_KHR;

const EVERY_BIND_POINT: &[vk::PipelineBindPoint] = &[
    vk::PipelineBindPoint::COMPUTE,
    vk::PipelineBindPoint::GRAPHICS,
    vk::PipelineBindPoint::RAY_TRACING_KHR,
];

/// A driver that was never measured: a warm call must not become slower.
const UNKNOWN: Policy = Policy {
    question_in_vain: Duration::from_micros(100),
    free_recording: false,
    dear_disk_beside_cache: false,
    whole_pipelines: false,
    served_width: None,
    siblings: &[],
    artifacts: true,
    workers_make_ray_tracing: false,
    looked_into: STATISTICS,
};

/// The row of a driver; 0 stands for a driver that does not say which one it is.
pub fn of(driver: vk::DriverId) -> Policy {
    match driver {
        // A warm disk cache costs 60 to 80 us with NULL and 65 to 71 us with a cache passed.
        // Statistics are answered as by what was compiled; with internal representations no cache is looked into
        // (classes/later_calls.rs).
        // Its cache keys are of whole pipelines, but for ray tracing (`vkstash-states --state shaders`).
        // Blobs of a device that enables one feature more or less are taken (`vkstash-bench siblings`).
        // A question in vain makes it look into its disk cache: 0.8 ms.
        vk::DriverId::MESA_RADV => Policy {
            question_in_vain: Duration::from_micros(800),
            free_recording: true,
            whole_pipelines: true,
            siblings: EVERY_BIND_POINT,
            workers_make_ray_tracing: true,
            ..UNKNOWN
        },
        // A warm disk cache costs 0.06 to 0.08 ms with NULL and 0.56 to 1.7 ms with any cache passed, a served call
        // 0.07 to 0.09 ms.
        // Blobs with statistics are taken.
        // With 16 threads in the driver a served call takes 2.1 ms, with 4 at a time 0.7 ms, the wait included, and all
        // pipelines are there in 0.46 of the time (`vkstash-bench widths`).
        // Blobs of a device that enables one feature more or less are taken (`vkstash-bench siblings`).
        // 100 questions in vain before 100 compiles cannot be told from none.
        vk::DriverId::NVIDIA_PROPRIETARY => Policy {
            question_in_vain: Duration::from_micros(20),
            dear_disk_beside_cache: true,
            served_width: Some(4),
            siblings: EVERY_BIND_POINT,
            ..UNKNOWN
        },
        // Cache data is the 32-byte header, always; a second creation costs what the first one did.
        vk::DriverId::MESA_LLVMPIPE => Policy { artifacts: false, ..UNKNOWN },
        _ => UNKNOWN,
    }
}
