//! Comparisons of two devices, and their results.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// A class of pipelines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(crate) enum Class {
    /// Compute.
    Compute,
    /// Vertex and fragment shader, with a render pass.
    RenderPass,
    /// Vertex and fragment shader, with dynamic rendering.
    DynamicRendering,
    /// Ray tracing, with groups of every kind.
    RayTracing,
}

/// What differs between two devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(crate) enum Toggled {
    /// One feature of Vulkan 1.0 to 1.3 more.
    Core,
    /// One feature of Vulkan 1.0 to 1.3 less, of all that the device has.
    CoreOff,
    /// One extension more, without its features.
    Extensions,
    /// One extension more, with one of its features.
    ExtensionFeatures,
}

/// What a child process does.
#[derive(Serialize, Deserialize)]
pub(crate) struct Step {
    pub(crate) class: Class,
    pub(crate) toggled: Toggled,
    /// The case to begin with; None: compile.
    pub(crate) from: Option<usize>,
    /// The file of the compiled pipelines.
    pub(crate) file: String,
}

/// What a driver answered in one case.
#[derive(Serialize, Deserialize)]
pub(crate) struct Case {
    pub(crate) index: usize,
    /// What was toggled; empty: nothing.
    pub(crate) name: String,
    pub(crate) answer: Answer,
    /// Compiling on the device of the case gives the same bytes.
    pub(crate) same: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Answer {
    Taken,
    Refused,
    /// The driver has the pipeline without being offered the artifact, so the case tells nothing.
    Known,
    NoDevice,
    /// Creating pipelines fails, or the process died.
    Failed,
}
