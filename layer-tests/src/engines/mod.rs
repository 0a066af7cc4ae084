//! How six engines cache their pipelines, each as a short program with its own habit. In D3D12's words a library is a
//! VkPipelineCache here, and a cached blob the data of a VkPipelineCache with one pipeline.
//!
//! `tests/engines.rs` asserts what is served of them, `vkstash-bench engines` measures them.

mod bgfx;
mod forge;
mod gpu;
mod llgl;
mod microsoft;
mod o3de;
mod wicked;

use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::bench::report::Device;

use self::gpu::Gpu;

/// One engine's habit: creates all pipelines, with its own files in a folder.
type Habit = fn(&Gpu, &Path);

const HABITS: [(&str, Habit); 7] = [
    ("microsoft-library", microsoft::library),
    ("microsoft-blobs", microsoft::blobs),
    ("bgfx", bgfx::run),
    ("llgl", llgl::run),
    ("o3de", o3de::run),
    ("the-forge", forge::run),
    ("wicked", wicked::run),
];

/// What a run took.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Spent {
    /// The time spent in the calls that create pipelines.
    pub calls: Duration,
    /// The time from the first module to the last file that was written.
    pub whole: Duration,
    /// The device.
    pub device: Device,
}

/// The names of the habits.
pub fn names() -> impl Iterator<Item = &'static str> {
    HABITS.iter().map(|(name, _)| *name)
}

/// Runs a habit with so many pipelines, and the engine's own files in this folder.
///
/// # Panics
/// If there is no such habit, and at the first surprise.
pub fn run(name: &str, folder: &Path, count: u32) -> Spent {
    let (_, habit) = HABITS.iter().find(|(known, _)| *known == name).expect("a habit");
    let gpu = Gpu::new(count);
    let began = Instant::now();
    habit(&gpu, folder);
    Spent { calls: gpu.spent(), whole: began.elapsed(), device: gpu.describe() }
}
