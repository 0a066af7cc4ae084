//! The counters of creation calls that do not depend on the source that answers them.

use std::time::Duration;

use ash::vk;

use crate::state::device::Device;
use crate::state::switches::{self, CacheKinds};
use vkstash_model::counters::Count;

/// Counts a call that went down as the program made it, on a driver that is only watched.
pub fn count_watched(device: &Device, result: vk::Result, missing: u64, count: u64, spent: Duration) {
    let counters = device.counters();
    // A driver that says that it has failed has failed, whatever it has written.
    let missing = if result == vk::Result::SUCCESS { 0 } else { missing.clamp(1.min(count), count) };
    match result {
        vk::Result::SUCCESS => {}
        result if result.as_raw() < 0 => counters.add(Count::Failed, missing),
        _ => counters.add(Count::CompileRequired, missing),
    }
    if count > missing {
        counters.add(Count::CompileNanos, spent.as_nanos() as u64);
    }
    count_unrecorded(device, count - missing);
}

/// Counts pipelines that the driver compiled and of which nothing is recorded.
pub fn count_unrecorded(device: &Device, count: u64) {
    let counters = device.counters();
    if count > 0 && switches::is_off(CacheKinds::COMPILATIONS) {
        counters.add(Count::SwitchedOff, count);
    } else if count > 0 && !device.keeps_artifacts() {
        counters.add(Count::NothingKept, count);
    }
    counters.add(Count::CompiledUnrecorded, count);
}

/// Counts what the program got no pipeline for.
pub fn count_result(device: &Device, result: vk::Result) {
    if result == vk::Result::PIPELINE_COMPILE_REQUIRED {
        device.count(Count::CompileRequired);
    } else if result != vk::Result::SUCCESS {
        device.count(Count::Failed);
    }
}
