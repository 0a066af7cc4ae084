//! Habits of seven engines that cache their pipelines, each as a short program. In D3D12's words a library is a
//! VkPipelineCache here, and a cached blob the data of a VkPipelineCache with one pipeline. Comments name the engine's
//! own function that a function stands for.
//!
//! `tests/engines.rs` asserts what is served of them, `vkstash-bench engines` measures them.

mod bgfx;
mod forge;
mod godot;
mod gpu;
mod llgl;
mod mapped;
mod microsoft;
mod o3de;
mod wicked;

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::bench::report::Device;
use crate::vulkan::executables::Statistic;

use self::gpu::Gpu;

/// One engine's habit: creates all pipelines, with its own files in a folder.
type Habit = fn(&Gpu, &Path);

const HABITS: [(&str, Habit); 9] = [
    ("microsoft-library", microsoft::library),
    ("microsoft-blobs", microsoft::blobs),
    ("bgfx", bgfx::run),
    ("llgl", llgl::run),
    ("o3de", o3de::run),
    ("the-forge", forge::run),
    ("godot", godot::run),
    ("wicked", wicked::with_library),
    ("wicked-without-library", wicked::without_library),
];

/// What the pipelines of a program are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
pub enum Kind {
    /// Compute pipelines.
    Compute,
    /// Graphics pipelines with a vertex and a fragment shader, for a render pass.
    Graphics,
}

impl Kind {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Compute => "compute",
            Kind::Graphics => "graphics",
        }
    }
}

/// What a program asks for.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Program {
    /// The kind of all its pipelines.
    pub kind: Kind,
    /// The number of pipelines.
    pub count: u32,
    /// Each call asks for creation feedback.
    pub feedback: bool,
    /// The driver describes each pipeline at the end.
    pub described: bool,
    /// Each call is made so many times more, and the last one is timed: the processor has the code at hand then.
    pub again: u32,
}

/// One call that asked for a pipeline.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Call {
    /// The engine's name of the pipeline.
    pub name: u32,
    /// The time in the call.
    pub took: Duration,
    /// False: the call forbade to compile, and the driver would have had to.
    pub is_made: bool,
    /// Feedback says that the engine's own cache had the pipeline; false without feedback.
    pub hit: bool,
}

/// What a run did.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Done {
    /// Each call, in the order in which they returned.
    pub calls: Vec<Call>,
    /// The device.
    pub device: Device,
    /// The driver's statistics of each pipeline, in the order of their names.
    pub described: Vec<Vec<Vec<Statistic>>>,
}

impl Done {
    /// The time in all calls.
    pub fn spent(&self) -> Duration {
        self.calls.iter().map(|call| call.took).sum()
    }
}

/// The names of the habits.
pub fn names() -> impl Iterator<Item = &'static str> {
    HABITS.iter().map(|(name, _)| *name)
}

/// Runs a habit, with the engine's own files in this folder.
///
/// # Panics
/// If there is no such habit, and at the first surprise.
pub fn run(name: &str, folder: &Path, program: Program) -> Done {
    let (_, habit) = HABITS.iter().find(|(known, _)| *known == name).expect("a habit");
    let gpu = Gpu::new(program);
    habit(&gpu, folder);
    Done { calls: gpu.calls(), device: gpu.describe(), described: gpu.described() }
}
